"""What the benchmark of the primitives measures: data, one run of each estimate, and what theory predicts."""

import json
import math
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.frame import Row

import colonnade as cn
from colonnade.papers.estimation import UnbiasedPower
from colonnade.papers.protocols import SketchedMoments
from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import gaussian_party_price

HERE = Path(__file__).parent
SEED = 20_240_611
EPSILON, DELTA, HIGHEST = 0.5, 1e-6, 20
PEOPLE = 100_000
PUBLISHED = tomllib.loads((HERE / "published.toml").read_text())


# Data -----------------------------------------------------------------------------------------------------------------------


def visits(people: int, parties: int, seed: int = SEED) -> list[np.ndarray]:
    """Counts at each party: Poisson of mean 2, at most 20."""
    rng = np.random.default_rng(seed)
    return [np.minimum(rng.poisson(2.0, people), HIGHEST) for _ in range(parties)]


@cache
def visit_federation(people: int, parties: int) -> cn.Federation:
    columns = visits(people, parties)
    schema = cn.Schema(visits=cn.Numeric(0, HIGHEST, integer=True))
    ids = np.arange(len(columns[0]))
    parties = {
        f"party{number + 1}": cn.Party(pd.DataFrame({"id": ids, "visits": column}), schema=schema)
        for number, column in enumerate(columns)
    }
    return cn.Federation.simulate(parties, id="id", budget=cn.Budget(epsilon=9_000.0, delta=1e-3))


def names(parties: int) -> list[str]:
    return [f"party{number + 1}.visits" for number in range(parties)]


# Moments --------------------------------------------------------------------------------------------------------------------


def moment(run: int, p: float, people: int = PEOPLE, parties: int = 2, epsilon: float = EPSILON) -> Iterator[Row]:
    """One estimate of a moment of sums of visits, relative to the true one."""
    sums = np.sum(visits(people, parties), axis=0).astype(float)
    study = cn.Moment(names(parties), p, epsilon=epsilon, unit="party")
    found, truth = study.fit(visit_federation(people, parties), repeat=run), float((sums**p).sum())
    values = {
        "estimate": found.value_ / truth,
        "squared": (found.value_ / truth - 1) ** 2,
        "stated": found.stderr_ / truth,
    }
    if people == PEOPLE and p % 2:
        values["obvious"] = min(obvious(p).values())
    yield Row({"p": p, "people": people, "parties": parties, "epsilon": epsilon}, values)


@cache
def obvious(p: float) -> dict[str, float]:
    """The relative standard deviation with the usual continuations of y^p below zero, exactly, by the law of the noise."""
    sums = np.sum(visits(PEOPLE, 2), axis=0).astype(float)
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


def as_written(run: int, alpha: float = 0.3) -> Iterator[Row]:
    """Algorithm 2 of Primitives (docs/references.md#primitives), with numpy's generator: M + 1 categories per party.

    Every pattern is counted and clipped.
    """
    columns, published = visits(PEOPLE, 2), PUBLISHED["moments"]
    people, parties, begin = len(columns[0]), len(columns), time.time()
    scale = published["laplace_scale_times_epsilon"] / EPSILON
    bound = parties * scale * math.log(published["failure_share"] * (people * parties) ** 2)
    largest = math.ceil(2 * bound / alpha)
    rng = np.random.default_rng([SEED, run])
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
    for p in (2, 3):
        total = float((noisy[large] ** p).sum() + (np.maximum(counts, 0) * (first + second).astype(float) ** p).sum())
        values = {"times the moment": total / float((sums**p).sum()) - 1, "sd of a count": float(counts.std())}
        yield Row({"p": p, "patterns": (largest + 1) ** 2}, {**values, "seconds": time.time() - begin})


# Sketches ------


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


@cache
def mixed_federation(people: int) -> tuple[cn.Federation, np.ndarray]:
    frames, schema, coded = mixed(people)
    parties = {name: cn.Party(frame, schema=schema[name]) for name, frame in frames.items()}
    return cn.Federation.simulate(parties, id="id", budget=cn.Budget(epsilon=9_000.0, delta=1e-3)), coded


def gram_error(people: int, epsilon: float, run: int) -> tuple[np.ndarray, SketchedMoments]:
    """The error of the centred Gram matrix, through gates, ledgers and codec."""
    federation, coded = mixed_federation(people)
    centred = coded - coded.mean(axis=0)
    share = gaussian_party_price(Price.of(epsilon, DELTA), 2, "person")
    algorithm = SketchedMoments(federation.describe(COLUMNS), share, federation.people, draw=run)
    price = Price.of(epsilon, DELTA)
    plan = federation._driver.plan(
        algorithm, task="moments", method="sketch", price=price, unit="person", parameters={}, repeat=run
    )
    found = federation._driver.run(algorithm, plan).value
    sums = found.matrix[0, 1:]
    return found.matrix[1:, 1:] - np.outer(sums, sums) / federation.people - centred.T @ centred, algorithm


def sketches(run: int, epsilon: float) -> Iterator[Row]:
    """Squared errors over what theory predicts for them."""
    federation, coded = mixed_federation(PEOPLE)
    centred = coded - coded.mean(axis=0)
    exact = centred.T @ centred
    error, algorithm = gram_error(PEOPLE, epsilon, run)
    price = {"method": "sketch", "epsilon": epsilon, "delta": DELTA}
    model = cn.LinearRegression("telco.d", columns=COLUMNS[:3], **price).fit(federation, repeat=run)
    components = cn.PCA(2, columns=COLUMNS, **price).fit(federation, repeat=run).components_
    best = float(np.linalg.eigvalsh(exact)[-2:].sum())
    lost = max(1 - float(np.trace(components @ exact @ components.T)) / best, 0.0)
    weights = np.linalg.solve(exact[:3, :3], exact[:3, 3])
    solved = np.linalg.solve((exact + error)[:3, :3], (exact + error)[:3, 3]) - weights
    noise, size = algorithm.entry_noise(), algorithm.size
    spread = float(np.trace(coefficient_covariance(exact, noise, weights, size)))
    ratios = {
        "Gram matrix, Frobenius": float((error**2).sum()) / float(algorithm.variance(exact)[1:, 1:].sum()),
        "captured variance lost": lost / (predicted_loss(exact, noise, size) / best),
        "coefficients, ℓ2, plain solve": float((solved**2).sum()) / spread,
        "coefficients, ℓ2, `LinearRegression` (shrinks)": float(((model.coef_ - weights) ** 2).sum()) / spread,
    }
    for name, ratio in ratios.items():
        yield Row({"error": name, "epsilon": epsilon, "size": size}, {"squared ratio": ratio})


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


# Three lines: ours without peers, the lower bound, the secure channel -----


def lines(run: int, people: int) -> Iterator[Row]:
    """Root mean square errors of one draw: each party alone, and the secure channel at the same price."""
    epsilon, found = 1.0, {}
    found["counts"] = count_errors(people, epsilon, run)
    visited = visit_federation(people, 2)
    alone = cn.Moment(names(2), 2, change="bounds", epsilon=epsilon).fit(visited, repeat=run).stderr_
    moments = visited.moments(names(2), epsilon=epsilon, delta=DELTA, repeat=run).moments
    # (Σx)² in own units from the coded matrix: a quadratic form of sums of products, half-widths 10
    form = np.outer([HIGHEST, HIGHEST / 2, HIGHEST / 2], [HIGHEST, HIGHEST / 2, HIGHEST / 2])
    weight = np.where(np.eye(3, dtype=bool), 1.0, 2.0)
    found["second moment"] = alone, math.sqrt(float((np.triu(weight * form) ** 2 * moments.variance).sum()))
    error, _ = gram_error(people, epsilon, run)
    release = mixed_federation(people)[0].moments(COLUMNS, epsilon=epsilon, delta=DELTA, repeat=run).moments
    found["Gram entry"] = float(np.sqrt(np.mean(error**2))), float(np.sqrt(release.variance[1:, 1:].mean()))
    for primitive, (local, secure) in found.items():
        for who, one in (("each party alone", local), ("secure channel", secure), ("√people", math.sqrt(people))):
            yield Row({"primitive": primitive, "people": people, "who": who}, {"error": one})


def count_errors(people: int, epsilon: float, run: int) -> tuple[float, float]:
    rng = np.random.default_rng(SEED + 2)
    ids, schema = np.arange(people), cn.Schema(kind=cn.Category(list(range(5))))
    first = rng.integers(0, 5, people)
    second = np.where(rng.random(people) < 0.5, first, rng.integers(0, 5, people))
    parties = {
        name: cn.Party(pd.DataFrame({"id": ids, "kind": column}), schema=schema)
        for name, column in (("one", first), ("two", second))
    }
    truth = np.bincount(first * 5 + second, minlength=25)
    with cn.Federation.simulate(parties, id="id", budget=cn.Budget(epsilon=100.0)) as federation:
        errors = {}
        for method in ("response", "secure"):
            study = cn.PatternCount(["one.kind", "two.kind"], method=method, epsilon=epsilon)
            errors[method] = float(np.sqrt(np.mean((study.fit(federation, repeat=run).unbiased_ - truth) ** 2)))
    return errors["response"], errors["secure"]


# Size -----


def many_people(_run: int, people: int) -> Iterator[Row]:
    """Counts and moments of many people in a process of its own."""
    script = str(HERE / "many_people.py")
    with tempfile.TemporaryDirectory(prefix="colonnade-bench-") as folder:
        subprocess.run([sys.executable, script, str(people), folder, "make"], check=True)
        quiet = {**os.environ, "COLONNADE_PROGRESS": "0"}
        done = subprocess.run(
            [sys.executable, script, str(people), folder], check=True, capture_output=True, text=True, env=quiet
        )
    found = json.loads(done.stdout)
    for step, seconds in found["seconds"].items():
        yield Row({"people": people, "step": step}, {"seconds": seconds, "peak MB": found["peak_bytes"][step] / 1e6})
    yield Row({"people": people}, {"peak over columns read": found["peak_over_columns_read"]})
