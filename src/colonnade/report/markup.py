"""HTML that cannot be forgotten to be escaped: whatever is not `Html` by type is text, and text is escaped.

A report shows strings that parties supplied (names, columns, levels, titles). A template language escapes where it is told to;
here there is no way to put a plain string into a page unescaped, and ``pip install colonnade`` alone can write one.
"""

import html
import re
from collections.abc import Iterable, Sequence
from math import isinf, isnan

__all__ = ["Html", "join", "raw", "table", "tag"]

_VOID = frozenset({"meta", "br", "img", "hr"})
_NAME = re.compile(r"[a-z][a-z0-9-]*")


class Html(str):
    """Markup that is already safe. Made by `tag`, `table`, `join` and, for constants of this package alone, `raw`."""

    __slots__ = ()


def raw(constant: str) -> Html:
    """Mark a constant of this package as markup; never for anything that a party, a user or a file supplied."""
    return Html(constant)


def text(value: object) -> Html:
    """Return a value as escaped text; control characters become a visible mark."""
    if isinstance(value, Html):
        return value
    plain = "".join(one if one.isprintable() or one in "\n\t" else "\ufffd" for one in str(value))
    return Html(html.escape(plain, quote=True))


def join(parts: Iterable[object], between: str = "") -> Html:
    """Return parts side by side, escaped unless they are markup."""
    return Html(text(between).join(text(part) for part in parts))


def tag(name: str, /, *children: object, **attributes: str | None) -> Html:
    """Return an element; children and attributes are escaped unless they are markup.

    Examples
    --------
    >>> tag("p", "a < b", klass="note")
    '<p class="note">a &lt; b</p>'
    """
    if not _NAME.fullmatch(name):
        raise ValueError("not the name of an element")
    given = {key.replace("klass", "class").replace("_", "-"): value for key, value in attributes.items()}
    opening = "".join(f' {key}="{text(value)}"' for key, value in given.items() if value is not None)
    return Html(f"<{name}{opening}>" if name in _VOID else f"<{name}{opening}>{join(children)}</{name}>")


def table(columns: Sequence[object], rows: Iterable[Sequence[object]], *, caption: str | None = None) -> Html:
    """Return a table, numbers to the right, in a frame that scrolls rather than overflows."""
    rows = [list(row) for row in rows]
    numbers = [bool(rows) and all(_is_number(row[place]) for row in rows) for place in range(len(columns))]
    heads = [tag("th", name, scope="col", klass=_aligned(right)) for name, right in zip(columns, numbers, strict=True)]
    head = tag("thead", tag("tr", *heads)) if any(columns) else Html("")
    body = tag("tbody", *(tag("tr", *map(_cell, row)) for row in rows))
    title = tag("caption", caption) if caption else Html("")
    return tag("div", tag("table", title, head, body), klass="wide")


def _cell(value: object) -> Html:
    shown = figure(value) if isinstance(value, int | float) else value
    return tag("td", shown, klass=_aligned(_is_number(value)))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _aligned(right: bool) -> str | None:
    return "number" if right else None


def figure(value: float) -> str:
    """Return a number as a person reads it; an infinite one in words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isnan(value):
        return "–"
    if isinf(value):
        return "∞"
    if isinstance(value, int) or (abs(value) < 1e15 and value == int(value)):
        return f"{int(value):,}"
    return f"{value:,.1f}" if 100 <= abs(value) < 1e15 else f"{value:.4g}"
