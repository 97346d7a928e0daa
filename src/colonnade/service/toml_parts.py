"""Readers of TOML that study files and a party's files share: tables, texts, columns, policies and caps."""

import difflib
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import colonnade as cn
from colonnade.errors import BadInput, BoundsRequired, ColonnadeError
from colonnade.schema import Column, kind_declared_by

Table = Mapping[str, Any]
"""What TOML holds: texts, numbers, lists and tables, checked where they are read."""


Part = TypeVar("Part")


READING = ("separator", "encoding")
"""How CSV files are written."""


def parse(path: Path, known: Iterable[str] | None = None) -> Table:
    """Read a TOML file; refuse one that is not, or that has a key besides those that are known."""
    document = parse_text(text_in(path), path.name)
    if known is not None:
        refuse_unknown(document, known, path.name)
    return document


def text_in(path: Path) -> str:
    """Return the text of a file; refuse one that cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise BadInput(f"{path.name} cannot be read as UTF-8 text.", remedy="Check the path and the file.") from None


def parse_text(text: str, name: str) -> Table:
    """Read TOML; refuse what is not."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{name} is not valid TOML: {error}.", remedy="Correct that line; texts need quotes.") from None


def lines_of(entries: Mapping[str, str | int | bool]) -> str:
    """Write texts and numbers as TOML, one per line; a text that is empty is left out."""
    return "\n".join(f"{key} = {json.dumps(value)}" for key, value in entries.items() if value != "")


def budget_of(entry: Table) -> "cn.Budget":
    """Read the cap of a ledger."""
    refuse_unknown(entry, ("epsilon", "delta"), "budget")
    return within("budget", lambda: cn.Budget(epsilon=entry.get("epsilon"), delta=entry.get("delta", 0.0)))  # type: ignore[arg-type]


def column_of(where: str, entry: object) -> Column:
    """Read what is public about one column."""
    if not isinstance(entry, Mapping) or not entry:
        raise BoundsRequired(
            f"{where} has no public bounds.",
            remedy='Write { lower = 0, upper = 120 } for a number, { levels = ["no", "yes"] } for a category or '
            "{ first = 2020-01-01, last = 2024-12-31 } for a date.",
        )
    kind, known = kind_declared_by(entry)
    refuse_unknown(entry, known, where)
    lacking = kind.lacks(entry)
    if lacking is not None:
        raise BoundsRequired(f"{where} needs {lacking[0]}.", remedy=lacking[1])
    return within(where, lambda: kind(**entry))


def reading_of(entry: Table, where: str) -> dict[str, str]:
    """Read how a party's CSV files are written: ``separator`` and ``encoding``, where they are given."""
    return {name: text_of(entry, name, where) for name in READING if name in entry}


def policy_of(entry: Table, where: str) -> "cn.Policy":
    """Read a party's rules."""
    refuse_unknown(entry, [field.name for field in fields(cn.Policy)], f"{where}.policy")
    return within(f"{where}.policy", lambda: cn.Policy(**entry))


def text_of(table: Table, key: str, where: str) -> str:
    """Return a required text."""
    value = table.get(key)
    if not isinstance(value, str) or not value:
        raise BadInput(f"{where} needs {key}.", remedy=_EXAMPLES.get(key, f"Add {key} = …"))
    return value


def table_of(table: Table, key: str, where: str) -> Table:
    """Return a required table."""
    if not table.get(key):
        raise BadInput(f"{where} needs [{key}].", remedy=_EXAMPLES.get(key, f"Add the table [{key}]."))
    return as_table(table[key], key)


def as_table(value: object, where: str) -> Table:
    """Return a value as a table; refuse any other kind of value."""
    if not isinstance(value, Mapping):
        raise BadInput(f"{where} must be a table.", remedy=f"For example [{where}].")
    return value


def within(where: str, build: Callable[[], Part]) -> Part:
    """Build a part of the file. An error of Colonnade then says which part."""
    try:
        return build()
    except ColonnadeError as error:
        raise type(error)(f"{where}: {error.message}", remedy=error.remedy) from None


@contextmanager
def saying_lines(text: str, name: str) -> Iterator[None]:
    """Have an error about an unknown key say the line that it is in, where only one line of the file has it."""
    try:
        yield
    except BadInput as error:
        unknown = re.search(r"has an unknown key '([^']+)'\.$", error.message)
        if unknown is None:
            raise
        written = re.compile(rf"(?:^|[{{,\s\"']){re.escape(unknown[1])}[\"']?\s*=")
        lines = [number for number, line in enumerate(text.splitlines(), start=1) if written.search(line)]
        if len(lines) != 1:
            raise
        raise BadInput(f"{name}, line {lines[0]}: {error.message}", remedy=error.remedy) from None


def refuse_unknown(table: Table, known: Iterable[str], where: str) -> None:
    """Refuse a key that is not known here: a misspelt key that is ignored could change a guarantee."""
    known = list(known)
    for key in table:
        if key not in known:
            raise BadInput(f"{where} has an unknown key {key!r}.", remedy=suggestion(key, known))


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return the known word that is nearest, or all known words."""
    known = sorted(known)
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"Did you mean {near[0]!r}?" if near else f"Known here: {', '.join(known)}."


_EXAMPLES = {
    "id": 'Name the column that all tables share: id = "person_id".',
    "ledger_dir": 'Say where ledgers are kept, so that what is spent is never forgotten: ledger_dir = "ledgers".',
    "budget": "State each party's cap, for example [budget] with epsilon = 4.0 and delta = 1e-6.",
    "parties": "Add a table [parties.NAME] with data and columns for each party.",
    "columns": "Describe each column: [parties.NAME.columns] with age = { lower = 0, upper = 120 }.",
    "estimator": 'Name the estimator, for example estimator = "PatternCount".',
}
