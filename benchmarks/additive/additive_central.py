"""The plans of ``AdditiveClassifier`` run centrally, with the channel's own noise.

Everything is as in the run but two things: noise is drawn as floats, with the variances of the laws, P/(P − c) included, and
sums are taken over plain numbers. Link, bounds, price, tables, curvature, steps and the choice of the plan are the library's
own.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from additive_sets import Joined

from colonnade.coordinator.protocols.counting import TargetTables
from colonnade.coordinator.protocols.newton_steps import chosen_division
from colonnade.coordinator.protocols.score_releases import ScoreHistogramRelease, bins_for
from colonnade.estimation.additive import (
    STEPS,
    AdditiveSearch,
    centring,
    expected_spread,
    marginal_shapes,
    recalibration,
    rescaled,
)
from colonnade.estimation.moments import Moments
from colonnade.estimation.newton import Division
from colonnade.estimation.scoring import ScoreCounts, party_scores
from colonnade.estimation.shape_belief import AdditiveFit, ShapePrior, TargetCounts, places_by_column
from colonnade.estimators import two_stages
from colonnade.estimators.methods.additive import tables_alone
from colonnade.families import LOGISTIC
from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import discrete_laplace_variance, laplace_scale
from colonnade.privacy.laws.gram import GramNoise
from colonnade.privacy.laws.newton import NewtonNoise
from colonnade.privacy.laws.tables import TableNoise
from colonnade.schema import features_of

sys.path.insert(0, str(Path(__file__).parents[1] / "newton"))

DELTA, WINDOW, COLLUSION = 1e-6, 12, 1


class Central:
    """One set of people in bins, ready for many draws of the noise.

    Parameters
    ----------
    data
        The people. Every column is a category, so that a row has whole numbers and needs no scale.
    """

    def __init__(self, data: Joined) -> None:
        self.data = data
        self.features = features_of(data.columns, signed=(data.target,))
        self.aim = next(i for i, feature in enumerate(self.features) if feature.column == data.target)
        self.kept = np.array([i for i in range(len(self.features)) if i != self.aim])
        whole = np.empty((len(data.rows), len(self.features)))
        whole[:, self.kept], whole[:, self.aim] = data.rows, 2 * data.labels - 1
        self.gram = whole.T @ whole
        self.row_bounds = {party: sum(name.startswith(f"{party}.") for name in data.columns) for party in data.parties}

    def fit(self, epsilon: float, generator: np.random.Generator) -> AdditiveFit:
        """Return what one draw of the noise comes to, by the plan that the library would choose."""
        alone = tables_alone(Price.of(epsilon, DELTA), len(self.data.explaining), len(self.data.rows))
        return self.evidence(epsilon, generator) if alone else self.steps(epsilon, generator)

    def evidence(self, epsilon: float, generator: np.random.Generator) -> AdditiveFit:
        """Return marginal effects from tables, times the slope that a histogram of the score tells."""
        data, features = self.data, self.data.features
        first, rest = two_stages.divided(Price.of(epsilon, DELTA), two_stages.EVIDENCE_SHARE)
        counts = self._tables(first, generator)
        found = marginal_shapes(ShapePrior.of(features, data.columns), features, counts)
        weights = centring(features, found.people) @ found.weights
        weights[0] = counts.log_odds
        found = replace(found, weights=weights)
        parts = party_scores(data.explaining, weights[None, 1:])
        release = ScoreHistogramRelease(
            "calibration", parts, 0.0, data.target, (0, 1), rest, largest_bins=bins_for(len(data.rows))
        )
        scored = self._histogram(release, weights, generator)
        told = recalibration(
            scored.scores,
            scored.counts,
            scored.variance,
            counts.log_odds,
            spread=expected_spread(found, features),
            smoothed=scored.smoothed,
        )
        return rescaled(found, told)

    def _tables(self, price: Price, generator: np.random.Generator) -> TargetCounts:
        data, features = self.data, self.data.features
        joint, alone = TargetTables(data.columns, data.target, price, len(data.rows)).prices
        own = discrete_laplace_variance(laplace_scale(alone, 1))
        other = TableNoise(("left", "right"), joint, "person", COLLUSION, 2 * len(features)).opened_variance
        variance = np.array([own if feature.party == data.holder else other for feature in features])
        events = data.rows.T @ data.labels
        noisy = [
            exact + np.sqrt(variance) * generator.normal(size=len(exact))
            for exact in (events, data.rows.sum(axis=0) - events)
        ]
        people, events = noisy[0] + noisy[1], noisy[0]
        people[0] = len(data.rows)
        events[0] = np.mean([events[places].sum() for places in places_by_column(features).values()])
        return TargetCounts(people, events, max(own, other))

    def _histogram(
        self, release: ScoreHistogramRelease, weights: np.ndarray, generator: np.random.Generator
    ) -> ScoreCounts:
        """Each party counts its part in steps above its lowest value, rounded up or down by a coin."""
        data, places = self.data, np.zeros(len(self.data.rows))
        for part in release.parts:
            own = data.owners == part.party
            own[0] = False
            above = (data.rows[:, own] @ weights[own] - part.low[0]) / release.step
            places += np.floor(above + generator.uniform(size=len(above)))
        counts = np.zeros((release.bins, 2))
        np.add.at(counts, (places.astype(int), data.labels.astype(int)), 1.0)
        variance = TableNoise(("left", "right"), release.price, "person", COLLUSION, counts.size).opened_variance
        scores = sum(float(part.low[0]) for part in release.parts) + release.step * np.arange(release.bins)
        noisy = counts + np.sqrt(variance) * generator.normal(size=counts.shape)
        return ScoreCounts(noisy, scores, release.step, variance, len(release.parts))

    def steps(self, epsilon: float, generator: np.random.Generator, division: Division | None = None) -> AdditiveFit:
        """Return what tables and Newton steps come to."""
        price = Price.of(epsilon, DELTA)
        division = division or chosen_division(self.row_bounds, price, len(self.data.rows), "person", COLLUSION)
        prices = division.prices(price, 1)
        moments = self._moments(prices.gram, generator)
        target = np.zeros(len(self.features))
        target[[0, self.aim]] = 0.5
        rows, labels, link = self.data.rows, self.data.labels, LOGISTIC.link(WINDOW)
        bounds = LOGISTIC.bounds(WINDOW, 2, 8, 16)
        noise = NewtonNoise(
            self.row_bounds,
            rows.shape[1],
            bounds.residual,
            bounds.residual_change,
            bounds.weight,
            bounds.weight_change,
            division.parts,
            prices.rounds,
            "person",
            COLLUSION,
        )
        prior = ShapePrior.of(self.data.features, self.data.columns)
        search = AdditiveSearch(prior, self.data.features, moments, target, secants=division == STEPS)
        for number in range(noise.rounds):
            variance = noise.variance(number) / bounds.unit**2
            scores = self._scores(search.next_weights)
            if number in noise.curvatures:
                opened = (rows * link.weight(scores)[:, None]).T @ rows
                search.see(opened + symmetric(generator, variance * (1 + np.eye(len(opened)))), variance)
            else:
                gradient = rows.T @ (link.mean(scores) - labels)
                search.see(gradient + np.sqrt(variance) * generator.normal(size=len(gradient)), variance)
        return search.result()

    def _scores(self, weights: np.ndarray) -> np.ndarray:
        """Everybody's score: each party clips its own part and rounds it to whole steps."""
        link, total = LOGISTIC.link(WINDOW), np.zeros(len(self.data.rows))
        for party in self.data.parties:
            own = self.data.owners == party
            part = np.clip(self.data.rows[:, own] @ weights[own], -link.window, link.window)
            total += np.rint(part / link.step) * link.step
        return total

    def _moments(self, price: Price, generator: np.random.Generator) -> Moments:
        noise = GramNoise(self.row_bounds, 1, len(self.features) - 1, price, "person", COLLUSION)
        owner = np.array([feature.party for feature in self.features])
        alone = (owner[:, None] == owner) | (owner == "") | (owner[:, None] == "")
        variance = np.where(alone, float(noise.own_variance), noise.opened_variance)
        np.fill_diagonal(variance, 2 * float(noise.own_variance))
        variance[0, 0] = 0.0
        return Moments.of_release(
            self.gram + symmetric(generator, variance), variance, len(self.data.rows), self.features
        )


def symmetric(generator: np.random.Generator, variance: np.ndarray) -> np.ndarray:
    """Return a symmetric matrix of normal noise."""
    upper = np.triu(generator.normal(size=variance.shape) * np.sqrt(variance))
    return upper + np.triu(upper, 1).T
