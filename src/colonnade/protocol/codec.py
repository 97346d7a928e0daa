"""Canonical bytes: the only (de)serialiser, versioned and strict.

Every message has exactly one encoding: a version, the length of its header, the header (MessagePack with sorted keys, in which
a blob is just its length), then the blobs in the order in which the header mentions them. Decoding refuses unknown fields,
wrong types, missing or trailing bytes, non-finite numbers and any header but the canonical one (checked by encoding it
again), so a hash over bytes is a hash over meaning. No object is instantiated by name, and nothing is executed.

Blobs are neither parsed nor copied on the way in, because shares of a large table are all bulk and little header.
"""

import hashlib
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, BinaryIO, TypeVar

import msgspec

from colonnade.errors import ColonnadeError, ProtocolError
from colonnade.plan import Plan
from colonnade.protocol.messages import Ask, Blob, Post, Propose, Reply, Request
from colonnade.schema import Schema

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
