"""The steps that papers brought, at a data party: how each is computed from the table. Registered at the end.

Only a party's gate reaches them (`colonnade.party.steps.PRIVATE_STEPS`).

*What one party contributes to a coreset* (Coresets, Algorithms 1 to 3 and Section 6). Not private.

Rows are coded as everywhere: numbers are mapped from their bounds to [−1, 1] and categories to indicators. Nothing is
rounded, because nothing here is noised. Scores of a block are the same in every step of a study and in every later draw of
it, so the last ones are kept with the table, 8 bytes per person: in memory, or on disk where the rows are.

DISTDIM tells, for every sampled row, which of the party's local clusters it is in, and the centres. Vertical SAGA tells
each residual of the rows of a batch, summed over all parties under masks, batch after batch, and the coefficients at the
end.

The party whitens its own block of the weighted sample before SAGA starts, which costs no communication: with H = AᵀA + λI
of its own columns and φ = H^(1/2)θ the blocks on the diagonal of the Hessian are unit matrices, so its condition depends
only on how much the parties' columns have in common (the γ of the paper's Assumption 4.1), and on no unit of measurement.
We differ from the paper in this, in taking rows in batches, and in summing under masks.

Importance scores of one party's rows, in passes over row blocks: leverage for regressions, sensitivities for k-means.

What there is one of per row is written as it is worked out (`SpilledRows`), so memory is a few blocks of rows.

`leverage_scores` is Algorithm 2 of Coresets and `local_clusters` its Algorithm 3 (docs/references.md#coresets). The
docstrings say where we differ from the paper.

*A data party's part in a gradient descent*: pay for all steps at once, then share one after another.

*A step is at one vector of weights.* Its noise follows from the seed that the ledger keeps. The same noise at other weights
would show the difference: a step that was begun is only ever run again at the same ones (`RunRecords`).

The batches follow from the key that the parties agreed on, at every step's own place in its stream, also after a restart.
"""

import hashlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, PolicyRefusal, ProtocolError
from colonnade.papers import steps
from colonnade.papers.draws import PEOPLE, Batches, Signs
from colonnade.papers.laws import WholeValues
from colonnade.papers.steps import KEY, CoresetTerms, GradientStep, MembershipSketches
from colonnade.party.steps import PRIVATE_STEPS
from colonnade.party.steps.local import category_codes, prepare_category, require_centres
from colonnade.party.steps.participants import Arrays, PrivateStep, SumPart, require_no_price
from colonnade.party.steps.products import Integers, labelled_rows
from colonnade.party.table.private_table import PrivateTable, among_rows, coded_rows, require_within, whole_numbers
from colonnade.privacy.randomness import KeyedRandomness
from colonnade.protocol.messages import Array as Packed
from colonnade.protocol.messages import unpack
from colonnade.runtime.spilled_rows import SpilledRows
from colonnade.schema import coded_block
from colonnade.secure.keys import digest
from colonnade.steps.kind import LARGEST_NUMBER, Earlier

if TYPE_CHECKING:
    from colonnade.party.gate import AdmittedStep, Reservation


Array = NDArray[np.float64]
Blocks = Callable[[], Iterable[Array]]
"""One pass over the rows: arrays of columns by rows, the same ones each time."""
Room = Callable[[int | None, Any], SpilledRows]
"""Where one row per person is written, by width and type: `PrivateTable.scratch`."""

RESOLVED = 1e-6
"""Eigenvalues above this share of the largest one need no further pass."""

UNIT = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Leverage:
    """Scores of all rows, which sum to the rank."""

    nonprivate_scores: SpilledRows
    rank: int


def leverage_scores(blocks: Blocks, people: int, room: Room, *, offset: float = 0.0) -> Leverage:
    """Return ‖u_i‖² for every row, u an orthonormal basis of the column space.

    We differ from the paper in three ways. The orthonormal basis is never formed: a score is ‖x_i·W‖², where W whitens the
    block's Gram matrix, so a pass costs one product and memory is a few blocks of rows. The rank is revealed rather than
    assumed (plain QR of a rank-deficient block gives scores that sum to its width, not to its rank). And the block has a
    constant column, because our regressions have an intercept: scores are then the same whatever the columns' units and
    origins are.

    Numerics. Columns are scaled to length one, which changes no score. An eigenvalue of the Gram matrix carries an error of
    about width·u·λ₁ (u: unit round-off), so a pass resolves the directions with λ > λ₁·10⁻⁶, to about 10⁻⁹ in the scores. One
    pass is enough for most blocks. Otherwise another pass, as in CholeskyQR2, multiplies the rows by what whitens the
    resolved directions, and by the others as they are: products of rows, unlike the Gram matrix, keep singular values down to
    u·σ₁. What stays below max(people, width)·u·σ₁ once the resolved directions are taken out is zero, as in
    `numpy.linalg.matrix_rank`.

    Parameters
    ----------
    blocks
        Yields the rows, columns along the first axis, at each call from the start.
    people
        How many rows there are.
    room
        Where the scores go.
    offset
        What is added to every score.

    Examples
    --------
    >>> rows = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 0.0]])  # two columns, the second twice the first
    >>> found = leverage_scores(lambda: [rows], 3, lambda *kind: SpilledRows(3, *kind))
    >>> found.rank, found.nonprivate_scores.mapped().round(6).tolist()
    (1, [0.5, 0.5, 0.0])
    """
    whitening = _whitening(blocks, people)
    nonprivate = room(None, np.float64)
    start = 0
    for block in blocks():
        start += block.shape[1]
        _require_length(start <= people)
        projected = whitening.T @ block
        scores = np.einsum("ij,ij->j", projected, projected)
        nonprivate.append(np.clip(scores, 0.0, 1.0) + offset)  # rounding may step over either end
    _require_length(start == people)
    return Leverage(nonprivate, whitening.shape[1])


def _require_length(as_said: bool) -> None:
    if not as_said:
        raise ValueError("Two passes over the rows differ in length.")


def _whitening(blocks: Blocks, people: int) -> Array:
    """Return W of full column rank with (XW)ᵀ(XW) = I and the column space of X."""
    gram = _gram(blocks, None)
    width = len(gram)
    lengths = np.sqrt(np.diag(gram))
    scale = np.divide(1.0, lengths, out=np.zeros(width), where=lengths > 0)
    gram *= np.outer(scale, scale)
    found, rest = np.zeros((width, 0)), np.diag(scale)
    smallest = max(people, width) * UNIT * float(np.sqrt(max(np.linalg.eigvalsh(gram)[-1], 0.0)))
    while rest.shape[1]:
        found, rest = _resolve(gram, found, rest, smallest)
        if rest.shape[1]:
            gram = _gram(blocks, np.concatenate([found, rest], axis=1))
    return found


def _resolve(gram: Array, found: Array, rest: Array, smallest: float) -> tuple[Array, Array]:
    """Whiten what was found once more, and take from the rest the directions whose length this Gram matrix resolves."""
    known = found.shape[1]
    across = np.linalg.solve(gram[:known, :known], gram[:known, known:])  # the first matrix is close to the unit matrix
    remainder = gram[known:, known:] - gram[known:, :known] @ across
    values, vectors = np.linalg.eigh((remainder + remainder.T) / 2)
    present = np.sqrt(np.maximum(values, 0.0)) > smallest
    resolved = present & (values > RESOLVED * values[-1])
    directions = (rest - found @ across) @ vectors
    whitened = found @ _inverse_root_of_gram(gram[:known, :known])
    further = directions[:, resolved] / np.sqrt(values[resolved])
    left = directions[:, ~resolved] if resolved.any() else directions[:, :0]  # nothing longer than round-off is left
    return np.concatenate([whitened, further], axis=1), left


def _inverse_root_of_gram(gram: Array) -> Array:
    values, vectors = np.linalg.eigh(gram)
    return np.asarray(vectors / np.sqrt(values))


def _gram(blocks: Blocks, basis: Array | None) -> Array:
    total: Array | None = None
    for block in blocks():
        rows = block if basis is None else basis.T @ block
        product = rows @ rows.T  # numpy takes the symmetric product where both sides are one array
        total = product if total is None else total + product
    assert total is not None  # a table has rows
    return total


SAMPLE = 32_768
"""Rows on which the starting centres are found; all of them in a table that is not larger."""

SWEEPS = 5
"""Passes over all rows after that, each moving the centres to their centroids."""


@dataclass(frozen=True)
class LocalClusters:
    """A party's rows in clusters, each with its centroid.

    Parameters
    ----------
    nonprivate_centres
        Clusters that have rows, by columns.
    nonprivate_labels
        Each row's cluster.
    nonprivate_distances
        Each row's squared distance to the centroid of its cluster.
    """

    nonprivate_centres: Array
    nonprivate_labels: SpilledRows
    nonprivate_distances: SpilledRows

    def scores(self, room: Room) -> SpilledRows:
        """Return g for every row, written to a room."""
        sizes = np.zeros(len(self.nonprivate_centres), dtype=np.int64)
        inertia = np.zeros(len(sizes))
        for labels, distances in self._passed():
            sizes += np.bincount(labels, minlength=len(sizes))
            np.add.at(inertia, labels, distances)  # row by row: sums do not depend on how rows are divided
        cost = float(inertia.sum())
        of_cluster = 2.0 / sizes
        if cost > 0:
            of_cluster += inertia / (sizes * cost)
        nonprivate = room(None, np.float64)
        for labels, distances in self._passed():
            nonprivate.append(distances / cost + of_cluster[labels] if cost > 0 else of_cluster[labels])
        return nonprivate

    def _passed(self) -> Iterator[tuple[NDArray[np.int32], Array]]:
        return zip(self.nonprivate_labels, self.nonprivate_distances, strict=True)


def local_clusters(blocks: Blocks, people: int, clusters: int, seed: int, room: Room) -> LocalClusters:
    """Cluster a party's own rows.

    With C the local centres and B_l the rows nearest to centre l, the score of a row i of cluster l is::

        g_i = d(x_i, c_l)²/cost + Σ_{i' ∈ B_l} d(x_i', c_l)²/(|B_l|·cost) + 2/|B_l|.

    The scores sum to 2(k + 1) or less. We differ from the paper in four ways. α multiplies every score and cancels in
    probabilities and weights, so it is 1. Centres are the centroids of their clusters, which the proof of Lemma F.3 needs and
    k-means++ alone does not give. Where cost is zero (no more distinct rows than centres) the first two terms are zero, and a
    cluster without rows does not exist. And the starting centres come from a public choice of rows, so that a table larger
    than memory can be scored.

    Parameters
    ----------
    blocks
        Yields the rows, columns along the first axis, at each call from the start.
    people
        How many rows there are.
    clusters
        k.
    seed
        Of public choices: which rows the start is made from, and where it starts.
    room
        Where labels and distances go.
    """
    centres = _start(blocks, people, clusters, seed)
    for _ in range(SWEEPS):
        sums, counts = np.zeros_like(centres), np.zeros(len(centres))
        for block in blocks():
            _add(sums, counts, block, _nearest(centres, block))
        centres = sums[counts > 0] / counts[counts > 0, None]
    return _settled(blocks, centres, room)


def _settled(blocks: Blocks, centres: Array, room: Room) -> LocalClusters:
    """Fix who is in which cluster, and measure from the centroids of exactly these clusters."""
    nearest = room(None, np.int32)
    sums, counts = np.zeros_like(centres), np.zeros(len(centres))
    for block in blocks():
        labels = _nearest(centres, block)
        _add(sums, counts, block, labels)
        nearest.append(labels)
    kept = np.flatnonzero(counts)
    centroids = sums[kept] / counts[kept, None]
    found = LocalClusters(centroids, room(None, np.int32), room(None, np.float64))
    start = 0
    for block in blocks():
        stop = start + block.shape[1]
        labels = np.searchsorted(kept, nearest.read(start, stop))
        gaps = block - centroids[labels].T
        found.nonprivate_labels.append(labels)
        found.nonprivate_distances.append(np.einsum("ij,ij->j", gaps, gaps))
        start = stop
    return found


def _start(blocks: Blocks, people: int, clusters: int, seed: int) -> Array:
    """Return centres of some rows: every n-th, of all rows in their agreed order, which says nothing about them."""
    from sklearn.cluster import KMeans  # late: it takes longer to load than a party needs to start

    stride, start, parts = -(-people // SAMPLE), 0, []
    for block in blocks():
        parts.append(block[:, (seed - start) % stride :: stride])
        start += block.shape[1]
    rows = np.concatenate(parts, axis=1).T
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rows that coincide
        fitted = KMeans(min(clusters, len(rows)), n_init=1, max_iter=50, random_state=seed).fit(rows)
    return np.asarray(fitted.cluster_centers_, dtype=np.float64)


def _nearest(centres: Array, block: Array) -> NDArray[np.intp]:
    """Return the nearest centre of each column of a block; |x|² is the same for all and left out."""
    gaps = centres @ block
    gaps *= -2
    gaps += np.einsum("ij,ij->i", centres, centres)[:, None]
    return np.asarray(gaps.argmin(axis=0))


def _add(sums: Array, counts: Array, block: Array, labels: NDArray[np.integer]) -> None:
    member = np.zeros((len(sums), block.shape[1]))
    member[labels, np.arange(block.shape[1])] = 1.0
    sums += member @ block.T
    counts += member.sum(axis=1)


BLOCK = 8_192

_SCORES: "WeakKeyDictionary[PrivateTable, tuple[tuple[object, ...], SpilledRows]]" = WeakKeyDictionary()


def coded_columns(
    terms: CoresetTerms, table: PrivateTable, columns: Sequence[str], rows: slice | NDArray[Any]
) -> Array:
    """Return some people's coded columns, a column along each row of the result."""
    parts = []
    for name in columns:
        column = terms.schema[name]
        if isinstance(rows, slice):
            ask = table.values if column.is_number else table.codes
            cells: NDArray[Any] = ask(name, rows.start, rows.stop)
        else:
            cells = table.cells_of(name, rows)
        parts.append(coded_block(cells, column))
    if not parts:
        width = len(range(*rows.indices(terms.people))) if isinstance(rows, slice) else len(rows)
        return np.empty((0, width))
    return np.concatenate(parts)


def row_scores(terms: CoresetTerms, table: PrivateTable) -> SpilledRows:
    """Return every row's score: 1/people or more."""
    key = (terms.columns, terms.task, terms.clusters, terms.seed, terms.target)
    kept = _SCORES.get(table)
    if kept is None or kept[0] != key:
        kept = (key, _computed(terms, table))
        _SCORES[table] = kept
    return kept[1]


def _computed(terms: CoresetTerms, table: PrivateTable) -> SpilledRows:
    people, blocks = terms.people, partial(_blocks, terms, table)
    if terms.task == "kmeans":
        return local_clusters(blocks, people, terms.clusters, terms.seed, table.scratch).scores(table.scratch)
    if terms.task == "regression":
        return leverage_scores(blocks, people, table.scratch, offset=1.0 / people).nonprivate_scores
    even = table.scratch(None, np.float64)
    for start, stop in table.ranges():
        even.append(np.full(stop - start, 1.0 / people))
    return even


def _blocks(terms: CoresetTerms, table: PrivateTable) -> Iterator[Array]:
    """Return the block, some people at a time: for a regression the constant column in front, and the target where it is held."""
    table.load(terms.columns)
    return table.each(partial(_block, terms), table.ranges(BLOCK))


def _block(terms: CoresetTerms, table: PrivateTable, start: int, stop: int) -> Array:
    coded = coded_columns(terms, table, terms.columns, slice(start, stop))
    return np.concatenate([np.ones((1, stop - start)), coded]) if terms.task == "regression" else coded


def _accept_nothing(_: object, inputs: Arrays) -> None:
    """Refuse inputs for a step that the plan describes completely."""
    if inputs:
        raise BadInput("This step takes no inputs.")


class PrivateCoresetTotal(PrivateStep[steps.CoresetTotal]):
    """The sum of the rows' scores."""

    kinds = (steps.CoresetTotal,)

    accept = _accept_nothing

    def disclose(self, table: PrivateTable) -> Arrays:
        """Return G."""
        return {"value": np.array([sum(float(some.sum()) for some in row_scores(self.step.terms, table))])}


class PrivateCoresetSample(PrivateStep[steps.CoresetSample]):
    """A public choice of rows."""

    kinds = (steps.CoresetSample,)

    accept = _accept_nothing

    def disclose(self, table: PrivateTable) -> Arrays:
        """Return the rows."""
        return {"rows": self.step.sample}


class PrivateCoresetRows(PrivateStep[steps.CoresetRows]):
    """The values of the sampled rows."""

    kinds = (steps.CoresetRows,)

    _sample: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def accept(self, inputs: Arrays) -> None:
        """Take no inputs; find the sample."""
        _accept_nothing(self, inputs)
        self._sample = sampled_rows(self.step.earlier, self.step.terms.size, self.step.people)

    def disclose(self, table: PrivateTable) -> Arrays:
        """Return one row per sampled person, in the order of the alignment."""
        return {"value": np.ascontiguousarray(coded_columns(self.step.terms, table, self.step.columns, self._sample).T)}


class PrivateCoresetDraws(PrivateStep[steps.CoresetDraws]):
    """The rows that this party drew, at its own places of the sum."""

    kinds = (steps.CoresetDraws,)

    _counts: tuple[int, ...] = ()
    _key = b""
    _vector: NDArray[np.int64] | None = None

    def join(self, admitted: "AdmittedStep") -> SumPart:
        """Return this party's part."""
        return SumPart(admitted)

    def accept(self, inputs: Arrays) -> Arrays:
        """Fix how many draws each party makes, in canonical order; together they are the size of the coreset."""
        counts = inputs.get("counts")
        if counts is None or counts.shape != (len(self.step.owners),) or counts.dtype.kind != "i" or counts.min() < 0:
            raise BadInput("The draws of a coreset are divided between its parties.")
        if int(counts.sum()) != self.step.terms.size:
            raise BadInput("The draws of a coreset add up to its size.")
        self._counts = tuple(int(count) for count in counts)
        self._key = bytes(self.step.earlier("key")["key"])
        return {"counts": counts}

    @property
    def length(self) -> int:
        """One place per draw."""
        return self.step.terms.size

    def summand(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return some of the places: this party's rows, counted from one, and zero where others draw."""
        if self._vector is None:
            self._vector = self._placed(table)
        return np.asarray(self._vector[start:stop])

    def _placed(self, table: PrivateTable) -> NDArray[np.int64]:
        mine = self.step.owners.index(self.step.party)
        first = sum(self._counts[:mine])
        places = _shuffled(self._key, self.step.terms.size)[first : first + self._counts[mine]]
        vector = np.zeros(self.step.terms.size, dtype=np.int64)
        vector[places] = drawn_rows(row_scores(self.step.terms, table), len(places), self.step.question) + 1
        return vector


class PrivateCoresetScores(PrivateStep[steps.CoresetScores]):
    """The scores of the drawn rows, in whole units."""

    kinds = (steps.CoresetScores,)

    _sample: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def join(self, admitted: "AdmittedStep") -> SumPart:
        """Return this party's part."""
        return SumPart(admitted)

    def accept(self, inputs: Arrays) -> Arrays:
        """Fix which rows, as the coordinator says; refuse more than the plan's size."""
        sample = inputs.get("rows")
        if (
            sample is None
            or sample.ndim != 1
            or not 1 <= len(sample) <= self.step.terms.size
            or sample.dtype.kind != "i"
        ):
            raise BadInput("A coreset has at most as many rows as its plan says.")
        if sample.min() < 0 or sample.max() >= self.step.people:
            raise BadInput("A coreset names rows that the alignment does not have.")
        self._sample = sample.astype(np.int64)
        return {"rows": self._sample}

    @property
    def length(self) -> int:
        """How many values the sum has."""
        return len(self._sample)

    def summand(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return some of the scores in whole units."""
        nonprivate: Array = row_scores(self.step.terms, table).take(self._sample[start:stop])
        return whole_numbers(
            nonprivate, int(self.step.terms.largest_score * steps.SCORE_SCALE), scale=steps.SCORE_SCALE
        )


def drawn_rows(scores: SpilledRows, count: int, question: bytes) -> NDArray[np.int64]:
    """Return rows drawn by their scores; the same for the same scores and question."""
    starts, sums, hashed = (
        [0],
        [0.0],
        hashlib.sha256(),
    )  # of blocks of rows: where they start, and what lies before them
    for some in scores:
        starts.append(starts[-1] + len(some))
        sums.append(float(_running(some, sums[-1])[-1]))
        hashed.update(some.tobytes())
    seed = hashlib.sha256(question + hashed.digest()).digest()
    uniforms = (KeyedRandomness(seed).words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    drawn, heights = np.empty(count, dtype=np.int64), uniforms * sums[-1]
    blocks = np.minimum(np.searchsorted(sums[1:], heights, side="right"), len(sums) - 2)
    for block in np.unique(blocks).tolist():
        mine = blocks == block
        cumulative = _running(scores.read(starts[block], starts[block + 1]), sums[block])
        drawn[mine] = starts[block] + np.searchsorted(cumulative, heights[mine], side="right")
    return np.asarray(np.minimum(drawn, len(scores) - 1), dtype=np.int64)


def _running(scores: Array, before: float) -> Array:
    """Return running sums, number by number from what lies before: they do not depend on how rows are divided."""
    return np.asarray(np.cumsum(np.concatenate([[before], scores]))[1:])


def _shuffled(key: bytes, count: int) -> NDArray[np.intp]:
    """Return the places in an order that only those know who have the key."""
    return np.asarray(np.argsort(KeyedRandomness(key).spawn("coreset places").words(count), kind="stable"))


def sampled_rows(earlier: Earlier, size: int, people: int) -> NDArray[np.int64]:
    """Return the people of the study's sample, each once: from this party's own ledger, never from a request."""
    sample = earlier("sample").get("rows")
    if sample is None or not 1 <= len(sample) <= size or sample.min() < 0 or sample.max() >= people:
        raise ProtocolError("The sample of this study was not fixed.")
    return np.unique(sample)


MARGIN_SCALE = 2**32
RESTARTS = 5
LIGHTEST, HEAVIEST = 2.0**-40, 2.0**40
"""Bounds on a coordinator's weights, far beyond any that follow from scores: sums and squares of them stay finite."""
NULL = 1e-10


class PrivateCoresetClusters(PrivateStep[steps.CoresetClusters]):
    """Local clusters of the sampled rows."""

    kinds = (steps.CoresetClusters,)

    _sample: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    _weights: Array = np.empty(0)

    def accept(self, inputs: Arrays) -> None:
        """Find the sample, and take the coordinator's ``weights`` of its rows."""
        self._sample = sampled_rows(self.step.earlier, self.step.terms.size, self.step.people)
        self._weights = _weights(inputs, len(self._sample))

    def disclose(self, table: PrivateTable) -> Arrays:
        """Return centres by columns, and labels, of the rows under the coordinator's weights.

        There are as many centres as the plan says, so that the answer's size says nothing: where there are fewer different rows,
        the last centre stands there again, and no label names it a second time.
        """
        from sklearn.cluster import KMeans  # late: it takes longer to load than a party needs to start

        coded = coded_columns(self.step.terms, table, self.step.columns, self._sample).T
        count = min(self.step.terms.clusters, len(np.unique(coded, axis=0)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of rows that coincide under small weights
            fitted = KMeans(count, n_init=RESTARTS, random_state=self.step.terms.seed).fit(
                coded, sample_weight=self._weights
            )
        centres = np.asarray(fitted.cluster_centers_, dtype=np.float64)
        again = np.repeat(centres[-1:], self.step.terms.clusters - count, axis=0)
        return {"centres": np.concatenate([centres, again]), "labels": fitted.labels_.astype(np.int32)}


class PrivateCoresetGradient(PrivateStep[steps.CoresetGradient]):
    """One party's block of coefficients, and its rows of the weighted sample."""

    kinds = (steps.CoresetGradient,)

    def join(self, admitted: "AdmittedStep") -> "SagaPart":
        """Return this party's part."""
        return SagaPart(admitted)

    def accept(self, inputs: Arrays) -> int:
        """Find the sample, and take the coordinator's ``weights`` of its rows; return how many there are."""
        self._sample = sampled_rows(self.step.earlier, self.step.terms.size, self.step.people)
        self._weights = _weights(inputs, len(self._sample))
        return len(self._sample)

    def begin(self, table: PrivateTable) -> None:
        """Whiten this party's block of the weighted sample."""
        sample, roots = self._sample, np.sqrt(self._weights / self.step.people)
        block = coded_columns(self.step.terms, table, self.step.terms.features, sample)
        penalty = np.full(len(block), self.step.ridge)
        self._label = np.zeros(len(sample))
        if self.step.terms.target is not None:
            block = np.concatenate([np.ones((1, len(sample))), block])
            penalty = np.concatenate([[0.0], penalty])
            self._label = roots * coded_columns(self.step.terms, table, [str(self.step.terms.target)], sample)[0]
        weighted = block * roots
        self._back = _inverse_root(weighted @ weighted.T + np.diag(penalty))
        self._rows = weighted.T @ self._back
        self._penalty = self._back.T @ (penalty[:, None] * self._back)
        self._phi = np.zeros(self._rows.shape[1])
        self._table = np.zeros(len(sample))
        self._average = np.zeros(len(self._phi))

    def lengths(self) -> NDArray[np.int64]:
        """Return the squared lengths of the whitened rows, in whole units: the step length is made from their sums."""
        return _units(np.einsum("ij,ij->i", self._rows, self._rows))

    def margins(self, batch: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return this party's part of the residuals of a batch, in whole units."""
        return _units(self._rows[batch] @ self._phi - self._label[batch])

    def learn(self, batch: NDArray[np.int64], residuals: Array, step: float) -> None:
        """Take one step of SAGA: the batch's new residuals against the remembered ones, plus the remembered average."""
        change = self._rows[batch].T @ (residuals - self._table[batch])
        estimate = change * (len(self._table) / len(batch)) + self._average
        self._average += change
        self._table[batch] = residuals
        self._phi -= step * (estimate + self._penalty @ self._phi)
        np.clip(
            self._phi, -LARGEST_NUMBER, LARGEST_NUMBER, out=self._phi
        )  # a training that runs away stays made of numbers

    def coefficients(self) -> Array:
        """Return this party's coefficients of the coded columns; the intercept in front where the target is held."""
        return np.asarray(self._back @ self._phi)


class SagaPart:
    """A data party's part in vertical SAGA: one line in the ledger, before the first masked value leaves."""

    def __init__(self, admitted: "AdmittedStep") -> None:
        require_no_price(admitted)
        self._admitted = admitted
        self._private = cast("PrivateCoresetGradient", admitted.private)

    def begin(self, inputs: Mapping[str, Packed]) -> int:
        """Record the release, prepare the block, and return how many rows the sample has."""
        rows = self._private.accept({name: unpack(array) for name, array in inputs.items()})
        self._admitted.disclose(dict(inputs))
        self._admitted.prepare()
        self._admitted.compute(self._private.begin)
        return rows

    def lengths(self) -> NDArray[np.int64]:
        """Return the squared lengths of the whitened rows."""
        with among_rows():
            return self._private.lengths()

    def margins(self, batch: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return this party's part of the residuals of a batch."""
        with among_rows():
            return self._private.margins(batch)

    def learn(self, batch: NDArray[np.int64], residuals: Array, step: float) -> None:
        """Take one step of SAGA."""
        with among_rows():
            self._private.learn(batch, residuals, step)

    def coefficients(self) -> Array:
        """Return this party's coefficients."""
        with among_rows():
            return self._private.coefficients()


def _units(values: Array) -> NDArray[np.int64]:
    return whole_numbers(values, 2**62, scale=MARGIN_SCALE)


def _inverse_root(gram: Array) -> Array:
    """Return B with BᵀGB = I on the column space of G."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > NULL * max(float(values[-1]), 0.0) if len(values) else np.zeros(0, dtype=bool)
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))


def _weights(inputs: Mapping[str, NDArray[Any]], count: int) -> Array:
    weights = inputs.get("weights")
    if weights is None or weights.shape != (count,) or not np.all((weights >= LIGHTEST) & (weights <= HEAVIEST)):
        raise BadInput("A coreset has one positive weight per row, of ordinary size.")
    return weights.astype(np.float64)


class PrivateGradient(PrivateStep[GradientStep]):
    """One party's rows, labels and scores."""

    kinds = (GradientStep,)

    def join(self, admitted: "AdmittedStep") -> "DescentPart":
        """Return this party's part."""
        return DescentPart(admitted)

    def coded(self, table: PrivateTable) -> SpilledRows:
        """Return everyone's row, and behind it the label: −1, 1, or 0 for none."""
        return labelled_rows(
            self.step, self.step.terms.scale, table, lambda codes: np.where(codes < 0, 0, 2 * codes - 1), 1
        )

    def scores(self, rows: Integers, labels: NDArray[Any] | None, weights: Integers) -> Integers:
        """Return this party's part of γω(⟨w, x⟩ − 2s) for some people, clipped to what the plan bounds it by."""
        nonprivate: Integers = rows @ weights
        if labels is not None:
            nonprivate = nonprivate - 2 * self.step.terms.scale * self.step.terms.weight_scale * labels.astype(np.int64)
        return np.clip(nonprivate, -self.step.score_bound, self.step.score_bound)


class DescentPart:
    """Pay, check the batches, and share one step after another.

    Parameters
    ----------
    admitted
        The step.
    """

    def __init__(self, admitted: "AdmittedStep") -> None:
        self._admitted = admitted
        self._private = cast("PrivateGradient", admitted.private)
        self._step = self._private.step
        self._reservation: Reservation | None = None
        self._batches: Batches | None = None
        self._nonprivate: SpilledRows | None = None

    def begin(self) -> bytes:
        """Pay for all steps, durably, once the batches have been checked; return which key this is."""
        self._admitted.refuse_if_concluded()
        key = self._admitted.kept_key(KEY)
        if key is None:
            raise ProtocolError("The parties have not agreed on the key of the batches.")
        self._admitted.prepare()
        self._batches = self._checked_batches(key)
        self._nonprivate = self._admitted.compute(self._private.coded)
        self._reservation = self._admitted.reserve()
        return digest("colonnade batches in use v1", key)

    def share(self, position: int, weights: Integers) -> tuple[Integers, Integers]:
        """Return the scores and rows of a step's batch, and its noise."""
        if self._batches is None or self._reservation is None:
            raise ProtocolError("A step of a descent is shared once it is paid for.")
        people = self._batches.members(position)
        sampler = self._reservation.noise(f"step {position}")
        noise = self._step.terms.noise.draw_share(self._step.terms.columns, sampler)
        with among_rows():
            return self._batch(people, weights), noise

    def _batch(self, people: NDArray[np.int64], weights: Integers) -> Integers:
        """Return scores and rows of a batch, filled up to the plan's capacity; nothing after this can fail on a row."""
        assert self._nonprivate is not None  # the run begins first
        terms, party = self._step.terms, self._step.party
        nonprivate = np.zeros((terms.widths[party] + 1, terms.capacity), dtype=np.int64)
        found = self._nonprivate.take(people)
        rows = found[:, : self._step.width].astype(np.int64)
        labels = found[:, -1] if self._step.target else None
        nonprivate[0, : len(people)] = self._private.scores(rows, labels, weights[terms.places(party)])
        nonprivate[1:, : len(people)] = rows.T
        require_within(nonprivate, terms.largest)
        return nonprivate

    def _checked_batches(self, key: bytes) -> Batches:
        """Look at every batch before the first step: what peers learn is accounted by how often a person takes part."""
        terms = self._step.terms
        own = digest("colonnade batches v2", key, self._step.step)  # no other step ever draws these coins
        batches = Batches(own, terms.people, terms.rate, terms.steps, terms.sampling)
        if batches.largest_participation() > terms.noise.participations:
            raise PolicyRefusal(
                "With this key somebody takes part in more steps than the study pays for.",
                remedy="Run the study again with the next repeat=.",
            )
        return batches


def rounded(numbers: NDArray[np.float64], values: WholeValues) -> NDArray[Any]:
    """Return numbers within integer bounds as integers; a null record is the midpoint, rounded like any other number."""
    whole = np.empty(len(numbers), dtype=np.int32 if values.high < 2**31 else np.int64)
    return whole_numbers(numbers, values.high, least=values.low, out=whole)


class PrivateValues(PrivateStep[steps.Values]):
    """Each person's whole number."""

    kinds = (steps.Values,)

    taking_part = None

    def everyone(self, table: PrivateTable) -> NDArray[Any]:
        """Return one whole number per person."""
        return rounded(table.values(self.step.columns[0]), self.step.values)

    compute = everyone


class PrivateTotal(PrivateStep[steps.Total]):
    """The sum of the column."""

    kinds = (steps.Total,)

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Add up, exactly."""
        return table.fold(np.zeros(1, dtype=np.int64), self._add)

    def _add(self, nonprivate: NDArray[np.int64], table: PrivateTable, start: int, stop: int) -> None:
        nonprivate += rounded(table.values(self.step.columns[0], start, stop), self.step.values).sum(dtype=np.int64)


class PrivateRows(PrivateStep[steps.Rows]):
    """The coded rows."""

    kinds = (steps.Rows,)

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Return the coded rows, columns along the first axis."""
        return coded_rows(self.step.coding, table, 0, self.step.people)


class PrivateSketch(PrivateStep[steps.SketchStep]):
    """Random combinations of the coded rows."""

    kinds = (steps.SketchStep,)

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Fold blocks of people, in whole numbers."""
        return _sketched(self.step.signs, table, self.step.coding.width, partial(coded_rows, self.step.coding))


class PrivateValueSketch(PrivateStep[steps.ValueSketch]):
    """Random combinations of one column."""

    kinds = (steps.ValueSketch,)

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Fold blocks of people, in whole numbers."""
        return _sketched(self.step.signs, table, 1, self._whole)

    def _whole(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        return rounded(table.values(self.step.columns[0], start, stop), self.step.values)[None].astype(np.int64)


def _sketched(
    signs: Signs, table: PrivateTable, width: int, rows: Callable[[PrivateTable, int, int], NDArray[np.int64]]
) -> NDArray[np.int64]:
    """Return sums of columns in the first row and sketches below, a column of the table along each column."""
    folded = table.fold(np.zeros((width, signs.rows + 1), dtype=np.int64), partial(_add_sketch, signs, rows))
    return folded.T.copy()


def _add_sketch(
    signs: Signs,
    rows: Callable[[PrivateTable, int, int], NDArray[np.int64]],
    nonprivate: NDArray[np.int64],
    table: PrivateTable,
    start: int,
    stop: int,
) -> None:
    some, sketch = rows(table, start, stop), np.zeros((len(nonprivate), signs.rows), dtype=np.int64)
    for first in range(0, stop - start, PEOPLE):  # these people have signs of their own; a block is a multiple of them
        signs.add_product((start + first) // PEOPLE, some[:, first : first + PEOPLE], sketch)
    nonprivate[:, 0] += some.sum(axis=1)
    nonprivate[:, 1:] += sketch


class PrivateMembershipSketches(PrivateStep[MembershipSketches]):
    """The memberships that are sketched."""

    kinds = (MembershipSketches,)

    def require_earlier(self) -> None:
        """Require the centres and the key."""
        require_centres(self.step.category)
        self.step.key()

    def prepare(self, table: PrivateTable) -> None:
        """Read who has a record, before anything is paid."""
        prepare_category(self.step.category, table)

    def compute(self, table: PrivateTable) -> SpilledRows:
        """Return everybody's local cluster."""
        return table.written(None, np.int16, partial(category_codes, self.step.category))


PRIVATE_STEPS.register(
    __name__,
    {
        kind.name: private
        for private in (
            PrivateCoresetClusters,
            PrivateCoresetDraws,
            PrivateCoresetGradient,
            PrivateCoresetRows,
            PrivateCoresetSample,
            PrivateCoresetScores,
            PrivateCoresetTotal,
            PrivateGradient,
            PrivateMembershipSketches,
            PrivateRows,
            PrivateSketch,
            PrivateTotal,
            PrivateValueSketch,
            PrivateValues,
        )
        for kind in private.kinds
    },
)
