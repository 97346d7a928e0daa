"""The paper's sets in [−1, 1]^d, and how their columns are dealt out to parties.

The paper is Private vertical clustering (docs/references.md#clustering).
"""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans

import colonnade as cn

SEED, CLUSTERS = 20_230_101, 5


class Points(NamedTuple):
    """A set in [−1, 1]^d and what its groups are compared with."""

    values: np.ndarray
    groups: np.ndarray


def data_folder() -> Path:
    return Path(os.environ.get("COLONNADE_DATA", Path(__file__).parents[3] / "shared" / "data"))


def mixture(spread: float = 0.15, people: int = 20_000) -> Points:
    rng = np.random.default_rng(SEED)
    centres = rng.uniform(-0.8, 0.8, (CLUSTERS, 8))
    groups = rng.integers(CLUSTERS, size=people)
    return Points(np.clip(centres[groups] + spread * rng.standard_normal((people, 8)), -1, 1), groups)


def letter() -> Points | None:
    frame = _read("letter.parquet")
    return None if frame is None else _compared(frame.drop(columns="lettr").to_numpy(float) / 7.5 - 1)


def taxi() -> Points | None:
    """Where somebody has put ``taxi.parquet`` (eight numeric columns of the New York trips) into the data folder."""
    return _ranged("taxi.parquet", 100_000, 1.0)


def loan() -> Points | None:
    """Where somebody has put ``loan.parquet`` (16 numeric columns of Home Credit) into the data folder; clipped as they do."""
    return _ranged("loan.parquet", 60_000, 0.95)


SETS = {"mixture": mixture, "letter": letter, "taxi": taxi, "loan": loan}


def _ranged(name: str, people: int, quantile: float) -> Points | None:
    frame = _read(name)
    if frame is None:
        return None
    values = frame.select_dtypes("number").dropna().head(people).to_numpy(float)
    low, high = values.min(axis=0), np.quantile(values, quantile, axis=0)
    return _compared(2 * (np.clip(values, low, high) - low) / np.maximum(high - low, 1e-12) - 1)


def _read(name: str) -> pd.DataFrame | None:
    file = data_folder() / name
    return pd.read_parquet(file) if file.exists() else None


def _compared(values: np.ndarray) -> Points:
    return Points(values, KMeans(CLUSTERS, n_init=10, random_state=0).fit(values).labels_)


# Parties --------------------------------------------------------------------------------------------------------------------


def in_turn(columns: int, parties: int) -> list[list[int]]:
    """Column j at party j mod S: neighbouring columns, which are correlated in Letter, lie at different parties."""
    return [list(range(party, columns, parties)) for party in range(parties)]


def uneven(columns: int, first: int) -> list[list[int]]:
    """Two parties, the first with so many columns."""
    return [list(range(first)), list(range(first, columns))]


def a_federation(points: Points, owned: list[list[int]]) -> cn.Federation:
    sites = {}
    for number, block in enumerate(owned):
        frame = pd.DataFrame({f"x{column}": points.values[:, column] for column in block})
        schema = cn.Schema({name: cn.Numeric(-1, 1) for name in frame.columns})
        sites[f"party{number + 1}"] = cn.Party(frame.assign(id=np.arange(len(frame))), schema=schema)
    return cn.Federation.simulate(sites, id="id", budget=cn.Budget(epsilon=10_000.0, delta=0.1))


def in_order(centres: np.ndarray, owned: list[list[int]]) -> np.ndarray:
    """Put columns that are listed by party back into the order of the set."""
    restored = np.empty_like(centres)
    restored[:, [column for block in owned for column in block]] = centres
    return restored
