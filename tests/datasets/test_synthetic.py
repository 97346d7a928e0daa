"""Synthetic federations: repeatable, apart at the edges, and with something to find in every study."""

import numpy as np
import pytest

from colonnade.datasets import Federated, three_organisations
from colonnade.party.table.checking import check_table
from colonnade.party.table.private_table import PrivateTable
from colonnade.party.table.row_order import align, common_ids, read_ids
from colonnade.party.table.sources import Source
from colonnade.schema import Category


@pytest.fixture(scope="module")
def data() -> Federated:
    return three_organisations(people=5_000)


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
    ids = {name: read_ids(source, data.id, party=name) for name, source in sources.items()}
    joined = data.joined()
    for name, organisation in data.items():
        table = PrivateTable(
            sources[name], organisation.schema, order=align(ids[name], common_ids(ids), party=name).rows
        )
        for column, described in organisation.schema.items():
            truth = joined[f"{name}.{column}"]
            if isinstance(described, Category):
                assert [described.levels[code] for code in table.codes(column)] == truth.tolist()
            else:
                assert np.array_equal(table.values(column), truth.clip(described.low, described.high))
