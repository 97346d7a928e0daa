"""Pattern counts from secure pair tables: the Gram matrix of indicator columns (beyond paper 000; privacy.md §3.6).

Every pair of parties' categories gives a table whose noise is that of one count, whatever the number of people. Two parties: that
is the answer, without bias. More: the table of greatest entropy with these pair tables, which is a fit to pairs and not a count;
what three parties show together beyond their pairs is not in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from colonnade.coordinator.protocols.joint_opening import JointResult, open_jointly
from colonnade.coordinator.protocols.layout import Layout
from colonnade.coordinator.protocols.pattern_counts import CountTable
from colonnade.estimation.maximum_entropy import joint_errors, maximum_entropy
from colonnade.estimation.pair_tables import PairTables, consistent_tables, plausible_total
from colonnade.plan import Plan, Step
from colonnade.privacy.price import Price
from colonnade.protocol.rounds import Rounds
from colonnade.secure.products import entry_pairs
from colonnade.steps.pair_tables import PairTables as TablesStep

__all__ = ["PairCounts", "pair_tables_of"]

LARGEST_EXACT = 2_000
Array = NDArray[np.float64]


@dataclass(frozen=True)
class PairCounts:
    """All pair tables in one joint opening, and one table fitted to them.

    Parameters
    ----------
    layout
        Which columns, and where; two parties or more.
    price
        What the opening offers to pay: at δ = 0 discrete Laplace noise, otherwise discrete Gaussian.
    people
        m, public.
    """

    layout: Layout
    price: Price
    people: int

    def steps(self) -> tuple[Step, ...]:
        """Return one step a party: its part in the tables."""
        return tuple(
            TablesStep.ask(
                name="tables",
                party=group.party,
                columns=group.columns,
                parameters={"width": group.size},
                price=self.price,
            )
            for group in self.layout.groups
        )

    def rounds(self, plan: Plan) -> Rounds:
        """Open the tables, make them agree, fit."""
        opened = yield from open_jointly(plan, "tables")
        return self.combine(pair_tables_of(opened))

    def combine(self, tables: PairTables) -> CountTable:
        """Fit one table to all pairs; with two parties the pair table is the answer."""
        arrange = self.layout.arrange
        total = plausible_total(tables, self.people)
        agreed = consistent_tables(tables, total)
        if len(tables.sizes) == 2:
            raw = tables.tables[0, 1]
            spread = np.full(raw.shape, tables.variances[0, 1] ** 0.5)
            return CountTable(arrange(agreed.tables[0, 1]), arrange(raw), arrange(spread))
        joint = maximum_entropy(agreed, total)
        return CountTable(arrange(joint), arrange(joint), arrange(_fit_stderr(joint, agreed)))

    def variance(self, counts: Array, cell_variance: float) -> Array:
        """Return the variance of each count of the answer, if these are the true ones."""
        sizes = counts.shape
        pairs = list(combinations(range(counts.ndim), 2))
        tables = {pair: counts.sum(axis=tuple(a for a in range(counts.ndim) if a not in pair)) for pair in pairs}
        if len(sizes) == 2:
            return np.full(sizes, cell_variance)
        return _fit_stderr(counts, PairTables(sizes, tables, dict.fromkeys(pairs, cell_variance))) ** 2


def pair_tables_of(opened: JointResult) -> PairTables:
    """Cut the opened entries into one table a pair of parties."""
    widths = opened.joint.widths
    whole = np.zeros((sum(widths), sum(widths)))
    first, second = entry_pairs(widths)
    whole[first, second] = opened.cross
    starts = np.concatenate([[0], np.cumsum(widths)])
    variance = opened.joint.noise.opened_variance
    pairs = list(combinations(range(len(widths)), 2))
    tables: Mapping[tuple[int, int], Array] = {
        (a, b): whole[starts[a] : starts[a + 1], starts[b] : starts[b + 1]] for a, b in pairs
    }
    return PairTables(tuple(widths), tables, dict.fromkeys(pairs, variance))


def _fit_stderr(joint: Array, tables: PairTables) -> Array:
    """Return the standard error that the tables' noise gives each cell of the fit.

    For very large tables the relative errors of a cell's pair cells are added instead, as if they acted alike.
    """
    if sum(table.size for table in tables.tables.values()) <= LARGEST_EXACT:
        return joint_errors(joint, tables)
    return _relative_stderr(joint, tables)


def _relative_stderr(joint: Array, tables: PairTables) -> Array:
    squares = np.zeros(joint.shape)
    for pair, table in tables.tables.items():
        sigma = tables.variances[pair] ** 0.5
        relative = (sigma / np.maximum(table, sigma)) ** 2
        squares += np.expand_dims(relative, tuple(axis for axis in range(joint.ndim) if axis not in pair))
    return np.asarray(joint * np.sqrt(squares))
