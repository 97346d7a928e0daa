"""`PCA`, and what all estimators on second moments share.

Such an estimator is fitted on a federation, at a price, or on a release of moments that was paid for before.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from colonnade.constraints import Boolean, ColumnList, Optional, Whole, checked
from colonnade.coordinator.driver import estimating
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols import moment_releases, score_releases
from colonnade.coordinator.protocols.moment_releases import WIDE, MomentsRelease
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.estimation import moments as moment_estimation
from colonnade.estimation.expected_errors import PREDICTION, ExpectedError, noise_floor
from colonnade.estimation.moment_summaries import MomentSummary, PairEstimates
from colonnade.estimation.moments import MOST_COMPONENTS, Moments, WideMoments, pca_from_wide
from colonnade.estimation.scoring import party_scores
from colonnade.estimators.answers import EvaluationTerms, refuse_recipient, require_fitted, require_matching
from colonnade.estimators.export import components_pipeline, design_matrix
from colonnade.estimators.frames import GivesScores
from colonnade.estimators.methods.method import Expectation, GivenMethod
from colonnade.estimators.methods.moments import Secure
from colonnade.estimators.study import COMMON, Study
from colonnade.privacy.accounting import Price, Unit
from colonnade.schema import Column
from colonnade.schema.features import (
    features_of,
    indicated,
    shares_of_present,
    to_own_units,
    with_indicators,
)
from colonnade.steps.registry import STUDIES

SCALED = "after scaling to [−1, 1]"


ALL_NOISE = (
    "Every column would be lost in the noise: ask for fewer columns, narrower bounds or a larger epsilon, or, if delta is 0, for "
    "method='secure' with a positive delta."
)


class MomentStudy(Study):
    """The base of estimators on second moments: their columns, and fitting on a release of moments."""

    columns: Sequence[str] | None

    def _learn_from_moments(self, moments: Moments, columns: Mapping[str, Column]) -> dict[str, Any]:
        """Return the fitted attributes, from moments that hold at least the study's columns."""
        raise NotImplementedError

    def _expect_on_moments(self, width: int, variance: float, fixed: bool) -> Expectation:  # noqa: ARG002  # PCA's needs it
        """Return what noise of this variance in a covariance matrix of so many columns means: by default for a regression."""
        error = ExpectedError.not_known(PREDICTION, "of the standard deviation of predictions")
        return Expectation(_floor_in_words(width, variance), lost_columns(width, variance), (error,))

    def _check(self, columns: Mapping[str, Column]) -> None:
        """Refuse columns that the fit cannot use, before anything is spent."""

    def _reads_wide(self, columns: Mapping[str, Column]) -> bool:  # noqa: ARG002  # a study that does looks at them
        """Return whether the study reads moments of these columns as `WideMoments`."""
        return False

    def _targets(self) -> tuple[str, ...]:
        """Return the column to explain, if the study has one."""
        return ()

    def _signed(self, columns: Mapping[str, Column]) -> tuple[str, ...]:  # noqa: ARG002  # a classifier has such a target
        """Return two-level categories that are coded as one column of signs."""
        return ()

    def fit(self, federation: Federation | MomentsRelease, *rows: object, repeat: int = 1) -> Self:
        """Run the study, or fit on a release of moments without spending again.

        Parameters
        ----------
        federation
            The federation on which to run it; or what `Federation.moments` returned, which takes no ``epsilon``.
        repeat
            Which draw of the study. 1 is the first: asking for it again returns the same release and debits nothing. 2 is a new
            draw at a new price, and so on.

        Returns
        -------
        self
        """
        if not isinstance(federation, MomentsRelease):
            return super().fit(federation, *rows, repeat=repeat)
        if self.epsilon is not None:
            raise BadInput(
                "Fitting on a release takes no epsilon: the release was paid for when it was made.",
                remedy="Leave out epsilon.",
            )
        if repeat != 1:
            raise BadInput(
                "Fitting on a release takes no repeat: a release is one draw.",
                remedy="Make a release of another draw: federation.moments(..., repeat=2).",
            )
        checked_study = self._checked()
        columns = checked_study._chosen(federation.columns)
        with estimating():
            learned = checked_study._learn_from_moments(federation.moments, columns)
        self._adopt(learned)
        self.privacy_ = federation.privacy_
        self.transcript_ = federation.transcript_
        self.plan_ = federation.plan_
        self.schema_ = columns
        self.receipt_ = f"{type(self).__name__} from moments, nothing spent; {federation.receipt_}"
        return self

    def _chosen(self, available: Mapping[str, Column]) -> dict[str, Column]:
        """Return the study's columns in the federation's order, including the target."""
        targets = self._targets()
        if self.columns is None:
            kept = [name for name, column in available.items() if indicated(name, column) not in targets]
            features = [name for name in kept if name not in targets]
        else:
            features = with_indicators(self.columns, available)
        wanted = [*features, *targets]
        unknown = [name for name in wanted if name not in available]
        if unknown:
            raise SchemaMismatch(
                f"There is no column {unknown[0]!r} here.",
                remedy=f"The columns are {', '.join(available)}.",
            )
        if len(set(wanted)) != len(wanted):
            raise BadInput(
                f"The target {targets[0]!r} is also among the columns.", remedy="Leave it out of columns=[...]."
            )
        asked = set(wanted)
        chosen = {name: column for name, column in available.items() if name in asked}
        self._check(chosen)
        return chosen

    def _features(self, columns: Mapping[str, Column]) -> list[str]:
        return [name for name in columns if name not in self._targets()]


def lost_columns(width: int, variance: float) -> tuple[str, ...]:
    """Return a warning if no column can stand out of the noise: between −1 and 1, no variance is above 1."""
    return (ALL_NOISE,) if noise_floor(width, variance) > 1 else ()


def _floor_in_words(width: int, variance: float) -> dict[str, str]:
    """Return the noise floor as a standard deviation, in parts of the distance between bounds. A coded column is 2 wide."""
    deviation = math.sqrt(noise_floor(width, variance)) / 2
    words = f"columns, and combinations of columns, whose standard deviation is below {deviation:.2g} of their bounds"
    return {"lost in the noise": words}


def category_target(name: str, column: Column) -> Column:
    """Return the description of a target with classes; refuse one without, and one that leaves people out."""
    if column.is_number:
        raise SchemaMismatch(f"The target {name!r} is numeric.", remedy="Use cn.LinearRegression for numbers.")
    if column.excludes:
        raise SchemaMismatch(
            f"The target {name!r} leaves out people without a value, and a model is fitted to everybody.",
            remedy='Declare it with missing="level", or leave these people out of the table.',
        )
    if column.size < 2:
        raise SchemaMismatch(
            f"The target {name!r} has one level only.", remedy="Choose a target with two levels or more."
        )
    return column


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
        self.n_components = n_components
        self.columns = columns
        self.standardise = standardise
        self.method = method
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit

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

    def _check(self, columns: Mapping[str, Column]) -> None:
        coded = len(features_of(columns)) - 1
        remedy = f"There are {coded} columns after coding: a category has one per level."
        checked("n_components", self.n_components, Whole(1, coded), remedy=remedy)

    def _reads_wide(self, columns: Mapping[str, Column]) -> bool:
        width = sum(column.width for column in columns.values())
        return width >= WIDE and self.n_components <= MOST_COMPONENTS * width

    def _learn_from_moments(self, moments: Moments | WideMoments, columns: Mapping[str, Column]) -> dict[str, Any]:
        count = int(self.n_components)
        if isinstance(moments, WideMoments):
            fit = pca_from_wide(moments, count, standardise=self.standardise)
        else:
            fit = moment_estimation.pca_from_moments(
                moments, count, columns=self._features(columns), standardise=self.standardise
            )
        names = set(fit.names)
        coded = [feature for feature in moments.features if feature.name in names]
        return {
            "components_": fit.components,
            "explained_variance_": fit.explained_variance,
            "explained_variance_stderr_": fit.explained_variance_error,
            "mean_": shares_of_present(fit.means, coded, columns),
            "feature_names_in_": np.array(fit.names, dtype=object),
            "n_significant_": fit.significant,
            "noise_floor_": float(fit.noise_floor),
            "_coded_means": fit.coded_means,
            "_scales": fit.scales,
            "_total_variance": float(fit.total_variance),
            "_coded": coded,
            "_columns": dict(columns),
        }

    def _expect_on_moments(self, width: int, variance: float, fixed: bool) -> Expectation:
        count, floor = int(self.n_components), noise_floor(width, variance)
        words = {
            **_floor_in_words(width, variance),
            "noise floor": f"components with less variance than {floor:.3g} (after scaling to [−1, 1]) are noise",
            "captured variance lost": f"at most {2 * count * floor:.3g} (after scaling) against the best components; "
            "far less where their variances are far apart",
        }
        error = ExpectedError.not_known("explained_variance_", SCALED)
        if fixed:  # along any direction that the columns have no say in
            error = ExpectedError("the variance along a direction", math.sqrt(2 * variance), SCALED)
        return Expectation(words, lost_columns(width, variance), (error,))


SPREAD = "the noise of a covariance is known, and how far columns spread between their bounds is not"
MOSTLY_OPEN = "Correlations would be lost in the noise: ask for fewer columns, narrower bounds or a larger epsilon."


class Correlation(MomentStudy):
    """Correlations of columns that different parties hold.

    A number enters as it is, a category level by level: the correlation with a level is that with its indicator.

    Parameters
    ----------
    columns
        The columns; all by default.
    method
        ``"secure"``: one noisy Gram matrix, computed on secret shares (*Secure PCA*, docs/references.md#secure-pca). Options:
        `cn.methods.Secure`.
    epsilon, delta
        The price. There is no default for ε, and δ must be positive.
    unit
        ``"person"``: ε covers one person's records at all parties together. ``"party"``: one person's record at any one party.

    Attributes
    ----------
    correlation_ : pandas.DataFrame
        The correlations, one row and one column per coded column. It is the nearest positive semi-definite matrix to what was
        measured. A correlation that the noise leaves open counts as 0 there, and its error is infinite.
    stderr_ : pandas.DataFrame
        The standard error that the noise causes, before the projection.
    mean_ : pandas.Series
        Means in own units, and shares of people for levels.
    feature_names_in_ : array
        The coded columns.
    privacy_, transcript_, receipt_
        Privacy statement, message log and receipt.

    Notes
    -----
    Missing values: a missing number is the value that its column declares, and pulls correlations towards zero. A person without
    a level has 0 in every indicator of that column, or the level ``"missing"`` with ``missing="level"``.

    Privacy
    -------
    Guarantee: (ε, δ) by zCDP of the discrete Gaussian (or the Rényi curve of Skellam noise) for the whole matrix.
    Neighbours: zero-out.
    Adversary: the coordinator together with up to `collusion` parties.
    Spends: once at every party whose columns enter. Nothing, when fitted on what `Federation.moments` returned.
    Not released: any entry without noise.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
    >>> study = cn.Correlation(["bank.age", "bank.income", "telco.minutes"], epsilon=2.0, delta=1e-5).fit(federation)
    >>> study.correlation_.shape, bool(study.conf_int().low.to_numpy().min() >= -1)
    ((3, 3), True)
    """

    correlation_: pd.DataFrame
    stderr_: pd.DataFrame
    mean_: pd.Series

    task: ClassVar[str] = STUDIES["Correlation"]
    offers = (Secure,)
    constraints = {**COMMON, "columns": Optional(ColumnList())}
    learned: ClassVar[tuple[str, ...]] = (
        "correlation_",
        "stderr_",
        "mean_",
        "feature_names_in_",
        "_moments",
        "_columns",
    )
    essential: ClassVar[tuple[str, ...]] = ("correlation_", "stderr_", "_moments", "_columns")

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        *,
        method: GivenMethod = "secure",
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
    ) -> None:
        self.columns = columns
        self.method = method
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit

    def conf_int(self, level: float = 0.95, *, total: bool = False) -> PairEstimates:
        """Return intervals of all correlations.

        Parameters
        ----------
        level
            The level of the intervals.
        total
            Whether they also cover the sampling of people. By default they cover the correlation of the same people.

        Returns
        -------
        PairEstimates
            Frames ``values``, ``stderr``, ``low`` and ``high``; ``table()`` has one row per pair.
        """
        require_fitted(self)
        return self._summary().correlation(level, total=total)

    def _summary(self) -> MomentSummary:
        matrix, variance = self._moments["matrix"], self._moments["variance"]
        moments = Moments(matrix, variance, int(self._moments["count"]), features_of(self._columns))
        return MomentSummary(moments, self._columns)

    def _table(self) -> pd.DataFrame:
        return self.conf_int().table()

    def _check(self, columns: Mapping[str, Column]) -> None:
        if len(columns) < 2:
            raise BadInput("A correlation takes two columns or more.", remedy="Name another column.")

    def _check_learned(self) -> None:
        size = len(features_of(self._columns))
        for name in ("matrix", "variance"):
            require_matching(self, self._moments.get(name), (size, size))

    def _learn_from_moments(self, moments: Moments, columns: Mapping[str, Column]) -> dict[str, Any]:
        selected = moments.select(list(columns))
        summary = MomentSummary(selected, columns)
        correlation = summary.correlation()
        return {
            "correlation_": correlation.values,
            "stderr_": correlation.stderr,
            "mean_": summary.mean()["mean"],
            "feature_names_in_": np.array(summary.names, dtype=object),
            "_moments": {"matrix": selected.matrix, "variance": selected.variance, "count": selected.count},
            "_columns": dict(columns),
        }

    def _expect_on_moments(self, width: int, variance: float, fixed: bool) -> Expectation:  # noqa: ARG002  # as of all
        deviation = math.sqrt(variance)
        words = {"noise of a covariance": f"{deviation:.2g} (after scaling to [−1, 1], where no variance is above 1)"}
        error = ExpectedError.not_known("correlation_", "as a correlation", SPREAD)
        return Expectation(words, (MOSTLY_OPEN,) if deviation > 1 else (), (error,))
