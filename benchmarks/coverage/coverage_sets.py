"""Public tables dealt to four parties by one rule, and their coded rows.

Bounds of a number are its smallest and largest value, rounded outwards to two digits of their distance. Levels are those that
occur. Columns keep their order; the target is the last of the last party.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from benchmarks.frame import data_file

import colonnade as cn
from colonnade.schema import ColumnName, coded_block, features_of

PARTIES = ("first", "second", "third", "fourth")
PERSON = "person"


@dataclass(frozen=True)
class Dealt:
    """A table that four parties hold, and the column to explain."""

    name: str
    frame: pd.DataFrame
    columns: dict[str, cn.Numeric | cn.Category]
    target: str

    @property
    def features(self):
        return features_of(self.columns)

    def coded(self) -> np.ndarray:
        """Return the coded rows, a constant column in front."""
        blocks = [np.ones((1, len(self.frame)))]
        for name, column in self.columns.items():
            values = self.frame[name]
            cells = (
                pd.Categorical(values, column.levels).codes
                if isinstance(column, cn.Category)
                else values.to_numpy(float)
            )
            blocks.append(np.atleast_2d(coded_block(np.asarray(cells), column)))
        return np.vstack(blocks).T

    def federation(self) -> cn.Federation:
        parties = {}
        for party in PARTIES:
            own = {ColumnName.of(name).column: name for name in self.columns if ColumnName.of(name).party == party}
            table = (
                self.frame[list(own.values())].set_axis(list(own), axis=1).assign(**{PERSON: range(len(self.frame))})
            )
            parties[party] = cn.Party(table, schema=cn.Schema({one: self.columns[name] for one, name in own.items()}))
        return cn.Federation.simulate(parties, id=PERSON, budget=cn.Budget(epsilon=9_000.0, delta=1e-3))

    def sample(self, rows: np.ndarray) -> "Dealt":
        return Dealt(self.name, self.frame.iloc[rows].reset_index(drop=True), self.columns, self.target)


def deal(name: str, frame: pd.DataFrame, target: str) -> Dealt:
    """Deal a table's columns to four parties."""
    frame = frame.dropna().reset_index(drop=True)
    order = [*(column for column in frame.columns if column != target), target]
    columns, parts = {}, {}
    for place, column in enumerate(order):
        named, values = f"{PARTIES[place * len(PARTIES) // len(order)]}.{column}", frame[column]
        if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
            columns[named] = cn.Numeric(*_rounded(float(values.min()), float(values.max())))
            parts[named] = values.astype(float)
        else:
            parts[named] = values.astype(str)
            columns[named] = cn.Category(tuple(sorted(parts[named].unique())))
    return Dealt(name, pd.DataFrame(parts), columns, next(one for one in columns if one.endswith(f".{target}")))


def _rounded(low: float, high: float) -> tuple[float, float]:
    unit = 10.0 ** math.floor(math.log10(high - low) - 1)
    return math.floor(low / unit) * unit, math.ceil(high / unit) * unit


def _credit() -> pd.DataFrame:
    classes = ["SEX", "EDUCATION", "MARRIAGE", "default.payment.next.month"]
    frame = pd.read_parquet(data_file("credit_card_default")).drop(columns="ID")
    frame = frame.astype(dict.fromkeys(classes, int)).astype(dict.fromkeys(classes, str))
    return frame.rename(columns={"default.payment.next.month": "default"})


def _table(file: str, *dropped: str) -> Callable[[], pd.DataFrame]:
    return lambda: pd.read_parquet(data_file(file)).drop(columns=list(dropped))


PUBLIC: dict[str, tuple[Callable[[], pd.DataFrame], str]] = {
    "California": (_table("california_housing"), "median_house_value"),
    "KC House": (_table("kc_house", "id", "date", "zipcode"), "price"),
    "Diamonds": (_table("diamonds"), "price"),
    "Credit card default": (_credit, "LIMIT_BAL"),
    "Adult": (_table("adult", "split", "fnlwgt", "education-num"), "hours-per-week"),
    "Bank marketing": (_table("bank_marketing"), "balance"),
}


def public_set(name: str) -> Dealt:
    """Return a public table, dealt."""
    read, target = PUBLIC[name]
    return deal(name, read(), target)


def simulated(rng: np.random.Generator, people: int) -> tuple[Dealt, np.ndarray]:
    """Return people drawn from a linear model with correlated columns, and its slopes in own units."""
    slopes = np.array([3.0, -2.0, 0.0, 1.0, 0.5, -0.3, 0.0])
    shared = rng.normal(size=(people, 2))
    values = np.clip(rng.normal(size=(people, 7)) + shared @ rng.normal(size=(2, 7)), -4, 4)
    target = np.clip(values @ slopes + rng.normal(0, 4.0, people), -40, 40)
    frame = pd.DataFrame(values, columns=[f"x{place}" for place in range(7)]).assign(y=target)
    columns, parts = {}, {}
    for place, name in enumerate(frame.columns):
        named = f"{PARTIES[place * len(PARTIES) // 8]}.{name}"
        columns[named] = cn.Numeric(-40, 40) if name == "y" else cn.Numeric(-4, 4)
        parts[named] = frame[name]
    return Dealt("Simulated", pd.DataFrame(parts), columns, next(one for one in columns if one.endswith(".y"))), slopes
