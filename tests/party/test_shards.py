"""Parties whose rows are in several hands: each shard perturbs its own people, and the release is that of the whole table."""

import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from colonnade.papers.laws import PerturbedValues
from colonnade.papers.private import PrivateValues
from colonnade.party.steps.local import PrivateReports
from colonnade.party.table.private_table import PrivateTable
from colonnade.party.table.sources import Source
from colonnade.privacy.accounting import NOTHING
from colonnade.privacy.laws.response import RandomizedResponse
from tests.federations import TEST_KEY
from tests.party.test_gate import gate_of

SCHEMA = cn.Schema(
    kind=cn.Category(["a", "b", "c"], missing="excluded"),
    many=cn.Category(list(range(39)), other=39),
    visits=cn.Numeric(0, 20, integer=True),
)
STUDIES = {
    "counts": cn.PatternCount(["clinic.kind", "shop.kind"], method="response", epsilon=1.0),
    "wide counts": cn.PatternCount(["clinic.many", "shop.kind"], method="response", epsilon=0.5),
    "sampled counts": cn.PatternCount(
        ["clinic.kind", "shop.kind"], method=cn.methods.Response(sample=0.3), epsilon=1.0
    ),
    "moments": cn.Moment(["clinic.visits", "shop.visits"], 2, epsilon=1.0),
    "whole values": cn.Moment(["clinic.visits", "shop.visits"], 3, epsilon=1.0, change="bounds"),
    "totals": cn.Moment(["clinic.visits", "shop.visits"], 1, epsilon=1.0),
    "sketch": cn.Moment(["clinic.visits", "shop.visits"], 2, epsilon=1.0, delta=1e-6, method="sketch"),
    "clusters": cn.KMeans(3, columns=["clinic.visits", "shop.visits"], method="response", epsilon=4.0, delta=1e-6),
    "sampled clusters": cn.KMeans(
        3, columns=["clinic.visits", "shop.visits"], method=cn.methods.Response(sample=0.4), epsilon=4.0, delta=1e-6
    ),
}
LOCAL = ("counts", "wide counts", "sampled counts", "moments", "whole values")
DIVIDED = (*LOCAL, "clusters", "sampled clusters")
"""Clusterings divide their reports of memberships; centres are of all of a party's rows, so the study is not local."""


def frame(people, seed):
    rng = np.random.default_rng(seed)
    columns = {"id": rng.permutation(people) * 3, "kind": rng.choice(["a", "b", "c", None], people)}
    columns |= {"many": rng.integers(0, 41, people), "visits": rng.integers(-1, 23, people)}
    return pd.DataFrame(columns)


def pieces(whole, tmp_path=None):
    """Three shards of different sizes and kinds, together the same rows in the same order."""
    first, second, third = whole.iloc[:100], whole.iloc[100:1_900], whole.iloc[1_900:]
    if tmp_path is not None:
        third.to_csv(tmp_path / "third.csv", index=False)
        second.to_parquet(tmp_path / "second.parquet")
        return [first, tmp_path / "second.parquet", tmp_path / "third.csv"]
    return [first, second, third]


def fitted(study, clinic, shop):
    parties = {"clinic": cn.Party(clinic, schema=SCHEMA), "shop": cn.Party(shop, schema=SCHEMA)}
    with cn.Federation.simulate(
        parties, id="id", budget=cn.Budget(epsilon=9.0, delta=1e-5), test_key=TEST_KEY
    ) as federation:
        return type(study)(**study.get_params(deep=False)).fit(federation)


def learned(study):
    if isinstance(study, cn.KMeans):
        return np.concatenate([study.cluster_centers_.ravel(), study.grid_weights_.to_numpy()])
    return study.unbiased_.to_numpy() if isinstance(study, cn.PatternCount) else np.array([study.value_, study.stderr_])


@pytest.mark.every(3)
@pytest.mark.parametrize("name", STUDIES)
def test_shards_give_the_same_result_as_the_undivided_table(name, tmp_path):
    clinic, shop = frame(2_500, 0), frame(2_400, 1)
    whole = fitted(STUDIES[name], clinic, shop)
    divided = fitted(STUDIES[name], pieces(clinic, tmp_path), pieces(shop))
    np.testing.assert_array_equal(learned(whole), learned(divided))
    assert divided.privacy_.local == (name in LOCAL)
    assert divided.privacy_.epsilon() == whole.privacy_.epsilon()


@pytest.mark.every(2)
@pytest.mark.parametrize("name", DIVIDED)
def test_no_perturbation_sees_people_of_two_shards_and_no_statistic_the_undivided_table(name, monkeypatch):
    """Each mechanism's input is one shard's people; nobody computes the statistic of all rows together."""
    seen = []
    for mechanism in (RandomizedResponse, PerturbedValues):
        honest = mechanism.apply

        def watched(self, nonprivate, coins, randomness, honest=honest):
            seen.append(len(nonprivate))
            return honest(self, nonprivate, coins, randomness)

        monkeypatch.setattr(mechanism, "apply", watched)
    for statistic in (PrivateReports, PrivateValues):
        monkeypatch.setattr(statistic, "compute", lambda *_: pytest.fail("all rows were computed together"))
        honest_everyone = statistic.everyone

        def everyone(self, table, honest=honest_everyone):
            assert not table.sharded
            return honest(self, table)

        monkeypatch.setattr(statistic, "everyone", everyone)
    people = frame(2_500, 0)
    fitted(STUDIES[name], pieces(people), pieces(people))
    assert max(seen) <= 1_800


def test_a_shard_knows_its_own_people_and_whom_nobody_has_come_last():
    whole = frame(12, 3)
    order = np.array([11, -1, 0, 5, 6, -1, 2])
    divided = PrivateTable(Source([whole.iloc[:3], whole.iloc[3:6], whole.iloc[6:]]), SCHEMA, order=order)
    undivided = PrivateTable(Source(whole), SCHEMA, order=order)
    places = [places.tolist() for places, _ in divided.shards()]
    assert places == [[2, 6], [3], [0, 4], [1, 5]]
    put_together = np.empty(len(order))
    for where, part in divided.shards():
        put_together[where] = part.values("visits")
    np.testing.assert_array_equal(put_together, undivided.values("visits"))
    assert divided.sharded
    assert not undivided.sharded


def test_a_shard_that_cannot_be_read_costs_nothing(tmp_path):
    whole = frame(300, 5)
    whole.iloc[150:].to_csv(tmp_path / "rest.csv", index=False)
    party = cn.Party([whole.iloc[:150], tmp_path / "rest.csv"], schema=SCHEMA)
    with cn.Federation.simulate({"clinic": party}, id="id", budget=cn.Budget(epsilon=1.0)) as federation:
        (tmp_path / "rest.csv").write_text("id,kind\n1,a\n")
        with pytest.raises(cn.PartyAway):
            cn.Moment(["clinic.visits"], 2, epsilon=0.5).fit(federation)
        assert gate_of(federation, "clinic").ledger.spent() == NOTHING
