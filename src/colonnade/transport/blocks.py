"""How one message crosses the network: block by block, each asked for and answered, so that a relay never holds a whole one.

::

    coordinator                         relay
    put(message, offset 0, bytes)  ->
                                   <-   more
    put(message, offset n, bytes)  ->                            the last block is in: the guard has the message
                                   <-   data(offset 0, bytes)    or wait: nothing yet, ask again
    get(message, offset m)         ->
                                   <-   data(offset m, bytes)

Every block may be sent again: a relay answers a block that it has seen as it did before, and one of a message that it does
not know with ``lost``, after which the message starts again under another number, with the same bytes. What a guard makes of
the same bytes twice is the guard's business: it answers once.
"""

import enum
import struct
from dataclasses import dataclass

from colonnade.errors import ProtocolError

__all__ = ["BLOCK", "LARGEST_BLOCK", "BlockAnswer", "BlockCall", "Status", "Verb"]

BLOCK = 1 << 20
"""Bytes of a message that travel at a time: large enough for the line's full rate, small beside any process."""

_MARK = b"clnd\x01"
_CALL = struct.Struct(">5sQB16sQQQ")
_ANSWER = struct.Struct(">5sQBQQ")

LARGEST_BLOCK = BLOCK + max(_CALL.size, _ANSWER.size)


class Verb(enum.IntEnum):
    """What a coordinator wants of a relay."""

    PUT = 1
    GET = 2


class Status(enum.IntEnum):
    """What a relay says. Constants only: nothing that failed on its side is described."""

    MORE = 1
    DATA = 2
    WAIT = 3
    LOST = 4
    AWAY = 5
    REFUSED = 6


@dataclass(frozen=True)
class BlockCall:
    """One block on its way to a relay, or a question for one.

    Parameters
    ----------
    ticket
        Which call this is; the answer carries it.
    verb
        Put or get.
    session
        16 random bytes a coordinator's process: a new one ends what the last one left half-said.
    message
        The number of the message in this session.
    total
        How many bytes the message has.
    offset
        Where this block starts: in the message for put, in its reply for get.
    data
        The block; empty for get.
    """

    ticket: int
    verb: Verb
    session: bytes
    message: int
    total: int
    offset: int
    data: bytes | memoryview = b""

    def encode(self) -> bytes:
        """Return the call as bytes."""
        head = _CALL.pack(_MARK, self.ticket, self.verb, self.session, self.message, self.total, self.offset)
        return b"".join((head, self.data))

    @classmethod
    def decode(cls, data: bytes | memoryview) -> "BlockCall":
        """Read a call, or refuse."""
        view = _checked(data, _CALL)
        mark, ticket, verb, session, message, total, offset = _CALL.unpack(view[: _CALL.size])
        if mark != _MARK or verb not in set(Verb):
            raise ProtocolError("Bytes that are not a block of this version of the protocol.")
        body = view[_CALL.size :]
        if verb == Verb.PUT and not (offset + len(body) <= total and bool(len(body)) == bool(total)):
            raise ProtocolError("A block that lies outside its message.")
        if verb == Verb.GET and len(body):
            raise ProtocolError("A question with a block in it.")
        return cls(ticket, Verb(verb), session, message, total, offset, body)


@dataclass(frozen=True)
class BlockAnswer:
    """What a relay says to one call; ``total`` and ``offset`` describe the reply where there is a block of it."""

    ticket: int
    status: Status
    total: int = 0
    offset: int = 0
    data: bytes | memoryview = b""

    def encode(self) -> bytes:
        """Return the answer as bytes."""
        return b"".join((_ANSWER.pack(_MARK, self.ticket, self.status, self.total, self.offset), self.data))

    @classmethod
    def decode(cls, data: bytes | memoryview) -> "BlockAnswer":
        """Read an answer, or refuse."""
        view = _checked(data, _ANSWER)
        mark, ticket, status, total, offset = _ANSWER.unpack(view[: _ANSWER.size])
        if mark != _MARK or status not in set(Status):
            raise ProtocolError("Bytes that are not an answer of this version of the protocol.")
        body = view[_ANSWER.size :]
        if offset + len(body) > total or (status == Status.DATA) != bool(len(body)):
            raise ProtocolError("A block that lies outside its reply.")
        return cls(ticket, Status(status), total, offset, body)


def _checked(data: bytes | memoryview, head: struct.Struct) -> memoryview:
    view = memoryview(data)
    if not head.size <= view.nbytes <= head.size + BLOCK:
        raise ProtocolError("A block that is too short or too long.")
    return view
