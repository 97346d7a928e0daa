"""A progress line for long work: a spinner on a terminal, plain lines where there is none, silence in a notebook cell's output
file or a library call that nobody watches.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[str], None]]:
    """Yield a function that announces the step at hand.

    ``COLONNADE_PROGRESS=0`` silences it, ``=lines`` forces plain lines.
    """
    mode = os.environ.get("COLONNADE_PROGRESS", "auto")
    if mode == "lines":
        yield lambda step: print(f"{title}: {step}", file=sys.stderr, flush=True)  # noqa: T201  # this is its purpose
    elif mode == "0" or not sys.stderr.isatty():
        yield lambda _: None
    else:
        from rich.console import Console

        with Console(stderr=True).status(title) as status:
            yield lambda step: status.update(f"{title}: {step}")
