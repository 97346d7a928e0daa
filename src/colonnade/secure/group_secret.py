"""A key that all parties of a run share and none of them chose, by commit-then-reveal over sealed letters.

First everyone commits to a random contribution, then everyone reveals it; the key is derived from all contributions. As
long as one party is honest nobody can steer the key, because each contribution is fixed before any is shown. The
coordinator relays sealed letters and learns nothing.

A reveal also repeats the hash of all commitments its sender saw. A party that commits to one thing towards one peer and
to another towards the next is thereby found out in the same round, without a third.

The key is only as secret as the least careful party: a guarantee that rests on it holds against the coordinator and not
against a coalition that includes a party.

Sums of private integer vectors under pairwise masks: each party sends its vector plus masks that cancel in the sum.

Every pair of parties has a secret of its own (`colonnade.secure.mail.Session.shared`), which both expand to the same uniform
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
from cryptography.hazmat.primitives import constant_time
from numpy.typing import NDArray

from colonnade.errors import BadInput, ProtocolError
from colonnade.secure.keys import SEED_BYTES, Secret, SeedStream, digest, frame, require_seed
from colonnade.secure.mail import Session

_DIGEST = 32


class GroupSecret:
    """One party's side of agreeing on a group key: `commit`, then `reveal`, then `settle`, each safe to repeat.

    Parameters
    ----------
    session
        The party's letters of this run.
    purpose
        What the key is for, the same at every party; different purposes give independent keys.
    step
        The protocol's step of the commitments; the reveals use the next one.
    seed
        32 secret random bytes, kept until the run ends if the party is to survive a restart.
        A peer that has read this party's reveal must not be let in again with another commitment: whoever runs this again
        sees to it that every letter is the same (`colonnade.conversations.memory.RunRecords`).

    Examples
    --------
    Letters are mappings from receiver to bytes when they leave and from sender to bytes when they arrive::

        letters = secret.commit()
        letters = secret.reveal(commitments)
        key = secret.settle(reveals)
    """

    def __init__(self, session: Session, purpose: str, step: int, seed: bytes) -> None:
        if not purpose:
            raise BadInput("A group key needs a purpose.")
        drawn = Secret(require_seed(seed))
        context = (session.plan, session.party, purpose, step)
        self._session = session
        self._purpose = purpose
        self._step = step
        self._nonce = drawn.derive("colonnade group nonce v1", *context)
        self._contribution = drawn.derive("colonnade group contribution v1", *context)
        self._commitments: dict[str, bytes] = {}
        self._view = b""

    def commit(self) -> dict[str, bytes]:
        """Return a sealed commitment for each peer."""
        return self._sealed(self._step, self._own_commitment())

    def reveal(self, commitments: Mapping[str, bytes]) -> dict[str, bytes]:
        """Open every peer's commitment and return a sealed reveal for each peer."""
        seen = self._opened(self._step, commitments, _DIGEST)
        seen[self._session.party] = self._own_commitment()
        view = self._digest_of(seen)
        if self._view and not constant_time.bytes_eq(self._view, view):
            raise ProtocolError("A party changed its commitment.")
        self._commitments, self._view = seen, view
        return self._sealed(self._step + 1, self._nonce.expose() + self._contribution.expose() + view)

    def settle(self, reveals: Mapping[str, bytes]) -> Secret:
        """Open every peer's reveal, check it against its commitment, and return the key."""
        if not self._commitments:
            raise ProtocolError("A reveal arrived before all commitments.")
        opened = self._opened(self._step + 1, reveals, 2 * SEED_BYTES + _DIGEST)
        contributions = {name: self._checked(name, opened[name], self._view) for name in self._session.peers}
        contributions[self._session.party] = self._contribution.expose()
        ordered = tuple((name, contributions[name]) for name in self._session.parties)
        joined = Secret(frame("colonnade group contributions v1", *ordered))
        return joined.derive("colonnade group key v2", self._session.plan, self._purpose, salt=self._view)

    def _checked(self, name: str, reveal: bytes, view: bytes) -> bytes:
        nonce, contribution = reveal[:SEED_BYTES], reveal[SEED_BYTES : 2 * SEED_BYTES]
        if not constant_time.bytes_eq(self._commitment(name, nonce, contribution), self._commitments[name]):
            raise ProtocolError("A party revealed something other than it committed to.")
        if not constant_time.bytes_eq(reveal[2 * SEED_BYTES :], view):
            raise ProtocolError("A party committed differently towards different peers.")
        return contribution

    def _own_commitment(self) -> bytes:
        return self._commitment(self._session.party, self._nonce.expose(), self._contribution.expose())

    def _commitment(self, party: str, nonce: bytes, contribution: bytes) -> bytes:
        return digest("colonnade group commitment v2", self._session.plan, self._purpose, party, nonce, contribution)

    def _digest_of(self, commitments: Mapping[str, bytes]) -> bytes:
        ordered = tuple((name, commitments[name]) for name in self._session.parties)
        return digest("colonnade group view v2", self._session.plan, self._purpose, *ordered)

    def _sealed(self, step: int, plaintext: bytes) -> dict[str, bytes]:
        return {peer: self._session.seal(peer, step, 0, plaintext) for peer in self._session.peers}

    def _opened(self, step: int, letters: Mapping[str, bytes], length: int) -> dict[str, bytes]:
        if set(letters) != set(self._session.peers):
            raise ProtocolError("The letters are not one from each peer.")
        opened = {peer: self._session.open(peer, step, 0, letters[peer], retried=True) for peer in self._session.peers}
        if any(len(plaintext) != length for plaintext in opened.values()):
            raise ProtocolError("A commitment or reveal has the wrong length.")
        return opened

    def __repr__(self) -> str:
        return f"GroupSecret(purpose={self._purpose!r}, <redacted>)"


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
            raise ProtocolError("A masked vector has another length.")
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
