"""Peers: other people's packages, each in an environment of its own under ``benchmarks/.peers`` (not part of the repository).

A benchmark asks a script of its folder in such an environment, with JSON or a file, and reads JSON from it. The environment is
made on first use with ``venv`` and ``pip``. Without a package index, or with a Python that the package does not support, rows of
the peer say so. ``COLONNADE_PEERS`` may name another folder for the environments.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.frame.benchmark import Unavailable

FOLDER = Path(os.environ.get("COLONNADE_PEERS", Path(__file__).parents[1] / ".peers"))
PATIENCE = 1_800


@dataclass(frozen=True)
class Peer:
    """A package that a user would pick instead.

    Parameters
    ----------
    name
        Its name on pages.
    packages
        What pip installs, with versions.
    module
        What has to be importable afterwards.
    """

    name: str
    packages: tuple[str, ...]
    module: str

    def python(self) -> str:
        """Return a Python that has the peer; make the environment if need be."""
        found = _made(self)
        if isinstance(found, Unavailable):
            raise Unavailable(str(found))
        return found

    def version(self) -> str:
        """Return its name and version."""
        return f"{self.name} {self.packages[0].partition('==')[2]}"

    def ask(self, script: Path, *arguments: str, seconds: float = PATIENCE, **given: Any) -> Any:
        """Run a script of a benchmark with the peer's Python; ``given`` is its standard input, and its last line JSON.

        It raises `Unavailable` with the end of what the script said if the script fails.
        """
        done = subprocess.run(
            [self.python(), str(script), *arguments],
            input=json.dumps(given),
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            env=quiet_environment(),
        )
        if done.returncode or not done.stdout.strip():
            said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise Unavailable(f"{self.name} fails here: {said[:200]}")
        return json.loads(done.stdout.strip().splitlines()[-1])


def quiet_environment() -> dict[str, str]:
    """Return an environment without our own packages, and with one thread per library."""
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONHOME"}}
    return {**kept, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


@cache
def _made(peer: Peer) -> str | Unavailable:
    """Return its Python, or why there is none: without a package index, that is tried once and not for every case."""
    tag = hashlib.sha256("\n".join([*peer.packages, sys.version]).encode()).hexdigest()[:10]
    folder = FOLDER / f"{peer.module.split('.')[0]}-{tag}"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        venv.create(folder, with_pip=True)
        if why := _install(peer, python, folder):
            return Unavailable(why)
    return str(python)


def _install(peer: Peer, python: Path, folder: Path) -> str:
    """Install a peer, and return why it cannot be; an empty text if it can."""
    with tempfile.TemporaryFile("w+") as said:
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *peer.packages]
        failed = subprocess.run(pip, stdout=said, stderr=said, check=False, timeout=PATIENCE).returncode
    failed = (
        failed
        or subprocess.run([str(python), "-c", f"import {peer.module}"], check=False, capture_output=True).returncode
    )
    if failed:
        shutil.rmtree(folder, ignore_errors=True)
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        return f"{', '.join(peer.packages)} could not be installed (no package index, or not for Python {version})"
    (folder / "ready").touch()
    return ""


DIFFPRIVLIB = Peer("diffprivlib", ("diffprivlib==0.6.6", "scikit-learn<1.6", "numpy<2.3"), "diffprivlib")
DP_EBM = Peer("DP-EBM (interpret-core)", ("interpret-core==0.7.8", "pandas"), "interpret.privacy")
MPYC = Peer("MPyC", ("mpyc==0.11", "numpy", "gmpy2"), "mpyc.runtime")
SPU = Peer("SecretFlow SPU", ("spu==0.9.5", "numpy<2"), "spu")
OPENMINED = Peer("OpenMined PSI", ("openmined-psi==2.0.6",), "private_set_intersection.python")
PEERS = (DIFFPRIVLIB, DP_EBM, MPYC, SPU, OPENMINED)
