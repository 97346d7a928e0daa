"""What every preview says besides the estimator's own figures: general warnings, and what another ε would give."""

from typing import TYPE_CHECKING, Any

import pandas as pd
from sklearn.base import clone

from colonnade.coordinator.federation import Federation
from colonnade.errors import ColonnadeError
from colonnade.plan import Plan

if TYPE_CHECKING:
    from colonnade.estimators.study import Study

__all__ = ["general_warnings", "other_epsilons"]

FEW_PEOPLE = 500
LARGEST_ORDINARY, SMALLEST_ORDINARY = 10.0, 0.01
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)


def general_warnings(plan: Plan) -> list[str]:
    """Return what a careful colleague would say of any study like this: few people, an ε or δ out of the ordinary."""
    warnings = []
    if plan.people < FEW_PEOPLE:
        warnings.append(f"{plan.people} people are few: noise that hides one of them hides much of the rest.")
    if plan.price is None:
        return ["NOT PRIVATE: exact values leave the parties, and no budget measures them.", *warnings]
    if plan.price.epsilon > LARGEST_ORDINARY:
        warnings.append("An epsilon above 10 promises little.")
    if plan.price.epsilon < SMALLEST_ORDINARY:
        warnings.append("An epsilon below 0.01 is out of the ordinary: expect little but noise.")
    if plan.price.delta * plan.people >= 1:
        warnings.append("A delta of 1/people or more would allow a whole record to be published: choose a smaller one.")
    return warnings


def other_epsilons(study: "Study", federation: Federation) -> pd.DataFrame:
    """Return the expected error at a few other ε: one row an ε, none where a method does not predict its error.

    Nothing is asked of any party: the same public formulas are evaluated again.
    """
    rows = [
        {"epsilon": study.epsilon * factor, "error": error, "unit": unit}
        for factor in FACTORS
        if study.epsilon is not None
        for error, unit in _at(study, federation, study.epsilon * factor)
    ]
    return pd.DataFrame(rows, columns=["epsilon", "error", "unit"])


def _at(study: "Study", federation: Federation, epsilon: float) -> list[tuple[float, str]]:
    try:
        other: Any = clone(study).set_params(epsilon=epsilon)
        algorithm = other._algorithm(federation, other._price(), 1)  # noqa: SLF001  # of its own kind
        expectation = other._expect(algorithm, federation)  # noqa: SLF001
    except ColonnadeError:  # not every ε that a table would show can be asked for
        return []
    errors = expectation[2] if len(expectation) > 2 else ()
    return [(error.value, error.unit) for error in errors[:1]]
