"""A party that is served to a federation of separate machines: its table, policy, ledger and identity behind one guard.

Everything that peers rely on is checked here, once, before the guard answers anything: that every member signed the papers, that
the papers name this party's own key, ledger and schema, and that its list of people is the one in the papers.

A party answers from a copy of its table (`colonnade.service.party_folder`): that of the version which its owner declared last.
"""

import dataclasses
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from colonnade.conversations.conversation import Member
from colonnade.conversations.endpoint import ComputeNode
from colonnade.conversations.memory import LedgerHeads, RunRecords
from colonnade.errors import BadInput, ColonnadeError, LedgerCorrupt, ProtocolError, SchemaMismatch
from colonnade.party.gate import Gate, statement_of
from colonnade.party.guard import Guard, RowOrders
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.party import Party
from colonnade.party.policy import Policy, Terms
from colonnade.party.table.dask_cluster import Cluster
from colonnade.party.table.private_table import PrivateTable, RowsFailed, among_rows
from colonnade.party.table.row_order import RowOrder, require_capacity, require_id_column
from colonnade.party.table.sources import Source
from colonnade.party.table.stored_table import common_list, list_identity, ordered_table, party_ids
from colonnade.privacy.randomness import Randomness, SystemRandomness
from colonnade.protocol import messages
from colonnade.protocol.agreement import AgreedAlignment, FederationAgreement, Floor, Signatory
from colonnade.runtime.workers import Workers
from colonnade.schema import Schema
from colonnade.secure.keys import Identity, PublicIdentity
from colonnade.service.party_folder import Snapshots, loaded_version
from colonnade.steps.kind import SharingFloor


@dataclass(frozen=True)
class OpenedTable:
    """One version of a party's table, with its rows in order."""

    table: PrivateTable
    order: RowOrder
    ids: Any
    version: int


@dataclass(frozen=True)
class TableTerms:
    """On which terms a party's tables are opened: the same for the owner who loads one and for the guard that serves it.

    Parameters
    ----------
    name
        The party's name in the papers.
    schema
        Its public schema.
    id
        Its id column.
    policy
        Its rules.
    cohort
        The public list of people, as `cohort_of` read it; a person it does not know gets a null record. ``None`` where the papers
        name no list: the parties then align their rows by themselves.
    papers
        The federation's papers; ``None`` while there are none.
    reading
        How its CSV files are written: ``separator`` and ``encoding`` of `Party`.
    memory
        How many bytes the process may use, for a table that is larger; ``None`` keeps columns in memory.
    cluster
        The party's own Dask cluster, whose workers open the same files and keep the columns; ``None`` for none.
    """

    name: str
    schema: Schema
    id: str
    policy: Policy
    cohort: Any
    papers: FederationAgreement | None
    reading: Mapping[str, str] = field(default_factory=dict)
    memory: int | None = None
    cluster: Cluster | None = None

    def __post_init__(self) -> None:
        mine = None if self.papers is None else self.papers.members.get(self.name)
        if mine is not None and mine.schema != messages.schema_digest(self.schema):
            raise SchemaMismatch(
                "The papers name another schema than this party's.",
                remedy="Restore schema.toml, or have new papers made with this party's current card.",
            )

    def party(self, files: Sequence[Path], version: int) -> Party:
        """Return a table with its schema, not opened."""
        data = files[0] if len(files) == 1 else list(files)
        return Party(data, schema=self.schema, version=version, memory=self.memory, dask=self.cluster, **self.reading)

    def copy(self, path: Path, file: BinaryIO) -> None:
        """Write the id and the declared columns of one of the owner's files to another file."""
        source = Source(path, **self.reading)
        require_id_column(source, self.id, party=self.name)
        source.write(list(dict.fromkeys([self.id, *self.schema])), file)

    def open(self, files: Sequence[Path], version: int) -> OpenedTable:
        """Open a table; refuse, towards its owner, one that does not fit these terms."""
        party, ids = self._read(files, version)
        order, table = ordered_table(
            party.source,
            party.schema,
            ids,
            self._listed(),
            party=self.name,
            mode="cohort",
            memory=self.memory,
            cluster=self.cluster,
        )
        return OpenedTable(table, order, ids, version)

    def check(self, files: Sequence[Path], version: int) -> int:
        """Check a table as `open` does, and every value in it against the schema; return how many people it has."""
        party, ids = self._read(files, version)
        self._listed()
        party.validate(self.name)
        return len(ids)

    def _read(self, files: Sequence[Path], version: int) -> tuple[Party, Any]:
        party = self.party(files, version)
        ids = party_ids(party.source, self.id, party=self.name, memory=self.memory)
        require_capacity(ids, self.policy.capacity, party=self.name)
        return party, ids

    def _listed(self) -> Any:
        """Return the list of people in the papers; ``None`` where they name none."""
        agreed = None if self.papers is None else self.papers.alignment
        if agreed is None:
            return None
        if self.cohort is None:
            raise BadInput("The papers name a list of people.", remedy="Say where it is: cohort in schema.toml.")
        if (list_identity(self.cohort, "cohort"), len(self.cohort)) != (agreed.identity, agreed.people):
            raise BadInput(
                "This list of people is not the one in the papers.", remedy="Use the list that was signed for."
            )
        return self.cohort


def open_current(ledger: SqliteLedger, terms: TableTerms, snapshots: Snapshots) -> OpenedTable:
    """Open the table of the version that was declared last, and remove the copies of earlier ones."""
    version = loaded_version(ledger)
    try:
        opened = terms.open(snapshots.files(version), version)
    except ColonnadeError:
        if ledger.current_version() == version:
            raise
        return open_current(ledger, terms, snapshots)  # a newer one was loaded meanwhile, and this copy is gone
    snapshots.remove_before(version)
    return opened


class ServedParty:
    """A guard that answers from the version of the data that its owner declared last.

    `colonnade party load` declares a version in the ledger once its table was checked and copied. The ledger is asked before each
    request, and a new version is taken over between two requests. Only the party's own user can write to the ledger: no
    message, and nothing on the network side, makes a party change its table.

    Parameters
    ----------
    guard
        The guard, opened with the table of the current version.
    ledger
        The party's ledger.
    version
        That version.
    reopen
        Opens the table of the version that was declared last.
    """

    def __init__(self, guard: Guard, ledger: SqliteLedger, version: int, reopen: Callable[[], OpenedTable]) -> None:
        self._guard = guard
        self._ledger = ledger
        self._version = version
        self._reopen = reopen
        self._lock = threading.Lock()

    @property
    def failure(self) -> RowsFailed | None:
        """Why the party has stopped by itself; for its owner. A version that cannot be opened is a failure like any other."""
        return self._guard.failure

    def handle(self, data: bytes) -> bytes:
        """Answer one request, from the current version. Without a valid table it answers as a party that was stopped."""
        with self._lock:
            try:
                with among_rows():
                    self._take_over()
            except RowsFailed as failure:
                self._guard.stop(failure)
        return self._guard.handle(data)

    def close(self) -> None:
        """Close the ledger."""
        self._guard.close()

    def _take_over(self) -> None:
        try:
            current = self._ledger.current_version()
        except ColonnadeError:
            return  # the guard itself says what is wrong with the ledger
        if current != self._version:
            opened = self._reopen()
            self._guard.replace(opened.table, opened.order, version=opened.version, ids=opened.ids)
            self._version = opened.version


def serve_party(
    terms: TableTerms,
    snapshots: Snapshots,
    papers: FederationAgreement,
    *,
    identity: Identity,
    ledger: SqliteLedger,
    folder: Path,
    randomness: Randomness | None = None,
) -> ServedParty:
    """Put a party behind its guard, on the terms of a federation's papers.

    Parameters
    ----------
    terms
        How its tables are opened. The papers' floor is put under its rules.
    snapshots
        The copies of its tables.
    papers
        The federation's papers; refused unless every member signed them.
    identity, ledger
        Its own key and ledger.
    folder
        Where the peers' ledger heads and further orders of rows are kept.
    randomness
        Where its noise comes from; by default the operating system.
    """
    if _own_entry(terms.name, "data", papers, identity).ledger != ledger.identity:
        raise LedgerCorrupt("The papers name another ledger than this party's.", remedy="Open the ledger they name.")
    opened = open_current(ledger, terms, snapshots)
    facts = Terms(
        party=terms.name,
        schema=terms.schema,
        federation=papers.identity,
        alignment=opened.order.identity,
        people=opened.order.people,
        parties=papers.parties,
        capacity=terms.policy.capacity or 0,
        version=opened.version,
        analysts=papers.analyst_keys(),
    )
    gate = Gate(opened.table, stricter(terms.policy, papers.floor), facts, ledger, randomness or SystemRandomness())
    heads = LedgerHeads(_ledgers(papers), folder / "peers.heads", partial(statement_of, ledger))
    member = Member(
        terms.name,
        identity,
        papers.pinned(),
        heads,
        SharingFloor.of_papers(papers),
        RunRecords(folder / "openings.sqlite"),
        terms.cluster,
    )
    guard = Guard(gate, member, RowOrders(gate, opened.order, folder / "alignments", opened.ids))
    return ServedParty(guard, ledger, opened.version, lambda: open_current(ledger, terms, snapshots))


def serve_node(
    name: str,
    papers: FederationAgreement,
    *,
    identity: Identity,
    folder: Path,
    randomness: Randomness | None = None,
    workers: Workers | None = None,
) -> ComputeNode:
    """Put a compute node without data behind its own guard, on the terms of a federation's papers."""
    _own_entry(name, "compute", papers, identity)
    heads = LedgerHeads(_ledgers(papers), folder / "peers.heads")
    fresh = (randomness or SystemRandomness()).bytes
    floor, records = SharingFloor.of_papers(papers), RunRecords(folder / "openings.sqlite")
    member = Member(name, identity, papers.pinned(), heads, floor, records, workers)
    return ComputeNode(member, papers.identity, fresh)


def cohort_of(path: Path, column: str, memory: int | None = None) -> Any:
    """Read a public list of people: the ids of a cohort, in canonical order."""
    return common_list({"cohort": party_ids(Source(path), column, party="cohort", memory=memory)})


def public_alignment(path: Path, column: str) -> AgreedAlignment:
    """Return the order of rows that a public list of people fixes, for the papers."""
    ids = cohort_of(path, column)
    return AgreedAlignment(identity=list_identity(ids, "cohort"), people=len(ids))


def stricter(policy: Policy, floor: Floor) -> Policy:
    """Return a policy that asks for what it does and for what the papers do.

    What the papers ask of studies on shares (collusion, threshold, who computes) is checked by every member, with a policy or
    without: `SharingFloor.of_papers`.

    Examples
    --------
    >>> stricter(Policy(max_epsilon=4.0), Floor(max_epsilon=1.0, min_people=100)).max_epsilon
    1.0
    """
    return dataclasses.replace(
        policy,
        min_people=max(policy.min_people, floor.min_people),
        max_epsilon=_least(policy.max_epsilon, floor.max_epsilon),
        max_delta=_least(policy.max_delta, floor.max_delta),
    )


def _least(*caps: float | None) -> float | None:
    return min((cap for cap in caps if cap is not None), default=None)


def _own_entry(name: str, role: str, papers: FederationAgreement, identity: Identity) -> Signatory:
    papers.check()
    mine = papers.members.get(name)
    if mine is None or mine.role != role or papers.pinned().get(name) != PublicIdentity(identity.public):
        raise ProtocolError(
            "The papers do not name this member, with this role and this key.",
            remedy="Have new papers made with this member's own card: colonnade party card.",
        )
    return mine


def _ledgers(papers: FederationAgreement) -> dict[str, str]:
    return {name: papers.members[name].ledger for name in papers.parties}
