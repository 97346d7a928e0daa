"""``colonnade party``: make a member's folder, show its public card, serve it, see how it is doing."""

from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli import screen
from colonnade.cli import screen as refusal
from colonnade.errors import BadInput

__all__ = ["app", "card", "init", "serve", "status"]

app = typer.Typer(
    help="One member of a federation: make its folder, serve it, see how it is doing.", no_args_is_help=True
)

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", file_okay=False, help="The member's folder.")]


@app.command()
def init(
    folder: Folder,
    name: Annotated[str, typer.Option("--name", help="The member's name in the federation, a plain word.")],
    data: Annotated[Path | None, typer.Option("--data", exists=True, help="A .parquet or .csv file.")] = None,
    id: Annotated[str, typer.Option("--id", help="The column by which people are known.")] = "person_id",  # noqa: A002
    node: Annotated[bool, typer.Option("--node", help="A compute node: no data, no policy, no ledger.")] = False,
    test_key: Annotated[
        str | None,
        typer.Option("--test-key", hidden=True, help="64 hexadecimal digits: noise that anybody can repeat."),
    ] = None,
) -> None:
    """Make keys, a policy with safe defaults, and a schema to be filled in from the data's column names and types."""
    from colonnade.service.party_folder import PartyFolder

    if node == (data is not None):
        raise BadInput("A party has --data; a compute node has none, and says --node.")
    key = None if test_key is None else _key(test_key)
    made = PartyFolder.create(folder, name=name, role="compute" if node else "data", test_key=key)
    if data is not None:
        made.write_templates(data.resolve(), id)
        screen.line(f"written: {folder / 'schema.toml'} (state bounds and levels of the columns that may be used)")
        screen.line(f"written: {folder / 'policy.toml'} (the cap of the ledger, and what is answered)")
    screen.line(f"written: {folder / 'identity.key'} (keep it secret, and a copy of it safe)")
    screen.line(f"next:    colonnade party card {folder} > {name}.card.toml, for the federation's papers")


@app.command()
def card(folder: Folder) -> None:
    """Print what is public about this member, for the federation's papers. Makes the ledger if there is none."""
    import json

    import msgspec

    from colonnade.service.party_folder import PartyFolder

    member = PartyFolder(folder)
    entries = {"name": member.name, **msgspec.structs.asdict(member.card())}
    for key, value in entries.items():
        if value:
            screen.line(f"{key} = {json.dumps(value)}")


@app.command()
def serve(
    folder: Folder,
    change_cap: Annotated[
        bool, typer.Option("--change-cap", help="Record policy.toml's [budget] as the new cap of the ledger.")
    ] = False,
) -> None:
    """Start the guard and the relay, and watch over both until this process is ended."""
    from colonnade.service.party_folder import PartyFolder
    from colonnade.service.processes import serve_member

    raise typer.Exit(serve_member(PartyFolder(folder.resolve()), change_cap=change_cap, report=refusal.report))


@app.command()
def status(
    folder: Folder,
    check: Annotated[
        bool, typer.Option("--check", help="Print nothing; exit 1 unless guard and relay are well.")
    ] = False,
) -> None:
    """Show whether guard and relay are running, who is connected, what was last asked, bytes and budget."""
    from colonnade.service.checks import member_status
    from colonnade.service.party_folder import PartyFolder

    found = member_status(PartyFolder(folder.resolve()))
    if check:
        raise typer.Exit(0 if found.well else 1)
    screen.line(f"member    {found.name} ({found.role})")
    screen.line(f"guard     {'answers' if found.account is not None else 'does not answer'}")
    screen.line(f"last      {found.last or 'nothing yet'}; {found.answered} answered, {found.refused} refused")
    if found.running:
        screen.line(f"relay     {'connected to' if found.connected else 'waiting for'} the coordinator")
        screen.line(f"bytes     {found.bytes_in:,} in, {found.bytes_out:,} out")
    else:
        screen.line("relay     not running")
    if found.budget is not None:
        spent, cap, delta = found.budget
        screen.line(f"budget    ε={spent:.6g} of {cap:.6g} spent, at δ={delta:g}")


def _key(text: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise BadInput("A test key is 64 hexadecimal digits.")
    return key
