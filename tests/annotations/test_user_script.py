"""The public annotations serve a user: a whole study passes mypy's strictest check, and mistakes are found without a run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import colonnade as cn
from colonnade.service import study_keys

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("user_script.py")
MISTAKES = """
import pandas as pd
import colonnade as cn

federation = cn.datasets.three_organisations(people=100).federation(budget=cn.Budget(epsilon=1.0))
study = cn.PatternCount(["bank.segment"], epsilon="1")  # wrong
study = cn.PatternCount(["bank.segment"], epsilonn=1.0)  # wrong
fitted: cn.PatternCount = study.fit(federation)
counts: pd.DataFrame = fitted.counts_  # wrong
centres: str = cn.KMeans(2, epsilon=1.0).fit(federation).cluster_centers_  # wrong
receipt: int = fitted.receipt_  # wrong
spent: str = federation.budget()  # wrong
remaining: pd.DataFrame = federation.budget()
cn.Category("basic", missing="sometimes")  # wrong
cn.no_such_name  # wrong
"""


def mypy(*files: Path) -> str:
    pytest.importorskip("mypy", reason="mypy is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", *map(str, files)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


@pytest.mark.full
def test_a_users_script_passes_mypy_and_every_mistake_is_found_where_it_is(tmp_path):
    mistaken = tmp_path / "mistaken.py"
    mistaken.write_text(MISTAKES)
    errors = re.findall(r"^(.+?):(\d+): error: ", mypy(SCRIPT, mistaken), re.MULTILINE)
    wrong = [number for number, line in enumerate(MISTAKES.splitlines(), 1) if line.endswith("# wrong")]
    assert sorted({(Path(file).name, int(line)) for file, line in errors}) == [(mistaken.name, line) for line in wrong]


@pytest.mark.full
def test_the_users_script_runs(tmp_path):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "budget-exceeded" in done.stdout


@pytest.mark.parametrize("name", study_keys.estimators())
def test_whatever_an_estimator_learns_has_a_type(name):
    """An editor completes and explains an attribute only if the class says that it is there."""
    kind = study_keys.estimators()[name]
    declared = {each for one in kind.__mro__ for each in vars(one).get("__annotations__", {})}
    assert {each for each in kind.learned if not each.startswith("_")} <= declared


def test_completion_offers_the_public_names_and_nothing_else():
    assert dir(cn) == sorted(cn.__all__)
    for name in dir(cn):
        assert getattr(cn, name) is not None
