"""`AdditiveNewton`: tables of every column with the target and Newton steps on secret shares, for additive models."""

from typing import TYPE_CHECKING, Any

from colonnade.constraints import OneOf, Whole
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols import additive_steps, newton_steps
from colonnade.errors import BadInput
from colonnade.estimation import newton as newton_estimation
from colonnade.estimation.additive import STEPS, TABLES
from colonnade.estimation.expected_errors import AssumedColumns
from colonnade.estimators.methods.method import Expectation
from colonnade.estimators.methods.moments import MomentMethod
from colonnade.plan import Parameter
from colonnade.privacy.accounting import Price
from colonnade.secure.sine_link import LINKS
from colonnade.steps.newton_terms import NewtonTerms

if TYPE_CHECKING:
    from colonnade.estimators.additive import AdditiveClassifier
    from colonnade.estimators.second_moments import MomentStudy

__all__ = ["AdditiveNewton"]

PLANS = {
    "tables": "tables first: at this price products of columns would be lost in noise, so nearly all of it goes to tables of "
    "every column with the target, and to three steps on all columns together",
    "steps": "steps: tables of every column with the target, products of all columns, and steps on all columns together",
}


class AdditiveNewton(MomentMethod):
    """Tables of every column with the target, then Newton steps on secret shares.

    Parameters
    ----------
    plan
        ``"tables"`` spends nearly everything on tables and gradients, for small ε or many columns. ``"steps"`` also opens
        products of columns. ``"auto"`` chooses by the noise to expect, before anything is asked.
    window
        The largest score, in log-odds, for which the link is the sigmoid: 8, 12 or 16.
    """

    name = "newton"
    does = "tables of every column with the target, then noisy gradients of the likelihood itself, opened with noise in shares"
    guarantee = "(ε, δ) for all openings together"
    adversary = "the coordinator and up to c colluding parties; compute nodes compute as written"
    delta = "needed"
    estimand = "the additive model with the penalties that were found, on the same people without noise"
    constraints = {"plan": OneOf(("auto", *PLANS)), "window": Whole(min(LINKS), max(LINKS))}

    def __init__(self, *, plan: str = "auto", window: int = newton_steps.WINDOW) -> None:
        self.plan = plan
        self.window = window

    def parameters(self, study: "MomentStudy") -> dict[str, Parameter]:
        """Return nothing: how the price is divided and how columns are read stand in the steps."""
        return {}

    def protocol(
        self, study: "AdditiveClassifier", federation: Federation, price: Price, repeat: int
    ) -> additive_steps.AdditiveStudy:
        """Return a study by tables and steps on shares."""
        if federation.union:
            raise BadInput(
                "An additive model needs rows of people whom every party has, and this federation is aligned by union.",
                remedy='Align by intersection: federation.align(mode="intersection").',
            )
        columns = study._chosen(federation.describe())
        (target,) = study._targets()
        bounds = additive_steps.row_bounds(columns)
        division = {"tables": TABLES, "steps": STEPS}.get(self.plan) or additive_steps.chosen_division(
            bounds, price, federation.people, study.unit, min(federation.collusion, len(bounds) - 1)
        )
        return additive_steps.AdditiveStudy(
            columns, target, price, federation.people, division, self.window, smooth=study._smoothness
        )

    def learn(self, study: "AdditiveClassifier", federation: Federation, value: Any) -> dict[str, Any]:
        """Return shapes, tables and what noise leaves them uncertain by."""
        (found,) = value.classes
        return study._shapes(found, value.features, study._chosen(federation.describe()))

    def expect(
        self, study: "MomentStudy", algorithm: additive_steps.AdditiveStudy, federation: Federation
    ) -> Expectation:
        """Return the plan, how noisy tables and steps are, and how far noise moves predictions."""
        plan = federation.plan(
            algorithm, task=study.task, method=self.name, price=algorithm.price, unit=study.unit, parameters={}
        )
        terms = NewtonTerms.read(plan, newton_steps.step_name(algorithm.levels[0]))
        deviation = algorithm.gradient_deviation(terms)
        words = {
            "plan": PLANS["tables" if algorithm.tables_first else "steps"],
            "noise in a count of the tables": f"{algorithm.table_deviation(terms):.3g} people of {terms.people:,}",
            "noise in an entry of the last gradient": f"{deviation:.3g} people (a sum over {terms.people:,})",
        }
        columns = AssumedColumns.of(algorithm.features)
        return Expectation(words, (), (newton_estimation.expected_prediction_error(columns, terms.people, deviation),))
