"""The loaders of public data sets, with the files and without them."""

import numpy as np
import pandas as pd
import pytest
from benchmarks.frame.public import DATA_VARIABLE, adult, kc_house, letter, nsl_kdd

from colonnade.errors import BadInput
from colonnade.schema import Category, Numeric

LOADERS = {
    "adult": (adult, 45_222),
    "nsl_kdd": (nsl_kdd, 148_517),
    "letter": (letter, 20_000),
    "kc_house": (kc_house, 21_613),
}


@pytest.mark.parametrize("name", LOADERS)
def test_every_column_is_held_by_one_party_and_described(name, shared_data):
    loader, rows = LOADERS[name]
    data = loader(shared_data)
    held = [column for schema in data.schemas.values() for column in schema]
    assert len(data.frame) == rows
    assert sorted(held) == sorted(data.frame.columns.drop("person"))
    party, column = data.target.split(".", 1)
    assert column in data.schemas[party]
    assert all("person" in table and len(table) == rows for table in data.tables().values())


@pytest.mark.parametrize("name", LOADERS)
def test_declared_categories_cover_the_data_and_few_numbers_are_clipped(name, shared_data):
    data = LOADERS[name][0](shared_data)
    for schema in data.schemas.values():
        for column, described in schema.items():
            values = data.frame[column]
            if isinstance(described, Category):
                assert set(values.unique()) <= set(described.levels)
            else:
                assert isinstance(described, Numeric)
                assert np.mean((values < described.low) | (values > described.high)) < 0.01


@pytest.mark.parametrize("name", LOADERS)
def test_an_absent_file_is_refused_with_a_remedy(name, tmp_path, monkeypatch):
    loader, _ = LOADERS[name]
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    for path in (None, tmp_path, tmp_path / "nowhere.parquet"):
        with pytest.raises(BadInput) as refusal:
            loader(path)
        assert DATA_VARIABLE in refusal.value.remedy


def test_the_environment_names_the_folder(shared_data, monkeypatch):
    monkeypatch.setenv(DATA_VARIABLE, str(shared_data))
    assert letter().frame.equals(letter(shared_data / "letter.parquet").frame)


def test_a_truncated_file_and_another_table_are_refused(tmp_path):
    (tmp_path / "letter.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(BadInput, match="Parquet"):
        letter(tmp_path)
    pd.DataFrame({"x-box": [1, 2]}).to_parquet(tmp_path / "letter.parquet")
    with pytest.raises(BadInput, match="columns"):
        letter(tmp_path)
