"""What statistics over categories check alike: the columns of one party form one joint category."""

import math
from collections.abc import Sequence

from colonnade.errors import BadInput, SchemaMismatch
from colonnade.plan import Parameter, Step
from colonnade.schema import Category, Schema

__all__ = ["joint_size", "only_parameters"]

LARGEST_JOINT_CATEGORY = 65_536


def joint_size(columns: Sequence[str], schema: Schema) -> int:
    """Return how many joint levels some category columns have; refuse columns that are not categories."""
    sizes = []
    for name in columns:
        column = schema[name]
        if not isinstance(column, Category):
            raise SchemaMismatch(
                f"Column {name!r} is numeric; counting needs categories.",
                remedy="Declare it as cn.Category, or bin it at the source.",
            )
        sizes.append(column.size)
    size = math.prod(sizes)
    if size > LARGEST_JOINT_CATEGORY:
        raise BadInput(f"The columns of one party have more than {LARGEST_JOINT_CATEGORY} joint levels.")
    return size


def only_parameters(step: Step, allowed: frozenset[str]) -> dict[str, Parameter]:
    """Return a step's parameters; one that the statistic does not know could mean less noise, so it is refused."""
    if not set(step.parameters) <= allowed:
        raise BadInput("A step has a parameter that its statistic does not know.")
    return step.parameters
