"""The quantities that previews foretell, measured as docs/explanation/previews.md defines them.

Each measure takes a fitted study, the same method's result without noise, and the table, and returns a squared error. The root of
its mean over draws is what a preview's `expected_error` foretells.
"""
# ruff: noqa: SLF001  # exact results are computed by the estimators' own code, on rows that no estimator sees

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.previews.preview_sets import Divided
from numpy.typing import NDArray

import colonnade as cn
from colonnade.coding.columns import to_coded_units
from colonnade.estimation.moments import Moments
from colonnade.estimators.export import design_matrix
from colonnade.estimators.second_moments import MomentStudy

Array = NDArray[np.float64]
QUIET = 3_000.0
"""The ε of a study that is taken to be without noise, where the exact result cannot be computed from rows."""


def exact_model(study: MomentStudy, data: Divided) -> MomentStudy:
    """Return the same estimator, fitted on moments of the rows themselves."""
    checked = type(study)(
        **{**study.get_params(deep=False), "method": "secure", "epsilon": 1.0, "delta": 1e-6}
    )._checked()
    with data.federation() as federation:
        algorithm, _ = checked._plan(federation, 1)
        chosen = checked._chosen(federation.describe())
    rows = np.column_stack([_coded(data.frame[feature.column], feature) for feature in algorithm.features[1:]])
    rows = np.column_stack([np.ones(len(rows)), rows])
    gram = rows.T @ rows
    moments = Moments.of_release(gram, np.zeros_like(gram), len(rows), algorithm.features)
    exact = type(study)(**study.get_params(deep=False))
    exact._adopt(checked._learn_from_moments(moments, chosen))
    return exact


def _coded(values: pd.Series, feature: Any) -> Array:
    if feature.kind == "numeric":
        return np.clip((values.to_numpy(dtype=float) - feature.centre) / feature.half_width, -1, 1)
    if feature.kind == "sign":
        return np.where(values.astype(str) == feature.levels[1][len(feature.column) + 1 :], 1.0, -1.0)
    return (values.astype(str) == feature.name[len(feature.column) + 1 :]).to_numpy(dtype=float)


def predictions(study: Any, exact: Any, data: Divided) -> float:
    """Return the mean square by which predictions (log-odds, of classes) moved, over that of their spread."""
    rows = design_matrix(data.frame, exact._coded, exact._columns, coded=False)
    private, plain = (rows @ np.atleast_2d(one.coef_).T + one.intercept_ for one in (study, exact))
    return float(np.mean((private - plain) ** 2) / np.mean(plain.var(axis=0)))


def components(study: Any, exact: Any, data: Divided) -> float:
    """Return the mean square by which explained variances moved, over components."""
    del data
    return float(np.mean((study.explained_variance_ - exact.explained_variance_) ** 2))


def counts(study: Any, exact: Any, data: Divided) -> float:
    """Return the mean square by which unbiased counts moved, over patterns."""
    del data
    return float(np.mean((study.unbiased_.to_numpy() - exact.unbiased_.to_numpy()) ** 2))


def value(study: Any, exact: Any, data: Divided) -> float:
    """Return the square by which a moment moved. The exact one is computed from the rows."""
    del exact
    sums = np.rint(data.frame[study.columns]).sum(axis=1)
    return float((study.value_ - float((sums**study.p).sum())) ** 2)


def weights(study: Any, exact: Any, data: Divided) -> float:
    """Return the mean square by which weights differ from how many people are nearest to the same local centres."""
    del exact
    rows = design_matrix(data.frame, study._coded, study._columns, coded=True)
    labels = {}
    for party, own in study.local_centers_.items():
        places = [place for place, feature in enumerate(study._coded) if feature.party == party]
        centres = to_coded_units(own, [study._coded[place] for place in places])
        block = rows[:, places]
        labels[party] = (np.sum(centres**2, axis=1) - 2 * block @ centres.T).argmin(axis=1)
    table, size = study.grid_weights_.reset_index(), 1 if study.method == "independent" else 2
    shape = (study.n_local_clusters_,) * size
    squared = []
    for group in combinations(labels, size):
        found, true = np.zeros(shape), np.zeros(shape)
        np.add.at(found, tuple(table[party] for party in group), table["weight"])
        np.add.at(true, tuple(labels[party] for party in group), 1)
        squared.append(np.mean((found - true) ** 2))
    return float(np.mean(squared))


def quiet_study(study: Any, data: Divided) -> Any:
    """Return the same study with next to no noise."""
    with data.federation() as federation:
        return type(study)(**{**study.get_params(deep=False), "epsilon": QUIET}).fit(federation)


def levels_of(data: Divided) -> list[str]:
    """Return the categories of a set, at most one per party."""
    chosen = {}
    for name in data.columns(cn.Category):
        chosen.setdefault(name.partition(".")[0], name)
    return list(chosen.values())
