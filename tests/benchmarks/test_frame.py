"""The frame of the benchmarks: verdicts that could have said no, recordings that can go on, checks that notice a change."""

import math
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.frame import (
    Benchmark,
    Claim,
    Part,
    Plot,
    Row,
    Sample,
    Table,
    Unavailable,
    above,
    below,
    better,
    circumstances,
    command,
    faster,
    near,
    running,
    same,
    share,
    within,
    workers,
)  # fmt: skip
from benchmarks.frame.claims import (
    AGREES,
    CANNOT_TELL,
    DOES_NOT,
    NOT_MEASURED,
    Test,
    coverage_counts,
    covered_as_stated,
)
from benchmarks.frame.intervals import difference
from benchmarks.frame.records import Results
from benchmarks.frame.workers import PartsFailed
from scipy import stats

from colonnade.errors import BadInput


def drawn(mean: float, spread: float = 1.0, runs: int = 20, seed: int = 0) -> Sample:
    return Sample(tuple(np.random.default_rng(seed).normal(mean, spread, runs)))


def verdict(*tests: Test) -> str:
    return Claim("it is so", "so", lambda _: tests).judged(Results({}, {})).verdict


# Verdicts ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        (above(drawn(10.0), 5.0), AGREES),
        (above(drawn(10.0), 15.0), DOES_NOT),
        (above(drawn(10.0), 10.0), CANNOT_TELL),
        (below(drawn(10.0), 15.0), AGREES),
        (below(drawn(10.0), 5.0), DOES_NOT),
        (near(drawn(10.0), 10.0, 2.0), AGREES),
        (near(drawn(10.0), 20.0, 2.0), DOES_NOT),
        (near(drawn(10.0), 10.0, 0.01), CANNOT_TELL),
        (better(drawn(10.0), drawn(5.0, seed=1)), AGREES),
        (better(drawn(5.0), drawn(10.0, seed=1)), DOES_NOT),
        (same(drawn(10.0), drawn(10.0, seed=1), 0.1), CANNOT_TELL),
        (faster(drawn(10.0), drawn(100.0, seed=1), 5.0), AGREES),
        (faster(drawn(10.0), drawn(100.0, seed=1), 50.0), DOES_NOT),
        (within(drawn(10.0), drawn(100.0, seed=1), 0.5), AGREES),
        (within(drawn(10.0), drawn(100.0, seed=1), 0.05), DOES_NOT),
        (share(950, 1_000, 0.93, 0.98), AGREES),
        (share(19, 20, 0.93, 0.98), CANNOT_TELL),
        (share(500, 1_000, 0.93, 0.98), DOES_NOT),
    ],
)
def test_a_verdict_follows_from_the_interval_and_the_margin(test: Test, expected: str) -> None:
    assert verdict(test) == expected


def test_an_agreement_needs_every_test_and_one_refutation_is_enough() -> None:
    assert verdict(above(drawn(10.0), 5.0), above(drawn(10.0), 10.0)) == CANNOT_TELL
    assert verdict(above(drawn(10.0), 5.0), above(drawn(10.0), 15.0)) == DOES_NOT


def test_a_coefficient_that_is_covered_too_rarely_is_found_although_no_run_shows_it() -> None:
    def rows(inside: float) -> list[dict[str, Sample]]:
        held = [coverage_counts([38, inside], [40, 40]) for _ in range(5)]
        return [{name: Sample(tuple(one[name] for one in held)) for name in held[0]}]

    assert verdict(*covered_as_stated(rows(37), 0.95, 1e-3)) == AGREES
    assert verdict(*covered_as_stated(rows(33), 0.95, 1e-3)) == DOES_NOT
    assert stats.binom.cdf(33, 40, 0.95) > 1e-3 / 2, "one run by itself would not have told"
    assert list(covered_as_stated([{"covered": Sample((1.0,))}], 0.95, 1e-3)) == []


def test_what_was_not_measured_is_not_an_agreement() -> None:
    claim = Claim("it is so", "so", lambda found: [above(found.sample("part", "value", set="Adult"), 1.0)])
    assert claim.judged(Results({}, {})).verdict == NOT_MEASURED
    assert Claim("it is so", "so", lambda _: []).judged(Results({}, {})).verdict == NOT_MEASURED


def test_runs_in_common_are_compared_by_pairs() -> None:
    common = np.random.default_rng(3).normal(0, 100, 20)
    one, other = Sample(tuple(common + 1 + np.arange(20) / 100)), Sample(tuple(common))
    low, high = difference(one, other, 0.95)
    assert 1.0 < low < high < 1.3
    unpaired = difference(one, Sample(other.values[:19]), 0.95)
    assert unpaired[0] < 0 < unpaired[1]


# Recordings -------------------------------------------------------------------------------------------------------------------


class Counting:
    """A measure that notes how often it is asked, and may stop in the middle."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.stop_at: tuple[str, int] | None = None
        self.shift = 0.0

    def __call__(self, run: int, case: str) -> Iterator[Row]:
        if (case, run) == self.stop_at:
            raise KeyboardInterrupt
        if case == "absent":
            raise Unavailable("there is no such set here")
        self.asked.append((case, run))
        value = float(np.random.default_rng([run, len(case)]).normal(10, 1)) + self.shift
        for epsilon in (0.1, 1.0):
            yield Row({"case": case, "epsilon": epsilon, "method": "ours"}, {"error": value / epsilon})
            yield Row({"case": case, "epsilon": epsilon, "method": "theirs"}, {"error": value / epsilon / 2})


PLOT = Plot("errors", "part", "error", "epsilon", "method", "Errors", "error", panel="case", log=True)


def drawn_too(benchmark: Benchmark) -> Benchmark:
    """The same with a picture, which takes a second to draw."""
    return replace(benchmark, shown=[*benchmark.shown, PLOT])


def toy(measure: Counting, folder: Path, patch: pytest.MonkeyPatch) -> Benchmark:
    """Return a benchmark in a folder of its own, on committed code."""
    cases = [{"case": "one"}, {"case": "three"}, {"case": "absent"}]
    table = Table(
        "part",
        {"error": "error"},
        {"case": "case", "epsilon": "ε"},
        across="method",
        higher=False,
        roles={"ours": "ours", "theirs": "peer"},
    )
    made = Benchmark(
        "toy",
        "Toy",
        "What is measured.",
        [Part("part", measure, cases, 6, 1.0)],
        [
            Claim(
                "errors fall",
                "ten times",
                lambda f: [above(f.sample("part", "error", case="one", epsilon=0.1, method="ours"), 50)],
            )
        ],
        [table],
    )
    patch.setattr(Benchmark, "folder", property(lambda _: folder / "toy"))
    patch.setattr(running, "changed", lambda _: [])
    code = {"src": "a", "benchmark": "b", "commit": "c" * 40, "machine": circumstances.machine()}
    patch.setattr(running, "circumstances", lambda *_: dict(code))
    return made


@pytest.fixture
def measure() -> Counting:
    return Counting()


@pytest.fixture
def benchmark(measure: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Benchmark:
    return toy(measure, tmp_path, monkeypatch)


def test_a_recording_keeps_every_run_and_says_what_is_missing(benchmark: Benchmark) -> None:
    (benchmark.folder / "results").mkdir(parents=True)
    (benchmark.folder / "results" / "of-an-earlier-recording.svg").touch()
    results = running.record(drawn_too(benchmark))
    assert [path.name for path in (benchmark.folder / "results").glob("*.svg")] == ["errors.svg"]
    kept = Results.read(benchmark.folder / "results" / "latest.json")
    assert kept is not None
    assert kept.written() == results.written()
    assert kept.sample("part", "error", case="one", epsilon=1.0, method="ours").runs == 6
    assert kept.parts["part"].skipped == [({"case": "absent"}, "there is no such set here")]
    text = (benchmark.folder / "README.md").read_text()
    assert "there is no such set here" in text
    assert "6 runs" in text
    assert "| errors fall | ten times |" in text
    assert "agrees" in text


def test_a_stopped_recording_goes_on_where_it_was(benchmark: Benchmark, measure: Counting) -> None:
    measure.stop_at = ("three", 4)
    with pytest.raises(KeyboardInterrupt):
        running.record(benchmark)
    assert not (benchmark.folder / "results" / "latest.json").exists()
    done, measure.stop_at = list(measure.asked), None
    running.record(benchmark)
    assert len(measure.asked) == len(set(measure.asked)) == 12
    assert measure.asked[: len(done)] == done


def test_what_is_recorded_is_not_measured_again_unless_asked(benchmark: Benchmark, measure: Counting) -> None:
    first = running.record(benchmark).written()
    assert running.record(benchmark).written() == first
    assert len(measure.asked) == 12
    running.record(benchmark, again=True)
    assert len(measure.asked) == 24


def test_a_part_that_fails_does_not_stop_the_others_and_nothing_is_recorded(
    benchmark: Benchmark, measure: Counting
) -> None:
    def broken(_run: int, case: str) -> Iterator[Row]:
        raise ZeroDivisionError(case)

    failing = replace(benchmark, parts=[replace(benchmark.parts[0], name="broken", measure=broken), *benchmark.parts])
    with pytest.raises(PartsFailed, match="broken: ZeroDivisionError"):
        running.record(failing)
    assert len(measure.asked) == 12
    assert not (benchmark.folder / "results" / "latest.json").exists()


def test_runs_of_other_code_are_not_taken_over(
    benchmark: Benchmark, measure: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure.stop_at = ("three", 4)
    with pytest.raises(KeyboardInterrupt):
        running.record(benchmark)
    measure.stop_at, measure.asked = None, []
    other = {"src": "A", "benchmark": "b", "commit": "d" * 40, "machine": "?"}
    monkeypatch.setattr(running, "circumstances", lambda *_: dict(other))
    running.record(benchmark)
    assert len(measure.asked) == 12


def test_code_that_is_not_committed_is_not_recorded(benchmark: Benchmark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "changed", lambda _: ["src/colonnade/plan.py"])
    with pytest.raises(BadInput, match=r"plan\.py"):
        running.record(benchmark)


def test_a_check_notices_a_change_and_nothing_else(benchmark: Benchmark, measure: Counting) -> None:
    running.record(benchmark)
    assert running.check(benchmark, seed=1) == []
    measure.shift = 40.0
    assert len(running.check(benchmark, seed=1)) == 4


def test_what_is_not_a_number_is_noticed_at_once(benchmark: Benchmark, measure: Counting) -> None:
    measure.shift = math.nan
    with pytest.raises(PartsFailed, match="not a number: error"):
        running.short(benchmark)


# All of them ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def three(benchmark: Benchmark, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Three benchmarks by name, with the exit statuses of their processes."""
    statuses = {"one": command.DONE, "two": command.DONE, "three": command.DONE}
    monkeypatch.setattr(command, "names", lambda: sorted(statuses))
    monkeypatch.setattr(command, "load", lambda name: replace(benchmark, name=name))
    monkeypatch.setattr(command, "missing", lambda name, **_: "it has no recording" if name != "two" else None)
    monkeypatch.setattr(command, "stale", lambda name: "stale" if statuses[name] else None)
    monkeypatch.setattr(command, "_process", lambda name, *_: statuses[name])
    monkeypatch.setattr(command, "write_pages", lambda: None)
    return statuses


def test_a_benchmark_that_fails_does_not_stop_the_others_and_is_said_at_the_end(
    three: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    three["one"] = command.FAILED
    assert command.everything(record=True) == command.FAILED
    said = capsys.readouterr().out
    assert "1 are recorded already; 2 to go" in said
    assert "three: 2 of 2; about" in said
    assert "1 failed: one" in said
    assert command.everything(record=True, minutes=0.0) == command.STOPPED
    assert "Not finished: one, three." in capsys.readouterr().out


def test_a_check_of_one_benchmark_is_an_exit_status(
    benchmark: Benchmark, measure: Counting, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "load", lambda _: benchmark)
    assert command.one("toy", check=True) == command.FAILED
    monkeypatch.setattr(command, "load", lambda _: replace(benchmark, needs="a device"))
    assert command.one("toy", check=True) == command.DONE
    assert "it needs a device and has no recording" in capsys.readouterr().out
    running.record(benchmark)
    assert command.one("toy", check=True) == command.DONE
    measure.shift = 40.0
    assert command.one("toy", check=True) == command.FAILED
    assert "recorded runs have" in capsys.readouterr().out


@pytest.mark.full
def test_two_processes_measure_what_one_measures() -> None:
    found = command.load("slr")
    part = replace(found.part("table 3"), runs=2)
    units = [(part, case, run) for case, run in part.units(quick=False)]
    kept: dict[int, list] = {1: [], 2: []}
    for count, held in kept.items():
        workers.Measuring(found, held.append, count).all(units)
    for held in kept.values():
        held.sort(key=lambda unit: unit["run"])
    assert [unit["rows"] for unit in kept[1]] == [unit["rows"] for unit in kept[2]]
    assert len(kept[2]) == 2


# Hashes -----------------------------------------------------------------------------------------------------------------------


def repository(folder: Path, patch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Make a repository with a library and a benchmark; return what writes a file and commits it."""
    patch.setattr(circumstances, "ROOT", folder)
    patch.setenv("GIT_CONFIG_GLOBAL", str(folder / "none"))

    def commit(path: str, text: str) -> None:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
        name = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
        for words in (["add", "-A"], [*name, "commit", "-q", "-m", "a change"]):
            subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)

    subprocess.run(["git", "init", "-q"], cwd=folder, check=True, capture_output=True)
    commit("src/library.py", "one")
    commit("benchmarks/toy/run.py", "one")
    commit("benchmarks/other/run.py", "one")
    return commit


def test_a_hash_is_of_the_benchmark_and_not_of_its_results(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder:
        commit = repository(Path(folder), monkeypatch)
        before = circumstances.source_hash(), circumstances.folder_hash("toy")
        for written in ("toy/results/latest.json", "toy/results/plot.svg", "toy/README.md", "other/run.py"):
            commit(f"benchmarks/{written}", "two")
        assert (circumstances.source_hash(), circumstances.folder_hash("toy")) == before
        commit("benchmarks/toy/sets.py", "two")
        assert circumstances.folder_hash("toy") != before[1]
        assert circumstances.source_hash() == before[0]
        commit("src/library.py", "two")
        assert circumstances.source_hash() != before[0]


# This repository --------------------------------------------------------------------------------------------------------------


@pytest.mark.every(4)
@pytest.mark.parametrize("name", command.names())
def test_every_benchmark_is_well_formed(name: str) -> None:
    found = command.load(name)
    assert found.name == name
    assert found.folder == circumstances.ROOT / "benchmarks" / name
    assert found.minutes() > 0
    parts = {part.name for part in found.parts}
    assert len(parts) == len(found.parts)
    for part in found.parts:
        assert part.runs > 1 or part.exact or part.machine, f"one run of {part.name} cannot tell anything"
        assert part.cases
    for one in found.shown:
        assert isinstance(one, str) or one.part in parts
