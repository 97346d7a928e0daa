"""What a benchmark is: parts to measure, claims to judge, and a page."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.frame.claims import Claim
    from benchmarks.frame.pages import Plot, Table

Label = str | int | float
Case = Mapping[str, Any]


class Unavailable(Exception):  # said on the page, not a fault
    """A case cannot be measured here: a data set or a peer is missing. The page says why.

    Raised by a measure that has yielded rows, it is about what would have come after them. A measure may also yield it, for one
    thing that is missing beside others.
    """


@dataclass(frozen=True)
class Row:
    """What one run of one case found about one thing.

    Parameters
    ----------
    labels
        What was measured, such as the set, the method and ε. Rows with the same labels are runs of the same thing.
    values
        Numbers by name.
    """

    labels: Mapping[str, Label]
    values: Mapping[str, float]


@dataclass(frozen=True)
class Part:
    """A grid of cases, each measured several times.

    Parameters
    ----------
    name
        What it is called in the results.
    measure
        Called as ``measure(run, **case)``. It yields rows, or `Unavailable` for what is missing beside them.
        ``run`` counts from 1 and is meant as a seed.
    cases
        The grid.
    runs
        How often each case is measured.
    minutes
        How long the whole part is planned to take on one core.
    quick
        The cases of a short run; without it the first case.
    quick_runs
        How often each is measured in a short run.
    exact
        The values do not depend on chance or on the machine, so one run is enough to tell.
    machine
        Names of values that depend on the machine, such as seconds. A check on another machine leaves them out.
    alone
        Nothing else runs beside it. By default that holds for parts with values that depend on the machine.
    long
        It takes so long, or so much disk, that it is measured only when asked for (``--long``).
    """

    name: str
    measure: Callable[..., Iterable[Row | Unavailable]]
    cases: Sequence[Case]
    runs: int
    minutes: float
    quick: Sequence[Case] = ()
    quick_runs: int = 1
    exact: bool = False
    machine: frozenset[str] = frozenset()
    alone: bool | None = None
    long: bool = False

    @property
    def undisturbed(self) -> bool:
        """Return whether nothing else may run beside it."""
        return bool(self.machine) if self.alone is None else self.alone

    def units(self, *, quick: bool) -> Iterator[tuple[Case, int]]:
        """Yield every case with every run; a run of all cases before the next, so that an early end has all cases."""
        cases, runs = (self.quick or self.cases[:1], self.quick_runs) if quick else (self.cases, self.runs)
        for run in range(1, runs + 1):
            for case in cases:
                yield case, run


@dataclass(frozen=True)
class Benchmark:
    """Parts to measure, claims to judge and tables to show.

    Parameters
    ----------
    name
        The name of its folder.
    title
        The title of its page, in Markdown.
    about
        What is measured and how, in Markdown; usually the docstring of ``run.py``.
    parts
        What is measured.
    claims
        What the paper, or an issue, says that should be seen.
    shown
        Tables and plots of the page, in order. A string is a paragraph; one that starts with ``## `` is a heading.
    packages
        Whose versions are recorded.
    needs
        What a usual machine lacks, such as a GPU. Without it nothing is recorded, and the last recording stays.
    device
        Returns the name of what it needs, for its page.
    """

    name: str
    title: str
    about: str
    parts: Sequence[Part]
    claims: "Sequence[Claim]" = ()
    shown: "Sequence[Table | Plot | str]" = ()
    packages: Sequence[str] = ("numpy",)
    needs: str = ""
    device: Callable[[], str] | None = None

    @property
    def folder(self) -> Path:
        """Where it and its results are."""
        return Path(__file__).parents[1] / self.name

    def minutes(self, workers: int = 1, *, long: bool = False) -> float:
        """Return how long a recording is planned to take, with so many processes for the parts that share the machine."""
        parts = [part for part in self.parts if long or not part.long]
        return sum(part.minutes / (1 if part.undisturbed else workers) for part in parts)

    def part(self, name: str) -> Part:
        """Return a part by its name."""
        return next(part for part in self.parts if part.name == name)
