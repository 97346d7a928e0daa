"""Agreeing on an order of rows: whose lists, how long they look, how ids are compared, what is told of the result.

No column enters, and no statistic leaves. The only number that may leave is how many people are common. It leaves as the plan
says and the policy allows: exactly (``"public"``), with discrete Laplace noise (``"noisy"``), or not at all (``"hidden"``).
Every member reads the same plan and arrives at the same terms, or refuses. Nothing in them is private.

A matching tells peers something exactly (`told`): who is in common, or in a union how many are. That is not
differentially private. A policy admits it by name, and it is a line in the ledger.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from colonnade.errors import BadInput, PlanMismatch
from colonnade.plan import Parameter, Plan, Step
from colonnade.privacy.accounting import NOTHING, Loss, Price
from colonnade.privacy.laws import Mechanism
from colonnade.privacy.laws.additive import DiscreteLaplace
from colonnade.result import Opening
from colonnade.schema import Schema
from colonnade.secure.matching import slots_for
from colonnade.steps.kind import (
    Admission,
    Earlier,
    RowOrderKind,
    StepChannel,
    StepKind,
    WholeStep,
    nothing_earlier,
    whole_parameter,
)

SIZES = ("declared", "public", "noisy", "hidden")
"""What the coordinator is told of how many people are common: the number (public before, or made so), a noisy one, nothing."""

POINTS = 1 << 14
SLOTS = 1 << 16
LARGEST_CAPACITY = 1 << 26
RULES = frozenset({"kind", "form", "strip", "case"})

INTERSECTION = (
    "Every party learns which of its own ids are in every list. It learns nothing about its other ids, nor about anyone's list "
    "but its declared length ({lengths}), as long as at least two parties besides {leader} do not pool what they see; "
    "otherwise (and always with two parties) the pool learns which of the ids of {leader} the others have. "
    "This is not differentially private: a party may bring ids only to see whether they are common, and policies bound how often."
)
PUBLIC = "That the listed people take part is public; which of them a party has is told to nobody."
UNION = (
    "Both parties learn positions for the union of their lists, and nobody learns who is in common. {leader} sees how many "
    "pseudonyms coincide, and so how many people are in common. Where the size is public, both do. Secure studies on this "
    "order cover the people in common."
)
TOLD = {
    "declared": "The number of people had been declared public.",
    "public": "The coordinator learns the exact number of people.",
    "noisy": "The coordinator learns the number of people with discrete Laplace noise; any party knows it exactly.",
    "hidden": "The coordinator learns nothing about the number of people.",
}


@dataclass(frozen=True, kw_only=True)
class IdRules:
    """How ids are brought into one form before they are compared; part of what every party signs.

    Parameters
    ----------
    kind
        ``"text"`` (whole numbers count as their digits) or ``"whole"`` (text is read as a number).
    form
        Unicode's ``"NFC"``, ``"NFKC"`` or ``""`` for none.
    strip
        Whether white space at both ends is taken off.
    case
        ``"keep"`` or ``"fold"``.
    """

    kind: str = "text"
    form: str = "NFC"
    strip: bool = True
    case: str = "keep"

    def __post_init__(self) -> None:
        if self.kind not in ("text", "whole") or self.form not in ("NFC", "NFKC", ""):
            raise BadInput(
                'ids are compared as "text" or "whole" numbers; their form is "NFC", "NFKC" or "".',
                remedy='For example kind="text", form="NFC".',
            )
        if self.case not in ("keep", "fold") or type(self.strip) is not bool:
            raise BadInput(
                'case is "keep" or "fold", and strip is True or False.', remedy='For example case="fold", strip=True.'
            )

    @classmethod
    def read(cls, parameters: Mapping[str, Parameter]) -> "IdRules":
        """Read the rules from a plan's step."""
        names = ("kind", "form", "strip", "case")
        if any(name not in parameters for name in names):
            raise PlanMismatch(
                "The plan does not say how ids are compared.", remedy='For example kind="text", form="NFC".'
            )
        return cls(**{name: parameters[name] for name in names})  # type: ignore[arg-type]  # checked above

    def parameters(self) -> dict[str, Parameter]:
        """Return the rules as they stand in a plan."""
        return {"kind": self.kind, "form": self.form, "strip": self.strip, "case": self.case}


@dataclass(frozen=True)
class Matching:
    """One matching.

    Parameters
    ----------
    capacities
        To how many ids each party's list is filled up, by party, in the plan's order: what is public of its length.
    rules
        How ids are compared.
    size
        One of `SIZES`.
    price
        What a noisy size offers.
    """

    capacities: Mapping[str, int]
    rules: IdRules
    size: str
    price: Price | None

    @classmethod
    def read(cls, plan: Plan, name: str) -> "Matching":
        """Read a matching from a plan; refuse one on which the parties could not agree."""
        steps = {step.party: step for step in plan.steps if step.name == name}
        kinds = {step.kind for step in steps.values()}
        if len(steps) < 2 or len(kinds) != 1 or any(step.columns for step in steps.values()):
            raise PlanMismatch("Lists are matched between two or more parties, in one way.")
        rules = {IdRules.read(step.parameters) for step in steps.values()}
        terms = {(step.parameters.get("size"), step.price) for step in steps.values()}
        if len(rules) != 1 or len(terms) != 1:
            raise PlanMismatch("The parties of an alignment are asked for different things.")
        if len(steps) != 2 and kinds == {UnionMatching.name}:
            raise PlanMismatch(
                "A union is of two lists: with more, products of two parties' columns would have to be multiplied by a third's "
                "indicator as well, and the secure channel opens products of two.",
                remedy='Align more parties with mode="intersection".',
            )
        size, price = terms.pop()
        if size not in SIZES or (size == "noisy") != (price is not None) or (price is not None and price.delta > 0):
            raise PlanMismatch("A noisy size has a price without delta; nothing else about an alignment has one.")
        return cls({party: _capacity(step) for party, step in steps.items()}, rules.pop(), str(size), price)

    @property
    def leader(self) -> str:
        """Who finds out first: the party with the shortest list, the first of them in the plan."""
        return min(self.capacities, key=self.capacities.__getitem__)

    @property
    def followers(self) -> tuple[str, ...]:
        """Everyone else, in the plan's order."""
        return tuple(party for party in self.capacities if party != self.leader)

    @property
    def members(self) -> tuple[str, ...]:
        """Everyone who takes part, in canonical order."""
        return tuple(sorted(self.capacities))

    @property
    def places(self) -> int:
        """No more people than this can be common."""
        return min(self.capacities.values())

    @cached_property
    def rounds(self) -> int:
        """In how many blocks the longest list is worked through."""
        return _blocks(max(self.capacities.values()), POINTS)

    @cached_property
    def map_rounds(self) -> int:
        """In how many blocks the longest map is sent."""
        return _blocks(max(slots_for(self.capacities[party]) for party in self.followers), SLOTS)

    @property
    def last_turn(self) -> int:
        """The turn in which everybody keeps the result."""
        return self.rounds + self.map_rounds + 3

    @property
    def points_per_block(self) -> int:
        """How many points a letter holds at most."""
        return POINTS

    @cached_property
    def union_rounds(self) -> int:
        """In how many blocks the longest union there could be is sent."""
        return _blocks(sum(self.capacities.values()), POINTS)

    @property
    def union_last_turn(self) -> int:
        """The turn in which both parties keep their places in the union."""
        return 3 * self.rounds + 2 * self.union_rounds + 2

    def block(self, party: str, number: int) -> tuple[int, int]:
        """Return where the block ``number`` (from 1) of a party's list begins and ends; empty past its end."""
        capacity = self.capacities[party]
        return min((number - 1) * POINTS, capacity), min(number * POINTS, capacity)

    def map_block(self, party: str, number: int) -> tuple[int, int]:
        """Return where the block ``number`` (from 1) of a party's map begins and ends."""
        slots = slots_for(self.capacities[party])
        return min((number - 1) * SLOTS, slots), min(number * SLOTS, slots)


class MatchingStep(StepKind):
    """One party's list in a matching of lists (`colonnade.conversations.matching`).

    Sensitivity of the number of people in common: a person who leaves any party's list changes it by at most one, also where
    ids become equal under the rules (docs/proofs/alignment.md#rules).
    """

    title: ClassVar[str] = "discrete Laplace on the number of people"
    channel: ClassVar[StepChannel] = StepChannel.LISTS
    admission: ClassVar[Admission] = Admission.ALIGNMENT
    row_order_kind: ClassVar[RowOrderKind] = RowOrderKind.ANY
    parameters: ClassVar[frozenset[str]] = RULES | {"capacity", "size"}
    together: ClassVar[bool] = True
    mode: ClassVar[str]
    """What users call it."""
    told: ClassVar[str]
    """What peers are told exactly, in words for the ledger."""
    makes_union: ClassVar[bool] = False

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.matching = Matching.read(plan, step.name)
        self.rules = self.matching.rules
        self.capacity = self.matching.capacities[step.party]
        price = self.matching.price
        self.size_law = None if price is None else DiscreteLaplace(price, 1)

    def law(self, price: Price) -> Mechanism:
        """Return discrete Laplace noise on the number of people."""
        return DiscreteLaplace(price, 1)

    @property
    def loss(self) -> Loss:
        """What this party's ledger is debited: everyone's membership enters the one number."""
        return NOTHING if self.size_law is None else self.size_law.loss

    @classmethod
    def discloses(cls, step: Step) -> bool:
        """Return whether the coordinator is told exactly how many people are common."""
        return step.parameters.get("size") == "public"

    @classmethod
    def members(cls, plan: Plan, name: str) -> tuple[str, ...]:
        """Return the parties whose lists are matched."""
        return Matching.read(plan, name).members

    @classmethod
    def openings(cls, whole: WholeStep, losses: Mapping[str, Loss], title: str) -> tuple[Opening, ...]:
        """Return the number of people, to the coordinator, and who is common, to the parties."""
        first = whole.first
        size, price = first.parameters["size"], first.price
        told: Loss | None = NOTHING if size in ("hidden", "declared") else None
        if price is not None:
            told = Loss.of_pure(price.nano)
        name = "number of people with discrete Laplace noise" if price is not None else f"number of people: {size}"
        return (Opening(name, tuple(whole.steps), (told, None)),)

    @classmethod
    def assumptions(cls, whole: WholeStep) -> tuple[str, ...]:
        """Return what an alignment shows, and what that rests on."""
        matching = Matching.read(whole.plan, whole.name)
        return (cls._shown(matching), TOLD[matching.size])

    @classmethod
    def last_turn(cls, matching: Matching) -> int:
        """Return the last turn of the conversation."""
        return matching.last_turn

    @classmethod
    def _shown(cls, matching: Matching) -> str:
        """Say what a matching of this kind shows."""
        raise NotImplementedError


class ListMatching(MatchingStep):
    """One party's list in the intersection of all parties' lists."""

    name: ClassVar[str] = "matching"
    conversation: ClassVar[str] = "matching"
    mode: ClassVar[str] = "intersection"
    told: ClassVar[str] = "who is in common"

    @classmethod
    def _shown(cls, matching: Matching) -> str:
        lengths = ", ".join(f"{party} {capacity:,}" for party, capacity in matching.capacities.items())
        return INTERSECTION.format(lengths=lengths, leader=matching.leader)


class UnionMatching(MatchingStep):
    """One party's list in the union of two lists."""

    name: ClassVar[str] = "union"
    conversation: ClassVar[str] = "union"
    mode: ClassVar[str] = "union"
    told: ClassVar[str] = "how many are in common"
    makes_union: ClassVar[bool] = True

    @classmethod
    def last_turn(cls, matching: Matching) -> int:
        """Return the last turn of the conversation."""
        return matching.union_last_turn

    @classmethod
    def _shown(cls, matching: Matching) -> str:
        return UNION.format(leader=tuple(matching.capacities)[1])


class Cohort(StepKind):
    """One party's rows in the order of a public list (`colonnade.conversations.agreements`)."""

    name: ClassVar[str] = "cohort"
    title: ClassVar[str] = "public list"
    channel: ClassVar[StepChannel] = StepChannel.LISTS
    conversation: ClassVar[str] = "cohort"
    admission: ClassVar[Admission] = Admission.ALIGNMENT
    row_order_kind: ClassVar[RowOrderKind] = RowOrderKind.ANY
    mode: ClassVar[str] = "cohort"
    told: ClassVar[str] = ""
    parameters: ClassVar[frozenset[str]] = RULES | {"listed"}

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.members(plan, step.name)
        self.rules = IdRules.read(step.parameters)
        if not isinstance(step.parameters.get("listed"), str):
            raise PlanMismatch("The plan does not say which public list is meant.")

    @property
    def loss(self) -> Loss:
        """Nothing is told that was not public."""
        return NOTHING

    @classmethod
    def discloses(cls, step: Step) -> bool:
        """Return False: the list is public."""
        return False

    @classmethod
    def members(cls, plan: Plan, name: str) -> tuple[str, ...]:
        """Return the parties that have the step."""
        steps = [step for step in plan.steps if step.name == name]
        if len(steps) < 2 or any(step.kind != cls.name or step.columns or step.price is not None for step in steps):
            raise PlanMismatch("A public list is agreed to by two or more parties, and costs nothing.")
        rules = {IdRules.read(step.parameters) for step in steps}
        if len(rules) != 1 or len({step.parameters.get("listed") for step in steps}) != 1:
            raise PlanMismatch("The parties are shown different lists, or compare ids differently.")
        return tuple(sorted(step.party for step in steps))

    @classmethod
    def openings(cls, whole: WholeStep, losses: Mapping[str, Loss], title: str) -> tuple[Opening, ...]:
        """Return one opening that tells nothing."""
        return (Opening(title, tuple(whole.steps), (NOTHING,)),)

    @classmethod
    def assumptions(cls, whole: WholeStep) -> tuple[str, ...]:
        """Return what an alignment by a public list shows."""
        return (PUBLIC,)


AligningStep = MatchingStep | Cohort
"""One party's part in agreeing on an order of rows."""

MODES = tuple(kind.mode for kind in (ListMatching, Cohort, UnionMatching))
"""The modes of alignment, as users call them."""


def _capacity(step: Step) -> int:
    return whole_parameter(step.parameters, "capacity", LARGEST_CAPACITY)


def _blocks(length: int, block: int) -> int:
    return max(1, -(-length // block))
