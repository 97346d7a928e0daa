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
"""

import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import isfinite
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.coordinator.protocols.relaying import JointResult, open_in_tiles, open_jointly
from colonnade.errors import BadInput, ProtocolError
from colonnade.estimation.moments import MatrixNoise, Moments, WideMoments, gram_variance, opened_gram
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.privacy.laws import NoiseFamily
from colonnade.privacy.laws.coefficients import CoefficientNoise, Holding, emphasis_for
from colonnade.privacy.laws.gram import GramNoise, UnionNoise
from colonnade.protocol.messages import Rounds
from colonnade.schema import Column
from colonnade.schema import features as coding
from colonnade.secure.shamir import entry_pairs, rectangles
from colonnade.steps import products
from colonnade.steps.joint import TILE_ENTRIES, Joint, read_joint
from colonnade.steps.terms import valid_scale

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
    """Return what a Gram matrix of so many coded columns by party takes.

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
    """

    columns: Mapping[str, Column]
    price: Price
    signed: tuple[str, ...] = ()
    noise: NoiseFamily = "gaussian"
    scale: int | None = None
    row_norms: Mapping[str, float] | None = None

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
        return coding.parties_of(self.columns)

    @cached_property
    def features(self) -> tuple[coding.Feature, ...]:
        """The coded columns, the constant one first."""
        return coding.features_of(self.columns, signed=self.signed)

    @cached_property
    def _widths(self) -> Mapping[str, int]:
        return coding.coded_widths(self.features)

    @property
    def gamma(self) -> int:
        """The fixed-point scale γ."""
        return DEFAULT_SCALE[self.noise] if self.scale is None else self.scale

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party: its part in the matrix."""
        return tuple(self._step(party) for party in self.parties)

    def rounds(self, plan: Plan) -> Rounds:
        """Open the matrix and read it as moments."""
        opened = yield from open_jointly(plan, "gram")
        return self.read(opened)

    def read(self, opened: JointResult) -> Moments:
        """Put the opened entries and the parties' own parts together."""
        whole = opened_gram(opened.joint, opened.cross, opened.own) / float(self.gamma) ** 2
        return Moments.of_release(whole, self.variance(opened.joint), opened.joint.people, self.features)

    def variance(self, joint: Joint) -> Array:
        """Return the variance of every entry."""
        return gram_variance(joint) / float(self.gamma) ** 4

    def _step(self, party: str) -> Step:
        own = coding.columns_at(party, self.columns)
        asked = coding.columns_at(party, self.signed)
        return products.Gram.ask(
            name="gram",
            party=party,
            columns=own,
            parameters={
                "scale": self.gamma,
                "signed": tuple(name for name in own if name in asked),  # in one order: equal studies have equal plans
                "row_bound": row_bound(self.row_norms, party, len(own), self.gamma),
                "width": self._widths[party],
                "noise": self.noise,
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
        return self.assembled(cross, own)

    def assembled(self, cross: JointResult, own: dict[str, JointResult]) -> Moments:
        """Read the three parts as moments. The number of people is the released one."""
        unit = float(self.gamma) ** 2
        left, right = self.parties
        size = 1 + self._width(left) + self._width(right)
        matrix = np.zeros((size, size))
        between = (cross.cross / unit).reshape(self._width(left) + 1, self._width(right) + 1)
        places = coding.consecutive_places(coding.coded_widths(self.features), first=1)
        matrix[0, places[right]] = between[0, 1:]
        matrix[0, places[left]] = between[1:, 0]
        matrix[np.ix_(places[left], places[right])] = between[1:, 1:]
        for party, opened in own.items():
            first, second = np.triu_indices(len(places[party]))
            matrix[places[party][first], places[party][second]] = opened.cross / unit
        whole = np.triu(matrix) + np.triu(matrix, 1).T
        people = max(1, round(float(between[0, 0])))
        return Moments.of_release(whole, self.variance(cross.joint), people, self.features)

    def variance(self, joint: Joint) -> Array:
        """Return the variance of every entry: both parties' shares of it."""
        assert isinstance(joint.noise, UnionNoise)  # the step's kind decided
        size = len(self.features)
        variance = np.full((size, size), 2 * joint.noise.share_variance / float(self.gamma) ** 4)
        np.fill_diagonal(variance, 2 * variance[0, 0])
        return variance

    def _width(self, party: str) -> int:
        return coding.coded_widths(self.features)[party]

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
        return coding.parties_of(self.columns)

    @property
    def price(self) -> Price:
        """The largest price of a party: the only one there is, top-down."""
        return max(self.prices.values(), key=lambda price: price.nano)

    @property
    def ordered(self) -> dict[str, Column]:
        """The columns party by party, the target last of its party's."""
        parties = self.parties
        names = sorted(
            self.columns, key=lambda name: (parties.index(coding.ColumnName.of(name).party), name == self.target)
        )
        return {name: self.columns[name] for name in names}

    @property
    def signed(self) -> tuple[str, ...]:
        """Categories of two levels: one ±1 column moves as much as two indicators and needs half as many coefficients."""
        return tuple(name for name, column in self.ordered.items() if column.size == 2)

    @property
    def features(self) -> tuple[coding.Feature, ...]:
        """The coded columns, the constant one first."""
        return coding.features_of(self.ordered, signed=self.signed)

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
        return self.read(opened)

    def read(self, opened: JointResult) -> Moments:
        """Put the opened entries and the parties' own parts together, with the variance of their noise."""
        unit = float(self.gamma) ** 2
        matrix = np.zeros((len(self.features), len(self.features)))
        first, second = entry_pairs(opened.joint.widths)
        matrix[first + 1, second + 1] = opened.cross / unit
        for party, (places, entries) in self._own(opened.joint).items():
            if opened.own[party].shape != entries.rows.shape:
                raise ProtocolError("A party's own coefficients are of another number.")
            matrix[places[entries.rows], places[entries.columns]] = opened.own[party] / unit
        return Moments.of_release(
            self._completed(matrix, opened.joint.people),
            self.variance(opened.joint),
            opened.joint.people,
            self.features,
        )

    def variance(self, joint: Joint) -> Array:
        """Return the variance of every entry."""
        noise = joint.noise
        assert isinstance(noise, CoefficientNoise)  # the step's kind decided
        variance = np.zeros((len(self.features), len(self.features)))
        first, second = entry_pairs(joint.widths)
        for block, slope, places in products.cross_entries(joint.steps).groups:
            variance[first[places] + 1, second[places] + 1] = noise.variance(block, slope=slope)
        for party, (places, entries) in self._own(joint).items():
            alone = [noise.variance((party, party), slope=slope) for slope in (False, True)]
            variance[places[entries.rows], places[entries.columns]] = np.where(entries.slope, alone[1], alone[0])
        return self._completed(variance / float(self.gamma) ** 4, 0)

    def _completed(self, upper: Array, unmeasured: float) -> Array:
        """Mirror the triangle and add what follows from it: an indicator is its own square.

        The square of a target that is one column is not measured, and nothing here uses it: its bound stands in for it.
        """
        whole = np.triu(upper) + np.triu(upper, 1).T
        for place, feature in enumerate(self.features):
            if feature.kind == "level":
                whole[place, place] = whole[0, place]
            elif feature.column == self.target:
                whole[place, place] = unmeasured
        return whole

    def _own(self, joint: Joint) -> dict[str, tuple[NDArray[np.int64], products.Entries]]:
        """Where each party's own block stands in the matrix, the constant column in front, and which entries it has."""
        places = coding.places_beside_constant(tuple(joint.steps), joint.widths)
        return {
            owner: (
                places[owner],
                products.own_entries(products.widths_of(step), target=step.parameters["target"] is True),
            )
            for owner, step in joint.steps.items()
        }

    def _held(self, party: str) -> list[str]:
        return [name for name in self.ordered if coding.ColumnName.of(name).party == party]

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
            columns=coding.columns_at(party, held),
            parameters={
                "scale": self.gamma,
                "signed": coding.columns_at(party, self.signed),
                "width": sum(widths),
                "widths": widths,
                "target": self.target in held,
                "emphasis": emphasis,
                "protocol": self.protocol,
            },
            price=self.prices[party],
        )


WIDE = 1_000
"""Coded columns from which a matrix is held once, and not decomposed."""

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class WideRelease(GramRelease):
    """One joint opening of the second moments of many columns; parameters as for `GramRelease`. Read as `WideMoments`."""

    def rounds(self, plan: Plan) -> Rounds:
        """Open the matrix, tile by tile if it is too wide to be opened at once, and read it as moments."""
        reader = _Reader(read_joint(plan, "gram"), float(self.gamma) ** 2)
        yield from open_in_tiles(plan, "gram", reader.take)
        noise = self.matrix_noise(reader.joint)
        return WideMoments.of_release(reader.matrix, reader.sums, noise, reader.joint.people, self.features)

    def matrix_noise(self, joint: Joint) -> MatrixNoise:
        """Return the variance of every entry."""
        noise = joint.noise
        assert isinstance(noise, GramNoise)  # the step's kind decided
        unit = float(self.gamma) ** 4
        return MatrixNoise.of(self.features[1:], noise.opened_variance / unit, float(noise.own_variance) / unit)


def _square(size: int) -> NDArray[np.float64]:
    """Return a square of zeros whose pages take memory once they are written, and are small: half of it is never written."""
    memory = mmap.mmap(-1, 8 * size * size)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory).reshape(size, size)


class _Reader:
    """Writes what is opened into the upper triangle of a matrix, and the columns' sums beside it."""

    def __init__(self, joint: Joint, unit: float) -> None:
        self.joint = joint
        self._unit = unit
        ends = list(accumulate(joint.widths))
        self._places = dict(zip(joint.owners, zip([0, *ends], ends, strict=False), strict=True))
        self.matrix = _square(ends[-1])
        self.sums = np.zeros(ends[-1])

    def take(self, number: int, cross: Integers, own: Mapping[str, Integers]) -> None:
        """Write one tile."""
        tile, start = self.joint.tiles[number], 0
        for one in tile.blocks:
            block = cross[start : start + one.entries].reshape(one.bottom - one.top, one.right - one.left)
            np.divide(block, self._unit, out=self.matrix[one.top : one.bottom, one.left : one.right])
            start += one.entries
        for party, part in ((party, part) for party, part in own.items() if len(part)):
            self._take_own(party, 1 + (tile.own.start or 0), part / self._unit)

    def _take_own(self, party: str, place: int, part: NDArray[np.float64]) -> None:
        """Write a stretch of a party's own triangle, row by row; its first row are the sums, whose first is not released."""
        first, last = self._places[party]
        size, row, start = last - first + 1, 0, 0
        while place >= start + size - row:
            start, row = start + size - row, row + 1
        while len(part):
            taken = min(len(part), start + size - row - place)
            column = first + row + place - start - 1  # columns are counted from the constant one
            target = self.sums if row == 0 else self.matrix[first + row - 1]
            target[column : column + taken], part = part[:taken], part[taken:]
            place += taken
            start, row = start + size - row, row + 1
