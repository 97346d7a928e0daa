"""The reference of study files, written from the lists of their keys: a page to read, and a JSON schema for editors.

The documentation is built with `reference_page`; ``colonnade schema`` prints `json_schema`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from colonnade.estimators.study import Study
from colonnade.service import study_keys
from colonnade.service.study_keys import Key

__all__ = ["json_schema", "reference_page"]

DIALECT = "https://json-schema.org/draft/2020-12/schema"


# The JSON schema -------------------------------------------------------------------------------------------------------------


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of both kinds of study file: with all parties on one machine, and of a coordinator."""
    whole = _table(
        study_keys.FILE,
        budget=_table(study_keys.BUDGET),
        parties={"type": "object", "minProperties": 1, "additionalProperties": _member()},
        **_asked(),
    )
    return {
        "$schema": DIALECT,
        "title": "A study file of Colonnade",
        "anyOf": [whole, _table(study_keys.COORDINATOR_FILE, **_asked())],
    }


def _asked() -> dict[str, Any]:
    studies = [_study(name, kind) for name, kind in study_keys.estimators().items()]
    return {
        "align": _table(study_keys.ALIGN),
        "split": _table(study_keys.SPLIT),
        "tighten": _table(study_keys.TIGHTEN),
        "study": {"type": "array", "minItems": 1, "items": {"anyOf": studies}},
    }


def _member() -> dict[str, Any]:
    columns = [_table(keys) for keys in study_keys.COLUMNS.values()]
    return _table(
        study_keys.MEMBER,
        columns={"type": "object", "minProperties": 1, "additionalProperties": {"anyOf": columns}},
        policy=_table(study_keys.POLICY),
    )


def _study(name: str, kind: type[Study]) -> dict[str, Any]:
    return _table((*study_keys.STUDY, *study_keys.study_keys(kind)), estimator={"const": name})


def _table(keys: Iterable[Key], **refined: Any) -> dict[str, Any]:
    """Return the schema of a table that has these keys and no others."""
    keys = tuple(keys)
    return {
        "type": "object",
        "properties": {
            key.name: {**refined.get(key.name, key.schema), "description": _plain(key.words)} for key in keys
        },
        "required": [key.name for key in keys if key.required],
        "additionalProperties": False,
    }


def _plain(words: str) -> str:
    return words.replace("`", "").replace("**", "")


# The page --------------------------------------------------------------------------------------------------------------------

INTRODUCTION = """# Study files

A study file says who takes part, with which data and public bounds, under which cap, and what is asked. It is
[TOML](https://toml.io). `colonnade preview study.toml` shows what it would cost, and `colonnade run study.toml` runs it. Paths
are relative to the file. A key that is not on this page is refused: a misspelt `delta` that is silently ignored would change a
guarantee.

This page is written from the code, and so is the JSON schema with which editors check and complete study files:
`colonnade schema > study.schema.json`, and `#:schema study.schema.json` in the first line of the file.

`colonnade preview` and `colonnade run` look at the whole file first. They add up what its studies would spend at each party, and
what would remain. `run` refuses before anything is spent if the studies do not fit together."""

COORDINATOR = """A federation of separate machines has its parties, data, policies and budgets on those machines, and its compute
nodes and `collusion` in its signed papers. Its study file names the papers instead (`colonnade coordinator run`)."""


def reference_page() -> str:
    """Return the page that lists every key, in Markdown."""
    parts = [
        INTRODUCTION,
        "## The file",
        _listed(study_keys.FILE),
        "## `[budget]`",
        _listed(study_keys.BUDGET),
        "## `[parties.NAME]`",
        _listed(study_keys.MEMBER),
        "## `[parties.NAME.columns]`",
        "One entry per column: `age = { lower = 18, upper = 95 }`. Bounds and levels are public. Never take them from the data.",
        *(part for kind, keys in study_keys.COLUMNS.items() for part in (f"### A {kind}", _listed(keys))),
        "## `[parties.NAME.policy]`",
        "See [write a policy](../how-to/write-a-policy.md).",
        _listed(study_keys.POLICY),
        "## `[align]`",
        "What `Federation.align` takes. See [align](../how-to/align.md).",
        _listed(study_keys.ALIGN),
        "## `[split]`",
        "What `Federation.split` takes. Studies are fitted on the people who are not held out.",
        _listed(study_keys.SPLIT),
        "## `[tighten]`",
        "What `Federation.tightened` takes. See [describe and tighten](../how-to/describe-and-tighten.md).",
        _listed(study_keys.TIGHTEN),
        "## `[[study]]`",
        "Every study has these keys, and those of its estimator.",
        _listed(study_keys.STUDY),
        *(part for name, kind in study_keys.estimators().items() for part in _estimator(name, kind)),
        "## The file of a coordinator",
        COORDINATOR,
        _listed(study_keys.COORDINATOR_FILE),
    ]
    return "\n\n".join(parts) + "\n"


def _estimator(name: str, kind: type[Study]) -> list[str]:
    options = {method: keys for method, keys in study_keys.method_keys(kind).items() if keys}
    shown = [f"### `{name}`", _listed(study_keys.study_keys(kind))]
    for method, keys in options.items():
        shown += [f'Options of `method = {{ name = "{method}", … }}`:', _listed(keys)]
    return shown


def _listed(keys: Iterable[Key]) -> str:
    rows = [("key", "", "what it is for", "what it may be"), ("---",) * 4]
    rows += [
        (
            f"`{key.name}`",
            "required" if key.required else "",
            key.words,
            "" if key.name == "method" else _words(key.schema),
        )
        for key in keys
    ]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows)


def _cell(words: str) -> str:
    """Return words for a cell of a table, where a vertical bar would end it."""
    return words.replace("``", "`").replace("|", "\\|")


_KINDS = {
    "boolean": "`true` or `false`",
    "integer": "a whole number",
    "number": "a number",
    "string": "a text",
    "object": "a table",
    "array": "a list",
}


def _words(schema: Mapping[str, Any]) -> str:
    """Return what a part of the schema allows, in words."""
    if "anyOf" in schema:
        return ", or ".join(_words(part) for part in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f'`"{option}"`' for option in schema["enum"])
    words = _KINDS.get(schema.get("type", ""), "")
    bounds = [
        f"{said} {schema[key]:,g}"
        for key, said in (
            ("minimum", "from"),
            ("exclusiveMinimum", "above"),
            ("maximum", "to"),
            ("exclusiveMaximum", "below"),
        )
        if key in schema
    ]
    return " ".join([words, *bounds])
