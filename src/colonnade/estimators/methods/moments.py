"""Methods of `PCA` and the regressions: four ways to get noisy second moments, and gradient descent, which needs none.

The papers are *Secure PCA* (docs/references.md#secure-pca), *Primitives* (docs/references.md#primitives) and *Functional
mechanism across parties* (docs/references.md#functional).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from colonnade.constraints import OneOf, Optional, PerParty, Real, Whole
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols import gradient_descent, local_moments, moment_releases, newton_steps
from colonnade.coordinator.protocols.moment_releases import Load, gram_load, require_memory
from colonnade.errors import BadInput
from colonnade.estimation import descent, regression
from colonnade.estimation import moments as moment_estimation
from colonnade.estimation import newton as newton_estimation
from colonnade.estimation.expected_errors import PREDICTION, ExpectedError
from colonnade.estimation.moments import Moments
from colonnade.estimation.newton_inference import newton_inference
from colonnade.estimators.methods.method import Expectation, Method
from colonnade.plan import Parameter
from colonnade.privacy.accounting import Price, Unit
from colonnade.privacy.calibration import gaussian_party_price
from colonnade.privacy.laws import NoiseFamily
from colonnade.schema.features import Feature, coded_widths, coefficients_to_own_units, parties_of
from colonnade.secure.batches import SMALLEST_RATE, Sampling
from colonnade.secure.sine_link import LINKS
from colonnade.steps import gradient
from colonnade.steps.joint import Joint, read_joint
from colonnade.steps.newton import NewtonTerms
from colonnade.steps.terms import LARGEST_SCALE, LARGEST_SHORT_SCALE
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
        return study.expect_on_moments(width, self.moment_noise(study, algorithm, federation), self.noise_is_fixed)

    def learn(self, study: "MomentStudy", federation: Federation, value: Any) -> dict[str, Any]:
        """Return the attributes that follow from the moments."""
        return study.learn_from_moments(value, study.design(federation.describe()))


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
        if federation.union:
            kind = moment_releases.UnionRelease
        elif study.reads_wide(design):
            kind = moment_releases.WideRelease
        signed = (study.target,) if design.has_two_classes else ()  # one column of signs instead of two of indicators
        algorithm = kind(design.columns, price, signed, self.noise, self.scale, self.row_norms)
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
        lean, together = isinstance(algorithm, moment_releases.WideRelease), isinstance(federation.transport, Direct)
        return gram_load(coded_widths(algorithm.features), federation.people, lean=lean, together=together)

    def moment_noise(self, study: "MomentStudy", algorithm: Any, federation: Federation) -> float:
        """Return the noise of the covariance matrix; of a wide one without a matrix of variances."""
        if not isinstance(algorithm, moment_releases.WideRelease):
            return super().moment_noise(study, algorithm, federation)
        noise = algorithm.matrix_noise(opened_terms(study, algorithm, federation))
        return float(noise.mean) / federation.people**2


class Sketch(MomentMethod):
    """Second moments of random projections of the parties' rows. Each party perturbs its own projection.

    Parameters
    ----------
    scale
        The fixed-point scale.
    row_norms
        For each party the length to which it clips its rows, after scaling each column to [−1, 1]. A shorter length gives less
        noise and more bias.
    """

    name = "sketch"
    no_intervals = "the errors of a projection are not those of independent entries"
    noise_is_fixed = False
    does = "one perturbed random projection per party, in one message: error in √people"
    guarantee = "(ε, δ)"
    adversary = "the coordinator and any parties"
    delta = "needed"
    reference = "primitives"
    constraints = {"scale": SCALE, "row_norms": ROW_NORMS}

    def __init__(self, *, scale: int | None = None, row_norms: Mapping[str, float] | None = None) -> None:
        self.scale = scale
        self.row_norms = row_norms

    def protocol(
        self, study: "MomentStudy", federation: Federation, price: Price, repeat: int
    ) -> local_moments.SketchedMoments:
        """Return a release of one sketch per party, each at its share of the price."""
        columns = study.design(federation.describe()).columns
        share = gaussian_party_price(price, len(parties_of(columns)), study.unit)
        scale = local_moments.SKETCH_SCALE if self.scale is None else self.scale
        return local_moments.SketchedMoments(columns, share, federation.people, scale, self.row_norms, repeat)

    def moment_noise(
        self, study: "MomentStudy", algorithm: local_moments.SketchedMoments, federation: Federation
    ) -> float:
        """Return the noise of products of sketches where columns do not vary: (e + N)(e′ + N)/rows at e = e′ = 0."""
        return (float(np.mean(algorithm.entry_noise())) / federation.people) ** 2 / algorithm.size


class Local(MomentMethod):
    """Second moments of rows that each party perturbs, person by person.

    Parameters
    ----------
    scale
        The fixed-point scale.
    """

    name = "local"
    noise_is_fixed = False
    does = "every row perturbed at its party: the baseline, with far more noise"
    guarantee = "(ε, δ), local differential privacy"
    adversary = "the coordinator and any parties"
    delta = "needed"
    reference = "secure-pca"
    constraints = {"scale": SCALE}

    def __init__(self, *, scale: int | None = None) -> None:
        self.scale = scale

    def is_local(self, study: "MomentStudy") -> bool:
        """Return True: every person's row is perturbed on its own."""
        return True

    def protocol(
        self, study: "MomentStudy", federation: Federation, price: Price, repeat: int
    ) -> local_moments.PerturbedRows:
        """Return a release of noisy rows, each party at its share of the price."""
        columns = study.design(federation.describe()).columns
        share = gaussian_party_price(price, len(parties_of(columns)), study.unit)
        scale = local_moments.ROWS_SCALE if self.scale is None else self.scale
        return local_moments.PerturbedRows(columns, share, federation.people, scale)

    def moment_noise(
        self, study: "MomentStudy", algorithm: local_moments.PerturbedRows, federation: Federation
    ) -> float:
        """Return the noise of products of noisy rows where columns do not vary: (e·N + e′·N + N²)/people at e = e′ = 0."""
        return float(np.mean(algorithm.entry_noise()[1:])) ** 2 / federation.people


def opened_variance(study: "MomentStudy", algorithm: Any, federation: Federation) -> Array:
    """Return the variance of the entries that a joint step will open, from the plan alone."""
    variance: Array = algorithm.variance(opened_terms(study, algorithm, federation))
    return variance


def opened_terms(study: "MomentStudy", algorithm: Any, federation: Federation) -> Joint:
    """Return the terms of a study's joint step."""
    plan = study.method.draft(study, algorithm, federation)
    return read_joint(plan, plan.steps[0].name)


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


POSITIVE = Optional(Real(0, closed="neither"))


class Gradient(MomentMethod):
    """Mini-batch gradient steps for a target of two levels, each opened with noise in shares.

    Its ε is promised against the coordinator alone, which does not know the batches. The parties know them; their ε is in
    ``privacy_``.

    Parameters
    ----------
    steps
        The number of steps.
    rate
        The probability with which a person takes part in a step. It is the expected share of people in a batch.
    sampling
        ``"poisson"``: secret batches, with amplification by sampling towards the coordinator. ``"balanced"``: everybody takes
        part equally often, without amplification.
    score_bound
        The bound that the parties' parts of a score are clipped to, in sum. A small bound adds bias, a large one noise.
    optimiser, learning_rate
        ``"sgd"`` (with momentum) or ``"adam"``, and the length of a step. By default the length follows from the noise.
    weight_norm
        The length to which the weights are clipped after every step, after scaling each column to [−1, 1]. By default they are
        not clipped.
    tolerance
        Stop once the averaged weights have moved by less than this in a tenth of the steps. 0 never stops early. The price of
        steps that are not taken is not returned.
    scale
        The fixed-point scale of rows and weights.
    """

    name = "gradient"
    no_intervals = "what the noise of its steps does to the last weights has no known law"
    does = "mini-batch descent, SGD or Adam, opened step by step with noise in shares"
    guarantee = "(ε, δ) for all steps together"
    adversary = "the coordinator alone, since parties know the batches; with balanced batches also c colluding parties"
    delta = "needed"
    reference = "secure-pca"
    unused = {**MomentMethod.unused, "ridge": "Leave out ridge=, or use method='secure'."}
    constraints = {
        "steps": Whole(1, 1_000_000),
        "rate": Real(SMALLEST_RATE, 1),
        "sampling": OneOf(("poisson", "balanced")),
        "score_bound": POSITIVE,
        "optimiser": OneOf(("sgd", "adam")),
        "learning_rate": POSITIVE,
        "weight_norm": POSITIVE,
        "tolerance": Real(0, closed="left"),
        "scale": Optional(Whole(1, LARGEST_SHORT_SCALE)),
    }

    def __init__(
        self,
        *,
        steps: int = 500,
        rate: float = 0.01,
        sampling: Sampling = "poisson",
        score_bound: float | None = None,
        optimiser: descent.OptimiserName = "sgd",
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
        """Return the schedule: two descents with different schedules are different studies."""
        return {name: value for name, value in asdict(self._schedule()).items() if value is not None}

    def protocol(
        self, study: "MomentStudy", federation: Federation, price: Price, repeat: int
    ) -> gradient_descent.GradientDescent:
        """Return a descent by steps on shares."""
        columns = study.design(federation.describe()).columns
        scale = gradient_descent.SCALE if self.scale is None else self.scale
        return gradient_descent.GradientDescent(
            columns, study.target, price, self._schedule(), federation.people, scale
        )

    def learn(
        self, study: "LogisticRegression", federation: Federation, value: gradient_descent.Descent
    ) -> dict[str, Any]:
        """Return the model of the final weights. Their standard errors are not known."""
        design = study.design(federation.describe())
        names, into = coefficients_to_own_units(value.features[1:])
        values = into @ np.append(value.weights[1:], value.weights[0])
        unknown: NDArray[np.float64] = np.full((1, len(names)), np.nan)
        levels = tuple(str(level) for level in design.classes.levels)
        model = regression.LogisticFit(levels, names, values[None, :-1], values[-1:], unknown, np.full(2, np.nan))
        return logistic_attributes(model, value.features[1:], design)

    def expect(
        self, study: "MomentStudy", algorithm: gradient_descent.GradientDescent, federation: Federation
    ) -> Expectation:
        """Return how noisy a step is, and the ε of a peer."""
        plan = self.draft(study, algorithm, federation)
        terms = gradient.GradientTerms.read(plan, gradient.STEP)
        peers = terms.noise.loss(colluders=1)
        words = {
            "noise in a coordinate of a step's gradient": f"{algorithm.deviation(terms):.3g} "
            "(the gradient's are at most about 1)",
            "steps": f"{terms.steps:,} of about {terms.rate * terms.people:,.0f} people",
            "a person takes part in": f"at most {terms.noise.participations} of them",
            "ε towards a peer": "∞" if peers is None else f"{peers.epsilon(algorithm.price.delta):.3g}",
        }
        small = terms.rate * terms.people < 1
        warnings = ("An average batch has fewer than one person: raise rate.",) if small else ()
        return Expectation(words, warnings, (ExpectedError.not_known(PREDICTION, "in log-odds"),))

    def _schedule(self) -> gradient_descent.Schedule:
        options = self.get_params(deep=False)
        return gradient_descent.Schedule(**{name: value for name, value in options.items() if name != "scale"})


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
        columns = study.design(federation.describe()).columns
        division = newton_estimation.Division.of(
            steps=self.steps, gram=self.gram, curvature=self.curvature, last=self.last
        )
        scale = newton_steps.default_scale(federation.people) if self.scale is None else self.scale
        return newton_steps.NewtonStudy(columns, study.target, price, federation.people, division, self.window, scale)

    def learn(
        self, study: "LogisticRegression", federation: Federation, value: newton_steps.NewtonFit
    ) -> dict[str, Any]:
        """Return the model of the final weights, and what noise leaves them uncertain by."""
        design = study.design(federation.describe())
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
        return {**learned, "_inference": [one.written for one in found]}

    def expect(self, study: "MomentStudy", algorithm: newton_steps.NewtonStudy, federation: Federation) -> Expectation:
        """Return how noisy a step is, and how many classes pay."""
        plan = self.draft(study, algorithm, federation)
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
