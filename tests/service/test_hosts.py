"""Separate hosts, as network namespaces with addresses of their own, where this machine allows them; one party is cut off."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("nvflare", reason="needs the extra colonnade[network]")

ROOT = Path(__file__).parents[2]


def in_namespaces(folder: Path, what: str, seconds: float) -> subprocess.CompletedProcess:
    words = [
        "unshare",
        "--net",
        "--mount",
        "--propagation",
        "private",
        sys.executable,
        "-m",
        "tests.service.namespaces",
    ]
    return subprocess.run(
        [*words, str(folder), what], capture_output=True, text=True, timeout=seconds, check=False, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


@pytest.mark.full
def test_a_study_between_hosts_survives_a_party_that_is_cut_off_and_comes_back(tmp_path):
    if sys.platform != "linux" or not all(shutil.which(tool) for tool in ("unshare", "ip", "mount")):
        pytest.skip("needs Linux with unshare, ip and mount")
    probe = in_namespaces(tmp_path, "probe", 60)
    if "able" not in probe.stdout:
        pytest.skip("this machine does not let us make network namespaces")
    (tmp_path / "site").mkdir()
    done = in_namespaces(tmp_path, "study", 300)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["agree"]
    assert found["spent"]
    assert found["seconds"] > 3.0  # it was cut off, and waited for
