"""`colonnade demo`: study files that anybody can run, their answers beside the truth, and accounts that add up."""

import re
from pathlib import Path

import pytest

from colonnade.cli import demo
from colonnade.estimation import table_model
from colonnade.service import study_file
from tests.cli.studies import call, heads


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "kept"


@pytest.fixture(scope="module")
def output(folder: Path) -> str:
    result = call("demo", "--people", 2_000, "--keep", folder)
    assert result.exit_code == 0, result.output
    return str(result.output)


def test_every_study_of_the_story_is_shown_with_its_price(output: str) -> None:
    for entry in study_file.read(demo.FILES / "story.toml").studies:
        part = output.split(f"\n{entry.title}\n")[1].split("\n\n", maxsplit=1)[0]
        assert entry.title.endswith("?")
        assert entry.purpose in part
        assert re.search(r"by a factor of at most [\d.]+ \(ε = [\d.]+\)", part)


def test_true_answers_are_those_of_everybody_whom_all_three_know(output: str) -> None:
    plans = output.split("have which phone plan?")[1].split("Who learns what", maxsplit=1)[0]
    rows = re.findall(r"^\w+ +\w+ +([\d,]+) +([\d,.]+) ", plans, re.MULTILINE)
    true, found = zip(*([float(figure.replace(",", "")) for figure in row] for row in rows), strict=True)
    assert len(rows) == 12
    assert sum(true) == 2_000
    assert max(abs(one - other) for one, other in zip(true, found, strict=True)) < 200  # twenty standard errors


def test_colonnade_run_gives_the_same_answers_at_no_further_price(output: str, folder: Path) -> None:
    before = heads(folder)
    again = call("run", folder / "story.toml")
    assert again.exit_code == 0, again.output
    assert heads(folder) == before
    row = re.search(r"^basic +standard +[\d,]+ +([\d,.]+) ", output, re.MULTILINE)
    assert row is not None
    assert row[1] in again.output
    assert call("demo", "--keep", folder).exit_code == 1


def test_the_same_question_again_is_free_and_an_overspend_is_refused(output: str) -> None:
    assert "the same answer, and no ledger moved" in output
    assert "refused (budget-exceeded), and it cost nothing" in output


def test_it_ends_with_every_ledger_and_a_report(output: str, folder: Path) -> None:
    end = output[output.index("What did all this cost?") :]
    for party in ("bank", "telco", "insurer"):
        row = re.search(rf"^{party} +([\d.]+) +([\d.]+) +([\d.]+)", end, re.MULTILINE)
        assert row is not None
        spent, remaining, cap = map(float, row.groups())
        assert 0 < spent < cap
        assert 0 < remaining < cap
    assert (folder / "demo.html").stat().st_size > 10_000


@pytest.mark.full
@pytest.mark.parametrize("installed", [True, False])
def test_everything_runs_and_only_a_missing_library_leaves_a_study_out(
    installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if installed and not table_model.has_library():
        pytest.skip("needs the extra")
    monkeypatch.setattr(demo, "has_library", lambda: installed)
    result = call("demo", "--people", 2_000, "--all")
    assert result.exit_code == 0, result.output
    for entry in study_file.read(demo.FILES / "more.toml").studies:
        assert entry.title in result.output
    assert ("pip install 'colonnade[synthetic]'" in result.output) == (not installed)
