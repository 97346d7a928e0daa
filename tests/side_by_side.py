"""Two federations that differ in one party's rows, played side by side: what a coordinator is told, and what ledgers record.

A `Stage` opens the parties of one side, in this process (`InProcess`) or as they are served (`Served`: folders, signed papers,
copies of tables, guards; only the wire is missing). Clock, run ids and noise are the same on both sides, so whatever differs
follows from rows. `Line` notes every message. Of released values and sealed letters it notes shapes and sizes, of everything
else the bytes.
"""

import collections
import contextlib
import hashlib
import json
import os
import shutil
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from colonnade.conversations import memory
from colonnade.conversations.memory import LedgerHeads
from colonnade.coordinator import driver
from colonnade.errors import BadInput, ColonnadeError
from colonnade.party.ledger import ledger as ledgers
from colonnade.party.table.private_table import PrivateTable
from colonnade.plan import Plan
from colonnade.protocol import messages
from colonnade.protocol.messages import (
    Acknowledged,
    Agreed,
    Array,
    Ask,
    Begin,
    Blob,
    Conclude,
    GetAccount,
    GetDescription,
    GetYes,
    Greeted,
    Opened,
    Post,
    Posted,
    Propose,
    Recall,
    Refused,
    Released,
    SaidYes,
)
from colonnade.transport.direct import Direct
from tests.federations import TEST_KEY
from tests.service.served import Site

SCHEMAS = {
    "bank": cn.Schema(
        age=cn.Numeric(18, 95, missing=50),
        segment=cn.Category(["basic", "gold", "platinum"], missing="excluded", other="basic"),
        default=cn.Category(["no", "yes"], missing="level"),
        visits=cn.Numeric(0, 9, integer=True, missing=0),
    ),
    "telco": cn.Schema(
        plan=cn.Category(["prepaid", "standard"], missing="level"),
        bill=cn.Numeric(0, 200, missing=100),
        calls=cn.Numeric(0, 9, integer=True, missing=0),
    ),
}
NODE = "auditor"
PEOPLE = 40
CAPACITY = 64
BUDGET = cn.Budget(epsilon=50.0, delta=1e-5)
RULES: dict[str, Any] = {
    "event_level": True,
    "nonprivate": ["Coreset", "align"],
    "predictions": {"LinearRegression": ["bank"]},
    "alignments": ["cohort", "intersection", "union"],
    "capacity": CAPACITY,
}
NOON = 1_700_000_000_000_000

Tables = Mapping[str, pd.DataFrame]


# Neighbouring tables --------------------------------------------------------------------------------------------------------


def tables() -> Tables:
    """Forty people that both parties have, and two of its own at each."""
    rng = np.random.default_rng(16)
    made = {}
    for number, (party, schema) in enumerate(SCHEMAS.items()):
        ids = [*(7 * k + 3 for k in range(PEOPLE)), 1_000_001 + 10 * number, 1_000_002 + 10 * number]
        columns = {name: _cells(column, rng, len(ids)) for name, column in schema.items()}
        frame = pd.DataFrame({"person_id": ids, **columns})
        made[party] = frame.sample(frac=1, random_state=number).reset_index(drop=True)
    return made


def _cells(column: Any, rng: np.random.Generator, count: int) -> np.ndarray:
    if isinstance(column, cn.Category):
        return np.array(column.levels, dtype=object)[rng.integers(len(column.levels), size=count)]
    return np.floor(rng.uniform(column.lower, column.upper + 1, size=count).clip(max=column.upper))


SOMEBODY = 7 * 11 + 3


def a_record_changed(before: Tables) -> Tables:
    other = {"age": 95.0, "segment": "platinum", "default": "yes", "visits": 9.0}
    bank = before["bank"].copy()
    row = bank.index[bank["person_id"] == SOMEBODY]
    if (bank.loc[row, list(other)].to_numpy() == list(other.values())).all():
        raise AssertionError  # the comparison would be of equal tables
    bank.loc[row, list(other)] = list(other.values())
    return {**before, "bank": bank}


def a_person_without_values(before: Tables) -> Tables:
    """Somebody's record becomes nothing at every party, who stays on every list."""
    found = {}
    for party, frame in before.items():
        found[party] = frame.copy()
        found[party].loc[frame["person_id"] == SOMEBODY, list(SCHEMAS[party])] = None
    return found


def a_value_missing(before: Tables) -> Tables:
    """Of somebody's record at the bank, a number and a level are missing."""
    return _with_somebodys(before, age=np.nan, segment=None)


def a_level_that_is_not_listed(before: Tables) -> Tables:
    return _with_somebodys(before, segment="diamond")


def levels_that_are_not_listed(before: Tables) -> Tables:
    """Everybody's segment is a word that the bank's schema does not know."""
    bank = before["bank"]
    return {**before, "bank": bank.assign(segment=[f"kind {k}" for k in range(len(bank))])}


def _with_somebodys(before: Tables, **values: object) -> Tables:
    bank = before["bank"].copy()
    for column, value in values.items():
        bank.loc[bank["person_id"] == SOMEBODY, column] = value
    return {**before, "bank": bank}


def in_disorder(before: Tables) -> Tables:
    """A table that its owner is refused: a level without a rule for it, and an id twice."""
    bank = _with_somebodys(before, default="perhaps")["bank"]
    return {**before, "bank": pd.concat([bank, bank.iloc[[3]]]).reset_index(drop=True)}


def a_person_gone(before: Tables) -> Tables:
    """Somebody leaves every list."""
    return {party: frame[frame["person_id"] != SOMEBODY].reset_index(drop=True) for party, frame in before.items()}


def a_person_come(before: Tables) -> Tables:
    """The bank has somebody new, whom nobody else has."""
    newcomer = before["bank"].iloc[[5]].assign(person_id=2_000_003)
    return {**before, "bank": pd.concat([newcomer, before["bank"]]).reset_index(drop=True)}


def another_list(before: Tables) -> Tables:
    """The bank's own two people are two others, and its rows stand in another order."""
    bank = before["bank"]
    own = {1_000_001: 3_000_001, 1_000_002: 3_000_002}
    return {**before, "bank": bank.assign(person_id=bank["person_id"].replace(own)).iloc[::-1].reset_index(drop=True)}


def a_column_of_nothing(before: Tables) -> Tables:
    return {**before, "bank": before["bank"].assign(age=np.nan, segment=None)}


def nobody_in_common(before: Tables) -> Tables:
    """The bank's list has nobody of the telco's any more."""
    bank = before["bank"]
    return {**before, "bank": bank.assign(person_id=bank["person_id"] + 5_000_000)}


# The same clock, the same ids -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def everything_else_the_same() -> Iterator[None]:
    """Stop the ledgers' clock, and take random names, run ids and nonces from counters, one for each place that draws."""
    count, drawing = collections.Counter(), threading.local()

    def counted(place: object) -> Callable[[int], bytes]:
        def draw(size: int) -> bytes:
            count[place] += 1
            return hashlib.shake_256(f"{place} {count[place]}".encode()).digest(size)

        return draw

    def issued(heads: LedgerHeads, context: bytes) -> bytes:
        whose = heads._path or (heads._mine.args[0].party if heads._mine else NODE)
        drawing.bytes = counted(whose)  # members answer at the same time: each has a counter of its own
        return honest(heads, context)

    honest, draws = LedgerHeads.issue, {ledgers: counted("ledger"), driver: counted("run")}
    draws[memory] = lambda size: drawing.bytes(size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledgers, "_now", lambda _: NOON)
        patch.setattr(LedgerHeads, "issue", issued)
        for module, draw in draws.items():  # and nowhere else: libraries draw when they are first imported
            patch.setattr(module, "os", SimpleNamespace(**{**vars(os), "urandom": draw}))
        yield


READERS = ("load", "codes", "values", "joint_codes", "held", "present", "cells_of")
"""The methods of a table that read rows: the same calls in the same order take the same kind of time. Folds are made of them."""


@contextlib.contextmanager
def reads_noted() -> Iterator[dict[str, list[tuple]]]:
    """Note which rows and columns are read, by party: what was asked for, and never what was found."""
    noted: dict[str, list[tuple]] = {party: [] for party in SCHEMAS}

    def watched(name: str) -> Callable[..., Any]:
        honest = getattr(PrivateTable, name)

        def read(table: PrivateTable, *args: Any, **options: Any) -> Any:
            party = next(party for party, schema in SCHEMAS.items() if set(schema) == set(table.schema))
            noted[party].append((name, repr(args), repr(options)))
            return honest(table, *args, **options)

        return read

    with pytest.MonkeyPatch.context() as patch:
        for name in READERS:
            patch.setattr(PrivateTable, name, watched(name))
        yield noted


# What is seen ---------------------------------------------------------------------------------------------------------------


class HungUp(Exception):
    """The coordinator goes away."""


def _is_account(line: object) -> bool:
    return isinstance(line, tuple) and isinstance(line[1], tuple) and line[1][0] == GetAccount.__name__


class Line:
    """A transport that notes what is said.

    It may lose a reply, spoil the letters of a turn, change plans on the way, and pretend that parties agreed.

    Parameters
    ----------
    inner
        The transport.
    noted
        Where everything is noted.
    sizes
        Whether shapes and sizes of values are noted too. Not so for a study whose exact values, and with them how many
        there are, the policies allow by name.
    """

    def __init__(self, inner: Direct, noted: list, *, sizes: bool) -> None:
        self.inner = inner
        self.rounds: int | None = None
        self.change: Callable[[Plan], Plan] | None = None
        self.is_blunt = False
        self.spoilt: int | None = None
        self.last: Plan | None = None
        self._sent_for: dict[bytes, bytes] = {}
        self.to_bank: list[bytes] = []
        self._noted = noted
        self._sizes = sizes
        self._one_at_a_time = threading.Lock()

    def exchange(self, requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        honest = {party: messages.decode_request(data) for party, data in requests.items()}
        asked = {party: self._changed(request) for party, request in honest.items()}
        sent = {party: messages.encode(request) for party, request in asked.items()}
        self.to_bank += [data for party, data in sent.items() if party == "bank"]
        replies = dict(self.inner.exchange(sent))
        for party, request in asked.items():
            self._note((party, self._public(request, sent[party]), self._answer(replies[party])))
        if self.rounds is not None and any(isinstance(request, Ask | Post) for request in asked.values()):
            self.rounds -= 1
            if not self.rounds:
                raise HungUp
        return {party: self._pretended(honest[party], data) for party, data in replies.items()}

    def _note(self, line: tuple) -> None:
        """Note an exchange. Accounts may be asked for side by side, and then they come in any order: they are noted by party."""
        with self._one_at_a_time:
            place = len(self._noted)
            if line[1][0] == GetAccount.__name__:
                while place and _is_account(self._noted[place - 1]) and self._noted[place - 1][0] > line[0]:
                    place -= 1
            self._noted.insert(place, line)

    def endpoint(self, name: str) -> Any:
        return self.inner.endpoint(name)

    def close(self) -> None:
        self.inner.close()

    def _changed(self, request: Any) -> Any:
        plan = getattr(request, "plan", None)
        if isinstance(request, GetYes | Begin):
            return msgspec.structs.replace(request, plan=self._sent_for.get(plan, plan))
        if not isinstance(plan, Plan):  # an account is asked for by the hash of a plan
            return request
        if self.spoilt is not None and getattr(request, "turn", None) == self.spoilt:
            spoilt = {
                sender: Blob(bytes(one.view)[:-1] + bytes([one.view[-1] ^ 1]))
                for sender, one in request.letters.items()
            }
            request = msgspec.structs.replace(request, letters=spoilt)
        self.last = plan if self.change is None else self.change(plan)
        self._sent_for[messages.digest(plan)] = messages.digest(self.last)
        return msgspec.structs.replace(request, plan=self.last)

    def _pretended(self, request: Any, data: bytes) -> bytes:
        """A coordinator that does not care whether anybody has agreed."""
        if not self.is_blunt or not isinstance(request, Propose | GetYes | Begin):
            return data
        if isinstance(request, Propose):
            agreed = messages.decode_reply(data)
            nonce = agreed.nonce if isinstance(agreed, Agreed) else bytes(16)
            return messages.encode(Agreed(plan_hash=messages.digest(request.plan), losses={}, unpaid=(), nonce=nonce))
        if not isinstance(messages.decode_reply(data), Refused):
            return data
        return messages.encode(SaidYes(yes=b"") if isinstance(request, GetYes) else Acknowledged())

    def _answer(self, data: bytes) -> tuple:
        return self._public(messages.decode_reply(data), data)

    def _public(self, message: Any, data: bytes) -> tuple:
        """A message without released values and sealed letters."""
        match message:
            case Released():
                told: object = (message.party, message.step, message.mechanism, message.loss, *_shapes(message.values))
            case Posted():
                told = sorted((to, len(letter)) for to, letter in message.letters.items())
            case Opened():
                told = _shapes({"share": message.share, "own": message.own})
            case Greeted():
                told = len(message.hello)
            case SaidYes():
                told = None  # a root over rows, among them hashes of what was released
            case Begin():
                told = sorted(message.yeses)
            case Ask() | Post() | Conclude():
                told = self._request(message)
            case GetAccount():
                told = data  # with the hash of a plan, which has a noisy size in it where one was released
            case _:
                return type(message).__name__, data
        return type(message).__name__, told if self._sizes else None, len(data) if self._sizes else None

    def _request(self, message: Ask | Post | Conclude) -> tuple:
        letters = {sender: len(one) for sender, one in getattr(message, "letters", {}).items()}
        given = getattr(message, "inputs", None) or getattr(message, "values", {})
        turn = (message.run, message.turn) if isinstance(message, Post) else ()
        return (messages.digest(message.plan), message.step, turn, letters, *_shapes(given))


def _shapes(arrays: Mapping[str, Array | None]) -> tuple:
    return tuple((name, None if one is None else (one.dtype, one.shape)) for name, one in sorted(arrays.items()))


# Stages ---------------------------------------------------------------------------------------------------------------------


class Stage(ABC):
    """The parties of one side, and a coordinator who tries something.

    Parameters
    ----------
    folder
        An empty folder.
    before, after
        The tables that the parties open first, and those of the version that they declare later.
    rules
        What differs from `RULES`.
    aligned, sizes
        Whether rows are in order from the beginning, and whether sizes are compared.
    """

    def __init__(
        self, folder: Path, before: Tables, after: Tables, rules: Mapping[str, Any], *, aligned: bool, sizes: bool
    ) -> None:
        self.folder = folder
        self.noted: list[object] = []
        self.tables, self.after = before, after
        self._rules = {**RULES, **rules}
        self._aligned, self._sizes = aligned, sizes
        self.is_open = False
        self.line: Line
        self.federation: cn.Federation

    @abstractmethod
    def _opened(self) -> cn.Federation:
        """Open the parties."""

    @abstractmethod
    def declare(self) -> None:
        """Let every owner declare a new version of its data, and the coordinator open the federation anew."""

    @abstractmethod
    def _try(self, tables: Tables) -> None:
        """Let every owner declare a new version of its data, of these tables; the coordinator hears nothing of it."""

    def fail_to_declare(self) -> None:
        """Let the owners try a table that is in disorder. Owners whose tables stay as they are try nothing."""
        if self.after is not self.tables:
            with pytest.raises(BadInput):
                self._try(in_disorder(self.after))

    @abstractmethod
    def ledger(self, party: str) -> Path:
        """Return where a party's ledger is."""

    @abstractmethod
    def stop(self) -> None:
        """Let the bank's operator stop it."""

    def open(self) -> None:
        self.federation = self._opened()
        self.line = Line(self.federation._driver.transport, self.noted, sizes=self._sizes)
        self.federation._driver.transport = self.line
        self.is_open = True

    def restart(self) -> None:
        """Stop every process, and start them from what is on disk."""
        said, self.is_open = self.line.to_bank, False
        self.federation.close()
        self.open()
        self.line.to_bank = said

    def hear(self, call: Callable[[cn.Federation], object], rounds: int | None = None) -> None:
        """Note what a coordinator hears of a call, who hangs up after so many rounds of work."""
        self.line.rounds = rounds
        try:
            call(self.federation)
        except ColonnadeError as error:
            self.noted.append((error.code, error.message, error.remedy, error.spent))
        except HungUp:
            self.noted.append("hung up")
        else:
            self.noted.append("answered")
        self.line.rounds = None

    def replay(self) -> None:
        """Send the bank once more all that it was ever sent."""
        for data in tuple(self.line.to_bank):
            self.line.exchange({"bank": data})

    def question(self) -> None:
        """Ask the bank everything that can be asked about the last plan, and about itself."""
        if not self.is_open:
            return
        plan, requests = self.line.last, [GetDescription(), GetAccount()]
        for step in () if plan is None else plan.steps_of("bank"):
            run = messages.digest(plan)[:16]
            requests += [Recall(plan=plan, step=step.name), Ask(plan=plan, step=step.name)]
            requests += [Post(plan=plan, step=step.name, run=run, turn=turn, letters={}) for turn in (0, 1, 3)]
            requests += [Recall(plan=plan, step=step.name), Propose(plan=plan)]
        for request in (*requests, GetDescription(alignment="no such order"), GetAccount()):
            self.line.exchange({"bank": messages.encode(request)})

    def rows(self) -> list[tuple]:
        """All rows of both ledgers, in order, but for what they cover of released bytes."""
        body = "CASE kind WHEN 'opening' THEN NULL ELSE body END"  # that of an opening is a hash of what is released
        facts = f"kind, label, request, {body}, loss, pure, detail, together, event_level, plan, version"
        kept = "answer IS NULL, seed IS NULL"
        found = []
        for party in SCHEMAS:
            with contextlib.closing(sqlite3.connect(self.ledger(party))) as connection:
                found += [
                    (party, *row)
                    for row in connection.execute(f"SELECT {facts}, {kept} FROM entries ORDER BY sequence")
                ]
        return found


class InProcess(Stage):
    """Parties of a simulation, with ledgers on disk."""

    version = 1

    def _opened(self) -> cn.Federation:
        return self._simulated(self.tables, self.version)

    def _try(self, tables: Tables) -> None:
        self._simulated(tables, self.version + 1)

    def _simulated(self, tables: Tables, version: int) -> cn.Federation:
        return cn.Federation.simulate(
            {name: cn.Party(tables[name], schema=SCHEMAS[name], version=version) for name in SCHEMAS},
            id="person_id",
            budget=BUDGET,
            compute_nodes=[NODE],
            policies=dict.fromkeys(SCHEMAS, cn.Policy(**self._rules)),
            ledger_dir=self.folder,
            test_key=TEST_KEY,
            aligned=self._aligned,
        )

    def declare(self) -> None:
        self.tables, self.version = self.after, self.version + 1
        self.restart()

    def ledger(self, party: str) -> Path:
        return self.folder / f"{party}.sqlite"

    def stop(self) -> None:
        self.line.endpoint("bank").stop()


class Served(Stage):
    """Served parties: the same folders, papers, copies, guards and heads as between machines; only the wire is missing."""

    def __init__(self, template: Site, folder: Path, *args: Any, touched: bool = False, **options: Any) -> None:
        super().__init__(folder, *args, **options)
        self._papers = template.papers
        self._members = {name: type(member)(folder / name) for name, member in template.members.items()}
        self._is_touched = touched
        for name in self._members:
            shutil.copytree(template.folder / name, folder / name, symlinks=True)
        shutil.copy(template.folder / "cohort.parquet", folder)
        for party in SCHEMAS:
            self._write_rules(party)
        self._try(self.tables)

    @classmethod
    def template(cls, folder: Path) -> Site:
        """Make the folders and papers once: certificates take seconds, copies do not."""
        return Site(
            folder,
            parties=tuple(SCHEMAS),
            nodes=(NODE,),
            schemas=SCHEMAS,
            tables=dict(tables()),
            loaded=False,
            epsilon=BUDGET.epsilon,
        )

    def _write_rules(self, party: str) -> None:
        path = self.folder / party / "policy.toml"
        rules = "\n".join(f"{name} = {_toml(value)}" for name, value in self._rules.items())
        path.write_text(path.read_text().split("[policy]")[0] + f"[policy]\n{rules}\n")

    def _try(self, tables: Tables) -> None:
        for party, frame in tables.items():
            path = self.folder / f"{party}.parquet"
            frame.to_parquet(path)
            self._members[party].load([path])

    def _opened(self) -> cn.Federation:
        line = Direct({name: member.guard() for name, member in self._members.items()})
        opened = cn.Federation(line, parties=tuple(SCHEMAS), compute_nodes=(NODE,), agreement=self._papers)
        self._go_on_with_the_file()
        return opened

    def _go_on_with_the_file(self) -> None:
        """Let the bank's owner, who keeps the file, change it."""
        if self._is_touched:
            a_record_changed(self.tables)["bank"].to_parquet(self.folder / "bank.parquet")

    def declare(self) -> None:
        self.tables = self.after
        self._try(self.tables)
        self._go_on_with_the_file()
        connected = self.federation
        self.federation = cn.Federation(
            connected._driver.transport, parties=connected.parties, compute_nodes=(NODE,), agreement=self._papers
        )

    def ledger(self, party: str) -> Path:
        return self.folder / party / "ledger.sqlite"

    def stop(self) -> None:
        self.line.endpoint("bank")._guard.stop()


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {_toml(one)}" for name, one in value.items()) + " }"
    return json.dumps(value)
