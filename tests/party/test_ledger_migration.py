"""Ledgers of format 2, written by the software that had it, become ledgers of format 3 that say and answer the same."""

import contextlib
import gzip
import hashlib
import json
import os
import shutil
import signal
import sqlite3
import stat
from pathlib import Path

import pytest

from colonnade.errors import LedgerCorrupt, ProtocolError, ReleaseLost
from colonnade.party.ledger import migration
from colonnade.party.ledger.file import LedgerFile
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.ledger.rows import TRIGGERS, Facts, row_hash
from colonnade.privacy.accounting import NANO, Loss
from tests.party.ledger_children import BODY
from tests.party.ledger_samples import TENTH, flipped, view

KEPT = Path(__file__).parent / "ledgers"
NAMES = ["production", "tests"]


def old_ledger(folder: Path, name: str) -> Path:
    """Unpack a ledger that was written in format 2."""
    path = folder / "bank.ledger"
    path.write_bytes(gzip.decompress((KEPT / f"{name}.format-2.gz").read_bytes()))
    path.chmod(0o600)
    return path


def expected_of(name: str) -> dict:
    """What the software of format 2 found in it."""
    return json.loads((KEPT / f"{name}.format-2.json").read_text())


def copies(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}.format-2-*"))


@pytest.mark.parametrize("name", NAMES)
def test_a_ledger_of_format_2_is_migrated_and_says_spends_and_answers_the_same(tmp_path, name):
    path, expected = old_ledger(tmp_path, name), expected_of(name)
    with SqliteLedger.open(path, party="bank") as ledger:
        ledger.verify()
        sequence, head, nano = expected["head"]
        assert (ledger.identity, ledger.party, ledger.test) == (
            expected["ledger"],
            expected["party"],
            expected["test"],
        )
        assert hashlib.sha256(ledger.spent().to_bytes()).hexdigest() == expected["spent"]
        assert ledger.remaining() == expected["remaining"]
        assert (ledger.head().sequence, ledger.head().nano) == (sequence + 1, nano)
        assert ledger.head().hash.hex() != head
        assert ledger.continues(type(ledger.head())(ledger.identity, sequence, bytes.fromhex(head), nano))
        entries = ledger.entries()
        assert entries[-1].kind == "migrated"
        assert [(entry.label, entry.request) for entry in entries[:-1]] == [
            (label, None if found is None else bytes.fromhex(found[0])) for _, label, found in expected["rows"]
        ]
        for kind, _, found in expected["rows"]:
            if found is not None:
                _answers_as_before(ledger, kind, found)


def _answers_as_before(ledger: SqliteLedger, kind: str, found: list) -> None:
    request, body, seed, answer = (None if one is None else bytes.fromhex(one) for one in found)
    assert ledger.knows(request)
    assert ledger.seed_of(request) == seed
    if answer is None and seed is None and kind == "debit":
        with pytest.raises(ReleaseLost):
            ledger.answer_to(request, body)
    else:
        kept = ledger.answer_to(request, body)
        assert (None if kept is None else hashlib.sha256(kept).digest()) == answer
    with pytest.raises(ProtocolError):
        ledger.debit(request, body, Loss.of_pure(1), label="again")


def test_what_labels_of_format_2_said_in_words_is_read_from_them(tmp_path):
    with SqliteLedger.open(old_ledger(tmp_path, "production")) as ledger:
        entries = ledger.entries()
    assert [entry.request for entry in entries if entry.together] == [
        b"committed",
        entries[4].request,
        b"pending",
    ]
    assert [entry.request for entry in entries if entry.event_level] == [b"event"]
    assert [entry.request for entry in entries if entry.kind == "list"] == [b"run"]
    assert [entry.request for entry in entries if entry.kind == "alignment"] == [b"order"]
    assert all((entry.plan, entry.about, entry.version) == (None, None, None) for entry in entries)


def test_a_migrated_ledger_is_migrated_once_and_goes_on(tmp_path):
    path = old_ledger(tmp_path, "production")
    SqliteLedger.open(path).close()
    migrated = path.read_bytes()
    with SqliteLedger.open(path) as ledger:
        before = view(ledger)
    assert path.read_bytes() == migrated
    with SqliteLedger.open(path) as ledger:
        assert view(ledger) == before
        assert ledger.commit(b"pending", b"opened at last") == b"opened at last"  # reserved before, finished after
        assert ledger.seed_of(b"pending") is None
        ledger.debit(b"new", BODY, TENTH, label="new", together=True)
        ledger.seal(b"new", b"answer")
        spent = ledger.spent()
    assert hashlib.sha256(b"seed two").digest() not in path.read_bytes()
    with SqliteLedger.open(path) as ledger:
        assert ledger.answer_to(b"new", BODY) == b"answer"
        assert ledger.spent() == spent
        assert [entry.together for entry in ledger.entries()[-2:]] == [False, True]


@pytest.mark.parametrize("name", NAMES)
def test_a_verified_copy_of_format_2_is_kept_for_this_user_alone(tmp_path, name):
    path = old_ledger(tmp_path, name)
    with contextlib.closing(sqlite3.connect(path)) as file:
        before = file.execute("SELECT * FROM entries").fetchall()
    SqliteLedger.open(path).close()
    (copy,) = copies(path)
    assert copy.name.endswith(expected_of(name)["head"][1][:12])
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with contextlib.closing(sqlite3.connect(copy)) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (2,)
        assert file.execute("SELECT * FROM entries").fetchall() == before
    again = shutil.copy(copy, tmp_path / "restored.ledger")
    with SqliteLedger.open(again) as ledger:  # a copy is a whole ledger, and migrates like one
        assert hashlib.sha256(ledger.spent().to_bytes()).hexdigest() == expected_of(name)["spent"]


DAMAGE = [
    "UPDATE entries SET label = 'other' WHERE sequence = 1",
    "UPDATE entries SET pure = pure - 1 WHERE sequence = 1",
    "UPDATE entries SET answer = x'00' WHERE sequence = 1",
    "UPDATE entries SET seed = zeroblob(32) WHERE sequence = 5",
    "UPDATE entries SET hash = zeroblob(32) WHERE sequence = 11",
    "DELETE FROM entries WHERE sequence = 2",
    "DELETE FROM entries",
    "CREATE TABLE notes (text TEXT)",
    "PRAGMA application_id = 0",
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_ledger_of_format_2_is_refused_and_left_as_it_is(tmp_path, damage):
    path = old_ledger(tmp_path, "production")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("PRAGMA ignore_check_constraints = ON")
        for trigger in migration.OLD_SCHEMA[1:]:
            file.execute(f"DROP TRIGGER {trigger.split()[2]}")
        file.execute(damage)
        for trigger in migration.OLD_SCHEMA[1:]:
            file.execute(trigger)
    data = path.read_bytes()
    with pytest.raises(LedgerCorrupt):
        SqliteLedger.open(path)
    assert path.read_bytes() == data
    assert not copies(path)


def test_a_flipped_byte_in_a_ledger_of_format_2_is_refused_or_changes_nothing(tmp_path):
    path = old_ledger(tmp_path, "production")
    data, expected = path.read_bytes(), expected_of("production")
    refused = 0
    for at in range(0, len(data), 197):
        path.write_bytes(flipped(data, at))
        Path(f"{path}-journal").unlink(missing_ok=True)
        try:
            with SqliteLedger.open(path) as ledger:
                assert hashlib.sha256(ledger.spent().to_bytes()).hexdigest() == expected["spent"]
                assert [entry.label for entry in ledger.entries()[:-1]] == [row[1] for row in expected["rows"]]
        except LedgerCorrupt:
            refused += 1
    assert refused > len(data) / 197 / 4


def test_the_hash_of_the_migration_pins_every_old_row(tmp_path):
    path = old_ledger(tmp_path, "production")
    SqliteLedger.open(path).close()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as file:
        columns = ", ".join(Facts._fields)
        last = Facts(*file.execute(f"SELECT {columns} FROM entries ORDER BY sequence DESC").fetchone())
    head = expected_of("production")["head"]
    assert json.loads(last.detail) == {"format": 2, "sequence": head[0], "head": head[1]}
    for forged in (
        last._replace(detail=last.detail.replace(head[1][:4], "0000")),
        last._replace(detail=last.detail.replace('"format":2', '"format":1')),
    ):
        other = tmp_path / "forged"
        shutil.copy(path, other)
        with contextlib.closing(sqlite3.connect(other, isolation_level=None)) as file:
            file.execute("DROP TRIGGER only_an_answer_is_ever_added")
            file.execute(
                "UPDATE entries SET detail = ?, hash = ? WHERE sequence = ?",
                (forged.detail, row_hash(forged), forged.sequence),
            )
            file.execute(next(one for one in TRIGGERS if "only_an_answer_is_ever_added" in one))
        with pytest.raises(LedgerCorrupt, match=f"Row {last.sequence} "):
            SqliteLedger.open(other)


def test_software_of_format_2_that_has_the_file_open_can_add_nothing_after_the_migration(tmp_path):
    path = old_ledger(tmp_path, "production")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as old:
        row = old.execute("SELECT * FROM entries WHERE sequence = 1").fetchone()
        SqliteLedger.open(path).close()
        head = old.execute("SELECT sequence, hash FROM entries ORDER BY sequence DESC").fetchone()
        names = "sequence, kind, request, body, label, written, pure, least, loss, detail, seed_hash, previous, hash"
        values = (head[0] + 1, row[1], b"late", *row[3:11], head[1], row[12])
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            old.execute(f"INSERT INTO entries ({names}) VALUES ({', '.join('?' * 13)})", (*values,))


def test_two_processes_that_open_an_old_ledger_migrate_it_once(tmp_path):
    path = old_ledger(tmp_path, "production")
    children = []
    for _ in range(4):
        child = os.fork()
        if not child:
            status = 1
            try:
                with SqliteLedger.open(path) as ledger:
                    ledger.verify()
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    with SqliteLedger.open(path) as ledger:
        assert [entry.kind for entry in ledger.entries()].count("migrated") == 1
    assert len(copies(path)) == 1


def test_a_migration_killed_at_any_statement_leaves_the_old_ledger_or_the_new_one(tmp_path):
    expected, states = expected_of("production"), []
    for number in range(1, 1_000):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = old_ledger(folder, "production")
        killed = _killed_after(number, path)
        with contextlib.closing(sqlite3.connect(path)) as file:
            states.append(file.execute("PRAGMA user_version").fetchone()[0])
            assert file.execute("SELECT COUNT(*) FROM entries").fetchone()[0] == len(expected["rows"]) + (
                states[-1] == 3
            )
        with SqliteLedger.open(path) as ledger:
            assert hashlib.sha256(ledger.spent().to_bytes()).hexdigest() == expected["spent"]
            assert ledger.answer_to(b"sealed", hashlib.sha256(b"body sealed").digest()) == b"a short answer"
        assert len([one for one in copies(path) if "partial" not in one.name]) == 1
        if not killed:
            break
    assert states == sorted(states)
    assert {2, 3} == set(states)
    assert states.count(2) > 20


def _killed_after(number: int, path: Path) -> bool:
    """Open a ledger in another process, which dies before its statement of this number; return whether it did."""
    child = os.fork()
    if not child:
        left, honest = [number], LedgerFile.run

        def run(self, statement, values=()):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            return honest(self, statement, values)

        LedgerFile.run = run
        try:
            SqliteLedger.open(path).close()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_ledger_that_cannot_be_copied_is_left_as_it_is(tmp_path):
    path = old_ledger(tmp_path, "production")
    data = path.read_bytes()
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(LedgerCorrupt):
            SqliteLedger.open(path)
    finally:
        tmp_path.chmod(0o700)
    assert path.read_bytes() == data


def test_a_copy_that_fails_leaves_the_ledger_as_it_is(tmp_path, monkeypatch):
    path = old_ledger(tmp_path, "production")
    data = path.read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(migration, "_sync", full)
        with pytest.raises(LedgerCorrupt, match="left as it is"):
            SqliteLedger.open(path)
    assert path.read_bytes() == data
    SqliteLedger.open(path).close()
    assert len([one for one in copies(path) if "partial" not in one.name]) == 1


def test_losses_of_both_formats_share_one_cap(tmp_path):
    with SqliteLedger.open(old_ledger(tmp_path, "production")) as ledger:
        left = round(ledger.remaining() * NANO)
        ledger.debit(b"rest", BODY, Loss.of_pure(left - 1), label="x")
        assert ledger.remaining() < 0.5
