"""Training on a coreset whose rows stay where they are (Coresets, §6: DISTDIM and SAGA). Not differentially private.

DISTDIM tells, for every sampled row, which of the party's local clusters it is in, and the centres. Vertical SAGA tells each
residual of the rows of a batch, summed over all parties under masks, batch after batch, and the coefficients at the end.

The party whitens its own block of the weighted sample before SAGA starts, which costs no communication: with
H = AᵀA + λI of its own columns and φ = H^(1/2)θ the blocks on the diagonal of the Hessian are unit matrices, so its condition
depends only on how much the parties' columns have in common (the γ of the paper's Assumption 4.1), and on no unit of
measurement. We differ from the paper in this, in taking rows in batches, and in summing under masks.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from colonnade.errors import BadInput
from colonnade.party.steps.coresets import sampled_rows
from colonnade.party.steps.half import Arrays
from colonnade.party.steps.scored_rows import coded_columns
from colonnade.party.steps.sums import require_no_price
from colonnade.party.table.private_table import PrivateTable
from colonnade.privacy.randomness import Randomness
from colonnade.protocol.messages import Array as Packed
from colonnade.protocol.messages import unpack
from colonnade.steps.coresets import CoresetClusters, CoresetGradient

if TYPE_CHECKING:
    from colonnade.party.gate import AdmittedStep

__all__ = ["PrivateCoresetClusters", "PrivateCoresetGradient", "SagaPart"]

Array = NDArray[np.float64]
MARGIN_SCALE = 2**32
RESTARTS = 5
NULL = 1e-10


class PrivateCoresetClusters(CoresetClusters):
    """Local clusters of the sampled rows."""

    def disclose(self, table: PrivateTable, inputs: Arrays, randomness: Randomness) -> Arrays:  # noqa: ARG002
        """Return centres by columns, and labels, of the rows under the coordinator's ``weights``."""
        sample = sampled_rows(self.earlier, self.terms.size)
        weights = _weights(inputs, len(sample))
        coded = coded_columns(self.terms, table, self.columns, sample).T
        count = min(self.terms.clusters, len(np.unique(coded, axis=0)))
        fitted = KMeans(count, n_init=RESTARTS, random_state=self.terms.seed).fit(coded, sample_weight=weights)
        labels = fitted.labels_.astype(np.int32)
        return {"centres": np.asarray(fitted.cluster_centers_, dtype=np.float64), "labels": labels}


class PrivateCoresetGradient(CoresetGradient):
    """One party's block of coefficients, and its rows of the weighted sample."""

    def join(self, admitted: "AdmittedStep") -> "SagaPart":
        """Return this party's part."""
        return SagaPart(admitted)

    def begin(self, table: PrivateTable, inputs: Arrays) -> int:
        """Whiten this party's block of the weighted sample; return how many rows it has."""
        sample = sampled_rows(self.earlier, self.terms.size)
        roots = np.sqrt(_weights(inputs, len(sample)) / self.people)
        block = coded_columns(self.terms, table, self.terms.features, sample)
        penalty = np.full(len(block), self.ridge)
        self._label = np.zeros(len(sample))
        if self.terms.target is not None:
            block = np.concatenate([np.ones((1, len(sample))), block])
            penalty = np.concatenate([[0.0], penalty])
            self._label = roots * coded_columns(self.terms, table, [str(self.terms.target)], sample)[0]
        weighted = block * roots
        self._back = _inverse_root(weighted @ weighted.T + np.diag(penalty))
        self._rows = weighted.T @ self._back
        self._penalty = self._back.T @ (penalty[:, None] * self._back)
        self._phi = np.zeros(self._rows.shape[1])
        self._table = np.zeros(len(sample))
        self._average = np.zeros(len(self._phi))
        return len(sample)

    def lengths(self) -> NDArray[np.int64]:
        """Return the squared lengths of the whitened rows, in whole units: the step length is made from their sums."""
        return _units(np.einsum("ij,ij->i", self._rows, self._rows))

    def margins(self, batch: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return this party's part of the residuals of a batch, in whole units."""
        return _units(self._rows[batch] @ self._phi - self._label[batch])

    def learn(self, batch: NDArray[np.int64], residuals: Array, step: float) -> None:
        """Take one step of SAGA: the batch's new residuals against the remembered ones, plus the remembered average."""
        change = self._rows[batch].T @ (residuals - self._table[batch])
        estimate = change * (len(self._table) / len(batch)) + self._average
        self._average += change
        self._table[batch] = residuals
        self._phi -= step * (estimate + self._penalty @ self._phi)

    def coefficients(self) -> Array:
        """Return this party's coefficients of the coded columns; the intercept in front where the target is held."""
        return np.asarray(self._back @ self._phi)


class SagaPart:
    """A data party's part in vertical SAGA: one line in the ledger, before the first masked value leaves."""

    def __init__(self, admitted: "AdmittedStep") -> None:
        require_no_price(admitted)
        self._admitted = admitted
        self._half = cast("PrivateCoresetGradient", admitted.half)
        self.lengths = self._half.lengths
        self.margins = self._half.margins
        self.learn = self._half.learn
        self.coefficients = self._half.coefficients

    def begin(self, inputs: Mapping[str, Packed]) -> int:
        """Prepare the block, record the release, and return how many rows the sample has."""
        self._admitted.prepare()
        arrays = {name: unpack(array) for name, array in inputs.items()}
        rows = self._admitted.compute(self._half.begin, arrays)
        self._admitted.record_exact(dict(inputs))
        return rows


def _units(values: Array) -> NDArray[np.int64]:
    return np.rint(np.clip(values * MARGIN_SCALE, -(2.0**62), 2.0**62)).astype(np.int64)


def _inverse_root(gram: Array) -> Array:
    """Return B with BᵀGB = I on the column space of G."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > NULL * max(float(values[-1]), 0.0) if len(values) else np.zeros(0, dtype=bool)
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))


def _weights(inputs: Mapping[str, NDArray[Any]], count: int) -> Array:
    weights = inputs.get("weights")
    if weights is None or weights.shape != (count,) or not np.all(np.isfinite(weights)) or not np.all(weights > 0):
        raise BadInput("A coreset has one positive weight a row.")
    return weights.astype(np.float64)
