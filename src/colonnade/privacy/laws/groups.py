"""The noise of counts and sums by group that several parties open together.

Public mathematics, as in `colonnade.privacy.laws.tables`. A person is in one group or in none. With k values per person, the
person moves the group's count by H and each of its k sums by at most G, both whole numbers: a count is released in steps of 1/H
people, a sum in steps of 1/G of the half range between a column's bounds. So Δ₁ = H + kG and Δ₂² = H² + kG², for a whole record
and for one party's part of it alike: whichever part is zeroed out, the person leaves the group. Noise is the same on every
number, so G/H says how the price is divided between counts and sums. Proof: docs/proofs/group-by.md.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.privacy import calibration
from colonnade.privacy.accounting import Loss, Price, Unit
from colonnade.privacy.laws import LARGEST_SCALE, LARGEST_SIGMA_SQUARED, Description, NoiseFamily, Sampler

__all__ = ["GroupNoise", "value_to_count"]

LEAST = Loss.of_pure(1)
"""The smallest debit that a ledger writes: ε = 10⁻⁹."""
TYPICAL_MEAN = 0.5
"""The size of a group's mean that the division of the price is made for, after scaling the column to [−1, 1]."""


def value_to_count(values: int) -> float:
    """Return the G/H that makes means in groups as precise as they can be, for so many values per person.

    A mean is S/N, with variance (σ_S² + m²σ_N²)/N² for a mean of size m. With σ_S² ∝ 1/G² and σ_N² ∝ 1/H² at a fixed H² + kG²,
    it is least at (H/G)² = m·√k.

    Examples
    --------
    >>> round(value_to_count(1), 3), value_to_count(4)
    (1.414, 1.0)
    """
    return 1 / math.sqrt(TYPICAL_MEAN * math.sqrt(max(values, 1)))


@dataclass(frozen=True)
class GroupNoise:
    """Noise of one count and some sums for every group.

    Parameters
    ----------
    holders
        The data parties whose columns enter.
    helpers
        Data parties that hold none of the columns and add a share of the noise.
    count_height
        H: by how much a person moves the count of the group they are in.
    value_height
        G: by how much a person moves a sum of that group at most.
    values
        k: how many values are added up.
    cells
        How many groups there are.
    price, unit, collusion
        As in `colonnade.privacy.laws.gram.GramNoise`. δ = 0 takes discrete Laplace noise in Pólya shares, a positive δ discrete
        Gaussian shares.

    Privacy
    -------
    Guarantee
        Pure ε-DP with ε = (H + kG)/scale at δ = 0, otherwise ρ-zCDP with ρ = (H² + kG²)/(2·s²·shares) up to the correction for
        sums of discrete Gaussians. Proof: docs/proofs/group-by.md.
    Neighbours
        Zero-out of a whole record, or of one party's part of it. `replaced_loss` gives the figure for a replaced record.
    Adversary
        The coordinator together with up to c data parties, helpers included. With more, nothing pure is claimed; Gaussian shares
        that are left still count.
    Numerics
        Integer noise on integers; scale and variance are exact rationals; the sampler is exact.
    Checked by
        tests/privacy/test_group_noise.py, tests/estimators/test_group_by.py

    Examples
    --------
    >>> noise = GroupNoise(("a", "b"), ("c",), 4, 6, 1, 12, Price.of(1.0, 1e-5), "person", 1)
    >>> noise.loss().epsilon(1e-5) <= 1.0, noise.loss(party="c").epsilon(0.0)
    (True, 1e-09)
    """

    holders: tuple[str, ...]
    helpers: tuple[str, ...]
    count_height: int
    value_height: int
    values: int
    cells: int
    price: Price
    unit: Unit
    collusion: int

    def __post_init__(self) -> None:
        heights = (self.count_height, self.value_height, self.cells)
        if any(type(height) is not int or height < 1 for height in heights) or self.values < 0:
            raise BadInput("Heights and groups are positive whole numbers.")
        if not 0 <= self.collusion < len(self.parties):
            raise BadInput(
                "collusion is at least 0 and below the number of data parties.",
                remedy="Lower collusion, or add a party.",
            )
        limit = LARGEST_SCALE if self.family == "laplace" else LARGEST_SIGMA_SQUARED
        if self.share > limit:
            raise BadInput("Noise of this size cannot be drawn.", remedy="Raise epsilon.")

    @property
    def parties(self) -> tuple[str, ...]:
        """Everybody who adds a share of the noise."""
        return (*self.holders, *self.helpers)

    @property
    def family(self) -> NoiseFamily:
        """The family of the noise: Laplace for a pure guarantee, otherwise Gaussian."""
        return "gaussian" if self.price.delta > 0 else "laplace"

    @property
    def name(self) -> str:
        """What statements call it."""
        return f"{self.family} noise in shares"

    @property
    def honest(self) -> int:
        """P − c: how many shares suffice."""
        return len(self.parties) - self.collusion

    @property
    def entries(self) -> int:
        """How many numbers are released."""
        return self.cells * (1 + self.values)

    @property
    def moved(self) -> int:
        """Δ₁, or for Gaussian noise Δ₂²: of a whole record, and of one party's part of it."""
        if self.family == "laplace":
            return self.count_height + self.values * self.value_height
        return self.count_height**2 + self.values * self.value_height**2

    @property
    def replaced(self) -> int:
        """The same if a record is replaced by another: in another group, or in the same one with other values."""
        if self.family == "laplace":
            return 2 * self.moved
        return max(2 * self.moved, 4 * self.values * self.value_height**2)

    @cached_property
    def share(self) -> Fraction:
        """The scale of the discrete Laplace noise that P − c shares make up, or the variance of one Gaussian share."""
        if self.family == "laplace":
            return calibration.laplace_scale(self.price, self.moved)
        return calibration.gaussian_share_variance(self.price, self.moved, self.honest, self.entries)

    @property
    def share_variance(self) -> float:
        """The variance of one party's share of a number."""
        if self.family == "gaussian":
            return float(self.share)
        return calibration.discrete_laplace_variance(self.share) / self.honest

    @property
    def opened_variance(self) -> float:
        """The variance of an opened number: all P shares."""
        return self.share_variance * len(self.parties)

    def loss(self, *, colluders: int = 0, party: str | None = None) -> Loss | None:
        """Return the loss to an observer who knows ``colluders`` parties' shares; ``None`` where nothing is proved.

        A helper's record moves nothing. Its ledger keeps the seed of its noise with a debit, and so it is charged the least there
        is.
        """
        return LEAST if party in self.helpers else self._loss(self.moved, colluders)

    def replaced_loss(self, *, colluders: int = 0) -> Loss | None:
        """Return the loss if a record is replaced by another instead of by nothing."""
        return self._loss(self.replaced, colluders)

    def _loss(self, moved: int, colluders: int) -> Loss | None:
        shares = len(self.parties) - max(colluders, self.collusion)
        if self.family == "laplace":
            return None if colluders > self.collusion else Loss.of_pure(math.ceil(Fraction(moved) / self.share * 10**9))
        if shares < 1:
            return None
        return Loss.of_zcdp(calibration.summed_gaussian_rho(moved, self.share, shares, self.entries))

    def describe(self) -> Description:
        """Return sensitivity and scale in words."""
        deviation = math.sqrt(self.opened_variance)
        count = f"standard deviation {deviation / self.count_height:.6g} of a count (people)"
        if not self.values:
            return Description("one count, by 1", count)
        return Description(
            f"one count by 1 and {self.values} {'sum' if self.values == 1 else 'sums'} by at most 1 (columns in [−1, 1])",
            f"{count}, {deviation / self.value_height:.6g} of a sum (columns in [−1, 1])",
        )

    def draw_share(self, entries: int, sampler: Sampler) -> NDArray[np.int64]:
        """Draw one party's share of the noise of all numbers: Pólya shares of discrete Laplace noise, or Gaussian shares."""
        if self.family == "laplace":
            return sampler.polya_share(self.share, self.honest, entries)
        return sampler.discrete_gaussian(self.share, entries)
