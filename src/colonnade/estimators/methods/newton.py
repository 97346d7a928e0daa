"""The method of `LogisticRegression` that converges to the maximum-likelihood estimate: Newton steps on secret shares."""

from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.coding.columns import coefficients_to_own_units
from colonnade.constraints import Optional, Real, Whole
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols import newton_steps
from colonnade.errors import BadInput
from colonnade.estimation import newton as newton_estimation
from colonnade.estimation import regression
from colonnade.estimation.expected_errors import PREDICTION, ExpectedError
from colonnade.estimation.newton_inference import newton_inference
from colonnade.estimators.methods.method import Expectation
from colonnade.estimators.methods.moments import MomentMethod
from colonnade.plan import Parameter
from colonnade.privacy.accounting import Price
from colonnade.secure.sine_link import LINKS
from colonnade.steps.newton_terms import NewtonTerms
from colonnade.steps.terms import LARGEST_SHORT_SCALE

if TYPE_CHECKING:
    from colonnade.estimators.regression import LogisticRegression
    from colonnade.estimators.second_moments import MomentStudy

__all__ = ["Newton"]

MOST_STEPS = 20
EVERY_CLASS = (
    "Each of {count} classes is fitted against the rest and pays for its own steps. method='secure' fits all at once."
)
SHARE = Real(0, 1, closed="neither")


class Newton(MomentMethod):
    """Newton steps on secret shares: noisy gradients of the likelihood itself, at weights that the coordinator publishes.

    The price is divided between a Gram matrix to start from, a weighted Gram matrix (the curvature) and the steps. Everything is
    paid for before the first step. With more than two classes every class is fitted against the rest, and has its own steps.

    Parameters
    ----------
    steps
        The number of steps.
    gram, curvature
        The shares of the price that the Gram matrix and the curvature have.
    last
        The share of what is left that the last step has. Its noise stays in the answer.
    window
        The largest score, in log-odds, for which the link is the sigmoid: 8, 12 or 16. A wider one has more terms and costs more
        traffic.
    scale
        The fixed-point scale of rows.
    """

    name = "newton"
    does = "noisy gradients of the likelihood itself, opened step by step with noise in shares: converges to maximum likelihood"
    guarantee = "(ε, δ) for all steps together"
    adversary = "the coordinator and up to c colluding parties; compute nodes compute as written"
    delta = "needed"
    estimand = "the maximum-likelihood estimate on clipped values"
    unused = {**MomentMethod.unused, "ridge": "Leave it out, or use method='secure'."}
    constraints = {
        "steps": Whole(1, MOST_STEPS),
        "gram": SHARE,
        "curvature": SHARE,
        "last": SHARE,
        "window": Whole(min(LINKS), max(LINKS)),
        "scale": Optional(Whole(1, LARGEST_SHORT_SCALE)),
    }

    def __init__(
        self,
        *,
        steps: int = 5,
        gram: float = 0.24,
        curvature: float = 0.12,
        last: float = 0.5,
        window: int = newton_steps.WINDOW,
        scale: int | None = None,
    ) -> None:
        self.steps = steps
        self.gram = gram
        self.curvature = curvature
        self.last = last
        self.window = window
        self.scale = scale

    def parameters(self, study: "MomentStudy") -> dict[str, Parameter]:
        """Return nothing: the division of the price stands in the steps."""
        return {}

    def protocol(
        self, study: "MomentStudy", federation: Federation, price: Price, repeat: int
    ) -> newton_steps.NewtonStudy:
        """Return a study by steps on shares."""
        if federation.union:
            raise BadInput(
                "Newton steps need rows of people whom every party has, and this federation is aligned by union.",
                remedy="Use method='secure'.",
            )
        columns = study._chosen(federation.describe())
        (target,) = study._targets()
        division = newton_estimation.Division.of(
            steps=self.steps, gram=self.gram, curvature=self.curvature, last=self.last
        )
        scale = newton_steps.default_scale(federation.people) if self.scale is None else self.scale
        return newton_steps.NewtonStudy(columns, target, price, federation.people, division, self.window, scale)

    def learn(
        self, study: "LogisticRegression", federation: Federation, value: newton_steps.NewtonFit
    ) -> dict[str, Any]:
        """Return the model of the final weights, and what noise leaves them uncertain by."""
        columns = study._chosen(federation.describe())
        names, into = coefficients_to_own_units(value.features[1:])
        values = np.array([into @ np.append(one.weights[1:], one.weights[0]) for one in value.classes])
        found = [
            newton_inference(one, value.features, row[:-1], coding=study.coding)
            for one, row in zip(value.classes, values, strict=True)
        ]
        levels = tuple(str(level) for level in study._category(columns).levels)
        errors, shares = np.array([one.errors for one in found]), np.full(len(levels), np.nan)
        model = regression.LogisticFit(levels, names, values[:, :-1], values[:, -1], errors, shares)
        learned = study._learned(model, value.features[1:], columns)
        return {**learned, "_inference": [one.written for one in found]}

    def expect(self, study: "MomentStudy", algorithm: newton_steps.NewtonStudy, federation: Federation) -> Expectation:
        """Return how noisy a step is, and how many classes pay."""
        plan = federation.plan(
            algorithm, task=study.task, method=self.name, price=algorithm.price, unit=study.unit, parameters={}
        )
        terms = NewtonTerms.read(plan, newton_steps.step_name(algorithm.levels[0]))
        deviation = algorithm.gradient_deviation(terms)
        words = {
            "noise in an entry of the last gradient": f"{deviation:.3g} people (a sum over {terms.people:,})",
            "rounds": f"{terms.rounds} per class: the curvature and {terms.rounds - 1} steps",
        }
        warnings: tuple[str, ...] = ()
        if len(algorithm.levels) > 1:
            words["classes"] = f"{len(algorithm.levels)}, each with steps of its own"
            warnings = (EVERY_CLASS.format(count=len(algorithm.levels)),)
        return Expectation(words, warnings, (ExpectedError.not_known(PREDICTION, "in log-odds"),))
