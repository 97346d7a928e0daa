"""Noisy counts of every column and of every pair of columns, read from one release of second moments.

For indicators of levels a Gram matrix *is* all pair tables: entry (i, j) counts the people who have level i of one column and
level j of another. A single level is counted by its sum, by its square on the diagonal, and by its row in every pair table.
Products of two levels of one column are 0 for everybody and carry nothing.

A row of m indicators has squared length m, for every person alike. So the noise of the release is that of the bound itself, and
nothing is lost by bounding (docs/proofs/gram.md).
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.estimation.moments import Moments

__all__ = ["MEAN_SIZE", "NoisyTables", "Pair"]

Array = NDArray[np.float64]
Pair = tuple[str, str]

MEAN_SIZE = math.sqrt(2 / math.pi)
"""E|x| of a Gaussian of deviation 1."""
STANDS_OUT = 2.0
CERTAIN = 5.0
"""How many standard errors a sum must be away from everybody before it is taken that some people are in no level."""


@dataclass(frozen=True, eq=False)
class NoisyTables:
    """All tables of one and of two columns, with their noise.

    Parameters
    ----------
    moments
        Moments whose columns are all coded as indicators of levels.

    Examples
    --------
    >>> from colonnade.coding.columns import features_of
    >>> from colonnade.schema import Category
    >>> columns = {"a.x": Category(["no", "yes"]), "b.y": Category(["no", "yes"])}
    >>> rows = np.array([[1, 1, 0, 1, 0]] * 3 + [[1, 0, 1, 0, 1]] * 2)
    >>> exact = Moments.of_release(rows.T @ rows, np.ones((5, 5)), 5, features_of(columns))
    >>> NoisyTables(exact).table("a.x", "b.y").tolist()
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
