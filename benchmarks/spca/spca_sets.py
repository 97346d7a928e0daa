"""The data sets of the benchmark, as parties would describe and code them."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial

import numpy as np
import pandas as pd
from benchmarks.frame import data_file
from benchmarks.frame.public import adult, nsl_kdd
from scipy.linalg import eigh

import colonnade as cn
from colonnade.party.table.private_table import PrivateTable, coded_rows
from colonnade.party.table.sources import Source
from colonnade.schema import features_of
from colonnade.steps.kind import FixedPoint

DELTA = 1e-5
MOST_COLUMNS_RELEASED = 1_000
"""Beyond this many columns a release takes minutes, so that most figures are drawn by its law."""


def top(symmetric: np.ndarray, k: int) -> np.ndarray:
    """The k leading eigenvectors, as rows."""
    return eigh(symmetric, subset_by_index=[len(symmetric) - k, len(symmetric) - 1])[1].T


@dataclass(frozen=True)
class Problem:
    """A data set with its public description, and what to ask of it."""

    name: str
    stands_for: str
    frame: pd.DataFrame
    columns: Mapping[str, cn.Numeric | cn.Category]
    k: int
    epsilons: tuple[float, ...]
    squared_length: float | None = None  # of a whole coded row; by default nothing is clipped
    scale: int = 4_096
    labels: pd.Series | None = field(default=None, repr=False)

    @property
    def people(self) -> int:
        return len(self.frame)

    @cached_property
    def width(self) -> int:
        return len(features_of(self.columns)) - 1

    @property
    def row_bound(self) -> float:
        """R² in coded units, the constant column included."""
        return 1 + (len(self.columns) if self.squared_length is None else self.squared_length)

    def schemas(self, parties: int) -> dict[str, cn.Schema]:
        names = np.array_split(np.array(list(self.columns), dtype=object), parties)
        return {
            f"p{number}": cn.Schema({name: self.columns[name] for name in mine}) for number, mine in enumerate(names)
        }

    def row_norms(self, parties: int) -> dict[str, float] | None:
        if self.squared_length is None:
            return None
        return dict.fromkeys(self.schemas(parties), math.sqrt(self.squared_length / parties))

    def federation(self, parties: int) -> cn.Federation:
        held = {
            name: cn.Party(self.frame[["person", *schema]], schema=schema)
            for name, schema in self.schemas(parties).items()
        }
        return cn.Federation.simulate(held, id="person", budget=cn.Budget(epsilon=1e4, delta=DELTA))

    def rows(self, parties: int) -> np.ndarray:
        """The parties' integer rows, a column along each row of the result."""
        norms = self.row_norms(parties)
        blocks = []
        for name, schema in self.schemas(parties).items():
            bound = self.scale**2 * len(schema) if norms is None else int(self.scale**2 * norms[name] ** 2)
            coding = FixedPoint(tuple(schema), schema, scale=self.scale, row_bound=bound)
            table = PrivateTable(Source(self.frame[list(schema)]), schema)
            blocks.append(coded_rows(coding, table, 0, self.people))
        return np.concatenate(blocks)

    def plain(self, parties: int) -> np.ndarray:
        """Their Gram matrix, the constant column in front: what noise is added to."""
        rows = np.concatenate([np.full((1, self.people), float(self.scale)), self.rows(parties)])
        return rows @ rows.T

    @cached_property
    def true(self) -> np.ndarray:
        """The centred coded columns' products, nothing clipped."""
        gram = replace(self, squared_length=None).plain(1) / self.scale**2
        return gram[1:, 1:] - np.outer(gram[0, 1:], gram[0, 1:]) / self.people

    @cached_property
    def best(self) -> float:
        directions = top(self.true, self.k)
        return float(np.trace(directions @ self.true @ directions.T))

    def captured(self, components: np.ndarray) -> float:
        return float(np.trace(components @ self.true @ components.T)) / self.best


USUAL = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


@cache
def problem(name: str) -> Problem:
    """Return a data set by its name in tables."""
    return PROBLEMS[name]()


def _connections() -> Problem:
    data = nsl_kdd(data_file("nsl_kdd"))
    columns = {name: column for schema in data.schemas.values() for name, column in schema.items() if name != "attack"}
    return Problem("NSL-KDD", "KDDCUP", data.frame, columns, 5, USUAL, labels=data.frame["attack"] == "yes")


def _census() -> Problem:
    data = adult(data_file("adult"))
    columns = {name: column for schema in data.schemas.values() for name, column in schema.items()}
    return Problem("Adult", "ACSIncome (CA)", data.frame, columns, 5, USUAL)


def _citations() -> Problem:
    """Bags of words; an absent word is 0 and a present one 1, and a document has about 32 of them."""
    frame = pd.read_parquet(data_file("citeseer"))
    words = [name for name in frame if name.startswith("w")]
    return _numbered("CiteSeer", "CiteSeer", frame[words], 1.0, 40.0, (4.0, 16.0, 64.0))


def _genes(name: str, file: str, every: int) -> Problem:
    """Every so many probes of a microarray set, so that the matrix fits; intensities are clipped at ±8,192."""
    frame = pd.read_parquet(data_file(file)).select_dtypes("number").iloc[:, ::every]
    frame.columns = [f"g{number}" for number in range(frame.shape[1])]
    return _numbered(name, "Gene", frame, 8_192.0, 5.0, (16.0, 64.0, 256.0))


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "NSL-KDD": _connections,
    "Adult": _census,
    "CiteSeer": _citations,
    "Lung microarrays, every 16th probe": partial(_genes, "Lung microarrays", "gene_gordon", 16),
    "Sarcoma microarrays, every 32nd probe": partial(_genes, "Sarcoma microarrays", "gene_nakayama", 32),
}


def _numbered(
    name: str, stands_for: str, frame: pd.DataFrame, largest: float, squared_length: float, epsilons: tuple[float, ...]
) -> Problem:
    columns = dict.fromkeys(frame, cn.Numeric(-largest, largest))
    numbered = pd.concat([pd.Series(range(len(frame)), name="person"), frame.reset_index(drop=True)], axis=1)
    return Problem(name, stands_for, numbered, columns, 10, epsilons, squared_length)
