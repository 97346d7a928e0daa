"""Commands that inspect and spend nothing: `dashboard`, `doctor`, `bench` and `audit`."""

import difflib
import importlib
import os
import sys
from math import inf
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from colonnade.cli import screen
from colonnade.cli.ledgers import opened
from colonnade.errors import BadInput

MAY_FAIL = "coordinator"
"""A check that is no fault of this machine: a coordinator runs while there are studies."""


def dashboard(
    ledgers: Annotated[list[Path] | None, typer.Argument(help="Ledgers, or parties' folders.")] = None,
    log: Annotated[list[str] | None, typer.Option(help="A party's log, as NAME=PATH; may be repeated.")] = None,
    coordinator: Annotated[Path | None, typer.Option(help="The coordinator's log.")] = None,
    reports: Annotated[Path | None, typer.Option(help="A folder of privacy reports to list.")] = None,
    port: Annotated[int, typer.Option(help="The port on 127.0.0.1.", min=1, max=65_535)] = 8_642,
) -> None:
    """Show budgets, studies, refusals and alerts in a browser. Reads only; reachable from this machine only."""
    import uvicorn

    from colonnade.report import dashboard as pages

    found: dict[str, Path] = {}
    for given in ledgers or []:
        path = given / "ledger.sqlite" if given.is_dir() else given
        with opened(path) as ledger:
            found[ledger.party] = path
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
        typer.Option(exists=True, file_okay=False, help="Also check this member's keys, schema and ledger."),
    ] = None,
    json: screen.AsJson = False,
) -> None:
    """Check Python, packages, randomness, samplers, keys, clock, ports, disk, compiler, algebra; with --party, a member too."""
    from colonnade.service.checks import machine_checks, member_checks
    from colonnade.service.health import run_checks

    members = [] if party is None else member_checks(party)
    results = list(run_checks((*machine_checks(directory), *members)))
    if json:
        screen.print_json([{"check": name, "sound": sound, "words": words} for name, sound, words in results])
    for name, sound, words in [] if json else results:
        screen.line(f"{'ok   ' if sound else 'AWAY ' if name == MAY_FAIL else 'WRONG'} {name:<12} {words}")
    if not all(sound or name == MAY_FAIL for name, sound, _ in results):
        raise typer.Exit(1)


def bench(
    name: Annotated[str | None, typer.Argument(help="Which benchmark, or all; without it they are listed.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small part of it; no recording.")] = False,
    record: Annotated[bool, typer.Option("--record", help="All of it, recorded. A stopped recording goes on.")] = False,
    check: Annotated[bool, typer.Option("--check", help="A sample of it, against what was recorded.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Also record what is recorded for this code.")] = False,
    long: Annotated[bool, typer.Option("--long", help="Also measure the parts that take very long.")] = False,
    minutes: Annotated[float, typer.Option(help="Start nothing later than this; what is measured is kept.")] = inf,
    seed: Annotated[int, typer.Option(help="Chooses the sample of a check.", min=0)] = 0,
) -> None:
    """Run, record or check benchmarks: published figures beside ours and beside peers'."""
    frame = _benchmark_frame()
    if name is None:
        screen.line(frame.listed())
        return
    if quick + record + check > 1:
        raise typer.BadParameter("choose one of --quick, --record and --check.")
    modes = {"quick": quick, "record": record, "check": check, "seed": seed, "again": again, "long": long}
    given: dict[str, float] = {**modes, "minutes": minutes}
    if name != "all":
        chosen = _chosen(name, frame.names())
        status = frame.one(chosen, **given)
    elif not (quick or record or check):
        raise typer.BadParameter("all takes --quick (minutes), --check (minutes) or --record (hours).")
    else:
        status = frame.everything(**given)
    if status:
        raise typer.Exit(status)


def _benchmark_frame() -> ModuleType:
    """Return the frame of the benchmarks, which are part of the checkout."""
    root = Path(__file__).parents[3]
    if not (root / "benchmarks" / "frame" / "command.py").exists():
        raise BadInput(
            "There are no benchmarks here: they are part of the source checkout, not of the installed package.",
            remedy="Clone the repository, install it with `pip install -e .`, and run this again.",
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return importlib.import_module("benchmarks.frame.command")


def _chosen(name: str, known: list[str]) -> str:
    wanted = name.replace("-", "_").lower()
    if wanted in known:
        return wanted
    near = difflib.get_close_matches(wanted, known, n=1)
    shown = [one.replace("_", "-") for one in near or known]
    hint = f"Did you mean {shown[0]!r}?" if near else f"There are: {', '.join(shown)}."
    raise typer.BadParameter(f"there is no benchmark {name!r}. {hint}", param_hint="NAME")


def audit(
    name: Annotated[str, typer.Argument(metavar="NAME", help="response, laplace, gaussian, quantiles or shared-keys.")],
    epsilon: Annotated[float, typer.Option(help="The price of one release.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Of the price, for gaussian.")] = 1e-5,
    samples: Annotated[int, typer.Option(min=1_000, help="Outputs per side.")] = 1_000_000,
    alpha: Annotated[
        float, typer.Option(min=1e-15, max=0.1, help="The probability that a sound mechanism is found at fault.")
    ] = 1e-6,
    json: screen.AsJson = False,
) -> None:
    """Audit a mechanism: a proved lower bound on its true ε, beside the ε that it claims.

    The exit status is 1 if the mechanism's claim is refuted, or if that of a control, which claims too little, is not.
    """
    import msgspec

    from colonnade.audit import KNOWN, audited

    if name not in KNOWN:
        known = ", ".join(KNOWN)
        raise typer.BadParameter(f"there is no mechanism {name!r}; there are {known}.", param_hint="NAME")
    found, control, words = audited(name, epsilon, delta, samples, alpha)
    if json:
        parts = {"mechanism": found, "control": control}
        screen.print_json({part: {**msgspec.to_builtins(one), "caught": one.caught} for part, one in parts.items()})
    else:
        screen.line(f"{name:<11} {found}")
        screen.line(f"{'control':<11} {control}")
        screen.line(f"An audit can prove a claim wrong, never right. {words} and makes the same claim.")
        if not control.caught:
            screen.line("The control was not caught, so this audit shows nothing: take more --samples.")
    if found.caught or not control.caught:
        raise typer.Exit(1)
