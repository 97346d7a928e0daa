"""Under what circumstances something was measured: the code, by hashes; the machine, in words without names; versions."""

import hashlib
import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from colonnade.errors import BadInput

ROOT = Path(__file__).parents[2]
CODE = ROOT / "benchmarks" / ".code.json"
WRITTEN = ("README.md", "results")
"""What a recording writes into the folder of a benchmark; everything else there is the benchmark."""


def git(*arguments: str) -> str | None:
    """Return what git says about the checkout; ``None`` outside one."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.rstrip("\n") if done.returncode == 0 else None


def copied() -> dict[str, str]:
    """Return what `name_code` wrote, in a copy of a commit that came without its repository; nothing elsewhere."""
    if git("rev-parse", "HEAD") is not None or not CODE.exists():
        return {}
    held: dict[str, str] = json.loads(CODE.read_text(encoding="utf-8"))
    return held


def name_code(names: Sequence[str]) -> Path:
    """Write down the commit and the hashes of its code, for a machine that gets a copy of the files and not the repository."""
    if dirty := [path for name in names for path in changed(name)]:
        raise BadInput(f"{dirty[0]} differs from the last commit.", remedy="Commit or stash the changes.")
    found = {"commit": git("rev-parse", "HEAD"), "src": source_hash(), **{name: folder_hash(name) for name in names}}
    CODE.write_text(json.dumps(found), encoding="utf-8")
    return CODE


def source_hash(commit: str = "HEAD") -> str | None:
    """Return the tree hash of ``src`` at a commit."""
    return git("rev-parse", f"{commit}:src")


def folder_hash(name: str, commit: str = "HEAD") -> str | None:
    """Return a hash of the files of a benchmark at a commit, except for those that a recording writes."""
    listed = git("ls-tree", "-r", commit, "--", f"benchmarks/{name}")
    if not listed:
        return None
    kept = [line for line in listed.splitlines() if _belongs(line.partition("\t")[2], name)]
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()[:40]


def changed(name: str) -> list[str]:
    """Return files of ``src`` and of a benchmark that differ from the last commit."""
    listed = git("status", "--porcelain", "--untracked-files=all", "--", "src", f"benchmarks/{name}") or ""
    paths = [line[3:] for line in listed.splitlines()]
    return [path for path in paths if path.startswith("src/") or _belongs(path, name)]


def _belongs(path: str, name: str) -> bool:
    return not any(path.startswith(f"benchmarks/{name}/{own}") for own in WRITTEN)


def machine() -> str:
    """Return the processor and the number of cores, in words."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


def circumstances(name: str, packages: Sequence[str], device: Callable[[], str] | None = None) -> dict[str, str]:
    """Return what a recording of a benchmark was made with."""
    copy = copied()
    found = {
        "commit": copy.get("commit") or git("rev-parse", "HEAD"),
        "src": copy.get("src") or source_hash(),
        "benchmark": copy.get(name) or folder_hash(name),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine(),
        "Python": platform.python_version(),
    }
    if device is not None:
        found["device"] = device()
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return {what: "unknown" if value is None else value for what, value in found.items()}
