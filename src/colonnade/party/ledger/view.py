"""A ledger that can be read and not written."""

from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.ledger.rows import Entry

__all__ = ["LedgerView"]


class LedgerView:
    """What may be read of a party's ledger from outside the gate. Nothing can be written through it."""

    def __init__(self, ledger: SqliteLedger) -> None:
        self.identity = ledger.identity
        self.budget = ledger.budget
        self.head = ledger.head
        self.spent = ledger.spent
        self._entries = ledger.entries

    def entries(self) -> list[Entry]:
        """Return every row."""
        return list(self._entries())
