"""Regressions and additive models by Newton steps on secret shares, seen from the coordinator.

First a Gram matrix of all columns and the target is opened (`GramRelease`), to start from. Then, for each class, the parties take
rounds at weights that the coordinator publishes: some open the curvature, each other one a gradient
(`colonnade.steps.newton`). What is opened is read by `colonnade.estimation.newton`. Proof: docs/proofs/newton.md.

A target of two levels is one class. With more, every class is fitted against the rest, has rounds of its own and pays for them.

An opened gradient is F·γ·Σ r·x plus noise, a curvature F·γ²·Σ w·x·xᵀ plus noise, γ the scale of rows and F that of the link. The
constant column comes first among the columns of the party that holds the target.

*Additive models* take the same rounds, on columns that are read in bins or levels. Only what the coordinator makes of them
differs (`colonnade.estimation.additive`): the first two gradients are tables of every column with the target, and shapes are
smooth. A row holds zeros and ones, so it needs no fixed-point scale.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.coordinator.driver import Relay, conclude_all, shares_of
from colonnade.coordinator.protocols.moment_releases import (
    GramRelease,
    StandardisedMoments,
    Standardising,
    standardised_terms,
)
from colonnade.errors import BadInput, ProtocolError, SchemaMismatch
from colonnade.estimation.additive import FEW_PRODUCTS, FIRST_TABLE, STEPS, TABLES, AdditiveSearch
from colonnade.estimation.moments import Moments
from colonnade.estimation.newton import (
    Division,
    NewtonClass,
    NewtonPrices,
    NewtonSearch,
)
from colonnade.estimation.shape_belief import AdditiveFit, ShapePrior
from colonnade.families import DEFAULT, WINDOW
from colonnade.families.family import Family
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Price, Unit
from colonnade.privacy.laws.gram import GramNoise
from colonnade.protocol.messages import Conclude, Opened, Recall, Released, Reply, Rounds, pack
from colonnade.schema import Column, ColumnName, Feature, coded_widths, columns_at, features_of, parties_of
from colonnade.secure.shamir import reconstruct
from colonnade.steps.kind import LARGEST_SHORT_SCALE, valid_scale
from colonnade.steps.newton import NewtonSteps, NewtonTerms, Phase, family_term

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

SCALE, LARGE_SCALE, LARGE = 256, 128, 150_000
"""γ by default, for up to `LARGE` people and for more: far below the noise, and products of two columns fit into six bytes."""
START_SCALE, MANY = 128, 25_000
"""The largest γ of the moments to start from, for more than `MANY` people: their entries fit into four bytes up to some 100,000
people. Steps do not start from a better place with finer rows."""
FINEST = 2.0**20
"""Weights are published in multiples of one part of this."""
NOTHING: Integers = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class NewtonFit:
    """The result of a study.

    Parameters
    ----------
    features
        The coded columns, the constant one first.
    classes
        One for two levels, else one per level.
    columns
        The columns as they were read, the target among them.
    """

    features: tuple[Feature, ...]
    classes: tuple[NewtonClass, ...]
    columns: Mapping[str, Column]


@dataclass(frozen=True)
class NewtonStudy:
    """The study: open moments, then take the rounds of every class.

    Parameters
    ----------
    columns
        ``"party.column"`` to its description, in the federation's order, the target among them; of two parties or more.
    target
        What the family takes as its target.
    price
        The price of everything together; δ must be positive.
    people
        The number of people.
    division
        How the price is divided.
    window
        Of the link.
    scale
        γ.
    family
        What is fitted.
    standardising
        The release by which numbers are standardised, out of the same price.
    """

    columns: Mapping[str, Column]
    target: str
    price: Price
    people: int
    division: Division
    window: int = WINDOW
    scale: int = SCALE
    family: Family = DEFAULT
    standardising: Standardising | None = None

    def __post_init__(self) -> None:
        self.family.require_target(self.target, self._aimed)
        if len(self.parties) < 2:
            raise BadInput(
                "Newton steps on shares take columns of at least two parties.",
                remedy="Name columns of another party too.",
            )
        if len(self.columns) < 2:
            raise BadInput(
                "A regression needs a column besides its target.",
                remedy='Name at least one more column: columns=["bank.age", ...].',
            )
        if self.price.delta == 0:
            raise BadInput(
                "method='newton' needs a positive delta.",
                remedy="For example delta=1e-6, well below 1/people; for delta=0 use method='functional'.",
            )
        valid_scale(self.scale, LARGEST_SHORT_SCALE, example="method=cn.methods.Newton(scale=4096)")
        self.family.link(self.window)

    @property
    def parties(self) -> tuple[str, ...]:
        """The parties whose columns enter, in the federation's order."""
        return parties_of(self.columns)

    @property
    def features(self) -> tuple[Feature, ...]:
        """The coded columns, the constant one first."""
        return features_of({name: column for name, column in self.columns.items() if name != self.target})

    @property
    def levels(self) -> tuple[int, ...]:
        """The levels of the target that have rounds of their own."""
        return self.family.levels(self._aimed)

    @cached_property
    def gram(self) -> GramRelease:
        """The moments to start from."""
        signed = () if self._aimed.is_number or self._aimed.size > 2 else (self.target,)
        scale = self.scale if self.people <= MANY else min(self.scale, START_SCALE)
        return GramRelease(self.columns, self._prices.gram, signed, scale=scale, standardising=self.standardising)

    def steps(self) -> tuple[Step, ...]:
        """Return each party's part in the moments and in the rounds of every class."""
        rounds = tuple(self._step(party, level) for level in self.levels for party in self.parties)
        return (*self.gram.steps(), *rounds)

    def rounds(self, plan: Plan) -> Rounds:
        """Open the moments, take all rounds, or return what the parties have kept of them."""
        opened = yield from self.gram.rounds(plan)
        moments, read = opened, self
        if isinstance(opened, StandardisedMoments):
            moments, read = opened.moments, replace(self, columns=opened.columns)
        classes = []
        for level in self.levels:
            found = yield from read._class(plan, level, moments)  # noqa: SLF001  # its own class
            classes.append(found)
        return NewtonFit(read.features, tuple(classes), read.columns)

    def gradient_deviation(self, terms: NewtonTerms) -> float:
        """Return the standard deviation of the noise in one entry of the last gradient, a sum over people."""
        last = terms.noise.last_step
        return float(np.sqrt(terms.noise.variance(last))) / terms.unit(last)

    # One class ----------------------------------------------------------------------------------------------------------

    def _reader(self, terms: NewtonTerms, moments: Moments, level: int) -> "RoundReader":
        """Return the reader that turns opened numbers into weights."""
        return _NewtonReader(self, terms, moments, level)

    def _class(self, plan: Plan, level: int, moments: Moments) -> Rounds:
        name = step_name(level)
        terms = NewtonTerms.read(plan, name)
        reader = self._reader(terms, moments, level)
        kept = yield {member: Recall(plan=plan, step=name) for member in terms.members}
        found = [reply for reply in kept.values() if isinstance(reply, Released)]
        if found:
            yield from conclude_all(plan, name, kept, found[0].values)
            for number, opened in enumerate(_unframed(found[0].array("opened").astype(np.int64))):
                reader.see(number, opened)
            return reader.result()
        while _opened_by_all(terms, kept):
            reader.see(len(reader.opened), _opened(terms, len(reader.opened), kept))
            if len(reader.opened) == terms.rounds:
                break
            kept = yield {node: Recall(plan=plan, step=name, tile=len(reader.opened)) for node in terms.nodes}
        yield from self._take_rounds(plan, name, terms, reader)
        values = {"opened": pack(_framed(reader.opened))}
        yield {member: Conclude(plan=plan, step=name, values=values) for member in terms.members}
        return reader.result()

    def _take_rounds(self, plan: Plan, name: str, terms: NewtonTerms, reader: "RoundReader") -> Rounds:
        """Take the rounds that not all nodes have kept."""
        relay = Relay(plan, name, terms.members)
        for number in range(len(reader.opened), terms.rounds):
            if not relay.next_turn:
                yield from relay.greet()
                for _ in (*terms.chunks, None):
                    yield from relay.turn()
                relay.next_turn = terms.first_turns[number]
            inputs = {"weights": pack(reader.weights())}
            for turn in terms.round_turns(number):
                if turn.phase != Phase.OPEN:
                    yield from relay.turn(inputs)
                    inputs = {}
            replies = yield from relay.last()
            reader.see(number, _opened(terms, number, replies))

    # Steps --------------------------------------------------------------------------------------------------------------

    @property
    def _aimed(self) -> Column:
        return self.columns[self.target]

    @cached_property
    def _prices(self) -> NewtonPrices:
        price = self.price if self.standardising is None else self.standardising.rest
        return self.division.prices(price, len(self.levels))

    def aim(self, moments: Moments, level: int) -> Array:
        """Return weights over the columns of the moments that add up to the target, read at a level."""
        target = np.zeros(len(moments.features))
        target[0], target[moments.places([self.target])] = self.family.aim(self._aimed, level)
        return target

    @property
    def holder(self) -> str:
        """Who holds the target."""
        return ColumnName.of(self.target).party

    @property
    def order(self) -> NDArray[np.intp]:
        """Where each feature stands among the columns of a run: the constant is first at the target's holder."""
        before = self.parties[: self.parties.index(self.holder)]
        constant = sum(coded_widths(self.features)[party] for party in before)
        places = np.delete(np.arange(len(self.features)), constant)
        return np.append(constant, places).astype(np.intp)

    @cached_property
    def _most_levels(self) -> tuple[str, tuple[int, int]] | None:
        """Who has the category with most levels, and where they begin among that party's columns; and how many there are."""
        found: dict[str, tuple[str, tuple[int, int]]] = {}
        ends = {party: int(party == self.holder) for party in self.parties}
        for feature in self.features[1:]:
            if feature.kind == "level":
                start, width = found[feature.column][1] if feature.column in found else (ends[feature.party], 0)
                found[feature.column] = (feature.party, (start, width + 1))
            ends[feature.party] += 1
        return max(found.values(), key=lambda block: block[1][1], default=None)

    def _step(self, party: str, level: int) -> Step:
        own = columns_at(party, self.columns)
        target = ColumnName.of(self.target).column if party == self.holder else ""
        levels = self._most_levels
        saved, standardised = standardised_terms(self.standardising, party, self.scale)
        return NewtonSteps.ask(
            name=step_name(level),
            party=party,
            columns=own,
            parameters={
                "scale": self.scale,
                "row_bound": self.scale**2 * len(own) - saved,  # the constant column takes the target's place in it
                "width": coded_widths(self.features).get(party, 0) + bool(target),
                "target": target,
                "level": level,
                "levels": levels[1] if levels is not None and levels[0] == party else (),
                **family_term(self.family),
                "window": self.window,
                "parts": self.division.parts,
                **standardised,
                **({} if self.division.curvatures == (1,) else {"curvatures": self.division.curvatures}),
            },
            price=self._prices.rounds,
        )


def default_scale(people: int) -> int:
    """Return γ for a number of people.

    Examples
    --------
    >>> default_scale(50_000), default_scale(1_000_000)
    (256, 128)
    """
    return SCALE if people <= LARGE else LARGE_SCALE


def step_name(level: int) -> str:
    """Return what the rounds of a class are called in a plan."""
    return f"newton {level}"


class RoundReader:
    """What has been opened of one class, and a search that it drives. The same openings give the same weights.

    Parameters
    ----------
    study, terms
        The study, and the terms of its rounds.
    """

    def __init__(self, study: NewtonStudy, terms: NewtonTerms) -> None:
        self.opened: list[Integers] = []
        self._terms = terms
        self._order = study.order

    def weights(self) -> Array:
        """Return the weights of the next round, in the order of the run's columns: short numbers, alike on any machine."""
        found = np.round(self._next() * FINEST) / FINEST
        ordered = np.empty_like(found)
        ordered[self._order] = found
        return ordered

    def see(self, number: int, opened: Integers) -> None:
        """Take in what a round opened; nothing if that was lost."""
        self.opened.append(opened)
        unit, variance = self._terms.unit(number), self._terms.noise.variance(number)
        if opened.size not in (0, self._terms.noise.entries_of(number)):
            raise ProtocolError(
                f"Round {number} opened {opened.size} numbers; the plan says {self._terms.noise.entries_of(number)}."
            )
        found = None
        if opened.size:
            found = self._whole(opened / unit) if self._terms.bends(number) else (opened / unit)[self._order]
        self._take(number, found, variance / unit**2)

    def result(self) -> Any:
        """Return the result."""
        raise NotImplementedError

    def _next(self) -> Array:
        """Return the weights of the next round, the constant's first."""
        raise NotImplementedError

    def _take(self, number: int, opened: Array | None, variance: float) -> None:
        """Take in the curvature or a gradient, the constant first, with noise of this variance per entry."""
        raise NotImplementedError

    def _whole(self, triangle: Array) -> Array:
        whole = np.zeros((self._terms.columns, self._terms.columns))
        whole[np.triu_indices(len(whole))] = triangle
        whole = whole + np.triu(whole, 1).T
        return whole[np.ix_(self._order, self._order)]


class _NewtonReader(RoundReader):
    """Weights that come near to what the same people give without noise."""

    def __init__(self, study: NewtonStudy, terms: NewtonTerms, moments: Moments, level: int) -> None:
        super().__init__(study, terms)
        explaining = [name for name in study.columns if name != study.target]
        aim, places = study.aim(moments, level), np.append(0, moments.places(explaining))
        products, variance = (moments.matrix @ aim)[places], (moments.variance @ aim**2)[places]
        self._search = NewtonSearch(study.family, moments.select(explaining), products, variance, study.window)

    def result(self) -> NewtonClass:
        """Return the result."""
        return self._search.result()

    def _next(self) -> Array:
        return self._search.weights

    def _take(self, number: int, opened: Array | None, variance: float) -> None:
        if opened is None:
            return
        if self._terms.bends(number):
            self._search.bend(opened, variance)
        else:
            self._search.see(opened, variance)


def _opened(terms: NewtonTerms, number: int, replies: Mapping[str, Reply]) -> Integers:
    shares = shares_of(terms.nodes, replies, terms.noise.entries_of(number))
    return reconstruct(terms.arithmetic, shares, degree=2 * terms.threshold, bound=terms.bound(number))


def _opened_by_all(terms: NewtonTerms, kept: Mapping[str, Reply]) -> bool:
    return all(isinstance(kept[node], Opened) for node in terms.nodes)


def _framed(opened: list[Integers]) -> Integers:
    return np.concatenate([np.append(np.int64(len(one)), one) for one in opened])


def _unframed(whole: Integers) -> list[Integers]:
    found, place = [], 0
    while place < whole.size:
        stop = place + 1 + int(whole[place])
        if not place < stop <= whole.size:
            raise ProtocolError("What was kept of earlier rounds is cut short.")
        found.append(np.asarray(whole[place + 1 : stop]))
        place = stop
    return found


def row_bounds(columns: Mapping[str, Column]) -> dict[str, int]:
    """Return the squared length of each party's row: one of every column's indicators is on."""
    return {party: len(columns_at(party, columns)) for party in parties_of(columns)}


def chosen_division(
    bounds: Mapping[str, int], price: Price, people: int, unit: Unit, collusion: int, classes: int = 1
) -> Division:
    """Return how to divide a price: mostly on tables, if products of columns would be lost in noise.

    Parameters
    ----------
    bounds
        `row_bounds` of all columns, the target among them.
    price, unit, collusion
        What is offered, what it protects, and against how many colluding parties.
    people
        How many there are.
    classes
        How many classes have rounds of their own.

    Examples
    --------
    >>> bounds = {"bank": 4, "telco": 4, "insurer": 4}
    >>> [chosen_division(bounds, Price.of(epsilon, 1e-6), 40_000, "person", 1) is TABLES for epsilon in (0.1, 1.0)]
    [True, False]
    """
    noise = GramNoise(bounds, 1, sum(bounds.values()), STEPS.prices(price, classes).gram, unit, collusion)
    return TABLES if np.sqrt(noise.opened_variance) > FEW_PRODUCTS * people else STEPS


@dataclass(frozen=True)
class AdditiveStudy(NewtonStudy):
    """The study: open moments, then tables and steps.

    Parameters
    ----------
    columns
        ``"party.column"`` to what it is read as, in the federation's order: categories and bins, the target among them.
    target
        A category. With more than two levels each of them has tables, steps and shapes of its own, against the rest.
    price, people, division, window
        As of Newton steps.
    smooth
        How smooth shapes are, where it is not found from the release (`ShapePrior.of`).
    """

    scale: int = 1
    smooth: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        numbers = [name for name, column in self.columns.items() if column.is_number]
        if numbers:
            raise SchemaMismatch(
                f"An additive model takes columns in bins, and {numbers[0]!r} is not.",
                remedy="Read it in bins: federation.read_as({...}).",
            )

    @property
    def tables_first(self) -> bool:
        """Whether nearly all of the price goes to tables and gradients."""
        return self.division == TABLES

    def table_deviation(self, terms: NewtonTerms) -> float:
        """Return the standard deviation of the noise in a count of people with the event."""
        return float(np.sqrt(terms.noise.variance(FIRST_TABLE))) / terms.unit(FIRST_TABLE)

    def _reader(self, terms: NewtonTerms, moments: Moments, level: int) -> "RoundReader":
        return _AdditiveReader(self, terms, moments, level)


class _AdditiveReader(RoundReader):
    """Shapes, from tables and steps."""

    def __init__(self, study: AdditiveStudy, terms: NewtonTerms, moments: Moments, level: int) -> None:
        super().__init__(study, terms)
        prior = ShapePrior.of(study.features, study.columns, study.smooth)
        self._search = AdditiveSearch(
            prior, study.features, moments, study.aim(moments, level), secants=not study.tables_first
        )

    def result(self) -> AdditiveFit:
        """Return the result."""
        return self._search.result()

    def _next(self) -> Array:
        return self._search.next_weights

    def _take(self, number: int, opened: Array | None, variance: float) -> None:  # noqa: ARG002  # rounds come in order
        self._search.see(opened, variance)
