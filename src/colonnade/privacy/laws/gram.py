"""The noise of a Gram matrix of all parties' columns, opened together.

Public mathematics: the parties and the coordinator compute the same figures from the same plan. Each of P data parties adds a
share of the noise that is large enough for the shares of P − c of them to suffice: c colluding parties can subtract their own.
Secure PCA opens the same matrix with Skellam noise (docs/references.md#secure-pca).

Letters: v is one person's integer row over all parties, ‖v‖² ≤ R² = Σ_q R_q² (+ γ² for the constant column). s² is the variance
of one share of an entry off the diagonal.

The released vector is T(v) = (v_i v_j)_{i ≤ j}. With variance V on the diagonal and V/2 off it,
Σ_i v_i⁴/V + Σ_{i<j} v_i²v_j²/(V/2) = ‖v‖⁴/V for every v. So, in units of the deviation off the diagonal, Δ² = R⁴/2: no entry is
charged for the number of columns. A person's record at one party q alone, the rest a held fixed, moves
‖v‖⁴ − ‖a‖⁴ ≤ R⁴ − (R² − R_q²)². The same holds against a coalition that knows its own columns, so the coalition costs no more
than the coordinator once P − c shares suffice. Proof: docs/proofs/gram.md.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.privacy.accounting import Loss, Price, Unit
from colonnade.privacy.calibration import gaussian_share_variance, skellam_rdp, summed_gaussian_rho
from colonnade.privacy.laws import LARGEST_MEAN, LARGEST_SIGMA_SQUARED, Description, NoiseFamily, Sampler

__all__ = ["GramNoise"]


@dataclass(frozen=True)
class GramNoise:
    """Noise of a Gram matrix with the rows' squared lengths bounded at each party.

    Parameters
    ----------
    row_bounds
        R_q² by data party, an integer: the squared length of the party's integer rows never exceeds it.
    constant
        γ²: the squared entry of the constant column, whose products are the column sums.
    columns
        How many coded columns there are over all parties, the constant one not counted.
    price, unit
        What is offered, and what it protects: a whole record, or one party's part of it.
    collusion
        c: how many data parties may pool their shares of the noise with the coordinator.
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
        if not 0 <= self.collusion < len(self.row_bounds):
            raise BadInput(
                "collusion is at least 0 and below the number of data parties.",
                remedy="Lower collusion, or add a party.",
            )
        if self.family not in ("gaussian", "skellam"):
            raise BadInput("The noise of a Gram matrix is 'gaussian' or 'skellam'.", remedy='Use noise="gaussian".')

    @property
    def name(self) -> str:
        """What statements call it."""
        return f"{self.family} noise in shares"

    @property
    def honest(self) -> int:
        """P − c: how many shares suffice."""
        return len(self.row_bounds) - self.collusion

    @property
    def total(self) -> int:
        """R²."""
        return sum(self.row_bounds.values()) + self.constant

    def moved(self, party: str | None = None) -> int:
        """Return ‖v‖⁴ − ‖a‖⁴ at most: what a whole record, or one party's part of it, moves.

        The constant column stays in either case: the number of people is public, and its square is never released.
        """
        rest = self.constant if party is None else self.total - self.row_bounds[party]
        return self.total**2 - rest**2

    @property
    def entries(self) -> int:
        """How many numbers are released: the upper triangle with the column sums, without the number of people."""
        return (self.columns + 1) * (self.columns + 2) // 2 - 1

    @cached_property
    def share(self) -> Fraction:
        """s², exactly: of a discrete Gaussian its parameter, of Skellam noise twice its mean."""
        worst = max(self.moved(party) for party in self.row_bounds) if self.unit == "party" else self.moved()
        if self.family == "gaussian":
            share = gaussian_share_variance(self.price, Fraction(worst, 2), self.honest, self.entries)
        else:
            share = self._skellam_share(worst)
        self._require_drawable(share)
        return share

    @property
    def share_variance(self) -> float:
        """s² as a float; the parameter of a discrete Gaussian is its variance to one part in 10⁸ from s = 1 up."""
        return float(self.share)

    @property
    def opened_variance(self) -> float:
        """The variance of an opened entry between two parties: all P shares."""
        return self.share_variance * len(self.row_bounds)

    @property
    def own_variance(self) -> Fraction:
        """V/2: the variance of an off-diagonal entry inside one party, which that party noises alone; on the diagonal V."""
        return self.share * self.honest

    def loss(self, *, colluders: int = 0, party: str | None = None) -> Loss | None:
        """Return the loss to an observer who knows ``colluders`` parties' shares; ``None`` if nobody's share is left.

        Up to c colluders cost nothing: the noise was made for them.
        """
        shares = len(self.row_bounds) - max(colluders, self.collusion)
        if shares < 1:
            return None
        if self.family == "skellam":
            return self._skellam_loss(self.moved(party), self.share, shares)
        return _gaussian_loss(self.moved(party), *self.share.as_integer_ratio(), shares, self.entries)

    def replaced_loss(self, *, colluders: int = 0) -> Loss | None:
        """Return the loss if a record is replaced by another instead of by nothing.

        Then Δ₂² has ‖v‖⁴ + ‖w‖⁴ − 2⟨v, w⟩² ≤ 2R⁴, and Skellam noise needs Δ₁ ≤ (m/√2 + 1)R² for m columns, the constant one
        included (docs/proofs/gram.md#replace).
        """
        shares = len(self.row_bounds) - max(colluders, self.collusion)
        if shares < 1:
            return None
        if self.family == "skellam":
            l1 = ((self.columns + 1) / math.sqrt(2) + 1) * self.total
            return self._skellam_loss(2 * self.total**2, self.share, shares, l1=l1)
        return _gaussian_loss(2 * self.total**2, *self.share.as_integer_ratio(), shares, self.entries)

    def describe(self) -> Description:
        """Return sensitivity and scale in words, with columns scaled to [−1, 1]."""
        return Description(
            f"Δ² = {self.moved() / 2 / self.constant**2:.6g} in units of an entry off the diagonal (columns in [−1, 1])",
            f"standard deviation {math.sqrt(self.opened_variance) / self.constant:.6g} of an opened entry (columns in [−1, 1])",
        )

    def draw_share(self, entries: int, sampler: Sampler) -> NDArray[np.int64]:
        """Draw one party's share of the noise of entries between two parties: variance s² per entry."""
        return self._draw(self.share, entries, sampler)

    def draw_tiles(self, sizes: Sequence[int], sampler: Sampler) -> Iterator[NDArray[np.int64]]:
        """Draw the same tile by tile, of given numbers of entries. Gaussian shares are those of one draw, whatever the tiles."""
        if self.family == "gaussian":
            yield from sampler.gaussian_pieces(self.share, sizes)
        else:
            yield from (self.draw_share(size, sampler) for size in sizes)

    def draw_own(self, columns: int, sampler: Sampler) -> NDArray[np.int64]:
        """Draw the noise of one party's own block: the upper triangle of so many columns, row by row.

        Variance V on the diagonal, V/2 elsewhere. Diagonal entries are drawn twice, and the second draw counts.
        """
        drawn = self._draw(self.own_variance, columns * (columns + 1) // 2, sampler)
        diagonal = np.cumsum(np.arange(columns + 1, 1, -1)) - (columns + 1)  # row i has columns − i entries
        drawn[diagonal] = self._draw(2 * self.own_variance, columns, sampler)
        return drawn

    def _draw(self, variance: Fraction, size: int, sampler: Sampler) -> NDArray[np.int64]:
        if self.family == "skellam":
            return sampler.skellam(variance / 2, size)
        return sampler.discrete_gaussian(variance, size)

    def _skellam_loss(self, moved: int, share: Fraction, shares: int, *, l1: float | None = None) -> Loss:
        """Return the sum of the entries' Rényi bounds; the second-order term takes the smaller, off-diagonal mean for all.

        ``l1`` is Δ₁; by default that of zero-out, (m + 1)R²/2 for m columns with the constant one (docs/proofs/gram.md#skellam).
        """
        diagonal_mean = float(share * shares)  # V/2: the mean of Skellam noise is half its variance, V = 2·s²·shares
        l1 = (self.columns + 2) / 2 * self.total if l1 is None else l1
        second = moved * 2.0  # in off-diagonal units, where the leading term below has been halved

        def curve(order: float) -> float:
            leading = skellam_rdp(order, 1e-300, moved, diagonal_mean)
            correction = skellam_rdp(order, l1, second, diagonal_mean / 2) - skellam_rdp(
                order, 1e-300, second, diagonal_mean / 2
            )
            return leading + max(correction, 0.0)

        return Loss.of_curve(curve)

    def _skellam_share(self, worst: int) -> Fraction:
        """Return the least s², to 2⁻²⁰, with which P − c shares keep within the price: double, then halve the interval."""

        def fits(share: int) -> bool:
            return self._skellam_loss(worst, Fraction(share), self.honest).fits(self.price.nano, self.price.delta)

        low = high = math.ceil(gaussian_share_variance(self.price, Fraction(worst, 2), self.honest, 1))
        while not fits(high):
            low, high = high, 2 * high
        while high - low > max(1, high >> 20):
            middle = (low + high) // 2
            low, high = (low, middle) if fits(middle) else (middle, high)
        return Fraction(high)

    def _require_drawable(self, share: Fraction) -> None:
        """Refuse at plan time what samplers would refuse after the debit; the largest is the own diagonal, V = 2·s²·(P − c)."""
        largest = 2 * share * self.honest
        if largest > (2 * LARGEST_MEAN if self.family == "skellam" else LARGEST_SIGMA_SQUARED):
            raise BadInput("Noise of this size cannot be drawn.", remedy="Use a smaller scale=, or a larger epsilon.")


@lru_cache(maxsize=1024)  # a statement asks for every coalition and every party, and most of these are alike
def _gaussian_loss(twice_moved: int, above: int, below: int, shares: int, entries: int) -> Loss:
    """Return the loss at a share of above/below. Whole numbers, because hashing a fraction takes longer than finding it."""
    return Loss.of_zcdp(summed_gaussian_rho(Fraction(twice_moved, 2), Fraction(above, below), shares, entries))
