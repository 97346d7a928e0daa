"""Centres of one party's own columns: private local clustering.

Primitives, Algorithm 3; Private vertical clustering, Algorithm 1.
"""

from typing import ClassVar

import numpy as np

from colonnade.plan import Plan, Step
from colonnade.privacy.laws import Mechanism
from colonnade.privacy.laws.clustering_rounds import LARGEST_CLUSTERS
from colonnade.privacy.laws.local_clustering import LocalClustering
from colonnade.privacy.price import Price
from colonnade.schema import Category, Schema
from colonnade.steps.fixed_point import FixedPoint
from colonnade.steps.kind import Earlier, StepKind, nothing_earlier
from colonnade.steps.parameters import whole_parameter

__all__ = ["Centres", "CodedBlock"]

LARGEST_SCALE = 2**14


class CodedBlock:
    """One party's columns as small integers, behind a flag that says whether there is a record at all.

    A row without a value in any column is no record: it is in no cell, and nearest to no centre. A row with some values has the
    midpoint where one is missing, like everywhere.

    Parameters
    ----------
    step, schema
        Which columns, and what is public about them. The step's ``scale`` is γ.
    """

    def __init__(self, step: Step, schema: Schema) -> None:
        scale = whole_parameter(step.parameters, "scale", LARGEST_SCALE)
        self.columns = step.columns
        self.coding = FixedPoint(step.columns, schema, scale=scale, row_bound=scale**2 * len(step.columns))
        self.scale = scale
        lower = [
            0 if isinstance(schema[name], Category) else -scale
            for name, width in zip(step.columns, self.coding.widths, strict=True)
            for _ in range(width)
        ]
        self.lower = np.array(lower, dtype=np.int64)


class Centres(StepKind):
    """k′ centres of a party's own columns, mapped to [−1, 1] by their bounds; categories as indicators.

    Sensitivity: under zero-out a person's row disappears from one cell of each of the law's questions;
    `colonnade.privacy.laws.local_clustering.LocalClustering` has the proof. Checked by tests/party/test_local_clustering.py.
    """

    name: ClassVar[str] = "centres"
    title: ClassVar[str] = "private local clustering"
    parameters: ClassVar[frozenset[str]] = frozenset({"scale", "clusters", "seed"})

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.block = CodedBlock(step, schema)
        self.clusters = whole_parameter(step.parameters, "clusters", LARGEST_CLUSTERS)
        self.seed = whole_parameter(step.parameters, "seed", 2**31 - 1, least=0)

    def law(self, price: Price) -> Mechanism:
        """Return the clustering that this price buys."""
        return LocalClustering(
            price,
            self.block.lower,
            self.block.scale,
            len(self.columns),
            people=self.people,
            clusters=self.clusters,
            seed=self.seed,
        )

    @property
    def release_bytes(self) -> int:
        """Eight bytes per coordinate of a centre."""
        return 8 * self.clusters * self.block.coding.width
