"""Second moments from what each party releases by itself: rows with noise, or random combinations of rows with noise.

Perturbed rows are the baseline: every row leaves its party with noise. The sketches are Algorithm 4 and Theorems E.4 and E.5 of
Primitives (Cohen-Addad, Kacham, Mirrokni, Zhong; docs/references.md#primitives; docs/proofs/projections.md#size).

Moments of sums across parties: ‖Σ_j x^(j)‖_p^p of one column of whole numbers per party, in one round.

This is Algorithm 2 and Theorem E.5 of Primitives (Cohen-Addad, Kacham, Mirrokni, Zhong; docs/references.md#primitives). The
algorithm there counts patterns of rounded noisy values (2.4 million of them at two parties and ε = ½) and clips. We do not count.
Each value gets discrete Laplace noise, and the coordinator adds up a function of the noisy sums that undoes the noise on average
(`colonnade.estimation.counts`; docs/proofs/values-and-moments.md#unbiased-powers). For p = 1 sums are enough, as in the
paper. For p = 2 there is also the sketch of Theorem E.5, with random signs and with the noise subtracted.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from colonnade.coordinator.protocols.moment_releases import is_positive, row_bound
from colonnade.errors import BadInput, ProtocolError
from colonnade.estimation.counts import UnbiasedPower
from colonnade.estimation.moments import Moments
from colonnade.plan import Parameter, Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import discrete_laplace_variance, gaussian_sigma_squared, ledger_rho
from colonnade.privacy.laws.values import Carrier, Change, WholeValues
from colonnade.protocol.messages import Released, Rounds, ask_all
from colonnade.schema import Column
from colonnade.schema.features import ColumnName, Feature, coded_widths, columns_at, features_of, parties_of
from colonnade.secure.signs import Signs
from colonnade.steps.kind import StepKind, valid_scale
from colonnade.steps.local import Rows, Sketch, Total, Values, ValueSketch

Array = NDArray[np.float64]
ROWS_SCALE = 64
BLOCK = 65_536


@dataclass(frozen=True)
class PerturbedRows:
    """Noisy rows from every party, and the moments they give.

    The baseline of Secure PCA, Algorithm 3: each party perturbs its own rows and the coordinator multiplies them. We differ
    in the relation (zero-out: the number of rows is public, and was released there under add/remove all the same), in the
    noise (discrete), and in subtracting its known variance from the diagonal. The price of doing without peers is √people in
    every entry.

    Parameters
    ----------
    columns
        ``"party.column"`` to its description, in the federation's order.
    price
        The price of each party's release; δ must be positive.
    people
        The number of people, which is public.
    scale
        The fixed-point scale γ.
    """

    columns: Mapping[str, Column]
    price: Price
    people: int
    scale: int = ROWS_SCALE

    def __post_init__(self) -> None:
        if self.price.delta == 0:
            raise BadInput("Perturbed rows need a positive delta.", remedy="For example delta=1e-6.")
        valid_scale(self.scale, example="scale=1024")

    @property
    def parties(self) -> tuple[str, ...]:
        """The parties whose columns enter, in the federation's order."""
        return parties_of(self.columns)

    @property
    def features(self) -> tuple[Feature, ...]:
        """The coded columns, the constant one first."""
        return features_of(self.columns)

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party: its rows."""
        return tuple(
            Rows.ask(
                name="rows",
                party=party,
                columns=columns_at(party, self.columns),
                parameters={"scale": self.scale},
                price=self.price,
            )
            for party in self.parties
        )

    def rounds(self, plan: Plan) -> Rounds:
        """One round: collect the rows, multiply them."""
        releases = yield from ask_all(plan, "rows")
        return self.combine({party: self._rows(party, releases[party]) for party in self.parties})

    def combine(self, rows: Mapping[str, NDArray[np.int32]]) -> Moments:
        """Multiply all parties' rows, and take the noise's own variance off the diagonal."""
        stacked = np.concatenate([rows[party] for party in self.parties])
        gram = np.zeros((len(stacked) + 1, len(stacked) + 1))
        for start in range(0, self.people, BLOCK):
            block = stacked[:, start : start + BLOCK] / self.scale
            wide = np.concatenate([np.ones((1, block.shape[1])), block])
            gram += wide @ wide.T
        noise = self.entry_noise()
        gram[np.diag_indices_from(gram)] -= self.people * noise
        return Moments.of_release(gram, self.variance(gram), self.people, self.features)

    def entry_noise(self) -> Array:
        """Return the variance of the noise in each coded column, 0 for the constant one."""
        variance = {
            party: float(gaussian_sigma_squared(self.price, self.scale**2 * len(columns_at(party, self.columns))))
            / self.scale**2
            for party in self.parties
        }
        return np.array([0.0, *(variance[feature.party] for feature in self.features[1:])])

    def variance(self, gram: Array) -> Array:
        """Return the variance of every entry of the product: Σx²s_j + Σy²s_i + m·s_i·s_j, twice the last on the diagonal."""
        noise, energy = self.entry_noise(), np.maximum(np.diag(gram), 0.0)
        variance = np.outer(energy, noise) + np.outer(noise, energy) + self.people * np.outer(noise, noise)
        variance[np.diag_indices_from(variance)] = 4 * energy * noise + 2 * self.people * noise**2
        variance[0, 0] = 0.0
        return np.asarray(variance)

    def _rows(self, party: str, release: Released) -> NDArray[np.int32]:
        rows = release.array("value")
        if rows.shape != (coded_widths(self.features)[party], self.people) or rows.dtype != np.int32:
            raise ProtocolError(f"Party {party!r} released rows of another shape.")
        return rows  # type: ignore[return-value]  # checked above


SKETCH_SCALE = 1_024


@dataclass(frozen=True)
class SketchedMoments:
    """Noisy sketches from every party, and the moments they give.

    One message per party, no peer (Primitives, Algorithm 4 and Theorem E.4). We differ from the paper in three ways. Signs
    take the place of Gaussian sketches, so the sensitivity is exact and nothing can fail. The known noise variance is
    subtracted; unsubtracted it acts as a ridge penalty that nobody asked for. Columns are centred after the sketch, with sums
    that a row of ones carries. Rank-k approximation and regression then follow from the matrix, as from any other
    (docs/proofs/projections.md#size).

    Parameters
    ----------
    columns
        ``"party.column"`` to its description, in the federation's order.
    price
        The price of each party's release; δ must be positive.
    people
        The number of people, which is public.
    scale
        The fixed-point scale γ.
    row_norms
        Party to the length to which it clips its coded rows (after scaling to [−1, 1]); by default nothing needs clipping.
    draw
        The number of the draw; signs differ from draw to draw.
    rows
        The number s of rows; by default the best for columns spread evenly between their bounds.
    """

    columns: Mapping[str, Column]
    price: Price
    people: int
    scale: int = SKETCH_SCALE
    row_norms: Mapping[str, float] | None = None
    draw: int = 1
    rows: int | None = None

    def __post_init__(self) -> None:
        if self.price.delta == 0:
            raise BadInput("Sketches need a positive delta.", remedy="For example delta=1e-6, well below 1/people.")
        valid_scale(self.scale, example="scale=1024")
        norms = {} if self.row_norms is None else self.row_norms
        if (
            not isinstance(norms, Mapping)
            or set(norms) - set(self.parties)
            or not all(map(is_positive, norms.values()))
        ):
            raise BadInput(
                "row_norms maps parties of the study to positive lengths.",
                remedy=f"For example row_norms={{'{self.parties[0]}': 1.0}}. The study's parties are {', '.join(self.parties)}.",
            )

    @property
    def parties(self) -> tuple[str, ...]:
        """The parties whose columns enter, in the federation's order."""
        return parties_of(self.columns)

    @property
    def features(self) -> tuple[Feature, ...]:
        """The coded columns, the constant one first."""
        return features_of(self.columns)

    @property
    def size(self) -> int:
        """The number s of rows of a sketch, from public numbers alone."""
        if self.rows is not None:
            return self.rows
        coded = self.features[1:]
        energy = self.people * float(np.sum(_plain_spread(coded)))
        widths = coded_widths(coded)
        noise = sum(self._bound(party) * widths[party] for party in self.parties) / (2 * float(ledger_rho(self.price)))
        return best_sketch_size(energy, noise / self.scale**2, least=2 * len(coded))

    @property
    def seed(self) -> str:
        """The public seed of the signs."""
        return public_seed(tuple(self.columns), self.draw)

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party: its sketch."""
        size, seed = self.size, self.seed
        return tuple(
            Sketch.ask(
                name="sketch",
                party=party,
                columns=columns_at(party, self.columns),
                parameters={
                    "size": size,
                    "seed": seed,
                    "scale": self.scale,
                    "row_bound": self._bound(party),
                    "width": self._width(party),
                },
                price=self.price,
            )
            for party in self.parties
        )

    def rounds(self, plan: Plan) -> Rounds:
        """One round: collect the sketches, multiply them."""
        releases = yield from ask_all(plan, "sketch")
        return self.combine({party: self._sketch(party, releases[party]) for party in self.parties})

    def combine(self, sketches: Mapping[str, NDArray[np.int64]]) -> Moments:
        """Multiply all parties' centred sketches, take the noise's own variance off the diagonal, and put the means back."""
        stacked = np.concatenate([sketches[party] for party in self.parties], axis=1) / self.scale
        rows, sums = centred_sketch(stacked, self.seed, self.people)
        gram = rows.T @ rows / len(rows)
        noise = self.entry_noise()
        gram[np.diag_indices_from(gram)] -= noise * (1 + 1 / self.people)
        return self.moments(gram, sums)

    def moments(self, gram: Array, sums: Array) -> Moments:
        """Return the moments of centred products, less their noise, and of column sums."""
        variance = self.variance(gram)
        whole = np.zeros_like(variance)
        whole[1:, 1:] = gram + np.outer(sums, sums) / self.people
        whole[0, 1:] = whole[1:, 0] = sums
        self._use_indicators(whole, variance)
        return Moments.of_release(whole, variance, self.people, self.features)

    def entry_noise(self) -> Array:
        """Return the variance of the noise in each coded column's sketch."""
        variance = {
            party: float(gaussian_sigma_squared(self.price, (self.size + 1) * self._bound(party))) / self.scale**2
            for party in self.parties
        }
        return np.array([variance[feature.party] for feature in self.features[1:]])

    def variance(self, gram: Array) -> Array:
        """Return the variance of every entry, the intercept's first: that of the sketch itself, of the noise, of both.

        Products of s rows of signs and noise, averaged: ``(E_iE_j + C_ij² + N_iE_j + N_jE_i + N_iN_j)/s`` with C the centred
        moments, E their diagonal and N the noise of a row; on the diagonal this is twice (E + N)²/s.
        """
        noise, energy = self.entry_noise(), np.maximum(np.diag(gram), 0.0)
        total = energy + noise
        products = np.outer(energy, energy)
        shared = np.clip(gram, -np.sqrt(products), np.sqrt(products))
        inner = (np.outer(total, total) + shared**2) / self.size
        inner[np.diag_indices_from(inner)] = 2 * total**2 / self.size
        variance = np.zeros((len(total) + 1, len(total) + 1))
        variance[1:, 1:], variance[0, 1:], variance[1:, 0] = inner, noise, noise
        return variance

    def _use_indicators(self, whole: Array, variance: Array) -> None:
        """The square of an indicator is itself: its sum is known better than its sketch's length."""
        levels = [place for place, feature in enumerate(self.features) if feature.kind == "level"]
        whole[levels, levels] = whole[0, levels]
        variance[levels, levels] = variance[0, levels]

    def _width(self, party: str) -> int:
        return coded_widths(self.features)[party]

    def _bound(self, party: str) -> int:
        return row_bound(self.row_norms, party, len(columns_at(party, self.columns)), self.scale)

    def _sketch(self, party: str, release: Released) -> NDArray[np.int64]:
        sketch = release.array("value")
        if sketch.shape != (self.size + 1, self._width(party)) or sketch.dtype != np.int64:
            raise ProtocolError(f"Party {party!r} released a sketch of another shape.")
        return sketch  # type: ignore[return-value]  # checked above


def _plain_spread(features: tuple[Feature, ...]) -> Array:
    """The variance of each coded column if numbers are spread evenly and levels equally frequent."""
    counted = Counter(feature.column for feature in features)
    levels = np.array([counted[feature.column] for feature in features], dtype=np.float64)
    return np.array([1 / 3 if f.kind == "numeric" else (1 - 1 / k) / k for f, k in zip(features, levels, strict=True)])


SMALLEST_SIZE, LARGEST_SIZE = 16, 4_096
"""Larger sketches cost time in proportion and gain little: their own error is then a few parts in a hundred."""


def best_sketch_size(energy: float, noise: float, *, least: int = SMALLEST_SIZE) -> int:
    """Return the number of rows s = ΣE/ΣN, within the sizes that are supported.

    Let a sketch have s rows of signs, E be the squared length of a column, and N the variance of the noise in one row of its
    sketch divided by s. An entry of the Gram matrix of two sketched columns has variance ``(E_iE_j + s(N_iE_j + N_jE_i) +
    s²N_iN_j)/s`` up to the square of the entry itself, so ``s = ΣE/ΣN`` gives the least sum over all entries
    (docs/proofs/projections.md#size). Lengths are private: columns are taken to be spread evenly between their bounds.

    Examples
    --------
    >>> best_sketch_size(1e6, 2e3)
    500
    """
    return int(np.clip(round(energy / noise), max(least, SMALLEST_SIZE), LARGEST_SIZE))


def public_seed(columns: Sequence[str], draw: int) -> str:
    """Return the seed of the signs: a hash of what is asked, another for every draw."""
    return hashlib.sha256(f"colonnade/sketch/{draw}/{'/'.join(columns)}".encode()).hexdigest()


def centred_sketch(sketch: Array, seed: str, people: int) -> tuple[Array, Array]:
    """Return the sketch of columns less their means, and the noisy column sums, from s + 1 released rows.

    The first row holds the sums. G times ones is public, so subtracting it times the means is exact up to the noise in them,
    and leaves a sketch of the centred columns, whose own error does not grow with the means.
    """
    sums, rows = sketch[0], sketch[1:]
    ones = Signs(bytes.fromhex(seed), len(rows)).sums(people).astype(np.float64)
    return rows - np.outer(ones, sums / people), sums


LARGEST_HISTOGRAM = 1 << 22
LARGEST_LOG = 290.0
GRID = 9


@dataclass(frozen=True)
class PowerMoment:
    """An estimated moment and its standard error from the noise."""

    value: float
    stderr: float


@dataclass(frozen=True)
class _OneColumnEach:
    """What the three methods share: one column of whole numbers per party, and the change that the noise hides.

    Parameters
    ----------
    columns
        ``"party.column"`` to its description, one per party.
    power
        p.
    change
        By how much neighbours may differ in a value.
    price
        The price of each party's release.
    people
        The number of people, which is public.
    draw
        The number of the draw.
    """

    columns: Mapping[str, Column]
    power: float
    change: Change
    price: Price
    people: int
    draw: int = 1

    kind: ClassVar[type[StepKind]]

    @property
    def values(self) -> dict[str, WholeValues]:
        """What is public about each party's numbers."""
        return {
            ColumnName.of(name).party: WholeValues.of(column, name, self.change)
            for name, column in self.columns.items()
        }

    @property
    def lowest(self) -> int:
        """The smallest possible sum."""
        return sum(values.low for values in self.values.values())

    @property
    def highest(self) -> int:
        """The largest possible sum."""
        return sum(values.high for values in self.values.values())

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party."""
        return tuple(
            self.kind.ask(
                name=self.kind.name,
                party=name.party,
                columns=(name.column,),
                parameters=self._parameters(),
                price=self.price,
            )
            for name in map(ColumnName.of, self.columns)
        )

    def _parameters(self) -> dict[str, Parameter]:
        return {"change": self.change}

    def typical(self, mean: float) -> tuple[float, float]:
        """Return moment and standard error for people whose sums are mostly small and seldom large, as counts are.

        Sums lie above the lowest by an exponential law with this mean, in parts of the range.
        """
        middles = (np.arange(GRID) + 0.5) / GRID
        above = np.minimum(-np.log1p(-middles) * mean, 1.0)
        return self.for_sums(self.lowest + above * (self.highest - self.lowest))

    def for_sums(self, sums: NDArray[np.float64]) -> tuple[float, float]:
        """Return moment and standard error for people whose sums are these, each equally often."""
        raise NotImplementedError


class PerturbedPowers(_OneColumnEach):
    """Every value gets noise of its own, and the coordinator adds up f of the noisy sums. Local differential privacy."""

    kind: ClassVar[type[StepKind]] = Values

    def rounds(self, plan: Plan) -> Rounds:
        """One round: collect, add up over parties, sum over people."""
        releases = yield from ask_all(plan, self.kind.name)
        return self.combine({party: self._packed(party, releases[party]) for party in self.values})

    @property
    def scales(self) -> list[Fraction]:
        """The scale of each party's noise."""
        return [values.scale(self.price) for values in self.values.values()]

    @property
    def carriers(self) -> dict[str, Carrier]:
        """The form in which each party's values travel."""
        return {party: values.carrier(self.price) for party, values in self.values.items()}

    def power_of(self, power: float) -> UnbiasedPower:
        """Return what estimates a power of a sum without bias; refuse what would overflow."""
        largest = self.highest + 100 * float(sum(self.scales))
        if power * math.log10(largest) + math.log10(self.people) > LARGEST_LOG:
            raise BadInput("A moment of this order does not fit floating point.", remedy="Ask for a smaller p.")
        return UnbiasedPower(power, self.scales, self.lowest)

    def combine(self, packed: Mapping[str, NDArray[np.generic]]) -> PowerMoment:
        """Estimate the moment and, from f² less an unbiased square of the moment's terms, its variance."""
        power, square = self.power_of(self.power), self.power_of(2 * self.power)
        total = spread = 0.0
        for sums, counts in self._sums(packed):
            value = power(sums)
            total += float(counts @ value)
            spread += float(counts @ (value**2 - square(sums)))
        if spread <= 0:  # few people: fall back on what noise does to the smallest sums
            spread = self.people * power.variance(self.lowest)
        return PowerMoment(total, math.sqrt(spread))

    def for_sums(self, sums: NDArray[np.float64]) -> tuple[float, float]:
        """Return moment and standard error for people whose sums are these, each equally often."""
        power = self.power_of(self.power)
        totals, counts = np.unique(sums.round().astype(int), return_counts=True)
        variances = np.array([power.variance(total) for total in totals.tolist()])
        moment = self.people * float(np.average(totals.astype(np.float64) ** self.power, weights=counts))
        return moment, math.sqrt(self.people * float(np.average(variances, weights=counts)))

    def _sums(self, packed: Mapping[str, NDArray[np.generic]]) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Return distinct noisy sums and how many people have them, folding blocks of people."""
        carriers = self.carriers
        offset = sum(carrier.offset for carrier in carriers.values())
        cells = sum(carrier.limit for carrier in carriers.values()) + 1
        parts = []
        histogram = np.zeros(cells if cells <= LARGEST_HISTOGRAM else 0, dtype=np.int64)
        for start in range(0, self.people, BLOCK):
            some = [packed[party][start : start + BLOCK] for party in carriers]
            sums = np.sum([one.astype(np.int64) for one in some], axis=0)
            if cells <= LARGEST_HISTOGRAM:
                histogram += np.bincount(sums, minlength=cells)
            else:
                parts.append((sums + offset, np.ones(len(sums))))
        seen = np.flatnonzero(histogram)
        return parts or [(seen + offset, histogram[seen].astype(np.float64))]

    def _packed(self, party: str, release: Released) -> NDArray[np.generic]:
        values = release.array("value")
        if values.shape != (self.people,) or values.dtype.str != self.carriers[party].dtype:
            raise ProtocolError(f"Party {party!r} released values of another form.")
        return values


class Totals(_OneColumnEach):
    """p = 1: the sum of each party's column with noise. Far more exact; not local, since a party adds up before it perturbs."""

    kind: ClassVar[type[StepKind]] = Total

    def rounds(self, plan: Plan) -> Rounds:
        """One round: collect and add."""
        releases = yield from ask_all(plan, self.kind.name)
        totals = [releases[party].array("value") for party in self.values]
        if any(total.shape != (1,) or total.dtype != np.int64 for total in totals):
            raise ProtocolError("A party released a total of another form.")
        return PowerMoment(float(sum(int(total[0]) for total in totals)), self._stderr())

    def for_sums(self, sums: NDArray[np.float64]) -> tuple[float, float]:
        """Return moment and standard error for people whose sums are these, each equally often."""
        return self.people * float(sums.mean()), self._stderr()

    def _stderr(self) -> float:
        scales = [values.scale(self.price) for values in self.values.values()]
        return math.sqrt(sum(discrete_laplace_variance(scale) for scale in scales))


class SketchedSquare(_OneColumnEach):
    """p = 2 from sketches: the length of the sum of all parties' sketches, less the noise that is in it."""

    kind: ClassVar[type[StepKind]] = ValueSketch

    @property
    def size(self) -> int:
        """The number s of rows of a sketch, from public numbers alone."""
        unit = 1 / (2 * float(ledger_rho(self.price)))
        noise = unit * sum(values.sensitivity**2 for values in self.values.values())
        energy = self.people * sum((values.high - values.low + 1) ** 2 for values in self.values.values()) / 12
        return best_sketch_size(energy, noise)

    @property
    def noise(self) -> float:
        """The variance of the noise in a row of the parties' sketches together."""
        rows = self.size + 1
        return sum(
            float(gaussian_sigma_squared(self.price, rows * values.sensitivity**2)) for values in self.values.values()
        )

    def rounds(self, plan: Plan) -> Rounds:
        """One round: collect, add, measure."""
        releases = yield from ask_all(plan, self.kind.name)
        return self.combine({party: self._sketch(party, releases[party]) for party in self.values})

    def combine(self, sketches: Mapping[str, NDArray[np.int64]]) -> PowerMoment:
        """Estimate ‖x‖² as the squared length of the centred part plus m·mean², each less its noise."""
        rows, sums = centred_sketch(np.sum([*sketches.values()], axis=0).astype(np.float64), self._seed, self.people)
        length, total, noise = float(np.sum(rows**2)) / len(rows), float(sums[0]), self.noise
        value = length - noise + total**2 / self.people - 2 * noise / self.people
        return PowerMoment(value, self._stderr(length, total))

    def for_sums(self, sums: NDArray[np.float64]) -> tuple[float, float]:
        """Return moment and standard error for people whose sums are these, each equally often."""
        total, energy = self.people * float(sums.mean()), self.people * float(sums.var())
        return energy + total**2 / self.people, self._stderr(energy + self.noise, total)

    def _stderr(self, length: float, total: float) -> float:
        return math.sqrt(2 * length**2 / self.size + 4 * (total / self.people) ** 2 * self.noise)

    def _parameters(self) -> dict[str, Parameter]:
        return {"change": self.change, "size": self.size, "seed": self._seed}

    @property
    def _seed(self) -> str:
        return public_seed(tuple(self.columns), self.draw)

    def _sketch(self, party: str, release: Released) -> NDArray[np.int64]:
        sketch = release.array("value")
        if sketch.shape != (self.size + 1, 1) or sketch.dtype != np.int64:
            raise ProtocolError(f"Party {party!r} released a sketch of another shape.")
        return sketch  # type: ignore[return-value]  # checked above
