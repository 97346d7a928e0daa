"""Challenges that nobody can predict, one a chunk of rows: a hash chain, committed to first and revealed link by link.

Each node draws a secret and sends the end of the chain H(H(…H(secret))) before it has seen anything; after it has
received a chunk from every data party it reveals the link before. The challenge of a chunk is a hash of all nodes'
links: a data party that has yet to deal the chunk does not know the honest nodes' links, and no node can choose its
link late, because the chain fixes it.

A node could commit to one chain towards one node and to another towards the next. Their combinations would then be taken
under different challenges, and one mask would no longer hide both: together they would tell a combination of raw rows. So
the nodes show each other what they were told (`commitments`) before any combination is shown.
"""

from collections.abc import Mapping

from cryptography.hazmat.primitives import constant_time

from colonnade.errors import ProtocolError
from colonnade.secure.framing import digest

__all__ = ["Chain", "challenge", "commitments", "follows"]


class Chain:
    """One node's chain.

    Parameters
    ----------
    secret
        32 fresh random bytes.
    length
        How many challenges there will be.
    """

    def __init__(self, secret: bytes, length: int) -> None:
        links = [secret]
        for _ in range(length):
            links.append(_next(links[-1]))
        self._links = links[::-1]

    @property
    def head(self) -> bytes:
        """The commitment to the whole chain."""
        return self._links[0]

    def link(self, number: int) -> bytes:
        """Return the link revealed after chunk ``number`` (from 1)."""
        return self._links[number]

    def __repr__(self) -> str:
        return f"Chain({len(self._links) - 1} links, <hidden>)"


def follows(link: bytes, known: bytes) -> None:
    """Refuse a link that does not lead to the one already known."""
    if not constant_time.bytes_eq(_next(link), known):
        raise ProtocolError("A node revealed another challenge than it committed to.")


def challenge(links: Mapping[str, bytes]) -> bytes:
    """Return the challenge that all nodes' links make together."""
    return digest("colonnade challenge v1", *((name, links[name]) for name in sorted(links)))


def commitments(heads: Mapping[str, bytes]) -> bytes:
    """Return what a node was told of all chains, in short."""
    return digest("colonnade challenge heads v1", *((name, heads[name]) for name in sorted(heads)))


def _next(link: bytes) -> bytes:
    return digest("colonnade challenge link v1", link)
