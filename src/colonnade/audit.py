"""Audits that refute a privacy claim by telling two neighbouring inputs apart from a mechanism's outputs alone.

If a mechanism is (ε, δ)-DP then ``P(event) ≤ e^ε·Q(event) + δ`` for every event, where P and Q are its outputs on neighbours.
So an event that is frequent under one and rare under the other proves a lower bound on ε. One half of the samples chooses the
event, among the outcomes ordered by likelihood ratio. The other half counts it. Clopper–Pearson limits turn the counts into a
bound that is wrong with probability at most ``alpha``, for any mechanism.

An audit can refute a claim, but it cannot confirm one: a bound below the claim only says that this many samples do not refute
it.

*Controls.* `audited` audits one of our mechanisms beside a control that claims too little: about half the noise and the same
claim, or for ``shared-keys`` the paper's composition. It shows that the audit has enough samples to find a mechanism at fault.

*A second opinion* on a ledger's total: privacy loss distributions, composed by dp-accounting. The ledger adds Rényi curves and
pure ε. A privacy loss distribution describes the same rows more finely: a pure row by its worst case, binary randomised
response; a zCDP row by the Gaussian of the same ρ. Its ε is at most the ledger's, and rarely more than a tenth below. A larger
one would mean that the ledger shows less than was released. At δ = 0, and for rows of any other curve, there is no second
opinion. Measured (tests/audit/test_accountant.py):

* δ ≤ 1e-5 and ε ≥ 0.5: the ledger is at most 10 % above, for Gaussian releases, pure ones and mixtures. It is equal if the plain
  sum of pure losses is the best bound.
* larger δ or smaller ε: up to 16 % above (Gaussian, ε = 0.1 at δ = 1e-4). The conversion from Rényi loses there.

dp-accounting's event for randomised response is not used: under its zero-out relation (``REPLACE_SPECIAL``) it measures the
distance to an even coin, 0.62 for ε = 1, which does not stand for an arbitrary pure mechanism.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import reduce
from importlib import import_module
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta

from colonnade.errors import BadInput
from colonnade.privacy.accounting import NANO, ORDERS, Loss, Price, total
from colonnade.privacy.gaussian import mu_squared_of_pure
from colonnade.privacy.laws import Mechanism, Sampler
from colonnade.privacy.laws.additive import DiscreteGaussian, DiscreteLaplace
from colonnade.privacy.laws.quantile_search import Ascending, Positions, QuantileSearch
from colonnade.privacy.laws.response import RandomizedResponse, best_channel
from colonnade.privacy.randomness import Randomness, SystemRandomness
from colonnade.privacy.samplers import ExactSampler

Statistic = Callable[[NDArray[Any]], NDArray[Any]]
Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

_DELTAS = (1e-6, 1e-4, 1e-3, 1e-2, 0.05)
_BINS = 64  # the number of bins for numbers with many values
_ENOUGH = 20  # outcomes seen less often than this, on average, are grouped into bins


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What an audit found.

    Attributes
    ----------
    epsilon
        A lower bound on the true ε at `delta`, wrong with probability at most `alpha`; 0 if nothing was found.
    delta, alpha, samples
        The δ, the probability that the bound is wrong, and the number of samples per side.
    claimed
        The ε that the mechanism's loss certifies at this δ, if there is a claim.

    Examples
    --------
    >>> print(Finding(epsilon=1.9, delta=0.0, alpha=1e-6, samples=1000, claimed=1.0))
    ε ≥ 1.9 at δ=0 (1,000 samples per side, α=1e-06), claimed 1: refuted
    """

    epsilon: float
    delta: float
    alpha: float
    samples: int
    claimed: float | None = None

    @property
    def caught(self) -> bool:
        """Whether the claim is refuted."""
        return self.claimed is not None and self.epsilon > self.claimed

    def __str__(self) -> str:
        found = f"ε ≥ {self.epsilon:.4g} at δ={self.delta:g} ({self.samples:,} samples per side, α={self.alpha:g})"
        if self.claimed is None:
            return found
        return f"{found}, claimed {self.claimed:.4g}: {'refuted' if self.caught else 'not refuted'}"


def distinguish(
    first: ArrayLike,
    second: ArrayLike,
    *,
    delta: float = 0.0,
    alpha: float = 1e-6,
    statistic: Statistic | None = None,
) -> Finding:
    """Bound from below how well two samples of outputs can be told apart.

    Parameters
    ----------
    first, second
        Independent outputs on two neighbouring inputs, one per row, equally many.
    delta
        The δ at which ε is bounded.
    alpha
        The probability with which the bound may be wrong.
    statistic
        A function from outputs to one row of numbers each; by default the outputs themselves. Rows that repeat often are compared
        as a whole, others by the sum of their numbers.

    Examples
    --------
    >>> distinguish([0, 1] * 500, [1, 1] * 500).epsilon > 2
    True
    """
    return _finding(_Tables.of(first, second, statistic), delta, alpha)


def audit(
    mechanism: Mechanism,
    nonprivate: ArrayLike,
    neighbour: ArrayLike,
    *,
    randomness: Randomness,
    samples: int = 100_000,
    alpha: float = 1e-6,
    deltas: Sequence[float] | None = None,
    statistic: Statistic | None = None,
) -> Finding:
    """Try to refute a mechanism's own loss on two neighbouring inputs.

    Parameters
    ----------
    mechanism
        It must treat people or entries independently: all samples are drawn in one release of stacked copies.
    nonprivate, neighbour
        One input each: a code for a local randomiser, a number or a vector for additive noise.
    randomness
        Where the mechanism's bits come from.
    samples
        How many outputs per side.
    alpha
        The probability with which a sound mechanism may be convicted.
    deltas
        At which δ to try (``alpha`` is divided between them); by default 0 for a pure loss, else several.
    statistic
        As in `distinguish`.

    Returns
    -------
    Finding
        That of the δ where the bound comes closest to, or passes furthest, what the loss certifies.
    """
    sampler = ExactSampler(randomness)
    one, other = (_stacked(mechanism, value, samples, sampler) for value in (nonprivate, neighbour))
    tables = _Tables.of(one, other, statistic)
    tried = tuple(deltas) if deltas is not None else (0.0,) if mechanism.loss.pure is not None else _DELTAS
    findings = [
        msgspec.structs.replace(
            _finding(tables, delta, alpha / len(tried)), claimed=mechanism.loss.epsilon(delta), alpha=alpha
        )
        for delta in tried
    ]
    return max(findings, key=lambda finding: finding.epsilon - (finding.claimed or 0.0))


class _Tables(NamedTuple):
    """How often each outcome occurred on each side, in the samples that choose an event and in those that count it."""

    choosing: tuple[Counts, Counts]
    counting: tuple[Counts, Counts]

    @classmethod
    def of(cls, first: ArrayLike, second: ArrayLike, statistic: Statistic | None) -> "_Tables":
        sides = [
            np.asarray(side) if statistic is None else np.asarray(statistic(np.asarray(side)))
            for side in (first, second)
        ]
        if len(sides[0]) != len(sides[1]) or len(sides[0]) < 4:
            raise BadInput(
                "An audit needs the same number of samples on both sides, at least four.",
                remedy="For example --samples 100000.",
            )
        half = len(sides[0]) // 2
        one, other = _outcomes(sides[0].reshape(len(sides[0]), -1), sides[1].reshape(len(sides[1]), -1), half)
        cells = int(max(one.max(), other.max())) + 1
        return cls(
            (np.bincount(one[:half], minlength=cells), np.bincount(other[:half], minlength=cells)),
            (np.bincount(one[half:], minlength=cells), np.bincount(other[half:], minlength=cells)),
        )


def _finding(tables: _Tables, delta: float, alpha: float) -> Finding:
    straight, reverse = (_best_event(tables.choosing[::step], delta, alpha / 2) for step in (1, -1))
    step, event = (1, straight[1]) if straight[0] >= reverse[0] else (-1, reverse[1])
    frequent, rare = (side[event].sum(keepdims=True) for side in tables.counting[::step])
    counted = int(tables.counting[0].sum())
    bound = _lower_bound(frequent, rare, counted, delta, alpha / 2)
    return Finding(epsilon=float(bound[0]), delta=delta, alpha=alpha, samples=counted + int(tables.choosing[0].sum()))


def _stacked(mechanism: Mechanism, value: ArrayLike, samples: int, sampler: Sampler) -> NDArray[Any]:
    one = np.asarray(value)
    return mechanism.release(np.ascontiguousarray(np.broadcast_to(one, (samples, *one.shape))), sampler)


def _outcomes(one: NDArray[Any], other: NDArray[Any], half: int) -> tuple[Counts, Counts]:
    """Return the outcomes as numbers. Only the choosing halves decide how outcomes are grouped."""
    rows = np.concatenate([one, other])
    _, codes = np.unique(rows[:, 0] if rows.shape[1] == 1 else rows, axis=0, return_inverse=True)
    left, right = codes.reshape(2, -1).astype(np.int64)
    if len(np.union1d(left[:half], right[:half])) * _ENOUGH <= half:
        return left, right
    numbers = [side.sum(axis=1, dtype=np.float64) for side in (one, other)]
    edges = _edges(np.concatenate([side[:half] for side in numbers]))
    return np.searchsorted(edges, numbers[0]), np.searchsorted(edges, numbers[1])


def _edges(values: Floats) -> Floats:
    """Return the edges of bins: even in rank, and finer towards both ends, where the best events are."""
    tails = 2.0 ** -np.arange(6, max(7, math.log2(len(values) / _ENOUGH)))
    levels = np.concatenate([tails, np.arange(1, _BINS) / _BINS, 1 - tails])
    return np.unique(np.quantile(values, levels))


def _best_event(sides: Sequence[Counts], delta: float, alpha: float) -> tuple[float, NDArray[np.bool_]]:
    """Return the largest bound and its event, which is frequent on the first side and rare on the second."""
    frequent, rare = sides
    order = np.argsort(-(frequent + 0.5) / (rare + 0.5), kind="stable")
    bounds = _lower_bound(np.cumsum(frequent[order]), np.cumsum(rare[order]), int(frequent.sum()), delta, alpha)
    event = np.zeros(len(frequent), dtype=np.bool_)
    event[order[: int(np.argmax(bounds)) + 1]] = True
    return float(bounds.max()), event


def _lower_bound(frequent: Counts, rare: Counts, trials: int, delta: float, alpha: float) -> Floats:
    """Return ln((P - δ)/Q) at Clopper–Pearson limits, each of level ``alpha``; 0 where it is not positive."""
    least = beta.ppf(alpha, np.maximum(frequent, 1), trials - np.maximum(frequent, 1) + 1) * (frequent > 0)
    most = np.where(rare < trials, beta.ppf(1 - alpha, rare + 1, np.maximum(trials - rare, 1)), 1.0)
    return np.asarray(np.log(np.maximum((least - delta) / most, 1.0)))


CATEGORIES = 5


def audited(name: str, epsilon: float, delta: float, samples: int, alpha: float) -> tuple[Finding, Finding, str]:
    """Audit a mechanism on the pair of inputs that is hardest to hide; return the finding, its control's, and what that is."""
    if name in ATTACKS:
        return ATTACKS[name](epsilon, delta, samples, alpha)
    mechanism = MECHANISMS[name](epsilon, delta)
    control = _Claiming(MECHANISMS[name](2 * epsilon, delta), mechanism.loss)
    both: tuple[Any, Any] = (mechanism, control)
    found, of_control = (audit(one, 0, 1, randomness=SystemRandomness(), samples=samples, alpha=alpha) for one in both)
    return found, of_control, "The control has about half the noise"


class _Claiming:
    """A mechanism that claims another loss than it has."""

    def __init__(self, inner: Any, loss: Loss) -> None:
        self.name, self.loss, self.release = inner.name, loss, inner.release


def _response(epsilon: float, _: float) -> Any:
    return RandomizedResponse(best_channel(CATEGORIES, Price.of(epsilon)))


def _laplace(epsilon: float, _: float) -> Any:
    return DiscreteLaplace(Price.of(epsilon), 1)


def _gaussian(epsilon: float, delta: float) -> Any:
    if not delta > 0:
        raise BadInput("Gaussian noise needs a positive delta.", remedy="For example --delta 1e-5.")
    return DiscreteGaussian(Price.of(epsilon, delta), 1)


def _shared_keys(epsilon: float, delta: float, samples: int, alpha: float) -> tuple[Finding, Finding, str]:
    """Look for maxima that two parties have in common; one release of sketches counts for fifty samples."""
    price = Price.of(epsilon, delta)
    if not delta > 0:
        raise BadInput("Sketches need a positive delta.", remedy="For example --delta 1e-5.")
    of_paper = import_module("colonnade.papers.attack")  # the core knows the papers' methods by name alone
    ours, theirs = (
        of_paper.attack(one, randomness=SystemRandomness(), samples=max(samples // 50, 1_000), alpha=alpha)
        for one in (of_paper.ColonnadeSketches(price), of_paper.PaperSketches(price))
    )
    return ours, theirs, "The control is the published composition (Primitives)"


def _quantiles(epsilon: float, _: float, samples: int, alpha: float) -> tuple[Finding, Finding, str]:
    """Look for a person above four others by a median; one draw counts for twenty-five samples, and δ is 0."""
    number, sampler = max(samples // 25, 1_000), ExactSampler(SystemRandomness())
    findings = []
    for bought in (epsilon, 2 * epsilon):
        law = QuantileSearch(Price.of(bought), (Positions(CATEGORIES),), (0.5,))
        there, away = (
            np.array([law.draw(law.questions, Ascending([people]), 0, CATEGORIES, sampler) for _ in range(number)])
            for people in (np.array([0, 0, 0, 0, CATEGORIES - 1]), np.zeros(4, dtype=np.int64))
        )
        either_way = [distinguish(*sides, alpha=alpha / 2) for sides in ((there, away), (away, there))]
        found = max(either_way, key=lambda one: one.epsilon)
        findings.append(msgspec.structs.replace(found, alpha=alpha, claimed=epsilon))
    return findings[0], findings[1], "The control has about half the noise"


ATTACKS: dict[str, Callable[[float, float, int, float], tuple[Finding, Finding, str]]] = {
    "quantiles": _quantiles,
    "shared-keys": _shared_keys,
}

MECHANISMS: dict[str, Callable[[float, float], Any]] = {
    "response": _response,
    "laplace": _laplace,
    "gaussian": _gaussian,
}

KNOWN = (*MECHANISMS, *ATTACKS)


SLACK = 0.01
"""How far the distribution's ε may lie above the ledger's, as a share of it, because of its grid."""

_FINEST = 1e-4
_LARGEST_GRID = 1_000_000


def distribution_epsilon(losses: Sequence[Loss], delta: float) -> float | None:
    """Return ε at this δ by privacy loss distributions, or ``None`` if they do not apply.

    Examples
    --------
    >>> round(distribution_epsilon([Loss.of_pure(500_000_000)] * 2, 1e-6), 3)
    1.0
    """
    if not losses or delta == 0:
        return None
    kinds = Counter(_kind(loss) for loss in losses)
    if ("other", 0.0) in kinds:
        return None
    interval = _interval(losses, delta)
    parts = [_distribution(kind, interval).self_compose(times) for kind, times in kinds.items()]
    return float(reduce(lambda left, right: left.compose(right), parts).get_epsilon_for_delta(delta))


def _kind(loss: Loss) -> tuple[str, float]:
    if loss.pure is not None and loss.gaussian in (None, mu_squared_of_pure(loss.pure)):
        return "pure", loss.pure / NANO
    if loss.mu is not None:
        return "zcdp", loss.mu**2 / 2
    rho = loss.renyi[-1] / (float(ORDERS[-1]) * NANO)
    straight = all(
        abs(entry - rho * float(order) * NANO) <= 1 + 1e-12 * entry
        for order, entry in zip(ORDERS, loss.renyi, strict=True)
    )
    return ("zcdp", rho) if straight else ("other", 0.0)


def _distribution(kind: tuple[str, float], interval: float) -> Any:
    from dp_accounting.pld import common, privacy_loss_distribution

    name, value = kind
    if name == "pure":
        guarantee = common.DifferentialPrivacyParameters(value, 0.0)
        return privacy_loss_distribution.from_privacy_parameters(guarantee, value_discretization_interval=interval)
    return privacy_loss_distribution.from_gaussian_mechanism(
        1 / math.sqrt(2 * value), value_discretization_interval=interval
    )


def _interval(losses: Sequence[Loss], delta: float) -> float:
    """Return the spacing of the grid: rounding each row up adds less than half of `SLACK`, and the size is bounded."""
    wanted = total(losses).epsilon(delta) * SLACK / (2 * len(losses))
    widest = sum((loss.pure or 0) / NANO for loss in losses)
    return max(min(_FINEST, wanted), 2 * widest / _LARGEST_GRID, 1e-9)
