"""Do 95 % intervals of `LinearRegression` cover, how wide are they, and what is called determined?

Four parties, c = 1, δ = 10⁻⁶, ε of 0.5, 1 and 4. *Without sampling*: does ``conf_int(total=False)`` cover least squares on
the same people? The noise has the law of the channel (the plan's own variances, Gaussian) and is drawn centrally, so that
every row has many draws; the rows marked *channel* are fits on the real channel. *With sampling*: does ``conf_int()`` cover
the coefficients of all people, for samples of them, and those of a model that people are drawn from?

The *oracle* knows the true matrix and the law of the noise. It calls a coefficient determined by the same rule, on the true
matrix, and its width is the first-order one. Coefficients that the data do not identify (living area is the sum of two others
in KC House) are left out. A run is a batch of draws. *Worst* is the smallest p-value, over coefficients and batches, of a
binomial test of 95 % among the draws in which a coefficient was called determined.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from benchmarks.coverage.coverage_sets import PUBLIC, Dealt, public_set, simulated
from benchmarks.frame import Benchmark, Claim, Part, Results, Row, Sample, Table, above, below
from benchmarks.frame.claims import Test, coverage_counts, covered_as_stated
from scipy import stats

import colonnade as cn
from colonnade.coordinator.protocols.moment_releases import GramRelease
from colonnade.estimation.moments import Moments
from colonnade.estimation.regression import (
    COUNTED,
    RESOLVED,
    Inference,
    MomentScore,
    level_sums,
    linear_from_moments,
    linear_inference,
)
from colonnade.privacy.accounting import Price
from colonnade.schema import coefficients_to_own_units, free_coefficients, written_levels
from colonnade.steps.kind import read_joint
from colonnade.steps.registry import STUDIES

EPSILONS = (0.5, 1.0, 4.0)
DELTA = 1e-6
LEVEL, FAMILY = 0.95, 1e-3
SAMPLE, BATCH = 8_000, 40
Array = Any


class Truth:
    """Least squares without noise, and what an oracle says about noise of a law."""

    def __init__(self, data: Dealt) -> None:
        rows = data.coded()
        self.features, self.target, self.people = data.features, data.target, len(rows)
        self.columns = [name for name in data.columns if name != data.target]
        self.matrix = rows.T @ rows
        places = [place for place, one in enumerate(self.features) if place and one.column != data.target]
        self.used = [self.features[place] for place in places]
        free = free_coefficients(self.used)
        kept = [0, *places]
        block = self.matrix[np.ix_(kept, kept)]
        explaining = Moments(block, np.zeros_like(block), self.people, tuple(self.features[place] for place in kept))
        self.design, self.weights = np.zeros((len(self.features), free.shape[1])), np.eye(len(self.features))[-1]
        self.design[kept] = level_sums(explaining, constant=COUNTED).T
        target = self.features[-1]
        into = coefficients_to_own_units(self.used)[1]
        self.into = (written_levels(self.used, "reference") @ into @ free * target.half_width)[:-1]
        information = self.design.T @ self.matrix @ self.design
        values, vectors = np.linalg.eigh(information)
        null = vectors[:, values < 1e-9 * values[-1]]
        self.inverse = np.linalg.pinv(information, rcond=1e-9, hermitian=True)
        self.solution = self.inverse @ (self.design.T @ self.matrix @ self.weights)
        self.estimates = self.into @ self.solution
        lengths = np.linalg.norm(self.into, axis=1)
        self.identified = (lengths > 0) & (
            np.linalg.norm(self.into @ null, axis=1) < 1e-6 * np.maximum(lengths, 1e-300)
        )

    def oracle(self, moments: Moments) -> tuple[Array, Array]:
        """Return the oracle's errors, and which coefficients it calls determined."""
        score = MomentScore(moments, self.design, self.weights)
        responses = self.inverse @ self.into.T
        inner = score.covariance(self.solution, np.zeros_like(self.inverse))
        errors = np.sqrt(np.einsum("ij,ik,kj->j", responses, inner, responses))
        information = np.einsum("ij,ji->i", self.into, responses)
        noise = np.sqrt(score.information_variance(responses))
        return errors, self.identified & (information >= RESOLVED * noise)


def law(data: Dealt, federation: cn.Federation, epsilon: float) -> Array:
    """Return the variance of every entry that the real channel would open."""
    release = GramRelease(data.columns, Price.of(epsilon, DELTA))
    plan = federation._driver.plan(
        release, task=STUDIES["LinearRegression"], method="secure", price=release.price, unit="person", parameters={}
    )
    return release.variance(read_joint(plan, plan.steps[0].name))


def drawn(truth: Truth, matrix: Array, variance: Array, people: int, rng: np.random.Generator) -> Inference:
    """Return inference on moments with noise drawn centrally."""
    noise = np.triu(rng.normal(size=matrix.shape) * np.sqrt(variance))
    moments = Moments.of_release(matrix + noise + np.triu(noise, 1).T, variance, people, truth.features)
    fit = linear_from_moments(moments, truth.target, columns=truth.columns)
    return linear_inference(moments, truth.target, fit.coefficients, columns=truth.columns, coding="reference").written


def measured(truth: Truth, found: list[Inference], moments: Moments, goal: Array, *, total: bool) -> dict[str, float]:
    """Return what the draws show."""
    errors, oracle = truth.oracle(moments)
    ends = np.array([one.interval(LEVEL, total=total)[:-1] for one in found])
    called = np.array([~one.hidden[:-1] for one in found]) & truth.identified
    inside = (ends[:, :, 0] <= goal) & (goal <= ends[:, :, 1])
    tests = [
        (float(stats.binom.cdf(inside[called[:, k], k].sum(), called[:, k].sum(), LEVEL)), k)
        for k in np.flatnonzero(called.any(axis=0))
    ]
    widths = [
        np.median(np.array([one.errors(total=False)[k] for one in found])[called[:, k]]) / errors[k] for _, k in tests
    ]
    values = {
        "coefficients": truth.identified.sum(),
        "oracle": oracle.sum(),
        "covered": inside[called].sum(),
        "intervals": called.sum(),
        "called of oracle": called[:, oracle].sum(),
        "oracle draws": oracle.sum() * len(found),
        "called beyond": called[:, truth.identified & ~oracle].sum(),
        "worst": min(tests, default=(1.0, 0))[0],
    }
    values |= coverage_counts((inside & called).sum(axis=0), called.sum(axis=0))
    if widths:
        values["width"] = np.median(widths)
    return {name: float(value) for name, value in values.items()}


@cache
def known(name: str) -> tuple[Dealt, Truth, cn.Federation]:
    """A set, its exact fit, and the federation whose plans tell the law of the noise."""
    if name == "Simulated":
        data = simulated(np.random.default_rng(1), 400_000)[0]
        return data, Truth(data), data.sample(np.arange(SAMPLE)).federation()
    data = public_set(name)
    return data, Truth(data), data.federation()


@cache
def _law(name: str, epsilon: float, sampled: bool) -> Array:
    data, _, federation = known(name)
    if not sampled or name == "Simulated":
        return law(data, federation, epsilon)
    with data.sample(np.arange(SAMPLE)).federation() as small:
        return law(data, small, epsilon)


def without_sampling(run: int, set: str, epsilon: float, noise: str) -> Iterator[Row]:  # noqa: A002  # the page's label
    data, truth, federation = known(set)
    variance = _law(set, epsilon, False)
    exact = Moments.of_release(truth.matrix, variance, truth.people, truth.features)
    if noise == "central":
        rng = np.random.default_rng([20, run])
        found = [drawn(truth, truth.matrix, variance, truth.people, rng) for _ in range(BATCH)]
    else:
        study = cn.LinearRegression(data.target, coding="reference", epsilon=epsilon, delta=DELTA)
        found = [vars(study.fit(federation, repeat=10 * run + one))["_inference"][0] for one in range(4)]
    labels = {"set": set, "people": truth.people, "epsilon": epsilon, "noise": noise}
    yield Row(labels, measured(truth, found, exact, truth.estimates, total=False))


def with_sampling(run: int, set: str, epsilon: float) -> Iterator[Row]:  # noqa: A002
    """Samples of the people of a table: the population is the whole table."""
    truth = known(set)[1]
    variance, coded, rng = _law(set, epsilon, True), _coded(set), np.random.default_rng([21, run])
    found = []
    for _ in range(BATCH):
        chosen = coded[rng.choice(len(coded), SAMPLE)]
        found.append(drawn(truth, chosen.T @ chosen, variance, SAMPLE, rng))
    exact = Moments.of_release(truth.matrix, variance * (truth.people / SAMPLE) ** 2, truth.people, truth.features)
    labels = {"set": f"{set}, samples", "people": SAMPLE, "epsilon": epsilon}
    yield Row(labels, measured(truth, found, exact, truth.estimates, total=True))


@cache
def _coded(name: str) -> Array:
    return known(name)[0].coded()


# Claims -----


def _total(found: Results, part: str, above_: str, under: str, **labels: str) -> Sample:
    """Return a share over all rows, one value per run."""
    rows = [samples for _, samples in found.rows(part, **labels)]
    runs = min((one[above_].runs for one in rows), default=0)
    values = [
        sum(one[above_].values[run] for one in rows) / max(sum(one[under].values[run] for one in rows), 1)
        for run in range(runs)
    ]
    return Sample(tuple(values))


def claims(part: str, **labels: str) -> Iterator[Claim]:
    def covered(found: Results) -> Iterator[Test]:
        one = _total(found, part, "covered", "intervals", **labels)
        if one.runs:
            yield above(one, 0.93)
            yield below(one, 0.98)

    def called(found: Results) -> Iterator[Test]:
        one = _total(found, part, "called of oracle", "oracle draws", **labels)
        if one.runs:
            yield above(one, 0.8)

    def widths(found: Results) -> Iterator[Test]:
        for _, samples in found.rows(part, **labels):
            if "width" in samples:
                yield below(samples["width"], 1.3)

    def each(found: Results) -> Iterator[Test]:
        return covered_as_stated((samples for _, samples in found.rows(part, **labels)), LEVEL, FAMILY)

    yield Claim(f"{part}: intervals cover, all together", "93 to 98 %", covered, "the issue")
    yield Claim(f"{part}: of what the oracle determines, called determined", "at least 80 %", called, "the issue")
    yield Claim(f"{part}: median width over the oracle's, every row", "at most 1.3", widths, "the issue")
    yield Claim(
        f"{part}: coverage of every coefficient, smallest corrected p of its binomial test",
        f"at least {FAMILY:g}",
        each,
        "the issue",
    )


SHOWN = {
    "oracle": "determined for the oracle",
    "coefficients": "coefficients",
    "called of oracle": "of these called so, all draws",
    "oracle draws": "of",
    "called beyond": "others called so",
    "covered": "covered",
    "intervals": "of intervals",
    "worst": "worst p",
    "width": "width, oracle = 1",
}
BENCHMARK = Benchmark(
    name="coverage",
    title="Coverage of intervals",
    about=__doc__ or "",
    parts=[
        Part(
            "without sampling",
            without_sampling,
            [
                *({"set": s, "epsilon": e, "noise": "central"} for s in PUBLIC for e in EPSILONS),
                *({"set": s, "epsilon": 1.0, "noise": "channel"} for s in PUBLIC),
            ],
            5,
            2.0,
        ),
        Part(
            "with sampling",
            with_sampling,
            [{"set": s, "epsilon": e} for s in ("Simulated", "Diamonds", "Credit card default") for e in EPSILONS],
            5,
            0.6,
        ),
    ],
    shown=[
        "## Without sampling",
        Table(
            "without sampling",
            SHOWN,
            {"set": "set", "people": "people", "epsilon": "ε", "noise": "noise"},
            words=f"{BATCH} draws per run (4 on the channel).",
            digits=3,
        ),
        "## With sampling",
        Table(
            "with sampling",
            SHOWN,
            {"set": "set", "people": "people", "epsilon": "ε"},
            words=f"{BATCH} draws per run.",
            digits=3,
        ),
    ],
    claims=[*claims("without sampling", noise="central"), *claims("with sampling")],
)
