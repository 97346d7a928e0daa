"""Whole federations whose parties can be killed, and whose messages can be lost, changed and repeated on the way."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from colonnade.conversations.endpoint import ComputeNode
from colonnade.conversations.memory import RunRecords
from colonnade.coordinator.driver import JointResult, open_jointly
from colonnade.errors import ColonnadeError, ReleaseLost
from colonnade.party.guard import Guard
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.steps.products import PrivatePairTables
from colonnade.party.table.row_order import common_ids, read_ids
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.privacy.randomness import KeyedRandomness
from colonnade.privacy.samplers import ExactSampler
from colonnade.protocol import messages
from colonnade.protocol.messages import GetAccount, Opened, Post, Posted, Recall, Reply, Request, Rounds, Withdraw
from colonnade.secure.shamir import entry_pairs
from tests import kit
from tests.conversations.stage import members
from tests.federations import SCHEMAS, as_if_agreed, frames, joined

STEP = "tables"
COLUMNS = {"bank": "segment", "telco": "plan", "insurer": "product"}
EPSILON = 0.5

Requests = dict[str, bytes]
Spoil = Callable[[Requests], Requests]


class Opens:
    """An algorithm that opens one joint step and returns what came out."""

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self._steps = steps

    def steps(self) -> tuple[Step, ...]:
        return self._steps

    def rounds(self, plan: Plan) -> Rounds:
        return (yield from open_jointly(plan, self._steps[0].name))


class Lost(Exception):
    """Raised inside the wire where a message disappears; it never leaves `Site.exchange`."""


class Site:
    """Real guards with real ledgers, behind a wire that tests can spoil. It is its own transport.

    ``spoil`` sees every round of requests before they are delivered; ``lose`` every reply after its work is done. What a study
    has cost is asked after it, and is no round of it, nor is that it was withdrawn. Neither is spoiled, and both are lost for
    members that are ``away``.
    """

    def __init__(
        self,
        folder: Path,
        *,
        parties: Sequence[str] = ("bank", "telco", "insurer"),
        nodes: Sequence[str] = (),
        epsilon: float = 5_000.0,
        tables: Mapping[str, pd.DataFrame] | None = None,
        policies: Mapping[str, cn.Policy] | None = None,
    ) -> None:
        self.folder = folder
        self.parties, self.nodes = tuple(parties), tuple(nodes)
        self.tables = dict(tables or frames(45))
        self.policies = policies or {}
        self.budget = cn.Budget(epsilon=epsilon, delta=1e-5)
        self.members = members((*parties, *nodes))
        self.schemas = {party: SCHEMAS[party] for party in parties}
        self.versions = dict.fromkeys(self.parties, 1)
        self.lives: dict[str, int] = {}
        self.endpoints: dict[str, Guard | ComputeNode] = {}
        self.seeds: dict[tuple[str, bytes], list[bytes]] = {}
        self.spoil: Spoil = lambda requests: requests
        self.lose: Callable[[str, Request], None] = lambda name, request: None
        self.away: set[str] = set()
        self.rounds: list[tuple[dict[str, Request], dict[str, Reply]]] = []
        for name in (*parties, *nodes):
            self.open(name)
        self.federation = cn.Federation(self, parties=self.parties, compute_nodes=self.nodes)

    # Bringing members up and down

    def open(self, name: str) -> None:
        """Bring a member up, from its ledger if it has one; its randomness is fresh."""
        self.lives[name] = self.lives.get(name, 0) + 1
        self.members[name] = replace(self.members[name], records=RunRecords(self.folder / f"{name}.openings"))
        randomness = KeyedRandomness(hashlib.sha256(f"{name} {self.lives[name]}".encode()).digest())
        if name in self.nodes:
            federation = messages.federation_digest(self.schemas)
            self.endpoints[name] = ComputeNode(self.members[name], federation, randomness.bytes)
            return
        tables = {
            party: cn.Party(self.tables[party], schema=SCHEMAS[party], version=self.versions[party])
            for party in self.parties
        }
        ids = {party: read_ids(tables[party].source, "person_id", party=party) for party in self.parties}
        self.endpoints[name] = tables[name].open(
            name,
            ids=ids[name],
            common=common_ids(ids),
            schemas=self.schemas,
            ledger=self._ledger(name),
            member=self.members[name],
            policy=self.policies.get(name),
            randomness=randomness,
            folder=self.folder / f"{name}.alignments",
        )

    def _ledger(self, name: str) -> SqliteLedger:
        path = self.folder / f"{name}.sqlite"
        if path.exists():
            ledger = SqliteLedger.open(path, party=name)
        else:
            ledger = SqliteLedger.create(path, party=name, budget=self.budget, test=True)
        real = ledger.reserve

        def reserve(request: bytes, *args: Any, seed: bytes, **kwargs: Any) -> int:
            self.seeds.setdefault((name, request), []).append(seed)
            return real(request, *args, seed=seed, **kwargs)

        ledger.reserve = reserve  # type: ignore[method-assign]
        return ledger

    def kill(self, name: str) -> None:
        """Drop a member with all it remembers, and bring it up again."""
        if isinstance(guard := self.endpoints[name], Guard):
            guard.close()
        self.open(name)

    def close(self) -> None:
        for name in self.parties:
            self.ledger(name).close()

    def ledger(self, name: str) -> SqliteLedger:
        return self.endpoints[name]._gate._ledger  # type: ignore[union-attr]

    # The wire

    def exchange(self, requests: Mapping[str, bytes]) -> dict[str, bytes]:
        if all(isinstance(messages.decode_request(data), GetAccount | Withdraw) for data in requests.values()):
            return {name: self.handle(name, data) for name, data in requests.items() if name not in self.away}
        replies: dict[str, bytes] = {}
        for name, data in self.spoil(dict(requests)).items():
            reply = self.handle(name, data)
            try:
                self.lose(name, messages.decode_request(requests[name]))
                replies[name] = reply
            except Lost:
                continue
        self.rounds.append(
            (
                {name: messages.decode_request(data) for name, data in requests.items()},
                {name: messages.decode_reply(data) for name, data in replies.items()},
            )
        )
        return replies

    def handle(self, name: str, data: bytes) -> bytes:
        """Deliver one message; whatever it says about a table is paid for by then (invariant 1)."""
        reply = self.endpoints[name].handle(data)
        said = messages.decode_reply(reply)
        if name in self.parties and (isinstance(said, Opened) or (isinstance(said, Posted) and said.letters)):
            request = messages.decode_request(data)
            assert isinstance(request, Post | Recall)
            if any(step.name == request.step and step.price is not None for step in request.plan.steps_of(name)):
                assert self.ledger(name).knows(messages.request_identity(request.plan, name, request.step))
        return reply

    def ask(self, name: str, request: Request) -> Reply:
        """Put one request to one member, past the wire."""
        return messages.decode_reply(self.handle(name, messages.encode(request)))

    # Studies

    def plan(self, repeat: int = 1, **changes: Any) -> Plan:
        price = Price.of(EPSILON)
        algorithm = Opens(
            tuple(
                Step(
                    name=STEP,
                    party=party,
                    kind="pair-tables",
                    columns=(COLUMNS[party],),
                    parameters={"width": len(SCHEMAS[party][COLUMNS[party]].levels)},
                    price=price,
                )
                for party in self.parties
            )
        )
        plan = self.federation._driver.plan(
            algorithm, task="pattern-count", method="secure", price=price, unit="person", parameters={}, repeat=repeat
        )
        return replaced(plan, **changes)

    def agreed(self, plan: Plan) -> Plan:
        """Let every member take part in a plan that a test drives by hand; return it."""
        for endpoint in self.endpoints.values():
            as_if_agreed(endpoint, plan)
        return plan

    def run(self, plan: Plan) -> list[int]:
        """Run a plan to its end; return the opened entries."""
        steps = tuple(step for step in plan.steps if step.name == STEP)
        result = self.federation._driver.run(Opens(steps), plan).value
        assert isinstance(result, JointResult)
        return result.cross.tolist()

    def expected(self, plan: Plan) -> list[int]:
        """The true counts, plus the noise that follows from the seeds in the ledgers: each party paid and drew once."""
        people = joined({party: self.tables[party] for party in self.parties})
        indicators = [
            people[f"{party}.{COLUMNS[party]}"] == level
            for party in self.parties
            for level in SCHEMAS[party][COLUMNS[party]].levels
        ]
        counts = np.array(indicators, dtype=np.int64)
        first, second = entry_pairs([len(SCHEMAS[party][COLUMNS[party]].levels) for party in self.parties])
        total = (counts @ counts.T)[first, second]
        for step in plan.steps:
            (seed,) = self.seeds[step.party, messages.request_identity(plan, step.party, step.name)]
            noise = ExactSampler(KeyedRandomness(seed).spawn("noise").spawn("cross"))
            total = total + kit.private(PrivatePairTables, plan, step, SCHEMAS[step.party]).cross_noise(
                len(total), noise
            )
        return total.tolist()

    # Accounts

    def spent(self) -> dict[str, float]:
        """What each ledger has spent, as ε at δ = 0; every ledger is verified and within its cap."""
        for name in self.parties:
            self.ledger(name).verify()
            assert self.ledger(name).budget.epsilon >= self.ledger(name).spent().epsilon(1e-5)
        return {name: round(self.ledger(name).spent().epsilon(0.0), 6) for name in self.parties}

    def opened(self) -> int:
        """How many shares of openings the coordinator has received."""
        return sum(isinstance(reply, Opened) for _, replies in self.rounds for reply in replies.values())


def replaced(struct: Any, **changes: Any) -> Any:
    return type(struct)(**{field: getattr(struct, field) for field in struct.__struct_fields__} | changes)


# What tests of faults share


def turn_of(requests: Requests) -> int | None:
    request = messages.decode_request(next(iter(requests.values())))
    return request.turn if isinstance(request, Post) else None


def once_each(site: Site) -> dict[str, float]:
    return dict.fromkeys(site.parties, EPSILON)


def fails(site: Site, plan: Plan) -> ColonnadeError:
    """Run a plan that must fail; what the error says about cost is the truth."""
    before = site.spent()
    with pytest.raises(ColonnadeError) as refusal:
        site.run(plan)
    after = site.spent()
    changes = {name: round(after[name] - before[name], 6) for name in after if after[name] != before[name]}
    assert {name: round(spent, 6) for name, spent in (refusal.value.spent or {}).items()} == changes
    return refusal.value


def kill_at(site: Site, step: str, turn: int, name: str) -> None:
    """Kill a member before one turn of a step, once."""

    def spoil(requests: Requests) -> Requests:
        request = messages.decode_request(next(iter(requests.values())))
        if isinstance(request, Post) and request.step == step and request.turn == turn:
            site.spoil = lambda requests: requests
            site.kill(name)
        return requests

    site.spoil = spoil


def at_turn(site: Site, turn: int, act) -> None:
    """Do something to the requests of one turn, once."""

    def spoil(requests: Requests) -> Requests:
        if turn_of(requests) != turn:
            return requests
        site.spoil = lambda requests: requests
        return act(requests)

    site.spoil = spoil


def outcome(site: Site, plan: Plan) -> str:
    """Run a plan, and return what came of it."""
    try:
        assert site.run(plan) == site.expected(plan)
    except ReleaseLost:
        return "lost"
    except ColonnadeError:
        return "aborted"
    return "done"


def killed_at(site: Site, name: str, turn: int, *, after: bool) -> None:
    """Have a member killed before it takes a turn, or after it has taken it and before the reply is out."""

    def die(party: str, request) -> None:
        if party == name and isinstance(request, Post) and request.turn == turn:
            site.lose = lambda party, request: None
            site.kill(name)
            raise Lost

    def kill(requests: Requests) -> Requests:
        site.kill(name)
        return requests

    if after:
        site.lose = die
    else:
        at_turn(site, turn, kill)


def without(name: str):
    return lambda requests: {party: data for party, data in requests.items() if party != name}
