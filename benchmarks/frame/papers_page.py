"""The tables of ``docs/explanation/papers.md``: where each part of the papers is, what reaches it, and what was measured.

``benchmarks/papers.toml`` has the list; verdicts come from the recorded results alone.
"""

import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.frame import command
from benchmarks.frame.benchmark import Benchmark
from benchmarks.frame.circumstances import ROOT
from benchmarks.frame.claims import Claim
from benchmarks.frame.pages import markdown
from benchmarks.frame.records import latest

LIST = ROOT / "benchmarks" / "papers.toml"
PAGE = ROOT / "docs" / "explanation" / "papers.md"
START, END = "<!-- papers: start -->", "<!-- papers: end -->"
NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class Item:
    """One algorithm, table or figure of a paper."""

    paper: str
    title: str
    what: str
    where: str
    option: str
    test: str
    claims: tuple[str, ...]

    def judged(self) -> Iterator[tuple[Claim, str, str]]:
        """Yield each claim that measures it, with what was measured and the verdict."""
        for named in self.claims:
            benchmark, _, begin = named.partition(": ")
            held = command.load(benchmark)
            results = latest(held)
            for claim in matching(held, begin):
                if results is None:
                    yield claim, "–", NOT_RECORDED
                else:
                    found = claim.judged(results)
                    yield claim, found.ours, found.verdict


def matching(benchmark: Benchmark, begin: str) -> list[Claim]:
    """Return the claims whose words begin so."""
    return [claim for claim in benchmark.claims if claim.words.startswith(begin)]


def items() -> Iterator[Item]:
    """Yield the list."""
    papers: dict[str, dict[str, Any]] = tomllib.loads(LIST.read_text(encoding="utf-8"))
    for paper, said in papers.items():
        for row in said["rows"]:
            yield Item(paper, said["title"], **{**row, "claims": tuple(row["claims"])})


def tables() -> str:
    """Return the tables in Markdown: one per paper."""
    by_paper: dict[str, list[Item]] = {}
    for item in items():
        by_paper.setdefault(item.paper, []).append(item)
    parts = []
    for paper, rows in by_paper.items():
        parts += [f"### {rows[0].title}", f"[The paper](../references.md#{paper}).", _table(rows)]
    return "\n\n".join(parts)


def _table(rows: list[Item]) -> str:
    head = [
        "what",
        "where, in `src/colonnade/`",
        "the option that reaches it",
        "test",
        "measured",
        "agrees?",
    ]
    return markdown(head, [_row(item) for item in rows])


def _row(item: Item) -> list[str]:
    found = list(item.judged())
    counts = Counter(verdict for _, _, verdict in found)
    if not item.claims:
        measured, agrees = "not a measured quantity", "–"
    elif not found:
        measured, agrees = "–", NOT_RECORDED
    else:
        several = len(found) > 1
        measured = "; ".join(
            f"{claim.words}: {ours}" + (f" ({verdict})" if several else "") for claim, ours, verdict in found
        )
        agrees = "; ".join(
            f"{verdict} ({count} of {len(found)})" if several else verdict for verdict, count in counts.items()
        )
    cells = [item.what, f"`{item.where}`", f"`{item.option}`", f"`tests/{item.test}`", measured, agrees]
    return [cell.replace("|", "\\|") for cell in cells]


def page() -> str:
    """Return the page with its tables as they should be now."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n\n{tables()}\n\n{END}{after}"


def write() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
