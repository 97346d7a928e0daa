"""What the code on a page prints: a ``text`` block right under a ``python`` block is that block's output.

A page is run as a reader would, from top to bottom in one process and an empty folder. Noise comes from the operating system's
randomness, so here that is a fixed stream, and parties answer one after another; then the same page prints the same. Times are
compared as if they were equal.

``python -m tests.docs.printed --write [PAGE ...]`` runs pages and writes their outputs into them; without names, into all.
"""

import contextlib
import io
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

PART = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?P<gap>\s*^```text\n(?P<printed>.*?)^```\n)?", re.DOTALL | re.MULTILINE
)
SECONDS = re.compile(r"\b\d+(\.\d+)? s\b")


def parts(page: Path) -> list[tuple[str, str | None]]:
    """The blocks of Python on a page, each with the output that the page shows under it, if it shows one."""
    return [(found["code"], found["printed"]) for found in PART.finditer(page.read_text(encoding="utf-8"))]


def pages() -> list[Path]:
    """The README and the pages of the documentation that show what their code prints."""
    root = Path(__file__).parents[2]
    every = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    return [page for page in every if any(shown is not None for _, shown in parts(page))]


def printed(page: Path) -> list[str]:
    """Run a page in a process of its own and return what each of its blocks prints."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "tests.docs.printed", str(page.resolve()), folder],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    if done.returncode:
        raise AssertionError(done.stderr[-3000:])
    return json.loads(done.stdout)


def comparable(text: str) -> str:
    """Drop what differs from run to run: times, and spaces at the ends of lines."""
    return "\n".join(line.rstrip() for line in SECONDS.sub("_ s", text).strip().splitlines())


def written(page: Path) -> str:
    """Return the page with the outputs that it has now, where it shows outputs."""
    outputs = iter(printed(page))

    def shown(found: re.Match[str]) -> str:
        output = next(outputs)
        if found["printed"] is None:
            return found[0]
        lines = "\n".join(line.rstrip() for line in output.strip("\n").splitlines())
        return f"```python\n{found['code']}```\n\n```text\n{lines}\n```\n"

    return PART.sub(shown, page.read_text(encoding="utf-8"))


def _repeatable() -> None:
    """Replace the operating system's randomness by a fixed stream, and threads by turns."""
    import concurrent.futures
    import hashlib
    import itertools
    import os

    calls: dict[str, Iterator[int]] = {}

    def stream(count: int) -> bytes:
        """One stream per function that asks: how often another one asks, for names of runs say, may depend on time."""
        frame = sys._getframe(1)
        while frame.f_code.co_filename.endswith("privacy/randomness.py"):
            frame = frame.f_back
        asking = f"{Path(frame.f_code.co_filename).name} {frame.f_code.co_qualname}"
        call = next(calls.setdefault(asking, itertools.count()))
        return hashlib.shake_256(f"{asking} {call}".encode()).digest(count)

    class InTurn(concurrent.futures.Executor):
        def __init__(self, *_: object, **__: object) -> None:
            super().__init__()

        def submit(self, work, /, *arguments, **named):
            future: concurrent.futures.Future = concurrent.futures.Future()
            try:
                future.set_result(work(*arguments, **named))
            except BaseException as error:  # it is the caller's to raise
                future.set_exception(error)
            return future

    os.urandom = stream
    concurrent.futures.ThreadPoolExecutor = InTurn  # type: ignore[misc]


def _run(page: Path, folder: str) -> None:
    _repeatable()
    outputs, names = [], {"__name__": "__main__"}
    with contextlib.chdir(folder):
        for code, _ in parts(page):
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(compile(code, page.name, "exec"), names)
            outputs.append(output.getvalue())
    sys.stdout.write(json.dumps(outputs))


if __name__ == "__main__":
    if sys.argv[1] == "--write":
        for name in [Path(name) for name in sys.argv[2:]] or pages():
            name.write_text(written(name), encoding="utf-8")
    else:
        _run(Path(sys.argv[1]), sys.argv[2])
