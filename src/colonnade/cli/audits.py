"""The mechanisms that ``colonnade audit`` can audit, each beside a control that claims too little.

An audit compares outputs on two neighbouring inputs and proves a lower bound on ε. The control shows that the audit has enough
samples to find a mechanism at fault.

A control has about half the noise and claims as much. ``shared-keys`` attacks the sketches of clusters, with the composition
of Private vertical clustering for a control. The exit status is 1 if the mechanism's claim is refuted, or if the control's is
not.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from colonnade.audit import distinguish as auditing
from colonnade.audit.distinguish import Finding
from colonnade.audit.distinguish import audit as distinguish
from colonnade.errors import BadInput
from colonnade.privacy import randomness, samplers
from colonnade.privacy.accounting import Loss, Price
from colonnade.privacy.laws.additive import DiscreteGaussian, DiscreteLaplace
from colonnade.privacy.laws.quantile_search import Ascending, Positions, QuantileSearch
from colonnade.privacy.laws.response import RandomizedResponse, best_channel

__all__ = ["ATTACKS", "KNOWN", "MECHANISMS", "audited"]

CATEGORIES = 5


def audited(name: str, epsilon: float, delta: float, samples: int, alpha: float) -> tuple[Finding, Finding, str]:
    """Audit a mechanism on the pair of inputs that is hardest to hide; return the finding, its control's, and what that is."""
    if name in ATTACKS:
        return ATTACKS[name](epsilon, delta, samples, alpha)
    mechanism = MECHANISMS[name](epsilon, delta)
    control = _Claiming(MECHANISMS[name](2 * epsilon, delta), mechanism.loss)
    both: tuple[Any, Any] = (mechanism, control)
    found, of_control = (
        distinguish(one, 0, 1, randomness=randomness.SystemRandomness(), samples=samples, alpha=alpha) for one in both
    )
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
    ours, theirs = (
        auditing.attack(one, randomness=randomness.SystemRandomness(), samples=max(samples // 50, 1_000), alpha=alpha)
        for one in (auditing.ColonnadeSketches(price), auditing.PaperSketches(price))
    )
    return ours, theirs, "The control is the published composition (Primitives)"


def _quantiles(epsilon: float, _: float, samples: int, alpha: float) -> tuple[Finding, Finding, str]:
    """Look for a person above four others by a median; one draw counts for twenty-five samples, and δ is 0."""
    number, sampler = max(samples // 25, 1_000), samplers.ExactSampler(randomness.SystemRandomness())
    findings = []
    for bought in (epsilon, 2 * epsilon):
        law = QuantileSearch(Price.of(bought), (Positions(CATEGORIES),), (0.5,))
        there, away = (
            np.array([law.draw(law.questions, Ascending([people]), 0, CATEGORIES, sampler) for _ in range(number)])
            for people in (np.array([0, 0, 0, 0, CATEGORIES - 1]), np.zeros(4, dtype=np.int64))
        )
        either_way = [auditing.distinguish(*sides, alpha=alpha / 2) for sides in ((there, away), (away, there))]
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
