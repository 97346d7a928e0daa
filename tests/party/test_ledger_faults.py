"""The ledger under faults: killed at every statement and inside writes, raced, starved of disk."""

import itertools
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from colonnade.errors import DiskFull, LedgerCorrupt, ReleaseLost
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.privacy.accounting import NANO, Budget, Loss, of_several, total
from tests import kit
from tests.party.ledger_children import BODY, Nursery, answer_of, brief, seed_of
from tests.party.ledger_samples import TENTH, flipped, make, place, view

SCRIPT = [
    ("debit", "q"),
    ("seal", "q"),
    ("reserve", "r"),
    ("commit", "r"),
    ("raise", ""),
    ("nonprivate", "n"),
    ("seal", "n"),
]
PAID_BY = {"q": "debit", "r": "reserve", "n": "nonprivate"}

every_size = pytest.mark.parametrize(
    "sizes",
    [range(0, 120_000, 3_000), pytest.param(range(0, 120_000, 128), marks=pytest.mark.full)],
    ids=["slice", "all"],
)

linux = pytest.mark.skipif(sys.platform != "linux", reason="uses /proc and /dev/full")


@pytest.fixture(scope="module")
def nursery():
    with Nursery() as nursery:
        yield nursery


def copies(base: Path, folder: Path):
    """Endless fresh copies of one ledger."""
    for number in itertools.count():
        yield Path(shutil.copy(base, folder / f"copy-{number}"))


def done(reports) -> dict:
    return {(call, name): value for kind, call, name, value, *_ in (r for r in reports if r[0] == "done")}


def check_after(path: Path, reports) -> None:
    """Whatever was promised is there, whatever is there is whole, and nothing can be had twice or for nothing."""
    assert not [report for report in reports if report[0] in ("broken", "not poisoned")]
    promised = done(reports)
    with SqliteLedger.open(path) as ledger:
        rows = {entry.request: entry for entry in ledger.entries() if entry.request is not None}
        assert ledger.spent() == total(entry.loss for entry in rows.values() if entry.loss is not None)
        assert ledger.spent().fits(ledger.budget.nano, ledger.budget.delta)
        for call, name in promised:
            if call in ("debit", "reserve", "nonprivate"):
                assert rows[name.encode()].sequence == promised[call, name]
            elif call in ("seal", "commit"):
                assert brief(ledger.answer_to(name.encode(), BODY)) == promised[call, name]
                assert ledger.seed_of(name.encode()) is None
            else:
                assert ledger.budget == Budget(epsilon=2.0, delta=1e-6)
        for name, kind in PAID_BY.items():
            retry(ledger, name.encode(), kind, rows.get(name.encode()))
        ledger.verify()


def retry(ledger: SqliteLedger, name: bytes, kind: str, row) -> None:
    """Ask again after the crash, as a gate does."""
    spent = ledger.spent()
    if row is None:  # never paid, hence never answered: the question is new, and is paid for in full
        assert ledger.answer_to(name, BODY) is None
        assert ledger.seed_of(name) is None
        ledger.debit(name, BODY, TENTH, label="x")
        assert ledger.spent() == spent + TENTH
        return
    assert row.kind == kind
    if row.sealed:
        assert ledger.answer_to(name, BODY) == answer_of(name)
    elif kind == "reserve":
        assert ledger.answer_to(name, BODY) is None
        assert ledger.seed_of(name) == seed_of(name)
        ledger.commit(name, answer_of(name))
    elif kind == "debit":
        with pytest.raises(ReleaseLost):
            ledger.answer_to(name, BODY)
    else:
        assert ledger.answer_to(name, BODY) is None
    assert ledger.spent() == spent


# Killed.


def test_a_kill_at_every_statement_boundary_loses_budget_at_most(tmp_path, nursery):
    base = make(tmp_path / "base")
    killed = 0
    for statement, path in enumerate(copies(base, tmp_path), start=1):
        [outcome] = nursery.run(("killed_at_statement", {"path": str(path), "script": SCRIPT, "statement": statement}))
        check_after(path, outcome.reports)
        if outcome.signal == 0:
            break
        assert outcome.signal == signal.SIGKILL
        killed += 1
    assert outcome.reports[-1] == ["statements", killed]
    assert len(done(outcome.reports)) == len(SCRIPT)
    assert killed >= 5 * len(SCRIPT)  # begin, reads, a write, commit: each was a place to die


@every_size
def test_a_kill_inside_a_write_loses_budget_at_most(tmp_path, nursery, sizes):
    # beyond a file size the kernel kills the writer, in the middle of whatever it was writing: journal or database
    base = make(tmp_path / "base")
    journals, signals = 0, set()
    for size, path in zip(sizes, copies(base, tmp_path), strict=False):
        [outcome] = nursery.run(("killed_at_size", {"path": str(path), "script": SCRIPT, "size": size}))
        signals.add(outcome.signal)
        journals += Path(f"{path}-journal").exists()
        check_after(path, outcome.reports)
    assert signals == {0, signal.SIGXFSZ}
    assert journals > 5  # some died with a hot journal, which opening has to roll back


@pytest.mark.parametrize("kills", [12, pytest.param(300, marks=pytest.mark.full)])
def test_a_kill_at_any_moment_loses_nothing_that_was_promised(tmp_path, nursery, kills):
    moments = kit.generator("kill at any moment").uniform(0.001, 0.12, kills)
    path = make(tmp_path / "base")  # one file throughout: crashes pile up
    promised = {}
    for number, moment in enumerate(moments.tolist()):
        task = {"path": str(path), "prefix": f"{number}-", "seconds": moment}
        [outcome] = nursery.run(("killed_at_time", task))
        assert outcome.signal == signal.SIGALRM
        promised |= done(outcome.reports)
        with SqliteLedger.open(path) as ledger:
            rows = {entry.request: entry for entry in ledger.entries()}
            for call, name in promised:
                assert rows[name.encode()].sequence == promised["debit", name]
                assert call == "debit" or rows[name.encode()].sealed
            assert ledger.spent() == total(entry.loss for entry in rows.values() if entry.loss is not None)
    assert len(promised) > kills


def test_a_damaged_or_missing_hot_journal_never_yields_a_third_state(tmp_path, nursery):
    base = make(tmp_path / "base")
    seen = set()
    for size, path in zip(range(72_500, 86_000, 5_000), copies(base, tmp_path), strict=False):
        nursery.run(("killed_at_size", {"path": str(path), "script": SCRIPT[:2], "size": size}))
        journal, database = Path(f"{path}-journal").read_bytes(), path.read_bytes()
        with SqliteLedger.open(path) as ledger:
            rolled_back = view(ledger)
            ledger.seal(b"q", answer_of(b"q"))
            complete = view(ledger)
        damaged = (flipped(journal, at) for at in range(0, len(journal), 197))
        for damage in [journal, None, b"", journal[:600], *damaged]:
            place(path, database, damage)
            try:
                with SqliteLedger.open(path) as ledger:
                    found = view(ledger)
            except LedgerCorrupt:
                seen.add("refused")
            else:
                assert found in (rolled_back, complete)
                seen.add("accepted")
    assert "accepted" in seen


# Raced.


@pytest.mark.parametrize("processes", [2, 4])
def test_processes_racing_for_the_last_unit_of_budget_have_exactly_one_winner(tmp_path, nursery, processes):
    for round_ in range(5):
        path = tmp_path / f"race-{processes}-{round_}"
        with SqliteLedger.create(path, party="bank", budget=Budget(epsilon=0.1)) as ledger:
            start = time.time() + 0.15
            outcomes = nursery.run(
                *(
                    (
                        "races",
                        {"path": str(path), "name": f"p{number}-", "start": start, "calls": 1, "nano": NANO // 10},
                    )
                    for number in range(processes)
                )
            )
            results = sorted(report[0] if report[0] == "done" else report[1] for o in outcomes for report in o.reports)
            assert results == ["budget-exceeded"] * (processes - 1) + ["done"]
            assert ledger.remaining() == 0
            ledger.verify()


def test_processes_racing_for_many_units_share_them_exactly(tmp_path, nursery):
    path = tmp_path / "race"
    with SqliteLedger.create(path, party="bank", budget=Budget(epsilon=0.3, delta=1e-6)) as ledger:
        arguments = {"path": str(path), "start": time.time() + 0.15, "calls": 10, "nano": 20_000_000}
        outcomes = nursery.run(*(("races", {"name": f"p{number}-", **arguments}) for number in range(4)))
        reports = [report for outcome in outcomes for report in outcome.reports]
        one = Loss.of_pure(20_000_000)
        room = max(times for times in range(1, 41) if of_several([one] * times).fits(300_000_000, 1e-6))
        assert 15 <= room < 40
        assert sorted(report[1] for report in reports if report[0] == "done") == list(range(1, room + 1))
        assert [report[1] for report in reports if report[0] == "refused"] == ["budget-exceeded"] * (40 - room)
        assert ledger.spent() == of_several([one] * room)
        ledger.verify()


def test_processes_asking_the_same_question_at_once_pay_once_and_all_get_the_same_bytes(tmp_path, nursery):
    path = make(tmp_path / "base")
    start = time.time() + 0.15
    outcomes = nursery.run(*[("asks_the_same", {"path": str(path), "start": start, "times": 250})] * 4)
    reports = [report for outcome in outcomes for report in outcome.reports]
    assert len(reports) == 1_000
    assert len({report[1] for report in reports if report[0] == "answer"}) == 1
    # while the winner was between debit and seal, the others were refused; never did one draw a second time
    assert {report[1] for report in reports if report[0] == "refused"} <= {"release-lost", "protocol-error"}
    with SqliteLedger.open(path) as ledger:
        assert ledger.spent() == TENTH + TENTH


# Starved.


def test_a_full_disk_refuses_and_the_ledger_then_refuses_everything(tmp_path):
    make(tmp_path / "bank.ledger")
    with SqliteLedger.open(tmp_path / "bank.ledger") as ledger:
        pages = ledger._file._connection.execute("PRAGMA page_count").fetchone()[0]
        ledger._file._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(DiskFull) as refusal:
            for number in range(9):  # the first may find a page that was freed
                ledger.debit(b"%d" % number, BODY, TENTH, label="x")
        assert refusal.value.spent is None
        assert "nothing was released" in str(refusal.value)
        assert "Make room" in refusal.value.remedy
        assert "do not put a back-up in its place" in refusal.value.remedy
        for call in (ledger.spent, ledger.verify, lambda: ledger.answer_to(b"old", BODY)):
            with pytest.raises(DiskFull):
                call()
    with SqliteLedger.open(tmp_path / "bank.ledger") as ledger:
        assert ledger.spent() == TENTH * (1 + number)
        ledger.debit(b"q", BODY, TENTH, label="x")


def test_a_disk_that_is_full_at_the_seal_says_what_the_lost_release_cost(tmp_path):
    make(tmp_path / "bank.ledger")
    with SqliteLedger.open(tmp_path / "bank.ledger") as ledger:
        ledger.debit(b"q", BODY, TENTH, label="x")
        pages = ledger._file._connection.execute("PRAGMA page_count").fetchone()[0]
        ledger._file._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(DiskFull) as refusal:
            ledger.seal(b"q", bytes(100_000))
        assert refusal.value.spent == {"bank": 0.1}
    with SqliteLedger.open(tmp_path / "bank.ledger") as ledger:
        with pytest.raises(ReleaseLost):
            ledger.answer_to(b"q", BODY)
        assert ledger.spent() == TENTH + TENTH


@every_size
def test_a_write_that_fails_at_any_size_refuses_and_loses_budget_at_most(tmp_path, nursery, sizes):
    base = make(tmp_path / "base")
    refused = 0
    for size, path in zip(sizes, copies(base, tmp_path), strict=False):
        [outcome] = nursery.run(("full_at_size", {"path": str(path), "script": SCRIPT, "size": size}))
        assert outcome.signal == 0
        refusals = [report for report in outcome.reports if report[0] == "refused"]
        assert all(
            report[3] in ("ledger-corrupt", "disk-full") and "nothing was released" in report[4] for report in refusals
        )
        refused += len(refusals)
        check_after(path, outcome.reports)
    assert refused > 5


@pytest.mark.every(2)
@linux
@pytest.mark.parametrize("suffix", ["", "-journal"])
@pytest.mark.parametrize("device", ["/dev/full", "/dev/null"])  # one takes no data; the other takes it and cannot sync
def test_an_input_output_error_at_every_statement_refuses_and_loses_budget_at_most(tmp_path, nursery, device, suffix):
    base = make(tmp_path / "base")
    script = SCRIPT[:2]
    refused = 0
    for statement, path in enumerate(copies(base, tmp_path), start=1):
        arguments = {"path": str(path), "script": script, "statement": statement, "device": device, "suffix": suffix}
        [outcome] = nursery.run(("device_fails_at_statement", arguments))
        swapped = [report[1] for report in outcome.reports if report[0] == "swapped"]
        if not swapped:
            break
        refusals = [report for report in outcome.reports if report[0] == "refused"]
        assert len(refusals) == swapped[0]
        assert all(report[3] in ("ledger-corrupt", "disk-full") for report in refusals)
        refused += len(refusals)
        check_after(path, outcome.reports)
    assert refused >= (2 if suffix else 10)


def test_an_unreadable_or_unwritable_folder_is_refused_without_a_trace(tmp_path, monkeypatch):
    make(tmp_path / "bank.ledger")

    def broken(descriptor):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(LedgerCorrupt):
        SqliteLedger.open(tmp_path / "bank.ledger")
