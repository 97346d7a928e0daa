"""`LogisticRegression`: a category of one party, predicted from columns of all."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from colonnade.coding.columns import Feature
from colonnade.constraints import ColumnList, OneColumn, Optional, Real
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols.evaluation import ClassifierEvaluation
from colonnade.coordinator.protocols.score_releases import Prediction, ScoreHistogramRelease, bins_for
from colonnade.errors import SchemaMismatch
from colonnade.estimation.moments import Moments
from colonnade.estimation.regression import LogisticFit, logistic_from_moments
from colonnade.estimation.scoring import coded_weights, histogram_price, party_scores
from colonnade.estimators.export import design, logistic_pipeline
from colonnade.estimators.fitted import EvaluationTerms, refuse_recipient, require_fitted, require_matching
from colonnade.estimators.methods.method import GivenMethod
from colonnade.estimators.methods.moments import Secure
from colonnade.estimators.methods.regressions import Functional, Gradient
from colonnade.estimators.moment_study import MomentStudy, expected_regression
from colonnade.estimators.preview import Expectation
from colonnade.estimators.study import COMMON
from colonnade.privacy.accounting import Price, Unit
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
        account, scale and intercept from the same moments;
        ``"functional"``: pure ε, δ = 0 (*Functional mechanism across parties*): Laplace noise in shares on the
        coefficients of the objective's expansion to second order, each pair once, then the same with weak correlations
        pulled towards none;
        ``"gradient"``: noisy gradient steps on secret batches (*Secure PCA*, SLR), for a target of two levels. Its ε is promised
        against the coordinator alone; what parties learn, who know the batches, is in ``privacy_``.
        Options of a method are given on its object: `cn.methods.Secure`, `cn.methods.Functional` (such as ``budgets``),
        `cn.methods.Gradient` (such as ``steps`` and ``rate``).
    ridge
        Penalty on the squared weights of the coded columns in the solve.
    epsilon, delta
        The price; δ must be positive, except that ``"functional"`` is pure and spends none, whatever ``delta`` says. There is no
        default for ε.
    unit
        For whom ε is promised: ``"person"`` or ``"party"``.

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
    ...     "bank.default", columns=columns, method=cn.methods.Gradient(steps=20, rate=0.05), epsilon=2.0, delta=1e-5
    ... ).fit(federation)
    >>> model.privacy_.epsilon() <= 2.0 < model.privacy_.epsilon(observer="telco")
    True
    """

    task: ClassVar[str] = "moments"
    offers = (Secure, Functional, Gradient)
    constraints = {
        **COMMON,
        "target": OneColumn(),
        "columns": Optional(ColumnList()),
        "ridge": Real(0, closed="left"),
    }
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
        method: GivenMethod = "secure",
        ridge: float = 0.0,
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
    ) -> None:
        self.target = target
        self.columns = columns
        self.method = method
        self.ridge = ridge
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit

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
        require_fitted(self)
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
        require_fitted(self)
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

    def _evaluator(self, price: Price, terms: EvaluationTerms) -> ClassifierEvaluation:
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
                str(self.target),
                (k, m),
                share,
                terms.repeat,
                bins_for(terms.people),
            )
            for k, m in pairs
        )
        whole = Price(price.nano, price.delta if share.delta else 0.0)
        return ClassifierEvaluation(histograms, tuple(map(str, self.classes_)), whole, terms.level)

    def _check_learned(self) -> None:
        rows = 1 if len(self.classes_) == 2 else len(self.classes_)
        require_matching(self, self.coef_, (rows, len(self.feature_names_in_)))
        require_matching(self, self.intercept_, (rows,))

    def _targets(self) -> tuple[str, ...]:
        return (self.target,)

    def _check(self, columns: Mapping[str, Column]) -> None:
        self._category(columns)

    def _signed(self, columns: Mapping[str, Column]) -> tuple[str, ...]:
        return (self.target,) if self._category(columns).size == 2 else ()

    def _category(self, columns: Mapping[str, Column]) -> Category:
        target = columns[self.target]
        if not isinstance(target, Category):
            raise SchemaMismatch(
                f"The target {self.target!r} is numeric.", remedy="Use cn.LinearRegression for numbers."
            )
        return target

    def _learn_from_moments(self, moments: Moments, columns: Mapping[str, Column]) -> dict[str, Any]:
        repaired = self.method.repaired(self, moments)
        model = logistic_from_moments(repaired, self.target, columns=self._features(columns), ridge=self.ridge)
        return self._learned(model, moments.features, columns)

    def _learned(self, model: LogisticFit, coded: Sequence[Feature], columns: Mapping[str, Column]) -> dict[str, Any]:
        features = self._features(columns)
        return {
            "_model": model,
            "coef_": model.coefficients,
            "intercept_": model.intercepts,
            "coef_stderr_": model.errors,
            "classes_": np.array(self._category(columns).levels, dtype=object),
            "feature_names_in_": np.array(model.names, dtype=object),
            "_coded": [feature for feature in coded if feature.column in set(features)],
            "_columns": {name: columns[name] for name in features},
        }

    def _expect_on_moments(self, algorithm: Any, federation: Federation) -> Expectation:
        def fit(moments: Moments) -> NDArray[np.float64]:
            model = logistic_from_moments(self.method.repaired(self, moments), self.target, ridge=self.ridge)
            return np.asarray(model.coefficients[-1])

        return expected_regression(self, algorithm, federation, fit, unit="in log-odds", each=" in log-odds")
