"""``colonnade doctor``: is this machine fit to be a party? Exit status 1 if something is wrong.

A check either returns words that describe what it found, or raises `Unfit` with what to do. What is optional is
reported and never fails.
"""

import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli import screen

__all__ = ["CHECKS", "Unfit", "doctor"]

OLDEST_PYTHON = (3, 11)
THIS_SOFTWARE_EXISTS = 1_735_689_600  # 2025-01-01: a clock before it is wrong
NEEDED = (
    "numpy", "scipy", "scikit-learn", "pandas", "pyarrow", "numba", "msgspec", "cryptography", "dp-accounting",
    "mpmath", "rich", "typer",
)  # fmt: skip
OPTIONAL = {"torch": "fast", "polars": "polars", "opendp": "bench", "mpyc": "bench"}


class Unfit(Exception):  # it says what the machine is
    """A check that failed, and what to do about it."""


def doctor(
    directory: Annotated[
        Path, typer.Option(exists=True, file_okay=False, help="Where ledgers will be kept: is it writable and durable?")
    ] = Path(),
) -> None:
    """Check Python, packages, randomness, samplers, clock, disk, compiler and linear algebra."""
    results = [_examined(name, check) for name, check in checks(directory)]
    for name, sound, words in results:
        screen.line(f"{'ok   ' if sound else 'WRONG'} {name:<12} {words}")
    if not all(sound for _, sound, _ in results):
        raise typer.Exit(1)


def checks(directory: Path) -> list[tuple[str, Callable[[], str]]]:
    """Return every check by name."""
    return [*CHECKS.items(), ("disk", lambda: disk(directory))]


def _examined(name: str, check: Callable[[], str]) -> tuple[str, bool, str]:
    try:
        return name, True, check()
    except Unfit as unfit:
        return name, False, str(unfit)
    except Exception as error:  # noqa: BLE001  # a broken installation fails in ways that nobody foresees
        return name, False, f"failed with {type(error).__name__}; reinstall: pip install --force-reinstall colonnade"


def python() -> str:
    """Check the interpreter's version."""
    if sys.version_info < OLDEST_PYTHON:
        raise Unfit(f"Python {platform.python_version()} is too old; install 3.11 or newer")
    return f"{platform.python_implementation()} {platform.python_version()} on {platform.system()} {platform.machine()}"


def packages() -> str:
    """Check that what is needed is installed."""
    found = {name: _version(name) for name in ("colonnade", *NEEDED)}
    missing = [name for name, version in found.items() if version is None]
    if missing:
        raise Unfit(f"{', '.join(missing)} missing; pip install colonnade")
    return ", ".join(f"{name} {version}" for name, version in found.items())


def extras() -> str:
    """Report what is optional."""
    words = []
    for name, extra in OPTIONAL.items():
        version = _version(name)
        words.append(f"{name} {version}" if version else f"{name} absent (pip install 'colonnade[{extra}]')")
    return ", ".join(words)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def entropy() -> str:
    """Check that the operating system's randomness does not repeat itself."""
    from colonnade.privacy.randomness import SystemRandomness

    source = SystemRandomness()
    draws = [source.bytes(32) for _ in range(64)] + [os.urandom(32) for _ in range(64)]
    if len(set(draws)) != len(draws):
        raise Unfit("the operating system's randomness repeats itself; do not release anything from this machine")
    return "the system's randomness answers and does not repeat itself"


def samplers() -> str:
    """Compare draws under a fixed key with known answers, and fresh draws with the variance they should have."""
    from fractions import Fraction

    from colonnade.privacy.randomness import KeyedRandomness, SystemRandomness
    from colonnade.privacy.samplers import discrete_gaussian, discrete_laplace

    keyed = KeyedRandomness(bytes(range(32)))
    answers = {
        "stream": keyed.spawn("stream").bytes(8).hex(),
        "laplace": discrete_laplace(Fraction(5), 8, keyed.spawn("laplace")).tolist(),
        "gaussian": discrete_gaussian(Fraction(25), 8, keyed.spawn("gaussian")).tolist(),
    }
    if answers != KNOWN_ANSWERS:
        raise Unfit("a sampler gives other draws than it should; do not release anything; reinstall")
    fresh = discrete_gaussian(Fraction(25), 20_000, SystemRandomness())
    if not 22.5 < float(fresh.var()) < 27.5:  # ten standard errors
        raise Unfit("fresh noise has the wrong variance; do not release anything from this machine")
    return "known answers match; fresh noise has the variance it should"


def clock() -> str:
    """Check that time is plausible and does not stand still."""
    now, start = time.time(), time.monotonic()
    if now < THIS_SOFTWARE_EXISTS:
        raise Unfit("the clock is set to a time before this software existed; set it")
    time.sleep(0.01)
    if not (time.monotonic() > start and time.time() > now):
        raise Unfit("the clock does not advance; ledgers record when they were written")
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))


def disk(directory: Path) -> str:
    """Write a ledger in the directory as a party would, synced to disk, and read it back."""
    from colonnade.errors import ColonnadeError
    from colonnade.party.ledger import SqliteLedger
    from colonnade.privacy.loss import Loss
    from colonnade.privacy.price import Budget

    try:
        with tempfile.TemporaryDirectory(prefix=".colonnade-doctor-", dir=directory) as folder:
            path = Path(folder, "check.ledger")
            with SqliteLedger.create(path, party="doctor", budget=Budget(epsilon=1.0), test=True) as ledger:
                start = time.perf_counter()
                ledger.debit(b"check", bytes(32), Loss.of_pure(1_000_000), label="check")
                seconds = time.perf_counter() - start
            with SqliteLedger.open(path) as ledger:
                if ledger.head().sequence != 1:
                    raise Unfit("what was written to disk is not there")
    except (OSError, ColonnadeError):
        raise Unfit("ledgers cannot be kept in this directory; choose another with --directory") from None
    return f"a ledger can be kept in {directory}; a durable debit takes {seconds * 1000:.1f} ms"


def compiler() -> str:
    """Check that numba compiles."""
    import numba

    @numba.njit
    def triangle(count: int) -> int:
        total = 0
        for value in range(count):
            total += value
        return total

    if triangle(1_000) != 499_500:
        raise Unfit("numba compiles wrongly; reinstall numba and llvmlite")
    return f"numba {numba.__version__} compiles"


def algebra() -> str:
    """Report the linear algebra library and its threads."""
    import numpy as np
    from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

    ones = np.ones((64, 64))
    if not np.array_equal(ones @ ones, np.full((64, 64), 64.0)):
        raise Unfit("numpy multiplies wrongly; reinstall it")
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    found = ", ".join(f"{pool['internal_api']} {pool['version']}, {pool['num_threads']} threads" for pool in pools)
    busy = any(pool["num_threads"] > 1 for pool in pools)
    advice = "; on a busy machine one is faster: OPENBLAS_NUM_THREADS=1" if busy else ""
    return (found or "no BLAS that reports its threads") + advice


KNOWN_ANSWERS: dict[str, object] = {
    "stream": "ecc684dd75017246",
    "laplace": [0, -3, 12, -3, 7, 9, 11, 1],
    "gaussian": [0, -2, 2, -4, 4, 0, 5, 3],
}
"""Under the key 00 01 … 1f: eight bytes of the stream, eight draws of scale 5, eight of variance 25."""

CHECKS: dict[str, Callable[[], str]] = {
    "python": python,
    "packages": packages,
    "extras": extras,
    "entropy": entropy,
    "samplers": samplers,
    "clock": clock,
    "compiler": compiler,
    "algebra": algebra,
}
