"""The studies that ``colonnade demo`` runs: each a title and a function from a federation to a result beside the truth.

A new estimator appends one entry to `STUDIES`; `demo` prints them all alike.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression as Exact

import colonnade as cn
from colonnade.cli.demo_comparison import ROWS, Comparison, charges_of
from colonnade.cli.demo_models import explained, sampled, scored
from colonnade.datasets.synthetic import Federated
from colonnade.estimation.private_pgm import has_library

__all__ = ["STUDIES", "Comparison", "DemoStudy"]


@dataclass(frozen=True)
class DemoStudy:
    """One study of the demonstration.

    Parameters
    ----------
    title
        What is asked.
    run
        Runs it.
    extra
        The extra of this library that it needs, if that is not installed; otherwise empty.
    """

    title: str
    run: Callable[[Federated, cn.Federation], Comparison]
    extra: str = ""


def true_counts(data: Federated, columns: Sequence[str], index: pd.Index) -> pd.Series:
    """Count patterns in the joined table, which only invented people have."""
    return data.joined().groupby(list(columns), observed=False).size().reindex(index, fill_value=0)


def _patterns(columns: list[str], **parameters: Any) -> Callable[[Federated, cn.Federation], Comparison]:
    def run(data: Federated, federation: cn.Federation) -> Comparison:
        study = cn.PatternCount(columns, **parameters)
        charges = charges_of(study, federation)
        study.fit(federation)
        truth = true_counts(data, columns, study.counts_.index)
        table = pd.DataFrame({"true": truth, "estimate": study.counts_, "stderr": study.stderr_})
        top = table.sort_values("true", ascending=False, kind="stable").head(ROWS)
        moved = float((study.counts_ - truth).abs().sum()) / 2 / federation.people
        summary = f"{len(table)} patterns; {moved:.1%} of people would have to move to make the estimate exact"
        return Comparison(charges, study, top, summary)

    return run


def _group_means(by: list[str], value: str, **parameters: Any) -> Callable[[Federated, cn.Federation], Comparison]:
    def run(data: Federated, federation: cn.Federation) -> Comparison:
        study = cn.GroupBy(by, [value], **parameters)
        charges = charges_of(study, federation)
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


def _correlations(columns: list[str], **parameters: Any) -> Callable[[Federated, cn.Federation], Comparison]:
    def run(data: Federated, federation: cn.Federation) -> Comparison:
        study = cn.Correlation(columns, **parameters)
        charges = charges_of(study, federation)
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


def _components(
    n_components: int, columns: list[str], **parameters: Any
) -> Callable[[Federated, cn.Federation], Comparison]:
    def run(data: Federated, federation: cn.Federation) -> Comparison:
        study = cn.PCA(n_components, columns=columns, **parameters)
        charges = charges_of(study, federation)
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


def _groups(n_clusters: int, columns: list[str], **parameters: Any) -> Callable[[Federated, cn.Federation], Comparison]:
    def run(data: Federated, federation: cn.Federation) -> Comparison:
        study, exact = (cn.KMeans(n_clusters, columns=columns, **parameters) for _ in range(2))
        charges = charges_of(study, federation)
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


def _moment(columns: list[str], p: float, **parameters: Any) -> Callable[[Federated, cn.Federation], Comparison]:
    def run(data: Federated, federation: cn.Federation) -> Comparison:
        study = cn.Moment(columns, p, **parameters)
        charges = charges_of(study, federation)
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


def _invented(
    columns: list[str], shown: list[str], **parameters: Any
) -> Callable[[Federated, cn.Federation], Comparison]:
    def run(data: Federated, federation: cn.Federation) -> Comparison:
        study = cn.SyntheticTable(columns, **parameters)
        charges = charges_of(study, federation)
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


def _clipped(data: Federated, federation: cn.Federation, columns: list[str]) -> pd.DataFrame:
    """Return the joined table as a federation reads its numbers: between their bounds."""
    joined, described = data.joined()[columns], federation.describe(columns)
    low, high = ([getattr(described[name], end) for name in columns] for end in ("low", "high"))
    return joined.clip(low, high, axis="columns")


def _described(columns: list[str], **parameters: Any) -> Callable[[Federated, cn.Federation], Comparison]:
    def run(data: Federated, federation: cn.Federation) -> Comparison:
        study = cn.Describe(columns, **parameters)
        charges = charges_of(study, federation)
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


def _quantiles(column: str, shares: list[float], **parameters: Any) -> Callable[[Federated, cn.Federation], Comparison]:
    def run(data: Federated, federation: cn.Federation) -> Comparison:
        study = cn.Quantiles(column, shares, **parameters)
        charges = charges_of(study, federation)
        study.fit(federation)
        values = data.joined()[column]
        figures = {"true": values.quantile(shares), "estimate": study.values_, "stderr": "in ranks"}
        off = max(
            abs(float((values < found).mean()) - share) for share, found in zip(shares, study.values_, strict=True)
        )
        return Comparison(charges, study, pd.DataFrame(figures), f"ranks are off by at most {off:.2%} of the people")

    return run


def _tightened(target: str, columns: list[str], **price: float) -> Callable[[Federated, cn.Federation], Comparison]:
    def run(data: Federated, federation: cn.Federation) -> Comparison:
        narrow = federation.tightened([target, *columns], epsilon=price["epsilon"] / 2, delta=price["delta"])
        study = cn.LinearRegression(target, columns=columns, epsilon=price["epsilon"] / 2, delta=price["delta"])
        charges = charges_of(study, narrow)
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


STUDIES: tuple[DemoStudy, ...] = (
    DemoStudy(
        "Columns of three parties one by one: means, deviations and medians from one release per party",
        _described(["bank.age", "telco.minutes", "insurer.premium"], epsilon=0.5),
    ),
    DemoStudy(
        "Quantiles of income at the bank, by the exponential mechanism",
        _quantiles("bank.income", [0.1, 0.25, 0.5, 0.75, 0.9], epsilon=0.2),
    ),
    DemoStudy(
        "Patterns across two parties, randomised response, ε for a person",
        _patterns(["bank.segment", "telco.plan"], method="response", epsilon=2.0),
    ),
    DemoStudy(
        "Patterns across three parties, randomised response, ε for a person",
        _patterns(["bank.segment", "telco.plan", "insurer.product"], method="response", epsilon=3.0),
    ),
    DemoStudy(
        "Patterns across two parties, two columns at one of them, ε for a person's record at a party",
        _patterns(["bank.default", "insurer.product", "insurer.smoker"], method="response", epsilon=1.0, unit="party"),
    ),
    DemoStudy(
        "The same two columns as at first, as if they were independent: little noise, and biased where they are not",
        _patterns(["bank.segment", "telco.plan"], method="independent", epsilon=0.2),
    ),
    DemoStudy(
        "The same two columns from secret shares: noise of a single count, at a tenth of the first price",
        _patterns(["bank.segment", "telco.plan"], epsilon=0.2),
    ),
    DemoStudy(
        "Three parties from secret shares: a fit to the three pair tables",
        _patterns(["bank.segment", "telco.plan", "insurer.product"], epsilon=0.5),
    ),
    DemoStudy(
        "Mean premium at the insurer by segment at the bank and plan at the telco: a product of three parties' columns",
        _group_means(["bank.segment", "telco.plan"], "insurer.premium", epsilon=0.3, delta=1e-6),
    ),
    DemoStudy(
        "Correlations of four columns at three parties, from one noisy Gram matrix",
        _correlations(["bank.age", "bank.income", "telco.minutes", "insurer.risk_score"], epsilon=0.3, delta=1e-6),
    ),
    DemoStudy(
        "Principal components of six columns at three parties, from one noisy Gram matrix",
        _components(
            3,
            [
                "bank.age",
                "bank.income",
                "bank.savings",
                "telco.monthly_bill",
                "telco.minutes",
                "insurer.premium",
            ],
            epsilon=0.5,
            delta=1e-6,
        ),
    ),
    DemoStudy(
        "Three groups of people by six columns at three parties: private local centres, weighted by secret-shared pair tables",
        _groups(
            3,
            [
                "bank.age",
                "bank.income",
                "telco.monthly_bill",
                "telco.minutes",
                "insurer.premium",
                "insurer.risk_score",
            ],
            epsilon=0.5,
            delta=1e-6,
        ),
    ),
    DemoStudy(
        "Three groups by four columns at two parties, weighted by sketches under a key that only the two share",
        _groups(
            3,
            ["bank.age", "bank.income", "telco.monthly_bill", "telco.minutes"],
            method="sketch",
            epsilon=0.5,
            delta=1e-6,
        ),
    ),
    DemoStudy(
        "Squares of late payments and claims together, every number perturbed by its holder; ε hides steps of one",
        _moment(["telco.late_payments", "insurer.claims"], 2, epsilon=0.5),
    ),
    DemoStudy(
        "Income at the bank from what the telco and the insurer know",
        explained(
            lambda: cn.LinearRegression(
                "bank.income", columns=["bank.age", "telco.monthly_bill", "insurer.premium"], epsilon=0.5, delta=1e-6
            ),
            "R²",
        ),
    ),
    DemoStudy(
        "The same at the same price, half of it for narrower bounds: each noise is in proportion to them",
        _tightened("bank.income", ["bank.age", "telco.monthly_bill", "insurer.premium"], epsilon=0.5, delta=1e-6),
    ),
    DemoStudy(
        "Default at the bank from columns of all three, by Newton steps: the likeliest coefficients, as near as ε allows",
        explained(
            lambda: cn.LogisticRegression(
                "bank.default",
                columns=["bank.age", "bank.income", "telco.late_payments", "insurer.risk_score", "insurer.smoker"],
                epsilon=0.5,
                delta=1e-6,
            ),
            "accuracy",
        ),
    ),
    DemoStudy(
        "The same as a scorecard: whole points per bin, and the rate of defaults in each bin of late payments",
        scored(
            "bank.default",
            ["bank.age", "bank.income", "telco.late_payments", "insurer.risk_score", "insurer.smoker"],
            "telco.late_payments",
        ),
    ),
    DemoStudy(
        "The same at half the price and with δ = 0: Laplace noise on the objective's coefficients",
        explained(
            lambda: cn.LogisticRegression(
                "bank.default",
                columns=["bank.age", "bank.income", "telco.late_payments", "insurer.risk_score", "insurer.smoker"],
                method="functional",
                epsilon=0.25,
            ),
            "accuracy",
        ),
    ),
    DemoStudy(
        "The same by 120 noisy gradient steps on batches that only the parties know; ε holds against the coordinator",
        explained(
            lambda: cn.LogisticRegression(
                "bank.default",
                columns=["bank.age", "bank.income", "telco.late_payments", "insurer.risk_score", "insurer.smoker"],
                method=cn.methods.Gradient(steps=120, rate=0.02),
                epsilon=0.5,
                delta=1e-6,
            ),
            "accuracy",
        ),
    ),
    DemoStudy(
        "A synthetic table of six columns at three parties: invented rows, to explore freely",
        _invented(
            ["bank.age", "bank.segment", "telco.plan", "telco.minutes", "insurer.product", "insurer.smoker"],
            ["bank.segment", "telco.plan"],
            bins=8,
            epsilon=0.5,
            delta=1e-6,
        ),
        extra="" if has_library() else "synthetic",
    ),
    DemoStudy(
        "NOT PRIVATE, by consent: income again, from 1,000 weighted rows that the three parties drew together (a coreset)",
        sampled("bank.income", ["bank.age", "telco.monthly_bill", "insurer.premium"], size=1_000),
    ),
)
