"""The noise of moments of the people in common, when nobody may learn who they are.

Letters as in `colonnade.privacy.laws.gram`: a person who is in both lists has the integer row v = (γ, x₁, x₂);
a person in one list only contributes nothing. All products of v are opened through shares, in three steps: between the
parties' columns and indicators (*cross*: γ², γx₁, γx₂, x₁x₂), and each party's own products times the other's indicator (*own*).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.privacy.accounting import Loss, Price, Unit, total
from colonnade.privacy.calibration import gaussian_share_variance, summed_gaussian_rho
from colonnade.privacy.laws import Description, NoiseFamily, Sampler
from colonnade.privacy.laws.shared import SharedNoise, diagonal, words_of_products


@dataclass(frozen=True)
class UnionNoise(SharedNoise):
    """Discrete Gaussian noise, in shares, for one of the three steps.

    Parameters
    ----------
    row_bounds
        R_q² by party, an integer, of exactly two parties.
    widths
        How many coded columns each party has.
    constant
        γ².
    price, unit
        What the three steps together offer, and what it protects.
    collusion
        c: 0 or 1.
    part
        ``"cross"``, or the party whose own products are opened.

    Privacy
    -------
    Guarantee
        ρ-zCDP with ρ = moved/(4·s²·shares) for each step, up to the correction for sums of discrete Gaussians; the three steps
        together keep within the price. With variance V for γ² and
        for squares and V/2 for all other entries, the squared sensitivity in units of V/2 is half of
        c² + 2ca + 2cb + 2ab (*cross*) plus a² plus b² (*own*), where c = γ², a = ‖x₁‖² ≤ R₁², b = ‖x₂‖² ≤ R₂²: as in
        `colonnade.privacy.laws.gram`, Σ_i x_i⁴/V + Σ_{i<j} x_i²x_j²/(V/2) = a²/V. The bounds are attained together,
        so parts add up to (a + b + c)² and nothing is lost by opening them one by one. Each of the two parties adds a share
        that suffices alone if one party may collude. Proof: docs/proofs/union-moments.md.
    Neighbours
        Zero-out of a record. A record at one party alone removes the person from the people in common, so it costs the same.
    Adversary
        The coordinator, with up to c of the parties. Towards a party the other's share of the noise is what counts.
    Numerics
        Integer noise on integers; variances are exact rationals.
    Checked by
        tests/privacy/test_union_noise.py, tests/coordinator/test_union_studies.py

    Examples
    --------
    >>> noise = UnionNoise({"a": 4, "b": 4}, {"a": 2, "b": 2}, 1, Price.of(1.0, 1e-5), "person", 1, "cross")
    >>> noise.loss().epsilon(1e-5) <= 1.0
    True
    """

    row_bounds: Mapping[str, int]
    widths: Mapping[str, int]
    constant: int
    price: Price
    unit: Unit
    collusion: int
    part: str

    family: ClassVar[NoiseFamily] = "gaussian"

    def __post_init__(self) -> None:
        if len(self.row_bounds) != 2 or set(self.widths) != set(self.row_bounds):
            raise BadInput("A union needs exactly two parties.", remedy="Name columns of two parties.")
        if any(type(bound) is not int or bound < 1 for bound in (*self.row_bounds.values(), *self.widths.values())):
            raise BadInput("Row bounds and widths are positive integers.")
        if self.part not in ("cross", *self.row_bounds) or not 0 <= self.collusion < 2 or self.constant < 1:
            raise BadInput("There is no such part of the moments of a union.")

    @property
    def _parts(self) -> tuple[str, ...]:
        return ("cross", *self.row_bounds)

    def moved(self, party: str | None = None) -> Fraction:  # noqa: ARG002  # a part of a record is the whole
        """Return Δ² of this part, in units of V/2."""
        return self.moved_by(self.part)

    def moved_by(self, part: str) -> Fraction:
        """Return how far a person moves a part, in units of V/2."""
        if part != "cross":
            return Fraction(self.row_bounds[part] ** 2, 2)
        first, second = self.row_bounds.values()
        return Fraction(self.constant**2 + 2 * self.constant * (first + second) + 2 * first * second, 2)

    @property
    def replaced(self) -> Fraction:
        """An own part moves ‖v‖⁴ + ‖w‖⁴ − 2⟨v, w⟩² in squares, at most twice as far as one record.

        The cross part alone has no such sign (it lacks the squares), so its two records count as far apart as they can be: twice
        as far, four times in squares.
        """
        return (4 if self.part == "cross" else 2) * self.moved()

    @property
    def entries(self) -> int:
        return self.entries_of(self.part)

    def entries_of(self, part: str) -> int:
        """Return how many numbers a part opens."""
        if part != "cross":
            return self.widths[part] * (self.widths[part] + 1) // 2
        first, second = self.widths.values()
        return (first + 1) * (second + 1)

    @cached_property
    def share(self) -> Fraction:
        """s²: the variance of one party's share of an entry of variance V/2; twice that where the entry has V."""
        moved = sum(map(self.moved_by, self._parts), Fraction(0))
        share = gaussian_share_variance(self.price, moved, self.honest, sum(map(self.entries_of, self._parts)))
        while not self._whole(share).fits(self.price.nano, self.price.delta):  # three losses, each rounded up
            share *= 1 + Fraction(1, 2**30)
        return self.drawable(share, 2)

    @property
    def opened_variance(self) -> float:
        """The largest variance of an opened entry: both shares, where it has V."""
        return 4 * self.share_variance

    @property
    def doubled(self) -> NDArray[np.int64]:
        """The places of the entries with variance V: the number of people, which comes first, or the squares."""
        return np.array([0]) if self.part == "cross" else diagonal(self.widths[self.part])

    def describe(self) -> Description:
        return words_of_products(self, self.constant)

    def draw_share(self, entries: int, sampler: Sampler) -> NDArray[np.int64]:
        """Draw one party's share of the noise: s² per entry, twice that where the entry has variance V."""
        return self._draw_doubled(self.share, entries, self.doubled, sampler)

    def _whole(self, share: Fraction) -> Loss:
        rho = (summed_gaussian_rho(self.moved_by(p), share, self.honest, self.entries_of(p)) for p in self._parts)
        return total(map(Loss.of_zcdp, rho))
