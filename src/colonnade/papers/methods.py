"""The methods that papers brought. The end of this module registers them for the estimators that offer them.

Those of *Coresets* (Huang, Li, Sun, Zhao, 2022; docs/references.md#coresets) are not differentially private: they train on a
weighted sample of exact rows that all parties draw together. The others follow *Private vertical clustering* (Li, Wang, Li, 2023;
docs/references.md#clustering), *Primitives* (docs/references.md#primitives) and *Secure PCA* (docs/references.md#secure-pca).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Generic

import numpy as np
from numpy.typing import NDArray

from colonnade.constraints import Boolean, OneOf, Optional, Real, Whole, checked
from colonnade.coordinator.federation import Federation
from colonnade.errors import BadInput, NonPrivateRefused, SchemaMismatch
from colonnade.estimation import clustering, regression
from colonnade.estimation.expected_errors import PREDICTION, ExpectedError
from colonnade.estimators.methods.clusters import ClusterMethod, blocks_of, learned_centres
from colonnade.estimators.methods.counts import require_sample
from colonnade.estimators.methods.method import METHODS, Expectation, Method, StudyType
from colonnade.estimators.methods.moments import ROW_NORMS, SCALE, MomentMethod, logistic_attributes
from colonnade.papers import estimation, protocols
from colonnade.papers.draws import SMALLEST_RATE, Sampling
from colonnade.papers.laws import SKETCHES, SKETCHES_PER_WORD
from colonnade.papers.protocols import (
    CoresetFindings,
    CoresetStudy,
    PerturbedPowers,
    PowerMoment,
    ReportedClustering,
    SketchedClustering,
    SketchedSquare,
    Totals,
)
from colonnade.papers.steps import LARGEST_SKETCHES, STEP, GradientTerms
from colonnade.plan import EVENT, RELATION, Parameter
from colonnade.privacy.accounting import Price, party_price
from colonnade.privacy.calibration import gaussian_party_price
from colonnade.schema import (
    Column,
    Feature,
    coded_widths,
    coefficients_to_own_units,
    features_of,
    parties_of,
    with_indicators,
)
from colonnade.steps.kind import LARGEST_SHORT_SCALE
from colonnade.steps.registry import STUDIES

if TYPE_CHECKING:
    from colonnade.estimators.clustering import ClusteringStudy, KMeans
    from colonnade.estimators.regression import LinearRegression, LogisticRegression
    from colonnade.estimators.study import MomentStudy, Study
    from colonnade.papers.estimators import Coreset as CoresetEstimator
    from colonnade.papers.estimators import Moment


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
    if not federation.describe([study.target])[study.target].is_number:
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


class SketchedClusters(ClusterMethod):
    """Weights from sketches of local clusters, under a key that the parties share and the coordinator does not have.

    Parameters
    ----------
    sketches
        M: how many sketches each pair of parties compares, a multiple of 32. The error that no budget removes falls with √M; the
        noise at a given ε hardly changes; bytes and time grow with M.
    """

    name = "sketch"
    algorithm = SketchedClustering
    does = "private local centres, weighted by sketches of memberships: no compute nodes"
    guarantee = "(ε, δ)"
    adversary = "the coordinator alone, since parties share a key"
    delta = "needed"
    constraints = {"sketches": Whole(SKETCHES_PER_WORD, LARGEST_SKETCHES)}

    def __init__(self, *, sketches: int = SKETCHES) -> None:
        self.sketches = sketches

    @property
    def rule(self) -> clustering.WeightRule:  # type: ignore[override]  # it follows from an option
        """What M sketches cost, and how noisy they are."""
        return estimation.sketch_rule(self.sketches)

    def step_options(self, federation: Federation, repeat: int) -> dict[str, Any]:
        """Return M."""
        if self.sketches % SKETCHES_PER_WORD:
            raise BadInput(
                f"sketches={self.sketches} is not a multiple of {SKETCHES_PER_WORD}.",
                remedy=f"Use sketches={-(-self.sketches // SKETCHES_PER_WORD) * SKETCHES_PER_WORD}.",
            )
        return {"sketches": self.sketches}

    def needs_delta(self, study: "ClusteringStudy", federation: Federation) -> bool:
        """Return whether there is anything to sketch: a party alone weighs its own clusters, under pure noise."""
        return len(blocks_of(study, federation)) > 1


class ResponseClusters(ClusterMethod):
    """Weights from randomised reports of each person's local cluster.

    Parameters
    ----------
    sample
        The share of people that public coins choose to report. It saves communication (*Primitives*, Theorem B.2, and the fourth
        step of its Algorithm 3). It adds no privacy, because everybody can see who was chosen.
    """

    name = "response"
    algorithm = ReportedClustering
    does = "private local centres, weighted by randomised memberships: for many people or a large ε"
    guarantee = "pure ε at δ = 0, else (ε, δ)"
    adversary = "the coordinator and any parties"
    delta = "optional"
    constraints = {"sample": Real(0, 1, closed="right")}

    def __init__(self, *, sample: float = 1.0) -> None:
        self.sample = sample

    @property
    def rule(self) -> clustering.WeightRule:  # type: ignore[override]  # it follows from an option
        """What reports of a sample cost, and how noisy they are."""
        return estimation.response_rule(float(self.sample))

    def step_options(self, federation: Federation, repeat: int) -> dict[str, Any]:
        """Return the share of people that report, and the number of the draw that chooses them."""
        require_sample(self.sample, federation.people)
        return {"sample": float(self.sample), "draw": repeat}


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
    ) -> protocols.SketchedMoments:
        """Return a release of one sketch per party, each at its share of the price."""
        columns = study.design(federation.describe()).columns
        share = gaussian_party_price(price, len(parties_of(columns)), study.unit)
        scale = protocols.SKETCH_SCALE if self.scale is None else self.scale
        return protocols.SketchedMoments(columns, share, federation.people, scale, self.row_norms, repeat)

    def moment_noise(self, study: "MomentStudy", algorithm: protocols.SketchedMoments, federation: Federation) -> float:
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
    ) -> protocols.PerturbedRows:
        """Return a release of noisy rows, each party at its share of the price."""
        columns = study.design(federation.describe()).columns
        share = gaussian_party_price(price, len(parties_of(columns)), study.unit)
        scale = protocols.ROWS_SCALE if self.scale is None else self.scale
        return protocols.PerturbedRows(columns, share, federation.people, scale)

    def moment_noise(self, study: "MomentStudy", algorithm: protocols.PerturbedRows, federation: Federation) -> float:
        """Return the noise of products of noisy rows where columns do not vary: (e·N + e′·N + N²)/people at e = e′ = 0."""
        return float(np.mean(algorithm.entry_noise()[1:])) ** 2 / federation.people


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
        optimiser: estimation.OptimiserName = "sgd",
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
    ) -> protocols.GradientDescent:
        """Return a descent by steps on shares."""
        columns = study.design(federation.describe()).columns
        scale = protocols.SCALE if self.scale is None else self.scale
        return protocols.GradientDescent(columns, study.target, price, self._schedule(), federation.people, scale)

    def learn(self, study: "LogisticRegression", federation: Federation, value: protocols.Descent) -> dict[str, Any]:
        """Return the model of the final weights. Their standard errors are not known."""
        design = study.design(federation.describe())
        names, into = coefficients_to_own_units(value.features[1:])
        values = into @ np.append(value.weights[1:], value.weights[0])
        unknown: NDArray[np.float64] = np.full((1, len(names)), np.nan)
        levels = tuple(str(level) for level in design.classes.levels)
        model = regression.LogisticFit(levels, names, values[None, :-1], values[-1:], unknown, np.full(2, np.nan))
        return logistic_attributes(model, value.features[1:], design)

    def expect(self, study: "MomentStudy", algorithm: protocols.GradientDescent, federation: Federation) -> Expectation:
        """Return how noisy a step is, and the ε of a peer."""
        plan = self.draft(study, algorithm, federation)
        terms = GradientTerms.read(plan, STEP)
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

    def _schedule(self) -> protocols.Schedule:
        options = self.get_params(deep=False)
        return protocols.Schedule(**{name: value for name, value in options.items() if name != "scale"})


Powers = Totals | PerturbedPowers | SketchedSquare


MEANS = (1 / 32, 1 / 8, 1 / 2)
"""Means of a sum above its lowest value, in parts of its range, at which it is seen whether the error depends on them."""


SUMS = "it depends on how large the sums are"


class PowerMethod(Method["Moment"]):
    """A method of `Moment`. Releases of noisy values serve every p, so they are shared between studies."""

    def relation(self, study: "Moment") -> str:
        """Return event level, or zero-out if the whole value is protected."""
        return RELATION if study.change == "bounds" else EVENT

    def expect(self, study: "Moment", algorithm: Powers, federation: Federation) -> Expectation:
        """Return the standard error of the moment, where it is the same however large sums are."""
        words = {}
        if self.relation(study) == EVENT:
            words["neighbours"] = f"event level: ε hides changes of up to {study.change} in a value, not the value"
        errors = [algorithm.typical(mean)[1] for mean in MEANS]
        error = ExpectedError.if_same("value_", errors, "in the moment's unit", SUMS)
        return Expectation(words, (), (error,))

    def learn(self, study: "Moment", federation: Federation, value: PowerMoment) -> dict[str, Any]:
        """Return the estimate and its error."""
        return {"value_": value.value, "stderr_": value.stderr}


class LocalPowers(PowerMethod):
    """Discrete Laplace noise on each value; for p = 1, on each party's sum."""

    name = "local"
    does = "noise on every value (p = 1: on each party's sum), then an unbiased estimate for any p > 0"
    guarantee = 'pure ε, local differential privacy (p = 1: not local); event level unless `change="bounds"`'
    adversary = "the coordinator and any parties"
    delta = "not used"
    reference = "primitives"

    def is_local(self, study: "Moment") -> bool:
        """Return whether values are perturbed person by person: a sum is not."""
        return study.p != 1

    def protocol(self, study: "Moment", federation: Federation, price: Price, repeat: int) -> Totals | PerturbedPowers:
        """Return an algorithm with noisy values, or noisy sums, of each party."""
        columns = _one_per_party(study, federation)
        share = party_price(Price(price.nano, 0.0), len(columns), study.unit)
        kind = Totals if study.p == 1 else PerturbedPowers
        algorithm: Totals | PerturbedPowers = kind(
            columns, float(study.p), study.change, share, federation.people, repeat
        )
        algorithm.typical(MEANS[1])  # refuses before any party is asked
        return algorithm


class SketchedPowers(PowerMethod):
    """A short random projection with Gaussian noise, for p = 2."""

    name = "sketch"
    does = "p = 2: the same from one perturbed random projection per party"
    guarantee = '(ε, δ); event level unless `change="bounds"`'
    adversary = "the coordinator and any parties"
    delta = "needed"
    reference = "primitives"

    def protocol(self, study: "Moment", federation: Federation, price: Price, repeat: int) -> SketchedSquare:
        """Return an algorithm with one sketch per party."""
        columns = _one_per_party(study, federation)
        if study.p != 2:
            raise BadInput('method="sketch" is for p = 2.', remedy='Use method="local" for other orders.')
        if price.delta == 0:
            raise BadInput("Sketches need a positive delta.", remedy="For example delta=1e-6, or method='local'.")
        share = gaussian_party_price(price, len(columns), study.unit)
        algorithm = SketchedSquare(columns, float(study.p), study.change, share, federation.people, repeat)
        algorithm.typical(MEANS[1])  # refuses before any party is asked
        return algorithm


def _one_per_party(study: "Moment", federation: Federation) -> dict[str, Column]:
    columns = federation.describe(study.columns)
    if len(parties_of(columns)) != len(columns):
        raise BadInput(
            "columns names more than one column of a party; a moment takes one per party.",
            remedy="Add up the party's columns in its table.",
        )
    return columns


METHODS.register(
    __name__,
    {
        ("Moment", "local"): LocalPowers,
        ("Moment", "sketch"): SketchedPowers,
        ("Coreset", "importance"): Importance,
        ("Coreset", "uniform"): Uniform,
        ("PCA", "sketch"): Sketch,
        ("PCA", "local"): Local,
        ("LinearRegression", "sketch"): Sketch,
        ("LinearRegression", "coreset"): Coreset,
        ("LogisticRegression", "gradient"): Gradient,
        ("KMeans", "sketch"): SketchedClusters,
        ("KMeans", "response"): ResponseClusters,
        ("KMeans", "coreset"): ClusterCoreset,
        ("KMedian", "sketch"): SketchedClusters,
        ("KMedian", "response"): ResponseClusters,
    },
)
