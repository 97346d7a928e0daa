"""``docs/results.md``: what the recorded results of all benchmarks show, losses first."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks.frame import intervals
from benchmarks.frame.benchmark import Benchmark
from benchmarks.frame.circumstances import ROOT
from benchmarks.frame.claims import AGREES, CANNOT_TELL, DOES_NOT, NOT_MEASURED
from benchmarks.frame.intervals import LEVEL, Sample
from benchmarks.frame.pages import CENTRAL, OURS, PEER, PLAIN, Plot, Table, markdown, shown
from benchmarks.frame.records import Results, latest

PAGE = ROOT / "docs" / "results.md"
PICTURES = ROOT / "docs" / "images" / "results"
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


def write() -> None:
    """Write the page and its pictures from whatever is recorded."""
    from benchmarks.frame.command import load, names

    held, missing = [], []
    for name in names():
        found = load(name)
        results = latest(found) if found else None
        if found is None or results is None:
            missing.append(name)
        else:
            held.append((found, results))
    PAGE.write_text(text(held, missing), encoding="utf-8")


def text(held: list[tuple[Benchmark, Results]], missing: list[str]) -> str:
    """Return the page."""
    rows = [
        one
        for found, results in held
        for table in found.shown
        if isinstance(table, Table)
        for one in compared(found.name, table, results)
    ]
    parts = [INTRO, "## Where we lose", *_losses(held, rows), "## Accuracy against ε", *_pictures(held)]
    parts += ["## Time and bytes beside peers", *_costs(held), "## What a party's privacy costs", _privacy(rows)]
    parts += ["## Claims", _claims(held)]
    if missing:
        parts.append(f"Without a recording in the present form: {', '.join(missing)}.")
    return "\n\n".join(parts) + "\n"


def _losses(held: list[tuple[Benchmark, Results]], rows: list[Compared]) -> Iterator[str]:
    failed = [
        f"* {found.name}: {claim.words}. Published: {claim.published}. Ours: {claim.judged(results).ours}."
        for found, results in held
        for claim in found.claims
        if claim.judged(results).verdict == DOES_NOT
    ]
    yield (
        "Claims that the recorded runs contradict:\n\n" + "\n".join(failed)
        if failed
        else "No recorded claim is contradicted."
    )
    for role, words in ((PEER, "another package on the same data"), (CENTRAL, "one curator at the same ε")):
        lost = [f"* {row.benchmark}, {loss}." for row in rows if (loss := row.loss(role))]
        total = sum(1 for row in rows if role in row.held)
        yield f"Worse than {words}, beyond chance, in {len(lost)} of {total} comparisons" + (
            ":\n\n" + "\n".join(lost) if lost else "."
        )


def _pictures(held: list[tuple[Benchmark, Results]]) -> Iterator[str]:
    for found, results in held:
        for plot in found.shown:
            if isinstance(plot, Plot) and plot.x == "epsilon":
                named = replace(plot, name=f"{found.name}-{plot.name}")  # two benchmarks may have a plot of one name
                if path := named.draw(results, PICTURES):
                    yield f"![{plot.title}](images/results/{path.name})"


def _costs(held: list[tuple[Benchmark, Results]]) -> Iterator[str]:
    for found, results in held:
        for table in found.shown:
            if isinstance(table, Table) and table.costs:
                lines = table.lines(results)
                if lines:
                    yield f"### {found.name}"
                    yield from lines


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
    return markdown(head, found) if found else "Nothing is recorded yet."


def _claims(held: list[tuple[Benchmark, Results]]) -> str:
    rows = []
    for found, results in held:
        counts = Counter(claim.judged(results).verdict for claim in found.claims)
        kinds = (AGREES, DOES_NOT, CANNOT_TELL, NOT_MEASURED)
        rows.append([found.name, *(str(counts[kind]) for kind in kinds), results.recorded["commit"][:12]])
    return markdown(["benchmark", "agrees", "does not", "cannot tell", "not measured", "commit"], rows)
