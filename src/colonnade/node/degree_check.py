"""Is a dealing of the degree it should be? One random combination of everything dealt, opened under a mask.

Every node combines its shares of all dealt values with weights u_row · v_column, adds its share of a random mask that
was dealt with the same degree, and shows the sums to the other nodes. If they lie on polynomials of the declared
degree, so does every dealt value, except with probability 2⁻⁴⁰ (`colonnade.secure.shamir.check_repetitions`); the
mask hides what the combination would tell.

Row weights come from the challenge of the row's own chunk, so that a chunk can be dropped once it is combined; column weights
from the last challenge. Neither was known when the values they weigh were dealt.
"""

import numpy as np

from colonnade.secure.products import Products
from colonnade.secure.residues import Arithmetic, Elements
from colonnade.secure.shamir import check_repetitions, expand
from colonnade.secure.stream import subseed

__all__ = ["DegreeCheck"]


class DegreeCheck:
    """A node's part in checking one data party's dealing.

    Parameters
    ----------
    arithmetic
        What the shares are modulo.
    columns
        How many columns the dealing has.
    """

    def __init__(self, arithmetic: Arithmetic, columns: int) -> None:
        self._arithmetic = arithmetic
        self._columns = columns
        self._repetitions = check_repetitions(arithmetic)
        self._products = Products(arithmetic, [columns, self._repetitions])

    def add(self, share: Elements, challenge: bytes) -> None:
        """Combine one chunk: this node's share, columns by rows, under the chunk's challenge."""
        shape = (self._repetitions, share.shape[1])
        weights = expand(self._arithmetic, subseed(challenge, "colonnade degree check: rows"), 0, shape)
        self._products.add([share, weights])

    def share(self, mask: Elements, challenge: bytes) -> Elements:
        """Return what this node shows the others: one element a repetition."""
        shape = (self._columns, self._repetitions)
        weights = expand(self._arithmetic, subseed(challenge, "colonnade degree check: columns"), 0, shape)
        combined = self._products.elements().reshape(shape)
        sums = Products(self._arithmetic, [self._repetitions, self._repetitions])
        sums.add([np.ascontiguousarray(combined.T), np.ascontiguousarray(weights.T)])
        diagonal = np.diagonal(sums.elements().reshape(self._repetitions, self._repetitions))
        return self._arithmetic.add(diagonal, mask)
