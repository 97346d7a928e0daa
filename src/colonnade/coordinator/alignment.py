"""Agreeing on an order of rows, and dividing it in two, seen from the coordinator.

The published methods assume aligned rows. Here the parties find a common order themselves (`colonnade.secure.matching`), or
agree to a public list (docs/proofs/alignment.md). The coordinator relays sealed letters. It learns the order's name and its
public size.
"""

import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from colonnade.conversations.agreements import list_hash, packed_list
from colonnade.coordinator.driver import Findings, Relay, settle_once
from colonnade.errors import BadInput, ProtocolError
from colonnade.plan import RELATION, Parameter, Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.protocol.messages import Conclude, Described, Recall, Reply, Rounds
from colonnade.runtime.event_log import Progress, progress_bar
from colonnade.steps.alignment import (
    LARGEST_CAPACITY,
    Cohort,
    IdRules,
    ListMatching,
    Matching,
    MatchingStep,
    UnionMatching,
)
from colonnade.steps.local import PARTS, Split, part_identity
from colonnade.steps.registry import STUDIES

if TYPE_CHECKING:
    from colonnade.coordinator.driver import Driver


STEP = "rows"


@dataclass(frozen=True)
class AgreedOrder:
    """An order of rows that all parties keep.

    Parameters
    ----------
    identity
        Its name.
    people
        How many places it has; all that the coordinator knows of it.
    """

    identity: str
    people: int


@dataclass(frozen=True)
class MatchingAlgorithm:
    """The algorithm by which the parties match their lists.

    Parameters
    ----------
    kind
        An intersection, or a union.
    capacities
        To how many ids each party's list is filled up.
    rules
        How ids are compared.
    size
        What the coordinator learns of the number of people.
    price
        The price of a noisy number of people; ``None`` otherwise.
    announce
        Called with a line that says which turn of how many is next.
    """

    kind: type[MatchingStep]
    capacities: Mapping[str, int]
    rules: IdRules
    size: str
    price: Price | None
    announce: Callable[[str], None] = field(default=lambda _: None, compare=False, repr=False)

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party."""
        return tuple(
            self.kind.ask(
                name=STEP,
                party=party,
                parameters={**self.rules.parameters(), "capacity": capacity, "size": self.size},
                price=self.price,
            )
            for party, capacity in self.capacities.items()
        )

    def rounds(self, plan: Plan) -> Rounds:
        """Relay the conversation, or take up what the parties have kept of it."""
        members = self.kind.members(plan, STEP)
        kept = yield from _kept(plan, members)
        if kept is not None:
            return kept
        relay = Relay(plan, STEP, members)
        yield from relay.greet()
        turns = self.kind.last_turn(Matching.read(plan, STEP))
        for turn in range(1, turns):
            self.announce(f"turn {turn} of {turns}")
            yield from relay.turn()
        return (yield from _concluded(plan, (yield from relay.last())))


@dataclass(frozen=True)
class CohortAlgorithm:
    """The algorithm by which the parties agree to a public list.

    Parameters
    ----------
    parties
        All of them.
    cohort
        The list.
    rules
        How ids are compared.
    """

    parties: Sequence[str]
    cohort: Sequence[str]
    rules: IdRules

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party; the plan, and with it the list, is what everyone signs."""
        parameters: dict[str, Parameter] = {**self.rules.parameters(), "listed": list_hash(self.cohort)}
        return tuple(Cohort.ask(name=STEP, party=party, parameters=parameters, price=None) for party in self.parties)

    def rounds(self, plan: Plan) -> Rounds:
        """Show everyone the list."""
        members = Cohort.members(plan, STEP)
        kept = yield from _kept(plan, members)
        if kept is not None:
            return kept
        relay = Relay(plan, STEP, members)
        yield from relay.greet()
        return (yield from _concluded(plan, (yield from relay.last(packed_list(self.cohort)))))


def _kept(plan: Plan, members: Sequence[str]) -> Rounds:
    """Return the order that all parties keep of an earlier run, if they do."""
    replies = yield {member: Recall(plan=plan, step=STEP) for member in members}
    if all(isinstance(reply, Described) for reply in replies.values()):
        return (yield from _concluded(plan, replies))
    return None


def _concluded(plan: Plan, replies: Mapping[str, Reply]) -> Rounds:
    """Return the order that all parties keep. None needs the secrets of the conversation any more, and each forgets its own."""
    order = _agreed(replies)
    yield {member: Conclude(plan=plan, step=STEP, values={}) for member in replies}
    return order


def _agreed(replies: Mapping[str, Reply]) -> AgreedOrder:
    named = {(reply.alignment, reply.people) for reply in replies.values() if isinstance(reply, Described)}
    if len(named) != 1 or any(not isinstance(reply, Described) for reply in replies.values()):
        raise ProtocolError("The parties do not agree on one order of rows.")
    return AgreedOrder(*named.pop())


TASK = STUDIES["align"]
Mode = Literal["intersection", "cohort", "union"]
Size = Literal["declared", "public", "noisy", "hidden"]


@dataclass(frozen=True)
class Alignment:
    """A row order that a federation was put on, and the record of the study that fixed it.

    Parameters
    ----------
    mode, size
        The mode, and what is disclosed of the size.
    identity, people
        The order's name, and how many places it has.
    findings
        The plan, the privacy statement, the transcript and the receipt.
    """

    mode: str
    size: str
    identity: str
    people: int
    findings: Findings

    @property
    def receipt(self) -> str:
        """The trust picture in two lines, and one line with the figures."""
        plan, transcript = self.findings.plan, self.findings.transcript
        price = f"ε={plan.price.epsilon:.4g}" if plan.price is not None else "no budget"
        return (
            f"{self.findings.privacy.trust}\n"
            f"align(mode={self.mode!r}): {self.people:,} places, size {self.size}, {price}; "
            f"spent: {self.findings.cost.words}; {len(plan.parties)} parties, "
            f"{transcript.rounds} rounds, {transcript.traffic}, {transcript.wall_time:.2f} s"
        )


def align(
    driver: "Driver",
    mode: Mode,
    *,
    epsilon: float | None,
    size: Size | None,
    capacity: int | Mapping[str, int] | None,
    ids: Sequence[object] | None,
    rules: IdRules,
    repeat: int,
    progress: Progress | None,
) -> tuple["Driver", Alignment]:
    """Have the parties fix an order of rows, and return the driver on it and the record; see `Federation.align`."""
    with progress_bar("align") as shown:
        algorithm, plan, disclosed = alignment_plan(
            driver,
            driver.descriptions(),  # aligning again starts from the order that the parties were opened with
            mode=mode,
            epsilon=epsilon,
            size=size,
            capacity=capacity,
            cohort=ids,
            rules=rules,
            repeat=repeat,
            announce=progress or shown,
        )
        findings = driver.study(algorithm, plan, title=f"align(mode={mode!r})", progress=progress or shown)
    order = findings.value
    on_it = replace(
        driver,
        alignment=order.identity,
        people=order.people,
        union=mode == "union",
        data_versions=dict(plan.data_versions),
    )
    return on_it, Alignment(mode, disclosed, order.identity, order.people, findings)


def alignment_plan(
    driver: "Driver",
    described: Mapping[str, Described],
    *,
    mode: Mode,
    epsilon: float | None,
    size: Size | None,
    capacity: int | Mapping[str, int] | None,
    cohort: Sequence[object] | None,
    rules: IdRules,
    repeat: int,
    announce: Callable[[str], None],
) -> tuple[MatchingAlgorithm | CohortAlgorithm, Plan, str]:
    """Return the algorithm, its plan on the row order that the parties were opened with, and what is disclosed of the size."""
    if mode not in ("intersection", "cohort", "union"):
        raise BadInput(f"There is no mode {mode!r}.", remedy='Use "intersection", "cohort" or "union".')
    if len(driver.parties) < 2:
        raise BadInput("An alignment takes two parties or more.", remedy="One party's rows need no alignment.")
    first = next(iter(described.values()))
    algorithm: MatchingAlgorithm | CohortAlgorithm
    if mode == "cohort":
        if epsilon is not None or size is not None or capacity is not None:
            raise BadInput(
                "A cohort is public: it takes no epsilon, size or capacity.",
                remedy='Leave them out: federation.align(mode="cohort", ids=[...]).',
            )
        algorithm, disclosed = CohortAlgorithm(driver.parties, _listed(cohort), rules), "public"
    else:
        if cohort is not None:
            raise BadInput(
                'ids are given for mode="cohort" only: in the other modes they stay with the parties.',
                remedy='Leave out ids=, or align to a public list: mode="cohort".',
            )
        disclosed = (
            _union_size_disclosure(size, epsilon) if mode == "union" else _size_disclosure(size, epsilon, first.people)
        )
        price = Price.of(epsilon, 0.0) if disclosed == "noisy" else None
        capacities = _capacities(driver.parties, capacity, described)
        kind = ListMatching if mode == ListMatching.mode else UnionMatching
        algorithm = MatchingAlgorithm(kind, capacities, rules, disclosed, price, announce)
    plan = Plan(
        task=TASK,
        method=mode,
        parameters={},
        unit="person",
        price=algorithm.price if isinstance(algorithm, MatchingAlgorithm) else None,
        relation=RELATION,
        federation=driver.identity,
        alignment=first.alignment,
        people=first.people,
        parties=driver.parties,
        steps=algorithm.steps(),
        repeat=repeat,
        data_versions={name: reply.version for name, reply in described.items()},
    )
    return algorithm, plan, disclosed


def _size_disclosure(size: Size | None, epsilon: float | None, people: int) -> str:
    """Return what the coordinator will know of the number of people; the number itself only where the caller said so."""
    if size is None:
        size = "noisy" if epsilon is not None else "declared" if people else None
    if size is None:
        raise BadInput(
            "Say what the coordinator may know of the number of people in common.",
            remedy='epsilon= for a noisy number, size="hidden" for none, size="public" for the number itself.',
        )
    if size not in ("declared", "public", "noisy", "hidden") or (size == "noisy") != (epsilon is not None):
        raise BadInput(
            'size is "public", "noisy" (with epsilon=) or "hidden".',
            remedy='For example epsilon=0.5 alone, or size="hidden" without epsilon.',
        )
    if size == "declared" and not people:
        raise BadInput("No number of people has been declared public.", remedy='Use epsilon=, "public" or "hidden".')
    return size


def _union_size_disclosure(size: Size | None, epsilon: float | None) -> str:
    if epsilon is not None or size not in (None, "hidden", "public"):
        raise BadInput(
            'The size of a union is "hidden" (filled up to the sum of both capacities, the default) or "public".',
            remedy="The number of people in common comes with every study on it, noisy and paid for.",
        )
    return size or "hidden"


def _capacities(
    parties: Sequence[str], capacity: int | Mapping[str, int] | None, described: Mapping[str, Described]
) -> dict[str, int]:
    given = capacity if isinstance(capacity, Mapping) else dict.fromkeys(parties, capacity)
    strangers = sorted(set(given) - set(parties))
    if strangers:
        raise BadInput(
            f"capacity names {strangers[0]!r}, which is not a party here.",
            remedy=f"The parties are {', '.join(parties)}.",
        )
    silent = [party for party in parties if not described[party].capacity]
    if silent:
        raise BadInput(
            f"Party {silent[0]!r} has not declared how long its list looks to others, so it takes part in no matching.",
            remedy='Its owner declares it: capacity= of its policy. mode="cohort" aligns to a public list without it.',
        )
    found = {party: given.get(party) or described[party].capacity for party in parties}
    if any(type(value) is not int or not 1 <= value <= LARGEST_CAPACITY for value in found.values()):
        raise BadInput(
            f"capacity is a whole number from 1 to {LARGEST_CAPACITY:,}, or one for each party.",
            remedy='For example capacity=100_000, or capacity={"bank": 100_000}.',
        )
    return found


def _listed(cohort: Sequence[object] | None) -> list[str]:
    if cohort is None or isinstance(cohort, str | bytes):
        raise BadInput(
            'mode="cohort" takes ids=, the public list.',
            remedy='For example federation.align(mode="cohort", ids=["a1", "a2"]).',
        )
    listed = [str(int(one)) if isinstance(one, numbers.Integral) else one for one in cohort]
    texts = [one for one in listed if isinstance(one, str)]
    if len(texts) != len(listed) or not texts:
        raise BadInput("ids is a list of text or whole numbers, and not empty.", remedy='For example ids=["a1", "a2"].')
    return texts


SPLIT = "split"


@dataclass(frozen=True)
class SplitAlgorithm:
    """The algorithm by which the parties divide their people; the coordinator does not learn who is where.

    Parameters
    ----------
    parties
        All of them: two or more.
    test
        The share of people in the second part.
    """

    parties: tuple[str, ...]
    test: float

    def __post_init__(self) -> None:
        if isinstance(self.test, bool) or not isinstance(self.test, float) or not 0 < self.test < 1:
            raise BadInput("test is a share of people between 0 and 1.", remedy="For example test=0.2.")
        if len(self.parties) < 2:
            raise BadInput(
                "A split takes two parties or more.", remedy="One party alone can divide its table by itself."
            )

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party; no column enters."""
        return tuple(
            Split.ask(name=SPLIT, party=party, parameters={"test": self.test}, price=None) for party in self.parties
        )

    def rounds(self, plan: Plan) -> Rounds:
        """Have the parties divide their people, if they have not before."""
        members = Split.members(plan, SPLIT)
        yield from settle_once(plan, SPLIT, members)
        yield {member: Conclude(plan=plan, step=SPLIT, values={}) for member in members}


def split(driver: "Driver", test: float, repeat: int) -> tuple[str, str]:
    """Have the parties divide their people, and return the names of both row orders; see `Federation.split`."""
    algorithm = SplitAlgorithm(driver.parties, test)
    plan = driver.plan(
        algorithm, task=STUDIES["split"], method="keyed-hash", price=None, unit="person", parameters={}, repeat=repeat
    )
    driver.run(algorithm, plan, title=f"split(test={test:g})")
    first, second = (part_identity(plan, part) for part in PARTS)
    return first, second
