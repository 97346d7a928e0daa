"""Discrete Laplace noise on integers: pure differential privacy. Proof: docs/proofs/discrete-laplace.md."""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.privacy.calibration import discrete_laplace_variance, laplace_scale
from colonnade.privacy.laws import Description
from colonnade.privacy.laws.sampler import LARGEST_SCALE, Sampler
from colonnade.privacy.loss import Loss
from colonnade.privacy.price import NANO, Price

__all__ = ["DiscreteLaplace"]


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
        self.scale = laplace_scale(price, l1_sensitivity)
        if self.scale > LARGEST_SCALE:
            raise BadInput(
                "The noise would be too large to draw.", remedy="Raise epsilon or use a coarser fixed point."
            )
        self.loss = Loss.of_pure(price.nano)

    @property
    def variance(self) -> float:
        """The variance of each entry's noise."""
        return discrete_laplace_variance(self.scale)

    def release(self, nonprivate: NDArray[Any], sampler: Sampler) -> NDArray[np.int64]:
        """Return the vector with noise on every entry."""
        if nonprivate.dtype.kind not in "iu":
            raise BadInput("Discrete noise is added to whole numbers.")
        return nonprivate.astype(np.int64) + sampler.discrete_laplace(self.scale, nonprivate.shape)

    def describe(self) -> Description:
        """Return sensitivity and scale in words."""
        epsilon = (self.loss.pure or 0) / NANO
        sensitivity = f"Δ₁ = {float(self.scale) * epsilon:.6g} (whole numbers released)"
        return Description(sensitivity, f"b = {float(self.scale):.6g}")

    def __repr__(self) -> str:
        return f"DiscreteLaplace(scale={self.scale})"
