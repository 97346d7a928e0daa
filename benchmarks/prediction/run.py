"""Scoring a million people across three parties, and evaluating models privately, beside the exact figures.

*Scoring.* Three parties of ten columns each: the time of ``model.predict(federation, to="bank")``, with everything included
(agreeing, products, masks, sealing, adding up, keeping), beside that of the plaintext product of the whole table with the
weights, in the same run, so that other work on the machine weighs on both. Memory is the peak of a process that holds all
three parties.

*Evaluation.* King County houses and Adult, 4,000 people held out: how far figures are off, how wide their intervals are, and
how often the interval covers the exact figure, over draws of the noise.
"""

import math
import resource
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.frame import Benchmark, Claim, Part, Results, Row, Table, below, data_file, share, within
from benchmarks.frame.claims import Test
from benchmarks.frame.public import PublicData, adult, kc_house
from sklearn.metrics import r2_score, roc_auc_score

import colonnade as cn
from colonnade.estimators.frames import design_matrix

PARTIES = ("bank", "telco", "insurer")
COLUMNS = 10
BAR = 10.0
EPSILONS = (0.5, 1.0, 4.0)
HELD_OUT = 4_000


# Scoring ------


@cache
def scored(people: int) -> tuple[cn.Federation, Any, np.ndarray]:
    """Three parties, a model of theirs, and their table in one piece."""
    rng = np.random.default_rng(0)
    values = rng.uniform(-1, 1, (people, len(PARTIES) * COLUMNS))
    parties = {}
    for number, name in enumerate(PARTIES):
        own = values[:, number * COLUMNS : (number + 1) * COLUMNS]
        frame = pd.DataFrame(own, columns=[f"x{place}" for place in range(COLUMNS)]).assign(id=np.arange(people))
        parties[name] = cn.Party(frame, schema=cn.Schema({f"x{p}": cn.Numeric(-1, 1) for p in range(COLUMNS)}))
    policies = {name: cn.Policy(predictions={"LinearRegression": ["bank"]}) for name in PARTIES}
    budget = cn.Budget(epsilon=1.0, delta=1e-6)
    federation = cn.Federation.simulate(parties, id="id", budget=budget, policies=policies)
    model = cn.LinearRegression("bank.x0", epsilon=1.0, delta=1e-6).fit(federation)
    return federation, model, np.ascontiguousarray(values[:, 1:])


def scoring(_run: int, people: int) -> Iterator[Row]:
    """Time both sides in turns; the plaintext side has the table and the weights at hand and nothing else to do."""
    federation, model, table = scored(people)
    plain = _seconds(lambda: table @ model.coef_ + model.intercept_)
    model.intercept_ += 1e-3  # another plan: nothing is remembered
    begin = time.perf_counter()
    delivery = model.predict(federation, to="bank")
    ours = time.perf_counter() - begin
    worst = float(np.max(np.abs(np.asarray(delivery) - (table @ model.coef_ + model.intercept_))))
    yield Row({"people": people, "who": "plaintext product"}, {"seconds": plain})
    yield Row({"people": people, "who": "to one party"}, {"seconds": ours})
    values = {"MB": delivery.transcript_.bytes / 1e6, "largest difference": worst, "peak memory, MB": _memory()}
    yield Row({"people": people}, values)


def _seconds(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# Evaluation ------


def exact_regression(model: Any, rows: pd.DataFrame) -> dict[str, float]:
    truth, found = rows[model.target].to_numpy(dtype=float), model.predict(rows)
    return {"rmse": math.sqrt(float(np.mean((truth - found) ** 2))), "r2": float(r2_score(truth, found))}


def exact_classification(model: Any, rows: pd.DataFrame) -> dict[str, float]:
    truth = rows[model.target].to_numpy()
    chances = model.predict_proba(rows)[:, 1]
    return {
        "accuracy": float(np.mean(model.predict(rows) == truth)),
        "auc": float(roc_auc_score(truth == model.classes_[1], chances)),
    }


def coded_rows(model: Any, rows: pd.DataFrame) -> np.ndarray:
    return design_matrix(rows, model._coded, model._columns, coded=True)  # noqa: SLF001  # as the model itself codes them


def exact_components(model: Any, rows: pd.DataFrame) -> dict[str, float]:
    coded, scores = coded_rows(model, rows), model.transform(rows)
    return {"explained_variance_ratio": float(scores.var(axis=0).sum() / coded.var(axis=0).sum())}


def exact_clusters(model: Any, rows: pd.DataFrame) -> dict[str, float]:
    centres = model._coded_centres  # noqa: SLF001  # the loss is defined in coded columns
    return {"loss": float(((coded_rows(model, rows)[:, None] - centres) ** 2).sum(axis=2).min(axis=1).mean())}


CASES: dict[str, tuple[str, Callable[[str], Any], Callable]] = {
    "King County, LinearRegression": (
        "King County",
        lambda t: cn.LinearRegression(t, epsilon=4.0, delta=1e-6),
        exact_regression,
    ),
    "King County, PCA": ("King County", lambda _: cn.PCA(3, epsilon=4.0, delta=1e-6), exact_components),
    "King County, KMeans": ("King County", lambda _: cn.KMeans(3, epsilon=4.0, delta=1e-6), exact_clusters),
    "Adult, LogisticRegression": (
        "Adult",
        lambda t: cn.LogisticRegression(t, epsilon=4.0, delta=1e-6),
        exact_classification,
    ),
    "Adult, PCA": ("Adult", lambda _: cn.PCA(3, epsilon=4.0, delta=1e-6), exact_components),
    "Adult, KMeans": ("Adult", lambda _: cn.KMeans(3, epsilon=4.0, delta=1e-6), exact_clusters),
}


@cache
def fitted(case: str) -> tuple[Any, cn.Federation, dict[str, float]]:
    """A model, the people held out, and the exact figures."""
    title, make, exact = CASES[case]
    data = adult(data_file("adult")) if title == "Adult" else kc_house(data_file("kc_house"))
    order = np.random.default_rng(1).permutation(len(data.frame))
    held_out, rest = np.sort(order[:HELD_OUT]), np.sort(order[HELD_OUT:])
    frame = data.frame.loc[held_out]
    named = pd.DataFrame({f"{p}.{c}": frame[c] for p, schema in data.schemas.items() for c in schema})
    with _federation(data, rest) as train:
        model = make(data.target).fit(train)
    return model, _federation(data, held_out), exact(model, named)


def evaluation(run: int, model: str, epsilon: float) -> Iterator[Row]:
    made, test, figures = fitted(model)
    found = made.evaluate(test, epsilon=epsilon, delta=1e-6, repeat=run)
    for name, value in figures.items():
        one = found[name]
        values = {
            "exact": value,
            "error": abs(one.value - value),
            "width": one.high - one.low,
            "covered": one.covers(value),
        }
        finite = {
            what: float(value_) for what, value_ in values.items() if math.isfinite(value_)
        }  # an interval may be open
        yield Row({"model": model, "figure": name, "epsilon": epsilon}, finite)


def _federation(data: PublicData, rows: np.ndarray) -> cn.Federation:
    parties = {name: cn.Party(t.loc[rows], schema=data.schemas[name]) for name, t in data.tables().items()}
    return cn.Federation.simulate(parties, id="person", budget=cn.Budget(epsilon=1e4, delta=1e-5))


def _covers(found: Results) -> Iterator[Test]:
    covered = [sum(samples["covered"].values) for _, samples in found.rows("evaluation")]
    trials = [samples["covered"].runs for _, samples in found.rows("evaluation")]
    if trials:
        yield share(sum(covered), sum(trials), 0.93, 1.0)


BENCHMARK = Benchmark(
    name="prediction",
    title="Using what was learned: scoring and private evaluation",
    about=__doc__ or "",
    parts=[
        Part("scoring", scoring, [{"people": 1_000_000}], 12, 1.5, machine=frozenset({"seconds", "peak memory, MB"})),
        Part(
            "evaluation",
            evaluation,
            [{"model": model, "epsilon": epsilon} for model in CASES for epsilon in EPSILONS],
            20,
            3.0,
        ),
    ],
    shown=[
        "## Scoring",
        Table(
            "scoring",
            {"seconds": "seconds"},
            {"people": "people"},
            across="who",
            filled="seconds",
            digits=3,
            costs=True,
        ),
        Table(
            "scoring",
            {
                "MB": "MB sent",
                "peak memory, MB": "peak memory, MB",
                "largest difference": "largest difference from the plaintext",
            },
            {"people": "people"},
            filled="MB",
            digits=3,
        ),
        "## Evaluation",
        Table(
            "evaluation",
            {"exact": "exact", "error": "error", "width": "width of the 95 % interval", "covered": "covered"},
            {"model": "model", "figure": "figure", "epsilon": "ε"},
            digits=3,
        ),
    ],
    claims=[
        Claim(
            f"scoring takes at most {BAR:g} times the plaintext product",
            f"at most {BAR:g} ×",
            lambda found: [
                within(
                    *(
                        found.sample("scoring", "seconds", people=1_000_000, who=w)
                        for w in ("to one party", "plaintext product")
                    ),
                    BAR,
                )
            ],
            "our bar",
        ),
        Claim(
            "deliveries equal the plaintext product",
            "within 10⁻⁶",
            lambda found: [
                below(samples["largest difference"], 1e-6) for _, samples in found.rows("scoring") if "MB" in samples
            ],
            "fixed point",
        ),
        Claim("95 % intervals of evaluations cover, all cases together", "93 to 100 %", _covers, "our bar"),
    ],
)
