"""One party's columns in matrices of products: a Gram matrix, a regression's coefficients, the moments of a union."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from colonnade.party.steps.coding import coded_rows
from colonnade.party.steps.joint import OpensJointly
from colonnade.party.steps.own_products import folded_products
from colonnade.party.steps.partial_scores import bounded_scores
from colonnade.party.table.private_table import PrivateTable
from colonnade.privacy.laws import Sampler
from colonnade.steps.coefficients import Coefficients
from colonnade.steps.fixed_point import FixedPoint
from colonnade.steps.gram import Gram
from colonnade.steps.union import UnionCross, UnionOwn

__all__ = ["PrivateCoefficients", "PrivateGram", "PrivateUnionCross", "PrivateUnionOwn"]


class PrivateGram(OpensJointly, Gram):
    """One party's columns of a Gram matrix."""

    def rows(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return coded rows."""
        if isinstance(self.coding, FixedPoint):
            return coded_rows(self.coding, table, start, stop)
        return bounded_scores(self.coding, table, start, stop)

    def own(self, table: PrivateTable, sampler: Sampler) -> NDArray[np.int64]:
        """Return this party's own block with its column sums in front: variance V on the diagonal, V/2 elsewhere."""
        nonprivate = folded_products(partial(self.rows, table), self.people, self.width, self.coding.scale)
        upper = np.triu_indices(len(nonprivate))
        return (nonprivate[upper] + self.own_noise.draw_own(len(nonprivate), sampler))[1:]


class PrivateCoefficients(OpensJointly, Coefficients):
    """One party's columns in the objective of a regression."""

    def cross_noise(self, entries: int, sampler: Sampler) -> NDArray[np.int64]:
        """Return a Pólya share of Laplace noise per entry, of the scale that its block and its kind have."""
        return self.own_noise.draw_share(entries, sampler, self.cross.groups)

    def rows(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return coded rows."""
        return coded_rows(self.coding, table, start, stop)

    def own(self, table: PrivateTable, sampler: Sampler) -> NDArray[np.int64]:
        """Return this party's own coefficients, noised by it alone."""
        nonprivate = folded_products(partial(self.rows, table), self.people, self.width, self.coding.scale)
        chosen = nonprivate[self.entries.rows, self.entries.columns]
        return chosen + self.own_noise.draw_own(self.party, self.entries.slope, sampler)


class PrivateUnionCross(OpensJointly, UnionCross):
    """One party's columns and its indicator on a union of lists."""

    def rows(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return the indicator, of height γ, and coded rows."""
        held = table.held()[start:stop].astype(np.int64) * self.coding.scale
        return np.vstack([held[None, :], coded_rows(self.coding, table, start, stop)])


class PrivateUnionOwn(OpensJointly, UnionOwn):
    """One party's own products on a union of lists, or the indicator that they are multiplied by."""

    def rows(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return products of coded columns, or the indicator."""
        if self.own_noise.part != self.party:
            return table.held()[None, start:stop].astype(np.int64)
        coded = coded_rows(self.coding, table, start, stop)
        first, second = np.triu_indices(len(coded))
        return coded[first] * coded[second]
