"""Models of the demonstration: regressions, a scorecard and a coreset, each beside scikit-learn's without noise."""

from collections.abc import Callable
from typing import Any

import pandas as pd
from sklearn.linear_model import LinearRegression as Exact
from sklearn.linear_model import LogisticRegression as ExactLogistic
from sklearn.metrics import roc_auc_score

import colonnade as cn
from colonnade.cli.demo_comparison import ROWS, Comparison, charges_of
from colonnade.datasets.synthetic import Federated

__all__ = ["exact_model", "explained", "sampled", "scored"]

NO_PENALTY = 1e9
"""scikit-learn's inverse strength of a penalty that changes nothing."""


def explained(make: Callable[[], Any], score: str) -> Callable[[Federated, cn.Federation], Comparison]:
    """Return a run of a regression, beside scikit-learn's coefficients."""

    def run(data: Federated, federation: cn.Federation) -> Comparison:
        study = make().set_params(coding="reference")
        charges = charges_of(study, federation)
        study.fit(federation)
        exact, rows = exact_model(data, federation, study)
        own = dict(zip(rows.columns, exact.coef_.ravel(), strict=True))
        true = [own.get(name, 0.0) for name in study.feature_names_in_]  # a reference level is not among scikit-learn's
        figures = {"true": true, "estimate": study.coef_.ravel(), "stderr": study.coef_stderr_.ravel()}
        table = pd.DataFrame(figures, index=pd.Index(study.feature_names_in_)).head(ROWS)
        people = data.joined()
        ours, best = study.score(people, people[study.target]), exact.score(rows, people[study.target])
        return Comparison(charges, study, table, f"{score} {ours:.4f}, and {best:.4f} by scikit-learn without noise")

    return run


def scored(target: str, columns: list[str], shown: str) -> Callable[[Federated, cn.Federation], Comparison]:
    """Return a run of a scorecard, beside the true rates of events in one column's bins."""

    def run(data: Federated, federation: cn.Federation) -> Comparison:
        study = cn.Scorecard(target, columns=columns, bins=8, epsilon=0.5, delta=1e-6)
        charges = charges_of(study, federation)
        study.fit(federation)
        people = data.joined()
        event = people[target] == study.classes_[1]
        values, first = people[shown].unique(), dict(people.iloc[0])
        bins = {value: study.explain({**first, shown: value}).loc[shown, "bin"] for value in values}
        place = people[shown].map(bins)
        rows = study.binning_table_.query("column == @shown").set_index("bin")
        figures = {
            "true": event.groupby(place).mean().reindex(rows.index),
            "estimate": rows["event_rate"],
            "stderr": rows["event_rate_stderr"],
            "points": rows["points"],
        }
        area = roc_auc_score(event, study.total_points(people))
        return Comparison(
            charges, study, pd.DataFrame(figures).head(ROWS), f"area under the curve of the points {area:.4f}"
        )

    return run


def exact_model(data: Federated, federation: cn.Federation, study: Any) -> tuple[Any, pd.DataFrame]:
    """Return scikit-learn's model of the same class on the joined table, and its columns: clipped, first levels left out."""
    people, described = data.joined(), federation.describe(study.columns)
    columns: dict[str, Any] = {}
    for name, column in described.items():
        if isinstance(column, cn.Category):
            columns |= {f"{name}={level}": (people[name] == level).astype(float) for level in column.levels[1:]}
        elif isinstance(column, cn.Numeric):
            columns[name] = people[name].clip(column.low, column.high)
    rows, target = pd.DataFrame(columns), people[study.target]
    if isinstance(study, cn.LinearRegression):
        return Exact().fit(rows, target), rows
    scales = rows.std().replace(0.0, 1.0)
    model = ExactLogistic(C=NO_PENALTY, max_iter=1_000).fit(rows / scales, target)
    model.coef_ = model.coef_ / scales.to_numpy()
    return model, rows


def sampled(target: str, columns: list[str], *, size: int) -> Callable[[Federated, cn.Federation], Comparison]:
    """Return a run on a weighted sample of rows, beside least squares on all of them."""

    def run(data: Federated, federation: cn.Federation) -> Comparison:
        study = cn.LinearRegression(target, columns=columns, method="coreset", size=size, allow_nonprivate=True)
        charges = charges_of(study, federation)
        study.fit(federation)
        people = data.joined()
        exact = Exact().fit(people[columns], people[target])
        figures = {"true": exact.coef_, "estimate": study.coef_, "stderr": "unknown"}
        ours, best = study.score(people, people[target]), exact.score(people[columns], people[target])
        moved, all_of_them = study.transcript_.numbers, len(people) * (len(columns) + 1)
        summary = f"R² {ours:.4f}, and {best:.4f} on all rows; {moved:,} numbers were moved instead of {all_of_them:,}"
        return Comparison(charges, study, pd.DataFrame(figures, index=pd.Index(columns)), summary)

    return run
