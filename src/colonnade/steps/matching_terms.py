"""A matching of lists, read from a plan: whose lists, how long they look, how ids are compared, what is told of the result.

Everyone who takes part reads the same plan and arrives at the same object, or refuses. Nothing in it is private.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from colonnade.errors import BadInput, PlanMismatch
from colonnade.plan import Parameter, Plan, Step
from colonnade.privacy.price import Price
from colonnade.secure.hidden_map import slots_for

__all__ = ["COHORT", "LARGEST_CAPACITY", "MATCHING", "MODES", "SIZES", "UNION", "IdRules", "Matching", "is_aligning"]

MATCHING, COHORT, UNION = "matching", "cohort", "union"
"""The statistics by which a plan asks for an order of rows."""

MODES = {MATCHING: "intersection", COHORT: "cohort", UNION: "union"}
"""What users call them."""

SIZES = ("declared", "public", "noisy", "hidden")
"""What the coordinator is told of how many people are common: the number (public before, or made so), a noisy one, nothing."""

POINTS = 1 << 14
SLOTS = 1 << 16
LARGEST_CAPACITY = 1 << 26


def is_aligning(step: Step) -> bool:
    """Return whether a step is one party's part in agreeing on an order of rows."""
    return step.statistic in (MATCHING, COHORT, UNION)


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
            raise BadInput('ids are compared as "text" or "whole" numbers; their form is "NFC", "NFKC" or "".')
        if self.case not in ("keep", "fold") or type(self.strip) is not bool:
            raise BadInput('case is "keep" or "fold", and strip is True or False.')

    @classmethod
    def read(cls, parameters: Mapping[str, Parameter]) -> "IdRules":
        """Read the rules from a plan's step."""
        names = ("kind", "form", "strip", "case")
        if any(name not in parameters for name in names):
            raise PlanMismatch("The plan does not say how ids are compared.")
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
        if len(steps) < 2 or any(step.statistic not in (MATCHING, UNION) or step.columns for step in steps.values()):
            raise PlanMismatch("Lists are matched between two or more parties.")
        rules = {IdRules.read(step.parameters) for step in steps.values()}
        terms = {(step.parameters.get("size"), step.price) for step in steps.values()}
        if len(rules) != 1 or len(terms) != 1:
            raise PlanMismatch("The parties of an alignment are asked for different things.")
        if len(steps) != 2 and any(step.statistic == UNION for step in steps.values()):
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

    def last_turn_of(self, statistic: str) -> int:
        """Return the last turn of a conversation of this kind."""
        return self.last_turn if statistic == MATCHING else self.union_last_turn

    @property
    def points_a_block(self) -> int:
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


def _capacity(step: Step) -> int:
    value = step.parameters.get("capacity")
    if type(value) is not int or not 1 <= value <= LARGEST_CAPACITY:
        raise BadInput(f"A capacity is a whole number from 1 to {LARGEST_CAPACITY:,}.")
    return value


def _blocks(length: int, block: int) -> int:
    return max(1, -(-length // block))
