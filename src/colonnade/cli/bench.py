"""``colonnade bench NAME``: runs ``benchmarks/NAME/run.py`` of the source checkout that this package runs from."""

import difflib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from colonnade.cli import screen
from colonnade.errors import BadInput

__all__ = ["bench"]


def bench(
    name: Annotated[str | None, typer.Argument(help="Which benchmark; all of them if none is named.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller, less exact, and nothing is kept.")] = False,
    only_list: Annotated[bool, typer.Option("--list", help="Only list what exists.")] = False,
) -> None:
    """Run benchmarks; each prints published figures beside ours."""
    known = _benchmarks()
    if only_list:
        for one in known:
            screen.line(one)
        return
    for one in list(known) if name is None else [_chosen(name, known)]:
        screen.heading(one)
        _run(_load(one, known[one]), quick=quick)


def _benchmarks() -> dict[str, Path]:
    """Return the benchmarks of this checkout by name, written with hyphens."""
    folder = Path(__file__).parents[3] / "benchmarks"
    found = {path.parent.name.replace("_", "-"): path for path in sorted(folder.glob("*/run.py"))}
    if not found:
        raise BadInput(
            "There are no benchmarks here: they are part of the source checkout, not of the installed package.",
            remedy="Clone the repository, install it with `pip install -e .`, and run this again.",
        )
    return found


def _chosen(name: str, known: dict[str, Path]) -> str:
    wanted = name.replace("_", "-").lower()
    if wanted in known:
        return wanted
    near = difflib.get_close_matches(wanted, known, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(known)}."
    raise typer.BadParameter(f"there is no benchmark {name!r}. {hint}", param_hint="NAME")


def _run(module: ModuleType, *, quick: bool) -> None:
    """Let a benchmark run as it would as a script, which prints its own tables; one without a ``main`` is just run."""
    if not hasattr(module, "main"):
        module.run()
        return
    arguments, sys.argv = sys.argv, [str(module.__file__), *(["--quick"] if quick else [])]
    try:
        module.main()
    finally:
        sys.argv = arguments


def _load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"colonnade_benchmark_{name.replace('-', '_')}", path)
    assert spec is not None  # the path ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
