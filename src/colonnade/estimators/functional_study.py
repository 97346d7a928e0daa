"""What regressions by the functional mechanism share: which price, for whom, and which release."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.features import Feature
from colonnade.coding.names import parties_of
from colonnade.coordinator.protocols.functional_release import FunctionalRelease
from colonnade.errors import BadInput
from colonnade.estimation.moments import Moments
from colonnade.estimation.pooled_correlations import pooled_correlations
from colonnade.privacy.neighbours import Unit
from colonnade.privacy.price import Price
from colonnade.schema import Column

__all__ = [
    "columns_once",
    "drowned",
    "functional_price",
    "functional_release",
    "functional_unit",
    "refuse_budgets",
    "repaired",
]


class _Regression(Protocol):
    target: str
    method: str
    epsilon: float | None
    unit: Unit
    budgets: Mapping[str, float] | None
    noise: str
    scale: int | None
    row_norms: Mapping[str, float] | None


def functional_price(study: _Regression) -> Price:
    """Return what is promised for the study's unit. The method is pure: ``delta`` is not spent, whatever it says."""
    if study.budgets is None:
        return Price.of(study.epsilon)
    if study.epsilon is not None:
        raise BadInput(
            "A study takes epsilon or budgets, not both.", remedy="Leave out epsilon: the parties name theirs."
        )
    return max(_named(study.budgets).values(), key=lambda price: price.nano)


def functional_unit(study: _Regression) -> Unit:
    """Return for whom the price is promised: what parties name for themselves is for their own part of a record."""
    return study.unit if study.budgets is None else "party"


def functional_release(study: _Regression, columns: Mapping[str, Column], price: Price) -> FunctionalRelease:
    """Return the release that the study asks for."""
    if study.noise != "gaussian" or study.row_norms is not None:
        raise BadInput("noise and row_norms go with method='secure'.", remedy="Leave them out: the noise is Laplace.")
    if study.budgets is not None:
        return FunctionalRelease(columns, study.target, _named(study.budgets), "bottom_up", study.scale)
    parties = parties_of(columns)
    return FunctionalRelease(columns, study.target, dict.fromkeys(parties, price), "top_down", study.scale)


def refuse_budgets(study: _Regression) -> None:
    """Refuse budgets of the parties where a method has one price."""
    if study.budgets is not None:
        raise BadInput("budgets go with method='functional'.", remedy="State epsilon instead.")


def repaired(study: _Regression, moments: Moments) -> Moments:
    """Return moments as the study's method reads them."""
    return pooled_correlations(moments, study.target) if study.method == "functional" else moments


def columns_once(features: Sequence[Feature]) -> NDArray[np.intp]:
    """Return which of a model's names stand for a coded column: of the two levels of a sign, the second."""
    named = [flag for feature in features for flag in ((False, True) if feature.kind == "sign" else (True,))]
    return np.flatnonzero(named)


def drowned(study: _Regression, variance: NDArray[np.float64], people: int) -> tuple[str, ...]:
    """Return a warning if sums of columns, at most the number of people, would have noise of that size."""
    if study.method != "functional" or float(np.sqrt(np.median(variance[0]))) < people / 4:
        return ()
    words = "With pure ε and so many features the noise is as large as the largest sum there can be: nothing would be learned. "
    return (f"{words}Ask for fewer features or a larger epsilon, or use method='secure' with a positive delta.",)


def _named(budgets: object) -> dict[str, Price]:
    if not isinstance(budgets, Mapping) or not budgets or any(not isinstance(name, str) for name in budgets):
        raise BadInput(
            "budgets map parties to their epsilon.", remedy='For example budgets={"bank": 0.5, "telco": 1.0}.'
        )
    return {name: Price.of(epsilon) for name, epsilon in budgets.items()}
