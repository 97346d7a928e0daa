"""A model of a whole table: tables of overlapping groups of columns, and rows drawn from them.

The groups (*cliques*) form a tree. What a clique has in common with all earlier ones is in one of them, its *separator*. Given
the separator, its other columns do not depend on the rest. So rows are drawn clique by clique, and the table of any two columns
follows by carrying one column along the tree. Reading, drawing and saving a model need no other library.

How well a model of a table agrees with the people it was made from, by their noisy tables.

A *distance* is the total variation distance: the share of people who would have to move for two tables to be equal. As in other
libraries for synthetic data, one minus it is a *column shape* (a single column) or a *pair trend* (two columns together).

*The known noise is taken out.* With D the difference between a noisy table and the model's, in people, and σ² the variance of
the noise in a cell, Σ(D² − σ²) estimates the squared differences. How they add up to a distance depends on how they are spread
over the cells. Two assumptions are on either side of what tables have: evenly over all cells (too far, where most cells are
empty), and in proportion to the model's own shares (too near). The estimate is the geometric mean of the two.

A table that the model was fitted to agrees with its noise as well. If the fit takes a part h of the noise, the squared
differences fall to (1 − h)σ² and the error of the model is hσ²: so |Σ(D² − σ²)| stands for it there. It is an estimate, without
an interval.

Against a table of its own noise, which the fit has not seen, there is an interval (`held_out_distance`). Below: the sum of
|D| − σ√(2/π) is at most the L1 distance, in expectation. Above: the L1 distance is at most √cells times the L2 distance
(Cauchy–Schwarz). Both sides allow for the noise.

Noisy counts of every column and of every pair of columns, read from one release of second moments.

For indicators of levels a Gram matrix *is* all pair tables: entry (i, j) counts the people who have level i of one column and
level j of another. A single level is counted by its sum, by its square on the diagonal, and by its row in every pair table.
Products of two levels of one column are 0 for everybody and carry nothing.

A row of m indicators has squared length m, for every person alike. So the noise of the release is that of the bound itself, and
nothing is lost by bounding (docs/proofs/gram.md).

A model of a whole table from noisy tables of pairs: which pairs to use, and the fit.

The fit is Private-PGM (McKenna, Sheldon, Miklau, *Graphical-model based estimation and inference for differential privacy*,
2019; docs/references.md#private-pgm), by its author's library ``mbi``: the distribution over all columns that comes nearest
to the noisy tables, among those of a graph. Everything here is a function of the release alone, and costs nothing more.

*The graph.* Pairs are ordered by how far they are from independence, less what noise alone would give
(`GramTables.dependences`). First the spanning forest of largest score, then further pairs in that order while the cliques of the
triangulated graph together stay under a number of cells. Pairs that noise alone explains are left out: in the model the two
columns then depend on each other through others, or not at all.

``mbi`` brings ``jax``. Both are imported when a model is fitted, and never to read, draw from or save one. ``jax`` is told to
compute in double precision, for the whole process: the fit stalls without it.
"""

import math
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from itertools import combinations
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import logsumexp

from colonnade.errors import BadInput
from colonnade.estimation.moments import Moments
from colonnade.estimation.scoring import EvaluationResult, Metric, interval_reach

Array = NDArray[np.float64]
Pair = tuple[str, str]

MEAN_SIZE = math.sqrt(2 / math.pi)
"""E|x| of a Gaussian of deviation 1."""
STANDS_OUT = 2.0
CERTAIN = 5.0
"""How many standard errors a sum must be away from everybody before it is taken that some people are in no level."""


@dataclass(frozen=True, eq=False)
class GramTables:
    """All tables of one and of two columns, with their noise.

    Parameters
    ----------
    moments
        Moments whose columns are all coded as indicators of levels.

    Examples
    --------
    >>> from colonnade.schema import features_of
    >>> from colonnade.schema import Category
    >>> columns = {"a.x": Category(["no", "yes"]), "b.y": Category(["no", "yes"])}
    >>> rows = np.array([[1, 1, 0, 1, 0]] * 3 + [[1, 0, 1, 0, 1]] * 2)
    >>> exact = Moments.of_release(rows.T @ rows, np.ones((5, 5)), 5, features_of(columns))
    >>> GramTables(exact).table("a.x", "b.y").tolist()
    [[3.0, 0.0], [0.0, 2.0]]
    """

    moments: Moments

    def __post_init__(self) -> None:
        others = [feature.column for feature in self.moments.features[1:] if feature.kind != "level"]
        if others:
            raise BadInput(
                f"Column {others[0]!r} is not coded as levels: a table counts levels.",
                remedy="Read numbers in bins: federation.read_as({name: Bins.equal(column, 16)}).",
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns, in order."""
        return self.moments.columns

    @property
    def people(self) -> int:
        """The number of people."""
        return self.moments.count

    @cached_property
    def pairs(self) -> list[Pair]:
        """Every pair of columns."""
        return list(combinations(self.columns, 2))

    @cached_property
    def sizes(self) -> dict[str, int]:
        """How many levels each column has."""
        return {name: len(places) for name, places in self._places.items()}

    @cached_property
    def _places(self) -> Mapping[str, NDArray[np.intp]]:
        return {name: self.moments.places([name]) for name in self.columns}

    def counts(self, column: str, apart_from: Collection[str] = ()) -> tuple[Array, float]:
        """Return how many people have each level, and the variance of the noise in such a count.

        Many entries of the release count a level: its sum, its square, and its row in the table with each other column. All have
        noise of their own. They are weighted by how exact they are.

        Parameters
        ----------
        column
            The column.
        apart_from
            Other columns whose tables with this one are used elsewhere, and are not used here again.
        """
        found = [self._alone(column)]
        for other in self.columns:
            if other != column and other not in apart_from and self._complete(other):
                noise = self.variance(column, other) * self.sizes[other]
                found.append((self.table(column, other).sum(axis=1), noise))
        return _weighted(found)

    def _alone(self, column: str) -> tuple[Array, float]:
        """Return counts from the column's own entries."""
        places, noise = self._places[column], self.moments.variance
        sums, squares = self.moments.matrix[0, places], self.moments.matrix[places, places]
        return _weighted([(sums, float(noise[0, places].mean())), (squares, float(noise[places, places].mean()))])

    def shares(self, column: str) -> Array:
        """Return the shares of people by level: not negative, and one in sum. Refuse a column in which nobody has a level."""
        counts, variance = self.counts(column)
        kept = np.maximum(counts, 0.0)
        if counts.sum() <= 2 * math.sqrt(variance * len(counts)) or not kept.sum():
            raise BadInput(
                f"Column {column!r} is empty: its counts do not stand out of the noise.",
                remedy="Leave it out of columns=[...], give it fewer bins, or use a larger epsilon.",
            )
        return np.asarray(kept / kept.sum())

    def table(self, one: str, other: str) -> Array:
        """Return how many people have each level of one column with each level of another."""
        return np.array(self.moments.matrix[np.ix_(self._places[one], self._places[other])])

    def variance(self, one: str, other: str) -> float:
        """Return the variance of the noise in a cell of a pair table; all of its cells are alike."""
        return float(self.moments.variance[np.ix_(self._places[one], self._places[other])].mean())

    def deviation(self, one: str, other: str) -> float:
        """Return the standard deviation of the noise in a cell."""
        return math.sqrt(self.variance(one, other))

    def scale(self, one: str, other: str) -> float:
        """Return what a pair table is multiplied by to count everybody.

        It is 1 unless people certainly lack a level: on a cohort somebody without a row at a party is in none. Their share is
        then taken to be like the rest.
        """
        if all(self._complete(name) for name in {one, other}):
            return 1.0
        table = self.table(one, other) if one != other else self.counts(one)[0]
        noise = math.sqrt(self.variance(one, other) * table.size)
        return self.people / max(float(table.sum()), noise, 1.0)

    def _complete(self, column: str) -> bool:
        counts, variance = self._alone(column)
        return bool(counts.sum() >= self.people - CERTAIN * math.sqrt(variance * len(counts)) - 0.5)

    def dependences(self) -> dict[Pair, float]:
        """Return by how many people pairs are away from independence, less what noise alone would give; only where it stands out.

        The score is the L1 distance between the noisy table and the product of its columns' shares, minus σ√(2/π) per cell: the
        mean size of Gaussian noise. Pairs whose score is below two deviations of what noise alone gives are left out.
        """
        shares = {name: self.shares(name) for name in self.columns}
        found = {}
        for one, other in self.pairs:
            scale = self.scale(one, other)
            table, deviation = self.table(one, other) * scale, self.deviation(one, other) * scale
            independent = self.people * np.outer(shares[one], shares[other])
            score = float(np.abs(table - independent).sum()) - table.size * deviation * MEAN_SIZE
            if score > STANDS_OUT * deviation * math.sqrt(table.size * (1 - MEAN_SIZE**2)):
                found[one, other] = score
        return found


def _weighted(found: Sequence[tuple[Array, float]]) -> tuple[Array, float]:
    """Return the mean of estimates, each weighted by its exactness, and its variance."""
    exact = [values for values, variance in found if not variance]
    if exact:
        return np.array(exact[0]), 0.0
    weights = np.array([1 / variance for _, variance in found])
    total = sum(weight * values for weight, (values, _) in zip(weights, found, strict=True))
    return np.asarray(total / weights.sum()), float(1 / weights.sum())


Codes = NDArray[np.int64]
Names = tuple[str, ...]
Uniforms = Callable[[str, int], Array]
"""Returns uniform numbers in [0, 1), as many as asked for, for a label; other numbers for another label."""

SUM_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class TableModel:
    """Shares of people by combination of levels, in every clique.

    Parameters
    ----------
    columns
        The columns, in the order of the table.
    sizes
        How many levels each has.
    cliques
        Groups of columns, each behind one that holds its separator.
    tables
        For each clique the shares of people: one axis per column, one in sum.

    Examples
    --------
    >>> model = TableModel(("x", "y"), (2, 2), (("x", "y"),), (np.array([[0.5, 0.0], [0.0, 0.5]]),))
    >>> drawn = model.draw(4, lambda label, count: np.full(count, 0.5))
    >>> bool((drawn["x"] == drawn["y"]).all()), sorted(drawn["x"].tolist())
    (True, [0, 0, 1, 1])
    """

    columns: Names
    sizes: tuple[int, ...]
    cliques: tuple[Names, ...]
    tables: tuple[Array, ...]

    def __post_init__(self) -> None:
        sizes = dict(zip(self.columns, self.sizes, strict=True))
        seen: set[str] = set()
        good = len(self.cliques) == len(self.tables) > 0
        for place, (clique, table) in enumerate(zip(self.cliques, self.tables, strict=False)):
            known = set(clique) <= set(sizes) and len(set(clique)) == len(clique) > 0
            good = good and known and table.shape == tuple(sizes[name] for name in clique)
            good = good and bool(np.all(np.isfinite(table)) and np.all(table >= 0))
            good = good and abs(float(table.sum()) - 1) < SUM_TOLERANCE
            common = seen & set(clique)
            good = good and (not common or any(common <= set(before) for before in self.cliques[:place]))
            seen |= set(clique)
        if not good or seen != set(sizes):
            raise BadInput("The model of a table is not well formed.", remedy="Fit it again, or save it again.")

    @cached_property
    def _separators(self) -> list[tuple[int, Names]]:
        return separators(self.cliques)

    def draw(self, rows: int, uniforms: Uniforms) -> dict[str, Codes]:
        """Return the levels of drawn rows by column, as their places in the list of levels.

        Among rows that agree in the separator, the new columns are drawn by strata: one uniform number from each of as many equal
        parts of [0, 1) as there are such rows, in random order. Shares in the drawn table are then as near to the model's as
        whole rows allow.
        """
        drawn: dict[str, Codes] = {}
        for (_, common), clique, table in zip(self._separators, self.cliques, self.tables, strict=True):
            new = tuple(name for name in clique if name not in common)
            label = " ".join(clique)
            conditional = _moved(table, clique, (*common, *new)).reshape(
                math.prod(table.shape[clique.index(name)] for name in common), -1
            )
            shape = [self._size(name) for name in common]
            group = np.ravel_multi_index([drawn[name] for name in common], shape) if common else np.zeros(rows, int)
            places = _stratified(conditional, group, uniforms(f"order of {label}", rows), uniforms(label, rows))
            drawn |= dict(zip(new, np.unravel_index(places, [self._size(name) for name in new]), strict=True))
        return {name: drawn[name].astype(np.int64) for name in self.columns}

    def share(self, column: str) -> Array:
        """Return the shares of people by level of one column."""
        place = next(place for place, clique in enumerate(self.cliques) if column in clique)
        return summed_onto(self.tables[place], self.cliques[place], (column,))

    def pairs_with(self, column: str) -> dict[str, Array]:
        """Return, for every other column, the shares of people by level of this column and level of that one."""
        found: dict[str, Array] = {}
        joint: list[tuple[Array, Names]] = []
        home = next(place for place, clique in enumerate(self.cliques) if column in clique)
        order = [home, *self._outwards(home)]
        carried: dict[int, Array] = {}  # by clique: shares by level of the column, then by the clique's columns
        for place in order:
            clique, table = self.cliques[place], self.tables[place]
            before = next((one for one in carried if self._touch(one, place)), None)
            if place == home:
                carried[place] = table * _indicators(self._size(column), table.ndim, clique.index(column))
            elif before is None:
                carried[place] = np.multiply.outer(self.share(column), table)
            else:
                common = tuple(name for name in clique if name in self.cliques[before])
                held = np.stack([summed_onto(part, self.cliques[before], common) for part in carried[before]])
                whole = summed_onto(table, clique, common)
                ratio = np.divide(held, whole, out=np.zeros_like(held), where=whole > 0)
                carried[place] = np.stack([spread_over(part, common, clique, table.shape) * table for part in ratio])
            joint.append((carried[place], clique))
        for values, clique in joint:
            for name in clique:
                if name != column and name not in found:
                    found[name] = np.stack([summed_onto(part, clique, (name,)) for part in values])
        return found

    def _size(self, column: str) -> int:
        return self.sizes[self.columns.index(column)]

    def _touch(self, one: int, other: int) -> bool:
        """Return whether one of two cliques hangs on the other."""
        return self._separators[one][0] == other or self._separators[other][0] == one

    def _outwards(self, home: int) -> list[int]:
        """Return the other cliques, nearest first; those of other trees come last, each behind the one that it hangs on."""
        found, seen = [home], {home}
        while len(seen) < len(self.cliques):
            near = [
                place
                for place in range(len(self.cliques))
                if place not in seen and any(self._touch(place, one) for one in found)
            ]
            near = near or [next(place for place in range(len(self.cliques)) if place not in seen)]
            found += near
            seen |= set(near)
        return found[1:]


def separators(cliques: Sequence[Names]) -> list[tuple[int, Names]]:
    """Return for each clique the earlier one that it hangs on, and what the two have in common; −1 for the first of a tree.

    Examples
    --------
    >>> separators([("x", "y"), ("y", "z"), ("w",)])
    [(-1, ()), (0, ('y',)), (-1, ())]
    """
    found: list[tuple[int, Names]] = []
    seen: set[str] = set()
    for place, clique in enumerate(cliques):
        common = tuple(name for name in clique if name in seen)
        holder = next((one for one in range(place) if common and set(common) <= set(cliques[one])), -1)
        found.append((holder, common))
        seen |= set(clique)
    return found


def summed_onto(table: Array, columns: Names, onto: Names) -> Array:
    """Return the sums of a table over all columns but some, axes in the order of these."""
    kept = [name for name in columns if name in onto]
    sums = table.sum(axis=tuple(axis for axis, name in enumerate(columns) if name not in onto))
    return _moved(np.asarray(sums), tuple(kept), onto)


def spread_over(part: Array, columns: Names, onto: Names, shape: tuple[int, ...]) -> Array:
    """Return a table of some columns as one of more columns, in which the others do not matter."""
    ordered = tuple(name for name in onto if name in columns)
    sizes = [size if name in columns else 1 for name, size in zip(onto, shape, strict=True)]
    return np.broadcast_to(_moved(part, columns, ordered).reshape(sizes), shape)


def _moved(table: Array, columns: Names, order: Names) -> Array:
    return np.transpose(table, [columns.index(name) for name in order])


def _indicators(size: int, dimensions: int, axis: int) -> Array:
    """Return for every level of an axis a table of 1 at that level and 0 at the others."""
    shape = [size if place == axis else 1 for place in range(dimensions)]
    return np.eye(size).reshape(size, *shape)


def _stratified(chances: Array, group: Codes, order: Array, within: Array) -> Codes:
    """Draw one place per row, with the chances of the row's group; rows of a group share [0, 1) evenly among them."""
    sums = chances.sum(axis=1, keepdims=True)
    usual = chances.sum(axis=0) / chances.sum()
    chances = np.where(sums > 0, chances / np.where(sums > 0, sums, 1.0), usual)
    ranked = np.lexsort((order, group))
    counts = np.bincount(group, minlength=len(chances))
    starts = np.cumsum(counts) - counts
    rank = np.empty(len(group))
    rank[ranked] = np.arange(len(group)) - starts[group[ranked]]
    uniform = (rank + within) / counts[group]
    cumulative = np.minimum(np.cumsum(chances, axis=1), 1.0)
    cumulative[:, -1] = 1.0
    flat = (cumulative + np.arange(len(chances))[:, None]).ravel()
    places = np.searchsorted(flat, group + uniform, side="right") - group * chances.shape[1]
    return np.asarray(np.clip(places, 0, chances.shape[1] - 1), dtype=np.int64)


Key = TypeVar("Key", str, tuple[str, str])
SMALLEST_SHARE = 1e-9


@dataclass(frozen=True, eq=False)
class Differences:
    """A noisy table less the model's.

    Parameters
    ----------
    people
        The differences in people, cell by cell.
    shares
        The model's shares of people, cell by cell.
    variance
        The variance of the noise in a cell.
    count
        How many people there are.
    """

    people: Array
    shares: Array
    variance: float
    count: int

    @property
    def squared(self) -> float:
        """The estimate of the sum of squared differences without noise; it may be below 0."""
        return float((self.people**2 - self.variance).sum())

    def distance(self, weights: Array, *, fitted: bool) -> float:
        """Return the distance, if squared differences are in proportion to some weights."""
        strength = float(((self.people**2 - self.variance) * weights).sum() / (weights**2).sum())
        strength = abs(strength) if fitted else max(strength, 0.0)
        return min(MEAN_SIZE * math.sqrt(strength) * float(np.sqrt(weights).sum()) / (2 * self.count), 1.0)


def differences(model: TableModel, tables: GramTables) -> tuple[dict[str, Differences], dict[Pair, Differences]]:
    """Return the differences of every column and of every pair of columns."""
    single, double = {}, {}
    for place, name in enumerate(tables.columns):
        counts, variance = tables.counts(name)
        scale, share = tables.scale(name, name), model.share(name)
        expected = tables.people * share
        single[name] = Differences(counts * scale - expected, share, variance * scale**2, tables.people)
        joint = model.pairs_with(name)
        for other in tables.columns[place + 1 :]:
            scale, shares = tables.scale(name, other), joint[other]
            apart = tables.table(name, other) * scale - tables.people * shares
            noise = tables.variance(name, other) * scale**2
            double[name, other] = Differences(apart, shares, noise, tables.people)
    return single, double


def fitted_distance(found: Differences, *, fitted: bool) -> float:
    """Return the estimated distance. ``fitted``: whether the model was fitted to this very table.

    Examples
    --------
    >>> far = Differences(np.array([100.0, -100.0]), np.array([0.5, 0.5]), 1.0, 1_000)
    >>> round(fitted_distance(far, fitted=False), 2)
    0.08
    """
    even = np.ones_like(found.shares)
    alike = np.maximum(found.shares, SMALLEST_SHARE)
    return math.sqrt(found.distance(even, fitted=fitted) * found.distance(alike, fitted=fitted))


def quality_series(model: TableModel, tables: GramTables, kept: Sequence[Pair]) -> tuple[pd.Series, pd.Series]:
    """Return column shapes by column and pair trends by pair, for a model that was fitted to these tables.

    Parameters
    ----------
    model, tables
        The model, and what it was fitted to.
    kept
        The pairs that it was fitted to.
    """
    single, double = differences(model, tables)
    shapes = {name: 1 - fitted_distance(found, fitted=True) for name, found in single.items()}
    trends = {pair: 1 - fitted_distance(found, fitted=pair in set(kept)) for pair, found in double.items()}
    return _by_column(shapes), _by_pair(trends)


def held_out_distance(found: Mapping[Key, Differences], reach: float, name: str) -> tuple[Metric, dict[Key, float]]:
    """Return one minus the mean distance with its interval, and the estimated distances one by one.

    Parameters
    ----------
    found
        Differences from tables whose noise the model has not seen.
    reach
        How many standard errors of the noise the interval allows for.
    name
        What the metric is called.
    """
    each = {one: fitted_distance(apart, fitted=False) for one, apart in found.items()}
    cells = sum(apart.people.size for apart in found.values())
    people = next(iter(found.values())).count
    parts = 2 * people * len(found)
    noise = math.sqrt(sum(apart.variance * apart.people.size for apart in found.values()))
    low = sum(float((np.abs(one.people) - MEAN_SIZE * math.sqrt(one.variance)).sum()) for one in found.values())
    squared = sum(apart.squared for apart in found.values())
    spread = math.sqrt(
        sum(2 * one.variance**2 * one.people.size + 4 * one.variance * max(one.squared, 0.0) for one in found.values())
    )
    high = math.sqrt(cells * max(squared + reach * spread, 0.0))
    near, far = min(max((low - reach * noise) / parts, 0.0), 1.0), min(high / parts, 1.0)
    middle = min(max(sum(each.values()) / len(each), near), max(near, far))
    return Metric(name, 1 - middle, 1 - max(near, far), 1 - near), each


def _by_column(values: Mapping[str, float]) -> pd.Series:
    return pd.Series(values, name="column shape", dtype=float).rename_axis("column")


def _by_pair(values: Mapping[Pair, float]) -> pd.Series:
    index = pd.MultiIndex.from_tuples(list(values), names=["column", "other"])
    return pd.Series(list(values.values()), index=index, name="pair trend", dtype=float)


CELLS = 40_000
"""How many cells the tables of all cliques have together, at most. Twice as many are little better and take twice as long."""
ITERATIONS = 2_000
TOLERANCE = 1e-4
"""The fit ends once the loss falls by less than this part over 50 iterations, twice in a row."""


def has_library() -> bool:
    """Return whether the library that fits models is installed."""
    return find_spec("mbi") is not None


def require_library() -> None:
    """Refuse to go on without the library that fits models, before anything is spent."""
    if not has_library():
        raise BadInput(
            "A synthetic table is fitted by the library mbi, which is not installed here.",
            remedy="pip install 'colonnade[synthetic]'",
        )


def fitted_model(tables: GramTables, cells: int = CELLS) -> TableModel:
    """Choose pairs, and fit a model of the whole table to them and to the counts of every column.

    Parameters
    ----------
    tables
        What was released.
    cells
        How many cells all cliques may have together.
    """
    require_library()
    chosen = chosen_pairs(tables, cells)
    mbi = _library()
    domain = mbi.Domain(tables.columns, [tables.sizes[name] for name in tables.columns])
    measured = [
        mbi.LinearMeasurement(
            (tables.table(*pair) * tables.scale(*pair)).ravel(),
            pair,
            max(tables.deviation(*pair) * tables.scale(*pair), SMALLEST_DEVIATION),
        )
        for pair in chosen
    ]
    for name in tables.columns:
        partners = {one for pair in chosen if name in pair for one in pair}
        counts, variance = tables.counts(name, apart_from=partners)
        scale = tables.scale(name, name)
        deviation = max(np.sqrt(variance) * scale, SMALLEST_DEVIATION)
        measured.append(mbi.LinearMeasurement(counts * scale, (name,), float(deviation)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the settings of jax on this machine
        fit = mbi.estimation.MirrorDescent().estimate(
            domain, measured, known_total=float(tables.people), iters=ITERATIONS, tol=TOLERANCE
        )
    potentials = {
        tuple(clique): np.asarray(fit.potentials[clique].values, dtype=np.float64) for clique in fit.potentials.cliques
    }
    return _calibrated(tables, chosen, potentials)


SMALLEST_DEVIATION = 1e-3
"""Of a count without noise, such as none has in a private release: the fit divides by it."""


def _library() -> Any:
    """Import mbi, with jax in double precision and without its cache of compiled programs, which many small ones only fill."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import jax

        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_enable_compilation_cache", False)
        import mbi
    return mbi


def chosen_pairs(tables: GramTables, cells: int = CELLS) -> list[Pair]:
    """Return the pairs of columns that the model keeps: a spanning forest, and more while the cliques stay small."""
    scores = tables.dependences()
    ordered = sorted(scores, key=lambda pair: -scores[pair])
    root = {name: name for name in tables.columns}
    chosen: list[Pair] = []
    for pair in ordered:
        one, other = (root[name] for name in pair)
        if one != other and _cells([*chosen, pair], tables) <= cells:
            chosen.append(pair)
            root = {name: one if held == other else held for name, held in root.items()}
    for pair in ordered:
        if pair not in chosen and _cells([*chosen, pair], tables) <= cells:
            chosen.append(pair)
    return chosen


def _cells(pairs: Sequence[Pair], tables: GramTables) -> int:
    return sum(
        int(np.prod([tables.sizes[name] for name in clique], dtype=object)) for clique in _cliques(pairs, tables)
    )


def _cliques(pairs: Sequence[Pair], tables: GramTables) -> list[Names]:
    """Return the cliques of a triangulated graph, each behind one that holds its separator.

    Columns are eliminated one by one, the one with the smallest clique first; what is left of its neighbours is joined.
    """
    neighbours: dict[str, set[str]] = {name: set() for name in tables.columns}
    for one, other in pairs:
        neighbours[one].add(other)
        neighbours[other].add(one)
    place = {name: number for number, name in enumerate(tables.columns)}
    eliminated: list[Names] = []
    while neighbours:
        cost = {
            name: tables.sizes[name] * int(np.prod([tables.sizes[one] for one in near], dtype=object))
            for name, near in neighbours.items()
        }
        name = min(cost, key=lambda one: (cost[one], place[one]))
        near = neighbours.pop(name)
        for one, other in combinations(near, 2):
            neighbours[one].add(other)
            neighbours[other].add(one)
        for one in near:
            neighbours[one].discard(name)
        eliminated.append(tuple(sorted({name, *near}, key=place.__getitem__)))
    largest = [
        clique
        for number, clique in enumerate(eliminated)
        if not any(set(clique) <= set(other) for other in eliminated[:number])
    ]
    return _in_tree_order(largest, tables)


def _in_tree_order(cliques: Sequence[Names], tables: GramTables) -> list[Names]:
    """Return cliques so that each one's separator is inside an earlier one: the one that has most in common is next (Prim).

    The largest comes first. It is drawn as a whole, so its shares come out nearest.
    """
    left = sorted(cliques, key=lambda clique: -int(np.prod([tables.sizes[name] for name in clique], dtype=object)))
    found = [left.pop(0)]
    while left:
        common = [max(len(set(clique) & set(before)) for before in found) for clique in left]
        found.append(left.pop(common.index(max(common))))
    return found


def _calibrated(tables: GramTables, chosen: Sequence[Pair], potentials: dict[Names, Array]) -> TableModel:
    """Return the model of some potentials (logarithms of factors): messages up and down the tree of cliques, once each."""
    cliques = _cliques(chosen, tables)
    shapes = [tuple(tables.sizes[name] for name in clique) for clique in cliques]
    logs = [np.zeros(shape) for shape in shapes]
    for columns, values in potentials.items():
        home = next(place for place, clique in enumerate(cliques) if set(columns) <= set(clique))
        logs[home] = logs[home] + spread_over(values, columns, cliques[home], shapes[home])
    hang = separators(cliques)
    sent: dict[int, Array] = {}
    for place in reversed(range(len(cliques))):
        holder, common = hang[place]
        if holder >= 0:
            sent[place] = _log_sums(logs[place], cliques[place], common)
            logs[holder] = logs[holder] + spread_over(sent[place], common, cliques[holder], shapes[holder])
    for place, (holder, common) in enumerate(hang):
        if holder >= 0:
            received = _log_sums(logs[holder], cliques[holder], common) - sent[place]
            logs[place] = logs[place] + spread_over(received, common, cliques[place], shapes[place])
    shares = tuple(np.exp(log - logsumexp(log)) for log in logs)
    return TableModel(tables.columns, tuple(tables.sizes.values()), tuple(cliques), shares)


def _log_sums(log: Array, columns: Names, onto: Names) -> Array:
    kept = logsumexp(log, axis=tuple(axis for axis, name in enumerate(columns) if name not in onto))
    ordered = [name for name in columns if name in onto]
    return np.transpose(kept, [ordered.index(name) for name in onto])


def table_metrics(model: TableModel, moments: Moments, level: float) -> EvaluationResult:
    """Return column shapes and pair trends of a model, each with an interval that covers them for the people measured."""
    single, double = differences(model, GramTables(moments))
    reach = interval_reach(level, among=2)  # the score's interval needs both of them
    shapes, by_column = held_out_distance(single, reach, "column_shapes")
    trends, by_pair = held_out_distance(double, reach, "pair_trends")
    middle, low, high = ((getattr(shapes, one) + getattr(trends, one)) / 2 for one in ("value", "low", "high"))
    pairs = pd.MultiIndex.from_tuples(list(by_pair), names=["column", "other"])
    tables = {
        "column shapes": pd.DataFrame({"column shape": {name: 1 - apart for name, apart in by_column.items()}}),
        "pair trends": pd.DataFrame({"pair trend": [1 - apart for apart in by_pair.values()]}, index=pairs),
    }
    return EvaluationResult((Metric("score", middle, low, high), shapes, trends), tables)
