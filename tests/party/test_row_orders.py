"""Several orders of rows behind one ledger: a study is answered from the order that it names, and from no other."""

import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.errors import PlanMismatch
from colonnade.party.table.row_order import RowOrder
from tests.federations import federation
from tests.party.test_gate import gate_of


def with_half(f: cn.Federation) -> cn.Federation:
    """Agree, at every party, to the first half of the people."""
    for party in f.parties:
        gate = gate_of(f, party)
        whole = gate.row_orders.order(f._driver.alignment)
        half = whole.people // 2
        gate.row_orders.add(RowOrder("ab" * 32, half, whole.rows[:half], whole.ids.slice(0, half)))
    return at(f)


def at(f: cn.Federation) -> cn.Federation:
    return cn.Federation(
        f._driver.transport, parties=f.parties, compute_nodes=f._driver.computing.nodes, alignment="ab" * 32
    )


def test_a_federation_on_a_further_order_counts_those_people_and_pays_from_the_same_ledger():
    f = federation(people=400)
    half = with_half(f)
    assert (f.people, half.people) == (400, 200)
    study = cn.PatternCount(["bank.segment", "telco.plan"], epsilon=8.0).fit(half)
    assert study.counts_.sum() == pytest.approx(200, abs=40)
    assert f.budget("bank")["spent"] == half.budget("bank")["spent"] > 0


def test_an_order_that_nobody_agreed_to_is_refused():
    f = federation()
    with pytest.raises(PlanMismatch):
        cn.Federation(f._driver.transport, parties=f.parties, alignment="cd" * 32)
    study = cn.PatternCount(["bank.segment", "telco.plan"], method="independent", epsilon=1.0)
    f._driver.alignment = "cd" * 32
    with pytest.raises(PlanMismatch):
        study.fit(f)
    with pytest.raises(PlanMismatch):
        gate_of(f).row_orders.order("cd" * 32)


def test_orders_survive_a_restart_for_this_user_alone(tmp_path):
    with federation(ledger_dir=tmp_path) as f:
        with_half(f)
        order = gate_of(f).row_orders.order("ab" * 32).rows
    files = list(tmp_path.rglob("*.alignment"))
    assert len(files) == 3
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)
    with federation(ledger_dir=tmp_path) as again:
        assert at(again).people == len(order)
        kept = gate_of(again).row_orders.order("ab" * 32)
        assert np.array_equal(kept.rows, order)
        assert kept.ids.equals(pa.array(kept.ids.to_pylist(), type=kept.ids.type))
