"""Coded tables, and releases of their moments with as much noise as a test asks for."""

from collections.abc import Sequence

import numpy as np

from colonnade.estimation.moments import Moments
from colonnade.schema import Category, Column, Feature, Numeric, features_of

COLUMNS: dict[str, Column] = {
    "bank.age": Numeric(18, 90),
    "bank.segment": Category(("basic", "gold", "platinum")),
    "telco.minutes": Numeric(0, 5_000),
    "telco.roaming": Category(("no", "yes")),
    "insurer.region": Category(("east", "north", "south", "west")),
    "insurer.premium": Numeric(0, 2_000),
}
FEATURES = features_of(COLUMNS)


def people(rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    """Correlated columns in own units, categories as level numbers."""
    health, wealth = rng.standard_normal((2, count))
    segment = np.digitize(wealth + 0.3 * rng.standard_normal(count), [0.0, 1.2])
    roaming = (wealth + rng.standard_normal(count) > 0.4).astype(int)
    region = rng.integers(0, 4, count)
    age = np.clip(50 + 14 * health + 4 * wealth, 18, 90)
    minutes = np.clip(1500 + 700 * roaming - 10 * age + 300 * rng.standard_normal(count), 0, 5_000)
    premium = np.clip(200 + 9 * age + 120 * segment + 60 * (region == 2) + 90 * rng.standard_normal(count), 0, 2_000)
    return {
        "bank.age": age,
        "bank.segment": segment,
        "telco.minutes": minutes,
        "telco.roaming": roaming,
        "insurer.region": region,
        "insurer.premium": premium,
    }


def coded(table: dict[str, np.ndarray], features: Sequence[Feature] = FEATURES) -> np.ndarray:
    return np.column_stack([_one(table, feature) for feature in features])


def _one(table: dict[str, np.ndarray], feature: Feature) -> np.ndarray:
    if feature.kind == "intercept":
        return np.ones(len(next(iter(table.values()))))
    values = table[feature.column]
    if feature.kind == "numeric":
        return (values - feature.centre) / feature.half_width
    if feature.kind == "sign":
        return 2.0 * values - 1.0
    levels = [str(level) for level in COLUMNS[feature.column].levels]
    return (values == levels.index(feature.name.split("=", 1)[1])).astype(float)


def own(table: dict[str, np.ndarray], names: Sequence[str]) -> np.ndarray:
    """Columns in own units in the order of a model's names, levels as indicators."""
    columns = []
    for name in names:
        column, _, level = name.partition("=")
        levels = [str(known) for known in COLUMNS[column].levels] if level else []
        columns.append((table[column] == levels.index(level)).astype(float) if level else table[column])
    return np.column_stack(columns)


def release(
    rows: np.ndarray,
    features: Sequence[Feature] = FEATURES,
    *,
    variance: float = 0.0,
    rng: np.random.Generator | None = None,
) -> Moments:
    """The moments of coded rows; noise of the given diagonal variance, half of it off the diagonal."""
    spread = np.full((len(features), len(features)), variance / 2)
    np.fill_diagonal(spread, variance)
    noise = np.zeros_like(spread)
    if rng is not None:
        upper = np.triu(rng.standard_normal(spread.shape))
        noise = np.sqrt(spread) * (upper + np.triu(upper, 1).T)
    return Moments.of_release(rows.T @ rows + noise, spread, len(rows), features)
