"""The ledger's file, its arguments and its life in a process: whatever is not exactly right is refused."""

import os
import shutil
import stat
import threading

import pytest

from colonnade.errors import BadInput, BudgetExceeded, ColonnadeError, LedgerCorrupt, ProtocolError
from colonnade.party.ledger import file as ledger_file
from colonnade.party.ledger import ledger as ledger_module
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.privacy.accounting import GRID, NANO, NOTHING, Budget
from tests.party.ledger_children import BODY, set_cap
from tests.party.ledger_samples import OTHER_BODY, TENTH, fresh, raw, view

# Reading.


def test_the_head_moves_with_every_row_and_shows_the_total(tmp_path):
    with fresh(tmp_path, delta=1e-6) as ledger:
        heads = [ledger.head()]
        for act in (
            lambda: ledger.debit(b"a", BODY, TENTH, label="x"),
            lambda: ledger.record_nonprivate(b"b", BODY, label="x"),
            lambda: set_cap(ledger, Budget(epsilon=0.5, delta=1e-6)),
            lambda: ledger.reserve(b"c", BODY, TENTH, label="x", seed=bytes(32)),
        ):
            act()
            heads.append(ledger.head())
        ledger.seal(b"a", b"answer")
        assert ledger.head() == heads[-1]
    assert [head.sequence for head in heads] == [0, 1, 2, 3, 4]
    assert [head.nano for head in heads] == [0, NANO // 10, NANO // 10, NANO // 10, NANO // 5]
    assert len({head.hash for head in heads}) == 5
    assert {head.ledger for head in heads} == {heads[0].ledger}


def test_a_ledger_continues_every_head_it_ever_had_and_no_other(tmp_path):
    with fresh(tmp_path) as ledger:
        heads = [ledger.head()]
        for number in range(3):
            ledger.debit(b"%d" % number, BODY, TENTH, label="x")
            heads.append(ledger.head())
        assert all(ledger.continues(head) for head in heads)
    (tmp_path / "bank.ledger").unlink()
    with fresh(tmp_path) as ledger:  # created anew: another identity, as after a lost disk
        for number in range(3):
            ledger.debit(b"%d" % number, BODY, TENTH, label="x")
        assert not any(ledger.continues(head) for head in heads)


# The file.


def test_every_ledger_has_an_identity_of_its_own_that_survives_reopening(tmp_path):
    identities = set()
    for number in range(5):
        with SqliteLedger.create(tmp_path / f"{number}", party="bank", budget=Budget(epsilon=1.0)) as ledger:
            identities.add(ledger.identity)
            assert len(bytes.fromhex(ledger.identity)) == 16
        with SqliteLedger.open(tmp_path / f"{number}") as again:
            assert again.identity == ledger.identity
    assert len(identities) == 5


def test_a_ledger_is_never_created_over_another(tmp_path):
    with fresh(tmp_path) as ledger:
        ledger.debit(b"q", BODY, TENTH, label="x")
    before = (tmp_path / "bank.ledger").read_bytes()
    with pytest.raises(BadInput):
        fresh(tmp_path)
    assert (tmp_path / "bank.ledger").read_bytes() == before


@pytest.mark.parametrize("suffix", ["-journal", "-wal", "-shm"])
def test_a_ledger_is_not_created_beside_the_journal_of_another(tmp_path, suffix):
    (tmp_path / f"bank.ledger{suffix}").write_bytes(b"left by a crash")
    with pytest.raises(BadInput):
        fresh(tmp_path)
    assert not (tmp_path / "bank.ledger").exists()


def test_a_ledger_is_not_created_through_a_dangling_link_nor_in_a_missing_folder(tmp_path):
    (tmp_path / "bank.ledger").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInput):
        fresh(tmp_path)
    assert not (tmp_path / "elsewhere").exists()
    with pytest.raises(BadInput):
        fresh(tmp_path / "missing")


def test_a_ledger_of_another_party_is_refused(tmp_path):
    fresh(tmp_path).close()
    with pytest.raises(LedgerCorrupt):
        SqliteLedger.open(tmp_path / "bank.ledger", party="telco")
    SqliteLedger.open(tmp_path / "bank.ledger", party="bank").close()


def test_the_file_is_for_its_owner_alone(tmp_path):
    before = os.umask(0)
    try:
        fresh(tmp_path).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "bank.ledger").stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o602, 0o640])
def test_a_file_that_others_may_touch_is_refused(tmp_path, mode):
    fresh(tmp_path).close()
    (tmp_path / "bank.ledger").chmod(mode)
    with pytest.raises(LedgerCorrupt):
        SqliteLedger.open(tmp_path / "bank.ledger")


def test_a_file_of_another_user_is_refused(tmp_path, monkeypatch):
    fresh(tmp_path).close()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(LedgerCorrupt):
        SqliteLedger.open(tmp_path / "bank.ledger")


def test_a_link_to_a_ledger_is_refused(tmp_path):
    fresh(tmp_path).close()
    (tmp_path / "symbolic").symlink_to(tmp_path / "bank.ledger")
    with pytest.raises(LedgerCorrupt):
        SqliteLedger.open(tmp_path / "symbolic")
    os.link(tmp_path / "bank.ledger", tmp_path / "hard")
    for name in ("hard", "bank.ledger"):
        with pytest.raises(LedgerCorrupt):
            SqliteLedger.open(tmp_path / name)
    with pytest.raises(LedgerCorrupt):
        SqliteLedger.open(tmp_path)


def test_sqlite_grants_every_setting_that_durability_rests_on(tmp_path):
    with fresh(tmp_path) as ledger:
        for name, wanted in {"journal_mode": "delete", "synchronous": 3, "secure_delete": 1, "fullfsync": 1}.items():
            assert ledger._file._connection.execute(f"PRAGMA {name}").fetchone() == (wanted,)


def test_a_setting_that_sqlite_does_not_grant_is_refused(tmp_path, monkeypatch):
    fresh(tmp_path).close()
    monkeypatch.setattr(ledger_file, "PRAGMAS", {**ledger_file.PRAGMAS, "synchronous": 7})
    with pytest.raises(LedgerCorrupt, match="does not grant"):
        SqliteLedger.open(tmp_path / "bank.ledger")


def test_a_ledger_that_somebody_switched_to_another_journal_is_refused(tmp_path):
    fresh(tmp_path).close()
    with raw(tmp_path) as file:
        assert file.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    with pytest.raises(LedgerCorrupt):
        SqliteLedger.open(tmp_path / "bank.ledger")


@pytest.mark.parametrize(
    "change",
    [
        "DROP TRIGGER rows_are_never_deleted",
        "DROP TRIGGER only_an_answer_is_ever_added",
        "CREATE TABLE notes (text TEXT)",
        "CREATE INDEX extra ON entries (label)",
        "CREATE TRIGGER extra AFTER INSERT ON entries BEGIN SELECT 1; END",
        "CREATE VIEW extra AS SELECT * FROM entries",
        "ALTER TABLE entries ADD COLUMN note TEXT",
        "ALTER TABLE entries RENAME COLUMN label TO title",
        "PRAGMA user_version = 2",
        "PRAGMA user_version = 4",
        "PRAGMA application_id = 0",
    ],
)
def test_a_file_whose_schema_is_not_exactly_ours_is_refused(tmp_path, change):
    fresh(tmp_path).close()
    with raw(tmp_path) as file:
        file.execute(change)
    with pytest.raises(LedgerCorrupt):
        SqliteLedger.open(tmp_path / "bank.ledger")


@pytest.mark.parametrize("content", [b"", b"not a database" * 100, b"SQLite format 3\0" + bytes(4080)])
def test_a_file_that_is_no_ledger_is_refused(tmp_path, content):
    (tmp_path / "bank.ledger").write_bytes(content)
    (tmp_path / "bank.ledger").chmod(0o600)
    with pytest.raises(LedgerCorrupt):
        SqliteLedger.open(tmp_path / "bank.ledger")


@pytest.mark.parametrize(
    ("grid", "version"), [("renyi-grid-0", 3), ("renyi-grid-2", 3), (GRID, 2), (GRID, 1), (GRID, 0)]
)
def test_a_ledger_of_another_format_or_grid_is_refused_even_if_its_chain_is_sound(tmp_path, monkeypatch, grid, version):
    monkeypatch.setattr(ledger_module, "GRID", grid)
    monkeypatch.setattr(ledger_module, "FORMAT", version)
    with pytest.raises(LedgerCorrupt, match="another format or another grid"):
        fresh(tmp_path)
    monkeypatch.undo()
    with pytest.raises(LedgerCorrupt, match="another format or another grid"):
        SqliteLedger.open(tmp_path / "bank.ledger")


# Hostile arguments.


@pytest.mark.parametrize("request_id", [None, "q", b"", bytes(65), 1, bytearray(b"q"), memoryview(b"q")])
def test_a_request_id_that_is_none_is_refused(tmp_path, request_id):
    with fresh(tmp_path) as ledger:
        for call in (
            lambda: ledger.debit(request_id, BODY, TENTH, label="x"),
            lambda: ledger.seal(request_id, b"answer"),
            lambda: ledger.answer_to(request_id, BODY),
            lambda: ledger.seed_of(request_id),
            lambda: ledger.knows(request_id),
        ):
            with pytest.raises(BadInput):
                call()
        assert len(ledger.entries()) == 1


@pytest.mark.parametrize("answer", [None, "text", bytearray(b"x"), 1, bytes(1_001)])
def test_an_answer_that_cannot_be_kept_is_refused_and_the_refusal_says_what_was_paid(tmp_path, monkeypatch, answer):
    monkeypatch.setattr(ledger_module, "LARGEST_ANSWER", 1_000)
    with fresh(tmp_path) as ledger:
        ledger.debit(b"q", BODY, TENTH, label="x")
        with pytest.raises(BadInput) as refusal:
            ledger.seal(b"q", answer)
        assert refusal.value.spent == {"bank": 0.1}
        assert ledger.seal(b"q", b"") == b""  # an empty answer is an answer
        assert ledger.answer_to(b"q", BODY) == b""


def test_no_refusal_repeats_what_it_was_given(tmp_path):
    secret = "7f3a"
    with fresh(tmp_path, epsilon=0.1) as ledger:
        ledger.debit(secret.encode(), BODY, TENTH, label=secret)
        for call in (
            lambda: ledger.answer_to(secret.encode(), OTHER_BODY),
            lambda: ledger.answer_to(secret.encode(), BODY),
            lambda: ledger.debit(secret.encode(), BODY, TENTH, label=secret),
            lambda: ledger.debit(secret.encode() * 2, BODY, TENTH, label=secret),
            lambda: ledger.commit(secret.encode(), secret.encode()),
        ):
            with pytest.raises(ColonnadeError) as refusal:
                call()
            assert secret not in str(refusal.value)
            assert refusal.value.__cause__ is None


# Life in a process.


def test_a_closed_ledger_refuses_everything(tmp_path):
    ledger = fresh(tmp_path)
    ledger.close()
    ledger.close()
    for call in (ledger.spent, ledger.verify, ledger.head, lambda: ledger.debit(b"q", BODY, TENTH, label="x")):
        with pytest.raises(ProtocolError):
            call()


def test_a_ledger_carried_across_a_fork_refuses_in_the_child(tmp_path, monkeypatch):
    with fresh(tmp_path) as ledger:
        monkeypatch.setattr(os, "getpid", lambda: -1)
        for call in (ledger.spent, ledger.close, lambda: ledger.debit(b"q", BODY, TENTH, label="x")):
            with pytest.raises(ProtocolError):
                call()
        monkeypatch.undo()
        assert ledger.spent() == NOTHING


FIRST_CALLS = [
    lambda ledger: ledger.spent(),
    lambda ledger: ledger.answer_to(b"q", BODY),
    lambda ledger: ledger.debit(b"r", BODY, TENTH, label="x"),
    lambda ledger: ledger.seal(b"q", b"answer"),
]


def test_a_ledger_whose_file_is_replaced_under_it_refuses_from_then_on(tmp_path):
    for number, first in enumerate(FIRST_CALLS):
        path = tmp_path / str(number)
        with SqliteLedger.create(path, party="bank", budget=Budget(epsilon=1.0)) as ledger:
            shutil.copy(path, tmp_path / "backup")
            ledger.debit(b"q", BODY, TENTH, label="x")
            (tmp_path / "backup").replace(path)
            for call in (first, *FIRST_CALLS):
                with pytest.raises(LedgerCorrupt):
                    call(ledger)


def test_a_ledger_whose_file_is_removed_under_it_refuses_from_then_on(tmp_path):
    for number, first in enumerate(FIRST_CALLS):
        path = tmp_path / str(number)
        with SqliteLedger.create(path, party="bank", budget=Budget(epsilon=1.0)) as ledger:
            ledger.debit(b"q", BODY, TENTH, label="x")
            path.unlink()
            for call in (first, *FIRST_CALLS):
                with pytest.raises(LedgerCorrupt):
                    call(ledger)
        assert not path.exists()


def test_a_busy_ledger_refuses_and_is_usable_afterwards(tmp_path):
    fresh(tmp_path).close()
    with SqliteLedger.open(tmp_path / "bank.ledger", patience=0.01) as ledger, raw(tmp_path) as other:
        ledger.debit(b"paid", BODY, TENTH, label="x")
        other.execute("BEGIN IMMEDIATE")  # another writer
        with pytest.raises(ProtocolError) as refusal:
            ledger.debit(b"q", BODY, TENTH, label="x")
        assert refusal.value.spent is None
        other.execute("ROLLBACK")
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM entries").fetchall()  # a reader, at which the commit itself must wait
        with pytest.raises(ProtocolError) as refusal:
            ledger.debit(b"q", BODY, TENTH, label="x")
        assert refusal.value.spent is None
        with pytest.raises(ProtocolError) as refusal:
            ledger.seal(b"paid", b"answer")
        assert refusal.value.spent == {"bank": 0.1}
        other.execute("ROLLBACK")
        assert ledger.spent() == TENTH
        ledger.debit(b"q", BODY, TENTH, label="x")
        ledger.seal(b"paid", b"answer")
        ledger.verify()


def test_an_interrupt_inside_a_transaction_leaves_nothing_half_done(tmp_path, monkeypatch):
    with fresh(tmp_path) as ledger:
        before = view(ledger)
        with monkeypatch.context() as patch:
            patch.setattr(ledger, "_figure", lambda loss: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                ledger.debit(b"q", BODY, TENTH, label="x")
        assert view(ledger) == before
        ledger.debit(b"q", BODY, TENTH, label="x")


def test_threads_that_share_a_ledger_share_its_budget(tmp_path):
    with fresh(tmp_path, epsilon=1.0) as ledger:
        outcomes = []

        def spend(name):
            for number in range(6):
                try:
                    ledger.debit(b"%s%d" % (name, number), BODY, TENTH, label="x")
                    ledger.seal(b"%s%d" % (name, number), name)
                    outcomes.append("paid")
                except BudgetExceeded:
                    outcomes.append("refused")

        threads = [threading.Thread(target=spend, args=(name,)) for name in (b"a", b"b", b"c", b"d")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["paid"] * 10 + ["refused"] * 14
        assert ledger.remaining() == 0
        ledger.verify()
