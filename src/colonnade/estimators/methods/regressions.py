"""Methods that only regressions have: the functional mechanism, and gradient descent on secret batches."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.columns import coefficients_to_own_units, parties_of
from colonnade.constraints import OneOf, Optional, PerParty, Real, Whole
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols.gradient_descent import SCALE as DESCENT_SCALE
from colonnade.coordinator.protocols.gradient_descent import Descent, GradientDescent, Schedule
from colonnade.coordinator.protocols.moment_releases import FunctionalRelease
from colonnade.errors import BadInput
from colonnade.estimation.descent import OptimiserName, Sgd, expected_prediction_error, optimiser_of
from colonnade.estimation.moments import EVEN, NARROW, SPREAD, TYPICAL, Moments, noisy_releases, pooled_correlations
from colonnade.estimation.regression import LogisticFit
from colonnade.estimators.methods.moments import SCALE, MomentMethod, opened_variance
from colonnade.estimators.preview import Expectation, ExpectedError
from colonnade.plan import Parameter
from colonnade.privacy.accounting import Price, Unit
from colonnade.secure.batches import SMALLEST_RATE, Sampling
from colonnade.steps.gradient import LARGEST_SCALE, STEP, GradientTerms

if TYPE_CHECKING:
    from colonnade.estimators.logistic_regression import LogisticRegression
    from colonnade.estimators.moment_study import MomentStudy

__all__ = ["Functional", "Gradient"]


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


POSITIVE = Optional(Real(0, closed="neither"))


class Gradient(MomentMethod):
    """Mini-batch gradient steps for a target of two levels, each opened with noise in shares.

    Its ε is promised against the coordinator alone, who does not know the batches. What the parties learn, who know them, is in
    ``privacy_``.

    Parameters
    ----------
    steps
        How many steps.
    rate
        With what probability a person takes part in a step: the expected share of people in a batch.
    sampling
        ``"poisson"``: secret batches, accounted with amplification towards the coordinator; ``"balanced"``: everyone takes part
        equally often, accounted without.
    score_bound
        What the parties' parts of a score are clipped to, in sum. Too small a bound biases, too large a bound is noise.
    optimiser, learning_rate
        ``"sgd"`` (with momentum) or ``"adam"``, and the length of a step; by default as long as the noise allows.
    weight_norm
        The length to which the weights of the coded columns are clipped after every step; by default they are not.
    tolerance
        Stop once the averaged weights have moved by less than this in a tenth of the steps; 0 never stops early. What was paid
        for steps that are not taken is not returned.
    scale
        The fixed-point scale of rows and weights.
    """

    name = "gradient"
    does = "mini-batch descent, SGD or Adam, opened step by step with noise in shares"
    guarantee = "(ε, δ) for all steps together"
    trust = "the coordinator alone, since parties know the batches; with balanced batches also c colluding parties"
    delta = "needed"
    reference = "secure-pca"
    unused = {**MomentMethod.unused, "ridge": "Leave it out, or use method='secure'."}
    constraints = {
        "steps": Whole(1, 1_000_000),
        "rate": Real(SMALLEST_RATE, 1),
        "sampling": OneOf(("poisson", "balanced")),
        "score_bound": POSITIVE,
        "optimiser": OneOf(("sgd", "adam")),
        "learning_rate": POSITIVE,
        "weight_norm": POSITIVE,
        "tolerance": Real(0, closed="left"),
        "scale": Optional(Whole(1, LARGEST_SCALE)),
    }

    def __init__(
        self,
        *,
        steps: int = 500,
        rate: float = 0.01,
        sampling: Sampling = "poisson",
        score_bound: float | None = None,
        optimiser: OptimiserName = "sgd",
        learning_rate: float | None = None,
        weight_norm: float | None = None,
        tolerance: float = 0.0,
        scale: int | None = None,
    ) -> None:
        self.steps = steps
        self.rate = rate
        self.sampling = sampling
        self.score_bound = score_bound
        self.optimiser = optimiser
        self.learning_rate = learning_rate
        self.weight_norm = weight_norm
        self.tolerance = tolerance
        self.scale = scale

    def parameters(self, study: "MomentStudy") -> dict[str, Parameter]:
        """Return what makes this descent another study than a second one: its steps ask what its optimiser makes them ask."""
        return {name: value for name, value in asdict(self._schedule()).items() if value is not None}

    def protocol(self, study: "MomentStudy", federation: Federation, price: Price, repeat: int) -> GradientDescent:
        """By steps on shares."""
        columns = study._chosen(federation.describe())
        (target,) = study._targets()
        scale = DESCENT_SCALE if self.scale is None else self.scale
        return GradientDescent(columns, target, price, self._schedule(), federation.people, scale)

    def learn(self, study: "LogisticRegression", federation: Federation, value: Descent) -> dict[str, Any]:
        """From the weights; how noise moved them is not known coefficient by coefficient."""
        columns = study._chosen(federation.describe())
        names, into = coefficients_to_own_units(value.features[1:])
        values = into @ np.append(value.weights[1:], value.weights[0])
        unknown: NDArray[np.float64] = np.full((1, len(names)), np.nan)
        levels = tuple(str(level) for level in study._category(columns).levels)
        model = LogisticFit(levels, names, values[None, :-1], values[-1:], unknown, np.full(2, np.nan))
        return study._learned(model, value.features[1:], columns)

    def expect(self, study: "MomentStudy", algorithm: GradientDescent, federation: Federation) -> Expectation:
        """Say how noisy a step is, who sees how much, and how far noise moves predictions."""
        plan = federation.plan(
            algorithm, task=study.task, method=self.name, price=algorithm.price, unit=study.unit, parameters={}
        )
        terms = GradientTerms.read(plan, STEP)
        peers = terms.noise.loss(colluders=1)
        words = {
            "noise in a coordinate of a step's gradient": f"{algorithm.deviation(terms):.3g} "
            "(the gradient's are at most about 1)",
            "steps": f"{terms.steps:,} of about {terms.rate * terms.people:,.0f} people",
            "a person takes part in": f"at most {terms.noise.participations} of them",
            "ε towards a peer": "∞" if peers is None else f"{peers.epsilon(algorithm.price.delta):.3g}",
        }
        small = terms.rate * terms.people < 1
        warnings = ("An average batch has less than one person: raise rate.",) if small else ()
        return Expectation(words, warnings, _errors(algorithm, terms))

    def _schedule(self) -> Schedule:
        options = self.get_params(deep=False)
        return Schedule(**{name: value for name, value in options.items() if name != "scale"})


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
