"""`LogisticRegression`: a category of one party, predicted from columns of all."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colonnade.coordinator.algorithms.expected_error import expected_coefficient_error
from colonnade.coordinator.algorithms.logistic_from_moments import LogisticFit, logistic_from_moments
from colonnade.coordinator.algorithms.moments import Moments
from colonnade.coordinator.federation import Federation
from colonnade.errors import SchemaMismatch
from colonnade.estimators.design import design
from colonnade.estimators.moment_study import MomentStudy, coefficient_errors, require_ridge
from colonnade.privacy.joint_noise import Law
from colonnade.privacy.neighbours import Unit
from colonnade.schema import Category, Column

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
        account, scale and intercept from the same moments.
    ridge
        Penalty on the squared weights of the coded columns in the solve.
    epsilon, delta
        The price; δ must be positive. There is no default for ε.
    unit
        For whom ε is promised: ``"person"`` or ``"party"``.
    noise
        ``"gaussian"`` or ``"skellam"`` (paper 002).
    scale
        γ, the fixed-point scale; by default 4,096 (64 for Skellam noise).
    row_norms
        Party to the length to which it clips its coded rows; less noise, some bias.

    Attributes
    ----------
    coef_ : array of shape (1, n_features) for two classes, else one row a class
        Coefficients in the columns' own units.
    intercept_ : array
        The intercepts.
    classes_ : array
        The target's levels, in schema order.
    coef_stderr_ : array
        Standard errors that the privacy noise causes; the sampling of people is not in them.
    feature_names_in_ : array
        What the columns of ``coef_`` belong to.
    privacy_, transcript_, receipt_
        The statement, what was said, and a line to keep.

    Privacy
    -------
    Guarantee: (ε, δ) by zCDP of the discrete Gaussian (or the Rényi curve of Skellam noise) on the Gram matrix as a whole.
    Neighbours: zero-out.
    Adversary: the coordinator together with up to `collusion` parties.
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
    """

    task: ClassVar[str] = "moments"
    methods: ClassVar[tuple[str, ...]] = ("secure",)

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
        noise: Law = "gaussian",
        scale: int | None = None,
        row_norms: Mapping[str, float] | None = None,
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

    def predict_proba(self, X: pd.DataFrame) -> NDArray[np.float64]:
        """Return the probability of every class for rows that the caller legitimately holds."""
        return self._model.probabilities(design(X, self._coded, self._columns, coded=False))

    def predict(self, X: pd.DataFrame) -> NDArray[Any]:
        """Return the likeliest class of such rows, in a frame with the federation's column names."""
        return np.asarray(self.classes_[np.argmax(self.predict_proba(X), axis=1)])

    def score(self, X: pd.DataFrame, y: Sequence[object]) -> float:
        """Return the accuracy of the predictions for such rows."""
        return float(np.mean(self.predict(X) == np.asarray(y, dtype=object)))

    def _targets(self) -> tuple[str, ...]:
        return (self.target,)

    def _check(self, columns: Mapping[str, Column]) -> None:
        self._category(columns)
        require_ridge(self.ridge)

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
        self._model: LogisticFit = logistic_from_moments(moments, self.target, columns=features, ridge=self.ridge)
        self.coef_ = self._model.coefficients
        self.intercept_ = self._model.intercepts
        self.coef_stderr_ = self._model.errors
        self.classes_ = np.array(self._category(columns).levels, dtype=object)
        self.feature_names_in_ = np.array(self._model.names, dtype=object)
        self._coded = [feature for feature in moments.features if feature.column in set(features)]
        self._columns = {name: columns[name] for name in features}

    def _expect(self, algorithm: Any, federation: Federation) -> tuple[dict[str, str], tuple[str, ...]]:
        variance = self._entry_variance(algorithm, federation)
        error = expected_coefficient_error(algorithm.features, variance, federation.people, self.target)
        return {"standard error of a coefficient": coefficient_errors(error, unit=" in log-odds")}, ()
