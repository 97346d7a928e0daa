"""What a federation does besides running studies: divide its people, and hand one party what was opened to it alone."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, cast

import pandas as pd

from colonnade.coordinator import driver
from colonnade.coordinator.driver import Outcome
from colonnade.coordinator.protocols.split import Splitting
from colonnade.errors import PolicyRefusal, ProtocolError, SchemaMismatch
from colonnade.plan import Plan
from colonnade.protocol.messages import Described, GetDescription
from colonnade.steps.keys import PARTS, part_identity
from colonnade.transport.direct import Transport

__all__ = ["Dividing"]


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
