"""A test of independence on a table of counts with known noise: the p-value counts what noise and chance do together.

The usual chi-squared test takes counts for exact. On noisy counts it rejects far too often, because noise alone makes cells
differ from what their margins say. Here the statistic is Σ (x − e)²/(e + V), with x the noisy cells, e what the noisy margins say
and V the variance of the noise of a cell. Its law without dependence is simulated: people are drawn from the product of the
margins, the same noise is added, and the statistic is computed as it was for the data (a parametric bootstrap). The p-value is
(1 + how many simulated statistics are as large)/(1 + draws) (docs/explanation/intervals.md#independence).

Gaboardi, Lim, Rogers and Vadhan (2016) proposed the test for one curator (docs/references.md#independence).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.public_coins import PublicGenerator

__all__ = ["CountNoise", "IndependenceTest", "discrete_gaussians", "discrete_laplaces", "independence_test"]

Array = NDArray[np.float64]
BATCH = 1 << 22
TAIL = 12


@dataclass(frozen=True)
class CountNoise:
    """The noise of a count: independent from cell to cell.

    Parameters
    ----------
    variance
        The variance of one count.
    draw
        A function that draws the noise of an array of counts, given a generator and the array's shape.
    """

    variance: float
    draw: Callable[[PublicGenerator, tuple[int, ...]], NDArray[np.int64]]


def discrete_gaussians(variance: float, shares: int) -> CountNoise:
    """Return the noise that is a sum of discrete Gaussian shares, each with this variance."""
    reach = max(int(np.ceil(TAIL * np.sqrt(variance))), TAIL)
    values = np.arange(-reach, reach + 1)
    weights = np.exp(-(values**2) / (2 * variance))
    below = np.cumsum(weights / weights.sum())

    def draw(generator: PublicGenerator, shape: tuple[int, ...]) -> NDArray[np.int64]:
        drawn = np.searchsorted(below[:-1], generator.random((shares, *shape)), side="right")
        return np.asarray(values[drawn].sum(axis=0))

    return CountNoise(shares * variance, draw)


def discrete_laplaces(scale: float, share: float) -> CountNoise:
    """Return the noise of Pólya shares. So many shares that make up one discrete Laplace number of this scale have share 1."""
    ratio = float(np.exp(-1 / scale))

    def draw(generator: PublicGenerator, shape: tuple[int, ...]) -> NDArray[np.int64]:
        first, second = (generator.negative_binomial(share, 1 - ratio, shape) for _ in range(2))
        return np.asarray(first - second)

    return CountNoise(2 * share * ratio / (1 - ratio) ** 2, draw)


@dataclass(frozen=True)
class IndependenceTest:
    """The result of a test of independence of two columns.

    Parameters
    ----------
    columns
        The two columns.
    statistic
        How far the table is from what its margins say, in units that count the noise. Only its p-value has a meaning.
    p_value
        The probability of a statistic at least as large if the columns were independent.
    draws
        How many tables were simulated. The p-value is at least 1/(draws + 1).
    """

    columns: tuple[str, str]
    statistic: float
    p_value: float
    draws: int

    def __repr__(self) -> str:
        one, other = self.columns
        return f"independence of {one} and {other}: p = {self.p_value:.3g} ({self.draws:,} simulated tables)"


def independence_test(
    table: Array,
    noise: CountNoise,
    *,
    people: int | None,
    cells: int = 1,
    draws: int,
    generator: PublicGenerator,
) -> tuple[float, float]:
    """Return the statistic of a noisy table with two axes, and its p-value.

    Parameters
    ----------
    table
        Unbiased counts.
    noise
        The noise of a count as it was released.
    people
        How many people there are in the table; ``None`` if that is private.
    cells
        How many released counts were added up to one count of the table.
    draws
        How many tables to simulate.
    generator
        The coins of the simulation. They are public: the test uses what was released, and reveals nothing more.
    """
    if table.ndim != 2 or min(table.shape) < 2:
        raise BadInput(
            "A test of independence takes two columns with two levels or more.", remedy="Name other columns."
        )
    variance = noise.variance * cells
    statistic = float(_statistics(table[None], variance, people)[0])
    total, likely = _likely(table, variance, people)
    size = max(1, BATCH // (table.size * cells))
    larger = 0
    for start in range(0, draws, size):
        count = min(size, draws - start)
        drawn = generator.multinomial(total, likely.ravel(), size=count)
        noisy = drawn + noise.draw(generator, (count, table.size, cells)).sum(axis=2)
        simulated = _statistics(noisy.reshape(count, *table.shape).astype(np.float64), variance, people)
        larger += int(np.sum(simulated >= statistic))
    return statistic, (1 + larger) / (1 + draws)


def _statistics(tables: Array, variance: float, people: int | None) -> Array:
    expected, _ = _expected(tables, people)
    return np.asarray(((tables - expected) ** 2 / (expected + variance)).sum(axis=(1, 2)))


def _expected(tables: Array, people: int | None) -> tuple[Array, Array]:
    """Return what each table's margins say about its cells, and its number of people; noise makes no margin negative."""
    total = np.maximum(tables.sum(axis=(1, 2)), 1.0) if people is None else np.full(len(tables), float(people))
    shares = []
    for axis in (2, 1):
        margin = np.maximum(tables.sum(axis=axis), 0.0)
        whole = margin.sum(axis=1, keepdims=True)
        shares.append(np.where(whole > 0, margin / np.where(whole > 0, whole, 1.0), 1 / margin.shape[1]))
    return total[:, None, None] * shares[0][:, :, None] * shares[1][:, None, :], total


def _likely(table: Array, variance: float, people: int | None) -> tuple[int, Array]:
    """Return a number of people, and the shares of cells if columns are independent, from which tables are simulated.

    Noisy margins are further apart than margins are. They are pulled together by what the noise explains (James and Stein's
    estimate), or the simulated tables would have noise on top of noise.
    """
    total = max(float(table.sum()), 1.0) if people is None else float(people)
    shares = []
    for axis in (1, 0):
        margin, noise = table.sum(axis=axis), variance * table.shape[axis]
        apart = float(np.sum((margin - margin.mean()) ** 2))
        kept = max(1 - max(len(margin) - 3, 1) * noise / apart, 0.0) if apart > 0 else 0.0
        pulled = np.maximum(total / len(margin) + kept * (margin - margin.mean()), 0.0)
        shares.append(pulled / pulled.sum())
    return round(total), np.outer(*shares)
