"""The rows that a private local clustering asks its questions of."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.party.steps.coding import coded_rows
from colonnade.party.table.private_table import PrivateTable
from colonnade.steps.centres import Centres, CodedBlock

__all__ = ["PrivateCentres", "block_rows"]

BLOCK = 65_536


class PrivateCentres(Centres):
    """Centres of the rows."""

    def prepare(self, table: PrivateTable) -> None:
        """Read what `compute` will need, before anything is paid."""
        table.present(self.columns)

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Return everybody's row; the law asks its questions of them."""
        nonprivate = np.empty((self.people, self.block.coding.width + 1), dtype=np.int16)
        for start in range(0, self.people, BLOCK):
            stop = min(start + BLOCK, self.people)
            nonprivate[start:stop] = block_rows(self.block, table, start, stop)
        return nonprivate


def block_rows(block: CodedBlock, table: PrivateTable, start: int, stop: int) -> NDArray[np.int16]:
    """Return some people's rows: 1 or 0 for whether there is a record, then the coded columns."""
    nonprivate = np.empty((stop - start, block.coding.width + 1), dtype=np.int16)
    nonprivate[:, 0] = table.present(block.columns)[start:stop]
    nonprivate[:, 1:] = coded_rows(block.coding, table, start, stop).T
    return nonprivate
