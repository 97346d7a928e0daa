"""Utility on real data under the noise that the secure channel adds (the whole measurement is benchmarks/moments)."""

from itertools import groupby

import numpy as np
import pandas as pd
import pytest
from benchmarks.frame.public import PublicData, adult, nsl_kdd

from colonnade.estimation.moments import Moments, pca_from_moments
from colonnade.estimation.regression import logistic_from_moments
from colonnade.schema import Feature, coefficients_to_own_units, features_of
from tests import kit
from tests.privacy.references import zcdp_rho

BARS = {0.1: 0.81, 1.0: 0.83, 10.0: 0.835}


def code(frame: pd.DataFrame, features: list[Feature]) -> np.ndarray:
    """All features of one column."""
    name = features[0].column.split(".", 1)[1]
    if features[0].kind == "numeric":
        return np.clip((frame[[name]].to_numpy(float) - features[0].centre) / features[0].half_width, -1, 1)
    names = features[0].levels or [feature.name for feature in features]
    levels = pd.Categorical(frame[name], categories=[level.partition("=")[2] for level in names]).codes
    return 2.0 * levels[:, None] - 1 if features[0].kind == "sign" else np.eye(len(names))[levels]


def study(data: PublicData, *, signed: tuple[str, ...] = (), without: tuple[str, ...] = ()):
    columns = {f"{p}.{c}": d for p, schema in data.schemas.items() for c, d in schema.items()}
    features = features_of({name: d for name, d in columns.items() if name not in without}, signed=signed)
    owners = [None, *(feature.column.split(".", 1)[0] for feature in features[1:])]
    blocks = [code(data.frame, list(group)) for _, group in groupby(features[1:], key=lambda f: f.column)]
    return features, owners, np.hstack([np.ones((len(data.frame), 1)), *blocks])


def noise_variance(owners, diagonal, *, parties, collusion):
    """V on the diagonal and V/2 off it; between two parties P/(P−c) times as much, since the shares of all P add up."""
    codes = np.unique([owner or "" for owner in owners], return_inverse=True)[1]
    public = np.array([owner is None for owner in owners])
    alone = (codes[:, None] == codes[None, :]) | public[:, None] | public[None, :]
    variance = np.where(alone, 1.0, parties / (parties - collusion)) * diagonal / 2
    np.fill_diagonal(variance, diagonal)
    return variance


def release(rows, features, owners, rho, rng):
    variance = noise_variance(
        owners, len({feature.column for feature in features}) ** 2 / (2 * rho), parties=4, collusion=1
    )
    upper = np.triu(rng.standard_normal(variance.shape))
    noise = np.sqrt(variance) * (upper + np.triu(upper, 1).T)
    return Moments.of_release(rows.T @ rows + noise, variance, len(rows), features)


def coded_model(features, fit):
    """Undo own units, to score coded rows."""
    names, into = coefficients_to_own_units(features)
    assert names == fit.names
    solved = np.linalg.solve(into, np.append(fit.coefficients[0], fit.intercepts[0]))
    return solved[:-1], solved[-1]


@pytest.mark.every(2)
@pytest.mark.parametrize("epsilon", BARS)
def test_logistic_accuracy_on_adult_reaches_its_bar(epsilon, shared_data):
    features, owners, rows = study(adult(shared_data), signed=("tax.income",))
    rng = kit.generator(f"adult {epsilon}")
    scores = []
    for _ in range(20):
        order = rng.permutation(len(rows))
        train, test = order[: int(0.8 * len(rows))], order[int(0.8 * len(rows)) :]
        moments = release(rows[train], features, owners, zcdp_rho(epsilon, 1 / len(rows)), rng)
        fit = logistic_from_moments(moments, "tax.income")
        weights, intercept = coded_model(features[1:-1], fit)
        score = rows[test, 1:-1] @ weights + intercept
        scores.append(np.mean((score > 0) == (rows[test, -1] > 0)))
    doubt = np.std(scores, ddof=1) / np.sqrt(len(scores))
    assert (
        np.mean(scores) > BARS[epsilon] - 3 * doubt
    )  # the bar is on the expectation; splits alone move a mean by this


def test_components_of_nsl_kdd_capture_what_the_central_mechanism_captures(shared_data):
    features, owners, rows = study(nsl_kdd(shared_data), without=("monitor.attack",))
    gram = rows.T @ rows
    true = gram[1:, 1:] - np.outer(gram[0, 1:], gram[0, 1:]) / len(rows)
    best = np.sort(np.linalg.eigvalsh(true))[-5:].sum()
    moments = release(rows, features, owners, zcdp_rho(1.0, 1e-5), kit.generator("nsl-kdd"))
    fit = pca_from_moments(moments, 5)
    # More than 0.99 of what no mechanism at all captures, and so of what the central Gaussian one does.
    assert np.trace(fit.components @ true @ fit.components.T) > 0.99 * best
    assert fit.significant == 5
