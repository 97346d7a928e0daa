"""Two neighbouring data sets, the same randomness: moments and sketches differ in the gate's own outputs and in nothing else.

As `tests/test_record_and_replay.py`, for the studies of whole numbers and sketches: messages, sizes, order and control flow are
identical, and the difference at each mechanism's input is within the declared sensitivity.
"""

import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from colonnade.party.steps import local as shards
from colonnade.privacy.accounting import Loss
from colonnade.transport.direct import Recorded
from tests import kit
from tests.federations import TEST_KEY
from tests.test_record_and_replay import blank, plain

SCHEMAS = {
    "clinic": cn.Schema(
        visits=cn.Numeric(0, 20, integer=True), age=cn.Numeric(18, 95), kind=cn.Category(["a", "b", "c"])
    ),
    "shop": cn.Schema(visits=cn.Numeric(2, 30, integer=True), bill=cn.Numeric(0, 200)),
}
COLUMNS = ["clinic.visits", "shop.visits"]
MIXED = ["clinic.age", "clinic.kind", "shop.bill"]
STUDIES = {
    "values": cn.Moment(COLUMNS, 2, epsilon=1.0, change="bounds"),
    "values at event level": cn.Moment(COLUMNS, 2.5, epsilon=1.0),
    "totals": cn.Moment(COLUMNS, 1, epsilon=1.0, change="bounds"),
    "value sketch": cn.Moment(COLUMNS, 2, epsilon=1.0, delta=1e-6, change="bounds", method="sketch"),
    "sketched components": cn.PCA(1, columns=MIXED, method="sketch", epsilon=1.0, delta=1e-6),
    "sketched regression": cn.LinearRegression(
        "shop.bill", columns=MIXED[:2], method="sketch", epsilon=1.0, delta=1e-6
    ),
}


def frames():
    rng = np.random.default_rng(5)
    ids = np.arange(200)
    clinic = {
        "visits": rng.integers(0, 21, 200),
        "age": rng.uniform(18, 95, 200),
        "kind": rng.choice(["a", "b", "c"], 200),
    }
    shop = {"visits": rng.integers(2, 31, 200), "bill": rng.uniform(0, 200, 200)}
    return {
        "clinic": pd.DataFrame({"id": ids, **clinic}).astype({"visits": float}),
        "shop": pd.DataFrame({"id": ids, **shop}).sample(frac=1, random_state=1).astype({"visits": float}),
    }


def neighbours(name, person):
    """One person's values gone at every party; at event level, one higher."""
    one, other = frames(), frames()
    for frame in other.values():
        row = frame.id == person
        if "event" in name:
            frame.loc[row, "visits"] = (frame.loc[row, "visits"] - 1).clip(0, 20)
        else:
            frame.loc[row, [column for column in frame.columns if column != "id"]] = None
    return one, other


def record(study, tables, monkeypatch):
    """Run a study; keep every message, and each mechanism's input beside what it was priced for."""
    inputs = {}
    honest = shards.perturbed

    def watched(statistic, mechanism, table, randomness):
        inputs[tuple(table.schema)] = (mechanism, statistic.compute(table))
        return honest(statistic, mechanism, table, randomness)

    monkeypatch.setattr(shards, "perturbed", watched)
    parties = {name: cn.Party(frame, schema=SCHEMAS[name]) for name, frame in tables.items()}
    budget = cn.Budget(epsilon=9.0, delta=1e-5)
    with kit.zeroed_out(), cn.Federation.simulate(parties, id="id", budget=budget, test_key=TEST_KEY) as federation:
        federation._driver.transport = recorded = Recorded(federation._driver.transport, keep=True)
        type(study)(**study.get_params()).fit(federation)
    monkeypatch.undo()
    return recorded.exchanges, [inputs[party] for party in sorted(inputs)]  # parties answer in any order


@pytest.mark.every(3)
@pytest.mark.parametrize("person", [0, 57, 199])
@pytest.mark.parametrize("name", STUDIES)
def test_a_person_removed_changes_nothing_but_the_gates_own_outputs(name, person, monkeypatch):
    one, other = neighbours(name, person)
    exchanges_one, inputs_one = record(STUDIES[name], one, monkeypatch)
    exchanges_other, inputs_other = record(STUDIES[name], other, monkeypatch)
    for (requests_one, replies_one), (requests_other, replies_other) in zip(
        exchanges_one, exchanges_other, strict=True
    ):
        assert plain(requests_one) == plain(requests_other)
        assert list(replies_one) == list(replies_other)
        for party in replies_one:
            assert blank(replies_one[party]) == blank(replies_other[party])
    assert len(inputs_one) == 2
    for (mechanism, before), (_, after) in zip(inputs_one, inputs_other, strict=True):
        assert within(mechanism, before.astype(np.int64) - after.astype(np.int64))


def within(mechanism, difference) -> bool:
    """Whether a mechanism that adds noise of its size to such a difference loses no more than it charges."""
    if hasattr(mechanism, "sigma_squared"):
        squared = int((difference.astype(object) ** 2).sum())
        return squared == 0 or Loss.of_zcdp(squared / (2 * mechanism.sigma_squared)).fits(
            mechanism.loss.nano_epsilon(1e-6), 1e-6
        )
    return np.abs(difference).sum() <= mechanism.scale * mechanism.loss.pure / 10**9


def test_the_check_itself_would_notice_two_people(monkeypatch):
    for name in ("values", "totals", "sketched components"):
        one, other = neighbours(name, 0)
        for frame in one.values():
            rows = frame.id.isin([0, 1])
            numbers = [column for column in frame.columns if column not in ("id", "kind")]
            frame.loc[rows, numbers] = 1e9  # the upper bound, as far from nothing as it gets
        for frame in other.values():
            frame.loc[frame.id.isin([0, 1]), [column for column in frame.columns if column != "id"]] = None
        _, inputs_one = record(STUDIES[name], one, monkeypatch)
        _, inputs_other = record(STUDIES[name], other, monkeypatch)
        twice = [
            (mechanism, 2 * (a.astype(np.int64) - b))
            for (mechanism, a), (_, b) in zip(inputs_one, inputs_other, strict=True)
        ]
        assert not all(within(mechanism, difference) for mechanism, difference in twice)
