"""What one party contributes to a coreset, computed from its table. None of it is differentially private."""

import hashlib
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, ProtocolError
from colonnade.party.steps.half import Arrays
from colonnade.party.steps.scored_rows import coded_columns, row_scores
from colonnade.party.steps.sums import SumPart
from colonnade.party.table.private_table import PrivateTable
from colonnade.privacy.randomness import KeyedRandomness, Randomness
from colonnade.steps.coresets import SCORE_SCALE, CoresetDraws, CoresetRows, CoresetSample, CoresetScores, CoresetTotal
from colonnade.steps.kind import Earlier

if TYPE_CHECKING:
    from colonnade.party.gate import AdmittedStep

__all__ = [
    "PrivateCoresetDraws",
    "PrivateCoresetRows",
    "PrivateCoresetSample",
    "PrivateCoresetScores",
    "PrivateCoresetTotal",
    "drawn_rows",
    "sampled_rows",
]


class PrivateCoresetTotal(CoresetTotal):
    """The sum of the rows' scores."""

    def disclose(self, table: PrivateTable, inputs: Arrays, randomness: Randomness) -> Arrays:  # noqa: ARG002
        """Return G."""
        return {"value": np.array([row_scores(self.terms, table).sum()])}


class PrivateCoresetSample(CoresetSample):
    """A public choice of rows."""

    def disclose(self, table: PrivateTable, inputs: Arrays, randomness: Randomness) -> Arrays:  # noqa: ARG002
        """Return the rows."""
        return {"rows": self.sample}


class PrivateCoresetRows(CoresetRows):
    """The values of the sampled rows."""

    def disclose(self, table: PrivateTable, inputs: Arrays, randomness: Randomness) -> Arrays:  # noqa: ARG002
        """Return one row per sampled person, in the order of the alignment."""
        sample = sampled_rows(self.earlier, self.terms.size)
        return {"value": np.ascontiguousarray(coded_columns(self.terms, table, self.columns, sample).T)}


class PrivateCoresetDraws(CoresetDraws):
    """The rows that this party drew, at its own places of the sum."""

    _counts: tuple[int, ...] = ()
    _vector: NDArray[np.int64] | None = None

    def join(self, admitted: "AdmittedStep") -> SumPart:
        """Return this party's part."""
        return SumPart(admitted)

    def accept(self, inputs: Arrays) -> Arrays:
        """Fix how many draws each party makes, in canonical order; together they are the size of the coreset."""
        counts = inputs.get("counts")
        if counts is None or counts.shape != (len(self.owners),) or counts.dtype.kind != "i" or counts.min() < 0:
            raise BadInput("The draws of a coreset are divided between its parties.")
        if int(counts.sum()) != self.terms.size:
            raise BadInput("The draws of a coreset add up to its size.")
        self._counts = tuple(int(count) for count in counts)
        return {"counts": counts}

    @property
    def length(self) -> int:
        """One place per draw."""
        return self.terms.size

    def summand(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return some of the places: this party's rows, counted from one, and zero where others draw."""
        if self._vector is None:
            self._vector = self._placed(table)
        return np.asarray(self._vector[start:stop])

    def _placed(self, table: PrivateTable) -> NDArray[np.int64]:
        mine = self.owners.index(self.party)
        first = sum(self._counts[:mine])
        places = _shuffled(bytes(self.earlier("key")["key"]), self.terms.size)[first : first + self._counts[mine]]
        vector = np.zeros(self.terms.size, dtype=np.int64)
        vector[places] = drawn_rows(row_scores(self.terms, table), len(places), self.question) + 1
        return vector


class PrivateCoresetScores(CoresetScores):
    """The scores of the drawn rows, in whole units."""

    _sample: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def join(self, admitted: "AdmittedStep") -> SumPart:
        """Return this party's part."""
        return SumPart(admitted)

    def accept(self, inputs: Arrays) -> Arrays:
        """Fix which rows, as the coordinator says; refuse more than the plan's size."""
        sample = inputs.get("rows")
        if sample is None or sample.ndim != 1 or not 1 <= len(sample) <= self.terms.size or sample.dtype.kind != "i":
            raise BadInput("A coreset has at most as many rows as its plan says.")
        if sample.min() < 0 or sample.max() >= self.people:
            raise BadInput("A coreset names rows that the alignment does not have.")
        self._sample = sample.astype(np.int64)
        return {"rows": self._sample}

    @property
    def length(self) -> int:
        """How many values the sum has."""
        return len(self._sample)

    def summand(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return some of the scores in whole units."""
        nonprivate = row_scores(self.terms, table)[self._sample[start:stop]]
        return np.rint(nonprivate * SCORE_SCALE).astype(np.int64)


def drawn_rows(scores: NDArray[np.float64], count: int, question: bytes) -> NDArray[np.int64]:
    """Return rows drawn by their scores; the same for the same scores and question."""
    cumulative = np.cumsum(scores)
    seed = hashlib.sha256(question + hashlib.sha256(scores.tobytes()).digest()).digest()
    uniforms = (KeyedRandomness(seed).words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    drawn = np.searchsorted(cumulative, uniforms * cumulative[-1], side="right")
    return np.asarray(np.minimum(drawn, len(scores) - 1), dtype=np.int64)


def _shuffled(key: bytes, count: int) -> NDArray[np.intp]:
    """Return the places in an order that only those know who have the key."""
    return np.asarray(np.argsort(KeyedRandomness(key).spawn("coreset places").words(count), kind="stable"))


def sampled_rows(earlier: Earlier, size: int) -> NDArray[np.int64]:
    """Return the people of the study's sample, each once: from this party's own ledger, never from a request."""
    sample = earlier("sample").get("rows")
    if sample is None or not 1 <= len(sample) <= size:
        raise ProtocolError("The sample of this study was not fixed.")
    return np.unique(sample)
