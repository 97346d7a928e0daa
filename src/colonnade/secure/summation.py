"""Sums of private integer vectors under pairwise masks: each party sends its vector plus masks that cancel in the sum.

Every pair of parties has a secret of its own (`colonnade.secure.keys.Session.shared`), which both expand to the same uniform
words; the one whose name comes first adds them, the other subtracts them. Arithmetic is modulo 2³² or 2⁶⁴, whichever the
headroom allows, so masking is one vector addition per peer, and a value costs four or eight bytes on the wire.

What a coalition sees
---------------------
Fix the coalition's own vectors, and let H be the honest parties, h of them. The masks between pairs in H are independent and
uniform, and unknown to the coalition. The masked vectors of any h − 1 of them are jointly uniform and independent of the data:
order the h parties as a path; each mask along the path is added to one of them and to no earlier one. The last masked vector
follows from these and from the sum over H. So an observer of *every* message learns the sum over H and nothing else, whatever the
size of the coalition: there is no threshold to exceed, unlike with shares among compute nodes, and no third node is needed.
If h = 1 the sum is that party's vector. So with two data parties a recipient that is one of them learns the other's vector:
it is the difference of what it is told and what it knows, under any protocol. With the coordinator as recipient each of two
parties stays hidden as long as neither colludes with it.

The price of having no threshold is that every party must answer: the masks of a missing one do not cancel. All of them are
needed anyhow, since the sum is over all.

Masks are used once. They follow from the session's keys (fresh ephemeral keys in every run) and from the position of
the vector in the run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, ProtocolError
from colonnade.secure.keys import Secret, SeedStream

Words = NDArray[Any]


@dataclass(frozen=True)
class SumRing:
    """Integers modulo 2³² or 2⁶⁴ in which a sum cannot wrap.

    Parameters
    ----------
    bits
        32 or 64.
    bound
        The largest magnitude of one party's integer.
    parties
        How many parties' integers are added.

    Examples
    --------
    >>> SumRing.for_headroom(1_000, 3).bits, SumRing.for_headroom(2**40, 3).bits
    (32, 64)
    """

    bits: int
    bound: int
    parties: int

    def __post_init__(self) -> None:
        if type(self.bound) is not int or type(self.parties) is not int or self.bound < 1 or self.parties < 2:
            raise BadInput("A secure sum adds bounded integers of at least two parties.")
        if self.bits not in (32, 64) or self.bound * self.parties >= 2 ** (self.bits - 1):
            raise BadInput("The sum could exceed the integers it is computed in.", remedy="Use a coarser scale.")

    @classmethod
    def for_headroom(cls, bound: int, parties: int) -> "SumRing":
        """Return the smaller ring in which nothing can wrap: bound·parties < 2^(bits−1). Refuses where there is none."""
        return cls(32 if bound * parties < 2**31 else 64, bound, parties)

    @property
    def dtype(self) -> np.dtype[Any]:
        """What a value is sent as."""
        return np.dtype(f"<u{self.bits // 8}")

    @property
    def _signed(self) -> np.dtype[Any]:
        return np.dtype(f"<i{self.bits // 8}")

    def encode(self, values: NDArray[np.int64]) -> Words:
        """Return integers as words; each is first clipped to the bound, on which the headroom rests."""
        return np.clip(values, -self.bound, self.bound).astype(self._signed, copy=False).view(self.dtype)

    def integers(self, words: Words) -> NDArray[np.int64]:
        """Return a sum as integers, whatever they are."""
        return words.view(self._signed).astype(np.int64)

    def holds(self, sums: NDArray[np.int64]) -> bool:
        """Return whether a sum is within what the parties can have sent."""
        limit = self.bound * self.parties
        return not sums.size or (int(sums.max()) <= limit and int(sums.min()) >= -limit)

    def decode(self, words: Words) -> NDArray[np.int64]:
        """Return a sum as integers; refuse one beyond what the parties can have sent."""
        sums = self.integers(words)
        if not self.holds(sums):
            raise ProtocolError("A secure sum is out of its bounds: the masks did not cancel.")
        return sums

    def from_bytes(self, data: memoryview, count: int) -> Words:
        """Return the words of a message; refuse one of another length."""
        if data.nbytes != count * self.dtype.itemsize:
            raise ProtocolError("A masked vector does not have the agreed length.")
        return np.frombuffer(data, dtype=self.dtype)


class PairwiseMasks:
    """One party's masks towards all others.

    Parameters
    ----------
    ring
        Where the sum is computed.
    party
        This party.
    secrets
        A secret shared with each other party, by name.

    Examples
    --------
    >>> ring = SumRing.for_headroom(100, 2)
    >>> secret = Secret(bytes(32))
    >>> ours, theirs = PairwiseMasks(ring, "a", {"b": secret}), PairwiseMasks(ring, "b", {"a": secret})
    >>> total = ours.masked(0, np.array([5, -7])) + theirs.masked(0, np.array([1, 100]))
    >>> ring.decode(total).tolist()
    [6, 93]
    """

    def __init__(self, ring: SumRing, party: str, secrets: Mapping[str, Secret]) -> None:
        if party in secrets or len(secrets) + 1 != ring.parties:
            raise BadInput("Masks are shared with every other party of the sum.")
        self._ring = ring
        self._party = party
        self._secrets = dict(secrets)

    def masked(self, position: int, values: NDArray[np.int64]) -> Words:
        """Return a vector under the masks of one position of the run; a position is used for one vector."""
        words = self._ring.encode(values)
        for peer, secret in self._secrets.items():
            mask = self._words(secret, position, len(words))
            if self._party < peer:
                words += mask
            else:
                words -= mask
        return words

    def _words(self, secret: Secret, position: int, count: int) -> Words:
        stretch = np.empty(-(-count * self._ring.dtype.itemsize // 8), dtype=np.uint64)
        SeedStream(secret.expose(), position).fill(stretch)
        return stretch.view(self._ring.dtype)[:count]

    def __repr__(self) -> str:
        return f"PairwiseMasks(party={self._party!r}, peers={tuple(self._secrets)!r}, <redacted>)"
