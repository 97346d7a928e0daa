"""`LinearRegression`: a numeric column of one party, explained by columns of all."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import r2_score

from colonnade.coordinator.algorithms.expected_error import expected_coefficient_error
from colonnade.coordinator.algorithms.moments import Moments
from colonnade.coordinator.algorithms.regression_from_moments import linear_from_moments
from colonnade.coordinator.federation import Federation
from colonnade.errors import SchemaMismatch
from colonnade.estimators.design import design
from colonnade.estimators.moment_study import MomentStudy, coefficient_errors, require_ridge
from colonnade.privacy.joint_noise import Law
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
        in √people), then the same solve.
    ridge
        Penalty on the squared weights of the coded columns (mapped to [−1, 1]), in sums over people as in scikit-learn.
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
    Guarantee: (ε, δ) by zCDP of the discrete Gaussian (or the Rényi curve of Skellam noise) on the Gram matrix as a whole.
    Neighbours: zero-out.
    Adversary: the coordinator together with up to `collusion` parties (``"secure"``), or any set of parties (``"sketch"``).
    Spends: once at every party whose columns enter.
    Not released: residuals, fitted values, any moment without noise.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
    >>> model = cn.LinearRegression("bank.income", columns=["bank.age", "telco.minutes"], epsilon=2.0, delta=1e-5)
    >>> model.fit(federation).coef_.shape
    (2,)
    """

    task: ClassVar[str] = "moments"
    methods: ClassVar[tuple[str, ...]] = ("secure", "sketch")

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

    def predict(self, X: pd.DataFrame) -> NDArray[np.float64]:
        """Return predictions for rows that the caller legitimately holds, in a frame with the federation's column names."""
        return np.asarray(design(X, self._coded, self._columns, coded=False) @ self.coef_ + self.intercept_)

    def score(self, X: pd.DataFrame, y: Sequence[float]) -> float:
        """Return R² of the predictions for such rows."""
        return float(r2_score(y, self.predict(X)))

    def _targets(self) -> tuple[str, ...]:
        return (self.target,)

    def _check(self, columns: Mapping[str, Column]) -> None:
        if not isinstance(columns[self.target], Numeric):
            raise SchemaMismatch(
                f"The target {self.target!r} is a category.", remedy="Use cn.LogisticRegression for categories."
            )
        require_ridge(self.ridge)

    def _algorithm(self, federation: Federation, price: Price, repeat: int) -> Algorithm:
        if self.method == "sketch":
            return self._sketch(federation, price, repeat)
        return super()._algorithm(federation, price, repeat)

    def _fit_moments(self, moments: Moments, columns: Mapping[str, Column]) -> None:
        features = self._features(columns)
        fit = linear_from_moments(moments, self.target, columns=features, ridge=self.ridge)
        self.coef_ = fit.coefficients
        self.intercept_ = float(fit.intercept)
        self.coef_stderr_ = fit.errors
        self.feature_names_in_ = np.array(fit.names, dtype=object)
        self._coded = [feature for feature in moments.features if feature.column in set(features)]
        self._columns = {name: columns[name] for name in features}

    def _expect(self, algorithm: Any, federation: Federation) -> tuple[dict[str, str], tuple[str, ...]]:
        variance = self._entry_variance(algorithm, federation)
        error = expected_coefficient_error(algorithm.features, variance, federation.people, self.target)
        return {"standard error of a coefficient": coefficient_errors(error)}, ()
