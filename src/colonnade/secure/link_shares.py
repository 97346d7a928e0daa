"""What a node does with its shares of a link: multiply complex numbers, add up a series, weigh columns, and reduce degrees.

A series is a sum of products of shares and of numbers that t + 1 nodes know in the clear. Each of these nodes computes its part
of the sum, by Lagrange's interpolation at 0, and deals it by a fresh polynomial of degree t. A node's new share is the sum of
what it receives.

A product of two shares of degree t is a share of degree 2t. The nodes bring it back to degree t together: each deals its share of
the product by a fresh polynomial of degree t, and the N = 2t + 1 values that a node receives, combined with the weights of
Lagrange's interpolation at 0, are its new share [Gennaro–Rabin–Rabin 1998]. The new polynomial is a sum of all nodes' fresh
ones. So t nodes together learn nothing, if all of them compute as written.

Everything is exact modulo M. Nothing here needs room for the integers it passes through; only what is opened does.

Complex numbers stand along the first axis: K real parts, then K imaginary parts.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import ProtocolError
from colonnade.secure.residues import Arithmetic, Elements
from colonnade.secure.shamir import Dealing, Products, lagrange_weights
from colonnade.secure.sine_link import TableKind
from colonnade.workers import Workers

__all__ = [
    "WeightedProduct",
    "complex_product",
    "own_part",
    "redealt",
    "reduced_degree",
    "scaled",
    "series_at",
    "weighted_columns",
]

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


def series_at(arithmetic: Arithmetic, shares: Elements, told: NDArray[np.int64], kind: TableKind) -> Elements:
    """Return Σ_k of the imaginary parts of a product (``"residual"``), or of its real parts (``"weight"``): one per person.

    The second factor is known in the clear to the nodes that multiply by it, so that the degree of the shares stays what it is.
    """
    half = len(told) // 2
    by_real, by_imaginary = (told[half:], told[:half]) if kind == "residual" else (told[:half], -told[half:])
    return arithmetic.weighted_by_person(shares, np.concatenate([by_real, by_imaginary]))


def own_part(arithmetic: Arithmetic, share: Elements, points: Sequence[int], own: int) -> Elements:
    """Return what the share at one of t + 1 points adds to the values that shares of degree t at these points stand for.

    Examples
    --------
    >>> arithmetic = Arithmetic.for_headroom(1_000, nodes=3)
    >>> line = {point: arithmetic.encode(np.array([7 + 10 * point])) for point in (2, 3)}
    >>> parts = [own_part(arithmetic, share, (2, 3), point) for point, share in line.items()]
    >>> arithmetic.decode(arithmetic.add(*parts))
    array([7])
    """
    weights = lagrange_weights(arithmetic, points, 0)[:, [list(points).index(own)]]
    return arithmetic.weighted(share[None], weights)


def weighted_columns(arithmetic: Arithmetic, weights: Elements, columns: Elements) -> Elements:
    """Return every column times the weight of its person."""
    return arithmetic.scaled_columns(columns, weights)


def scaled(arithmetic: Arithmetic, values: Elements, factor: int) -> Elements:
    """Return elements times a public whole number."""
    return arithmetic.from_residues(_residues(arithmetic, values) * factor)


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
    weighted
        Which columns the rows that are added with each person stand for: for a curvature the constant one and those that were
        dealt again, for a gradient ``None``, since there is one row, the residual.
    columns
        d.
    levels
        Of a curvature, the places of a category's levels that are not among ``weighted``. Two of them are never both on, and
        the square of one is its product with the constant column, which comes first among ``weighted``.
    workers
        Who multiplies, besides this process.

    Examples
    --------
    >>> arithmetic = Arithmetic.for_headroom(1_000, nodes=3)
    >>> product = WeightedProduct(arithmetic, [0, 1], 4, levels=range(2, 4))
    >>> columns = arithmetic.encode(np.array([[1, 1], [5, 7], [1, 0], [0, 1]]))
    >>> product.add(arithmetic.encode(np.array([[2, 3], [10, 21]])), columns)
    >>> arithmetic.decode(product.masked([arithmetic.encode(np.zeros(10, np.int64))])).tolist()
    [5, 31, 2, 3, 197, 10, 21, 2, 0, 3]
    """

    def __init__(
        self,
        arithmetic: Arithmetic,
        weighted: Sequence[int] | None,
        columns: int,
        *,
        levels: range = range(0),
        workers: Workers | None = None,
    ) -> None:
        self._arithmetic = arithmetic
        self._products = Products(arithmetic, [1 if weighted is None else len(weighted), columns], workers=workers)
        self._places = np.arange(columns) if weighted is None else _places(weighted, columns, levels)

    def add(self, weighted: Elements, columns: Elements) -> None:
        """Add some people: their weighted columns, or their residuals as one column; and their columns."""
        self._products.add([weighted, columns])

    def masked(self, noise_shares: list[Elements]) -> Elements:
        """Return the sums plus this node's shares of every data party's noise; refuse to go without any."""
        if not noise_shares:
            raise ProtocolError("A product of shares is never opened without a fresh mask of its own degree.")
        sums = np.append(self._products.elements(), np.uint64(0))
        return self._arithmetic.add(sums[self._places], *noise_shares)


def _places(weighted: Sequence[int], columns: int, levels: range) -> NDArray[np.intp]:
    """Return where each pair of columns, once, stands among products of weighted columns and columns; −1 where it is 0."""
    row = np.full(columns, -1)
    row[list(weighted)] = np.arange(len(weighted))
    first, second = np.triu_indices(columns)
    place = np.where(row[first] >= 0, row[first] * columns + second, row[second] * columns + first)
    known = (row[first] < 0) & (row[second] < 0)
    if not set(first[known]) | set(second[known]) <= set(levels):
        raise ProtocolError("Of each pair of columns one is multiplied by the weights.")
    return np.where(known, np.where(first == second, second, -1), place).astype(np.intp)


def _parts(arithmetic: Arithmetic, numbers: Elements) -> tuple[_Residues, _Residues]:
    residues = _residues(arithmetic, numbers)
    half = residues.shape[1] // 2
    return residues[:, :half], residues[:, half:]


def _residues(arithmetic: Arithmetic, elements: Elements) -> _Residues:
    return np.stack([(elements % np.uint64(p)).astype(np.int64) for p in arithmetic.moduli])
