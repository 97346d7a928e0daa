"""What a study will say, foreseen from its plan: rounds, and bytes to and from every member. No message is sent.

Everything of size in a message is either a plan, an array whose shape the plan fixes, or shares of rows whose number and width it
fixes; what is left (names, hashes, seals) is counted as a small constant a message.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod

from colonnade.coding.features import coded_width
from colonnade.coordinator.driver import Quote
from colonnade.errors import ColonnadeError
from colonnade.plan import Plan, Step
from colonnade.privacy.laws.channel import best_channel
from colonnade.privacy.laws.whole_values import WholeValues
from colonnade.privacy.loss import NOTHING
from colonnade.protocol import codec
from colonnade.protocol.messages import Propose
from colonnade.schema import Category, Numeric, Schema
from colonnade.secure.mail import OVERHEAD
from colonnade.secure.shamir import check_repetitions
from colonnade.steps.joint import Joint, is_joint

__all__ = ["Traffic", "foreseen"]

SMALL = 60
"""Bytes of a message besides the plan and what is listed here: names, tags, lengths."""
LOSS = len(NOTHING.to_bytes())
HELLO = 290
LETTER = OVERHEAD + 90
SEED = 32


@dataclass(frozen=True)
class Traffic:
    """What a study will say: rounds, and bytes to and from all members.

    Parameters
    ----------
    rounds
        Exchanges between the coordinator and the members.
    bytes_to, bytes_from
        To and from each member, in all rounds.
    """

    rounds: int = 0
    bytes_to: Mapping[str, int] = field(default_factory=dict)
    bytes_from: Mapping[str, int] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """All bytes in both directions."""
        return sum(self.bytes_to.values()) + sum(self.bytes_from.values())


def foreseen(plan: Plan, quote: Quote, schemas: Mapping[str, Schema]) -> Traffic | None:
    """Return what running a plan will say; ``None`` if one of its statistics is not foreseen here.

    Parameters
    ----------
    plan
        The study.
    quote
        What is paid for already: a release that is kept is fetched, not made.
    schemas
        The parties' public schemas.
    """
    tally = _Tally(len(codec.encode(Propose(plan=plan))))
    tally.round(
        dict.fromkeys((*plan.parties, *plan.compute_nodes), 0),
        {name: SMALL + sum(len(step) + LOSS + 4 for step in losses) for name, losses in quote.losses.items()},
    )
    for name in dict.fromkeys(step.name for step in plan.steps):
        steps = [step for step in plan.steps if step.name == name]
        if steps[0].statistic == "group-key":
            _agreement([step.party for step in steps], tally, kept=not any(quote.unpaid.values()))
            continue
        if is_joint(steps[0]):
            _joint(Joint.read(plan, name), tally, kept=not any(name in quote.unpaid[step.party] for step in steps))
            continue
        sizes = {step.party: _size(plan, step, schemas) for step in steps}
        if None in sizes.values():
            return None
        asked = dict.fromkeys(sizes, len(name))
        tally.round(asked, {party: (size or 0) + LOSS + SMALL + 80 for party, size in sizes.items()})
    return Traffic(tally.rounds, tally.to, tally.back)


class _Tally:
    """Adds up rounds; every request carries the plan."""

    def __init__(self, plan_bytes: int) -> None:
        self.plan_bytes = plan_bytes
        self.rounds = 0
        self.to: dict[str, int] = {}
        self.back: dict[str, int] = {}

    def round(self, to: Mapping[str, int], back: Mapping[str, int]) -> None:
        self.rounds += 1
        for member, size in to.items():
            self.to[member] = self.to.get(member, 0) + size + self.plan_bytes
        for member, size in back.items():
            self.back[member] = self.back.get(member, 0) + size


def _joint(joint: Joint, tally: _Tally, *, kept: bool) -> None:
    """Recall, greet, one turn a chunk and three more, conclude."""
    answer = 8 * joint.entries + sum(8 * own for own in _own_entries(joint).values())
    if kept:
        tally.round(dict.fromkeys(joint.members, SMALL), dict.fromkeys(joint.owners, answer + LOSS + SMALL))
        return
    tally.round(dict.fromkeys(joint.members, SMALL), dict.fromkeys(joint.members, SMALL // 2))
    tally.round(dict.fromkeys(joint.members, SMALL), dict.fromkeys(joint.members, HELLO + SMALL))
    arriving = dict.fromkeys(joint.members, len(joint.members) * HELLO)
    for turn in range(1, len(joint.chunks) + 3):
        sent, received = _letters(joint, turn)
        tally.round(arriving, {member: SMALL + size for member, size in sent.items()})
        arriving = received
    opened = {
        member: SMALL + 8 * (joint.entries if member in joint.nodes else 0) + 8 * _own_entries(joint).get(member, 0)
        for member in joint.members
    }
    tally.round(arriving, opened)
    tally.round(dict.fromkeys(joint.owners, answer + SMALL), dict.fromkeys(joint.owners, answer + LOSS + SMALL))


def _agreement(parties: list[str], tally: _Tally, *, kept: bool) -> None:
    """Recall, greet, commit, reveal, settle; and in the end, forget."""
    small = dict.fromkeys(parties, SMALL)
    tally.round(small, dict.fromkeys(parties, SMALL // 2))
    if not kept:
        letters = dict.fromkeys(parties, (len(parties) - 1) * (OVERHEAD + 2 * SEED) + SMALL)
        tally.round(small, dict.fromkeys(parties, HELLO + SMALL))
        tally.round(dict.fromkeys(parties, len(parties) * HELLO), letters)
        tally.round(letters, letters)
        tally.round(letters, dict.fromkeys(parties, SMALL // 2))
    tally.round(small, dict.fromkeys(parties, SMALL // 2))


def _own_entries(joint: Joint) -> dict[str, int]:
    """A Gram matrix has a part of each party alone: its columns' sums, squares and products."""
    if joint.noise.law == "laplace" or next(iter(joint.steps.values())).statistic != "gram":
        return {}
    return {owner: (width + 1) * (width + 2) // 2 - 1 for owner, width in zip(joint.owners, joint.widths, strict=True)}


def _letters(joint: Joint, turn: int) -> tuple[dict[str, int], dict[str, int]]:
    """Return bytes of letters by sender and by receiver in one turn."""
    sent, received = dict.fromkeys(joint.members, 0), dict.fromkeys(joint.members, 0)
    for sender in joint.members:
        for point, node in enumerate(joint.nodes, start=1):
            if node != sender and (size := _letter(joint, sender, point, turn)):
                sent[sender] += size
                received[node] += size
    return sent, received


def _letter(joint: Joint, sender: str, point: int, turn: int) -> int:
    deals, computes = sender in joint.owners and turn <= len(joint.chunks), sender in joint.nodes
    if not (deals or computes):
        return 0
    element, t = joint.arithmetic.element_bytes, joint.threshold
    repetitions, size = check_repetitions(joint.arithmetic), LETTER
    if deals and turn == 1:
        size += 2 * SEED + (SEED if point <= 2 * t else joint.entries * element)
    if deals and point > t:
        start, stop = joint.chunks[turn - 1]
        size += (stop - start) * joint.widths[joint.owners.index(sender)] * element
    if computes:
        size += 2 * SEED if turn == 2 else SEED
    if computes and turn == len(joint.chunks) + 2:
        size += len(joint.owners) * (repetitions * element + 12)
    return size


def _size(plan: Plan, step: Step, schemas: Mapping[str, Schema]) -> int | None:
    """Return the bytes of a party's own release, or ``None`` for a statistic that is not foreseen."""
    rule = RELEASES.get(step.statistic)
    try:
        return None if rule is None else rule(plan, step, schemas[step.party])
    except (ColonnadeError, KeyError, TypeError):  # a parameter of another kind than the statistic's own
        return None


def _cells(step: Step, schema: Schema) -> int:
    clusters = step.parameters.get("clusters")
    if isinstance(clusters, int):
        return clusters
    described = [schema[name] for name in step.columns]
    return prod(column.size for column in described if isinstance(column, Category))


def _width(step: Step, schema: Schema) -> int:
    return sum(coded_width(schema[name]) for name in step.columns)


def _reports(plan: Plan, step: Step, schema: Schema) -> int:
    assert step.price is not None
    sample = float(step.parameters.get("sample", 1.0))  # type: ignore[arg-type]  # the statistic's own parameter
    return int(plan.people * sample) * best_channel(_cells(step, schema), step.price).report_width


def _values(plan: Plan, step: Step, schema: Schema) -> int:
    assert step.price is not None
    (name,) = step.columns
    column = schema[name]
    assert isinstance(column, Numeric)
    carrier = WholeValues.of(column, name, step.parameters["change"]).carrier(step.price)  # type: ignore[arg-type]
    return plan.people * int(carrier.dtype[-1])


def _sketches(plan: Plan, step: Step, schema: Schema) -> int:
    """Two bytes for every sketch of every local cluster, for every pair of parties that the party belongs to."""
    pairs = sum(one.name == step.name for one in plan.steps) - 1
    return 2 * pairs * int(step.parameters["sketches"]) * _cells(step, schema)  # type: ignore[arg-type]


RELEASES: Mapping[str, Callable[[Plan, Step, Schema], int]] = {
    "reports": _reports,
    "membership-sketches": _sketches,
    "histogram": lambda _, step, schema: 8 * _cells(step, schema),
    "centres": lambda _, step, schema: 8 * int(step.parameters["clusters"]) * _width(step, schema),  # type: ignore[arg-type]
    "rows": lambda plan, step, schema: 4 * plan.people * _width(step, schema),
    "sketch": lambda _, step, schema: 8 * (int(step.parameters["size"]) + 1) * _width(step, schema),  # type: ignore[arg-type]
    "value-sketch": lambda _, step, __: 8 * (int(step.parameters["size"]) + 1),  # type: ignore[arg-type]
    "values": _values,
    "total": lambda *_: 8,
}
"""How large a party's own release is, by statistic. A statistic that is not here has a preview without traffic."""
