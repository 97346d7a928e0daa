"""Paper 002, Algorithm 2: one noisy Gram matrix of all parties' columns, from secret shares; everything else follows from it.

We differ from the paper in the noise (discrete Gaussian shares that tolerate colluders; Skellam on request), in its
weights (half the variance off the diagonal, for free), in the rounding (to nearest, with a row bound that holds for
every row) and in centring, which is part of the release: column sums are one more column, and nothing is preprocessed
by the data (`privacy.md` §4).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.features import Feature, coded_widths, features_of, places_beside_constant
from colonnade.coding.names import columns_at, parties_of
from colonnade.coordinator.protocols.joint_opening import JointResult, open_jointly
from colonnade.errors import BadInput
from colonnade.estimation.moments import Moments
from colonnade.plan import Plan, Step
from colonnade.privacy.laws import NoiseFamily
from colonnade.privacy.laws.gram import GramNoise
from colonnade.privacy.price import Price
from colonnade.protocol.rounds import Rounds
from colonnade.schema import Column
from colonnade.secure.products import entry_pairs
from colonnade.steps.gram import Gram
from colonnade.steps.joint import Joint

__all__ = ["DEFAULT_SCALE", "LARGEST_SCALE", "GramRelease"]

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
        assert isinstance(noise, GramNoise)  # the step's statistic decided
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
