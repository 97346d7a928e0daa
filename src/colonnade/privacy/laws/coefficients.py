"""The Laplace noise of the coefficients of a quadratic objective that several parties open together.

Functional mechanism across parties (Xu, Yuan, Wu; docs/references.md#functional). Proof: docs/proofs/coefficients.md.

The objective of a linear or (to second order) a logistic regression is a quadratic in the weights. Its coefficients are sums of
products of two coded columns: *curvature* (features times features, squares of numbers, sums of features) and *slope* (features
times the target, the target's sum). Public mathematics: the parties and the coordinator compute the same figures from one plan.

We differ from the paper. Every symmetric pair is measured once. What the coding already says is not
measured at all: two levels of one category never meet, and an indicator is its own square. The target's square is not needed. A
person is charged by what the schema says about a row, not by the number of coded columns. Curvature may carry ``emphasis`` times
the noise of slope, at the same ε. Each block of coefficients, of one party or of a pair of parties, costs the sum of its own
moves, so a party's part is what its own blocks cost, and a person's whole record is the sum over all blocks, each counted once.

Letters: γ the fixed-point scale, b the scale of the Laplace noise of curvature, b/r that of slope. In a coded row a number or a
sign has magnitude at most γ, and a one-hot group is 0 or has a single entry γ. So any product of two of them, summed over
their levels, has magnitude at most γ²: one *move*. A block with m moves of curvature and s of slope costs (m + r·s)·γ²/b.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.privacy.accounting import NANO, Loss, Price, Unit
from colonnade.privacy.calibration import discrete_laplace_variance
from colonnade.privacy.laws import Description, NoiseFamily, Sampler
from colonnade.privacy.laws.shared import SharedNoise

Block = tuple[str, str]
"""Whose columns meet: a pair of parties in the plan's order, or one party twice."""

EntryGroup = tuple[Block, bool, NDArray[np.int64]]
"""The places of a block's slope, or of its curvature, among all opened entries."""


class Holding(NamedTuple):
    """What one party brings to a regression.

    Parameters
    ----------
    numbers
        Features coded as one column: numbers and signs. Their squares are measured.
    groups
        Features coded as several indicators.
    target
        How many coded columns the target has if it is this party's, else 0.
    """

    numbers: int
    groups: int
    target: int = 0

    @property
    def features(self) -> int:
        """How many features the party has, a one-hot group counting as one."""
        return self.numbers + self.groups


@dataclass(frozen=True)
class CoefficientNoise(SharedNoise):
    """Discrete Laplace noise of all coefficients of one regression: pure ε.

    Parameters
    ----------
    holdings
        What each party brings, in the plan's order; one of them holds the target.
    gamma
        γ: no coded entry exceeds it in magnitude.
    prices
        By party. Top-down all are equal: what is promised for the unit. Bottom-up each is the ε^(k) that the party named for
        its part of a record.
    unit, collusion
        As in `colonnade.privacy.laws.shared.SharedNoise`.
    emphasis
        r: curvature gets r times the noise of slope.
    bottom_up
        Whether the parties named their own prices.

    Examples
    --------
    >>> holdings = {"bank": Holding(7, 0, 1), "telco": Holding(7, 0)}
    >>> prices = dict.fromkeys(holdings, Price.of(1.0))
    >>> noise = CoefficientNoise(holdings, 1, prices, "person", 0, emphasis=1)
    >>> noise.loss().epsilon(0.0), round(noise.loss(party="telco").epsilon(0.0), 4)
    (1.0, 0.6791)

    Notes
    -----
    *One person moves a block by at most its weight.* Let v be the coded row, split into columns and groups x_1 … x_d. A
    coefficient between columns k and l is x_k ⊗ x_l, whose absolute entries sum to ‖x_k‖₁·‖x_l‖₁ ≤ γ². The square of a number
    is at most γ²; the sum of a column is its product with the constant γ, at most γ² in total over a group. Removing the
    record removes these terms and nothing else, so a block's entries change by at most γ² times its moves, in total.

    *Discrete Laplace noise of scale b on every entry* makes densities of neighbours differ by a factor of at most
    exp(Σ|change|/b), entry by entry with its own b: the costs of entries add, and so do those of blocks.

    *Shares.* An entry between two parties carries the shares of all P parties, each the difference of two negative binomials
    with r = 1/(P − c). Any P − c of them sum to discrete Laplace noise of scale b; whatever the others add is independent of
    it and of the data. A party's own block is noised by that party alone, and only the coalition that contains the party,
    which knows its columns anyway, could subtract it.

    Privacy
    -------
    Guarantee
        Pure ε-DP with ε = Σ over blocks of (m + r·s)·γ²/b for a whole record, and the same sum over the blocks of a party for
        its part. Proof: docs/proofs/coefficients.md.
    Neighbours
        Zero-out; `replaced_loss` gives the figure for replacement beside it.
    Adversary
        The coordinator together with up to `collusion` parties. With more colluders no pure bound is claimed.
    Numerics
        Integer noise on integers; scales are exact rationals; losses are rounded up to nano-units.
    Checked by
        tests/privacy/test_functional_noise.py, tests/party/test_coefficients.py, tests/conversations/test_functional_secrecy.py
    """

    holdings: Mapping[str, Holding]
    gamma: int
    prices: Mapping[str, Price]
    unit: Unit
    collusion: int
    emphasis: int = 1
    bottom_up: bool = False

    family: ClassVar[NoiseFamily] = "laplace"

    def __post_init__(self) -> None:
        if set(self.prices) != set(self.holdings) or any(price.delta != 0 for price in self.prices.values()):
            raise BadInput(
                "The functional mechanism is pure: every party has a price, with delta=0.",
                remedy="Leave delta= out, or set it to 0.",
            )
        if not self.bottom_up and len(set(self.prices.values())) > 1:
            raise BadInput("Top-down, there is one price for all.")
        if self.bottom_up and self.unit != "party":
            raise BadInput(
                "Parties that name their own prices promise them for their own parts of a record.",
                remedy='Use unit="party".',
            )
        self.require_collusion()
        if sum(holding.target > 0 for holding in self.holdings.values()) != 1 or self.features < 1:
            raise BadInput(
                "A regression has features, and a target that one party holds.",
                remedy="Name a target, and at least one other column.",
            )
        if min(self.gamma, self.emphasis) < 1:
            raise BadInput("The scale and the emphasis are positive whole numbers.")
        self.drawable(self.share)

    # What moves ---------------------------------------------------------------------------------------------------------

    @property
    def parties(self) -> tuple[str, ...]:
        return tuple(self.holdings)

    @property
    def features(self) -> int:
        """How many features there are."""
        return sum(holding.features for holding in self.holdings.values())

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Every party's own block, then every pair's."""
        return (*((party, party) for party in self.holdings), *combinations(self.holdings, 2))

    def moves(self, block: Block) -> tuple[int, int]:
        """Return how many moves of curvature and of slope a record makes in a block."""
        one, other = (self.holdings[party] for party in block)
        if block[0] != block[1]:
            slope = (other.features if one.target else 0) + (one.features if other.target else 0)
            return one.features * other.features, slope
        curvature = math.comb(one.features, 2) + one.numbers + one.features
        return curvature, one.features + 1 if one.target else 0

    def weight(self, block: Block) -> int:
        """Return m + r·s: what a block costs in units of γ²/b."""
        curvature, slope = self.moves(block)
        return curvature + self.emphasis * slope

    def moved(self, party: str | None = None) -> int:
        """Return the weight of all blocks, or of those that a party's part of a record moves."""
        return sum(self.weight(block) for block in self.blocks if party is None or party in block)

    # What it costs ------------------------------------------------------------------------------------------------------

    @cached_property
    def _epsilons(self) -> dict[Block, Fraction]:
        """What each block may cost. Bottom-up, a pair agrees on the smaller of what both would give it, in proportion.

        A party divides what it named over its blocks by their weights. What a more careful peer declines goes to the
        party's own block, so that its part costs exactly what it named.
        """
        if not self.bottom_up:
            worst = max(map(self.moved, self.holdings)) if self.unit == "party" else self.moved()
            price = next(iter(self.prices.values())).exact
            return {block: price * self.weight(block) / worst for block in self.blocks}
        offered = {party: self.prices[party].exact / self.moved(party) for party in self.holdings}
        agreed = {pair: self.weight(pair) * min(offered[party] for party in pair) for pair in self.blocks}
        for party in self.holdings:
            others = (agreed[pair] for pair in combinations(self.holdings, 2) if party in pair)
            agreed[party, party] = self.prices[party].exact - sum(others)
        return agreed

    @cached_property
    def _scales(self) -> dict[Block, Fraction]:
        epsilons = self._epsilons
        return {block: self.gamma**2 * self.weight(block) / epsilons[block] for block in self.blocks}

    def scale(self, block: Block, *, slope: bool = False) -> Fraction:
        """Return the scale of the Laplace noise of a block's entries: b, or b/r for slope."""
        return self._scales[block] / (self.emphasis if slope else 1)

    def loss(self, *, colluders: int = 0, party: str | None = None) -> Loss | None:
        """Return the loss to an observer who knows ``colluders`` parties' shares; ``None`` where nothing is proved."""
        if colluders > self.collusion:
            return None
        blocks = [block for block in self.blocks if party is None or party in block]
        spent = sum(self.gamma**2 * self.weight(block) / self._scales[block] for block in blocks)
        return Loss.of_pure(math.ceil(spent * NANO))

    def replaced_loss(self, *, colluders: int = 0) -> Loss | None:
        """Return the loss if a record is replaced by another instead of by nothing; at most twice as much.

        Among numbers, products that change cannot all change by two (`_replaced_numbers`); blocks of equal noise share that.
        """
        if colluders > self.collusion:
            return None
        if self.bottom_up:
            loss = self.loss()
            assert loss is not None  # so few colluders
            assert loss.pure is not None  # Laplace noise
            return Loss.of_pure(2 * loss.pure)
        scale = min(self._scales.values())  # top-down they are all equal
        return Loss.of_pure(math.ceil(self.gamma**2 * self.replaced_moved() / scale * NANO))

    def replaced_moved(self) -> Fraction:
        """Return the most that replacing a record moves, in units of γ²/b: numbers by the quadratic, the rest twice."""
        numbers = sum(holding.numbers for holding in self.holdings.values())
        single = max(holding.target for holding in self.holdings.values()) == 1
        r = self.emphasis
        among = numbers + math.comb(numbers, 2) + numbers + (r * (numbers + 1) if single else 0)
        return 2 * (self.moved() - among) + _replaced_numbers(numbers, r if single else 0)

    # How it is drawn ----------------------------------------------------------------------------------------------------

    def describe(self) -> Description:
        """Return sensitivity and scale in words, with columns scaled to [−1, 1]."""
        unit = self.gamma**2
        return Description(
            f"Δ₁ = {self.moved()} in units of the noise of curvature (columns in [−1, 1])",
            f"standard deviation {math.sqrt(self.opened_variance) / unit:.6g} of the noisiest opened entry (columns in [−1, 1])",
        )

    def draw_cross(self, entries: int, sampler: Sampler, groups: Iterable[EntryGroup]) -> NDArray[np.int64]:
        """Draw one party's share of the noise between parties: a Pólya share per entry, of its block's and its kind's scale."""
        shares = np.zeros(entries, dtype=np.int64)
        for block, slope, places in groups:
            shares[places] = sampler.polya_share(self.scale(block, slope=slope), self.honest, len(places))
        return shares

    def draw_own(self, party: str, slope: NDArray[np.bool_], sampler: Sampler) -> NDArray[np.int64]:
        """Draw the noise of one party's own block, curvature first; ``slope`` says which of its entries are slope."""
        drawn = np.zeros(len(slope), dtype=np.int64)
        for flag in (False, True):
            places = np.flatnonzero(slope == flag)
            drawn[places] = sampler.discrete_laplace(self.scale((party, party), slope=flag), len(places))
        return drawn

    # How noisy it is ----------------------------------------------------------------------------------------------------

    @cached_property
    def share(self) -> Fraction:
        """The largest scale of all, for the proof that nothing wraps."""
        return max(self._scales.values())

    def variance(self, block: Block, *, slope: bool = False) -> float:
        """Return the variance of an opened entry of a block: a pair's carry the shares of all P parties."""
        alone = discrete_laplace_variance(self.scale(block, slope=slope))
        return alone if block[0] == block[1] else alone * len(self.holdings) / self.honest


def emphasis_for(holdings: Mapping[str, Holding]) -> int:
    """Return r by default: the cube root of the ratio of all moves of curvature to those of slope, at least 1.

    Error in the weights is that of slope plus that of curvature times weights, which are of the order of one after columns are
    scaled to [−1, 1].
    Minimising the sum of both variances, 2(b/r)² + 2b², at a fixed cost m/b + r·s/b gives r = (m/s)^(1/3).

    Examples
    --------
    >>> emphasis_for({"bank": Holding(3, 4, 1), "telco": Holding(3, 4)})
    2
    """
    features = sum(holding.features for holding in holdings.values())
    numbers = sum(holding.numbers for holding in holdings.values())
    curvature = math.comb(features, 2) + numbers + features
    return max(1, round(math.cbrt(curvature / (features + 1))))


def _replaced_numbers(numbers: int, emphasis: int) -> Fraction:
    """Return the most that replacing a row z of numbers by z′ moves, with an intercept and a target (none with emphasis 0).

    With p = (z + z′)/2 and q = (z − z′)/2 we have |p_i| + |q_i| ≤ 1, z_iz_j − z′_iz′_j = 2(p_iq_j + q_ip_j) and
    z_i² − z′_i² = 4p_iq_i. With a_i = |p_i| and |q_i| = 1 − a_i, A = Σa_i and Q = Σa_i² ≥ A²/d, products and squares move at most
    a concave quadratic in A, and the target's part is linear in a_y. The constant has a = 1, so the sum of a column moves
    2(1 − a_i), and that of the target 2(1 − a_y) times its weight.
    """
    if numbers == 0:
        return Fraction(2 * emphasis)
    bend = 2 * (1 + Fraction(1, numbers))
    flips = _peak(Fraction(2 * numbers + 2 * emphasis), bend, numbers) + 2 * emphasis
    stays = _peak(Fraction(2 * numbers - 2 * emphasis), bend, numbers) + 2 * emphasis * numbers
    return 2 * numbers + max(flips, stays)


def _peak(rise: Fraction, bend: Fraction, top: int) -> Fraction:
    """Return the largest value of rise·A − bend·A² for A between 0 and ``top``."""
    best = min(max(rise / (2 * bend), Fraction(0)), Fraction(top))
    return rise * best - bend * best**2
