"""How a federation is brought up: all parties in this process, or a connection to parties on other machines.

*The journal* (`StudyJournal`) is what a coordinator keeps of its studies, so that one that was cut short is taken up again.
Members keep their own answers and say the same again when they are asked again. So all that a coordinator keeps is which
studies were begun, and how far they have come.
"""

import os
import sqlite3
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self, TypeVar

from colonnade.conversations.conversation import Member, check_account
from colonnade.conversations.endpoint import COORDINATORS, ComputeNode, check_signature, read_yeses
from colonnade.conversations.memory import LedgerHeads, RunRecords, Said
from colonnade.errors import BadInput, ColonnadeError, ProtocolError, SchemaMismatch
from colonnade.plan import Plan
from colonnade.privacy.accounting import Budget
from colonnade.protocol import messages
from colonnade.protocol.agreement import COORDINATOR, FederationAgreement, read_agreement
from colonnade.protocol.messages import Accounted, Ask, Described, Post, Recall, Request
from colonnade.runtime.event_log import Log, LogFile, write_status
from colonnade.runtime.private_files import read_hex
from colonnade.schema import Schema
from colonnade.secure.keys import NONCE_BYTES, Identity, PublicIdentity, nonces_digest
from colonnade.secure.shamir import FEWEST_NODES
from colonnade.steps.kind import SharingFloor
from colonnade.transport.direct import Endpoint, Transport, WithLocalNodes
from colonnade.transport.kit import require_engine

Policy_contra = TypeVar("Policy_contra", contravariant=True)


class SimulatedParty(Protocol[Policy_contra]):
    """What the coordinator knows of `cn.Party`: it can be opened in this process. The coordinator does not import the class."""

    @classmethod
    def assemble(
        cls,
        parties: Mapping[str, Self],
        *,
        id: str | Mapping[str, str],  # noqa: A002  # as in `Federation.simulate`
        budget: Budget,
        policies: Mapping[str, Policy_contra] | None,
        compute_nodes: Sequence[str],
        committee: Sequence[str] | None,
        collusion: int,
        ledger_dir: str | Path | None,
        test_key: bytes | None,
        aligned: bool,
        analysts: Mapping[str, PublicIdentity],
        change_cap: bool,
    ) -> Mapping[str, Endpoint]:
        """Open several parties, and nodes without data, on the ids that all of them have."""
        ...


class TemporaryLedgers(UserWarning):
    """Ledgers that end with the process: what this script spends, the next run of it does not know.

    Examples
    --------
    >>> import warnings, colonnade as cn
    >>> warnings.simplefilter("ignore", cn.TemporaryLedgers)  # for a script whose people are invented
    """


def _tell_of_temporary_ledgers() -> None:
    """Say, once for each place in a script, that its simulation keeps no ledgers. The library's own people are invented."""
    caller = sys._getframe(3).f_globals.get("__name__", "")  # noqa: SLF001  # who called `Federation.simulate`
    if caller.partition(".")[0] != __name__.partition(".")[0]:
        warnings.warn(
            "This simulation keeps its ledgers in a temporary folder: the budget starts anew each time the script runs. "
            'With real data keep them: Federation.simulate(..., ledger_dir="ledgers").',
            TemporaryLedgers,
            stacklevel=4,
        )


def simulated_nodes(
    parties: Mapping[str, object],
    compute_nodes: Sequence[str],
    ledger_dir: object,
    committee: Sequence[str] | None = None,
) -> tuple[str, ...]:
    """Check what `Federation.simulate` was given, and return who computes on shares besides the parties.

    The coordinator joins in where there would be fewer than three nodes.
    """
    if not isinstance(parties, Mapping) or not parties:
        raise BadInput(
            "simulate takes a mapping from party names to cn.Party objects, at least one.",
            remedy='For example {"bank": cn.Party(frame, schema=...)}.',
        )
    kinds = {type(party) for party in parties.values()}
    if len(kinds) != 1 or not hasattr(next(iter(kinds)), "assemble"):
        raise BadInput("simulate takes cn.Party objects.", remedy="Wrap each table: cn.Party(frame, schema=...).")
    if isinstance(compute_nodes, str) or COORDINATOR in compute_nodes:
        raise BadInput(
            "compute_nodes takes a list of names; the coordinator joins in by itself where it is needed.",
            remedy='For example compute_nodes=["auditor"].',
        )
    if committee is not None:
        _check_committee(committee, [*parties, *compute_nodes])
    if ledger_dir is None:
        _tell_of_temporary_ledgers()
    joins = len(parties) + len(compute_nodes) < FEWEST_NODES
    return (*map(str, compute_nodes), *([COORDINATOR] if joins else []))


def _check_committee(committee: object, members: Sequence[str]) -> None:
    example = f"For example committee={list(members[:FEWEST_NODES])}."
    if isinstance(committee, str) or not isinstance(committee, Sequence):
        raise BadInput("committee takes a list of members.", remedy=example)
    strangers = [name for name in committee if name not in members]
    if strangers:
        raise BadInput("The committee names somebody who is no party and no compute node here.", remedy=example)
    if len(set(committee)) < max(FEWEST_NODES, len(committee)) or len(committee) % 2 == 0:
        raise BadInput("A committee has an odd number of different members, three or more.", remedy=example)


@dataclass(frozen=True)
class Connection:
    """What `Federation.connect` opens: the signed agreement, the transport to the members, and the journal."""

    agreement: FederationAgreement
    transport: Transport
    journal: "StudyJournal"


def open_connection(
    path: str | Path,
    *,
    kit: str | Path | None = None,
    state: str | Path | None = None,
    patience: float | None = None,
    listen: str | None = None,
) -> Connection:
    """Read a federation's agreement, listen for its members, and open the coordinator's state."""
    path = Path(path)
    agreement = read_agreement(path).check()
    require_engine()
    from colonnade.transport.flare import PATIENCE, FlareTransport

    kit = coordinator_folder(path) if kit is None else Path(kit)
    state = path.parent / "coordinator-state" if state is None else Path(state)
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    notes = Log(LogFile(state / "coordinator.log"), COORDINATOR, COORDINATOR)
    journal = StudyJournal(state / "studies.sqlite", agreement, log=notes)
    where = agreement.coordinator
    try:
        near = {COORDINATOR: _own_node(agreement, kit, state)} if COORDINATOR in agreement.members else {}
        far = FlareTransport(
            agreement.sites,
            address=where.address if listen is None else f"{where.scheme}://{listen}:{where.port}",
            kit=kit,
            host=where.host,
            patience=PATIENCE if patience is None else patience,
            log=notes,
            changed=lambda connected: write_status(
                state / "coordinator.status", {"pid": os.getpid(), "connected": connected}
            ),
            memory=state / "certificates.status",
        )
    except BaseException:
        journal.close()
        raise
    line: Transport = WithLocalNodes(far, near) if near else far
    return Connection(agreement, _traced(line) if os.environ.get("COLONNADE_TRACES") == "1" else line, journal)


def _traced(line: Transport) -> Transport:
    from colonnade.transport.direct import Traced

    return Traced(line)


def one_order(described: Mapping[str, Described]) -> tuple[str, int, bool, dict[str, int]]:
    """Return the order of rows that all parties describe: its name, its people, whether it is a union, and data versions."""
    orders = {(reply.alignment, reply.people) for reply in described.values()}
    if len(orders) != 1 or any(reply.party != name for name, reply in described.items()):
        raise SchemaMismatch("The parties do not agree on one order of rows.", remedy="Call federation.align() again.")
    union = any(reply.union for reply in described.values())
    return *orders.pop(), union, {name: reply.version for name, reply in described.items()}


def check_schemas(agreement: FederationAgreement, schemas: "Mapping[str, Schema]") -> None:
    """Refuse parties whose columns differ from those in the agreement."""
    for party, schema in schemas.items():
        if messages.schema_digest(schema) != agreement.members[party].schema:
            raise SchemaMismatch(
                f"Party {party!r} describes other columns than the federation's agreement.",
                remedy="Open the party with the schema that was signed, or sign a new agreement.",
            )


def coordinator_folder(papers: Path) -> Path:
    """Return where the coordinator's own folder is looked for: not in the federation's folder, which is sent round."""
    beside = papers.resolve().parent.parent / COORDINATOR
    return beside if beside.is_dir() else papers.parent / "kit"


def _own_node(agreement: FederationAgreement, kit: Path, state: Path) -> ComputeNode:
    try:
        seed = read_hex(kit / "identity.key")
    except BadInput:
        raise BadInput(
            "The coordinator is a compute node of this federation, and its folder has no identity.key.",
            remedy="Use the folder that `colonnade coordinator init` made on this machine.",
        ) from None
    ledgers = {name: agreement.members[name].ledger for name in agreement.parties}
    member = Member(
        COORDINATOR,
        Identity.from_seed(seed),
        agreement.pinned(),
        LedgerHeads(ledgers, state / "node.heads"),
        SharingFloor.of_papers(agreement),
        RunRecords(state / "node.openings.sqlite"),
    )
    return ComputeNode(member, agreement.identity, os.urandom)


_LAYOUT = """
CREATE TABLE IF NOT EXISTS studies (
    plan BLOB PRIMARY KEY, task TEXT NOT NULL, method TEXT NOT NULL, status TEXT NOT NULL, step TEXT NOT NULL,
    turn INTEGER NOT NULL, started REAL NOT NULL, updated REAL NOT NULL, bytes BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS files (
    name TEXT PRIMARY KEY, text TEXT NOT NULL, status TEXT NOT NULL, started REAL NOT NULL
);
"""


@dataclass(frozen=True)
class StudyStatus:
    """Where one study stands."""

    plan: str
    task: str
    method: str
    status: str
    step: str
    turn: int
    started: float
    updated: float


class StudyJournal:
    """A coordinator's durable state, in one SQLite file.

    Parameters
    ----------
    path
        The file; its folder is made if need be.
    agreement
        The federation's agreement: it names every ledger and every signing key.
    log
        Where studies are noted as they go; closed with the journal.
    clock
        Seconds since 1970.
    attempts
        How often a study is tried before a failure of the network or of a process is reported.
    """

    def __init__(
        self,
        path: str | Path,
        agreement: FederationAgreement | None = None,
        *,
        log: Log | None = None,
        clock: Callable[[], float] = time.time,
        attempts: int = 3,
    ) -> None:
        path = Path(path)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.attempts = attempts
        self._log = log or Log(None, "coordinator", "coordinator")
        self._steps: dict[bytes, str] = {}
        self._clock = clock
        self._lock = threading.Lock()
        self._pinned = {} if agreement is None else agreement.pinned()
        self._ledgers = (
            {} if agreement is None else {name: agreement.members[name].ledger for name in agreement.parties}
        )
        self._heads = LedgerHeads(self._ledgers, path.with_suffix(".heads"))
        try:
            self._file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._file.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;" + _LAYOUT)
        except sqlite3.Error:
            raise BadInput(
                f"The coordinator's state {path} cannot be opened.", remedy="Check that its folder can be written."
            ) from None

    # What the driver says -----------------------------------------------------------------------------------------------

    def begin(self, plan: Plan) -> None:
        """Note that a study is under way."""
        now = self._clock()
        entries = (
            messages.digest(plan),
            plan.task,
            plan.method,
            "running",
            "agreeing",
            0,
            now,
            now,
            messages.encode(plan),
        )
        self._write("INSERT OR IGNORE INTO studies VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", entries)
        self._write("UPDATE studies SET status = 'running', updated = ? WHERE plan = ?", (now, entries[0]))
        self._log.event("study-started", study=entries[0].hex()[:12])

    def challenge(self, plan: Plan) -> bytes:
        """Return a fresh nonce, over which every member says yes, and where its ledger stands."""
        return self._heads.issue(messages.digest(plan))

    def agreed(self, plan: Plan, nonces: Mapping[str, bytes], yeses: Mapping[str, bytes]) -> None:
        """Check every yes, and remember where every ledger stands; refuse one that has gone back."""
        said = read_yeses(messages.digest(plan), frozenset(plan.members), yeses)
        for name, yes in said.items():
            if yes.nonces != nonces_digest(nonces):
                raise ProtocolError(f"{name!r} said yes to other nonces.", remedy="Start the study again.")
            check_signature(name, yes, self._pinned)
        heads = {name: Said(yes.head, nonces[COORDINATORS], yes.words(), yes.signature) for name, yes in said.items()}
        self._heads.observe(messages.digest(plan), heads)

    def account_nonce(self) -> bytes:
        """Return a fresh nonce, over which a party signs its account."""
        return os.urandom(NONCE_BYTES) if self._pinned else b""

    def check_account(self, party: str, nonce: bytes, account: Accounted) -> None:
        """Refuse an account that is not signed by this party, or is of another ledger than the one in the papers."""
        if not self._pinned:
            return
        if party not in self._ledgers or account.ledger != self._ledgers[party]:
            raise ProtocolError(f"The account of {party!r} is not about the ledger in the federation's papers.")
        check_account(account, nonce, self._pinned[party])

    def sending(self, plan: Plan, requests: Mapping[str, Request]) -> None:
        """Note where the study stands."""
        first = next(iter(requests.values()), None)
        if not isinstance(first, Ask | Post | Recall):
            return
        turn = first.turn if isinstance(first, Post) else 0
        digest = messages.digest(plan)
        if first.step != self._steps.get(digest):
            self._steps[digest] = first.step
            self._log.event("study-step", study=digest.hex()[:12], step=_plain(first.step))
        where = (first.step, turn, self._clock(), digest)
        self._write("UPDATE studies SET step = ?, turn = ?, updated = ? WHERE plan = ?", where)

    def finish(self, plan: Plan, error: ColonnadeError | None) -> None:
        """Note how a study ended; one that the network or a crash cut short is still to be finished."""
        status = "done" if error is None else "interrupted" if isinstance(error, ProtocolError) else "refused"
        digest = messages.digest(plan)
        self._write("UPDATE studies SET status = ?, updated = ? WHERE plan = ?", (status, self._clock(), digest))
        self._steps.pop(digest, None)
        if error is None:
            self._log.event("study-finished", study=digest.hex()[:12])
        else:
            self._log.event("study-failed", study=digest.hex()[:12], code=error.code)

    # What the command line asks -----------------------------------------------------------------------------------------

    def studies(self) -> list[StudyStatus]:
        """Return every study that was ever begun, the latest last."""
        with self._lock:
            rows = self._file.execute(
                "SELECT plan, task, method, status, step, turn, started, updated FROM studies ORDER BY started"
            ).fetchall()
        return [StudyStatus(row[0].hex(), *row[1:]) for row in rows]

    def begin_file(self, name: str, text: str) -> None:
        """Keep a study file until all of it is done, so that it can be taken up again."""
        self._write("INSERT OR REPLACE INTO files VALUES (?, ?, 'running', ?)", (name, text, self._clock()))

    def finish_file(self, name: str) -> None:
        """Note that all of a study file is done."""
        self._write("UPDATE files SET status = 'done' WHERE name = ?", (name,))

    def unfinished_files(self) -> list[tuple[str, str]]:
        """Return the name and text of every study file that was begun and not finished."""
        with self._lock:
            return self._file.execute("SELECT name, text FROM files WHERE status != 'done' ORDER BY started").fetchall()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()
        self._log.close()

    def _write(self, statement: str, values: tuple[object, ...]) -> None:
        with self._lock:
            self._file.execute(statement, values)


def _plain(name: str) -> str:
    """Return a step's name as a log takes it."""
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name)[:40]
