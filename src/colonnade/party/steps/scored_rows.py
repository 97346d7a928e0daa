"""One party's rows as a coreset sees them: coded columns, and a score for every row (Coresets, Algorithms 2 and 3).

Numbers are mapped from their bounds to [−1, 1] and categories to indicators, as everywhere; nothing is rounded, because nothing
here is noised. Scores of a block are the same in every step of a study and in every later draw of it, so the last ones are kept
in memory with the table.
"""

from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.features import coded_block
from colonnade.party.steps.cluster_scores import local_clusters
from colonnade.party.steps.leverage import leverage_scores
from colonnade.party.table.private_table import PrivateTable
from colonnade.schema import Numeric
from colonnade.steps.coresets import CoresetTerms

__all__ = ["coded_columns", "row_scores"]

Array = NDArray[np.float64]
BLOCK = 8_192

_SCORES: "WeakKeyDictionary[PrivateTable, tuple[tuple[object, ...], Array]]" = WeakKeyDictionary()


def coded_columns(
    terms: CoresetTerms, table: PrivateTable, columns: Sequence[str], rows: slice | NDArray[Any]
) -> Array:
    """Return some people's coded columns, a column along each row of the result."""
    parts = []
    for name in columns:
        column = terms.schema[name]
        cells = table.values(name) if isinstance(column, Numeric) else table.codes(name)
        parts.append(coded_block(cells[rows], column))
    if not parts:
        width = len(range(*rows.indices(terms.people))) if isinstance(rows, slice) else len(rows)
        return np.empty((0, width))
    return np.concatenate(parts)


def row_scores(terms: CoresetTerms, table: PrivateTable) -> Array:
    """Return every row's score: 1/people or more."""
    if terms.task == "uniform":
        return np.full(terms.people, 1.0 / terms.people)
    key = (terms.columns, terms.task, terms.clusters, terms.seed, terms.target)
    kept = _SCORES.get(table)
    if kept is None or kept[0] != key:
        kept = (key, _computed(terms, table))
        _SCORES[table] = kept
    return kept[1]


def _computed(terms: CoresetTerms, table: PrivateTable) -> Array:
    if terms.task == "kmeans":
        return local_clusters(lambda: _blocks(terms, table), terms.people, terms.clusters, terms.seed).scores()
    found = leverage_scores(lambda: _blocks(terms, table), terms.people)
    return np.asarray(found.nonprivate_scores + 1.0 / terms.people)


def _blocks(terms: CoresetTerms, table: PrivateTable) -> Iterator[Array]:
    """Yield the block: for a regression the constant column in front, and the target where it is held."""
    table.load(terms.columns)
    for start in range(0, terms.people, BLOCK):
        stop = min(start + BLOCK, terms.people)
        coded = coded_columns(terms, table, terms.columns, slice(start, stop))
        if terms.task == "regression":
            coded = np.concatenate([np.ones((1, stop - start)), coded])
        yield coded
