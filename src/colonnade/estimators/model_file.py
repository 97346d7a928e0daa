"""Model files: fitted models as JSON with statement, plan hash and schema. Reading one runs no code from the file.

::

    {"format": "colonnade model", "version": 3, "library": "…", "estimator": "LinearRegression",
     "parameters": {…}, "learned": {…}, "schema": {…}, "plan": {…}, "plan_hash": "…", "statement": {…}, …, "digest": "…"}

Reading checks the digest of the whole, the hash of the plan, that the schema describes every column of the plan, and that
nothing is learned that the estimator does not declare. The digest finds damage and careless edits. Anybody who can write the
file can also compute it anew, so a model is to be trusted as far as its sender is.

Fitted values are stored as plain JSON: numbers, words, arrays, and a closed list of records. Floats survive exactly (the
shortest decimal that reads back as the same number). What is not JSON's own is an object with a ``kind``; a kind that is not
listed is refused, in either direction.
"""

import dataclasses
import hashlib
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from colonnade._version import __version__
from colonnade.errors import BadInput, PlanMismatch, SchemaMismatch
from colonnade.estimation.newton import Convergence
from colonnade.estimation.regression import Inference, LogisticFit
from colonnade.estimation.table_model import TableModel
from colonnade.estimators.methods import additive, clusters, counts, describing, moments
from colonnade.estimators.methods.method import METHODS, Method
from colonnade.plan import Plan
from colonnade.privacy.accounting import Loss, Price
from colonnade.protocol import messages
from colonnade.result import Opening, PrivacyStatement
from colonnade.schema import Column, ColumnName, Feature
from colonnade.transport.direct import Transcript

RECORDS: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (Convergence, Feature, Inference, LogisticFit, Opening, PrivacyStatement, TableModel, Transcript, Price)
}
"""The classes that a file may name. Each is rebuilt by its own constructor, which checks its fields."""

CORE_METHODS: Mapping[str, type[Method[Any]]] = {
    name: kind
    for module in (additive, clusters, counts, describing, moments)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, Method) and hasattr(kind, "name")
}
"""The methods of the core that a file may name, by class. It may name those of packages too."""

NUMBERS = frozenset({"float64", "float32", "int64", "int32", "uint64", "uint8", "bool"})
SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
Json = Any


def stored(value: object) -> Json:
    """Return a value as JSON. Refuse a value of a type that model files do not hold."""
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
    raise BadInput(
        f"A model file cannot hold a value of type {type(value).__name__}.",
        remedy="Set parameters to numbers, texts, lists or mappings of these, then save again.",
    )


def _fields(value: Any) -> dict[str, Json]:
    if isinstance(value, msgspec.Struct):
        return {name: stored(getattr(value, name)) for name in value.__struct_fields__}
    return {field.name: stored(getattr(value, field.name)) for field in dataclasses.fields(value) if field.init}


def _stored_array(array: np.ndarray[Any, Any]) -> Json:
    kind = str(array.dtype)
    if kind != "object" and kind not in NUMBERS:
        raise BadInput(
            f"A model file cannot hold an array of {kind}: only of numbers and of text.",
            remedy="Set parameters to numbers and texts, then save again.",
        )
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


def _stored_frame(frame: pd.DataFrame) -> Json:
    """Return a frame column by column; columns that are named alike are told apart by their places."""
    return {"kind": "frame", "columns": [_stored_series(frame.iloc[:, place]) for place in range(frame.shape[1])]}


_STORE: Mapping[Any, Callable[[Any], Json]] = {
    np.str_: str,
    np.bool_: bool,
    np.integer: int,
    np.ndarray: _stored_array,
    pd.Series: _stored_series,
    pd.DataFrame: _stored_frame,
    Column: lambda value: {"kind": "column", "value": msgspec.to_builtins(value)},
    Plan: lambda value: {"kind": "plan", "value": msgspec.to_builtins(value)},
    Loss: lambda value: {"kind": "loss", "value": value.to_bytes().hex()},
    Method: lambda value: {"kind": "method", "type": type(value).__name__, "options": stored(value.get_params())},
}


def restored(value: Json) -> Any:
    """Return the value that `stored` was given. Refuse anything else."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [restored(entry) for entry in value]
    rebuild = _REBUILD.get(str(value.get("kind"))) if isinstance(value, dict) else None
    if rebuild is None:
        raise BadInput(
            "The file holds a value of a kind that is not known here.",
            remedy="Use the version of colonnade that wrote the file, or save the model again.",
        )
    try:
        return rebuild(value)
    except (KeyError, TypeError, ValueError, AttributeError, msgspec.ValidationError):
        raise BadInput(
            "The file holds a value that is not well formed.",
            remedy="The file is damaged or was edited: save the model again.",
        ) from None


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


def _frame(value: Json) -> pd.DataFrame:
    columns = [_series(column) for column in value["columns"]]
    if any(not column.index.equals(columns[0].index) for column in columns):
        raise ValueError
    return pd.concat(columns, axis=1)


def _record(value: Json) -> Any:
    kind = RECORDS[value["type"]]
    return kind(**{name: restored(entry) for name, entry in value["fields"].items()})


def _method(value: Json) -> Method[Any]:
    name = value["type"]
    kind = CORE_METHODS.get(name) or {kind.__name__: kind for kind in METHODS.values()}[name]
    return kind(**restored(value["options"]))


_REBUILD: Mapping[str, Callable[[Json], Any]] = {
    "float": lambda value: SPECIAL[value["value"]],
    "tuple": lambda value: tuple(restored(entry) for entry in value["items"]),
    "mapping": lambda value: {restored(key): restored(entry) for key, entry in value["items"]},
    "array": _array,
    "series": _series,
    "frame": _frame,
    "column": lambda value: msgspec.convert(value["value"], Column),
    "plan": lambda value: msgspec.convert(value["value"], Plan),
    "loss": lambda value: Loss.from_bytes(bytes.fromhex(value["value"])),
    "record": _record,
    "method": _method,
}


FORMAT = "colonnade model"
VERSION = 3
"""The version of the format. 3 has estimates under a prior where noise hides a coefficient; before there were none."""
WRITE_ONE = "Write one with est.save(...)."
LARGEST_FILE = 1 << 30
STUDY_ATTRIBUTES = ("schema_", "plan_", "privacy_", "transcript_", "receipt_")
"""The attributes of every fitted estimator besides what it learned: how and on what it was fitted."""
FIELDS = frozenset(
    {"format", "version", "library", "estimator", "parameters", "learned", "plan_hash", "digest", *STUDY_ATTRIBUTES}
)


def write_model(path: str | Path, estimator: str, parameters: Mapping[str, Any], fitted: Mapping[str, Any]) -> None:
    """Write a model file. An existing file is replaced at once or not at all.

    Parameters
    ----------
    path
        The file to write.
    estimator, parameters
        The name of the class, and the parameters of its constructor.
    fitted
        The attributes that ``fit`` set.
    """
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "library": __version__,
        "estimator": estimator,
        "parameters": {name: stored(value) for name, value in parameters.items()},
        "learned": {name: stored(value) for name, value in fitted.items() if name not in STUDY_ATTRIBUTES},
        "plan_hash": messages.digest(fitted["plan_"]).hex(),
        **{name: stored(fitted[name]) for name in STUDY_ATTRIBUTES},
    }
    document["digest"] = _digest(document)
    _replace(Path(path), msgspec.json.format(msgspec.json.encode(document, order="deterministic"), indent=1))


def read_model(path: str | Path) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Read a model file and check it. Return the estimator's name, its parameters, and the attributes that ``fit`` set."""
    document = _document(Path(path))
    try:
        parameters = {name: restored(value) for name, value in document["parameters"].items()}
        learned = {name: restored(value) for name, value in document["learned"].items()}
    except AttributeError:
        raise BadInput(f"The file {Path(path).name} is not a well-formed model.", remedy=WRITE_ONE) from None
    attributes = {name: restored(document[name]) for name in STUDY_ATTRIBUTES}
    _check_study_attributes(attributes, document["plan_hash"])
    return str(document["estimator"]), parameters, {**learned, **attributes}


def _document(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise BadInput(
                f"The file {path.name} is larger than {LARGEST_FILE:,} bytes, the limit for a model.",
                remedy="Check that it is a file that est.save(...) wrote.",
            )
        document = msgspec.json.decode(path.read_bytes())
    except OSError:
        raise BadInput(
            f"The model file {path.name} cannot be read.", remedy="Check the path and its permissions."
        ) from None
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise BadInput(f"The file {path.name} is not a model of this library.", remedy=WRITE_ONE) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise BadInput(f"The file {path.name} is not a model of this library.", remedy=WRITE_ONE)
    if document.get("version") != VERSION:
        raise BadInput(
            "The model was written in another version of the format.",
            remedy="Use the version of colonnade that wrote it.",
        )
    if set(document) != FIELDS or document["digest"] != _digest(document):
        raise BadInput(
            "The model file was changed after it was written.",
            remedy="Ask for the file again, or save the model again.",
        )
    return document


def _check_study_attributes(attributes: Mapping[str, Any], plan_hash: object) -> None:
    plan, schema = attributes["plan_"], attributes["schema_"]
    if not isinstance(plan, Plan) or messages.digest(plan).hex() != plan_hash:
        raise PlanMismatch("The model's plan is not the one whose hash it carries.")
    described = isinstance(schema, dict) and all(isinstance(column, Column) for column in schema.values())
    entering = {str(ColumnName(step.party, column)) for step in plan.steps for column in step.columns}
    if not described or not entering >= set(schema) or not schema:
        raise SchemaMismatch(
            "The model's schema does not describe the columns of its plan.",
            remedy="The file is damaged or was edited: save the model again.",
        )
    statement = attributes["privacy_"]  # of an earlier stage too, which more parties may have answered
    if not isinstance(statement, PrivacyStatement) or not set(plan.parties) <= set(statement.parties):
        raise PlanMismatch("The model's statement belongs to another plan.")


def _digest(document: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in document.items() if name != "digest"}
    return hashlib.sha256(b"colonnade/model/1" + msgspec.json.encode(rest, order="deterministic")).hexdigest()


def _replace(path: Path, data: bytes) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(data + b"\n")
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise BadInput("The model file cannot be written.", remedy="Check the folder and its permissions.") from None
