"""A fitted model as a file: JSON, versioned, with what was asked, what it guarantees and what the columns mean inside.

::

    {"format": "colonnade model", "version": 1, "library": "…", "estimator": "LinearRegression",
     "parameters": {…}, "learned": {…}, "schema": {…}, "plan": {…}, "plan_hash": "…", "statement": {…}, …, "digest": "…"}

Reading checks the digest of the whole, the hash of the plan, that the schema describes every column of the plan, and that
nothing is learned that the estimator does not declare. The digest finds damage and careless edits; whoever can write the file
can also compute it anew, so a model is to be trusted as far as its sender is.
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from colonnade._version import __version__
from colonnade.coding.names import ColumnName
from colonnade.errors import BadInput, PlanMismatch, SchemaMismatch
from colonnade.estimators.stored_values import restored, stored
from colonnade.plan import Plan
from colonnade.protocol import codec
from colonnade.result import PrivacyStatement
from colonnade.schema import Category, Numeric

__all__ = ["PAPERS", "read_model", "write_model"]

FORMAT = "colonnade model"
VERSION = 1
LARGEST_FILE = 1 << 30
PAPERS = ("schema_", "plan_", "privacy_", "transcript_", "receipt_")
"""What every fitted estimator has besides what it learned."""
FIELDS = frozenset(
    {"format", "version", "library", "estimator", "parameters", "learned", "plan_hash", "digest", *PAPERS}
)


def write_model(path: str | Path, estimator: str, parameters: Mapping[str, Any], fitted: Mapping[str, Any]) -> None:
    """Write a model; an existing file is replaced at once or not at all.

    Parameters
    ----------
    path
        Where to.
    estimator, parameters
        The class by name, and how it was constructed.
    fitted
        What it learned, and its papers.
    """
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "library": __version__,
        "estimator": estimator,
        "parameters": {name: stored(value) for name, value in parameters.items()},
        "learned": {name: stored(value) for name, value in fitted.items() if name not in PAPERS},
        "plan_hash": codec.digest(fitted["plan_"]).hex(),
        **{name: stored(fitted[name]) for name in PAPERS},
    }
    document["digest"] = _digest(document)
    _replace(Path(path), msgspec.json.format(msgspec.json.encode(document, order="deterministic"), indent=1))


def read_model(path: str | Path) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Read a model and check it; return the estimator's name, its parameters, and what was learned with its papers."""
    document = _document(Path(path))
    try:
        parameters = {name: restored(value) for name, value in document["parameters"].items()}
        learned = {name: restored(value) for name, value in document["learned"].items()}
    except AttributeError:
        raise BadInput("The file is not a well-formed model.") from None
    papers = {name: restored(document[name]) for name in PAPERS}
    _check_papers(papers, document["plan_hash"])
    return str(document["estimator"]), parameters, {**learned, **papers}


def _document(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise BadInput("The file is too large for a model.")
        document = msgspec.json.decode(path.read_bytes())
    except OSError:
        raise BadInput("The model file cannot be read.", remedy="Check the path and its permissions.") from None
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise BadInput("The file is not a model of this library.", remedy="Save it anew with est.save(...).") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise BadInput("The file is not a model of this library.", remedy="Save it anew with est.save(...).")
    if document.get("version") != VERSION:
        raise BadInput("The model was written in another version of the format.", remedy="Use a version that reads it.")
    if set(document) != FIELDS or document["digest"] != _digest(document):
        raise BadInput("The model file was changed after it was written.", remedy="Ask for the file again.")
    return document


def _check_papers(papers: Mapping[str, Any], plan_hash: object) -> None:
    plan, schema = papers["plan_"], papers["schema_"]
    if not isinstance(plan, Plan) or codec.digest(plan).hex() != plan_hash:
        raise PlanMismatch("The model's plan is not the one whose hash it carries.")
    described = isinstance(schema, dict) and all(isinstance(column, Numeric | Category) for column in schema.values())
    asked = {str(ColumnName(step.party, column)) for step in plan.steps for column in step.columns}
    if not described or not asked >= set(schema) or not schema:
        raise SchemaMismatch("The model's schema does not describe the columns of its plan.")
    if not isinstance(papers["privacy_"], PrivacyStatement) or papers["privacy_"].parties != plan.parties:
        raise PlanMismatch("The model's statement belongs to another plan.")


def _digest(document: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in document.items() if name != "digest"}
    return hashlib.sha256(b"colonnade/model/1" + msgspec.json.encode(rest, order="deterministic")).hexdigest()


def _replace(path: Path, data: bytes) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(data + b"\n")
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise BadInput("The model file cannot be written.", remedy="Check the folder and its permissions.") from None
