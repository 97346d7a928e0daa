"""What one party computes from its own rows alone: counts, reports, centres and memberships.

Where a party's rows are in several hands (Primitives, Appendix H), each shard perturbs its own people before it hands over.

Only statistics that take one value per person, perturbed by itself, can be released shard by shard: randomised reports and
values with noise. Coins are drawn person by person in the agreed order, in whichever shard the person is, so the release has
the same bytes as that of an undivided table with the same randomness. Everything else a party computes from all its rows
together.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from colonnade.party.steps.participants import LocalStep, PrivateStep
from colonnade.party.table.private_table import PrivateTable, coded_rows, partial_scores, whole_numbers
from colonnade.party.table.sources import BLOCK
from colonnade.privacy.laws import Mechanism, Sampler
from colonnade.privacy.laws.local_clustering import Nearest
from colonnade.privacy.randomness import KeyedRandomness
from colonnade.runtime.spilled_rows import SpilledRows
from colonnade.schema import Column, Schema, equal_bins, to_unit_range
from colonnade.schema.encoders import MISSING
from colonnade.steps import describing, local, spreads
from colonnade.steps.describing import CountedColumn
from colonnade.steps.local import CodedBlock, Combination, Membership


class PrivateHistogram(PrivateStep[local.HistogramStep]):
    """A histogram of the rows."""

    kinds = (local.HistogramStep,)

    def require_earlier(self) -> None:
        """Require the centres that memberships rest on."""
        require_centres(self.step.category)

    def prepare(self, table: PrivateTable) -> None:
        """Read who has a record, before anything is paid."""
        prepare_category(self.step.category, table)

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Count, without the missing."""
        return table.fold(np.zeros(self.step.size, dtype=np.int64), self._count)

    def _count(self, nonprivate: NDArray[np.int64], table: PrivateTable, start: int, stop: int) -> None:
        codes = category_codes(self.step.category, table, start, stop)
        nonprivate += np.bincount(codes[codes >= 0], minlength=self.step.size)


class PrivateReports(PrivateStep[local.Reports]):
    """The categories that are reported."""

    kinds = (local.Reports,)

    @property
    def taking_part(self) -> NDArray[np.bool_] | None:
        """Who reports; ``None`` for everyone."""
        return None if self.step.sample == 1 else chosen(self.step.seed, self.step.sample, self.step.people)

    def require_earlier(self) -> None:
        """Require the centres that memberships rest on."""
        require_centres(self.step.category)

    def prepare(self, table: PrivateTable) -> None:
        """Read who has a record, before anything is paid."""
        prepare_category(self.step.category, table)

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Return the category of each person who takes part; the last one, or −1, where there is none."""
        nonprivate_codes, some = self.everyone(table), self.taking_part
        return nonprivate_codes if some is None else nonprivate_codes[some]

    def everyone(self, table: PrivateTable) -> NDArray[Any]:
        """Return the category of every person in the table, chosen or not."""
        nonprivate_codes = category_codes(self.step.category, table)
        if self.step.cells > self.step.size:
            return np.where(nonprivate_codes < 0, np.int32(self.step.size), nonprivate_codes)
        return nonprivate_codes


def chosen(seed: bytes, rate: float, people: int) -> NDArray[np.bool_]:
    """Return who takes part: each person independently with probability ``rate``, by coins that all can recompute."""
    coins = KeyedRandomness(seed).words(people)
    return coins < np.uint64(int(rate * 2**64))


def require_centres(category: Combination | Membership) -> None:
    """Refuse memberships of centres that were not released."""
    if isinstance(category, Membership):
        category.centres()


def prepare_category(category: Combination | Membership, table: PrivateTable) -> None:
    """Read who has a record, where memberships are counted."""
    if isinstance(category, Membership):
        table.load_present(category.columns)


def category_codes(
    category: Combination | Membership, table: PrivateTable, start: int = 0, stop: int | None = None
) -> NDArray[np.int32]:
    """Return people's categories, −1 where one is missing or a person has no record."""
    if isinstance(category, Combination):
        nonprivate_joint, _ = table.joint_codes(category.columns, start, stop)
        return nonprivate_joint
    nearest, stop = Nearest(category.centres()), table.people if stop is None else stop
    nonprivate_codes = np.empty(stop - start, dtype=np.int32)
    for first in range(start, stop, BLOCK):
        rows = block_rows(category.source.block, table, first, min(first + BLOCK, stop))
        some = np.where(rows[:, 0] == 1, nearest.labels(rows), MISSING)
        nonprivate_codes[first - start : first - start + len(some)] = some
    return nonprivate_codes


class PrivateCentres(PrivateStep[local.Centres]):
    """Centres of the rows."""

    kinds = (local.Centres,)

    def prepare(self, table: PrivateTable) -> None:
        """Read what `compute` will need, before anything is paid."""
        table.load_present(self.step.columns)

    def compute(self, table: PrivateTable) -> SpilledRows:
        """Return everybody's row; the law asks its questions of them."""
        return table.written(self.step.block.coding.width + 1, np.int16, partial(block_rows, self.step.block))


def block_rows(block: CodedBlock, table: PrivateTable, start: int, stop: int) -> NDArray[np.int16]:
    """Return some people's rows: 1 or 0 for whether there is a record, then the coded columns."""
    nonprivate = np.empty((stop - start, block.coding.width + 1), dtype=np.int16)
    nonprivate[:, 0] = table.present(block.columns, start, stop)
    nonprivate[:, 1:] = coded_rows(block.coding, table, start, stop).T
    return nonprivate


class PrivateSquaredLength(PrivateStep[local.SquaredLength]):
    """The sum of squared lengths of the coded rows, with a linear term."""

    kinds = (local.SquaredLength,)

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Add up, exactly."""
        return table.fold(np.zeros(1, dtype=np.int64), self._add)

    def _add(self, nonprivate: NDArray[np.int64], table: PrivateTable, start: int, stop: int) -> None:
        lengths = partial_scores(self.step.scores, table, start, stop, 0) + self._squares(table, start, stop)
        nonprivate += whole_numbers(lengths, self.step.height, half=self.step.largest, scale=self.step.height).sum()

    def _squares(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.float64]:
        nonprivate = np.zeros(stop - start)
        for name in self.step.scores.columns:
            column = self.step.scores.schema[name]
            if column.is_number:
                nonprivate += to_unit_range(table.values(name, start, stop), column) ** 2
            else:
                nonprivate += table.codes(name, start, stop) >= 0
        return nonprivate


class PrivateSpreads(PrivateStep[spreads.Spreads]):
    """Sums and sums of squares of the rows' numbers."""

    kinds = (spreads.Spreads,)

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Add up, exactly."""
        return table.fold(np.zeros(2 * len(self.step.columns), dtype=np.int64), self._add)

    def _add(self, nonprivate: NDArray[np.int64], table: PrivateTable, start: int, stop: int) -> None:
        sums, squares = np.split(nonprivate, 2)
        for place, name in enumerate(self.step.columns):
            unit = to_unit_range(table.values(name, start, stop), self.step.schema[name])
            whole = whole_numbers(unit, spreads.HEIGHT, scale=spreads.HEIGHT)
            square = (whole / spreads.HEIGHT) ** 2  # of the integer: a bound has both sums at their largest, or neither
            sums[place] += whole.sum()
            squares[place] += whole_numbers(square, spreads.HEIGHT, least=0, scale=spreads.HEIGHT).sum()


@runtime_checkable
class _OneByOne(Protocol):
    """A statistic of one value per person."""

    taking_part: NDArray[np.bool_] | None

    def everyone(self, table: PrivateTable) -> NDArray[Any]: ...


@runtime_checkable
class _LocalRandomiser(Protocol):
    """A law that perturbs people one by one, with coins drawn before."""

    block: int

    def draw(self, people: int, sampler: Sampler) -> NDArray[Any]: ...

    def apply(self, nonprivate: NDArray[Any], coins: NDArray[Any], sampler: Sampler) -> NDArray[Any]: ...


def load(private: LocalStep, table: PrivateTable, columns: Sequence[str]) -> None:
    """Read the columns where they will be used; a source that cannot be read fails here."""
    for part in [part for _, part in table.shards()] if _by_shard(private, table) else [table]:
        part.load(columns)


def perturbed(private: LocalStep, law: Mechanism, table: PrivateTable, sampler: Sampler) -> NDArray[Any]:
    """Compute and perturb: shard by shard where rows are divided and the statistic allows it, else at once."""
    if isinstance(law, _LocalRandomiser) and _by_shard(private, table):
        return _shard_by_shard(private, law, table, sampler)
    nonprivate = private.compute(table)
    return law.release(nonprivate, sampler)


def _by_shard(private: LocalStep, table: PrivateTable) -> bool:
    return table.sharded and isinstance(private, _OneByOne)


def _shard_by_shard(private: Any, law: Any, table: PrivateTable, sampler: Sampler) -> NDArray[Any]:
    parts = [_taking_part(private, places, part) for places, part in table.shards()]
    people = sum(len(ranks) for ranks, _ in parts)
    released: NDArray[Any] | None = None
    for start in range(0, people, law.block):
        coins = law.draw(min(law.block, people - start), sampler)
        for ranks, nonprivate in parts:
            some = slice(*np.searchsorted(ranks, [start, start + len(coins)]))
            reports = law.apply(nonprivate[some], coins[ranks[some] - start], sampler)
            if released is None:
                released = np.empty((people, *reports.shape[1:]), dtype=reports.dtype)
            released[ranks[some]] = reports
    return law.release(np.empty(0, dtype=np.int64), sampler) if released is None else released


def _taking_part(private: Any, places: NDArray[np.int64], part: PrivateTable) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return a shard's values, and the rank of each of its people among all that take part."""
    nonprivate, some = private.everyone(part), private.taking_part
    if some is None:
        return places, nonprivate
    ranks = np.cumsum(some) - 1
    return ranks[places][some[places]], nonprivate[some[places]]


def _binned(table: PrivateTable, columns: dict[str, Column]) -> PrivateTable:
    """Return the table with numbers in bins; it reads each of these columns once more."""
    return table.read_as(Schema(table.schema).read_as(columns)) if columns else table


class PrivateColumnCounts(PrivateStep[describing.ColumnCounts]):
    """The counts of the rows."""

    kinds = (describing.ColumnCounts,)

    def _view(self, table: PrivateTable) -> PrivateTable:
        return _binned(table, {n: one.counted for n, one in self.step.counted.items() if one.counted.is_binned})

    def prepare(self, table: PrivateTable) -> None:
        """Read the columns in their bins, before anything is paid."""
        self._view(table).load(self.step.columns)

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Count groups, bins and missing values of every column."""
        sizes = [column.counted.size for column in self.step.counted.values()]
        cells = self._view(table).fold(np.zeros(sum(sizes), dtype=np.int64), self._count)
        parts = np.split(cells, np.cumsum(sizes)[:-1])
        return np.concatenate(
            [_grouped(part, one) for part, one in zip(parts, self.step.counted.values(), strict=True)]
        )

    def _count(self, nonprivate: NDArray[np.int64], view: PrivateTable, start: int, stop: int) -> None:
        first = 0
        for name, column in self.step.counted.items():
            codes, size = view.codes(name, start, stop), column.counted.size
            nonprivate[first : first + size] += np.bincount(codes[codes >= 0], minlength=size)
            first += size


def _grouped(nonprivate_cells: NDArray[np.int64], column: CountedColumn) -> NDArray[np.int64]:
    if not column.groups:
        return nonprivate_cells
    groups = np.add.reduceat(nonprivate_cells[: column.bins], np.arange(0, column.bins, column.group))
    return np.concatenate([groups, nonprivate_cells])


class PrivateQuantilePositions(PrivateStep[describing.QuantilePositions]):
    """Where the people of the rows stand."""

    kinds = (describing.QuantilePositions,)

    def _presence(self, table: PrivateTable) -> PrivateTable:
        bins = {n: equal_bins(one.column, 1, missing=one.column.fill is not None) for n, one in self.step.cells.items()}
        return _binned(table, bins)

    def prepare(self, table: PrivateTable) -> None:
        """Read who has a value, before anything is paid."""
        self._presence(table).load(self.step.columns)

    def compute(self, table: PrivateTable) -> SpilledRows:
        """Return everybody's cell in every column, −1 where there is no value."""
        return table.written(len(self.step.columns), np.int32, self._cells_block)

    def _cells_block(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int32]:
        nonprivate = np.empty((stop - start, len(self.step.columns)), dtype=np.int32)
        presence = self._presence(table)
        for place, (name, cells) in enumerate(self.step.cells.items()):
            there = presence.codes(name, start, stop) == 0  # the one bin; 1 is a missing value, −1 no record
            values = table.values(name, start, stop)
            whole = whole_numbers(values, cells.number - 1, least=0, middle=cells.first, half=cells.width)
            nonprivate[:, place] = np.where(there, whole, MISSING)
        return nonprivate
