"""Places for the union of two lists, such that neither party learns who is in both.

For every id of its own, each party gets a *name* u(x) = k₁k₂·P(x) that neither could compute alone. Each gets it from the other
as an oblivious pseudo-random function (blinded, multiplied, unblinded; `colonnade.secure.matching`). The union of names is found
under a second layer of multipliers e₁, e₂. The second party ends up with both lists as e₁e₂·u, each in an order that only the
first party knows. It drops what occurs twice, takes e₂ off and shuffles. The first party takes e₁ off, shuffles again and shows
the names. A place of the row order is a place in that last list, and a party knows which places are its own rows' (Buddhavarapu,
Knox, Mohassel, Sengupta, Taubeneck and Vlaskin, "Private Matching for Compute", 2020).

::

    first → second   r₁·P(x)                       second → first   r₂·P(y)
    second → first   k₂r₁·P(x)                     first → second   k₁r₂·P(y)
    first → second   e₁·u(x), shuffled             second → first   e₂·u(y), shuffled
    first → second   e₁e₂·u(y), shuffled again
    second → first   e₁·u(w) for w in the union, shuffled
    first → second   u(w), shuffled

Privacy
-------
Guarantee
    Neither party learns which of its ids the other has. Both learn the length of the union, or nothing where it is filled up to
    the sum of the lists' public lengths. The second party sees in either case how many pseudonyms coincide, which is the *number*
    of people in common. Under DDH a list times a fresh secret multiplier is a list of random points. The first party sees
    r₂·P(y), e₂·u(y) and k₂r₁·P(x), all under multipliers it does not know, and then names: its own, and random ones in random
    order. The second party sees e₁·u(x) and e₁e₂·u(y), both shuffled by the first. Equal points tell it how many are equal; which
    of its own these are it could only tell with e₁. The names come in an order drawn by the first party, so the second cannot
    tell which places it had found twice. Proof: docs/proofs/alignment.md#union.
Neighbours
    None: the number of people in common is exact towards the second party.
Adversary
    One of the two parties, following the protocol. The coordinator sees sealed letters.
Numerics
    Points are equal or not; two ids have one name only if their hashes collide.
Checked by
    tests/secure/test_union.py, tests/conversations/test_union_run.py
"""

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import ProtocolError
from colonnade.secure.keys import Secret, SeedStream
from colonnade.secure.matching import POINT_BYTES, Digests, Multiplier, Points, hash_to_points, require_points

__all__ = ["UnionSide", "require_distinct", "shuffled"]


class UnionSide:
    """One of the two parties.

    Parameters
    ----------
    digests
        Its hashed ids, filled up to their public length.
    people
        How many of them are ids, and not filling.
    secret
        Fresh random bytes, for this run only.
    """

    def __init__(self, digests: Digests, people: int, secret: Secret) -> None:
        self._digests = digests
        self._people = people
        self._secret = secret
        self._blinding, self._naming, self._covering = (
            Multiplier.derive(secret, purpose) for purpose in ("blind", "name", "cover")
        )
        self._unblinding = self._naming.after(self._blinding.inverse())
        self.names: Points = np.empty((0, POINT_BYTES), dtype=np.uint8)

    def blinded(self, start: int, stop: int) -> Points:
        """Return r·P(x) for a block of this party's list."""
        return self._blinding.multiply(hash_to_points(self._digests[start:stop]))

    def evaluate(self, points: Points, seed: bytes) -> Points:
        """Return the other party's blinded points times this party's part of every name."""
        return self._naming.multiply(require_points(points, seed))

    def take_names(self, points: Points, seed: bytes) -> None:
        """Take the other party's part of this party's names, the next block of them."""
        found = self._unblinding.multiply(require_points(points, seed))
        self.names = np.concatenate([self.names, found])

    def covered_names(self) -> Points:
        """Return e·u(x) for this party's whole list, shuffled."""
        return self.shuffle(self._covering.multiply(self.names), "covered names")

    def cover(self, points: Points, seed: bytes) -> Points:
        """Return the other party's covered names under this party's cover too."""
        return self._covering.multiply(require_points(points, seed))

    def uncover(self, points: Points, seed: bytes) -> Points:
        """Take this party's cover off."""
        return self._covering.inverse().multiply(require_points(points, seed))

    def united(self, own: Points, other: Points, places: int | None, seed: bytes) -> Points:
        """Return the union of two lists of twice covered names without this party's cover, shuffled.

        Parameters
        ----------
        own, other
            Both lists under both covers.
        places
            To how many the union is filled up with points that are nobody's; ``None`` leaves it as long as it is.
        seed
            Random bytes that the sender does not know.
        """
        points = _distinct(own, other)
        if places is not None:
            filler = SeedStream(self._secret.derive("colonnade union filler v1").expose())
            most = places - max(
                len(own), len(other)
            )  # as many as any overlap could ask for, so that time tells nothing
            extra = np.frombuffer(filler.bytes(most * POINT_BYTES), dtype=np.uint8)
            strangers = self._blinding.multiply(hash_to_points(extra.reshape(-1, POINT_BYTES)))
            points = np.concatenate([points, strangers[: places - len(points)]])
        return self.shuffle(self.uncover(points, seed), "union")

    def shuffle(self, points: Points, purpose: str) -> Points:
        """Return points in an order that this party draws and tells nobody."""
        return points[shuffled(len(points), self._secret.derive("colonnade shuffle v1", purpose))]

    def order(self, names: Points) -> NDArray[np.int64]:
        """Return for each place which of this party's rows it is; −1 where it is none.

        A name that occurs twice is refused, no matter who has it. A row whose name is missing has no place: a refusal would tell
        a peer that left one of its own names out whether this party has it too.
        """
        shown = [name.tobytes() for name in names]
        if len(set(shown)) != len(shown):
            raise ProtocolError("The union has a name twice.")
        own = {name.tobytes(): row for row, name in enumerate(self.names[: self._people])}
        return np.array([own.get(name, -1) for name in shown], dtype=np.int64)


def require_distinct(points: Points) -> None:
    """Refuse a list of the other party's that has a point twice.

    Honest lists have none. From lists with gaps the union could not be filled up to its public length, which would then tell how
    many are in common: of the few that a party left in, so that it could ask for one.
    """
    if len({row.tobytes() for row in points}) != len(points):
        raise ProtocolError("The other party's list has a name twice.")


def _distinct(own: Points, other: Points) -> Points:
    """Every point once. The order is that of their bytes, and is shuffled before it is shown."""
    rows = sorted({row.tobytes() for row in np.concatenate([own, other])})
    return np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(-1, POINT_BYTES)


def shuffled(count: int, secret: Secret) -> NDArray[np.int64]:
    """Return a uniform order of so many things."""
    return np.argsort(SeedStream(secret.expose()).words(count), kind="stable")
