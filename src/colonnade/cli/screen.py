"""What the command line shows: results, progress, and refusals.

A refusal has four parts: a code, what happened, whether budget was spent, what to do. Never a traceback. Of an error that
is not ours only the type is shown, because its text may quote data; ``COLONNADE_TRACEBACK=1`` shows all of it, for somebody
who may see the data.
"""

import json
import math
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from colonnade.errors import ColonnadeError

if TYPE_CHECKING:
    import pandas as pd

    from colonnade.coordinator.federation import Federation


_CONTROL = (typer.Exit, typer.Abort)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
"""The option of every verb that shows something."""


def describe(error: ColonnadeError) -> dict[str, Any]:
    """Return an error's four parts, for files."""
    return {
        "code": error.code,
        "message": error.message,
        "spent": None if error.spent is None else dict(error.spent),
        "unknown": list(error.cost.unknown),
        "remedy": error.remedy,
    }


def report(error: ColonnadeError) -> None:
    """Print an error's four parts."""
    _print(error.code, error.message, error.cost.words, error.remedy)


class RefusingGroup(TyperGroup):
    """A group of commands whose failures are reported in one way."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; turn whatever it raises into a report and exit status 1."""
        try:
            return super().invoke(ctx)
        except ColonnadeError as error:
            report(error)
        except KeyboardInterrupt:
            _interrupted()
        except BrokenPipeError:
            raise  # the reader of our output has seen enough: the parser ends without a word
        except Exception as error:
            if _is_usage(error) or isinstance(error, _CONTROL) or os.environ.get("COLONNADE_TRACEBACK"):
                raise
            _unexpected(error)
        raise typer.Exit(1)


def _is_usage(error: Exception) -> bool:
    """Return whether this is the parser's own complaint, which ends with exit status 2."""
    return hasattr(error, "exit_code") and hasattr(error, "show")


def _interrupted() -> None:
    _print(
        "interrupted",
        "Stopped from the keyboard.",
        "What had been released is paid for and recorded in the ledgers.",
        "Run the same command again: what was released is returned at no further price.",
    )


def _unexpected(error: Exception) -> None:
    _print(
        "internal-error",
        f"An unexpected error: {type(error).__name__}.",
        "What had been released is paid for and recorded in the ledgers: see `colonnade ledger show`.",
        "Run again with COLONNADE_TRACEBACK=1, where the data may be seen, and report what it shows.",
    )


def _print(code: str, message: str, account: str, remedy: str) -> None:
    typer.echo(f"refused  [{code}]", err=True)
    for label, words in (("what", message), ("spent", account), ("do", remedy)):
        typer.echo(f"  {label:<6} {words}", err=True)


WIDTH = 120


def line(text: str = "") -> None:
    """Print one line."""
    typer.echo(text)


def print_json(content: Any) -> None:
    """Print one JSON document, of plain values."""
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))


def heading(text: str) -> None:
    """Print the title of what follows."""
    typer.echo(f"\n{text}\n{'─' * len(text)}")


def figure(value: float) -> str:
    """Return a number as a person reads it: whole numbers whole, others to four significant digits, a dash for none."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if abs(value) < 1e15 and value == int(value):
        return f"{int(value):,}"
    return f"{value:,.1f}" if 100 <= abs(value) < 1e15 else f"{value:.4g}"


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under their names, numbers to the right."""
    from rich import box, console, table, text

    grid = table.Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    cells = [_column(list(column)) for column in zip(*rows, strict=True)] or [(False, [])] * len(columns)
    for name, (numbers, _) in zip(columns, cells, strict=True):
        grid.add_column(text.Text(name), justify="right" if numbers else "left", overflow="fold")
    for row in zip(*(texts for _, texts in cells), strict=True):
        grid.add_row(*(text.Text(cell) for cell in row))
    terminal = console.Console(highlight=False, file=sys.stdout)
    if not terminal.is_terminal:
        terminal.width = WIDTH
    terminal.print(grid)


def _column(values: list[object]) -> tuple[bool, list[str]]:
    """Return whether a column is made of numbers, and its cells as text: large numbers with as many digits each."""
    numbers = [value for value in values if isinstance(value, float | int) and not isinstance(value, bool)]
    if not values or len(numbers) != len(values):
        return False, [str(value) for value in values]
    finite = [value for value in numbers if math.isfinite(value)]
    large = max(map(abs, finite), default=0) >= 100 and min(abs(value) for value in finite if value) >= 0.1
    if large and any(value != round(value) for value in finite):
        return True, [f"{value:,.1f}" if math.isfinite(value) else figure(value) for value in numbers]
    return True, [figure(value) for value in numbers]


def print_frame(frame: "pd.DataFrame") -> None:
    """Print a frame, its index first."""
    shown = frame.reset_index()
    print_table([str(name) for name in shown.columns], shown.astype(object).to_numpy().tolist())


def print_budget(federation: "Federation") -> None:
    """Print what each ledger has spent, what remains, and its cap."""
    print_frame(federation.budget().rename(columns={"epsilon": "cap epsilon", "delta": "cap delta"}))
