"""From a ledger of format 2 to one of format 3: in place, in one transaction, after a copy was made and verified.

Old rows keep their facts, their order and their hashes. A row of kind ``migrated`` follows them, is hashed in the new way,
and names the last old row and its hash. A process that is killed on the way leaves the old ledger or the new one.

The copy stands beside the ledger, as ``NAME.format-2-HASH``, for this user alone. It holds the seeds of steps that were
reserved and not finished, and putting it back would forget what was spent since: its owner deletes it once the new
ledger is in use and backed up.
"""

import os
import sqlite3
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

import msgspec

from colonnade.errors import LedgerCorrupt
from colonnade.party.ledger import rows
from colonnade.party.ledger.chain import LedgerState, folded
from colonnade.party.ledger.file import LedgerFile
from colonnade.party.ledger.rows import FACTS, OLD_FACTS, Facts
from colonnade.privacy.accounting import ORDERS

__all__ = ["migrate"]

_LATER = "hash, seed, answer_hash, answer"
_COLUMNS = f"{', '.join(OLD_FACTS)}, {_LATER}"
_ABSENT = ", ".join(["NULL"] * (len(Facts._fields) - len(OLD_FACTS)))
_OLD_ROWS = f"SELECT {', '.join(OLD_FACTS)}, {_ABSENT}, {_LATER} FROM entries ORDER BY sequence"  # noqa: S608
_ROWS = f"SELECT {FACTS}, {_LATER} FROM entries ORDER BY sequence"  # noqa: S608
_UNCHANGED = "\n        AND ".join(f"OLD.{column} IS NEW.{column}" for column in (*OLD_FACTS, "hash"))

OLD_SCHEMA = (
    f"""CREATE TABLE entries (
    sequence INTEGER PRIMARY KEY CHECK (sequence >= 0 AND (sequence = 0) = (kind = 'genesis')),
    kind TEXT NOT NULL CHECK (kind IN ('genesis', 'cap', 'debit', 'reserve', 'nonprivate', 'opening', 'key', 'alignment')),
    request BLOB UNIQUE CHECK (request IS NULL OR (typeof(request) = 'blob' AND length(request) BETWEEN 1 AND 64)),
    body BLOB CHECK (body IS NULL OR (typeof(body) = 'blob' AND length(body) = 32)),
    label TEXT NOT NULL CHECK (typeof(label) = 'text'),
    written INTEGER NOT NULL CHECK (typeof(written) = 'integer' AND written >= 0),
    pure INTEGER CHECK (pure IS NULL OR (typeof(pure) = 'integer' AND pure > 0)),
    least INTEGER CHECK (least IS NULL OR (typeof(least) = 'integer' AND least > 0)),
    loss BLOB CHECK (loss IS NULL OR (typeof(loss) = 'blob' AND length(loss) = {16 * (len(ORDERS) + 1)})),
    detail TEXT CHECK (detail IS NULL OR typeof(detail) = 'text'),
    seed_hash BLOB CHECK (seed_hash IS NULL OR (typeof(seed_hash) = 'blob' AND length(seed_hash) = 32)),
    previous BLOB NOT NULL CHECK (typeof(previous) = 'blob' AND length(previous) = 32),
    hash BLOB NOT NULL CHECK (typeof(hash) = 'blob' AND length(hash) = 32),
    seed BLOB CHECK (seed IS NULL OR (typeof(seed) = 'blob' AND length(seed) = 32)),
    answer_hash BLOB CHECK (answer_hash IS NULL OR (typeof(answer_hash) = 'blob' AND length(answer_hash) = 32)),
    answer BLOB CHECK (answer IS NULL OR typeof(answer) = 'blob'),
    CHECK ((kind IN ('debit', 'reserve', 'nonprivate', 'opening', 'key', 'alignment')) = (request IS NOT NULL)),
    CHECK ((request IS NULL) = (body IS NULL)),
    CHECK ((kind IN ('debit', 'reserve')) = (loss IS NOT NULL)),
    CHECK ((loss IS NULL) = (least IS NULL) AND (pure IS NULL OR loss IS NOT NULL)),
    CHECK ((kind IN ('genesis', 'cap')) = (detail IS NOT NULL)),
    CHECK ((kind IN ('reserve', 'key')) = (seed_hash IS NOT NULL)),
    CHECK ((seed IS NOT NULL) = (kind IN ('reserve', 'key') AND answer IS NULL)),
    CHECK ((answer IS NULL) = (answer_hash IS NULL) AND (answer IS NULL OR request IS NOT NULL))
)""",
    """CREATE TRIGGER rows_are_never_deleted BEFORE DELETE ON entries
BEGIN
    SELECT RAISE(ABORT, 'append-only');
END""",
    # INSERT OR REPLACE deletes without a delete trigger, so a row may only ever be the next one, unanswered, and new
    """CREATE TRIGGER rows_are_appended_in_order BEFORE INSERT ON entries
WHEN NEW.sequence IS NOT (SELECT COALESCE(MAX(sequence) + 1, 0) FROM entries)
    OR (NEW.sequence > 0 AND NEW.previous IS NOT (SELECT hash FROM entries WHERE sequence = NEW.sequence - 1))
    OR EXISTS (SELECT 1 FROM entries WHERE request = NEW.request)
    OR NEW.answer IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'append-only');
END""",
    f"""CREATE TRIGGER only_an_answer_is_ever_added BEFORE UPDATE ON entries
WHEN NOT (
        OLD.answer IS NULL AND NEW.answer IS NOT NULL AND NEW.seed IS NULL
        AND {_UNCHANGED}
    )
BEGIN
    SELECT RAISE(ABORT, 'append-only');
END""",
)
"""The statements of a file of format 2, to the letter."""


def migrate(file: LedgerFile, written: int) -> None:
    """Bring a ledger of format 2 to format 3; leave any other as it is. Refuse a damaged one, unchanged.

    Parameters
    ----------
    file
        The ledger.
    written
        The time for the row that says so, in microseconds since 1970.
    """
    with file.reading():
        if file.format() != rows.OLD_FORMAT:
            return
    with file.writing():
        if file.format() != rows.OLD_FORMAT:  # another process was quicker
            return
        file.check(rows.OLD_FORMAT, OLD_SCHEMA)
        state = _verified(file.run(_OLD_ROWS))
        _keep_copy(file.path, state)
        _rewrite(file)
        pinned = msgspec.structs.replace(state.pinned, salt=os.urandom(32).hex())
        row = state.row("migrated", written, "migrated", detail=msgspec.json.encode(pinned).decode())
        places = ", ".join("?" * (len(row) + 1))
        file.run(f"INSERT INTO entries ({FACTS}, hash) VALUES ({places})", (*row, rows.row_hash(row)))  # noqa: S608
        file.check()
        if _verified(file.run(_ROWS)).total != state.total:
            raise rows.corrupt(state.sequence)


def _verified(stored: sqlite3.Cursor) -> LedgerState:
    last = deque(folded(stored), maxlen=1)
    if not last:
        raise rows.corrupt(0)
    return last[0][1].within_cap()


def _rewrite(file: LedgerFile) -> None:
    """Copy the rows to the new table, and lay the rest of the file out."""
    for statement in OLD_SCHEMA[1:]:
        file.run(f"DROP TRIGGER {statement.split()[2]}")
    file.run("ALTER TABLE entries RENAME TO old_entries")
    for statement in rows.TABLES:
        file.run(statement)
    file.run(f"INSERT INTO entries ({_COLUMNS}) SELECT {_COLUMNS} FROM old_entries ORDER BY sequence")  # noqa: S608
    file.run("DROP TABLE old_entries")
    for statement in rows.TRIGGERS:
        file.run(statement)
    file.run(f"PRAGMA user_version = {rows.FORMAT}")


def _keep_copy(path: Path, state: LedgerState) -> None:
    """Copy the file, sync the copy, verify it, and only then give it its name."""
    partial = Path(f"{path}.format-{rows.OLD_FORMAT}-partial")
    target = Path(f"{path}.format-{rows.OLD_FORMAT}-{state.hash.hex()[:12]}")
    try:
        partial.unlink(missing_ok=True)  # what a killed process left of its own copy
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        # the caller's lock keeps writers out; SQLite reads the file, since closing another descriptor on it drops locks
        with _connected(path, "ro") as source, _connected(partial, "rw") as copy:
            copy.execute("PRAGMA journal_mode = OFF")
            source.backup(copy)
        _sync(partial)
        with _connected(partial, "ro") as copy:
            header = tuple(copy.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
            found = _verified(copy.execute(_OLD_ROWS))
        if header != (rows.APPLICATION, rows.OLD_FORMAT) or found != state:
            raise LedgerCorrupt("The copy of a ledger of format 2 is not like it; the ledger was left as it is.")
        partial.replace(target)
        _sync(path.parent)
    except (OSError, sqlite3.Error):
        raise LedgerCorrupt(
            "A ledger of format 2 cannot be copied before it is migrated; it was left as it is.",
            remedy="Make room in the ledger's folder, or correct its permissions; then open the ledger again.",
        ) from None


@contextmanager
def _connected(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode={mode}", uri=True, isolation_level=None)) as connection:
        yield connection


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
