"""Back-ups of a ledger: whole, private and verified; put back only with a charge for what they have forgotten."""

import stat
from fractions import Fraction

import pytest

from colonnade.errors import BadInput, BudgetExceeded, LedgerCorrupt
from colonnade.party.ledger.backup import Evidence, back_up, restore
from colonnade.party.ledger.file import HeadMemory
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.privacy.accounting import NANO, Budget, Loss
from colonnade.privacy.calibration import budget_loss
from colonnade.secure.keys import Identity, PublicIdentity

BODY = bytes(32)
DELTA = 1e-6


def paid(number: int) -> bytes:
    return b"request %d" % number


def grown(path, *losses: Loss, version: int | None = None) -> None:
    """Add releases to a ledger, and remember its head as a party does before anything leaves."""
    with SqliteLedger.open(path) as ledger:
        for loss in losses:
            number = ledger.head().sequence
            ledger.debit(paid(number), BODY, loss, label="x")
            ledger.seal(paid(number), b"answer")
        if version is not None:
            ledger.declare_version(version)
        ledger.remember_head()


@pytest.fixture
def path(tmp_path):
    return a_ledger(tmp_path)


def a_ledger(tmp_path):
    place = tmp_path / "bank" / "ledger.sqlite"
    place.parent.mkdir()
    with SqliteLedger.create(place, party="bank", budget=Budget(epsilon=4.0, delta=DELTA)) as ledger:
        ledger.declare_version(1)
    grown(place, Loss.of_pure(NANO // 2))
    return place


def evidence(*heads, complete: bool = True, delta: float = DELTA) -> Evidence:
    found = [head for head in heads if head is not None]
    return Evidence(found, max((head.nano for head in found), default=0) / NANO if complete else None, delta)


def head_of(path):
    with SqliteLedger.open(path) as ledger:
        return ledger.head()


OWNER = Identity.from_seed(bytes(32))


def put_back(backup, path, known, *, forfeit=False):
    owner = OWNER if forfeit else None
    return restore(backup, path, party="bank", evidence=known, forfeit=owner, clock=lambda: 1e9)


def test_a_copy_is_verified_and_this_users_alone_and_equal_to_the_ledger(path, tmp_path):
    copy = tmp_path / "copy.sqlite"
    assert back_up(path, copy) == head_of(path) == head_of(copy)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with SqliteLedger.open(copy) as ledger:
        assert ledger.answer_to(paid(1), BODY) == b"answer"
    with pytest.raises(BadInput, match="exists already"):
        back_up(path, copy)


def test_a_ledger_in_use_is_copied(path, tmp_path):
    with SqliteLedger.open(path) as busy:
        busy.debit(b"before", BODY, Loss.of_pure(1), label="x")
        head = back_up(path, tmp_path / "copy.sqlite")
        busy.debit(b"after", BODY, Loss.of_pure(1), label="x")
        assert busy.continues(head)


def test_a_back_up_as_new_as_the_last_release_is_put_back_at_no_charge(path, tmp_path):
    back_up(path, tmp_path / "copy.sqlite")
    known = evidence(HeadMemory(path).read())
    path.write_bytes(b"broken")
    found = put_back(tmp_path / "copy.sqlite", path, known)
    assert (found.charged, found.rows) == (0.0, 0)
    with SqliteLedger.open(path, party="bank") as ledger:
        assert ledger.answer_to(paid(1), BODY) == b"answer"
    assert (path.parent / "ledger.sqlite.before-1000000000").read_bytes() == b"broken"


def test_a_back_up_that_has_forgotten_releases_is_refused_and_nothing_changes(path, tmp_path):
    back_up(path, tmp_path / "copy.sqlite")
    grown(path, Loss.of_pure(NANO))
    known = evidence(HeadMemory(path).read())
    path.unlink()
    with pytest.raises(LedgerCorrupt, match=r"ends at row 2, and the ledger had come to row 3.*forgotten"):
        put_back(tmp_path / "copy.sqlite", path, known)
    assert sorted(one.name for one in path.parent.iterdir()) == ["ledger.head"]


def test_where_nobody_knows_how_far_the_ledger_had_come_it_is_refused(path, tmp_path):
    back_up(path, tmp_path / "copy.sqlite")
    path.unlink()
    with pytest.raises(LedgerCorrupt, match="Nobody can say"):
        put_back(tmp_path / "copy.sqlite", path, evidence(complete=False))


def test_a_sound_ledger_is_not_replaced_by_an_older_copy(path, tmp_path):
    back_up(path, tmp_path / "copy.sqlite")
    grown(path, Loss.of_pure(NANO))
    for forfeit in (False, True):
        with pytest.raises(BadInput, match="sound, and at least as new"):
            put_back(tmp_path / "copy.sqlite", path, evidence(HeadMemory(path).read()), forfeit=forfeit)


@pytest.mark.every(2)
@pytest.mark.parametrize("lost", [1, 2, 25])
def test_a_forfeit_charges_the_highest_total_and_its_owner_signs_for_it(lost, path, tmp_path):
    back_up(path, tmp_path / "copy.sqlite")
    grown(path, *[Loss.of_pure(NANO // 50)] * lost)
    seen, before = head_of(path), head_of(tmp_path / "copy.sqlite")
    known = evidence(seen)
    path.unlink()
    found = put_back(tmp_path / "copy.sqlite", path, known, forfeit=True)
    assert (found.head.forfeited, before.forfeited) == (10**15, 0)
    assert found.head.nano >= seen.nano
    assert found.charged * NANO >= seen.nano - 1  # all of it, on top of what the copy shows
    assert found.head.nano >= before.nano + seen.nano
    with SqliteLedger.open(path, party="bank") as ledger:  # which holds it against what it remembers
        kinds = [entry.kind for entry in ledger.entries()][before.sequence + 1 :]
        assert kinds == ["forfeit", "written off"]
        signed = ledger.entries()[-1].decision
        assert signed.signer(ledger.identity) == PublicIdentity(OWNER.public)
        assert signed.nano == found.head.nano
        assert ledger.current_version() == 1
        assert ledger.next_version() > 1 + lost  # lost rows may have declared that many
        ledger.debit(b"next", BODY, Loss.of_pure(NANO // 10), label="x")


def test_a_table_keeps_its_version_after_a_forfeit_and_no_other_table_gets_one_that_may_be_lost(path, tmp_path):
    with SqliteLedger.open(path) as ledger:
        ledger.declare_version(2, table=b"the table")
        assert ledger.restored_version(b"the table") is None  # a version says nothing about rows
        ledger.remember_head()
    back_up(path, tmp_path / "copy.sqlite")
    grown(path, Loss.of_pure(NANO // 50), version=3)
    known = evidence(head_of(path))
    path.unlink()
    put_back(tmp_path / "copy.sqlite", path, known, forfeit=True)
    with SqliteLedger.open(path) as ledger:
        assert ledger.restored_version(b"another table") is None
        assert ledger.restored_version(b"the table") == ledger.current_version() == 2
        with pytest.raises(BadInput, match="declared before"):
            ledger.declare_version(3)
        ledger.declare_version(ledger.next_version(), table=b"the table")
        assert ledger.restored_version(b"the table") is None


def test_the_promise_holds_whatever_the_lost_rows_were(path, tmp_path):
    """The total after a forfeit is never below what the true total would have been, also for losses that are not pure."""
    for number, loss in enumerate((Loss.of_zcdp(Fraction(1, 50)), Loss.of_pure(NANO // 3))):
        copy = tmp_path / f"copy-{number}.sqlite"
        back_up(path, copy)
        grown(path, loss, loss)
        true, known = head_of(path), evidence(head_of(path))
        path.unlink()
        put_back(copy, path, known, forfeit=True)
        assert head_of(path).nano >= true.nano


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(lambda head: evidence(complete=False), id="nobody knows"),
        pytest.param(lambda head: evidence(head, complete=False), id="not everybody said"),
        pytest.param(lambda head: evidence(head, delta=1e-5), id="another delta"),
    ],
)
def test_where_not_everything_is_known_a_forfeit_charges_the_whole_cap(known, path, tmp_path):
    back_up(path, tmp_path / "copy.sqlite")
    grown(path, Loss.of_pure(NANO))
    last = head_of(path)
    path.unlink()
    put_back(tmp_path / "copy.sqlite", path, known(last), forfeit=True)
    with SqliteLedger.open(path) as ledger:
        assert ledger.remaining() == pytest.approx(0.0, abs=1e-6)
        with pytest.raises(BudgetExceeded):
            ledger.debit(b"next", BODY, Loss.of_pure(NANO // 1_000), label="x")


def test_a_charge_that_does_not_fit_takes_what_is_left(path, tmp_path):
    grown(path, Loss.of_pure(NANO))
    back_up(path, tmp_path / "copy.sqlite")
    grown(path, Loss.of_pure(2 * NANO))
    known = evidence(head_of(path))  # 3.5 of 4, and the copy shows 1.5
    path.unlink()
    found = put_back(tmp_path / "copy.sqlite", path, known, forfeit=True)
    assert found.charged == pytest.approx(2.5, abs=1e-6)
    assert found.head.forfeited


@pytest.mark.every(2)
@pytest.mark.parametrize("epsilon", [0.5, 1.25, 3.0])
def test_what_the_owner_says_was_spent_becomes_the_total_and_is_not_charged_on_top(epsilon, path, tmp_path):
    back_up(path, tmp_path / "copy.sqlite")  # which shows 0.5
    path.unlink()
    found = put_back(tmp_path / "copy.sqlite", path, Evidence([], None, DELTA, spent=epsilon), forfeit=True)
    assert found.head.nano == pytest.approx(epsilon * NANO, abs=2)
    assert found.head.nano >= epsilon * NANO


def test_what_the_owner_says_is_raised_to_what_was_seen_and_bounds_every_curve(path, tmp_path):
    """A pure loss of that ε dominates all that was released; so must the ledger, whatever is composed with it later."""
    grown(path, budget_loss(Fraction(1, 50)))
    back_up(path, tmp_path / "copy.sqlite")
    grown(path, Loss.of_pure(NANO // 4))
    seen = head_of(path)
    path.unlink()
    for said in (0.001, 1.0):
        put_back(tmp_path / "copy.sqlite", path, Evidence([seen], None, DELTA, spent=said), forfeit=True)
        with SqliteLedger.open(path) as ledger:
            least, total = Loss.of_pure(max(seen.nano, int(said * NANO))), ledger.spent()
            assert all(mine >= one for mine, one in zip(total.renyi, least.renyi, strict=True))
            assert total.pure is None or total.pure >= least.pure
        path.unlink()
        HeadMemory(path)._path.unlink()


def test_a_ledger_that_went_back_is_charged_where_it_stands(path):
    """Its own memory went back with it, and says nothing: the whole cap, or what the owner says."""
    before = head_of(path)
    with pytest.raises(BadInput, match="at least as new"):
        put_back(path, path, evidence(before))
    found = put_back(path, path, Evidence([before], None, DELTA, spent=3.0), forfeit=True)
    assert found.head.nano == pytest.approx(3 * NANO, abs=2)
    with SqliteLedger.open(path) as ledger:
        assert ledger.continues(before)
    again = put_back(path, path, Evidence([], None, DELTA), forfeit=True)
    assert again.head.nano == pytest.approx(4 * NANO, abs=2)
    assert again.head.forfeited > found.head.forfeited  # also where the clock stands still


def test_the_other_branch_of_a_ledger_that_was_run_twice_is_behind(path, tmp_path):
    back_up(path, tmp_path / "copy.sqlite")
    back_up(path, tmp_path / "clone.sqlite")
    grown(path, Loss.of_pure(NANO))
    grown(tmp_path / "clone.sqlite", Loss.of_pure(NANO // 2))
    known = evidence(head_of(path))
    path.unlink()
    with pytest.raises(LedgerCorrupt):
        put_back(tmp_path / "clone.sqlite", path, known)


def test_what_is_not_this_partys_ledger_is_not_put_back(path, tmp_path):
    other = tmp_path / "telco.sqlite"
    SqliteLedger.create(other, party="telco", budget=Budget(epsilon=1.0)).close()
    path.unlink()
    with pytest.raises(LedgerCorrupt, match="another party"):
        put_back(other, path, evidence())
    (tmp_path / "nonsense").write_bytes(b"nonsense" * 1_000)
    with pytest.raises((LedgerCorrupt, BadInput)):
        put_back(tmp_path / "nonsense", path, evidence())
    assert not path.exists()
