"""The command line. Each verb parses its arguments, calls the work and prints.

Exit status: 0 done; 1 refused or failed (a code, what happened, whether budget was spent, what to do); 2 usage. The modules of
the verbs are light. What a verb needs is imported when it runs, so that ``colonnade --help`` is quick.
"""

from typing import Annotated

import typer

from colonnade._version import __version__
from colonnade.cli import inspection, ledgers, members, studies
from colonnade.cli.screen import RefusingGroup

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
        typer.echo(f"colonnade {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Options before the verb."""


app.command("demo")(studies.demo)
app.command("run")(studies.run)
app.command("preview")(studies.preview)
app.command("schema")(studies.schema)
app.command("evaluate")(studies.evaluate)
app.command("predict")(studies.predict)
app.command("sample")(studies.sample)
ledgers.ledger.command("backup")(ledgers.backup)
ledgers.ledger.command("restore")(ledgers.restore)
members.party.command("attest")(ledgers.attest)
studies.coordinator.command("attest")(ledgers.attest_coordinator)
ledgers.ledger.command("raise")(members.raise_cap)
members.party.command("approve")(members.approve)
members.party.command("refused")(members.refused)
members.party.command("erase")(members.erase)
members.federation.command("introduce")(members.introduce)
members.federation.command("revoke")(members.revoke)
app.add_typer(members.analyst, name="analyst")
app.add_typer(ledgers.ledger, name="ledger")
app.add_typer(members.party, name="party")
app.add_typer(members.federation, name="federation")
app.add_typer(studies.coordinator, name="coordinator")
app.command("report")(studies.report)
app.command("doctor")(inspection.doctor)
app.command("bench")(inspection.bench)
app.command("audit")(inspection.audit)
app.command("dashboard")(inspection.dashboard)
