"""Every person's coded row, each entry perturbed: the local-perturbation baseline of paper 002, Algorithm 3."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.party.steps.categories import only_parameters
from colonnade.party.steps.coding import Coding
from colonnade.party.table.private_table import PrivateTable
from colonnade.plan import Plan, Step
from colonnade.privacy.laws import Description, Mechanism, Sampler
from colonnade.privacy.laws.gaussian import DiscreteGaussian
from colonnade.privacy.loss import Loss
from colonnade.privacy.price import Price
from colonnade.schema import Schema

__all__ = ["Rows"]

LARGEST = 2**31 - 1


class Rows:
    """All rows of one party as integers, columns along the first axis.

    Sensitivity: zeroing a person's record zeroes one row, whose squared length is at most ``row_bound``, so Δ₂² = ``row_bound``.
    The number of rows is public; under add/remove it would give the person away (paper 002 claims that relation, wrongly).
    Checked by tests/party/test_statistics.py.
    """

    def __init__(self, plan: Plan, step: Step, schema: Schema) -> None:
        parameters = only_parameters(step, frozenset({"scale"}))
        scale = parameters.get("scale")
        if type(scale) is not int or scale < 1:
            raise BadInput("A step lacks its scale.")
        self.coding = Coding(step.columns, schema, scale=scale, row_bound=scale**2 * len(step.columns))
        self.people = plan.people

    def mechanism(self, price: Price) -> Mechanism:
        """Return discrete Gaussian noise on every entry."""
        return _Narrow(DiscreteGaussian(price, self.coding.row_bound), self.coding.scale)

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Return the coded rows."""
        return self.coding.rows(table, 0, self.people)


class _Narrow:
    """Discrete Gaussian noise whose result travels in four bytes an entry; clipping what is released is post-processing."""

    def __init__(self, inner: DiscreteGaussian, scale: int) -> None:
        if scale + 40 * inner.variance**0.5 > LARGEST:
            raise BadInput("The noise of a row does not fit four bytes.", remedy="Use a smaller scale=.")
        self._inner = inner
        self.name = inner.name

    @property
    def loss(self) -> Loss:
        """What one release costs."""
        return self._inner.loss

    def describe(self) -> Description:
        """Return sensitivity and scale in words."""
        return self._inner.describe()

    def release(self, nonprivate: NDArray[Any], sampler: Sampler) -> NDArray[np.int32]:
        """Perturb and narrow."""
        return np.clip(self._inner.release(nonprivate, sampler), -LARGEST, LARGEST).astype(np.int32)
