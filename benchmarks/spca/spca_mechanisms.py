"""The mechanisms that principal components are compared with, drawn by their laws, and how a plane is judged."""

from collections.abc import Mapping

import numpy as np
from benchmarks.spca.closed_forms import analytic_gaussian_sigma
from benchmarks.spca.spca_sets import DELTA, MOST_COLUMNS_RELEASED, Problem, top
from scipy import stats

import colonnade as cn
from colonnade.coordinator.protocols.moment_releases import GramRelease
from colonnade.estimation.moments import Moments, pca_from_moments
from colonnade.privacy import samplers
from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import ledger_rho
from colonnade.privacy.randomness import SystemRandomness
from colonnade.schema import features_of
from colonnade.steps.kind import read_joint

SOURCE = SystemRandomness()


def noise(kinds: np.ndarray, variances: Mapping[int, float]) -> np.ndarray:
    """Symmetric discrete Gaussian noise; ``kinds`` says which variance an entry has."""
    upper = np.triu_indices(len(kinds))
    drawn = np.zeros(len(upper[0]))
    for kind, variance in variances.items():
        places = np.flatnonzero(kinds[upper] == kind)
        drawn[places] = samplers.discrete_gaussian(round(variance), len(places), SOURCE)
    whole = np.zeros(kinds.shape)
    whole[upper] = drawn
    return whole + np.triu(whole, 1).T


def components(problem: Problem, noisy: np.ndarray) -> np.ndarray:
    """What a coordinator makes of a noisy integer matrix, no matter who noised it."""
    matrix = noisy / problem.scale**2
    if problem.width <= MOST_COLUMNS_RELEASED:
        features = features_of(problem.columns)
        moments = Moments.of_release(matrix, np.ones_like(matrix), problem.people, features)
        return pca_from_moments(moments, problem.k).components
    return top(matrix[1:, 1:] - np.outer(matrix[0, 1:], matrix[0, 1:]) / problem.people, problem.k)


def central(problem: Problem, epsilon: float, plain: np.ndarray) -> np.ndarray:
    sigma = analytic_gaussian_sigma(epsilon, DELTA) * problem.row_bound * problem.scale**2
    return components(problem, plain + noise(np.zeros(plain.shape), {0: sigma**2}))


def law(problem: Problem, epsilon: float, federation: cn.Federation, plain: np.ndarray) -> np.ndarray:
    """Our release without the channel: P shares of one entry add up to one discrete Gaussian of P times the variance."""
    kinds, variances = stated(problem, epsilon, federation)
    return components(problem, plain + noise(kinds, variances))


def stated(problem: Problem, epsilon: float, federation: cn.Federation) -> tuple[np.ndarray, dict[int, float]]:
    """Which entries are noised how: inside a party 0, on the diagonal 1, between parties 2."""
    norms = problem.row_norms(len(federation.parties))
    algorithm = GramRelease(federation.describe(), Price.of(epsilon, DELTA), row_norms=norms, scale=problem.scale)
    plan = federation._driver.plan(
        algorithm, task="moments", method="secure", price=algorithm.price, unit="person", parameters={}
    )
    joint = read_joint(plan, "gram")
    owners = np.repeat(np.arange(1, len(joint.widths) + 1), joint.widths)
    owners = np.concatenate([[0], owners])
    kinds = np.where((owners[:, None] != owners) & (owners[:, None] > 0) & (owners > 0), 2, 0)
    np.fill_diagonal(kinds, 1)
    own = float(joint.noise.own_variance)
    return kinds, {0: own, 1: 2 * own, 2: joint.noise.opened_variance}


def baseline_law(problem: Problem, epsilon: float) -> np.ndarray:
    """The paper's distributed baseline with rows as short as ours: noise on every cell, then the product."""
    rows = problem.rows(4)
    price = Price.of(epsilon, DELTA)
    variance = round(problem.scale**2 * problem.squared_length / (2 * float(ledger_rho(price))))
    rows = (rows + samplers.discrete_gaussian(variance, rows.size, SOURCE).reshape(rows.shape)) / problem.scale
    rows = rows - rows.mean(axis=1, keepdims=True)
    return top(rows @ rows.T, problem.k)


def area_under_curve(points: np.ndarray, labels: np.ndarray) -> float:
    """How well a straight line in a plane of points tells labels apart."""
    centred = points - points.mean(axis=0)
    direction = np.linalg.lstsq(centred, labels - labels.mean(), rcond=None)[0]
    ranks = stats.rankdata(centred @ direction)
    ones = int(labels.sum())
    return float((ranks[labels].sum() - ones * (ones + 1) / 2) / (ones * (len(labels) - ones)))
