"""A party without its table, for previews: it knows what is public and what was paid for, and can neither read a row nor draw."""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Never, cast

import numpy as np

from colonnade.conversations.endpoint import ComputeNode
from colonnade.party.gate import Gate
from colonnade.party.guard import Guard, RowOrders
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.party import SIMULATED, members_of, open_ledgers
from colonnade.party.policy import Policy, Terms
from colonnade.party.table.private_table import PrivateTable
from colonnade.party.table.row_order import RowOrder
from colonnade.privacy.accounting import Budget
from colonnade.privacy.randomness import KeyedRandomness, Randomness
from colonnade.protocol import codec
from colonnade.schema import Schema
from colonnade.secure.keys import Identity, PublicIdentity
from colonnade.steps.joint import SharingFloor

__all__ = ["StandIn"]


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
        federation = codec.federation_digest(schemas)
        with ExitStack() as undo:
            ledgers: dict[str, SqliteLedger] = {}
            for name, ledger in open_ledgers(tuple(parties), budget, ledger_dir, test=test_key is not None):
                undo.callback(ledger.close)
                ledgers[name] = ledger
            members = members_of(identities, SharingFloor(max(1, collusion), collusion, computing), ledgers, None)
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
                guards[name] = Guard(gate, members[name], RowOrders(gate, order))
            undo.pop_all()
        return guards
