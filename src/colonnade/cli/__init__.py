"""The command line: one verb per module, which parses, calls and prints.

Exit status: 0 done; 1 refused or failed (a code, what happened, whether budget was spent, what to do); 2 usage. A verb
imports what it needs when it runs, so that ``colonnade --help`` is quick.
"""

from typing import Annotated

import typer

from colonnade.cli import coordinator, demo, federation, models, party, run
from colonnade.cli import evidence as audit
from colonnade.cli import evidence as bench
from colonnade.cli import look as dashboard
from colonnade.cli import look as doctor
from colonnade.cli import look as ledger
from colonnade.cli import look as report
from colonnade.cli.screen import RefusingGroup

__all__ = ["app"]

app = typer.Typer(
    name="colonnade",
    cls=RefusingGroup,
    help="Count, cluster, reduce and model columns of different organisations, privately, by an untrusted coordinator.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        from colonnade._version import __version__

        typer.echo(f"colonnade {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Options before the verb."""


app.command("demo")(demo.demo)
app.command("run")(run.run)
app.command("preview")(run.preview)
app.command("evaluate")(models.evaluate)
app.command("predict")(models.predict)
app.add_typer(ledger.app, name="ledger")
app.add_typer(party.app, name="party")
app.add_typer(federation.app, name="federation")
app.add_typer(coordinator.app, name="coordinator")
app.command("report")(report.report)
app.command("doctor")(doctor.doctor)
app.command("bench")(bench.bench)
app.command("audit")(audit.audit)
app.command("dashboard")(dashboard.dashboard)
