"""An algorithm is a generator: it yields requests by party and is sent replies by party.

It knows nothing of transports, retries or clocks, so the same algorithm runs in process, over sockets and over a network,
and a test can drive it by hand.
"""

from collections.abc import Generator, Mapping
from typing import Any, Protocol

from colonnade.errors import ProtocolError
from colonnade.plan import Plan, Step
from colonnade.protocol.messages import Array, Ask, Released, Reply, Request

__all__ = ["Algorithm", "Rounds", "ask_all", "released"]

Rounds = Generator[Mapping[str, Request], Mapping[str, Reply], Any]


class Algorithm(Protocol):
    """One method of one paper, seen from the coordinator."""

    def steps(self) -> tuple[Step, ...]:
        """Return everything the parties will be asked to release."""
        ...

    def rounds(self, plan: Plan) -> Rounds:
        """Yield requests, receive replies, and return what was learned."""
        ...


def ask_all(plan: Plan, step: str, inputs: Mapping[str, Array] | None = None) -> Rounds:
    """Put one step to every party that has it, in one round, and return their releases by party."""
    asked = [s.party for s in plan.steps if s.name == step]
    replies = yield {party: Ask(plan=plan, step=step, inputs=dict(inputs or {})) for party in asked}
    return {party: released(replies[party], party=party, step=step) for party in asked}


def released(reply: Reply, *, party: str, step: str) -> Released:
    """Check that a reply is the release that was asked for."""
    if not isinstance(reply, Released) or reply.party != party or reply.step != step:
        raise ProtocolError(f"Party {party!r} answered step {step!r} with something else.")
    return reply
