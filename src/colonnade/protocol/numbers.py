"""How many numbers a message moves: the unit in which paper 004 counts communication, beside bytes.

A number is an entry of an array, or a word of eight bytes of letters between members, whatever is inside. Plans, names, hellos
and seals are not numbers: they do not grow with the data.
"""

from collections.abc import Iterable

from colonnade.protocol.messages import Array, Ask, Blob, Conclude, Opened, Post, Posted, Released, Reply, Request

__all__ = ["numbers_in"]

WORD = 8
GREETING = 1
"""The turn in which a `Post` carries hellos."""


def numbers_in(message: Request | Reply) -> int:
    """Return how many numbers a message moves.

    Examples
    --------
    >>> import numpy as np
    >>> from colonnade.protocol.messages import pack
    >>> numbers_in(Released(party="bank", step="rows", values={"value": pack(np.zeros((3, 4)))}, mechanism="", loss=None))
    12
    """
    match message:
        case Ask():
            return _entries(message.inputs.values())
        case Post():
            letters = 0 if message.turn == GREETING else _words(message.letters.values())
            return _entries(message.inputs.values()) + letters
        case Conclude() | Released():
            return _entries(message.values.values())
        case Posted():
            return _words(message.letters.values())
        case Opened():
            return _entries(part for part in (message.share, message.own) if part is not None)
        case _:
            return 0


def _entries(arrays: Iterable[Array]) -> int:
    total = 0
    for array in arrays:
        entries = 1
        for extent in array.shape:
            entries *= extent
        total += entries
    return total


def _words(letters: Iterable[Blob]) -> int:
    return sum(len(letter) // WORD for letter in letters)
