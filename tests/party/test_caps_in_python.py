"""A ledger keeps the cap that it has until its owner says otherwise, in Python as on the command line."""

import getpass

import pytest

import colonnade as cn
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.ledger.words import read_rows
from tests.federations import federation

CAP, DELTA = 2.0, 1e-5


def rows(folder) -> list[str]:
    with SqliteLedger.open(folder / "bank.sqlite") as ledger:
        return [row.sentence() for row in read_rows(ledger)]


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_another_budget_is_refused_with_the_remedy_and_changes_no_ledger(tmp_path, epsilon):
    """Before, reopening ledger_dir with a larger Budget raised the cap without a word."""
    federation(100, ledger_dir=tmp_path, epsilon=CAP).close()
    before = rows(tmp_path)
    with pytest.raises(cn.BadInput, match=r"The ledger of '\w+' has the cap ε=2 ") as refusal:
        federation(100, ledger_dir=tmp_path, epsilon=epsilon)
    assert "change_cap=True" in refusal.value.remedy
    assert f"cn.Budget(epsilon=2, delta={DELTA:g})" in refusal.value.remedy
    assert rows(tmp_path) == before
    with federation(100, ledger_dir=tmp_path, epsilon=CAP) as same:
        assert set(same.budget()["epsilon"]) == {CAP}


def test_a_new_cap_is_recorded_on_request_in_a_row_that_names_who_did_it(tmp_path):
    federation(100, ledger_dir=tmp_path, epsilon=CAP).close()
    with federation(100, ledger_dir=tmp_path, epsilon=4.0, change_cap=True) as raised:
        assert set(raised.budget()["epsilon"]) == {4.0}
    last = rows(tmp_path)[-1]
    assert f"the cap was changed (by {getpass.getuser()}, Federation.simulate(change_cap=True))" in last
    assert "the cap is ε 4 " in last
    count = len(rows(tmp_path))
    federation(100, ledger_dir=tmp_path, epsilon=4.0, change_cap=True).close()
    assert len(rows(tmp_path)) == count  # nothing was changed, so nothing is recorded
