"""One party's part of everybody's score, to be added under masks and opened to one party: an individual-level output.

What the recipient learns is the sum over the parties for each person, and nothing that the sum does not tell; with two parties
that is the other one's part. Whoever chooses the weights chooses what the sum tells, so policies allow predictions by model and
by recipient (`colonnade.party.policy.Policy.predictions`).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.conversations.sums import SumTerms
from colonnade.errors import BadInput, PlanMismatch
from colonnade.party.steps.categories import only_parameters
from colonnade.party.steps.parameters import whole_parameter
from colonnade.party.steps.partial_scores import PartialScores, numbers_parameter
from colonnade.party.table.private_table import PrivateTable
from colonnade.plan import Plan, Step
from colonnade.schema import Schema

__all__ = ["READINGS", "Predictions"]

READINGS = frozenset({"numbers", "classes", "chances", "components", "clusters"})
PARAMETERS = frozenset({"recipient", "bound", "weights", "outputs", "scale", "offsets", "reading", "names"})


class Predictions:
    """Partial scores as integers, one output after the other, each over all people; and what the recipient makes of the sums."""

    name = "individual scores opened to one party, without noise"

    def __init__(self, plan: Plan, step: Step, schema: Schema) -> None:
        parameters = only_parameters(step, PARAMETERS)
        self.recipient = SumTerms.read(plan, step.name).recipient
        if self.recipient not in plan.parties:
            raise PlanMismatch("Individual scores are opened to a party, never to the coordinator.")
        self.bound = whole_parameter(parameters.get("bound"))
        self.outputs = whole_parameter(parameters.get("outputs"))
        (self.scale,) = numbers_parameter((parameters.get("scale"),))
        self.offsets = np.array(numbers_parameter(parameters.get("offsets")))
        self.reading = str(parameters.get("reading"))
        self.names: Any = parameters.get("names")
        weights = numbers_parameter(parameters.get("weights"))
        self.scores = PartialScores(step.columns, schema, weights) if step.columns else None
        if self.scores is not None and self.scores.outputs != self.outputs:
            raise PlanMismatch("The plan has weights for another number of scores.")
        if self.scale <= 0 or len(self.offsets) != self.outputs:
            raise BadInput("A step of predictions lacks its scale or its offsets.")
        if self.reading not in READINGS or not isinstance(self.names, tuple):
            raise BadInput("A step of predictions does not say how scores are read.")
        self.people = plan.people

    def accept(self, inputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """Take no inputs: the plan says everything."""
        if inputs:
            raise BadInput("Predictions take no inputs.")
        return {}

    @property
    def length(self) -> int:
        """How many integers there are."""
        return self.outputs * self.people

    def summand(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return a stretch of this party's integers."""
        nonprivate = np.zeros(stop - start, dtype=np.int64)
        place = start
        while place < stop and self.scores is not None:
            output, first = divmod(place, self.people)
            last = min(self.people, first + stop - place)
            some = self.scores.values(table, first, last, output)
            _whole(some, self.scale, float(self.bound), nonprivate[place - start : place - start + last - first])
            place += last - first
        return nonprivate

    def read(self, sums: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Return what the recipient is told, by column, from the sums of all integers."""
        scores = sums.reshape(self.outputs, self.people) / self.scale + self.offsets[:, None]
        return {
            "numbers": self._numbers,
            "components": self._numbers,
            "classes": self._classes,
            "chances": self._chances,
            "clusters": self._clusters,
        }[self.reading](scores)

    def _numbers(self, scores: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
        return {str(name): score for name, score in zip(self.names, scores, strict=True)}

    def _chances(self, scores: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
        scores = np.vstack([np.zeros((1, self.people)), scores]) if self.outputs == 1 else scores
        odds = np.exp(scores - scores.max(axis=0))
        return {str(name): chance for name, chance in zip(self.names, odds / odds.sum(axis=0), strict=True)}

    def _classes(self, scores: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
        best = (scores[0] > 0).astype(np.intp) if self.outputs == 1 else scores.argmax(axis=0)
        return {"prediction": np.array(self.names, dtype=object)[best]}

    def _clusters(self, scores: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
        return {"cluster": np.vstack([np.zeros((1, self.people)), scores]).argmax(axis=0)}


def _whole(some: NDArray[np.float64], scale: float, bound: float, out: NDArray[np.int64]) -> None:
    """Round scaled scores into place; what lies outside the bound, as no plan of ours has it, is clamped."""
    some *= scale
    np.rint(some, out=some)
    np.clip(some, -bound, bound, out=some)
    out[:] = some
