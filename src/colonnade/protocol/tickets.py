"""Tickets: what a coordinator passes on in place of a letter that went directly from one member to another.

A coordinator that relays no letters still has to know that each of them has arrived, or it could not give the next turn. It
learns that from a ticket, which says how long the letter is and what its hash is. The letter is sealed, so that the hash tells
nothing about what is inside, and its length follows from the plan.

A ticket stands where the letter would stand (`Posted.letters`, `Post.letters`). It cannot be taken for a letter: a sealed letter
begins with 16 pseudorandom bytes, and a hello with the codec's version. Nothing rests on a ticket. A member whose relay was given
a false one is handed another letter than the one that was sealed for this turn, and its own seal refuses it
(`colonnade.secure.mail`).
"""

import hashlib
import struct
from dataclasses import dataclass

from colonnade.protocol.messages import Blob
from colonnade.secure.mail import LARGEST_LETTER, OVERHEAD

__all__ = ["Ticket"]

_MARK = b"colonnade: went directly\x01"
_FORM = struct.Struct(f">{len(_MARK)}sQ32s")

LARGEST = LARGEST_LETTER + OVERHEAD


@dataclass(frozen=True)
class Ticket:
    """A letter by its length and its SHA-256.

    Examples
    --------
    >>> ticket = Ticket.of(b"a sealed letter")
    >>> ticket.size, Ticket.read(ticket.blob()) == ticket, Ticket.read(Blob(b"a sealed letter"))
    (15, True, None)
    """

    size: int
    digest: bytes

    @classmethod
    def of(cls, letter: bytes | memoryview) -> "Ticket":
        """Return the ticket of a letter."""
        return cls(memoryview(letter).nbytes, hashlib.sha256(letter).digest())

    @classmethod
    def read(cls, found: Blob) -> "Ticket | None":
        """Return the ticket that stands in a letter's place; ``None`` where the letter itself does."""
        if len(found) != _FORM.size:
            return None
        mark, size, digest = _FORM.unpack(found.view)
        return cls(size, digest) if mark == _MARK and 0 < size <= LARGEST else None

    def blob(self) -> Blob:
        """Return what travels."""
        return Blob(_FORM.pack(_MARK, self.size, self.digest))
