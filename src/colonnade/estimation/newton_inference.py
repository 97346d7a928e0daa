"""Intervals of a logistic regression that was fitted by Newton steps: all gradients together are one more set of noisy equations.

A gradient g was opened at known weights b₀, with noise of a known variance. With the information A there, the
maximum-likelihood estimate b solves A·b = A·b₀ − g but for what the slope changes on the way, which is of second order in
b − b₀. All gradients of a run say this with the same A, so their weighted mean does (`newton_information.pooled_gradient`).
Noise in A counts as far as b lies from b₀ (`colonnade.estimation.inference.OpenedScore`). So does how far slopes may have changed
since A was opened (`newton_information.pooled_gradient`). Levels that add up to the constant column make both A and g more
precise (`colonnade.estimation.level_sums`).

Coefficients are taken to be moderately far from where A was opened, by `AWAY` or more in log-odds, not from 0: those weights are
an estimate already. The estimate of a coefficient is not pulled anywhere itself. The sampling of people has the covariance
A⁻¹, as in any likelihood. `benchmarks/newton` shows how often intervals cover.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.columns import (
    Coding,
    Feature,
    coefficients_to_own_units,
    contrasts_of_levels,
    free_coefficients,
    written_levels,
)
from colonnade.estimation.inference import Equations, Inference, OpenedScore, infer
from colonnade.estimation.level_sums import level_sums
from colonnade.estimation.moment_inference import RegressionInference
from colonnade.estimation.newton import NewtonClass
from colonnade.estimation.newton_information import pooled_gradient, weighted_information

__all__ = ["newton_inference"]

Array = NDArray[np.float64]

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
