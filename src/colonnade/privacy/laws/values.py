"""Discrete Laplace noise on each person's own number: local differential privacy for whole numbers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.privacy.laws import Description, Sampler
from colonnade.privacy.laws.laplace import DiscreteLaplace
from colonnade.privacy.laws.whole_values import WholeValues
from colonnade.privacy.price import Price

__all__ = ["PerturbedValues"]


class PerturbedValues:
    """Add an independent integer with ``P(k) ∝ e^(-|k|/scale)`` to each person's value.

    Parameters
    ----------
    price
        What the release may cost; δ is not used.
    values
        The column's bounds, and by how much neighbours differ in it.

    Examples
    --------
    >>> from colonnade.privacy.randomness import SystemRandomness
    >>> from colonnade.privacy.samplers import ExactSampler
    >>> mechanism = PerturbedValues(Price.of(0.5), WholeValues(0, 20, 1))
    >>> mechanism.scale, mechanism.release(np.array([10, 20, 0]), ExactSampler(SystemRandomness())).dtype.str
    (Fraction(2, 1), '<u2')

    Notes
    -----
    A person's value decides one entry and no other, and that entry is `DiscreteLaplace` with Δ₁ the largest change, so its
    proof is the proof here. The noise is drawn before the value is looked at (``draw``, then ``apply``), so whoever holds some of
    the rows can perturb them alone.

    Privacy
    -------
    Guarantee
        Pure ε-DP at the price's ε, for each entry by itself: local differential privacy.
    Neighbours
        One person's value at one party changes by at most the stated amount (event); with the width of the bounds, it is
        replaced by any other, hence zero-out.
    Adversary
        Whoever reads all entries; no trust in the coordinator or in peers.
    Numerics
        Integer noise on integers, scale rational, sampler exact. What travels is clipped beyond 48 scales, which is
        post-processing and moves a mean by less than 10⁻¹⁹ scales.
    Checked by
        tests/party/test_moment_statistics.py
    """

    __slots__ = ("_noise", "carrier", "loss", "values")

    name = "discrete Laplace, person by person"
    block = 65_536

    def __init__(self, price: Price, values: WholeValues) -> None:
        self._noise = DiscreteLaplace(price, values.sensitivity)
        self.values = values
        self.carrier = values.carrier(price)
        self.loss = self._noise.loss

    @property
    def scale(self) -> Any:
        """The scale of the noise, exactly."""
        return self._noise.scale

    def release(self, nonprivate: NDArray[Any], sampler: Sampler) -> NDArray[Any]:
        """Return every value with noise of its own, block by block."""
        out = np.empty(len(nonprivate), dtype=self.carrier.dtype)
        for start in range(0, len(nonprivate), self.block):
            part = nonprivate[start : start + self.block]
            out[start : start + self.block] = self.apply(part, self.draw(len(part), sampler), sampler)
        return out

    def draw(self, people: int, sampler: Sampler) -> NDArray[np.int64]:
        """Draw the noise of some people."""
        return self._noise.release(np.zeros(people, dtype=np.int64), sampler)

    def apply(self, nonprivate: NDArray[Any], coins: NDArray[np.int64], sampler: Sampler) -> NDArray[Any]:  # noqa: ARG002
        """Add noise that was drawn before."""
        if nonprivate.ndim != 1 or nonprivate.dtype.kind not in "iu":
            raise BadInput("Discrete noise is added to one whole number a person.")
        return self.carrier.pack(nonprivate.astype(np.int64) + coins)

    def describe(self) -> Description:
        """Return sensitivity and scale in words."""
        return self._noise.describe()

    def __repr__(self) -> str:
        return f"PerturbedValues(scale={self.scale}, {self.values})"
