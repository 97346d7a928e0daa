"""Releases of second moments: a Gram matrix on shares, its variant on a union of lists, and the baseline of perturbed rows.

Secure PCA, Algorithms 1 to 3; docs/proofs/gram.md and docs/proofs/union-moments.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.columns import (
    Feature,
    coded_widths,
    columns_at,
    consecutive_places,
    features_of,
    parties_of,
    places_beside_constant,
)
from colonnade.coordinator.protocols.relaying import JointResult, open_jointly
from colonnade.errors import BadInput, ProtocolError
from colonnade.estimation.moments import Moments
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import gaussian_sigma_squared
from colonnade.privacy.laws import NoiseFamily
from colonnade.privacy.laws.gram import GramNoise
from colonnade.privacy.laws.union import UnionNoise
from colonnade.protocol.messages import Released, Rounds, ask_all
from colonnade.schema import Column
from colonnade.secure.products import entry_pairs
from colonnade.steps.joint import Joint
from colonnade.steps.local import Rows
from colonnade.steps.products import Gram, UnionCross, UnionOwn

__all__ = ["DEFAULT_SCALE", "LARGEST_SCALE", "GramRelease", "PerturbedRows", "UnionRelease"]


DEFAULT_SCALE = {"gaussian": 4096, "skellam": 64}
"""γ: a coded column takes 2γ + 1 values. Skellam noise can be drawn exactly up to a mean of 2⁵², hence the coarser grid."""

LARGEST_SCALE = 1 << 20

Array = NDArray[np.float64]


@dataclass(frozen=True)
class GramRelease:
    """One joint opening of second moments.

    Parameters
    ----------
    columns
        ``"party.column"`` to its description, in the federation's order; of two parties or more.
    price
        What the opening offers to pay; δ must be positive.
    signed
        Two-level categories coded as one ±1 column.
    noise
        ``"gaussian"`` or ``"skellam"``.
    scale
        γ; by default 4,096 (64 for Skellam).
    row_norms
        Party to the length (in coded units) to which it clips its rows; by default nothing needs clipping.
    """

    columns: Mapping[str, Column]
    price: Price
    signed: tuple[str, ...] = ()
    noise: NoiseFamily = "gaussian"
    scale: int | None = None
    row_norms: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.noise, str) or self.noise not in DEFAULT_SCALE:
            raise BadInput("noise must be 'gaussian' or 'skellam'.")
        if len(self.parties) < 2:
            raise BadInput(
                "A secure Gram matrix takes columns of at least two parties.",
                remedy="Name columns of another party too; one party alone needs no federation.",
            )
        if self.price.delta == 0:
            raise BadInput(
                "Secure moments need a positive delta.",
                remedy="For example delta=1e-6, well below 1/people; for delta=0 see method='functional'.",
            )
        if type(self.gamma) is not int or not 1 <= self.gamma <= LARGEST_SCALE:
            raise BadInput(f"scale is a whole number between 1 and {LARGEST_SCALE:,}.")
        norms = {} if self.row_norms is None else self.row_norms
        if (
            not isinstance(norms, Mapping)
            or set(norms) - set(self.parties)
            or any(not _positive(norm) for norm in norms.values())
        ):
            raise BadInput("row_norms maps parties of the study to positive lengths.")

    @property
    def parties(self) -> tuple[str, ...]:
        """Whose columns enter, in the federation's order."""
        return parties_of(self.columns)

    @property
    def features(self) -> tuple[Feature, ...]:
        """The coded columns, the constant one first."""
        return features_of(self.columns, signed=self.signed)

    @property
    def gamma(self) -> int:
        """γ."""
        return DEFAULT_SCALE[self.noise] if self.scale is None else self.scale

    def steps(self) -> tuple[Step, ...]:
        """Return one step a party: its part in the matrix."""
        return tuple(self._step(party) for party in self.parties)

    def rounds(self, plan: Plan) -> Rounds:
        """Open the matrix and read it as moments."""
        opened = yield from open_jointly(plan, "gram")
        return self.read(opened)

    def read(self, opened: JointResult) -> Moments:
        """Put the opened entries and the parties' own parts together, in coded units."""
        unit = float(self.gamma) ** 2
        matrix = np.zeros((len(self.features), len(self.features)))
        first, second = entry_pairs(opened.joint.widths)
        matrix[first + 1, second + 1] = opened.cross / unit
        for party, places in places_beside_constant(opened.joint.owners, opened.joint.widths).items():
            rows, columns = np.triu_indices(len(places))
            matrix[places[rows[1:]], places[columns[1:]]] = opened.own[party] / unit
        whole = np.triu(matrix) + np.triu(matrix, 1).T
        return Moments.of_release(whole, self.variance(opened.joint), opened.joint.people, self.features)

    def variance(self, joint: Joint) -> Array:
        """Return the variance of every entry, in coded units."""
        noise = joint.noise
        assert isinstance(noise, GramNoise)  # the step's kind decided
        unit = float(self.gamma) ** 4
        variance = np.full((len(self.features), len(self.features)), noise.opened_variance / unit)
        alone = float(noise.own_variance) / unit
        for places in places_beside_constant(joint.owners, joint.widths).values():
            variance[np.ix_(places, places)] = alone
        diagonal = np.arange(len(variance))
        variance[diagonal, diagonal] = 2 * alone
        variance[0, 0] = 0.0
        return variance

    def _step(self, party: str) -> Step:
        own = columns_at(party, self.columns)
        asked = columns_at(party, self.signed)
        return Gram.ask(
            name="gram",
            party=party,
            columns=own,
            parameters={
                "scale": self.gamma,
                "signed": tuple(name for name in own if name in asked),  # in one order: equal studies have equal plans
                "row_bound": self._row_bound(party, len(own)),
                "width": coded_widths(self.features)[party],
                "noise": self.noise,
            },
            price=self.price,
        )

    def _row_bound(self, party: str, columns: int) -> int:
        natural = self.gamma**2 * columns
        norm = (self.row_norms or {}).get(party)
        return natural if norm is None else max(1, min(natural, int(self.gamma**2 * norm**2)))


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0 and isfinite(value)


CROSS = "cross"


@dataclass(frozen=True)
class UnionRelease(GramRelease):
    """Three joint openings that make one matrix of moments; parameters as for `GramRelease`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise != "gaussian":
            raise BadInput("On a union the noise is 'gaussian'.")

    def steps(self) -> tuple[Step, ...]:
        """Return a step a party for the products between the two, and two for each party's own products."""
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
        """Read the three parts as moments, in coded units; the number of people is the released one."""
        unit = float(self.gamma) ** 2
        left, right = self.parties
        size = 1 + self._width(left) + self._width(right)
        matrix = np.zeros((size, size))
        between = (cross.cross / unit).reshape(self._width(left) + 1, self._width(right) + 1)
        places = consecutive_places(coded_widths(self.features), first=1)
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
        """Return the variance of every entry, in coded units: both parties' shares of it."""
        assert isinstance(joint.noise, UnionNoise)  # the step's kind decided
        size = len(self.features)
        variance = np.full((size, size), 2 * joint.noise.share_variance / float(self.gamma) ** 4)
        np.fill_diagonal(variance, 2 * variance[0, 0])
        return variance

    def _width(self, party: str) -> int:
        return coded_widths(self.features)[party]

    def _part(self, party: str, part: str, width: int) -> Step:
        plain = self._step(party)
        parameters = {name: plain.parameters[name] for name in ("scale", "signed", "row_bound")}
        kind = UnionCross if part == CROSS else UnionOwn
        return kind.ask(
            name=CROSS if part == CROSS else _own(part),
            party=party,
            columns=plain.columns,
            parameters={**parameters, "width": width, "coded": self._width(party), "part": part},
            price=self.price,
        )


def _own(party: str) -> str:
    return f"own products of {party}"


ROWS_SCALE = 64
BLOCK = 65_536


@dataclass(frozen=True)
class PerturbedRows:
    """Noisy rows from every party, and the moments they give.

    Parameters
    ----------
    columns
        ``"party.column"`` to its description, in the federation's order.
    price
        What each party's release offers to pay; δ must be positive.
    people
        m, public.
    scale
        γ.
    """

    columns: Mapping[str, Column]
    price: Price
    people: int
    scale: int = ROWS_SCALE

    def __post_init__(self) -> None:
        if self.price.delta == 0:
            raise BadInput("Perturbed rows need a positive delta.", remedy="For example delta=1e-6.")
        if type(self.scale) is not int or not 1 <= self.scale <= LARGEST_SCALE:
            raise BadInput(f"scale is a whole number between 1 and {LARGEST_SCALE:,}.")

    @property
    def parties(self) -> tuple[str, ...]:
        """Whose columns enter, in the federation's order."""
        return parties_of(self.columns)

    @property
    def features(self) -> tuple[Feature, ...]:
        """The coded columns, the constant one first."""
        return features_of(self.columns)

    def steps(self) -> tuple[Step, ...]:
        """Return one step a party: its rows."""
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
