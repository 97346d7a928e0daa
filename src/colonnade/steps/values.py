"""Whole numbers of one party: each person's own, perturbed one by one, or their total."""

from typing import ClassVar

from colonnade.errors import BadInput, PlanMismatch
from colonnade.plan import EVENT, Plan, Step
from colonnade.privacy.laws import Mechanism
from colonnade.privacy.laws.laplace import DiscreteLaplace
from colonnade.privacy.laws.values import PerturbedValues, WholeValues, valid_change
from colonnade.privacy.loss import Loss
from colonnade.privacy.price import Price
from colonnade.schema import Schema
from colonnade.steps.kind import Earlier, StepKind, nothing_earlier

__all__ = ["Total", "ValueStep", "Values"]


class ValueStep(StepKind):
    """A step about one column of whole numbers. Neighbours differ in one value by at most ``change``."""

    parameters: ClassVar[frozenset[str]] = frozenset({"change"})

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        if len(step.columns) != 1:
            raise BadInput("A moment takes one column per party.")
        self.change = valid_change(step.parameters.get("change"))
        if (plan.relation == EVENT) != (self.change != "bounds"):
            raise PlanMismatch("The plan's relation is not the one that its change of a value belongs to.")
        self.values = WholeValues.of(schema[step.columns[0]], step.columns[0], self.change)
        if plan.people * self.values.high >= 2**62:
            raise BadInput("A total of this column could exceed eight bytes.", remedy="Narrow its bounds.")

    def replaced_loss(self, loss: Loss) -> Loss | None:
        """Return the same loss where the whole value is protected: any value may take its place."""
        return loss if self.change == "bounds" else None


class Values(ValueStep):
    """Each person's whole number at this party, perturbed person by person.

    Sensitivity: a person's record decides one entry. Between neighbours it changes by at most ``change``, or by the width of the
    bounds for ``"bounds"``. Checked by tests/party/test_moment_statistics.py.
    """

    name: ClassVar[str] = "values"
    title: ClassVar[str] = "whole numbers with discrete Laplace noise, person by person"

    def law(self, price: Price) -> Mechanism:
        """Return discrete Laplace noise on every entry."""
        return PerturbedValues(price, self.values)

    @property
    def release_bytes(self) -> int | None:
        """One packed number per person."""
        if self.price is None:
            return None
        return self.people * int(self.values.carrier(self.price).dtype[-1])


class Total(ValueStep):
    """The sum of one column.

    Sensitivity: one person moves it by at most ``change``, or by the width of the bounds for ``"bounds"``. Checked by
    tests/party/test_moment_statistics.py.
    """

    name: ClassVar[str] = "total"
    title: ClassVar[str] = "sum of one column with discrete Laplace noise"

    def law(self, price: Price) -> Mechanism:
        """Return discrete Laplace noise."""
        return DiscreteLaplace(price, self.values.sensitivity)

    @property
    def release_bytes(self) -> int:
        """One number."""
        return 8
