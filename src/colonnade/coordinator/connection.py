"""How a coordinator joins a federation of separate machines: papers in, a transport and a journal out."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from colonnade.conversations.conversation import Member
from colonnade.conversations.endpoint import ComputeNode
from colonnade.conversations.ledger_heads import LedgerHeads
from colonnade.coordinator.journal import StudyJournal
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.event_log import Log, write_status
from colonnade.protocol import codec
from colonnade.protocol.agreement import COORDINATOR, FederationAgreement, read_agreement
from colonnade.schema import Schema
from colonnade.secure.keys import Identity
from colonnade.transport.direct import Transport, WithLocalNodes
from colonnade.transport.kit import require_engine

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Connection", "check_schemas", "open_connection"]


@dataclass(frozen=True)
class Connection:
    """What `Federation.connect` needs: the papers, how to reach everybody, and what must not be forgotten."""

    papers: FederationAgreement
    transport: Transport
    journal: StudyJournal


def open_connection(
    path: str | Path,
    *,
    kit: str | Path | None = None,
    state: str | Path | None = None,
    patience: float | None = None,
    listen: str | None = None,
) -> Connection:
    """Read a federation's papers, listen for its members, and open the coordinator's state."""
    path = Path(path)
    papers = read_agreement(path).check()
    require_engine()
    from colonnade.transport.flare import PATIENCE, FlareTransport

    kit = _kit(path.parent) if kit is None else Path(kit)
    state = path.parent / "coordinator-state" if state is None else Path(state)
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    notes = Log((state / "coordinator.log").open("a", encoding="utf-8"), COORDINATOR, COORDINATOR)
    journal = StudyJournal(state / "studies.sqlite", papers, log=notes)
    where = papers.coordinator
    try:
        near = {COORDINATOR: _own_node(papers, kit, state)} if COORDINATOR in papers.members else {}
        far = FlareTransport(
            papers.sites,
            address=where.address if listen is None else f"{where.scheme}://{listen}:{where.port}",
            kit=kit,
            host=where.host,
            patience=PATIENCE if patience is None else patience,
            log=notes,
            changed=lambda connected: write_status(
                state / "coordinator.status", {"pid": os.getpid(), "connected": connected}
            ),
        )
    except BaseException:
        journal.close()
        raise
    return Connection(papers, WithLocalNodes(far, near) if near else far, journal)


def check_schemas(papers: FederationAgreement, schemas: "Mapping[str, Schema]") -> None:
    """Refuse parties that describe other columns than those in the papers."""
    for party, schema in schemas.items():
        if codec.schema_digest(schema) != papers.members[party].schema:
            raise SchemaMismatch(f"Party {party!r} describes other columns than the federation's papers.")


def _kit(folder: Path) -> Path:
    """Return where the coordinator's kit is beside its papers."""
    made = folder / "kits" / COORDINATOR
    return made if made.is_dir() else folder / "kit"


def _own_node(papers: FederationAgreement, kit: Path, state: Path) -> ComputeNode:
    try:
        seed = bytes.fromhex((kit / "identity.key").read_text(encoding="ascii").strip())
    except (OSError, ValueError):
        raise BadInput(
            "The coordinator is a compute node of this federation, and its kit has no identity.key.",
            remedy="Use the kit that `colonnade federation init` made for the coordinator.",
        ) from None
    ledgers = {name: papers.members[name].ledger for name in papers.parties}
    member = Member(COORDINATOR, Identity.from_seed(seed), papers.pinned(), LedgerHeads(ledgers, state / "node.heads"))
    return ComputeNode(member, papers.identity, os.urandom)
