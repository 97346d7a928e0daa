"""Values as they stand in `golden.json`, and how two of them are compared.

Whole numbers, words and flags are compared by their bits (a hash of type, shape and bytes). Floating-point numbers are compared
to ten significant digits of the largest of them, because the last bits of a matrix product are the linear algebra library's own.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

SHOWN = 5
KEPT = 60
TOLERANCE = 1e-9


def summary(value: Any) -> dict[str, Any]:
    """Return what is kept of one value."""
    array = np.asarray(value)
    if array.dtype.kind == "f":
        return _floats(array)
    if array.dtype.kind in "OUT":
        texts = [str(one) for one in array.ravel().tolist()]
        return {"dtype": "text", **_exact(array, "\0".join(texts).encode(), "text"), "first": texts[:SHOWN]}
    little = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
    name = little.dtype.str
    return {"dtype": name, **_exact(array, little.tobytes(), name), "first": array.ravel()[:SHOWN].tolist()}


def _exact(array: np.ndarray, data: bytes, kind: str) -> dict[str, Any]:
    return {
        "shape": list(array.shape),
        "sha256": hashlib.sha256(f"{kind} {list(array.shape)} ".encode() + data).hexdigest(),
    }


def _floats(array: np.ndarray) -> dict[str, Any]:
    flat = np.ascontiguousarray(array, dtype="<f8").ravel()
    kept = [_digits(one) for one in flat[:KEPT]]
    more = {}
    if flat.size > KEPT:  # figures in which every number has a weight of its own
        weights = 1 + np.arange(flat.size) % 97 / 97
        more = {"weighted": [_digits(np.nansum(weights * flat)), _digits(np.nansum(weights * flat**2))]}
    return {"dtype": "<f8", **_exact(array, flat.tobytes(), "<f8"), "numbers": kept, **more}


def _digits(number: float) -> str:
    return f"{number:.10g}"


class Sequences:
    """Values by name, many under one name: a hash of them all where they are exact, the first and the last where not."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, Any]] = {}

    def add(self, name: str, value: np.ndarray) -> None:
        """Add one."""
        one = summary(value)
        kept = self._found.get(name)
        if kept is None:
            self._found[name] = {"times": 1, **one}
            return
        kept["times"] += 1
        kept["last"] = {key: entry for key, entry in one.items() if key != "sha256"}
        both = (kept["sha256"] + one["sha256"]).encode()
        kept["sha256"] = hashlib.sha256(both).hexdigest()

    def all(self) -> dict[str, dict[str, Any]]:
        """Return everything by name."""
        return dict(sorted(self._found.items()))


def learned(name: str, value: Any) -> dict[str, dict[str, Any]]:
    """Return a result and its parts by name: tables with their labels, mappings and lists entry by entry."""
    if isinstance(value, pd.DataFrame):
        parts = {str(column): value[column].to_numpy() for column in value.columns} | {"index": _labels(value.index)}
    elif isinstance(value, pd.Series):
        parts = {"values": value.to_numpy(), "index": _labels(value.index)}
    elif isinstance(value, Mapping):
        parts = dict(value)
    else:
        return {name: summary(value)}
    return {full: one for key, part in parts.items() for full, one in learned(f"{name}/{key}", part).items()}


def _labels(index: pd.Index) -> np.ndarray:
    return np.array([str(one) for one in index], dtype=object)


def differences(golden: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """Return a line for each name under which something else was found, or nothing, or something new."""
    lines = [f"{name}: missing now" for name in golden if name not in found]
    lines += [f"{name}: not in golden.json" for name in found if name not in golden]
    for name in golden:
        if name in found and not same(golden[name], found[name]):
            lines.append(f"{name}: was {_shown(golden[name])}, is {_shown(found[name])}")
    return lines


def same(golden: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Return whether two summaries are of the same value."""
    if any(golden.get(key) != found.get(key) for key in ("times", "dtype", "shape")):
        return False
    if golden.get("sha256") == found.get("sha256") and golden.get("sha256") is not None:
        return True
    if golden["dtype"] != "<f8":
        return False
    close = all(_close(golden.get(key, []), found.get(key, [])) for key in ("numbers", "weighted"))
    return close and (("last" not in golden) or same(golden["last"], found["last"]))


def _close(golden: list[str], found: list[str]) -> bool:
    one, other = (np.array([float(number) for number in numbers]) for numbers in (golden, found))
    if one.shape != other.shape:
        return False
    size = float(np.nanmax(np.abs(one[np.isfinite(one)]), initial=0.0))
    return bool(np.allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE * size, equal_nan=True))


def _shown(one: Mapping[str, Any]) -> str:
    numbers = one.get("numbers", one.get("first", []))[:SHOWN]
    times = f" × {one['times']}" if one.get("times", 1) > 1 else ""
    return f"{one['dtype']}{one['shape']}{times} {numbers} ({one.get('sha256', '')[:8]})"
