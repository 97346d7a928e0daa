"""Synthetic federations: repeatable, apart at the edges, and with something to find in every study."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from colonnade.datasets import Federated, three_organisations
from colonnade.errors import BadInput
from colonnade.party.table.checking import check_table
from colonnade.party.table.private_table import PrivateTable
from colonnade.party.table.row_order import common_order, read_ids
from colonnade.party.table.sources import Source
from colonnade.schema import Category, Numeric


@pytest.fixture(scope="module")
def data() -> Federated:
    return three_organisations(people=5_000)


def scaled(data: Federated) -> pd.DataFrame:
    """The numeric columns of everybody, mapped to [−1, 1] by their bounds."""
    joined, columns = data.joined(), {}
    for party, organisation in data.items():
        for name, column in organisation.schema.items():
            if isinstance(column, Numeric):
                values = joined[f"{party}.{name}"].clip(column.low, column.high)
                columns[f"{party}.{name}"] = (values - column.midpoint) / (column.high - column.midpoint)
    return pd.DataFrame(columns)


def test_each_organisation_has_people_whom_the_others_lack_in_an_order_of_its_own(data: Federated) -> None:
    ids = {name: organisation.frame["person_id"] for name, organisation in data.items()}
    shared = set.intersection(*(set(column) for column in ids.values()))
    assert list(data) == ["bank", "telco", "insurer"]
    assert len(shared) == 5_000 == len(data.joined())
    for column in ids.values():
        assert column.is_unique
        assert set(column) > shared
        assert not column.is_monotonic_increasing
    firsts = [column[column.isin(shared)].to_numpy() for column in ids.values()]
    assert not np.array_equal(firsts[0], firsts[1])
    assert not np.array_equal(firsts[1], firsts[2])


def test_the_schemas_describe_the_columns(data: Federated) -> None:
    for organisation in data.values():
        frame, schema = organisation.frame, organisation.schema
        assert list(frame.columns) == ["person_id", *schema]
        assert not frame.isna().any().any()
        check_table(Source(frame), schema).refuse()
        for name, column in schema.items():
            if isinstance(column, Category):
                assert set(frame[name]) == set(column.levels)
            else:
                assert frame[name].between(column.low, column.high).mean() > 0.97


def test_the_table_of_each_party_agrees_with_the_joined_truth(data: Federated) -> None:
    sources = {name: Source(organisation.frame) for name, organisation in data.items()}
    parts = common_order({name: read_ids(source, data.id, party=name) for name, source in sources.items()})
    joined = data.joined()
    for name, organisation in data.items():
        table = PrivateTable(sources[name], organisation.schema, order=parts[name].rows)
        for column, described in organisation.schema.items():
            truth = joined[f"{name}.{column}"]
            if isinstance(described, Category):
                assert [described.levels[code] for code in table.codes(column)] == truth.tolist()
            else:
                assert np.array_equal(table.values(column), truth.clip(described.low, described.high))


def test_the_same_seed_gives_the_same_people_and_another_seed_others() -> None:
    one, same, other = three_organisations(100), three_organisations(100, seed=0), three_organisations(100, seed=1)
    for name in one:
        pd.testing.assert_frame_equal(one[name].frame, same[name].frame)
        assert not one[name].frame.equals(other[name].frame)


def test_patterns_across_organisations_are_far_from_independent(data: Federated) -> None:
    joined = data.joined()
    counts = pd.crosstab(joined["bank.segment"], joined["telco.plan"]).to_numpy() / 5_000
    assert abs(counts - np.outer(counts.sum(1), counts.sum(0))).sum() > 0.3


def test_principal_components_and_regression_find_something_across_parties(data: Federated) -> None:
    columns = scaled(data)
    variances = np.linalg.eigvalsh(np.cov(columns.T))[::-1]
    assert variances[:3].sum() > 0.75 * variances.sum()
    correlation = columns.corr()
    assert correlation.loc["bank.income", "insurer.premium"] > 0.5
    assert abs(correlation.loc["telco.minutes", "bank.age"]) > 0.4


def test_the_other_organisations_help_to_predict_the_banks_default(data: Federated) -> None:
    columns, target = scaled(data), data.joined()["bank.default"] == "yes"

    def quality(names: list[str]) -> float:
        half = len(target) // 2
        model = LogisticRegression().fit(columns[names][:half], target[:half])
        return float(roc_auc_score(target[half:], model.predict_proba(columns[names][half:])[:, 1]))

    alone = quality([name for name in columns if name.startswith("bank.")])
    together = quality(list(columns))
    assert together > 0.8
    assert together > alone + 0.015


@pytest.mark.parametrize("people", [0, -1, 2.5, True, "many"])
def test_a_number_of_people_that_is_none_is_refused(people: object) -> None:
    with pytest.raises(BadInput):
        three_organisations(people)
