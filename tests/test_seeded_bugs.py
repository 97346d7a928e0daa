"""A test that never failed has shown nothing: every deliberate bug must be caught by the test that it names.

The table is of bugs that break an invariant of SECURITY.md or a law. `tests/seeded/RETIRED.md` lists what was planted once.
"""

import gc
import sqlite3
import sys
from functools import _lru_cache_wrapper, lru_cache

import pytest

from colonnade.errors import ColonnadeError
from tests.seeded import admission, laws, ledger, served, shares

SEEDED_BUGS = [*laws.BUGS, *ledger.BUGS, *admission.BUGS, *shares.BUGS, *served.BUGS]

CAUGHT = (AssertionError, ColonnadeError, ExceptionGroup, sqlite3.Error, pytest.fail.Exception)


@pytest.fixture(autouse=True)
def _no_memory():
    """What was computed before a bug was planted, or under it, must not be remembered on the other side."""
    _forget()
    yield
    _forget()


def _forget() -> None:
    for wrapper in _caches(len(sys.modules)):
        wrapper.cache_clear()


@lru_cache(maxsize=1)
def _caches(modules: int) -> list[_lru_cache_wrapper]:
    """All that remember anything, looked for again once there are more modules: to look takes longer than most victims."""
    # by its type: to ask a weak reference whether it is an instance of something is to ask what may be gone
    found = [one for one in gc.get_objects() if type(one) is _lru_cache_wrapper]
    return [one for one in found if getattr(one, "__module__", "").startswith("colonnade.")]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a victim that fails leaves things open
@pytest.mark.parametrize(
    "bug",
    [pytest.param(bug, id=bug.name, marks=[pytest.mark.full] if bug.slow else []) for bug in SEEDED_BUGS],
)
def test_a_seeded_bug_is_caught_by_the_test_that_it_names(bug):
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        with pytest.raises(CAUGHT):
            bug.run()


@pytest.mark.parametrize("bug", [pytest.param(bug, id=bug.name, marks=[pytest.mark.full]) for bug in SEEDED_BUGS])
def test_without_the_bug_its_victim_passes(bug):
    bug.run()


def test_what_bugs_change_is_there():
    """Slow bugs are planted under --full only: where code was renamed, or a test has a new argument, nobody would notice."""
    gone = [(bug.name, f"the test needs {bug.lacks}") for bug in SEEDED_BUGS if bug.lacks]
    for bug in SEEDED_BUGS:
        with pytest.MonkeyPatch.context() as patch:
            try:
                bug.plant(patch)
            except AttributeError as error:
                gone.append((bug.name, str(error)))
    assert gone == []


def test_no_bug_is_listed_twice():
    names = [bug.name for bug in SEEDED_BUGS]
    assert len(set(names)) == len(names)
