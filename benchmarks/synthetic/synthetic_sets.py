"""The data sets of this benchmark: public bounds, levels, the column to predict, and who of four parties holds what."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from benchmarks.frame import data_file

import colonnade as cn

PARTIES = 4
BINS = 16


@dataclass(frozen=True)
class DataSet:
    """A table with its public description.

    Parameters
    ----------
    name
        What it is called.
    rows
        The table.
    columns
        Its columns, described.
    target
        The column with two levels that a model is trained for.
    positive
        The level whose chance is predicted.
    """

    name: str
    rows: pd.DataFrame
    columns: dict[str, cn.Numeric | cn.Category]
    target: str
    positive: object

    def halves(self, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return four fifths of the rows to fit on, and the rest."""
        order = np.random.default_rng(seed).permutation(len(self.rows))
        cut = int(0.8 * len(order))
        return tuple(self.rows.iloc[part].reset_index(drop=True) for part in (order[:cut], order[cut:]))

    def owner(self) -> dict[str, str]:
        """Return who holds each column."""
        return {
            str(name): f"p{party}"
            for party, names in enumerate(np.array_split(np.array(list(self.columns)), PARTIES))
            for name in names
        }

    def federation(self, rows: pd.DataFrame) -> cn.Federation:
        """Return four parties in this process."""
        owner = self.owner()
        parties = {}
        for party in dict.fromkeys(owner.values()):
            names = [name for name in self.columns if owner[name] == party]
            table = rows[names].copy()
            table.insert(0, "id", np.arange(len(rows)))
            parties[party] = cn.Party(table, schema=cn.Schema({name: self.columns[name] for name in names}))
        return cn.Federation.simulate(parties, id="id", budget=cn.Budget(epsilon=1_000.0, delta=0.5))


def described(rows: pd.DataFrame, bounds: dict[str, tuple[float, float]]) -> dict[str, cn.Numeric | cn.Category]:
    """Describe numbers by given bounds, whole ones as such, and everything else by its levels."""
    found = {}
    for name in rows:
        if name in bounds:
            found[name] = cn.Numeric(*bounds[name], integer=bool((rows[name] % 1 == 0).all()))
        else:
            levels = sorted(rows[name].dropna().unique().tolist())
            found[name] = cn.Category(levels, missing="level" if rows[name].isna().any() else None)
    return found


def adult() -> DataSet:
    """Adult, 13 columns: without the sampling weight, and without the number that repeats ``education``."""
    rows = pd.read_parquet(data_file("adult")).drop(columns=["split", "fnlwgt", "education-num"])
    bounds = {"age": (17, 90), "capital-gain": (0, 20_000), "capital-loss": (0, 3_000), "hours-per-week": (0, 99)}
    return DataSet("adult", rows, described(rows, bounds), "income", ">50K")


def bank_marketing() -> DataSet:
    """Bank marketing, all 17 columns."""
    rows = pd.read_parquet(data_file("bank_marketing"))
    bounds = {
        "age": (18, 95),
        "balance": (-2_000, 20_000),
        "campaign": (1, 20),
        "day": (1, 31),
        "duration": (0, 2_000),
        "pdays": (-1, 400),
        "previous": (0, 20),
    }
    return DataSet("bank marketing", rows, described(rows, bounds), "y", "yes")


def credit_card_default() -> DataSet:
    """Credit card default, 24 columns."""
    rows = pd.read_parquet(data_file("credit_card_default")).drop(columns="ID")
    rows = rows.rename(columns={"default.payment.next.month": "default"})
    bounds = {"LIMIT_BAL": (0, 800_000), "AGE": (20, 80)}
    bounds |= {name: (-10_000, 400_000) for name in rows if name.startswith("BILL")}
    bounds |= {name: (0, 50_000) for name in rows if name.startswith("PAY_AMT")}
    return DataSet("credit card default", rows, described(rows, bounds), "default", 1)


SETS = {one.__name__: one for one in (adult, bank_marketing, credit_card_default)}
