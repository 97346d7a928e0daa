"""All names that a plan may contain: kinds of step, tasks and their methods, and what policies call them.

These are the only lists. Estimators take their tasks from here, the coordinator makes no plan that is not listed, and every
member refuses one before it prices anything (`colonnade.steps.kind.require_known`).
"""

from collections.abc import Mapping

from colonnade.steps import alignment, describing, gradient, local, newton, products, sums
from colonnade.steps.kind import KINDS, TASKS, PlannedMethod

KINDS.update(
    (kind.name, kind)
    for kind in (
        alignment.Cohort,
        alignment.ListMatching,
        alignment.UnionMatching,
        describing.ColumnCounts,
        describing.QuantilePositions,
        gradient.Gradient,
        describing.GroupChain,
        describing.GroupSums,
        describing.GroupTotals,
        local.GroupKey,
        local.MembershipSketches,
        local.Split,
        local.Centres,
        local.Histogram,
        local.Reports,
        local.Rows,
        local.Sketch,
        local.SquaredLength,
        local.Total,
        local.ValueSketch,
        local.Values,
        newton.NewtonSteps,
        products.Coefficients,
        products.Gram,
        products.PairTables,
        products.UnionCross,
        products.UnionOwn,
        products.ScoreHistogram,
        sums.CoresetClusters,
        sums.CoresetDraws,
        sums.CoresetGradient,
        sums.CoresetRows,
        sums.CoresetSample,
        sums.CoresetScores,
        sums.CoresetTotal,
        sums.Predictions,
    )
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
_SCHEDULE = (
    "steps",
    "rate",
    "sampling",
    "score_bound",
    "optimiser",
    "learning_rate",
    "weight_norm",
    "tolerance",
)
_SECOND_STAGE = ("after",)
"""The hash of the plan of a first stage."""
_CLUSTERS = (local.Centres, local.Histogram)  # a single party's weights are a histogram, whatever the method
_IMPORTANCE = (local.GroupKey, sums.CoresetTotal, sums.CoresetDraws, sums.CoresetScores)
_TRAININGS = (sums.CoresetRows, sums.CoresetClusters, sums.CoresetGradient)

TASKS.update(
    {
        "pattern-count": {
            "secure": _method(products.PairTables, local.Histogram, parameters=_COUNTS),
            "response": _method(local.Reports, parameters=_COUNTS),
            "independent": _method(local.Histogram, parameters=_COUNTS),
        },
        "description": {"local": _method(describing.ColumnCounts, describing.QuantilePositions)},
        "groups": {
            "secure": _method(describing.GroupChain, describing.GroupSums, describing.GroupTotals),
        },
        "moment": {
            "local": _method(local.Total, local.Values),
            "sketch": _method(local.ValueSketch),
        },
        "clustering": {
            "secure": _method(*_CLUSTERS, products.PairTables),
            "sketch": _method(*_CLUSTERS, local.GroupKey, local.MembershipSketches),
            "response": _method(*_CLUSTERS, local.Reports),
            "independent": _method(*_CLUSTERS),
        },
        "moments": {
            "secure": _method(products.Gram, products.UnionCross, products.UnionOwn, parameters=_SECOND_STAGE),
            "sketch": _method(local.Sketch),
            "local": _method(local.Rows),
            "functional": _method(products.Coefficients),
            "newton": _method(products.Gram, newton.NewtonSteps, products.ScoreHistogram, parameters=_SECOND_STAGE),
            "tables": _method(products.PairTables, local.Histogram, products.Gram, parameters=("stage", "keep")),
            "gradient": _method(local.GroupKey, gradient.Gradient, parameters=_SCHEDULE),
        },
        "coreset": {
            "importance": _method(*_IMPORTANCE),
            "uniform": _method(sums.CoresetSample),
            "coreset": _method(*_IMPORTANCE, sums.CoresetSample, *_TRAININGS),
        },
        "evaluation": {
            "PCA": _method(products.Gram),
            "LinearRegression": _method(products.Gram),
            "SyntheticTable": _method(products.Gram),
            "LogisticRegression": _method(products.ScoreHistogram),
            "AdditiveClassifier": _method(products.ScoreHistogram),
            "AdditiveRegressor": _method(products.Gram),
            "Scorecard": _method(products.ScoreHistogram),
            "KMeans": _method(products.ScoreHistogram, local.SquaredLength),
            "KMedian": _method(products.ScoreHistogram, local.SquaredLength),
        },
        "prediction": dict.fromkeys(
            (
                "PCA",
                "LinearRegression",
                "LogisticRegression",
                "AdditiveClassifier",
                "AdditiveRegressor",
                "Scorecard",
                "KMeans",
                "KMedian",
            ),
            _method(sums.Predictions),
        ),
        "alignment": {
            kind.mode: _method(kind) for kind in (alignment.ListMatching, alignment.Cohort, alignment.UnionMatching)
        },
        "split": {"keyed-hash": _method(local.Split)},
    }
)
