"""Methods of `PCA` and the regressions: second moments or coefficients on shares, and Newton steps.

The papers are *Secure PCA* (docs/references.md#secure-pca), *Primitives* (docs/references.md#primitives) and *Functional
mechanism across parties* (docs/references.md#functional).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from colonnade.constraints import OneOf, Optional, PerParty, Real, Whole
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols import moment_releases, newton_steps
from colonnade.coordinator.protocols.moment_releases import (
    GRADIENTS,
    PRODUCTS,
    Load,
    Rule,
    Standardising,
    clipped_columns,
    gram_load,
    reach_of,
    require_memory,
)
from colonnade.errors import BadInput
from colonnade.estimation import moments as moment_estimation
from colonnade.estimation import regression
from colonnade.estimation.expected_errors import PREDICTION, ExpectedError, noise_floor
from colonnade.estimation.moments import Moments
from colonnade.estimation.newton import Division, newton_inference
from colonnade.estimators.methods.method import Expectation, Method
from colonnade.families import WINDOW, WINDOWS
from colonnade.plan import Parameter
from colonnade.privacy.accounting import Price, Unit
from colonnade.privacy.calibration import ledger_rho
from colonnade.privacy.laws import NoiseFamily
from colonnade.schema import Feature, coded_widths, coefficients_to_own_units, features_of, parties_of
from colonnade.steps.kind import LARGEST_SCALE, LARGEST_SHORT_SCALE, Joint, is_conversation, read_joint
from colonnade.steps.newton import NewtonTerms
from colonnade.transport.direct import Direct

if TYPE_CHECKING:
    from colonnade.estimators.regression import LogisticRegression
    from colonnade.estimators.study import Design, MomentStudy


Array = NDArray[np.float64]
SCALE = Optional(Whole(1, LARGEST_SCALE))
"""A fixed-point scale, or None for the method's default."""
ROW_NORMS = Optional(PerParty(Real(0, closed="neither")))
NO_PENALTY = {"penalty": "Use ridge= instead.", "size": "Leave out size=: everybody takes part."}
"""Parameters of a regression that only coresets use."""


class MomentMethod(Method["MomentStudy"]):
    """A method of an estimator that can be fitted on second moments."""

    unused = NO_PENALTY
    no_intervals: ClassVar[str] = ""
    """Why a regression by this method has no intervals; empty where the noise has a known law in the normal equations."""
    measures_target: ClassVar[bool] = True
    """Whether the sum of squares of a numeric target is released. If not, sampling errors are upper bounds."""

    def repaired(self, study: "MomentStudy", moments: Moments) -> Moments:
        """Return the moments that the model is computed from."""
        return moments

    def standardising(
        self, study: "MomentStudy", federation: Federation, price: Price, rule: Rule
    ) -> Standardising | None:
        """Return the first release of a study that standardises its numbers; ``None`` where it does not, or has none."""
        if not study.standardises:
            return None
        columns = study.design(federation.describe()).columns
        reach = reach_of(rule, columns, price, federation.people, federation._driver.collusion)
        return Standardising.of(columns, price, self.unit(study), federation.people, reach)

    noise_is_fixed: ClassVar[bool] = True
    """Whether no data changes the noise of the covariance matrix. Otherwise there is more of it where columns vary."""

    def moment_noise(self, study: "MomentStudy", algorithm: Any, federation: Federation) -> float:
        """Return the variance of the noise in an entry of the covariance matrix of columns, at least."""
        features = algorithm.features
        variance = opened_variance(study, algorithm, federation) / federation.people**2
        released = Moments.of_release(np.zeros_like(variance), variance, federation.people, features).variance
        some = np.array([feature.column != study.target for feature in features])
        some[0] = False
        return float(released[np.ix_(some, some)].mean())

    def expect(self, study: "MomentStudy", algorithm: Any, federation: Federation) -> Expectation:
        """Return what the noise of the covariance matrix means for the estimator's result."""
        width = sum(one.kind != "intercept" and one.column != study.target for one in algorithm.features)
        noise = self.moment_noise(study, algorithm, federation)
        expected = study.expect_on_moments(width, noise, self.noise_is_fixed)
        standardising = getattr(algorithm, "standardising", None)
        if standardising is None:
            return expected
        least = float(np.sqrt(noise_floor(width, noise))) * standardising.reach  # a unit is the reach, or less
        lost = f"combinations of columns whose standard deviation is below {least:.2g} (that of a single number is 1)"
        return replace(expected, words={"lost in the noise": lost, **standardising.words()})

    def learn(self, study: "MomentStudy", federation: Federation, value: Any) -> dict[str, Any]:
        """Return the attributes that follow from the moments."""
        if not isinstance(value, moment_releases.StandardisedMoments):
            return study.learn_from_moments(value, study.design(federation.describe()))
        clipped = clipped_columns(value.columns, federation.describe())
        learned = study.learn_from_moments(value.moments, study.design({**federation.describe(), **clipped}))
        return {**learned, "clipped_": clipped}


class Secure(MomentMethod):
    """One noisy Gram matrix of all parties' columns, computed on secret shares. Only the noisy result is opened.

    Parameters
    ----------
    noise
        ``"gaussian"`` or ``"skellam"`` (as in *Secure PCA*).
    scale
        The fixed-point scale. By default 4,096, and 64 for Skellam noise.
    row_norms
        For each party the length to which it clips its rows, after scaling each column to [−1, 1]. A shorter length gives less
        noise and more bias.
    """

    name = "secure"
    does = "one noisy Gram matrix on secret shares; the model is computed from it, with its noise taken into account"
    guarantee = "(ε, δ)"
    adversary = "the coordinator and up to c colluding parties"
    delta = "needed"
    reference = "secure-pca"
    constraints = {"noise": OneOf(("gaussian", "skellam")), "scale": SCALE, "row_norms": ROW_NORMS}

    def __init__(
        self, *, noise: NoiseFamily = "gaussian", scale: int | None = None, row_norms: Mapping[str, float] | None = None
    ) -> None:
        self.noise = noise
        self.scale = scale
        self.row_norms = row_norms

    def protocol(
        self, study: "MomentStudy", federation: Federation, price: Price, repeat: int
    ) -> moment_releases.GramRelease:
        """Return a release of second moments on shares; over the union of people if the federation is aligned so."""
        design = study.design(federation.describe())
        kind = moment_releases.GramRelease
        if federation._driver.union:
            kind = moment_releases.UnionRelease
        elif study.reads_wide(design):
            kind = moment_releases.WideRelease
        signed = (study.target,) if design.has_two_classes else ()  # one column of signs instead of two of indicators
        standardising = None
        # Skellam noise is priced by its curve, which does not add up with the first release as parts of ρ do
        if kind is moment_releases.GramRelease and self.row_norms is None and self.noise == "gaussian":
            standardising = self.standardising(study, federation, price, PRODUCTS)
        algorithm = kind(
            design.columns,
            price if standardising is None else standardising.rest,
            signed,
            self.noise,
            self.scale,
            self.row_norms,
            standardising,
        )
        if self._is_wide(algorithm):
            require_memory(self._load(algorithm, federation), len(algorithm.features) - 1)
        return algorithm

    def expect(self, study: "MomentStudy", algorithm: Any, federation: Federation) -> Expectation:
        """Return how far noise moves the result; of a wide matrix also how long it takes, and how much memory."""
        expected = super().expect(study, algorithm, federation)
        if not self._is_wide(algorithm):
            return expected
        words = {**expected.words, **self._load(algorithm, federation).words()}
        return Expectation(words, expected.warnings, expected.errors)

    def _is_wide(self, algorithm: moment_releases.GramRelease) -> bool:
        return len(algorithm.features) > moment_releases.WIDE_COLUMNS

    def _load(self, algorithm: moment_releases.GramRelease, federation: Federation) -> Load:
        lean, together = (
            isinstance(algorithm, moment_releases.WideRelease),
            isinstance(federation._driver.transport, Direct),
        )
        return gram_load(coded_widths(algorithm.features), federation.people, lean=lean, together=together)

    def moment_noise(self, study: "MomentStudy", algorithm: Any, federation: Federation) -> float:
        """Return the noise of the covariance matrix; of a wide one without a matrix of variances."""
        if not isinstance(algorithm, moment_releases.WideRelease):
            return super().moment_noise(study, algorithm, federation)
        noise = algorithm.matrix_noise(opened_terms(study, algorithm, federation))
        return float(noise.mean) / federation.people**2


def opened_variance(study: "MomentStudy", algorithm: Any, federation: Federation) -> Array:
    """Return the variance of the entries that a joint step will open, from the plan alone."""
    variance: Array = algorithm.variance(opened_terms(study, algorithm, federation))
    return variance


def opened_terms(study: "MomentStudy", algorithm: Any, federation: Federation) -> Joint:
    """Return the terms of a study's joint step."""
    plan = study.method.draft(study, algorithm, federation)
    return read_joint(plan, next(step.name for step in plan.steps if is_conversation(step)))


def logistic_attributes(model: regression.LogisticFit, coded: Sequence[Feature], design: "Design") -> dict[str, Any]:
    """Return the fitted attributes of a logistic model, from its fit in own units and the coded columns."""
    return {
        "_model": model,
        "coef_": model.coefficients,
        "intercept_": model.intercepts,
        "coef_stderr_": model.errors,
        "classes_": np.array(design.classes.levels, dtype=object),
        "feature_names_in_": np.array(model.names, dtype=object),
        "_coded": [feature for feature in coded if feature.column in design.explaining],
        "_columns": design.explaining,
    }


class Functional(MomentMethod):
    """The functional mechanism: Laplace noise in shares on the coefficients of the objective, each pair once. δ = 0.

    Parameters
    ----------
    budgets
        Instead of ``epsilon``: for each party the ε that it names for its own part of a record ("bottom-up"). Each ledger is
        debited exactly that. ``privacy_`` has the composed ε of a whole record.
    scale
        The fixed-point scale.
    """

    name = "functional"
    measures_target = False
    does = "the objective's coefficients, perturbed on shares before they are opened; weak correlations are pulled towards zero"
    guarantee = "pure ε, one for all or one per party (`budgets`)"
    adversary = "the coordinator and up to c colluding parties"
    delta = "not used"
    reference = "functional"
    constraints = {"budgets": Optional(PerParty(Real(0, closed="neither"))), "scale": SCALE}

    def __init__(self, *, budgets: Mapping[str, float] | None = None, scale: int | None = None) -> None:
        self.budgets = budgets
        self.scale = scale

    def price(self, study: "MomentStudy") -> Price:
        """Return the price for the study's unit. The method is pure: ``delta`` is not spent."""
        if self.budgets is None:
            return Price.of(study.epsilon)
        if study.epsilon is not None:
            raise BadInput(
                "A study takes epsilon or budgets, not both.",
                remedy="Leave out epsilon, or budgets of cn.methods.Functional.",
            )
        return max(_prices(self.budgets).values(), key=lambda price: price.nano)

    def unit(self, study: "MomentStudy") -> Unit:
        """Return the study's unit. Budgets that parties name are for their own part of a record."""
        return study.unit if self.budgets is None else "party"

    def protocol(
        self, study: "MomentStudy", federation: Federation, price: Price, repeat: int
    ) -> moment_releases.FunctionalRelease:
        """Return a release of the objective's coefficients on shares."""
        columns = study.design(federation.describe()).columns
        if self.budgets is not None:
            return moment_releases.FunctionalRelease(
                columns, study.target, _prices(self.budgets), "bottom_up", self.scale
            )
        parties = parties_of(columns)
        return moment_releases.FunctionalRelease(
            columns, study.target, dict.fromkeys(parties, price), "top_down", self.scale
        )

    def repaired(self, study: "MomentStudy", moments: Moments) -> Moments:
        """Return the moments with weak correlations pulled towards zero."""
        return moment_estimation.pooled_correlations(moments, study.target)


def _prices(budgets: Mapping[str, float]) -> dict[str, Price]:
    return {party: Price.of(epsilon) for party, epsilon in budgets.items()}


MOST_STEPS = 20
EVERY_CLASS = (
    "Each of {count} classes is fitted against the rest and pays for its own steps. method='secure' fits all at once."
)
SHARE = Real(0, 1, closed="neither")
NOT_CONVERGED = (
    "The steps have not converged: the last gradient is more than noise. The model has the best weights so far, and its "
    "intervals may miss. More steps help, or a wider window: method=cn.methods.Newton(steps=..., window=16)."
)


class NotConverged(UserWarning):
    """A search that ended before it came to rest. ``convergence_`` of the model has the figures.

    Examples
    --------
    >>> import warnings, colonnade as cn
    >>> warnings.simplefilter("error", cn.NotConverged)  # for a pipeline that must not go on with such a model
    """


class Newton(MomentMethod):
    """Newton steps on secret shares: noisy gradients of the likelihood itself, at weights that the coordinator publishes.

    The price is divided between a Gram matrix to start from, a weighted Gram matrix (the curvature) and the steps. Everything is
    paid for before the first step. With more than two classes every class is fitted against the rest, and has its own steps.

    Parameters
    ----------
    steps
        The number of steps. By default it follows from the price, the number of people and that of columns.
    gram, curvature
        The shares of the price that the Gram matrix and the curvatures have. By default 0.3 and 0.15 if the price is worth at
        most three steps, else 0.15 and 0.4.
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
        "steps": Optional(Whole(1, MOST_STEPS)),
        "gram": Optional(SHARE),
        "curvature": Optional(SHARE),
        "last": SHARE,
        "window": Whole(min(WINDOWS), max(WINDOWS)),
        "scale": Optional(Whole(1, LARGEST_SHORT_SCALE)),
    }

    def __init__(
        self,
        *,
        steps: int | None = None,
        gram: float | None = None,
        curvature: float | None = None,
        last: float = 0.6,
        window: int = WINDOW,
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
        self, study: "LogisticRegression", federation: Federation, price: Price, repeat: int
    ) -> newton_steps.NewtonStudy:
        """Return a study by steps on shares."""
        if federation._driver.union:
            raise BadInput(
                "Newton steps need rows of people whom every party has, and this federation is aligned by union.",
                remedy="Use method='secure'.",
            )
        columns = study.design(federation.describe()).columns
        steps = self.steps or Division.chosen(
            len(columns), len(features_of(columns)), float(ledger_rho(price)), federation.people
        )
        division = Division.of(steps=steps, gram=self.gram, curvature=self.curvature, last=self.last)
        scale = newton_steps.default_scale(federation.people) if self.scale is None else self.scale
        standardising = self.standardising(study, federation, price, GRADIENTS)
        return newton_steps.NewtonStudy(
            columns, study.target, price, federation.people, division, self.window, scale, study.family, standardising
        )

    def learn(
        self, study: "LogisticRegression", federation: Federation, value: newton_steps.NewtonFit
    ) -> dict[str, Any]:
        """Return the model of the final weights, and what noise leaves them uncertain by."""
        clipped = clipped_columns(value.columns, federation.describe())
        design = study.design({**federation.describe(), **clipped})
        names, into = coefficients_to_own_units(value.features[1:])
        values = np.array([into @ np.append(one.weights[1:], one.weights[0]) for one in value.classes])
        found = [
            newton_inference(one, value.features, row[:-1], coding=study.coding)
            for one, row in zip(value.classes, values, strict=True)
        ]
        levels = tuple(str(level) for level in design.classes.levels)
        errors, shares = np.array([one.errors for one in found]), np.full(len(levels), np.nan)
        model = regression.LogisticFit(levels, names, values[:, :-1], values[:, -1], errors, shares)
        learned = logistic_attributes(model, value.features[1:], design)
        convergence = [one.convergence for one in value.classes]
        return {
            **learned,
            "_inference": [one.written for one in found],
            "_convergence": convergence,
            "clipped_": clipped,
        }

    def expect(self, study: "MomentStudy", algorithm: newton_steps.NewtonStudy, federation: Federation) -> Expectation:
        """Return how noisy a step is, and how many classes pay."""
        plan = self.draft(study, algorithm, federation)
        terms = NewtonTerms.read(plan, newton_steps.step_name(algorithm.levels[0]))
        deviation = algorithm.gradient_deviation(terms)
        words = {
            "noise in an entry of the last gradient": f"{deviation:.3g} people (a sum over {terms.people:,})",
            "rounds": f"{terms.rounds} per class, {len(terms.noise.curvatures)} of them for the curvature",
        }
        if algorithm.standardising is not None:
            words |= algorithm.standardising.words()
        told: tuple[str, ...] = ()
        if len(algorithm.levels) > 1:
            words["classes"] = f"{len(algorithm.levels)}, each with steps of its own"
            told = (EVERY_CLASS.format(count=len(algorithm.levels)),)
        return Expectation(words, told, (ExpectedError.not_known(PREDICTION, f"in {algorithm.family.unit}"),))
