"""What `LogisticRegression(method="gradient")` asks for, and what it makes of the weights."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.features import coefficients_to_own_units
from colonnade.coordinator.protocols.gradient_descent import SCALE, Descent, GradientDescent, Schedule
from colonnade.errors import BadInput
from colonnade.estimation.descent_error import expected_prediction_error
from colonnade.estimation.logistic_from_moments import LogisticFit
from colonnade.estimation.optimisers import Sgd, optimiser_of
from colonnade.estimation.typical_moments import EVEN, NARROW, SPREAD, TYPICAL
from colonnade.estimators.preview import Expectation, ExpectedError
from colonnade.plan import Parameter
from colonnade.privacy.price import Price
from colonnade.schema import Column
from colonnade.steps.gradient import GradientTerms

__all__ = ["descent_expectation", "descent_model", "descent_parameters", "gradient_descent"]


class _Descending(Protocol):
    target: str
    noise: str
    scale: int | None
    ridge: float
    row_norms: Mapping[str, float] | None
    descent: Mapping[str, Any] | None


def gradient_descent(study: _Descending, columns: Mapping[str, Column], price: Price, people: int) -> GradientDescent:
    """Return the descent that the study asks for."""
    if study.noise != "gaussian" or study.row_norms is not None or study.ridge:
        raise BadInput("noise, ridge and row_norms go with method='secure'.")
    scale = SCALE if study.scale is None else study.scale
    return GradientDescent(columns, study.target, price, _schedule(study.descent), people, scale)


def descent_parameters(study: _Descending) -> dict[str, Parameter]:
    """Return what makes this descent another study than a second one: its steps ask what its optimiser makes them ask."""
    schedule = asdict(_schedule(study.descent))
    return {name: value for name, value in schedule.items() if value is not None}


def _schedule(given: object) -> Schedule:
    known = [field.name for field in fields(Schedule)]
    if given is None:
        return Schedule()
    if not isinstance(given, Mapping) or not set(given) <= set(known):
        raise BadInput(
            f"descent maps some of {', '.join(known)}.", remedy='For example descent={"steps": 500, "rate": 0.01}.'
        )
    return Schedule(**given)


def descent_model(descent: Descent, levels: tuple[str, ...]) -> LogisticFit:
    """Return the model in the columns' own units; how noise moved it is not known coefficient by coefficient."""
    names, into = coefficients_to_own_units(descent.features[1:])
    values = into @ np.append(descent.weights[1:], descent.weights[0])
    unknown: NDArray[np.float64] = np.full((1, len(names)), np.nan)
    return LogisticFit(levels, names, values[None, :-1], values[-1:], unknown, np.full(2, np.nan))


def descent_expectation(algorithm: GradientDescent, terms: GradientTerms) -> Expectation:
    """Return what can be said about noise and exposure before anything runs, warnings, and the expected error of predictions."""
    peers = terms.noise.loss(colluders=1)
    words = {
        "noise in a coordinate of a step's gradient": f"{algorithm.deviation(terms):.3g} (the gradient's are at most about 1)",
        "steps": f"{terms.steps:,} of about {terms.rate * terms.people:,.0f} people",
        "a person takes part in": f"at most {terms.noise.participations} of them",
        "ε towards a peer": "∞" if peers is None else f"{peers.epsilon(algorithm.price.delta):.3g}",
    }
    warnings = []
    if terms.rate * terms.people < 1:
        warnings.append("An average batch has less than one person: raise rate.")
    return words, tuple(warnings), _errors(algorithm, terms)


def _errors(algorithm: GradientDescent, terms: GradientTerms) -> tuple[ExpectedError, ...]:
    """Return the expected error of a prediction; none for an optimiser whose steps are not linear."""
    optimiser = optimiser_of(algorithm.schedule.optimiser, algorithm.learning_rate(terms))
    if not isinstance(optimiser, Sgd):
        return ()
    errors = [
        expected_prediction_error(
            algorithm.features,
            terms.people,
            steps=terms.steps,
            rate=terms.rate,
            deviation=algorithm.deviation(terms),
            optimiser=optimiser,
            spread=spread,
        )
        for spread in (SPREAD, EVEN, NARROW)
    ]
    return (ExpectedError("a prediction", errors[0], "in log-odds", min(errors), max(errors), TYPICAL),)
