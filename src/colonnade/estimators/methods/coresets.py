"""Methods that are not differentially private: they train on a weighted sample of exact rows that all parties draw together.

The paper is *Coresets* (Huang, Li, Sun, Zhao, 2022; docs/references.md#coresets).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic

import numpy as np

from colonnade.constraints import Boolean, Real, Whole, checked
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols.coresets import CoresetFindings, CoresetStudy
from colonnade.errors import BadInput, NonPrivateRefused, SchemaMismatch
from colonnade.estimation import coresets as estimation
from colonnade.estimators.methods.clusters import learned_centres
from colonnade.estimators.methods.method import Expectation, Method, StudyType
from colonnade.estimators.methods.moments import MomentMethod
from colonnade.privacy.accounting import Price
from colonnade.schema import Column
from colonnade.schema.features import Feature, coded_widths, features_of, with_indicators
from colonnade.steps.registry import STUDIES

if TYPE_CHECKING:
    from colonnade.estimators.clustering import KMeans
    from colonnade.estimators.regression import LinearRegression
    from colonnade.estimators.releases import Coreset as CoresetEstimator
    from colonnade.estimators.study import Study


"""The name by which a party's policy allows coresets, and models trained on them."""
ERROR, FAILURE = 0.1, 0.05
SHARE = Real(0, 1, closed="neither")
PROMISE = {"error": SHARE, "failure": SHARE}
"""What the options for ``size="auto"`` may be."""
NO_PRICE = {"epsilon": "Leave out epsilon=: no budget can measure what leaves.", "delta": "Leave out delta=."}


ESTIMATED = {
    "auto": "estimated from how many columns the parties have; too few where one party's columns nearly repeat another's",
    "proved": "which is proved to be enough",
}


class NonPrivateMethod(Method[StudyType], Generic[StudyType]):
    """A method that is not private. It needs consent, has no price, and has a task of its own."""

    guarantee = "**not private**; by consent (`allow_nonprivate=True`) and by name in every policy"
    adversary = "nobody: everybody learns which rows were drawn"
    delta = "not used"
    reference = "coresets"
    private = False
    unused = NO_PRICE

    def task(self, study: StudyType) -> str:
        """Return one name for every estimator, because the same values leave the parties."""
        return STUDIES["Coreset"]

    def price(self, study: StudyType) -> None:
        """Return None, after checking that the user has consented."""
        require_consent(study, self)

    def expect(self, study: StudyType, algorithm: CoresetStudy, federation: Federation) -> Expectation:
        """Return what would leave the parties, and how much."""
        width, parties, size = len(algorithm.features), len(algorithm.parties), algorithm.size
        share = size / federation.people
        sample = size * parties * (1 if algorithm.uniform else 3)  # draws, the drawn rows to everybody, scores
        words = {
            "leaves the parties": {
                "none": "which rows were drawn, and their weights",
                "rows": f"exact values of all columns of up to {size:,} people ({share:.2%}), and which people these are",
                "clusters": f"which local cluster each of up to {size:,} drawn people ({share:.2%}) is in, and exact centres",
                "saga": f"residuals of up to {size:,} drawn people ({share:.2%}) while the model is trained",
            }[algorithm.training],
            "numbers moved": f"about {sample + (size * width if algorithm.training == 'rows' else 0):,}"
            + (" and two per iteration, row and party" if algorithm.training == "saga" else "")
            + f"; gathering everything would move {federation.people * width:,}",
        }
        if isinstance(study.size, str):
            words["rows to draw"] = f"{size:,}, " + ESTIMATED[study.size]
        warnings = (
            ("There are fewer rows than columns: the model will not be determined. Raise size.",)
            if size <= width
            else ()
        )
        return Expectation(words, warnings)


class Coreset(NonPrivateMethod["LinearRegression"], MomentMethod):
    """A regression on a weighted sample of exact rows. Not differentially private.

    Parameters
    ----------
    gather
        Whether the drawn rows are sent to the coordinator. Otherwise they stay at the parties, and the model is trained by
        exchanging residuals (vertical SAGA; no penalty, or ``"l2"``).
    alpha, l1_ratio
        The strength of the penalty and its mixture, as in scikit-learn's ``ElasticNet`` on all rows after scaling each column
        to [−1, 1].
    error, failure
        For ``size="auto"``: how much larger the loss may be than with all rows, and how often it may be larger still.
    """

    name = "coreset"
    no_intervals = "it is not private, and its weighted rows are a sample of the people"
    does = "scikit-learn on a few thousand weighted rows that the parties draw together; no penalty, ridge, lasso, elastic net"
    unused = {**NO_PRICE, "ridge": "Use penalty='l2' and cn.methods.Coreset(alpha=...)."}
    constraints = {"gather": Boolean(), "alpha": Real(0, closed="left"), "l1_ratio": Real(0, 1), **PROMISE}

    def __init__(
        self,
        *,
        gather: bool = True,
        alpha: float = 1.0,
        l1_ratio: float = 0.5,
        error: float = ERROR,
        failure: float = FAILURE,
    ) -> None:
        self.gather = gather
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.error = error
        self.failure = failure

    def protocol(
        self, study: "LinearRegression", federation: Federation, price: Price | None, repeat: int
    ) -> CoresetStudy:
        """Return an algorithm that draws rows, and then gathers them or trains where they are."""
        if not self.gather and study.penalty not in (None, "l2"):
            raise BadInput(
                f"penalty={study.penalty!r} needs gather=True.",
                remedy="Use cn.methods.Coreset(gather=True), or penalty='l2'.",
            )
        draft = CoresetStudy(
            columns=study.design(federation.describe()).columns,
            task="regression",
            size=1,
            people=federation.people,
            target=study.target,
            training="rows" if self.gather else "saga",
            ridge=float(self.alpha) if study.penalty == "l2" and not self.gather else 0.0,
        )
        return _sized(draft, study.size, error=self.error, failure=self.failure)

    def learn(self, study: "LinearRegression", federation: Federation, value: CoresetFindings) -> dict[str, Any]:
        """Return the model of the sampled rows, or the one of each party's coefficients."""
        design = study.design(federation.describe())
        features = features_of(design.columns)[1:]
        (target,) = [feature for feature in features if feature.column == study.target]
        explaining = [feature for feature in features if feature is not target]
        model = (
            self._gathered(study, value, federation.people, list(features).index(target))
            if value.gathered is not None
            else _joined(value, features, target)
        )
        coefficients, intercept = estimation.model_in_own_units(model, explaining, target)
        return {
            "coef_": coefficients,
            "intercept_": intercept,
            "feature_names_in_": np.array([feature.name for feature in explaining], dtype=object),
            "_coded": explaining,
            "_columns": design.explaining,
        }

    def _gathered(
        self, study: "LinearRegression", value: CoresetFindings, people: int, target: int
    ) -> estimation.CodedModel:
        assert value.gathered is not None
        return estimation.sampled_regression(
            np.delete(value.gathered, target, axis=1),
            value.gathered[:, target],
            value.coreset.weights,
            people,
            penalty=study.penalty,
            alpha=self.alpha,
            l1_ratio=self.l1_ratio,
        )


class ClusterCoreset(NonPrivateMethod["KMeans"]):
    """k-means of a weighted sample of exact rows. Not differentially private.

    Parameters
    ----------
    gather
        Whether the drawn rows are sent to the coordinator and clustered there. Otherwise each party clusters its own columns of
        them and sends centres and each row's local cluster (DISTDIM).
    error, failure
        As in `Coreset`.
    """

    name = "coreset"
    does = "k-means of a few thousand weighted rows, gathered or where they are"
    unused = {**NO_PRICE, "n_local_clusters": "Leave out n_local_clusters=.", "split": "Leave out split=."}
    constraints = {"gather": Boolean(), **PROMISE}

    def __init__(self, *, gather: bool = True, error: float = ERROR, failure: float = FAILURE) -> None:
        self.gather = gather
        self.error = error
        self.failure = failure

    def protocol(self, study: "KMeans", federation: Federation, price: Price | None, repeat: int) -> CoresetStudy:
        """Return an algorithm that draws rows, and then gathers them or clusters where they are."""
        draft = CoresetStudy(
            columns=federation.describe(with_indicators(study.columns, federation.describe())),
            task="kmeans",
            size=1,
            people=federation.people,
            clusters=study.n_clusters,
            training="rows" if self.gather else "clusters",
            seed=study.random_state,
        )
        algorithm = _sized(draft, study.size, error=self.error, failure=self.failure)
        if algorithm.size < study.n_clusters:
            raise BadInput(f"size={study.size} is smaller than n_clusters={study.n_clusters}.", remedy="Raise size.")
        return algorithm

    def learn(self, study: "KMeans", federation: Federation, value: CoresetFindings) -> dict[str, Any]:
        """Return centres of the sampled rows, or of the grid of local centres."""
        weights = value.coreset.weights
        if value.gathered is not None:
            centres = estimation.sampled_clusters(value.gathered, weights, study.n_clusters, seed=study.random_state)
        else:
            assert value.clusters is not None
            centres = estimation.joined_clusters(value.clusters, weights, study.n_clusters, seed=study.random_state)
        return learned_centres(study, federation, centres)


class DrawsRows:
    """A mixin of the methods of `Coreset`: rows are drawn, and no model is trained."""

    uniform = False

    def protocol(
        self, study: "CoresetEstimator", federation: Federation, price: Price | None, repeat: int
    ) -> CoresetStudy:
        """Return an algorithm that draws rows and trains no model."""
        columns = _coreset_columns(study, federation)
        if study.task == "kmeans":
            remedy = "k-means needs the number of clusters, for example n_clusters=5."
            checked("n_clusters", study.n_clusters, Whole(1), remedy=remedy)
        draft = CoresetStudy(
            columns=columns,
            task=study.task,  # type: ignore[arg-type]  # one of the two
            size=1,
            people=federation.people,
            target=study.target,
            clusters=1 if study.task == "regression" or study.n_clusters is None else study.n_clusters,
            uniform=self.uniform,
            seed=study.random_state,
        )
        if self.uniform and isinstance(study.size, str):
            raise BadInput(
                f'size="{study.size}" is about rows that are drawn by importance.',
                remedy="Give size= a number: how many rows a uniform sample needs depends on the data.",
            )
        return _sized(draft, study.size, error=study.error, failure=study.failure, outliers=study.outliers)

    def learn(self, study: "CoresetEstimator", federation: Federation, value: CoresetFindings) -> dict[str, Any]:
        """Return the sample."""
        return {"rows_": value.coreset.rows, "weights_": value.coreset.weights, "counts_": value.coreset.counts}


class Importance(DrawsRows, NonPrivateMethod["CoresetEstimator"]):
    """Rows drawn by their importance: leverage scores, or distances to local centres."""

    name = "importance"
    does = "rows and weights for a regression or k-means; only sums over parties of draws and scores are seen"


class Uniform(DrawsRows, NonPrivateMethod["CoresetEstimator"]):
    """A public choice of rows with equal weights, for comparison."""

    name = "uniform"
    does = "rows with equal weights, for comparison"
    guarantee = "**not private** where rows are then gathered; the choice of rows is public"
    uniform = True


def require_consent(study: "Study", method: Method[Any]) -> None:
    """Refuse a study that is not private unless the user has set ``allow_nonprivate=True``."""
    if getattr(study, "allow_nonprivate", None) is not True:
        raise NonPrivateRefused(
            f"{type(study).__name__} with method {method.name!r} is not differentially private: exact values leave the parties."
        )


def _row_count(size: object, people: int) -> int:
    """Return the number of rows to draw. Refuse more than there are people."""
    rows: int = checked(
        "size", size, Whole(1), remedy='For example size="auto", or size=2_000, the number of rows to draw.'
    )
    if rows > people:
        raise BadInput(
            f"A coreset of {rows:,} rows is larger than the {people:,} people it stands for.",
            remedy="Use fewer rows, or all of them with a private method.",
        )
    return rows


def _sized(
    draft: CoresetStudy, size: object, *, error: float, failure: float, outliers: float | None = None
) -> CoresetStudy:
    """Return the study with its number of draws: as given, estimated (``"auto"``) or proved to be enough (``"proved"``)."""
    if size not in ("auto", "proved"):
        return replace(draft, size=_row_count(size, draft.people))
    features, totals = len(draft.features) - (draft.target is not None), sum(draft.maxima().values())
    problem = draft.task, features, draft.clusters, totals
    if size == "auto":
        return replace(
            draft, size=_fitting(estimation.estimated_size(*problem, error=error, failure=failure), draft.people, AUTO)
        )
    assert outliers is not None  # only `Coreset` takes "proved", and it has outliers
    proved = estimation.proved_size(*problem, len(draft.parties), error=error, outliers=outliers, failure=failure)
    return replace(draft, size=_fitting(proved, draft.people, PROVED))


AUTO = "Raise error=, give size= a number, or use all people with a private method."
PROVED = 'Use size="auto", which estimates how many serve in practice, or give size= a number.'


def _fitting(size: int, people: int, remedy: str) -> int:
    if size > people:
        raise BadInput(f"The coreset would need {size:,} rows, which exceeds the {people:,} people.", remedy=remedy)
    return size


def _coreset_columns(study: "CoresetEstimator", federation: Federation) -> dict[str, Column]:
    if study.task == "kmeans":
        if study.target is not None:
            raise BadInput("task='kmeans' has no target.", remedy="Leave out target, or use task='regression'.")
        return federation.describe(with_indicators(study.columns, federation.describe()))
    if study.target is None:
        raise BadInput("task='regression' needs a target.", remedy="For example target='bank.income'.")
    if not federation.column(study.target)[2].is_number:
        raise SchemaMismatch(f"The target {study.target!r} is a category.", remedy="Name a numeric column.")
    if study.columns is None:
        return federation.describe()
    if study.target in study.columns:
        raise BadInput(
            f"The target {study.target!r} is also among the columns.", remedy="Leave it out of columns=[...]."
        )
    return federation.describe(
        [*federation.describe(with_indicators(study.columns, federation.describe())), study.target]
    )


def _joined(findings: CoresetFindings, features: Sequence[Feature], target: Feature) -> estimation.CodedModel:
    """Join the parties' blocks of coefficients. The block of the target's party starts with the intercept."""
    assert findings.coefficients is not None
    intercept, parts = 0.0, []
    for party in coded_widths(features):
        block = findings.coefficients[party]
        if party == target.party:
            intercept, block = float(block[0]), block[1:]
        parts.append(block)
    return estimation.CodedModel(np.concatenate(parts), intercept)
