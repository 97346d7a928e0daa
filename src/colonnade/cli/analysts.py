"""Commands about who asks: `analyst init`, `federation introduce` and `federation revoke`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli import screen
from colonnade.cli.members import PapersPath

__all__ = ["analyst", "init", "introduce", "revoke"]

analyst = typer.Typer(help="Somebody who asks for studies, with a key of their own.", no_args_is_help=True)

OwnFolder = Annotated[
    Path, typer.Option("--party", exists=True, file_okay=False, help="The folder of the member that says so.")
]


@analyst.command()
def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", dir_okay=False, help="A new file for the secret key.")],
    name: Annotated[str, typer.Option("--name", help="What the parties will call them, such as analyst@telco.")],
) -> None:
    """Make an analyst's key, and beside it a card for a member of the federation to introduce."""
    from colonnade.coordinator.asking import Analyst

    made = Analyst.create(file, name=name)
    card = file.with_suffix(".card.toml")
    text = f"name = {json.dumps(made.name)}\nidentity = {json.dumps(made.public.key.hex())}\n"
    card.write_text(text, encoding="utf-8")
    screen.line(f"written: {file} (keep it secret, and a copy of it safe)")
    screen.line(f"written: {card} (public: a member introduces it with `colonnade federation introduce`)")


def introduce(
    papers: PapersPath,
    card: Annotated[Path, typer.Argument(metavar="CARD", exists=True, dir_okay=False, help="From `analyst init`.")],
    party: OwnFolder,
) -> None:
    """Add an analyst to the papers, signed by one member. Nobody else has to sign, and no release is asked for anew."""
    from colonnade.service.federation_setup import introduce_analyst

    name, member = introduce_analyst(papers, card, party)
    screen.line(f"introduced: {name}, by {member}")
    screen.line(f"next:       give {papers} to every party (colonnade party install), and restart them")


def revoke(
    papers: PapersPath,
    name: Annotated[str, typer.Argument(metavar="NAME", help="An analyst, or a member that is to be expelled.")],
    party: OwnFolder,
) -> None:
    """Say, signed by one member, that an analyst or a member is out. It is for good, and holds where these papers are."""
    from colonnade.service.federation_setup import revoke_name

    member = revoke_name(papers, name, party)
    screen.line(f"revoked: {name}, by {member}")
    screen.line(f"next:    give {papers} to every party (colonnade party install), and restart them")
    screen.line("what it cannot do: take back what was released before")
