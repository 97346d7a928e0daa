"""A map from keys to values that does not show its keys: an oblivious key-value store, by peeling.

Every key has one slot in each third of a table, and its value is the exclusive or of the three. To write a map, find a key
alone in one of its slots, set it aside, and go on until no key is left; then fill slots in the reverse order (Garimella, Pinkas,
Rosulek, Trieu, Yanai 2021, on the tables of Majewski, Wormald, Havas and Czech). Slots that no key needs are random.

*It hides its keys*: with uniform values the whole table is uniform, whatever the keys, because a table of random slots and a
linear map of full rank make each table equally likely. Reading with a key that was never written gives the exclusive or of three
slots, which looks like any other value.

*Failing tells nothing*: peeling fails for a small part of key sets (`SLACK` is above the threshold 1.222 of three slots) and is
then tried again with the next salt. Callers pass keys that are pseudo-random to a reader of the table, and always equally
many of them, so how many salts were needed says nothing about whose keys they were.
"""

import msgspec
import numba
import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, ProtocolError
from colonnade.secure.keys import WordSource

__all__ = ["HiddenMap", "Words", "slots_for"]

SLACK = 1.3
SPARE = 96
MOST_SALTS = 128

Words = NDArray[np.uint64]
"""n × 2 words: a key or a value of 128 bits per row."""


def slots_for(keys: int) -> int:
    """Return how many slots a map of that many keys has: a multiple of three."""
    return 3 * (int(SLACK * keys + SPARE) // 3 + 1)


class HiddenMap(msgspec.Struct, frozen=True):
    """A written map.

    Parameters
    ----------
    salt
        Which of the public placements of keys was used.
    table
        One row of two words per slot.
    """

    salt: int
    table: Words

    @classmethod
    def write(cls, keys: Words, values: Words, randomness: WordSource) -> "HiddenMap":
        """Write a map; keys are distinct and look random to the reader, values look random to it too.

        Parameters
        ----------
        keys, values
            Equally many rows of two words.
        randomness
            What fills the slots that no key needs.
        """
        if keys.shape != values.shape or keys.ndim != 2 or keys.shape[1] != 2:
            raise BadInput("A map is written from equally many keys and values of two words.")
        table = randomness.words(2 * slots_for(len(keys))).reshape(-1, 2)
        for salt in range(MOST_SALTS):
            places = _places(keys, salt, len(table))
            order, alone = _peel(places, len(table))
            if len(order) == len(keys):
                _fill(places, np.array(values, dtype=np.uint64, order="C"), order, alone, table)
                return cls(salt, table)
        raise BadInput("A key occurs twice in a map.")

    def read(self, keys: Words) -> Words:
        """Return the values of keys; of a key that was not written, something random."""
        if not 0 <= self.salt < MOST_SALTS or self.table.ndim != 2 or len(self.table) % 3:
            raise ProtocolError("A peer's map has another shape.")
        first, second, third = _places(keys, self.salt, len(self.table)).T
        read: Words = self.table[first] ^ self.table[second] ^ self.table[third]
        return read


def _places(keys: Words, salt: int, slots: int) -> NDArray[np.int64]:
    places: NDArray[np.int64] = _placed(
        np.array(keys, dtype=np.uint64, order="C"), np.uint64(salt), np.uint64(slots // 3)
    )
    return places


@numba.njit(cache=True, nogil=True)
def _mixed(word: np.uint64) -> np.uint64:
    """Spread one word (the finaliser of SplitMix64); the key is random already, this only makes salts independent."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@numba.njit(["int64[:, ::1](uint64[:, ::1], uint64, uint64)"], cache=True, nogil=True)
def _placed(keys: Words, salt: int, third: int) -> NDArray[np.int64]:
    """Place every key in each third of the table."""
    places = np.empty((len(keys), 3), dtype=np.int64)
    for row in range(len(keys)):
        for part in range(3):
            step = np.uint64(0x9E3779B97F4A7C15) * (salt * np.uint64(3) + np.uint64(part + 1))
            word = _mixed(keys[row, 0] + step) ^ _mixed(keys[row, 1] ^ step)
            places[row, part] = np.int64(word % third) + part * np.int64(third)
    return places


@numba.njit(
    ["Tuple((int64[::1], int64[::1]))(int64[:, ::1], int64)"],
    cache=True,
    nogil=True,
)
def _peel(places: NDArray[np.int64], slots: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the keys in the order in which they were found alone, and the slot of each; fewer than all if it fails."""
    counts = np.zeros(slots, dtype=np.int64)
    folded = np.zeros(slots, dtype=np.int64)  # the exclusive or of the keys at a slot: its only key once one is left
    for row in range(len(places)):
        for part in range(3):
            counts[places[row, part]] += 1
            folded[places[row, part]] ^= row
    order = np.empty(len(places), dtype=np.int64)
    alone = np.empty(len(places), dtype=np.int64)
    waiting = np.empty(slots, dtype=np.int64)
    found, top = 0, 0
    for slot in range(slots):
        if counts[slot] == 1:
            waiting[top] = slot
            top += 1
    while top:
        top -= 1
        slot = waiting[top]
        if counts[slot] != 1:
            continue
        row = folded[slot]
        order[found], alone[found] = row, slot
        found += 1
        for part in range(3):
            other = places[row, part]
            counts[other] -= 1
            folded[other] ^= row
            if counts[other] == 1 and other != slot:
                waiting[top] = other
                top += 1
    return order[:found].copy(), alone[:found].copy()


@numba.njit(
    ["void(int64[:, ::1], uint64[:, ::1], int64[::1], int64[::1], uint64[:, ::1])"],
    cache=True,
    nogil=True,
)
def _fill(
    places: NDArray[np.int64], values: Words, order: NDArray[np.int64], alone: NDArray[np.int64], table: Words
) -> None:
    """Set, last found first, the slot at which a key was alone, so that its three slots give its value."""
    for place in range(len(order) - 1, -1, -1):
        row, slot = order[place], alone[place]
        for word in range(2):
            total = values[row, word]
            for part in range(3):
                if places[row, part] != slot:
                    total ^= table[places[row, part], word]
            table[slot, word] = total
