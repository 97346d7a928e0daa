"""What a row says beside its cost: the plan it belongs to, what was said about the study, the version of the data."""

import contextlib
import sqlite3

import pytest

from colonnade.errors import BadInput, BudgetExceeded, LedgerCorrupt, ProtocolError
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.ledger.rows import TRIGGERS
from colonnade.plan import About
from colonnade.privacy.accounting import NANO, Loss
from colonnade.protocol import messages
from tests import kit
from tests.party.ledger_children import BODY
from tests.party.ledger_samples import TENTH, fresh

ABOUT = About(title="Churn", purpose="Who leaves, by plan", requester="analyst@telco", signature=b"s" * 64)


def plan_of(task: str = "churn") -> tuple[bytes, bytes]:
    plan = kit.written(task=task, people=3, parties=("bank",))
    return messages.digest(plan), messages.encode(plan)


def test_a_plan_is_written_once_with_the_first_row_that_refers_to_it(tmp_path):
    digest, content = plan_of()
    with fresh(tmp_path) as ledger:
        ledger.keep_plan(digest, content, ABOUT)
        assert ledger.plan(digest) is None
        ledger.verify()
        ledger.debit(b"one", BODY, TENTH, label="x", plan=digest, together=True)
        ledger.reserve(b"two", BODY, TENTH, label="x", seed=bytes(32), plan=digest, event_level=True)
        ledger.record_nonprivate(b"three", BODY, label="x", plan=digest)
        ledger.keep_key(b"four", BODY, bytes(32), label="x", plan=digest)
        ledger.record_alignment(b"five", BODY, label="x", plan=digest)
        ledger.record_list(b"six", BODY, label="x", plan=digest)
        ledger.verify()
    with SqliteLedger.open(tmp_path / "bank.ledger") as ledger:
        assert ledger.plan(digest) == content
        entries = ledger.entries()[1:]
        assert {(entry.plan, entry.about) for entry in entries} == {(digest, ABOUT)}
        assert [entry.together for entry in entries] == [True, *[False] * 5]
        assert [entry.event_level for entry in entries] == [False, True, *[False] * 4]
        ledger.debit(b"later", BODY, TENTH, label="x", plan=digest)  # the plan is in the file
        assert ledger.entries()[-1].about is None  # and nothing was said this time


def test_a_plan_under_another_hash_or_not_handed_over_is_refused_and_nothing_is_written(tmp_path):
    digest, content = plan_of()
    with fresh(tmp_path) as ledger:
        for wrong in (content + b"\0", b"", None, "plan"):
            with pytest.raises(BadInput):
                ledger.keep_plan(digest, wrong)
        with pytest.raises(BadInput, match="handed over"):
            ledger.debit(b"q", BODY, TENTH, label="x", plan=digest)
        assert len(ledger.entries()) == 1
        ledger.keep_plan(digest, content)
        with pytest.raises(BudgetExceeded):
            ledger.debit(b"q", BODY, Loss.of_pure(2 * NANO), label="x", plan=digest)
        assert ledger.plan(digest) is None
        ledger.verify()


def with_plans(folder):
    digest, content = plan_of()
    with fresh(folder) as ledger:
        ledger.keep_plan(digest, content, ABOUT)
        ledger.debit(b"q", BODY, TENTH, label="x", plan=digest)
    return folder / "bank.ledger"


TAMPERING = [
    "UPDATE plans SET content = x'00'",
    "UPDATE plans SET hash = zeroblob(32)",
    "DELETE FROM plans",
    "INSERT INTO plans VALUES (zeroblob(32), x'00')",
    "UPDATE abouts SET title = 'Other'",
    "UPDATE abouts SET purpose = ''",
    "UPDATE abouts SET requester = 'somebody else'",
    "UPDATE abouts SET signature = x''",
    "UPDATE abouts SET title = 'two' || char(10) || 'lines'",
    "DELETE FROM abouts",
    "INSERT INTO abouts SELECT zeroblob(32), title, purpose, requester, signature FROM abouts",
    "UPDATE entries SET plan = NULL, about = NULL WHERE sequence = 1",
    "UPDATE entries SET about = NULL WHERE sequence = 1",
]


@pytest.mark.parametrize("statement", TAMPERING)
def test_a_changed_plan_or_title_is_refused(tmp_path, statement):
    path = with_plans(tmp_path)
    SqliteLedger.open(path).close()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as file:
        for trigger in TRIGGERS:
            file.execute(f"DROP TRIGGER {trigger.split()[2]}")
        file.execute(statement)
        for trigger in TRIGGERS:
            file.execute(trigger)
    with pytest.raises(LedgerCorrupt):
        SqliteLedger.open(path)


@pytest.mark.parametrize(
    "statement",
    [
        *TAMPERING[:3],
        *TAMPERING[4:10],
        "INSERT OR REPLACE INTO plans SELECT hash, x'00' FROM plans",
        "INSERT OR REPLACE INTO abouts SELECT hash, 'x', 'x', 'x', x'' FROM abouts",
    ],
)
def test_the_database_itself_refuses_to_change_a_plan(tmp_path, statement):
    path = with_plans(tmp_path)
    with (
        contextlib.closing(sqlite3.connect(path, isolation_level=None)) as file,
        pytest.raises(sqlite3.IntegrityError, match="append-only"),
    ):
        file.execute(statement)


def test_declared_versions_grow_and_rows_name_the_current_one(tmp_path):
    with fresh(tmp_path) as ledger:
        assert ledger.current_version() is None
        with pytest.raises(ProtocolError):
            ledger.debit(b"q", BODY, TENTH, label="x", version=1)
        assert ledger.declare_version(1) == 1
        ledger.debit(b"q", BODY, TENTH, label="x", version=1)
        ledger.declare_version(3)
        for wrong in (3, 2, 0, -1, True, 1.5, "4", None):
            with pytest.raises(BadInput):
                ledger.declare_version(wrong)
        with pytest.raises(ProtocolError):
            ledger.debit(b"r", BODY, TENTH, label="x", version=1)
        ledger.debit(b"r", BODY, TENTH, label="x", version=3)
        ledger.debit(b"s", BODY, TENTH, label="x")
        spent = ledger.spent()
    with SqliteLedger.open(tmp_path / "bank.ledger") as ledger:
        assert ledger.current_version() == 3
        assert [entry.version for entry in ledger.entries()] == [None, 1, 1, 3, 3, None]
        assert ledger.spent() == spent == TENTH + TENTH + TENTH  # a budget spans versions
