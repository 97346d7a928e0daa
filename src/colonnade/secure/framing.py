"""One canonical encoding for everything that is signed, hashed, bound to a key or authenticated.

Every field carries its kind and its length, so two different lists of fields never have the same bytes: "ab", "c" is
not "a", "bc", and a number is not its own digits. The first field is a label that says what the bytes are for, so that
a signature or a key made for one purpose is worth nothing for another.

Examples
--------
>>> frame("greeting", "ab", "c") == frame("greeting", "a", "bc")
False
"""

from cryptography.hazmat.primitives import hashes

from colonnade.errors import BadInput

__all__ = ["LARGEST_NUMBER", "Field", "digest", "frame"]

Field = bytes | str | int | tuple["Field", ...]

LARGEST_NUMBER = 2**64 - 1


def frame(label: str, *fields: Field) -> bytes:
    """Return the canonical bytes of a labelled list of fields.

    Parameters
    ----------
    label
        What the bytes are for; never empty.
    *fields
        Bytes, text (as UTF-8), whole numbers from 0 to `LARGEST_NUMBER`, and tuples of these.
    """
    if not label:
        raise BadInput("A frame needs a label.")
    return b"".join(_encoded(field) for field in (label, *fields))


def digest(label: str, *fields: Field) -> bytes:
    """Return the SHA-256 of a frame."""
    state = hashes.Hash(hashes.SHA256())
    state.update(frame(label, *fields))
    return state.finalize()


def _encoded(field: Field) -> bytes:
    match field:
        case bytes():
            return _prefixed(b"b", field)
        case str():
            return _prefixed(b"s", field.encode())
        case tuple():
            return _prefixed(b"t", b"".join(_encoded(part) for part in field))
        case int() if not isinstance(field, bool) and 0 <= field <= LARGEST_NUMBER:
            return _prefixed(b"n", field.to_bytes(8, "big"))
    raise BadInput("A frame is made of bytes, text, tuples and whole numbers below 2^64.")


def _prefixed(kind: bytes, content: bytes) -> bytes:
    return kind + len(content).to_bytes(8, "big") + content
