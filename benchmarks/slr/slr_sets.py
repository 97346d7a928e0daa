"""The data sets of the gradient benchmark: Adult, and a user's own copy of ACSIncome."""

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.frame import data_file
from benchmarks.frame.public import PublicData, adult

import colonnade as cn
from colonnade.estimators.frames import design_matrix
from colonnade.schema import features_of

SEED = 2026
DELTA = 1e-5


@cache
def loaded(name: str) -> PublicData:
    """Adult, or ACSIncome where there is a copy (``acs_income.parquet``, with the survey's own names and codes)."""
    return adult(data_file("adult")) if name == "Adult" else _acs_income(data_file("acs_income"))


def _acs_income(path: Path) -> PublicData:
    frame = pd.read_parquet(path)
    frame = frame.assign(
        person=np.arange(len(frame)), OCCP=frame.OCCP // 100, rich=np.where(frame.PINCP > 50_000, "yes", "no")
    )
    whole = {
        name: cn.Category(list(range(low, high + 1)))
        for name, low, high in (
            ("COW", 1, 8),
            ("SCHL", 1, 24),
            ("MAR", 1, 5),
            ("OCCP", 0, 98),
            ("POBP", 1, 554),
            ("RELP", 0, 17),
            ("SEX", 1, 2),
            ("RAC1P", 1, 9),
        )
    }
    ages, hours = cn.Numeric(16, 99, integer=True), cn.Numeric(1, 99, integer=True)
    schemas = {
        "registry": cn.Schema(
            {"AGEP": ages, **{name: whole[name] for name in ("SEX", "RAC1P", "MAR", "RELP", "POBP")}}
        ),
        "school": cn.Schema({"SCHL": whole["SCHL"]}),
        "employer": cn.Schema({"WKHP": hours, "COW": whole["COW"], "OCCP": whole["OCCP"]}),
        "tax": cn.Schema({"rich": cn.Category(["no", "yes"])}),
    }
    return PublicData("ACSIncome", frame, schemas, "tax.rich")


def split(data: PublicData, run: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A public 80/20 split of the rows."""
    cut, order = int(0.8 * len(data.frame)), np.random.default_rng(SEED + run).permutation(len(data.frame))
    return data.frame.iloc[order[:cut]], data.frame.iloc[order[cut:]]


def federation(data: PublicData, frame: pd.DataFrame) -> cn.Federation:
    """The parties, with room for every run."""
    parties = {name: cn.Party(frame[["person", *schema]], schema=schema) for name, schema in data.schemas.items()}
    return cn.Federation.simulate(parties, id="person", budget=cn.Budget(epsilon=1e4, delta=DELTA))


def named(data: PublicData, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with the federation's column names."""
    return pd.DataFrame({f"{p}.{c}": frame[c] for p, schema in data.schemas.items() for c in schema})


class Matrix:
    """The same people as one matrix, for mechanisms that a trusted curator would run: coded columns, a constant, labels ±1."""

    def __init__(self, data: PublicData, frame: pd.DataFrame) -> None:
        columns = {f"{p}.{c}": column for p, schema in data.schemas.items() for c, column in schema.items()}
        target = columns.pop(data.target)
        features = features_of(columns)
        rows = design_matrix(named(data, frame), features[1:], columns, coded=True)
        self.rows = np.column_stack([np.ones(len(rows)), rows])
        self.labels = np.where(named(data, frame)[data.target] == target.levels[1], 1.0, -1.0)
        self.bound = len(columns) + 1  # squared length of a row, by the schema
        self.owners = np.array([data.target.partition(".")[0], *(f.name.partition(".")[0] for f in features[1:])])
        self.blocks = {party: len(schema) for party, schema in data.schemas.items()}

    def accuracy(self, weights: np.ndarray) -> float:
        """Return the share of people on the right side."""
        return float(np.mean((self.rows @ weights > 0) == (self.labels > 0)))
