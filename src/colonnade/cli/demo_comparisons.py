"""What the demonstration shows of each kind of study: the result beside the truth, and what it was to cost.

Every function takes what is asked, and returns a function from data and a federation to a `Comparison`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression as Exact
from sklearn.linear_model import LogisticRegression as ExactLogistic
from sklearn.metrics import roc_auc_score

import colonnade as cn
from colonnade.datasets.synthetic import Federated
from colonnade.estimators.study import Study

__all__ = [
    "Comparison",
    "card",
    "clusters",
    "components",
    "correlations",
    "described",
    "exact_model",
    "group_means",
    "invented",
    "model",
    "moment",
    "patterns",
    "quantiles",
    "sampled",
    "tightened",
    "true_counts",
]

ROWS = 6
NO_PENALTY = 1e9
"""scikit-learn's inverse strength of a penalty that changes nothing."""


@dataclass(frozen=True)
class Comparison:
    """What a study found, beside what is true.

    Parameters
    ----------
    charges
        What each party's ledger was to be debited, as its preview said.
    estimator
        The fitted estimator.
    table
        The largest few entries, with columns ``true``, ``estimate`` and ``stderr``. True is what the same kind of model gives on
        the joined table without noise, by scikit-learn: for a logistic regression the maximum-likelihood estimate.
    summary
        The error over all entries, in words.
    intervals
        Columns ``lower`` and ``upper`` for the rows of ``table``, where the estimator has intervals of its own.
    """

    charges: dict[str, float]
    estimator: Study
    table: pd.DataFrame
    summary: str
    intervals: pd.DataFrame | None = None


def true_counts(data: Federated, columns: Sequence[str], index: pd.Index) -> pd.Series:
    """Count patterns in the joined table, which only invented people have."""
    return data.joined().groupby(list(columns), observed=False).size().reindex(index, fill_value=0)


def patterns(columns: list[str], **parameters: Any) -> Callable[[Federated, cn.Federation], Comparison]:
    """Compare counts of patterns."""

    def run(data: Federated, federation: cn.Federation) -> Comparison:
        study = cn.PatternCount(columns, **parameters)
        charges = _charges(study, federation)
        study.fit(federation)
        truth = true_counts(data, columns, study.counts_.index)
        table = pd.DataFrame({"true": truth, "estimate": study.counts_, "stderr": study.stderr_})
        top = table.sort_values("true", ascending=False, kind="stable").head(ROWS)
        moved = float((study.counts_ - truth).abs().sum()) / 2 / federation.people
        summary = f"{len(table)} patterns; {moved:.1%} of people would have to move to make the estimate exact"
        return Comparison(charges, study, top, summary)

    return run


def group_means(by: list[str], value: str, **parameters: Any) -> Callable[[Federated, cn.Federation], Comparison]:
    """Compare means by group."""

    def run(data: Federated, federation: cn.Federation) -> Comparison:
        study = cn.GroupBy(by, [value], **parameters)
        charges = _charges(study, federation)
        study.fit(federation)
        truth = data.joined().groupby(by, observed=False)[value].mean().reindex(study.table_.index)
        found, error = study.table_[f"{value}_mean"], study.table_[f"{value}_mean_stderr"]
        table = pd.DataFrame({"true": truth, "estimate": found, "stderr": error})
        top = table.loc[study.table_["count"].sort_values(ascending=False, kind="stable").index].head(ROWS)
        ends, known = study.conf_int(), truth.notna()
        low, high = ends[f"{value}_mean_low"][known], ends[f"{value}_mean_high"][known]
        covered = ((low <= truth[known]) & (truth[known] <= high)).sum()
        small = int(study.table_["small"].sum())
        summary = f"{covered} of {known.sum()} intervals cover the true mean; {small} groups are flagged as small"
        return Comparison(charges, study, top, summary)

    return run


def correlations(columns: list[str], **parameters: Any) -> Callable[[Federated, cn.Federation], Comparison]:
    """Compare correlations."""

    def run(data: Federated, federation: cn.Federation) -> Comparison:
        study = cn.Correlation(columns, **parameters)
        charges = _charges(study, federation)
        study.fit(federation)
        exact, pairs = data.joined()[columns].corr(), study.table()
        truth = pd.Series({pair: exact.loc[pair] for pair in pairs.index})
        table = (
            pd.DataFrame({"true": truth, "estimate": pairs["estimate"], "stderr": pairs["stderr"]})
            .loc[pairs.index]
            .rename_axis(pairs.index.names)
        )
        off = float((table["estimate"] - table["true"]).abs().max())
        return Comparison(charges, study, table.head(ROWS), f"no correlation is off by more than {off:.3f}")

    return run


def components(
    n_components: int, columns: list[str], **parameters: Any
) -> Callable[[Federated, cn.Federation], Comparison]:
    """Compare principal components."""

    def run(data: Federated, federation: cn.Federation) -> Comparison:
        study = cn.PCA(n_components, columns=columns, **parameters)
        charges = _charges(study, federation)
        study.fit(federation)
        exact = _coded(data, federation, columns)
        values = np.sort(np.linalg.eigvalsh(np.cov(exact, rowvar=False)))[::-1][:n_components]
        captured = study.transform(data.joined()).var(axis=0, ddof=1)
        table = pd.DataFrame(
            {"true": values, "estimate": study.explained_variance_, "stderr": study.explained_variance_stderr_},
            index=pd.Index([f"component {number + 1}" for number in range(n_components)]),
        )
        summary = f"the components capture {captured.sum() / values.sum():.3%} of what the best ones capture"
        return Comparison(charges, study, table, summary)

    return run


def clusters(
    n_clusters: int, columns: list[str], **parameters: Any
) -> Callable[[Federated, cn.Federation], Comparison]:
    """Compare centres of clusters, and how far people are from them."""

    def run(data: Federated, federation: cn.Federation) -> Comparison:
        study, exact = (cn.KMeans(n_clusters, columns=columns, **parameters) for _ in range(2))
        charges = _charges(study, federation)
        study.fit(federation)
        with data.federation(budget=cn.Budget(epsilon=10_000.0, delta=0.5)) as reference:
            exact.set_params(method="secure", epsilon=10_000.0, n_local_clusters=20).fit(reference)
        found, best = study.predict(data.joined()), exact.predict(data.joined())
        table = pd.DataFrame(_matched(exact.cluster_centers_, study.cluster_centers_, study.feature_names_in_))
        losses = [_spread_within(data, federation, columns, labels) for labels in (found, best)]
        summary = f"squared distances to the mean of a group add up to {losses[0] / losses[1]:.3f} of what they are without noise"
        return Comparison(charges, study, table.set_index("of group 1").head(ROWS), summary)

    return run


def _matched(exact: Any, found: Any, names: Any) -> dict[str, Any]:
    """The first centre without noise, beside the centre of ours that is nearest to it."""
    scale = np.ptp(exact, axis=0) + 1e-9
    nearest = found[np.linalg.norm((found - exact[0]) / scale, axis=1).argmin()]
    return {"of group 1": names, "true": exact[0], "estimate": nearest, "stderr": "unknown"}


def _spread_within(data: Federated, federation: cn.Federation, columns: list[str], labels: Any) -> float:
    coded = pd.DataFrame(_coded(data, federation, columns))
    return float(((coded - coded.groupby(labels).transform("mean")) ** 2).to_numpy().sum())


def _coded(data: Federated, federation: cn.Federation, columns: list[str]) -> Any:
    """Map the joined table's numbers to [−1, 1] by their public bounds, as the parties do."""
    joined, described = data.joined(), federation.describe(columns)
    bounds = {name: (column.low, column.high) for name, column in described.items() if isinstance(column, cn.Numeric)}
    coded = [(2 * joined[name].clip(low, high) - low - high) / (high - low) for name, (low, high) in bounds.items()]
    return np.column_stack(coded)


def model(make: Callable[[], Any], score: str) -> Callable[[Federated, cn.Federation], Comparison]:
    """Compare the coefficients of a regression, and its score."""

    def run(data: Federated, federation: cn.Federation) -> Comparison:
        study = make().set_params(coding="reference")
        charges = _charges(study, federation)
        study.fit(federation)
        exact, rows = exact_model(data, federation, study)
        own = dict(zip(rows.columns, exact.coef_.ravel(), strict=True))
        figures = {"estimate": study.coef_.ravel(), "stderr": study.coef_stderr_.ravel()}
        table = pd.DataFrame(figures, index=pd.Index(study.feature_names_in_)).loc[list(own)].head(ROWS)
        table.insert(0, "true", pd.Series(own))  # a reference level is not among scikit-learn's
        known = table["stderr"].notna().any()  # the last weights of a descent have no law
        intervals = study.conf_int(total=False).loc[table.index] if known else None
        people = data.joined()
        ours, best = study.score(people, people[study.target]), exact.score(rows, people[study.target])
        summary = f"{score} {ours:.4f}, and {best:.4f} by scikit-learn without noise"
        return Comparison(charges, study, table, summary, intervals)

    return run


def card(target: str, columns: list[str], shown: str) -> Callable[[Federated, cn.Federation], Comparison]:
    """Compare a scorecard's points, and its score."""

    def run(data: Federated, federation: cn.Federation) -> Comparison:
        study = cn.Scorecard(target, columns=columns, bins=8, epsilon=0.5, delta=1e-6)
        charges = _charges(study, federation)
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
        area = roc_auc_score(~event, study.total_points(people))  # more points, fewer events
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
    """Compare a regression on a coreset."""

    def run(data: Federated, federation: cn.Federation) -> Comparison:
        study = cn.LinearRegression(target, columns=columns, method="coreset", size=size, allow_nonprivate=True)
        charges = _charges(study, federation)
        study.fit(federation)
        people = data.joined()
        exact = Exact().fit(people[columns], people[target])
        figures = {"true": exact.coef_, "estimate": study.coef_, "stderr": "unknown"}
        ours, best = study.score(people, people[target]), exact.score(people[columns], people[target])
        moved, all_of_them = study.transcript_.numbers, len(people) * (len(columns) + 1)
        summary = f"R² {ours:.4f}, and {best:.4f} on all rows; {moved:,} numbers were moved instead of {all_of_them:,}"
        return Comparison(charges, study, pd.DataFrame(figures, index=pd.Index(columns)), summary)

    return run


def moment(columns: list[str], p: float, **parameters: Any) -> Callable[[Federated, cn.Federation], Comparison]:
    """Compare a moment of sums."""

    def run(data: Federated, federation: cn.Federation) -> Comparison:
        study = cn.Moment(columns, p, **parameters)
        charges = _charges(study, federation)
        study.fit(federation)
        joined, described = data.joined(), federation.describe(columns)
        bounds = {
            name: (column.low, column.high) for name, column in described.items() if isinstance(column, cn.Numeric)
        }
        exact = float((sum(joined[name].clip(*bounds[name]) for name in columns) ** p).sum())
        figures = {"true": [exact], "estimate": [study.value_], "stderr": [study.stderr_]}
        table = pd.DataFrame(figures, index=pd.Index([f"moment of order {p:g}"]))
        return Comparison(charges, study, table, f"off by {abs(study.value_ / exact - 1):.2%}")

    return run


def invented(
    columns: list[str], shown: list[str], **parameters: Any
) -> Callable[[Federated, cn.Federation], Comparison]:
    """Compare shares of pairs in a synthetic table."""

    def run(data: Federated, federation: cn.Federation) -> Comparison:
        study = cn.SyntheticTable(columns, **parameters)
        charges = _charges(study, federation)
        rows = study.fit(federation).sample()
        counts = rows.groupby(shown, observed=False).size()
        figures = {"true": true_counts(data, shown, counts.index), "estimate": counts, "stderr": "unknown"}
        table = pd.DataFrame(figures).sort_values("true", ascending=False, kind="stable").head(ROWS)
        moved = 1 - study.quality().pair_trends
        summary = (
            f"{len(rows):,} invented rows; by its own estimate {moved:.1%} of people would have to move to make a table of two "
            f"columns exact, on average over {len(study.pair_trends_)} of them"
        )
        return Comparison(charges, study, table, summary)

    return run


def _charges(study: Study, federation: cn.Federation) -> dict[str, float]:
    return {str(party): float(charge) for party, charge in study.preview(federation).table()["charge"].items()}


def _clipped(data: Federated, federation: cn.Federation, columns: list[str]) -> pd.DataFrame:
    """Return the joined table as a federation reads its numbers: between their bounds."""
    joined, described = data.joined()[columns], federation.describe(columns)
    low, high = ([getattr(described[name], end) for name in columns] for end in ("low", "high"))
    return joined.clip(low, high, axis="columns")


def described(columns: list[str], **parameters: Any) -> Callable[[Federated, cn.Federation], Comparison]:
    """Compare means, deviations and medians of columns."""

    def run(data: Federated, federation: cn.Federation) -> Comparison:
        study = cn.Describe(columns, **parameters)
        charges = _charges(study, federation)
        study.fit(federation)
        joined = _clipped(data, federation, columns)
        exact = {"mean": joined.mean(), "std": joined.std(), "50%": joined.median()}
        table = pd.DataFrame(
            {
                "true": {f"{name}, {figure}": exact[figure][name] for name in columns for figure in exact},
                "estimate": {f"{name}, {figure}": study.table_[figure][name] for name in columns for figure in exact},
                "stderr": {f"{n}, {figure}": study.table_[f"{figure}_stderr"][n] for n in columns for figure in exact},
            }
        )
        off = ((table["estimate"] - table["true"]) / table["true"]).abs().max()
        return Comparison(
            charges, study, table.head(ROWS), f"{len(columns)} columns; no figure is off by more than {off:.1%}"
        )

    return run


def quantiles(column: str, shares: list[float], **parameters: Any) -> Callable[[Federated, cn.Federation], Comparison]:
    """Compare quantiles of one column."""

    def run(data: Federated, federation: cn.Federation) -> Comparison:
        study = cn.Quantiles(column, shares, **parameters)
        charges = _charges(study, federation)
        study.fit(federation)
        values = data.joined()[column]
        figures = {"true": values.quantile(shares), "estimate": study.values_, "stderr": "in ranks"}
        off = max(
            abs(float((values < found).mean()) - share) for share, found in zip(shares, study.values_, strict=True)
        )
        return Comparison(charges, study, pd.DataFrame(figures), f"ranks are off by at most {off:.2%} of the people")

    return run


def tightened(target: str, columns: list[str], **price: float) -> Callable[[Federated, cn.Federation], Comparison]:
    """Compare a regression with and without private bounds."""

    def run(data: Federated, federation: cn.Federation) -> Comparison:
        narrow = federation.tightened([target, *columns], epsilon=price["epsilon"] / 2, delta=price["delta"])
        study = cn.LinearRegression(target, columns=columns, epsilon=price["epsilon"] / 2, delta=price["delta"])
        charges = _charges(study, narrow)
        study.fit(narrow)
        assert narrow.tightened_ is not None
        clipped = _clipped(data, narrow, [target, *columns])
        exact = Exact().fit(clipped[columns], clipped[target])
        table = pd.DataFrame(
            {"true": exact.coef_, "estimate": study.coef_, "stderr": study.coef_stderr_}, index=pd.Index(columns)
        )
        widest = narrow.tightened_.bounds["width"].max()
        return Comparison(
            charges, study, table, f"bounds are at most {widest:.0%} as far apart as declared; of the clipped table"
        )

    return run
