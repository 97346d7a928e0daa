"""What members of a run write to each other, before it is sealed."""

import msgspec

from colonnade.protocol.messages import Blob

__all__ = ["Letter"]


class Letter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One member's letter to one node in one turn. Absent parts are empty.

    Parameters
    ----------
    table, noise, mask
        First letter of a data party: this node's share of its table (only where the share travels as a seed), of its noise and
        of the masks of the degree check. A share travels as a 32-byte seed or as elements; which of them the receiver's
        point decides.
    share
        This node's share of the next chunk of rows, where it does not come from a seed.
    head
        First letter of a node: the end of its chain of reveals.
    heads
        Second letter of a node: what it was told of all nodes' chains (`colonnade.conversations.degree_check.commitments`).
    reveal
        The next link of the chain: this node has received a chunk, and here is its part of the challenge.
    check
        This node's part of the degree check of every dealing, by data party.
    """

    table: Blob | None = None
    noise: Blob | None = None
    mask: Blob | None = None
    share: Blob | None = None
    head: bytes = b""
    heads: bytes = b""
    reveal: bytes = b""
    check: dict[str, Blob] = {}
