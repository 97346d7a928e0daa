"""Fitted values as plain JSON and back: numbers, words, arrays, and a closed list of records. Nothing is executed.

Floats survive exactly (the shortest decimal that reads back as the same number). What is not JSON's own is an object with a
``kind``; a kind that is not listed here is refused, in either direction.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from colonnade.coding.features import Feature
from colonnade.errors import BadInput
from colonnade.estimation.logistic_from_moments import LogisticFit
from colonnade.estimators.methods import clusters, coresets, counts, functional, gradient, moments, powers
from colonnade.estimators.methods.method import Method
from colonnade.plan import Plan
from colonnade.privacy.loss import Loss
from colonnade.privacy.price import Price
from colonnade.result import Opening, PrivacyStatement
from colonnade.schema import Category, Column, Numeric
from colonnade.transport.transcript import Transcript

__all__ = ["restored", "stored"]

RECORDS: Mapping[str, type] = {
    kind.__name__: kind for kind in (Feature, LogisticFit, Opening, PrivacyStatement, Transcript, Price)
}
"""The classes that a file may name; each is rebuilt by its own constructor, which checks its fields."""

METHODS: Mapping[str, type[Method[Any]]] = {
    name: kind
    for module in (clusters, coresets, counts, functional, gradient, moments, powers)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, Method) and hasattr(kind, "name")
}
"""The methods that a file may name, by class."""

NUMBERS = frozenset({"float64", "float32", "int64", "int32", "uint64", "uint8", "bool"})
SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
Json = Any


def stored(value: object) -> Json:
    """Return a value as JSON; refuse one that has no place in a model file."""
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, float | np.floating):
        number = float(value)
        return number if math.isfinite(number) else {"kind": "float", "value": str(number)}
    if isinstance(value, list):
        return [stored(entry) for entry in value]
    if isinstance(value, tuple):
        return {"kind": "tuple", "items": [stored(entry) for entry in value]}
    if isinstance(value, Mapping):
        return {"kind": "mapping", "items": [[stored(key), stored(entry)] for key, entry in value.items()]}
    return _stored_object(value)


def _stored_object(value: object) -> Json:
    for kind, store in _STORE.items():
        if isinstance(value, kind):
            return store(value)
    if RECORDS.get(type(value).__name__) is type(value):
        return {"kind": "record", "type": type(value).__name__, "fields": _fields(value)}
    raise BadInput(f"A model file cannot hold a value of type {type(value).__name__}.")


def _fields(value: Any) -> dict[str, Json]:
    if isinstance(value, msgspec.Struct):
        return {name: stored(getattr(value, name)) for name in value.__struct_fields__}
    return {field.name: stored(getattr(value, field.name)) for field in dataclasses.fields(value) if field.init}


def _stored_array(array: np.ndarray[Any, Any]) -> Json:
    kind = str(array.dtype)
    if kind != "object" and kind not in NUMBERS:
        raise BadInput("A model file holds arrays of plain numbers and of words.")
    values = [stored(entry) for entry in array.ravel().tolist()]
    return {"kind": "array", "dtype": kind, "shape": list(array.shape), "values": values}


def _stored_series(series: pd.Series) -> Json:
    index = series.index
    levels = [list(index.get_level_values(place)) for place in range(index.nlevels)]
    return {
        "kind": "series",
        "name": stored(series.name),
        "names": [stored(name) for name in index.names],
        "index": [[stored(label) for label in level] for level in levels],
        "values": _stored_array(series.to_numpy()),
    }


_STORE: Mapping[Any, Callable[[Any], Json]] = {
    np.bool_: bool,
    np.integer: int,
    np.ndarray: _stored_array,
    pd.Series: _stored_series,
    Numeric | Category: lambda value: {"kind": "column", "value": msgspec.to_builtins(value)},
    Plan: lambda value: {"kind": "plan", "value": msgspec.to_builtins(value)},
    Loss: lambda value: {"kind": "loss", "value": value.to_bytes().hex()},
    Method: lambda value: {"kind": "method", "type": type(value).__name__, "options": stored(value.get_params())},
}


def restored(value: Json) -> Any:
    """Return what `stored` was given; refuse anything else."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [restored(entry) for entry in value]
    rebuild = _REBUILD.get(str(value.get("kind"))) if isinstance(value, dict) else None
    if rebuild is None:
        raise BadInput("The file holds a value of a kind that is not known here.")
    try:
        return rebuild(value)
    except (KeyError, TypeError, ValueError, AttributeError, msgspec.ValidationError):
        raise BadInput("The file holds a value that is not well formed.") from None


def _array(value: Json) -> np.ndarray[Any, Any]:
    kind, shape = value["dtype"], tuple(value["shape"])
    if kind != "object" and kind not in NUMBERS:
        raise ValueError
    entries = [restored(entry) for entry in value["values"]]
    if len(entries) != math.prod(shape):
        raise ValueError
    if kind != "object" and any(isinstance(entry, str) for entry in entries):  # numpy would read numbers out of words
        raise ValueError
    array = np.empty(len(entries), dtype=kind)
    array[:] = entries
    return array.reshape(shape)


def _series(value: Json) -> pd.Series:
    levels = [restored(level) for level in value["index"]]
    names = [restored(name) for name in value["names"]]
    index = pd.MultiIndex.from_arrays(levels, names=names) if len(levels) > 1 else pd.Index(levels[0], name=names[0])
    return pd.Series(_array(value["values"]), index=index, name=restored(value["name"]))


def _record(value: Json) -> Any:
    kind = RECORDS[value["type"]]
    return kind(**{name: restored(entry) for name, entry in value["fields"].items()})


_REBUILD: Mapping[str, Callable[[Json], Any]] = {
    "float": lambda value: SPECIAL[value["value"]],
    "tuple": lambda value: tuple(restored(entry) for entry in value["items"]),
    "mapping": lambda value: {restored(key): restored(entry) for key, entry in value["items"]},
    "array": _array,
    "series": _series,
    "column": lambda value: msgspec.convert(value["value"], Column),
    "plan": lambda value: msgspec.convert(value["value"], Plan),
    "loss": lambda value: Loss.from_bytes(bytes.fromhex(value["value"])),
    "record": _record,
    "method": lambda value: METHODS[value["type"]](**restored(value["options"])),
}
