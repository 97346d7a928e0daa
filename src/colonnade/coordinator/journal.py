"""A coordinator's journal: what it keeps of its studies, so that one that was cut short is taken up again.

Members keep their own answers and say the same again when they are asked again. So all that a coordinator keeps is which studies
were begun, and how far they have come.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from colonnade.conversations.consent import COORDINATORS, check_signature, read_yeses
from colonnade.conversations.conversation import check_account
from colonnade.conversations.memory import LedgerHeads, Said
from colonnade.errors import BadInput, ColonnadeError, ProtocolError
from colonnade.plan import Plan
from colonnade.protocol import codec
from colonnade.protocol.agreement import FederationAgreement
from colonnade.protocol.messages import Accounted, Ask, Post, Recall, Request
from colonnade.runtime.event_log import Log
from colonnade.secure.mail import NONCE_BYTES, nonces_digest

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
        entries = (codec.digest(plan), plan.task, plan.method, "running", "agreeing", 0, now, now, codec.encode(plan))
        self._write("INSERT OR IGNORE INTO studies VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", entries)
        self._write("UPDATE studies SET status = 'running', updated = ? WHERE plan = ?", (now, entries[0]))
        self._log.event("study-started", study=entries[0].hex()[:12])

    def challenge(self, plan: Plan) -> bytes:
        """Return a fresh nonce, over which every member says yes, and where its ledger stands."""
        return self._heads.issue(codec.digest(plan))

    def agreed(self, plan: Plan, nonces: Mapping[str, bytes], yeses: Mapping[str, bytes]) -> None:
        """Check every yes, and remember where every ledger stands; refuse one that has gone back."""
        said = read_yeses(codec.digest(plan), frozenset(plan.members), yeses)
        for name, yes in said.items():
            if yes.nonces != nonces_digest(nonces):
                raise ProtocolError(f"{name!r} said yes to other nonces.", remedy="Start the study again.")
            check_signature(name, yes, self._pinned)
        heads = {name: Said(yes.head, nonces[COORDINATORS], yes.words(), yes.signature) for name, yes in said.items()}
        self._heads.observe(codec.digest(plan), heads)

    def account_nonce(self) -> bytes:
        """Return a fresh nonce, over which a party signs its account."""
        return os.urandom(NONCE_BYTES) if self._pinned else b""

    def check_account(self, party: str, nonce: bytes, account: Accounted) -> None:
        """Refuse an account that is not signed by this party, or is of another ledger than the one in the papers."""
        if not self._pinned:
            return
        if party not in self._ledgers or account.ledger != self._ledgers[party]:
            raise ProtocolError(
                f"The account of {party!r} is of another ledger than the one in the federation's papers."
            )
        check_account(account, nonce, self._pinned[party])

    def sending(self, plan: Plan, requests: Mapping[str, Request]) -> None:
        """Note where the study stands."""
        first = next(iter(requests.values()), None)
        if not isinstance(first, Ask | Post | Recall):
            return
        turn = first.turn if isinstance(first, Post) else 0
        digest = codec.digest(plan)
        if first.step != self._steps.get(digest):
            self._steps[digest] = first.step
            self._log.event("study-step", study=digest.hex()[:12], step=_plain(first.step))
        where = (first.step, turn, self._clock(), digest)
        self._write("UPDATE studies SET step = ?, turn = ?, updated = ? WHERE plan = ?", where)

    def finish(self, plan: Plan, error: ColonnadeError | None) -> None:
        """Note how a study ended; one that the network or a crash cut short is still to be finished."""
        status = "done" if error is None else "interrupted" if isinstance(error, ProtocolError) else "refused"
        digest = codec.digest(plan)
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
