"""The data sets of the additive benchmark: those of the Newton benchmark, read through public bins."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import colonnade as cn

sys.path.insert(0, str(Path(__file__).parents[1] / "newton"))

from newton_sets import SETS, Joined  # noqa: E402

__all__ = ["SETS", "Joined", "binned"]


def binned(data: Joined, bins: int = 16) -> tuple[Joined, dict[str, np.ndarray]]:
    """Return the same people with every number as the bin of equal width that it falls in, and the middles of the bins."""
    columns, parts, middles = {}, {}, {}
    for name, column in data.columns.items():
        if isinstance(column, cn.Category):
            columns[name], parts[name] = column, data.frame[name]
            continue
        edges = np.linspace(column.low, column.high, bins + 1)
        codes = np.clip(np.searchsorted(edges, data.frame[name], side="right") - 1, 0, bins - 1)
        levels = [f"bin {place}" for place in range(bins)]
        columns[name] = cn.Category(levels)
        parts[name] = pd.Series(np.array(levels, dtype=object)[codes], index=data.frame.index)
        middles[name] = (edges[1:] + edges[:-1]) / 2
    return Joined(data.name, pd.DataFrame(parts), columns, data.target), middles
