"""The plan of ``LogisticRegression(method="newton")`` run centrally, with the channel's own noise.

Everything is as in the run but two things: noise is drawn as floats, with the variances of the laws, P/(P − c) included, and
sums are taken over plain numbers. The plan, its links with their rounded tables, bounds, price, start, curvature and steps are
the library's own.
"""

from dataclasses import dataclass

import numpy as np
from newton_sets import GAMMA, Joined

from colonnade.coding.columns import features_of
from colonnade.coordinator.protocols.newton_steps import NewtonStudy, step_name
from colonnade.estimation.moments import Moments
from colonnade.estimation.newton import (
    BlendedCurvature,
    Division,
    NewtonClass,
    NewtonSearch,
    OpenedGradient,
    start_weights,
)
from colonnade.plan import Plan
from colonnade.privacy.accounting import Price
from colonnade.privacy.laws.gram import GramNoise
from colonnade.privacy.laws.newton import CURVATURE
from colonnade.secure.sine_link import LINKS, STEPS
from colonnade.steps.newton_terms import NewtonTerms

DELTA = 1e-6
DEFAULT = Division()


@dataclass(eq=False)
class Central:
    """One set of people, ready for many draws of the noise.

    Parameters
    ----------
    data
        The people.
    division
        How the price is divided.
    window
        Of the link.
    collusion
        c.
    """

    data: Joined
    division: Division = DEFAULT
    window: int = 12
    collusion: int = 1

    def __post_init__(self) -> None:
        data = self.data
        self.features = features_of(data.columns, signed=(data.target,))
        self.aim = next(i for i, feature in enumerate(self.features) if feature.column == data.target)
        self.kept = np.array([i for i in range(len(self.features)) if i != self.aim])
        whole = np.empty((len(data.rows), len(self.features)))
        whole[:, self.kept], whole[:, self.aim] = data.rows, 2 * data.labels - 1
        self.gram = whole.T @ whole
        self.row_bounds = {
            party: GAMMA**2 * sum(name.startswith(f"{party}.") for name in data.columns) for party in data.parties
        }

    def fit(self, epsilon: float, generator: np.random.Generator) -> np.ndarray:
        """Return the weights of coded columns, the constant's first."""
        return self.rounds(epsilon, generator).weights

    def rounds(self, epsilon: float, generator: np.random.Generator) -> NewtonClass:
        """Return what all rounds come to."""
        prices = self.division.prices(Price.of(epsilon, DELTA), 1)
        moments = self._moments(prices.gram, generator)
        target = np.zeros(len(self.features))
        target[[0, self.aim]] = 0.5
        rows, terms = self.data.rows, self.terms(epsilon)
        deviations = [
            np.sqrt(terms.noise.opened_variance(number)) / terms.unit(number) for number in range(terms.rounds)
        ]
        start = start_weights(moments, target, self.kept[1:])
        block = np.ix_(self.kept, self.kept)
        opened = (rows * self._linked(terms, CURVATURE, start, generator)[:, None]).T @ rows
        opened = opened + symmetric(generator, np.full(opened.shape, deviations[0] ** 2) * (1 + np.eye(len(opened))))
        curvature = BlendedCurvature.of(
            opened, deviations[0] ** 2, moments.matrix[block], moments.variance[block], self.data.features
        )
        search, gradients = NewtonSearch(start, curvature, len(rows)), []
        for number, deviation in enumerate(deviations[1:], start=1):
            gradient = rows.T @ self._linked(terms, number, search.weights, generator)
            gradient = gradient + deviation * generator.normal(size=len(gradient))
            gradients.append(OpenedGradient(search.weights, gradient, deviation**2))
            search.see(gradient, deviation**2)
        explaining = moments.select(list(self.data.explaining))
        return NewtonClass(search.weights, start, explaining, opened, deviations[0] ** 2, tuple(gradients))

    def terms(self, epsilon: float) -> NewtonTerms:
        """Return the terms of the rounds, as everyone reads them from the plan."""
        data, price = self.data, Price.of(epsilon, DELTA)
        study = NewtonStudy(data.columns, data.target, price, len(data.rows), self.division, window=self.window)
        nodes = (*(party for party in data.parties if party != data.holder), data.holder)[-3:]
        plan = Plan(
            task="logistic",
            method="newton",
            parameters={},
            unit="person",
            price=price,
            federation="0" * 64,
            alignment="0" * 64,
            people=len(data.rows),
            parties=tuple(data.parties),
            compute_nodes=nodes,
            threshold=1,
            collusion=self.collusion,
            steps=study.steps(),
        )
        return NewtonTerms.read(plan, step_name(study.levels[0]))

    def _linked(
        self, terms: NewtonTerms, number: int, weights: np.ndarray, generator: np.random.Generator
    ) -> np.ndarray:
        """Everybody's residual, or weight, from rounded tables; each party clips its part and rounds it to whole steps."""
        link, bounds, total = LINKS[self.window], terms.link(number), np.zeros(len(self.data.rows), dtype=np.int64)
        for party in self.data.parties:
            own = self.data.owners == party
            total += link.in_steps(np.clip(self.data.rows[:, own] @ weights[own], -link.window, link.window))
        first = generator.integers(0, STEPS, len(total))
        kind = "weight" if number == CURVATURE else "residual"
        one, other = (
            bounds.factors(holder, kind, numbers.astype(np.uint16))
            for holder, numbers in enumerate((first, (total - first) % STEPS))
        )
        (a, b), (c, d) = (np.split(factors, 2) for factors in (one, other))
        if number == CURVATURE:
            return ((a * c - b * d).sum(axis=0) + bounds.weight_offset) / bounds.unit
        return (a * d + b * c).sum(axis=0) / bounds.unit + 0.5 - self.data.labels

    def _moments(self, price: Price, generator: np.random.Generator) -> Moments:
        noise = GramNoise(self.row_bounds, GAMMA**2, len(self.features) - 1, price, "person", self.collusion)
        owner = np.array([feature.party for feature in self.features])
        alone = (owner[:, None] == owner) | (owner == "") | (owner[:, None] == "")
        variance = np.where(alone, float(noise.own_variance), noise.opened_variance) / GAMMA**4
        np.fill_diagonal(variance, 2 * float(noise.own_variance) / GAMMA**4)
        variance[0, 0] = 0.0
        return Moments.of_release(
            self.gram + symmetric(generator, variance), variance, len(self.data.rows), self.features
        )


def symmetric(generator: np.random.Generator, variance: np.ndarray) -> np.ndarray:
    """Return a symmetric matrix of normal noise."""
    upper = np.triu(generator.normal(size=variance.shape) * np.sqrt(variance))
    return upper + np.triu(upper, 1).T
