"""A small study on disk for the command line to run, and a way to run it."""

import re
from pathlib import Path

import pandas as pd
from typer.testing import CliRunner, Result

from colonnade.cli import app
from colonnade.party.ledger.ledger import SqliteLedger

CANARY = "Xq7canaryZ"
PEOPLE = 400

STUDY = """
id = "person_id"
ledger_dir = "ledgers"

[budget]
epsilon = 2.0
delta = 1e-6

[parties.bank]
data = "bank.csv"
[parties.bank.columns]
age = { lower = 18, upper = 95, integer = true }
segment = { levels = ["basic", "gold"], other = "basic" }

[parties.telco]
data = "telco.parquet"
[parties.telco.columns]
plan = { levels = ["prepaid", "premium", "family"] }

[[study]]
title = "Segments and plans"
estimator = "PatternCount"
columns = ["bank.segment", "telco.plan"]
method = "response"
epsilon = 1.0
"""

SECOND = """
[[study]]
title = "Another"
estimator = "PatternCount"
columns = ["bank.segment"]
method = "response"
epsilon = 1.75
"""


def bank() -> pd.DataFrame:
    """A table with a canary wherever a value could slip out: an unknown level, a column outside the schema."""
    segment = ["basic", "gold", "basic", CANARY] * (PEOPLE // 4)
    return pd.DataFrame(
        {"person_id": range(PEOPLE), "age": range(PEOPLE), "segment": segment, "diary": [CANARY] * PEOPLE}
    )


def telco() -> pd.DataFrame:
    plan = ["prepaid", "premium", "family", "prepaid"] * (PEOPLE // 4)
    return pd.DataFrame({"person_id": range(PEOPLE), "plan": plan, "secret": [CANARY] * PEOPLE})


def make(folder: Path, text: str = STUDY) -> Path:
    """Write the data and a study file."""
    bank().to_csv(folder / "bank.csv", index=False)
    telco().to_parquet(folder / "telco.parquet")
    return rewrite(folder, text)


def rewrite(folder: Path, text: str) -> Path:
    study = folder / "study.toml"
    study.write_text(text, encoding="utf-8")
    return study


def edited(*pairs: tuple[str, str], text: str = STUDY) -> str:
    """The study file with some text replaced; what is to be replaced must be there."""
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def call(*arguments: object) -> Result:
    """Run the command line in this process; neither a traceback nor a value from a table may ever show."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert "Traceback" not in result.output
    assert CANARY not in result.output
    return result


def refused(result: Result, code: str) -> str:
    """Check the four parts of a refusal; return what it printed."""
    assert result.exit_code == 1, result.output
    assert f"[{code}]" in result.output
    for part in ("what", "spent", "do"):
        assert re.search(rf"^  {part} +\S", result.output, re.MULTILINE), result.output
    return result.output


def heads(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Where each ledger stands; empty if there is none."""
    found = {}
    for path in sorted((folder / "ledgers").glob("*.sqlite")):
        with SqliteLedger.open(path) as ledger:
            found[path.stem] = (ledger.head().sequence, ledger.head().hash)
    return found
