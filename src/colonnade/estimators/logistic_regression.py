"""`LogisticRegression`: a category of one party, predicted from columns of all."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from colonnade.coding.features import Feature, coefficients_to_own_units
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols.classification_metrics import ClassifierEvaluation
from colonnade.coordinator.protocols.gradient_descent import Descent, GradientDescent
from colonnade.coordinator.protocols.prediction import Prediction
from colonnade.coordinator.protocols.score_histogram import ScoreHistogramRelease, bins_for
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.estimation.additive_scores import coded_weights, party_scores
from colonnade.estimation.expected_error import CoefficientError
from colonnade.estimation.histogram_prices import histogram_price
from colonnade.estimation.logistic_from_moments import LogisticFit, logistic_from_moments
from colonnade.estimation.moments import Moments
from colonnade.estimators.design import design
from colonnade.estimators.evaluation import Asked
from colonnade.estimators.export import logistic_pipeline
from colonnade.estimators.functional_study import (
    columns_once,
    drowned,
    functional_price,
    functional_release,
    functional_unit,
    refuse_budgets,
    repaired,
)
from colonnade.estimators.gradient_study import (
    descent_expectation,
    descent_model,
    descent_parameters,
    gradient_descent,
)
from colonnade.estimators.moment_study import MomentStudy, coefficient_errors, require_ridge
from colonnade.estimators.preview import Expectation
from colonnade.estimators.study import refuse_recipient, require_fitted, require_matching
from colonnade.plan import Parameter
from colonnade.privacy.laws import NoiseFamily
from colonnade.privacy.neighbours import Unit
from colonnade.privacy.price import Price
from colonnade.protocol.rounds import Algorithm
from colonnade.schema import Category, Column
from colonnade.steps.gradient import STEP, GradientTerms

__all__ = ["LogisticRegression"]


class LogisticRegression(MomentStudy):
    """Logistic regression across parties, for two classes or more.

    Parameters
    ----------
    target
        The category to predict, ``"party.column"``.
    columns
        The features' columns; all but the target by default. Categories enter as indicators of all their levels.
    method
        ``"secure"``: one noisy Gram matrix computed on secret shares; the direction by a solve that takes the noise into
        account, scale and intercept from the same moments;
        ``"functional"``: pure ε, δ = 0 (paper 003): Laplace noise in shares on the coefficients of the objective's expansion to
        second order, each pair once, then the same with weak correlations pulled towards none;
        ``"gradient"``: noisy gradient steps on secret batches (paper 002, SLR), for a target of two levels. Its ε is promised
        against the coordinator alone; what parties learn, who know the batches, is in ``privacy_``.
    ridge
        Penalty on the squared weights of the coded columns in the solve.
    epsilon, delta
        The price; δ must be positive, except that ``"functional"`` is pure and spends none, whatever ``delta`` says. There is no
        default for ε.
    unit
        For whom ε is promised: ``"person"`` or ``"party"``.
    noise
        ``"gaussian"`` or ``"skellam"`` (paper 002).
    scale
        γ, the fixed-point scale; by default 4,096 (64 for Skellam noise).
    row_norms
        Party to the length to which it clips its coded rows; less noise, some bias.
    budgets
        With ``method="functional"`` and instead of ``epsilon``: party to the ε that it names for its own part of a record
        ("bottom-up"). Each ledger is debited exactly that; ``privacy_`` composes what it means for a whole record.
    descent
        With ``method="gradient"``: how it runs, for example ``{"steps": 500, "rate": 0.01, "optimiser": "adam"}``. By default 500
        steps (``steps``), in each of which a person takes part with probability 0.01 (``rate``), by secret coins
        (``sampling="poisson"``; with ``"balanced"`` everyone takes part equally often, without amplification). Also
        ``score_bound``, ``learning_rate``, ``weight_norm`` and ``tolerance`` (stop early; nothing is refunded):
        `colonnade.coordinator.protocols.gradient_descent.Schedule`.

    Attributes
    ----------
    coef_ : array of shape (1, n_features) for two classes, else one row a class
        Coefficients in the columns' own units.
    intercept_ : array
        The intercepts.
    classes_ : array
        The target's levels, in schema order.
    coef_stderr_ : array
        Standard errors that the privacy noise causes; the sampling of people is not in them. Not known (NaN) for ``"gradient"``.
    feature_names_in_ : array
        What the columns of ``coef_`` belong to.
    privacy_, transcript_, receipt_
        The statement, what was said, and a line to keep.

    Privacy
    -------
    Guarantee: (ε, δ) by zCDP of the discrete Gaussian (or the Rényi curve of Skellam noise) on the Gram matrix as a whole;
    ``"functional"``: (ε, 0) by discrete Laplace noise on the objective's coefficients; ``"gradient"``: (ε, δ) by the Rényi
    curve of all steps on secret samples.
    Neighbours: zero-out.
    Adversary: the coordinator together with up to `collusion` parties; for ``"gradient"`` with Poisson batches the coordinator
    alone.
    Spends: once at every party whose columns enter.
    Not released: scores of people, any moment without noise.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
    >>> columns = ["bank.age", "telco.late_payments", "insurer.risk_score"]
    >>> model = cn.LogisticRegression("bank.default", columns=columns, epsilon=2.0, delta=1e-5).fit(federation)
    >>> model.coef_.shape, list(model.classes_)
    ((1, 3), ['no', 'yes'])

    Pure ε, with what it means for each party's part of a record:

    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=2.0))
    >>> model = cn.LogisticRegression("bank.default", columns=columns, method="functional", epsilon=2.0).fit(federation)
    >>> model.privacy_.epsilon(), model.privacy_.delta(), model.privacy_.epsilon(unit="party", party="telco") < 2.0
    (2.0, 0.0, True)

    Gradient steps on secret batches, and what a peer learns who knows them:

    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
    >>> model = cn.LogisticRegression(
    ...     "bank.default", columns=columns, method="gradient", epsilon=2.0, delta=1e-5, descent={"steps": 20, "rate": 0.05}
    ... ).fit(federation)
    >>> model.privacy_.epsilon() <= 2.0 < model.privacy_.epsilon(observer="telco")
    True
    """

    task: ClassVar[str] = "moments"
    methods: ClassVar[tuple[str, ...]] = ("secure", "functional", "gradient")
    learned: ClassVar[tuple[str, ...]] = (
        "coef_",
        "intercept_",
        "coef_stderr_",
        "classes_",
        "feature_names_in_",
        "_model",
        "_coded",
        "_columns",
    )
    essential: ClassVar[tuple[str, ...]] = (
        "coef_",
        "intercept_",
        "classes_",
        "feature_names_in_",
        "_coded",
        "_columns",
    )

    def __init__(
        self,
        target: str,
        *,
        columns: Sequence[str] | None = None,
        method: str = "secure",
        ridge: float = 0.0,
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
        noise: NoiseFamily = "gaussian",
        scale: int | None = None,
        row_norms: Mapping[str, float] | None = None,
        budgets: Mapping[str, float] | None = None,
        descent: Mapping[str, Any] | None = None,
    ) -> None:
        self.target = target
        self.columns = columns
        self.method = method
        self.ridge = ridge
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.noise = noise
        self.scale = scale
        self.row_norms = row_norms
        self.budgets = budgets
        self.descent = descent

    def predict_proba(self, X: pd.DataFrame | Federation, *, to: str | None = None) -> Any:
        """Return the probability of every class.

        Parameters
        ----------
        X
            Rows that the caller legitimately holds, in a frame with the federation's column names; or a federation.
        to
            With a federation: the party to which they are opened, where every party's policy allows it.

        Returns
        -------
        array, or Delivery
            For a federation, the papers of what that party now holds.
        """
        if isinstance(X, Federation):
            return self._deliver(X, to, "chances")
        refuse_recipient(to)
        return self._model.probabilities(design(X, self._coded, self._columns, coded=False))

    def predict(self, X: pd.DataFrame | Federation, *, to: str | None = None) -> Any:
        """Return the likeliest class.

        Parameters
        ----------
        X
            Rows that the caller legitimately holds, in a frame with the federation's column names; or a federation.
        to
            With a federation: the party to which it is opened, where every party's policy allows it.

        Returns
        -------
        array, or Delivery
            For a federation, the papers of what that party now holds.
        """
        if isinstance(X, Federation):
            return self._deliver(X, to, "classes")
        refuse_recipient(to)
        return np.asarray(self.classes_[np.argmax(self.predict_proba(X), axis=1)])

    def score(self, X: pd.DataFrame, y: Sequence[object] | pd.Series) -> float:
        """Return the accuracy of the predictions for such rows."""
        return float(np.mean(self.predict(X) == np.asarray(y, dtype=object)))

    def to_sklearn(self) -> Pipeline:
        """Return the fitted model as a plain scikit-learn pipeline that takes the same frame and predicts the same."""
        require_fitted(self)
        return logistic_pipeline(self._columns, self.coef_, self.intercept_, self.classes_.tolist())

    def _prediction(self, to: str, reading: str) -> Prediction:
        weights, intercepts = coded_weights(self._columns, self.coef_, self.intercept_)
        return Prediction(party_scores(self._columns, weights), intercepts, to, reading, self.classes_.tolist())

    def _evaluator(self, price: Price, asked: Asked) -> ClassifierEvaluation:
        weights, intercepts = coded_weights(self._columns, self.coef_, self.intercept_)
        if len(weights) == 1:
            weights, intercepts = np.vstack([0 * weights, weights]), np.append(0.0, intercepts)
        pairs = list(combinations(range(len(weights)), 2))
        share = histogram_price(price, len(pairs))
        histograms = tuple(
            ScoreHistogramRelease(
                f"{k}-{m}",
                party_scores(self._columns, (weights[m] - weights[k])[None]),
                float(intercepts[m] - intercepts[k]),
                self.target,
                (k, m),
                share,
                asked.repeat,
                bins_for(asked.people),
            )
            for k, m in pairs
        )
        whole = Price(price.nano, price.delta if share.delta else 0.0)
        return ClassifierEvaluation(histograms, tuple(map(str, self.classes_)), whole, asked.level)

    def _check_learned(self) -> None:
        rows = 1 if len(self.classes_) == 2 else len(self.classes_)
        require_matching(self, self.coef_, (rows, len(self.feature_names_in_)))
        require_matching(self, self.intercept_, (rows,))

    def _targets(self) -> tuple[str, ...]:
        return (self.target,)

    def _check(self, columns: Mapping[str, Column]) -> None:
        self._category(columns)
        require_ridge(self.ridge)
        if self.method != "functional":
            refuse_budgets(self)
        if self.method != "gradient" and self.descent is not None:
            raise BadInput("descent goes with method='gradient'.")

    def _price(self) -> Price:
        return functional_price(self) if self.method == "functional" else super()._price()

    def _unit(self) -> Unit:
        return functional_unit(self) if self.method == "functional" else super()._unit()

    def _algorithm(self, federation: Federation, price: Price, repeat: int) -> Algorithm:
        if self.method == "functional":
            return functional_release(self, self._chosen(federation.describe()), price)
        if self.method == "gradient":
            return gradient_descent(self, self._chosen(federation.describe()), price, federation.people)
        return super()._algorithm(federation, price, repeat)

    def _parameters(self) -> dict[str, Parameter]:
        return descent_parameters(self) if self.method == "gradient" else super()._parameters()

    def _learn(self, federation: Federation, value: Moments | Descent) -> None:
        if not isinstance(value, Descent):
            super()._learn(federation, value)
            return
        columns = self._chosen(federation.describe())
        levels = tuple(str(level) for level in self._category(columns).levels)
        self._adopt(descent_model(value, levels), value.features[1:], columns)

    def _signed(self, columns: Mapping[str, Column]) -> tuple[str, ...]:
        target = self._category(columns)
        return (self.target,) if target.size == 2 else ()

    def _category(self, columns: Mapping[str, Column]) -> Category:
        target = columns[self.target]
        if not isinstance(target, Category):
            raise SchemaMismatch(
                f"The target {self.target!r} is numeric.", remedy="Use cn.LinearRegression for numbers."
            )
        return target

    def _fit_moments(self, moments: Moments, columns: Mapping[str, Column]) -> None:
        features = self._features(columns)
        model = logistic_from_moments(repaired(self, moments), self.target, columns=features, ridge=self.ridge)
        self._adopt(model, moments.features, columns)

    def _adopt(self, model: LogisticFit, coded: Sequence[Feature], columns: Mapping[str, Column]) -> None:
        features = self._features(columns)
        self._model = model
        self.coef_ = self._model.coefficients
        self.intercept_ = self._model.intercepts
        self.coef_stderr_ = self._model.errors
        self.classes_ = np.array(self._category(columns).levels, dtype=object)
        self.feature_names_in_ = np.array(self._model.names, dtype=object)
        self._coded = [feature for feature in coded if feature.column in set(features)]
        self._columns = {name: columns[name] for name in features}

    def _expect(self, algorithm: Any, federation: Federation) -> Expectation:
        if isinstance(algorithm, GradientDescent):
            return descent_expectation(algorithm, self._terms(algorithm, federation))

        def fit(moments: Moments) -> NDArray[np.float64]:
            model = logistic_from_moments(repaired(self, moments), self.target, ridge=self.ridge)
            return np.asarray(model.coefficients[-1])[once]

        explaining = [one for one in algorithm.features[1:] if one.column != self.target]
        once = columns_once(explaining)
        errors, prediction = self._expected_predictions(algorithm, federation, fit, "in log-odds")
        names = tuple(coefficients_to_own_units(explaining)[0][place] for place in once)
        words = {"error of a coefficient": coefficient_errors(CoefficientError(names, errors), unit=" in log-odds")}
        variance = self._entry_variance(algorithm, federation) if self.method == "functional" else np.zeros((1, 1))
        return words, drowned(self, variance, federation.people), (prediction,)

    def _terms(self, algorithm: GradientDescent, federation: Federation) -> GradientTerms:
        plan = federation.plan(
            algorithm, task=self.task, method=self.method, price=algorithm.price, unit=self.unit, parameters={}
        )
        return GradientTerms.read(plan, STEP)
