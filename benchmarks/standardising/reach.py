"""Where the factors of `colonnade.coordinator.protocols.moment_releases` come from: clipping against noise, on simulated people.

A table has numbers at three parties (light and heavy tails), categories of two levels and a target. For each reach the model is
fitted to the clipped columns without noise, and the noise of an opened sum is carried to the coefficients by the inverse
curvature. The loss is the mean logarithm of the total error of slopes in sampling errors: shift by clipping, noise and sampling
together, against the fit on columns that are not clipped. No public table is read. Run:
``python -m benchmarks.standardising.reach TABLES``.
"""

import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import ledger_rho

Array = NDArray[np.float64]
EPSILONS = (0.5, 1, 2, 4, 10, 30, 100, 1000)
REACHES = (2, 3, 4, 5, 6, 8, 12, 18, 27, 40, 80)
FACTORS = {"gradients": (0.035, 0.05, 0.07, 0.1, 0.14, 0.2), "products": (0.2, 0.3, 0.4, 0.5, 0.7)}
POWERS = {"gradients": 1 / 2, "products": 1 / 3}
PARTIES, TYPICAL, LAST_STEP = 3, 1.5, 0.9 * 0.64 * 0.5
SHAPES: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "uniform": lambda rng, n: rng.uniform(-1, 1, size=n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "log-normal": lambda rng, n: np.exp(rng.normal(size=n)),
    "t3": lambda rng, n: rng.standard_t(3, size=n),
    "mostly zero": lambda rng, n: np.where(rng.uniform(size=n) < 0.92, 0, np.exp(rng.normal(0, 1.2, size=n))),
    "counts": lambda rng, n: rng.negative_binomial(0.5, 0.2, size=n).astype(float),
}


def standard(columns: Array) -> Array:
    return np.asarray((columns - columns.mean(axis=0)) / columns.std(axis=0))


def people(rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Standardised numbers, categories, and log-odds. Half of the truths do not change beyond three spreads."""
    n, numbers, categories = (int(rng.choice(sizes)) for sizes in ((4_000, 20_000, 80_000), (3, 6, 12), (1, 3, 5)))
    columns = standard(np.array([SHAPES[rng.choice(list(SHAPES))](rng, n) for _ in range(numbers)]).T)
    levels = (rng.uniform(size=(n, categories)) < 0.3).astype(float)
    effect = np.clip(columns, -3, 3) if rng.integers(2) else columns
    return (
        columns,
        levels,
        effect @ rng.normal(0, 0.5, numbers) / np.sqrt(numbers) * 1.5 + levels @ rng.normal(0, 0.5, categories),
    )


def clipped(columns: Array, reach: float) -> tuple[Array, float]:
    """Return numbers clipped by themselves and together, in spreads, and the sum of the parties' norms in coded units."""
    coded, total = np.clip(columns / reach, -1, 1), 0.0
    for party in range(PARTIES):
        own = slice(party, None, PARTIES)
        norm = 1 + (coded[:, own].shape[1] - 1) * min(1.0, (TYPICAL / reach) ** 2)
        length = np.maximum((coded[:, own] ** 2).sum(axis=1), 1e-30)
        coded[:, own] *= np.minimum(1, np.sqrt(norm / length))[:, None]
        total += norm
    return coded * reach, total


def logistic(rows: Array, target: Array) -> tuple[Array, Array]:
    """Weights and the inverse curvature: damped Newton steps."""
    weights = np.zeros(rows.shape[1])

    def deviance(at: Array) -> float:
        return float(np.sum(np.logaddexp(0, rows @ at) - target * (rows @ at)))

    for _ in range(60):
        chance = 1 / (1 + np.exp(-np.clip(rows @ weights, -500, 500)))
        inverse = np.linalg.inv((rows * (chance * (1 - chance))[:, None]).T @ rows + 1e-9 * np.eye(len(weights)))
        step, part = inverse @ rows.T @ (target - chance), 1.0
        while deviance(weights + part * step) > deviance(weights) + 1e-9 and part > 1e-4:
            part /= 2
        weights = weights + part * step
        if np.abs(step).max() < 1e-8:
            break
    return weights, inverse


def linear(rows: Array, target: Array) -> tuple[Array, Array]:
    inverse = np.linalg.inv(rows.T @ rows)
    return inverse @ rows.T @ target, inverse


def losses(rng: np.random.Generator, rule: str) -> tuple[Array, Array]:
    """Loss by ε and reach of one table, and by ε how many people there are per unit of noise in a sum of full rows."""
    columns, levels, signal = people(rng)
    n, constant = len(columns), np.ones((len(columns), 1))
    if rule == "gradients":
        target = (rng.uniform(size=n) < 1 / (1 + np.exp(1 - signal))).astype(float)
        fit, spread = logistic, 1.0
    else:
        error = SHAPES[rng.choice(["normal", "exponential", "log-normal"])](rng, n)
        target, fit = standard(signal + standard(error)), linear
        spread = float(
            np.std(
                target
                - np.column_stack([constant, columns, levels])
                @ linear(np.column_stack([constant, columns, levels]), target)[0]
            )
        )
    plain, inverse = fit(np.column_stack([constant, columns, levels]), target)
    sampling = spread * np.sqrt(np.diag(inverse))
    found = np.empty((len(EPSILONS), len(REACHES)))
    rows = 1 + levels.shape[1] + (rule == "products")
    for place, reach in enumerate(REACHES):
        numbers, norms = clipped(columns, reach)
        weights, inverse = fit(
            np.column_stack([constant, numbers, levels]),
            target if rule == "gradients" else np.clip(target, -reach, reach),
        )
        units = np.concatenate([[1], np.full(columns.shape[1], reach), np.ones(levels.shape[1])])
        carried = ((inverse * units) ** 2).sum(axis=1)
        if rule == "products":  # the target is coded by its reach, and noise in the matrix is multiplied by the weights
            carried *= reach**2 + ((weights * units) ** 2).sum()
        shift = ((weights - plain) / sampling)[1:] ** 2
        for row, epsilon in enumerate(EPSILONS):
            noise = (
                deviation(rule, epsilon, rows + norms, LAST_STEP if rule == "gradients" else 0.9) ** 2
                * (carried / sampling**2)[1:]
            )
            found[row, place] = 0.5 * np.log1p(np.mean(shift + noise))
    return found, np.array([n / deviation(rule, epsilon, rows + columns.shape[1], 1.0) for epsilon in EPSILONS])


def deviation(rule: str, epsilon: float, length: float, share: float) -> float:
    """Noise of an opened sum at a share of a price, for rows of this squared length and one colluder of three parties."""
    alone = np.sqrt(1.5 / (2 * share * float(ledger_rho(Price.of(epsilon, 1e-6)))))
    return float(alone * (np.sqrt(length) if rule == "gradients" else length / np.sqrt(2)))


def main() -> None:
    rng, tables = np.random.default_rng(1), int(sys.argv[1]) if len(sys.argv) > 1 else 40
    for rule, factors in FACTORS.items():
        drawn = [losses(rng, rule) for _ in range(tables)]
        for factor in factors:
            at = [np.clip(factor * relative ** POWERS[rule], REACHES[0], REACHES[-1]) for _, relative in drawn]
            each = [
                [np.interp(np.log(r), np.log(REACHES), row) for r, row in zip(reach, loss, strict=True)]
                for reach, (loss, _) in zip(at, drawn, strict=True)
            ]
            sys.stdout.write(f"{rule} factor {factor:<5} total error {np.exp(np.mean(each)):.4f} sampling errors\n")


if __name__ == "__main__":
    main()
