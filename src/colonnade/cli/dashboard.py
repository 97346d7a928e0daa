"""``colonnade dashboard``: watch budgets and studies in a browser on this machine. It cannot spend."""

import os
from pathlib import Path
from typing import Annotated

import typer

from colonnade.errors import BadInput

__all__ = ["dashboard"]


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
