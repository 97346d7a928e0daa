"""One party's rows as a coreset sees them: coded columns, and a score for every row (paper 004, Algorithms 2 and 3).

Numbers are mapped from their bounds to [−1, 1] and categories to indicators, as everywhere; nothing is rounded, because nothing
here is noised. Scores of a block are the same in every step of a study and in every later draw of it, so the last ones are kept
in memory with the table.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.features import coded_block
from colonnade.errors import BadInput, PlanMismatch
from colonnade.party.steps.cluster_scores import local_clusters
from colonnade.party.steps.leverage import leverage_scores
from colonnade.party.table.private_table import PrivateTable
from colonnade.plan import Plan, Step
from colonnade.schema import Numeric, Schema

__all__ = ["CORESET", "LARGEST_SIZE", "ScoredRows"]

Array = NDArray[np.float64]
BLOCK = 8_192
LARGEST_SIZE = 10_000_000
LARGEST_CLUSTERS = 4_096

CORESET = frozenset({"task", "size", "clusters", "seed", "target"})
"""What every step of a coreset study says."""

_SCORES: "WeakKeyDictionary[PrivateTable, tuple[tuple[Any, ...], Array]]" = WeakKeyDictionary()


class ScoredRows:
    """A party's columns in a coreset study, made from its step and public facts.

    Parameters
    ----------
    plan, step, schema
        The step's ``task`` is ``"regression"``, ``"kmeans"`` or ``"uniform"``; ``target`` names the explained column where this
        party holds it.
    """

    def __init__(self, plan: Plan, step: Step, schema: Schema) -> None:
        parameters = step.parameters
        self.task = _task(parameters.get("task"))
        self.size = _whole(parameters.get("size"), 1, min(LARGEST_SIZE, plan.people))
        self.clusters = _whole(parameters.get("clusters", 1), 1, LARGEST_CLUSTERS)
        self.seed = _whole(parameters.get("seed", 0), 0, 2**31 - 1)
        self.target = parameters.get("target")
        if self.target is not None and self.target not in step.columns:
            raise PlanMismatch("The target is not among the columns of its party's step.")
        self.people = plan.people
        self.columns = step.columns
        self._schema = schema

    @property
    def features(self) -> tuple[str, ...]:
        """The columns that explain: all but the target."""
        return tuple(name for name in self.columns if name != self.target)

    def coded(self, table: PrivateTable, columns: Sequence[str], rows: slice | NDArray[Any]) -> Array:
        """Return some people's coded columns, a column along each row of the result."""
        parts = []
        for name in columns:
            column = self._schema[name]
            cells = table.values(name) if isinstance(column, Numeric) else table.codes(name)
            parts.append(coded_block(cells[rows], column))
        if not parts:
            width = len(range(*rows.indices(self.people))) if isinstance(rows, slice) else len(rows)
            return np.empty((0, width))
        return np.concatenate(parts)

    def scores(self, table: PrivateTable) -> Array:
        """Return every row's score: 1/people or more."""
        if self.task == "uniform":
            return np.full(self.people, 1.0 / self.people)
        key = (self.columns, self.task, self.clusters, self.seed, self.target)
        kept = _SCORES.get(table)
        if kept is None or kept[0] != key:
            kept = (key, self._computed(table))
            _SCORES[table] = kept
        return kept[1]

    def largest_score(self) -> float:
        """Return what no row's score exceeds."""
        return {"uniform": 1.0, "regression": 2.0, "kmeans": 4.0}[self.task]

    def _computed(self, table: PrivateTable) -> Array:
        if self.task == "kmeans":
            return local_clusters(lambda: self._blocks(table), self.people, self.clusters, self.seed).scores()
        found = leverage_scores(lambda: self._blocks(table), self.people)
        return np.asarray(found.nonprivate_scores + 1.0 / self.people)

    def _blocks(self, table: PrivateTable) -> Iterator[Array]:
        """Yield the block: for a regression the constant column in front, and the target where it is held."""
        table.load(self.columns)
        for start in range(0, self.people, BLOCK):
            stop = min(start + BLOCK, self.people)
            coded = self.coded(table, self.columns, slice(start, stop))
            if self.task == "regression":
                coded = np.concatenate([np.ones((1, stop - start)), coded])
            yield coded


def _task(value: object) -> Literal["regression", "kmeans", "uniform"]:
    if value not in ("regression", "kmeans", "uniform"):
        raise BadInput("A coreset is for a regression, for k-means, or uniform.")
    return value


def _whole(value: object, least: int, largest: int) -> int:
    if type(value) is not int or not least <= value <= largest:
        raise BadInput("A step of a coreset has a parameter out of its range.")
    return value
