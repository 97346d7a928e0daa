"""`Guard`: a party behind one function from bytes to bytes, so that it can run in a process of its own.

Everything a coordinator can do to a party goes through `Guard.handle`. An error of this package becomes a typed refusal. Any
other exception becomes a constant message, because its text might quote data.
"""

import os
import socket
import threading
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import pandas as pd

from colonnade.conversations.conversation import Member
from colonnade.conversations.endpoint import Runs, check_membership
from colonnade.errors import ColonnadeError, PlanMismatch, ProtocolError
from colonnade.party.gate import Gate
from colonnade.party.row_orders import RowOrders
from colonnade.plan import Plan
from colonnade.privacy.accounting import total
from colonnade.protocol import codec, messages
from colonnade.protocol.codec import read_frame, write_frame
from colonnade.steps.kind import is_conversation

__all__ = ["Guard", "serve"]


class Guard:
    """A party reached through bytes only.

    Parameters
    ----------
    gate
        The party's only door, before the row order that it was opened with.
    member
        Its own identity, and those of its peers.
    row_orders
        All row orders that it has agreed to; by default only the one that it was opened with.
    """

    def __init__(self, gate: Gate, member: Member, row_orders: RowOrders | None = None) -> None:
        self._gate = gate
        self._row_orders = row_orders or RowOrders(gate)
        self._runs = Runs(member, gate.random_bytes)
        self._one_at_a_time = threading.Lock()
        self._before: int | None = None

    def handle(self, data: bytes) -> bytes:
        """Answer one request. It never raises, so that no traceback can travel."""
        with self._one_at_a_time:
            self._before = None
            try:
                return self._answer(data)
            except ColonnadeError as error:
                return codec.encode(self._refusal(error))
            except Exception:  # noqa: BLE001  # the text of an unforeseen error may quote data
                if os.environ.get("COLONNADE_TRACEBACK") == "1":
                    traceback.print_exc()  # for the party's own engineer, on the party's own screen, by request only
                return codec.encode(self._refusal(ProtocolError("The party failed while answering.")))

    def close(self) -> None:
        """Close the ledger."""
        self._gate.close()

    def delivered(self, plan: Plan, step: str) -> pd.DataFrame:
        """Return what was opened to this party alone. It is for its own operator, in its own process: no request reaches this."""
        gate = self._row_orders.gate_for(plan.alignment)
        return self._row_orders.deliveries.read(gate.ledger_key(plan, step)[0])

    def delivery_path(self, plan: Plan, step: str) -> Path | None:
        """Return the file of a delivery; ``None`` if it is kept in memory. No request reaches this."""
        gate = self._row_orders.gate_for(plan.alignment)
        return self._row_orders.deliveries.path(gate.ledger_key(plan, step)[0])

    def _answer(self, data: bytes) -> bytes:
        request = codec.decode_request(data)
        if isinstance(request, messages.Ask) or (isinstance(request, messages.Post) and request.turn in (1, 2)):
            self._before = self._sequence()  # only these are ever charged for
        if isinstance(request, messages.Ask | messages.Post) and request.about is not None:
            self._gate.keep_about(request.plan, request.about)
        if isinstance(request, messages.Ask):
            return self._row_orders.gate_for(request.plan.alignment).answer(request)
        if isinstance(request, messages.Post):
            return self._post(request)
        if isinstance(request, messages.Recall):
            return self._recall(request) or codec.encode(messages.NotKept())
        if isinstance(request, messages.Conclude):
            self._runs.forget()
            gate = self._row_orders.gate_for(request.plan.alignment)
            return gate.conclude(request.plan, request.step, request.values)
        if isinstance(request, messages.Propose):
            return codec.encode(self._agree(request))
        reply: messages.Reply = (
            self._describe(request) if isinstance(request, messages.GetDescription) else self._account(request)
        )
        return codec.encode(reply)

    def _post(self, request: messages.Post) -> bytes:
        self._check_membership(request.plan)
        asked = any(step.name == request.step for step in request.plan.steps_of(self._gate.terms.party))
        gate = self._row_orders.gate_for(request.plan.alignment)
        return self._runs.post(request, partial(gate.join, request.plan, request.step) if asked else None)

    def _recall(self, request: messages.Recall) -> bytes | None:
        if request.plan.steps_of(self._gate.terms.party):
            return self._row_orders.gate_for(request.plan.alignment).recall(request.plan, request.step)
        return self._runs.opened(request.plan, request.step)  # this party only computed

    def _check_membership(self, plan: Plan) -> None:
        terms = self._gate.terms
        check_membership(plan, terms.party, self._runs.member.pinned, terms.federation)

    def _agree(self, request: messages.Propose) -> messages.Agreed:
        if any(is_conversation(step) for step in request.plan.steps):
            self._check_membership(request.plan)
        if self._gate.terms.party in request.plan.compute_nodes and not request.plan.steps_of(self._gate.terms.party):
            head = self._signed_head(request.plan)
            return messages.Agreed(plan_hash=codec.digest(request.plan), losses={}, unpaid=(), head=head)
        quoted = self._row_orders.gate_for(request.plan.alignment).quote(request.plan)
        return messages.Agreed(
            plan_hash=codec.digest(request.plan),
            losses={step: loss.to_bytes() for step, loss in quoted.losses.items()},
            unpaid=quoted.unpaid,
            disclosed=quoted.disclosed,
            head=self._signed_head(request.plan),
        )

    def _signed_head(self, plan: Plan) -> bytes:
        member = self._runs.member
        return b"" if member.heads is None else member.heads.signed(member.identity, codec.digest(plan))

    def _describe(self, request: messages.GetDescription) -> messages.Described:
        terms = self._gate.terms
        if request.alignment:
            terms = self._row_orders.gate_for(request.alignment).terms
            if terms.alignment != request.alignment:
                raise PlanMismatch("This party knows no alignment of that name.", remedy="Align the parties first.")
        return terms.described()

    def _account(self, _: messages.GetAccount) -> messages.Accounted:
        ledger = self._gate.ledger
        entries = tuple(
            messages.AccountLine(
                label=entry.label,
                loss=None if entry.loss is None else entry.loss.to_bytes(),
                joint=entry.label if entry.together else None,
            )
            for entry in ledger.entries()
            if entry.kind in ("debit", "reserve", "nonprivate")
        )
        return messages.Accounted(
            party=self._gate.terms.party,
            ledger=ledger.identity,
            sequence=ledger.head().sequence,
            cap_nano=ledger.budget.nano,
            cap_delta=ledger.budget.delta,
            spent=ledger.spent().to_bytes(),
            entries=entries,
        )

    def _sequence(self) -> int:
        try:
            return self._gate.ledger.head().sequence
        except ColonnadeError:
            return 0

    def _refusal(self, error: ColonnadeError) -> messages.Refused:
        """Return a refusal, with what was debited since this request came in. That is never refunded."""
        return messages.Refused(
            code=error.code, message=error.message, remedy=error.remedy, spent=self._spent_since(self._before)
        )

    def _spent_since(self, sequence: int | None) -> float | None:
        ledger = self._gate.ledger
        if sequence is None or self._sequence() == sequence:
            return None
        losses = [entry.loss for entry in ledger.entries() if entry.sequence > sequence and entry.loss is not None]
        return total(losses).epsilon(ledger.budget.delta) if losses else None


class RequestHandler(Protocol):
    """Anything that answers one request with one reply: a guard, or a guard that limits how many requests it takes."""

    def handle(self, data: bytes) -> bytes:
        """Answer one request."""
        ...


def serve(guard: RequestHandler, path: str | Path, *, ready: Callable[[], None] | None = None) -> None:
    """Answer frames on a Unix socket that only this user can open, one connection at a time, until the process ends.

    Parameters
    ----------
    guard
        The party.
    path
        Where the socket is made; a stale socket from an earlier run is replaced.
    ready
        Called once the socket accepts connections.
    """
    path = Path(path)
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        mask = os.umask(0o177)  # the socket is 0600 from the moment it exists
        try:
            listener.bind(str(path))
        finally:
            os.umask(mask)
        listener.listen()
        if ready is not None:
            ready()
        while True:
            connection, _ = listener.accept()
            with connection, connection.makefile("rwb") as stream:
                _converse(guard, cast("BinaryIO", stream))


def _converse(guard: RequestHandler, stream: BinaryIO) -> None:
    """Answer frames until the peer hangs up. A malformed frame ends the connection, not the guard."""
    try:
        while (data := read_frame(stream)) is not None:
            write_frame(stream, guard.handle(data))
    except (ProtocolError, OSError):
        return
