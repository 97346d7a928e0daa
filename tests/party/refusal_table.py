"""Every text that a party can send when it refuses, read from the source: ``python -m tests.party.refusal_table [--write]``.

A party speaks from the modules that `SPEAKERS` import, directly or not. Modules that see rows never speak: they run
inside `among_rows`, and what is raised there is not said. What is left are constructions of errors. Each becomes a line of the
table in SECURITY.md: its code, its words, and what they depend on. Words in braces are filled in, and every one of them has to
be listed in `FILLED_IN` with the public fact that it is. A new one is added there by hand, by somebody who has thought about it.
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from colonnade import errors

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PAGE = ROOT / "SECURITY.md"
BEGIN, END = "<!-- refusals: written by tests.party.refusal_table -->", "<!-- end of refusals -->"

SPEAKERS = ("colonnade.party.guard", "colonnade.papers.conversations", "colonnade.papers.private")
"""The guard, and what its registries load by name."""
AMONG_ROWS = (
    "colonnade.schema.encoders",
    "colonnade.party.table",
)
"""Modules that see rows. They run inside `among_rows`, or while the owner opens a table."""

OWNERS = (
    "colonnade.result",
    "colonnade.schema",
    "colonnade.party.gate:Gate.__init__",
    "colonnade.party.gate:Gate.declare_version",
    "colonnade.party.guard:Deliveries",
    "colonnade.party.guard:Guard.replace",
    "colonnade.party.guard:read_delivery",
    "colonnade.party.ledger.file:LedgerFile.make",
    "colonnade.party.ledger.decisions",
    "colonnade.party.ledger.ledger:SqliteLedger.create",
    "colonnade.party.ledger.ledger:SqliteLedger.decide",
    "colonnade.party.ledger.ledger:SqliteLedger.declare_version",
    "colonnade.party.ledger.ledger:SqliteLedger.open",
    "colonnade.party.ledger.decisions",
    "colonnade.party.ledger.rows:Ceiling",
    "colonnade.party.policy:Policy.__post_init__",
    "colonnade.party.policy:Policy._check_alignment_rules",
    "colonnade.party.policy:Policy._check_prediction_rules",
    "colonnade.families.family:Family.require_target",
    "colonnade.party.policy:Policy._check_requester_rules",
    "colonnade.party.policy:check_names",
    "colonnade.party.table.private_table:RowsFailed.for_the_owner",
    "colonnade.plan:checked_analyst_name",
    "colonnade.protocol.agreement",
    "colonnade.protocol.messages:released",
    "colonnade.protocol.messages:planned_value",
    "colonnade.runtime.private_files:lock_folder",
    "colonnade.runtime.private_files:read_hex",
    "colonnade.runtime.private_files:require_private",
    "colonnade.runtime.private_files:require_unchangeable",
    "colonnade.runtime.private_files:write_new",
    "colonnade.secure.keys:Identity",
    "colonnade.steps.kind:Registry",
)
"""Modules and functions that a party's owner calls, or a coordinator, and that no request reaches."""

PLAN, POLICY, LEDGER, DECLARED = "plan", "policy", "ledger", "declared facts"
MESSAGE, COINS, CONSTANT = "message", "coins", "nothing"

DEPENDS: dict[str, tuple[str, ...]] = {
    "colonnade.conversations": (PLAN, MESSAGE),
    "colonnade.conversations.memory": (PLAN, MESSAGE, LEDGER),
    "colonnade.families": (PLAN,),
    "colonnade.runtime.private_files": (CONSTANT,),
    "colonnade.runtime.spilled_rows": (PLAN,),
    "colonnade.papers.conversations": (PLAN, MESSAGE),
    "colonnade.papers.draws": (PLAN, MESSAGE, COINS),
    "colonnade.papers.laws": (PLAN,),
    "colonnade.papers.private": (PLAN, MESSAGE, LEDGER, COINS),
    "colonnade.papers.steps": (PLAN, DECLARED, LEDGER),
    "colonnade.party.gate": (PLAN, POLICY, LEDGER),
    "colonnade.party.guard": (PLAN, LEDGER),
    "colonnade.party.guard:": (CONSTANT,),
    "colonnade.party.guard:refusal": (CONSTANT,),
    "colonnade.party.ledger": (LEDGER,),
    "colonnade.party.ledger.file:AlternatingFile": (CONSTANT,),
    "colonnade.party.policy": (PLAN, POLICY, DECLARED),
    "colonnade.party.policy:Permission": (PLAN, POLICY, LEDGER, MESSAGE),
    "colonnade.steps.newton:family_of": (PLAN,),
    "colonnade.party.steps": (PLAN, MESSAGE, LEDGER),
    "colonnade.party.steps.agreements": (PLAN, POLICY, MESSAGE, LEDGER, COINS),
    "colonnade.plan": (MESSAGE,),
    "colonnade.privacy": (PLAN,),
    "colonnade.protocol": (MESSAGE,),
    "colonnade.secure": (PLAN, MESSAGE, COINS),
    "colonnade.steps": (PLAN, DECLARED, LEDGER),
}
"""On what it depends whether a module refuses, by the longest name that fits."""

FILLED_IN: dict[tuple[str, str], str] = {
    ("colonnade.conversations.endpoint", "self._at_once"): CONSTANT,
    ("colonnade.conversations.memory", "party"): PLAN,
    ("colonnade.steps.describing", "column.indicates"): DECLARED,
    ("colonnade.party.gate", "cap"): LEDGER,
    ("colonnade.plan", "self.version"): MESSAGE,
    ("colonnade.party.gate", "plan.price.delta"): PLAN,
    ("colonnade.party.gate", "self.terms.party"): DECLARED,
    ("colonnade.party.ledger.file", "name"): CONSTANT,
    ("colonnade.party.ledger.file", "wanted"): CONSTANT,
    ("colonnade.party.ledger.ledger", "left"): LEDGER,
    ("colonnade.party.ledger.ledger", "self.party"): DECLARED,
    ("colonnade.party.ledger.rows", "sequence"): LEDGER,
    ("colonnade.party.ledger.rows", "what"): CONSTANT,
    ("colonnade.party.policy", "of"): CONSTANT,
    ("colonnade.steps.newton", "', '.join(FAMILIES)"): CONSTANT,
    ("colonnade.families.family", "', '.join(map(str, self.links))"): CONSTANT,
    ("colonnade.families.family", "next(iter(self.links))"): CONSTANT,
    ("colonnade.party.policy", "self.party"): DECLARED,
    ("colonnade.party.policy", "plan.data_versions[self.party]"): PLAN,
    ("colonnade.party.policy", "rule"): CONSTANT,
    ("colonnade.party.policy", "self.max_delta"): POLICY,
    ("colonnade.party.policy", "self.max_epsilon"): POLICY,
    ("colonnade.party.policy", "self.min_people"): POLICY,
    ("colonnade.party.policy", "self.version"): DECLARED,
    ("colonnade.party.policy", "terms.party"): DECLARED,
    ("colonnade.party.steps.agreements", "policy.alignment_period"): POLICY,
    ("colonnade.party.steps.agreements", "policy.max_alignments"): POLICY,
    ("colonnade.privacy.accounting", "parts"): PLAN,
    ("colonnade.privacy.accounting", "type(epsilon).__name__"): PLAN,
    ("colonnade.privacy.accounting", "what"): CONSTANT,
    ("colonnade.privacy.calibration", "what"): CONSTANT,
    ("colonnade.papers.laws", "name"): PLAN,
    ("colonnade.privacy.samplers", "largest.bit_length() - 1"): CONSTANT,
    ("colonnade.privacy.samplers", "type(value).__name__"): PLAN,
    ("colonnade.privacy.samplers", "what"): CONSTANT,
    ("colonnade.steps.kind", "2 * self.threshold + 1"): POLICY,
    ("colonnade.steps.kind", "asker"): CONSTANT,
    ("colonnade.steps.kind", "columns"): PLAN,
    ("colonnade.steps.kind", "fitting"): PLAN,
    ("colonnade.steps.kind", "held"): PLAN,
    ("colonnade.steps.kind", "opened"): PLAN,
    ("colonnade.steps.kind", "self.collusion"): POLICY,
    ("colonnade.steps.kind", "self.threshold"): POLICY,
    ("colonnade.steps.kind", "example"): CONSTANT,
    ("colonnade.steps.kind", "largest"): CONSTANT,
    ("colonnade.steps.kind", "least"): CONSTANT,
    ("colonnade.steps.kind", "name"): PLAN,
    ("colonnade.steps.kind", "plan.task"): PLAN,
    ("colonnade.steps.kind", "step.party"): PLAN,
    ("colonnade.steps.kind", "unknown"): CONSTANT,
    ("colonnade.steps.describing", "name"): PLAN,
    ("colonnade.steps.local", "name"): PLAN,
}
"""What is filled into words, by module and expression, and the public fact that it is. Constants in capitals need no line."""

KINDS = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}


class UnknownWordsError(Exception):
    """Words of a refusal that are not known to follow from public facts."""


@dataclass(frozen=True)
class Text:
    """One thing that a party can say."""

    module: str
    function: str
    code: str
    words: str
    remedy: str
    filled_in: tuple[str, ...]

    @property
    def depends(self) -> tuple[str, ...]:
        """The public facts that it depends on."""
        places = (self.module, f"{self.module}:{self.function}")
        named = max((name for name in DEPENDS if any(within(place, name) for place in places)), key=len, default=None)
        if named is None:
            raise UnknownWordsError(f"{self.module} speaks, and DEPENDS does not say what it looks at.")
        facts = {*DEPENDS[named], *(self._fact(words) for words in self.filled_in)}
        return tuple(sorted(facts - {CONSTANT})) or (CONSTANT,)

    def _fact(self, words: str) -> str:
        if words.isupper():
            return CONSTANT
        if (self.module, words) not in FILLED_IN:
            raise UnknownWordsError(f"{self.module}.{self.function} fills {{{words}}} into a refusal: a public fact?")
        return FILLED_IN[self.module, words]

    def fits(self, code: str, message: str) -> bool:
        """Return whether this is what was said."""
        pattern = ".+".join(re.escape(part) for part in re.split(r"\{[^{}]*\}", self.words))
        return code == self.code and re.fullmatch(pattern, message, flags=re.DOTALL) is not None


def within(module: str, name: str) -> bool:
    """Whether a module is this one or in this package."""
    return module == name or module.startswith(name + ".")


def path_of(module: str) -> Path | None:
    """Return a module's file; ``None`` for what is no module of ours."""
    place = SOURCE / Path(*module.split("."))
    found = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return found if found.exists() else None


@cache
def tree_of(module: str) -> ast.Module:
    """Return a module's syntax."""
    path = path_of(module)
    assert path is not None
    return ast.parse(path.read_text())


def imported(module: str) -> set[str]:
    """Return the modules of ours that a module imports, anywhere in it."""
    names = set()
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name for name in names if name.startswith("colonnade.") and path_of(name) is not None}


@cache
def speaking() -> tuple[str, ...]:
    """Return the modules from which a party may speak."""
    found: set[str] = set()
    waiting = [*SPEAKERS]
    while waiting:
        module = waiting.pop()
        if module in found or any(within(module, name) for name in AMONG_ROWS):
            continue
        found.add(module)
        waiting += imported(module)
    return tuple(sorted(module for module in found if not any(within(module, owner) for owner in OWNERS)))


def texts() -> list[Text]:
    """Return everything that a party can say, in the order of modules and lines."""
    return [text for module in speaking() for text in _texts(module, tree_of(module), "")]


def _texts(module: str, node: ast.AST, within_function: str) -> Iterator[Text]:
    for child in ast.iter_child_nodes(node):
        name = within_function
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            name = f"{within_function}.{child.name}".lstrip(".")
            if any(f"{module}:{name}" == owner for owner in OWNERS) or takes_rows(child):
                continue
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id in KINDS:
            yield _text(module, name, child)
        yield from _texts(module, child, name)


def takes_rows(node: ast.AST) -> bool:
    """Whether a function is given a table: only the gate has one, and hands it out inside `among_rows`."""
    if not isinstance(node, ast.FunctionDef):
        return False
    return any(arg.annotation is not None and "PrivateTable" in ast.unparse(arg.annotation) for arg in node.args.args)


def _text(module: str, function: str, call: ast.Call) -> Text:
    kind = KINDS[call.func.id]  # type: ignore[attr-defined]
    remedies = [keyword.value for keyword in call.keywords if keyword.arg == "remedy"]
    words, filled = _words(module, function, call.args[0])
    remedy, more = _words(module, function, remedies[0]) if remedies else ("", ())
    return Text(module, function, kind.code, words, remedy, (*filled, *more))


def _words(module: str, function: str, node: ast.expr) -> tuple[str, tuple[str, ...]]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value, ()
    if isinstance(node, ast.JoinedStr):
        filled = [ast.unparse(part.value) for part in node.values if isinstance(part, ast.FormattedValue)]
        parts = [
            f"{{{ast.unparse(part.value)}}}" if isinstance(part, ast.FormattedValue) else str(part.value)  # type: ignore[attr-defined]
            for part in node.values
        ]
        return "".join(parts), tuple(filled)
    raise UnknownWordsError(f"{module}.{function} refuses in words that are not written where it does.")


def table() -> str:
    """Return the table, for SECURITY.md."""
    found: dict[tuple[str, str], set[str]] = {}
    for text in texts():
        words = f"{text.words} *{text.remedy}*" if text.remedy else text.words
        found.setdefault((text.code, words), set()).update(text.depends)
    rows = [f"| `{code}` | {_cell(words)} | {', '.join(sorted(facts))} |" for (code, words), facts in found.items()]
    return "\n".join(["| code | words | depends on |", "|---|---|---|", *sorted(rows)])


def _cell(words: str) -> str:
    return words.replace("|", "\\|").replace("\n", " ")


def written() -> str:
    """Return what stands in SECURITY.md."""
    return PAGE.read_text().split(BEGIN)[1].split(END)[0].strip()


def write() -> None:
    """Put the table into SECURITY.md."""
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    if "--write" in sys.argv:
        write()
    else:
        print(table())  # noqa: T201
