"""Commands that look and spend nothing: `ledger`, `report`, `dashboard` and `doctor`."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colonnade.cli import screen
from colonnade.errors import BadInput, LedgerCorrupt

if TYPE_CHECKING:
    from colonnade.party.ledger.ledger import SqliteLedger

__all__ = ["app", "dashboard", "doctor", "report", "show", "verify"]


app = typer.Typer(
    help="Read and check a party's ledger. Neither command spends; one of format 2 is migrated.",
    no_args_is_help=True,
)

LedgerPath = Annotated[
    Path, typer.Argument(metavar="PATH", exists=True, help="A ledger, or a folder of them (study.toml's ledger_dir).")
]


@app.command()
def show(path: LedgerPath) -> None:
    """Show rows, total, cap and what remains; answers are never shown. Opening a ledger verifies all of it."""
    for file in _files(path):
        with _opened(file) as ledger:
            _show(ledger)


@app.command()
def verify(path: LedgerPath) -> None:
    """Check every page, row, hash and answer, and ask for a second opinion on the total."""
    for file in _files(path):
        with _opened(file) as ledger:
            ledger.verify()
            _second_opinion(ledger)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("*.sqlite"))
    if not files:
        raise BadInput("There is no ledger in this folder.", remedy="Name a file, or a folder with *.sqlite files.")
    return files


@contextmanager
def _opened(file: Path) -> "Iterator[SqliteLedger]":
    from colonnade.party.ledger.ledger import SqliteLedger

    screen.heading(file.name)
    with SqliteLedger.open(file) as ledger:
        yield ledger


def _show(ledger: "SqliteLedger") -> None:
    budget, delta = ledger.budget, ledger.budget.delta
    rows = [
        (
            entry.sequence,
            f"{entry.when:%Y-%m-%d %H:%M:%S}",
            entry.kind,
            entry.label,
            "" if entry.loss is None else screen.figure(entry.loss.epsilon(delta)),
            "" if entry.request is None else "kept" if entry.sealed else "not kept",
        )
        for entry in ledger.entries()
    ]
    screen.print_table(["row", "written (UTC)", "kind", "what", "epsilon", "answer"], rows)
    screen.line(f"party {ledger.party}; ledger {ledger.identity}{'; FOR TESTS ONLY' if ledger.test else ''}")
    screen.line(f"spent     ε={ledger.spent().epsilon(delta):.9g} at δ={delta:g}")
    screen.line(f"cap       ε={budget.epsilon:.9g} at δ={delta:g}")
    screen.line(f"remaining ε={ledger.remaining():.9g}")


def _second_opinion(ledger: "SqliteLedger") -> None:
    """Print the total twice; refuse a ledger that shows less than was released."""
    from colonnade.audit.second_opinion import SLACK, distribution_epsilon

    delta = ledger.budget.delta
    losses = [entry.loss for entry in ledger.entries() if entry.loss is not None]
    recorded = ledger.spent().epsilon(delta)
    screen.line(f"chain     {ledger.head().sequence + 1} rows check: pages, schema, hashes, answers, cap")
    screen.line(f"ledger    ε={recorded:.6g} at δ={delta:g}, Rényi curves and pure sums")
    other = distribution_epsilon(losses, delta)
    if other is None:
        screen.line("opinion   none: it needs a row, a positive δ, and rows that are pure or zCDP")
        return
    screen.line(f"opinion   ε={other:.6g} at δ={delta:g}, privacy loss distributions (dp-accounting)")
    if not other <= recorded * (1 + SLACK):
        raise LedgerCorrupt("The ledger shows less than its rows cost by a second account; nothing was released.")


def report(
    source: Annotated[
        Path,
        typer.Argument(metavar="SOURCE", exists=True, dir_okay=False, help="study.toml, or what est.save() wrote."),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", dir_okay=False, help="Where to; by default beside the source.")
    ] = None,
) -> None:
    """Write one self-contained HTML file to read, print and sign: who could see what, at what price, and the ledgers."""
    target = source.with_suffix(".html") if output is None else output
    written = _of_study_file(source, target) if source.suffix == ".toml" else _of_model(source, target)
    screen.line(f"written: {written}")


def _of_study_file(source: Path, target: Path) -> Path:
    """Report on studies that were run: what they released is kept, and is returned at no further price."""
    from colonnade.report import document
    from colonnade.service import study_file

    asked = study_file.read(source)
    with asked.federation(spend=False) as federation, screen.progress():
        asked.require_finished(federation)
        for entry in asked.studies:
            entry.estimator.fit(federation, repeat=entry.repeat)
        studies = [entry.estimator for entry in asked.studies]
        return document.write(studies, target, federation=federation, title=f"Privacy report: {source.name}")


def _of_model(source: Path, target: Path) -> Path:
    from colonnade.estimators.catalogue import load
    from colonnade.report import document

    return document.write([load(source)], target, title=f"Privacy report: {source.name}")


def dashboard(
    ledgers: Annotated[list[Path] | None, typer.Argument(help="Ledger files, one a party.")] = None,
    log: Annotated[list[str] | None, typer.Option(help="A party's log, as NAME=PATH; may be repeated.")] = None,
    coordinator: Annotated[Path | None, typer.Option(help="The coordinator's log.")] = None,
    reports: Annotated[Path | None, typer.Option(help="A folder of privacy reports to list.")] = None,
    port: Annotated[int, typer.Option(help="The port on 127.0.0.1.", min=1, max=65_535)] = 8_642,
) -> None:
    """Show budgets, studies, refusals and alerts in a browser. Reads only; reachable from this machine only."""
    from colonnade.party.ledger.ledger import SqliteLedger
    from colonnade.report.dashboard.app import Sources
    from colonnade.report.dashboard.app import dashboard as application

    found: dict[str, Path] = {}
    for path in ledgers or []:
        with SqliteLedger.open(path) as ledger:
            found[ledger.party] = path
    logs = dict(_named(one) for one in log or [])
    if not set(logs) <= set(found):
        raise BadInput("--log names a party without a ledger here.", remedy="Give the party's ledger too.")
    if not found and coordinator is None:
        raise BadInput("There is nothing to show.", remedy="Name a ledger file, or --coordinator PATH.")
    token = os.urandom(24).hex()
    import uvicorn

    typer.echo(f"Open http://127.0.0.1:{port}/?token={token}\nIt shows what is; it cannot spend. Stop with Ctrl-C.")
    uvicorn.run(
        application(Sources(found, logs, coordinator, reports), token),
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
    from colonnade.service.checks import examined, machine_checks, member_checks

    members = [] if party is None else member_checks(party)
    results = list(examined((*machine_checks(directory), *members)))
    for name, sound, words in results:
        screen.line(f"{'ok   ' if sound else 'WRONG'} {name:<12} {words}")
    if not all(sound for _, sound, _ in results):
        raise typer.Exit(1)
