"""A private measurement of a synthetic table against people: the pair tables again, with noise that the model has not seen."""

from dataclasses import dataclass

import pandas as pd

from colonnade.coordinator.protocols.moment_releases import GramRelease
from colonnade.estimation.noisy_tables import NoisyTables
from colonnade.estimation.scoring import EvaluationResult, Metric, interval_reach
from colonnade.estimation.table_model import TableModel
from colonnade.estimation.table_quality import differences, held_out_distance
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.protocol.messages import Rounds

__all__ = ["TableEvaluation"]


@dataclass(frozen=True)
class TableEvaluation:
    """Column shapes and pair trends of a model, each with an interval that covers them for the people measured.

    Parameters
    ----------
    release
        The release of all pair tables, at the price of the evaluation.
    model
        The model.
    level
        The level of the intervals.
    """

    release: GramRelease
    model: TableModel
    level: float

    @property
    def price(self) -> Price:
        """What is spent."""
        return self.release.price

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party: its part in the matrix of all pair tables."""
        return self.release.steps()

    def rounds(self, plan: Plan) -> Rounds:
        """Open the tables and compare them with the model's."""
        moments = yield from self.release.rounds(plan)
        single, double = differences(self.model, NoisyTables(moments))
        reach = interval_reach(self.level, among=2)  # the score's interval needs both of them
        shapes, by_column = held_out_distance(single, reach, "column_shapes")
        trends, by_pair = held_out_distance(double, reach, "pair_trends")
        middle, low, high = ((getattr(shapes, one) + getattr(trends, one)) / 2 for one in ("value", "low", "high"))
        score = Metric("score", middle, low, high)
        pairs = pd.MultiIndex.from_tuples(list(by_pair), names=["column", "other"])
        tables = {
            "column shapes": pd.DataFrame({"column shape": {name: 1 - apart for name, apart in by_column.items()}}),
            "pair trends": pd.DataFrame({"pair trend": [1 - apart for apart in by_pair.values()]}, index=pairs),
        }
        return EvaluationResult((score, shapes, trends), tables)
