"""Secrets that the parties of a plan agree on: a key, or a division of the people by one. Nothing is released or paid."""

import hashlib
from collections.abc import Mapping
from typing import ClassVar

from colonnade.errors import PlanMismatch
from colonnade.plan import Plan, Step
from colonnade.privacy.loss import Loss
from colonnade.protocol import codec
from colonnade.result import Opening
from colonnade.schema import Schema
from colonnade.secure.mail import OVERHEAD
from colonnade.steps.kind import Admission, Channel, Earlier, RowOrder, StepKind, Steps, nothing_earlier
from colonnade.steps.traffic import HELLO, SEED, SMALL, Forecast

__all__ = ["KEY_BYTES", "PARTS", "GroupKey", "KeyStep", "Split", "key_holders", "part_identity"]

KEY_BYTES = 32
PARTS = ("train", "test")


class KeyStep(StepKind):
    """One party's part in agreeing on a secret."""

    channel: ClassVar[Channel] = Channel.KEY
    admission: ClassVar[Admission] = Admission.NOTHING
    row_order: ClassVar[RowOrder] = RowOrder.ANY

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.members(plan, step.name)

    @classmethod
    def members(cls, plan: Plan, name: str) -> tuple[str, ...]:
        """Return the parties that have the step: two or more, and none of them asked for anything else in it."""
        steps = [step for step in plan.steps if step.name == name]
        if len(steps) < 2 or any(
            step.statistic != cls.name or step.columns or step.price is not None for step in steps
        ):
            raise PlanMismatch("A secret is agreed on by two or more parties, and costs and releases nothing.")
        plan.require_named()
        return tuple(sorted(step.party for step in steps))

    @classmethod
    def discloses(cls, step: Step) -> bool:
        """Nothing leaves."""
        return False

    @classmethod
    def openings(
        cls,
        plan: Plan,
        steps: Steps,
        losses: Mapping[str, Loss],
        schemas: Mapping[str, Schema],
        title: str,
    ) -> tuple[Opening, ...]:
        """Nothing is opened."""
        return ()

    @classmethod
    def assumptions(cls, plan: Plan, steps: Steps) -> tuple[str, ...]:
        """Nothing is assumed: what a key is used for says what rests on it."""
        return ()


class GroupKey(KeyStep):
    """A key that the parties share (`colonnade.conversations.group_key`)."""

    name: ClassVar[str] = "group-key"
    title: ClassVar[str] = "group key"
    conversation: ClassVar[str] = "group-key"
    keeps_key: ClassVar[bool] = True

    @classmethod
    def forecast(
        cls,
        plan: Plan,
        steps: Steps,
        schemas: Mapping[str, Schema],
        forecast: Forecast,
        *,
        kept: bool,
    ) -> bool:
        """Add the rounds: recall, greet, commit, reveal, settle; and in the end, forget."""
        parties = list(steps)
        small, half = dict.fromkeys(parties, SMALL), dict.fromkeys(parties, SMALL // 2)
        forecast.round(small, half)
        if not kept:
            letters = dict.fromkeys(parties, (len(parties) - 1) * (OVERHEAD + 2 * SEED) + SMALL)
            forecast.round(small, dict.fromkeys(parties, HELLO + SMALL))
            forecast.round(dict.fromkeys(parties, len(parties) * HELLO), letters)
            forecast.round(letters, letters)
            forecast.round(letters, half)
        forecast.round(small, half)
        return True


class Split(KeyStep):
    """A division of the people in two by a keyed hash (`colonnade.conversations.group_key`)."""

    name: ClassVar[str] = "split"
    title: ClassVar[str] = "division of people by a keyed hash"
    conversation: ClassVar[str] = "group-key"
    parameters: ClassVar[frozenset[str]] = frozenset({"test"})

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.share = _share(step)

    @classmethod
    def members(cls, plan: Plan, name: str) -> tuple[str, ...]:
        """Return the parties that have the step; all of them are asked for the same division."""
        members = super().members(plan, name)
        if len({_share(step) for step in plan.steps if step.name == name}) != 1:
            raise PlanMismatch("The parties are asked for different divisions.")
        return members


def part_identity(plan: Plan, part: str) -> str:
    """Return the name of a part as an order of rows: a function of the plan, which names the order that is divided."""
    return hashlib.sha256(b"colonnade split 1\0" + codec.digest(plan) + part.encode()).hexdigest()


def key_holders(plan: Plan, name: str) -> list[str]:
    """Return the parties that agree on a key in the step of a given name."""
    return [step.party for step in plan.steps if step.name == name and step.statistic == GroupKey.name]


def _share(step: Step) -> float:
    """Return which share of people belongs to the second part."""
    share = step.parameters.get("test")
    if type(share) is not float or not 0 < share < 1:
        raise PlanMismatch("A division has a share between 0 and 1.")
    return share
