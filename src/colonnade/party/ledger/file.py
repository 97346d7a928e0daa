"""The two files of a ledger: its rows in SQLite, and beside them the highest head that its party has ever shown.

*Rows* (`LedgerFile`). One SQLite file, opened so that what is committed stays committed, and given up after its first failure.

``journal_mode=DELETE`` and ``synchronous=EXTRA``: a commit returns once the journal, the database and the folder are on
disk. Other modes lose committed rows in a power cut, and a lost debit is a release that nobody paid for.

After a failed write or ``fsync`` nobody knows what the disk holds (the kernel may have dropped the pages, and report
success the next time), so nothing is retried: the object refuses everything until the file is opened again, and so
verified. Such a failure is a `LedgerCorrupt`: whether or not bytes are damaged, this ledger cannot be trusted. A full disk is a
`DiskFull`: SQLite takes back what it could not write, and what was there before is sound. Only a busy file, on which nothing was
written, is left usable.

The file is never opened but through SQLite: closing any other descriptor on it would drop SQLite's locks. Nothing here
ever deletes a file, not even one whose creation failed.

*The highest head* (`HeadMemory`). A ledger that was set back (restored from a back-up, copied from another disk) is sound in
itself and has forgotten releases. Its party's peers may be new and remember nothing. So the party keeps the highest head itself,
in a small file beside the ledger (``bank.head`` beside ``bank.sqlite``), and refuses everything from a ledger that does not
continue it. The order of writing is the argument. *After the ledger's commit*: the memory never names a row that the ledger may
not have, so that no crash can block the party. A ledger ahead of its memory is what a crash in between leaves, and is sound.
*Before the message leaves*: whatever anybody was told rests on rows up to this head. The head changes with every row that is
shown, so it is written in two places of the file in turn (`AlternatingFile`): a crash in the middle leaves the head before.
It counts as remembered once its own sync has succeeded, not once it can be read back. Restoring a whole folder sets back both
files; then the memories of the party's peers are the second line (`colonnade.conversations.conversation.LedgerHeads`).
"""

import contextlib
import errno
import hashlib
import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, NoReturn
from urllib.parse import quote

import msgspec

from colonnade.errors import BadInput, ColonnadeError, DiskFull, LedgerCorrupt, ProtocolError, disk_is_full
from colonnade.party.ledger.rows import APPLICATION, FORMAT, LATER, SCHEMAS, Head
from colonnade.privacy.accounting import GRID
from colonnade.runtime.private_files import replacing, sync_folder

PRAGMAS = {"journal_mode": "delete", "synchronous": 3, "fullfsync": 1, "secure_delete": 1, "mmap_size": 0}
"""Asked for and read back. EXTRA is 3; `secure_delete` zeroes an erased seed; memory maps would hide I/O errors."""

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_FAILURES = (sqlite3.Error, UnicodeDecodeError)  # the latter where SQLite quotes damaged text in its message


class _Slot(NamedTuple):
    """One of the two places of a file that holds a whole value: which, the number of the value, and the value."""

    place: int
    number: int
    content: bytes

    def encoded(self) -> bytes:
        body = b"%016x" % self.number + self.content
        return (hashlib.sha256(body).hexdigest()[:32].encode() + body).ljust(AlternatingFile.SLOT)


class AlternatingFile:
    """A short value that changes often. It stands in one of two places of a file, and the next one is written into the other.

    A file that is put in place anew takes two syncs and a new name. Overwriting takes one. Each place has a checksum and a number
    that grows. Cut off in the middle of a write, a file still holds the value before.

    What can be read back need not be on disk: after a failed sync the system shows what it could not write, and the next sync may
    say that all is well. So a value counts as durable once this object has written it and its sync has succeeded. Where the
    value in the file is not known to be so (a sync failed, or another process wrote it), the next one is put in place anew, which
    touches neither of the two places.

    Parameters
    ----------
    path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = AlternatingFile(Path(folder.name) / "place")
    >>> file.read() is None
    True
    >>> for place in (b"one", b"two", b"three", b"three"):
    ...     file.keep(place)
    >>> file.read(), (Path(folder.name) / "place").stat().st_size
    (b'three', 8192)
    >>> folder.cleanup()
    """

    SLOT = 4096
    """Bytes of a place: what a disk writes at once, so that a write into one place cannot damage the other."""
    _HEADER = 48

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[bytes, _Slot | None] = (b"", None)
        self._durable: _Slot | None = None

    def read(self) -> bytes | None:
        """Return the value; ``None`` if there is no file. Raise `ValueError` if neither place holds a whole one."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return None
        newest = self._newest(data)
        if newest is None:
            raise ValueError("Neither place holds a whole value.")
        return newest.content

    def keep(self, content: bytes) -> None:
        """Make this the value, durably."""
        if len(content) > self.SLOT - self._HEADER or content != content.rstrip(b" "):
            raise BadInput("A value that is kept in two places is short, and does not end with a blank.")
        newest = self._newest(self._path.read_bytes()) if self._path.exists() else None
        if newest is None or newest != self._durable:
            self._put_in_place(_Slot(0, 0 if newest is None else newest.number + 1, content))
        elif newest.content != content:
            self._overwrite(_Slot(1 - newest.place, newest.number + 1, content))

    def _put_in_place(self, slot: _Slot) -> None:
        self._durable = None
        with replacing(self._path) as file:
            file.write(slot.encoded().ljust(2 * self.SLOT))
        self._durable = slot

    def _overwrite(self, slot: _Slot) -> None:
        self._durable, content = None, slot.encoded()
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_NOFOLLOW)
            try:
                if os.pwrite(file, content, slot.place * self.SLOT) != len(content):
                    raise OSError(errno.EIO, "A place of a file was written in part.")
                os.fdatasync(file) if hasattr(os, "fdatasync") else os.fsync(file)  # no length changes
            finally:
                os.close(file)
        except OSError as error:
            if disk_is_full(error):
                raise DiskFull("What has to be kept cannot be written: the disk is full.") from None
            raise
        self._durable = slot

    def _newest(self, data: bytes) -> _Slot | None:
        if data != self._seen[0]:  # it is read far more often than written
            self._seen = (data, self._parsed(data))
        return self._seen[1]

    @classmethod
    def _parsed(cls, data: bytes) -> _Slot | None:
        if len(data) != 2 * cls.SLOT:
            return None
        found = []
        for place in range(2):
            slot = data[place * cls.SLOT : (place + 1) * cls.SLOT]
            body = slot[32:].rstrip(b" ")
            if len(body) >= 16 and hashlib.sha256(body).hexdigest()[:32].encode() == slot[:32]:
                found.append(_Slot(place, int(body[:16], 16), body[16:]))
        return max(found, key=lambda one: one.number, default=None)


class HeadMemory:
    """The highest head that was shown of one ledger, in a file of its own.

    Parameters
    ----------
    ledger
        The ledger's file. The memory is beside it, with the ending ``.head``.
    """

    def __init__(self, ledger: Path) -> None:
        self._path = ledger.with_suffix(".head")
        self._file = AlternatingFile(self._path)

    def check(self, continues: Callable[[Head], bool]) -> None:
        """Refuse a ledger that does not continue what was shown of it."""
        highest = self.read()
        if highest is not None and not continues(highest):
            raise LedgerCorrupt(
                "This party's ledger has gone back, or is another one: rows are missing that were shown before; nothing "
                "was released.",
                remedy="Stop the party, and spend nothing. Put the newest back-up in place: colonnade ledger restore. An older "
                "one has forgotten releases, and --forfeit charges them. Removing the .head file does not bring them back.",
            )

    def keep(self, head: Head) -> None:
        """Remember a head durably. The caller keeps everybody from writing to the ledger meanwhile."""
        self.read()  # refuses: a memory that is damaged is not written over
        self._file.keep(msgspec.json.encode(head))

    def read(self) -> Head | None:
        """Return the highest head; ``None`` if none was ever kept."""
        try:
            found = self._found()
            return None if found is None else msgspec.json.decode(found, type=Head)
        except (OSError, msgspec.MsgspecError):
            raise LedgerCorrupt(
                "The file beside the ledger with its highest head cannot be read; nothing was released.",
                remedy="Restore the .head file from a back-up that is no newer than the ledger.",
            ) from None

    def _found(self) -> bytes | None:
        try:
            return self._file.read()
        except ValueError:
            return self._path.read_bytes()  # the head and nothing else, as it was once written; or damaged


class TransactionCost:
    """What to report should a transaction fail; its body fills it in.

    Attributes
    ----------
    paid
        What was durably paid before (the debit of a release that now cannot be kept).
    at_risk
        What this transaction pays. After a failed commit it may or may not be in the file, so it counts as spent.
    """

    paid: Mapping[str, float] | None = None
    at_risk: Mapping[str, float] | None = None


_LAID_OUT = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"


@lru_cache
def _laid_out(grid: str) -> list[tuple[str, ...]]:
    """Return what a ledger's file holds that adds up in this way."""
    with contextlib.closing(sqlite3.connect(":memory:")) as model:
        for statement in SCHEMAS[grid]:
            model.execute(statement)
        return model.execute(_LAID_OUT).fetchall()


class LedgerFile:
    """A connection to one ledger's file.

    Parameters
    ----------
    path
        An existing file, owned by this user and closed to all others.
    patience
        Seconds to wait for another process that is writing.
    """

    def __init__(self, path: str | os.PathLike[str], *, patience: float) -> None:
        self._path = Path(path).absolute()
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._refusal: type[ColonnadeError] | None = None
        self._identity = self._identify()
        location = f"file:{quote(str(self._path))}?mode=rw"
        try:
            self._connection = sqlite3.connect(
                location, uri=True, timeout=patience, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise _refusal(error, None) from None
        try:
            self._configure()
        except _FAILURES as error:
            self._give_up()
            raise _refusal(error, None) from None
        except BaseException:
            self._give_up()
            raise

    @classmethod
    def make(cls, path: str | os.PathLike[str], *, patience: float) -> "LedgerFile":
        """Create an empty ledger file, for this user alone; refuse to touch one that exists."""
        # a journal left by another file would be rolled back into ours
        if any(os.path.lexists(os.fspath(path) + suffix) for suffix in ("-journal", "-wal", "-shm")):
            raise _exists()
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            raise _exists() from None
        except OSError as error:
            if disk_is_full(error):
                raise DiskFull("A ledger cannot be created: the disk is full.") from None
            raise BadInput("A ledger cannot be created at this path.", remedy="Check the folder.") from None
        return cls(path, patience=patience)

    def lay_out(self) -> None:
        """Write the schema (inside a transaction of the caller)."""
        self.run(f"PRAGMA application_id = {APPLICATION}")
        self.run(f"PRAGMA user_version = {FORMAT}")
        for statement in SCHEMAS[GRID]:
            self.run(statement)

    def missing(self) -> list[str]:
        """Return the tables that a file of 0.2.0 lacks (inside a transaction)."""
        found = {name for (name,) in self.run("SELECT name FROM sqlite_master WHERE type = 'table'")}
        return [statement for name, statement in LATER.items() if name not in found]

    def add_tables(self) -> None:
        """Add the tables that a file of 0.2.0 lacks."""
        with self.writing():
            for statement in self.missing():
                self.run(statement)

    def run(self, statement: str, values: tuple[object, ...] = ()) -> sqlite3.Cursor:
        """Run one statement of the transaction that is open."""
        return self._connection.execute(statement, values)

    def reading(self) -> AbstractContextManager[TransactionCost]:
        """Read one consistent state of the file."""
        return self._transaction("BEGIN")

    def writing(self) -> AbstractContextManager[TransactionCost]:
        """Write, with every other writer locked out from the first read on; durable once the block is left."""
        return self._transaction("BEGIN IMMEDIATE")

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[TransactionCost]:
        cost = TransactionCost()
        self._refuse_another_process()
        with self._lock:
            if self._refusal is not None:
                raise self._unusable(self._refusal)
            try:
                self.run(begin)
                self._refuse_another_file()
                yield cost
                self.run("COMMIT")
            except _FAILURES as error:
                self._fail(error, cost)
            except LedgerCorrupt:
                self._give_up()
                raise
            except BaseException:
                self._roll_back()
                raise

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self._path

    def check(self) -> None:
        """Refuse a damaged file, and one whose tables or triggers are not exactly ours (inside a transaction)."""
        sound = [row[0] for row in self.run("PRAGMA integrity_check(1)")] == ["ok"]
        header = tuple(self.run(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
        found = self.run(_LAID_OUT).fetchall()
        if not sound or header != (APPLICATION, FORMAT) or found not in map(_laid_out, SCHEMAS):
            raise LedgerCorrupt("The file is damaged, or is not a ledger of this format; nothing was released.")

    def __reduce__(self) -> NoReturn:
        raise TypeError("A ledger stays where it is.")

    def close(self) -> None:
        """Close the file. Everything that was committed is durable already."""
        self._refuse_another_process()
        with self._lock:
            if self._refusal is None:
                self._refusal = ProtocolError
                self._connection.close()

    def _configure(self) -> None:
        found = self.run("PRAGMA journal_mode").fetchone()[0]
        if found != PRAGMAS["journal_mode"]:
            raise LedgerCorrupt("The ledger was opened in a mode that loses rows in a power cut; nothing was released.")
        for name, wanted in PRAGMAS.items():
            self.run(f"PRAGMA {name} = {wanted}")
            row = self.run(f"PRAGMA {name}").fetchone()
            if row is not None and row[0] != wanted:
                raise LedgerCorrupt(f"SQLite does not grant {name}={wanted}; nothing was released.")
        self.run("PRAGMA trusted_schema = OFF")
        self._refuse_another_file()
        self._sync_folder()

    def _sync_folder(self) -> None:
        # a process killed while it committed may have removed its journal without syncing the folder: the rows that we
        # can read would then be undone by a power cut, after we had acted on them
        try:
            sync_folder(self._path.parent)
        except OSError:
            raise LedgerCorrupt("The ledger's folder cannot be synced to disk; nothing was released.") from None

    def _identify(self) -> tuple[int, int]:
        try:
            found = os.lstat(self._path)
        except OSError:
            raise BadInput(
                "There is no ledger at this path.", remedy="Create one, once; a lost ledger is never created again."
            ) from None
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise LedgerCorrupt(
                "A ledger is one regular file with one name; nothing was released.",
                remedy="Remove links to it: with two names, a crash leaves a journal that recovery does not find.",
            )
        if os.name == "posix" and (found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077):
            raise LedgerCorrupt(
                "A ledger belongs to the user who runs the party, and to nobody else; nothing was released.",
                remedy="Find out who could write to it; then chown it, chmod 600 it, and verify it.",
            )
        return found.st_dev, found.st_ino

    def _refuse_another_file(self) -> None:
        # a file moved away or restored under us would leave our debits where nobody will ever look
        try:
            same = self._identify() == self._identity
        except BadInput:
            same = False
        if not same:
            raise LedgerCorrupt("The ledger's file was moved or replaced while in use; nothing was released.")

    def _refuse_another_process(self) -> None:
        if os.getpid() != self._process:
            raise ProtocolError(
                "This ledger was opened by another process; nothing was released.",
                remedy="Open the ledger after the fork: a connection carried across it corrupts the file.",
            )

    @staticmethod
    def _unusable(kind: type[ColonnadeError]) -> ColonnadeError:
        if kind is ProtocolError:
            return ProtocolError("The ledger is closed; nothing was released.", remedy="Open it again.")
        if kind is DiskFull:
            return DiskFull("The disk was full, and the ledger waits until it is opened again; nothing was released.")
        return kind("The ledger failed earlier and refuses everything until it is opened again; nothing was released.")

    def _roll_back(self) -> None:
        try:
            if self._connection.in_transaction:
                self.run("ROLLBACK")
        except sqlite3.Error:
            self._give_up()

    def _give_up(self, kind: type[ColonnadeError] = LedgerCorrupt) -> None:
        self._refusal = kind
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()

    def _fail(self, error: Exception, cost: TransactionCost) -> NoReturn:
        if _code(error) in _BUSY:
            self._roll_back()  # nothing was written
            raise _refusal(error, cost.paid) from None
        spent = cost.paid or cost.at_risk
        self._give_up(type(_refusal(error, spent)))
        raise _refusal(error, spent) from None  # in no variable here: a cycle would keep the closed file's locks


def _code(error: Exception) -> int:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def _refusal(error: Exception, spent: Mapping[str, float] | None) -> ColonnadeError:
    code = _code(error)
    if code in _BUSY:
        return ProtocolError(
            "Another process is writing to this ledger; nothing was released.", remedy="Ask again.", spent=spent
        )
    if code == sqlite3.SQLITE_FULL:
        return DiskFull("The disk that holds the ledger is full; nothing was released.", spent=spent)
    if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
        return LedgerCorrupt(
            "The ledger cannot be written durably; nothing was released.",
            remedy="Repair the disk or its permissions; then open the ledger again, which verifies it. A back-up is older: "
            "do not put one in its place while the file can be read.",
            spent=spent,
        )
    return LedgerCorrupt("The ledger's file is damaged; nothing was released.", spent=spent)


def _exists() -> BadInput:
    return BadInput(
        "There is a ledger, or the journal of one, at this path already.",
        remedy="Open it. A ledger is never created anew: that would forget what was spent.",
    )
