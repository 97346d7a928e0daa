"""Reading one parameter of a step: what is missing or of another kind is refused, before any data is read."""

from colonnade.errors import BadInput

__all__ = ["seed_parameter", "whole_parameter", "words_parameter"]


def whole_parameter(value: object) -> int:
    """Return a positive whole number."""
    if type(value) is not int or value < 1:
        raise BadInput("A step lacks a parameter that must be a positive whole number.")
    return value


def words_parameter(value: object) -> tuple[str, ...]:
    """Return a list of names."""
    if not isinstance(value, tuple) or any(not isinstance(word, str) for word in value):
        raise BadInput("A step has a parameter that must be a list of names.")
    return tuple(str(word) for word in value)


def seed_parameter(value: object) -> bytes:
    """Return 32 public bytes from their hexadecimal form."""
    try:
        seed = bytes.fromhex(str(value))
    except ValueError:
        seed = b""
    if len(seed) != 32:
        raise BadInput("seed must be 32 bytes in hexadecimal.")
    return seed
