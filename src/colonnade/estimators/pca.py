"""`PCA`: the directions in which the parties' columns vary together."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from colonnade.coding.columns import features_of
from colonnade.constraints import ColumnList, Optional, Whole, checked
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols.evaluation import ComponentsEvaluation
from colonnade.coordinator.protocols.moment_releases import GramRelease
from colonnade.coordinator.protocols.score_releases import Prediction
from colonnade.estimation.moments import EVEN, NARROW, SPREAD, TYPICAL, Moments, operator_norm, pca_from_moments
from colonnade.estimation.scoring import party_scores
from colonnade.estimators.export import components_pipeline, design
from colonnade.estimators.fitted import EvaluationTerms, refuse_recipient, require_fitted, require_matching
from colonnade.estimators.methods.method import GivenMethod
from colonnade.estimators.methods.moments import Local, Secure, Sketch
from colonnade.estimators.moment_study import MomentStudy, expected_deviations
from colonnade.estimators.preview import Expectation, ExpectedError
from colonnade.estimators.study import COMMON
from colonnade.privacy.accounting import Price, Unit
from colonnade.schema import Column

__all__ = ["PCA"]


class PCA(MomentStudy):
    """Principal components of columns that different parties hold.

    Parameters
    ----------
    n_components
        How many components.
    columns
        Which columns; all by default. Numbers are mapped from their bounds to [−1, 1], categories to indicators.
    method
        ``"secure"``: one noisy Gram matrix computed on secret shares; ``"sketch"``: each party perturbs a random
        projection of its rows (*Primitives*, Algorithm 4: one message, no peers, error in √people); ``"local"``: each party
        perturbs its rows themselves (the baseline of *Secure PCA*: far more noise still). Options of a method are given on its
        object: `cn.methods.Secure`, `cn.methods.Sketch`, `cn.methods.Local`.
    epsilon, delta
        The price; δ must be positive. There is no default for ε.
    unit
        For whom ε is promised: ``"person"`` or ``"party"``.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Unit rows, in coded columns.
    explained_variance_, explained_variance_stderr_ : arrays
        Variance along each component, in coded units, corrected for the noise; and its standard error from the noise.
    mean_ : array
        Column means in own units (shares, for levels).
    feature_names_in_ : array
        What the columns of ``components_`` belong to.
    n_significant_ : int
        How many components stand out from the noise.
    noise_floor_ : float
        The variance, in coded units, below which noise alone explains a component.
    privacy_, transcript_, receipt_
        The statement, what was said, and a line to keep.

    Privacy
    -------
    Guarantee: (ε, δ) by zCDP of the discrete Gaussian (or the Rényi curve of Skellam noise) on the Gram matrix as a whole.
    Neighbours: zero-out.
    Adversary: the coordinator together with up to `collusion` parties (``"secure"``), or any set of parties (otherwise).
    Spends: once at every party whose columns enter.
    Not released: scores of people, exact means, any entry without noise.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
    >>> pca = cn.PCA(2, columns=["bank.age", "bank.income", "telco.minutes"], epsilon=2.0, delta=1e-5).fit(federation)
    >>> pca.components_.shape
    (2, 3)
    """

    task: ClassVar[str] = "moments"
    offers = (Secure, Sketch, Local)
    constraints = {**COMMON, "columns": Optional(ColumnList())}
    learned: ClassVar[tuple[str, ...]] = (
        "components_",
        "explained_variance_",
        "explained_variance_stderr_",
        "mean_",
        "feature_names_in_",
        "n_significant_",
        "noise_floor_",
        "_coded_means",
        "_coded",
        "_columns",
    )
    essential: ClassVar[tuple[str, ...]] = (
        "components_",
        "explained_variance_",
        "feature_names_in_",
        "_coded_means",
        "_coded",
        "_columns",
    )

    def __init__(
        self,
        n_components: int,
        *,
        columns: Sequence[str] | None = None,
        method: GivenMethod = "secure",
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
    ) -> None:
        self.n_components = n_components
        self.columns = columns
        self.method = method
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit

    def transform(self, X: pd.DataFrame | Federation, *, to: str | None = None) -> Any:
        """Return the scores along the components.

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
            return self._deliver(X, to, "components")
        refuse_recipient(to)
        require_fitted(self)
        coded = design(X, self._coded, self._columns, coded=True)
        return np.asarray((coded - self._coded_means) @ self.components_.T)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:  # noqa: ARG002  # as scikit-learn's
        """Return the names of the scores that ``transform`` gives."""
        require_fitted(self)
        return np.array(self._score_names(), dtype=object)

    def to_sklearn(self) -> Pipeline:
        """Return the fitted model as a plain scikit-learn pipeline that takes the same frame and gives the same scores."""
        require_fitted(self)
        return components_pipeline(self._columns, self.components_, self._coded_means, self.explained_variance_)

    def _prediction(self, to: str, reading: str) -> Prediction:
        parts = party_scores(self._columns, self.components_)
        return Prediction(parts, -self.components_ @ self._coded_means, to, reading, self._score_names())

    def _score_names(self) -> list[str]:
        return [f"component_{place + 1}" for place in range(len(self.components_))]

    def _evaluator(self, price: Price, terms: EvaluationTerms) -> ComponentsEvaluation:
        gram = GramRelease(self._columns, price)
        return ComponentsEvaluation(gram, self.components_, self._coded_means, terms.level)

    def _check_learned(self) -> None:
        require_matching(self, self.components_, (self.n_components, len(self.feature_names_in_)))
        require_matching(self, self._coded_means, (len(self.feature_names_in_),))

    def _check(self, columns: Mapping[str, Column]) -> None:
        coded = len(features_of(columns)) - 1
        remedy = f"There are {coded} coded columns: a category has as many as levels."
        checked("n_components", self.n_components, Whole(1, coded), remedy=remedy)

    def _learn_from_moments(self, moments: Moments, columns: Mapping[str, Column]) -> dict[str, Any]:
        fit = pca_from_moments(moments, int(self.n_components), columns=self._features(columns))
        return {
            "components_": fit.components,
            "explained_variance_": fit.explained_variance,
            "explained_variance_stderr_": fit.explained_variance_error,
            "mean_": fit.means,
            "feature_names_in_": np.array(fit.names, dtype=object),
            "n_significant_": fit.significant,
            "noise_floor_": float(fit.noise_floor),
            "_coded_means": fit.coded_means,
            "_coded": [feature for feature in moments.features if feature.name in set(fit.names)],
            "_columns": dict(columns),
        }

    def _expect_on_moments(self, algorithm: Any, federation: Federation) -> Expectation:
        def fit(moments: Moments) -> NDArray[np.float64]:
            return pca_from_moments(moments, int(self.n_components)).explained_variance

        errors = [
            float(np.sqrt(np.mean(expected_deviations(self, algorithm, federation, fit, spread)[0] ** 2)))
            for spread in (SPREAD, EVEN, NARROW)
        ]
        variance = self.method.entry_variance(self, algorithm, federation)[1:, 1:]
        floor = operator_norm(variance) / federation.people
        words = {
            "noise floor": f"components with less variance than {floor:.3g} (coded units) drown in the noise",
            "captured variance lost": f"at most {2 * self.n_components * floor:.3g} (coded units) against the best components; "
            "far less where their variances are far apart",
        }
        warnings = ("The noise floor is above the variance of a typical column.",) if floor > SPREAD else ()
        error = ExpectedError("explained_variance_", errors[0], "coded units", min(errors), max(errors), TYPICAL)
        return Expectation(words, warnings, (error,))
