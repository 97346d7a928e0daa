"""`colonnade doctor`: sound machines pass, and each fault that it looks for is found."""

import builtins
import os
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade.cli import doctor
from colonnade.errors import LedgerCorrupt
from colonnade.party.ledger import SqliteLedger
from colonnade.privacy import samplers
from tests.cli.studies import call


def test_this_machine_is_fit(tmp_path: Path) -> None:
    result = call("doctor", "--directory", tmp_path)
    assert result.exit_code == 0, result.output
    assert "WRONG" not in result.output
    assert list(tmp_path.iterdir()) == []


def test_every_check_is_reported_once(tmp_path: Path) -> None:
    lines = call("doctor", "--directory", tmp_path).output.splitlines()
    assert [line.split()[1] for line in lines] == [*doctor.CHECKS, "disk"]


def test_what_is_needed_is_what_the_package_requires() -> None:
    required = {text.partition(">")[0] for text in metadata.requires("colonnade") or [] if "extra ==" not in text}
    assert set(doctor.NEEDED) == required


def repeating(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(os, "urandom", lambda count: bytes(count))


def stopped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(time, "monotonic", lambda: 1.0)


def long_ago(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(time, "time", lambda: 86_400.0)


def other_draws(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(doctor.KNOWN_ANSWERS, "gaussian", [0] * 8)


def half_noise(patch: pytest.MonkeyPatch) -> None:
    exact = samplers.discrete_gaussian
    patch.setattr(
        samplers,
        "discrete_gaussian",
        lambda variance, size, source: exact(variance, size, source) // (2 if size == 20_000 else 1),
    )


def no_fsync(patch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise LedgerCorrupt("The ledger cannot be written durably; nothing was released.")

    patch.setattr(SqliteLedger, "debit", fails)


def no_room(patch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    patch.setattr(doctor.tempfile, "TemporaryDirectory", fails)


def wrong_products(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(np, "array_equal", lambda *_: False)


def no_numba(patch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *rest: Any, **more: Any) -> Any:
        if name == "numba":
            raise ImportError(name)
        return real(name, *rest, **more)

    patch.setattr(builtins, "__import__", absent)


def missing_package(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(doctor, "NEEDED", ("a-package-that-nobody-wrote",))


def old_python(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(doctor, "OLDEST_PYTHON", (99, 0))


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        (repeating, "entropy"),
        (stopped, "clock"),
        (long_ago, "clock"),
        (other_draws, "samplers"),
        (half_noise, "samplers"),
        (no_fsync, "disk"),
        (no_room, "disk"),
        (wrong_products, "algebra"),
        (no_numba, "compiler"),
        (missing_package, "packages"),
        (old_python, "python"),
    ],
)
def test_a_fault_is_found(fault: Callable[[pytest.MonkeyPatch], None], check: str, tmp_path: Path) -> None:
    examine = dict(doctor.checks(tmp_path))[check]
    assert doctor._examined(check, examine)[1]
    with pytest.MonkeyPatch.context() as patch:
        fault(patch)
        name, sound, words = doctor._examined(check, examine)
    assert (name, sound) == (check, False)
    assert words


def test_a_fault_makes_the_exit_status_1(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "OLDEST_PYTHON", (99, 0))
    result = call("doctor", "--directory", tmp_path)
    assert result.exit_code == 1
    assert "WRONG python" in result.output


def test_what_is_optional_never_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "OPTIONAL", {"a-package-that-nobody-wrote": "fast"})
    assert "pip install 'colonnade[fast]'" in doctor.extras()
