"""Options and fixtures shared by all tests."""

import os
from collections import Counter
from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, max_examples=50, print_blob=True)
hypothesis.settings.register_profile("fresh", deadline=None, max_examples=300, print_blob=True)
hypothesis.settings.load_profile("fresh" if os.environ.get("COLONNADE_FRESH") else "ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run every fault and audit matrix whole")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take a fixed slice of every large matrix, or all of it under ``--full``."""
    if config.getoption("--full"):
        return
    seen: Counter[str] = Counter()
    taken, left = [], []
    for item in items:
        every, test = item.get_closest_marker("every"), item.nodeid.partition("[")[0]
        if "full" in item.keywords or (every is not None and seen[test] % every.args[0]):
            left.append(item)
        else:
            taken.append(item)
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
