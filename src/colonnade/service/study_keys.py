"""Every key of a study file: its name, what it is for, and what it may be.

The reader (`colonnade.service.study_file`) refuses any key that is not listed here. The reference page (`reference_page`) and the
JSON schema for editors (`json_schema`, printed by ``colonnade schema``) are written from the same lists. Keys that hand their
value to a function or a class of the library (``[align]``, ``[split]``, ``[tighten]``, columns, policies, estimators and their
methods) are read from its signature and docstring.
"""

import inspect
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import colonnade as cn
from colonnade.constraints import (
    Boolean,
    ColumnList,
    Constraint,
    Either,
    Numbers,
    OneColumn,
    OneOf,
    Optional,
    PerParty,
    Real,
    RisingNumbers,
    SomeOf,
    Whole,
)
from colonnade.estimators.methods.method import methods_of
from colonnade.estimators.study import Study
from colonnade.schema import DECLARED

Fragment = dict[str, Any]
"""A part of a JSON schema."""

TEXT: Fragment = {"type": "string", "minLength": 1}
WHOLE_FROM_ONE: Fragment = {"type": "integer", "minimum": 1}
TABLE: Fragment = {"type": "object"}


@dataclass(frozen=True)
class Key:
    """One key of a table.

    Parameters
    ----------
    name
        As it is written in the file.
    words
        What it is for.
    schema
        What it may be, as a part of a JSON schema.
    required
        Whether the table needs it.
    """

    name: str
    words: str
    schema: Fragment = field(default_factory=dict)
    required: bool = False


def names(keys: Iterable[Key]) -> tuple[str, ...]:
    """Return the names of some keys."""
    return tuple(key.name for key in keys)


# Keys that are written down here ---------------------------------------------------------------------------------------------

_TITLE = Key("title", "What the file is about, in one line; the title of its report.", TEXT)
_PURPOSE = Key(
    "purpose", "What the studies are for, in one line. Every party's ledger keeps it. A study may have its own.", TEXT
)
_ANALYST = Key("analyst", "The file of the analyst's key, who signs titles and purposes. The ledgers name them.", TEXT)
_STUDIES = Key("study", "The studies, in order: one `[[study]]` table each.", {"type": "array"}, required=True)
_ALIGN = Key("align", "How rows are matched; without it the common ids are taken in the clear.", TABLE)
_SPLIT = Key(
    "split", "Hold people out: studies are fitted on the others, `colonnade evaluate` measures on these.", TABLE
)

_TIGHTEN = Key(
    "tighten", "Narrow the bounds of numbers and dates privately, before the studies. They are paid for once.", TABLE
)

FILE = (
    Key(
        "id",
        'The column that all tables share: `id = "person_id"`; or one name per party: `id = { bank = "person_id", telco = '
        '"msisdn" }`.',
        {"anyOf": [TEXT, {"type": "object", "additionalProperties": TEXT, "minProperties": 1}]},
        required=True,
    ),
    Key("ledger_dir", "The folder of the ledgers. What is spent is kept there for good.", TEXT, required=True),
    Key("budget", "Each party's cap, enforced by its own ledger.", TABLE, required=True),
    Key(
        "parties",
        "One table `[parties.NAME]` for each party. A name is a word: letters, digits, `_`.",
        TABLE,
        required=True,
    ),
    _STUDIES,
    _ALIGN,
    _SPLIT,
    _TIGHTEN,
    Key("compute_nodes", "Members without data that help to compute on shares.", {"type": "array", "items": TEXT}),
    Key(
        "committee",
        "The only members that compute on shares, an odd number of them; everybody by default.",
        {"type": "array", "items": TEXT},
    ),
    Key(
        "collusion",
        "How many parties may pool what they see with the coordinator without weakening the promise; 1 by default.",
        {"type": "integer", "minimum": 0},
    ),
    _TITLE,
    _PURPOSE,
    _ANALYST,
)

COORDINATOR_FILE = (
    Key("federation", "The signed papers, `federation.toml`.", TEXT, required=True),
    Key(
        "kit",
        "The coordinator's own folder, from `colonnade coordinator init`; by default `coordinator` beside the folder of the "
        "papers, or `kit` beside the papers.",
        TEXT,
    ),
    Key("state", "Where studies under way are kept; by default `coordinator-state` beside the papers.", TEXT),
    Key("listen", "The address to listen on, where it is not the host name in the papers.", TEXT),
    _STUDIES,
    _ALIGN,
    _SPLIT,
    _TIGHTEN,
    _TITLE,
    _PURPOSE,
    _ANALYST,
)

BUDGET = (
    Key(
        "epsilon", "The most that the ledger may ever spend.", {"type": "number", "exclusiveMinimum": 0}, required=True
    ),
    Key("delta", "Its δ; 0 by default.", {"type": "number", "minimum": 0, "exclusiveMaximum": 1}),
)

MEMBER = (
    Key(
        "data",
        "A `.csv` or `.parquet` file, or a list of files whose rows follow one another.",
        {"anyOf": [TEXT, {"type": "array", "items": TEXT, "minItems": 1}]},
        required=True,
    ),
    Key("columns", "What is public about each column that may be read.", TABLE, required=True),
    Key("policy", "This party's own rules.", TABLE),
    Key("version", "The declared version of the data; 1 by default, a higher number for other data.", WHOLE_FROM_ONE),
    Key("separator", "What stands between the columns of its CSV files; a comma by default.", TEXT),
    Key("encoding", "How the letters of its CSV files are stored; UTF-8 by default.", TEXT),
    Key(
        "memory",
        'How much memory it may use, such as `"2GB"`, for a table that is larger (extra `large`); any amount by default.',
        {"anyOf": [TEXT, WHOLE_FROM_ONE]},
    ),
)

STUDY = (
    Key("estimator", "The name of the estimator.", TEXT, required=True),
    Key("title", "What is asked, in one line.", TEXT),
    Key("purpose", "What it is for, in one line; by default the file's.", TEXT),
    Key("repeat", "Which draw: a higher number is a new draw at a new price.", WHOLE_FROM_ONE),
    Key(
        "table",
        "For a `SyntheticTable`: the `.parquet` or `.csv` file that its rows are written to. Beside it stands a `.json` file "
        "with statement, schema and receipt.",
        TEXT,
    ),
    Key("rows", "How many rows `table` gets; by default as many as there are people.", WHOLE_FROM_ONE),
)


# Keys that the library's own signatures have ---------------------------------------------------------------------------------


def described(taker: Callable[..., Any], constraints: Mapping[str, Constraint] | None = None) -> tuple[Key, ...]:
    """Return one key per parameter of a function or class, with the words of its docstring."""
    words, hints = _parameters_in_words(inspect.getdoc(taker) or ""), _hints(taker)
    return tuple(
        Key(
            one.name,
            words.get(one.name, ""),
            _allowed((constraints or {}).get(one.name), hints.get(one.name, Any)),
            required=one.default is one.empty,
        )
        for one in inspect.signature(taker).parameters.values()
        if one.name not in ("self", "progress")
    )


def _hints(taker: Callable[..., Any]) -> dict[str, Any]:
    own = vars(taker).get("__init__") if isinstance(taker, type) else None
    return get_type_hints(own or taker)


def _parameters_in_words(docstring: str) -> dict[str, str]:
    """Return what a numpy docstring says about each parameter."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[^\n]*\n-{3,}\n|\Z)", docstring, re.DOTALL | re.MULTILINE)
    found: dict[str, list[str]] = {}
    named: list[str] = []
    for line in [] if section is None else section[1].splitlines():
        if line and not line.startswith(" "):
            named = [name.strip() for name in line.partition(" : ")[0].split(",")]
        elif line.strip():
            for name in named:
                found.setdefault(name, []).append(line.strip())
    return {name: " ".join(lines) for name, lines in found.items()}


def _allowed(constraint: Constraint | None, hint: Any) -> Fragment:
    return _of_hint(hint) if constraint is None else _of_constraint(constraint)


def _of_constraint(constraint: Constraint) -> Fragment:  # noqa: PLR0911  # one for each kind of constraint
    match constraint:
        case Optional(given):
            return _of_constraint(given)  # None is written by leaving the key out
        case Either(first, second):
            return {"anyOf": [_of_constraint(first), _of_constraint(second)]}
        case Whole(low, high):
            return {"type": "integer", "minimum": low, **({} if high is None else {"maximum": high})}
        case Real(low, high, closed):
            below = "minimum" if closed in ("both", "left") else "exclusiveMinimum"
            above = "maximum" if closed in ("both", "right") else "exclusiveMaximum"
            return {"type": "number", below: low, **({} if high is None else {above: high})}
        case OneOf(options):
            return {"enum": [option for option in options if option is not None]}
        case SomeOf(options):
            return {"type": "array", "items": {"enum": list(options)}, "minItems": 1, "uniqueItems": True}
        case Boolean():
            return {"type": "boolean"}
        case OneColumn():
            return {"type": "string"}
        case ColumnList():
            return {"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": True}
        case RisingNumbers(each):
            return {"type": "array", "items": _of_constraint(each), "minItems": 1, "uniqueItems": True}
        case Numbers(fewest):
            return {"type": "array", "items": {"type": "number"}, "minItems": fewest}
        case PerParty(each):
            return {"type": "object", "additionalProperties": _of_constraint(each), "minProperties": 1}
    return {}  # a kind of constraint that a JSON schema cannot say; the library checks it


_PLAIN: dict[Any, Fragment] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
}


def _of_hint(hint: Any) -> Fragment:
    """Return what TOML may hold for a type; anything, for a type that is not one of these."""
    if isinstance(hint, TypeVar) or hint is Any:
        return {}
    origin, parts = get_origin(hint), [part for part in get_args(hint) if part is not type(None)]
    if hint in _PLAIN:
        return dict(_PLAIN[hint])
    if origin is Literal:
        return {"enum": parts}
    if origin in (Union, types.UnionType):
        found = [_of_hint(part) for part in parts if not (part is int and float in parts)]
        return {} if {} in found else found[0] if len(found) == 1 else {"anyOf": found}
    if origin in (Sequence, list, tuple):
        return {"type": "array", "items": _of_hint(parts[0])}
    return {"type": "object"} if origin in (Mapping, dict) else {}


SPLIT = described(cn.Federation.split)
ALIGN = described(cn.Federation.align)
TIGHTEN = described(cn.Federation.tightened)
POLICY = described(cn.Policy)
COLUMNS: Mapping[str, tuple[Key, ...]] = {
    name: tuple(replace(key, required=key.name in kind.needed) for key in described(kind))
    for name, kind in DECLARED.items()
}
"""The keys of a column, by what it holds."""


def estimators() -> dict[str, type[Study]]:
    """Return every public estimator by name."""
    public = {name: getattr(cn, name) for name in cn.__all__}
    return {name: kind for name, kind in public.items() if isinstance(kind, type) and issubclass(kind, Study)}


def study_keys(kind: type[Study]) -> tuple[Key, ...]:
    """Return the keys of a ``[[study]]`` of one estimator, besides those that every study has."""
    return tuple(
        Key(key.name, key.words, _methods(kind), key.required) if key.name == "method" else key
        for key in described(kind, kind.constraints)
    )


def method_keys(kind: type[Study]) -> dict[str, tuple[Key, ...]]:
    """Return the options of each method that an estimator offers: ``method = { name = "gradient", steps = 500 }``."""
    return {method.name: described(method, method.constraints) for method in methods_of(kind)}


def _methods(kind: type[Study]) -> Fragment:
    by_name: Fragment = {"enum": list(kind.methods)}
    with_options = [
        {
            "type": "object",
            "properties": {"name": {"const": name}, **{key.name: key.schema for key in keys}},
            "required": ["name"],
            "additionalProperties": False,
        }
        for name, keys in method_keys(kind).items()
    ]
    return {"anyOf": [by_name, *with_options]}


DIALECT = "https://json-schema.org/draft/2020-12/schema"


# The JSON schema -------------------------------------------------------------------------------------------------------------


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of both kinds of study file: with all parties on one machine, and of a coordinator."""
    whole = _table(
        FILE,
        budget=_table(BUDGET),
        parties={"type": "object", "minProperties": 1, "additionalProperties": _member()},
        **_asked(),
    )
    return {
        "$schema": DIALECT,
        "title": "A study file of Colonnade",
        "anyOf": [whole, _table(COORDINATOR_FILE, **_asked())],
    }


def _asked() -> dict[str, Any]:
    studies = [_study(name, kind) for name, kind in estimators().items()]
    return {
        "align": _table(ALIGN),
        "split": _table(SPLIT),
        "tighten": _table(TIGHTEN),
        "study": {"type": "array", "minItems": 1, "items": {"anyOf": studies}},
    }


def _member() -> dict[str, Any]:
    columns = [_table(keys) for keys in COLUMNS.values()]
    return _table(
        MEMBER,
        columns={"type": "object", "minProperties": 1, "additionalProperties": {"anyOf": columns}},
        policy=_table(POLICY),
    )


def _study(name: str, kind: type[Study]) -> dict[str, Any]:
    return _table((*STUDY, *study_keys(kind)), estimator={"const": name})


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
        _listed(FILE),
        "## `[budget]`",
        _listed(BUDGET),
        "## `[parties.NAME]`",
        _listed(MEMBER),
        "## `[parties.NAME.columns]`",
        "One entry per column: `age = { lower = 18, upper = 95 }`. Bounds and levels are public. Never take them from the data.",
        *(part for kind, keys in COLUMNS.items() for part in (f"### A {kind}", _listed(keys))),
        "## `[parties.NAME.policy]`",
        "See [write a policy](../how-to/write-a-policy.md).",
        _listed(POLICY),
        "## `[align]`",
        "What `Federation.align` takes. See [align](../how-to/align.md).",
        _listed(ALIGN),
        "## `[split]`",
        "What `Federation.split` takes. Studies are fitted on the people who are not held out.",
        _listed(SPLIT),
        "## `[tighten]`",
        "What `Federation.tightened` takes. See [describe and tighten](../how-to/describe-and-tighten.md).",
        _listed(TIGHTEN),
        "## `[[study]]`",
        "Every study has these keys, and those of its estimator.",
        _listed(STUDY),
        *(part for name, kind in estimators().items() for part in _estimator(name, kind)),
        "## The file of a coordinator",
        COORDINATOR,
        _listed(COORDINATOR_FILE),
    ]
    return "\n\n".join(parts) + "\n"


def _estimator(name: str, kind: type[Study]) -> list[str]:
    options = {method: keys for method, keys in method_keys(kind).items() if keys}
    shown = [f"### `{name}`", _listed(study_keys(kind))]
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
