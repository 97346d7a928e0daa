"""Centres of one party's own columns: the private local clustering of papers 000 (Algorithm 3) and 001 (Algorithm 1)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.party.steps.categories import only_parameters
from colonnade.party.steps.coding import Coding
from colonnade.party.table.private_table import PrivateTable
from colonnade.plan import Parameter, Plan, Step
from colonnade.privacy.laws import Mechanism
from colonnade.privacy.laws.clustering_rounds import LARGEST_CLUSTERS
from colonnade.privacy.laws.local_clustering import LocalClustering
from colonnade.privacy.price import Price
from colonnade.schema import Category, Schema

__all__ = ["Centres", "CodedBlock"]

LARGEST_SCALE = 2**14
BLOCK = 65_536


class CodedBlock:
    """One party's columns as small integers, and who has a record at all.

    A row without a value in any column is no record: it is in no cell, and nearest to no centre. A row with some values has the
    midpoint where one is missing, like everywhere.

    Parameters
    ----------
    step, schema
        Which columns, and what is public about them. The step's ``scale`` is γ.
    """

    def __init__(self, step: Step, schema: Schema) -> None:
        scale = whole(step.parameters, "scale", LARGEST_SCALE)
        self.columns = step.columns
        self.coding = Coding(step.columns, schema, scale=scale, row_bound=scale**2 * len(step.columns))
        self.scale = scale
        lower = [
            0 if isinstance(schema[name], Category) else -scale
            for name, width in zip(step.columns, self.coding.widths, strict=True)
            for _ in range(width)
        ]
        self.lower = np.array(lower, dtype=np.int64)

    def rows(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int16]:
        """Return some people's rows: 1 or 0 for whether there is a record, then the coded columns."""
        nonprivate = np.empty((stop - start, self.coding.width + 1), dtype=np.int16)
        nonprivate[:, 0] = table.present(self.columns)[start:stop]
        nonprivate[:, 1:] = self.coding.rows(table, start, stop).T
        return nonprivate


class Centres:
    """k′ centres of a party's own columns, mapped to [−1, 1] by their bounds; categories as indicators.

    Sensitivity: under zero-out a person's row disappears from one cell of each of the mechanism's questions;
    `colonnade.privacy.laws.local_clustering.LocalClustering` has the proof. Checked by
    tests/party/test_local_clustering.py.
    """

    def __init__(self, plan: Plan, step: Step, schema: Schema) -> None:
        parameters = only_parameters(step, frozenset({"scale", "clusters", "seed"}))
        self.block = CodedBlock(step, schema)
        self.columns = step.columns
        self.clusters = whole(parameters, "clusters", LARGEST_CLUSTERS)
        self.seed = whole(parameters, "seed", 2**31 - 1, least=0)
        self.people = plan.people

    def mechanism(self, price: Price) -> Mechanism:
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

    def prepare(self, table: PrivateTable) -> None:
        """Read what `compute` will need, before anything is paid."""
        table.present(self.columns)

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Return everybody's row; the mechanism asks its questions of them."""
        nonprivate = np.empty((self.people, self.block.coding.width + 1), dtype=np.int16)
        for start in range(0, self.people, BLOCK):
            stop = min(start + BLOCK, self.people)
            nonprivate[start:stop] = self.block.rows(table, start, stop)
        return nonprivate


def whole(parameters: Mapping[str, Parameter], name: str, largest: int, *, least: int = 1) -> int:
    """Return a parameter that must be a whole number within bounds."""
    value = parameters.get(name)
    if type(value) is not int or not least <= value <= largest:
        raise BadInput(f"A step's {name} must be a whole number between {least} and {largest}.")
    return value
