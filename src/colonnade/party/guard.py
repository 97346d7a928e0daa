"""`Guard`: a party behind one function from bytes to bytes, with its row orders and its deliveries.

*Requests.* A guard can run in a process of its own. Everything a coordinator can do to a party goes through `Guard.handle`.
An error becomes a typed refusal, a constant message, or a party that has stopped.

*Row orders* (`RowOrders`). There is one gate per row order, with the same policy and the same ledger. A study names its row
order and is answered from that order only. Orders are kept in files beside the ledger, so that a restarted party still knows
them. Only this user can read them: who is in common is the party's own secret. An order holds row numbers, so it belongs to one
declared version of the data, and ends with it whether or not a row has changed.

*Deliveries* (`Deliveries`). A delivery is a table of individual scores that was opened to this party and to nobody else. It
never travels. In a simulation its owner reads it from the party's object. A served party keeps it, with its own ids, in a
file beside its ledger that only this user can read.

*Refusals*. This is the one place that turns failures into refusals. A refusal is a function of the plan, the policy, the
ledger's public state and declared facts (schema, capacity, data version). It never depends on rows, ids, counts, or whether
anything has changed.

Code that reads rows runs inside `among_rows`. Whatever is raised there would tell something about rows, if only that it was
raised. So it is never said: the party stops, and from then on it gives the same constant answer as a party that its operator
has stopped (`STOPPED`). What went wrong stays with the party (`RowsFailed`). For the same reason a check of what others
have sent comes before the first row is read: a malformed request is refused, and stops nobody. A party's own workers hold its
rows and multiply shares for others too; where they fail at that (`colonnade.runtime.workers.WorkersFailed`), it stops in the
same way.

Everything else is outside. An error of this package is said as it is; its words come from public facts only, which
tests/party/test_refusals.py holds (the table in SECURITY.md lists them all). Any other exception becomes one constant message.
"""

import contextlib
import dataclasses
import os
import threading
import traceback
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import feather

from colonnade.conversations.conversation import Member
from colonnade.conversations.endpoint import Consents, Runs, check_membership
from colonnade.errors import BadInput, Busy, ColonnadeError, PartyAway, PlanMismatch, ProtocolError, SchemaMismatch
from colonnade.party.gate import Gate
from colonnade.party.ledger.decisions import Approval, RefusedStudies, RefusedStudy
from colonnade.party.ledger.words import LedgerNarrator, plans_of
from colonnade.party.policy import Permission
from colonnade.party.table.private_table import PrivateTable, RowsFailed
from colonnade.party.table.row_order import RowOrder, require_capacity
from colonnade.plan import Plan
from colonnade.privacy.accounting import total
from colonnade.protocol import messages
from colonnade.protocol.messages import Refused
from colonnade.runtime.private_files import replacing
from colonnade.runtime.workers import WorkersFailed
from colonnade.steps.kind import is_conversation, require_known


def refusal(error: Exception, spent: float | None) -> Refused:
    """Return what is said about an error that was raised outside `among_rows`.

    Parameters
    ----------
    error
        An error of this package, or any other: the text of an unforeseen one might quote data.
    spent
        What the request cost this party's ledger all the same.
    """
    known = error if isinstance(error, ColonnadeError) else ProtocolError("The party failed while answering.")
    return Refused.of(known, spent)


def show(error: BaseException) -> None:
    """Print an error with its place in the code: for the party's own engineer, on the party's own screen, by request only."""
    if os.environ.get("COLONNADE_TRACEBACK") == "1":
        traceback.print_exception(error)


STOPPED: bytes = messages.encode(refusal(PartyAway("This party does not answer: it has been stopped."), None))
"""The answer of a party that its operator has stopped, or that has stopped by itself. It says nothing else, and costs nothing."""


class Deliveries:
    """A party's deliveries, by request.

    Parameters
    ----------
    folder
        Where they are kept; ``None`` keeps them in memory, as a simulation without a ledger directory does.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._held: dict[bytes, Any] = {}

    def keep(self, request: bytes, order: RowOrder, columns: dict[str, NDArray[Any]]) -> None:
        """Keep a table with one row per person for whom this party has an id of its own."""
        table = _table(order, columns)
        if self._folder is None:
            self._held[request] = table
        else:
            _write(table, self._path(request))

    def read(self, request: bytes) -> pd.DataFrame:
        """Return a delivery, by id."""
        if self._folder is not None and self._path(request).exists():
            return read_delivery(self._path(request))
        if request not in self._held:
            raise BadInput("Nothing was delivered to this party for that request.", remedy="Run the prediction first.")
        return _frame(self._held[request])

    def path(self, request: bytes) -> Path | None:
        """Return where a delivery is kept; ``None`` in memory."""
        return None if self._folder is None else self._path(request)

    def _path(self, request: bytes) -> Path:
        assert self._folder is not None  # only asked where there is one
        return self._folder / f"{request.hex()[:32]}.feather"


def read_delivery(path: str | Path) -> pd.DataFrame:
    """Return a delivery from its file, by id."""
    try:
        table = feather.read_table(path)
    except (OSError, pa.ArrowInvalid):
        raise BadInput(
            "The file is not a delivery, or cannot be read.",
            remedy="Give the file that `colonnade predict` named, in the folder of the party's ledger.",
        ) from None
    return _frame(table)


def _table(order: RowOrder, columns: dict[str, NDArray[Any]]) -> Any:
    here = np.flatnonzero(order.rows >= 0)
    ids = pa.array(here) if order.ids is None else order.ids.take(pa.array(here))
    whole = len(here) == order.people
    kept = {name: pa.array(value if whole else value[here]) for name, value in columns.items()}
    return pa.table({"id": ids, **kept})


def _frame(table: Any) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas()
    return frame.set_index("id")


def _write(table: Any, path: Path) -> None:
    """Write a file for this user alone, and put it in place at once: a crash leaves all of it or nothing."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with replacing(path) as file:
        feather.write_feather(table, file, compression="uncompressed")


class RowOrders:
    """A party's gates, one for each row order of one version of its data.

    Parameters
    ----------
    first
        The gate before the row order that the party was opened with.
    order
        That order.
    folder
        Where further orders are kept; ``None`` keeps them in memory, as a simulation without a ledger directory does.
    ids
        This party's own ids, all of them, in the order of its table; without them it takes part in no alignment.
    """

    def __init__(self, first: Gate, order: RowOrder | None = None, folder: Path | None = None, ids: Any = None) -> None:
        self.first = first
        self.ids = ids
        self._gates: dict[str, Gate] = {}
        self._orders: dict[str, RowOrder] = {}
        self.folder = folder
        self.deliveries = Deliveries(None if folder is None else folder.with_suffix(".deliveries"))
        self._enter(first, order)
        if folder is not None:
            for path in sorted(folder.glob("*.alignment")):
                kept, version = _read_order(path)
                if version == first.terms.version:
                    self._open(kept)
                else:  # row numbers of another table: values would be those of other people
                    path.unlink()

    def gate_for(self, identity: str) -> Gate:
        """Return the gate before one row order. For an unknown one return the first gate: its policy then refuses the plan."""
        return self._gates.get(identity, self.first)

    def order(self, identity: str) -> RowOrder:
        """Return a row order, with the ids that it orders."""
        if identity not in self._orders:
            raise PlanMismatch("This party knows no alignment of that name.", remedy="Align the parties first.")
        return self._orders[identity]

    def add(self, order: RowOrder) -> Gate:
        """Agree to a further row order, durably; one that is known already stays as it is. Return the gate before it."""
        if order.identity in self._gates:
            return self._gates[order.identity]
        if self.folder is not None:
            _write_order(order, self.first.terms.version, self.folder / f"{order.identity}.alignment")
        return self._open(order)

    def _open(self, order: RowOrder) -> Gate:
        terms = dataclasses.replace(self.first.terms, alignment=order.identity, people=order.people, union=order.union)
        gate = self.first.reordered(order.rows, terms)
        self._enter(gate, order)
        return gate

    def _enter(self, gate: Gate, order: RowOrder | None) -> None:
        gate.row_orders = self
        self._gates[gate.terms.alignment] = gate
        if order is not None:
            self._orders[order.identity] = order


def _write_order(order: RowOrder, version: int, path: Path) -> None:
    """Write a row order, with the version of the data whose rows it counts."""
    ids = order.ids if order.ids is not None else pa.nulls(order.people)
    table = pa.table({"order": pa.array(order.rows), "id": ids})
    facts = {"identity": order.identity, "union": str(int(order.union)), "version": str(version)}
    _write(table.replace_schema_metadata(facts), path)


def _read_order(path: Path) -> tuple[RowOrder, int]:
    """Read a row order and its data version; 0 for one of before there were versions."""
    table: Any = feather.read_table(path)
    places = table.column("order").to_numpy().astype(np.int64)
    ids = table.column("id").combine_chunks()
    identity = table.schema.metadata[b"identity"].decode()
    union = table.schema.metadata.get(b"union") == b"1"
    version = int(table.schema.metadata.get(b"version", b"0"))
    return RowOrder(identity, len(places), places, None if pa.types.is_null(ids.type) else ids, union), version


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
        self._consents = Consents(member, lambda: gate.ledger.now().timestamp())
        self._one_at_a_time = threading.Lock()
        self._before: int | None = None
        self._asked: messages.Request | None = None
        self._is_stopped = False
        self.failure: RowsFailed | None = None  # why the party has stopped by itself; for its own log

    def handle(self, data: bytes) -> bytes:
        """Answer one request. It never raises, so that no traceback can travel."""
        with self._one_at_a_time:
            if self._is_stopped:
                return STOPPED
            self._before, self._asked = None, None
            try:
                return self._answer_once_remembered(data)
            except RowsFailed as error:
                self.stop(error)
                return STOPPED
            except WorkersFailed as error:
                self.stop(RowsFailed.because(error.__cause__))
                return STOPPED
            except Exception as error:  # noqa: BLE001  # `refusal` knows what may be said of it
                if isinstance(error, ColonnadeError):
                    self._note_refusal(error)
                else:
                    show(error)
                return messages.encode(refusal(error, self._spent_on(error)))

    def _note_refusal(self, error: ColonnadeError) -> None:
        """Keep for the owner which study was refused, and why. What is answered does not depend on it."""
        request, self._asked = self._asked, None
        if isinstance(request, messages.Propose | messages.Ask | messages.Post) and not isinstance(error, Busy):
            with contextlib.suppress(ColonnadeError, OSError):
                RefusedStudies(self._gate.ledger.path).record(
                    self._gate.ledger.now(), error.code, request.plan, request.about
                )

    def waiting(self) -> list[RefusedStudy]:
        """Return the studies that wait for the owner's approval, and are not approved yet. No request reaches this."""
        ledger = self._gate.ledger
        judged = Permission(
            self._gate.policy, self._gate.terms.party, ledger.budget.delta, ledger.entries(), ledger.now()
        )
        return judged.waiting(RefusedStudies(ledger.path).read(), self._gate.terms.version)

    def narrator(self) -> LedgerNarrator:
        """Return how to say this party's rows and requests in words, to its owner."""
        ledger, terms = self._gate.ledger, self._gate.terms
        return LedgerNarrator(terms.party, ledger.budget.delta, plans_of(ledger, ledger.entries()), terms.analysts)

    def approve(self, plan: bytes, *, days: float, reason: str = "") -> None:
        """Approve one study for some days: its plan, on the present data version. No request reaches this."""
        until = int((self._gate.ledger.now().timestamp() + days * 86_400) * 1_000_000)
        decision = Approval(plan=plan.hex(), version=self._gate.terms.version, until=until, reason=reason)
        self._gate.decide(decision, self._runs.member.identity)

    def stop(self, failure: RowsFailed | None = None) -> None:
        """Answer nothing any more: for the party's operator, and where reading rows has failed. Nobody can tell the two apart."""
        self._is_stopped, self.failure = True, failure
        if failure is not None:
            show(failure)

    def replace(self, table: PrivateTable, order: RowOrder, *, version: int, ids: Any = None) -> None:
        """Answer from a new version of the party's data from the next request on, with the same ledger, rules and identity.

        Whatever belongs to the old version ends, for everybody alike and whether or not a row has changed: runs under way,
        reservations, kept answers and kept row orders. A version that the ledger does not know yet is declared there. This is
        for the party's owner: no request reaches it.

        Parameters
        ----------
        table
            The new rows, behind the same schema and in the order of ``order``.
        order
            The row order that the party is opened with.
        version
            What the owner declares: a higher number than the last.
        ids
            All ids of the new table, in its own order.
        """
        if table.schema != self._gate.terms.schema:
            raise SchemaMismatch(
                "A new version of a party's data has the same schema.",
                remedy="For another schema, open the party anew.",
            )
        require_capacity(ids, self._gate.policy.capacity, party=self._gate.terms.party)
        with self._one_at_a_time:
            terms = dataclasses.replace(
                self._gate.terms, version=version, alignment=order.identity, people=order.people, union=order.union
            )
            if version <= self._gate.terms.version:
                raise BadInput(
                    f"Version {self._gate.terms.version} of this party's data is open.",
                    remedy="Declare a higher version.",
                )
            gate = self._gate.before(table, terms)
            gate.declare_version()
            self._row_orders = RowOrders(gate, order, self._row_orders.folder, ids)
            self._gate = gate
            self._runs = Runs(self._runs.member, gate.random_bytes)
            self._consents = Consents(self._runs.member, lambda: gate.ledger.now().timestamp())

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

    def _answer_once_remembered(self, data: bytes) -> bytes:
        """Answer nothing from a ledger that has gone back; answer once it is noted durably where the ledger stands."""
        ledger = self._gate.ledger
        ledger.refuse_set_back()
        try:
            reply = self._answer(data)
        except Exception:
            with contextlib.suppress(ColonnadeError):  # a refusal leaves too, and may come after rows that were written
                ledger.remember_head()
            raise
        ledger.remember_head()
        return reply

    def _answer(self, data: bytes) -> bytes:
        request = self._asked = messages.decode_request(data)
        if isinstance(plan := getattr(request, "plan", None), Plan):
            require_known(plan)
        if isinstance(request, messages.Ask) or (isinstance(request, messages.Post) and request.turn in (1, 2)):
            self._before = self._sequence()  # only these are ever charged for
        if isinstance(request, messages.Propose | messages.Ask | messages.Post) and request.about is not None:
            self._gate.keep_about(request.plan, request.about)
        if isinstance(request, messages.Ask):
            return self._row_orders.gate_for(request.plan.alignment).answer(request)
        if isinstance(request, messages.Post):
            return self._post(request)
        if isinstance(request, messages.Recall):
            return self._recall(request) or messages.encode(messages.NotKept())
        if isinstance(request, messages.Conclude):
            return self._conclude(request)
        return messages.encode(self._public_reply(request))

    def _public_reply(
        self,
        request: messages.Propose
        | messages.GetYes
        | messages.Begin
        | messages.Withdraw
        | messages.GetDescription
        | messages.GetAccount,
    ) -> messages.Reply:
        if isinstance(request, messages.Propose):
            return self._agree(request)
        if isinstance(request, messages.GetDescription):
            return self._describe(request)
        if isinstance(request, messages.GetAccount):
            return self._account(request)
        return self._consent(request)

    def _consent(self, request: messages.GetYes | messages.Begin | messages.Withdraw) -> messages.Reply:
        """Say yes, begin, or end. Nothing is held for a plan in which this party only computes."""
        if isinstance(request, messages.Withdraw):
            self._consents.withdraw(request.plan)
            self._gate.withdraw(request.plan)
            return messages.Acknowledged()
        holds = self._consents.asks_of_us(request.plan)
        if isinstance(request, messages.GetYes):
            if holds:
                self._gate.say_yes(request.plan)  # durably, before anybody can rest on it
            return messages.SaidYes(yes=self._consents.say(request.plan, request.nonces))
        issued = self._consents.hear(request.plan, request.yeses)
        if holds:
            self._gate.begin(request.plan, issued)
        return messages.Acknowledged()

    def _post(self, request: messages.Post) -> bytes:
        self._check_membership(request.plan)
        self._gate.terms.require_version(request.plan)
        gate = self._row_orders.gate_for(request.plan.alignment)
        asked = self._is_asked(request.plan, request.step)
        join = partial(gate.join, request.plan, request.step) if asked else partial(self._compute, request.plan)
        return self._runs.post(request, join, partial(gate.was_begun, request.plan, request.step))

    def _assist(self, plan: Plan) -> None:
        """Agree to compute on shares in a step that reads nothing of this party, or refuse."""
        self._gate.policy.admit_computing(plan, self._gate.terms.party)

    def _compute(self, plan: Plan) -> None:
        self._assist(plan)
        self._consents.require_begun(plan)

    def _recall(self, request: messages.Recall) -> bytes | None:
        kept = None
        if self._is_asked(request.plan, request.step):
            kept = self._row_orders.gate_for(request.plan.alignment).recall(request.plan, request.step)
        return kept or self._runs.opened(request)

    def _conclude(self, request: messages.Conclude) -> bytes:
        """Keep the result, then forget the secrets. Of a step in which this party only computes there is no result to keep."""
        concluded = messages.encode(messages.Acknowledged())
        if self._is_asked(request.plan, request.step):
            gate = self._row_orders.gate_for(request.plan.alignment)
            concluded = gate.conclude(request.plan, request.step, request.values)
        self._runs.conclude(request.plan, request.step)
        return concluded

    def _is_asked(self, plan: Plan, step: str) -> bool:
        """Return whether a step reads anything of this party. Of one plan it may answer some steps and compute in others."""
        return any(one.name == step for one in plan.steps_of(self._gate.terms.party))

    def _check_membership(self, plan: Plan) -> None:
        check_membership(plan, self._runs.member, self._gate.terms.federation)

    def _agree(self, request: messages.Propose) -> messages.Agreed:
        if any(is_conversation(step) for step in request.plan.steps):
            self._check_membership(request.plan)
        hashed = messages.digest(request.plan)
        if self._gate.terms.party in request.plan.compute_nodes and not request.plan.steps_of(self._gate.terms.party):
            self._assist(request.plan)
            nonce = self._consents.ask(request.plan) if request.hold else b""
            return messages.Agreed(plan_hash=hashed, losses={}, unpaid=(), nonce=nonce)
        quoted = self._row_orders.gate_for(request.plan.alignment).quote(request.plan, hold=request.hold)
        nonce = self._consents.ask(request.plan) if request.hold else b""
        return messages.Agreed(
            plan_hash=hashed,
            losses={step: loss.to_bytes() for step, loss in quoted.losses.items()},
            unpaid=quoted.unpaid,
            disclosed=quoted.disclosed,
            sequence=self._gate.ledger.head().sequence,
            nonce=nonce,
        )

    def _describe(self, request: messages.GetDescription) -> messages.Described:
        terms = self._gate.terms
        if request.alignment:
            terms = self._row_orders.gate_for(request.alignment).terms
            if terms.alignment != request.alignment:
                raise PlanMismatch("This party knows no alignment of that name.", remedy="Align the parties first.")
        return terms.described(self._gate.policy)

    def _account(self, request: messages.GetAccount) -> messages.Accounted:
        ledger = self._gate.ledger
        narrator = (
            dataclasses.replace(self.narrator(), owner=f"{self._gate.terms.party}'s") if request.in_words else None
        )
        entries = tuple(
            messages.AccountLine(
                label=entry.label,
                loss=None if entry.loss is None else entry.loss.to_bytes(),
                joint=entry.label if entry.together else None,
                words="" if narrator is None else narrator.row(entry).sentence(),
                plan=entry.plan or b"",
            )
            for entry in ledger.entries(after=request.since)
            if entry.kind in ("debit", "reserve", "nonprivate") and request.plan in (b"", entry.plan)
        )
        account = messages.Accounted(
            party=self._gate.terms.party,
            ledger=ledger.identity,
            sequence=ledger.head().sequence,
            cap_nano=ledger.budget.nano,
            cap_delta=ledger.budget.delta,
            spent=ledger.spent().to_bytes(),
            entries=entries,
        )
        return self._runs.member.signed(account, request.nonce)

    def _sequence(self) -> int:
        try:
            return self._gate.ledger.head().sequence
        except ColonnadeError:
            return 0

    def _spent_on(self, error: Exception) -> float | None:
        """Return what was debited since this request came in. That is never refunded."""
        try:
            return self._spent_since(self._before)
        except ColonnadeError:  # the ledger cannot be read any more; the error says what it had paid
            paid = error.spent if isinstance(error, ColonnadeError) else None
            return (paid or {}).get(self._gate.terms.party)

    def _spent_since(self, sequence: int | None) -> float | None:
        ledger = self._gate.ledger
        if sequence is None or self._sequence() == sequence:
            return None
        losses = [entry.loss for entry in ledger.entries() if entry.sequence > sequence and entry.loss is not None]
        return total(losses).epsilon(ledger.budget.delta) if losses else None
