"""Dividing a federation's people in two, and handing one party what was opened to it alone."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import pandas as pd

from colonnade.coordinator.protocols.relaying import settle_once
from colonnade.errors import BadInput, PolicyRefusal
from colonnade.plan import Plan, Step
from colonnade.protocol.messages import Conclude, Rounds
from colonnade.steps.local import PARTS, Split, part_identity
from colonnade.steps.registry import STUDIES
from colonnade.transport.direct import Transport

if TYPE_CHECKING:
    from colonnade.coordinator.federation import Federation


STEP = "split"


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
            Split.ask(name=STEP, party=party, parameters={"test": self.test}, price=None) for party in self.parties
        )

    def rounds(self, plan: Plan) -> Rounds:
        """Have the parties divide their people, if they have not before."""
        members = Split.members(plan, STEP)
        yield from settle_once(plan, STEP, members)
        yield {member: Conclude(plan=plan, step=STEP, values={}) for member in members}


@runtime_checkable
class KeepsDeliveries(Protocol):
    """A party in this process that keeps what was opened to it alone."""

    def delivered(self, plan: Plan, step: str) -> pd.DataFrame:
        """Return what a step opened to this party, by its own ids."""
        ...

    def delivery_path(self, plan: Plan, step: str) -> Path | None:
        """Return the file that it is kept in; ``None`` in memory."""
        ...


def split(federation: "Federation", test: float, repeat: int) -> tuple[str, str]:
    """Have the parties divide their people, and return the names of both row orders; see `Federation.split`."""
    algorithm = SplitAlgorithm(federation.parties, test)
    plan = federation.plan(
        algorithm, task=STUDIES["split"], method="keyed-hash", price=None, unit="person", parameters={}, repeat=repeat
    )
    federation.run(algorithm, plan, title=f"split(test={test:g})")
    first, second = (part_identity(plan, part) for part in PARTS)
    return first, second


def holder_of_deliveries(transport: Transport, party: str) -> KeepsDeliveries | None:
    """Return a party's own object if it is in this process; ``None`` if it is elsewhere."""
    find: Callable[[str], object] = getattr(transport, "endpoint", lambda _: None)
    endpoint = find(party)
    return endpoint if isinstance(endpoint, KeepsDeliveries) else None


def delivered(transport: Transport, party: str, plan: Plan, step: str) -> pd.DataFrame:
    """Return what a study opened to one party alone; refuse where that party is elsewhere."""
    holder = holder_of_deliveries(transport, party)
    if holder is None:
        raise PolicyRefusal(
            f"The scores were opened to {party!r} alone, and stay there.",
            remedy=f"The operator of {party!r} finds them beside its ledger.",
        )
    return holder.delivered(plan, step)
