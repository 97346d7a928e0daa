"""Everything that travels: messages, their one canonical encoding, and rounds of them.

A party's reply is one of these kinds, and nothing else can be encoded: a differentially private `Released`, sealed letters to
peers (`Posted`), a share of an already-noised value (`Opened`), public metadata (`Described`, `Agreed`, `SaidYes`,
`Acknowledged`, `Accounted`, `Greeted`, `Settled`, `Refused`), or a non-private `Released` that its policy allows by name.

A party answers nothing else than these requests, and nothing leaves it but these replies. An algorithm is a generator: it
yields requests by party and is sent replies by party. It knows nothing of transports, retries or clocks, so the same
algorithm runs in process, over sockets and over a network, and a test can drive it by hand.

*Canonical bytes.* This is the only (de)serialiser, versioned and strict. Every message has exactly one encoding: a version, the
length of its header, the header (MessagePack with sorted keys, in which a blob is just its length), then the blobs in the order
in which the header mentions them. Decoding refuses unknown fields, wrong types, missing or trailing bytes, non-finite numbers
and any header but the canonical one (checked by encoding it again), so a hash over bytes is a hash over meaning. No object is
instantiated by name, and nothing is executed.

Blobs are neither parsed nor copied on the way in, because shares of a large table are all bulk and little header.
"""

import hashlib
import math
import re
import struct
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, BinaryIO, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import DTypeLike, NDArray

from colonnade.errors import Busy, ColonnadeError, ProtocolError, error_for
from colonnade.plan import About, Plan, Step
from colonnade.privacy.accounting import Loss
from colonnade.schema import Column, Schema
from colonnade.secure.keys import LARGEST_LETTER, OVERHEAD

DTYPES = frozenset({"|u1", "<u2", "<i4", "<i8", "<u8", "<f8"})


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The base of all messages: immutable, with no unknown fields."""


class Blob:
    """Bulk bytes. They travel behind a message's header, uncopied and unparsed (`colonnade.protocol.messages`).

    Parameters
    ----------
    data
        Any contiguous buffer.
    """

    __slots__ = ("view",)

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self.view = memoryview(data).cast("B") if len(data) else memoryview(b"")

    def __len__(self) -> int:
        return self.view.nbytes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Blob) and self.view == other.view

    def __hash__(self) -> int:
        return hash(bytes(self.view))

    def __repr__(self) -> str:
        return f"Blob({len(self):,} bytes)"


_TICKET = b"colonnade: went directly\x01"
_TICKET_FORM = struct.Struct(f">{len(_TICKET)}sQ32s")

TICKET_BYTES = _TICKET_FORM.size
LARGEST_SEALED = LARGEST_LETTER + OVERHEAD
"""The most bytes that a letter has when it is sealed."""

SHORTEST_DIRECT = 1024
"""Bytes; a shorter letter goes through the coordinator also where there are links: its ticket and its way would cost as much."""


@dataclass(frozen=True)
class Ticket:
    """What a coordinator passes on in place of a letter that went directly from one member to another: its length and hash.

    A coordinator that relays no letters still has to know that each of them has arrived, or it could not give the next turn. The
    letter is sealed, so that its SHA-256 tells nothing about what is inside, and its length follows from the plan.

    A ticket stands where the letter would stand (`Posted.letters`, `Post.letters`). It cannot be taken for a letter: a sealed
    letter begins with 16 pseudorandom bytes, and a hello with the codec's version. Nothing rests on a ticket. A member whose
    relay was given a false one is handed another letter than the one that was sealed for this turn, and its seal refuses it.

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
        if len(found) != _TICKET_FORM.size:
            return None
        mark, size, digest = _TICKET_FORM.unpack(found.view)
        return cls(size, digest) if mark == _TICKET and 0 < size <= LARGEST_SEALED else None

    def blob(self) -> Blob:
        """Return what travels."""
        return Blob(_TICKET_FORM.pack(_TICKET, self.size, self.digest))


class Array(Message, frozen=True):
    """A numpy array as a type, a shape and its bytes in C order."""

    dtype: str
    shape: tuple[int, ...]
    data: Blob


def pack(array: NDArray[np.generic]) -> Array:
    """Return an array as a message; only plain little-endian numbers can travel."""
    array = np.ascontiguousarray(array)
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if little.dtype.str not in DTYPES:
        raise ProtocolError("An array has a type that is not sent.")
    return Array(dtype=little.dtype.str, shape=array.shape, data=Blob(little.data.cast("B") if little.size else b""))


def unpack(message: Array) -> NDArray[np.generic]:
    """Return the array of a message, read-only; refuse one whose parts disagree."""
    if message.dtype not in DTYPES or any(extent < 0 for extent in message.shape):
        raise ProtocolError("An array has a type or shape that is not sent.")
    if math.prod(message.shape) * np.dtype(message.dtype).itemsize != len(message.data):
        raise ProtocolError("An array's length does not match its shape.")
    return np.frombuffer(message.data.view, dtype=message.dtype).reshape(message.shape)


# What a coordinator says ------------------------------------------------------------------------------------------------


class GetDescription(Message, frozen=True, tag="get-description"):
    """What is public about you, in this agreed row order (your first one if none is named)?"""

    alignment: str = ""


class GetAccount(Message, frozen=True, tag="get-account"):
    """What have you spent, and what remains?

    With the hash of a ``plan``: which rows has your ledger got for this plan since row ``since``? Rows of other studies are
    left out, no matter who asked for them. ``nonce`` is the coordinator's, fresh; the account is signed over it. ``in_words``
    asks for every line in words too, as the party's own officer reads it.
    """

    plan: bytes = b""
    since: int = 0
    nonce: bytes = b""
    in_words: bool = False


class Propose(Message, frozen=True, tag="propose", omit_defaults=True):
    """Would you answer every step of this plan? Costs nothing. ``about`` is what is said about the study.

    With ``hold`` the party also holds what the plan would still cost, for a while, and issues a nonce: a study is about to begin.
    """

    plan: Plan
    about: About | None = None
    hold: bool = False


class GetYes(Message, frozen=True, tag="get-yes"):
    """Everybody agrees to the plan of this hash. Say yes, signed over these nonces: everybody's, and the coordinator's if any."""

    plan: bytes
    nonces: dict[str, bytes]


class Begin(Message, frozen=True, tag="begin"):
    """Everybody has said yes to the plan of this hash. Check all of them; from then on what you are asked may be paid for."""

    plan: bytes
    yeses: dict[str, bytes]


class Withdraw(Message, frozen=True, tag="withdraw"):
    """The plan of this hash is over for now: hold nothing for it any more. What was paid stays paid."""

    plan: bytes


class Ask(Message, frozen=True, tag="ask"):
    """Carry out one step of this plan. ``inputs`` are public results of earlier steps; ``about`` is no part of the request."""

    plan: Plan
    step: str
    inputs: dict[str, Array] = {}
    about: About | None = None


class Post(Message, frozen=True, tag="post"):
    """Take your next turn in a conversation.

    ``letters`` are to you, by sender; in turn 1, everyone's hello. ``inputs`` are public, and
    the coordinator's. ``about`` comes with the first turn.
    """

    plan: Plan
    step: str
    run: bytes
    turn: int
    letters: dict[str, Blob]
    inputs: dict[str, Array] = {}
    about: About | None = None


class Recall(Message, frozen=True, tag="recall", omit_defaults=True):
    """Do you keep the answer of this joint step, or of one tile of it where it is opened in tiles? Costs nothing."""

    plan: Plan
    step: str
    tile: int = 0


class Conclude(Message, frozen=True, tag="conclude"):
    """The step is over: keep what was opened, answer the same question from it and never again, and forget the secrets."""

    plan: Plan
    step: str
    values: dict[str, Array]


Request = GetDescription | GetAccount | Propose | GetYes | Begin | Withdraw | Ask | Recall | Post | Conclude


# What a party says ------------------------------------------------------------------------------------------------------


class Described(Message, frozen=True, tag="described"):
    """Public metadata: the schema, the agreed row order and how many people it covers.

    ``capacity`` is to how many ids the party's list is filled up in an alignment; 0 if its owner has declared nothing.
    ``union`` says that the order is that of a union of lists, in which nobody learns who is in common. ``version`` is the data
    version that the party's owner has declared. ``compute_for_others`` says whether the party computes on shares in studies
    without its data, and ``compute_nodes`` whom it accepts as compute nodes; ``None`` for every member.
    """

    party: str
    schema: tuple[tuple[str, Column], ...]  # pairs, because the order of columns is meaningful and a mapping's is not
    alignment: str
    people: int
    capacity: int = 0
    union: bool = False
    version: int = 1
    compute_for_others: bool = True
    compute_nodes: tuple[str, ...] | None = None


class AccountLine(Message, frozen=True):
    """One line of a party's account. ``joint`` names the opening that several parties paid for together.

    ``words`` say when, what, who asked, at what price and to whom; empty unless they were asked for. ``plan`` is the hash of the
    plan that the line belongs to: the noise of one plan was fixed before its first release, and is added up as such.
    """

    label: str
    loss: bytes | None
    joint: str | None = None
    words: str = ""
    plan: bytes = b""

    def cost(self) -> Loss | None:
        """Return what the line cost, as a part of its plan; ``None`` for what is not private."""
        if self.loss is None:
            return None
        found = Loss.from_bytes(self.loss)
        return found.of_plan(self.plan) if self.plan else found.followed_by_others()


class Accounted(Message, frozen=True, tag="accounted"):
    """Public metadata: a party's cap and what it has released, none of it a function of data.

    ``entries`` are all releases, or those that were asked about. ``signature`` is the party's, over everything else and the
    coordinator's nonce; empty where no nonce came.
    """

    party: str
    ledger: str
    sequence: int
    cap_nano: int
    cap_delta: float
    spent: bytes
    entries: tuple[AccountLine, ...]
    signature: bytes = b""


class Agreed(Message, frozen=True, tag="agreed"):
    """Public metadata: this party will answer, these are the losses of its steps, and these are not yet paid for.

    ``disclosed`` names steps that it answers without differential privacy, because its policy allows them by name. ``sequence``
    is the last row of its ledger: what this study costs stands in later ones. ``nonce`` is its own, over which everybody says
    yes (`colonnade.conversations.endpoint`); empty where nothing is held.
    """

    plan_hash: bytes
    losses: dict[str, bytes]
    unpaid: tuple[str, ...]
    disclosed: tuple[str, ...] = ()
    sequence: int = 0
    nonce: bytes = b""


class SaidYes(Message, frozen=True, tag="said-yes"):
    """Public metadata: a member's signed yes to one plan, and where its ledger stands (`Yes`)."""

    yes: bytes


class Acknowledged(Message, frozen=True, tag="noted"):
    """Public metadata: this member knows that a plan has begun, or is over."""


class Released(Message, frozen=True, tag="released"):
    """A differentially private release, with what it cost and how it was perturbed.

    ``loss`` is ``None`` for a release without differential privacy, which the party's policy allowed by name.
    """

    party: str
    step: str
    values: dict[str, Array]
    mechanism: str
    loss: bytes | None

    def array(self, name: str) -> NDArray[np.generic]:
        """Return one released array."""
        if name not in self.values:
            raise ProtocolError("A release lacks a value that its step promises.")
        return unpack(self.values[name])


class NotKept(Message, frozen=True, tag="not-kept"):
    """Public metadata: no answer is kept for this step."""


class Greeted(Message, frozen=True, tag="greeted"):
    """Public metadata: a signed ephemeral key for one run of one plan."""

    hello: bytes


class Settled(Message, frozen=True, tag="settled"):
    """Public metadata: this party keeps the key of this step, or has used and erased it."""

    step: str


class Posted(Message, frozen=True, tag="posted"):
    """Sealed letters to peers, by receiver; the coordinator can relay them and not read them."""

    letters: dict[str, Blob]


class Opened(Message, frozen=True, tag="opened"):
    """A share of an already-noised value, and the differentially private part that concerns this party alone."""

    share: Array | None
    own: Array | None


class Refused(Message, frozen=True, tag="refused"):
    """Public metadata: no, why, and what it cost this party all the same (ε, usually ``None``).

    ``retry_in`` is for a member that is busy: the seconds after which it may have room.
    """

    code: str
    message: str
    remedy: str
    spent: float | None = None
    retry_in: float | None = None

    @classmethod
    def of(cls, error: ColonnadeError, spent: float | None = None) -> "Refused":
        """Return what an error says of itself."""
        retry_in = error.retry_in if isinstance(error, Busy) else None
        return cls(code=error.code, message=error.message, remedy=error.remedy, spent=spent, retry_in=retry_in)

    def error(self, party: str) -> ColonnadeError:
        """Return the error that a party answered with."""
        kind, message = error_for(self.code), f"Party {party!r}: {self.message}"
        if issubclass(kind, Busy):
            return kind(message, remedy=self.remedy, retry_in=1.0 if self.retry_in is None else self.retry_in)
        return kind(message, remedy=self.remedy)


Reply = (
    Described
    | Accounted
    | Agreed
    | SaidYes
    | Acknowledged
    | Released
    | NotKept
    | Greeted
    | Settled
    | Posted
    | Opened
    | Refused
)

Requests = Mapping[str, Request]
Replies = Mapping[str, Reply]


Rounds = Generator[Mapping[str, Request], Mapping[str, Reply], Any]


class Algorithm(Protocol):
    """One algorithm, seen from the coordinator: its steps, and the rounds of messages that carry them out."""

    def steps(self) -> tuple[Step, ...]:
        """Return everything the parties will be asked to release."""
        ...

    def rounds(self, plan: Plan) -> Rounds:
        """Yield requests, receive replies, and return what was learned."""
        ...


def ask_all(plan: Plan, step: str, inputs: Mapping[str, Array] | None = None) -> Rounds:
    """Put one step to every party that has it, in one round, and return their releases by party."""
    asked = [s.party for s in plan.steps if s.name == step]
    replies = yield {party: Ask(plan=plan, step=step, inputs=dict(inputs or {})) for party in asked}
    return {party: released(replies[party], party=party, step=step) for party in asked}


def released(reply: Reply, *, party: str, step: str) -> Released:
    """Check that a reply is the release that was asked for."""
    if not isinstance(reply, Released) or reply.party != party or reply.step != step:
        raise ProtocolError(f"Party {party!r} answered step {step!r} with something else.")
    return reply


def planned_value(release: Released, shape: tuple[int, ...], *dtypes: DTypeLike) -> NDArray[Any]:
    """Return the array of a release; refuse any other shape or type than the plan's, and what is not finite."""
    value = release.array("value")
    if value.shape != shape or value.dtype not in dtypes or not np.isfinite(value).all():
        raise ProtocolError(
            f"Party {release.party!r} sent {value.dtype} values of shape {value.shape}; "
            f"the plan says finite {' or '.join(str(np.dtype(one)) for one in dtypes)} of shape {shape}."
        )
    return value


VERSION = b"colonnade\x02"
LARGEST_FRAME = 1 << 30
LARGEST_HEADER = 1 << 26
_LENGTH = 4

_MAYBE_NON_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")
"""How a number that is not finite begins in MessagePack. Other bytes may look like it, so what is found is then read with care.
(Written shorter, as 32 bits, it would not be canonical.)"""
_ALWAYS_FINITE = frozenset({str, bytes, int, bool, type(None), Blob})

_Kind = TypeVar("_Kind")


def encode(message: msgspec.Struct) -> bytes:
    """Return the canonical bytes of a message or of a plan."""
    header, blobs = _header(message)
    return b"".join((VERSION, len(header).to_bytes(_LENGTH, "big"), header, *blobs))


def decode_request(data: bytes) -> Request:
    """Read a request, or refuse."""
    return decode(data, Request)  # type: ignore[arg-type]  # a union is not a type to mypy


def decode_reply(data: bytes) -> Reply:
    """Read a reply, or refuse."""
    return decode(data, Reply)  # type: ignore[arg-type]  # a union is not a type to mypy


def digest(message: msgspec.Struct) -> bytes:
    """Return the SHA-256 of the canonical bytes of what is asked: what is said about the study is left out."""
    if isinstance(message, Plan):
        known = message.__dict__.get("_digest")  # a plan does not change, and every turn asks for its hash again
        if known is None:
            known = message.__dict__["_digest"] = plan_digest(encode(message))
        return known
    if isinstance(message, Propose | Ask | Post) and message.about is not None:
        message = msgspec.structs.replace(message, about=None)
    hasher = hashlib.sha256(b"colonnade/message/2")
    header, blobs = _header(message)
    hasher.update(len(header).to_bytes(_LENGTH, "big") + header)
    for blob in blobs:
        hasher.update(blob)
    return hasher.digest()


@lru_cache(maxsize=256)
def plan_digest(content: bytes) -> bytes:
    """Return the hash of a plan's canonical bytes. The prefix stays as it is: the bytes name their own version."""
    return hashlib.sha256(b"colonnade/plan/1" + content).digest()


def request_identity(plan: Plan, party: str, step: str) -> bytes:
    """Return the id under which a party's ledger knows one step of one plan."""
    fields = (b"colonnade/request/2", digest(plan), party.encode(), step.encode())
    return hashlib.sha256(b"".join(len(field).to_bytes(8, "big") + field for field in fields)).digest()


def study_of(message: msgspec.Struct) -> str | None:
    """Return how logs name the study that a message is about: by the first digits of its plan's hash; ``None`` if by none."""
    plan = getattr(message, "plan", None)
    hashed = digest(plan) if isinstance(plan, Plan) else plan or b""
    return hashed.hex()[:12] or None


def schema_digest(schema: Schema) -> str:
    """Return the hash that names one party's public schema in a federation's papers."""
    return hashlib.sha256(b"colonnade/schema/1" + msgspec.msgpack.encode(list(schema.items()))).hexdigest()


def federation_digest(schemas: Mapping[str, Schema]) -> str:
    """Return the hash that names a simulated federation: its parties, in order, and what is public about their columns.

    One of separate machines is named by the hash of its signed papers instead (`FederationAgreement.identity`).
    """
    described = [(party, list(schema.items())) for party, schema in schemas.items()]
    return hashlib.sha256(b"colonnade/federation/1" + msgspec.msgpack.encode(described)).hexdigest()


def _header(message: msgspec.Struct) -> tuple[bytes, list[memoryview]]:
    blobs: list[memoryview] = []

    def set_aside(value: object) -> int:
        if not isinstance(value, Blob):
            raise TypeError("only messages are encoded")
        blobs.append(value.view)
        return len(value)

    return msgspec.msgpack.Encoder(enc_hook=set_aside, order="deterministic").encode(message), blobs


def decode(data: bytes | memoryview, kind: type[_Kind]) -> _Kind:
    """Read a struct of a known kind, or refuse."""
    view = memoryview(data)
    start = len(VERSION) + _LENGTH
    if not start <= view.nbytes <= LARGEST_FRAME or bytes(view[: len(VERSION)]) != VERSION:
        raise ProtocolError("These bytes are not a message of this version of the protocol.")
    length = int.from_bytes(view[len(VERSION) : start], "big")
    if length > min(view.nbytes - start, LARGEST_HEADER):
        raise ProtocolError("The message is shorter than its header says.")
    header, bulk = bytes(view[start : start + length]), view[start + length :]
    message = _parse(header, bulk, kind)
    if _MAYBE_NON_FINITE.search(header):
        _refuse_non_finite(message)
    if _header(message)[0] != header:  # type: ignore[arg-type]  # every kind is a struct
        raise ProtocolError("The message is not in canonical form.")
    return message


def _parse(header: bytes, bulk: memoryview, kind: type[_Kind]) -> _Kind:
    position = 0

    def take(_: type, length: Any) -> Blob:
        nonlocal position
        if type(length) is not int or not 0 <= length <= bulk.nbytes - position:
            raise ValueError
        position += length
        return Blob(bulk[position - length : position])

    try:
        message = msgspec.msgpack.Decoder(kind, dec_hook=take).decode(header)
    except (msgspec.MsgspecError, ColonnadeError, ValueError, RecursionError):
        # The cause may quote what was received, which may be anybody's data: it is dropped.
        raise ProtocolError("These bytes are not a well-formed message.") from None
    if position != bulk.nbytes:
        raise ProtocolError("The message has bytes left over.")
    return message


def _refuse_non_finite(value: object) -> None:
    """NaN differs from itself and infinities defeat comparisons: neither has a place in a plan."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ProtocolError("The message has a number that is not finite.")
    if isinstance(value, msgspec.Struct):
        value = tuple(getattr(value, name) for name in value.__struct_fields__)
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple):
        for entry in value:
            if type(entry) not in _ALWAYS_FINITE:
                _refuse_non_finite(entry)


_PREFIX = 8


def write_frame(stream: BinaryIO, data: bytes) -> None:
    """Write one frame and flush it."""
    stream.write(len(data).to_bytes(_PREFIX, "big"))
    stream.write(data)
    stream.flush()


def read_frame(stream: BinaryIO) -> bytes | None:
    """Read one frame; ``None`` at the end of the stream. The announced length is bounded before anything is allocated."""
    prefix = stream.read(_PREFIX)
    if not prefix:
        return None
    length = int.from_bytes(prefix, "big")
    if len(prefix) < _PREFIX or length > LARGEST_FRAME:
        raise ProtocolError("The frame has a malformed or excessive length.")
    data = stream.read(length)
    if len(data) < length:
        raise ProtocolError("The frame ends early.")
    return data
