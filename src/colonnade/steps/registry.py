"""All names that a plan may contain: kinds of step, tasks and their methods, and what policies call them.

These are the lists of the core; `colonnade.papers.steps` has those of the methods that papers brought. Estimators take their
tasks from here, the coordinator makes no plan that is not listed, and every member refuses one before it prices anything
(`colonnade.steps.kind.require_known`).
"""

from collections.abc import Mapping

from colonnade.steps import alignment, describing, local, newton, products, spreads, sums
from colonnade.steps.kind import KINDS, TASKS, PlannedMethod

KINDS.register(
    __name__,
    {
        kind.name: kind
        for kind in (
            alignment.Cohort,
            alignment.ListMatching,
            alignment.UnionMatching,
            describing.ColumnCounts,
            describing.QuantilePositions,
            describing.GroupChain,
            describing.GroupSums,
            describing.GroupTotals,
            local.GroupKey,
            local.Split,
            local.Centres,
            local.HistogramStep,
            local.Reports,
            local.SquaredLength,
            newton.NewtonSteps,
            products.Coefficients,
            products.Gram,
            products.PairTables,
            products.UnionCross,
            products.UnionOwn,
            products.ScoreHistogram,
            spreads.Spreads,
            sums.Predictions,
        )
    },
)

STUDIES: Mapping[str, str] = {
    "Describe": "description",
    "Histogram": "description",
    "Quantiles": "description",
    "PatternCount": "pattern-count",
    "GroupBy": "groups",
    "Moment": "moment",
    "KMeans": "clustering",
    "KMedian": "clustering",
    "PCA": "moments",
    "Correlation": "moments",
    "LinearRegression": "moments",
    "LogisticRegression": "moments",
    "SyntheticTable": "moments",
    "AdditiveClassifier": "moments",
    "AdditiveRegressor": "moments",
    "Scorecard": "moments",
    "Coreset": "coreset",
    "evaluate": "evaluation",
    "predict": "prediction",
    "align": "alignment",
    "split": "split",
}
"""What users and policies call a study, and its task: what a plan calls it."""

EXACT: Mapping[str, str] = {name: STUDIES[name] for name in ("Coreset", "align")}
"""What a policy may allow without differential privacy, and its task."""

_method = PlannedMethod.of
_COUNTS = ("columns", "sample")
_SECOND_STAGE = ("after",)
"""The hash of the plan of a first stage."""
CLUSTERS = (local.Centres, local.HistogramStep)
"""Steps of every clustering: a single party's weights are a histogram, whatever the method."""
_SCORED = (
    "PCA",
    "LinearRegression",
    "LogisticRegression",
    "AdditiveClassifier",
    "AdditiveRegressor",
    "Scorecard",
    "KMeans",
    "KMedian",
)

TASKS.register(
    __name__,
    {
        ("pattern-count", "secure"): _method(products.PairTables, local.HistogramStep, parameters=_COUNTS),
        ("pattern-count", "response"): _method(local.Reports, parameters=_COUNTS),
        ("pattern-count", "independent"): _method(local.HistogramStep, parameters=_COUNTS),
        ("description", "local"): _method(describing.ColumnCounts, describing.QuantilePositions),
        ("groups", "secure"): _method(describing.GroupChain, describing.GroupSums, describing.GroupTotals),
        ("clustering", "secure"): _method(*CLUSTERS, products.PairTables),
        ("clustering", "independent"): _method(*CLUSTERS),
        ("moments", "secure"): _method(
            spreads.Spreads, products.Gram, products.UnionCross, products.UnionOwn, parameters=_SECOND_STAGE
        ),
        ("moments", "functional"): _method(products.Coefficients),
        ("moments", "newton"): _method(
            spreads.Spreads, products.Gram, newton.NewtonSteps, products.ScoreHistogram, parameters=_SECOND_STAGE
        ),
        ("moments", "tables"): _method(
            products.PairTables, local.HistogramStep, products.Gram, parameters=("stage", "keep")
        ),
        ("evaluation", "PCA"): _method(products.Gram),
        ("evaluation", "LinearRegression"): _method(products.Gram),
        ("evaluation", "SyntheticTable"): _method(products.Gram),
        ("evaluation", "LogisticRegression"): _method(products.ScoreHistogram),
        ("evaluation", "AdditiveClassifier"): _method(products.ScoreHistogram),
        ("evaluation", "AdditiveRegressor"): _method(products.Gram),
        ("evaluation", "Scorecard"): _method(products.ScoreHistogram),
        ("evaluation", "KMeans"): _method(products.ScoreHistogram, local.SquaredLength),
        ("evaluation", "KMedian"): _method(products.ScoreHistogram, local.SquaredLength),
        **{("prediction", name): _method(sums.Predictions) for name in _SCORED},
        **{
            ("alignment", kind.mode): _method(kind)
            for kind in (alignment.ListMatching, alignment.Cohort, alignment.UnionMatching)
        },
        ("split", "keyed-hash"): _method(local.Split),
    },
)
