"""The data sets of the additive benchmark: those of the Newton benchmark and three more, read in public bins of equal width."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import colonnade as cn
from colonnade.schema import Bins
from colonnade.schema.encoders import encoded

sys.path.insert(0, str(Path(__file__).parents[1] / "newton"))

import newton_sets
from newton_sets import Joined, data_folder, divided

__all__ = ["FILES", "SETS", "Joined", "binned"]

FLIGHTS = 50_000


def flights() -> Joined:
    """Flights from New York, of which some arrive more than a quarter of an hour late; 50,000 that did arrive."""
    frame = pd.read_parquet(data_folder() / "nycflights13_flights.parquet").dropna(subset=["arr_delay"])
    frame = frame.sample(FLIGHTS, random_state=1).reset_index(drop=True)
    frame["late"] = (frame["arr_delay"] > 15).map({False: "no", True: "yes"})
    kept = ["month", "day", "sched_dep_time", "sched_arr_time", "carrier", "origin", "dest", "distance", "late"]
    bounds = {"month": (1, 12), "day": (1, 31), "sched_dep_time": (0, 2_400), "sched_arr_time": (0, 2_400)}
    return divided("flights", frame[kept], {**bounds, "distance": (0, 5_000)}, "late", ("no", "yes"))


def diamonds() -> Joined:
    """Diamonds, of which some cost more than 4,000 dollars."""
    frame = pd.read_parquet(data_folder() / "diamonds.parquet")
    frame["dear"] = (frame.pop("price") > 4_000).map({False: "no", True: "yes"})
    bounds = {"carat": (0, 3), "depth": (55, 70), "table": (50, 70), "x": (3, 10), "y": (3, 10), "z": (1, 7)}
    return divided("diamonds", frame, bounds, "dear", ("no", "yes"))


def bank_additional() -> Joined:
    """Bank marketing with the state of the economy, without the length of the call."""
    frame = pd.read_parquet(data_folder() / "bank_marketing_additional.parquet").drop(columns=["duration"])
    frame.columns = [name.replace(".", "_") for name in frame.columns]
    bounds = {
        "age": (18, 95),
        "campaign": (1, 20),
        "pdays": (0, 1_000),
        "previous": (0, 10),
        "emp_var_rate": (-4, 2),
        "cons_price_idx": (92, 95),
        "cons_conf_idx": (-51, -26),
        "euribor3m": (0, 6),
        "nr_employed": (4_900, 5_300),
    }
    return divided("bank_additional", frame, bounds, "y", ("no", "yes"))


FILES = {
    "adult": "adult",
    "bank": "bank_marketing",
    "credit": "credit_card_default",
    "flights": "nycflights13_flights",
    "diamonds": "diamonds",
    "bank_additional": "bank_marketing_additional",
}
"""The file of each public set."""
SETS = {**newton_sets.SETS, "flights": flights, "diamonds": diamonds, "bank_additional": bank_additional}


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
