"""Under what circumstances something was measured: the code, by hashes; the machine, in words without names; versions."""

import hashlib
import os
import platform
import subprocess
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).parents[2]
WRITTEN = ("README.md", "results")
"""What a recording writes into the folder of a benchmark; everything else there is the benchmark."""


def git(*arguments: str) -> str | None:
    """Return what git says about the checkout; ``None`` outside one."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.rstrip("\n") if done.returncode == 0 else None


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


def circumstances(name: str, packages: Sequence[str]) -> dict[str, str]:
    """Return what a recording of a benchmark was made with."""
    found = {
        "commit": git("rev-parse", "HEAD"),
        "src": source_hash(),
        "benchmark": folder_hash(name),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine(),
        "Python": platform.python_version(),
    }
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return {what: "unknown" if value is None else value for what, value in found.items()}
