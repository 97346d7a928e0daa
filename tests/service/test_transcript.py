"""From nothing to a first study across three members in at most thirteen commands: the page's own lines, run as they stand."""

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

from colonnade.datasets import three_organisations
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.schema import Schema
from colonnade.service import toml_parts

pytest.importorskip("nvflare", reason="needs the extra colonnade[network]")

EXAMPLE = Path(__file__).parents[2] / "examples" / "three-organisations"


def example():
    spec = importlib.util.spec_from_file_location("three_organisations_run", EXAMPLE / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_at_most_thirteen_commands_and_each_is_one():
    commands = example().commands()
    assert len(commands) <= 13
    assert all(re.match(r"colonnade |python make_data\.py$", command) for command in commands)
    assert not any(sign in command for command in commands for sign in (";", "|", "&&", ">"))


def test_the_schemas_of_the_example_are_those_of_its_tables():
    for name, organisation in three_organisations(people=1_000).items():
        document = toml_parts.parse(EXAMPLE / f"{name}.schema.toml")
        columns = {key: toml_parts.column_of(key, entry) for key, entry in document["columns"].items()}
        assert Schema(columns) == organisation.schema


@pytest.mark.full
def test_the_thirteen_commands_run_and_every_study_has_a_result(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(sys.modules["colonnade"].__file__).parents[1]))
    example().run(tmp_path)
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["failure"] is None
    assert len(results["studies"]) == 3
    for name in ("bank", "telco", "insurer"):
        with SqliteLedger.open(tmp_path / name / "ledger.sqlite") as ledger:
            assert 0 < ledger.spent().epsilon(ledger.budget.delta) <= ledger.budget.epsilon
        assert (tmp_path / name / "card.toml").read_text().count("PRIVATE") == 0
