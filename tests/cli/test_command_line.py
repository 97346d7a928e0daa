"""The command line as a whole: exit status, refusals, progress, start-up; and in a process of its own."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from colonnade.cli import running
from colonnade.errors import BudgetExceeded
from tests.cli.studies import CANARY, call, make, refused
from tests.cli.test_party_load import made


def in_a_process(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "colonnade.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **variables},
    )


@pytest.mark.parametrize(
    "verb",
    [(), ("demo",), ("run",), ("preview",), ("ledger",), ("ledger", "show"), ("doctor",), ("bench",), ("audit",)],
)
def test_every_verb_has_help(verb: tuple[str, ...]) -> None:
    result = call(*verb, "--help")
    assert result.exit_code == 0
    assert "Usage" in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("fly",),
        ("run",),
        ("run", "absent.toml"),
        ("run", "."),
        ("demo", "--people", "many"),
        ("ledger", "burn"),
        ("--no",),
    ],
)
def test_a_wrong_call_is_a_matter_of_usage(arguments: tuple[str, ...]) -> None:
    assert call(*arguments).exit_code == 2


def test_a_refusal_says_what_was_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise BudgetExceeded("It was too much.", spent={"bank": 0.5, "telco": 0.25})

    monkeypatch.setattr(running, "_fit_all", fails)
    assert "bank ε=0.5, telco ε=0.25" in refused(call("run", make(tmp_path)), "budget-exceeded")


def test_of_an_unforeseen_error_only_the_type_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise LookupError(f"could not convert {CANARY}")

    monkeypatch.setattr(running, "_fit_all", fails)
    assert "LookupError" in refused(call("run", make(tmp_path)), "internal-error")


def test_an_interrupted_run_says_that_nothing_is_paid_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stops(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "_fit_all", stops)
    assert "no further price" in refused(call("run", make(tmp_path)), "interrupted")


def test_where_there_is_no_terminal_nothing_but_results_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLONNADE_PROGRESS", raising=False)
    result = call("run", make(tmp_path))
    assert result.stderr == ""
    assert "agreeing" not in result.stdout


def test_a_terminal_shows_one_line_with_the_time_and_takes_it_away_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from colonnade.runtime.event_log import progress_bar

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.delenv("COLONNADE_PROGRESS", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", screen)
    with progress_bar("KMeans") as announce:
        announce("agreeing")
    shown = screen.getvalue()
    assert "KMeans: agreeing" in shown
    assert re.search(r"\d:\d\d:\d\d", shown)
    assert shown.count("\n") <= 1
    assert "\x1b[2K" in shown


@pytest.mark.full
def test_a_study_runs_in_a_process_of_its_own_and_again_for_nothing(tmp_path: Path) -> None:
    study = make(tmp_path)
    first = in_a_process("run", study)
    assert first.returncode == 0, first.stderr
    second = in_a_process("run", study)
    assert "already paid, nothing spent" in second.stdout


def test_help_does_not_import_what_only_a_verb_needs() -> None:
    heavy = {
        "dp_accounting",
        "rich.table",
        "colonnade.cli.demo",
        "colonnade.cli.running",
        "colonnade.service.study_file",
    }
    program = (
        "import sys, colonnade; before = set(sys.modules); import colonnade.cli; print(*set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not heavy & set(done.stdout.split())


def test_what_shows_something_shows_it_to_programs_too(tmp_path: Path) -> None:
    study = make(tmp_path)
    for verb in ("preview", "run"):
        assert json.loads(call(verb, study, "--json").stdout)["studies"][0]["title"] == "Segments and plans"
    rows = json.loads(call("ledger", "show", tmp_path / "ledgers", "--json").stdout)
    assert {row["party"] for row in rows} == {"bank", "telco"}
    checks = json.loads(call("doctor", "--directory", tmp_path, "--json").stdout)
    assert all({"check", "sound", "words"} == set(one) for one in checks)
    audited = json.loads(call("audit", "laplace", "--samples", 20_000, "--json").stdout)
    assert (audited["mechanism"]["caught"], audited["control"]["caught"]) == (False, True)
    member = made(tmp_path)
    shown = json.loads(call("party", "status", member.path, "--json").stdout)
    assert (shown["member"], shown["role"], shown["guard"], shown["relay"]) == ("bank", "data", False, False)
