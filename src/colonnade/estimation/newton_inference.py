"""Intervals of a logistic regression that was fitted by Newton steps: the last gradient is one more set of noisy equations.

The last gradient g was opened at known weights b₀, with noise of a known variance. With the information A there, the
maximum-likelihood estimate b solves A·b = A·b₀ − g but for what the slope changes on the way, which is of second order in
b − b₀. That step is short: the earlier gradients have brought b₀ near b. Noise in A counts as far as b lies from b₀
(`colonnade.estimation.inference.OpenedScore`). What earlier gradients tell besides is not used, and coefficients that the
last one leaves open are taken to be anywhere, not near b₀. So intervals are wider than they could be: measured on two public sets
they cover more often than they say (benchmarks/newton). The sampling of people has the covariance A⁻¹, as in any likelihood.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.columns import Coding, Feature, coefficients_to_own_units, free_coefficients, written_levels
from colonnade.estimation.inference import Equations, Inference, OpenedScore, infer
from colonnade.estimation.moment_inference import RegressionInference
from colonnade.estimation.newton import NewtonClass

__all__ = ["newton_inference"]

Array = NDArray[np.float64]


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
    order = np.append(np.arange(1, len(features)), 0)  # the intercept last
    free = free_coefficients(columns)
    start = free.T @ written_levels(columns, "reference") @ found.before[order]
    information = free.T @ found.information[np.ix_(order, order)] @ free
    gradient = free.T @ found.gradient[order]
    size = len(gradient)
    noise = OpenedScore(found.gradient_variance * np.eye(size), found.information_variance * (1 + np.eye(size)), start)
    unbounded = np.zeros(size, dtype=bool)
    unbounded[-1] = True
    equations = Equations(information, information @ start - gradient, noise, unbounded, lambda _: 1.0)
    _, into = coefficients_to_own_units(columns)
    shown: tuple[Coding, Coding] = ("reference", "sum") if coding == "full" else (coding, coding)
    combinations = np.vstack([written_levels(columns, one) @ into @ free for one in shown])
    whole = infer(equations, combinations)
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
