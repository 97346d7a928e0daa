"""Options and fixtures shared by all tests."""

import os
from collections import Counter
from pathlib import Path

import hypothesis
import pytest

if os.environ.get("COLONNADE_FRESH") == "1":  # before workers are started: they inherit the seed
    os.environ["COLONNADE_FRESH"] = os.urandom(8).hex()

hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, max_examples=50, print_blob=True)
hypothesis.settings.register_profile("fresh", deadline=None, max_examples=300, print_blob=True)
hypothesis.settings.load_profile("fresh" if os.environ.get("COLONNADE_FRESH") else "ci")


def pytest_report_header() -> str:
    seed = os.environ.get("COLONNADE_FRESH")
    return f"fresh randomness: COLONNADE_FRESH={seed} repeats it" if seed else ""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run every fault and audit matrix whole")


_WHOLE_STUDIES = (
    "conversations coordinator estimators golden network party privacy report test_what_refusals test_record_and_replay"
)
THINNED = tuple(f"tests/{place}" for place in _WHOLE_STUDIES.split())
"""Where tests run whole studies: there the usual run takes a part of each test's sets of parameters."""
FEW, MANY = 3, 8
"""Of so many sets every second is taken, and of so many every third."""


def slice_of(item: pytest.Item, parameters: int) -> int:
    """Return the n of "every n-th set of parameters", by the mark of a test or by how many it has."""
    if every := item.get_closest_marker("every"):
        return int(every.args[0])
    if parameters < FEW or not item.nodeid.startswith(THINNED):
        return 1
    return 2 if parameters < MANY else 3


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take a fixed slice of every large matrix, or all of it under ``--full``: every test with its first parameters at least."""
    if config.getoption("--full"):
        return
    tests = [item.nodeid.partition("[")[0] for item in items]
    parameters, seen = Counter(tests), Counter[str]()
    taken, left = [], []
    for item, test in zip(items, tests, strict=True):
        out = "full" in item.keywords or seen[test] % slice_of(item, parameters[test])
        (left if out else taken).append(item)
        seen[test] += "full" not in item.keywords
    items[:] = taken
    config.hook.pytest_deselected(items=left)


@pytest.fixture
def shared_data() -> Path:
    """The folder of real data sets beside the checkout, or one that COLONNADE_DATA names; skipped where there is none."""
    folder = Path(os.environ.get("COLONNADE_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("no data folder: set COLONNADE_DATA to a copy of the public data sets")
    return folder
