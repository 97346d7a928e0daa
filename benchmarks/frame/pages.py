"""The page of a benchmark, from its recorded results: tables, plots, claims, grid, circumstances."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

from benchmarks.frame.benchmark import Benchmark, Label
from benchmarks.frame.intervals import Sample
from benchmarks.frame.records import Results

OURS, CENTRAL, PEER, PLAIN = "ours", "central", "peer", "plain"
"""Roles in a comparison: ours; one curator at the same price; somebody else's; without privacy."""

MOST_TICKS = 6
"""With so few places along an axis, each has its number."""
NAMED_SIZE, NAMED_GAP = (7.6, 3.4), 0.075
"""Inches of a plot whose lines have names, and the least distance of two names, as a part of its height."""
ACROSS = 3
"""Panels of a plot in one row."""


@dataclass(frozen=True)
class Table:
    """A table of one part.

    Parameters
    ----------
    part
        Which part.
    values
        Names of the values shown, with their headings.
    rows
        Labels that tell rows apart, with their headings.
    across
        A label whose values are columns; then there is one entry in ``values``.
    where
        Only rows with these labels.
    words
        A sentence above it.
    digits
        Significant digits.
    roles
        Who the columns of ``across`` are: ``{"gradient": "ours", "central DPSGD": "central"}``. The results page uses them.
    higher
        Larger values are better; ``None`` where that is not said.
    costs
        It shows time or bytes beside peers; the results page has it among those.
    filled
        Only rows that have this value.
    formats
        How cells of a value are written, if not as a mean with half of its interval.
    """

    part: str
    values: Mapping[str, str]
    rows: Mapping[str, str]
    across: str | None = None
    where: Mapping[str, Label] = field(default_factory=dict)
    words: str = ""
    digits: int = 4
    roles: Mapping[str, str] = field(default_factory=dict)
    higher: bool | None = None
    costs: bool = False
    filled: str = ""
    formats: Mapping[str, Callable[[Sample], str]] = field(default_factory=dict)

    def lines(self, results: Results) -> list[str]:
        """Return it in Markdown, with the number of runs; nothing where nothing was measured."""
        held = [row for row in results.rows(self.part, **self.where) if not self.filled or self.filled in row[1]]
        if not held:
            return []
        body = self._pivoted(held) if self.across else self._plain(held)
        counts = sorted({sample.runs for _, samples in held for name, sample in samples.items() if name in self.values})
        one = results.parts[self.part]
        spread = ", mean ± half of the 95 % interval"
        grid = "exact" if one.exact else "1 run" if counts == [1] else f"{_span(counts)} runs{spread}"
        head = f"{self.words} ({grid}.)" if self.words else f"({grid}.)"
        return [head, body]

    def _key(self, labels: Mapping[str, Label]) -> tuple[Label | None, ...]:
        return tuple(labels.get(name) for name in self.rows)

    def _pivoted(self, held: list[Any]) -> str:
        assert self.across is not None
        value = next(iter(self.values))
        columns = list(dict.fromkeys(labels[self.across] for labels, _ in held if self.across in labels))
        cells: dict[Any, dict[Label, str]] = {}
        for labels, samples in held:
            if value in samples and self.across in labels:
                cells.setdefault(self._key(labels), {})[labels[self.across]] = self._cell(value, samples[value])
        rows = [[*map(_label, key), *(found.get(column, "–") for column in columns)] for key, found in cells.items()]
        return markdown([*self.rows.values(), *map(_label, columns)], rows)

    def _plain(self, held: list[Any]) -> str:
        rows = [
            [*map(_label, self._key(labels)), *(self._cell(name, samples.get(name)) for name in self.values)]
            for labels, samples in held
        ]
        return markdown([*self.rows.values(), *self.values.values()], rows)

    def _cell(self, value: str, sample: Sample | None) -> str:
        if sample is None:
            return "–"
        return self.formats[value](sample) if value in self.formats else shown(sample, self.digits)


@dataclass(frozen=True)
class Plot:
    """A plot of one part: one panel per set, one line per method.

    Parameters
    ----------
    name
        The file, without its ending.
    part, value
        What is drawn.
    x
        The label along the axis, which is logarithmic.
    line
        The label that tells lines apart.
    panel
        The label that tells panels apart.
    title, up
        The heading, and what the values are.
    log
        The values are on a logarithmic axis too.
    where
        Only rows with these labels.
    named
        Lines have their names at their right ends, in place of a legend. For a picture of one panel that stands by itself.
    """

    name: str
    part: str
    value: str
    x: str
    line: str
    title: str
    up: str
    panel: str | None = None
    log: bool = False
    where: Mapping[str, Label] = field(default_factory=dict)
    named: bool = False

    def draw(self, results: Results, folder: Path) -> Path | None:
        """Write an SVG picture, and return its path; ``None`` where nothing was measured or matplotlib is missing."""
        panels: dict[Any, dict[Any, list[tuple[float, Sample]]]] = {}
        flat: dict[Any, dict[Any, Sample]] = {}
        for labels, samples in results.rows(self.part, **self.where):
            if self.value not in samples:
                continue
            panel, line, x = labels.get(self.panel or ""), labels.get(self.line, ""), labels.get(self.x)
            if isinstance(x, int | float):
                panels.setdefault(panel, {}).setdefault(line, []).append((float(x), samples[self.value]))
            elif x is not None:  # without privacy: the same at every ε
                flat.setdefault(panel, {})[line] = samples[self.value]
        if not panels:
            return None
        try:
            import matplotlib as mpl
        except ModuleNotFoundError:
            return None
        mpl.use("Agg")
        import matplotlib.pyplot as plt

        mpl.rcParams.update({"svg.hashsalt": self.name, "svg.fonttype": "none"})
        wide = min(len(panels), ACROSS)
        high = -(-len(panels) // wide)
        size = NAMED_SIZE if self.named else (4.2 * wide, 3.2 * high)
        figure, axes = plt.subplots(high, wide, figsize=size, squeeze=False)
        for axis in axes.flat[len(panels) :]:
            axis.set_visible(False)
        for axis, (panel, lines) in zip(axes.flat, panels.items(), strict=False):
            for line, points in lines.items():
                self._line(axis, str(line), sorted(points, key=lambda point: point[0]))
            for (line, sample), style in zip(flat.get(panel, {}).items(), cycle(("--", ":", "-.")), strict=False):
                axis.axhline(sample.mean, linestyle=style, linewidth=1, color="grey", label=str(line))
            axis.set(
                xscale="log", xlabel="ε" if self.x == "epsilon" else self.x, **({"yscale": "log"} if self.log else {})
            )
            places = sorted({x for points in lines.values() for x, _ in points})
            if len(places) <= MOST_TICKS:
                axis.set_xticks(places, [f"{place:g}" for place in places])
                axis.minorticks_off()
            axis.set_title("" if panel is None else str(panel), fontsize=9)
            axis.grid(alpha=0.3)
            if self.named:
                self._names(axis, lines, flat.get(panel, {}))
            else:
                axis.legend(fontsize=6, loc="best")
        for row in axes:
            row[0].set_ylabel(self.up)
        figure.suptitle(self.title, fontsize=10)
        figure.tight_layout()
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.svg"
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
        path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")
        return path

    @staticmethod
    def _names(axis: Any, lines: Mapping[Any, list[tuple[float, Sample]]], flat: Mapping[Any, Sample]) -> None:
        """Write names beside the right ends of lines, from the top down, so far apart that they can be read."""
        ends = {str(line): max(points, key=lambda point: point[0])[1].mean for line, points in lines.items()}
        colours = {str(one.get_label()): one.lines[0].get_color() for one in axis.containers}
        ends |= {str(line): sample.mean for line, sample in flat.items()}
        low, high = axis.get_ylim()
        gap = NAMED_GAP * (high - low)
        place = max(ends.values()) + 1.5 * gap
        for name, end in sorted(ends.items(), key=lambda one: -one[1]):
            place = min(end + gap / 2 if name in flat else end, place - gap)
            beside = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 9}
            axis.annotate(name, (1.02, place), color=colours.get(name, "dimgrey"), annotation_clip=False, **beside)
        axis.spines[["top", "right"]].set_visible(False)

    @staticmethod
    def _line(axis: Any, name: str, points: list[tuple[float, Sample]]) -> None:
        across, means = [x for x, _ in points], [sample.mean for _, sample in points]
        halves = [(sample.interval()[1] - sample.interval()[0]) / 2 if sample.runs > 1 else 0.0 for _, sample in points]
        axis.errorbar(across, means, yerr=halves, marker="o", markersize=3, capsize=2, linewidth=1.2, label=name)


# Pages ------------------------------------------------------------------------------------------------------------------------


def page(benchmark: Benchmark, results: Results, *, pictures: Path | None = None) -> str:
    """Return the page of a benchmark, and draw its pictures into a folder, if one is given."""
    parts = [
        f"# {benchmark.title}",
        f"Written by `colonnade bench {benchmark.name.replace('_', '-')}` from `results/latest.json`; do not edit.",
        benchmark.about.strip(),
    ]
    for one in benchmark.shown:
        if isinstance(one, str):
            parts.append(one)
        elif isinstance(one, Table):
            parts += one.lines(results)
        elif pictures and (path := one.draw(results, pictures)):
            folder = f"{pictures.name}/" if pictures.parent == benchmark.folder else ""
            parts.append(f"![{one.title}]({folder}{path.name})")
    if benchmark.claims:
        parts += ["## Published, ours, agrees?", claims_table(benchmark, results)]
    parts += ["## Grid", grid(benchmark, results), "## Recorded", _recorded(results)]
    return "\n\n".join(parts) + "\n"


def claims_table(benchmark: Benchmark, results: Results) -> str:
    """Return each claim with what was published, what was measured, over how many runs, and the verdict."""
    rows = []
    for claim in benchmark.claims:
        one = claim.judged(results)
        rows.append([claim.words, claim.bar, one.ours, str(one.runs), one.verdict])
    return markdown(["claim", "published, or the bar", "ours, 95 % interval", "runs", "agrees?"], rows)


def grid(benchmark: Benchmark, results: Results) -> str:
    """Return what was measured how often, and what was not and why."""
    rows = []
    for part in benchmark.parts:
        held = results.parts.get(part.name)
        if held is None:
            continue
        names = dict.fromkeys(name for case in held.cases for name in case)
        cases = "; ".join(
            f"{name}: {', '.join(dict.fromkeys(_label(c[name]) for c in held.cases if name in c))}" for name in names
        )
        whole = f"{held.runs} of {part.runs}" if held.runs != part.runs else str(part.runs)
        rows.append([part.name, cases or "one case", whole, f"{held.seconds / 60:.1f}"])
    lines = [markdown(["part", "cases", "runs", "minutes"], rows)]
    missing = [
        f"* {name}, {', '.join(f'{k} {v}' for k, v in case.items())}: {why}"
        for name, held in results.parts.items()
        for case, why in held.skipped
    ]
    missing += [f"* {name}, beside the others: {why}" for name, held in results.parts.items() for why in held.absent]
    return "\n\n".join([*lines, "Not measured:\n\n" + "\n".join(missing)] if missing else lines)


def _recorded(results: Results) -> str:
    return "\n".join(f"* {name}: {value}" for name, value in results.recorded.items())


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def shown(sample: Sample, digits: int = 4) -> str:
    """Return a mean with half of its interval."""
    low, high = sample.interval()
    mean = f"{sample.mean:,.{digits}g}" if abs(sample.mean) < 10**digits else f"{sample.mean:,.0f}"
    half = (high - low) / 2
    if half <= 1e-9 * abs(sample.mean) or sample.runs < 2 or sample.exact:
        return mean
    return f"{mean} ± {half:,.0f}" if half >= 1_000 else f"{mean} ± {half:.2g}"


def _label(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return "–" if value is None else str(value)
    return f"{value:g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _span(counts: Sequence[int]) -> str:
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
