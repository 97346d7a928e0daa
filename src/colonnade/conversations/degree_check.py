"""Checking that every dealing is of its declared degree before anything is opened
(docs/proofs/secure-arithmetic.md#degree-check).

Nodes commit to the links of a hash chain. Each link, revealed once all nodes hold a chunk, gives the coefficients of a
random linear combination of that chunk. A dealing of too high a degree shows in the combination, and nothing is opened.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from cryptography.hazmat.primitives import constant_time
from numpy.typing import NDArray

from colonnade.errors import ProtocolError
from colonnade.secure.framing import digest
from colonnade.secure.products import ShareProduct, entry_pairs
from colonnade.secure.residues import Arithmetic, Elements
from colonnade.secure.shamir import check_repetitions, expand
from colonnade.secure.stream import subseed

__all__ = ["ChallengeChain", "CheckedProduct", "challenge", "check_link", "commitments"]


class ChallengeChain:
    """One node's chain of challenges.

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
        return f"ChallengeChain({len(self._links) - 1} links, <hidden>)"


def check_link(link: bytes, known: bytes) -> None:
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


class CheckedProduct(ShareProduct):
    """A node's share of the product, and its part in checking every data party's dealing.

    Parameters
    ----------
    arithmetic
        What the shares are modulo.
    widths
        How many columns each data party's dealing has.
    fold
        For every entry of the product the sum it is added to before anything is opened, −1 for none; by default every entry is
        opened by itself.
    """

    def __init__(self, arithmetic: Arithmetic, widths: Sequence[int], fold: NDArray[np.int64] | None = None) -> None:
        self._arithmetic = arithmetic
        self._fold = fold
        self._widths = tuple(widths)
        self._repetitions = check_repetitions(arithmetic)
        wide = [*widths, self._repetitions]
        super().__init__(arithmetic, wide)
        self._combined = entry_pairs(wide)[1] >= sum(widths)  # shares times row weights; the others are the product

    def combine(self, shares: Sequence[Elements], challenge: bytes) -> None:
        """Add one chunk: this node's shares, one array per data party, columns by rows, under the chunk's challenge."""
        shape = (self._repetitions, shares[0].shape[1])
        weights = expand(self._arithmetic, subseed(challenge, "colonnade degree check: rows"), 0, shape)
        self.add([*shares, weights])

    def masked(self, noise_shares: Sequence[Elements]) -> Elements:
        """Return the product plus this node's shares of every data party's noise; refuse to go without any."""
        if self._fold is not None:
            return self._folded(noise_shares, self._fold)
        return super().masked([self._widened(share) for share in noise_shares])[~self._combined]

    def _folded(self, noise_shares: Sequence[Elements], fold: NDArray[np.int64]) -> Elements:
        """Add entries up on shares: sums are linear, so the degree stays, and only the sums are masked and opened."""
        if not noise_shares:
            raise ProtocolError("A product of shares is never opened without a fresh mask of its own degree.")
        kept = fold >= 0
        entries, places, sums = self._products.elements()[~self._combined][kept], fold[kept], int(fold.max()) + 1
        low, high = entries & np.uint64(2**32 - 1), entries >> np.uint64(32)
        halves = [np.bincount(places, weights=half.astype(np.float64), minlength=sums) for half in (low, high)]
        total = [(int(one) + (int(other) << 32)) % self._arithmetic.modulus for one, other in zip(*halves, strict=True)]
        return self._arithmetic.add(np.array(total, dtype=np.uint64), *noise_shares)

    def checks(self, masks: Sequence[Elements], challenge: bytes) -> list[Elements]:
        """Return what this node shows the others: for each dealing one element per repetition."""
        combined = self._products.elements()[self._combined].reshape(-1, self._repetitions)
        dealings = np.split(combined, np.cumsum(self._widths)[:-1])
        return [self._check(*dealing, challenge) for dealing in zip(dealings, masks, strict=True)]

    def _check(self, combined: Elements, mask: Elements, challenge: bytes) -> Elements:
        weights = expand(self._arithmetic, subseed(challenge, "colonnade degree check: columns"), 0, combined.shape)
        sums = (combined.astype(object) * weights.astype(object)).sum(axis=0) % self._arithmetic.modulus
        return self._arithmetic.add(sums.astype(np.uint64), mask)

    def _widened(self, share: Elements) -> Elements:
        if share.shape != (int(np.count_nonzero(~self._combined)),):
            return share  # refused where it is added
        wide = np.zeros(len(self._combined), dtype=np.uint64)
        wide[~self._combined] = share
        return wide
