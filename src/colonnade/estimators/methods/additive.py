"""`AdditiveNewton`: tables of every column with the target and Newton steps on secret shares, for additive models."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from colonnade.constraints import OneOf, Whole
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols import moment_releases, newton_steps
from colonnade.coordinator.protocols.counting import table_deviation
from colonnade.coordinator.protocols.score_releases import ScoreHistogramRelease, bins_for
from colonnade.errors import BadInput
from colonnade.estimation.additive import (
    STEPS,
    TABLES,
    centred_effects,
    centring,
    expected_spread,
    marginal_shapes,
    recalibration,
    rescaled,
)
from colonnade.estimation.expected_errors import PREDICTION, ExpectedError
from colonnade.estimation.moments import Moments
from colonnade.estimation.regression import LogisticFit
from colonnade.estimation.scoring import ScoreCounts, party_scores
from colonnade.estimation.shape_belief import AdditiveFit, ShapePrior, TargetCounts
from colonnade.estimation.table_model import GramTables, has_library
from colonnade.estimators.methods.method import Expectation, Method
from colonnade.estimators.methods.moments import MomentMethod, logistic_attributes, opened_variance
from colonnade.families import WINDOW, WINDOWS
from colonnade.privacy.accounting import Price
from colonnade.schema import Feature, features_of
from colonnade.steps.newton import NewtonTerms

if TYPE_CHECKING:
    from colonnade.estimators.additive import AdditiveClassifier
    from colonnade.estimators.study import Design
    from colonnade.estimators.synthetic import SyntheticTable


ONLY_TABLES = 0.01
"""Tables are all that is worth opening if the noise in one of their counts exceeds this part of the people. Credit card default,
bank marketing and Adult at ε = 0.1 and the demonstration's data at 0.05 to 0.4 lie on the right sides of it."""

PLANS = {
    "evidence": "weights of evidence: at this price even gradients would be lost in noise, so only the table of each column with "
    "the target is opened, and a histogram of the score to recalibrate it; effects are marginal",
    "tables": "tables first: at this price products of columns would be lost in noise, so nearly all of it goes to tables of "
    "every column with the target, and to three steps on all columns together",
    "steps": "steps: tables of every column with the target, products of all columns, and steps on all columns together",
}
EVERY_CLASS = "Each of {count} classes is fitted against the rest and pays for its own tables and steps."


class AdditiveNewton(Method["AdditiveClassifier"]):
    """Tables of every column with the target, then Newton steps on secret shares.

    With more than two classes every class is fitted against the rest, and has its own tables and steps.

    Parameters
    ----------
    plan
        ``"evidence"`` opens nothing but the table of each column with the target, and a histogram of the score that recalibrates
        their sum: for very small ε. Effects are then marginal: what each column tells by itself, times one slope. ``"tables"``
        spends nearly everything on tables and gradients, for small ε or many columns. ``"steps"`` also opens
        products of columns. ``"auto"`` chooses by the noise to expect, before anything is asked.
    window
        The largest score, in log-odds, for which the link is the sigmoid: 8, 12 or 16.
    """

    name = "newton"
    does = "tables of every column with the target, then noisy gradients of the likelihood itself, opened with noise in shares"
    guarantee = "(ε, δ) for all openings together"
    adversary = "the coordinator and up to c colluding parties; compute nodes compute as written"
    delta = "needed"
    estimand = "the additive model with the penalties that were found, on the same people without noise"
    constraints = {"plan": OneOf(("auto", *PLANS)), "window": Whole(min(WINDOWS), max(WINDOWS))}

    def __init__(self, *, plan: str = "auto", window: int = WINDOW) -> None:
        self.plan = plan
        self.window = window

    def made_of_tables(self, study: "AdditiveClassifier", federation: Federation, design: "Design") -> bool:
        """Return whether tables of columns with the target are all that is worth opening.

        With interactions it never is: a table of a pair tells nothing beyond its columns by itself. Nor with more than two
        classes, each of which would need tables of its own.
        """
        if self.plan == "evidence":
            if study.pairs:
                raise BadInput(
                    "Weights of evidence take one column at a time, and pairs= names two.",
                    remedy='Leave out pairs=, or use method={"name": "newton", "plan": "tables"}.',
                )
            return True
        price = self.price(study)
        if (
            self.plan != "auto"
            or study.pairs
            or not design.has_two_classes
            or price is None
            or price.delta == 0
            or federation._driver.collusion > 1
        ):
            return False
        return tables_alone(price, len(design.explaining), federation.people)

    def protocol(
        self, study: "AdditiveClassifier", federation: Federation, price: Price, repeat: int
    ) -> newton_steps.AdditiveStudy | ScoreHistogramRelease:
        """Return a study by tables and steps on shares; or the histogram of a score that tables have made."""
        design = study.design(federation.describe())
        if study.stage_before is not None and study.stage_before.purpose == "evidence":
            found, _ = _marginal_effects(study, design)
            parts = party_scores(design.explaining, found.weights[None, 1:])
            bins = bins_for(federation.people)
            return ScoreHistogramRelease("calibration", parts, 0.0, study.target, (0, 1), price, repeat, bins)
        if federation._driver.union:
            raise BadInput(
                "An additive model needs rows of people whom every party has, and this federation is aligned by union.",
                remedy='Align by intersection: federation.align(mode="intersection").',
            )
        columns = design.columns
        bounds = newton_steps.row_bounds(columns)
        division = {"tables": TABLES, "steps": STEPS}.get(self.plan) or newton_steps.chosen_division(
            bounds,
            price,
            federation.people,
            study.unit,
            min(federation._driver.collusion, len(bounds) - 1),
            1 if design.has_two_classes else design.classes.size,
        )
        return newton_steps.AdditiveStudy(
            columns, study.target, price, federation.people, division, self.window, smooth=smoothness(study.smooth)
        )

    def learn(self, study: "AdditiveClassifier", federation: Federation, value: Any) -> dict[str, Any]:
        """Return shapes, tables and what noise leaves them uncertain by."""
        design = study.design(federation.describe())
        if not isinstance(value, ScoreCounts):
            return _shapes(study, value.classes, value.features, design)
        found, features = _marginal_effects(study, design)
        told = recalibration(
            value.scores,
            value.counts,
            value.variance,
            float(found.weights[0]),
            spread=expected_spread(found, features),
            smoothed=value.smoothed,
        )
        return _shapes(study, [rescaled(found, told)], features, design)

    def expect(
        self,
        study: "AdditiveClassifier",
        algorithm: newton_steps.AdditiveStudy | ScoreHistogramRelease,
        federation: Federation,
    ) -> Expectation:
        """Return the plan, and how noisy tables and steps are."""
        if isinstance(algorithm, ScoreHistogramRelease):
            return _expect_evidence(study, federation)
        plan = self.draft(study, algorithm, federation)
        terms = NewtonTerms.read(plan, newton_steps.step_name(algorithm.levels[0]))
        deviation = algorithm.gradient_deviation(terms)
        words = {
            "plan": PLANS["tables" if algorithm.tables_first else "steps"],
            "noise in a count of the tables": f"{algorithm.table_deviation(terms):.3g} people of {terms.people:,}",
            "noise in an entry of the last gradient": f"{deviation:.3g} people (a sum over {terms.people:,})",
        }
        warnings: tuple[str, ...] = ()
        if len(algorithm.levels) > 1:
            words["classes"] = f"{len(algorithm.levels)}, each with tables and steps of its own"
            warnings = (EVERY_CLASS.format(count=len(algorithm.levels)),)
        return Expectation(words, warnings, (ExpectedError.not_known(PREDICTION, "in log-odds"),))


def smoothness(smooth: float | str) -> float | None:
    """Return how smooth shapes are to be; ``None`` if the release is to tell."""
    return None if isinstance(smooth, str) else float(smooth)


def _marginal_effects(study: "AdditiveClassifier", design: "Design") -> tuple[AdditiveFit, tuple[Feature, ...]]:
    """Return what each of the columns tells by itself, against the average person; nothing before tables are there."""
    first = study.stage_before
    assert first is not None  # as `protocol` has it
    features = features_of(design.explaining)
    every = features_of({name: one for name, one in first.algorithm.columns.items() if name != study.target})
    places = np.array([every.index(feature) for feature in features])
    counts: TargetCounts | None = first.found
    if counts is None:
        even = np.ones(len(features))
        counts = TargetCounts(2 * even, even, 1.0)
    else:
        counts = TargetCounts(counts.people[places], counts.events[places], counts.variance)
    prior = ShapePrior.of(features, design.columns, smoothness(study.smooth))
    found = marginal_shapes(prior, features, counts)
    weights = centring(features, found.people) @ found.weights
    weights[0] = counts.log_odds
    return replace(found, weights=weights), features


def _shapes(
    study: "AdditiveClassifier", classes: Sequence[AdditiveFit], features: Sequence[Feature], design: "Design"
) -> dict[str, Any]:
    """Return the fitted attributes: centred effects of each class, monotone where they have to be, and their errors."""
    inferences = [centred_effects(found, features, design.columns, study.monotone or {}) for found in classes]
    effects = np.array([one.estimates for one in inferences])
    errors = np.array([one.errors(total=False)[:-1] for one in inferences])
    names = tuple(feature.name for feature in features[1:])
    levels = tuple(str(level) for level in design.classes.levels)
    model = LogisticFit(levels, names, effects[:, :-1], effects[:, -1], errors, np.full(len(levels), np.nan))
    return {
        **logistic_attributes(model, features[1:], design),
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


def tables_alone(price: Price, columns: int, people: int) -> bool:
    """Return whether tables are all that is worth opening, by the number of columns.

    Examples
    --------
    >>> [tables_alone(Price.of(epsilon, 1e-6), 23, 24_000) for epsilon in (0.1, 1.0)]
    [True, False]
    """
    return table_deviation(price, columns) > ONLY_TABLES * people


def _expect_evidence(study: "AdditiveClassifier", federation: Federation) -> Expectation:
    first = study.stage_before
    assert first is not None  # it has decided to be made of tables
    deviation = table_deviation(first.algorithm.price, len(first.algorithm.columns) - 1)
    words = {
        "plan": PLANS["evidence"],
        "noise in a count of the tables": f"{deviation:.3g} people of {federation.people:,}",
        "intervals": "of marginal effects: what each column tells by itself, times one slope for all",
    }
    return Expectation(words, (), ())


MOSTLY_NOISE = 0.5
LOST = (
    "Most pair tables would be mostly noise: ask for fewer columns, fewer bins or a larger epsilon. The table is then little "
    "more than its columns one by one."
)
NO_LIBRARY = "fit(...) needs the library mbi, which is not installed here: pip install 'colonnade[synthetic]'."


class SecurePairs(MomentMethod):
    """The tables of all pairs of columns, counted on secret shares. Only the noisy tables are opened.

    It has no options of its own.
    """

    name = "secure"
    does = "the tables of all pairs of columns, on secret shares; rows are drawn from a graphical model that is fitted to them"
    guarantee = "(ε, δ)"
    adversary = "the coordinator and up to c colluding parties"
    delta = "needed"
    reference = "private-pgm"
    unused = {}

    def protocol(
        self, study: "SyntheticTable", federation: Federation, price: Price, repeat: int
    ) -> moment_releases.GramRelease:
        """Return a release of second moments of levels; over the people in common if the federation is aligned so."""
        kind = moment_releases.UnionRelease if federation._driver.union else moment_releases.GramRelease
        return kind(study.design(federation.describe()).columns, price)

    def expect(self, study: "SyntheticTable", algorithm: Any, federation: Federation) -> Expectation:
        """Return the noise of a cell of a pair table, which no data changes."""
        variance = opened_variance(study, algorithm, federation)
        released = Moments.of_release(np.zeros_like(variance), variance, federation.people, algorithm.features)
        tables = GramTables(released)
        cells = {pair: tables.sizes[pair[0]] * tables.sizes[pair[1]] for pair in tables.pairs}
        noise = math.sqrt(sum(tables.variance(*pair) * many for pair, many in cells.items()) / sum(cells.values()))
        moved = np.array([tables.deviation(*pair) * many for pair, many in cells.items()])
        moved = np.minimum(moved * math.sqrt(2 / math.pi) / (2 * federation.people), 1.0)
        levels = sum(tables.sizes.values())
        words = {
            "levels": f"{levels} of {len(tables.columns)} columns, in {len(cells)} pair tables",
            "noise of a cell": f"{noise:,.3g} people",
            "noise of a pair table": f"as if {float(np.median(moved)):.1%} of people had moved, before the model is fitted",
        }
        warnings = [LOST] if float(np.median(moved)) > MOSTLY_NOISE else []
        warnings += [] if has_library() else [NO_LIBRARY]
        return Expectation(words, tuple(warnings), (ExpectedError("pair counts as released", noise, "people"),))
