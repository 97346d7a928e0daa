"""`PCA`: principal components of columns that different parties hold."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from colonnade.constraints import Boolean, ColumnList, Optional, Whole, checked
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols import moment_releases, score_releases
from colonnade.coordinator.protocols.moment_releases import WIDE_COLUMNS
from colonnade.errors import BadInput
from colonnade.estimation.expected_errors import ExpectedError, noise_floor
from colonnade.estimation.moments import MOST_COMPONENTS, Moments, WideMoments, pca_from_moments, pca_from_wide
from colonnade.estimation.scoring import party_scores
from colonnade.estimators.answers import EvaluationTerms, refuse_recipient, require_fitted, require_matching
from colonnade.estimators.frames import GivesScores, components_pipeline, design_matrix
from colonnade.estimators.methods.method import Expectation, GivenMethod
from colonnade.estimators.methods.moments import Secure
from colonnade.estimators.study import COMMON, Design, MomentStudy, floor_in_words, lost_columns
from colonnade.privacy.accounting import Price, Unit
from colonnade.schema import features_of, shares_of_present, to_own_units
from colonnade.steps.registry import STUDIES

SCALED = "after scaling to [−1, 1]"


class PCA(GivesScores, MomentStudy):
    """Principal components of columns that different parties hold.

    Columns are scaled first: numbers from their bounds to [−1, 1], categories to one indicator per level.

    Parameters
    ----------
    n_components
        The number of components.
    columns
        The columns; all by default.
    standardise
        Whether to divide each scaled column by its standard deviation, as the noisy moments have it. It costs nothing more.
        Use it where bounds are much wider than the values: otherwise such a column hardly counts.
    method
        ``"secure"``: one noisy Gram matrix, computed on secret shares (*Secure PCA*, docs/references.md#secure-pca). Options:
        `cn.methods.Secure`.
        ``"sketch"``: each party perturbs a random projection of its rows (*Primitives*, Algorithm 4,
        docs/references.md#primitives). It takes one message per party and no peers; its error grows with √people. Options:
        `cn.methods.Sketch`.
        ``"local"``: each party perturbs its rows themselves, with far more noise (the baseline of *Secure PCA*). Option:
        `cn.methods.Local`.
    epsilon, delta
        The price. There is no default for ε, and δ must be positive.
    unit
        ``"person"``: ε covers one person's records at all parties together. ``"party"``: one person's record at any one party.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Rows of length 1, after scaling.
    explained_variance_, explained_variance_stderr_ : arrays
        Variance along each component, after scaling and corrected for the noise; and the standard error that the noise causes.
    explained_variance_ratio_ : array
        The share of the variance of all columns together, as the noisy moments have it.
    mean_ : array
        Column means in own units; shares of people, for levels. Those of a category with ``missing="excluded"`` are shares of
        the people who have a value, whose number is noisy.
    feature_names_in_ : array
        What the columns of ``components_`` belong to.
    n_significant_ : int
        The number of components whose variance exceeds the noise floor.
    noise_floor_ : float
        The variance, after scaling, below which noise alone explains a component.
    privacy_, transcript_, receipt_
        Privacy statement, message log and receipt.

    Notes
    -----
    Missing values: all methods do the same. A missing number is the value that its column declares; with ``indicator=True`` a
    0/1 column says where. A person without a level has 0 in every indicator of that column, or the level ``"missing"`` with
    ``missing="level"``. Nobody is left out, except from the shares in ``mean_``.

    Privacy
    -------
    Guarantee: (ε, δ) by zCDP of the discrete Gaussian (or the Rényi curve of Skellam noise) for everything that is released
    together.
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

    components_: NDArray[np.float64]
    explained_variance_: NDArray[np.float64]
    explained_variance_stderr_: NDArray[np.float64]
    mean_: NDArray[np.float64]
    n_significant_: int
    noise_floor_: float
    task: ClassVar[str] = STUDIES["PCA"]
    offers = (Secure,)
    constraints = {**COMMON, "columns": Optional(ColumnList()), "standardise": Boolean()}
    learned: ClassVar[tuple[str, ...]] = (
        "components_",
        "explained_variance_",
        "explained_variance_stderr_",
        "mean_",
        "feature_names_in_",
        "n_significant_",
        "noise_floor_",
        "_coded_means",
        "_scales",
        "_total_variance",
        "_coded",
        "_columns",
    )
    essential: ClassVar[tuple[str, ...]] = (
        "components_",
        "explained_variance_",
        "feature_names_in_",
        "_coded_means",
        "_scales",
        "_total_variance",
        "_coded",
        "_columns",
    )

    def __init__(
        self,
        n_components: int,
        *,
        columns: Sequence[str] | None = None,
        standardise: bool = False,
        method: GivenMethod = "secure",
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
    ) -> None:
        super().__init__(method=method, epsilon=epsilon, delta=delta, unit=unit)
        self.n_components = n_components
        self.columns = columns
        self.standardise = standardise

    def transform(self, X: pd.DataFrame | Federation, *, to: str | None = None) -> Any:
        """Return the scores along the components.

        Parameters
        ----------
        X
            Rows that the caller holds, in a frame with the federation's column names; or a federation.
        to
            With a federation: the party that the scores are opened to. Every party's policy must allow it.

        Returns
        -------
        array, or Delivery
            For a federation, a handle of the scores that the party now holds.
        """
        if isinstance(X, Federation):
            return self._deliver(X, to, "components")
        refuse_recipient(to)
        require_fitted(self)
        coded = design_matrix(X, self._coded, self._columns, coded=True)
        return self._as_output(np.asarray((coded - self._coded_means) / self._scales @ self.components_.T), X)

    @property
    def explained_variance_ratio_(self) -> NDArray[np.float64]:
        """The share of the variance of all columns together that each component has."""
        require_fitted(self)
        return np.asarray(self.explained_variance_ / (self._total_variance or 1.0))

    def inverse_transform(self, X: Any) -> NDArray[np.float64]:
        """Return rows from their scores, in the columns' own units; shares, for levels.

        Parameters
        ----------
        X
            Scores: what ``transform`` returned, one column per component.

        Returns
        -------
        array of shape (n_rows, n_features)
            In the order of ``feature_names_in_``. With fewer components than columns it is the nearest row that they can say.
        """
        require_fitted(self)
        scores = np.asarray(X, dtype=float)
        if scores.ndim != 2 or scores.shape[1] != len(self.components_):
            raise BadInput(
                f"X must have {len(self.components_)} columns, one score per component.",
                remedy="Give what transform(...) returned.",
            )
        return to_own_units(scores @ self.components_ * self._scales + self._coded_means, self._coded)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:  # noqa: ARG002  # as scikit-learn's
        """Return the names of the scores that ``transform`` gives."""
        require_fitted(self)
        return np.array(self._score_names(), dtype=object)

    def to_sklearn(self) -> Pipeline:
        """Return the fitted model as a plain scikit-learn pipeline that takes the same frame and gives the same scores."""
        require_fitted(self)
        return components_pipeline(
            self._columns, self.components_, self._coded_means, self.explained_variance_, self._scales
        )

    def _prediction(self, to: str, reading: str) -> score_releases.Prediction:
        weights = self.components_ / self._scales
        parts = party_scores(self._columns, weights)
        return score_releases.Prediction(parts, -weights @ self._coded_means, to, reading, self._score_names())

    def _table(self) -> pd.DataFrame:
        """Return one row per component: its variance, the share of all variance, and what it is made of."""
        figures = {
            "variance": self.explained_variance_,
            "stderr": self.explained_variance_stderr_,
            "share": self.explained_variance_ratio_,
        }
        made_of = pd.DataFrame(self.components_, columns=list(self.feature_names_in_))
        return (
            pd.concat([pd.DataFrame(figures), made_of], axis=1).set_axis(self._score_names()).rename_axis("component")
        )

    def _score_names(self) -> list[str]:
        return [f"component_{place + 1}" for place in range(len(self.components_))]

    def _evaluator(self, price: Price, terms: EvaluationTerms) -> score_releases.MeasuredReleases:
        gram = moment_releases.GramRelease(self._columns, price)
        means = self._coded_means / self._scales
        return score_releases.component_evaluation(gram, self.components_, means, self._scales, terms.level)

    def _check_learned(self) -> None:
        require_matching(self, self.components_, (self.n_components, len(self.feature_names_in_)))
        for array in (self._coded_means, self._scales):
            require_matching(self, array, (len(self.feature_names_in_),))

    def _check(self, design: Design) -> None:
        coded = len(features_of(design.columns)) - 1
        remedy = f"There are {coded} columns after coding: a category has one per level."
        checked("n_components", self.n_components, Whole(1, coded), remedy=remedy)

    def reads_wide(self, design: Design) -> bool:
        """Return whether a few components of many columns are wanted, so that no whole matrix of variances is needed."""
        width = sum(column.width for column in design.columns.values())
        return width >= WIDE_COLUMNS and self.n_components <= MOST_COMPONENTS * width

    def learn_from_moments(self, moments: Moments | WideMoments, design: Design) -> dict[str, Any]:
        """Return the components, and what they are made of."""
        count = int(self.n_components)
        if isinstance(moments, WideMoments):
            fit = pca_from_wide(moments, count, standardise=self.standardise)
        else:
            fit = pca_from_moments(moments, count, columns=list(design.columns), standardise=self.standardise)
        names = set(fit.names)
        coded = [feature for feature in moments.features if feature.name in names]
        return {
            "components_": fit.components,
            "explained_variance_": fit.explained_variance,
            "explained_variance_stderr_": fit.explained_variance_error,
            "mean_": shares_of_present(fit.means, coded, design.columns),
            "feature_names_in_": np.array(fit.names, dtype=object),
            "n_significant_": fit.significant,
            "noise_floor_": float(fit.noise_floor),
            "_coded_means": fit.coded_means,
            "_scales": fit.scales,
            "_total_variance": float(fit.total_variance),
            "_coded": coded,
            "_columns": design.columns,
        }

    def expect_on_moments(self, width: int, variance: float, fixed: bool) -> Expectation:
        """Return which components noise hides, and the error of a variance."""
        count, floor = int(self.n_components), noise_floor(width, variance)
        words = {
            **floor_in_words(width, variance),
            "noise floor": f"components with less variance than {floor:.3g} (after scaling to [−1, 1]) are noise",
            "captured variance lost": f"at most {2 * count * floor:.3g} (after scaling) against the best components; "
            "far less where their variances are far apart",
        }
        error = ExpectedError.not_known("explained_variance_", SCALED)
        if fixed:  # along any direction that the columns have no say in
            error = ExpectedError("the variance along a direction", math.sqrt(2 * variance), SCALED)
        return Expectation(words, lost_columns(width, variance), (error,))
