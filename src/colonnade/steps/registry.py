"""All kinds of step, by name: the only list of them."""

from colonnade.steps import alignment, gradient, keys, local, products, score_table, sums
from colonnade.steps.kind import KINDS

__all__: list[str] = []

KINDS.update(
    (kind.name, kind)
    for kind in (
        alignment.Cohort,
        alignment.ListMatching,
        alignment.UnionMatching,
        gradient.Gradient,
        keys.GroupKey,
        keys.MembershipSketches,
        keys.Split,
        local.Centres,
        local.Histogram,
        local.Reports,
        local.Rows,
        local.Sketch,
        local.SquaredLength,
        local.Total,
        local.ValueSketch,
        local.Values,
        products.Coefficients,
        products.Gram,
        products.PairTables,
        products.UnionCross,
        products.UnionOwn,
        score_table.ScoreHistogram,
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
