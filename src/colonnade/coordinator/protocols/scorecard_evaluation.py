"""The private evaluation of a scorecard: what each cut-off would approve, and how many people are in which band of scores."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from colonnade.coordinator.protocols.evaluation import (
    ClassifierEvaluation,
    binary_metrics,
    coins,
    quotient,
    share_above,
)
from colonnade.coordinator.protocols.score_releases import ScoreCounts
from colonnade.estimation.scoring import EvaluationResult, bounded_metric
from colonnade.plan import Plan
from colonnade.protocol.messages import Rounds

__all__ = ["ScorecardEvaluation"]

CUT_OFFS, BANDS = 19, 10
"""How many cut-offs a table of gains has, and how many bands the scores of a population are counted in."""


@dataclass(frozen=True)
class ScorecardEvaluation(ClassifierEvaluation):
    """The evaluation of a scorecard: also what every cut-off would approve, and how many people are in which band of scores."""

    def rounds(self, plan: Plan) -> Rounds:
        """Open the histogram and compute metrics and tables."""
        opened = yield from self.histograms[0].rounds(plan)
        found = binary_metrics(opened, self.classes, self.level)
        gains = _gains(opened, self.level)
        farthest = int(gains["ks"].argmax())
        apart, error = float(gains["ks"].iloc[farthest]), float(gains["ks_error"].iloc[farthest])
        ks = bounded_metric("ks", apart, error, floor=0.0, ceiling=1.0)
        tables = {
            **found.tables,
            "gains": gains.drop(columns="ks_error"),
            "bands": _bands(opened, *self.histograms[0].span),
        }
        return EvaluationResult((*found.metrics, ks), tables)


def _gains(histogram: ScoreCounts, level: float) -> pd.DataFrame:
    """Return, for cut-offs in log-odds of the event: who is approved (below it), and events among approved and refused."""
    everybody = np.ones_like(histogram.counts)
    event, other = everybody * np.array([0.0, 1.0]), everybody * np.array([1.0, 0.0])
    rows, cuts = [], np.linspace(histogram.scores[0], histogram.scores[-1], CUT_OFFS + 2)[1:-1]
    for cut in cuts:
        above = np.repeat(share_above(histogram, cut)[:, None], 2, axis=1)
        row: list[float] = []
        for parts, whole in (
            (1 - above, everybody),
            ((1 - above) * event, 1 - above),
            (above * event, above),
        ):
            value, error = quotient(histogram, parts, whole, level)
            metric = bounded_metric("share", value, error, floor=0.0, ceiling=1.0)
            row += [metric.value, metric.low, metric.high]
        caught, caught_error = quotient(histogram, above * event, event, level)
        lost, lost_error = quotient(histogram, above * other, other, level)
        rows.append([*row, caught - lost, math.hypot(caught_error, lost_error)])
    shares = [
        f"{name}{end}"
        for name in ("approved", "approved_bad_rate", "refused_bad_rate")
        for end in ("", "_low", "_high")
    ]
    return pd.DataFrame(rows, columns=[*shares, "ks", "ks_error"], index=pd.Index(cuts, name="cut_off"))


def _bands(histogram: ScoreCounts, lowest: float, highest: float) -> pd.DataFrame:
    """Return people by band of the log-odds, and the standard error of that count.

    Bands divide what the card can say, and not the histogram, whose steps depend on the number of people: two populations are
    counted in the same bands. Rounding may put somebody a little outside, who belongs to the outermost band.
    """
    edges = np.linspace(lowest, highest, BANDS + 1)
    rows = []
    for low, high in pairwise([-math.inf, *edges[1:-1], math.inf]):
        inside = np.repeat((share_above(histogram, low) - share_above(histogram, high))[:, None], 2, axis=1)
        spread = histogram.variance * float(np.sum(inside**2)) + coins(histogram, inside)
        rows.append((float(np.sum(inside * histogram.counts)), math.sqrt(spread)))
    index = pd.IntervalIndex.from_breaks(edges, closed="left", name="log_odds")
    return pd.DataFrame(rows, columns=["people", "stderr"], index=index)
