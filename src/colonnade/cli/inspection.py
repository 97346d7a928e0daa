"""Commands that inspect and spend nothing: `ledger`, `dashboard`, `doctor`, `bench` and `audit`."""

import difflib
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from colonnade.cli import screen
from colonnade.errors import BadInput, LedgerCorrupt

if TYPE_CHECKING:
    from colonnade.party.ledger.ledger import SqliteLedger

__all__ = ["audit", "bench", "dashboard", "doctor", "ledger", "show", "verify"]

ledger = typer.Typer(
    help="Read, check, copy and put back a party's ledger. Only `restore --forfeit` charges it.",
    no_args_is_help=True,
)

LedgerPath = Annotated[
    Path, typer.Argument(metavar="PATH", exists=True, help="A ledger, or a folder of them (study.toml's ledger_dir).")
]


@ledger.command()
def show(path: LedgerPath) -> None:
    """Show rows, total, cap and what remains; answers are never shown. Opening a ledger verifies all of it."""
    for file in _files(path):
        screen.heading(file.name)
        with _opened(file) as opened:
            _print_rows(opened)


@ledger.command()
def verify(path: LedgerPath) -> None:
    """Check every page, row, hash and answer, and ask for a second opinion on the total."""
    for file in _files(path):
        screen.heading(file.name)
        with _opened(file) as opened:
            opened.verify()
            _second_opinion(opened)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("*.sqlite"))
    if not files:
        raise BadInput(f"There is no ledger in {path}.", remedy="Name a file, or a folder with *.sqlite files.")
    return files


@contextmanager
def _opened(file: Path) -> "Iterator[SqliteLedger]":
    from colonnade.party.ledger.ledger import SqliteLedger

    with SqliteLedger.open(file) as opened:
        yield opened


def _print_rows(opened: "SqliteLedger") -> None:
    from colonnade.service.checks import version_in_words

    budget, delta = opened.budget, opened.budget.delta
    rows = [
        (
            entry.sequence,
            f"{entry.when:%Y-%m-%d %H:%M:%S}",
            entry.kind,
            entry.label,
            "" if entry.loss is None else screen.figure(entry.loss.epsilon(delta)),
            "" if entry.request is None else "kept" if entry.sealed else "not kept",
        )
        for entry in opened.entries()
    ]
    screen.print_table(["row", "written (UTC)", "kind", "what", "epsilon", "answer"], rows)
    screen.line(f"party {opened.party}; ledger {opened.identity}{'; FOR TESTS ONLY' if opened.test else ''}")
    screen.line(f"data      {version_in_words(opened)}")
    screen.line(f"spent     ε={opened.spent().epsilon(delta):.9g} at δ={delta:g}")
    screen.line(f"cap       ε={budget.epsilon:.9g} at δ={delta:g}")
    screen.line(f"remaining ε={opened.remaining():.9g}")


def _second_opinion(opened: "SqliteLedger") -> None:
    """Print the total twice; refuse a ledger that shows less than was released."""
    from colonnade.audit.second_opinion import SLACK, distribution_epsilon

    delta = opened.budget.delta
    losses = [entry.loss for entry in opened.entries() if entry.loss is not None]
    recorded = opened.spent().epsilon(delta)
    screen.line(f"chain     {opened.head().sequence + 1} rows check: pages, schema, hashes, answers, cap")
    screen.line(f"ledger    ε={recorded:.6g} at δ={delta:g}, Rényi curves and pure sums")
    other = distribution_epsilon(losses, delta)
    if other is None:
        screen.line("opinion   none: it needs a row, a positive δ, and rows that are pure or zCDP")
        return
    screen.line(f"opinion   ε={other:.6g} at δ={delta:g}, privacy loss distributions (dp-accounting)")
    if not other <= recorded * (1 + SLACK):
        raise LedgerCorrupt("The ledger shows less than its rows cost by a second method; nothing was released.")


def dashboard(
    ledgers: Annotated[list[Path] | None, typer.Argument(help="Ledger files, one per party.")] = None,
    log: Annotated[list[str] | None, typer.Option(help="A party's log, as NAME=PATH; may be repeated.")] = None,
    coordinator: Annotated[Path | None, typer.Option(help="The coordinator's log.")] = None,
    reports: Annotated[Path | None, typer.Option(help="A folder of privacy reports to list.")] = None,
    port: Annotated[int, typer.Option(help="The port on 127.0.0.1.", min=1, max=65_535)] = 8_642,
) -> None:
    """Show budgets, studies, refusals and alerts in a browser. Reads only; reachable from this machine only."""
    import uvicorn

    from colonnade.report.dashboard import app as pages

    found: dict[str, Path] = {}
    for path in ledgers or []:
        with _opened(path) as opened:
            found[opened.party] = path
    logs = dict(_named(one) for one in log or [])
    if not set(logs) <= set(found):
        raise BadInput(
            f"--log names {', '.join(sorted(set(logs) - set(found)))}, but no such party's ledger was given.",
            remedy="Give that party's ledger file too.",
        )
    if not found and coordinator is None:
        raise BadInput("There is nothing to show.", remedy="Name a ledger file, or --coordinator PATH.")
    token = os.urandom(24).hex()
    typer.echo(f"Open http://127.0.0.1:{port}/?token={token}\nIt only reads, and cannot spend. Stop with Ctrl-C.")
    uvicorn.run(
        pages.dashboard(pages.Sources(found, logs, coordinator, reports), token),
        host="127.0.0.1",
        port=port,
        log_level="warning",
        access_log=False,  # an address with the token in it must not reach a log
        server_header=False,
    )


def _named(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if not equals:
        raise BadInput("--log takes NAME=PATH.", remedy="For example --log bank=bank.log.")
    return name, Path(path)


def doctor(
    directory: Annotated[
        Path, typer.Option(exists=True, file_okay=False, help="Where ledgers will be kept: is it writable and durable?")
    ] = Path(),
    party: Annotated[
        Path | None,
        typer.Option("--party", exists=True, file_okay=False, help="Also check this member's keys, schema and ledger."),
    ] = None,
) -> None:
    """Check Python, packages, randomness, samplers, keys, clock, ports, disk, compiler, algebra; with --party, a member too."""
    from colonnade.service.checks import machine_checks, member_checks
    from colonnade.service.health import run_checks

    members = [] if party is None else member_checks(party)
    results = list(run_checks((*machine_checks(directory), *members)))
    for name, sound, words in results:
        screen.line(f"{'ok   ' if sound else 'WRONG'} {name:<12} {words}")
    if not all(sound for _, sound, _ in results):
        raise typer.Exit(1)


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
        _run_benchmark(_load(one, known[one]), quick=quick)


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


def _run_benchmark(module: ModuleType, *, quick: bool) -> None:
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


def audit(
    name: Annotated[str, typer.Argument(metavar="NAME", help="response, laplace, gaussian or shared-keys.")],
    epsilon: Annotated[float, typer.Option(help="The price of one release.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Of the price, for gaussian.")] = 1e-5,
    samples: Annotated[int, typer.Option(min=1_000, help="Outputs per side.")] = 1_000_000,
    alpha: Annotated[
        float, typer.Option(min=1e-15, max=0.1, help="The probability that a sound mechanism is found at fault.")
    ] = 1e-6,
) -> None:
    """Audit a mechanism: a proved lower bound on its true ε, beside the ε that it claims."""
    from colonnade.cli import audits

    if name not in audits.KNOWN:
        known = ", ".join(audits.KNOWN)
        raise typer.BadParameter(f"there is no mechanism {name!r}; there are {known}.", param_hint="NAME")
    found, control, words = audits.audited(name, epsilon, delta, samples, alpha)
    screen.line(f"{name:<11} {found}")
    screen.line(f"{'control':<11} {control}")
    screen.line(f"An audit can prove a claim wrong, never right. {words} and makes the same claim.")
    if not control.caught:
        screen.line("The control was not caught, so this audit shows nothing: take more --samples.")
    if found.caught or not control.caught:
        raise typer.Exit(1)
