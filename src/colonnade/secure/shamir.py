"""Shamir sharing over an exact arithmetic: deal, regenerate from seeds, multiply shares, check degrees, open.

*Dealing.* A secret x is dealt as f(1), …, f(N), f a random polynomial of a given degree with f(0) = x. The shares of as many
points as the *degree* are drawn uniformly and the others follow, so each of the former is 32 bytes: a seed that its node
expands. These are the first points (`seeded_points`). A dealer that is itself a node leaves its own point out of them: its own
share does not travel, so that one share more is a seed. Columns of a table are dealt with degree t; noise with degree 2t, the
degree of a product of two shares.

*Chunks.* Shares of a table are arrays of columns by rows (a table is read, and multiplied, by columns), in chunks of rows.
The stream behind chunk k is at position k of the seed, so a restart regenerates the same bytes in any order of chunks.

*Products* are exact: a node multiplies its shares of one owner's columns by those of another's. Blocks within one owner are
not multiplied unless asked for, because that owner knows them already. The sum runs over chunks of rows in a fixed amount of
memory.

Proofs: docs/proofs/secure-arithmetic.md.

*Device.* A node multiplies its shares on the processor, or on an NVIDIA GPU where there is one (`compute_on`). The elements are
the same, bit for bit, so the choice is each node's own: no plan names it, and members may differ. Torch is imported when a
product is large enough to gain from a GPU, and never where ``"cpu"`` was chosen.
"""

import math
import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib.util import find_spec
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, NotEnoughComputeNodes, ProtocolError
from colonnade.runtime.workers import Workers, asking_workers
from colonnade.secure import residues
from colonnade.secure.keys import SeedStream, require_seed, subseed
from colonnade.secure.residues import Arithmetic, Elements

if TYPE_CHECKING:
    from colonnade.secure.gpu import GramOnDevice


Indices = NDArray[np.int64]


class Rectangle(NamedTuple):
    """Products of some columns, ``top`` to ``bottom``, with some others, ``left`` to ``right``, counted over all owners."""

    top: int
    bottom: int
    left: int
    right: int

    @property
    def entries(self) -> int:
        """How many products it has."""
        return (self.bottom - self.top) * (self.right - self.left)


def rectangles(widths: Sequence[int], *, within: bool = False) -> list[Rectangle]:
    """Return where the products of owners' columns stand: for each owner, its columns by those of the owners after it.

    Read rectangle by rectangle and row by row they are the entries of a product, in their order (`entry_pairs`). With ``within``
    an owner's own columns come along, of which row i then counts from column i on.

    Examples
    --------
    >>> rectangles([1, 2])
    [Rectangle(top=0, bottom=1, left=1, right=3)]
    """
    if not widths or any(type(width) is not int or width < 1 for width in widths):
        raise BadInput("Every owner has a positive number of columns.")
    ends = list(accumulate(widths))
    found = [
        Rectangle(end - width, end, end - width if within else end, ends[-1])
        for end, width in zip(ends, widths, strict=True)
    ]
    return [one for one in found if one.entries]


def cut(widths: Sequence[int], most: int) -> list[Rectangle]:
    """Return the same rectangles, cut between rows so that none has more entries than ``most``, but for one of a single row.

    Examples
    --------
    >>> [tile.entries for tile in cut([3, 2], most=4)]
    [4, 2]
    """
    tiles = []
    for one in rectangles(widths):
        rows = max(1, most // (one.right - one.left))
        starts = range(one.top, one.bottom, rows)
        tiles += [Rectangle(top, min(top + rows, one.bottom), one.left, one.right) for top in starts]
    return tiles


def entry_pairs(widths: Sequence[int], *, within: bool = False) -> tuple[Indices, Indices]:
    """Return the entries of a product, in their fixed order: row indices and column indices, row by row.

    Parameters
    ----------
    widths
        How many columns each owner has.
    within
        Whether pairs within one owner are included (then this is the upper triangle).

    Examples
    --------
    >>> [pair.tolist() for pair in entry_pairs([1, 2])]
    [[0, 0], [1, 2]]
    """
    pairs = [pairs_of(one, within=within) for one in rectangles(widths, within=within)]
    none = np.empty(0, dtype=np.int64)
    return np.concatenate([none, *(first for first, _ in pairs)]), np.concatenate(
        [none, *(second for _, second in pairs)]
    )


def pairs_of(one: Rectangle, *, within: bool) -> tuple[Indices, Indices]:
    """Return the columns of every product of a rectangle; within one owner those of the upper triangle alone."""
    rows, columns = np.arange(one.top, one.bottom), np.arange(one.left, one.right)
    first, second = np.repeat(rows, len(columns)), np.tile(columns, len(rows))
    kept = second >= first if within else slice(None)
    return first[kept], second[kept]


MOST_UNDER_WAY = 1 << 29
"""Bytes of chunks that wait for workers, of all studies of this process; with more of them a study waits for its own."""


class TilesOfWorkers:
    """Sums of products: each chunk is multiplied by a worker, and what comes back is added modulo M.

    Parameters
    ----------
    arithmetic
        What the elements are modulo.
    shapes
        The blocks that a chunk's products have.
    workers
        Who multiplies.
    multiply
        Returns the blocks of one chunk; ``None`` if an element is out of range.
    """

    _all: ClassVar["weakref.WeakSet[TilesOfWorkers]"] = weakref.WeakSet()
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(
        self,
        arithmetic: Arithmetic,
        shapes: Sequence[tuple[int, int]],
        workers: Workers,
        multiply: Callable[[Sequence[Elements]], list[Elements] | None],
    ) -> None:
        self._arithmetic = arithmetic
        self._workers = workers
        self._multiply = multiply
        self._under_way: deque[tuple[int, Callable[[], list[Elements] | None]]] = deque()
        self._bytes = 0
        self._totals = [np.zeros(shape, dtype=np.uint64) for shape in shapes]
        self._in_range = True
        with self._lock:
            self._all.add(self)

    def add(self, chunk: Sequence[Elements]) -> bool:
        """Have the products of one chunk of rows added; return whether all that has come back by now was in range."""
        with asking_workers():
            waiting = self._workers.begin(self._multiply, list(chunk))
        size = sum(part.nbytes for part in chunk)
        self._under_way.append((size, waiting))
        self._bytes += size
        while self._under_way and self._bytes_under_way() > MOST_UNDER_WAY:
            self._take_one()
        return self._in_range

    @classmethod
    def _bytes_under_way(cls) -> int:
        with cls._lock:
            studies = list(cls._all)
        return sum(study._bytes for study in studies)  # noqa: SLF001  # its own class

    def in_range(self) -> bool:
        """Wait for all chunks; return whether all elements were below the modulus. Sums are worthless otherwise."""
        while self._under_way:
            self._take_one()
        return self._in_range

    def blocks(self) -> list[Elements]:
        """Return the sums so far, one array per rectangle."""
        self.in_range()
        return self._totals

    def _take_one(self) -> None:
        size, waiting = self._under_way.popleft()
        self._bytes -= size
        with asking_workers():
            found = waiting()
        if found is None:
            self._in_range = False
        else:
            self._totals = [self._arithmetic.add(*both) for both in zip(self._totals, found, strict=True)]


FEWEST_NODES = 3
CHECK_BITS = 40


def default_threshold(nodes: int) -> int:
    """Return t = ⌊(N-1)/2⌋: the most colluding nodes that learn nothing, with products still opened by all N.

    Examples
    --------
    >>> [default_threshold(nodes) for nodes in (3, 4, 5)]
    [1, 1, 2]
    """
    if type(nodes) is not int or nodes < FEWEST_NODES:
        raise NotEnoughComputeNodes("Products of shares need at least three compute nodes.")
    return (nodes - 1) // 2


def require_threshold(nodes: int, threshold: int) -> None:
    """Refuse a threshold of zero (no secrecy at all) and one whose products N nodes cannot open."""
    if type(threshold) is not int or not 1 <= threshold <= default_threshold(nodes):
        raise NotEnoughComputeNodes("The threshold is at least one and below half of the compute nodes.")


def seeded_points(degree: int, own: int | None = None) -> tuple[int, ...]:
    """Return the points whose shares of a dealing travel as seeds: the first ones, but for the dealer's own.

    Examples
    --------
    >>> seeded_points(2), seeded_points(2, own=1), seeded_points(2, own=5)
    ((1, 2), (2, 3), (1, 2))
    """
    return tuple(point for point in range(1, degree + 2) if point != own)[:degree]


class Dealing:
    """One party's dealing of a table, a vector of noise or a mask: everything follows from a seed.

    Parameters
    ----------
    arithmetic
        What the shares are modulo.
    nodes, degree
        Number of compute nodes N (their points are 1 … N) and degree of the polynomials, 1 ≤ degree < N.
    seed
        32 secret bytes, fresh for every dealing; kept so that a restart deals the same bytes.
    bound
        Largest magnitude of a secret; larger ones are refused. By default whatever decodes.
    own
        The dealer's own point, if it is to be passed over when seeds are given out.

    Privacy
    -------
    Guarantee
        Any ``degree`` shares of a value are independent and uniform (AES-256-CTR aside), whatever the value is
        [Shamir 1979]: for given f(0) and any ``degree`` other values there is exactly one polynomial, since differences
        of points are invertible modulo every prime.
    Neighbours
        Any two tables of the same shape: this is secrecy, not differential privacy.
    Adversary
        Up to ``degree`` nodes that pool their shares, and the coordinator, who sees none of them.
    Numerics
        Exact: uniform by rejection, additions modulo M only.
    Checked by
        tests/secure/test_shamir.py

    Examples
    --------
    >>> arithmetic = Arithmetic.for_headroom(1000, nodes=3)
    >>> shares = Dealing(arithmetic, nodes=3, degree=1, seed=bytes(32)).shares(0, np.array([[5, -7]]))
    >>> reconstruct(arithmetic, {2: shares[1], 3: shares[2]}, degree=1).tolist()
    [[5], [-7]]
    """

    __slots__ = ("_seed", "arithmetic", "bound", "degree", "nodes", "own")

    def __init__(
        self,
        arithmetic: Arithmetic,
        *,
        nodes: int,
        degree: int,
        seed: bytes,
        bound: int | None = None,
        own: int | None = None,
    ) -> None:
        arithmetic.require_nodes(nodes)
        if type(degree) is not int or not 1 <= degree < nodes:
            raise NotEnoughComputeNodes("The degree of a dealing is at least one and below the number of nodes.")
        self.arithmetic = arithmetic
        self.nodes, self.degree, self.bound, self.own = nodes, degree, bound, own
        self._seed = require_seed(seed)

    @property
    def seeds(self) -> dict[int, bytes]:
        """The shares that travel as a seed: point → 32 bytes for that node alone. Other nodes get their elements."""
        points = seeded_points(self.degree, self.own)
        return {point: subseed(self._seed, "colonnade share", point) for point in points}

    def shares(self, position: int, secrets: NDArray[np.int64], out: Elements | None = None) -> tuple[Elements, ...]:
        """Deal one chunk.

        Parameters
        ----------
        position
            Which chunk: a position is used for one chunk only.
        secrets
            Rows by columns (columns contiguous is fastest), or a vector.
        out
            Memory to reuse: N by columns by rows (or N by entries), overwritten.

        Returns
        -------
        The shares of points 1 … N, each columns by rows (or a vector).
        """
        values = np.asarray(secrets).T
        shares = np.empty((self.nodes, *values.shape), dtype=np.uint64) if out is None else out
        if shares.shape != (self.nodes, *values.shape) or shares.dtype != np.uint64 or not shares.flags.c_contiguous:
            raise BadInput("The memory to reuse does not have the shape of the result.")
        if (self.nodes, self.degree) == (3, 1):
            self._deal_lines(position, values, shares)
        else:
            self._deal(position, self.arithmetic.encode(values, self.bound), shares)
        return tuple(shares)

    def _deal_lines(self, position: int, values: NDArray[np.int64], shares: Elements) -> None:
        """Deal to three nodes with degree 1, the usual case, in one pass over memory."""
        ((point, seed),) = self.seeds.items()
        self.arithmetic.fill_words(SeedStream(seed, position), shares[point - 1])
        self.arithmetic.deal_lines(values, self.bound, point - 1, shares.reshape(3, -1))

    def _deal(self, position: int, hidden: Elements, shares: Elements) -> None:
        for point, seed in self.seeds.items():
            self.arithmetic.fill_uniform(SeedStream(seed, position), shares[point - 1])
        if self.own is not None and self.own <= self.degree:
            self._complete(hidden, shares, self.own)
        residues.deal(hidden.reshape(-1), self.degree, self.arithmetic.modulus, shares.reshape(self.nodes, -1))

    def _complete(self, hidden: Elements, shares: Elements, own: int) -> None:
        """Write the dealer's own share, at one of the first points, from the secret and the shares that are drawn."""
        drawn = seeded_points(self.degree, own)
        known = np.stack([hidden, *(shares[point - 1] for point in drawn)])
        shares[own - 1] = self.arithmetic.weighted(known, lagrange_weights(self.arithmetic, (0, *drawn), own))

    def __repr__(self) -> str:
        return f"Dealing(nodes={self.nodes}, degree={self.degree}, <seed hidden>)"


def expand(arithmetic: Arithmetic, seed: bytes, position: int, shape: tuple[int, ...]) -> Elements:
    """Return the share of one chunk that a node received as a seed; ``shape`` is columns by rows, or entries."""
    return arithmetic.uniform(SeedStream(seed, position), math.prod(shape)).reshape(shape)


def reconstruct(
    arithmetic: Arithmetic, shares: Mapping[int, Elements], *, degree: int, bound: int | None = None
) -> NDArray[np.int64]:
    """Open shared values.

    Parameters
    ----------
    shares
        Point → share, from at least ``degree + 1`` nodes; further ones must lie on the same polynomial.
    degree
        Degree of the polynomials: t for dealt values, 2t for products and noise.
    bound
        What the plan proved about the opened integers.

    Raises
    ------
    ProtocolError
        If shares are missing, malformed, out of range or inconsistent, or an integer exceeds the bound.
    """
    verify_degree(arithmetic, shares, degree)
    points = sorted(shares)[: degree + 1]
    return arithmetic.decode(_evaluate(arithmetic, shares, points, 0), bound)


def verify_degree(arithmetic: Arithmetic, shares: Mapping[int, Elements], degree: int) -> None:
    """Refuse shares that are not the values of polynomials of at most this degree.

    With ``degree + 1`` shares there is nothing to contradict; each further share is compared with what these imply.
    """
    _require_shares(arithmetic, shares, degree)
    points = sorted(shares)
    for extra in points[degree + 1 :]:
        if not np.array_equal(_evaluate(arithmetic, shares, points[: degree + 1], extra), shares[extra]):
            raise ProtocolError("Shares do not lie on a polynomial of the declared degree.")


def _require_shares(arithmetic: Arithmetic, shares: Mapping[int, Elements], degree: int) -> None:
    if type(degree) is not int or degree < 0:
        raise BadInput("A degree is a non-negative whole number.")
    if len(shares) <= degree:
        raise ProtocolError("Opening needs one share more than the degree.")
    if any(type(point) is not int or not 1 <= point < min(arithmetic.moduli) for point in shares):
        raise ProtocolError("A share belongs to the point of a compute node.")
    if len({np.shape(share) for share in shares.values()}) != 1:
        raise ProtocolError("Shares of one value have one shape.")
    for share in shares.values():
        arithmetic.require(share)


def _evaluate(arithmetic: Arithmetic, shares: Mapping[int, Elements], points: Sequence[int], at: int) -> Elements:
    """Return the value at another point of the polynomials through some shares [Lagrange]."""
    return arithmetic.weighted(np.stack([shares[point] for point in points]), lagrange_weights(arithmetic, points, at))


def lagrange_weights(arithmetic: Arithmetic, points: Sequence[int], at: int) -> NDArray[np.int64]:
    """Return the weights by which values at some points give the value at another: moduli by points."""
    return np.array([[_weight(points, i, at, p) for i in points] for p in arithmetic.moduli], dtype=np.int64)


def _weight(points: Sequence[int], own: int, at: int, prime: int) -> int:
    others = [point for point in points if point != own]
    above, below = math.prod(at - point for point in others), math.prod(own - point for point in others)
    return above * pow(below, -1, prime) % prime


def check_repetitions(arithmetic: Arithmetic) -> int:
    """Return how many random combinations make a degree check err with probability at most 2⁻⁴⁰.

    One combination is a random bilinear form of the dealt values. If a dealing has a coefficient above its degree that
    is not zero modulo a prime p, the form of those coefficients is a non-zero polynomial of degree two in the challenge
    and vanishes with probability at most 2/p [Schwartz 1980, Zippel 1979]; repetitions are independent. (The mask, also
    dealt before the challenge, only shifts which value it would have to hit.)
    """
    return math.ceil(CHECK_BITS / math.log2(min(arithmetic.moduli) / 2))


SLICE_ELEMENTS = 1 << 17
CACHE_PADDING = 16  # a stride of 4,096 bytes would map all columns of a tile to one set of the first-level cache
SMALLEST_SLICE, LARGEST_SLICE = 2048, 16_384
PANEL = 16  # register tiles side by side whose plane is reused from the cache while a strip of tiles runs over them


class Products:
    """A running sum of XᵀX over rows, modulo M, of the columns of several owners.

    Parameters
    ----------
    arithmetic
        What the shares are modulo.
    widths
        How many columns each owner has.
    within
        Whether blocks within one owner are multiplied too.
    workers
        Who multiplies, besides this process.

    Notes
    -----
    Two owners of widths a and b give the general product XᵀY. On the processor centred residues are multiplied in float64,
    sixteen products at a time in registers; at these shapes that is faster than a BLAS. On a GPU they are multiplied in int8
    (`colonnade.secure.gpu`). The elements are the same.

    Examples
    --------
    >>> product = Products(Arithmetic.for_headroom(100, 3), [1, 1])
    >>> product.add([np.array([[2, 3]], np.uint64), np.array([[5, 7]], np.uint64)])
    >>> product.elements()
    array([31], dtype=uint64)
    """

    def __init__(
        self, arithmetic: Arithmetic, widths: Sequence[int], *, within: bool = False, workers: Workers | None = None
    ) -> None:
        self.arithmetic = arithmetic
        self.widths = tuple(widths)
        self._within = within
        self._rectangles = rectangles(self.widths, within=within)
        self._device = gram_on_device(arithmetic.moduli, sum(self.widths))
        self._sums = self._device or sums_of(arithmetic, sum(self.widths), self._rectangles, workers)

    def add(self, chunk: Sequence[Elements]) -> None:
        """Add the products of one chunk of rows: an array for each owner, its columns along the first axis."""
        self._check(chunk)
        if not self._sums.add(chunk):
            raise ProtocolError("A share is out of the range of its arithmetic.")

    def _check(self, chunk: Sequence[Elements]) -> None:
        if len(chunk) != len(self.widths):
            raise ProtocolError("A chunk has one array of shares per owner.")
        rows = {part.shape[1] for part in chunk if isinstance(part, np.ndarray) and part.ndim == 2}
        if len(rows) != 1 or any(part.shape[0] != width for part, width in zip(chunk, self.widths, strict=True)):
            raise ProtocolError("The shares of a chunk have the plan's columns and equally many rows.")
        if any(part.dtype != np.uint64 for part in chunk):
            raise ProtocolError("Elements are 64-bit words.")

    def elements(self) -> Elements:
        """Return the sums so far, in the order of `entry_pairs`."""
        found = [np.empty(0, dtype=np.uint64)]
        for one, block in zip(self._rectangles, self.blocks(), strict=True):
            rows, columns = np.arange(one.top, one.bottom), np.arange(one.left, one.right)
            found.append(block[columns >= rows[:, None]] if self._within else block.reshape(-1))
        return np.concatenate(found)

    def blocks(self) -> list[Elements]:
        """Return the sums so far, one array per rectangle."""
        if not self._sums.in_range():
            raise ProtocolError("A share is out of the range of its arithmetic.")
        if self._device is None:
            assert isinstance(self._sums, Tiles | TilesOfWorkers)  # the only other choices
            return self._sums.blocks()
        pairs = [pairs_of(one, within=False) for one in self._rectangles]
        shapes = [(one.bottom - one.top, one.right - one.left) for one in self._rectangles]
        sums = [self.arithmetic.from_residues(self._device.residues(*both)) for both in pairs]
        return [found.reshape(shape) for found, shape in zip(sums, shapes, strict=True)]


class Tiles:
    """The sums of `Products` on the processor: centred residues in float64, in tiles that stay in its registers and caches.

    Parameters
    ----------
    arithmetic
        What the elements are modulo.
    columns
        How many columns there are.
    wanted
        Which products.
    """

    def __init__(self, arithmetic: Arithmetic, columns: int, wanted: Sequence[Rectangle]) -> None:
        self._arithmetic = arithmetic
        self._wanted = tuple(wanted)
        side = residues.TILE
        grids = [_grid(one) for one in wanted]
        self._starts = [0, *accumulate(len(grid) for grid in grids)]
        self._tiles = np.concatenate([np.empty((0, 2), dtype=np.int64), *grids])
        self._plane = np.zeros((columns + side, 0))
        self._sums = np.zeros((len(self._tiles), side * side))
        self._totals = np.zeros((len(arithmetic.moduli), len(self._tiles), side * side))
        self._slice = _slice_rows(columns)
        self._joined = np.empty((columns, 0), dtype=np.uint64)
        self._in_range = True

    def add(self, chunk: Sequence[Elements]) -> bool:
        """Add the products of one chunk of rows, columns along the first axis of each array; return `in_range`."""
        rows = chunk[0].shape[1]
        if self._joined.shape[1] < min(rows, self._slice):
            self._joined = np.empty((len(self._joined), min(rows, self._slice)), dtype=np.uint64)
            self._plane = np.zeros((len(self._plane), min(rows, residues.BLOCK_ROWS) + CACHE_PADDING))
        for start in range(0, rows, self._slice):
            count = min(self._slice, rows - start)
            np.concatenate([part[:, start : start + count] for part in chunk], out=self._joined[:, :count])
            self._in_range &= self._accumulate(count)
        return self._in_range

    def _accumulate(self, rows: int) -> bool:
        modulus, constants = self._arithmetic.modulus, self._arithmetic.constants
        found = residues.accumulate_products(
            self._joined, rows, modulus, constants, self._tiles, self._plane, self._sums, self._totals
        )
        return bool(found)

    def in_range(self) -> bool:
        """Return whether all elements so far were below the modulus; sums are worthless otherwise."""
        return self._in_range

    def blocks(self) -> list[Elements]:
        """Return the sums so far, one array per rectangle."""
        found = []
        for one, start in zip(self._wanted, self._starts[:-1], strict=True):
            block = np.empty((one.bottom - one.top, one.right - one.left), dtype=np.uint64)
            residues.collect(self._totals, start, PANEL, *self._arithmetic.mixed_radix, block)
            found.append(block)
        return found


FEWEST_COLUMNS = 64
"""Below this a processor has multiplied a chunk before it has reached a worker."""


def _multiplied(
    arithmetic: Arithmetic, columns: int, wanted: Sequence[Rectangle], chunk: Sequence[Elements]
) -> list[Elements] | None:
    """Return the products of one chunk; ``None`` if an element is out of range."""
    sums = Tiles(arithmetic, columns, wanted)
    return sums.blocks() if sums.add(chunk) else None


def sums_of(
    arithmetic: Arithmetic, columns: int, wanted: Sequence[Rectangle], workers: Workers | None
) -> Tiles | TilesOfWorkers:
    """Return what adds products up on processors: a member's workers' where it has some and columns enough, else this one."""
    if workers is None or columns < FEWEST_COLUMNS:
        return Tiles(arithmetic, columns, wanted)
    shapes = [(one.bottom - one.top, one.right - one.left) for one in wanted]
    return TilesOfWorkers(arithmetic, shapes, workers, partial(_multiplied, arithmetic, columns, tuple(wanted)))


def _grid(one: Rectangle) -> Indices:
    """Return the first columns (i, j) of the register tiles that cover a rectangle, panel by panel and in each row by row."""
    side = residues.TILE
    rows = np.arange(one.top, one.bottom, side, dtype=np.int64)
    panels = [
        np.arange(left, min(left + PANEL * side, one.right), side, dtype=np.int64)
        for left in range(one.left, one.right, PANEL * side)
    ]
    return np.concatenate(
        [np.stack([np.repeat(rows, len(panel)), np.tile(panel, len(rows))], axis=1) for panel in panels]
    )


def _slice_rows(columns: int) -> int:
    """Return how many rows, in whole blocks, are joined at a time: few enough to stay in the cache."""
    return (
        min(max(SLICE_ELEMENTS // columns, SMALLEST_SLICE), LARGEST_SLICE) // residues.BLOCK_ROWS * residues.BLOCK_ROWS
    )


class ShareProduct:
    """A node's share of a product of shared columns: of degree 2t, and not to be opened as it is.

    The polynomial behind a product of shares is a product of polynomials, which is not random and tells more about the
    factors than their product. `masked` is therefore the only way out: it adds shares of fresh random polynomials of
    degree 2t, which also carry the noise.
    """

    def __init__(
        self, arithmetic: Arithmetic, widths: Sequence[int], *, within: bool = False, workers: Workers | None = None
    ) -> None:
        self._products = Products(arithmetic, widths, within=within, workers=workers)

    def add(self, chunk: Sequence[Elements]) -> None:
        """Add one chunk of rows: this node's shares, an array per owner, columns along the first axis."""
        self._products.add(chunk)

    def masked(self, noise_shares: Sequence[Elements]) -> Elements:
        """Return the product plus this node's shares of every data party's noise; refuse to go without any."""
        return self._with_noise(self._products.elements(), noise_shares)

    def _with_noise(self, products: Elements, noise_shares: Sequence[Elements]) -> Elements:
        if not noise_shares:
            raise ProtocolError("A product of shares is never opened without a fresh mask of its own degree.")
        return self._products.arithmetic.add(products, *noise_shares)


Compute = Literal["auto", "cpu", "gpu"]

FEWEST_GPU_COLUMNS = 96
"""Below this a processor has multiplied a block before it has crossed to a GPU."""

_chosen: dict[str, str] = {"compute": "auto"}


def compute_on(compute: str) -> None:
    """Choose what this process multiplies shares on from now on.

    Parameters
    ----------
    compute
        ``"auto"``: a GPU where there is one and a product is large enough; ``"cpu"``; ``"gpu"``: refused where there is none.

    Examples
    --------
    >>> compute_on("auto")
    """
    if compute not in ("auto", "cpu", "gpu"):
        raise BadInput('compute is "auto", "cpu" or "gpu".', remedy='For example compute="auto".')
    if compute == "gpu" and _gpu() is None:
        raise BadInput(
            "There is no NVIDIA GPU here that torch can multiply with.",
            remedy="Install 'colonnade[gpu]' on a machine with one, or choose compute=\"auto\".",
        )
    _chosen["compute"] = compute


def gram_on_device(moduli: Sequence[int], columns: int) -> "GramOnDevice | None":
    """Return what multiplies on the GPU, if it was chosen and gains; else ``None``."""
    compute = _chosen["compute"]
    if compute == "cpu" or (compute == "auto" and columns < FEWEST_GPU_COLUMNS) or _gpu() is None:
        return None
    from colonnade.secure.gpu import GramOnDevice

    return GramOnDevice(moduli, columns)


@cache
def _gpu() -> str | None:
    """Return the name of the GPU; ``None`` without torch, without Triton, or without a GPU that both can use."""
    if find_spec("torch") is None or find_spec("triton") is None:
        return None
    try:
        from colonnade.secure.gpu import device_name

        return device_name()
    except (ImportError, OSError, RuntimeError):  # a library that is there and does not work is no reason to stop
        return None
