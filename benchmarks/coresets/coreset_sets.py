"""The data sets of the coreset benchmark, as the parties code them, and federations over them."""

import os
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.frame import data_file

import colonnade as cn

REAL = "COLONNADE_YEARPREDICTION"
ROWS, TRAINING = 515_345, 463_715
TAIL = 5.0
"""Degrees of freedom of the synthetic rows: Mardia's kurtosis of the sample is 2.2 times the normal one, as at 5.7."""
SPREAD = 25.0
"""Declared bounds, in standard deviations of the public sample on either side of its mean."""


@dataclass(eq=False)
class Rows:
    """Rows with a target in the last column, coded to [-1, 1] by declared bounds; some of them held out for testing."""

    name: str
    coded: np.ndarray
    training: int
    halves: np.ndarray
    centres: np.ndarray

    @property
    def width(self) -> int:
        return self.coded.shape[1] - 1

    @cached_property
    def gram(self) -> np.ndarray:
        return _gram(self.coded[: self.training])

    @cached_property
    def test_gram(self) -> np.ndarray:
        return _gram(self.coded[self.training :] if self.training < len(self.coded) else self.coded)

    def loss(self, theta: np.ndarray, intercept: float, *, test: bool) -> float:
        """Mean squared residual in the target's own units."""
        gram = self.test_gram if test else self.gram
        ahead = np.concatenate([[intercept], theta, [-1.0]])
        return float(ahead @ gram @ ahead) / gram[0, 0] * self.halves[-1] ** 2

    def parties(self, count: int, *, target: bool) -> dict[str, list[int]]:
        """Columns of each party, as even as can be; the target goes to the last party."""
        parts = [list(part) for part in np.array_split(np.arange(self.width), count)]
        if target:
            parts[-1].append(self.width)
        return {f"party{number + 1}": part for number, part in enumerate(parts)}

    def federation(self, count: int, *, target: bool) -> cn.Federation:
        """Real gates, ledgers and codec; parties hold own units behind declared bounds."""
        rows = self.coded[: self.training] if target else self.coded
        ids = np.arange(len(rows))
        members = {}
        for party, places in self.parties(count, target=target).items():
            own = {f"c{place}": rows[:, place] * self.halves[place] + self.centres[place] for place in places}
            low, high = self.centres - self.halves, self.centres + self.halves
            schema = {f"c{place}": cn.Numeric(float(low[place]), float(high[place])) for place in places}
            members[party] = cn.Party(pd.DataFrame({"id": ids, **own}), schema=cn.Schema(schema))
        return cn.Federation.simulate(members, id="id", budget=cn.Budget(epsilon=1.0))


def _gram(rows: np.ndarray) -> np.ndarray:
    total = np.zeros((rows.shape[1] + 1, rows.shape[1] + 1))
    for start in range(0, len(rows), 65_536):
        block = np.c_[np.ones(len(rows[start : start + 65_536])), rows[start : start + 65_536]]
        total += block.T @ block
    return total


def _coded(name: str, rows: np.ndarray, centres: np.ndarray, spread: np.ndarray, training: int) -> Rows:
    halves = SPREAD * spread
    return Rows(name, np.clip((rows - centres) / halves, -1.0, 1.0), training, halves, centres)


@cache
def loaded(name: str) -> Rows:
    """Return KC House, or a user's own copy of YearPredictionMSD and otherwise the synthetic rows."""
    return houses() if name == "KC House" else real() or synthetic()


def synthetic(rows: int = ROWS, training: int = TRAINING) -> Rows:
    """Elliptical t rows with the mean and covariance, so the spectrum, of the public sample of YearPredictionMSD."""
    sample = pd.read_parquet(data_file("yearpredictionmsd_sample"))
    ordered = np.c_[sample.drop(columns="year").to_numpy(float), sample["year"].to_numpy(float)]
    centres, covariance = ordered.mean(axis=0), np.cov(ordered.T)
    draw = np.random.default_rng(4)
    root = np.linalg.cholesky(covariance)
    made = np.empty((rows, len(centres)))
    for start in range(0, rows, 65_536):
        block = made[start : start + 65_536]
        scale = np.sqrt((TAIL - 2) / draw.chisquare(TAIL, len(block)))
        block[:] = centres + scale[:, None] * (draw.normal(size=block.shape) @ root.T)
    return _coded("synthetic", made, centres, np.sqrt(np.diag(covariance)), training)


def real() -> Rows | None:
    """A user's own copy of YearPredictionMSD (the year first, then 90 features), named by an environment variable."""
    given = os.environ.get(REAL)
    if not given:
        return None
    path = Path(given)
    frame = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, header=None)
    values = frame.to_numpy(float)
    ordered = np.c_[values[:, 1:], values[:, 0]]
    training = TRAINING if len(ordered) == ROWS else int(0.9 * len(ordered))
    return _coded("YearPredictionMSD", ordered, ordered.mean(axis=0), ordered.std(axis=0), training)


def houses() -> Rows:
    """KC House: 18 features, with the post code, as in the paper; the price is the target."""
    frame = pd.read_parquet(data_file("kc_house")).drop(columns=["id", "date"])
    ordered = np.c_[frame.drop(columns="price").to_numpy(float), frame["price"].to_numpy(float)]
    return _coded("KC House", ordered, ordered.mean(axis=0), ordered.std(axis=0), len(ordered))
