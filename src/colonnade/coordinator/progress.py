"""One line on a terminal that says what a study is doing, and for how long it has been running."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress_line"]


@contextmanager
def progress_line(title: str) -> Iterator[Callable[[str], None]]:
    """Yield a function that announces the current step on a terminal, beside the time. Elsewhere nothing is written.

    ``COLONNADE_PROGRESS=0`` silences it. ``COLONNADE_PROGRESS=lines`` writes plain lines, on a terminal or not.
    """
    mode = os.environ.get("COLONNADE_PROGRESS", "auto")
    if mode == "lines":
        yield lambda step: print(f"{title}: {step}", file=sys.stderr, flush=True)  # noqa: T201  # this is its purpose
    elif mode == "0" or not sys.stderr.isatty():
        yield lambda _: None
    else:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
            task = shown.add_task(title)
            yield lambda step: shown.update(task, description=f"{title}: {step}")
