"""Counts of one party's category, and the categories themselves, computed from its table."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.party.steps.centres import block_rows
from colonnade.party.table.private_table import PrivateTable
from colonnade.privacy.laws._clustering_cells import Nearest
from colonnade.privacy.randomness import KeyedRandomness
from colonnade.steps.categories import Combination, Membership
from colonnade.steps.counts import Histogram, Reports

__all__ = ["PrivateHistogram", "PrivateReports", "category_codes", "chosen", "prepare_category"]

BLOCK = 65_536
MISSING = -1


class PrivateHistogram(Histogram):
    """A histogram of the rows."""

    def prepare(self, table: PrivateTable) -> None:
        """Require whatever the category rests on, before anything is paid."""
        prepare_category(self.category, table)

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Count, without the missing."""
        nonprivate_codes = category_codes(self.category, table)
        return np.bincount(nonprivate_codes[nonprivate_codes >= 0], minlength=self.size).astype(np.int64)


class PrivateReports(Reports):
    """The categories that are reported."""

    @property
    def taking_part(self) -> NDArray[np.bool_] | None:
        """Who reports; ``None`` for everyone."""
        return None if self.sample == 1 else chosen(self.seed, self.sample, self.people)

    def prepare(self, table: PrivateTable) -> None:
        """Require whatever the category rests on, before anything is paid."""
        prepare_category(self.category, table)

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Return the category of each person who takes part; -1 where it is missing."""
        nonprivate_codes, some = self.everyone(table), self.taking_part
        return nonprivate_codes if some is None else nonprivate_codes[some]

    def everyone(self, table: PrivateTable) -> NDArray[Any]:
        """Return the category of every person in the table, chosen or not."""
        return category_codes(self.category, table)


def chosen(seed: bytes, rate: float, people: int) -> NDArray[np.bool_]:
    """Return who takes part: each person independently with probability ``rate``, by coins that all can recompute."""
    coins = KeyedRandomness(seed).words(people)
    return coins < np.uint64(int(rate * 2**64))


def prepare_category(category: Combination | Membership, table: PrivateTable) -> None:
    """Require the centres that memberships rest on, and read who has a record."""
    if isinstance(category, Membership):
        category.centres()
        table.present(category.columns)


def category_codes(
    category: Combination | Membership, table: PrivateTable, start: int = 0, stop: int | None = None
) -> NDArray[np.int32]:
    """Return people's categories, −1 where one is missing or a person has no record."""
    if isinstance(category, Combination):
        nonprivate_joint, _ = table.joint_codes(category.columns)
        return nonprivate_joint[start:stop]
    nearest, stop = Nearest(category.centres()), table.people if stop is None else stop
    nonprivate_codes = np.empty(stop - start, dtype=np.int32)
    for first in range(start, stop, BLOCK):
        rows = block_rows(category.source.block, table, first, min(first + BLOCK, stop))
        some = np.where(rows[:, 0] == 1, nearest.labels(rows), MISSING)
        nonprivate_codes[first - start : first - start + len(some)] = some
    return nonprivate_codes
