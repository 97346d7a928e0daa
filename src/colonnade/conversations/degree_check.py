"""Is a dealing of the degree it should be? One random combination of everything dealt, opened under a mask.

Every node combines its shares of all dealt values with weights u_row · v_column, adds its share of a random mask that
was dealt with the same degree, and shows the sums to the other nodes. If they lie on polynomials of the declared
degree, so does every dealt value, except with probability 2⁻⁴⁰ (`colonnade.secure.shamir.check_repetitions`); the
mask hides what the combination would tell.

Row weights come from the challenge of the row's own chunk, so that a chunk can be dropped once it is combined; column weights
from the last challenge. Neither was known when the values they weigh were dealt.

Combining costs little beside multiplying, where it is done in the same pass over the shares: the row weights are a few more
columns of the product.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import ProtocolError
from colonnade.secure.products import ShareProduct, entry_pairs
from colonnade.secure.residues import Arithmetic, Elements
from colonnade.secure.shamir import check_repetitions, expand
from colonnade.secure.stream import subseed

__all__ = ["CheckedProduct"]


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
        """Add one chunk: this node's shares, an array a data party, columns by rows, under the chunk's challenge."""
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
        """Return what this node shows the others: for each dealing one element a repetition."""
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
