"""Intervals of a logistic regression that was fitted by Newton steps: all gradients together are one more set of noisy equations.

A gradient g was opened at known weights b₀, with noise of a known variance. With the information A there, the
maximum-likelihood estimate b solves A·b = A·b₀ − g but for what the slope changes on the way, which is of second order in
b − b₀. All gradients of a run say this with the same A, so their weighted mean does (`newton_information.pooled_gradient`).
Noise in A counts as far as b lies from b₀ (`colonnade.estimation.inference.OpenedScore`). So does how far slopes may have changed
since A was opened (`newton_information.pooled_gradient`). Levels that add up to the constant column make both A and g more
precise (`colonnade.estimation.inference`).

Coefficients are taken to be moderately far from where A was opened, by `AWAY` or more in log-odds, not from 0: those weights are
an estimate already. The estimate of a coefficient is not pulled anywhere itself. The sampling of people has the covariance
A⁻¹, as in any likelihood. `benchmarks/newton` shows how often intervals cover.

What the releases of a Newton run say about the information matrix, and about the gradient.

*Two releases tell about the same matrix.* The weighted Gram matrix has noise of its own. What the plain one leads one to expect
(`colonnade.estimation.newton`) has less noise in many entries, and is off by as much as scores are not normal. Each
entry is the mean of the two, weighted by these variances. How far the expectation is off follows from all entries together
(`weighted_information`).

*All gradients tell about the same estimate*, as far as the information is the same where they were opened
(`pooled_gradient`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.estimation.inference import Equations, Inference, OpenedScore, RegressionInference, infer, level_sums
from colonnade.estimation.moments import Moments
from colonnade.estimation.newton import NewtonClass, expected_information
from colonnade.schema.features import (
    Coding,
    Feature,
    coefficients_to_own_units,
    contrasts_of_levels,
    free_coefficients,
    written_levels,
)

Array = NDArray[np.float64]

EVERYBODY = 3**-0.5
"""By which part weights change per log-odds that scores move, where these move either way: between none and all of it."""
NOTICED = 2.0
"""How many standard errors two gradients must disagree by for the slope between them to be taken as changed."""
FARTHEST = 20.0
"""Scores that move by more log-odds than this change weights by as much."""
OFF = 0.15
"""The least part by which an expected weight of the people of two columns is off. On public sets it was 0.03 to 0.2."""
SMALLEST = 1e-300


@dataclass(frozen=True, eq=False)
class WeightedInformation:
    """The information matrix as well as it is known.

    Parameters
    ----------
    matrix
        Over all coded columns, the constant first.
    variance
        Of the noise in each entry, independent on and above the diagonal.
    """

    matrix: Array
    variance: Array


def weighted_information(found: NewtonClass) -> WeightedInformation:
    """Return the information matrix where the curvature was opened, from that and the moments together.

    Parameters
    ----------
    found
        What the rounds came to.
    """
    moments = found.moments
    columns = np.array([feature.column for feature in moments.features])
    diagonal = np.eye(len(columns), dtype=bool)
    known = (columns[:, None] == columns[None, :]) & ~diagonal
    expected, other = (np.where(known, 0.0, one) for one in expected_information(moments, found.curvature_at))
    if found.curvature is None:
        return WeightedInformation(expected, other + (expected / 2) ** 2)
    opened = np.where(known, 0.0, found.curvature)
    noise = np.where(known, 0.0, found.curvature_variance * (1 + diagonal))
    factor = float(np.sum(opened * expected) / max(float(np.sum(expected * expected)), SMALLEST))
    apart = opened - factor * expected
    sizes = np.maximum(_sizes(moments), np.abs(moments.matrix))
    size = np.where(known, 0.0, (factor * expected[0, 0] / moments.count * sizes) ** 2)
    excess = float(np.sum(apart**2 - noise - factor**2 * other)) / max(float(np.sum(size)), SMALLEST)
    other = factor**2 * other + max(excess, OFF**2) * size
    kept = np.where(known, 0.0, other / np.maximum(other + noise, SMALLEST))
    return WeightedInformation(factor * expected + kept * apart, kept * noise)


def _sizes(moments: Moments) -> Array:
    """Return how large sums of products of two columns' magnitudes are, if columns are unrelated; on the diagonal the squares."""
    people = moments.count
    levels = np.array([feature.kind == "level" for feature in moments.features])
    squares = np.clip(np.diag(moments.matrix), 1.0, people)
    sizes = np.where(levels, np.clip(moments.matrix[0], 1.0, people) / people, np.sqrt(squares / people))
    return np.where(np.eye(len(sizes), dtype=bool), np.diag(squares), people * np.outer(sizes, sizes))


@dataclass(frozen=True, eq=False)
class PooledGradient:
    """One gradient that stands for all.

    Parameters
    ----------
    weights
        Where.
    values
        The gradient there, one entry per coded column, the constant's first.
    variance
        Of the error in each entry: noise, and what slopes change on the way.
    """

    weights: Array
    values: Array
    variance: Array


def pooled_gradient(found: NewtonClass, information: WeightedInformation) -> PooledGradient:
    """Return one gradient that stands for all: the mean of the opened ones, at the mean of their weights.

    A gradient at b is H·(b − b*) plus noise, with b* what is sought. So means of gradients belong to means of weights, as far as
    H is the same. Each entry of each gradient counts by its precision: the noise, what noise in H does over the distance to the
    end, and how far H is off there (`_slope_changes`). Where entries count differently, H carries them to one place.

    Parameters
    ----------
    found
        What the rounds came to.
    information
        H.
    """
    matrix = information.matrix
    if not found.gradients:  # all were lost: nothing is known
        nothing = np.zeros_like(found.curvature_at)
        return PooledGradient(found.curvature_at, nothing, np.full(len(nothing), float(np.max(np.abs(matrix))) ** 2))
    places = np.array([one.weights for one in found.gradients])
    noise = np.array([one.variance for one in found.gradients])[:, None]
    moved = places - found.weights
    foreseen = np.array([_slope_changes(found, matrix, place) for place in places])
    changes = np.hypot(foreseen, _disagreements(found, information))
    shares = 1 / (noise + changes**2 + moved**2 @ information.variance)
    shares = shares / shares.sum(axis=0)
    mean = shares.mean(axis=1) @ places
    carried = np.einsum("kj,kl,jl->j", shares, places - mean, matrix)
    values = np.sum(shares * np.array([one.values for one in found.gradients]), axis=0) - carried
    variance = np.sum(shares**2 * noise, axis=0) + np.sum(shares * changes, axis=0) ** 2
    return PooledGradient(mean, values, variance)


def _slope_changes(found: NewtonClass, matrix: Array, place: Array) -> Array:
    """Return how far each entry of H·(b − b*) may be off, because H was opened elsewhere and people's weights change.

    A weight changes by at most a factor e per log-odds that a score moves. Scores of everybody move by a root mean square, either
    way. Those of people at the far end of a column move by as much as its own coefficient does, all one way. Where few have large
    values, they decide.
    """
    away = (place + found.weights) / 2 - found.curvature_at
    everybody = max(float(away @ matrix @ away), 0.0) / max(float(matrix[0, 0]), 1.0)
    own = np.expm1(np.minimum(np.abs(_reach(found) * away), FARTHEST))
    parts = np.sqrt(EVERYBODY**2 * everybody + own**2)
    return np.asarray(parts * np.abs(matrix @ (place - found.weights)))


def _reach(found: NewtonClass) -> Array:
    """Return how far from the mean a column's far end is: for a level 1, for the constant nothing."""
    moments = found.moments
    levels = np.array([feature.kind == "level" for feature in moments.features])
    reach = np.where(levels, 1.0, 1 + np.abs(np.clip(moments.matrix[0] / moments.count, -1, 1)))
    reach[0] = 0.0
    return np.asarray(reach)


def _disagreements(found: NewtonClass, information: WeightedInformation) -> Array:
    """Return how far H is seen to be off between each gradient and the last one, by more than noise explains."""
    last = found.gradients[-1]
    seen = []
    for one in found.gradients:
        moved = one.weights - last.weights
        apart = np.abs(one.values - last.values - information.matrix @ moved)
        noise = one.variance + last.variance + information.variance @ moved**2
        seen.append(np.maximum(apart - NOTICED * np.sqrt(noise), 0.0))
    return np.array(seen)


AWAY = 0.35
"""How far coefficients lie from where the curvature was opened at least, as a root mean square in log-odds."""
LEAKING = 0.5
"""The part of t with which other coefficients leak: distances from a start differ less in size than coefficients do."""


def newton_inference(
    found: NewtonClass, features: Sequence[Feature], fitted: Array, *, coding: Coding
) -> RegressionInference:
    """Return inference on the maximum-likelihood coefficients of one class.

    Parameters
    ----------
    found
        What the rounds came to.
    features
        The coded columns, the constant first.
    fitted
        The model's own coefficients, all levels, in own units.
    coding
        How levels are written. ``"full"`` has no unique coefficients and is written as ``"reference"``.
    """
    columns = list(features[1:])
    free, sums = free_coefficients(columns), level_sums(found.moments)
    told_apart = free.T @ written_levels(columns, "reference")
    opened = weighted_information(found)
    mean = pooled_gradient(found, opened)
    near, before = (told_apart @ np.append(one[1:], one[0]) for one in (found.curvature_at, mean.weights))
    information, gradient = sums @ opened.matrix @ sums.T, sums @ mean.values
    unbounded = np.zeros(len(gradient), dtype=bool)
    unbounded[-1] = True
    noise = OpenedScore(np.diag(mean.variance), opened.variance, before - near, sums)
    contrasts = contrasts_of_levels(columns)
    equations = Equations(
        information,
        information @ (before - near) - gradient,
        noise,
        unbounded,
        lambda _: 1.0,
        prior=contrasts @ contrasts.T,
        least=AWAY,
        leaking=LEAKING,
    )
    _, into = coefficients_to_own_units(columns)
    shown: tuple[Coding, Coding] = ("reference", "sum") if coding == "full" else (coding, coding)
    combinations = np.vstack([written_levels(columns, one) @ into @ free for one in shown])
    whole = infer(equations, combinations)
    whole.estimates[:] += combinations @ near
    written, unique = _part(whole, slice(0, len(into))), _part(whole, slice(len(into), 2 * len(into) - 1))
    return RegressionInference(written, np.hypot(unique.errors(total=False), fitted - unique.estimates))


def _part(inference: Inference, rows: slice) -> Inference:
    return Inference(
        inference.estimates[rows],
        inference.privacy[rows, rows],
        inference.sampling[rows, rows],
        inference.determined[rows],
        inference.dispersion,
    )
