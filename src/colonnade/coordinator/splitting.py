"""Dividing a federation's people in two, and handing one party what was opened to it alone."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

import pandas as pd

from colonnade.coordinator import driver
from colonnade.coordinator.driver import Outcome
from colonnade.coordinator.protocols.relaying import settle
from colonnade.errors import BadInput, PolicyRefusal, ProtocolError, ReleaseLost, SchemaMismatch
from colonnade.plan import Plan, Step
from colonnade.protocol.messages import Described, GetDescription, Rounds
from colonnade.steps.keys import PARTS, Split, part_identity
from colonnade.transport.direct import Transport

__all__ = ["Dividing", "Splitting"]


STEP = "split"


@dataclass(frozen=True)
class Splitting:
    """A division that the parties work out among themselves.

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
        lost = ReleaseLost(
            "The parties divided their people before, and not all of them kept the parts.",
            remedy="Split again with the next repeat=.",
        )
        yield from settle(plan, STEP, Split.members(plan, STEP), lost)


class Dividing:
    """Parts of the people, and what was opened to one party alone."""

    transport: Transport
    parties: tuple[str, ...]
    alignment: str
    people: int
    union: bool

    def plan(self, *args: Any, **options: Any) -> Plan:
        """Write a study down."""
        raise NotImplementedError

    def run(self, *args: Any, **options: Any) -> Outcome:
        """Run a study."""
        raise NotImplementedError

    def split(self, *, test: float = 0.2, repeat: int = 1) -> tuple[Self, Self]:
        """Divide the people in two: one part to fit on, one to evaluate on.

        Who belongs where follows from a hash of a person's place among the ids, keyed with a secret that the parties agree on and
        the coordinator does not learn. It is the same at every party, and asking again gives the same parts. Nothing is released
        but how many people each part has, and nothing is spent; studies of either part are debited to the same ledgers.

        Parameters
        ----------
        test
            The share of people in the second part.
        repeat
            A higher number is another division.

        Returns
        -------
        train, test : Federation
            Both over the same parties and the same transport as this one.
        """
        algorithm = Splitting(self.parties, test)
        plan = self.plan(
            algorithm, task="split", method="keyed-hash", price=None, unit="person", parameters={}, repeat=repeat
        )
        self.run(algorithm, plan)
        train, held_out = (self._on(part_identity(plan, part)) for part in PARTS)
        return train, held_out

    def delivered(self, party: str, plan: Plan, step: str) -> pd.DataFrame:
        """Return what a study opened to one party alone, where that party is in this process; refused elsewhere.

        It comes from the party's own object and never through the transport: a coordinator across machines cannot ask for it.
        """
        endpoint: Any = getattr(self.transport, "endpoint", lambda _: None)(party)
        if not hasattr(endpoint, "delivered"):
            raise PolicyRefusal(
                f"The scores were opened to {party!r} alone, and stay there.",
                remedy=f"The operator of {party!r} finds them beside its ledger.",
            )
        return cast("pd.DataFrame", endpoint.delivered(plan, step))

    def delivery_path(self, party: str, plan: Plan, step: str) -> Path | None:
        """Return where a party in this process keeps what was opened to it; ``None`` in memory, or where it is elsewhere."""
        endpoint: Any = getattr(self.transport, "endpoint", lambda _: None)(party)
        found = endpoint.delivery_path(plan, step) if hasattr(endpoint, "delivery_path") else None
        return cast("Path | None", found)

    def _on(self, alignment: str) -> Self:
        """Return the same parties on another order of rows that they keep."""
        other = copy.copy(self)
        described = self._described(alignment)
        found = {(reply.alignment, reply.people) for reply in described.values()}
        if len(found) != 1:
            raise SchemaMismatch("The parties do not agree on one alignment of their rows.")
        (other.alignment, other.people) = found.pop()
        other.union = any(reply.union for reply in described.values())
        return other

    def _described(self, alignment: str) -> Mapping[str, Described]:
        replies = driver.ask(dict.fromkeys(self.parties, GetDescription(alignment=alignment)), self.transport)
        if any(not isinstance(reply, Described) for reply in replies.values()):
            raise ProtocolError("A party answered with something else.")
        return cast("Mapping[str, Described]", replies)
