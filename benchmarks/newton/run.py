"""Logistic regression by Newton steps: accuracy through the whole channel, beside one curator, and whether intervals cover.

*Accuracy* on the fifth of the rows left out, δ = 10⁻⁶, c = 1: area under the curve, share predicted right, Brier score and
calibration error (ten bins). A run is a new split and a new draw. *Newton* and *secure* run through the whole channel;
*central* is the plan of *newton* run in one place with the channel's noise; diffprivlib gets the pooled, coded rows at the
same ε and δ = 0.

*Nearness*: on all rows at ε = 1,000, the largest distance of an identified coefficient from the maximum-likelihood estimate,
in sampling errors. A coefficient is identified if its sampling error is below 3 in log-odds, after the first level of each
category is taken as the reference.

*Intervals*: the plan is run centrally with the channel's noise; the inference is the library's own (``intervals.py``). *Without
sampling*: does ``conf_int(total=False)`` cover the maximum-likelihood estimate on the same people? *With sampling*: does
``conf_int()`` cover that of a population, for samples of it? A run is a batch of draws. The *oracle* knows the true information
matrix and the law of the noise. *Worst* is the smallest p-value, over coefficients, of a binomial test of 95 %. *Bias* is the
largest among coefficients that are determined in at least half of the draws, in units of the stated total error. No constant
was settled with bank marketing's additional table or with flights; the others are no independent evidence.

*Cost*: bytes that went through the coordinator, and processor seconds of the whole federation, beside one Gram matrix of the
same columns: 50,000 people with 106 coded columns, and 1,000,000 with 30, at four parties, of whom three compute. Seconds are the
least of two turns after one to warm up, in turns with the Gram matrix.
"""

import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from benchmarks.frame import (
    Benchmark,
    Claim,
    Part,
    Plot,
    Results,
    Row,
    Sample,
    Table,
    above,
    below,
    better,
    data_file,
    same,
    within,
)
from benchmarks.frame.claims import Test, covered_as_stated
from benchmarks.frame.peers import DIFFPRIVLIB

import colonnade as cn
from colonnade.estimation.scoring import coded_weights

sys.path.insert(
    0, str(Path(__file__).parent)
)  # scripts of the additive benchmark use these modules by their bare names

import intervals
import newton_cost
from central import DELTA, Central
from likelihood import Nearness, figures, maximum_likelihood
from newton_sets import MORE, SETS, Joined, demo

EPSILONS = (0.1, 1.0, 10.0)
AREAS = {("adult", 0.1): 0.866, ("adult", 1.0): 0.898, ("adult", 10.0): 0.903}
RIGHT, BRIER, CALIBRATED = 0.847, 0.004, 0.02
NEAREST, NEAR = 1_000.0, 0.25
NAMED = ("demo", "bank")
"""The sets for which the issue sets a bar on single coefficients. The same bar is tried on the others."""
FAMILY = 1e-3
FILES = {"adult": "adult", "bank": "bank_marketing", "credit": "credit_card_default"}
FILES |= {"bank, additional": "bank_marketing_additional", "flights": "nycflights13_flights"}
PEER = Path(__file__).parents[1] / "moments" / "diffprivlib_logistic.py"


@cache
def loaded(name: str) -> Joined:
    if name in FILES:
        data_file(FILES[name])  # says so where it is missing
    return demo(100_000) if name == "demo, large" else {**SETS, **MORE}[name]()


def through_channel(data: Joined, epsilon: float, method: str, run: int) -> np.ndarray:
    """Fit with the whole channel; return the weights of coded columns, the constant's first."""
    with data.federation(budget=cn.Budget(epsilon=2 * epsilon, delta=DELTA)) as federation:
        study = cn.LogisticRegression(data.target, method=method, epsilon=epsilon, delta=DELTA)
        model = study.fit(federation, repeat=run)
    weights, intercepts = coded_weights(data.explaining, model.coef_, model.intercept_)
    return np.append(intercepts, weights[0])


def accuracy(run: int, set: str) -> Iterator[Row]:  # noqa: A002  # the label on the page
    train, test = loaded(set).split(run)

    def row(method: str, epsilon: float | str, weights: np.ndarray) -> Row:
        return Row({"set": set, "method": method, "epsilon": epsilon}, figures(test, weights))

    yield row("maximum likelihood", "none", maximum_likelihood(train.rows, train.labels))
    simulated = Central(train)
    for epsilon in EPSILONS:
        yield row("central", epsilon, simulated.fit(epsilon, np.random.default_rng(run)))
        for method in ("newton", "secure"):
            yield row(method, epsilon, through_channel(train, epsilon, method, run))
    asked = {"train": train.rows[:, 1:].tolist(), "labels": train.labels.astype(int).tolist()}
    asked |= {"test": test.rows[:, 1:].tolist(), "truth": test.labels.astype(int).tolist()}
    found = DIFFPRIVLIB.ask(PEER, epsilons=EPSILONS, bound=math.sqrt(len(train.explaining)), **asked)
    for epsilon, share in zip(EPSILONS, found, strict=True):
        yield Row({"set": set, "method": "diffprivlib", "epsilon": epsilon}, {"accuracy": share})


@cache
def nearness(name: str) -> tuple[Nearness, Central]:
    return Nearness(loaded(name)), Central(loaded(name))


def near_likelihood(run: int, set: str) -> Iterator[Row]:  # noqa: A002
    near, whole = nearness(set)
    off = near.largest(whole.fit(NEAREST, np.random.default_rng(run)))
    yield Row({"set": set, "how": "central"}, {"sampling errors off": off})
    off = near.largest(through_channel(loaded(set), NEAREST, "newton", run))
    yield Row({"set": set, "how": "channel"}, {"sampling errors off": off})


def without_sampling(run: int, set: str, epsilon: float) -> Iterator[Row]:  # noqa: A002
    yield Row({"set": set, "epsilon": epsilon}, intervals.without_sampling(loaded(set), epsilon, run))


def with_sampling(run: int, set: str, epsilon: float) -> Iterator[Row]:  # noqa: A002
    yield Row({"set": f"{set}, samples", "epsilon": epsilon}, intervals.with_sampling(loaded(set), epsilon, run))


def costs(run: int, people: int) -> Iterator[Row]:
    for study, values in newton_cost.cost(people, run).items():
        yield Row({"people": people, "study": study}, values)


# Claims -----------------------------------------------------------------------------------------------------------------------


def total(found: Results, part: str, one: str, other: str) -> Sample:
    """Return a share over all rows, one value per run."""
    rows = [samples for _, samples in found.rows(part)]
    runs = min((samples[one].runs for samples in rows), default=0)
    sums = lambda name, run: sum(samples[name].values[run] for samples in rows)  # noqa: E731
    return Sample(tuple(sums(one, run) / max(sums(other, run), 1) for run in range(runs)))


def coverage_claims(part: str) -> Iterator[Claim]:
    def covered(found: Results) -> Iterator[Test]:
        one = total(found, part, "covered", "intervals")
        if one.runs:
            yield above(one, 0.93)
            yield below(one, 0.98)

    def called(found: Results) -> Iterator[Test]:
        one = total(found, part, "called of oracle", "oracle draws")
        if one.runs:
            yield above(one, 0.8)

    yield Claim(f"{part}: intervals cover, all together", "93 to 98 %", covered, "the issue")
    yield Claim(
        f"{part}: coverage of every coefficient, smallest corrected p of its binomial test",
        f"at least {FAMILY:g}",
        lambda found: covered_as_stated((samples for _, samples in found.rows(part)), intervals.LEVEL, FAMILY),
        "the issue",
    )
    yield Claim(f"{part}: of what the oracle determines, called determined", "at least 80 %", called, "the issue")
    yield Claim(
        f"{part}: median width over the oracle's, every row",
        "at most 1.3",
        lambda found: [below(samples["width"], 1.3) for _, samples in found.rows(part) if "width" in samples],
        "the issue",
    )


def coefficient_claims() -> Iterator[Claim]:
    """Yield the claims about single coefficients: on the sets that the issue names, and on the others."""
    for named, words, who in ((True, "demo and bank", "the issue"), (False, "the other sets", "our extension of it")):
        yield Claim(
            f"{words}, ε = {NEAREST:g}: within {NEAR:g} sampling errors of maximum likelihood",
            f"at most {NEAR:g}",
            lambda found, named=named: [
                below(samples["sampling errors off"], NEAR)
                for labels, samples in found.rows("nearness")
                if (labels["set"] in NAMED) is named
            ],
            who,
        )
        yield Claim(
            f"{words}, ε = 1: bias over {intervals.BATCH} draws, the largest of a set, in stated total errors",
            "at most 0.5",
            lambda found, named=named: [
                below(samples["bias"], 0.5)
                for labels, samples in found.rows("without sampling", epsilon=1.0)
                if "bias" in samples and (labels["set"] in NAMED) is named
            ],
            who,
        )


def at_most(difference: Test, most: float) -> Test:
    """Return the test that a difference is at most so large, for scores of which smaller ones are better."""
    return replace(difference, low=-math.inf, high=most)


def areas(found: Results, method: str) -> Iterator[tuple[Sample, Sample]]:
    """Yield the areas of newton and of another method, on every set at every ε."""
    for name in found.labels("accuracy", "set"):
        for epsilon in EPSILONS:
            where = {"set": name, "epsilon": epsilon}
            ours, other = (found.sample("accuracy", "auc", method=one, **where) for one in ("newton", method))
            yield ours, other


CLAIMS = [
    *(
        Claim(
            f"{name}, ε = {epsilon:g}: area under the curve of newton",
            f"at least {bar:g}",
            lambda found, name=name, epsilon=epsilon, bar=bar: [
                above(found.sample("accuracy", "auc", set=name, method="newton", epsilon=epsilon), bar)
            ],
            "the issue",
        )
        for (name, epsilon), bar in AREAS.items()
    ),
    Claim(
        "adult, ε = 1: share predicted right",
        f"at least {RIGHT:g}",
        lambda found: [above(found.sample("accuracy", "accuracy", set="adult", method="newton", epsilon=1.0), RIGHT)],
        "the issue",
    ),
    *(
        Claim(
            f"adult, ε = {epsilon:g}: Brier score above that of maximum likelihood",
            f"at most {BRIER:g}",
            lambda found, epsilon=epsilon: [
                at_most(
                    better(
                        found.sample("accuracy", "brier", set="adult", method="newton", epsilon=epsilon),
                        found.sample("accuracy", "brier", set="adult", method="maximum likelihood"),
                    ),
                    BRIER,
                )
            ],
            "the issue",
        )
        for epsilon in EPSILONS
    ),
    *(
        Claim(
            f"adult, ε = {epsilon:g}: calibration error",
            f"at most {CALIBRATED:g}",
            lambda found, epsilon=epsilon: [
                below(
                    found.sample("accuracy", "calibration", set="adult", method="newton", epsilon=epsilon), CALIBRATED
                )
            ],
            "the issue",
        )
        for epsilon in EPSILONS
    ),
    Claim(
        "the channel gives what one curator with its noise would: areas by pairs, every set and ε",
        "margin 0.005",
        lambda found: [same(*pair, 0.005) for pair in areas(found, "central")],
        "the issue",
    ),
    Claim(
        'never below "secure" at the same price: areas by pairs, every set and ε',
        "by at most 0.003",
        lambda found: [better(*pair, -0.003) for pair in areas(found, "secure")],
        "the issue",
    ),
    *coefficient_claims(),
    *coverage_claims("without sampling"),
    *coverage_claims("with sampling"),
    *(
        Claim(
            f"{people:,} people: {words} beside one Gram matrix",
            f"at most {bar:g} ×",
            lambda found, people=people, value=value, bar=bar: [
                within(
                    *(
                        found.sample("cost", value, people=people, study=study)
                        for study in ("newton", "one Gram matrix")
                    ),
                    bar,
                )
            ],
            "the issue",
        )
        for people, bar in newton_cost.BARS.items()
        for value, words in (("bytes", "bytes"), ("seconds", "processor time"))
    ),
]
ROLES = {
    "newton": "ours",
    "secure": "ours",
    "central": "central",
    "diffprivlib": "peer",
    "maximum likelihood": "plain",
}
WHERE = {"set": "set", "epsilon": "ε"}
COVERED = {
    "oracle": "determined for the oracle",
    "coefficients": "coefficients",
    "called of oracle": "of these called so, all draws",
    "oracle draws": "of",
    "covered": "covered",
    "intervals": "of intervals",
    "worst": "worst p",
    "width": "width, oracle = 1",
    "bias": "largest bias",
}
BENCHMARK = Benchmark(
    name="newton",
    title="Logistic regression by Newton steps",
    about=__doc__ or "",
    packages=("numpy", "scikit-learn"),
    parts=[
        Part("accuracy", accuracy, [{"set": name} for name in SETS], 20, 13.0),
        Part("nearness", near_likelihood, [{"set": name} for name in SETS], 6, 1.0),
        Part(
            "without sampling",
            without_sampling,
            [{"set": name, "epsilon": epsilon} for name in (*SETS, *MORE) for epsilon in intervals.EPSILONS],
            5,
            5.0,
        ),
        Part(
            "with sampling",
            with_sampling,
            [{"set": name, "epsilon": epsilon} for name in ("demo, large", "bank") for epsilon in intervals.EPSILONS],
            5,
            2.0,
        ),
        Part(
            "cost", costs, [{"people": people} for people in newton_cost.BARS], 3, 5.0, machine=frozenset({"seconds"})
        ),
    ],
    shown=[
        "## Accuracy",
        Plot(
            "auc",
            "accuracy",
            "auc",
            "epsilon",
            "method",
            "Logistic regression by Newton steps: AUC",
            "AUC",
            panel="set",
        ),
        Table(
            "accuracy", {"auc": "AUC"}, WHERE, across="method", words="Area under the curve.", roles=ROLES, higher=True
        ),
        Table(
            "accuracy", {"accuracy": "accuracy"}, WHERE, across="method", words="Accuracy.", roles=ROLES, higher=True
        ),
        Table("accuracy", {"brier": "Brier"}, WHERE, across="method", words="Brier score.", filled="brier"),
        Table(
            "accuracy",
            {"calibration": "calibration"},
            WHERE,
            across="method",
            words="Calibration error.",
            filled="brier",
        ),
        "## Nearness to maximum likelihood",
        Table("nearness", {"sampling errors off": "sampling errors off"}, {"set": "set"}, across="how", digits=3),
        "## Intervals",
        Table(
            "without sampling", COVERED, WHERE, words=f"Without sampling, {intervals.BATCH} draws per run.", digits=3
        ),
        Table("with sampling", COVERED, WHERE, words=f"With sampling, {intervals.BATCH} draws per run.", digits=3),
        "## Cost",
        Table(
            "cost",
            {"bytes": "bytes", "seconds": "processor seconds"},
            {"people": "people", "study": "study"},
            digits=3,
        ),
    ],
    claims=CLAIMS,
)
