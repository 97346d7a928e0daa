"""What the channel is compared with: the same plan run centrally, a central MST, and independent columns.

*Central.* The same pair tables of the pooled table, with Gaussian noise of the variances that the channel has, then the same fit.

*MST* is the mechanism of McKenna, Miklau and Sheldon (*Winning the NIST contest*, 2021) for a trusted curator, written after the
paper and fitted by ``mbi``, whose package does not ship it. A third of the budget goes to every column, a third to choosing a
spanning tree by the exponential mechanism, a third to the tables of its pairs. Levels whose noisy counts are below three
deviations are merged.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd

from colonnade.estimation.moments import Moments
from colonnade.estimation.table_model import GramTables, TableModel
from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import gaussian_share_variance
from colonnade.schema import Category, features_of


def zcdp(epsilon: float, delta: float) -> float:
    """Return ρ of (ε, δ), as the library counts it."""
    return 1 / (2 * float(gaussian_share_variance(Price.of(epsilon, delta), Fraction(1), 1, 1)))


def noisy_tables(
    codes: pd.DataFrame, columns: dict[str, Category], variance: np.ndarray, rng: np.random.Generator
) -> GramTables:
    """Return the pair tables of the pooled table with Gaussian noise of given variances."""
    features = features_of(columns)
    rows = np.zeros((len(codes), len(features)), dtype=np.float32)
    rows[:, 0], place = 1.0, 1
    for name, column in columns.items():
        rows[np.arange(len(codes)), place + codes[name].to_numpy()] = 1.0
        place += column.size
    noise = np.triu(rng.normal(size=variance.shape) * np.sqrt(variance))
    gram = (rows.T @ rows).astype(float) + noise + np.triu(noise, 1).T
    return GramTables(Moments.of_release(gram, variance, len(codes), features))


def independent(tables: GramTables) -> TableModel:
    """Return the columns one by one, as if they had nothing to do with each other."""
    return TableModel(
        tables.columns,
        tuple(tables.sizes.values()),
        tuple((name,) for name in tables.columns),
        tuple(tables.shares(name) for name in tables.columns),
    )


def mst(codes: pd.DataFrame, sizes: dict[str, int], rho: float, rng: np.random.Generator) -> pd.DataFrame:
    """Return as many rows as there are, by a central MST at ρ."""
    names, people = list(sizes), len(codes)
    sigma = math.sqrt(len(names) / (2 * rho / 3))
    merged, counts = {}, {}
    for name in names:
        noisy = np.bincount(codes[name], minlength=sizes[name]) + rng.normal(0, sigma, sizes[name])
        kept = noisy >= 3 * sigma
        merged[name] = np.where(kept, np.cumsum(kept) - 1, kept.sum()) if not kept.all() else np.arange(sizes[name])
        counts[name] = np.bincount(merged[name], weights=noisy)
    small = pd.DataFrame({name: merged[name][codes[name]] for name in names})
    shares = {name: np.maximum(one, 0) / np.maximum(one, 0).sum() for name, one in counts.items()}
    exact = {pair: _table(small, pair, shares) for pair in itertools.combinations(names, 2)}
    score = {
        pair: np.abs(table - people * np.outer(shares[pair[0]], shares[pair[1]])).sum() for pair, table in exact.items()
    }
    epsilon = math.sqrt(8 * rho / 3 / (len(names) - 1))
    root, tree = {name: name for name in names}, []
    while len(tree) < len(names) - 1:
        open_pairs = [pair for pair in exact if root[pair[0]] != root[pair[1]]]
        logits = np.array([epsilon / 2 * score[pair] for pair in open_pairs])
        chosen = open_pairs[int(np.argmax(logits + rng.gumbel(size=len(logits))))]
        tree.append(chosen)
        old, new = root[chosen[0]], root[chosen[1]]
        root = {name: new if held == old else held for name, held in root.items()}
    spread = math.sqrt(len(tree) / (2 * rho / 3))
    import mbi  # here: `private_pgm` has set jax to double precision by now

    measured = [mbi.LinearMeasurement(counts[name], (name,), sigma * _merge_factor(merged[name])) for name in names]
    measured += [
        mbi.LinearMeasurement((exact[pair] + rng.normal(0, spread, exact[pair].shape)).ravel(), pair, spread)
        for pair in tree
    ]
    domain = mbi.Domain(names, [len(counts[name]) for name in names])
    model = mbi.estimation.MirrorDescent().estimate(domain, measured, known_total=float(people), iters=2_000, tol=1e-4)
    drawn = model.synthetic_data(rows=people)
    return pd.DataFrame(
        {name: _unmerged(np.asarray(drawn.data[name]).astype(int), merged[name], rng) for name in names}
    )


def _table(codes: pd.DataFrame, pair: tuple[str, str], shares: dict[str, np.ndarray]) -> np.ndarray:
    table = np.zeros([len(shares[name]) for name in pair])
    np.add.at(table, tuple(codes[name].to_numpy() for name in pair), 1.0)
    return table


def _merge_factor(merged: np.ndarray) -> float:
    """Return how much wider the noise of a column's counts is on average, where levels were merged."""
    return math.sqrt(len(merged) / (merged.max() + 1))


def _unmerged(drawn: np.ndarray, merged: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return levels from merged ones: any of those that were merged, alike."""
    order = np.argsort(merged, kind="stable")
    starts = np.searchsorted(merged[order], np.arange(merged.max() + 2))
    width = (starts[1:] - starts[:-1])[drawn]
    return order[starts[drawn] + (rng.random(len(drawn)) * width).astype(int)]
