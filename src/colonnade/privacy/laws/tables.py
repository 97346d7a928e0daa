"""The noise of counts that several parties open together: pair tables of their categories, and histograms of scores.

Public mathematics, as in `colonnade.privacy.laws.gram`. A person is in one cell of each of C(v, 2) tables of v parties, so
Δ₁ = Δ₂² = C(v, 2); at one party, v − 1. Counts are integers and are not scaled. Proof: docs/proofs/pair-tables.md.
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
