"""Bugs in the frame of the benchmarks: verdicts that could not have said no, and recordings of code that is gone."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.frame import circumstances, claims, running, workers
from benchmarks.frame.intervals import Sample

from tests.benchmarks import test_frame as frame
from tests.seeded.bug import Bug, replaced


def _on_a_toy(test: Callable[..., None], *, patched: bool = False) -> Callable[[pytest.MonkeyPatch], None]:
    """Run a test with a benchmark of its own."""

    def run(monkeypatch: pytest.MonkeyPatch) -> None:
        with tempfile.TemporaryDirectory() as folder:
            measure = frame.Counting()
            made = frame.toy(measure, Path(folder), monkeypatch)
            test(made, measure, *([monkeypatch] if patched else []))

    return run


BUGS = [
    Bug(
        "one run of something random is taken for certain",
        replaced(Sample, "interval", lambda self, level=0.95: (self.mean, self.mean)),
        frame.test_one_run_of_something_random_can_never_agree,
    ),
    Bug(
        "one test of several is enough to agree",
        replaced(claims, "_verdict", lambda tests: claims.AGREES if any(one.inside() for one in tests) else ""),
        frame.test_an_agreement_needs_every_test_and_one_refutation_is_enough,
    ),
    Bug(
        "runs of other code are taken over",
        replaced(running.Kept, "_same", lambda *_: True),
        _on_a_toy(frame.test_runs_of_other_code_are_not_taken_over, patched=True),
    ),
    Bug(
        "a check compares nothing",
        replaced(running, "_pairs", lambda *_, **__: []),
        _on_a_toy(frame.test_a_check_notices_a_change_and_nothing_else),
    ),
    Bug(
        "half a line of a killed recording loses all the others",
        replaced(running, "_lines", lambda _: []),
        _on_a_toy(frame.test_a_recording_that_was_killed_while_it_wrote_goes_on),
    ),
    Bug(
        "what is recorded is measured again",
        replaced(running, "latest", lambda _: None),
        _on_a_toy(frame.test_what_is_recorded_is_not_measured_again_unless_asked),
    ),
    Bug(
        "a part that fails stops the others",
        replaced(workers.Measuring, "_wanted", lambda self, units: (unit for unit in units if not self.failed)),
        _on_a_toy(frame.test_a_part_that_fails_does_not_stop_the_others_and_nothing_is_recorded),
    ),
    Bug(
        "results count as a benchmark's own files",
        replaced(circumstances, "WRITTEN", ()),
        frame.test_a_hash_is_of_the_benchmark_and_not_of_its_results,
    ),
]
