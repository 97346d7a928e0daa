"""What a data party brings to each kind of conversation (`colonnade.conversations.registry`)."""

from collections.abc import Callable, Mapping
from typing import Any

from colonnade.party.steps.aligning_part import AligningPart
from colonnade.party.steps.descent_part import DescentPart
from colonnade.party.steps.joint_part import JointPart
from colonnade.party.steps.key_part import KeyPart
from colonnade.party.steps.prediction_part import PredictionPart
from colonnade.party.steps.score_part import ScorePart
from colonnade.party.steps.split_part import SplitPart
from colonnade.party.steps.sum_part import GradientPart, SumPart

__all__ = ["PARTS"]

PARTS: Mapping[str, Callable[..., Any]] = {
    "coefficients": JointPart,
    "cohort": AligningPart,
    "coreset-draws": SumPart,
    "coreset-gradient": GradientPart,
    "coreset-scores": SumPart,
    "gradient": DescentPart,
    "gram": JointPart,
    "group-key": KeyPart,
    "matching": AligningPart,
    "pair-tables": JointPart,
    "predictions": PredictionPart,
    "score-table": ScorePart,
    "split": SplitPart,
    "union": AligningPart,
    "union-cross": JointPart,
    "union-own": JointPart,
}
"""By the step's statistic; each is made from the gate, the plan, the step and the admitted statistic."""
