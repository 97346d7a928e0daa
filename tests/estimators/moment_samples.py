"""Federations whose moments are known, and what the moments would be without noise."""

import hashlib
from collections.abc import Mapping

import numpy as np
import pandas as pd

import colonnade as cn
from colonnade.estimation.moments import Moments
from tests import kit
from tests.federations import SCHEMAS, frames, joined

PRICE = {"epsilon": 1.0, "delta": 1e-5}
GENEROUS = {"epsilon": 1_000.0, "delta": 1e-5}


def key(name: str) -> bytes | None:
    """The noise's key of one test: fixed on CI, none (hence fresh noise) on demand."""
    return None if kit.fresh() else hashlib.sha256(name.encode()).digest()


def federation(
    tables: Mapping[str, pd.DataFrame] | None = None,
    schemas: Mapping[str, cn.Schema] = SCHEMAS,
    *,
    name: str = "moments",
    **options,
) -> cn.Federation:
    """Bank, telco and insurer (or given tables), with room for many releases."""
    parties = {
        party: cn.Party(frame, schema=schemas[party])
        for party, frame in (frames() if tables is None else tables).items()
    }
    return cn.Federation.simulate(
        parties,
        **({"id": "person_id", "budget": cn.Budget(epsilon=1e4, delta=1e-5), "test_key": key(name)} | options),
    )


def split(columns: int, parties: int, people: int = 200, *, name: str = "split", **options) -> cn.Federation:
    """The same numbers, whoever holds them: ``columns`` correlated columns dealt out to ``parties`` parties in order."""
    frame, held = numbers(columns, people), np.array_split(np.arange(columns), parties)
    tables, schemas = {}, {}
    for party, mine in enumerate(held):
        names = [f"c{column:02d}" for column in mine]
        tables[f"p{party}"] = frame[["person_id", *names]]
        schemas[f"p{party}"] = cn.Schema(dict.fromkeys(names, cn.Numeric(-3, 5)))
    return federation(tables, schemas, name=name, **options)


def numbers(columns: int, people: int) -> pd.DataFrame:
    rng = np.random.default_rng(columns)
    values = rng.standard_normal((people, 3)) @ rng.standard_normal((3, columns)) + rng.standard_normal(
        (people, columns)
    )
    frame = pd.DataFrame(np.clip(1 + values, -3, 5), columns=[f"c{column:02d}" for column in range(columns)])
    frame.insert(0, "person_id", np.arange(people))
    return frame


def coded(frame: pd.DataFrame, columns: Mapping[str, cn.Numeric | cn.Category], *, scale: int | None = None):
    """The coded columns as a matrix, rounded to the grid of ``scale`` if one is given; written apart from the library's."""
    blocks = []
    for name, column in columns.items():
        if isinstance(column, cn.Category):
            blocks += [(frame[name] == level).to_numpy(float) for level in column.levels]
            continue
        middle, half = (column.low + column.high) / 2, (column.high - column.low) / 2
        unit = (frame[name].fillna(middle).clip(column.low, column.high).to_numpy(float) - middle) / half
        blocks.append(unit if scale is None else np.rint(unit * scale) / scale)
    return np.column_stack(blocks)


def plain_gram(frame: pd.DataFrame, columns: Mapping[str, cn.Numeric | cn.Category], scale: int) -> np.ndarray:
    """What a release would say without noise: a constant column in front."""
    rows = coded(frame, columns, scale=scale)
    wide = np.column_stack([np.ones(len(rows)), rows])
    return wide.T @ wide


def scores(moments: Moments, plain: np.ndarray) -> np.ndarray:
    """Every noisy entry of the upper triangle, less its true value, over its stated standard deviation."""
    upper = np.triu_indices(len(plain))
    noisy = moments.variance[upper] > 0
    return ((moments.matrix - plain)[upper] / np.sqrt(np.where(noisy, moments.variance[upper], 1.0)))[noisy]


def assert_same_directions(one: np.ndarray, other: np.ndarray, *, within: float) -> None:
    """Compare unit rows up to their signs."""
    signs = np.sign(np.sum(one * other, axis=1, keepdims=True))
    np.testing.assert_allclose(one * signs, other, atol=within)


def joined_numbers(federation: cn.Federation, columns: int, people: int) -> pd.DataFrame:
    """The joined frame of a `split`, with the federation's names."""
    frame = numbers(columns, people)
    return pd.DataFrame({name: frame[name.partition(".")[2]] for name in federation.describe()})


__all__ = [
    "GENEROUS",
    "PRICE",
    "assert_same_directions",
    "coded",
    "federation",
    "frames",
    "joined",
    "joined_numbers",
    "key",
    "numbers",
    "plain_gram",
    "scores",
    "split",
]
