"""Length-prefixed frames on a byte stream that the caller opened."""

from typing import BinaryIO

from colonnade.errors import ProtocolError
from colonnade.protocol.codec import LARGEST_FRAME

__all__ = ["read_frame", "write_frame"]

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
        raise ProtocolError("A frame with a malformed or excessive length.")
    data = stream.read(length)
    if len(data) < length:
        raise ProtocolError("A frame that ends early.")
    return data
