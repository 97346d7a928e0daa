"""`LinearRegression(method="coreset")`: a regression on a weighted sample of exact rows. Not differentially private."""

from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.features import Feature, coded_widths, features_of
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols.coreset_study import CoresetFindings, CoresetStudy
from colonnade.errors import BadInput
from colonnade.estimation.coreset_models import CodedModel, own_model, sampled_regression
from colonnade.estimators.coreset_options import checked_size
from colonnade.schema import Column

if TYPE_CHECKING:
    from colonnade.estimators.linear_regression import LinearRegression

__all__ = ["check_penalty", "coreset_regression", "regression_coreset"]

PENALTIES = (None, "l1", "l2", "elasticnet")


def check_penalty(study: "LinearRegression") -> None:
    """Refuse a penalty that goes with another method, or cannot be meant."""
    if study.method != "coreset":
        if study.penalty is not None or study.size is not None:
            raise BadInput("penalty and size go with method='coreset'.", remedy="Use ridge= with the other methods.")
        return
    if study.penalty not in PENALTIES:
        raise BadInput(f"penalty must be one of {PENALTIES}.")
    if study.ridge:
        raise BadInput("With method='coreset' a ridge penalty is penalty='l2' with alpha=.")
    if not _number(study.alpha) or not study.alpha >= 0 or not _number(study.l1_ratio) or not 0 <= study.l1_ratio <= 1:
        raise BadInput("alpha is a finite number, zero or more; l1_ratio is between 0 and 1.")
    if not study.gather and study.penalty not in (None, "l2"):
        raise BadInput("Without gathering rows the penalty is None or 'l2'.", remedy="Use gather=True.")


def regression_coreset(
    study: "LinearRegression", federation: Federation, columns: Mapping[str, Column]
) -> CoresetStudy:
    """Return the algorithm: draw a coreset, then gather its rows, or train where they are."""
    return CoresetStudy(
        columns=columns,
        task="regression",
        size=checked_size(study.size, federation.people),
        people=federation.people,
        target=study.target,
        training="rows" if study.gather else "saga",
        ridge=float(study.alpha) if study.penalty == "l2" and not study.gather else 0.0,
    )


def coreset_regression(
    study: "LinearRegression", findings: CoresetFindings, columns: Mapping[str, Column], people: int
) -> tuple[NDArray[np.float64], float, list[Feature]]:
    """Return coefficients and intercept in own units, and the coded columns that they belong to."""
    features = features_of(columns)[1:]
    (target,) = [feature for feature in features if feature.column == study.target]
    explaining = [feature for feature in features if feature is not target]
    model = (
        _gathered(study, findings, people, list(features).index(target))
        if findings.gathered is not None
        else _joined(findings, features, target)
    )
    coefficients, intercept = own_model(model, explaining, target)
    return coefficients, intercept, explaining


def _gathered(study: "LinearRegression", findings: CoresetFindings, people: int, target: int) -> CodedModel:
    assert findings.gathered is not None
    return sampled_regression(
        np.delete(findings.gathered, target, axis=1),
        findings.gathered[:, target],
        findings.coreset.weights,
        people,
        penalty=study.penalty,
        alpha=study.alpha,
        l1_ratio=study.l1_ratio,
    )


def _joined(findings: CoresetFindings, features: tuple[Feature, ...], target: Feature) -> CodedModel:
    """Put the parties' blocks of coefficients side by side; the target's party has the intercept in front of its own."""
    assert findings.coefficients is not None
    intercept, parts = 0.0, []
    for party in coded_widths(features):
        block = findings.coefficients[party]
        if party == target.party:
            intercept, block = float(block[0]), block[1:]
        parts.append(block)
    return CodedModel(np.concatenate(parts), intercept)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
