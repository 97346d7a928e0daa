"""What the verbs print with: tables that stay readable in a file, and progress that suits where it goes."""

import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    import pandas as pd

    from colonnade.coordinator.federation import Federation

__all__ = ["figure", "heading", "line", "print_budget", "print_frame", "print_table", "progress"]

WIDTH = 120


def line(text: str = "") -> None:
    """Print one line."""
    typer.echo(text)


def heading(text: str) -> None:
    """Print the title of what follows."""
    typer.echo(f"\n{text}\n{'─' * len(text)}")


def figure(value: float) -> str:
    """Return a number as a person reads it: whole numbers whole, others to four significant digits."""
    if abs(value) < 1e15 and value == int(value):
        return f"{int(value):,}"
    return f"{value:,.1f}" if 100 <= abs(value) < 1e15 else f"{value:.4g}"


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under their names, numbers to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    cells = [_column(list(column)) for column in zip(*rows, strict=True)] or [(False, [])] * len(columns)
    for name, (numbers, _) in zip(columns, cells, strict=True):
        table.add_column(Text(name), justify="right" if numbers else "left", overflow="fold")
    for row in zip(*(texts for _, texts in cells), strict=True):
        table.add_row(*(Text(text) for text in row))
    console = Console(highlight=False, file=sys.stdout)
    if not console.is_terminal:
        console.width = WIDTH
    console.print(table)


def _column(values: list[object]) -> tuple[bool, list[str]]:
    """Return whether a column is made of numbers, and its cells as text: large numbers with as many digits each."""
    numbers = [value for value in values if isinstance(value, float | int) and not isinstance(value, bool)]
    if not values or len(numbers) != len(values):
        return False, [str(value) for value in values]
    if max(map(abs, numbers)) >= 100 and any(value != round(value) for value in numbers if math.isfinite(value)):
        return True, [f"{value:,.1f}" for value in numbers]
    return True, [figure(value) for value in numbers]


def print_frame(frame: "pd.DataFrame") -> None:
    """Print a frame, its index first."""
    shown = frame.reset_index()
    print_table([str(name) for name in shown.columns], shown.astype(object).to_numpy().tolist())


def print_budget(federation: "Federation") -> None:
    """Print what each ledger has spent, what remains, and its cap."""
    print_frame(federation.budget().rename(columns={"epsilon": "cap epsilon", "delta": "cap delta"}))


@contextmanager
def progress() -> Iterator[None]:
    """Show the steps of studies as a spinner on a terminal, as plain lines anywhere else; an explicit choice stands."""
    chosen = os.environ.get("COLONNADE_PROGRESS")
    if chosen is None:
        os.environ["COLONNADE_PROGRESS"] = "auto" if sys.stderr.isatty() else "lines"
    try:
        yield
    finally:
        if chosen is None:
            os.environ.pop("COLONNADE_PROGRESS", None)
