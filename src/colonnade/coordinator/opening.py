"""How a federation is brought up: all parties in this process, or a connection to parties on other machines."""

import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self, TypeVar

from colonnade.conversations.conversation import Member
from colonnade.conversations.endpoint import ComputeNode
from colonnade.conversations.memory import LedgerHeads, RunRecords
from colonnade.coordinator.journal import StudyJournal
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.privacy.accounting import Budget
from colonnade.protocol import codec
from colonnade.protocol.agreement import COORDINATOR, FederationAgreement, read_agreement
from colonnade.protocol.messages import Described
from colonnade.runtime.event_log import Log, LogFile, write_status
from colonnade.runtime.private_files import read_hex
from colonnade.schema import Schema
from colonnade.secure.keys import Identity, PublicIdentity
from colonnade.secure.shamir import FEWEST_NODES
from colonnade.steps.joint import SharingFloor
from colonnade.transport.direct import Endpoint, Transport, WithLocalNodes
from colonnade.transport.kit import require_engine

Policy_contra = TypeVar("Policy_contra", contravariant=True)


class SimulatedParty(Protocol[Policy_contra]):
    """What the coordinator knows of `cn.Party`: it can be opened in this process. The coordinator does not import the class."""

    @classmethod
    def assemble(
        cls,
        parties: Mapping[str, Self],
        *,
        id: str | Mapping[str, str],  # noqa: A002  # as in `Federation.simulate`
        budget: Budget,
        policies: Mapping[str, Policy_contra] | None,
        compute_nodes: Sequence[str],
        committee: Sequence[str] | None,
        collusion: int,
        ledger_dir: str | Path | None,
        test_key: bytes | None,
        aligned: bool,
        analysts: Mapping[str, PublicIdentity],
        change_cap: bool,
    ) -> Mapping[str, Endpoint]:
        """Open several parties, and nodes without data, on the ids that all of them have."""
        ...


class TemporaryLedgers(UserWarning):
    """Ledgers that end with the process: what this script spends, the next run of it does not know.

    Examples
    --------
    >>> import warnings, colonnade as cn
    >>> warnings.simplefilter("ignore", cn.TemporaryLedgers)  # for a script whose people are invented
    """


def _tell_of_temporary_ledgers() -> None:
    """Say, once for each place in a script, that its simulation keeps no ledgers. The library's own people are invented."""
    caller = sys._getframe(3).f_globals.get("__name__", "")  # noqa: SLF001  # who called `Federation.simulate`
    if caller.partition(".")[0] != __name__.partition(".")[0]:
        warnings.warn(
            "This simulation keeps its ledgers in a temporary folder: the budget starts anew each time the script runs. "
            'With real data keep them: Federation.simulate(..., ledger_dir="ledgers").',
            TemporaryLedgers,
            stacklevel=4,
        )


def simulated_nodes(
    parties: Mapping[str, object],
    compute_nodes: Sequence[str],
    ledger_dir: object,
    committee: Sequence[str] | None = None,
) -> tuple[str, ...]:
    """Check what `Federation.simulate` was given, and return who computes on shares besides the parties.

    The coordinator joins in where there would be fewer than three nodes.
    """
    if not isinstance(parties, Mapping) or not parties:
        raise BadInput(
            "simulate takes a mapping from party names to cn.Party objects, at least one.",
            remedy='For example {"bank": cn.Party(frame, schema=...)}.',
        )
    kinds = {type(party) for party in parties.values()}
    if len(kinds) != 1 or not hasattr(next(iter(kinds)), "assemble"):
        raise BadInput("simulate takes cn.Party objects.", remedy="Wrap each table: cn.Party(frame, schema=...).")
    if isinstance(compute_nodes, str) or COORDINATOR in compute_nodes:
        raise BadInput(
            "compute_nodes takes a list of names; the coordinator joins in by itself where it is needed.",
            remedy='For example compute_nodes=["auditor"].',
        )
    if committee is not None:
        _check_committee(committee, [*parties, *compute_nodes])
    if ledger_dir is None:
        _tell_of_temporary_ledgers()
    joins = len(parties) + len(compute_nodes) < FEWEST_NODES
    return (*map(str, compute_nodes), *([COORDINATOR] if joins else []))


def _check_committee(committee: object, members: Sequence[str]) -> None:
    example = f"For example committee={list(members[:FEWEST_NODES])}."
    if isinstance(committee, str) or not isinstance(committee, Sequence):
        raise BadInput("committee takes a list of members.", remedy=example)
    strangers = [name for name in committee if name not in members]
    if strangers:
        raise BadInput("The committee names somebody who is no party and no compute node here.", remedy=example)
    if len(set(committee)) < max(FEWEST_NODES, len(committee)) or len(committee) % 2 == 0:
        raise BadInput("A committee has an odd number of different members, three or more.", remedy=example)


@dataclass(frozen=True)
class Connection:
    """What `Federation.connect` opens: the signed agreement, the transport to the members, and the journal."""

    agreement: FederationAgreement
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
    """Read a federation's agreement, listen for its members, and open the coordinator's state."""
    path = Path(path)
    agreement = read_agreement(path).check()
    require_engine()
    from colonnade.transport.flare import PATIENCE, FlareTransport

    kit = coordinator_folder(path) if kit is None else Path(kit)
    state = path.parent / "coordinator-state" if state is None else Path(state)
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    notes = Log(LogFile(state / "coordinator.log"), COORDINATOR, COORDINATOR)
    journal = StudyJournal(state / "studies.sqlite", agreement, log=notes)
    where = agreement.coordinator
    try:
        near = {COORDINATOR: _own_node(agreement, kit, state)} if COORDINATOR in agreement.members else {}
        far = FlareTransport(
            agreement.sites,
            address=where.address if listen is None else f"{where.scheme}://{listen}:{where.port}",
            kit=kit,
            host=where.host,
            patience=PATIENCE if patience is None else patience,
            log=notes,
            changed=lambda connected: write_status(
                state / "coordinator.status", {"pid": os.getpid(), "connected": connected}
            ),
            memory=state / "certificates.status",
        )
    except BaseException:
        journal.close()
        raise
    line: Transport = WithLocalNodes(far, near) if near else far
    return Connection(agreement, _traced(line) if os.environ.get("COLONNADE_TRACES") == "1" else line, journal)


def _traced(line: Transport) -> Transport:
    from colonnade.transport.direct import Traced

    return Traced(line)


def one_order(described: Mapping[str, Described]) -> tuple[str, int, bool, dict[str, int]]:
    """Return the order of rows that all parties describe: its name, its people, whether it is a union, and data versions."""
    orders = {(reply.alignment, reply.people) for reply in described.values()}
    if len(orders) != 1 or any(reply.party != name for name, reply in described.items()):
        raise SchemaMismatch("The parties do not agree on one order of rows.", remedy="Call federation.align() again.")
    union = any(reply.union for reply in described.values())
    return *orders.pop(), union, {name: reply.version for name, reply in described.items()}


def check_schemas(agreement: FederationAgreement, schemas: "Mapping[str, Schema]") -> None:
    """Refuse parties whose columns differ from those in the agreement."""
    for party, schema in schemas.items():
        if codec.schema_digest(schema) != agreement.members[party].schema:
            raise SchemaMismatch(
                f"Party {party!r} describes other columns than the federation's agreement.",
                remedy="Open the party with the schema that was signed, or sign a new agreement.",
            )


def coordinator_folder(papers: Path) -> Path:
    """Return where the coordinator's own folder is looked for: not in the federation's folder, which is sent round."""
    beside = papers.resolve().parent.parent / COORDINATOR
    return beside if beside.is_dir() else papers.parent / "kit"


def _own_node(agreement: FederationAgreement, kit: Path, state: Path) -> ComputeNode:
    try:
        seed = read_hex(kit / "identity.key")
    except BadInput:
        raise BadInput(
            "The coordinator is a compute node of this federation, and its folder has no identity.key.",
            remedy="Use the folder that `colonnade coordinator init` made on this machine.",
        ) from None
    ledgers = {name: agreement.members[name].ledger for name in agreement.parties}
    member = Member(
        COORDINATOR,
        Identity.from_seed(seed),
        agreement.pinned(),
        LedgerHeads(ledgers, state / "node.heads"),
        SharingFloor.of_papers(agreement),
        RunRecords(state / "node.openings.sqlite"),
    )
    return ComputeNode(member, agreement.identity, os.urandom)
