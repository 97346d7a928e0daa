"""Ledgers for the tests of ledgers, and ways to look at them from outside."""

import contextlib
import sqlite3
from pathlib import Path

from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.privacy.accounting import NANO, Budget, Loss
from tests.party.ledger_children import BODY, answer_of, seed_of, set_cap

OTHER_BODY = bytes(32)
TENTH = Loss.of_pure(NANO // 10)


def fresh(folder: Path, *, epsilon: float = 1.0, delta: float = 0.0, **keywords) -> SqliteLedger:
    return SqliteLedger.create(
        folder / "bank.ledger", party="bank", budget=Budget(epsilon=epsilon, delta=delta), **keywords
    )


def raw(folder: Path) -> contextlib.closing:
    """The file as SQLite alone sees it: what an impatient administrator would use."""
    return contextlib.closing(sqlite3.connect(folder / "bank.ledger", isolation_level=None))


def view(ledger: SqliteLedger) -> tuple:
    """The whole logical content: two ledgers with equal views answer every question alike."""
    entries = ledger.entries()
    requests = [entry.request for entry in entries if entry.request is not None]
    with ledger._file.reading():
        kept = [ledger._chain.find(request) for request in requests]
    return ledger.identity, ledger.party, ledger.test, ledger.budget, ledger.head(), ledger.spent(), entries, kept


def make(path: Path) -> Path:
    """A ledger with one release in it."""
    with SqliteLedger.create(path, party="bank", budget=Budget(epsilon=1.0, delta=1e-6)) as ledger:
        ledger.debit(b"old", BODY, TENTH, label="x")
        ledger.seal(b"old", answer_of(b"old"))
    return path


def make_varied(path: Path) -> Path:
    """A ledger with every kind of row in every state, and a freed page or two."""
    with SqliteLedger.create(path, party="bank", budget=Budget(epsilon=1.0, delta=1e-6), clock=lambda: 1.7e9) as ledger:
        ledger.debit(b"sealed", BODY, TENTH, label="sealed")
        ledger.seal(b"sealed", b"a short answer")
        set_cap(ledger, Budget(epsilon=2.0, delta=1e-6))
        ledger.reserve(b"reserved", BODY, TENTH, label="reserved", seed=seed_of(b"reserved"))
        ledger.record_nonprivate(b"nonprivate", BODY, label="nonprivate")
        ledger.seal(b"nonprivate", b"another short answer")
        ledger.debit(b"lost", BODY, TENTH, label="lost")
    return path


def place(path: Path, database: bytes, journal: bytes | None) -> None:
    """Put a file and its journal where a ledger was."""
    for name, data in ((path, database), (Path(f"{path}-journal"), journal)):
        name.unlink(missing_ok=True)
        if data is not None:
            name.write_bytes(data)
            name.chmod(0o600)


def flipped(data: bytes, position: int, mask: int = 0xFF) -> bytes:
    return data[:position] + bytes([data[position] ^ mask]) + data[position + 1 :]
