"""The noise of Newton steps on shares: gradients of a model, and weighted Gram matrices.

Proof: docs/proofs/newton.md.

Letters: x is one person's integer row over all parties with the constant column, x_q party q's part of it, ‖x_q‖² ≤ R_q²,
R² = Σ R_q². r = μ(z) − y is the person's residual and w the person's weight, integers that the link on shares of a family
(`colonnade.families`) bounds whatever the weights and the rows are: |r| ≤ M and |w| ≤ W. Where one party's record is replaced by
nothing, r moves by at most D and w by at most E. A null record at the party that holds the target makes both 0. A gradient step
opens Σ r·x, the curvature Σ w·x·xᵀ, each pair of columns once.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.privacy import calibration
from colonnade.privacy.accounting import Loss, Price, Unit, total
from colonnade.privacy.laws import Description, Sampler
from colonnade.privacy.laws.shared import SharedNoise, diagonal


@dataclass(frozen=True)
class NewtonNoise(SharedNoise):
    """Noise of weighted Gram matrices and of gradients over all people, one of them per round.

    Parameters
    ----------
    row_bounds
        R_q² by data party, positive integers; the constant column is in the bound of the party that holds the target.
    columns
        How many columns there are over all parties, the constant one included: what a gradient has entries.
    residual, residual_change
        M and D.
    weight, weight_change
        W and E.
    parts
        How the price is divided between the rounds, in their order. ρ is divided in these proportions.
    price, unit
        What is offered for all rounds together, and what it protects: a whole record, or one party's part of it.
    collusion
        c: how many data parties may pool their shares of the noise with the coordinator.
    curvatures
        The numbers of the rounds that open a weighted Gram matrix. All others open a gradient. The order costs nothing: losses of
        rounds add up.

    Privacy
    -------
    Guarantee
        All rounds together are ρ-zCDP with ρ = Σ ρ_j, towards the coordinator with c data parties. With A the sum of the c
        largest R_q², a gradient has Δ² = M²(R² − A) + D²A. The curvature has Δ² = (W²(R⁴ − A²) + E²A²)/2 in units of its
        entries off the diagonal. For one party's part of a record, D and E hold on the others' columns.
        Proof: docs/proofs/newton.md.
    Neighbours
        Zero-out: a null record has x = 0, the constant column included, so it adds nothing to any round.
    Adversary
        The coordinator, which chooses all weights and learns every noisy sum, together with up to c data parties. With more, the
        loss is that of the shares that are left.
    Numerics
        Integers throughout; the rounding of the link is in M, D, W and E. Discrete Gaussian shares, whose sum is accounted by
        `summed_gaussian_rho`.
    Checked by
        tests/privacy/test_newton_noise.py, tests/party/test_newton.py

    Examples
    --------
    >>> bounds = {"a": 4_000_000, "b": 1_000_000}
    >>> noise = NewtonNoise(bounds, 12, 66_000, 66_500, 16_700, 17_000, (4, 3, 3, 10), Price.of(1.0, 1e-5), "person", 1)
    >>> noise.loss().epsilon(1e-5) <= 1.0, noise.loss(colluders=2) is None
    (True, True)
    """

    row_bounds: Mapping[str, int]
    columns: int
    residual: int
    residual_change: int
    weight: int
    weight_change: int
    parts: tuple[int, ...]
    price: Price
    unit: Unit
    collusion: int
    curvatures: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        bounds = (*self.row_bounds.values(), self.residual, self.weight, self.columns)
        if not self.row_bounds or any(type(one) is not int or one < 1 for one in bounds):
            raise BadInput("Rows, residuals and weights have positive whole bounds.")
        if self.residual_change < self.residual or self.weight_change < self.weight:
            raise BadInput("A residual moves by at least as much as it can be.")
        if len(self.parts) < 2 or any(type(part) is not int or part < 1 for part in self.parts):
            raise BadInput(
                "The price is divided into positive whole parts: of a step, of the curvature, and of other steps."
            )
        ordered = tuple(sorted(set(self.curvatures)))
        if not ordered or ordered != self.curvatures or not set(ordered) < set(range(self.rounds)):
            raise BadInput("Some rounds, and not all of them, open a curvature; each is named once, in order.")
        self.require_collusion()

    name = "gaussian noise in shares, in every round"

    @property
    def rounds(self) -> int:
        """How many rounds there are: curvatures and steps."""
        return len(self.parts)

    @property
    def last_step(self) -> int:
        """The number of the last round that opens a gradient."""
        return max(set(range(self.rounds)) - set(self.curvatures))

    @property
    def total(self) -> int:
        """R²."""
        return sum(self.row_bounds.values())

    def entries_of(self, number: int) -> int:
        """Return how many numbers a round opens."""
        return self.columns * (self.columns + 1) // 2 if number in self.curvatures else self.columns

    def moved_by(self, number: int, *, colluders: int = 0, party: str | None = None) -> Fraction:
        """Return Δ² of one round, of the curvature in units of an entry off the diagonal.

        Of a whole record towards the coordinator with the ``colluders`` parties of the longest rows; or of one party's part.
        """
        rest = self.total - self.row_bounds[party] if party else sum(sorted(self.row_bounds.values())[::-1][:colluders])
        if number in self.curvatures:
            own = self.weight**2 * (self.total**2 - rest**2)
            return Fraction(own + self.weight_change**2 * rest**2, 2)
        return Fraction(self.residual**2 * (self.total - rest) + self.residual_change**2 * rest)

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """s² of every round."""
        return tuple(map(self.share_of, range(self.rounds)))

    @cached_property
    def _found(self) -> dict[int, Fraction]:
        return {}

    def share_of(self, number: int) -> Fraction:
        """Return s² of one round, exactly: the variance of one party's share of an entry, of the curvature off its diagonal."""
        if number not in self._found:
            most = calibration.ledger_rho(self.price) * self.parts[number] / sum(self.parts)
            if self.unit == "party":
                worst = max(self.moved_by(number, party=party) for party in self.parties)
            else:
                worst = self.moved_by(number, colluders=self.collusion)
            share = calibration.share_within(most, worst, self.honest)
            self._found[number] = self.drawable(share, 2)
        return self._found[number]

    def variance(self, number: int) -> float:
        """Return the variance of the noise in one number that a round opens; of the curvature off its diagonal."""
        return float(self.share_of(number)) * len(self.parties)

    def loss(self, *, colluders: int = 0, party: str | None = None) -> Loss | None:
        """Return what all rounds cost a person's record, whole or at one party; ``None`` if no noise is left."""
        return self._all_rounds(max(colluders, self.collusion), party, 1)

    def replaced_loss(self, *, colluders: int = 0) -> Loss | None:
        """Return the loss if a record is replaced by another instead of by nothing: each round moves at most twice as far."""
        return self._all_rounds(max(colluders, self.collusion), None, 4)

    def _all_rounds(self, colluders: int, party: str | None, factor: int) -> Loss | None:
        """Return the loss to an observer with some of the parties, where Δ² is a multiple of what `moved_by` says."""
        left = len(self.parties) - colluders
        if left < 1:
            return None
        moved = (factor * self.moved_by(number, colluders=colluders, party=party) for number in range(self.rounds))
        entries = map(self.entries_of, range(self.rounds))
        rounds = zip(moved, self.shares, entries, strict=True)
        return total(calibration.gaussian_loss(far, share, left, some) for far, share, some in rounds)

    def describe(self, unit: float = 1.0) -> Description:
        """Return sensitivity and scale of the last step in words, in multiples of ``unit``."""
        last = self.last_step
        return Description(
            f"Δ₂ = {math.sqrt(self.moved_by(last)) / unit:.6g} per step, in units of the gradient with columns scaled to [−1, 1]",
            f"standard deviation {math.sqrt(self.variance(last)) / unit:.6g} of a number opened in the last step",
        )

    def draw_share(self, entries: int, sampler: Sampler) -> NDArray[np.int64]:
        """Refuse: rounds have noise of different sizes, and only `draw_round` knows which."""
        raise NotImplementedError("Draw the noise of a round: draw_round.")

    def draw_round(self, number: int, sampler: Sampler) -> NDArray[np.int64]:
        """Draw one party's share of the noise of one round. Of the curvature row by row, twice the variance on the diagonal."""
        share, entries = self.share_of(number), self.entries_of(number)
        if number not in self.curvatures:
            return self._draw(share, entries, sampler)
        return self._draw_doubled(share, entries, diagonal(self.columns), sampler)
