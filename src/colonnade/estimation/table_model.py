"""A model of a whole table: tables of overlapping groups of columns, and rows drawn from them.

The groups (*cliques*) form a tree. What a clique has in common with all earlier ones is in one of them, its *separator*. Given
the separator, its other columns do not depend on the rest. So rows are drawn clique by clique, and the table of any two columns
follows by carrying one column along the tree. Reading, drawing and saving a model need no other library.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput

__all__ = ["TableModel", "Uniforms", "separators", "spread_over", "summed_onto"]

Array = NDArray[np.float64]
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
