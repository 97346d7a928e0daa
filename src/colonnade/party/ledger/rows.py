"""Rows of a ledger: their kinds, what they hold, how they are hashed, and the tables that they stand in.

*Facts and answers.* A row's facts never change. They are hashed with the hash of the row before, so that a row cannot be
altered, moved or left out without every later hash changing. The one thing added later is the answer, bound by a hash over
the row's own hash and the answer's bytes. A step of several rounds keeps a seed until its answer is there; a hash of the seed
is a fact.

*Tables.* Triggers make the database itself refuse to take anything back. Opening a ledger compares the statements of its
tables and triggers with those in the file. Plans, and what was said about a study, stand in tables of their own under their
hashes, and the rows that refer to them hold those hashes.

*What the chain does not prove.* The hashes carry no key: they find accidents and inconsistent edits. A user who may write the
file can replace it by another consistent one, an older one included. Only somebody who kept a `Head` can tell
(`SqliteLedger.continues`).

*What peers are shown.* Not the hashes: a reader of one could try out what the next row says. Rows are the leaves of a tree
(`colonnade.conversations.memory`) as digests under a secret salt, and peers are shown its root. The salt stands in the first
row, or in the row of kind ``migrated`` that a ledger of before there were salts gets when it is opened.
"""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, NamedTuple, TypedDict, cast

import msgspec

from colonnade.errors import BadInput, LedgerCorrupt
from colonnade.party.ledger.decisions import CapDecision, Decision, read_decision
from colonnade.plan import About
from colonnade.privacy.accounting import LOSS_BYTES, NANO, RENYI_GRID, Budget, Loss

FORMAT = 3
BEFORE_THE_FIRST = bytes(32)
LONGEST_NAME = 200
LARGEST_FIGURE = 2**63 - 1  # of a loss; SQLite's integers end here, and any cap far below

Kind = Literal[
    "genesis",
    "cap",
    "debit",
    "reserve",
    "nonprivate",
    "opening",
    "key",
    "alignment",
    "list",
    "version",
    "forfeit",
    "migrated",
]
SEEDED = frozenset({"reserve", "key"})
"""Kinds of rows that keep 32 secret bytes until their answer is kept."""
COSTLESS = frozenset({"nonprivate", "opening", "key", "alignment", "list"})
"""Kinds of rows that record something which no budget pays for."""
CHARGED = frozenset({"debit", "reserve", "forfeit"})
"""Kinds of rows that add to what was spent."""


class Facts(NamedTuple):
    """The columns of a row that never change, in the order in which they are hashed."""

    sequence: int
    kind: str
    request: bytes | None
    body: bytes | None
    label: str
    written: int
    pure: int | None
    least: int | None
    loss: bytes | None
    detail: str | None
    seed_hash: bytes | None
    previous: bytes
    together: int | None = 0
    event_level: int | None = 0
    plan: bytes | None = None
    about: bytes | None = None
    version: int | None = None


FACTS = ", ".join(Facts._fields)


class Ceiling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A budget as it is written down: whole nano-ε, already rounded down, and δ."""

    nano: int
    delta: float

    def __post_init__(self) -> None:
        if self.budget.nano != self.nano:
            raise BadInput("A cap that no budget has.")

    @classmethod
    def of(cls, budget: object) -> "Ceiling":
        """Write down a party's budget."""
        if type(budget) is not Budget:
            raise BadInput("A ledger's cap is a Budget.", remedy="For example cn.Budget(epsilon=10.0, delta=1e-5).")
        checked = Budget(epsilon=budget.epsilon, delta=budget.delta)
        return cls(checked.nano, float(checked.delta))

    @property
    def budget(self) -> Budget:
        """The budget: exact, because a double holds the fourteen digits that a cap can have."""
        return Budget(epsilon=self.nano / NANO, delta=self.delta)

    def holds(self, total: Loss) -> bool:
        """Return whether a total stays within this cap."""
        return total.fits(self.nano, self.delta)


class Genesis(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the first row says, once and for all (the cap alone can be changed, by a later row)."""

    format: int
    grid: str
    ledger: str
    party: str
    test: bool
    cap: Ceiling
    salt: str = ""


class Migrated(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a row says that stands between older rows and later ones: the last row before it, its hash, and the ledger's salt."""

    format: int
    sequence: int
    head: str
    salt: str = ""


class RowTerms(TypedDict, total=False):
    """What a row may say apart from its cost; every writing method takes these keywords."""

    together: bool
    """Whether all parties of the step pay this same loss, so that a person's total counts it once. False by default."""
    event_level: bool
    """Whether the loss hides only steps of a stated size in a value, and not the value. False by default."""
    plan: bytes | None
    """The hash of the plan that the row belongs to; the plan itself is handed over before (`SqliteLedger.keep_plan`)."""
    version: int | None
    """The declared data version that is read: the current one, or ``None`` where none is stated."""


class LabelledRow(RowTerms):
    """What a row says apart from its cost, with its public label."""

    label: str


@dataclass(frozen=True, slots=True)
class Head:
    """Where a ledger stands; somebody who keeps one can tell whether a ledger was set back (`SqliteLedger.continues`)."""

    ledger: str
    sequence: int
    hash: bytes
    nano: int
    """The total ε at the cap's δ in nano-units, rounded up."""
    root: bytes = b""
    """The root of all rows, as peers are shown it; none in what versions without roots have kept."""
    forfeited: int = 0
    """When its owner last wrote off what it had forgotten, in microseconds since 1970; 0 for never."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One row, for reading: everything but the answer itself."""

    sequence: int
    kind: str
    label: str
    when: datetime
    request: bytes | None
    loss: Loss | None
    budget: Budget | None
    """The cap that this row set (rows of kind ``genesis`` and ``cap``)."""
    sealed: bool
    body: bytes | None = None
    together: bool = False
    """Whether all parties of the step paid this same loss, so that a person's total counts it once."""
    event_level: bool = False
    """Whether the loss hides only steps of a stated size in a value, and not the value."""
    plan: bytes | None = None
    """The hash of the plan that this row belongs to (`SqliteLedger.plan`)."""
    about: About | None = None
    """What was said about the study when this row was written."""
    version: int | None = None
    """The declared data version that was read, or that this row declares."""
    decision: Decision | None = None
    """What the party's owner decided (rows of kind ``cap``, ``approval`` and ``allowance``)."""


def corrupt(sequence: int) -> LedgerCorrupt:
    """Return the refusal of a row: its number and nothing else."""
    return LedgerCorrupt(f"Row {sequence} of the ledger does not check; nothing was released.")


def _digest(purpose: str, *fields: object) -> bytes:
    # each field is preceded by its type and its length, so that no two lists of fields have the same encoding
    state = hashlib.sha256()
    for field in (f"colonnade ledger {purpose}", *fields):
        if field is None:
            tag, data = b"n", b""
        elif type(field) is int:
            tag, data = b"i", b"%d" % field
        elif type(field) is str:
            tag, data = b"s", field.encode()
        elif type(field) is bytes:
            tag, data = b"b", field
        else:
            raise BadInput("A ledger holds whole numbers, text and bytes.")
        state.update(tag + len(data).to_bytes(8, "big"))
        state.update(data)
    return state.digest()


def row_hash(facts: Facts) -> bytes:
    """Return the hash that chains a row to all rows before it."""
    return _digest(f"{FORMAT} row", *facts)


def row_digest(salt: bytes, row: bytes) -> bytes:
    """Return the digest under which a row of this hash stands in the history that peers are shown."""
    return _digest("salted row", salt, row)


def table_mark(salt: bytes, table: bytes) -> bytes:
    """Return how the ledger knows a table again: without the ledger, nobody can try tables out against it."""
    return _digest("salted table", salt, table)


def answer_hash(row: bytes, answer: bytes) -> bytes:
    """Return the hash that binds an answer to its row (``row`` is that row's hash)."""
    return _digest(f"{FORMAT} answer", row, answer)


def seed_hash(request: bytes, seed: bytes) -> bytes:
    """Return what remains of a seed in the chain: a hash, which says nothing about 32 unknown random bytes."""
    return _digest(f"{FORMAT} seed", request, seed)


def about_hash(about: About) -> bytes:
    """Return the hash under which what was said about a study is kept, and which its rows hold."""
    return _digest(f"{FORMAT} about", about.title, about.purpose, about.requester, about.signature)


def least_entry(loss: Loss) -> int:
    """Return the smallest figure of a loss: if it is positive, the row is free at no order."""
    return min(loss.renyi) if loss.pure is None else min(*loss.renyi, loss.pure)


@lru_cache(maxsize=512)
def read_loss(data: bytes) -> Loss:
    """Read a row's loss; a study repeats few distinct ones."""
    return Loss.from_bytes(data)


def of_its_plan(loss: Loss, plan: bytes | None, sequence: int) -> Loss:
    """Return what a row costs as a part of its plan; a row without one is a plan of its own."""
    return loss.of_plan(plan or b"row %d" % sequence)


def as_entry(facts: Facts, sealed: bool, about: About | None = None) -> Entry:
    """Show a row, with what was said about its study."""
    cap, decision = None, read_decision(facts.detail) if facts.kind == "cap" else None
    if facts.kind == "genesis":
        cap = msgspec.json.decode(facts.detail or "", type=Genesis).cap
    elif facts.kind == "cap":
        cap = ceiling_of(facts.detail)
    kind = facts.kind if decision is None else str(decision.__struct_config__.tag)
    return Entry(
        facts.sequence,
        kind,
        facts.label,
        datetime.fromtimestamp(facts.written / 1_000_000, tz=UTC),
        facts.request,
        None if facts.loss is None else of_its_plan(read_loss(facts.loss), facts.plan, facts.sequence),
        cap.budget if cap else None,
        sealed,
        facts.body,
        bool(facts.together),
        bool(facts.event_level),
        facts.plan,
        about,
        facts.version,
        decision,
    )


def ceiling_of(detail: str | None) -> Ceiling | None:
    """Return the cap that a row of kind ``cap`` sets; ``None`` for another decision of the owner."""
    decision = read_decision(detail)
    if decision is None:
        return msgspec.json.decode(detail or "", type=Ceiling)
    return Ceiling(decision.nano, decision.delta) if isinstance(decision, CapDecision) else None


def check_hash(facts: Facts, stored: object) -> bytes:
    """Return a stored row's hash; refuse a row whose facts are not those that were hashed."""
    try:
        computed = row_hash(facts)
    except (BadInput, ValueError):
        raise corrupt(facts.sequence) from None
    if computed != stored or facts.together is None or facts.event_level is None:
        raise corrupt(facts.sequence)
    return computed


def check_kept(facts: Facts, row: bytes, seed: object, kept_hash: object, answer: object) -> None:
    """Refuse an answer, or a seed, that is not the one its row was given."""
    if answer is None and kept_hash is None:
        sound = facts.kind not in SEEDED or _seed_matches(facts, seed)
    else:
        sound = type(answer) is bytes and seed is None
        sound = sound and kept_hash == answer_hash(row, cast("bytes", answer))
    if not sound or (facts.request is None and answer is not None) or (facts.kind not in SEEDED and seed is not None):
        raise corrupt(facts.sequence)


def _seed_matches(facts: Facts, seed: object) -> bool:
    if type(seed) is not bytes or facts.request is None:
        return False
    return facts.seed_hash == seed_hash(facts.request, seed)


def checked_cost(loss: object, grid: str) -> Loss:
    """Return what a row costs; refuse anything that is not a `Loss`, and positive at every order."""
    if type(loss) is not Loss:
        raise BadInput("A cost is a Loss.")
    checked = Loss(
        loss.renyi, loss.pure, loss.gaussian
    )  # as it will be read; and attributes of a Loss can be assigned to
    figures = checked.renyi if checked.pure is None else (*checked.renyi, checked.pure)
    known = bool(checked.gaussian) or grid == RENYI_GRID
    if not known or not all(0 < figure <= LARGEST_FIGURE for figure in figures):
        raise BadInput("A cost is positive at every order, and has a μ².", remedy="Nothing is released for nothing.")
    return checked


def check_identified(request_id: object, body_hash: object = BEFORE_THE_FIRST) -> None:
    """Refuse an id, or a hash of a request's body, that is none."""
    if type(request_id) is not bytes or not 1 <= len(request_id) <= 64:
        raise BadInput("A request id is 1 to 64 bytes.")
    if type(body_hash) is not bytes or len(body_hash) != 32:
        raise BadInput("The hash of a request's body is 32 bytes.")


def checked_name(name: object, what: str) -> str:
    """Return the name of a party or of a row; refuse one that could not be shown on a line."""
    if type(name) is not str or not 1 <= len(name) <= LONGEST_NAME or not name.isprintable():
        raise BadInput(f"A {what} is a printable text of at most {LONGEST_NAME} characters.")
    return name


APPLICATION = 0x434F4C4F  # "COLO" in the file's header, so that a ledger is not taken for any other database

HOLDS = """CREATE TABLE holds (
    plan BLOB PRIMARY KEY NOT NULL CHECK (typeof(plan) = 'blob' AND length(plan) = 32),
    requester TEXT NOT NULL CHECK (typeof(requester) = 'text'),
    purpose TEXT NOT NULL CHECK (typeof(purpose) = 'text'),
    aligns INTEGER NOT NULL CHECK (aligns IN (0, 1)),
    steps BLOB NOT NULL CHECK (typeof(steps) = 'blob'),
    made INTEGER NOT NULL CHECK (typeof(made) = 'integer'),
    held INTEGER NOT NULL CHECK (typeof(held) = 'integer'),
    payable INTEGER NOT NULL CHECK (typeof(payable) = 'integer')
)"""
"""What is set aside for studies (`colonnade.party.ledger.ledger`): its rows go again. Times in microseconds."""

LOADED = """CREATE TABLE loaded (
    version INTEGER PRIMARY KEY,
    mark BLOB NOT NULL CHECK (typeof(mark) = 'blob' AND length(mark) = 32)
)"""
"""Salted hashes of tables, by data version. No row of ``entries`` depends on a table, and so no root does."""

TURNS = """CREATE TABLE turns (
    requester TEXT PRIMARY KEY NOT NULL CHECK (typeof(requester) = 'text'),
    since INTEGER NOT NULL CHECK (typeof(since) = 'integer'),
    asked INTEGER NOT NULL CHECK (typeof(asked) = 'integer')
)"""
"""Since when a requester has been asking, and when it did so last. Its rows go again, as those of ``holds`` do."""

LATER = {"holds": HOLDS, "loaded": LOADED, "turns": TURNS}
"""Tables that a file of 0.2.0 does not have."""

_ENTRIES = """CREATE TABLE entries (
    sequence INTEGER PRIMARY KEY CHECK (sequence >= 0 AND (sequence = 0) = (kind = 'genesis')),
    kind TEXT NOT NULL CHECK (kind IN ('genesis', 'cap', 'debit', 'reserve', 'nonprivate', 'opening', 'key', 'alignment',
        'list', 'version', 'forfeit', 'migrated')),
    request BLOB UNIQUE CHECK (request IS NULL OR (typeof(request) = 'blob' AND length(request) BETWEEN 1 AND 64)),
    body BLOB CHECK (body IS NULL OR (typeof(body) = 'blob' AND length(body) = 32)),
    label TEXT NOT NULL CHECK (typeof(label) = 'text'),
    written INTEGER NOT NULL CHECK (typeof(written) = 'integer' AND written >= 0),
    pure INTEGER CHECK (pure IS NULL OR (typeof(pure) = 'integer' AND pure > 0)),
    least INTEGER CHECK (least IS NULL OR (typeof(least) = 'integer' AND least > 0)),
    loss BLOB CHECK (loss IS NULL OR (typeof(loss) = 'blob' AND length(loss) = {loss_bytes})),
    detail TEXT CHECK (detail IS NULL OR typeof(detail) = 'text'),
    seed_hash BLOB CHECK (seed_hash IS NULL OR (typeof(seed_hash) = 'blob' AND length(seed_hash) = 32)),
    previous BLOB NOT NULL CHECK (typeof(previous) = 'blob' AND length(previous) = 32),
    together INTEGER CHECK (together IS NULL OR (typeof(together) = 'integer' AND together IN (0, 1))),
    event_level INTEGER CHECK (event_level IS NULL OR (typeof(event_level) = 'integer' AND event_level IN (0, 1))),
    plan BLOB CHECK (plan IS NULL OR (typeof(plan) = 'blob' AND length(plan) = 32)),
    about BLOB CHECK (about IS NULL OR (typeof(about) = 'blob' AND length(about) = 32)),
    version INTEGER CHECK (version IS NULL OR (typeof(version) = 'integer' AND version > 0)),
    hash BLOB NOT NULL CHECK (typeof(hash) = 'blob' AND length(hash) = 32),
    seed BLOB CHECK (seed IS NULL OR (typeof(seed) = 'blob' AND length(seed) = 32)),
    answer_hash BLOB CHECK (answer_hash IS NULL OR (typeof(answer_hash) = 'blob' AND length(answer_hash) = 32)),
    answer BLOB CHECK (answer IS NULL OR typeof(answer) = 'blob'),
    CHECK ((kind IN ('debit', 'reserve', 'nonprivate', 'opening', 'key', 'alignment', 'list')) = (request IS NOT NULL)),
    CHECK ((request IS NULL) = (body IS NULL)),
    CHECK ((kind IN ('debit', 'reserve', 'forfeit')) = (loss IS NOT NULL)),
    CHECK ((loss IS NULL) = (least IS NULL) AND (pure IS NULL OR loss IS NOT NULL)),
    CHECK ((kind IN ('genesis', 'cap', 'migrated')) = (detail IS NOT NULL)),
    CHECK ((kind IN ('reserve', 'key')) = (seed_hash IS NOT NULL)),
    CHECK ((seed IS NOT NULL) = (kind IN ('reserve', 'key') AND answer IS NULL)),
    CHECK ((answer IS NULL) = (answer_hash IS NULL) AND (answer IS NULL OR request IS NOT NULL)),
    CHECK ((together IS NULL) = (event_level IS NULL) AND (together IS NOT NULL OR (plan IS NULL AND version IS NULL))),
    CHECK ((about IS NULL OR plan IS NOT NULL) AND (plan IS NULL OR request IS NOT NULL)),
    CHECK (version IS NOT NULL OR kind <> 'version')
)"""

TABLES = (
    """CREATE TABLE plans (
    hash BLOB PRIMARY KEY NOT NULL CHECK (typeof(hash) = 'blob' AND length(hash) = 32),
    content BLOB NOT NULL CHECK (typeof(content) = 'blob')
)""",
    """CREATE TABLE abouts (
    hash BLOB PRIMARY KEY NOT NULL CHECK (typeof(hash) = 'blob' AND length(hash) = 32),
    title TEXT NOT NULL CHECK (typeof(title) = 'text'),
    purpose TEXT NOT NULL CHECK (typeof(purpose) = 'text'),
    requester TEXT NOT NULL CHECK (typeof(requester) = 'text'),
    signature BLOB NOT NULL CHECK (typeof(signature) = 'blob')
)""",
    *LATER.values(),
)

_UNCHANGED = "\n        AND ".join(f"OLD.{column} IS NEW.{column}" for column in (*Facts._fields, "hash"))

TRIGGERS = (
    """CREATE TRIGGER rows_are_never_deleted BEFORE DELETE ON entries
BEGIN
    SELECT RAISE(ABORT, 'append-only');
END""",
    # INSERT OR REPLACE deletes without a delete trigger, so a row may only ever be the next one, unanswered, and new.
    """CREATE TRIGGER rows_are_appended_in_order BEFORE INSERT ON entries
WHEN NEW.sequence IS NOT (SELECT COALESCE(MAX(sequence) + 1, 0) FROM entries)
    OR (NEW.sequence > 0 AND NEW.previous IS NOT (SELECT hash FROM entries WHERE sequence = NEW.sequence - 1))
    OR EXISTS (SELECT 1 FROM entries WHERE request = NEW.request)
    OR NEW.answer IS NOT NULL
    OR NEW.together IS NULL
BEGIN
    SELECT RAISE(ABORT, 'append-only');
END""",
    f"""CREATE TRIGGER only_an_answer_is_ever_added BEFORE UPDATE ON entries
WHEN NOT (
        OLD.answer IS NULL AND NEW.answer IS NOT NULL AND NEW.seed IS NULL
        AND {_UNCHANGED}
    )
BEGIN
    SELECT RAISE(ABORT, 'append-only');
END""",
    *(
        f"""CREATE TRIGGER {table}_are_never_{past} BEFORE {verb} ON {table}
{when}BEGIN
    SELECT RAISE(ABORT, 'append-only');
END"""
        for table in ("plans", "abouts")
        for verb, past, when in (
            ("DELETE", "deleted", ""),
            ("UPDATE", "changed", ""),
            ("INSERT", "replaced", f"WHEN EXISTS (SELECT 1 FROM {table} WHERE hash = NEW.hash)\n"),  # noqa: S608
        )
    ),
)

SCHEMAS = {grid: (_ENTRIES.format(loss_bytes=size), *TABLES, *TRIGGERS) for grid, size in LOSS_BYTES.items()}
"""The tables of a ledger, by how it adds up: a loss with μ² is longer."""
