"""Rows in a Dask dataframe, as a source: partitions are computed by a party's own workers and read one after another.

An alignment refers to rows by number, so partitions have to come with the same rows in the same order every time they are
computed. How many rows each has is asked once; a partition that has another number later is refused. Of what is coded a hash
is kept (`colonnade.party.table.dask_table`).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from colonnade.coding.cells import pandas_kind, pandas_reader
from colonnade.errors import BadInput
from colonnade.party.table.dask_cluster import Cluster, Sealed, is_dask_frame

__all__ = ["DaskRows", "partition_changed", "with_cluster"]

Result = TypeVar("Result")


class DaskRows:
    """What a Dask dataframe holds, in blocks of rows that always come in the same order.

    Parameters
    ----------
    frame
        The dataframe.
    cluster
        Whose workers compute it; by default those of the client that is current.
    """

    label = "The Dask dataframe"

    def __init__(self, frame: Any, cluster: Cluster | None = None) -> None:
        self.frame = frame
        self.cluster = Cluster.of(None) if cluster is None else cluster
        self._lengths: list[int] | None = None

    @property
    def names(self) -> list[str]:
        """The names of its columns, as often as they occur."""
        return [name for name in self.frame.columns if isinstance(name, str)]

    @property
    def rows(self) -> int | None:
        """How many rows there are, once they were counted."""
        return None if self._lengths is None else sum(self._lengths)

    @property
    def lengths(self) -> list[int]:
        """How many rows each partition has."""
        if self._lengths is None:
            self._lengths = self.cluster.lengths(self.frame)
        return self._lengths

    def kind(self, name: str, *, look: bool) -> Any:
        """Return the Arrow type of a column; ``None`` for Python objects, which are text of no declared type."""
        declared = self.frame._meta[name]  # noqa: SLF001  # what Dask declares about a column, without a row
        if look and declared.dtype == object:
            parts = [pandas_kind(part[name], look=True) for part in self.cluster.read(self.frame, [name])]
            return None if None in parts else pa.large_string()
        return pandas_kind(declared, look=False)

    def batches(self, columns: list[str], rows: int) -> Iterator[Any]:
        """Read some columns in row order."""
        for part, length in zip(self.cluster.read(self.frame, columns), self.lengths, strict=True):
            if len(part) != length:
                raise partition_changed()
            readers = [pandas_reader(part[name]) for name in columns]
            for start in range(0, length, rows):
                yield pa.record_batch([read(start, start + rows) for read in readers], names=columns)

    def each(self, part: Callable[[Any], Result], columns: list[str]) -> Iterator[Result]:
        """Yield what a function makes of some columns of each partition, in order; workers call it."""
        return self.cluster.of_partitions(Sealed.of(part), self.frame, columns)


def partition_changed() -> BadInput:
    """Return what is wrong with a partition that has other rows than before."""
    return BadInput(
        "A partition of the data source has other rows than when it was first read.",
        remedy="Make the party from data that do not change, such as files, and align again.",
    )


def with_cluster(data: Any, dask: Any) -> tuple[Any, Cluster | None]:
    """Return a party's data with its Dask dataframes bound to a cluster, and that cluster; ``None`` where none is needed.

    Parameters
    ----------
    data
        What a party was given.
    dask
        A ``distributed.Client`` or a `Cluster`; ``None`` for the current client, where a Dask dataframe is among the data, and
        for no cluster elsewhere.
    """
    pieces: Sequence[Any] = data if isinstance(data, list | tuple) else [data]
    if dask is None and not any(is_dask_frame(one) for one in pieces):
        return data, None
    cluster = Cluster.of(dask)
    return [DaskRows(one, cluster) if is_dask_frame(one) else one for one in pieces], cluster
