"""Commands about members: `party` (make a folder, show its card, serve it) and `federation` (make papers, sign them).

A member's *card* is what is public about it. A federation's *papers* (federation.toml) hold all cards and rules; every member
signs them. A *kit* is a site's certificate and key for the network.
"""

from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli import screen
from colonnade.errors import BadInput

__all__ = [
    "card",
    "check",
    "check_table",
    "federation",
    "init_federation",
    "init_party",
    "party",
    "renew",
    "serve",
    "sign",
    "status",
]

party = typer.Typer(
    help="One member of a federation: make its folder, serve it, show its status.", no_args_is_help=True
)

federation = typer.Typer(help="A federation's papers: make them, sign them, check them.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", file_okay=False, help="The member's folder.")]
PapersPath = Annotated[
    Path, typer.Argument(metavar="PAPERS", exists=True, dir_okay=False, help="The papers, for example federation.toml.")
]


@party.command("init")
def init_party(
    folder: Folder,
    name: Annotated[str, typer.Option("--name", help="The member's name in the federation, a plain word.")],
    data: Annotated[Path | None, typer.Option("--data", exists=True, help="A .parquet or .csv file.")] = None,
    id: Annotated[str, typer.Option("--id", help="The column by which people are known.")] = "person_id",  # noqa: A002
    separator: Annotated[str, typer.Option("--separator", help="What stands between the columns of a CSV file.")] = ",",
    encoding: Annotated[str, typer.Option("--encoding", help="How the letters of a CSV file are stored.")] = "utf-8",
    node: Annotated[bool, typer.Option("--node", help="A compute node: no data, no policy, no ledger.")] = False,
    test_key: Annotated[
        str | None,
        typer.Option("--test-key", hidden=True, help="64 hexadecimal digits: noise that anybody can repeat."),
    ] = None,
) -> None:
    """Make keys, a policy with safe defaults, and a schema to be filled in from the data's column names and types."""
    from colonnade.service.party_folder import PartyFolder

    if node == (data is not None):
        raise BadInput(
            "A party needs --data, and a compute node has none.",
            remedy="Give --data FILE for a party, or --node for a compute node.",
        )
    key = None if test_key is None else _key(test_key)
    made = PartyFolder.create(folder, name=name, role="compute" if node else "data", test_key=key)
    if data is not None:
        given = {"separator": (separator, ","), "encoding": (encoding, "utf-8")}
        reading = {name: value for name, (value, usual) in given.items() if value != usual}
        made.write_templates(data.resolve(), id, **reading)
        screen.line(f"written: {folder / 'schema.toml'} (state bounds and levels of the columns that may be used)")
        screen.line(f"written: {folder / 'policy.toml'} (the cap of the ledger, and what is answered)")
    screen.line(f"written: {folder / 'identity.key'} (keep it secret, and a copy of it safe)")
    screen.line(f"next:    colonnade party card {folder} > {name}.card.toml, for the federation's papers")


@party.command()
def card(folder: Folder) -> None:
    """Print what is public about this member, for the federation's papers. Makes the ledger if there is none."""
    from colonnade.service.party_folder import PartyFolder

    screen.line(PartyFolder(folder).card_text())


@party.command("check")
def check_table(
    folder: Folder,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="Another table, that would take its place."),
    ] = None,
    page: Annotated[Path | None, typer.Option("--html", help="Also write the table to this file, as a page.")] = None,
) -> None:
    """Show what in the table does not fit schema.toml: for its owner alone. Exit 1 if the table would be refused."""
    from colonnade.service.party_folder import PartyFolder

    found = PartyFolder(folder).check(file)
    screen.line(str(found))
    if page is not None:
        page.write_text(found.to_html(), encoding="utf-8")
        screen.line(f"written: {page} (exact counts: keep it to yourself)")
    raise typer.Exit(0 if found.fits else 1)


@party.command()
def serve(
    folder: Folder,
    change_cap: Annotated[
        bool, typer.Option("--change-cap", help="Record policy.toml's [budget] as the new cap of the ledger.")
    ] = False,
) -> None:
    """Start the guard and the relay, and watch over both until this process is ended."""
    from colonnade.service.processes import serve_member

    raise typer.Exit(serve_member(folder, change_cap=change_cap, report=screen.report))


@party.command()
def status(
    folder: Folder,
    check: Annotated[
        bool, typer.Option("--check", help="Print nothing; exit 1 unless the guard answers and the relay is connected.")
    ] = False,
) -> None:
    """Show whether guard and relay are running, the connection, the last request, bytes and budget."""
    from colonnade.service.checks import member_status

    found = member_status(folder)
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
        raise BadInput(
            "--test-key must be 64 hexadecimal digits.", remedy="For example the output of: openssl rand -hex 32"
        )
    return key


@federation.command("init")
def init_federation(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", file_okay=False, help="Where papers and kits are put.")],
    card: Annotated[list[Path], typer.Option("--card", exists=True, help="A member's card; parties in column order.")],
    host: Annotated[str, typer.Option("--host", help="The coordinator's host name, as parties will dial it.")],
    cohort: Annotated[
        Path | None,
        typer.Option(
            "--cohort", exists=True, help="A public list of people; without it the parties align by themselves."
        ),
    ] = None,
    port: Annotated[int, typer.Option("--port", help="The port that the coordinator listens on.")] = 8002,
    name: Annotated[str, typer.Option("--name", help="What the federation calls itself.")] = "federation",
    id: Annotated[str, typer.Option("--id", help="The id column of the list.")] = "person_id",  # noqa: A002
    collusion: Annotated[int, typer.Option("--collusion", help="Parties that may pool with the coordinator.")] = 1,
    min_people: Annotated[int, typer.Option("--min-people", help="The least number of people in any study.")] = 1,
    max_epsilon: Annotated[float | None, typer.Option("--max-epsilon", help="The most one release may cost.")] = None,
) -> None:
    """Write federation.toml from the members' cards, and have NVIDIA FLARE make one start-up kit per site.

    With two parties and no compute node among the cards, the coordinator becomes the third node, with an identity of its own.
    """
    from colonnade.service import federation_setup

    made = federation_setup.create_federation(
        folder,
        card,
        name=name,
        host=host,
        port=port,
        collusion=collusion,
        min_people=min_people,
        max_epsilon=max_epsilon,
        people=None if cohort is None else federation_setup.PublicList(cohort, id),
    )
    screen.line(f"written: {folder / 'federation.toml'}; each member reads and signs it: colonnade federation sign")
    for site, kit in made.items():
        screen.line(f"written: {kit} (send it to {site} by a channel that others cannot read)")
    screen.line(f"keep     {folder / 'authority'} offline: it can make certificates")


@federation.command()
def sign(
    papers: PapersPath,
    party: Annotated[Path, typer.Option("--party", exists=True, file_okay=False, help="The member's own folder.")],
) -> None:
    """Add this member's signature, having checked that the papers name its own key, ledger and schema."""
    from colonnade.service import federation_setup

    name, signed = federation_setup.sign(papers, party)
    screen.line(f"signed:  {name} under {signed.identity[:16]}…")
    screen.line("waiting: " + (", ".join(signed.missing()) or "nobody; the papers are complete"))


@federation.command()
def check(papers: PapersPath) -> None:
    """Verify that every member has signed the papers as they stand."""
    from colonnade.protocol.agreement import read_agreement

    found = read_agreement(papers).check()
    rows = [(name, member.role, member.identity[:16], member.schema[:16]) for name, member in found.members.items()]
    screen.print_table(["member", "role", "identity", "schema"], rows)
    screen.line(f"federation {found.identity}")
    screen.line(f"signed by all {len(found.members)} members; collusion {found.collusion}, threshold {found.threshold}")


@federation.command()
def renew(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", exists=True, help="Where `init` put papers and kits.")],
) -> None:
    """Make new certificates for every site; the papers, and what was signed, stay as they are."""
    from colonnade.service import federation_setup

    for site, kit in federation_setup.renew_kits(folder).items():
        screen.line(f"renewed: {kit} (send it to {site})")
