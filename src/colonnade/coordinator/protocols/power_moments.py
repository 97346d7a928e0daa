"""Moments of sums across parties: ‖Σ_j x^(j)‖_p^p of one column of whole numbers per party, in one round.

This is Algorithm 2 and Theorem E.5 of Primitives (Cohen-Addad, Kacham, Mirrokni, Zhong; docs/references.md#primitives). The
algorithm there counts patterns of rounded noisy values (2.4 million of them at two parties and ε = ½) and clips. We do not count.
Each value gets discrete Laplace noise, and the coordinator adds up a function of the noisy sums that undoes the noise on average
(`colonnade.estimation.unbiased_power`; docs/proofs/values-and-moments.md#unbiased-powers). For p = 1 sums are enough, as in the
paper. For p = 2 there is also the sketch of Theorem E.5, with random signs and with the noise subtracted.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.columns import ColumnName
from colonnade.coordinator.protocols.local_moments import best_sketch_size, centred_sketch, public_seed
from colonnade.errors import BadInput, ProtocolError
from colonnade.estimation.unbiased_power import UnbiasedPower
from colonnade.plan import Parameter, Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import discrete_laplace_variance, gaussian_sigma_squared, ledger_rho
from colonnade.privacy.laws.values import Carrier, Change, WholeValues
from colonnade.protocol.messages import Released, Rounds, ask_all
from colonnade.schema import Column
from colonnade.steps.kind import StepKind
from colonnade.steps.local import Total, Values, ValueSketch

__all__ = ["PerturbedPowers", "PowerMoment", "SketchedSquare", "Totals"]

BLOCK = 65_536
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
