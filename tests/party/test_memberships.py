"""Memberships of centres that were released earlier, and who has a record at all."""

import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from colonnade.errors import ProtocolError
from colonnade.party.steps.local import PrivateHistogram, PrivateReports, category_codes, require_centres
from colonnade.party.table.private_table import PrivateTable
from colonnade.party.table.sources import Source
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.steps.local import Membership, category_of
from tests import kit
from tests.estimators.clustering_samples import coded, federated, groups, joined, split

SCHEMA = cn.Schema(x=cn.Numeric(-1, 1), y=cn.Numeric(-1, 1), kind=cn.Category(["a", "b"]))
FRAME = pd.DataFrame(
    {
        "x": [0.9, -0.9, np.nan, np.nan, 0.0],
        "y": [0.8, -0.8, 0.7, np.nan, 0.0],
        "kind": ["a", "b", None, None, None],
    }
)
CENTRES = np.array([[4096, 4096], [-4096, -4096], [0, 0]])


def the_plan(columns=("x", "y"), **changes) -> Plan:
    centres = {"clusters": 3, "scale": 4096, "seed": 0}
    step = {"centres_of": "centres", "clusters": 3, **changes}
    price = Price.of(1.0)
    return kit.written(
        Step(name="centres", party="bank", kind="centres", columns=columns, parameters=centres, price=price),
        Step(name="count", party="bank", kind="histogram", columns=("x", "y"), parameters=step, price=price),
        task="clustering",
        method="independent",
        people=len(FRAME),
    )


def earlier(_: str):
    return {"value": CENTRES}


def table(order=None) -> PrivateTable:
    return PrivateTable(Source(FRAME), SCHEMA, order=order)


def membership(plan: Plan) -> Membership:
    found = category_of(plan, plan.step("bank", "count"), SCHEMA, earlier)
    assert isinstance(found, Membership)
    return found


def test_everybody_belongs_to_the_nearest_centre_and_nobody_without_a_value_to_any():
    assert category_codes(membership(the_plan()), table()).tolist() == [0, 1, 2, -1, 2]


def test_a_histogram_counts_only_those_with_a_record():
    plan = the_plan()
    counts = kit.private(PrivateHistogram, plan, plan.step("bank", "count"), SCHEMA, earlier).compute(table())
    assert counts.tolist() == [1, 1, 2]


def test_reports_are_uniformly_random_for_those_without_a_record():
    plan = the_plan()
    assert kit.private(PrivateReports, plan, plan.step("bank", "count"), SCHEMA, earlier).compute(table()).tolist() == [
        0,
        1,
        2,
        -1,
        2,
    ]


@pytest.mark.parametrize("kept", [{}, {"value": CENTRES[:2]}, {"value": CENTRES[:, :1]}, {"other": CENTRES}])
def test_centres_of_another_shape_are_refused(kept):
    plan = the_plan()
    category = category_of(plan, plan.step("bank", "count"), SCHEMA, lambda _: kept)
    with pytest.raises(ProtocolError):
        require_centres(category)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (["x"], [1, 1, 0, 0, 1]),
        (["x", "y"], [1, 1, 1, 0, 1]),
        (["kind"], [1, 1, 0, 0, 0]),
        (["kind", "x"], [1, 1, 0, 0, 1]),
    ],
)
def test_presence_is_a_value_in_any_of_the_columns(columns, expected):
    assert table().present(columns).astype(int).tolist() == expected
    assert table(np.array([4, -1, 2])).present(columns).astype(int).tolist() == [expected[4], 0, expected[2]]


@pytest.mark.parametrize("parties", [2, 3])
def test_secure_weights_are_the_true_counts_of_the_released_centres_memberships(parties):
    tables = split(groups("exact", people=600, width=2 * parties), parties)
    tables["party0"].loc[:9, [column for column in tables["party0"].columns if column != "id"]] = np.nan
    with kit.zeroed_out(), federated(tables, epsilon=5_000) as f:
        study = cn.KMeans(2, n_local_clusters=3, epsilon=2_000.0).fit(f)
    whole = joined(tables)
    labels = {}
    for party, centres in study.local_centers_.items():
        own = whole[[name for name in whole if name.startswith(f"{party}.")]].to_numpy()
        labels[party] = ((coded(own)[:, None] - coded(centres)) ** 2).sum(axis=2).argmin(axis=1)
    pair = pd.crosstab(labels["party0"][10:], labels["party1"][10:]).to_numpy()
    found = study.grid_weights_.groupby(level=["party0", "party1"]).sum().unstack().to_numpy()
    np.testing.assert_allclose(found, pair, atol=3)
