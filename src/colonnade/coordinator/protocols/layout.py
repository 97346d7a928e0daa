"""How categories at several parties become one table: the columns of one party form one joint category.

Parties answer for all their columns together, so a table arrives with one axis per party. A user asked for one axis per column,
in an order of their own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.names import ColumnName, plain_names
from colonnade.coordinator.federation import Federation
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.schema import Category

__all__ = ["Group", "Layout", "layout"]

LARGEST_TABLE = 20_000_000


@dataclass(frozen=True)
class Group:
    """One party's columns in a table, and how many levels each has."""

    party: str
    columns: tuple[str, ...]
    sizes: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many joint levels the party's columns have."""
        return math.prod(self.sizes)


@dataclass(frozen=True)
class Layout:
    """The parties' groups, and where each group's columns stand in the user's order."""

    groups: tuple[Group, ...]
    columns: tuple[str, ...]

    @property
    def cells(self) -> int:
        """How many patterns there are."""
        return math.prod(group.size for group in self.groups)

    def arrange(self, table: NDArray[Any]) -> NDArray[Any]:
        """Turn a table with one axis per party into one with an axis per column, in the user's order."""
        stored = [str(ColumnName(group.party, column)) for group in self.groups for column in group.columns]
        split = np.reshape(table, tuple(chain.from_iterable(group.sizes for group in self.groups)))
        return np.transpose(split, [stored.index(name) for name in self.columns])


def layout(federation: Federation, columns: Sequence[str]) -> Layout:
    """Resolve the columns of a counting study; refuse numbers, repeats and tables that no machine could hold."""
    names = plain_names(columns)
    found: dict[str, list[tuple[str, int]]] = {}
    for name in names:
        party, own, description = federation.column(name)
        if not isinstance(description, Category):
            raise SchemaMismatch(f"Column {name!r} is numeric; counting needs categories.", remedy="Use cn.Category.")
        found.setdefault(party, []).append((own, description.size))
    parties = [party for party in federation.parties if party in found]
    groups = tuple(
        Group(party, tuple(own for own, _ in found[party]), tuple(size for _, size in found[party]))
        for party in parties
    )
    result = Layout(groups, tuple(names))
    if result.cells > LARGEST_TABLE:
        raise BadInput(f"The table would have more than {LARGEST_TABLE:,} cells.", remedy="Ask for fewer columns.")
    return result
