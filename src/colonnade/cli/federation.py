"""``colonnade federation``: draw up a federation's papers and start-up kits, sign them, check them."""

from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli import screen

__all__ = ["app", "check", "init", "renew", "sign"]

app = typer.Typer(help="A federation's papers: draw them up, sign them, check them.", no_args_is_help=True)

PapersPath = Annotated[
    Path, typer.Argument(metavar="PAPERS", exists=True, dir_okay=False, help="The papers, for example federation.toml.")
]


@app.command()
def init(
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
    from colonnade.protocol.agreement import CoordinatorAddress
    from colonnade.service.federation_setup import PublicList, draw_up

    made = draw_up(
        folder,
        card,
        name=name,
        address=CoordinatorAddress(host=host, port=port),
        collusion=collusion,
        min_people=min_people,
        max_epsilon=max_epsilon,
        people=None if cohort is None else PublicList(cohort, id),
    )
    screen.line(f"written: {folder / 'federation.toml'}; each member reads and signs it: colonnade federation sign")
    for site, kit in made.items():
        screen.line(f"written: {kit} (send it to {site} by a channel that others cannot read)")
    screen.line(f"keep     {folder / 'authority'} offline: it can make certificates")


@app.command()
def sign(
    papers: PapersPath,
    party: Annotated[Path, typer.Option("--party", exists=True, file_okay=False, help="The member's own folder.")],
) -> None:
    """Add this member's signature, having checked that the papers name its own key, ledger and schema."""
    from colonnade.service import federation_setup
    from colonnade.service.party_folder import PartyFolder

    member = PartyFolder(party)
    signed = federation_setup.sign(papers, member)
    screen.line(f"signed:  {member.name} under {signed.identity[:16]}…")
    screen.line("waiting: " + (", ".join(signed.missing()) or "nobody; the papers are complete"))


@app.command()
def check(papers: PapersPath) -> None:
    """Verify that every member has signed the papers as they stand."""
    from colonnade.protocol.agreement import read_agreement

    found = read_agreement(papers).check()
    rows = [(name, member.role, member.identity[:16], member.schema[:16]) for name, member in found.members.items()]
    screen.print_table(["member", "role", "identity", "schema"], rows)
    screen.line(f"federation {found.identity}")
    screen.line(f"signed by all {len(found.members)} members; collusion {found.collusion}, threshold {found.threshold}")


@app.command()
def renew(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", exists=True, help="Where `init` put papers and kits.")],
) -> None:
    """Make new certificates for every site; the papers, and what was signed, stay as they are."""
    from colonnade.service.federation_setup import renew_kits

    for site, kit in renew_kits(folder).items():
        screen.line(f"renewed: {kit} (send it to {site})")
