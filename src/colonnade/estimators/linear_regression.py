"""`LinearRegression`: a numeric column of one party, explained by columns of all."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import r2_score
from sklearn.pipeline import Pipeline

from colonnade.coding.features import coefficients_to_own_units
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols.coreset_study import CoresetStudy
from colonnade.coordinator.protocols.moment_metrics import RegressionEvaluation
from colonnade.coordinator.protocols.prediction import Prediction
from colonnade.errors import SchemaMismatch
from colonnade.estimation.additive_scores import coded_weights, party_scores
from colonnade.estimation.coreset_models import Penalty
from colonnade.estimation.expected_error import CoefficientError
from colonnade.estimation.moments import Moments
from colonnade.estimation.regression_from_moments import linear_from_moments
from colonnade.estimators.coreset_options import coreset_outlook
from colonnade.estimators.coreset_regression import check_penalty, coreset_regression, regression_coreset
from colonnade.estimators.design import design
from colonnade.estimators.evaluation import Asked
from colonnade.estimators.export import linear_pipeline
from colonnade.estimators.functional_study import (
    columns_once,
    drowned,
    functional_price,
    functional_release,
    functional_unit,
    refuse_budgets,
    repaired,
)
from colonnade.estimators.moment_study import MomentStudy, coefficient_errors, require_ridge
from colonnade.estimators.preview import Expectation
from colonnade.estimators.study import refuse_recipient, require_fitted, require_matching
from colonnade.privacy.laws import NoiseFamily
from colonnade.privacy.neighbours import Unit
from colonnade.privacy.price import Price
from colonnade.protocol.rounds import Algorithm
from colonnade.schema import Column, Numeric

__all__ = ["LinearRegression"]


class LinearRegression(MomentStudy):
    """Linear or ridge regression across parties.

    Parameters
    ----------
    target
        The numeric column to explain, ``"party.column"``.
    columns
        The features' columns; all but the target by default. Categories enter as indicators of all their levels.
    method
        ``"secure"``: one noisy Gram matrix computed on secret shares, then a solve that takes its noise into account;
        ``"sketch"``: each party perturbs a random projection of its rows (paper 000, Theorem E.4: one message, no peers, error
        in √people), then the same solve;
        ``"functional"``: pure ε, δ = 0 (paper 003): Laplace noise in shares on the coefficients of the objective, then the same
        solve with weak correlations pulled towards none;
        ``"coreset"``: **not differentially private**: scikit-learn on a weighted sample of exact rows that all parties draw
        together (paper 004). It takes ``allow_nonprivate=True`` and no ε, and each party's policy must allow it by name.
    ridge
        Penalty on the squared weights of the coded columns (mapped to [−1, 1]), in sums over people as in scikit-learn.
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
    penalty, alpha, l1_ratio
        With ``method="coreset"``: ``None``, ``"l2"``, ``"l1"`` or ``"elasticnet"``, its strength and its mixture, with the
        meaning they have in scikit-learn's ``ElasticNet`` on all rows, of the coded columns.
    size
        With ``method="coreset"``: how many rows to draw.
    gather
        With ``method="coreset"``: whether the drawn rows are sent to the coordinator; otherwise they stay, and the model is
        trained by exchanging residuals (vertical SAGA; no penalty, or ``"l2"``).
    allow_nonprivate
        Your consent to ``method="coreset"``.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Coefficients in the columns' own units.
    intercept_ : float
        The intercept.
    coef_stderr_ : array
        Standard errors that the privacy noise causes; the sampling of people is not in them.
    feature_names_in_ : array
        What the coefficients belong to.
    privacy_, transcript_, receipt_
        The statement, what was said, and a line to keep.

    Privacy
    -------
    Guarantee: (ε, δ) by zCDP of the discrete Gaussian (or the Rényi curve of Skellam noise) on the Gram matrix as a whole;
    ``"functional"``: (ε, 0) by discrete Laplace noise on the objective's coefficients.
    Neighbours: zero-out.
    Adversary: the coordinator together with up to `collusion` parties (``"secure"``), or any set of parties (``"sketch"``).
    Spends: once at every party whose columns enter.
    Not released: residuals, fitted values, any moment without noise.
    ``"coreset"`` guarantees nothing of this: which rows were drawn leaves the parties, and their exact values or residuals.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
    >>> model = cn.LinearRegression("bank.income", columns=["bank.age", "telco.minutes"], epsilon=2.0, delta=1e-5)
    >>> model.fit(federation).coef_.shape
    (2,)

    Pure ε, and prices that the parties name themselves:

    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=2.0))
    >>> budgets = {"bank": 2.0, "telco": 1.0}
    >>> model = cn.LinearRegression(
    ...     "bank.income", columns=["bank.age", "telco.minutes"], method="functional", budgets=budgets
    ... ).fit(federation)
    >>> [model.privacy_.epsilon(unit="party", party=party) for party in budgets], model.privacy_.delta()
    ([2.0, 1.0], 0.0)

    Not private, for parties that trust each other with rows:

    >>> model = cn.LinearRegression(
    ...     "bank.income", columns=["bank.age", "telco.minutes"], method="coreset", size=1_000, allow_nonprivate=True
    ... ).fit(federation)
    >>> model.privacy_.epsilon()
    inf
    """

    task: ClassVar[str] = "moments"
    methods: ClassVar[tuple[str, ...]] = ("secure", "sketch", "functional", "coreset")
    disclosing_methods: ClassVar[tuple[str, ...]] = ("coreset",)
    learned: ClassVar[tuple[str, ...]] = (
        "coef_",
        "intercept_",
        "coef_stderr_",
        "feature_names_in_",
        "_coded",
        "_columns",
    )
    essential: ClassVar[tuple[str, ...]] = ("coef_", "intercept_", "feature_names_in_", "_coded", "_columns")

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
        penalty: Penalty = None,
        alpha: float = 1.0,
        l1_ratio: float = 0.5,
        size: int | None = None,
        gather: bool = True,
        allow_nonprivate: bool = False,
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
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.size = size
        self.gather = gather
        self.allow_nonprivate = allow_nonprivate

    def predict(self, X: pd.DataFrame | Federation, *, to: str | None = None) -> Any:
        """Return predictions.

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
            return self._deliver(X, to, "numbers")
        refuse_recipient(to)
        return np.asarray(design(X, self._coded, self._columns, coded=False) @ self.coef_ + self.intercept_)

    def score(self, X: pd.DataFrame, y: Sequence[float] | pd.Series) -> float:
        """Return R² of the predictions for such rows."""
        return float(r2_score(y, self.predict(X)))

    def to_sklearn(self) -> Pipeline:
        """Return the fitted model as a plain scikit-learn pipeline that takes the same frame and predicts the same."""
        require_fitted(self)
        return linear_pipeline(self._columns, self.coef_, self.intercept_)

    def _prediction(self, to: str, reading: str) -> Prediction:
        weights, intercept = coded_weights(self._columns, self.coef_[None], np.array([self.intercept_]))
        return Prediction(party_scores(self._columns, weights), intercept, to, reading, ("prediction",))

    def _evaluator(self, price: Price, asked: Asked) -> RegressionEvaluation:
        columns = {**self._columns, self.target: self.schema_[self.target]}
        weights, intercept = coded_weights(self._columns, self.coef_[None], np.array([self.intercept_]))
        return RegressionEvaluation(columns, weights[0], float(intercept[0]), price, asked.level)

    def _check_learned(self) -> None:
        require_matching(self, self.coef_, (len(self.feature_names_in_),))

    def _targets(self) -> tuple[str, ...]:
        return (self.target,)

    def _check(self, columns: Mapping[str, Column]) -> None:
        if not isinstance(columns[self.target], Numeric):
            raise SchemaMismatch(
                f"The target {self.target!r} is a category.", remedy="Use cn.LogisticRegression for categories."
            )
        require_ridge(self.ridge)
        check_penalty(self)
        if self.method != "functional":
            refuse_budgets(self)

    def _nonprivate_algorithm(self, federation: Federation) -> CoresetStudy:
        return regression_coreset(self, federation, self._chosen(federation.describe()))

    def _learn(self, federation: Federation, value: Any) -> None:
        if self.method != "coreset":
            super()._learn(federation, value)
            return
        columns = self._chosen(federation.describe())
        self.coef_, self.intercept_, self._coded = coreset_regression(self, value, columns, federation.people)
        self.feature_names_in_ = np.array([feature.name for feature in self._coded], dtype=object)
        self._columns = {name: columns[name] for name in self._features(columns)}

    def _price(self) -> Price:
        return functional_price(self) if self.method == "functional" else super()._price()

    def _unit(self) -> Unit:
        return functional_unit(self) if self.method == "functional" else super()._unit()

    def _algorithm(self, federation: Federation, price: Price, repeat: int) -> Algorithm:
        if self.method == "sketch":
            return self._sketch(federation, price, repeat)
        if self.method == "functional":
            return functional_release(self, self._chosen(federation.describe()), price)
        return super()._algorithm(federation, price, repeat)

    def _fit_moments(self, moments: Moments, columns: Mapping[str, Column]) -> None:
        features = self._features(columns)
        fit = linear_from_moments(repaired(self, moments), self.target, columns=features, ridge=self.ridge)
        self.coef_ = fit.coefficients
        self.intercept_ = float(fit.intercept)
        self.coef_stderr_ = fit.errors
        self.feature_names_in_ = np.array(fit.names, dtype=object)
        self._coded = [feature for feature in moments.features if feature.column in set(features)]
        self._columns = {name: columns[name] for name in features}

    def _expect(self, algorithm: Any, federation: Federation) -> Expectation:
        if self.method == "coreset":
            return coreset_outlook(algorithm, federation)

        def fit(moments: Moments) -> NDArray[np.float64]:
            return linear_from_moments(repaired(self, moments), self.target, ridge=self.ridge).coefficients[once]

        explaining = [one for one in algorithm.features[1:] if one.column != self.target]
        once = columns_once(explaining)
        errors, prediction = self._expected_predictions(algorithm, federation, fit, f"in the unit of {self.target}")
        names = tuple(coefficients_to_own_units(explaining)[0][place] for place in once)
        words = {"error of a coefficient": coefficient_errors(CoefficientError(names, errors))}
        variance = self._entry_variance(algorithm, federation) if self.method == "functional" else np.zeros((1, 1))
        return words, drowned(self, variance, federation.people), (prediction,)
