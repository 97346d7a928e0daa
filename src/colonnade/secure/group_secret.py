"""A key that all parties of a run share and none of them chose, by commit-then-reveal over sealed letters.

First everyone commits to a random contribution, then everyone reveals it; the key is derived from all contributions. As
long as one party is honest nobody can steer the key, because each contribution is fixed before any is shown. The
coordinator relays sealed letters and learns nothing.

A reveal also repeats the hash of all commitments its sender saw. A party that commits to one thing towards one peer and
to another towards the next is thereby found out in the same round, without a third.

The key is only as secret as the least careful party: a guarantee that rests on it holds against the coordinator and not
against a coalition that includes a party.
"""

from collections.abc import Mapping

from cryptography.hazmat.primitives import constant_time

from colonnade.errors import BadInput, ProtocolError
from colonnade.secure.keys import SEED_BYTES, Secret, digest, frame, require_seed
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
