"""A committee computes, and nobody else: for federations in which everybody would send shares to everybody."""

import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from colonnade.coordinator.driver import ComputeMembers
from colonnade.errors import BadInput, PolicyRefusal
from colonnade.protocol.messages import Described
from tests.federations import TEST_KEY

PARTIES = ("a", "b", "c", "d", "e")


def opened(committee=None, parties=PARTIES, **options):
    rng = np.random.default_rng(3)
    tables = {name: pd.DataFrame({"id": range(80), "x": rng.random(80)}) for name in parties}
    made = {name: cn.Party(table, schema=cn.Schema(x=cn.Numeric(0, 1))) for name, table in tables.items()}
    budget = cn.Budget(epsilon=10.0, delta=1e-4)
    return cn.Federation.simulate(made, id="id", budget=budget, committee=committee, test_key=TEST_KEY, **options)


def test_only_the_committee_computes_and_the_release_is_the_same():
    with opened(["b", "d", "e"]) as few, opened() as all_of_them:
        by_few, by_all = (cn.PCA(1, epsilon=1.0, delta=1e-5) for _ in range(2))
        by_few.fit(few)
        by_all.fit(all_of_them)
    assert set(by_few.plan_.compute_nodes) == {"b", "d", "e"}
    assert (by_few.plan_.threshold, by_all.plan_.threshold) == (1, 2)
    assert set(by_all.plan_.compute_nodes) == set(PARTIES)
    assert by_few.transcript_.bytes < by_all.transcript_.bytes


def test_a_party_refuses_a_plan_with_others_than_the_committee():
    with opened(["b", "d", "e"]) as f:
        f._driver.computing = ComputeMembers(
            f._driver.computing.nodes, f._driver.descriptions(), None
        )  # a coordinator that knows of no committee
        with pytest.raises(PolicyRefusal, match="compute node"):
            cn.PCA(1, epsilon=1.0, delta=1e-5).fit(f)


@pytest.mark.parametrize(
    "committee", [["a"], ["a", "b"], ["a", "b", "c", "d"], ["a", "b", "b"], ["a", "b", "z"], "abc", 3]
)
def test_a_committee_that_cannot_be_is_refused_with_a_remedy(committee):
    with pytest.raises(BadInput) as refused:
        opened(committee)
    assert refused.value.remedy


@pytest.mark.every(2)
@pytest.mark.parametrize(("parties", "nodes"), [(3, 3), (4, 3), (5, 5), (6, 5), (7, 7)])
def test_an_even_number_of_nodes_leaves_one_out(parties, nodes):
    names = [f"p{place}" for place in range(parties)]
    told = {
        name: Described(party=name, schema=(), alignment="", people=1, capacity=0, union=False, version=1)
        for name in names
    }
    chosen = ComputeMembers((), told).choose(names, 1)
    assert chosen == tuple(names[:nodes])
