"""Options and fixtures shared by all tests."""

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from colonnade.runtime.private_files import TemporaryFolder

if os.environ.get("COLONNADE_FRESH") == "1":  # before workers are started: they inherit the seed
    os.environ["COLONNADE_FRESH"] = os.urandom(8).hex()

MEMORY, ROOM = Path("/dev/shm"), 4 << 30
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM:
    os.environ["TMPDIR"] = str(MEMORY)  # ledgers sync every row, which takes most of the time of a test that uses them
    tempfile.tempdir = None  # pytest has asked for it already

hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, max_examples=25, print_blob=True)
hypothesis.settings.register_profile("whole", derandomize=True, deadline=None, max_examples=100, print_blob=True)
hypothesis.settings.register_profile("fresh", deadline=None, max_examples=300, print_blob=True)
hypothesis.settings.load_profile("fresh" if os.environ.get("COLONNADE_FRESH") else "ci")


def pytest_report_header() -> str:
    seed = os.environ.get("COLONNADE_FRESH")
    return f"fresh randomness: COLONNADE_FRESH={seed} repeats it" if seed else ""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run every fault and audit matrix whole")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--full") and not os.environ.get("COLONNADE_FRESH"):
        hypothesis.settings.load_profile("whole")


LAST = ("tests/service", "tests/packaging", "tests/benchmarks")
"""What runs after the rest: it takes longest to say the least about a change."""


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make no items of sets of parameters that only ``make test-all`` runs: there are thousands."""
    if metafunc.config.getoption("--full"):
        return
    whole = metafunc.definition.get_closest_marker("full") is not None
    for mark in metafunc.definition.iter_markers("parametrize"):
        if (
            len(mark.args) > 1
            and isinstance(sets := mark.args[1], list)
            and not isinstance(mark.kwargs.get("ids"), list)
        ):
            slow = [any(one.name == "full" for one in getattr(values, "marks", ())) for values in sets]
            if whole or any(slow):  # one is left, so that the test is known and counted among those left out
                sets[:] = [values for values, out in zip(sets, slow, strict=True) if not out] or sets[:1]
            if whole:
                del sets[1:]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what its author marked ``full``, and of a test marked ``every(n)`` all sets of parameters but every n-th."""
    items.sort(key=lambda item: item.nodeid.startswith(LAST))
    if config.getoption("--full"):
        return
    seen: Counter[str] = Counter()
    taken, left = [], []
    for item in items:
        test, every = item.nodeid.partition("[")[0], item.get_closest_marker("every")
        out = "full" in item.keywords or (every and seen[test] % every.args[0])
        (left if out else taken).append(item)
        seen[test] += "full" not in item.keywords
    items[:] = taken
    config.hook.pytest_deselected(items=left)


_folders: list[TemporaryFolder] = []


@pytest.fixture(scope="module", autouse=True)
def _temporary_files_of_its_own() -> Iterator[None]:
    """Opening a simulation looks at all our temporary folders, and tests leave hundreds of them open until they end."""
    _folders.append(TemporaryFolder())  # until the end: what one module keeps open another may use
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(_folders[-1].path))
        patch.setattr(tempfile, "tempdir", None)
        yield


@pytest.fixture
def shared_data() -> Path:
    """The folder of real data sets beside the checkout, or one that COLONNADE_DATA names; skipped where there is none."""
    folder = Path(os.environ.get("COLONNADE_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("no data folder: set COLONNADE_DATA to a copy of the public data sets")
    return folder
