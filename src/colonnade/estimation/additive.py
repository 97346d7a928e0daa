"""Additive models at the coordinator: smooth shapes from the noisy openings of Newton steps.

Every column is read in bins or levels, of which each person has one. A model adds up one effect per column. The openings are
those of Newton steps on shares: a Gram matrix, a curvature, and gradients at weights that the coordinator publishes. What is
made of them here is post-processing and costs nothing.

*Tables first.* The first two gradients are opened at a constant score, once far below 0 and once far above. They are nearly
the counts of people with and without the event in every bin (`OpenedTables`). So the weights of evidence come from the
release itself. A gradient's noise grows with the root of the number of columns, a Gram matrix's with that number: where ε is
small, tables tell far more than moments do.

*Shapes.* Effects are believed to be normal with variances that differ by column (`ShapePrior`). Ordered bins have a straight part
and a smooth part, each with a variance of its own. Levels have one variance per column. The variances are those under which
the openings are likeliest (expectation-maximisation), so they follow from the release alone. A column that says little is pulled
to no effect.

*Curvature.* Where products of columns are lost in noise, columns are taken to be independent: then counts tell the curvature.
A Gram matrix and the opened curvature replace that as far as they differ from it by more than their noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.columns import Feature
from colonnade.estimation.moments import Moments
from colonnade.estimation.newton import Division, secant_update
from colonnade.estimation.shape_belief import AdditiveFit, ShapeBelief
from colonnade.estimation.shapes import PROBE, OpenedTables, ShapePrior
from colonnade.privacy.laws.newton import CURVATURE

__all__ = [
    "FEW_PRODUCTS",
    "FIRST_TABLE",
    "STEPS",
    "TABLES",
    "AdditiveSearch",
]

Array = NDArray[np.float64]

TABLES = Division(1, 1, (16, 8, 20, 20, 34))
"""How a price is divided where products of columns would be lost in noise: hardly anything goes to them."""
STEPS = Division(16, 16, (8, 4, 8, 8, 8, 32))
"""How a price is divided otherwise. In both, the first two steps are the tables."""
FEW_PRODUCTS = 0.02
"""Tables are all that is worth paying for if the noise in an entry of the Gram matrix exceeds this part of the people."""
FIRST_TABLE, SECOND_TABLE = 0, 2
"""The rounds that open the tables; the curvature is opened between them."""
LINEARISATION = 0.03
"""Which part of a squared change of slope is added to the variance of a gradient that was opened elsewhere."""
LONGEST = 1.0
"""The longest step, as the root mean square by which it moves the score of a typical person, in log-odds."""
WEIGHT_RATIO, WEIGHT_SPREAD = 0.8, 0.3
"""What a person's weight is on average, relative to that at the constant score, and how far that may be off."""
SMALLEST_SHARE = 0.005


@dataclass(frozen=True, eq=False)
class _Seen:
    at: Array
    gradient: Array
    variance: float
    curvature: tuple[Array, float] | None
    """The curvature there with the variance of an entry, if it is another one than the latest."""


class AdditiveSearch(ShapeBelief):
    """A belief about effects that one opening after another moves.

    Parameters
    ----------
    prior
        What is believed at first.
    features
        The coded columns, the constant first.
    moments
        The noisy Gram matrix, of features and target.
    target
        Weights over the columns of ``moments`` that make 0 or 1 of the target.
    secants
        Whether later gradients correct the curvature. Where they are mostly noise they had better not.
    """

    def __init__(
        self, prior: ShapePrior, features: Sequence[Feature], moments: Moments, target: Array, *, secants: bool
    ) -> None:
        super().__init__(prior, features, moments)
        self._secants = secants
        self._lows: tuple[Array, float] | None = None
        self._opened: tuple[Array, float] | None = None
        self._seen: list[_Seen] = []
        self.tables: OpenedTables | None = None
        events = float(moments.matrix[0] @ target)
        self._begin(self._noisy_people(), events, *self._moment_gradient(target, events))
        self.weights = self._solved()
        self._rounds = 0

    @property
    def next_weights(self) -> Array:
        """The weights at which the next round is to be opened."""
        if self._rounds not in (FIRST_TABLE, SECOND_TABLE):
            return self.weights
        probe = np.zeros(self._prior.size)
        probe[0] = PROBE if self._rounds == SECOND_TABLE else -PROBE
        return probe

    def see(self, opened: Array | None, variance: float) -> None:
        """Take in what the next round opened, with noise of this variance per entry; ``None`` if that was lost.

        First a table, then the curvature as a matrix, off its diagonal of this variance, then the other table and the gradients.
        """
        number, self._rounds = self._rounds, self._rounds + 1
        if number == CURVATURE:
            self._opened = None if opened is None else (opened, variance)
        elif number == FIRST_TABLE:
            self._lows = None if opened is None else (opened, variance)
        elif number == SECOND_TABLE:
            if opened is not None and self._lows is not None:
                self._take_tables(OpenedTables(self._lows[0], opened, (self._lows[1], variance)))
            self._take_curvature()
        elif opened is not None:
            self._take_gradient(opened, variance)

    def result(self) -> AdditiveFit:
        """Return what it came to."""
        return self._fit(self.tables, self._seen[-1].at)

    # Where it begins ----------------------------------------------------------------------------------------------------

    def _moment_gradient(self, target: Array, events: float) -> tuple[Array, float]:
        products = (self._moments.matrix @ target)[self._kept_places]
        variance = float(np.mean((self._moments.variance @ target**2)[self._kept_places]))
        share = self._share_of(events)
        return share * self._noisy_people() - products, variance

    def _share_of(self, events: float) -> float:
        return float(np.clip(events / self._moments.count, SMALLEST_SHARE, 1 - SMALLEST_SHARE))

    def _begin(self, people: Array, events: float, gradient: Array, variance: float) -> None:
        """Start from a constant score, with the gradient there."""
        share = self._share_of(events)
        self._people, self._weight = people, share * (1 - share)
        self._base = np.zeros(self._prior.size)
        self._base[0] = np.log(share) - np.log1p(-share)
        self._blended, self._kept = self._blended_gram(people)
        self._curvature = self._weight * self._blended
        self._uncertain = float(np.mean(self._weight**2 * self._kept**2 * self._gram_variance * self._cross))
        self._seen = [_Seen(self._base, gradient, variance, (self._curvature, self._uncertain))]
        self.weights = self._base

    # What is opened later -------------------------------------------------------------------------------------------------

    def _take_tables(self, tables: OpenedTables) -> None:
        """Start again from the tables, with the Gram matrix's counts for what they are worth."""
        self.tables = tables
        rows, others = self._gram[0], np.maximum(self._gram_variance[0], 1e-12)
        part = others / (others + tables.people_variance)
        part[0] = 0.0
        people = part * tables.people + (1 - part) * rows
        variance = float(np.mean((part * tables.people_variance)[1:]))
        events = float(tables.events[0])
        self._forget()
        self._begin(self._adding_up(people, variance), events, *tables.gradient(self._share_of(events)))
        self.weights = self._solved()

    def _take_curvature(self) -> None:
        """Replace the curvature by the opened one, as far as it differs from a multiple of the Gram matrix by more than noise."""
        usual, gram = WEIGHT_RATIO * self._weight, self._blended
        factor, kept, noise = usual, 0.0, np.zeros_like(gram)
        apart = np.zeros_like(gram)
        if self._opened is not None:
            opened = np.where(self._single, 0.0, self._opened[0])
            noise = np.where(self._single, 0.0, self._opened[1] * (1 + np.eye(len(gram))))
            length = float(np.sum(gram * gram))
            error = float(np.sum(noise * gram**2)) / length**2
            spread = (WEIGHT_SPREAD * self._weight) ** 2
            factor = (float(np.sum(opened * gram)) / length * spread + usual * error) / (spread + error)
            apart = opened - factor * gram
            kept = float(np.clip(1 - np.sum(noise) / max(float(np.sum(apart**2)), 1e-300), 0.0, 1.0))
        self._curvature = self._proper(factor * gram + kept * apart)
        old = (1 - kept) ** 2 * factor**2 * self._kept**2 * self._gram_variance * self._cross
        self._uncertain = float(np.mean(kept**2 * noise + old))

    def _take_gradient(self, gradient: Array, variance: float) -> None:
        last = self._seen[-1]
        if self._secants and last.curvature is None:
            self._curvature = secant_update(
                self._curvature, self.weights - last.at, gradient - last.gradient, variance + last.variance
            )
        self._seen.append(_Seen(self.weights, gradient, variance, None))
        step = self._solved() - self.weights
        length = np.sqrt(max(float(step @ self._curvature @ step), 0.0) / self._moments.count)
        self.weights = self.weights + step * min(1.0, LONGEST / max(length, 1e-12))

    # The belief -------------------------------------------------------------------------------------------------------------

    def _reading(self, weights: Array) -> tuple[Array, float]:
        """Return all gradients as one, read as curvature times effects plus noise; and the variance of that noise.

        A gradient from elsewhere is taken along its slope to ``weights``, and counts less for it.
        """
        found, precision = np.zeros(self._prior.size), 0.0
        for seen in self._seen:
            slope, uncertain = seen.curvature or (self._curvature, self._uncertain)
            moved = weights - seen.at
            change = slope @ moved
            doubt = LINEARISATION * float(change @ change) / len(change) + uncertain * float(moved @ moved)
            trust = 1 / max(seen.variance + doubt, 1e-12)
            found += trust * (seen.gradient + change)
            precision += trust
        return self._curvature @ (weights - self._base) - found / precision, 1 / precision
