"""The paper's sets in [−1, 1]^d, and how their columns are dealt out to parties.

The paper is Private vertical clustering (docs/references.md#clustering). Its Taxi and Loan cannot be had; flights and credit
cards have as many columns.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from benchmarks.frame import data_file
from sklearn.cluster import KMeans

import colonnade as cn

SEED, CLUSTERS = 20_230_101, 5


class Points(NamedTuple):
    """A set in [−1, 1]^d and what its groups are compared with."""

    values: np.ndarray
    groups: np.ndarray


def mixture(spread: float = 0.15, people: int = 20_000) -> Points:
    """Five Gaussians in eight columns."""
    rng = np.random.default_rng(SEED)
    centres = rng.uniform(-0.8, 0.8, (CLUSTERS, 8))
    groups = rng.integers(CLUSTERS, size=people)
    return Points(np.clip(centres[groups] + spread * rng.standard_normal((people, 8)), -1, 1), groups)


def letter() -> Points:
    """Letter: 16 columns of whole numbers from 0 to 15."""
    return _compared(pd.read_parquet(data_file("letter")).drop(columns="lettr").to_numpy(float) / 7.5 - 1)


def flights() -> Points:
    """Eight numbers of 100,000 flights from New York, in the place of the paper's Taxi."""
    names = ["sched_dep_time", "dep_delay", "sched_arr_time", "arr_delay", "air_time", "distance", "month", "day"]
    frame = pd.read_parquet(data_file("nycflights13_flights"))[names].dropna()
    return _ranged(frame.sample(100_000, random_state=SEED), 0.99)


def credit() -> Points:
    """16 numbers of 30,000 holders of credit cards, clipped at their 95th percentiles, in the place of the paper's Loan."""
    frame = pd.read_parquet(data_file("credit_card_default"))
    bills = [f"{kind}{month}" for kind in ("BILL_AMT", "PAY_AMT") for month in range(1, 7)]
    return _ranged(frame[["LIMIT_BAL", "AGE", "PAY_0", "PAY_2", *bills]], 0.95)


LOADERS = {"mixture": mixture, "letter": letter, "flights": flights, "credit": credit}


@cache
def load(name: str) -> Points:
    """Return a set by its name."""
    return LOADERS[name]()


def _ranged(frame: pd.DataFrame, quantile: float) -> Points:
    values = frame.to_numpy(float)
    low, high = values.min(axis=0), np.quantile(values, quantile, axis=0)
    return _compared(2 * (np.clip(values, low, high) - low) / np.maximum(high - low, 1e-12) - 1)


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
