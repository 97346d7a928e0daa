"""What a data party brings to each kind of conversation (`colonnade.node.kinds`)."""

from collections.abc import Callable, Mapping
from typing import Any

from colonnade.party.parts.aligning import AligningPart
from colonnade.party.parts.descent import DescentPart
from colonnade.party.parts.joint import JointPart
from colonnade.party.parts.key import KeyPart
from colonnade.party.parts.prediction import PredictionPart
from colonnade.party.parts.score_table import ScorePart
from colonnade.party.parts.split import SplitPart
from colonnade.party.parts.sum import GradientPart, SumPart

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
