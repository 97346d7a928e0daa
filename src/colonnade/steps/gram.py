"""Second moments of all parties' columns: one noisy Gram matrix (Secure PCA, Algorithm 2)."""

from typing import ClassVar

from colonnade.errors import PlanMismatch
from colonnade.plan import Plan, Step
from colonnade.privacy.laws import JointLaw
from colonnade.privacy.laws.gram import GramNoise
from colonnade.schema import Schema
from colonnade.steps.fixed_point import FixedPoint
from colonnade.steps.joint import JointStep, shared_price
from colonnade.steps.kind import Earlier, Steps, nothing_earlier
from colonnade.steps.parameters import whole_parameter, word_list
from colonnade.steps.scores import BoundedScores

__all__ = ["Gram"]


class Gram(JointStep):
    """One party's columns of a Gram matrix of all parties' columns.

    Sensitivity: `colonnade.privacy.laws.gram.GramNoise`. Every row of every party is an integer vector of squared length
    at most its ``row_bound``, which the party that holds it enforces. With ``weights`` the columns are scores of a public model
    (`colonnade.steps.scores`). The own part is the upper triangle of the party's own columns with a constant column in front,
    without the number of people.
    """

    name: ClassVar[str] = "gram"
    title: ClassVar[str] = "Gram matrix with noise in shares"
    parameters: ClassVar[frozenset[str]] = (
        frozenset({"scale", "signed", "row_bound", "width", "noise"}) | BoundedScores.parameters
    )

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.joint = self.read(plan, step.name)
        assert isinstance(self.joint.noise, GramNoise)  # see `noise` below
        self.own_noise = self.joint.noise
        scale = whole_parameter(step.parameters, "scale")
        row_bound = whole_parameter(step.parameters, "row_bound")
        self.coding: FixedPoint | BoundedScores
        if "weights" in step.parameters:
            self.coding = BoundedScores(step.columns, schema, step.parameters, scale=scale, row_bound=row_bound)
        else:
            signed = word_list(step.parameters, "signed")
            self.coding = FixedPoint(step.columns, schema, scale=scale, signed=signed, row_bound=row_bound)
        if step.parameters.get("width") != self.coding.width:
            raise PlanMismatch("The plan gives this party's columns another width.")

    @property
    def width(self) -> int:
        """How many integers a row has."""
        return self.coding.width

    @classmethod
    def noise(cls, plan: Plan, steps: Steps) -> JointLaw:
        """Return the noise of the matrix."""
        scales = {whole_parameter(step.parameters, "scale") for step in steps.values()}
        laws = {step.parameters.get("noise", "gaussian") for step in steps.values()}
        if len(scales) != 1 or len(laws) != 1:
            raise PlanMismatch("The parties of a Gram matrix are asked for different scales or noise.")
        return GramNoise(
            row_bounds={party: whole_parameter(step.parameters, "row_bound") for party, step in steps.items()},
            constant=scales.pop() ** 2,
            columns=sum(whole_parameter(step.parameters, "width") for step in steps.values()),
            price=shared_price(steps),
            unit=plan.unit,
            collusion=plan.collusion,
            family=laws.pop(),  # type: ignore[arg-type]  # checked by the noise itself
        )

    @classmethod
    def own_entries(cls, steps: Steps) -> dict[str, int]:
        """Return the sums, squares and products of each party's own columns."""
        widths = {party: whole_parameter(step.parameters, "width") for party, step in steps.items()}
        return {party: (width + 1) * (width + 2) // 2 - 1 for party, width in widths.items()}
