"""The tables of a ledger's file, and the triggers by which the database itself refuses to take anything back.

Opening a ledger compares these statements with those in the file. Plans, and what was said about a study, stand in
tables of their own under their hashes, and the rows that refer to them hold those hashes.
"""

from colonnade.party.ledger.rows import Facts
from colonnade.privacy.loss import ORDERS

__all__ = ["APPLICATION", "SCHEMA", "TABLES", "TRIGGERS"]

APPLICATION = 0x434F4C4F  # "COLO" in the file's header, so that a ledger is not taken for any other database

TABLES = (
    f"""CREATE TABLE entries (
    sequence INTEGER PRIMARY KEY CHECK (sequence >= 0 AND (sequence = 0) = (kind = 'genesis')),
    kind TEXT NOT NULL CHECK (kind IN ('genesis', 'cap', 'debit', 'reserve', 'nonprivate', 'opening', 'key', 'alignment',
        'list', 'version', 'forfeit', 'migrated')),
    request BLOB UNIQUE CHECK (request IS NULL OR (typeof(request) = 'blob' AND length(request) BETWEEN 1 AND 64)),
    body BLOB CHECK (body IS NULL OR (typeof(body) = 'blob' AND length(body) = 32)),
    label TEXT NOT NULL CHECK (typeof(label) = 'text'),
    written INTEGER NOT NULL CHECK (typeof(written) = 'integer' AND written >= 0),
    pure INTEGER CHECK (pure IS NULL OR (typeof(pure) = 'integer' AND pure > 0)),
    least INTEGER CHECK (least IS NULL OR (typeof(least) = 'integer' AND least > 0)),
    loss BLOB CHECK (loss IS NULL OR (typeof(loss) = 'blob' AND length(loss) = {16 * (len(ORDERS) + 1)})),
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
)""",
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
)

_UNCHANGED = "\n        AND ".join(f"OLD.{column} IS NEW.{column}" for column in (*Facts._fields, "hash"))

TRIGGERS = (
    """CREATE TRIGGER rows_are_never_deleted BEFORE DELETE ON entries
BEGIN
    SELECT RAISE(ABORT, 'append-only');
END""",
    # INSERT OR REPLACE deletes without a delete trigger, so a row may only ever be the next one, unanswered, and new.
    # A row without `together` is of format 2: software of that format that still has the file open can add no more.
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

SCHEMA = (*TABLES, *TRIGGERS)
