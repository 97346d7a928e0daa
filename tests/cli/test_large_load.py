"""A served party's table under a limit on memory: loaded from a folder or a database, opened on disk, in the papers' order."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from colonnade.errors import BadInput
from colonnade.party.table.stored_table import StoredTable
from colonnade.service.party_folder import PartyFolder
from colonnade.service.served_party import public_alignment
from tests.cli.studies import call

SCHEMA = 'id = "person"\ncohort = "../list.parquet"\n{memory}\n[columns]\nage = {{ lower = 0, upper = 120 }}\n'
POLICY = "[budget]\nepsilon = 1.0\ndelta = 1e-6\n[policy]\n"


def made(folder: Path, memory: str = "") -> PartyFolder:
    found = PartyFolder.create(folder / "bank", name="bank", role="data")
    (found.path / "schema.toml").write_text(SCHEMA.format(memory=memory))
    (found.path / "policy.toml").write_text(POLICY)
    people = pd.DataFrame({"person": np.arange(900)[::-1], "age": np.arange(900) % 120})
    (folder / "people").mkdir()
    people.iloc[:500].to_parquet(folder / "people" / "a.parquet")
    people.iloc[500:].to_parquet(folder / "people" / "b.parquet")
    pd.DataFrame({"person": np.arange(0, 1_000, 2)}).to_parquet(folder / "list.parquet")
    with duckdb.connect(str(folder / "people.duckdb")) as database:
        database.register("given", pa.Table.from_pandas(people))
        database.execute("CREATE TABLE people AS SELECT * FROM given")
    return found


@pytest.mark.parametrize("source", ["people", "people.duckdb"])
def test_a_folder_and_a_database_are_loaded_and_opened_on_disk_in_the_papers_order(tmp_path: Path, source: str) -> None:
    folder = made(tmp_path)
    result = call("party", "load", str(folder.path), str(tmp_path / source), "--memory", "64MiB")
    assert "900 people and 1 columns" in result.output
    ages = []
    for memory in (None, "64MiB"):
        terms, files = PartyFolder(folder.path, memory).loaded()
        assert all(file.suffix == ".parquet" for file in files)
        papers = SimpleNamespace(members={}, alignment=public_alignment(tmp_path / "list.parquet", "person"))
        opened = replace(terms, papers=papers).open(files, 1)  # type: ignore[arg-type]
        assert isinstance(opened.table, StoredTable) is (memory is not None)
        assert opened.order.people == opened.table.people == 500
        ages.append(opened.table.values("age").tolist())
    assert ages[0] == ages[1]


def test_the_limit_may_stand_in_the_schema_and_a_wrong_one_is_refused(tmp_path: Path) -> None:
    folder = made(tmp_path, 'memory = "64MiB"')
    folder.load([tmp_path / "people"])
    terms, files = folder.loaded()
    assert terms.memory == 64 << 20
    assert isinstance(terms.open(files, 1).table, StoredTable)
    (folder.path / "schema.toml").write_text(SCHEMA.format(memory='memory = "little"'))
    with pytest.raises(BadInput, match="at least 64 MiB"):
        folder.loaded()


def test_a_list_that_is_not_the_papers_is_refused_on_disk_too(tmp_path: Path) -> None:
    folder = made(tmp_path, 'memory = "64MiB"')
    folder.load([tmp_path / "people"])
    terms, files = folder.loaded()
    other = pd.DataFrame({"person": [1, 2, 3]})
    other.to_parquet(tmp_path / "other.parquet")
    papers = SimpleNamespace(members={}, alignment=public_alignment(tmp_path / "other.parquet", "person"))
    with pytest.raises(BadInput, match="not the one in the papers"):
        replace(terms, papers=papers).open(files, 1)  # type: ignore[arg-type]
