"""What the benchmark of the primitives measures; `run.py` says how it is put down."""

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import colonnade as cn
from colonnade.coordinator.protocols.local_moments import SketchedMoments
from colonnade.estimation.unbiased_power import UnbiasedPower
from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import gaussian_party_price

HERE = Path(__file__).parent
SEED = 20_240_611
EPSILON, DELTA, HIGHEST = 0.5, 1e-6, 20
ORDERS = (0.5, 1.5, 2, 3, 4)
BARS = {2: 0.01, 3: 0.03}


# Data -----------------------------------------------------------------------------------------------------------------------


def visits(people: int, parties: int, seed: int = SEED) -> list[np.ndarray]:
    """Counts at each party: Poisson of mean 2, at most 20."""
    rng = np.random.default_rng(seed)
    return [np.minimum(rng.poisson(2.0, people), HIGHEST) for _ in range(parties)]


def visit_federation(columns: list[np.ndarray], budget: float, delta: float = 0.0) -> cn.Federation:
    schema = cn.Schema(visits=cn.Numeric(0, HIGHEST, integer=True))
    ids = np.arange(len(columns[0]))
    parties = {
        f"party{number + 1}": cn.Party(pd.DataFrame({"id": ids, "visits": column}), schema=schema)
        for number, column in enumerate(columns)
    }
    return cn.Federation.simulate(parties, id="id", budget=cn.Budget(epsilon=budget, delta=delta))


def names(parties: int) -> list[str]:
    return [f"party{number + 1}.visits" for number in range(parties)]


# Moments --------------------------------------------------------------------------------------------------------------------


def moments(people: int, runs: int, published: dict, *, as_written: bool) -> dict:
    columns = visits(people, 2)
    sums = np.sum(columns, axis=0).astype(float)
    rows = {}
    with visit_federation(columns, 2 * runs * EPSILON) as federation:
        for p in ORDERS:
            draws = [
                cn.Moment(names(2), p, epsilon=EPSILON, unit="party").fit(federation, repeat=run)
                for run in range(1, runs + 1)
            ]
            values, truth = np.array([draw.value_ for draw in draws]), float((sums**p).sum())
            rows[str(p)] = {
                "relative_sd": float(values.std(ddof=1)) / truth,
                "predicted": float(np.mean([draw.stderr_ for draw in draws])) / truth,
                "bias_in_standard_errors": float((values.mean() - truth) / values.std(ddof=1) * math.sqrt(runs)),
                "obvious_continuations": obvious(p, sums),
            }
    result = {"people": people, "parties": 2, "epsilon_a_party": EPSILON, "runs": runs, "orders": rows}
    if as_written:
        result["as_written"] = algorithm_2(columns, published["moments"])
    return result


def obvious(p: float, sums: np.ndarray) -> dict:
    """The relative standard deviation with the usual continuations of y^p below zero, exactly, by the law of the noise."""
    if p % 2 == 0:
        return {}
    law = UnbiasedPower(p, [2, 2]).law
    c = 0.25 / math.sinh(0.25) ** 2
    top = int(sums.max())
    y = np.arange(-law.half - 2, top + law.half + 3).astype(float)
    found = {}
    for name, g in (
        ("max(y, 0)", np.maximum(y, 0) ** p),
        ("|y|", np.abs(y) ** p),
        ("sign·|y|", np.sign(y) * np.abs(y) ** p),
    ):
        f = g
        for _ in range(2):
            f = f[1:-1] - c * (f[2:] - 2 * f[1:-1] + f[:-2])
        variance = np.array([law.weights @ f[x : x + 2 * law.half + 1] ** 2 - x ** (2 * p) for x in range(top + 1)])
        found[name] = math.sqrt(float(variance[sums.astype(int)].sum())) / float((sums**p).sum())
    return found


def algorithm_2(columns: list[np.ndarray], published: dict, alpha: float = 0.3) -> dict:
    """Algorithm 2 of Primitives (docs/references.md#primitives), once, with numpy's generator: M + 1 categories per party.

    Every pattern is counted and clipped.
    """
    people, parties, begin = len(columns[0]), len(columns), time.time()
    scale = published["laplace_scale_times_epsilon"] / EPSILON
    bound = parties * scale * math.log(published["failure_share"] * (people * parties) ** 2)
    largest = math.ceil(2 * bound / alpha)
    rng = np.random.default_rng(SEED + 4)
    noisy = sum(column + rng.laplace(scale=scale, size=people) for column in columns)
    large = noisy >= largest / 2
    bias = EPSILON / 2 / published["divisor"]
    counts = np.zeros((largest + 1, largest + 1))
    kept = [column[~large] for column in columns]
    for start in range(0, len(kept[0]), 4_000):
        terms = []
        for column in kept:
            part = column[start : start + 4_000]
            chance = np.full((len(part), largest + 1), 0.5 - bias, dtype=np.float32)
            chance[np.arange(len(part)), part] = 0.5 + bias
            bits = rng.random(chance.shape, dtype=np.float32) < chance
            terms.append((bits - np.float32(0.5 - bias)) / np.float32(2 * bias))
        counts += terms[0].T @ terms[1]
    first, second = np.ogrid[: largest + 1, : largest + 1]
    sums = np.sum(columns, axis=0).astype(float)
    relative = {}
    for p in (2, 3):
        total = float((noisy[large] ** p).sum() + (np.maximum(counts, 0) * (first + second).astype(float) ** p).sum())
        relative[str(p)] = total / float((sums**p).sum()) - 1
    return {
        "alpha": alpha,
        "patterns": (largest + 1) ** 2,
        "cell_sd": float(counts.std()),
        "relative_error": relative,
        "seconds": time.time() - begin,
    }


def rates(people: int, runs: int) -> dict:
    """Exponents of the error of the second moment, from its standard deviation over runs."""

    def spread(people: int, parties: int, epsilon: float, p: float = 2) -> float:
        columns = visits(people, parties)
        with visit_federation(columns, 2 * runs * epsilon) as federation:
            draws = [
                cn.Moment(names(parties), p, epsilon=epsilon, unit="party").fit(federation, repeat=run).value_
                for run in range(1, runs + 1)
            ]
        return float(np.std(draws, ddof=1))

    sizes, prices = (people // 16, people // 4, people), (0.02, 0.05, 0.1)
    of_people = [spread(size, 2, EPSILON) for size in sizes]
    of_price = [spread(people // 4, 2, price) for price in prices]
    parties = {str(count): spread(people // 4, count, EPSILON) for count in (1, 2, 3, 4)}
    return {
        "runs": runs,
        "exponent_of_people": slope(sizes, of_people),
        "exponent_of_epsilon": slope(prices, of_price),
        "error_by_parties": parties,
    }


def slope(places, values) -> float:
    return float(np.polyfit(np.log(places), np.log(values), 1)[0])


# Sketches -------------------------------------------------------------------------------------------------------------------


def mixed(people: int) -> tuple[dict[str, pd.DataFrame], dict[str, cn.Schema], np.ndarray]:
    """Four correlated numbers at two parties, and as they are coded, in [-1, 1]."""
    rng = np.random.default_rng(SEED + 1)
    hidden = rng.normal(size=(people, 2))
    loads = np.array([[0.35, 0.1], [0.3, -0.15], [0.3, 0.2], [0.1, 0.3]])
    coded = np.clip(0.1 + hidden @ loads.T + 0.3 * rng.normal(size=(people, 4)), -1, 1)
    ids = np.arange(people)
    frames = {
        "bank": pd.DataFrame({"id": ids, "a": coded[:, 0], "b": coded[:, 1]}),
        "telco": pd.DataFrame({"id": ids, "c": coded[:, 2], "d": coded[:, 3]}),
    }
    schema = {
        "bank": cn.Schema(a=cn.Numeric(-1, 1), b=cn.Numeric(-1, 1)),
        "telco": cn.Schema(c=cn.Numeric(-1, 1), d=cn.Numeric(-1, 1)),
    }
    return frames, schema, coded


COLUMNS = ["bank.a", "bank.b", "telco.c", "telco.d"]


def mixed_federation(people: int, budget: float) -> tuple[cn.Federation, np.ndarray]:
    frames, schema, coded = mixed(people)
    parties = {name: cn.Party(frame, schema=schema[name]) for name, frame in frames.items()}
    return cn.Federation.simulate(parties, id="id", budget=cn.Budget(epsilon=budget, delta=1e-4)), coded


def gram_errors(
    federation: cn.Federation, exact: np.ndarray, epsilon: float, runs: int
) -> tuple[np.ndarray, SketchedMoments]:
    """Errors of the centred Gram matrix over runs, through gates, ledgers and codec."""
    share = gaussian_party_price(Price.of(epsilon, DELTA), 2, "person")
    errors = []
    for run in range(1, runs + 1):
        algorithm = SketchedMoments(federation.describe(COLUMNS), share, federation.people, draw=run)
        plan = federation.plan(
            algorithm,
            task="moments",
            method="sketch",
            price=Price.of(epsilon, DELTA),
            unit="person",
            parameters={},
            repeat=run,
        )
        found = federation.run(algorithm, plan).value
        sums = found.matrix[0, 1:]
        errors.append(found.matrix[1:, 1:] - np.outer(sums, sums) / federation.people - exact)
    return np.array(errors), algorithm


def sketches(people: int, runs: int, epsilon: float) -> dict:
    federation, coded = mixed_federation(people, 10_000.0)
    centred = coded - coded.mean(axis=0)
    exact = centred.T @ centred
    with federation:
        errors, algorithm = gram_errors(federation, exact, epsilon, runs)
        model = [
            cn.LinearRegression("telco.d", columns=COLUMNS[:3], method="sketch", epsilon=epsilon, delta=DELTA).fit(
                federation, repeat=run
            )
            for run in range(1, runs + 1)
        ]
        components = [
            cn.PCA(2, columns=COLUMNS, method="sketch", epsilon=epsilon, delta=DELTA).fit(federation, repeat=run)
            for run in range(1, runs + 1)
        ]
    predicted = algorithm.variance(exact)[1:, 1:]
    best = float(np.linalg.eigvalsh(exact)[-2:].sum())
    lost = [1 - float(np.trace(one.components_ @ exact @ one.components_.T)) / best for one in components]
    weights = np.linalg.solve(exact[:3, :3], exact[:3, 3])
    solved = np.array([np.linalg.solve((exact + one)[:3, :3], (exact + one)[:3, 3]) for one in errors]) - weights
    found = np.array([one.coef_ for one in model]) - weights
    covariance = coefficient_covariance(exact, algorithm.entry_noise(), weights, algorithm.size)
    return {
        "people": people,
        "epsilon": epsilon,
        "delta": DELTA,
        "runs": runs,
        "size": algorithm.size,
        "gram": compared(np.sqrt((errors**2).sum(axis=(1, 2))), math.sqrt(float(predicted.sum()))),
        "components": compared(
            np.sqrt(np.maximum(lost, 0)),
            math.sqrt(predicted_loss(exact, algorithm.entry_noise(), algorithm.size) / best),
        ),
        "plain_regression": compared(np.sqrt((solved**2).sum(axis=1)), math.sqrt(float(np.trace(covariance)))),
        "regression": compared(np.sqrt((found**2).sum(axis=1)), math.sqrt(float(np.trace(covariance)))),
        "paper_noise_over_ours": 23.572 / 10.0,
    }


def compared(errors: np.ndarray, predicted: float) -> dict:
    """Root mean square over runs beside the prediction, with the ratio's standard error."""
    mean = float(np.mean(errors**2))
    relative = float(np.std(errors**2, ddof=1) / math.sqrt(len(errors)) / mean / 2)
    ratio = math.sqrt(mean) / predicted
    return {"measured": math.sqrt(mean), "predicted": predicted, "ratio": ratio, "ratio_error": ratio * relative}


def predicted_loss(exact: np.ndarray, noise: np.ndarray, size: int) -> float:
    """Captured variance lost by the two leading directions, to second order: Σ Var E_ij/(l_i - l_j), in the eigenbasis."""
    values, vectors = np.linalg.eigh(exact)
    order = np.argsort(values)[::-1]
    values, vectors = values[order], vectors[:, order]
    lost = 0.0
    for kept in (0, 1):
        for other in range(2, len(values)):
            lost += rotated(values, vectors, noise, kept, other) / size / (values[kept] - values[other])
    return lost


def rotated(values: np.ndarray, vectors: np.ndarray, noise: np.ndarray, kept: int, other: int) -> float:
    """s times the variance of the matrix's error between two eigenvectors: a product of two sketches that share their noise."""
    along, across = (values[one] + float(vectors[:, one] ** 2 @ noise) for one in (kept, other))
    return along * across + float((vectors[:, kept] * vectors[:, other]) @ noise) ** 2


def coefficient_covariance(gram: np.ndarray, noise: np.ndarray, weights: np.ndarray, size: int) -> np.ndarray:
    """First-order covariance of a least-squares solution from sketches, the last column being the target.

    The error of the normal equations at the solution is that of products of the features' sketches with the residual's, whose
    squared length is r and whose noise is n + Σ w²n; features' noise is in both, which adds the square of n·w.
    """
    residual = gram[3, 3] - weights @ gram[:3, :3] @ weights
    other = noise[3] + weights**2 @ noise[:3]
    shared = noise[:3] * weights
    middle = ((gram[:3, :3] + np.diag(noise[:3])) * (residual + other) + np.outer(shared, shared)) / size
    inverse = np.linalg.inv(gram[:3, :3])
    return inverse @ middle @ inverse


# Three lines: ours without peers, the lower bound, the secure channel ---------------------------------------------------------


def lines(sizes: tuple[int, ...], runs: int) -> dict:
    epsilon = 1.0
    local: dict[str, list] = {"counts": [], "moment": [], "gram": []}
    secure: dict[str, list] = {"counts": [], "moment": [], "gram": []}
    for people in sizes:
        counts = count_errors(people, epsilon, runs)
        local["counts"].append((people, counts[0]))
        secure["counts"].append((people, counts[1]))
        with visit_federation(visits(people, 2), 100 * runs, 1e-4) as federation:
            draws = [
                cn.Moment(names(2), 2, change="bounds", epsilon=epsilon).fit(federation, repeat=run)
                for run in range(1, runs + 1)
            ]
            local["moment"].append((people, float(np.sqrt(np.mean([one.stderr_**2 for one in draws])))))
            moments = federation.moments(names(2), epsilon=epsilon, delta=DELTA).moments
            # (Σx)² in own units from the coded matrix: a quadratic form of sums of products, half-widths 10
            form = np.outer([HIGHEST, HIGHEST / 2, HIGHEST / 2], [HIGHEST, HIGHEST / 2, HIGHEST / 2])
            weight = np.where(np.eye(3, dtype=bool), 1.0, 2.0)
            error = math.sqrt(float((np.triu(weight * form) ** 2 * moments.variance).sum()))
            secure["moment"].append((people, error))
        federation, coded = mixed_federation(people, 100 * runs)
        centred = coded - coded.mean(axis=0)
        with federation:
            errors, _ = gram_errors(federation, centred.T @ centred, epsilon, runs)
            local["gram"].append((people, float(np.sqrt(np.mean(errors**2)))))
            release = federation.moments(COLUMNS, epsilon=epsilon, delta=DELTA).moments
            secure["gram"].append((people, float(np.sqrt(release.variance[1:, 1:].mean()))))
    return {
        "epsilon": epsilon,
        "delta": DELTA,
        "local": local,
        "secure": secure,
        "exponent_of_people": {name: slope(*zip(*line, strict=True)) for name, line in local.items()},
    }


def count_errors(people: int, epsilon: float, runs: int) -> tuple[float, float]:
    rng = np.random.default_rng(SEED + 2)
    ids, schema = np.arange(people), cn.Schema(kind=cn.Category(list(range(5))))
    first = rng.integers(0, 5, people)
    second = np.where(rng.random(people) < 0.5, first, rng.integers(0, 5, people))
    parties = {
        name: cn.Party(pd.DataFrame({"id": ids, "kind": column}), schema=schema)
        for name, column in (("one", first), ("two", second))
    }
    truth = np.bincount(first * 5 + second, minlength=25)
    with cn.Federation.simulate(parties, id="id", budget=cn.Budget(epsilon=100.0 * runs)) as federation:
        errors = {}
        for method in ("response", "secure"):
            study = cn.PatternCount(["one.kind", "two.kind"], method=method, epsilon=epsilon)
            draws = [study.fit(federation, repeat=run).unbiased_.to_numpy() - truth for run in range(1, runs + 1)]
            errors[method] = float(np.sqrt(np.mean(np.square(draws))))
    return errors["response"], errors["secure"]


# Size -----------------------------------------------------------------------------------------------------------------------


def many_people(people: int) -> dict:
    """Counts and moments of many people in a process of its own."""
    script = str(HERE / "many_people.py")
    with tempfile.TemporaryDirectory(prefix="colonnade-bench-") as folder:
        subprocess.run([sys.executable, script, str(people), folder, "make"], check=True)
        quiet = {**os.environ, "COLONNADE_PROGRESS": "0"}
        done = subprocess.run(
            [sys.executable, script, str(people), folder], check=True, capture_output=True, text=True, env=quiet
        )
    return json.loads(done.stdout)
