"""Second moments that are opened on shares: a Gram matrix, its variant on a union of lists, and a regression's coefficients.

All three are read as `Moments`. The Gram matrix is Algorithms 1 to 3 of Secure PCA (docs/references.md#secure-pca;
docs/proofs/gram.md, docs/proofs/union-moments.md). The coefficients are Algorithm 1 of Functional mechanism across parties (Xu,
Yuan, Wu, 2021; docs/references.md#functional): a regression's objective, opened with Laplace noise at a pure ε, in one round.

Our coefficients differ from the paper's in four ways (docs/proofs/coefficients.md). Each symmetric pair is opened once, and
nothing that the coding already says is opened. The sensitivity follows from what the schema says about a row. Noise enters as
shares before anything is opened, so no party sees an exact coefficient between two parties. A noisy curvature is repaired by
what is known about its noise (`pooled_correlations`, `NormalEquations`), never by a second draw.

Coded columns are columns after scaling to [−1, 1], or indicators of levels. Matrices here are sums of products of coded columns.

What a wide matrix takes of this machine, before anything is asked: memory, and an order of magnitude of time.

Formulas from the widths alone, so that a preview answers at once, and a study that would not fit is refused before anybody has
paid for it. The time is for two cores like those of docs/explanation/scale.md, everything in this process or not.

Standardised columns, seen from the coordinator: the first release of a study, and what its other steps say about it.

How a number is read by that release is said in `colonnade.steps.spreads`. How far values reach before they are clipped is said by
`reach_of`.
"""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Literal, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colonnade.coordinator.driver import Driver, Findings, JointResult, StudyRecord, open_in_tiles, open_jointly
from colonnade.errors import BadInput
from colonnade.estimation.moment_summaries import MomentSummary, PairEstimates
from colonnade.estimation.moments import (
    MatrixNoise,
    Moments,
    WideMoments,
    WideReader,
    coefficient_moments,
    coefficient_variance,
    gram_variance,
    opened_gram,
    union_moments,
    union_variance,
)
from colonnade.plan import Parameter, Plan, Step
from colonnade.privacy.accounting import Price, Unit
from colonnade.privacy.calibration import ledger_rho, price_of_rho
from colonnade.privacy.laws import NoiseFamily
from colonnade.privacy.laws.coefficients import Holding, emphasis_for
from colonnade.privacy.laws.gram import GramNoise
from colonnade.protocol.messages import Rounds, ask_all, planned_value
from colonnade.schema import (
    Column,
    ColumnName,
    Feature,
    coded_widths,
    columns_at,
    features_of,
    parties_of,
    with_indicators,
)
from colonnade.secure.shamir import rectangles
from colonnade.steps import products
from colonnade.steps.kind import TILE_ENTRIES, Joint, read_joint, valid_scale
from colonnade.steps.registry import STUDIES
from colonnade.steps.spreads import SPREADS, Spreads, centred_columns, number_bound

SPREADS_PARTS = 10
"""The release has one part of the price in so many."""


class Rule(NamedTuple):
    """How a method's reach follows from its noise: ``factor`` times the ``power`` of people per unit of noise.

    ``products``: whether sums of products of two columns are opened, whose noise grows with the squared length of a row.
    """

    factor: float
    power: float
    products: bool = False


GRADIENTS = Rule(0.03, 1 / 2)
"""For sums of residuals times columns: noise in a coefficient grows with the reach."""
PRODUCTS = Rule(0.4, 1 / 3, products=True)
"""For sums of products of two columns: noise grows with its square."""
LEAST_REACH = 2.0
"""However large the noise is: of a normal column one value in twenty lies beyond."""
TYPICAL = 1.5
"""Beside one number at its reach, how many spreads a row has room for in each other one."""


def reach_of(rule: Rule, columns: Mapping[str, Column], price: Price, people: int, collusion: int) -> float:
    """Return how many spreads from its mean a number is clipped.

    Clipping moves a slope by about the share of a column's variance that lies beyond the reach r. With a third moment that is at
    most E|z|³/r. Noise moves it in proportion to r in a gradient, and to r² in a matrix of products, where the target is clipped
    too. The sum of squares of both is least at r = c·(n/σ)^p, with n people, noise of deviation σ in a sum in which every row
    has its full length, and p = 1/2 for a gradient and 1/3 for a matrix. c is from simulated tables (benchmarks/standardising).

    Parameters
    ----------
    rule
        The method's.
    columns
        All columns of the study.
    price, people
        Of the whole study.
    collusion
        How many parties the noise covers.

    Examples
    --------
    >>> from colonnade.schema import Numeric
    >>> columns = {f"{owner}.{name}": Numeric(0, 1) for owner in "abc" for name in "xyz"}
    >>> [round(reach_of(GRADIENTS, columns, Price.of(epsilon, 1e-6), 50_000, 1), 1) for epsilon in (0.1, 1, 10, 100)]
    [2.0, 2.0, 4.6, 10.9]
    """
    parties = len(parties_of(columns))
    rows = 1 + len(columns)
    shares = parties / max(parties - min(collusion, parties - 1), 1)
    deviation = math.sqrt(shares / float(2 * ledger_rho(price)))
    deviation *= rows / math.sqrt(2) if rule.products else math.sqrt(rows)
    return round(max(LEAST_REACH, rule.factor * math.pow(people / deviation, rule.power)), 3)


@dataclass(frozen=True)
class Standardising:
    """The release of means and spreads.

    Parameters
    ----------
    columns
        ``"party.column"`` to its description: the numbers that are standardised, in the federation's order.
    whole
        The price of the study of which this is the first release; δ is positive.
    unit
        What the price protects.
    people
        How many there are.
    reach
        How many spreads from its mean a number is clipped.
    """

    columns: Mapping[str, Column]
    whole: Price
    unit: Unit
    people: int
    reach: float

    @classmethod
    def of(cls, columns: Mapping[str, Column], whole: Price, unit: Unit, people: int, reach: float) -> Self | None:
        """Return the release of the numbers among some columns; ``None`` if there are none."""
        numbers = {name: column for name, column in columns.items() if column.is_measured}
        return cls(numbers, whole, unit, people, reach) if numbers else None

    @cached_property
    def prices(self) -> dict[str, Price]:
        """What each party is offered for its release.

        Where a person's records add up, the part is divided in proportion to columns. So every sum has the same noise.
        """
        counts = {party: len(columns_at(party, self.columns)) for party in parties_of(self.columns)}
        if self.unit == "party":
            counts = dict.fromkeys(counts, len(self.columns))
        unit = self._unit
        return {party: price_of_rho(unit * count, self.whole.delta) for party, count in counts.items()}

    @property
    def rest(self) -> Price:
        """What is left for the other steps of the study."""
        return price_of_rho(self._unit * (SPREADS_PARTS - 1) * len(self.columns), self.whole.delta)

    @cached_property
    def _unit(self) -> Fraction:
        return ledger_rho(self.whole, SPREADS_PARTS * len(self.columns))

    def steps(self) -> tuple[Step, ...]:
        """Return each party's release."""
        return tuple(
            Spreads.ask(name=SPREADS, party=party, columns=columns_at(party, self.columns), price=price)
            for party, price in self.prices.items()
        )

    def norm(self, party: str) -> float:
        """Return the largest sum of squares of a party's coded numbers: one at its reach, the others typical."""
        others = len(columns_at(party, self.columns)) - 1
        return round(1 + others * min(1.0, (TYPICAL / self.reach) ** 2), 6)

    def parameters(self, party: str) -> dict[str, Parameter]:
        """Return what a later step of a party says about it; nothing where the party has no number."""
        if party not in self.prices:
            return {}
        return {"standardised": SPREADS, "reach": self.reach, "norm": self.norm(party)}

    def saved(self, party: str, scale: int) -> int:
        """Return by how much it lowers the bound on the squared length of a party's rows."""
        count = len(columns_at(party, self.columns))
        return scale**2 * count - number_bound(self.norm(party), scale) if count else 0

    def words(self) -> dict[str, str]:
        """Return what a preview says about it."""
        reach = f"{self.reach:.3g} spreads of its mean"
        return {
            "numbers": f"read within {reach}; at which values they are clipped is not known before the first release"
        }

    def rounds(self, plan: Plan) -> Rounds:
        """Ask for the release, and return the numbers as later steps read them."""
        releases = yield from ask_all(plan, SPREADS)
        found: dict[str, Column] = {}
        for party, release in releases.items():
            own = {name: column for name, column in self.columns.items() if ColumnName.of(name).party == party}
            step = plan.step(party, SPREADS)
            assert step.price is not None  # it was planned so
            variance = Spreads.noise_of(step.price, len(own)).variance
            value = planned_value(release, (2 * len(own),), "int64")
            found |= centred_columns(own, value, self.people, variance, self.reach, self.norm(party))
        return found


def standardised_terms(by: Standardising | None, party: str, scale: int) -> tuple[int, dict[str, Parameter]]:
    """Return by how much a party's row bound falls, and what its step says about that; nothing where columns are as declared."""
    return (0, {}) if by is None else (by.saved(party, scale), by.parameters(party))


def clipped_columns(read: Mapping[str, Column], declared: Mapping[str, Column]) -> dict[str, Column]:
    """Return the columns whose values were clipped to narrower bounds than declared, with these bounds."""
    found = {name: column.underlying for name, column in read.items() if column.is_centred}
    return {name: column for name, column in found.items() if column != declared[name]}


GIGABYTE = 1e9
WORD = 8
BASE = 700_000_000
"""What a process with compiled kernels takes before it has read a row."""
PER_COLUMN = 40_000
"""What a column's description and its place in plans take, in all members."""
DRAWN, MULTIPLIED, DEALT, OPENED, SOLVED = 25e-9, 0.5e-9, 60e-9, 120e-9, 400 * 0.4e-9
"""Processor seconds per drawn number, product, dealt number, opened number, and entry of the matrix in the solver."""
PRIMES = 3
CORES = 2


@dataclass(frozen=True)
class Load:
    """How long something takes, in seconds, and how much memory, in bytes; the latter within a third or so."""

    seconds: float
    memory: float

    def words(self) -> dict[str, str]:
        """Return it in words, for a preview."""
        minutes, seconds = self.seconds / 60, self.seconds
        lasts = f"{minutes:,.0f} min" if minutes > 2 else f"{seconds:,.0f} s"
        return {
            "time": f"about {lasts} on two cores; more where members are far apart",
            "memory": f"about {self.memory / GIGABYTE:.2g} GB in this process",
        }


def gram_load(widths: Mapping[str, int], people: int, *, lean: bool, together: bool) -> Load:
    """Return what a Gram matrix takes, by each party's number of coded columns.

    Parameters
    ----------
    widths, people
        Coded columns by party, and how many rows.
    lean
        Whether it is held once (`WideMoments`), not as several whole matrices.
    together
        Whether the members are in this process too, as in a simulation.
    """
    columns = sum(widths.values())
    entries = sum(one.entries for one in rectangles(list(widths.values())))
    own = sum(width * (width + 1) // 2 for width in widths.values())
    nodes = max(3, len(widths))
    at_once = entries if entries + own <= (1 << 25) else min(entries, TILE_ENTRIES)
    matrix = WORD * columns**2 * (0.55 if lean else 12)
    coordinator = BASE + PER_COLUMN * columns + matrix + WORD * at_once * (2 * nodes + 4)
    member = WORD * (9 * at_once + people * columns + 2 * own / len(widths))
    seconds = (
        DRAWN * (len(widths) * entries + own)
        + MULTIPLIED * nodes * entries * people * PRIMES
        + DEALT * len(widths) * entries * nodes / 3
        + OPENED * (nodes * entries + own)
        + SOLVED * columns**2
    )
    return Load(seconds / CORES + 5, coordinator + (nodes * member if together else 0))


def available_memory() -> float | None:
    """Return how many bytes this process may still take; ``None`` where the system does not say."""
    limits = []
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        limits += [1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
        limits.append(float(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):  # another system, or a container without a limit
        if not limits and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
            limits.append(float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")))
    return min(limits, default=None)


def require_memory(load: Load, columns: int) -> None:
    """Refuse what would not fit into the memory that is free here, before anything is spent."""
    free = available_memory()
    if free is None or load.memory <= free:
        return
    fitting = int(columns * (max(free - BASE, 0.0) / (load.memory - BASE)) ** 0.5) // 100 * 100
    raise BadInput(
        f"A matrix of {columns:,} columns would take about {load.memory / GIGABYTE:.2g} GB of memory here, and "
        f"{free / GIGABYTE:.2g} GB are free.",
        remedy=f"Name fewer columns, at most about {max(fitting, 100):,}, or run the study where there is more memory.",
    )


DEFAULT_SCALE = {"gaussian": 4096, "skellam": 64}
"""γ: a coded column takes 2γ + 1 values. Skellam noise has a coarser grid, since it is drawn exactly up to a mean of 2⁵²."""

Array = NDArray[np.float64]


class StandardisedMoments(NamedTuple):
    """Moments, and the columns that they are of as they were read."""

    moments: Moments
    columns: Mapping[str, Column]


@dataclass(frozen=True)
class GramRelease:
    """One joint opening of second moments.

    Secure PCA, Algorithm 2. We differ from the paper in the noise (discrete Gaussian shares that tolerate colluders; Skellam
    on request), in its weights (half the variance off the diagonal, for free), in the rounding (to nearest, with a row bound
    that holds for every row) and in centring, which is part of the release: column sums are one more column, and nothing is
    preprocessed by the data (docs/proofs/gram.md).

    Parameters
    ----------
    columns
        ``"party.column"`` to its description, in the federation's order; of two parties or more.
    price
        The price of the opening; δ must be positive.
    signed
        Two-level categories coded as one ±1 column.
    noise
        ``"gaussian"`` or ``"skellam"``.
    scale
        γ; by default 4,096 (64 for Skellam).
    row_norms
        Party to the length to which it clips its coded rows; by default nothing needs clipping.
    standardising
        The release by which numbers are standardised; its price is not in ``price``.
    """

    columns: Mapping[str, Column]
    price: Price
    signed: tuple[str, ...] = ()
    noise: NoiseFamily = "gaussian"
    scale: int | None = None
    row_norms: Mapping[str, float] | None = None
    standardising: Standardising | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.noise, str) or self.noise not in DEFAULT_SCALE:
            raise BadInput("noise must be 'gaussian' or 'skellam'.", remedy='For example noise="gaussian".')
        if len(self.parties) < 2:
            raise BadInput(
                "A secure Gram matrix takes columns of at least two parties.",
                remedy="Name columns of another party too; one party alone needs no federation.",
            )
        if self.price.delta == 0:
            raise BadInput(
                "Secure moments need a positive delta.",
                remedy="For example delta=1e-6, well below 1/people.",
            )
        valid_scale(self.gamma)
        norms = {} if self.row_norms is None else self.row_norms
        if (
            not isinstance(norms, Mapping)
            or set(norms) - set(self.parties)
            or any(not is_positive(norm) for norm in norms.values())
        ):
            raise BadInput(
                "row_norms maps parties of the study to positive lengths.",
                remedy=f"For example row_norms={{'{self.parties[0]}': 1.0}}. The study's parties are {', '.join(self.parties)}.",
            )

    @cached_property
    def parties(self) -> tuple[str, ...]:
        """The parties whose columns enter, in the federation's order."""
        return parties_of(self.columns)

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        """The coded columns, the constant one first."""
        return features_of(self.columns, signed=self.signed)

    @cached_property
    def _widths(self) -> Mapping[str, int]:
        return coded_widths(self.features)

    @property
    def gamma(self) -> int:
        """The fixed-point scale γ."""
        return DEFAULT_SCALE[self.noise] if self.scale is None else self.scale

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party: its part in the matrix; before them, those that standardise its columns."""
        first = () if self.standardising is None else self.standardising.steps()
        return (*first, *(self._step(party) for party in self.parties))

    def rounds(self, plan: Plan) -> Rounds:
        """Open the matrix and read it as moments; of standardised columns also say how they were read."""
        if self.standardising is None:
            opened = yield from open_jointly(plan, "gram")
            return self.read(opened)
        centred = yield from self.standardising.rounds(plan)
        read = replace(self, columns={**self.columns, **centred}, standardising=None)
        moments = yield from read.rounds(plan)
        return StandardisedMoments(moments, read.columns)

    def read(self, opened: JointResult) -> Moments:
        """Put the opened entries and the parties' own parts together."""
        whole = opened_gram(opened.joint, opened.cross, opened.own) / float(self.gamma) ** 2
        return Moments.of_release(whole, self.variance(opened.joint), opened.joint.people, self.features)

    def variance(self, joint: Joint) -> Array:
        """Return the variance of every entry."""
        return gram_variance(joint) / float(self.gamma) ** 4

    def _step(self, party: str) -> Step:
        own = columns_at(party, self.columns)
        asked = columns_at(party, self.signed)
        bound = row_bound(self.row_norms, party, len(own), self.gamma)
        saved, standardised = standardised_terms(self.standardising, party, self.gamma)
        return products.Gram.ask(
            name="gram",
            party=party,
            columns=own,
            parameters={
                "scale": self.gamma,
                "signed": tuple(name for name in own if name in asked),  # in one order: equal studies have equal plans
                "row_bound": min(bound, self.gamma**2 * len(own) - saved),
                "width": self._widths[party],
                "noise": self.noise,
                **standardised,
            },
            price=self.price,
        )


def row_bound(norms: Mapping[str, float] | None, party: str, columns: int, scale: int) -> int:
    """Return the largest squared length of a party's coded rows, in steps of the fixed point: of all rows, or as clipped."""
    natural = scale**2 * columns
    norm = (norms or {}).get(party)
    bound = natural if norm is None else min(natural, int(scale**2 * norm**2))
    if bound < 1:
        raise BadInput(
            f"The length in row_norms for party {party!r} is below 1/{scale:,}, one step of the fixed point: "
            "every row would be cut to nothing.",
            remedy="Use a larger length, or a larger scale=.",
        )
    return bound


def is_positive(value: object) -> bool:
    """Return whether a value is a positive, finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0 and isfinite(value)


CROSS = "cross"


@dataclass(frozen=True)
class UnionRelease(GramRelease):
    """Three joint openings that make one matrix of moments; parameters as for `GramRelease`.

    Moments of the people in common of two lists; nobody knows who they are. The paper assumes aligned rows. Here every
    product is opened through shares, a party's own ones multiplied by the other's indicator, and the number of people in
    common is one more noisy entry (docs/proofs/union-moments.md).
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise != "gaussian":
            raise BadInput("On a union the noise must be 'gaussian'.", remedy="Leave noise= out.")

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party for the products between the two, and two steps for each party's own products."""
        steps = [self._part(party, CROSS, self._width(party) + 1) for party in self.parties]
        for owner in self.parties:
            triangle = self._width(owner) * (self._width(owner) + 1) // 2
            steps += [self._part(party, owner, triangle if party == owner else 1) for party in self.parties]
        return tuple(steps)

    def rounds(self, plan: Plan) -> Rounds:
        """Open the three parts and put them together."""
        cross = yield from open_jointly(plan, CROSS)
        own = {}
        for party in self.parties:
            own[party] = yield from open_jointly(plan, _own(party))
        between = {party: result.cross for party, result in own.items()}
        return union_moments(cross.joint, cross.cross, between, self.features, float(self.gamma))

    def variance(self, joint: Joint) -> Array:
        """Return the variance of every entry."""
        return union_variance(joint, len(self.features), float(self.gamma))

    def _width(self, party: str) -> int:
        return coded_widths(self.features)[party]

    def _part(self, party: str, part: str, width: int) -> Step:
        plain = self._step(party)
        parameters = {name: plain.parameters[name] for name in ("scale", "signed", "row_bound")}
        kind = products.UnionCross if part == CROSS else products.UnionOwn
        return kind.ask(
            name=CROSS if part == CROSS else _own(part),
            party=party,
            columns=plain.columns,
            parameters={**parameters, "width": width, "coded": self._width(party), "part": part},
            price=self.price,
        )


def _own(party: str) -> str:
    return f"own products of {party}"


COEFFICIENT_SCALE = 4096
"""γ: a coded column takes 2γ + 1 values."""

COEFFICIENTS = "coefficients"


@dataclass(frozen=True)
class FunctionalRelease:
    """One joint opening of an objective's coefficients.

    Parameters
    ----------
    columns
        ``"party.column"`` to its description, in the federation's order; of two parties or more, the target among them.
    target
        The column to explain.
    prices
        By party: one price for all, or what each party named for its part (`protocol`). δ is 0.
    protocol
        ``"top_down"``: one ε for the unit of the study. ``"bottom_up"``: each party names ε^(k) for its part of a record; a
        pair of parties spends on its common block the smaller of what the two would.
    scale
        γ; by default 4,096.
    """

    columns: Mapping[str, Column]
    target: str
    prices: Mapping[str, Price]
    protocol: Literal["top_down", "bottom_up"] = "top_down"
    scale: int | None = None

    def __post_init__(self) -> None:
        if len(self.parties) < 2:
            raise BadInput(
                "A joint regression takes columns of at least two parties.",
                remedy="Name columns of another party too; one party alone needs no federation.",
            )
        if len(self.columns) < 2:
            raise BadInput(
                "A model needs at least one feature besides its target.",
                remedy='Name at least one more column: columns=["bank.age", ...].',
            )
        if set(self.prices) != set(self.parties):
            raise BadInput(
                "budgets must name every party whose columns enter, and no other.",
                remedy=f"Here these are {', '.join(self.parties)}.",
            )
        valid_scale(self.gamma)

    @property
    def parties(self) -> tuple[str, ...]:
        """The parties whose columns enter, in the federation's order."""
        return parties_of(self.columns)

    @property
    def price(self) -> Price:
        """The largest price of a party: the only one there is, top-down."""
        return max(self.prices.values(), key=lambda price: price.nano)

    @property
    def ordered(self) -> dict[str, Column]:
        """The columns party by party, the target last of its party's."""
        parties = self.parties
        names = sorted(self.columns, key=lambda name: (parties.index(ColumnName.of(name).party), name == self.target))
        return {name: self.columns[name] for name in names}

    @property
    def signed(self) -> tuple[str, ...]:
        """Categories of two levels: one ±1 column moves as much as two indicators and needs half as many coefficients."""
        return tuple(name for name, column in self.ordered.items() if column.size == 2)

    @property
    def features(self) -> tuple[Feature, ...]:
        """The coded columns, the constant one first."""
        return features_of(self.ordered, signed=self.signed)

    @property
    def gamma(self) -> int:
        """The fixed-point scale γ."""
        return COEFFICIENT_SCALE if self.scale is None else self.scale

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party: its part in the objective."""
        emphasis = emphasis_for({party: self._holding(party) for party in self.parties})
        return tuple(self._step(party, emphasis) for party in self.parties)

    def rounds(self, plan: Plan) -> Rounds:
        """Open the coefficients and read them as moments."""
        opened = yield from open_jointly(plan, COEFFICIENTS)
        return coefficient_moments(
            opened.joint, opened.cross, opened.own, self.features, self.target, float(self.gamma)
        )

    def variance(self, joint: Joint) -> Array:
        """Return the variance of every entry."""
        return coefficient_variance(joint, self.features, self.target, float(self.gamma))

    def _held(self, party: str) -> list[str]:
        return [name for name in self.ordered if ColumnName.of(name).party == party]

    def _widths(self, party: str) -> tuple[int, ...]:
        coded = [feature.column for feature in self.features]
        return tuple(coded.count(name) for name in self._held(party))

    def _holding(self, party: str) -> Holding:
        widths = [w for name, w in zip(self._held(party), self._widths(party), strict=True) if name != self.target]
        numbers = widths.count(1)
        return Holding(numbers, len(widths) - numbers)

    def _step(self, party: str, emphasis: int) -> Step:
        held, widths = self._held(party), self._widths(party)
        return products.Coefficients.ask(
            name=COEFFICIENTS,
            party=party,
            columns=columns_at(party, held),
            parameters={
                "scale": self.gamma,
                "signed": columns_at(party, self.signed),
                "width": sum(widths),
                "widths": widths,
                "target": self.target in held,
                "emphasis": emphasis,
                "protocol": self.protocol,
            },
            price=self.prices[party],
        )


WIDE_COLUMNS = 1_000
"""Coded columns from which a matrix is held once, and not decomposed."""


@dataclass(frozen=True)
class WideRelease(GramRelease):
    """One joint opening of the second moments of many columns; parameters as for `GramRelease`. Read as `WideMoments`."""

    def rounds(self, plan: Plan) -> Rounds:
        """Open the matrix, tile by tile if it is too wide to be opened at once, and read it as moments."""
        reader = WideReader(read_joint(plan, "gram"), float(self.gamma) ** 2)
        yield from open_in_tiles(plan, "gram", reader.take)
        noise = self.matrix_noise(reader.joint)
        return WideMoments.of_release(reader.matrix, reader.sums, noise, reader.joint.people, self.features)

    def matrix_noise(self, joint: Joint) -> MatrixNoise:
        """Return the variance of every entry."""
        noise = joint.noise
        assert isinstance(noise, GramNoise)  # the step's kind decided
        unit = float(self.gamma) ** 4
        return MatrixNoise.of(self.features[1:], noise.opened_variance / unit, float(noise.own_variance) / unit)


@dataclass(frozen=True, eq=False)
class MomentsRelease(StudyRecord):
    """One noisy Gram matrix and the record of its study; made by `Federation.moments`.

    Parameters
    ----------
    moments
        The matrix, its noise and its coded columns.
    columns
        The public descriptions of the columns in it.
    findings
        The result and record of the study that released it.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=2_000).federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
    >>> release = federation.moments(["bank.age", "bank.income", "telco.minutes"], epsilon=1.0, delta=1e-5)
    >>> cn.PCA(1).fit(release).components_.shape
    (1, 3)
    """

    moments: Moments
    columns: Mapping[str, Column]
    findings: Findings

    def mean(self, level: float = 0.95, *, total: bool = False) -> pd.DataFrame:
        """Return the mean of every column in own units, and the share of people with every level. Nothing is spent.

        Parameters
        ----------
        level
            The level of the intervals.
        total
            Whether intervals and errors also cover the sampling of people. By default they cover the mean of the same people.

        Returns
        -------
        DataFrame
            One row per coded column: ``mean``, ``stderr``, ``low``, ``high``.
        """
        return self._summary().mean(level, total=total)

    def covariance(self, level: float = 0.95, *, total: bool = False) -> PairEstimates:
        """Return the covariance of every two columns in own units, positive semi-definite. Nothing is spent.

        Parameters
        ----------
        level, total
            As for `mean`.

        Returns
        -------
        PairEstimates
            Frames ``values``, ``stderr``, ``low`` and ``high``; ``table()`` has one row per pair.
        """
        return self._summary().covariance(level, total=total)

    def correlation(self, level: float = 0.95, *, total: bool = False) -> PairEstimates:
        """Return the correlation of every two columns, positive semi-definite. Nothing is spent.

        Parameters
        ----------
        level, total
            As for `mean`.

        Returns
        -------
        PairEstimates
            Frames ``values``, ``stderr``, ``low`` and ``high``; ``table()`` has one row per pair.

        Examples
        --------
        >>> import colonnade as cn
        >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
        >>> release = federation.moments(["bank.age", "bank.income", "telco.minutes"], epsilon=2.0, delta=1e-5)
        >>> release.correlation().values.shape
        (3, 3)
        """
        return self._summary().correlation(level, total=total)

    def _summary(self) -> MomentSummary:
        return MomentSummary(self.moments, self.columns)

    def __repr__(self) -> str:
        return f"MomentsRelease({len(self.columns)} columns, {self.moments.count:,} people)"


def release_moments(
    driver: Driver,
    columns: Sequence[str] | None,
    price: Price,
    *,
    unit: Unit,
    signed: Sequence[str],
    noise: NoiseFamily,
    scale: int | None,
    row_norms: Mapping[str, float] | None,
    repeat: int,
) -> MomentsRelease:
    """Release one noisy Gram matrix; see `Federation.moments`."""
    described = driver.columns.describe(with_indicators(columns, driver.columns.describe()))
    kind = UnionRelease if driver.union else GramRelease
    algorithm = kind(described, price, tuple(signed), noise, scale, row_norms)
    plan = driver.plan(
        algorithm,
        task=STUDIES["PCA"],
        method="secure",
        price=algorithm.price,
        unit=unit,
        parameters={},  # equal releases are one release, whatever is then made of them
        repeat=repeat,
    )
    findings = driver.study(algorithm, plan, title="moments(method='secure')")
    return MomentsRelease(findings.value, described, findings)
