"""``colonnade run`` of a synthetic table, and ``colonnade sample``: rows with a file beside them that says what they are."""

import json

import pandas as pd
import pytest

from colonnade.estimation import table_model
from tests import kit
from tests.cli import studies

TABLE = """
[[study]]
title = "A table to explore"
estimator = "SyntheticTable"
columns = ["bank.age", "telco.plan"]
bins = 4
epsilon = 1.0
delta = 1e-6
table = "people.csv"
rows = 25
"""
FILE = 'compute_nodes = ["auditor"]\n' + studies.STUDY.split("[[study]]")[0] + TABLE


@pytest.mark.full
@kit.needs_mbi
def test_a_study_file_writes_rows_and_what_they_are(tmp_path):
    study = studies.make(tmp_path, FILE)
    done = studies.call("run", study, "--models", tmp_path / "models")
    assert done.exit_code == 0, done.output
    rows = pd.read_csv(tmp_path / "people.csv")
    assert list(rows) == ["bank.age", "telco.plan"]
    assert len(rows) == 25
    words = json.loads((tmp_path / "people.csv.json").read_text())
    assert words["receipt"]
    assert "people.csv" in done.output
    sampled = studies.call(
        "sample", tmp_path / "models" / "1-SyntheticTable.json", tmp_path / "more.parquet", "--rows", "7"
    )
    assert sampled.exit_code == 0, sampled.output
    assert len(pd.read_parquet(tmp_path / "more.parquet")) == 7
    assert json.loads((tmp_path / "more.parquet.json").read_text())["plan_hash"] == words["plan_hash"]


def test_a_file_without_the_library_spends_nothing_and_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(table_model, "has_library", lambda: False)
    study = studies.make(tmp_path, FILE)
    done = studies.call("run", study)
    assert done.exit_code != 0
    assert "colonnade[synthetic]" in done.output
    assert not (tmp_path / "people.csv").exists()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('table = "people.csv"', 'table = "people.xlsx"', "people.xlsx"),
        ("rows = 25", "rows = 0", "rows"),
        ('table = "people.csv"\n', "", "rows needs table"),
        (
            'estimator = "SyntheticTable"\ncolumns = ["bank.age", "telco.plan"]\nbins = 4',
            'estimator = "PCA"\nn_components = 1',
            "table",
        ),
    ],
    ids=["another kind of file", "no rows", "rows of no table", "another estimator"],
)
def test_a_mistake_about_the_table_is_found_before_anything_is_opened(tmp_path, old, new, words):
    done = studies.call("run", studies.make(tmp_path, studies.edited((old, new), text=FILE)))
    assert done.exit_code != 0
    assert words in done.output
    assert not (tmp_path / "ledgers").exists()
