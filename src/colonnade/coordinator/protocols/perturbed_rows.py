"""Paper 002, Algorithm 3: the baseline in which each party perturbs its own rows and the coordinator multiplies them.

We differ in the relation (zero-out: the number of rows is public, and was released there under add/remove all the
same), in the noise (discrete), and in subtracting its known variance from the diagonal. The price of doing without
peers is √people in every entry.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.features import Feature, coded_widths, features_of
from colonnade.coding.names import columns_at, parties_of
from colonnade.coordinator.protocols.gram_release import LARGEST_SCALE
from colonnade.errors import BadInput, ProtocolError
from colonnade.estimation.moments import Moments
from colonnade.plan import Plan, Step
from colonnade.privacy.calibration import gaussian_sigma_squared
from colonnade.privacy.price import Price
from colonnade.protocol.messages import Released
from colonnade.protocol.rounds import Rounds, ask_all
from colonnade.schema import Column
from colonnade.steps.projections import Rows

__all__ = ["PerturbedRows"]

ROWS_SCALE = 64
BLOCK = 65_536
Array = NDArray[np.float64]


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
