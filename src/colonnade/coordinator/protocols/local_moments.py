"""Second moments from what each party releases by itself: rows with noise, or random combinations of rows with noise.

Perturbed rows are the baseline: every row leaves its party with noise. The sketches are Algorithm 4 and Theorems E.4 and E.5 of
Primitives (Cohen-Addad, Kacham, Mirrokni, Zhong; docs/references.md#primitives; docs/proofs/projections.md#size).
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.columns import Feature, coded_widths, columns_at, features_of, parties_of
from colonnade.coordinator.protocols.moment_releases import is_positive, row_bound
from colonnade.errors import BadInput, ProtocolError
from colonnade.estimation.moments import Moments
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import gaussian_sigma_squared, ledger_rho
from colonnade.protocol.messages import Released, Rounds, ask_all
from colonnade.schema import Column
from colonnade.secure.signs import Signs
from colonnade.steps.local import Rows, Sketch
from colonnade.steps.terms import valid_scale

__all__ = [
    "LARGEST_SIZE",
    "ROWS_SCALE",
    "SKETCH_SCALE",
    "SMALLEST_SIZE",
    "PerturbedRows",
    "SketchedMoments",
    "best_sketch_size",
    "centred_sketch",
    "public_seed",
]

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
