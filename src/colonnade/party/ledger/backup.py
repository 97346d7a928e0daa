"""Copies of a ledger: made while it is in use, verified, and put back without forgetting what was spent.

A back-up is older than the ledger. One that is put back has forgotten what was released since, and would spend the same budget
twice. So a back-up that is behind anything known of the ledger (`Evidence`) is put back only with a charge for all that may be
missing: a row of kind ``forfeit``, which releases nothing, and the owner's signature under it (`Forfeit`).

*What is known.* The party's own memory of its highest head is exact: it is written before anything leaves. What others attest
is less: they saw a head at the start of a study, before that study was paid for, and nothing of what the party released by
itself. So their heads show that a back-up is behind, and never that nothing is missing.

*What is charged.* Nobody knows the lost rows. If the ledger's total is known, ε at the cap's δ, all of that ε is charged again
as a pure loss, on top of what the back-up shows: what was released is (ε, δ)-differentially private, and such a release is no
worse than a pure one of ε, apart from an event of probability δ (docs/proofs/neighbours-and-losses.md#forfeit). So what the
ledger promises from then on holds with 2 δ in place of δ. If the owner says what everything together came to, the total is raised
to at least that. What the back-up shows is part of it, so only the difference is charged, at every order: then the ledger's curve
is nowhere below that of a pure loss of this ε. Where the total is not known, or where the charge does not fit, the whole of what
is left under the cap is charged.

*Peers* accept no ledger that does not extend what they have seen (`colonnade.conversations.memory`). They accept one that names a
forfeit later than they know, with a total no smaller than they have seen, as the beginning of a new history.

*Data versions.* A version that may have been declared in a lost row is given to no other table. The table of the version in the
back-up keeps it.
"""

import math
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from colonnade.errors import BadInput, DiskFull, LedgerCorrupt, disk_is_full
from colonnade.party.ledger.decisions import Forfeit
from colonnade.party.ledger.file import HeadMemory
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.ledger.rows import Head
from colonnade.privacy.accounting import NANO, Loss, largest_pure, of_several
from colonnade.runtime.private_files import sync_folder
from colonnade.secure.keys import Identity

UNSEEN = 1_000
"""How many data versions are left out where nobody knows how many rows were lost."""

_BESIDE = ("-journal", "-wal", "-shm")


@dataclass(frozen=True)
class Evidence:
    """What is known of how far a ledger had come.

    Parameters
    ----------
    heads
        Heads that it once had: what the party itself remembers, and what others attest.
    total
        The ε that it had spent when it was lost, if that is known; ``None`` if more may have been released than any head shows.
    delta
        The δ of the cap that totals are said at, as the party's policy has it. If the back-up has another, its totals are not
        comparable, and the total counts as not known.
    spent
        The ε of everything that was ever released, in the owner's word; ``None`` if the owner says nothing.
    """

    heads: Sequence[Head]
    total: float | None
    delta: float
    spent: float | None = None

    @property
    def sequence(self) -> int:
        """The highest row that anybody knows of."""
        return max((head.sequence for head in self.heads), default=0)

    def nano(self, ledger: SqliteLedger) -> int | None:
        """Return the total that this copy may have forgotten, in nano-ε at the cap's δ; ``None`` if it is not known."""
        said = [math.ceil(one * NANO) for one in (self.total, self.spent) if one is not None]
        if not said or self.delta != ledger.budget.delta:
            return None
        return max(*said, *(head.nano for head in self.heads), 0)

    def charge(self, ledger: SqliteLedger) -> Loss | None:
        """Return the loss to charge; ``None`` if it is not known."""
        due, before = self.nano(ledger), ledger.spent()
        if due is None:
            return None
        least = Loss.of_pure(max(due, 1))
        return least if self.spent is None else least.less(before, 1)


@dataclass(frozen=True)
class Restored:
    """What a restored ledger says: where it stands, and how much ε was charged for what it may have forgotten."""

    head: Head
    charged: float
    rows: int


def back_up(path: Path, target: Path) -> Head:
    """Copy a ledger, in use or not, to a new file for this user alone; verify the copy; return where it stands."""
    with SqliteLedger.open(path) as ledger:
        _copy(path, target)
        with SqliteLedger.open(target) as copy:
            head = copy.head()
        if not ledger.continues(head):
            raise LedgerCorrupt(
                "The copy is not like the ledger.", remedy=f"Delete {target}, and look at the disk that it is on."
            )
    return head


def restore(
    backup: Path,
    path: Path,
    *,
    party: str,
    evidence: Evidence,
    forfeit: Identity | None,
    clock: Callable[[], float] = time.time,
) -> Restored:
    """Put a back-up in the place of a ledger; refuse one that may have forgotten releases, unless these are charged.

    The file that was there is kept beside it. A crash leaves the old ledger, or one that its party refuses until it is restored
    again. With the ledger itself as ``backup`` and ``forfeit``, what it has forgotten is charged where it stands.

    Parameters
    ----------
    backup, path, party
        The copy, the ledger, and whose it is.
    evidence
        What is known of how far the ledger had come.
    forfeit
        The owner's key, to charge and sign for what may be missing; ``None`` to refuse instead.
    clock
        Seconds since 1970.
    """
    in_place = backup == path
    part = path.with_name("restoring.sqlite")
    for name in (part, part.with_suffix(".head"), *(Path(f"{part}{suffix}") for suffix in _BESIDE)):
        name.unlink(missing_ok=True)  # left by a crash
    _copy(backup, part)
    try:
        with SqliteLedger.open(part, party=party, clock=clock) as copy:
            if not (in_place and forfeit):
                _refuse_older(copy, path)
            behind = not all(copy.continues(head) for head in evidence.heads)
            doubtful = behind or in_place or evidence.total is None
            if doubtful and forfeit is None:
                raise _forgotten(copy, evidence, behind)
            before = copy.head().sequence
            charged = _charge(copy, evidence, forfeit, round(clock() * 1e6)) if doubtful and forfeit else 0.0
            copy.verify()
            head = copy.head()
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    _put_in_place(part, path, round(clock()))
    HeadMemory(path).keep(head)
    return Restored(head, charged, head.sequence - before)


def _refuse_older(copy: SqliteLedger, path: Path) -> None:
    """Refuse to replace a ledger that is sound and at least as new."""
    try:
        with SqliteLedger.open(path) as present:
            newer = present.continues(copy.head())
    except (BadInput, LedgerCorrupt):  # there is none, or it cannot be trusted
        return
    if newer:
        raise BadInput(
            "The ledger in place is sound, and at least as new as this back-up.",
            remedy="Use it as it is: colonnade ledger verify FILE.",
        )


def _forgotten(copy: SqliteLedger, evidence: Evidence, behind: bool) -> LedgerCorrupt:
    head = copy.head()
    if behind:
        return LedgerCorrupt(
            f"This back-up ends at row {head.sequence}, and the ledger had come to row {evidence.sequence}: it has forgotten "
            "releases.",
            remedy="Look for a newer back-up. If there is none, charge what is lost: --forfeit.",
        )
    return LedgerCorrupt(
        "Nobody can say how far this ledger had come after the back-up was made.",
        remedy="The ledger.head that this party wrote is gone too; one from a back-up says nothing. --forfeit charges the whole "
        "cap, or the total that your own records show: --spent EPSILON.",
    )


def _charge(copy: SqliteLedger, evidence: Evidence, owner: Identity, now: int) -> float:
    """Charge what may be missing, and have the owner sign for it."""
    before, head = copy.spent(), copy.head()
    missing = max(evidence.sequence - head.sequence, 0)
    cap, known = copy.budget, evidence.charge(copy)
    charge = known
    if known is None or not of_several((before, known)).fits(cap.nano, cap.delta):
        room = largest_pure(before, cap.nano, cap.delta)
        charge = Loss.of_pure(room) if room else None
    if charge is not None:
        copy.forfeit(charge, label="forfeit: released after the back-up, δ counts twice")
    unseen = 0 if known is not None else UNSEEN
    made = Forfeit(
        nano=copy.head().nano,
        when=max(now, head.forfeited + 1),
        version=copy.next_version() - 1 + missing + unseen,
    )
    copy.decide(made.signed(copy.identity, owner))
    return max(copy.spent().epsilon(cap.delta) - before.epsilon(cap.delta), 0.0)


def _copy(source: Path, target: Path) -> None:
    """Copy a ledger by SQLite's own back-up to a new file, synced to disk."""
    try:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with _connected(source, "ro") as original, _connected(target, "rw") as copy:
            copy.execute("PRAGMA journal_mode = OFF")
            original.backup(copy)
        descriptor = os.open(target, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        sync_folder(target.parent)
    except FileExistsError:
        raise BadInput(f"{target} exists already.", remedy="Name a file that does not exist yet.") from None
    except (OSError, sqlite3.Error) as error:
        full = disk_is_full(error) if isinstance(error, OSError) else _code(error) == sqlite3.SQLITE_FULL
        target.unlink(missing_ok=True)
        if full:
            raise DiskFull("The copy of the ledger does not fit on the disk.") from None
        raise BadInput(
            f"{source.name} cannot be copied to {target}.", remedy="Check both paths; the first must be a ledger."
        ) from None


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


@contextmanager
def _connected(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    location = f"file:{quote(str(path.absolute()))}?mode={mode}"
    with closing(sqlite3.connect(location, uri=True, isolation_level=None)) as connection:
        yield connection


def _put_in_place(part: Path, path: Path, now: int) -> None:
    """Keep what was there, with what SQLite left beside it, and give the new file its name."""
    kept = path.with_name(f"{path.name}.before-{now}")
    for suffix in ("", *_BESIDE):
        old = Path(f"{path}{suffix}")
        if os.path.lexists(old):
            old.rename(f"{kept}{suffix}")
    part.rename(path)
    sync_folder(path.parent)
