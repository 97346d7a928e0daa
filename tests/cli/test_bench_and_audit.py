"""`colonnade bench` and `colonnade audit`."""

import sys
from pathlib import Path
from typing import Any

import pytest

from colonnade.cli import audits, inspection
from colonnade.privacy import randomness
from tests import kit
from tests.cli.studies import call, refused


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source checkout with two benchmarks."""
    for name in ("pattern_count", "samplers"):
        folder = tmp_path / "benchmarks" / name
        folder.mkdir(parents=True)
        (folder / "run.py").write_text(f"def run():\n    print('ran', {name!r})\n")
    monkeypatch.setattr(inspection, "__file__", str(tmp_path / "src" / "colonnade" / "cli" / "bench.py"))
    return tmp_path


@pytest.mark.parametrize("name", ["pattern-count", "pattern_count", "Pattern-Count"])
def test_a_benchmark_is_found_by_name_with_either_hyphen(checkout: Path, name: str) -> None:
    result = call("bench", name)
    assert result.exit_code == 0, result.output
    assert "ran pattern_count" in result.output
    assert "ran samplers" not in result.output


def test_a_benchmark_with_tables_of_its_own_prints_them(checkout: Path) -> None:
    script = "import sys\ndef run():\n    return {}\ndef main():\n    print('table of', sys.argv[1:], run())\n"
    (checkout / "benchmarks" / "samplers" / "run.py").write_text(script)
    before = list(sys.argv)
    assert "table of [] {}" in call("bench", "samplers").output
    assert "table of ['--quick'] {}" in call("bench", "samplers", "--quick").output
    assert sys.argv == before


def test_without_a_name_every_benchmark_runs(checkout: Path) -> None:
    assert call("bench").output.count("ran ") == 2


def test_the_list_runs_nothing(checkout: Path) -> None:
    result = call("bench", "--list")
    assert result.output.split() == ["pattern-count", "samplers"]


def test_an_unknown_benchmark_is_a_matter_of_usage_with_a_suggestion(checkout: Path) -> None:
    result = call("bench", "patern-count")
    assert result.exit_code == 2
    assert "pattern-count" in result.output


def test_outside_a_checkout_bench_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(inspection, "__file__", str(tmp_path / "lib" / "colonnade" / "cli" / "bench.py"))
    assert "source checkout" in refused(call("bench", "pattern-count"), "bad-input")


@pytest.fixture(autouse=True)
def repeatable(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """The same draws on every run, unless fresh ones are asked for."""
    source = kit.source(request.node.name)
    monkeypatch.setattr(randomness, "SystemRandomness", lambda: source)


@pytest.mark.parametrize("name", audits.MECHANISMS)
def test_a_sound_mechanism_is_not_refuted_and_half_its_noise_is(name: str) -> None:
    result = call("audit", name, "--samples", 200_000, "--alpha", kit.ALPHA)
    assert result.exit_code == 0, result.output
    assert result.output.count(": not refuted") == 1
    assert result.output.count(": refuted") == 1


@pytest.mark.parametrize("name", audits.ATTACKS)
def test_an_attack_refutes_its_control_and_not_our_mechanism(name: str) -> None:
    result = call("audit", name, "--samples", 400_000, "--alpha", kit.ALPHA)
    assert result.exit_code == 0, result.output
    assert result.output.count(": not refuted") == 1
    assert result.output.count(": refuted") == 1


def test_a_mechanism_with_half_its_noise_makes_the_exit_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = audits.MECHANISMS["laplace"]

    def mutant(epsilon: float, delta: float) -> Any:
        return audits._Claiming(honest(2 * epsilon, delta), honest(epsilon, delta).loss)

    monkeypatch.setitem(audits.MECHANISMS, "laplace", mutant)
    result = call("audit", "laplace", "--samples", 100_000, "--alpha", kit.ALPHA)
    assert result.exit_code == 1
    assert ": not refuted" not in result.output


def test_an_audit_that_would_catch_nothing_says_so() -> None:
    result = call("audit", "gaussian", "--samples", 1_000)
    assert result.exit_code == 1
    assert "take more --samples" in result.output


def test_an_unknown_mechanism_is_a_matter_of_usage() -> None:
    assert call("audit", "magic").exit_code == 2


@pytest.mark.parametrize("options", [("--epsilon", "0"), ("--epsilon", "nan"), ("--epsilon", "-1")])
def test_a_price_that_cannot_be_meant_is_refused(options: tuple[str, str]) -> None:
    refused(call("audit", "laplace", *options), "bad-input")


def test_gaussian_noise_without_delta_is_refused() -> None:
    refused(call("audit", "gaussian", "--delta", "0"), "bad-input")
