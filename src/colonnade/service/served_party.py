"""A party that is served to a federation of separate machines: its table, policy, ledger and identity behind one guard.

Everything that peers rely on is checked here, once, before the guard answers anything: that every member signed the papers, that
the papers name this party's own key, ledger and schema, and that its list of people is the one in the papers.
"""

import dataclasses
from pathlib import Path
from typing import Any

from colonnade.conversations.conversation import LedgerHead, LedgerHeads, Member
from colonnade.conversations.endpoint import ComputeNode
from colonnade.errors import BadInput, LedgerCorrupt, ProtocolError, SchemaMismatch
from colonnade.party.gate import Gate
from colonnade.party.guard import Guard, RowOrders
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.party import Party
from colonnade.party.policy import Policy, Terms
from colonnade.party.table.private_table import PrivateTable
from colonnade.party.table.row_order import RowOrder, align, common_ids, read_ids, unaligned
from colonnade.party.table.sources import Source
from colonnade.privacy.randomness import Randomness, SystemRandomness
from colonnade.protocol import codec
from colonnade.protocol.agreement import AgreedAlignment, FederationAgreement, Floor, Signatory
from colonnade.secure.keys import Identity

__all__ = ["cohort_of", "public_alignment", "serve_node", "serve_party", "stricter"]


def serve_party(
    name: str,
    party: Party,
    papers: FederationAgreement,
    *,
    identity: Identity,
    ledger: SqliteLedger,
    policy: Policy,
    id: str,  # noqa: A002  # the public name is part of the contract
    cohort: Any,
    folder: Path,
    randomness: Randomness | None = None,
) -> Guard:
    """Put a party behind its guard, on the terms of a federation's papers.

    Parameters
    ----------
    name
        The party's name in the papers.
    party
        Its table and its public schema.
    papers
        The federation's papers; refused unless every member signed them.
    identity, ledger, policy
        Its own key, ledger and rules; the papers' floor is put under the rules.
    id
        Its id column.
    cohort
        The public list of people, as `cohort_of` read it; a person it does not know gets a null record. ``None`` where the papers
        name no list: the parties then align their rows by themselves.
    folder
        Where the peers' ledger heads and further orders of rows are kept.
    randomness
        Where its noise comes from; by default the operating system.
    """
    mine = _own_entry(name, "data", papers, identity)
    if mine.schema != codec.schema_digest(party.schema):
        raise SchemaMismatch(
            "The papers name another schema than this party's.",
            remedy="Restore schema.toml, or have new papers made with this party's current card.",
        )
    if mine.ledger != ledger.identity:
        raise LedgerCorrupt("The papers name another ledger than this party's.", remedy="Open the ledger they name.")
    party.validate(name)
    ids = read_ids(party.source, id, party=name)
    alignment = _in_order(ids, cohort, name, papers)
    terms = Terms(
        party=name,
        schema=party.schema,
        federation=papers.identity,
        alignment=alignment.identity,
        people=alignment.people,
        parties=papers.parties,
        capacity=policy.capacity or 0,
    )
    table = PrivateTable(party.source, party.schema, order=alignment.rows)
    gate = Gate(table, stricter(policy, papers.floor), terms, ledger, randomness or SystemRandomness())
    heads = LedgerHeads(_ledgers(papers), folder / "peers.heads", lambda: _head(ledger))
    member = Member(name, identity, papers.pinned(), heads)
    return Guard(gate, member, RowOrders(gate, alignment, folder / "alignments", ids))


def serve_node(
    name: str, papers: FederationAgreement, *, identity: Identity, folder: Path, randomness: Randomness | None = None
) -> ComputeNode:
    """Put a compute node without data behind its own guard, on the terms of a federation's papers."""
    _own_entry(name, "compute", papers, identity)
    heads = LedgerHeads(_ledgers(papers), folder / "peers.heads")
    fresh = (randomness or SystemRandomness()).bytes
    return ComputeNode(Member(name, identity, papers.pinned(), heads), papers.identity, fresh)


def cohort_of(path: Path, column: str) -> Any:
    """Read a public list of people: the ids of a cohort, in canonical order."""
    return common_ids({"cohort": read_ids(Source(path), column, party="cohort")})


def public_alignment(path: Path, column: str) -> AgreedAlignment:
    """Return the order of rows that a public list of people fixes, for the papers."""
    ids = cohort_of(path, column)
    order = align(ids, ids, party="cohort", mode="cohort")
    return AgreedAlignment(identity=order.identity, people=order.people)


def stricter(policy: Policy, floor: Floor) -> Policy:
    """Return a policy that asks for what it does and for what the papers do.

    Examples
    --------
    >>> stricter(Policy(max_epsilon=4.0), Floor(max_epsilon=1.0, min_people=100)).max_epsilon
    1.0
    """
    return dataclasses.replace(
        policy,
        min_collusion=max(policy.min_collusion, floor.min_collusion),
        min_people=max(policy.min_people, floor.min_people),
        max_epsilon=_least(policy.max_epsilon, floor.max_epsilon),
        max_delta=_least(policy.max_delta, floor.max_delta),
    )


def _least(*caps: float | None) -> float | None:
    return min((cap for cap in caps if cap is not None), default=None)


def _own_entry(name: str, role: str, papers: FederationAgreement, identity: Identity) -> Signatory:
    papers.check()
    mine = papers.members.get(name)
    if mine is None or mine.role != role or mine.identity != identity.public.hex():
        raise ProtocolError(
            "The papers do not name this member, with this role and this key.",
            remedy="Have new papers made with this member's own card: colonnade party card.",
        )
    return mine


def _in_order(ids: Any, cohort: Any, name: str, papers: FederationAgreement) -> RowOrder:
    if papers.alignment is None:
        return unaligned()
    if cohort is None:
        raise BadInput("The papers name a list of people.", remedy="Say where it is: cohort in schema.toml.")
    alignment = align(ids, cohort, party=name, mode="cohort")
    if (alignment.identity, alignment.people) != (papers.alignment.identity, papers.alignment.people):
        raise BadInput("This list of people is not the one in the papers.", remedy="Use the list that was signed for.")
    return alignment


def _ledgers(papers: FederationAgreement) -> dict[str, str]:
    return {name: papers.members[name].ledger for name in papers.parties}


def _head(ledger: SqliteLedger) -> LedgerHead:
    head = ledger.head()
    return LedgerHead(head.ledger, head.sequence, head.hash, head.nano)
