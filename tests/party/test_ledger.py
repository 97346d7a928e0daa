"""The ledger keeps its invariants (`security.md`), and counts to the last nano-unit.

The file and the process around it are in `test_ledger_file.py`, a state machine in `test_ledger_machine.py`, kills, races
and full disks in `test_ledger_faults.py`, damage in `test_ledger_damage.py`, deliberate bugs in `tests/seeded`.
"""

import gzip
import itertools
import os
import sqlite3
import tempfile
from fractions import Fraction
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest

from colonnade.errors import BadInput, BudgetExceeded, ColonnadeError, ProtocolError, ReleaseLost
from colonnade.party.ledger.ledger import Hold, SqliteLedger
from colonnade.party.ledger.rows import Ceiling
from colonnade.privacy.accounting import LEAST, NANO, NOTHING, ORDERS, UNBOUNDED, Budget, Loss, Price, of_several, total
from colonnade.privacy.calibration import budget_loss, ledger_rho
from colonnade.protocol import messages
from tests.party.ledger_children import BODY, set_cap
from tests.party.ledger_samples import OTHER_BODY, TENTH, fresh, raw, view

# The five invariants, by name.


def test_invariant_1_a_release_implies_an_earlier_durable_debit(tmp_path):
    with fresh(tmp_path) as ledger:
        with pytest.raises(ProtocolError):
            ledger.seal(b"q", b"answer")
        with pytest.raises(ProtocolError):
            ledger.commit(b"q", b"answer")
        assert ledger.answer_to(b"q", BODY) is None
        ledger.debit(b"q", BODY, TENTH, label="x")
        with SqliteLedger.open(tmp_path / "bank.ledger") as other:  # what is on disk, not what is in memory
            assert other.spent() == TENTH
            assert not other.entries()[1].sealed
        assert ledger.seal(b"q", b"answer") == b"answer"


def test_invariant_1_an_answer_cannot_be_inserted_with_or_without_its_debit(tmp_path):
    with fresh(tmp_path) as ledger:
        ledger.debit(b"q", BODY, TENTH, label="x")
    with raw(tmp_path) as file:
        columns = [row[1] for row in file.execute("PRAGMA table_info(entries)")]
        row = dict(zip(columns, file.execute("SELECT * FROM entries WHERE sequence = 1").fetchone(), strict=True))
        row |= {"sequence": 2, "request": b"r", "previous": row["hash"], "answer": b"free", "answer_hash": bytes(32)}
        with pytest.raises(sqlite3.IntegrityError):
            file.execute(f"INSERT INTO entries VALUES ({', '.join('?' * len(row))})", tuple(row.values()))


def test_invariant_2_the_total_never_passes_the_cap(tmp_path):
    with fresh(tmp_path, epsilon=0.35) as ledger:
        for number in range(3):
            ledger.debit(b"%d" % number, BODY, TENTH, label="x")
        before = view(ledger)
        with pytest.raises(BudgetExceeded) as refusal:
            ledger.debit(b"3", BODY, TENTH, label="x")
        assert refusal.value.spent is None
        assert view(ledger) == before
        ledger.debit(b"4", BODY, Loss.of_pure(50_000_000), label="x")  # exactly the rest
        assert ledger.remaining() == 0
        with pytest.raises(BudgetExceeded):
            ledger.debit(b"5", BODY, Loss.of_pure(1), label="x")


def test_invariant_2_two_handles_share_one_budget(tmp_path):
    with fresh(tmp_path, epsilon=0.3) as one, SqliteLedger.open(tmp_path / "bank.ledger") as two:
        for ledger, name in zip(itertools.cycle([one, two]), [b"a", b"b", b"c"]):
            ledger.debit(name, BODY, TENTH, label="x")
        for ledger in (one, two):
            with pytest.raises(BudgetExceeded):
                ledger.debit(b"d", BODY, TENTH, label="x")
        assert view(one) == view(two)


def test_invariant_2_holds_for_curves_and_for_their_mixture_with_pure_losses(tmp_path):
    rho = Fraction(1, 32)
    with fresh(tmp_path, epsilon=3.0, delta=1e-5) as ledger:
        paid = []
        for number in range(100):
            loss = Loss.of_zcdp(rho) if number % 2 else TENTH
            fits = of_several([*paid, loss]).fits(3 * NANO, 1e-5)
            if fits:
                ledger.debit(b"%d" % number, BODY, loss, label="x")
                paid.append(loss)
            else:
                with pytest.raises(BudgetExceeded):
                    ledger.debit(b"%d" % number, BODY, loss, label="x")
        assert ledger.spent() == of_several(paid)
        assert 0 < len(paid) < 100


def test_invariant_3_another_body_under_the_same_id_is_refused(tmp_path):
    with fresh(tmp_path) as ledger:
        ledger.debit(b"q", BODY, TENTH, label="x")
        ledger.seal(b"q", b"answer")
        before = view(ledger)
        with pytest.raises(ProtocolError):
            ledger.answer_to(b"q", OTHER_BODY)
        for again in (BODY, OTHER_BODY):
            with pytest.raises(ProtocolError):
                ledger.debit(b"q", again, TENTH, label="x")
            with pytest.raises(ProtocolError):
                ledger.reserve(b"q", again, TENTH, label="x", seed=bytes(32))
            with pytest.raises(ProtocolError):
                ledger.record_nonprivate(b"q", again, label="x")
        assert view(ledger) == before


def test_invariant_3_a_sealed_answer_is_never_replaced(tmp_path):
    with fresh(tmp_path) as ledger:
        ledger.debit(b"q", BODY, TENTH, label="x")
        ledger.seal(b"q", b"answer")
        assert ledger.seal(b"q", b"answer") == b"answer"
        with pytest.raises(ProtocolError):
            ledger.seal(b"q", b"a second draw")
        assert ledger.answer_to(b"q", BODY) == b"answer"


def test_invariant_4_a_debit_that_was_not_sealed_is_lost_not_refunded_and_not_drawn_again(tmp_path):
    with fresh(tmp_path) as ledger:
        ledger.debit(b"q", BODY, TENTH, label="x")
    with SqliteLedger.open(tmp_path / "bank.ledger") as ledger:
        with pytest.raises(ReleaseLost) as refusal:
            ledger.answer_to(b"q", BODY)
        assert refusal.value.spent == {"bank": 0.1}
        with pytest.raises(ProtocolError):
            ledger.debit(b"q", BODY, TENTH, label="x")
        assert ledger.spent() == TENTH


def inserting(
    insert="INSERT", sequence="4", request="x'09'", pure="pure", least="least", previous=None, together="together"
) -> str:
    """An otherwise faultless row after the last one, copied from row 2."""
    previous = previous or "(SELECT hash FROM entries WHERE sequence = 3)"
    return (
        f"{insert} INTO entries SELECT {sequence}, kind, {request}, body, label, written, {pure}, {least}, loss,"
        f" detail, seed_hash, {previous}, {together}, event_level, plan, about, version, hash, seed, answer_hash, answer"
        " FROM entries WHERE sequence = 2"
    )


TAKING_BACK = [
    "DELETE FROM entries",
    "DELETE FROM entries WHERE sequence = 2",
    *(
        f"UPDATE entries SET {name} = NULL WHERE sequence = 1"
        for name in ("label", "pure", "loss", "request", "answer")
    ),
    "UPDATE entries SET pure = 1 WHERE sequence = 1",
    "UPDATE entries SET answer = x'00' WHERE sequence = 1",
    "UPDATE entries SET answer = x'00', answer_hash = hash, pure = 1 WHERE sequence = 2",
    "UPDATE entries SET answer = x'00', answer_hash = hash, kind = 'nonprivate' WHERE sequence = 2",
    "UPDATE entries SET rowid = 9 WHERE sequence = 2",
    "UPDATE entries SET sequence = 9 WHERE sequence = 2",
    "UPDATE entries SET seed = NULL WHERE sequence = 3",
    "UPDATE OR REPLACE entries SET sequence = 1 WHERE sequence = 2",
    "INSERT OR REPLACE INTO entries SELECT * FROM entries WHERE sequence = 2",
    inserting("INSERT OR REPLACE", request="request"),
    inserting("INSERT OR IGNORE", request="request"),
    inserting(sequence="9"),
    inserting(sequence="NULL"),
    inserting(previous="previous"),
    *(inserting(together=together) for together in ("NULL", "2", "'yes'")),
    *(inserting(pure=pure) for pure in ("0", "-1", "0.5", "'free'", "9e999", "x'01'")),
    *(inserting(least=least) for least in ("0", "-1", "0.5", "'free'", "NULL")),
]


@pytest.mark.parametrize("statement", TAKING_BACK)
def test_invariant_4_the_database_itself_refuses_to_take_anything_back(tmp_path, statement):
    with fresh(tmp_path) as ledger:
        ledger.debit(b"one", BODY, TENTH, label="x")
        ledger.seal(b"one", b"answer")
        ledger.debit(b"two", BODY, TENTH, label="x")
        ledger.reserve(b"three", BODY, TENTH, label="x", seed=bytes(32))
        before = view(ledger)
    with raw(tmp_path) as file, pytest.raises(sqlite3.IntegrityError):
        file.execute(statement)
    with SqliteLedger.open(tmp_path / "bank.ledger") as ledger:
        assert view(ledger) == before


def test_invariant_5_every_refusal_leaves_the_ledger_as_it_was_and_says_so(tmp_path):
    with fresh(tmp_path, epsilon=0.2) as ledger:
        ledger.debit(b"q", BODY, TENTH, label="x")
        ledger.seal(b"q", b"answer")
        before = view(ledger)
        attempts = [
            lambda: ledger.debit(b"r", BODY, Loss.of_pure(NANO), label="x"),
            lambda: ledger.debit(b"q", BODY, TENTH, label="x"),
            lambda: ledger.debit(b"r", BODY, NOTHING, label="x"),
            lambda: ledger.seal(b"r", b"answer"),
            lambda: ledger.seal(b"q", b"another"),
            lambda: ledger.answer_to(b"q", OTHER_BODY),
            lambda: set_cap(ledger, Budget(epsilon=0.05)),
        ]
        for attempt in attempts:
            with pytest.raises(ColonnadeError) as refusal:
                attempt()
            assert refusal.value.spent is None
            assert "Nothing was spent." in str(refusal.value)
            assert view(ledger) == before


# What a cost is, and what a cap is.


@pytest.mark.parametrize(
    "cost",
    [
        None, True, 1, 0, -1, 0.5, float("nan"), float("inf"), "1", b"1", NOTHING, (1,) * len(ORDERS), Fraction(1, 2),
        Loss((1,) * len(ORDERS), 0),
        Loss((0, *(1,) * (len(ORDERS) - 1)), 1),
        Loss((*(1,) * (len(ORDERS) - 1), 0), None),
        Loss((2**63,) * len(ORDERS), 1),
        Loss((1,) * len(ORDERS), 2**63),
        Loss((2**200,) * len(ORDERS), 1),
    ],
)  # fmt: skip
def test_a_cost_that_is_not_a_positive_loss_is_refused(tmp_path, cost):
    with fresh(tmp_path, delta=1e-6) as ledger:
        before = view(ledger)
        with pytest.raises(BadInput):
            ledger.debit(b"q", BODY, cost, label="x")
        with pytest.raises(BadInput):
            ledger.reserve(b"q", BODY, cost, label="x", seed=bytes(32))
        assert view(ledger) == before


@pytest.mark.parametrize("figure", [float("nan"), float("inf"), -1, True, "1", 0.5])
@pytest.mark.parametrize("name", ["renyi", "pure"])
def test_a_loss_that_was_tampered_with_after_it_was_made_is_refused(tmp_path, name, figure):
    loss = Loss((1,) * len(ORDERS), 1)
    object.__setattr__(loss, name, (figure,) * len(ORDERS) if name == "renyi" else figure)
    with fresh(tmp_path) as ledger:
        with pytest.raises(BadInput):
            ledger.debit(b"q", BODY, loss, label="x")
        assert ledger.spent() == NOTHING


def test_a_loss_without_a_pure_part_never_fits_a_cap_without_delta(tmp_path):
    with fresh(tmp_path, epsilon=1_000.0) as ledger:
        with pytest.raises(BudgetExceeded):
            ledger.debit(b"q", BODY, Loss.of_zcdp(Fraction(1, 10**9)), label="x")
        set_cap(ledger, Budget(epsilon=1.0, delta=1e-9))
        ledger.debit(b"q", BODY, Loss.of_zcdp(Fraction(1, 10**9)), label="x")
        with pytest.raises(BudgetExceeded):
            set_cap(ledger, Budget(epsilon=1_000.0))


def test_spent_is_exactly_what_was_debited_to_the_last_nano_unit_at_every_order(tmp_path):
    losses = [
        Loss.of_pure(1),
        Loss.of_pure(333_333_333),
        Loss.of_zcdp(Fraction(1, 7)),
        Loss((2**62,) * len(ORDERS), 5, UNBOUNDED),
    ]
    with fresh(tmp_path, epsilon=10.0, delta=1e-6) as ledger:
        for number, loss in enumerate(losses[:3]):
            ledger.debit(b"%d" % number, BODY, loss, label="x")
        assert [entry.loss for entry in ledger.entries()[1:]] == losses[:3]
        assert ledger.spent().renyi == tuple(
            sum(column) for column in zip(*(loss.renyi for loss in losses[:3]), strict=True)
        )
        with pytest.raises(BudgetExceeded):
            ledger.debit(b"3", BODY, losses[3], label="x")


def test_a_ledger_of_0_2_0_keeps_its_rows_and_goes_on_as_it_began(tmp_path):
    """It was written by that version: 0.25 in pure noise, then ρ of 1/50 and 1/70, 1.4187702 in all at δ = 10⁻⁶."""
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(gzip.decompress((Path(__file__).parent / "ledger-0.2.0.sqlite.gz").read_bytes()))
    path.chmod(0o600)
    with SqliteLedger.open(path) as ledger:
        ledger.verify()
        assert [entry.label for entry in ledger.entries()] == ["genesis", "histogram", "gram", "tables"]
        assert ledger.head().nano == 1_418_770_200
        assert ledger.remaining() >= 2.5812298
        ledger.debit(b"new", BODY, budget_loss(Fraction(1, 100)), label="x")
        curve = total([Loss.of_pure(250_000_000), *map(Loss.of_zcdp, (Fraction(1, n) for n in (50, 70, 100)))])
        assert ledger.spent() == Loss(curve.renyi, None)
        assert ledger.spent().epsilon(1e-6) == Loss(curve.renyi, None).epsilon(1e-6)
        ledger.verify()
        ledger.forfeit(Loss(LEAST.renyi, None), label="x")


HALF = budget_loss(ledger_rho(Price.of(1.0, 1e-6), 2))
"""Two of these fit (1, 10⁻⁶) as one plan, and not beside another plan."""


def begun(ledger, steps=((b"first", HALF), (b"second", HALF))):
    plan = messages.plan_digest(b"a plan")
    ledger.keep_plan(plan, b"a plan")
    ledger.hold(Hold(plan, "ana", "", dict(steps)))
    ledger.sign_hold(plan)
    ledger.begin_hold(plan, ledger.now().timestamp())
    return plan


def test_a_plan_that_fits_only_alone_is_paid_at_its_first_row_and_can_be_resumed(tmp_path):
    with fresh(tmp_path, epsilon=1.0, delta=1e-6) as ledger:
        plan = begun(ledger)
        ledger.debit(b"first", BODY, HALF, label="x", plan=plan, together=True)
        assert ledger.spent().epsilon(1e-6) == pytest.approx(1.0, abs=1e-8)
        assert not ledger.entries()[-1].together  # it pays for other steps too
        set_cap(ledger, Budget(epsilon=1.0, delta=1e-6))
        assert begun(ledger) == plan
        ledger.debit(b"second", BODY, HALF, label="x", plan=plan)
        assert ledger.spent().epsilon(1e-6) <= 1.0
        assert ledger.spent().covers(HALF * 2)
        ledger.verify()


@pytest.mark.parametrize("caps", [(10.0, 1.0), (1.0, 10.0)])
def test_a_cap_that_changes_between_two_rows_leaves_the_plan_paid_once(tmp_path, caps):
    with fresh(tmp_path, epsilon=caps[0], delta=1e-6) as ledger:
        plan = begun(ledger)
        ledger.debit(b"first", BODY, HALF, label="x", plan=plan)
        set_cap(ledger, Budget(epsilon=caps[1], delta=1e-6))
        ledger.debit(b"second", BODY, HALF, label="x", plan=plan)
        assert ledger.spent().covers(HALF * 2)
        assert ledger.spent().epsilon(1e-6) == pytest.approx(1.0, abs=1e-8)


def test_a_mixed_plan_that_no_row_could_say_is_refused_before_anything_is_held(tmp_path):
    gram = budget_loss(ledger_rho(Price.of(1.0, 1e-6)) * Fraction(28, 100))
    assert (gram + Loss.of_pure(NANO // 2)).fits(NANO, 1e-6)
    with fresh(tmp_path, epsilon=1.0, delta=1e-6) as ledger, pytest.raises(BudgetExceeded):
        begun(ledger, ((b"first", gram), (b"second", Loss.of_pure(NANO // 2))))


@hypothesis.settings(max_examples=20)
@hypothesis.given(
    paid=st.lists(st.integers(1, 300_000_000), max_size=4),
    curved=st.booleans(),
    delta=st.sampled_from([0.0, 1e-9, 1e-3]),
)
def test_what_remains_can_really_be_spent(paid, curved, delta):
    with tempfile.TemporaryDirectory() as folder, fresh(Path(folder), epsilon=2.0, delta=delta) as ledger:
        for number, nano in enumerate(paid):
            loss = Loss.of_zcdp(Fraction(nano, 20 * NANO)) if curved and delta else Loss.of_pure(nano)
            ledger.debit(b"%d" % number, BODY, loss, label="x")
        rest = round(ledger.remaining() * NANO)
        if rest:
            curved = ledger.spent().pure is None
            last = budget_loss(ledger_rho(Price(rest, delta))) if curved else Loss.of_pure(rest)
            ledger.debit(b"rest", BODY, last, label="x")
            assert ledger.remaining() >= 0


@hypothesis.given(st.integers(1, 10**13))
def test_a_cap_survives_being_written_down_whatever_its_digits(nano):
    assert Ceiling(nano, 0.0).budget.nano == nano


def test_the_latest_cap_is_in_force_and_every_cap_is_on_record(tmp_path):
    with fresh(tmp_path, epsilon=0.1) as ledger, SqliteLedger.open(tmp_path / "bank.ledger") as other:
        ledger.debit(b"a", BODY, TENTH, label="x")
        with pytest.raises(BudgetExceeded):
            other.debit(b"b", BODY, TENTH, label="x")
        set_cap(ledger, Budget(epsilon=0.2))
        other.debit(b"b", BODY, TENTH, label="x")
        with pytest.raises(BudgetExceeded):
            set_cap(other, Budget(epsilon=0.199999999))
        set_cap(other, Budget(epsilon=0.3, delta=1e-6))
        set_cap(other, Budget(epsilon=0.2))
        caps = [entry.budget for entry in ledger.entries() if entry.kind in ("genesis", "cap")]
        assert caps == [Budget(epsilon=0.1), Budget(epsilon=0.2), Budget(epsilon=0.3, delta=1e-6), Budget(epsilon=0.2)]
        assert ledger.budget == Budget(epsilon=0.2)
        assert ledger.remaining() == 0


def wanted(loss: Loss | None) -> Hold:
    return Hold(bytes(32), "coordinator", "", {b"another": loss})


def test_asking_whether_there_is_room_reserves_nothing_and_never_passes_the_cap(tmp_path):
    with fresh(tmp_path, epsilon=0.2) as ledger, SqliteLedger.open(tmp_path / "bank.ledger") as other:
        assert not ledger.knows(b"a")
        ledger.require_room(wanted(None))
        ledger.require_room(wanted(TENTH + TENTH))
        with pytest.raises(BudgetExceeded):
            ledger.require_room(wanted(TENTH * 3))
        other.debit(b"a", BODY, TENTH, label="x")
        with pytest.raises(BudgetExceeded):
            ledger.require_room(wanted(TENTH + TENTH))
        ledger.require_room(wanted(TENTH))
        assert ledger.knows(b"a")
        assert ledger.head().sequence == 1


# Rows of other kinds.


def test_a_reserved_step_keeps_its_seed_until_it_is_committed_and_then_no_byte_of_it(tmp_path):
    seed = os.urandom(32)
    with fresh(tmp_path) as ledger:
        assert ledger.seed_of(b"q") is None
        ledger.reserve(b"q", BODY, TENTH, label="gram", seed=seed)
        assert ledger.answer_to(b"q", BODY) is None
        with pytest.raises(ProtocolError):
            ledger.answer_to(b"q", OTHER_BODY)
    assert seed in (tmp_path / "bank.ledger").read_bytes()
    with SqliteLedger.open(tmp_path / "bank.ledger") as ledger:
        assert ledger.seed_of(b"q") == seed
        with pytest.raises(ProtocolError):
            ledger.seal(b"q", b"opened")
        with pytest.raises(ProtocolError):
            ledger.reserve(b"q", BODY, TENTH, label="gram", seed=seed)
        assert ledger.commit(b"q", b"opened") == b"opened"
        assert ledger.commit(b"q", b"opened") == b"opened"
        with pytest.raises(ProtocolError):
            ledger.commit(b"q", b"opened again")
        assert ledger.seed_of(b"q") is None
        assert ledger.answer_to(b"q", BODY) == b"opened"
        assert ledger.spent() == TENTH
    assert seed not in (tmp_path / "bank.ledger").read_bytes()


def test_a_nonprivate_release_is_a_row_of_its_own_kind_without_cost(tmp_path):
    with fresh(tmp_path) as ledger:
        ledger.record_nonprivate(b"q", BODY, label="row count, allowed by policy")
        assert ledger.answer_to(b"q", BODY) is None  # it is exact: after a crash it is computed again
        ledger.seal(b"q", b"50000")
        entry = ledger.entries()[1]
        assert (entry.kind, entry.loss, entry.sealed, entry.label) == (
            "nonprivate",
            None,
            True,
            "row count, allowed by policy",
        )
        assert ledger.spent() == NOTHING
        assert ledger.head().sequence == 1  # but peers see that something happened
