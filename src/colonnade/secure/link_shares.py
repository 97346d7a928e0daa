"""What a node does with its shares of a link: multiply complex numbers, add up a series, weigh columns, and reduce degrees.

A product of two shares of degree t is a share of degree 2t. The nodes bring it back to degree t together: each deals its share of
the product by a fresh polynomial of degree t, and the N = 2t + 1 values that a node receives, combined with the weights of
Lagrange's interpolation at 0, are its new share [Gennaro–Rabin–Rabin 1998]. The new polynomial is a sum of all nodes' fresh
ones. So t nodes together learn nothing, if all of them compute as written.

Everything is exact modulo M. Nothing here needs room for the integers it passes through; only what is opened does.

Complex numbers stand along the first axis: K real parts, then K imaginary parts.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import ProtocolError
from colonnade.secure.residues import Arithmetic, Elements
from colonnade.secure.shamir import Dealing, Products, lagrange_weights
from colonnade.secure.sine_link import TableKind

__all__ = ["WeightedProduct", "complex_product", "redealt", "reduced_degree", "series_of_product", "weighted_columns"]

_Residues = NDArray[np.int64]


def complex_product(arithmetic: Arithmetic, first: Elements, second: Elements) -> Elements:
    """Return the product of complex numbers, term by term: 2K by people.

    Examples
    --------
    >>> arithmetic = Arithmetic.for_headroom(1_000, nodes=3)
    >>> one, other = (arithmetic.encode(np.array(pair)[:, None]) for pair in ((1, 2), (3, -4)))
    >>> arithmetic.decode(complex_product(arithmetic, one, other)).ravel()
    array([11,  2])
    """
    (a, b), (c, d) = (_parts(arithmetic, number) for number in (first, second))
    return arithmetic.from_residues(np.concatenate([a * c - b * d, a * d + b * c], axis=1))


def series_of_product(arithmetic: Arithmetic, first: Elements, second: Elements, kind: TableKind) -> Elements:
    """Return Σ_k of the imaginary parts of a product (``"residual"``), or of its real parts (``"weight"``): one per person."""
    (a, b), (c, d) = (_parts(arithmetic, number) for number in (first, second))
    total = a * d + b * c if kind == "residual" else a * c - b * d  # below 2⁴⁷; a sum over the terms below 2⁵³
    return arithmetic.from_residues(total.sum(axis=1))


def weighted_columns(arithmetic: Arithmetic, weights: Elements, columns: Elements) -> Elements:
    """Return every column times the weight of its person."""
    return arithmetic.from_residues(_residues(arithmetic, columns) * _residues(arithmetic, weights)[:, None])


def redealt(dealing: Dealing, values: Elements) -> tuple[Elements, ...]:
    """Deal a node's own elements anew, by fresh polynomials; return the shares of all nodes."""
    return dealing.shares(0, dealing.arithmetic.decode(values).T)


def reduced_degree(arithmetic: Arithmetic, shares: Mapping[int, Elements], threshold: int) -> Elements:
    """Return this node's share of degree t from what all 2t + 1 nodes have dealt it, by their points."""
    points = sorted(shares)
    if points != list(range(1, 2 * threshold + 2)):
        raise ProtocolError("A degree is reduced with the shares of all 2t + 1 nodes.")
    return arithmetic.weighted(np.stack([shares[point] for point in points]), lagrange_weights(arithmetic, points, 0))


class WeightedProduct:
    """A node's share of Σ w·x·xᵀ or of Σ r·x over people: of degree 2t, and not to be opened as it is.

    As with `colonnade.secure.shamir.ShareProduct`, `masked` is the only way out: it adds shares of fresh random polynomials of
    degree 2t, which also carry the noise.

    Parameters
    ----------
    arithmetic
        What the shares are modulo.
    columns
        d.
    curvature
        Whether each pair of columns is opened, once, or each column.
    """

    def __init__(self, arithmetic: Arithmetic, columns: int, *, curvature: bool) -> None:
        self._arithmetic = arithmetic
        self._products = Products(arithmetic, [columns if curvature else 1, columns])
        rows, places = np.triu_indices(columns)
        self._opened = rows * columns + places if curvature else np.arange(columns)

    def add(self, weighted: Elements, columns: Elements) -> None:
        """Add some people: their weighted columns, or their residuals as one column; and their columns."""
        self._products.add([weighted, columns])

    def masked(self, noise_shares: list[Elements]) -> Elements:
        """Return the sums plus this node's shares of every data party's noise; refuse to go without any."""
        if not noise_shares:
            raise ProtocolError("A product of shares is never opened without a fresh mask of its own degree.")
        return self._arithmetic.add(self._products.elements()[self._opened], *noise_shares)


def _parts(arithmetic: Arithmetic, numbers: Elements) -> tuple[_Residues, _Residues]:
    residues = _residues(arithmetic, numbers)
    half = residues.shape[1] // 2
    return residues[:, :half], residues[:, half:]


def _residues(arithmetic: Arithmetic, elements: Elements) -> _Residues:
    return np.stack([(elements % np.uint64(p)).astype(np.int64) for p in arithmetic.moduli])
