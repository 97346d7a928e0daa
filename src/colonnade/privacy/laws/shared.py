"""The one shape of noise that several parties add in shares, so that no one of them can take it off.

P parties add a share each, large enough for the shares of P − c of them to suffice: c colluding parties can subtract their own.
A law says who adds shares (`parties`), how far a record moves what is opened (`moved`, and `replaced` for a record that becomes
another one) and how many numbers are opened (`entries`). How large a share is, what it costs whom and how it is drawn follow.

Public mathematics: the parties and the coordinator compute the same figures from the same plan.
"""

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.privacy import calibration
from colonnade.privacy.accounting import LEAST, NANO, Loss, Price, Unit
from colonnade.privacy.laws import (
    LARGEST_LAPLACE,
    LARGEST_MEAN,
    LARGEST_SIGMA_SQUARED,
    Description,
    NoiseFamily,
    Sampler,
)

Moved = int | Fraction
"""Δ₁ of Laplace noise, otherwise Δ₂², in units of the entries with the least noise."""


class SharedNoise:
    """Noise of numbers that are opened together; a law is a subclass, a frozen dataclass with these fields.

    Parameters
    ----------
    price, unit
        What is offered, and what it protects: a whole record, or one party's part of it.
    collusion
        c: how many parties may pool their shares of the noise with the coordinator.
    row_bounds
        By data party what its rows are bounded by. A law without such bounds says otherwise who its `parties` are.

    Privacy
    -------
    Guarantee
        Discrete Gaussian shares of variance s²: μ-GDP with μ² = κ²·Δ₂², κ² at most a little above 1/(s²·shares)
        (docs/proofs/gaussian-losses.md), and ρ-zCDP with ρ = Δ₂²/(2·s²·shares), up to the correction for sums of discrete
        Gaussians (docs/proofs/gram.md). Pólya shares of discrete Laplace noise: pure ε-DP with ε = Δ₁/scale
        (docs/proofs/pair-tables.md). Each law says what Δ is, and proves it.
    Neighbours
        Zero-out of a whole record, or of one party's part of it. `replaced_loss` gives the figure for a replaced record.
    Adversary
        The coordinator together with up to c parties. With more, the loss is that of the Gaussian shares that are left; fewer
        Pólya shares than P − c are not a discrete Laplace, and nothing pure is claimed for them.
    Numerics
        Integer noise on integers; scales and variances are exact rationals, rounded up; the sampler is exact.
    Checked by
        tests/privacy/test_joint_noise.py, tests/privacy/test_group_noise.py
    """

    price: Price
    unit: Unit
    collusion: int
    row_bounds: Mapping[str, int]

    @property
    def parties(self) -> tuple[str, ...]:
        """Everybody who adds a share of the noise; by default those whose rows are bounded."""
        return tuple(self.row_bounds)

    def moved(self, party: str | None = None) -> Moved:
        """Return how far a whole record, or one party's part of it, moves what is opened."""
        raise NotImplementedError

    @property
    def replaced(self) -> Moved | None:
        """How far replacing a record by another one moves it; ``None`` where nothing is proved."""
        return None

    @property
    def entries(self) -> int:
        """How many numbers are opened."""
        raise NotImplementedError

    def describe(self) -> Description:
        """Return sensitivity and scale in words."""
        raise NotImplementedError

    def require_collusion(self) -> None:
        """Refuse a coalition that leaves no share."""
        if not 0 <= self.collusion < len(self.parties):
            raise BadInput(
                "collusion is at least 0 and below the number of data parties.",
                remedy="Lower collusion, or add a party.",
            )

    @cached_property
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
    def worst(self) -> Moved:
        """The largest movement that the price is for."""
        return max(map(self.moved, self.parties)) if self.unit == "party" else self.moved()

    @cached_property
    def share(self) -> Fraction:
        """The variance of one party's share of a number; of Laplace noise the scale that P − c shares make up."""
        if self.family == "laplace":
            return self.drawable(calibration.laplace_scale(self.price, self.worst))
        return self.drawable(calibration.gaussian_share_variance(self.price, self.worst, self.honest))

    def drawable(self, share: Fraction, times: int = 1) -> Fraction:
        """Return a share, or refuse before the debit what samplers would refuse after it: a multiple of the share."""
        limits = {"laplace": LARGEST_LAPLACE, "gaussian": LARGEST_SIGMA_SQUARED, "skellam": 2 * LARGEST_MEAN}
        if times * share > limits[self.family]:
            raise BadInput("Noise of this size cannot be drawn.", remedy="Use a smaller scale=, or a larger epsilon.")
        return share

    @property
    def share_variance(self) -> float:
        """The variance of one party's share; a discrete Gaussian's parameter is it to one part in 10⁸ from s = 1 up."""
        if self.family == "laplace":
            return calibration.discrete_laplace_variance(self.share) / self.honest
        return float(self.share)

    @property
    def opened_variance(self) -> float:
        """The variance of the noisiest opened number: all P shares."""
        return self.share_variance * len(self.parties)

    def loss(self, *, colluders: int = 0, party: str | None = None) -> Loss | None:
        """Return the loss to an observer who knows ``colluders`` parties' shares; ``None`` where nothing is proved.

        Of a person's whole record, or of their record at one party. Up to c colluders cost nothing: the noise was made for them.
        """
        return self.loss_of(self.moved(party), colluders)

    def replaced_loss(self, *, colluders: int = 0) -> Loss | None:
        """Return the loss if a record is replaced by another instead of by nothing; ``None`` where nothing is proved."""
        return None if self.replaced is None else self.loss_of(self.replaced, colluders)

    def loss_of(self, moved: Moved, colluders: int) -> Loss | None:
        """Return the loss of what moves the opened numbers so far."""
        shares = len(self.parties) - max(colluders, self.collusion)
        if moved == 0:
            return LEAST
        if self.family == "laplace":
            return None if colluders > self.collusion else Loss.of_pure(math.ceil(moved / self.share * NANO))
        if shares < 1:
            return None
        return _gaussian_loss(*moved.as_integer_ratio(), *self.share.as_integer_ratio(), shares, self.entries)

    def draw_share(self, entries: int, sampler: Sampler) -> NDArray[np.int64]:
        """Draw one party's share of the noise of some numbers."""
        return self._draw(self.share, entries, sampler)

    def _draw(self, parameter: Fraction, size: int, sampler: Sampler) -> NDArray[np.int64]:
        if self.family == "laplace":
            return sampler.polya_share(parameter, self.honest, size)
        if self.family == "skellam":
            return sampler.skellam(parameter / 2, size)
        return sampler.discrete_gaussian(parameter, size)

    def _draw_doubled(
        self, variance: Fraction, size: int, doubled: NDArray[np.int64], sampler: Sampler
    ) -> NDArray[np.int64]:
        """Draw noise with twice the variance in some places; these are drawn twice, and the second draw counts."""
        drawn = self._draw(variance, size, sampler)
        drawn[doubled] = self._draw(2 * variance, len(doubled), sampler)
        return drawn


def words_of_products(noise: SharedNoise, constant: int) -> Description:
    """Return sensitivity and scale of products in words, with columns scaled to [−1, 1]; ``constant`` is γ²."""
    return Description(
        f"Δ² = {float(noise.moved()) / constant**2:.6g} in units of an entry off the diagonal (columns in [−1, 1])",
        f"standard deviation {math.sqrt(noise.opened_variance) / constant:.6g} of an opened entry (columns in [−1, 1])",
    )


def diagonal(columns: int) -> NDArray[np.int64]:
    """Return the places of the squares in an upper triangle row by row: row i has ``columns - i`` entries.

    Examples
    --------
    >>> diagonal(3).tolist()
    [0, 3, 5]
    """
    return np.asarray(np.cumsum(np.arange(columns + 1, 1, -1)) - (columns + 1))


@lru_cache(maxsize=1024)  # a statement asks for every coalition and every party, and most of these are alike
def _gaussian_loss(moved: int, of: int, above: int, below: int, shares: int, entries: int) -> Loss:
    """Take fractions as whole numbers, because hashing a fraction takes longer than finding the loss."""
    return calibration.gaussian_loss(Fraction(moved, of), Fraction(above, below), shares, entries)
