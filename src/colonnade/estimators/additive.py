"""`AdditiveClassifier` and `AdditiveRegressor`: one shape per column, added up. Each belongs to one party's column."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols.counting import TargetTables
from colonnade.coordinator.protocols.moment_releases import GramRelease, MomentsRelease
from colonnade.coordinator.protocols.score_releases import ScoreHistogramRelease, bins_for
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.estimation import scoring
from colonnade.estimation.additive import expected_spread, information, marginal_shapes, recalibration, rescaled
from colonnade.estimation.moments import Moments
from colonnade.estimation.regression import Inference, LogisticFit, numeric_place
from colonnade.estimation.scoring import ScoreCounts
from colonnade.estimation.shape_belief import AdditiveFit, AdditiveLeastSquares, ShapePrior, TargetCounts
from colonnade.estimators.answers import require_fitted
from colonnade.estimators.methods.additive import AdditiveNewton
from colonnade.estimators.methods.method import GivenMethod, Method
from colonnade.estimators.methods.moments import Secure
from colonnade.estimators.regression import LinearRegression, LogisticRegression
from colonnade.estimators.shape_study import ADDITIVE, BINS, FirstStage, ShapeStudy, centring
from colonnade.privacy.accounting import Price, Unit
from colonnade.schema import Column
from colonnade.schema.features import Feature, features_of
from colonnade.steps.kind import kind_of
from colonnade.steps.products import ScoreHistogram
from colonnade.steps.registry import STUDIES

MARGINAL = (
    "marginal effects: what each column tells by itself on the same people without noise, times one slope for all"
)


class AdditiveClassifier(ShapeStudy, LogisticRegression):
    """An additive model of an event: one effect per bin of every column, added up to log-odds.

    Numbers and dates are read in public bins, a missing value in a bin of its own. Neighbouring bins are pulled together and
    weak columns to no effect, as far as noise asks for it: the penalties follow from the release and cost nothing.

    Parameters
    ----------
    target
        A category, ``"party.column"``. The second of two levels is the event. With more levels each is fitted against the rest,
        pays for its own tables and steps, and has shapes of its own.
    columns
        The explaining columns; all but the target by default. ``"auto:10"`` chooses ten of them: 15 % of the price tells how much
        each column says about the target by itself.
    bins
        How many bins of equal width a number has; or a mapping of column to a number of bins or to a list of edges, the
        column's bounds included. Columns that it does not name have 16.
    monotone
        Columns whose effect may only rise or only fall: ``{"bank.income": "decreasing"}``. It holds exactly.
    pairs
        Pairs of columns of one party that also have an effect together: ``[("bank.age", "bank.income")]``. It comes on top of
        each column's own, and its mean along either column is 0. Numbers have at most six bins there. A pair counts as one more
        column.
    smooth
        How smooth shapes of numbers are. ``"auto"`` finds it from the release. A number is one over the variance of what is not
        straight in them: 1 hardly binds, 100 keeps shapes nearly straight.
    special_codes
        Numbers that stand for something else than a quantity: ``{"bank.income": [-999]}``. Each is a bin of its own. Their
        owner has declared them among the column's ``na_values``.
    method
        ``"newton"``: tables of every column with the target, then Newton steps on secret shares. It needs three compute nodes
        besides the coordinator. Options: `cn.methods.AdditiveNewton`.
    epsilon, delta
        The price. There is no default for ε, and δ must be positive.
    unit
        ``"person"``: ε covers one person's records at all parties together. ``"party"``: one person's record at any one party.

    Attributes
    ----------
    shape_functions_ : DataFrame
        One row per bin: ``column``, ``bin``, ``effect`` in log-odds against the average person, ``stderr``, ``share`` of
        people, and whether the release determines it. With more than two levels of the target it begins with ``class``.
    importance_ : Series
        The mean size of each column's effect over people, the largest first; the mean over classes, if there are several.
    classes_ : array
        The target's levels.
    coef_, intercept_, feature_names_in_
        The same model as coefficients of bins: effects, and the log-odds of a person without any.
    privacy_, transcript_, receipt_
        Privacy statement, message log and receipt.

    Notes
    -----
    Errors are for the model that the same people give without noise, with the penalties that were found
    (docs/explanation/additive-models.md). They do not rely on effects being as small as believed, and are approximate.

    Missing values: a number that declares ``missing=`` has a further bin for them. A category with ``missing="excluded"`` has a
    further level. Nobody is left out.

    Privacy
    -------
    Guarantee: (ε, δ) by zCDP of the discrete Gaussian for all openings together.
    Neighbours: zero-out.
    Adversary: the coordinator together with up to `collusion` parties. Compute nodes compute as written.
    Spends: once at every party whose columns enter.
    Not released: scores of people, any count or gradient without noise.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
    >>> columns = ["bank.age", "telco.late_payments", "insurer.risk_score"]
    >>> model = cn.AdditiveClassifier("bank.default", columns=columns, bins=8, epsilon=2.0, delta=1e-5).fit(federation)
    >>> list(model.shape_functions_.columns)
    ['column', 'bin', 'effect', 'stderr', 'share', 'determined']
    >>> sorted(model.importance_.index) == sorted(columns)
    True
    """

    task: ClassVar[str] = STUDIES["AdditiveClassifier"]
    offers: ClassVar[tuple[type[Method[Any]], ...]] = (AdditiveNewton,)
    constraints = dict(ADDITIVE)
    essential: ClassVar[tuple[str, ...]] = (*LogisticRegression.essential, "_people", "_tables")
    learned: ClassVar[tuple[str, ...]] = (*essential, "coef_stderr_", "_model", "_inference")
    coding = "full"
    ridge = 0.0
    effect_unit = "log-odds"

    def __init__(
        self,
        target: str,
        *,
        columns: Sequence[str] | str | None = None,
        bins: int | Mapping[str, int | Sequence[float]] = BINS,
        monotone: Mapping[str, str] | None = None,
        pairs: Sequence[tuple[str, str]] = (),
        smooth: float | str = "auto",
        special_codes: Mapping[str, Sequence[float]] | None = None,
        method: GivenMethod = "newton",
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
    ) -> None:
        self.target = target
        self.columns = columns
        self.bins = bins
        self.monotone = monotone
        self.pairs = pairs
        self.smooth = smooth
        self.special_codes = special_codes
        self.method = method
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit

    def _begun(self, federation: object, repeat: int, *rows: object) -> tuple[Self, FirstStage | None]:
        if isinstance(federation, MomentsRelease):
            raise BadInput(
                "An additive model is not fitted on moments: it opens tables and gradients of its own.",
                remedy="Give a federation and epsilon=, or use cn.LogisticRegression.",
            )
        return super()._begun(federation, repeat, *rows)

    def _check(self, columns: Mapping[str, Column]) -> None:
        super()._check(columns)
        if self.monotone and not self._binary(columns):
            raise BadInput(
                f"monotone= is about one event, and {self.target!r} has {self._category(columns).size} levels.",
                remedy="Leave it out, or take a target of two levels.",
            )

    def _binary(self, columns: Mapping[str, Column]) -> bool:
        return self._category(columns).size == 2

    # Weights of evidence ---------------------------------------------------------------------------------------------------

    @property
    def marginal_(self) -> bool:
        """Whether effects are marginal: what each column tells by itself, times one slope (`cn.methods.AdditiveNewton`)."""
        require_fitted(self)
        return all(kind_of(step) is ScoreHistogram for step in self.plan_.steps)

    def _made_of_tables(self, federation: Federation, columns: Mapping[str, Column]) -> bool:
        return bool(self.method.made_of_tables(self, federation, columns))

    def _tables_of(self, columns: Mapping[str, Column], price: Price, people: int) -> TargetTables:
        return TargetTables(columns, self.target, price, people)

    def _informative(self, first: FirstStage, found: TargetCounts) -> Mapping[str, float]:
        features = features_of({name: one for name, one in first.algorithm.columns.items() if name != self.target})
        prior = ShapePrior.of(features, first.algorithm.columns, self._smoothness)
        return information(marginal_shapes(prior, features, found), features)

    def _marginal(self, columns: Mapping[str, Column]) -> tuple[AdditiveFit, tuple[Feature, ...]]:
        """Return what each of the columns tells by itself, against the average person; nothing before tables are there."""
        assert self._first is not None  # as `AdditiveNewton.protocol` has it
        features = features_of({name: one for name, one in columns.items() if name != self.target})
        every = features_of({name: one for name, one in self._first.algorithm.columns.items() if name != self.target})
        places = np.array([every.index(feature) for feature in features])
        counts: TargetCounts | None = self._first.found
        if counts is None:
            even = np.ones(len(features))
            counts = TargetCounts(2 * even, even, 1.0)
        else:
            counts = TargetCounts(counts.people[places], counts.events[places], counts.variance)
        found = marginal_shapes(ShapePrior.of(features, columns, self._smoothness), features, counts)
        weights = centring(features, found.people) @ found.weights
        weights[0] = counts.log_odds
        return replace(found, weights=weights), features

    def _score_histogram(self, federation: Federation, price: Price, repeat: int) -> ScoreHistogramRelease:
        """Return the histogram that recalibrates the sum of what each column tells by itself."""
        columns = self._chosen(federation.describe())
        found, _ = self._marginal(columns)
        explaining = {name: one for name, one in columns.items() if name != self.target}
        parts = scoring.party_scores(explaining, found.weights[None, 1:])
        return ScoreHistogramRelease(
            "calibration", parts, 0.0, self.target, (0, 1), price, repeat, bins_for(federation.people)
        )

    def _recalibrated(self, counts: ScoreCounts, federation: Federation) -> dict[str, Any]:
        """Return the fitted attributes: marginal effects, times the slope that the histogram tells."""
        columns = self._chosen(federation.describe())
        found, features = self._marginal(columns)
        told = recalibration(
            counts.scores,
            counts.counts,
            counts.variance,
            float(found.weights[0]),
            spread=expected_spread(found, features),
            smoothed=counts.smoothed,
        )
        return self._shapes([rescaled(found, told)], features, columns)

    def _head(self, level: float) -> dict[str, str]:
        head = super()._head(level)
        return {**head, "estimates": MARGINAL} if self.marginal_ else head

    # What was opened ---------------------------------------------------------------------------------------------------------

    def _shapes(
        self, classes: Sequence[AdditiveFit], features: Sequence[Feature], columns: Mapping[str, Column]
    ) -> dict[str, Any]:
        """Return the fitted attributes: centred effects of each class, monotone where they have to be, and their errors."""
        inferences = [self._effects(found, features, columns) for found in classes]
        effects = np.array([one.estimates for one in inferences])
        errors = np.array([one.errors(total=False)[:-1] for one in inferences])
        names = tuple(feature.name for feature in features[1:])
        levels = tuple(str(level) for level in self._category(columns).levels)
        model = LogisticFit(levels, names, effects[:, :-1], effects[:, -1], errors, np.full(len(levels), np.nan))
        return {
            **self._learned(model, features[1:], columns),
            "_inference": inferences,
            "_people": np.mean([found.people[1:] for found in classes], axis=0),
            "_tables": np.concatenate([_opened(found, len(features)) for found in classes]),
        }


def _opened(found: AdditiveFit, size: int) -> NDArray[np.float64]:
    """Return the tables as they were opened: people, people with the event, and the deviation of the noise in either."""
    tables = found.tables
    if tables is None:
        return np.full((size, 4), np.nan)
    deviations = np.sqrt([tables.people_variance, tables.events_variance])
    return np.column_stack([tables.people, tables.events, *(np.full(size, one) for one in deviations)])


class AdditiveRegressor(ShapeStudy, LinearRegression):
    """An additive model of a number: one effect per bin of every column, added up.

    Numbers and dates are read in public bins, a missing value in a bin of its own. Neighbouring bins are pulled together and
    weak columns to no effect, as far as noise asks for it: the penalties follow from the release and cost nothing.

    Parameters
    ----------
    target
        The numeric column to explain, ``"party.column"``.
    columns
        The explaining columns; all but the target by default. ``"auto:10"`` chooses ten of them: 15 % of the price tells how much
        each column says about the target by itself.
    bins
        How many bins of equal width a number has; or a mapping of column to a number of bins or to a list of edges, the
        column's bounds included. Columns that it does not name have 16.
    monotone
        Columns whose effect may only rise or only fall: ``{"bank.income": "increasing"}``. It holds exactly.
    pairs
        Pairs of columns of one party that also have an effect together: ``[("bank.age", "bank.income")]``. It comes on top of
        each column's own, and its mean along either column is 0. Numbers have at most six bins there. A pair counts as one more
        column.
    smooth
        How smooth shapes of numbers are. ``"auto"`` finds it from the release. A number is one over the variance of what is not
        straight in them: 1 hardly binds, 100 keeps shapes nearly straight.
    special_codes
        Numbers that stand for something else than a quantity: ``{"bank.income": [-999]}``. Each is a bin of its own. Their
        owner has declared them among the column's ``na_values``.
    method
        ``"secure"``: one noisy Gram matrix of bins and target, computed on secret shares. Options: `cn.methods.Secure`.
    epsilon, delta
        The price. There is no default for ε, and δ must be positive.
    unit
        ``"person"``: ε covers one person's records at all parties together. ``"party"``: one person's record at any one party.

    Attributes
    ----------
    shape_functions_ : DataFrame
        One row per bin: ``column``, ``bin``, ``effect`` in the target's unit against the average person, ``stderr``, ``share``
        of people, and whether the release determines it.
    importance_ : Series
        The mean size of each column's effect over people, the largest first.
    coef_, intercept_, feature_names_in_
        The same model as coefficients of bins: effects, and the prediction for a person without any.
    privacy_, transcript_, receipt_
        Privacy statement, message log and receipt.

    Notes
    -----
    Errors are for the model that the same people give without noise, with the penalties that were found
    (docs/explanation/additive-models.md). They do not rely on effects being as small as believed, and are approximate.

    Missing values: a number that declares ``missing=`` has a further bin for them. A category with ``missing="excluded"`` has a
    further level. Nobody is left out.

    Privacy
    -------
    Guarantee: (ε, δ) by zCDP of the discrete Gaussian (or the Rényi curve of Skellam noise) for the Gram matrix.
    Neighbours: zero-out.
    Adversary: the coordinator together with up to `collusion` parties.
    Spends: once at every party whose columns enter.
    Not released: residuals, fitted values, any moment without noise.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
    >>> columns = ["bank.age", "telco.minutes", "telco.plan"]
    >>> model = cn.AdditiveRegressor("bank.income", columns=columns, bins=8, epsilon=2.0, delta=1e-5).fit(federation)
    >>> sorted(model.importance_.index) == sorted(columns)
    True
    """

    task: ClassVar[str] = STUDIES["AdditiveRegressor"]
    offers: ClassVar[tuple[type[Method[Any]], ...]] = (Secure,)
    constraints = dict(ADDITIVE)
    essential: ClassVar[tuple[str, ...]] = (*LinearRegression.essential, "_people")
    learned: ClassVar[tuple[str, ...]] = (*essential, "coef_stderr_", "_inference")
    estimand = "the additive model with the penalties that were found, on the same people without noise"
    coding = "full"
    ridge, penalty, size, allow_nonprivate = 0.0, None, None, False

    def __init__(
        self,
        target: str,
        *,
        columns: Sequence[str] | str | None = None,
        bins: int | Mapping[str, int | Sequence[float]] = BINS,
        monotone: Mapping[str, str] | None = None,
        pairs: Sequence[tuple[str, str]] = (),
        smooth: float | str = "auto",
        special_codes: Mapping[str, Sequence[float]] | None = None,
        method: GivenMethod = "secure",
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
    ) -> None:
        self.target = target
        self.columns = columns
        self.bins = bins
        self.monotone = monotone
        self.pairs = pairs
        self.smooth = smooth
        self.special_codes = special_codes
        self.method = method
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit

    @property
    def effect_unit(self) -> str:
        """What effects are measured in."""
        return f"units of {self.target}"

    def _tables_of(self, columns: Mapping[str, Column], price: Price, people: int) -> GramRelease:  # noqa: ARG002
        return GramRelease(columns, price)

    def _informative(self, first: FirstStage, found: Moments) -> Mapping[str, float]:
        """Return which part of the target's variance each column explains by itself, beyond what noise would."""
        place, count = numeric_place(found, self.target), found.count
        mean = float(found.matrix[0, place]) / count
        scores = {}
        for name in first.algorithm.columns:
            if name != self.target:
                places = found.places([name])
                people = np.maximum(np.diag(found.matrix)[places], 1.0)
                apart = found.matrix[places, place] - mean * found.matrix[0, places]
                noise = found.variance[places, place] + mean**2 * found.variance[0, places]
                scores[name] = float(np.sum((apart**2 - noise) / np.maximum(people, np.sqrt(noise)))) / count
        return scores

    def _learn_from_moments(self, moments: Moments, columns: Mapping[str, Column]) -> dict[str, Any]:
        explaining = {name: columns[name] for name in self._features(columns)}
        numbers = [name for name, column in explaining.items() if column.is_number]
        if numbers:
            raise SchemaMismatch(
                f"An additive model takes columns in bins, and {numbers[0]!r} is not.",
                remedy="Give a federation, or moments of one that reads its columns in bins: federation.read_as({...}).",
            )
        target = columns[self.target]
        assert target.is_number  # as `_check` has it
        place = numeric_place(moments, self.target)
        features = (moments.features[0], *(moments.features[one] for one in moments.places(list(explaining))))
        found = AdditiveLeastSquares(
            ShapePrior.of(features, explaining, self._smoothness), features, moments, place
        ).result()
        unit = float(np.sqrt(max(float(np.diag(moments.matrix)[place]) / moments.count, 0.0)))
        coded = self._effects(found, features, columns, unit=unit)
        half, last = target.half_range, np.zeros(len(coded.estimates))
        last[-1] = target.midpoint
        inference = Inference(
            half * coded.estimates + last,
            half**2 * coded.privacy,
            half**2 * coded.sampling,
            coded.determined,
            coded.dispersion,
        )
        return {
            "coef_": inference.estimates[:-1],
            "intercept_": float(inference.estimates[-1]),
            "coef_stderr_": inference.errors(total=False)[:-1],
            "feature_names_in_": np.array([feature.name for feature in features[1:]], dtype=object),
            "_coded": list(features[1:]),
            "_columns": explaining,
            "_inference": [inference],
            "_people": found.people[1:].copy(),
        }
