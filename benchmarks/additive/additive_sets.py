"""The data sets of the additive benchmark: those of the Newton benchmark, read in public bins of equal width."""

import sys
from pathlib import Path

import numpy as np

import colonnade as cn
from colonnade.coding.encoders import encoded
from colonnade.schema import Bins

sys.path.insert(0, str(Path(__file__).parents[1] / "newton"))

from newton_sets import SETS, Joined

__all__ = ["SETS", "Joined", "binned"]


class Binned(Joined):
    """The same people with every number in a bin."""

    @property
    def rows(self) -> np.ndarray:
        """Indicators of bins and levels, the constant first."""
        if "_rows" not in self.__dict__:
            blocks = [np.ones((len(self.frame), 1))]
            for name, column in self.explaining.items():
                codes = encoded(self.frame[name], name, column)
                blocks.append((codes[:, None] == np.arange(column.size)).astype(float))
            self.__dict__["_rows"] = np.hstack(blocks)
        return self.__dict__["_rows"]

    def some(self, people: np.ndarray) -> "Binned":
        """Return some of the people."""
        return Binned(self.name, self.frame.iloc[people], self.columns, self.target)


def binned(data: Joined, bins: int = 16) -> Binned:
    """Return the same people with every number read in bins of equal width."""
    columns = {
        name: column if isinstance(column, cn.Category) else Bins.equal(column, bins)
        for name, column in data.columns.items()
    }
    return Binned(data.name, data.frame, columns, data.target)
