"""Regressions by the functional mechanism: pure ε, by Laplace noise in shares on the coefficients of the objective."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.names import parties_of
from colonnade.constraints import Optional, PerParty, Real
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols.functional_release import FunctionalRelease
from colonnade.errors import BadInput
from colonnade.estimation.moments import Moments
from colonnade.estimation.pooled_correlations import pooled_correlations
from colonnade.estimation.typical_moments import noisy_releases
from colonnade.estimators.methods.moments import SCALE, MomentMethod, opened_variance
from colonnade.privacy.neighbours import Unit
from colonnade.privacy.price import Price

if TYPE_CHECKING:
    from colonnade.estimators.moment_study import MomentStudy

__all__ = ["Functional"]

Array = NDArray[np.float64]
ALL_NOISE = (
    "With pure ε and so many features the noise is as large as the largest sum there can be: nothing would be learned. "
    "Ask for fewer features or a larger epsilon, or use method='secure' with a positive delta."
)


class Functional(MomentMethod):
    """Laplace noise in shares on the coefficients of the objective, each pair once; δ = 0.

    Parameters
    ----------
    budgets
        Instead of ``epsilon``: party to the ε that it names for its own part of a record ("bottom-up"). Each ledger is debited
        exactly that; ``privacy_`` composes what it means for a whole record.
    scale
        The fixed-point scale.
    """

    name = "functional"
    does = "the objective's coefficients, perturbed on shares before they are opened; weak correlations are pulled towards none"
    guarantee = "pure ε, one for all or one per party (`budgets`)"
    trust = "the coordinator and up to c colluding parties"
    delta = "not used"
    reference = "functional"
    constraints = {"budgets": Optional(PerParty(Real(0, closed="neither"))), "scale": SCALE}

    def __init__(self, *, budgets: Mapping[str, float] | None = None, scale: int | None = None) -> None:
        self.budgets = budgets
        self.scale = scale

    def price(self, study: "MomentStudy") -> Price:
        """Return what is promised for the study's unit. The method is pure: ``delta`` is not spent, whatever it says."""
        if self.budgets is None:
            return Price.of(study.epsilon)
        if study.epsilon is not None:
            raise BadInput(
                "A study takes epsilon or budgets, not both.", remedy="Leave out epsilon: the parties name theirs."
            )
        return max(_prices(self.budgets).values(), key=lambda price: price.nano)

    def unit(self, study: "MomentStudy") -> Unit:
        """What parties name for themselves is for their own part of a record."""
        return study.unit if self.budgets is None else "party"

    def protocol(self, study: "MomentStudy", federation: Federation, price: Price, repeat: int) -> FunctionalRelease:
        """By shares of the objective's coefficients."""
        columns = study._chosen(federation.describe())
        (target,) = study._targets()
        if self.budgets is not None:
            return FunctionalRelease(columns, target, _prices(self.budgets), "bottom_up", self.scale)
        parties = parties_of(columns)
        return FunctionalRelease(columns, target, dict.fromkeys(parties, price), "top_down", self.scale)

    def repaired(self, study: "MomentStudy", moments: Moments) -> Moments:
        """Pull weak correlations towards none."""
        (target,) = study._targets()
        return pooled_correlations(moments, target)

    def warnings(self, study: "MomentStudy", algorithm: FunctionalRelease, federation: Federation) -> tuple[str, ...]:
        """Warn if sums of columns, at most the number of people, would have noise of that size."""
        variance = self.entry_variance(study, algorithm, federation)
        return () if float(np.sqrt(np.median(variance[0]))) < federation.people / 4 else (ALL_NOISE,)

    def noisy_moments(
        self,
        study: "MomentStudy",
        algorithm: FunctionalRelease,
        federation: Federation,
        exact: Moments,
        covariance: Array,
    ) -> Iterator[Moments]:
        """With noise that does not depend on data."""
        return noisy_releases(exact, self.entry_variance(study, algorithm, federation))

    def entry_variance(self, study: "MomentStudy", algorithm: FunctionalRelease, federation: Federation) -> Array:
        """As it will be opened."""
        return opened_variance(study, algorithm, federation)


def _prices(budgets: Mapping[str, float]) -> dict[str, Price]:
    return {party: Price.of(epsilon) for party, epsilon in budgets.items()}
