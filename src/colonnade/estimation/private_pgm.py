"""A model of a whole table from noisy tables of pairs: which pairs to use, and the fit.

The fit is Private-PGM (McKenna, Sheldon, Miklau, *Graphical-model based estimation and inference for differential privacy*,
2019; docs/references.md#private-pgm), by its author's library ``mbi``: the distribution over all columns that comes nearest
to the noisy tables, among those of a graph. Everything here is a function of the release alone, and costs nothing more.

*The graph.* Pairs are ordered by how far they are from independence, less what noise alone would give
(`NoisyTables.dependences`). First the spanning forest of largest score, then further pairs in that order while the cliques of the
triangulated graph together stay under a number of cells. Pairs that noise alone explains are left out: in the model the two
columns then depend on each other through others, or not at all.

``mbi`` brings ``jax``. Both are imported when a model is fitted, and never to read, draw from or save one. ``jax`` is told to
compute in double precision, for the whole process: the fit stalls without it.
"""

import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from colonnade.errors import BadInput
from colonnade.estimation.noisy_tables import NoisyTables, Pair
from colonnade.estimation.table_model import TableModel, separators, spread_over

__all__ = ["CELLS", "chosen_pairs", "fitted_model", "has_library", "require_library"]

Array = NDArray[np.float64]
Names = tuple[str, ...]

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


def fitted_model(tables: NoisyTables, cells: int = CELLS) -> TableModel:
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


def chosen_pairs(tables: NoisyTables, cells: int = CELLS) -> list[Pair]:
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


def _cells(pairs: Sequence[Pair], tables: NoisyTables) -> int:
    return sum(
        int(np.prod([tables.sizes[name] for name in clique], dtype=object)) for clique in _cliques(pairs, tables)
    )


def _cliques(pairs: Sequence[Pair], tables: NoisyTables) -> list[Names]:
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


def _in_tree_order(cliques: Sequence[Names], tables: NoisyTables) -> list[Names]:
    """Return cliques so that each one's separator is inside an earlier one: the one that has most in common is next (Prim).

    The largest comes first. It is drawn as a whole, so its shares come out nearest.
    """
    left = sorted(cliques, key=lambda clique: -int(np.prod([tables.sizes[name] for name in clique], dtype=object)))
    found = [left.pop(0)]
    while left:
        common = [max(len(set(clique) & set(before)) for before in found) for clique in left]
        found.append(left.pop(common.index(max(common))))
    return found


def _calibrated(tables: NoisyTables, chosen: Sequence[Pair], potentials: dict[Names, Array]) -> TableModel:
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
