"""HTML for reports: elements that escape what they hold, one style sheet, and the promise in full.

What is not `Html` by type is text, and text is escaped. A report shows strings that parties supplied (names, columns, levels,
titles). A template language escapes where it is told to; here there is no way to put a plain string into a page unescaped.
"""

import html
import re
from collections.abc import Iterable, Sequence
from math import isinf, isnan

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
    """Return a table with numbers to the right, in a frame that scrolls rather than overflows."""
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
    """Return a number as people read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isnan(value):
        return "–"
    if isinf(value):
        return "∞" if value > 0 else "−∞"
    if isinstance(value, int) or (abs(value) < 1e15 and value == int(value)):
        return f"{int(value):,}"
    return f"{value:,.1f}" if 100 <= abs(value) < 1e15 else f"{value:.4g}"


PROMISE = (
    "Whatever the coordinator does, crashes, repeats or forges, and whatever up to c other parties see and pool with it (c is in "
    "the signed plan; c ≤ t and c ≤ data parties − 1; default 1), what leaves party P about any one person is (ε, "
    "δ)-differentially private with ε and δ no larger than P's own ledger shows. P's ledger never shows less than was released "
    "and never exceeds P's cap. Where the coordinator is itself a compute node it is assumed to collude with no party. Where a "
    "guarantee rests on a key that the parties share (sketches, secret batches), c = 0. Every statement prints its c and its "
    "assumptions. Peers are semi-honest in their inputs: a party that shares unclipped values can amplify another's row past the "
    "noise (a large multiple of one row's indicator opens that row); the code and every statement say so. Not covered: an "
    "observer of timing on P's own host; more than t colluding compute nodes (for shared steps); denial of service. What is "
    "weaker has to be admitted by name in each party's policy: event-level moments; and coresets, predictions to one party, and "
    "intersection alignment (each party learns which of its own ids the others have; a union tells one party how many are in "
    "common), which are not differentially private."
)
"""The promise of docs/explanation/promise.md, word for word. A test compares the two."""

READING = (
    "ε and δ say how much one person's record can change what an observer sees: for any two tables that differ in one unit, the "
    "odds of anything that this observer sees change by a factor of at most e^ε, except with probability δ. The smaller, the "
    "better hidden. The unit “person” is one person's whole record at all parties; “party” is one person's record at one party. "
    "∞ means that nothing is guaranteed."
)

EXCEPT = "This promise is that of the private methods. The releases marked as not private are outside it."

NONPRIVATE = (
    "NOT PRIVATE. Exact values left the parties in this study. No noise protects anybody in them, no budget measures them, and "
    "nothing in this report bounds what the coordinator could learn from them about one person. Every party allowed this by name "
    "in its own policy."
)


STYLE = """
:root { --ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --field: #f6f8fa; --mark: #0072b2; --alarm: #a40e26; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif; color: var(--ink); background: #fff;
  max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .25rem; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 .5rem; padding-top: .8rem; border-top: 2px solid var(--line); }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; }
p, ul, dl { margin: .4rem 0 .8rem; }
a { color: var(--mark); }
.soft { color: var(--soft); }
.receipt { background: var(--field); border-left: 4px solid var(--mark); padding: .6rem .8rem; }
.receipt p { margin: .2rem 0; }
div.receipt { margin: .6rem 0; }
.bad { color: var(--alarm); }
.alarm { background: #fff0f0; border: 3px solid var(--alarm); color: var(--alarm); padding: .8rem 1rem; font-weight: 700; }
.promise { background: var(--field); padding: .8rem 1rem; border-radius: 4px; }
.wide { overflow-x: auto; margin: .6rem 0 1rem; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; }
caption { text-align: left; color: var(--soft); padding: .2rem 0; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem .35rem 0; border-bottom: 1px solid var(--line);
  overflow-wrap: break-word; }
th { font-weight: 600; white-space: nowrap; }
th.number { text-align: right; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
figure { margin: 1rem 0; }
figure img { width: 100%; max-width: 52rem; height: auto; display: block; }
figcaption { color: var(--soft); font-size: .88rem; }
code { font: .85em/1.4 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
pre { font: .8rem/1.45 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; background: var(--field);
  padding: .8rem; white-space: pre-wrap; overflow-wrap: anywhere; }
.sign { display: flex; flex-wrap: wrap; gap: 2rem; margin-top: 2.5rem; }
.sign div { flex: 1 1 14rem; border-top: 1px solid var(--ink); padding-top: .3rem; color: var(--soft); font-size: .88rem; }
@media print {
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  .summary { break-after: page; } h2 { break-after: avoid; } figure, tr, .alarm, .receipt { break-inside: avoid; }
  .wide { overflow: visible; } a { color: inherit; text-decoration: none; }
  @page { margin: 18mm 16mm; }
}
"""
