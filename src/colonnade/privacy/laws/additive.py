"""Discrete Laplace and discrete Gaussian noise on integers: what one party adds to its own numbers."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.privacy.accounting import NANO, ORDERS, Loss, Price
from colonnade.privacy.calibration import (
    counting_height,
    discrete_laplace_variance,
    gaussian_loss,
    gaussian_sigma_squared,
    laplace_scale,
    ledger_rho,
)
from colonnade.privacy.laws import LARGEST_LAPLACE, LARGEST_SIGMA_SQUARED, Description, Sampler


def _drawable(parameter: Fraction, largest: int) -> Fraction:
    if parameter > largest:
        raise BadInput("The noise would be too large to draw.", remedy="Raise epsilon or use a coarser fixed point.")
    return parameter


def _whole(nonprivate: NDArray[Any]) -> NDArray[np.int64]:
    if nonprivate.dtype.kind not in "iu":
        raise BadInput("Discrete noise is added to whole numbers.")
    return nonprivate.astype(np.int64)


class DiscreteLaplace:
    """Add independent integers with ``P(k) ∝ e^(-|k|/scale)``, ``scale = Δ₁/ε``, to a vector of integers.

    Parameters
    ----------
    price
        What the release may cost; δ is not used.
    l1_sensitivity
        Δ₁: by how much the vector's entries change in total between neighbours, at most.

    Examples
    --------
    >>> from colonnade.privacy.randomness import SystemRandomness
    >>> from colonnade.privacy.samplers import ExactSampler
    >>> mechanism = DiscreteLaplace(Price.of(0.5), 1)
    >>> mechanism.scale, round(mechanism.variance, 9)
    (Fraction(2, 1), 7.835396178)
    >>> mechanism.release(np.array([10, 20]), ExactSampler(SystemRandomness())).dtype
    dtype('int64')

    Notes
    -----
    For vectors f, f′ of neighbours and any output y, ``P(y|f)/P(y|f′) = exp(Σ(|y_i-f′_i| - |y_i-f_i|)/scale)``, at
    most ``exp(Σ|f_i-f′_i|/scale) ≤ exp(Δ₁/scale) = e^ε`` by the triangle inequality.

    Privacy
    -------
    Guarantee
        Pure ε-DP with ε = Δ₁/scale, which is the price's ε. Proof: docs/proofs/discrete-laplace.md.
    Neighbours
        Those for which Δ₁ was computed; in this library zero-out.
    Adversary
        Anybody who reads the released vector.
    Numerics
        Integer noise on integers; the scale is an exact rational and the sampler exact. Sums wrap at 64 bits, which is
        post-processing.
    Checked by
        tests/privacy/test_mechanisms.py, tests/audit/test_distinguish.py
    """

    __slots__ = ("loss", "scale")

    name = "discrete Laplace"

    def __init__(self, price: Price, l1_sensitivity: int | Fraction) -> None:
        self.scale = _drawable(laplace_scale(price, l1_sensitivity), LARGEST_LAPLACE)
        self.loss = Loss.of_pure(price.nano)

    @property
    def variance(self) -> float:
        """The variance of each entry's noise."""
        return discrete_laplace_variance(self.scale)

    def release(self, nonprivate: NDArray[Any], sampler: Sampler) -> NDArray[np.int64]:
        """Return the vector with noise on every entry."""
        return _whole(nonprivate) + sampler.discrete_laplace(self.scale, nonprivate.shape)

    def describe(self) -> Description:
        epsilon = (self.loss.pure or 0) / NANO
        sensitivity = f"Δ₁ = {float(self.scale) * epsilon:.6g} (whole numbers released)"
        return Description(sensitivity, f"b = {float(self.scale):.6g}")

    def __repr__(self) -> str:
        return f"DiscreteLaplace(scale={self.scale})"


class DiscreteGaussian:
    """Add independent integers with ``P(k) ∝ e^(-k²/2σ²)`` to a vector of integers.

    Parameters
    ----------
    price
        What the release may cost, with δ > 0; σ² follows from what a ledger counts, so the release fits a ledger whose cap is
        the price.
    l2_sensitivity_squared
        Δ₂²: the largest sum of squared changes of the vector's entries between neighbours.

    Examples
    --------
    >>> from colonnade.privacy.randomness import SystemRandomness
    >>> from colonnade.privacy.samplers import ExactSampler
    >>> mechanism = DiscreteGaussian(Price.of(1.0, 1e-5), 1)
    >>> round(float(mechanism.sigma_squared) ** 0.5, 3), mechanism.loss.epsilon(1e-5) <= 1.0
    (3.742, True)
    >>> mechanism.release(np.array([10, 20]), ExactSampler(SystemRandomness())).dtype
    dtype('int64')

    Notes
    -----
    Canonne, Kamath and Steinke (2020). For an integer shift s, completing the square gives ``Σ_k P(k)^α P(k-s)^(1-α) =
    e^(α(α-1)s²/2σ²) · Σ_k e^(-(k-t)²/2σ²) / Σ_k e^(-k²/2σ²)`` with ``t = (1-α)s``, and such a sum is largest at
    integer t, so the last factor is at most 1: ``D_α ≤ αs²/2σ²`` at every order. Independent entries add to
    ``αΔ₂²/2σ²``, which is ρ-zCDP with ``ρ = Δ₂²/2σ²``. No L1 term and no dimension enters.

    Privacy
    -------
    Guarantee
        μ-GDP with μ = κ·Δ₂, κ at most a little above 1/σ, and so (ε, δ)-DP at the price (docs/proofs/gaussian-losses.md); and
        ρ-zCDP with ρ = Δ₂²/2σ² (docs/proofs/discrete-gaussian.md).
    Neighbours
        Those for which Δ₂ was computed; in this library zero-out.
    Adversary
        Anybody who reads the released vector.
    Numerics
        Integer noise on integers; σ² is an exact rational, rounded up, and the sampler exact. Sums wrap at 64 bits,
        which is post-processing.
    Checked by
        tests/privacy/test_mechanisms.py, tests/audit/test_distinguish.py
    """

    __slots__ = ("loss", "sigma_squared")

    name = "discrete Gaussian"

    def __init__(self, price: Price, l2_sensitivity_squared: int | Fraction) -> None:
        self.sigma_squared = _drawable(gaussian_sigma_squared(price, l2_sensitivity_squared), LARGEST_SIGMA_SQUARED)
        self.loss = gaussian_loss(l2_sensitivity_squared, self.sigma_squared)

    @property
    def variance(self) -> float:
        """A bound on the variance of each entry's noise, close to it from σ = 1 up."""
        return float(self.sigma_squared)

    def release(self, nonprivate: NDArray[Any], sampler: Sampler) -> NDArray[np.int64]:
        """Return the vector with noise on every entry."""
        return _whole(nonprivate) + sampler.discrete_gaussian(self.sigma_squared, nonprivate.shape)

    def describe(self) -> Description:
        rho = self.loss.renyi[-1] / (float(ORDERS[-1]) * NANO)
        sigma = math.sqrt(self.sigma_squared)
        return Description(f"Δ₂ = {math.sqrt(2 * rho) * sigma:.6g} (whole numbers released)", f"σ = {sigma:.6g}")

    def __repr__(self) -> str:
        return f"DiscreteGaussian(sigma_squared={self.sigma_squared})"


class GaussianCounts(DiscreteGaussian):
    """Discrete Gaussian noise on counts, in steps of a part of a person where the noise is small.

    Noise of less than a few people on whole numbers costs more than a continuous Gaussian of the same variance: its steps are
    seen. In steps of 1/height it costs the same (docs/proofs/gaussian-losses.md#bound).

    Parameters
    ----------
    price
        What the release may cost, with δ > 0.
    cells
        In how many cells one person is, by one each.

    Examples
    --------
    >>> GaussianCounts(Price.of(1.0, 1e-6), 1).height, GaussianCounts(Price.of(10.0, 1e-6), 1).height
    (1, 8)

    Privacy
    -------
    Guarantee
        That of `DiscreteGaussian`: a count times the height is a whole number that a person moves by the height
        (docs/proofs/gaussian-losses.md#bound).
    Neighbours
        Zero-out: a person leaves so many cells.
    Adversary
        Anybody who reads the released counts.
    Numerics
        Integer noise on integers; the height is a power of two, so dividing by it is exact.
    Checked by
        tests/privacy/test_mechanisms.py, tests/audit/test_distinguish.py
    """

    __slots__ = ("height",)

    def __init__(self, price: Price, cells: int) -> None:
        self.height = counting_height(ledger_rho(price) / cells)
        super().__init__(price, cells * self.height**2)

    @property
    def variance(self) -> float:
        """A bound on the variance of each count's noise, in people."""
        return float(self.sigma_squared) / self.height**2

    def release(self, nonprivate: NDArray[Any], sampler: Sampler) -> NDArray[Any]:
        """Return the counts with noise: whole numbers, or in steps of 1/height."""
        noisy = super().release(_whole(nonprivate) * self.height, sampler)
        return noisy if self.height == 1 else noisy / self.height


def count_noise(price: Price, cells: int) -> DiscreteLaplace | GaussianCounts:
    """Return the noise of counts in which one person is in so many cells.

    Examples
    --------
    >>> count_noise(Price.of(1.0), 2), count_noise(Price.of(1.0, 1e-6), 2).name
    (DiscreteLaplace(scale=2), 'discrete Gaussian')
    """
    return DiscreteLaplace(price, cells) if price.delta == 0 else GaussianCounts(price, cells)


def replaced_count_loss(loss: Loss) -> Loss:
    """Return what counts cost if a record is replaced by another: twice as many cells move, by one each."""
    return Loss.of_pure(2 * loss.pure) if loss.pure is not None else loss * 2
