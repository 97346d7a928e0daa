"""What a data party brings to each kind of conversation (`colonnade.node.kinds`)."""

from collections.abc import Callable, Mapping
from typing import Any

from colonnade.party.parts.joint import JointPart
from colonnade.party.parts.key import KeyPart

__all__ = ["PARTS"]

PARTS: Mapping[str, Callable[..., Any]] = {
    "coefficients": JointPart,
    "gram": JointPart,
    "group-key": KeyPart,
    "pair-tables": JointPart,
}
"""By the step's statistic; each is made from the gate, the plan, the step and the admitted statistic."""
