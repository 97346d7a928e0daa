"""The noise of the steps of a gradient descent, and what they cost each observer. Proof: docs/proofs/gradient-steps.md.

Secure PCA (its SLR;
docs/references.md#secure-pca) releases three vectors per step; here they are one, and the factor 3 of the sampling theorem that
the paper lacks is kept.

Letters: x is one person's integer row over all parties, x_q party q's part of it, ‖x_q‖² ≤ R_q², R² = Σ R_q². v_q is what party q
makes of its part and of the public weights (its part of the score, with the label folded in where the label is), clipped by q
itself to |v_q| ≤ C_q, C = Σ C_q. A step releases Σ_people v·x with v = Σ_q v_q, plus noise.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from scipy.special import bdtrc

from colonnade.errors import BadInput
from colonnade.privacy import calibration
from colonnade.privacy.accounting import Loss, Price, Unit
from colonnade.privacy.laws import Description
from colonnade.privacy.laws.shared import SharedNoise

UNLIKELY = 2.0**-64


@lru_cache(maxsize=256)
def participation_bound(rate: float, steps: int) -> int:
    """Return in how many steps nobody takes part more often, but for a probability below 2⁻⁶⁴ per person.

    Examples
    --------
    >>> participation_bound(0.001, 5_000), participation_bound(1.0, 50)
    (36, 50)
    """
    low, high = 0, steps
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if bdtrc(middle, steps, rate) <= UNLIKELY else (middle + 1, high)
    return low


@dataclass(frozen=True)
class GradientNoise(SharedNoise):
    """Noise of a number of gradient steps on batches of people.

    Parameters
    ----------
    score_bounds, row_bounds
        C_q and R_q² by data party, positive integers.
    columns
        How many numbers a step releases.
    steps, rate
        T, and with what probability (of balanced batches: about what share of) people take part in a step.
    participations
        In how many steps one person takes part at most: of Poisson batches `participation_bound`, of balanced ones by
        construction. The parties check their batches against it before the first step.
    secret
        Whether the promise counts on batches that the observer does not know (Poisson), or not (balanced).
    price, unit
        What is offered, and what it protects: a whole record, or one party's part of it.
    collusion
        c: how many data parties may pool their shares of the noise with the coordinator; only balanced batches promise it.

    Privacy
    -------
    Guarantee
        All T steps together are within the price: towards the coordinator alone by Theorem 5 of Zhu–Wang 2019 with its factor
        3 (Poisson; for a part of a record by the argument in `colonnade.privacy.calibration`); towards the coordinator
        with c parties by zCDP over a person's participations, ρ = participations·Δ₂²/(2·s²·shares) (balanced).
        Proof: docs/proofs/gradient-steps.md.
    Neighbours
        Zero-out: a null record has x = 0 and v = 0, the constant column included, so it adds nothing to any batch.
    Adversary
        The coordinator, which chooses all weights and learns every noisy sum; a party, which also knows the batches and
        its own share of the noise (`loss` with colluders: no amplification, its participations only).
    Numerics
        Integers throughout; discrete Gaussian shares, whose sum is accounted by `summed_gaussian_rho`.
    Checked by
        tests/privacy/test_gradient_noise.py, tests/privacy/test_sampled_gaussian.py, tests/party/test_gradient.py

    Proof of the sensitivity. A record adds v·x with |v| ≤ C and ‖x‖ ≤ R, whatever the weights are, because every party clips
    its own v_q: so Δ₂² = C²R². A person's record at party q alone, the others' x′ and v′ held fixed, moves the others'
    coordinates by v_q·x′ and q's own by v·x_q, so Δ₂² ≤ C_q²(R² − R_q²) + C²R_q². Weights depend on earlier outputs only, and
    Rényi curves of steps with fresh coins and fresh noise add up however the steps were chosen.

    Examples
    --------
    >>> bounds = {"a": 30_000, "b": 10_000}, {"a": 4_000_000, "b": 1_000_000}
    >>> noise = GradientNoise(*bounds, 12, 500, 0.01, 30, True, Price.of(1.0, 1e-5), "person", 1)
    >>> noise.loss().epsilon(1e-5) <= 1.0 < noise.loss(colluders=1).epsilon(1e-5)
    True
    """

    score_bounds: Mapping[str, int]
    row_bounds: Mapping[str, int]
    columns: int
    steps: int
    rate: float
    participations: int
    secret: bool
    price: Price
    unit: Unit
    collusion: int

    def __post_init__(self) -> None:
        bounds = (*self.score_bounds.values(), *self.row_bounds.values())
        if set(self.score_bounds) != set(self.row_bounds) or any(type(one) is not int or one < 1 for one in bounds):
            raise BadInput("Every data party has a positive bound on its scores and on its rows.")
        self.require_collusion()
        if type(self.participations) is not int or not 1 <= self.participations <= self.steps:
            raise BadInput("A person takes part in at least one step and at most in all of them.")

    name = "gaussian noise in shares, in every step"

    @property
    def honest(self) -> int:
        """How many shares must suffice: all of them where the promise is against the coordinator alone, else P − c."""
        return len(self.parties) if self.secret else super().honest

    @property
    def entries(self) -> int:
        return self.columns

    def moved(self, party: str | None = None) -> int:
        """Return Δ₂² of one step for a whole record, or for one party's part of it."""
        score, rows = sum(self.score_bounds.values()), sum(self.row_bounds.values())
        if party is None:
            return score**2 * rows
        own = self.row_bounds[party]
        return self.score_bounds[party] ** 2 * (rows - own) + score**2 * own

    @cached_property
    def share(self) -> Fraction:
        """s²: the variance of one party's share of the noise of one number of one step, exactly."""
        whole = Fraction(self.moved())
        part = self.worst / whole if self.unit == "party" else None
        sampled = (self.rate, self.steps) if self.secret else (1.0, self.participations)
        most = calibration.largest_step_rho(self.price, *sampled, part)
        return self.drawable(calibration.share_within(most, whole, self.honest, self.columns))

    def loss(self, *, colluders: int = 0, party: str | None = None) -> Loss | None:
        """Return what all steps cost a person's record, whole or at one party; ``None`` if no noise is left.

        Parameters
        ----------
        colluders
            How many data parties the observer includes. Any of them knows the batches: no amplification.
        party
            Whose part of the record; all of it by default.
        """
        if self.secret and colluders == 0:
            everybody = len(self.parties)
            whole = self._step_rho(everybody, None)
            if party is None:
                return calibration.sampled_loss(whole, self.rate, self.steps)
            return calibration.sampled_part_loss(whole, self._step_rho(everybody, party), self.rate, self.steps)
        shares = len(self.parties) - (colluders if self.secret else max(colluders, self.collusion))
        return None if shares < 1 else Loss.of_zcdp(self._step_rho(shares, party) * self.participations)

    def _step_rho(self, shares: int, party: str | None) -> Fraction:
        return calibration.summed_gaussian_rho(self.moved(party), self.share, shares, self.columns)

    def describe(self, unit: float = 1.0) -> Description:
        """Return sensitivity and scale in words, in multiples of ``unit``."""
        return Description(
            f"Δ₂ = {math.sqrt(self.moved()) / unit:.6g} per step (after scaling each column to [−1, 1])",
            f"standard deviation {self.gradient_deviation(unit):.6g} of an opened number",
        )

    def gradient_deviation(self, unit: float) -> float:
        """Return the standard deviation of the noise in one released number, in multiples of ``unit``."""
        return math.sqrt(self.opened_variance) / unit
