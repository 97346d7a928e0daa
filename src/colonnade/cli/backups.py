"""Commands that copy a ledger and put it back: `ledger backup`, `ledger restore`, and `attest` for the others."""

from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli import screen
from colonnade.cli.members import Folder

__all__ = ["attest", "attest_coordinator", "backup", "restore"]


def backup(
    path: Annotated[Path, typer.Argument(metavar="PATH", exists=True, help="A ledger, or the folder of its party.")],
    target: Annotated[Path, typer.Argument(metavar="TARGET", dir_okay=False, help="The copy, a new file.")],
) -> None:
    """Copy a ledger, in use or not, to a new file that only this user can read, and verify the copy."""
    from colonnade.party.ledger.backup import back_up

    head = back_up(path / "ledger.sqlite" if path.is_dir() else path, target)
    screen.line(f"copied   {target}: verified up to row {head.sequence}")
    screen.line("keep it  as safe as the ledger itself: it holds answers, and seeds of steps that are not finished")


def restore(
    folder: Folder,
    copy: Annotated[
        Path | None,
        typer.Argument(
            metavar="[BACKUP]", exists=True, dir_okay=False, help="What `backup` wrote; without it the ledger stays."
        ),
    ] = None,
    attested: Annotated[
        list[Path] | None,
        typer.Option("--attested", exists=True, help="What `attest` printed at a member or the coordinator; from all."),
    ] = None,
    forfeit: Annotated[
        bool,
        typer.Option("--forfeit", help="Write off, signed, what it may have forgotten: the whole cap, or --spent."),
    ] = False,
    spent: Annotated[
        float | None,
        typer.Option(
            "--spent", min=0.0, help="All ε that was ever spent, by your records: the total becomes at least this."
        ),
    ] = None,
) -> None:
    """Put a back-up in the place of a party's ledger; refuse one that has forgotten releases, unless they are charged."""
    from colonnade.service.attestation import restore_ledger
    from colonnade.service.party_folder import PartyFolder

    found = restore_ledger(PartyFolder(folder.resolve()), copy, attested or (), forfeit=forfeit, spent=spent)
    screen.line(f"restored {folder / 'ledger.sqlite'}: verified up to row {found.head.sequence}")
    if found.rows:
        screen.line(
            f"charged  ε={found.charged:.6g} for what may be lost, and signed; the total is ε={found.head.nano / 1e9:.6g}; "
            "δ counts twice from now on"
        )
        screen.line(
            f"next     if data/ was lost too: colonnade party load {folder} FILE; the same table keeps its version"
        )


def attest(
    folder: Folder,
    about: Annotated[str, typer.Option("--about", help="The party whose ledger was lost.")],
) -> None:
    """Print the highest row and total that this member has seen of another party's ledger, signed, for `ledger restore`."""
    from colonnade.service.attestation import attest as said
    from colonnade.service.party_folder import PartyFolder

    screen.line(said(PartyFolder(folder), about).text())


def attest_coordinator(
    state: Annotated[Path, typer.Argument(metavar="STATE", exists=True, file_okay=False, help="Its state folder.")],
    papers: Annotated[Path, typer.Argument(metavar="PAPERS", exists=True, dir_okay=False, help="The papers.")],
    about: Annotated[str, typer.Option("--about", help="The party whose ledger was lost.")],
) -> None:
    """Print the highest row and total that the coordinator has seen of a party's ledger, for `ledger restore`."""
    from colonnade.protocol.agreement import read_agreement
    from colonnade.service.attestation import attest_as_coordinator

    screen.line(attest_as_coordinator(read_agreement(papers).check(), state, about).text())
