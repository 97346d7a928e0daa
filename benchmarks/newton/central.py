"""The plan of ``LogisticRegression(method="newton")`` run centrally, with the channel's own noise.

Everything is as in the run but three things. Noise is drawn as floats, with the variances of the laws, P/(P − c) included. Sums
are taken over plain numbers. What rounded tables make of a score is drawn from its mean and its variance over all ways to split
the score between holders (`LinkLaw`), not from one split. The plan, its links, bounds, price, start, curvature and steps are the
library's own. ``tests/benchmarks/test_central.py`` holds the law against splits.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from newton_sets import GAMMA, Joined

from colonnade.coordinator.protocols.newton_steps import NewtonStudy, step_name
from colonnade.estimation.moments import Moments
from colonnade.estimation.newton import Division, NewtonClass, NewtonSearch
from colonnade.families import LOGISTIC
from colonnade.plan import Plan
from colonnade.privacy.accounting import Price
from colonnade.privacy.laws.gram import GramNoise
from colonnade.schema import features_of
from colonnade.secure.sine_link import STEPS, LinkBounds, TableKind
from colonnade.steps.newton import NewtonTerms

DELTA = 1e-6
DEFAULT = Division.of(steps=5)
SPLITS = 1 << 18
"""How many splits tell the variance of what rounding adds."""


@dataclass(frozen=True, eq=False)
class LinkLaw:
    """What two holders' rounded tables make of a score, over all ways to split it.

    Parameters
    ----------
    means
        One per score in steps modulo the period, in integers of the link.
    deviation
        Of what a split adds.
    """

    means: np.ndarray
    deviation: float

    @classmethod
    @cache
    def of(cls, bounds: LinkBounds, kind: TableKind) -> "LinkLaw":
        """Average over all splits: sums of products along a circle, by Fourier transforms."""
        steps = np.arange(STEPS, dtype=np.uint16)
        (a, b), (c, d) = (np.split(np.fft.rfft(bounds.factors(holder, kind, steps), axis=1), 2) for holder in range(2))
        means = np.fft.irfft((a * c - b * d).sum(axis=0), STEPS) / STEPS
        generator = np.random.default_rng(0)
        scores, first = generator.integers(0, STEPS, (2, SPLITS))
        return cls(means, float(np.std(cls.split(bounds, kind, scores, first) - means[scores])))

    @staticmethod
    def split(bounds: LinkBounds, kind: TableKind, scores: np.ndarray, first: np.ndarray) -> np.ndarray:
        """Return what the tables make of scores of which the first holder has so many steps."""
        (a, b), (c, d) = (
            np.split(bounds.factors(holder, kind, numbers.astype(np.uint16)), 2)
            for holder, numbers in enumerate((first, (scores - first) % STEPS))
        )
        return np.asarray((a * c - b * d).sum(axis=0))

    def draw(self, scores: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Return the link of everybody's score."""
        return self.means[scores] + self.deviation * generator.normal(size=len(scores))


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
        self.owned = [np.flatnonzero(data.owners == party) for party in data.parties]
        self.blocks = [np.ascontiguousarray(data.rows[:, own]) for own in self.owned]
        self._terms: dict[float, NewtonTerms] = {}
        self._gram_variances: dict[float, np.ndarray] = {}

    def fit(self, epsilon: float, generator: np.random.Generator) -> np.ndarray:
        """Return the weights of coded columns, the constant's first."""
        return self.rounds(epsilon, generator).weights

    def rounds(self, epsilon: float, generator: np.random.Generator) -> NewtonClass:
        """Return what all rounds come to."""
        moments = self._moments(epsilon, generator)
        target = np.zeros(len(self.features))
        target[[0, self.aim]] = 0.5
        rows, terms = self.data.rows, self.terms(epsilon)
        deviations = [np.sqrt(terms.noise.variance(number)) / terms.unit(number) for number in range(terms.rounds)]
        explaining, kept = moments.select(list(self.data.explaining)), self.kept
        products, variance = (moments.matrix @ target)[kept], (moments.variance @ target**2)[kept]
        search = NewtonSearch(LOGISTIC, explaining, products, variance, self.window)
        for number, deviation in enumerate(deviations):
            linked = self._linked(terms, number, search.weights, generator)
            if terms.bends(number):
                opened = (rows * linked[:, None]).T @ rows
                noise = symmetric(generator, np.full(opened.shape, deviation**2) * (1 + np.eye(len(opened))))
                search.bend(opened + noise, deviation**2)
                continue
            gradient = rows.T @ linked + deviation * generator.normal(size=rows.shape[1])
            search.see(gradient, deviation**2)
        return search.result()

    def terms(self, epsilon: float) -> NewtonTerms:
        """Return the terms of the rounds, as everyone reads them from the plan."""
        if epsilon not in self._terms:
            self._terms[epsilon] = self._read(epsilon)
        return self._terms[epsilon]

    def _read(self, epsilon: float) -> NewtonTerms:
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
        """Everybody's residual, or weight; each party clips its part and rounds it to whole steps."""
        link, bounds, total = (
            LOGISTIC.link(self.window),
            terms.link(number),
            np.zeros(len(self.data.rows), dtype=np.int64),
        )
        for own, block in zip(self.owned, self.blocks, strict=True):
            part = np.clip(block @ weights[own], -link.window, link.window)
            total += np.rint(part / link.step).astype(np.int64)
        kind = terms.table(number)
        linked = LinkLaw.of(bounds, kind).draw(total % STEPS, generator)
        found = (linked + bounds.offset(kind)) / bounds.unit
        return found if kind == "weight" else found - self.data.labels

    def _gram_variance(self, epsilon: float) -> np.ndarray:
        """Return the variance of every entry of the first release."""
        price = self.division.prices(Price.of(epsilon, DELTA), 1).gram
        noise = GramNoise(self.row_bounds, GAMMA**2, len(self.features) - 1, price, "person", self.collusion)
        owner = np.array([feature.party for feature in self.features])
        alone = (owner[:, None] == owner) | (owner == "") | (owner[:, None] == "")
        variance = np.where(alone, float(noise.own_variance), noise.opened_variance) / GAMMA**4
        np.fill_diagonal(variance, 2 * float(noise.own_variance) / GAMMA**4)
        variance[0, 0] = 0.0
        return variance

    def _moments(self, epsilon: float, generator: np.random.Generator) -> Moments:
        if epsilon not in self._gram_variances:
            self._gram_variances[epsilon] = self._gram_variance(epsilon)
        variance = self._gram_variances[epsilon]
        return Moments.of_release(
            self.gram + symmetric(generator, variance), variance, len(self.data.rows), self.features
        )


def symmetric(generator: np.random.Generator, variance: np.ndarray) -> np.ndarray:
    """Return a symmetric matrix of normal noise."""
    upper = np.triu(generator.normal(size=variance.shape) * np.sqrt(variance))
    return upper + np.triu(upper, 1).T
