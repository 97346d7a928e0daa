"""The rows of a ledger's file as one verified chain: read, found, appended to, and never changed.

What the rows add up to (`LedgerState`) is a cache of a verified prefix. Every call first reads and verifies the rows that
were appended since, by this process or by another. The cache is never written from memory: it says nothing that the file
does not.
"""

from colonnade.party.ledger.file import LedgerFile
from colonnade.party.ledger.plans import KeptPlans
from colonnade.party.ledger.rows import (
    FACTS,
    FORMAT,
    Entry,
    Facts,
    answer_hash,
    as_entry,
    check_hash,
    check_kept,
    corrupt,
    row_hash,
)
from colonnade.party.ledger.state import LedgerState, folded

__all__ = ["RowChain"]


class RowChain:
    """The rows of one ledger. Every method runs inside a transaction of the caller.

    Parameters
    ----------
    file
        The ledger's file.
    """

    def __init__(self, file: LedgerFile) -> None:
        self._file = file
        self._state: LedgerState | None = None
        self.plans = KeptPlans(file)

    @property
    def known(self) -> LedgerState:
        """What the rows added up to when they were last read."""
        assert self._state is not None  # a ledger is verified before it is handed out
        return self._state

    def verify(self) -> None:
        """Check the whole file: its pages, its schema, every row, answer and plan; refuse it if anything is amiss."""
        self._file.check()
        state: LedgerState | None = None
        anchored = self._state is None
        plans: set[bytes | None] = {None}
        abouts: set[bytes | None] = {None}
        rows = f"SELECT {FACTS}, hash, seed, answer_hash, answer FROM entries ORDER BY sequence"  # noqa: S608
        for facts, state in folded(self._file.run(rows)):
            plans.add(facts.plan)
            abouts.add(facts.about)
            anchored = anchored or (self._state is not None and self._state.hash == state.hash)
        if state is None or not anchored or state.format != FORMAT:
            raise corrupt(0 if self._state is None else self._state.sequence)
        self.plans.verify(plans, abouts)
        self._state = state.within_cap()

    def catch_up(self) -> LedgerState:
        """Verify and add the rows appended since, and that the last known row is still there."""
        state = self.known
        rows = self._file.run(
            f"SELECT {FACTS}, hash FROM entries WHERE sequence >= ? ORDER BY sequence",  # noqa: S608
            (state.sequence,),
        ).fetchall()
        if not rows or check_hash(Facts(*rows[0][:-1]), rows[0][-1]) != state.hash:
            raise corrupt(state.sequence)
        for row in rows[1:]:
            state = state.then(Facts(*row[:-1]), row[-1])
        self._state = state.within_cap()
        return state

    def find(self, request_id: bytes) -> tuple[Facts, bytes | None, bytes | None] | None:
        """Return the row of a request, with its seed and its answer; refuse one that was changed."""
        row = self._file.run(
            f"SELECT {FACTS}, hash, seed, answer_hash, answer FROM entries WHERE request = ?",  # noqa: S608
            (request_id,),
        ).fetchone()
        if row is None:
            return None
        facts, (digest, seed, kept, answer) = Facts(*row[:-4]), row[-4:]
        check_kept(facts, check_hash(facts, digest), seed, kept, answer)
        return facts, seed, answer

    def knows(self, request_id: bytes) -> bool:
        """Return whether a row stands under this id."""
        return self._file.run("SELECT 1 FROM entries WHERE request = ?", (request_id,)).fetchone() is not None

    def hash_of(self, sequence: int) -> bytes | None:
        """Return the hash of one row."""
        row = self._file.run("SELECT hash FROM entries WHERE sequence = ?", (sequence,)).fetchone()
        return None if row is None else row[0]

    def entries(self) -> list[Entry]:
        """Return all rows, for reading."""
        abouts = self.plans.abouts()
        rows = self._file.run(f"SELECT {FACTS}, answer IS NOT NULL FROM entries ORDER BY sequence")  # noqa: S608
        entries = ((Facts(*row[:-1]), bool(row[-1])) for row in rows)
        return [as_entry(facts, sealed, abouts.get(facts.about or b"")) for facts, sealed in entries]

    def append(self, facts: Facts, seed: bytes | None = None) -> None:
        """Write the next row."""
        places = ", ".join("?" * (len(facts) + 2))
        self._file.run(
            f"INSERT INTO entries ({FACTS}, hash, seed) VALUES ({places})",  # noqa: S608
            (*facts, row_hash(facts), seed),
        )

    def answer(self, facts: Facts, answer: bytes) -> None:
        """Write the answer into its row, and erase the seed."""
        self._file.run(
            "UPDATE entries SET seed = NULL, answer_hash = ?, answer = ? WHERE sequence = ?",
            (answer_hash(row_hash(facts), answer, written_in=facts.format), answer, facts.sequence),
        )
