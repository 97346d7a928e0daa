"""Clustering of a weighted grid: the combinations of the parties' local centres, and k-means or k-median on them.

Phases 3 and 4 of Private vertical clustering, Algorithm 1, and Primitives, Algorithm 3. All of it is post-processing of
released values.

*Grid.* A cell names one local cluster at every party; its weight is how many people are in all of them. There are k′^S cells,
so a large grid is never written down (`fitted_grid`). Parties are added one at a time. After each the cells are fitted to all
pair tables among the parties so far (the table of greatest entropy, by iterative proportional fitting on the cells that are
left) and only the heaviest are kept. What is dropped is spread over the rest by the fit, so pair tables and total stay right
wherever a cell is left.

*Centres.* k-means is scikit-learn's. k-median minimises Σ w‖x − c‖, not its square (`weighted_kmedian`): Lloyd-style
alternation with the geometric median of each cluster as its update (Weiszfeld's iteration, with Vardi and Zhang's step where
a centre stands on a point). Then single swaps of a centre for a point are made as long as they pay, which gives the
constant-factor guarantee of local search.

The prices of a clustering study's parts, and how fine local clusterings may be. All rules are public.

The study is that of Primitives (Cohen-Addad, Kacham, Mirrokni, Zhong; docs/references.md#primitives) and Private vertical
clustering (Li, Wang, Li, 2023; docs/references.md#clustering), with other constants
(docs/proofs/local-clustering.md#composition).

*Split.* A study has two parts: local centres (one release per party) and weights of the grid (one joint opening, or one release
per party). On the secure channel the noise of a weight is that of a few counts, for any number of people. Every centre is a
mean that each party pays for alone. So centres get four fifths of the budget. Randomised response needs the opposite: its noise
grows with √people, so weights get three quarters. Histograms are cheap again. Sketches have an error of their own that no
budget removes, so they get half, as in Private vertical clustering. The split is in ρ where δ > 0 and in ε where δ = 0; the
papers halve ε.

*Composition.* For the person unit the local releases of all parties add up, and so does the joint one. The price of the weights
is the largest, to the nano-unit, for which the sum of all losses as ledgers count them stays within the study's price. A part
that a large δ would pay for alone is priced at a smaller δ (docs/proofs/neighbours-and-losses.md#grid).

*How many local clusters* (k₀ of Private vertical clustering, §5.2). The rule takes the most for which an average cell of a pair
table, people/k′², is at least four times the noise of a cell, and one person. The paper has twice the noise; four times loses
little where people spread out and less where they are in separate groups (`benchmarks/clustering` has the loss against k′).
Here it is the noise of the channel in use. For sketches it is that of the joint likelihood, times ρ = 1.04; the paper has the
constant of other sketches, 0.649, and the noise of complements. More clusters would be mostly noise, fewer lose shape. There are
no more than the centres' own noise allows, and no more than `FINEST` or twice the clusters asked for, whichever is larger, so
that a grid's cost has a bound.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans, kmeans_plusplus

from colonnade.errors import BadInput
from colonnade.estimation.tables import PairTableSet, maximum_entropy, project_to_simplex
from colonnade.privacy.accounting import Loss, Price, Unit
from colonnade.privacy.calibration import (
    budget_loss,
    ledger_rho,
    price_of_rho,
)
from colonnade.privacy.laws.additive import count_noise
from colonnade.privacy.laws.local_clustering import LARGEST_CLUSTERS, clustering_schedule, displacement_noise
from colonnade.privacy.laws.tables import TableNoise

Array = NDArray[np.float64]
LARGEST_GRID = 2**14
"""Cells that are kept; a grid up to this size is exact."""
SWEEPS = 40
SETTLED = 1e-6
SOFT = 1e-6


@dataclass(frozen=True, eq=False)
class Grid:
    """Cells of a grid, and their weights.

    Parameters
    ----------
    cells
        One row per cell: the number of a local cluster at each party.
    weights
        Non-negative, one per cell.
    sizes
        The number of local clusters of each party.
    """

    cells: NDArray[np.intp]
    weights: Array
    sizes: tuple[int, ...]

    def points(self, centres: Sequence[Array]) -> Array:
        """Return the cells' points: the local centres of all parties, side by side."""
        return np.concatenate([block[self.cells[:, party]] for party, block in enumerate(centres)], axis=1)


def dense_grid(table: Array) -> Grid:
    """Return every cell of a table with one axis per party."""
    cells = np.indices(table.shape).reshape(table.ndim, -1).T
    return Grid(cells, np.asarray(table, dtype=np.float64).ravel(), table.shape)


def fitted_grid(tables: PairTableSet, total: float, *, largest: int = LARGEST_GRID) -> Grid:
    """Return the grid of greatest entropy with given, consistent pair tables; its heaviest cells where it is large."""
    if len(tables.sizes) == 2:
        return dense_grid(tables.tables[0, 1])
    if math.prod(tables.sizes) <= largest:
        return dense_grid(maximum_entropy(tables, total))
    targets: dict[tuple[int, ...], Array] = {pair: _softened(table, total) for pair, table in tables.tables.items()}
    grid = dense_grid(targets[0, 1])
    for party in range(2, len(tables.sizes)):
        margin = targets[0, party].sum(axis=0)
        grid = _fit(_extended(grid, margin / total), targets, total)
        grid = _heaviest(grid, largest)
    return _fit(grid, targets, total)


def independent_grid(margins: Sequence[Array], total: float, *, largest: int = LARGEST_GRID) -> Grid:
    """Return the grid of a product of margins, each made non-negative with the right total first.

    Of a large one the heaviest cells are kept, and fitted to the margins again: else small clusters would lose to large ones.
    """
    if not margins:
        raise BadInput("A grid has at least one party.")
    shares = [project_to_simplex(np.asarray(margin, dtype=np.float64), total) / (total or 1.0) for margin in margins]
    grid = dense_grid(shares[0] * total)
    for share in shares[1:]:
        grid = _heaviest(_extended(grid, share), largest)
    if math.prod(grid.sizes) <= largest:
        weights = grid.weights * (total / max(float(grid.weights.sum()), 1e-300))
        return Grid(grid.cells, weights, grid.sizes)
    return _fit(grid, {(party,): share * total for party, share in enumerate(shares)}, total)


def _extended(grid: Grid, share: Array) -> Grid:
    """Divide every cell between another party's clusters."""
    cells = np.column_stack(
        [np.repeat(grid.cells, len(share), axis=0), np.tile(np.arange(len(share)), len(grid.cells))]
    )
    return Grid(cells, np.outer(grid.weights, share).ravel(), (*grid.sizes, len(share)))


def _heaviest(grid: Grid, largest: int) -> Grid:
    """Keep the heaviest cells, in their order; of equal ones the first."""
    if len(grid.weights) <= largest:
        return grid
    kept = np.sort(np.argsort(-grid.weights, kind="stable")[:largest])
    return Grid(grid.cells[kept], grid.weights[kept], grid.sizes)


def _fit(grid: Grid, targets: Mapping[tuple[int, ...], Array], total: float) -> Grid:
    """Fit the cells to all tables, of one party or of a pair, whose parties are in the grid."""
    weights = grid.weights
    known = sorted(parties for parties in targets if max(parties) < len(grid.sizes))
    codes = {
        parties: np.ravel_multi_index(tuple(grid.cells[:, list(parties)].T), targets[parties].shape)
        for parties in known
    }
    for _ in range(SWEEPS):
        before = weights
        for parties in known:
            target = targets[parties].ravel()
            current = np.bincount(codes[parties], weights=weights, minlength=target.size)
            ratio = np.divide(target, current, out=np.zeros_like(target), where=current > 0)
            weights = weights * ratio[codes[parties]]
        weights = weights * (total / max(float(weights.sum()), 1e-300))
        if float(np.abs(weights - before).sum()) <= SETTLED * total:
            break
    return Grid(grid.cells, weights, grid.sizes)


def _softened(table: Array, total: float) -> Array:
    """Mix a table with the product of its margins, so that a cell that noise emptied does not contradict another table."""
    product = np.outer(table.sum(axis=1), table.sum(axis=0)) / (total or 1.0)
    return np.asarray((1 - SOFT) * table + SOFT * product)


RESTARTS = 10
ALTERNATIONS = 100
WEISZFELD = 200
SETTLED_CENTRES = 1e-9
SWAPS = 50
CANDIDATES = 256
BLOCK = 4_096


def weighted_kmeans(points: Array, weights: Array, n_clusters: int, *, seed: int) -> Array:
    """Return the centres of weighted k-means.

    Parameters
    ----------
    points, weights
        The points, and their weights, which are not negative.
    n_clusters
        The number of centres.
    seed
        The seed of the starting points.
    """
    points, weights = _heavy(points, weights, n_clusters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about points that coincide, which noise can cause
        fitted = KMeans(n_clusters, n_init=RESTARTS, random_state=seed).fit(points, sample_weight=weights)
    return np.asarray(fitted.cluster_centers_, dtype=np.float64)


def weighted_kmedian(points: Array, weights: Array, n_clusters: int, *, seed: int) -> Array:
    """Return the centres of weighted Euclidean k-median. Parameters as in `weighted_kmeans`."""
    points, weights = _heavy(points, weights, n_clusters)
    best: Array | None = None
    lowest = np.inf
    for restart in range(RESTARTS):
        start, _ = kmeans_plusplus(points, n_clusters, sample_weight=weights, random_state=seed + restart)
        centres = _alternate(points, weights, start)
        cost = median_cost(points, weights, centres)
        if cost < lowest:
            best, lowest = centres, cost
    assert best is not None  # a cost is finite
    return _swap(points, weights, best)


def median_cost(points: Array, weights: Array, centres: Array) -> float:
    """Return Σ w·min ‖x − c‖."""
    return float(weights @ _nearest(points, centres)[1])


def _heavy(points: Array, weights: Array, n_clusters: int) -> tuple[Array, Array]:
    """Leave out points without weight, unless too few would be left."""
    if len(points) < n_clusters:
        raise BadInput("There are fewer grid points than clusters.", remedy="Raise n_local_clusters.")
    if np.count_nonzero(weights > 0) >= n_clusters:
        return points[weights > 0], weights[weights > 0]
    floor = 1e-9 * max(float(weights.sum()), 1.0)
    return points, np.maximum(weights, floor)


def _nearest(points: Array, centres: Array) -> tuple[NDArray[np.intp], Array]:
    labels, distances = np.empty(len(points), dtype=np.intp), np.empty(len(points))
    for start in range(0, len(points), BLOCK):
        gaps = np.linalg.norm(points[start : start + BLOCK, None] - centres, axis=2)
        labels[start : start + BLOCK] = gaps.argmin(axis=1)
        distances[start : start + BLOCK] = gaps.min(axis=1)
    return labels, distances


def _alternate(points: Array, weights: Array, centres: Array) -> Array:
    labels, distances = _nearest(points, centres)
    cost = float(weights @ distances)
    for _ in range(ALTERNATIONS):
        centres = centres.copy()
        for cluster in range(len(centres)):
            inside = labels == cluster
            if np.any(inside):
                centres[cluster] = geometric_median(points[inside], weights[inside], centres[cluster])
        labels, distances = _nearest(points, centres)
        before, cost = cost, float(weights @ distances)
        if cost >= before * (1 - SETTLED_CENTRES):
            break
    return centres


def geometric_median(points: Array, weights: Array, start: Array) -> Array:
    """Return the point of least weighted distance: Weiszfeld's iteration, which never gets worse."""
    spread = max(float(np.max(np.abs(points - start))), 1e-300)
    median = np.asarray(weights @ points / weights.sum())
    for _ in range(WEISZFELD):
        gaps = np.linalg.norm(points - median, axis=1)
        here = gaps <= 1e-12 * spread
        pull = np.zeros(len(points))
        pull[~here] = weights[~here] / gaps[~here]
        if not pull.any():
            return median
        towards = pull @ points / pull.sum()
        force = float(np.linalg.norm(pull @ (points - median)))
        held = float(weights[here].sum())
        keep = min(1.0, held / force) if force > 0 else 1.0  # standing on a point holds the centre back by its weight
        moved = (1 - keep) * towards + keep * median
        if float(np.linalg.norm(moved - median)) <= SETTLED_CENTRES * spread:
            return np.asarray(moved)
        median = np.asarray(moved)
    return median


def _swap(points: Array, weights: Array, centres: Array) -> Array:
    """Exchange a centre for a point while that, with alternation afterwards, lowers the cost."""
    cost = median_cost(points, weights, centres)
    for _ in range(SWAPS):
        swapped = _best_swap(points, weights, centres)
        if swapped is None:
            return centres
        improved = _alternate(points, weights, swapped)
        lower = median_cost(points, weights, improved)
        if lower >= cost * (1 - 1e-6):
            return centres
        centres, cost = improved, lower
    return centres


def _best_swap(points: Array, weights: Array, centres: Array) -> Array | None:
    """Return the centres after the one swap of least cost, over the points that cost most now; ``None`` if none pays."""
    gaps = np.linalg.norm(points[:, None] - centres, axis=2) if len(points) <= BLOCK else _gaps(points, centres)
    order = np.argsort(gaps, axis=1)
    first = gaps[np.arange(len(points)), order[:, 0]]
    second = gaps[np.arange(len(points)), order[:, 1]] if len(centres) > 1 else np.full(len(points), np.inf)
    cost, lowest, best = float(weights @ first), np.inf, None
    for candidate in np.argsort(-weights * first, kind="stable")[:CANDIDATES]:
        reach = np.linalg.norm(points - points[candidate], axis=1)
        for leaving in range(len(centres)):
            others = np.where(order[:, 0] == leaving, second, first)
            swapped = float(weights @ np.minimum(others, reach))
            if swapped < lowest:
                lowest, best = swapped, (leaving, candidate)
    if best is None or lowest >= cost * (1 - 1e-6):
        return None
    exchanged = centres.copy()
    exchanged[best[0]] = points[best[1]]
    return exchanged


def _gaps(points: Array, centres: Array) -> Array:
    return np.stack([np.linalg.norm(points - centre, axis=1) for centre in centres], axis=1)


FINEST = 48
"""Local clusters up to which the rule goes; beyond, a grid takes long and gains little."""
CLEAR = 4.0
"""How many times its noise an average cell is, at least."""
BLURRED = 0.25
TOO_SMALL = (
    "epsilon is too small to be divided between all centres and weights: a part would be below the ledger's unit."
)


@dataclass(frozen=True)
class ClusteringPrices:
    """The price of each party's centres, and of the weights: of all of them, or on the local channel of each party's part."""

    centres: Price
    weights: Price


@dataclass(frozen=True)
class WeightRule:
    """What differs between the methods for weights, where there is more than one party.

    Parameters
    ----------
    split
        The centres' share of the budget by default.
    cell_noise
        From (clusters, people, parties, price, unit, collusion) to the standard deviation of an average cell.
    joint
        Whether all parties' weights are one release, which costs once.
    paired
        Whether a cell belongs to a pair of parties.
    own_price
        From (price, spent on centres, parties, unit) to the price of the weights, where it does not follow from what is left.
    most
        The largest number of local clusters that can be decoded.
    """

    split: Fraction
    cell_noise: Callable[[int, int, int, Price, Unit, int], float]
    joint: bool = False
    paired: bool = True
    own_price: Callable[[Price, Loss, int, Unit], Price] | None = None
    most: int | None = None


def clustering_prices(
    price: Price, parties: int, unit: Unit, rule: WeightRule, split: float | None = None
) -> ClusteringPrices:
    """Divide a study's price.

    Parameters
    ----------
    price, unit
        The promise.
    parties
        How many parties release.
    rule
        What is particular to the method that finds the weights.
    split
        The centres' share of the budget; by default that of the rule.

    Examples
    --------
    >>> prices = clustering_prices(Price.of(1.0), 2, "person", RULES["secure"])
    >>> prices.centres.epsilon, prices.weights.epsilon
    (0.4, 0.2)
    """
    share = rule.split if split is None else _share(split)
    times = parties if unit == "person" else 1
    joint = rule.joint and parties > 1
    if price.delta == 0:
        if joint and rule.own_price is not None:
            raise BadInput(
                "Sketches need a positive delta: thousands of small losses add up to little only with one.",
                remedy="For example delta=1e-6, below 1/people; or method='secure', which has a pure form.",
            )
        centres = Price(_positive(math.floor(price.nano * share / times)), 0.0)
        left = price.nano - times * centres.nano
        return ClusteringPrices(centres, Price(_positive(left if joint else left // times), 0.0))
    centres = price_of_rho(ledger_rho(price) * share / times, price.delta)
    spent = budget_loss(ledger_rho(centres)) * times
    if parties > 1 and rule.own_price is not None:
        return ClusteringPrices(centres, rule.own_price(price, spent, parties, unit))
    weights = ledger_rho(price, 1 if joint else times, besides=spent)
    return ClusteringPrices(centres, price_of_rho(weights, price.delta))


def weight_noise(
    rule: WeightRule, clusters: int, people: int, parties: int, price: Price, unit: Unit, collusion: int
) -> float:
    """Return the standard deviation of an average cell of a pair table (of a histogram, for ``"independent"``)."""
    noise = rule.cell_noise if parties > 1 else _histogram_noise
    return noise(clusters, people, parties, price, unit, collusion)


def automatic_clusters(
    n_clusters: int,
    people: int,
    widths: Sequence[int],
    prices: ClusteringPrices,
    *,
    rule: WeightRule,
    unit: Unit,
    collusion: int,
) -> int:
    """Return k′: as many local clusters as the weights and the centres can bear."""
    parties = len(widths)
    fewest: int = max(2, math.ceil(float(n_clusters) ** (1.0 / parties) - 1e-9))
    pairs = 2 if parties > 1 and rule.paired else 1
    best: int = fewest
    most = min(max(FINEST, 2 * n_clusters), rule.most or LARGEST_CLUSTERS)
    for clusters in range(fewest, max(fewest, most) + 1):
        noise = weight_noise(rule, clusters, people, parties, prices.weights, unit, collusion)
        if (
            max(CLEAR * noise, 1.0) * clusters**pairs > people
            or _blur(widths, people, clusters, prices.centres) > BLURRED
        ):
            break
        best = clusters
    return best


def _blur(widths: Sequence[int], people: int, clusters: int, price: Price) -> float:
    """Return how far noise moves a local centre, in units of its block's spread, in the worst block."""
    sweeps = [clustering_schedule(width, people, clusters, price).sweep for width in widths]
    return max(
        displacement_noise(width, price, sweep) * clusters / people for width, sweep in zip(widths, sweeps, strict=True)
    )


def _table_noise(clusters: int, people: int, parties: int, price: Price, unit: Unit, collusion: int) -> float:  # noqa: ARG001
    names = tuple(f"party{number}" for number in range(parties))
    noise = TableNoise(names, price, unit, min(collusion, parties - 1), math.comb(parties, 2) * clusters**2)
    return math.sqrt(noise.opened_variance)


def _histogram_noise(clusters: int, people: int, parties: int, price: Price, unit: Unit, collusion: int) -> float:  # noqa: ARG001
    return math.sqrt(count_noise(price, 1).variance)


def _share(split: float) -> Fraction:
    if isinstance(split, bool) or not isinstance(split, int | float) or not 0 < split < 1:
        raise BadInput(
            "split, the centres' share of the budget, must lie between 0 and 1.", remedy="For example split=0.8."
        )
    return Fraction(repr(float(split)))


def _positive(nano: int) -> int:
    if nano < 1:
        raise BadInput(TOO_SMALL, remedy="Raise epsilon.")
    return nano


RULES: Mapping[str, WeightRule] = {
    "secure": WeightRule(Fraction(4, 5), _table_noise, joint=True),
    "independent": WeightRule(Fraction(4, 5), _histogram_noise, paired=False),
}
"""The rules of the core's methods; those of sketches and reports are in `colonnade.papers.estimation`."""
