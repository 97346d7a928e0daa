"""The noise of counts that several parties open together: pair tables of their categories, and histograms of scores.

Public mathematics, as in `colonnade.privacy.laws.gram`. A person is in one cell of each of C(v, 2) tables of v parties, so
Δ₁ = Δ₂² = C(v, 2); at one party, v − 1. Counts are integers and are not scaled. Proof: docs/proofs/pair-tables.md.
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
from colonnade.privacy.laws import Description, NoiseFamily, Sampler

__all__ = ["TableNoise"]


@dataclass(frozen=True)
class TableNoise:
    """Noise of all pair tables of a set of parties' categories; counts are integers and are not scaled.

    Parameters
    ----------
    parties
        Who holds a category.
    price, unit, collusion
        As in `colonnade.privacy.laws.gram.GramNoise`.
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

    parties: tuple[str, ...]
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
    def family(self) -> NoiseFamily:
        """Which noise."""
        return "gaussian" if self.price.delta > 0 else "laplace"

    @property
    def name(self) -> str:
        """What statements call it."""
        return f"{self.family} noise in shares"

    @property
    def honest(self) -> int:
        """P − c: how many shares suffice."""
        return len(self.parties) - self.collusion

    def moved(self, party: str | None = None) -> int:
        """Return in how many tables a record, or one party's part of it, moves one cell by one."""
        return math.comb(len(self.parties), 2) if party is None else len(self.parties) - 1

    @cached_property
    def share(self) -> Fraction:
        """The scale of the discrete Laplace noise that P − c shares make up, or the variance of one Gaussian share."""
        worst = self.moved(self.parties[0]) if self.unit == "party" else self.moved()
        if self.family == "laplace":
            return calibration.laplace_scale(self.price, worst)
        return calibration.gaussian_share_variance(self.price, worst, self.honest, self.cells)

    @property
    def share_variance(self) -> float:
        """The variance of one party's share of a cell."""
        return (
            float(self.share)
            if self.family == "gaussian"
            else calibration.discrete_laplace_variance(self.share) / self.honest
        )

    @property
    def opened_variance(self) -> float:
        """The variance of an opened cell: all P shares."""
        return self.share_variance * len(self.parties)

    def loss(self, *, colluders: int = 0, party: str | None = None) -> Loss | None:
        """Return the loss to an observer who knows ``colluders`` parties' shares; ``None`` where nothing is proved.

        Fewer Pólya shares than P − c are not a discrete Laplace, and no pure bound is claimed for them.
        """
        moved = self.moved(party)
        shares = len(self.parties) - max(colluders, self.collusion)
        if self.family == "laplace":
            return None if colluders > self.collusion else Loss.of_pure(math.ceil(Fraction(moved) / self.share * 10**9))
        return (
            None if shares < 1 else Loss.of_zcdp(calibration.summed_gaussian_rho(moved, self.share, shares, self.cells))
        )

    def describe(self) -> Description:
        """Return sensitivity and scale in words."""
        moved = self.moved()
        return Description(
            f"{moved} {'cell' if moved == 1 else 'cells'} of the tables, by 1 each",
            f"standard deviation {math.sqrt(self.opened_variance):.6g} of an opened entry (people)",
        )

    def draw_share(self, entries: int, sampler: Sampler) -> NDArray[np.int64]:
        """Draw one party's share of the noise of all cells: Pólya shares of discrete Laplace noise, or Gaussian shares."""
        if self.family == "laplace":
            return sampler.polya_share(self.share, self.honest, entries)
        return sampler.discrete_gaussian(self.share, entries)

    def replaced_loss(self, *, colluders: int = 0) -> Loss | None:
        """Return the loss if a record is replaced by another instead of by nothing: two cells of each table move."""
        loss = self.loss(colluders=colluders)
        if loss is None or loss.pure is None:
            shares = len(self.parties) - max(colluders, self.collusion)
            return (
                None
                if shares < 1 or loss is None
                else Loss.of_zcdp(calibration.summed_gaussian_rho(2 * self.moved(), self.share, shares, self.cells))
            )
        return Loss.of_pure(2 * loss.pure)
