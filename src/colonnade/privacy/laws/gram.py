"""The noise of a Gram matrix of all parties' columns, opened together.

Secure PCA opens the same matrix with Skellam noise (docs/references.md#secure-pca).

Letters: v is one person's integer row over all parties, ‖v‖² ≤ R² = Σ_q R_q² (+ γ² for the constant column). s² is the variance
of one share of an entry off the diagonal.

The released vector is T(v) = (v_i v_j)_{i ≤ j}. With variance V on the diagonal and V/2 off it,
Σ_i v_i⁴/V + Σ_{i<j} v_i²v_j²/(V/2) = ‖v‖⁴/V for every v. So, in units of the deviation off the diagonal, Δ² = R⁴/2: no entry is
charged for the number of columns. A person's record at one party q alone, the rest a held fixed, moves
‖v‖⁴ − ‖a‖⁴ ≤ R⁴ − (R² − R_q²)². The same holds against a coalition that knows its own columns, so the coalition costs no more
than the coordinator once P − c shares suffice. Proof: docs/proofs/gram.md.

*On a union of lists* (`UnionNoise`) these are moments of the people in common, and nobody may learn who they are. A person who
is in both lists has the integer row v = (γ, x₁, x₂); a person in one list only contributes nothing. All products of v are
opened through shares, in three steps: between the parties' columns and indicators (*cross*: γ², γx₁, γx₂, x₁x₂), and each
party's own products times the other's indicator (*own*).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.privacy.accounting import Loss, Price, Unit
from colonnade.privacy.calibration import gaussian_share_variance, renyi_rho, skellam_rdp
from colonnade.privacy.laws import Description, NoiseFamily, Sampler
from colonnade.privacy.laws.shared import SharedNoise, diagonal, words_of_products


@dataclass(frozen=True)
class GramNoise(SharedNoise):
    """Noise of a Gram matrix with the rows' squared lengths bounded at each party.

    Parameters
    ----------
    row_bounds
        R_q² by data party, an integer: the squared length of the party's integer rows never exceeds it.
    constant
        γ²: the squared entry of the constant column, whose products are the column sums.
    columns
        How many coded columns there are over all parties, the constant one not counted.
    price, unit, collusion
        As in `colonnade.privacy.laws.shared.SharedNoise`; the parties of `row_bounds` add shares.
    family
        ``"gaussian"`` (discrete Gaussian shares, zCDP) or ``"skellam"`` (as in Secure PCA).

    Privacy
    -------
    Guarantee
        ρ-zCDP with ρ = (‖v‖⁴ − ‖a‖⁴)/(4·s²·shares) up to the correction for sums of discrete Gaussians ("gaussian"), or the
        Rényi curve of Skellam noise ("skellam"). Proof: docs/proofs/gram.md.
    Neighbours
        Zero-out of a whole record, or of one party's part of it. `replaced_loss` gives the figure for a replaced record.
    Adversary
        The coordinator together with up to c data parties. With more, the loss is that of the shares that are left.
    Numerics
        Integer noise on integers; variances are exact rationals, rounded up; the sampler is exact.
    Checked by
        tests/privacy/test_joint_noise.py, tests/party/test_statistics_joint.py, tests/estimators/test_moments_release.py

    Examples
    --------
    >>> noise = GramNoise({"a": 4, "b": 4, "c": 4}, 1, 12, Price.of(1.0, 1e-5), "person", 1)
    >>> noise.loss().epsilon(1e-5) <= 1.0 < noise.loss(colluders=2).epsilon(1e-5)
    True
    """

    row_bounds: Mapping[str, int]
    constant: int
    columns: int
    price: Price
    unit: Unit
    collusion: int
    family: NoiseFamily = "gaussian"

    def __post_init__(self) -> None:
        if any(type(bound) is not int or bound < 1 for bound in self.row_bounds.values()) or self.constant < 0:
            raise BadInput("Row bounds are positive integers.")
        self.require_collusion()
        if self.family not in ("gaussian", "skellam"):
            raise BadInput("The noise of a Gram matrix is 'gaussian' or 'skellam'.", remedy='Use noise="gaussian".')

    @property
    def total(self) -> int:
        """R²."""
        return sum(self.row_bounds.values()) + self.constant

    def moved(self, party: str | None = None) -> Fraction:
        """Return Δ² = (‖v‖⁴ − ‖a‖⁴)/2 at most, in units of an entry off the diagonal.

        The constant column stays in either case: the number of people is public, and its square is never released.
        """
        rest = self.constant if party is None else self.total - self.row_bounds[party]
        return Fraction(self.total**2 - rest**2, 2)

    @property
    def replaced(self) -> int:
        """‖v‖⁴ + ‖w‖⁴ − 2⟨v, w⟩² ≤ 2R⁴ for a record that is replaced, and half of it in units of an entry off the diagonal."""
        return self.total**2

    @property
    def entries(self) -> int:
        """How many numbers are released: the upper triangle with the column sums, without the number of people."""
        return (self.columns + 1) * (self.columns + 2) // 2 - 1

    @cached_property
    def share(self) -> Fraction:
        """s², exactly: of a discrete Gaussian its parameter, of Skellam noise twice its mean."""
        if self.family == "gaussian":
            share = gaussian_share_variance(self.price, self.worst, self.honest)
        else:
            share = self._skellam_share()
        return self.drawable(share, 2 * self.honest)  # the largest is the own diagonal, V = 2·s²·(P − c)

    @property
    def own_variance(self) -> Fraction:
        """V/2: the variance of an off-diagonal entry inside one party, which that party noises alone; on the diagonal V."""
        return self.share * self.honest

    def loss_of(self, moved: int | Fraction, colluders: int) -> Loss | None:
        """Return the loss. Skellam noise takes Δ₁ too: (m + 1)R²/2 for m columns with the constant one.

        Of a replaced record it is (m/√2 + 1)R² (docs/proofs/gram.md#skellam, #replace).
        """
        shares = len(self.parties) - max(colluders, self.collusion)
        if self.family == "gaussian" or shares < 1:
            return super().loss_of(moved, colluders)
        columns = self.columns + 1
        l1 = columns / math.sqrt(2) + 1 if moved == self.replaced else (columns + 1) / 2
        return self._skellam_loss(moved, self.share, shares, l1=l1 * self.total)

    def describe(self) -> Description:
        return words_of_products(self, self.constant)

    def draw_tiles(self, sizes: Sequence[int], sampler: Sampler) -> Iterator[NDArray[np.int64]]:
        """Draw the same tile by tile, of given numbers of entries. Gaussian shares are those of one draw, whatever the tiles."""
        if self.family == "gaussian":
            yield from sampler.gaussian_pieces(self.share, sizes)
        else:
            yield from (self.draw_share(size, sampler) for size in sizes)

    def draw_own(self, columns: int, sampler: Sampler) -> NDArray[np.int64]:
        """Draw the noise of one party's own block: the upper triangle of its columns, row by row.

        Variance V on the diagonal, V/2 elsewhere.
        """
        return self._draw_doubled(self.own_variance, columns * (columns + 1) // 2, diagonal(columns), sampler)

    def _skellam_loss(self, moved: int | Fraction, share: Fraction, shares: int, *, l1: float) -> Loss:
        """Return the sum of the entries' Rényi bounds; the second-order term takes the smaller, off-diagonal mean for all."""
        diagonal_mean = float(share * shares)  # V/2: the mean of Skellam noise is half its variance, V = 2·s²·shares
        twice = int(2 * moved)  # in units of the diagonal
        second = twice * 2.0  # in off-diagonal units, where the leading term below has been halved

        def curve(order: float) -> float:
            leading = skellam_rdp(order, 1e-300, twice, diagonal_mean)
            correction = skellam_rdp(order, l1, second, diagonal_mean / 2) - skellam_rdp(
                order, 1e-300, second, diagonal_mean / 2
            )
            return leading + max(correction, 0.0)

        return Loss.of_curve(curve)

    def _skellam_share(self) -> Fraction:
        """Return the least s², to 2⁻²⁰, with which P − c shares keep within the price: double, then halve the interval."""

        def fits(share: int) -> bool:
            loss = self._skellam_loss(worst, Fraction(share), self.honest, l1=(self.columns + 2) / 2 * self.total)
            return loss.fits(self.price.nano, self.price.delta)

        worst = self.worst
        low = high = math.ceil(worst / (2 * renyi_rho(self.price) * self.honest))
        while not fits(high):
            low, high = high, 2 * high
        while high - low > max(1, high >> 20):
            middle = (low + high) // 2
            low, high = (low, middle) if fits(middle) else (middle, high)
        return Fraction(high)


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
        return self.drawable(gaussian_share_variance(self.price, moved, self.honest), 2)

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
