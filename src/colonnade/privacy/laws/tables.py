"""The noise of counts that several parties open together: pair tables, histograms of scores, and counts and sums by group.

Public mathematics, as in `colonnade.privacy.laws.gram`.

*Pair tables.* A person is in one cell of each of C(v, 2) tables of v parties, so
Δ₁ = Δ₂² = C(v, 2); at one party, v − 1. Counts are integers and are not scaled. Proof: docs/proofs/pair-tables.md.

*By group.* A person is in one group or in none. With k values per person, the
person moves the group's count by H and each of its k sums by at most G, both whole numbers: a count is released in steps of 1/H
people, a sum in steps of 1/G of the half range between a column's bounds. So Δ₁ = H + kG and Δ₂² = H² + kG², for a whole record
and for one party's part of it alike: whichever part is zeroed out, the person leaves the group. Noise is the same on every
number, so G/H says how the price is divided between counts and sums. Proof: docs/proofs/group-by.md.
"""

import math
from dataclasses import dataclass

from colonnade.errors import BadInput
from colonnade.privacy.accounting import Price, Unit
from colonnade.privacy.laws import Description
from colonnade.privacy.laws.shared import SharedNoise


@dataclass(frozen=True)
class TableNoise(SharedNoise):
    """Noise of all pair tables of a set of parties' categories; counts are integers and are not scaled.

    Parameters
    ----------
    holders
        Who holds a category.
    price, unit, collusion
        As in `colonnade.privacy.laws.shared.SharedNoise`.
        δ = 0 takes discrete Laplace noise in Pólya shares, a positive δ discrete Gaussian shares.
    cells
        How many cells all tables have together.

    Privacy
    -------
    Guarantee
        Pure ε-DP with ε = moved/scale at δ = 0, otherwise ρ-zCDP with ρ = moved/(2·s²·shares) up to the correction for sums of
        discrete Gaussians. Proof: docs/proofs/pair-tables.md.
    Neighbours
        Zero-out of a whole record, or of one party's part of it. `replaced_loss` gives the figure for a replaced record.
    Adversary
        The coordinator together with up to c data parties. With more, nothing pure is claimed; Gaussian shares that are left
        still count.
    Numerics
        Integer noise on integers; scale and variance are exact rationals; the sampler is exact.
    Checked by
        tests/privacy/test_joint_noise.py, tests/party/test_statistics_joint.py, tests/party/test_score_statistics.py

    Examples
    --------
    >>> TableNoise(("a", "b", "c"), Price.of(0.5), "person", 1, 12).loss().epsilon(0.0)
    0.5
    """

    holders: tuple[str, ...]
    price: Price
    unit: Unit
    collusion: int
    cells: int

    def __post_init__(self) -> None:
        if not 0 <= self.collusion < len(self.parties) or len(self.parties) < 2:
            raise BadInput(
                "Pair tables take two parties or more, and collusion below their number.",
                remedy="Name columns of at least two parties, or lower collusion.",
            )

    @property
    def parties(self) -> tuple[str, ...]:
        return self.holders

    @property
    def entries(self) -> int:
        return self.cells

    @property
    def replaced(self) -> int:
        """Two cells of each table move."""
        return 2 * self.moved()

    def moved(self, party: str | None = None) -> int:
        """Return in how many tables a record, or one party's part of it, moves one cell by one."""
        return math.comb(len(self.parties), 2) if party is None else len(self.parties) - 1

    def describe(self) -> Description:
        moved = self.moved()
        return Description(
            f"{moved} {'cell' if moved == 1 else 'cells'} of the tables, by 1 each",
            f"standard deviation {math.sqrt(self.opened_variance):.6g} of an opened entry (people)",
        )


TYPICAL_MEAN = 0.5
"""The size of a group's mean that the division of the price is made for, after scaling the column to [−1, 1]."""


def value_to_count(values: int) -> float:
    """Return the G/H that makes means in groups as precise as they can be, by the number of values per person.

    A mean is S/N, with variance (σ_S² + m²σ_N²)/N² for a mean of size m. With σ_S² ∝ 1/G² and σ_N² ∝ 1/H² at a fixed H² + kG²,
    it is least at (H/G)² = m·√k.

    Examples
    --------
    >>> round(value_to_count(1), 3), value_to_count(4)
    (1.414, 1.0)
    """
    return 1 / math.sqrt(TYPICAL_MEAN * math.sqrt(max(values, 1)))


@dataclass(frozen=True)
class GroupNoise(SharedNoise):
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
        As in `colonnade.privacy.laws.shared.SharedNoise`. δ = 0 takes discrete Laplace noise in Pólya shares, a positive δ
        discrete Gaussian shares.

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
        self.require_collusion()
        self.share  # noqa: B018  # refused here if it cannot be drawn

    @property
    def parties(self) -> tuple[str, ...]:
        return (*self.holders, *self.helpers)

    @property
    def entries(self) -> int:
        return self.cells * (1 + self.values)

    def moved(self, party: str | None = None) -> int:
        """Return Δ₁ or Δ₂²: whichever part is zeroed out, the person leaves the group. A helper's record moves nothing."""
        if party in self.helpers:
            return 0
        power = 1 if self.family == "laplace" else 2
        return int(self.count_height**power + self.values * self.value_height**power)

    @property
    def replaced(self) -> int:
        """A record goes to another group, or stays in the same one with other values."""
        if self.family == "laplace":
            return 2 * self.moved()
        return max(2 * self.moved(), 4 * self.values * self.value_height**2)

    def describe(self) -> Description:
        deviation = math.sqrt(self.opened_variance)
        count = f"standard deviation {deviation / self.count_height:.6g} of a count (people)"
        if not self.values:
            return Description("one count, by 1", count)
        return Description(
            f"one count by 1 and {self.values} {'sum' if self.values == 1 else 'sums'} by at most 1 (columns in [−1, 1])",
            f"{count}, {deviation / self.value_height:.6g} of a sum (columns in [−1, 1])",
        )
