"""``colonnade party``: make a member's folder, show its public card, serve it, see how it is doing."""

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from colonnade.cli import refusal, screen
from colonnade.errors import BadInput, ColonnadeError

__all__ = ["app", "card", "init", "serve", "status"]

app = typer.Typer(
    help="One member of a federation: make its folder, serve it, see how it is doing.", no_args_is_help=True
)

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", file_okay=False, help="The member's folder.")]

STALE = 10.0
"""Seconds after which a relay that writes its status every second is not running."""


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
    from colonnade.event_log import Log
    from colonnade.service import processes as serving
    from colonnade.service.party_folder import PartyFolder, read_papers
    from colonnade.service.supervisor import Supervisor
    from colonnade.transport.kit import Kit, require_engine

    require_engine()  # imported by the relay alone: the guard's process never has it
    member = PartyFolder(folder.resolve())
    log = Log(sys.stderr, member.name, "supervisor")
    Kit(member.path / "kit").credentials("client")
    try:
        read_papers(member.papers).check()
    except ColonnadeError as error:
        log.event("papers-refused", code=error.code)
        raise
    supervisor = Supervisor(
        {
            "guard": lambda: serving.run_guard(member, change_cap=change_cap),
            "relay": lambda: serving.run_relay(member),
        },
        log,
        refusal.report,
    )
    raise typer.Exit(supervisor.run())


@app.command()
def status(
    folder: Folder,
    check: Annotated[
        bool, typer.Option("--check", help="Print nothing; exit 1 unless guard and relay are well.")
    ] = False,
) -> None:
    """Show whether guard and relay are running, who is connected, what was last asked, bytes and budget."""
    from colonnade.service.party_folder import PartyFolder

    member = PartyFolder(folder.resolve())
    account, relay = _account(member), _read(member.path / "relay.status")
    well = account is not None and relay is not None and relay["connected"]
    if not check:
        _show(member, account, relay)
    if check and not well:
        raise typer.Exit(1)


def _show(member: Any, account: Any, relay: dict[str, Any] | None) -> None:
    guard = _read(member.path / "guard.status", stale=None) or {}
    last = " ".join(f"{key}={value}" for key, value in guard.get("last", {}).items()) or "nothing yet"
    screen.line(f"member    {member.name} ({member.role})")
    screen.line(f"guard     {'answers' if account is not None else 'does not answer'}")
    screen.line(f"last      {last}; {guard.get('answered', 0)} answered, {guard.get('refused', 0)} refused")
    if relay is None:
        screen.line("relay     not running")
    else:
        screen.line(f"relay     {'connected to' if relay['connected'] else 'waiting for'} the coordinator")
        screen.line(f"bytes     {relay['bytes_in']:,} in, {relay['bytes_out']:,} out")
    if account is not None and member.role == "data":
        from colonnade.privacy.loss import Loss
        from colonnade.privacy.price import NANO

        spent = Loss.from_bytes(account.spent).epsilon(account.cap_delta)
        screen.line(f"budget    ε={spent:.6g} of {account.cap_nano / NANO:.6g} spent, at δ={account.cap_delta:g}")


def _account(member: Any) -> Any:
    """Ask the guard for its account; any answer shows that it is well."""
    from colonnade.protocol import codec
    from colonnade.protocol.messages import GetAccount
    from colonnade.transport.direct import UnixEndpoint

    try:
        return codec.decode_reply(UnixEndpoint(member.socket, timeout=10.0).handle(codec.encode(GetAccount())))
    except ColonnadeError:
        return None


def _read(path: Path, stale: float | None = STALE) -> dict[str, Any] | None:
    import msgspec

    try:
        found: dict[str, Any] = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.MsgspecError):
        return None
    return None if stale is not None and time.time() - found["time"] > stale else found


def _key(text: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise BadInput("A test key is 64 hexadecimal digits.")
    return key
