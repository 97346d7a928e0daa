"""``colonnade doctor``: is this machine fit to be a party? Exit status 1 if something is wrong."""

from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli import screen

__all__ = ["doctor"]


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
    from colonnade.service.machine_checks import examined, machine_checks
    from colonnade.service.member_checks import member_checks

    members = [] if party is None else member_checks(party)
    results = list(examined((*machine_checks(directory), *members)))
    for name, sound, words in results:
        screen.line(f"{'ok   ' if sound else 'WRONG'} {name:<12} {words}")
    if not all(sound for _, sound, _ in results):
        raise typer.Exit(1)
