"""`colonnade bench` and `colonnade audit`."""

from typing import Any

import pytest

from colonnade import audit
from colonnade.privacy import randomness
from tests import kit
from tests.cli.studies import call


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What the benchmarks of this checkout are asked to do, instead of doing it."""
    from benchmarks.frame import command

    calls: list[tuple[Any, ...]] = []
    flags = ("quick", "record", "check", "again", "long")
    modes = lambda given: [name for name in flags if given[name]]  # noqa: E731
    monkeypatch.setattr(command, "one", lambda name, **given: calls.append((name, *modes(given))) or 0)
    monkeypatch.setattr(command, "everything", lambda **given: calls.append(("all", *modes(given))) or 3)
    monkeypatch.setattr(command, "listed", lambda: "a list")
    return calls


def test_without_a_name_benchmarks_are_listed_and_nothing_runs(asked: list[tuple[Any, ...]]) -> None:
    assert call("bench").output.split() == ["a", "list"]
    assert asked == []


def test_all_of_them_need_a_mode_and_its_failure_is_the_exit_status(asked: list[tuple[Any, ...]]) -> None:
    assert call("bench", "all").exit_code == 2
    assert call("bench", "all", "--record", "--check").exit_code == 2
    assert call("bench", "all", "--check").exit_code == 3
    assert call("bench", "all", "--record", "--again", "--long", "--minutes", "55").exit_code == 3
    assert asked == [("all", "check"), ("all", "record", "again", "long")]


@pytest.fixture(autouse=True)
def repeatable(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """The same draws on every run, unless fresh ones are asked for."""
    source = kit.source(request.node.name)
    monkeypatch.setattr(randomness, "SystemRandomness", lambda: source)


@pytest.mark.every(4)
@pytest.mark.parametrize("name", audit.MECHANISMS)
def test_a_sound_mechanism_is_not_refuted_and_half_its_noise_is(name: str) -> None:
    result = call("audit", name, "--samples", 200_000, "--alpha", kit.ALPHA)
    assert result.exit_code == 0, result.output
    assert result.output.count(": not refuted") == 1
    assert result.output.count(": refuted") == 1


@pytest.mark.full
@pytest.mark.parametrize("name", audit.ATTACKS)
def test_an_attack_refutes_its_control_and_not_our_mechanism(name: str) -> None:
    result = call("audit", name, "--samples", 400_000, "--alpha", kit.ALPHA)
    assert result.exit_code == 0, result.output
    assert result.output.count(": not refuted") == 1
    assert result.output.count(": refuted") == 1


def test_a_mechanism_with_half_its_noise_makes_the_exit_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = audit.MECHANISMS["laplace"]

    def mutant(epsilon: float, delta: float) -> Any:
        return audit._Claiming(honest(2 * epsilon, delta), honest(epsilon, delta).loss)

    monkeypatch.setitem(audit.MECHANISMS, "laplace", mutant)
    result = call("audit", "laplace", "--samples", 100_000, "--alpha", kit.ALPHA)
    assert result.exit_code == 1
    assert ": not refuted" not in result.output


def test_an_audit_that_would_catch_nothing_says_so() -> None:
    result = call("audit", "gaussian", "--samples", 1_000)
    assert result.exit_code == 1
    assert "take more --samples" in result.output
