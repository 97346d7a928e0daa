"""Temporary folders: for one user alone, gone with their holder, and removed by the next process where one was killed."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from colonnade.runtime.private_files import HELD, TemporaryFolder

SIMULATION = """
import os, signal, sys
import colonnade as cn
import pandas as pd
tables = {name: cn.Party(pd.DataFrame({"id": [1, 2], "x": [0.0, 1.0]}), schema=cn.Schema(x=cn.Numeric(0, 1))) for name in "ab"}
cn.Federation.simulate(tables, id="id", budget=cn.Budget(epsilon=1.0))
print(os.listdir(os.environ["TMPDIR"]), flush=True)
if sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def temporary(tmp_path: Path) -> Iterator[Path]:
    with within(tmp_path):
        yield tmp_path


@contextmanager
def within(folder: Path) -> Iterator[None]:
    """Make temporary folders in another folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(folder))
        yield


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_that_somebody_holds_stays_and_one_that_nobody_holds_goes(temporary: Path) -> None:
    held = TemporaryFolder()
    left = temporary / "colonnade-left"
    left.mkdir()
    (left / HELD).touch()
    (left / "rows").write_bytes(b"somebody")
    with TemporaryFolder() as other:
        assert names(temporary) == sorted([held.path.name, other.path.name])
    held.close()


def test_what_is_no_temporary_folder_of_ours_stays(temporary: Path) -> None:
    elsewhere = temporary / "kept"
    elsewhere.mkdir()
    (elsewhere / HELD).touch()
    (temporary / "colonnade-link").symlink_to(elsewhere)
    (temporary / "colonnade-report-1").mkdir()  # a report that a person asked for has no lock
    (temporary / "colonnade-file").touch()
    before = names(temporary)
    with TemporaryFolder():
        pass
    assert names(temporary) == before
    assert names(elsewhere) == [HELD]


@pytest.mark.parametrize("end", ["in order", pytest.param("killed", marks=pytest.mark.every(2))])
def test_a_simulation_leaves_no_ledgers_behind_for_longer_than_until_the_next_one(end: str, temporary: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONWARNINGS": "ignore"}
    ended = subprocess.run(
        [sys.executable, "-c", SIMULATION, end], env=environment, capture_output=True, text=True, check=False
    )
    assert "colonnade-" in ended.stdout
    assert ended.returncode == (-signal.SIGKILL if end == "killed" else 0)
    assert len(names(temporary)) == (1 if end == "killed" else 0)
    with TemporaryFolder() as another:
        assert names(temporary) == [another.path.name]
