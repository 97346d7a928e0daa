"""What ``colonnade doctor --party FOLDER`` looks at besides the machine: one member's keys, schema, ledger and port.

Nothing is sent, nothing is changed, no data is read, and no secret is printed.
"""

import socket
import time
from collections.abc import Callable
from pathlib import Path

from colonnade.errors import ColonnadeError
from colonnade.service.machine_checks import Check, Unfit

__all__ = ["member_checks"]

RESTING = 300.0
"""Seconds by which a clock may lie before a ledger's last row: two machines that share a disk are not that far apart."""


def member_checks(folder: Path) -> list[tuple[str, Check]]:
    """Return the checks of one member's folder by name; each returns words, or raises `Unfit` with what to do."""

    def guarded(check: Callable[[Path], str]) -> Check:
        def run() -> str:
            try:
                return check(folder)
            except ColonnadeError as error:
                raise Unfit(f"{error.message} {error.remedy}") from None

        return run

    return [(name, guarded(check)) for name, check in CHECKS.items()]


def identity(folder: Path) -> str:
    """Check that the identity key is there, readable by its owner alone, and the one that the papers name."""
    from colonnade.errors import BadInput
    from colonnade.protocol.agreement import read_agreement
    from colonnade.service.party_folder import PartyFolder

    member = PartyFolder(folder)
    public = member.identity().public.hex()
    if not member.papers.exists():
        return f"{member.name}: identity.key is private and sound; there are no papers yet"
    signatory = read_agreement(member.papers).members.get(member.name)
    if signatory is None or signatory.identity != public:
        raise BadInput("The papers name another key than identity.key.", remedy="Have the papers drawn up again.")
    return f"{member.name}: identity.key is private and sound, and the papers name it"


def schema(folder: Path) -> str:
    """Check that schema.toml says what the papers say was agreed."""
    from colonnade.errors import SchemaMismatch
    from colonnade.protocol import codec
    from colonnade.protocol.agreement import read_agreement
    from colonnade.service.party_folder import PartyFolder

    member = PartyFolder(folder)
    if member.role == "compute":
        return "a compute node has none"
    described = member.schema()
    if not member.papers.exists():
        return f"{len(described)} columns are described; there are no papers yet"
    signatory = read_agreement(member.papers).members.get(member.name)
    if signatory is None or signatory.schema != codec.schema_digest(described):
        raise SchemaMismatch(
            "schema.toml is not the schema of the papers.",
            remedy="Restore it, or have all members sign new papers: bounds are part of what was agreed.",
        )
    return f"{len(described)} columns, as in the papers"


def signatures(folder: Path) -> str:
    """Check that every member has signed the papers."""
    from colonnade.protocol.agreement import read_agreement
    from colonnade.service.party_folder import PartyFolder

    member = PartyFolder(folder)
    if not member.papers.exists():
        return "there are no papers yet"
    missing = read_agreement(member.papers).missing()
    return "all members have signed" if not missing else f"still to sign: {', '.join(missing)}"


def ledger(folder: Path) -> str:
    """Check that the ledger is whole, has the policy's cap, and does not lie in the future."""
    from colonnade.errors import BadInput
    from colonnade.service.party_folder import PartyFolder

    member = PartyFolder(folder)
    if member.role == "compute" or not (folder / "ledger.sqlite").exists():
        return "there is none yet" if member.role == "data" else "a compute node has none"
    with member.ledger() as opened:
        last = max((entry.when.timestamp() for entry in opened.entries()), default=0.0)
        rows, remaining = opened.head().sequence, opened.remaining()
    if last > time.time() + RESTING:
        raise BadInput("The ledger's last row lies in the future.", remedy="Set the clock: it has gone back.")
    return f"{rows} rows check; remaining ε={remaining:.4g}"


def coordinator_port(folder: Path) -> str:
    """Report whether the coordinator's port answers from here; one that is not up yet is no fault of this machine."""
    from colonnade.protocol.agreement import read_agreement
    from colonnade.service.party_folder import PartyFolder

    member = PartyFolder(folder)
    if not member.papers.exists():
        return "there are no papers yet"
    where = read_agreement(member.papers).coordinator
    try:
        with socket.create_connection((where.host, where.port), timeout=3.0):
            return f"{where.host}:{where.port} answers"
    except OSError:
        return f"{where.host}:{where.port} does not answer: the coordinator is down, or a firewall is in between"


CHECKS: dict[str, Callable[[Path], str]] = {
    "identity": identity,
    "schema": schema,
    "signatures": signatures,
    "ledger": ledger,
    "coordinator": coordinator_port,
}
