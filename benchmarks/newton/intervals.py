"""One batch of draws of Newton steps with the noise of the channel: do intervals cover, how wide are they, what is determined?"""

from functools import cache

import numpy as np
from benchmarks.frame.claims import coverage_counts
from central import Central
from likelihood import LARGEST_ERROR, maximum_likelihood, sigmoid
from newton_sets import Joined
from scipy import stats

from colonnade.estimation.newton import NewtonClass, newton_inference
from colonnade.estimation.regression import RESOLVED, Inference, quadratic_variances
from colonnade.schema import coefficients_to_own_units, free_coefficients, written_levels

EPSILONS = (0.5, 1.0, 4.0)
LEVEL = 0.95
SAMPLE, BATCH = 20_000, 40
MOSTLY = 0.5
"""Bias is stated for coefficients that are determined in at least this part of the draws."""


class Truth:
    """The maximum-likelihood estimate, and what an oracle says about noise of a law."""

    def __init__(self, data: Joined) -> None:
        self.features, columns = data.features, list(data.features[1:])
        rows = data.exact_rows
        best = maximum_likelihood(rows, data.labels)
        chance = sigmoid(rows @ best)
        bend = (rows * (chance * (1 - chance))[:, None]).T @ rows
        self.order = np.append(np.arange(1, len(self.features)), 0)
        self.free = free_coefficients(columns)
        names, self.into = coefficients_to_own_units(columns)
        written = written_levels(columns, "reference") @ self.into
        self.names, self.combinations = names, written @ self.free
        self.estimates = (written @ best[self.order])[:-1]
        information = self.free.T @ bend[np.ix_(self.order, self.order)] @ self.free
        self.inverse = np.linalg.inv(information + 1e-9 * np.eye(len(information)))
        units = np.abs(self.combinations).max(axis=1)
        errors = np.sqrt(np.einsum("ij,jk,ik->i", self.combinations, self.inverse, self.combinations))
        self.identified = ((units > 0) & (errors < LARGEST_ERROR * units))[:-1]

    def oracle(self, found: NewtonClass, share: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the oracle's errors, and which coefficients it calls determined; for a sample of this share of the people."""
        responses = self.inverse @ self.combinations[:-1].T / share
        errors = np.sqrt(np.mean(found.gradient.variance)) * np.linalg.norm(responses, axis=0)
        columns = np.array([feature.column for feature in self.features])
        same = np.eye(len(columns), dtype=bool)
        variance = np.where((columns[:, None] == columns) & ~same, 0.0, found.curvature.variance)
        noise = quadratic_variances(variance[np.ix_(self.order, self.order)], self.free @ responses)
        information = np.einsum("ij,ji->i", self.combinations[:-1], responses)
        return errors, self.identified & (information >= RESOLVED * np.sqrt(noise))

    def inference(self, found: NewtonClass) -> Inference:
        """Return the library's inference."""
        fitted = (self.into @ found.weights[self.order])[:-1]
        return newton_inference(found, self.features, fitted, coding="reference").written


def measured(
    truth: Truth, found: list[tuple[NewtonClass, Inference]], share: float, *, total: bool
) -> dict[str, float]:
    """Return what the draws show."""
    errors, oracle = truth.oracle(found[0][0], share)
    ends = np.array([one.interval(LEVEL, total=total)[:-1] for _, one in found])
    called = np.array([~one.hidden[:-1] for _, one in found]) & truth.identified
    inside = (ends[:, :, 0] <= truth.estimates) & (truth.estimates <= ends[:, :, 1])
    tests = [
        (float(stats.binom.cdf(inside[called[:, k], k].sum(), called[:, k].sum(), LEVEL)), k)
        for k in np.flatnonzero(called.any(axis=0))
    ]
    stated = np.array([one.errors(total=False)[:-1] for _, one in found])
    widths = [np.median(stated[called[:, k], k]) / errors[k] for _, k in tests]
    values = {
        "coefficients": truth.identified.sum(),
        "oracle": oracle.sum(),
        "called of oracle": called[:, oracle].sum(),
        "oracle draws": oracle.sum() * len(found),
        "covered": inside[called].sum(),
        "intervals": called.sum(),
        "worst": min(tests, default=(1.0, 0))[0],
    }
    if widths:
        values["width"] = np.median(widths)
    values |= coverage_counts((inside & called).sum(axis=0), called.sum(axis=0))
    mostly = np.flatnonzero(called.mean(axis=0) >= MOSTLY)
    if len(mostly):
        values["bias"] = max(_bias(truth, [one for _, one in found], called[:, k], k) for k in mostly)
    return {name: float(value) for name, value in values.items()}


def _bias(truth: Truth, found: list[Inference], called: np.ndarray, place: int) -> float:
    """Return by how much estimates of a coefficient are off on average, in units of the stated total error."""
    away = [one.estimates[place] - truth.estimates[place] for one in found]
    return float(abs(np.mean((np.array(away) / [one.errors()[place] for one in found])[called])))


@cache
def known(data: Joined) -> tuple[Truth, Central]:
    return Truth(data), Central(data)


def without_sampling(data: Joined, epsilon: float, run: int) -> dict[str, float]:
    """Return coverage of the estimate on the same people."""
    truth, central = known(data)
    runs = [central.rounds(epsilon, np.random.default_rng([run, seed])) for seed in range(BATCH)]
    return measured(truth, [(one, truth.inference(one)) for one in runs], 1.0, total=False)


def with_sampling(data: Joined, epsilon: float, run: int) -> dict[str, float]:
    """Return coverage of the population's estimate, for samples with replacement."""
    truth, found = known(data)[0], []
    for seed in range(BATCH):
        generator = np.random.default_rng([run, seed])
        one = Central(data.some(generator.choice(len(data.frame), SAMPLE))).rounds(epsilon, generator)
        found.append((one, truth.inference(one)))
    return measured(truth, found, SAMPLE / len(data.frame), total=True)
