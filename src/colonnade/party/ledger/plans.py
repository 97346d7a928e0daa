"""The plans that a ledger's rows belong to, and what was said about each study, kept once under their hashes.

A plan is handed over before its first row (`KeptPlans.hand_over`) and written in the transaction of that row, so that
the file holds no plan without a row, and no row without its plan. Rows hold the hashes and are chained; verification
compares both tables with them.
"""

from collections import OrderedDict
from dataclasses import dataclass

from colonnade.errors import BadInput, LedgerCorrupt, ProtocolError
from colonnade.party.ledger.file import LedgerFile
from colonnade.party.ledger.rows import RowTerms, about_hash
from colonnade.plan import About
from colonnade.protocol import codec

__all__ = ["KeptPlans"]

MOST_AT_HAND = 64
LARGEST_PLAN = 2**26
"""Bytes of one plan, and of all plans that were handed over and have no row yet: nobody fills a party's memory with them."""


@dataclass(frozen=True, slots=True)
class _AtHand:
    content: bytes
    about: About | None


class KeptPlans:
    """The tables ``plans`` and ``abouts`` of one ledger. All but `hand_over` run inside a transaction of the caller.

    Parameters
    ----------
    file
        The ledger's file.
    """

    def __init__(self, file: LedgerFile) -> None:
        self._file = file
        self._at_hand: OrderedDict[bytes, _AtHand] = OrderedDict()

    def hand_over(self, digest: bytes, content: bytes, about: About | None) -> None:
        """Take a plan, to be written with the first row that refers to it. Words once said stay unless new ones are."""
        if type(content) is not bytes or len(content) > LARGEST_PLAN or codec.plan_digest(content) != digest:
            raise BadInput("A plan is kept under the hash of its canonical bytes.")
        earlier = self._at_hand.pop(digest, None)
        if about is None and earlier is not None:
            about = earlier.about
        self._at_hand[digest] = _AtHand(content, about)
        while len(self._at_hand) > 1 and (len(self._at_hand) > MOST_AT_HAND or self._held() > LARGEST_PLAN):
            self._at_hand.popitem(last=False)

    def _held(self) -> int:
        return sum(len(one.content) for one in self._at_hand.values())

    def refer(self, terms: RowTerms, current: int | None) -> bytes | None:
        """Make ready what a row refers to: its plan, and what was said about it; return the hash of the latter."""
        version, plan = terms.get("version"), terms.get("plan")
        if version is not None and version != current:
            raise ProtocolError("Another data version is the current one.", remedy="Ask about the current version.")
        return None if plan is None else self._write(plan)

    def _write(self, digest: bytes) -> bytes | None:
        at_hand = self._at_hand.get(digest)
        if self._file.run("SELECT 1 FROM plans WHERE hash = ?", (digest,)).fetchone() is None:
            if at_hand is None:
                raise BadInput("A row refers to a plan that was not handed over.", remedy="Call keep_plan before.")
            self._file.run("INSERT INTO plans (hash, content) VALUES (?, ?)", (digest, at_hand.content))
        if at_hand is None or at_hand.about is None:
            return None
        about, named = at_hand.about, about_hash(at_hand.about)
        if self._file.run("SELECT 1 FROM abouts WHERE hash = ?", (named,)).fetchone() is None:
            self._file.run(
                "INSERT INTO abouts (hash, title, purpose, requester, signature) VALUES (?, ?, ?, ?, ?)",
                (named, about.title, about.purpose, about.requester, about.signature),
            )
        return named

    def read(self, digest: bytes) -> bytes | None:
        """Return a plan's canonical bytes; refuse one that was changed."""
        row = self._file.run("SELECT content FROM plans WHERE hash = ?", (digest,)).fetchone()
        if row is None:
            return None
        if type(row[0]) is not bytes or codec.plan_digest(row[0]) != digest:
            raise LedgerCorrupt("A plan in the ledger is not the one that its rows refer to; nothing was released.")
        content: bytes = row[0]
        return content

    def abouts(self) -> dict[bytes, About]:
        """Return everything that was said about studies, by its hash; refuse what was changed."""
        found = {}
        for digest, *words in self._file.run("SELECT hash, title, purpose, requester, signature FROM abouts"):
            try:
                about = About(title=words[0], purpose=words[1], requester=words[2], signature=words[3])
                sound = about_hash(about) == digest
            except (BadInput, TypeError, AttributeError):
                sound = False
            if not sound:
                raise LedgerCorrupt("What was said about a study was changed in the ledger; nothing was released.")
            found[digest] = about
        return found

    def verify(self, plans: set[bytes | None], abouts: set[bytes | None]) -> None:
        """Refuse tables that do not hold exactly what the rows refer to (``None`` where a row refers to nothing)."""
        kept = {digest for (digest,) in self._file.run("SELECT hash FROM plans").fetchall()}
        if kept != plans - {None} or self.abouts().keys() != abouts - {None}:
            raise LedgerCorrupt("Plans were added to the ledger, or taken out of it; nothing was released.")
        for digest in kept:
            self.read(digest)
