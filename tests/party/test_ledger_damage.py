"""A damaged or forged ledger is refused, or its content is unchanged: byte by byte, page by page, row by row."""

import contextlib
import itertools
import json
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from colonnade.errors import ColonnadeError, LedgerCorrupt
from colonnade.party.ledger import rows as ledger_rows
from colonnade.party.ledger.chain import LedgerState
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.ledger.rows import FACTS, TRIGGERS, Facts, row_hash
from colonnade.privacy.accounting import GRID, NANO, NOTHING, Loss
from tests.party.ledger_children import BODY
from tests.party.ledger_samples import TENTH, flipped, make, make_varied, place, view


def refused_or_identical(path: Path, data: bytes, before: tuple) -> bool:
    """Return whether the damaged file was refused; fail if it was accepted with any other content."""
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    place(path, data, None)
    try:
        with SqliteLedger.open(path) as ledger:
            assert view(ledger) == before
            with contextlib.suppress(LedgerCorrupt):  # and it may be spent from, or not, but never wrongly
                ledger.debit(b"next", BODY, TENTH, label="x")
                assert ledger.spent() == before[5] + TENTH
    except LedgerCorrupt:
        return True
    return False


@pytest.mark.parametrize("share", [200, pytest.param(1, marks=pytest.mark.full)], ids=["slice", "every-position"])
def test_a_flipped_byte_is_refused_or_changes_nothing(tmp_path, share):
    base = make_varied(tmp_path / "base")
    with SqliteLedger.open(base) as ledger:
        before = view(ledger)
    data = base.read_bytes()
    positions = [*range(0, 100, min(share, 4)), *range(100, len(data), share)]
    refused = [
        refused_or_identical(tmp_path / "copy", flipped(data, at, 0xFF if at % 2 else 1 << at % 8), before)
        for at in positions
    ]
    assert not all(refused)  # some bytes of a file mean nothing: a change counter, unused space
    assert sum(refused) > len(positions) / 4


@pytest.mark.parametrize("step", [1_024, pytest.param(64, marks=pytest.mark.full)])
def test_a_truncated_or_extended_file_is_refused_or_changes_nothing(tmp_path, step):
    base = make_varied(tmp_path / "base")
    with SqliteLedger.open(base) as ledger:
        before = view(ledger)
    data = base.read_bytes()
    assert all(refused_or_identical(tmp_path / "copy", data[:length], before) for length in range(0, len(data), step))
    for tail in (b"\0", bytes(4096), os.urandom(5000)):
        refused_or_identical(tmp_path / "copy", data + tail, before)


def test_a_zeroed_or_swapped_page_is_refused_or_changes_nothing(tmp_path):
    base = make_varied(tmp_path / "base")
    with SqliteLedger.open(base) as ledger:
        before = view(ledger)
    data = base.read_bytes()
    pages = [data[at : at + 4096] for at in range(0, len(data), 4096)]
    for one, two in itertools.combinations(range(len(pages)), 2):
        swapped = list(pages)
        swapped[one], swapped[two] = swapped[two], swapped[one]
        refused_or_identical(tmp_path / "copy", b"".join(swapped), before)
    for one in range(len(pages)):
        refused_or_identical(tmp_path / "copy", b"".join([*pages[:one], bytes(4096), *pages[one + 1 :]]), before)


def tamper(path: Path, *statements: str) -> None:
    """Edit the file as somebody would who knows SQLite: without the triggers, which are put back afterwards."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("BEGIN")
        file.execute("PRAGMA ignore_check_constraints = ON")
        for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            file.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            file.execute(statement)
        for trigger in TRIGGERS:
            file.execute(trigger)
        file.execute("COMMIT")


CHANGED_FACTS = [
    "label = 'other'",
    "pure = pure - 1",
    "least = least - 1",
    "written = written + 1",
    "body = zeroblob(32)",
    "request = x'09'",
    "kind = 'nonprivate', loss = NULL, pure = NULL, least = NULL",
    "hash = zeroblob(32)",
    "previous = zeroblob(32)",
    "loss = zeroblob(length(loss))",
    "together = 1",
    "event_level = 1",
    "version = 1",
    "together = NULL, event_level = NULL",
]


def test_a_changed_fact_is_refused_by_the_chain(tmp_path):
    for number, change in enumerate(CHANGED_FACTS):
        path = make_varied(tmp_path / str(number))
        tamper(path, f"UPDATE entries SET {change} WHERE sequence = 1")
        with pytest.raises(LedgerCorrupt, match=r"Row [12] |damaged"):
            SqliteLedger.open(path)
    path = make_varied(tmp_path / "cap")
    tamper(path, "UPDATE entries SET detail = replace(detail, '2000000000', '9000000000') WHERE sequence = 2")
    with pytest.raises(LedgerCorrupt, match="Row 2 "):
        SqliteLedger.open(path)
    path = make_varied(tmp_path / "genesis")
    tamper(path, "UPDATE entries SET detail = replace(detail, 'false', 'true') WHERE sequence = 0")
    with pytest.raises(LedgerCorrupt, match="Row 0 "):
        SqliteLedger.open(path)


def test_a_changed_answer_or_seed_is_refused(tmp_path):
    for number, statement in enumerate(
        [
            "UPDATE entries SET answer = x'00' WHERE sequence = 1",
            "UPDATE entries SET answer = NULL WHERE sequence = 1",
            "UPDATE entries SET answer_hash = zeroblob(32) WHERE sequence = 1",
            "UPDATE entries SET answer = x'00', answer_hash = zeroblob(32) WHERE sequence = 5",
            "UPDATE entries SET answer_hash = (SELECT answer_hash FROM entries WHERE sequence = 1) WHERE sequence = 4",
            "UPDATE entries SET seed = zeroblob(32) WHERE sequence = 3",
        ]
    ):
        path = make_varied(tmp_path / str(number))
        tamper(path, statement)
        with pytest.raises(LedgerCorrupt):
            SqliteLedger.open(path)


def test_a_row_cut_out_of_the_middle_is_refused(tmp_path):
    path = make_varied(tmp_path / "cut")
    tamper(path, "DELETE FROM entries WHERE sequence = 2")
    with pytest.raises(LedgerCorrupt):
        SqliteLedger.open(path)
    path = make_varied(tmp_path / "renumbered")
    tamper(
        path, "DELETE FROM entries WHERE sequence = 1", "UPDATE entries SET sequence = sequence - 1 WHERE sequence > 1"
    )
    with pytest.raises(LedgerCorrupt):
        SqliteLedger.open(path)


def test_a_row_that_is_spliced_in_beyond_the_cap_is_refused_even_if_its_hash_is_sound(tmp_path):
    path = make(tmp_path / "ledger")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as file:
        row = file.execute(f"SELECT {FACTS}, hash FROM entries WHERE sequence = 1").fetchone()
        forged = Facts(*row[:-1])._replace(sequence=2, request=b"forged", previous=row[-1])
        huge = Loss.of_pure(5 * NANO)
        forged = forged._replace(pure=huge.pure, least=min(huge.renyi), loss=huge.to_bytes())
        places = ", ".join("?" * (len(forged) + 1))
        file.execute(f"INSERT INTO entries ({FACTS}, hash) VALUES ({places})", (*forged, row_hash(forged)))
    with pytest.raises(LedgerCorrupt, match="Row 2 "):
        SqliteLedger.open(path)


GENESIS = {"format": 3, "grid": GRID, "ledger": "00", "party": "bank", "test": False, "cap": {"nano": 10, "delta": 0.0}}


def first_of(**changes) -> Facts:
    detail = json.dumps({**GENESIS, **changes})
    return Facts(0, "genesis", None, None, "genesis", 0, None, None, None, detail, None, bytes(32))


@pytest.mark.parametrize(
    "first",
    [
        first_of()._replace(kind="cap"),
        first_of()._replace(previous=bytes(31) + b"1"),
        first_of()._replace(detail=None),
        first_of()._replace(detail="{"),
        first_of(extra=1),
        first_of(test=1),
        *(first_of(cap={"nano": nano, "delta": 0.0}) for nano in (0, -1, 0.5, True, "1", 10**14)),
        *(first_of(cap={"nano": 10, "delta": delta}) for delta in (1.0, -0.1, "0", None)),
        first_of(format=2),
        first_of(format=4),
        first_of()._replace(together=None, event_level=None),
        first_of(grid="renyi-grid-0"),
    ],
)  # fmt: skip
def test_a_forged_first_row_is_refused_even_if_its_hash_is_sound(first):
    with pytest.raises(LedgerCorrupt):
        LedgerState.begin(first, row_hash(first))


def test_a_forged_row_is_refused_even_if_its_hash_is_sound():
    first = first_of(cap={"nano": NANO, "delta": 0.0})
    start = LedgerState.begin(first, row_hash(first))
    paid = start.row("debit", 0, "x", request=b"q", body=BODY, loss=TENTH)
    after = start.then(paid, row_hash(paid))
    assert after.total == TENTH
    sound = after.row("debit", 0, "x", request=b"r", body=BODY, loss=TENTH)
    cap = after.row("cap", 0, "cap", detail='{"nano":200000000,"delta":0.0}')
    after.then(sound, row_hash(sound))
    after.then(cap, row_hash(cap))
    for forged in (
        sound._replace(sequence=1),
        sound._replace(sequence=3),
        sound._replace(previous=bytes(32)),
        sound._replace(kind="genesis"),
        sound._replace(kind="refund"),
        sound._replace(loss=None),
        sound._replace(pure=1),
        sound._replace(least=1),
        sound._replace(loss=sound.loss[:-1]),
        sound._replace(loss=NOTHING.to_bytes(), pure=0, least=0),
        sound._replace(loss=b"\xff" * len(sound.loss)),
        cap._replace(detail=None),
        cap._replace(detail="[]"),
        cap._replace(detail='{"nano":99999999,"delta":0.0}'),  # below what was spent
        cap._replace(detail='{"nano":-1,"delta":0.0}'),
    ):
        with pytest.raises(LedgerCorrupt):
            after.then(forged, row_hash(forged))
    with pytest.raises(LedgerCorrupt):
        after.then(sound._replace(written=0.5), bytes(32))
    over = after.row("debit", 0, "x", request=b"r", body=BODY, loss=Loss.of_pure(NANO))
    with pytest.raises(LedgerCorrupt):
        after.then(over, row_hash(over)).within_cap()


def test_rows_cut_off_the_end_are_shown_by_a_head_kept_elsewhere_and_by_nothing_else(tmp_path):
    # A shorter ledger, or an older copy, is sound in itself. This is what heads in messages are for.
    path = make_varied(tmp_path / "ledger")
    backup = shutil.copy(path, tmp_path / "backup")
    with SqliteLedger.open(path) as ledger:
        head = ledger.head()
    tamper(path, "DELETE FROM entries WHERE sequence = 5")
    with SqliteLedger.open(path) as ledger:
        assert ledger.spent() == TENTH + TENTH  # one debit is gone, and the file cannot know
        assert not ledger.continues(head)
    with SqliteLedger.open(backup) as ledger:
        assert ledger.continues(head)
        ledger.debit(b"more", BODY, TENTH, label="x")
        assert ledger.continues(head)


def test_rows_cut_off_the_end_are_noticed_by_a_process_that_has_the_ledger_open(tmp_path):
    path = make_varied(tmp_path / "ledger")
    with SqliteLedger.open(path) as ledger:
        tamper(path, "DELETE FROM entries WHERE sequence = 5")
        for call in (lambda: ledger.debit(b"q", BODY, TENTH, label="x"), ledger.spent):
            with pytest.raises(LedgerCorrupt):
                call()
    path = make_varied(tmp_path / "again")
    with SqliteLedger.open(path) as ledger:
        tamper(path, "DELETE FROM entries WHERE sequence = 5")
        with pytest.raises(LedgerCorrupt):
            ledger.verify()


@pytest.mark.parametrize("change", ["label = 'other'", "written = written + 1", "hash = zeroblob(32)", "version = 7"])
def test_a_last_row_that_is_changed_after_it_was_read_is_noticed(tmp_path, change):
    path = make_varied(tmp_path / "ledger")
    with SqliteLedger.open(path) as ledger:
        ledger.spent()
        tamper(path, f"UPDATE entries SET {change} WHERE sequence = (SELECT max(sequence) FROM entries)")
        with pytest.raises(LedgerCorrupt):
            ledger.spent()


def test_damage_while_the_ledger_is_open_is_refused_where_it_is_read(tmp_path):
    path = make_varied(tmp_path / "ledger")
    with SqliteLedger.open(path) as ledger:
        tamper(path, "UPDATE entries SET answer = x'00' WHERE sequence = 1")
        with pytest.raises(LedgerCorrupt):
            ledger.answer_to(b"sealed", BODY)
        with pytest.raises(ColonnadeError):
            ledger.spent()


def test_no_two_rows_have_the_same_encoding(tmp_path):
    plain = Facts(1, "debit", b"ab", b"c", "x", 1, 1, 1, b"1", None, None, bytes(32))
    others = [
        plain._replace(request=b"a", body=b"bc"),
        plain._replace(request=None, body=b"abc"),
        plain._replace(label="x1", written=1),
        plain._replace(label="x", written=11, pure=None),
        plain._replace(written=11, pure=1, least=None),
        plain._replace(pure=11, least=None),
        plain._replace(loss=b"", detail="1"),
        plain._replace(loss=None, detail="1"),
        plain._replace(loss=b"1", detail=""),
        plain._replace(request=b"ab", body=b""),
        plain._replace(pure=None, least=1),
        plain._replace(pure=1, least=None),
        plain._replace(together=1),
        plain._replace(event_level=1),
        plain._replace(together=None, event_level=None),
        plain._replace(plan=b"1"),
        plain._replace(about=b"1"),
        plain._replace(version=1),
    ]
    hashes = [row_hash(row) for row in (plain, *others)]
    assert len(set(hashes)) == len(hashes)
    assert ledger_rows.answer_hash(bytes(32), b"") != ledger_rows.seed_hash(bytes(32), b"")
    assert ledger_rows.answer_hash(b"a", b"b") != ledger_rows.answer_hash(b"ab", b"")
