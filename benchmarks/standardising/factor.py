"""How far standardised values should reach: fits by Newton steps on simulated people whose truth is known.

``python -m benchmarks.standardising.factor``. Twenty-four tables of 25,000 people in three parties: normal, log-normal and mostly
zero columns, categories, bounds up to ten times as wide as the values, 4 to 30 % positive. For each factor of the reach, the
excess deviance over maximum likelihood, as a part of what maximum likelihood gains over the constant model.
"""

import warnings

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit

import colonnade as cn
from colonnade.coordinator.protocols import moment_releases
from colonnade.estimators.frames import design_matrix
from colonnade.estimators.methods import moments
from colonnade.schema import features_of

FACTORS = (0.03, 0.05, 0.07, 0.1)
PRICES = (0.5, 2.0, 8.0, 50.0)
TABLES, PEOPLE, COLUMNS = 24, 25_000, 9


def table(seed: int) -> tuple[pd.DataFrame, dict[str, cn.Numeric | cn.Category], np.ndarray]:
    """Return people with columns named ``"party.column"``, what is public about these, and labels."""
    draw = np.random.default_rng(seed)
    frame, described, score = {}, {}, np.zeros(PEOPLE)
    wide = draw.choice([1.0, 3.0, 10.0])
    normal = draw.normal(size=(PEOPLE, COLUMNS)) @ np.linalg.cholesky(0.25 + 0.75 * np.eye(COLUMNS)).T
    for place in range(COLUMNS):
        name = f"{'abc'[place % 3]}.c{place}"
        kind = draw.choice(["normal", "log", "zero", "levels", "flag"])
        effect = draw.normal() * draw.choice([0.2, 0.6, 1.2])
        if kind == "levels":
            count = int(draw.integers(3, 7))
            edges = np.quantile(draw.normal(size=200), np.linspace(0, 1, count + 1)[1:-1])
            codes, levels = np.digitize(normal[:, place], edges), [f"l{number}" for number in range(count)]
            frame[name], described[name] = np.array(levels)[codes], cn.Category(levels)
            score += (draw.normal(size=count) * 0.6)[codes]
        elif kind == "flag":
            on = normal[:, place] > draw.uniform(0, 1.8)
            frame[name], described[name] = np.where(on, "y", "n"), cn.Category(["n", "y"])
            score += effect * on
        else:
            values = {
                "normal": normal[:, place],
                "log": np.exp(normal[:, place] * draw.uniform(0.6, 1.3)),
                "zero": np.where(normal[:, place] > 1.4, np.exp(draw.normal(size=PEOPLE) * 0.9), 0.0),
            }[kind]
            score += effect * (values - values.mean()) / values.std()
            middle, high = (values.max() + values.min()) / 2, values.max()
            low = middle - wide * (high - middle) if kind == "normal" else 0.0
            high = middle + wide * (high - middle) if kind == "normal" else wide * high
            frame[name], described[name] = values, cn.Numeric(float(low), float(high))
    rate = draw.choice([0.04, 0.12, 0.3])
    constant = brentq(lambda one: float(expit(score + one).mean()) - rate, -40, 40)
    labels = draw.random(PEOPLE) < expit(score + constant)
    return pd.DataFrame(frame), described, labels.astype(float)


def likeliest(frame: pd.DataFrame, described: dict[str, cn.Numeric | cn.Category], labels: np.ndarray) -> np.ndarray:
    """Return the chances by maximum likelihood."""
    rows = design_matrix(frame, features_of(described)[1:], described, coded=True)
    rows = np.column_stack([np.ones(len(rows)), (rows - rows.mean(0)) / np.maximum(rows.std(0), 1e-9)])
    weights = np.zeros(rows.shape[1])
    for _ in range(60):
        chances = expit(rows @ weights)
        curvature = (rows * (chances * (1 - chances))[:, None]).T @ rows + 1e-6 * np.eye(len(weights))
        step = np.linalg.solve(curvature, rows.T @ (labels - chances) - 1e-6 * weights)
        weights += step * min(1.0, 2 / max(np.sqrt(step @ curvature @ step / len(labels)), 1e-9))
    return np.asarray(expit(rows @ weights))


def deviance(chances: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean deviance."""
    kept = np.clip(chances, 1e-9, 1 - 1e-9)
    return float(-np.mean(labels * np.log(kept) + (1 - labels) * np.log(1 - kept)))


def main() -> None:
    """Print the mean and the largest excess for each price and factor."""
    warnings.simplefilter("ignore")
    found: dict[tuple[float, float], list[float]] = {}
    for seed in range(TABLES):
        frame, described, labels = table(seed)
        best, constant = (
            deviance(likeliest(frame, described, labels), labels),
            deviance(np.full(PEOPLE, labels.mean()), labels),
        )
        whole = frame.assign(**{"a.y": np.where(labels > 0, "yes", "no")})
        columns = {**described, "a.y": cn.Category(["no", "yes"])}
        for epsilon in PRICES:
            for factor in FACTORS:
                moment_releases.GRADIENTS = moments.GRADIENTS = moment_releases.Rule(factor, 1 / 2)
                parties = {}
                for party in "abc":
                    own = {name.partition(".")[2]: one for name, one in columns.items() if name.startswith(f"{party}.")}
                    rows = whole[[f"{party}.{name}" for name in own]].set_axis(list(own), axis=1)
                    parties[party] = cn.Party(rows.assign(id=np.arange(PEOPLE)), schema=cn.Schema(own))
                with cn.Federation.simulate(
                    parties, id="id", budget=cn.Budget(epsilon=100.0, delta=1e-5)
                ) as federation:
                    model = cn.LogisticRegression("a.y", epsilon=epsilon, delta=1e-6).fit(federation)
                excess = deviance(model.predict_proba(frame)[:, 1], labels) - best
                found.setdefault((epsilon, factor), []).append(excess / (constant - best))
    for (epsilon, factor), excess in found.items():
        print(f"ε = {epsilon:g}, factor {factor:g}: mean {np.mean(excess):.4f}, largest {np.max(excess):.3f}")


if __name__ == "__main__":
    main()
