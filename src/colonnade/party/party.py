"""`Party`: one organisation's table and its public schema. Opening it puts it behind a guard, which answers requests.

*Data versions.* `KeptFingerprint` finds out whether a party's owner has opened other data under a version that was declared
before. A reserved step is taken up again with the same noise, so one data version has to be one table. Where a party keeps its
ledger in a folder, a keyed hash of its ids and of each declared column stands in a file beside it, for this user alone. It is
compared when the table is opened, and what it finds is told to the owner. No request reaches it, and nothing of it is ever
sent: whether rows have changed is the party's own secret.
"""

import dataclasses
import hashlib
import hmac
import os
import re
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Never, cast

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from colonnade.conversations.conversation import Member
from colonnade.conversations.endpoint import ComputeNode
from colonnade.conversations.memory import LedgerHeads, RunRecords
from colonnade.errors import BadInput, BoundsRequired
from colonnade.party.gate import Gate, statement_of
from colonnade.party.guard import Guard, RowOrders
from colonnade.party.ledger.decisions import CapDecision
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.policy import Policy, Terms
from colonnade.party.table.checking import TableCheck, check_table
from colonnade.party.table.dask_cluster import with_cluster
from colonnade.party.table.private_table import PrivateTable, require_schema
from colonnade.party.table.row_order import RowOrder, require_capacity, text_bytes
from colonnade.party.table.sources import Source, memory_limit
from colonnade.party.table.stored_table import LargeIds, common_list, ordered_table, party_ids
from colonnade.privacy.accounting import Budget
from colonnade.privacy.randomness import KeyedRandomness, Randomness, SystemRandomness
from colonnade.protocol import messages
from colonnade.runtime.private_files import TemporaryFolder, replacing
from colonnade.schema import Schema, id_column
from colonnade.schema.encoders import flatten
from colonnade.secure.keys import Identity, PublicIdentity
from colonnade.steps.alignment import MODES
from colonnade.steps.kind import SharingFloor

KEY = 32


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the file holds: keyed hashes, by column."""

    version: int
    key: str
    ids: str
    columns: dict[str, str]


class KeptFingerprint:
    """A keyed hash of a party's data, in a file that only this user can read.

    Parameters
    ----------
    path
        The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def record(self, source: Source, schema: Schema, ids: Any, *, version: int) -> None:
        """Keep the fingerprint of a version, in place of an earlier one's."""
        key = os.urandom(KEY)
        self._write(_Kept(version, key.hex(), _of_ids(ids, key), _of_columns(source, schema, key)))

    def require_same(self, source: Source, schema: Schema, ids: Any, *, version: int) -> None:
        """Refuse, towards the owner, other data than those of this version; a column that is declared newly is added."""
        kept = self._read()
        if kept is None or kept.version != version:  # a crash came between the declaration and this file
            self.record(source, schema, ids, version=version)
            return
        key = bytes.fromhex(kept.key)
        columns = _of_columns(source, schema, key)
        known = kept.columns.keys() & columns.keys()
        if kept.ids != _of_ids(ids, key) or any(kept.columns[name] != columns[name] for name in known):
            raise BadInput(
                f"The table is not the one that was opened as data version {version}.",
                remedy=f"Declare a new version (version={version + 1}), or open the table as it was.",
            )
        if known != columns.keys():
            self._write(msgspec.structs.replace(kept, columns={**kept.columns, **columns}))

    def _read(self) -> _Kept | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Kept)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError):
            raise BadInput(
                f"The fingerprint of this party's data ({self._path.name}) cannot be read.",
                remedy="Restore the file, or delete it and declare a new version of the data.",
            ) from None

    def _write(self, kept: _Kept) -> None:
        with replacing(self._path) as file:
            file.write(msgspec.json.encode(kept))


class _Hash:
    """A keyed hash of a column that is read in blocks; where they are cut does not matter."""

    def __init__(self, key: bytes) -> None:
        self._lengths = hmac.new(key, b"lengths", hashlib.sha256)
        self._text = hmac.new(key, b"text", hashlib.sha256)

    def add(self, cells: Any) -> None:
        """Add some cells, as text: a number is the same in a CSV file and in a frame of texts."""
        text = _as_text(cells)
        lengths = pc.binary_length(text).cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        self._lengths.update(np.ascontiguousarray(lengths, dtype="<i8").data)
        if len(present := text.drop_null()):
            self._text.update(text_bytes(present).data)

    def hexdigest(self) -> str:
        return hashlib.sha256(self._lengths.digest() + self._text.digest()).hexdigest()


def _as_text(cells: Any) -> Any:
    array = flatten(cells)
    array = flatten(array.dictionary_decode()) if pa.types.is_dictionary(array.type) else array
    try:
        return array.cast(pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # a type, or bytes, that Arrow does not write as text
        return pa.array([None if one is None else repr(one) for one in array.to_pylist()], type=pa.large_string())


def _of_ids(ids: Any, key: bytes) -> str:
    state = _Hash(key)
    for block in ids.blocks() if isinstance(ids, LargeIds) else [] if ids is None else [ids]:
        state.add(block)
    return state.hexdigest()


def _of_columns(source: Source, schema: Schema, key: bytes) -> dict[str, str]:
    states = {name: _Hash(key) for name in schema if name in source.columns}
    for batch in source.batches(list(states)):
        for name, state in states.items():
            state.add(batch.column(name))
    return {name: state.hexdigest() for name, state in states.items()}


SIMULATED = Policy(event_level=True, nonprivate=("align", "Coreset"), alignments=MODES)
"""What a simulated party answers by default. The person who asks owns the data too. So asking for an event level, for a mode
of alignment, or with ``allow_nonprivate=True``, is consent.
"""

_TEMPORARY: list[TemporaryFolder] = []
"""Where simulations without a ledger directory keep their ledgers, until the process ends."""


class Party:
    """One organisation: a table, and what is public about its columns.

    Parameters
    ----------
    data
        A pandas, polars or Dask frame, a pyarrow table, a path to a parquet or CSV file, to a folder of parquet files, a pattern
        such as ``"people/*.parquet"``, a `DuckDB` table or query, or a list of these (shards by rows). A
        shard perturbs its own people's randomised reports and values before it hands them over; all else is of all rows.
    schema
        Bounds and levels of every column that may be read. Required: they are public, so they are never taken from the data.
    version
        The version of the data: a whole number from 1 that its owner declares and everybody may know. Another table under the
        same ledger is a higher version. What a party has kept of a version (answers, reservations, row orders) ends with it; what
        it has spent does not.
    separator, encoding
        How CSV files are written: what stands between columns, and how letters are stored.
    memory
        How much memory the party's process may use, such as ``"2GB"``, for a table that is larger: rows are then put in order
        through DuckDB (extra ``large``) and read from temporary files, with the same answers. By default columns are kept in
        memory.
    dask
        For a table that is larger than one machine: the party's own Dask cluster (extra ``dask``), as a
        ``distributed.Client``; with a Dask dataframe by default the current one. Its workers code, put in order, fold and
        share the rows, with the same answers. They are inside the party's trust boundary, so a cluster is reached through
        TLS (docs/how-to/dask.md).

    Examples
    --------
    >>> import pandas as pd
    >>> from colonnade import Numeric, Schema
    >>> Party(pd.DataFrame({"id": [1, 2], "age": [31, 64]}), schema=Schema(age=Numeric(18, 95)))
    Party(1 column)
    """

    def __init__(
        self,
        data: Any,
        *,
        schema: Schema,
        version: int = 1,
        separator: str = ",",
        encoding: str = "utf-8",
        memory: str | int | None = None,
        dask: Any = None,
    ) -> None:
        if not isinstance(schema, Schema):
            raise BoundsRequired(
                "A party needs a schema: bounds and levels of its columns (cn.Schema).",
                remedy="cn.Party(frame, schema=cn.Schema(age=cn.Numeric(18, 95)))",
            )
        if type(version) is not int or version < 1:
            raise BadInput("A data version is a whole number from 1.", remedy="cn.Party(frame, schema=..., version=2)")
        self.memory = memory_limit(memory)
        data, self.cluster = with_cluster(data, dask)
        if self.cluster is not None and self.memory is not None:
            raise BadInput(
                "memory= is for rows on this machine's disk, and a Dask cluster keeps them with its workers.",
                remedy="Leave memory= out, and give each Dask worker its own limit on memory.",
            )
        self.source = Source(data, separator=separator, encoding=encoding)
        self.schema = schema
        self.version = version
        self._guard: weakref.ref[Guard] | None = None
        require_schema(self.source, schema)

    def __repr__(self) -> str:
        return f"Party({len(self.schema)} column{'s' if len(self.schema) != 1 else ''})"

    def check(self, id: str | None = None) -> TableCheck:  # noqa: A002  # the public name is part of the contract
        """Read the table once and return what its owner should know: values that do not fit the schema, and what to declare.

        It is exact, so it is for the owner alone. Nothing sends it.

        Parameters
        ----------
        id
            The id column, to count repeated ids and rows per person too.
        """
        return check_table(self.source, self.schema, id=id)

    def validate(self, name: str) -> None:
        """Refuse a table with values that its schema has no rule for, before it is opened. The error is for the owner alone."""
        self.check().refuse(name)

    def open(
        self,
        name: str,
        *,
        ids: Any,
        common: Any,
        schemas: Mapping[str, Schema],
        ledger: SqliteLedger,
        member: Member | None = None,
        policy: Policy | None = None,
        randomness: Randomness | None = None,
        folder: Path | None = None,
        analysts: Mapping[str, PublicIdentity] | None = None,
    ) -> Guard:
        """Put this party behind its guard, with its rows in the agreed order.

        Parameters
        ----------
        name
            The party's name in the federation.
        ids, common
            This party's ids (`party_ids`), and the ids that take part (`common_list`). With ``common=None`` the rows have no
            order until the parties align them.
        schemas
            The public schemas of all parties, in the federation's order.
        ledger
            Where its releases are paid for.
        member
            Its identity and those of its peers. By default a fresh identity without peers, which rules out secure methods.
        policy
            Its rules; by default anything private that fits the ledger.
        randomness
            Where its noise comes from; by default the operating system.
        folder
            Where it keeps the row orders that it agrees to later, and beside it a fingerprint of its data; by default in memory.
        analysts
            The public keys of those who may sign requests, by name.
        """
        self.validate(name)
        require_capacity(ids, None if policy is None else policy.capacity, party=name)
        alignment, table = ordered_table(
            self.source, self.schema, ids, common, party=name, memory=self.memory, cluster=self.cluster
        )
        terms = Terms(
            party=name,
            schema=self.schema,
            federation=messages.federation_digest(schemas),
            alignment=alignment.identity,
            people=alignment.people,
            parties=tuple(schemas),
            capacity=0 if policy is None else policy.capacity or 0,
            version=self.version,
            analysts=dict(analysts or {}),
        )
        randomness = randomness or SystemRandomness()
        gate = Gate(table, policy or Policy(), terms, ledger, randomness)
        self._take_up(gate, ids, folder)
        member = member or Member(name, Identity.generate(randomness), {})
        member = dataclasses.replace(member, workers=self.cluster)
        guard = Guard(gate, member, RowOrders(gate, alignment, folder, ids))
        self._guard = weakref.ref(guard)
        return guard

    def waiting(self) -> list[str]:
        """Return the studies that wait for this party's approval (`Policy.approve_above`), in words, the latest first."""
        guard = self._opened()
        return [guard.narrator().refusal(one) for one in guard.waiting()]

    def approve(self, *, number: int = 0, days: float = 7.0, reason: str = "") -> str:
        """Approve one study that waits; it is recorded in the ledger, signed, before anything is spent on it.

        Parameters
        ----------
        number
            Which one of `waiting`.
        days
            How long the approval holds. It also ends with the version of the data.
        reason
            One line, for the record.

        Returns
        -------
        str
            What was approved, in words.
        """
        guard = self._opened()
        waiting = guard.waiting()
        if not 0 <= number < len(waiting):
            raise BadInput(
                f"No study of that number waits; {len(waiting)} do.", remedy="party.waiting() lists them, from 0."
            )
        guard.approve(waiting[number].hash, days=days, reason=reason)
        return guard.narrator().refusal(waiting[number])

    def _opened(self) -> Guard:
        guard = None if self._guard is None else self._guard()
        if guard is None:
            raise BadInput("This party is not open.", remedy="Open it: cn.Federation.simulate(...).")
        return guard

    def _take_up(self, gate: Gate, ids: Any, folder: Path | None) -> None:
        """Declare the data's version; refuse, towards the owner, other data under the version that is current."""
        is_new = gate.declare_version()
        if folder is not None:
            kept = KeptFingerprint(folder.with_suffix(".fingerprint"))
            keep = kept.record if is_new else kept.require_same
            keep(self.source, self.schema, ids, version=self.version)

    @classmethod
    def assemble(
        cls,
        parties: Mapping[str, "Party"],
        *,
        id: str | Mapping[str, str],  # noqa: A002  # the public name is part of the contract
        budget: Budget,
        policies: Mapping[str, Policy] | None = None,
        compute_nodes: Sequence[str] = (),
        committee: Sequence[str] | None = None,
        collusion: int = 1,
        ledger_dir: str | Path | None = None,
        test_key: bytes | None = None,
        aligned: bool = True,
        analysts: Mapping[str, PublicIdentity] | None = None,
        change_cap: bool = False,
    ) -> dict[str, Guard | ComputeNode]:
        """Open several parties in one process on the ids that all of them have. See `Federation.simulate`."""
        _check_names(parties, policies or {}, compute_nodes, id)
        if not isinstance(budget, Budget):
            raise BadInput("budget takes a cn.Budget.", remedy="For example cn.Budget(epsilon=10.0, delta=1e-5).")
        ids = {
            name: party_ids(party.source, id_column(id, name), party=name, memory=party.memory)
            for name, party in parties.items()
        }
        common = common_list(ids) if aligned else None
        schemas = {name: party.schema for name, party in parties.items()}
        noise = {name: _test_randomness(test_key, name) or SystemRandomness() for name in (*parties, *compute_nodes)}
        computing = None if committee is None else frozenset(committee)
        identities = {name: Identity.generate(randomness) for name, randomness in noise.items()}
        deciding = identities if change_cap else None
        with ExitStack() as undo:
            books: dict[str, SqliteLedger] = {}
            for name, ledger in open_ledgers(
                tuple(parties), budget, ledger_dir, test=test_key is not None, deciding=deciding
            ):
                undo.callback(ledger.close)
                books[name] = ledger
            members = simulated_members(
                identities, SharingFloor(max(1, collusion), collusion, computing), books, ledger_dir
            )
            guards: dict[str, Guard | ComputeNode] = {
                name: ComputeNode(members[name], messages.federation_digest(schemas), noise[name].bytes)
                for name in compute_nodes
            }
            for name, ledger in books.items():
                guards[name] = parties[name].open(
                    name,
                    ids=ids[name],
                    common=common,
                    schemas=schemas,
                    ledger=ledger,
                    member=members[name],
                    policy=_with_capacity(
                        (policies or {}).get(name, dataclasses.replace(SIMULATED, min_collusion=collusion)),
                        len(ids[name]),
                    ),
                    randomness=noise[name],
                    folder=None if ledger_dir is None else Path(ledger_dir) / f"{name}.alignments",
                    analysts=analysts,
                )
            undo.pop_all()
        return guards


def _with_capacity(policy: Policy, length: int) -> Policy:
    """Return a policy that declares the length of the party's list, rounded up by at most an eighth, unless it declares one.

    The owner of a simulation owns every list, and declares this much of each. A served party declares a capacity itself, or none.
    """
    step = 1 << max(0, length.bit_length() - 4)
    return policy if policy.capacity else dataclasses.replace(policy, capacity=max(1, -(-length // step)) * step)


def simulated_members(
    identities: Mapping[str, Identity],
    floor: SharingFloor,
    books: Mapping[str, SqliteLedger],
    folder: str | Path | None,
) -> dict[str, Member]:
    """Give everybody everybody's public keys and ledgers, as a federation's papers would, and its floor."""
    pinned = {name: PublicIdentity(identity.public) for name, identity in identities.items()}
    named = {name: ledger.identity for name, ledger in books.items()}
    heads = {
        name: LedgerHeads(named, mine=partial(statement_of, books[name]) if name in books else None)
        for name in identities
    }
    records = {name: RunRecords(None if folder is None else Path(folder) / f"{name}.runs") for name in identities}
    return {
        name: Member(name, identity, pinned, heads[name], floor, records[name]) for name, identity in identities.items()
    }


def _check_names(
    parties: Mapping[str, "Party"],
    policies: Mapping[str, Policy],
    nodes: Sequence[str],
    id: object,  # noqa: A002  # as in `Federation.simulate`
) -> None:
    for name in (*parties, *(node for node in nodes if node != "coordinator")):
        if not isinstance(name, str) or not name.isidentifier() or name == "coordinator":
            raise BadInput(
                f"{name!r} cannot be the name of a party or compute node: it is one word of letters, digits and underscores, "
                "not beginning with a digit, and not 'coordinator'. It stands in column names, file names and certificates.",
                remedy=f"For example {_as_word(name)!r}.",
            )
    names = [*parties, *nodes]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise BadInput(
            f"Two members are called {twice[0]!r}: a compute node has the name of a party, or of another node.",
            remedy="Give every party and every compute node a name of its own.",
        )
    for given, named in (("policies", policies), ("id", id if isinstance(id, Mapping) else {})):
        strangers = sorted(map(str, set(named) - set(parties)))
        if strangers:
            raise BadInput(
                f"{given} names {strangers[0]!r}, which is not a party here.",
                remedy=f"The parties are {', '.join(parties)}.",
            )
    if any(not isinstance(policy, Policy) for policy in policies.values()):
        raise BadInput(
            "policies takes cn.Policy objects.", remedy='For example policies={"bank": cn.Policy(max_epsilon=1.0)}.'
        )


def _as_word(name: object) -> str:
    """Return a name as near to the given one as a party's name can be."""
    word = re.sub(r"\W+", "_", str(name)).strip("_").lstrip("0123456789_")
    return word if word.isidentifier() and word != "coordinator" else "bank"


def open_ledgers(
    names: Sequence[str],
    budget: Budget,
    directory: str | Path | None,
    *,
    test: bool,
    deciding: Mapping[str, Identity] | None = None,
) -> Iterator[tuple[str, SqliteLedger]]:
    """Open every party's ledger in a folder, or make it; refuse one with another cap unless its owner is ``deciding``."""
    if directory is None:
        _TEMPORARY.append(TemporaryFolder())
    folder = _TEMPORARY[-1].path if directory is None else Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = folder / f"{name}.sqlite"
        if not path.exists():
            yield name, SqliteLedger.create(path, party=name, budget=budget, test=test)
            continue
        ledger = SqliteLedger.open(path, party=name)
        cap = ledger.budget
        if (cap.nano, cap.delta) != (budget.nano, budget.delta):
            if deciding is None:
                ledger.close()
                raise BadInput(
                    f"The ledger of {name!r} has the cap ε={cap.epsilon:g} at δ={cap.delta:g}, and budget= is "
                    f"ε={budget.epsilon:g} at δ={budget.delta:g}.",
                    remedy=f"Pass budget=cn.Budget(epsilon={cap.epsilon:.12g}, delta={cap.delta:.12g}), or record the new cap: "
                    "change_cap=True.",
                )
            decision = CapDecision.by_user(budget, "Federation.simulate(change_cap=True)")
            ledger.decide(decision.signed(ledger.identity, deciding[name]))
        yield name, ledger


def _test_randomness(key: bytes | None, party: str) -> Randomness | None:
    return None if key is None else KeyedRandomness(hashlib.sha256(key + party.encode()).digest())


class _NoTable:
    """Stands where a table would, and has no rows to read."""

    def __getattr__(self, name: str) -> Never:
        raise AssertionError("A preview reads no data.")


class _NoRandomness:
    """Stands where a party's randomness would, and gives none."""

    deterministic = False

    def bytes(self, count: int) -> Never:  # noqa: ARG002  # as in `Randomness`
        raise AssertionError("A preview draws nothing.")

    def spawn(self, name: str) -> Never:  # noqa: ARG002  # as in `Randomness`
        raise AssertionError("A preview draws nothing.")


@dataclass(frozen=True)
class StandIn:
    """What `Federation.simulate` opens in place of a `Party` where nothing is to run.

    Parameters
    ----------
    schema, version
        What is public about the party's columns, and the declared version of its data.
    alignment, people, union
        The order of rows that studies are previewed on: its name, its size, and whether it is that of a union.
    capacity
        How long its list of ids looks, where its policy does not say.
    """

    schema: Schema
    version: int
    alignment: str
    people: int
    union: bool
    capacity: int

    @classmethod
    def assemble(
        cls,
        parties: Mapping[str, "StandIn"],
        *,
        id: str | Mapping[str, str],  # noqa: A002, ARG003  # as in `Federation.simulate`
        budget: Budget,
        policies: Mapping[str, Policy] | None = None,
        compute_nodes: Sequence[str] = (),
        committee: Sequence[str] | None = None,
        collusion: int = 1,
        ledger_dir: str | Path | None = None,
        test_key: bytes | None = None,
        aligned: bool = True,  # noqa: ARG003
        analysts: Mapping[str, PublicIdentity] | None = None,
        change_cap: bool = False,  # noqa: ARG003
    ) -> dict[str, Guard | ComputeNode]:
        """Open every party's ledger behind a guard that has no table."""
        schemas = {name: party.schema for name, party in parties.items()}
        # identities sign the quotes of a preview, and nothing that anybody keeps: no secret is needed for them
        keyed = {
            name: KeyedRandomness(hashlib.sha256(f"preview {name}".encode()).digest())
            for name in (*parties, *compute_nodes)
        }
        computing = None if committee is None else frozenset(committee)
        identities = {name: Identity.generate(randomness) for name, randomness in keyed.items()}
        federation = messages.federation_digest(schemas)
        with ExitStack() as undo:
            ledgers: dict[str, SqliteLedger] = {}
            for name, ledger in open_ledgers(tuple(parties), budget, ledger_dir, test=test_key is not None):
                undo.callback(ledger.close)
                ledgers[name] = ledger
            members = simulated_members(
                identities, SharingFloor(max(1, collusion), collusion, computing), ledgers, None
            )
            guards: dict[str, Guard | ComputeNode] = {
                name: ComputeNode(members[name], federation, keyed[name].bytes) for name in compute_nodes
            }
            for name, ledger in ledgers.items():
                party = parties[name]
                policy = (policies or {}).get(name, replace(SIMULATED, min_collusion=collusion))
                policy = policy if policy.capacity else replace(policy, capacity=party.capacity)
                terms = Terms(
                    party=name,
                    schema=party.schema,
                    federation=federation,
                    alignment=party.alignment,
                    people=party.people,
                    parties=tuple(schemas),
                    capacity=policy.capacity or 0,
                    union=party.union,
                    version=party.version,
                    analysts=dict(analysts or {}),
                )
                table, noise = cast("PrivateTable", _NoTable()), cast("Randomness", _NoRandomness())
                gate = Gate(table, policy, terms, ledger, noise)
                gate.declare_version()
                order = RowOrder(party.alignment, party.people, np.empty(0, dtype=np.int64), None, party.union)
                guards[name] = Guard(gate, members[name], RowOrders(gate, order, ids=_NoTable()))
            undo.pop_all()
        return guards
