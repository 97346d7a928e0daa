"""Counts of one party's category: a histogram with noise, or one randomised report per person."""

from typing import ClassVar

from colonnade.errors import BadInput
from colonnade.plan import Plan, Step
from colonnade.privacy.laws import Mechanism
from colonnade.privacy.laws.channel import best_channel
from colonnade.privacy.laws.laplace import DiscreteLaplace
from colonnade.privacy.laws.response import RandomizedResponse
from colonnade.privacy.loss import Loss
from colonnade.privacy.price import Price
from colonnade.schema import Schema
from colonnade.steps.categories import MEMBERSHIP, category_of
from colonnade.steps.kind import Earlier, StepKind, nothing_earlier
from colonnade.steps.parameters import seed_parameter

__all__ = ["Histogram", "Reports"]


class Histogram(StepKind):
    """Counts of one party's category (`colonnade.steps.categories`).

    Sensitivity: under zero-out one person leaves one cell, which changes by exactly one (a missing record is in no cell), so
    Δ₁ = 1. Checked by tests/party/test_statistics.py.
    """

    name: ClassVar[str] = "histogram"
    title: ClassVar[str] = "histogram with discrete Laplace noise"
    parameters: ClassVar[frozenset[str]] = MEMBERSHIP
    sensitivity: ClassVar[int] = 1

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.category = category_of(plan, step, schema, earlier)
        self.size = self.category.size

    def law(self, price: Price) -> Mechanism:
        """Return discrete Laplace noise of scale 1/ε."""
        return DiscreteLaplace(price, self.sensitivity)

    @property
    def release_bytes(self) -> int:
        """Eight bytes per cell."""
        return 8 * self.size

    def replaced_loss(self, loss: Loss) -> Loss | None:
        """Return twice the loss: two cells move."""
        return None if loss.pure is None else Loss.of_pure(2 * loss.pure)


class Reports(StepKind):
    """Each person's category at this party (`colonnade.steps.categories`), randomised person by person.

    Sensitivity: a person's record decides that person's report and no other. ``sample`` (a rate) and ``seed`` restrict the
    reports to people chosen by public coins. Everyone can see who was chosen, so this saves bytes and buys no privacy: a chosen
    person pays the full ε. Checked by tests/party/test_statistics.py.
    """

    name: ClassVar[str] = "reports"
    title: ClassVar[str] = "randomised response"
    parameters: ClassVar[frozenset[str]] = frozenset({"sample", "seed"}) | MEMBERSHIP

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.category = category_of(plan, step, schema, earlier)
        self.size = self.category.size
        self.sample = _rate(step.parameters.get("sample", 1.0))
        self.seed = seed_parameter(step.parameters, default="00" * 32)

    def law(self, price: Price) -> Mechanism:
        """Return the response of least variance for this many categories at this price."""
        return RandomizedResponse(best_channel(self.size, price))

    @property
    def release_bytes(self) -> int | None:
        """A report's width per person who takes part."""
        if self.price is None:
            return None
        return int(self.people * self.sample) * best_channel(self.size, self.price).report_width

    def replaced_loss(self, loss: Loss) -> Loss:
        """Return the same loss: a report is as private either way."""
        return loss


def _rate(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise BadInput("sample must be a rate in (0, 1].")
    return float(value)
