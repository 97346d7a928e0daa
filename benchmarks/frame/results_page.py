"""``docs/results.md``: what the recorded results of all benchmarks show, losses first."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.frame import intervals
from benchmarks.frame.benchmark import Benchmark, Label
from benchmarks.frame.circumstances import ROOT
from benchmarks.frame.claims import AGREES, CANNOT_TELL, DOES_NOT, NOT_MEASURED
from benchmarks.frame.intervals import LEVEL, Sample
from benchmarks.frame.pages import CENTRAL, OURS, PEER, PLAIN, Plot, Table, markdown, shown
from benchmarks.frame.records import Measured, Results

Recording = tuple[Benchmark, Results]
PAGE = ROOT / "docs" / "results.md"
NOTHING = "Nothing is recorded yet."
HEADLINE = Plot(
    "result",
    "headline",
    "auc",
    "epsilon",
    "line",
    "Who earns more than 50,000 (Adult)",
    "area under the curve",
    named=True,
)
HEADLINE_LINES: dict[str, tuple[str, str, dict[str, Label]]] = {
    "without privacy, one table": ("additive", "beside", {"set": "adult", "method": "boosting, no privacy"}),
    "Colonnade, four parties": ("additive", "accuracy", {"set": "adult", "method": "additive"}),
    "DP-EBM, one curator": ("additive", "accuracy", {"set": "adult", "method": "DP-EBM"}),
    "functional mechanism": (
        "functional",
        "regressions",
        {"set": "adult, 41 features", "method": "the paper's, as written"},
    ),
}
HEADLINE_WORDS = """Area under the curve on people left out. Colonnade fits an additive model through the whole channel:
nobody sees the joined table. DP-EBM (interpret-core) has all rows in one place, at the same ε. The functional mechanism is
our implementation of the paper, at its 41 features, on pooled rows, with δ = 0 and its own splits."""
INTRO = """# Results

Written by `colonnade bench all --record` from the recorded results of `benchmarks/`; do not edit. Every figure is a mean over
repeated runs with the half of its 95 % interval. *Ours* runs through the whole channel unless the benchmark's page says
otherwise. *One curator* holds everybody's rows and has the same ε: what ours loses against it is what it costs to trust nobody.
Peers are other packages, in the same run, on pooled data at the same ε. Each benchmark's own page
(`README.md` in its folder) has its grid, its claims and its circumstances."""


@dataclass(frozen=True)
class Compared:
    """One row of a table with roles: who has what."""

    benchmark: str
    table: Table
    what: str
    held: dict[str, dict[str, Sample]]

    def best(self, role: str) -> tuple[str, Sample] | None:
        """Return the best column of a role."""
        found = self.held.get(role, {})
        if not found:
            return None
        pick = max if self.table.higher else min
        return pick(found.items(), key=lambda one: one[1].mean)

    def loss(self, role: str) -> str | None:
        """Return words if the best of ours is worse than the best of a role, beyond what chance explains."""
        ours, other = self.best(OURS), self.best(role)
        if ours is None or other is None or self.table.higher is None:
            return None
        low, high = intervals.difference(ours[1], other[1], LEVEL)
        if high < 0 if self.table.higher else low > 0:
            value = next(iter(self.table.values.values()))
            return f"{self.what}: {value} {shown(ours[1])} ({ours[0]}) against {shown(other[1])} ({other[0]})"
        return None


def compared(name: str, table: Table, results: Results) -> Iterator[Compared]:
    """Yield the rows of a table in which columns have roles."""
    if not table.roles or table.across is None:
        return
    value = next(iter(table.values))
    rows: dict[str, dict[str, dict[str, Sample]]] = {}
    plain: dict[str, dict[str, Sample]] = {}
    sets: dict[str, str] = {}
    for labels, samples in results.rows(table.part, **table.where):
        role = table.roles.get(str(labels.get(table.across)))
        if role is None or value not in samples:
            continue
        shown_labels = {key: f"{head} {labels[key]}" for key, head in table.rows.items() if key in labels}
        what, column = ", ".join(shown_labels.values()), {str(labels[table.across]): samples[value]}
        sets[what] = ", ".join(one for key, one in shown_labels.items() if key != "epsilon")
        if role == PLAIN:  # without privacy there is no ε: it stands beside every ε of its set
            plain.setdefault(sets[what], {}).update(column)
        else:
            rows.setdefault(what, {}).setdefault(role, {}).update(column)
    for what, held in rows.items():
        if OURS in held:
            yield Compared(name, table, what, {**({PLAIN: plain[sets[what]]} if sets[what] in plain else {}), **held})


def recordings(*, quick: bool = False) -> tuple[list[Recording], list[str]]:
    """Return benchmarks with what was recorded of them, or with their short runs; and the names of those that have none."""
    from benchmarks.frame.command import in_order, load

    held, missing = [], []
    for name in in_order():
        found = load(name)
        results = Results.read(found.folder / "results" / ("quick/latest.json" if quick else "latest.json"))
        if results is None:
            missing.append(name)
        else:
            held.append((found, results))
    return held, missing


def write(page: Path = PAGE, *, quick: bool = False) -> None:
    """Write the page and its pictures from whatever is recorded; from short runs only to look at it."""
    held, missing = recordings(quick=quick)
    pictures = page.parent / "images" / "results"
    for picture in pictures.glob("*.svg"):
        picture.unlink()
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text(held, missing, pictures), encoding="utf-8")


def text(held: list[Recording], missing: list[str], pictures: Path) -> str:
    """Return the page, and draw its pictures into a folder."""
    rows = [
        one
        for found, results in held
        for table in found.shown
        if isinstance(table, Table)
        for one in compared(found.name, table, results)
    ]
    parts = [INTRO, "## Where we lose", *_losses(held, rows)]
    parts += ["## Accuracy against ε", *_or_nothing(_pictures(held, pictures))]
    parts += ["## Time and bytes beside peers", *_or_nothing(_costs(held))]
    parts += ["## What a party's privacy costs", _privacy(rows), "## Claims", _claims(held)]
    parts += ["## What is missing", *_missing(held, missing)]
    return "\n\n".join(parts) + "\n"


def _or_nothing(parts: Iterator[str]) -> list[str]:
    return list(parts) or [NOTHING]


def _missing(held: list[Recording], names: list[str]) -> Iterator[str]:
    whys: dict[str, list[str]] = {}
    for found, results in held:
        for part in results.parts.values():
            for why in dict.fromkeys([*part.absent, *(why for _, why in part.skipped)]):
                where = whys.setdefault(why, [])
                where += [] if found.name in where else [found.name]
        for part_ in found.parts:
            if part_.name not in results.parts:
                whys.setdefault(f"{part_.name} was not measured (it takes long)", []).append(found.name)
    if whys:
        lines = "\n".join(f"* {', '.join(where)}: {why}." for why, where in whys.items())
        yield f"Peers, data sets and parts that were not there when this was recorded:\n\n{lines}"
    if names:
        yield f"Not recorded in the present form: {', '.join(names)}."
    if not whys and not names:
        yield "Nothing: every benchmark is recorded, with every peer and every data set."


def _losses(held: list[Recording], rows: list[Compared]) -> Iterator[str]:
    failed = [
        f"* {found.name}: {claim.words}. Wanted: {claim.bar}. Measured: {claim.judged(results).ours}."
        for found, results in held
        for claim in found.claims
        if claim.judged(results).verdict == DOES_NOT
    ]
    if not held:
        yield NOTHING
        return
    yield (
        "Claims of papers, and bars of our own, that the recorded runs contradict:\n\n" + "\n".join(failed)
        if failed
        else "No recorded claim is contradicted."
    )
    for role, words in ((PEER, "another package on the same data"), (CENTRAL, "one curator at the same ε")):
        lost = [f"* {row.benchmark}, {loss}." for row in rows if (loss := row.loss(role))]
        total = sum(1 for row in rows if role in row.held)
        yield f"Worse than {words}, beyond chance, in {len(lost)} of {total} comparisons" + (
            ":\n\n" + "\n".join(lost) if lost else "."
        )


def _pictures(held: list[Recording], folder: Path) -> Iterator[str]:
    if path := headline(held, folder):
        yield f"![{HEADLINE.title}](images/results/{path.name})"
        yield HEADLINE_WORDS
    for found, results in held:
        for plot in found.shown:
            if isinstance(plot, Plot) and plot.x == "epsilon":
                named = replace(plot, name=f"{found.name}-{plot.name}")  # two benchmarks may have a plot of one name
                if path := named.draw(results, folder):
                    yield f"![{plot.title}](images/results/{path.name})"


def headline(held: list[Recording], folder: Path) -> Path | None:
    """Draw ``result.svg``, the one picture of the README, from the recordings of several benchmarks."""
    by_name = {found.name: results for found, results in held}
    drawn = Measured()
    for line, (benchmark, part, labels) in HEADLINE_LINES.items():
        results = by_name.get(benchmark)
        for known, samples in results.rows(part, **labels) if results else ():
            if HEADLINE.value in samples:
                values = {HEADLINE.value: list(samples[HEADLINE.value].values)}
                drawn.rows.append(({"line": line, "epsilon": known["epsilon"]}, values))
    return HEADLINE.draw(Results({}, {HEADLINE.part: drawn}), folder)


def _costs(held: list[Recording]) -> Iterator[str]:
    for found, results in held:
        tables = [table for table in found.shown if isinstance(table, Table) and table.costs]
        lines = [line for table in tables for line in table.lines(results)]
        if lines:
            yield from (f"### {found.name}", *lines)


def _privacy(rows: list[Compared]) -> str:
    found = []
    for row in rows:
        plain, central, ours = row.best(PLAIN), row.best(CENTRAL), row.best(OURS)
        if ours is None or (plain is None and central is None) or row.table.costs:
            continue
        gap = "–"
        if central is not None:
            low, high = intervals.difference(ours[1], central[1], LEVEL)
            gap = f"{ours[1].mean - central[1].mean:+.3g} ({low:.2g} to {high:.2g})" if low > -1e300 else "one run"
        cells = [shown(one[1]) if one else "–" for one in (plain, central, ours)]
        found.append([row.benchmark, row.what, next(iter(row.table.values.values())), *cells, gap])
    head = ["benchmark", "what", "figure", "without privacy", "one curator", "ours", "ours − curator"]
    return markdown(head, found) if found else NOTHING


def _claims(held: list[Recording]) -> str:
    rows = []
    for found, results in held:
        counts = Counter(claim.judged(results).verdict for claim in found.claims)
        kinds = (AGREES, DOES_NOT, CANNOT_TELL, NOT_MEASURED)
        rows.append([found.name, *(str(counts[kind]) for kind in kinds), results.recorded["commit"][:12]])
    if not rows:
        return NOTHING
    return markdown(["benchmark", "agrees", "does not", "cannot tell", "not measured", "commit"], rows)
