"""What one party contributes to a coreset (paper 004, Algorithm 1). None of it is differentially private.

A total tells the rank of the party's columns, or how many clusters they have. Draws, and scores of the drawn rows, leave only
under masks that cancel in the sum over all parties (`colonnade.conversations.sums`): together they tell which rows matter to
somebody. Rows are exact values of the rows that were drawn. `privacy.md` §6 and `docs/explanation/coresets.md` say what this
gives away.

What limits the damage: the rows whose scores are summed are fixed once for each study, at most as many as its plan says, and kept
in the party's own ledger; only these rows are ever gathered, whatever a coordinator asks for later.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.conversations.sums import SumTerms
from colonnade.errors import BadInput, ProtocolError
from colonnade.party.steps.categories import only_parameters
from colonnade.party.steps.memberships import Earlier
from colonnade.party.steps.scored_rows import CORESET, ScoredRows
from colonnade.party.table.private_table import PrivateTable
from colonnade.plan import Plan, Step
from colonnade.privacy.randomness import KeyedRandomness, Randomness
from colonnade.protocol import codec
from colonnade.protocol.public_choice import public_positions
from colonnade.schema import Schema

__all__ = [
    "SCORE_SCALE",
    "CoresetDraws",
    "CoresetRows",
    "CoresetSample",
    "CoresetScores",
    "CoresetTotal",
    "drawn_rows",
    "sampled_rows",
]

SCORE_SCALE = 2**48
"""Scores are summed as integers, in this unit: a score of 1/people keeps eight digits with a million people."""

Inputs = Mapping[str, NDArray[Any]]
Values = Mapping[str, NDArray[Any]]


class CoresetTotal:
    """G: the sum of a party's scores. It tells the rank of the block plus one, or how many clusters have rows."""

    name = "total of importance scores, exact"

    def __init__(self, plan: Plan, step: Step, schema: Schema) -> None:
        only_parameters(step, CORESET)
        self.rows = ScoredRows(plan, step, schema)

    def disclose(self, table: PrivateTable, inputs: Inputs, randomness: Randomness) -> Values:  # noqa: ARG002
        """Return G."""
        return {"value": np.array([self.rows.scores(table).sum()])}


class CoresetDraws:
    """Rows drawn with probability g/G, with replacement, for a secure sum that hides who drew which.

    The sum has one place a draw. A key that the parties agreed on says which places are whose; a party puts the rows that it drew
    there (counted from one) and nothing elsewhere. The coordinator thus learns which rows were drawn and not by whom; so does a
    peer, which knows whose the places are but is shown the rows in another order. The two together learn it.

    The draw follows from the data and the plan: its seed is a hash of the scores themselves. Asking again tells nothing new, and
    whoever does not know all of the party's scores cannot foresee or steer it.
    """

    name = "rows drawn by importance, exact"
    looks_back = True

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier) -> None:
        only_parameters(step, CORESET | {"bound", "recipient"})
        self.rows = ScoredRows(plan, step, schema)
        terms = SumTerms.read(plan, step.name)
        if terms.ring.bound < plan.people:
            raise BadInput("The bound of the sum is below the number of people.")
        self._owners, self._party = terms.owners, step.party
        self._question = codec.request_identity(plan, step.party, step.name)
        self._earlier = earlier
        self._counts: list[int] = []
        self._vector: NDArray[np.int64] | None = None

    def accept(self, inputs: Inputs) -> Values:
        """Fix how many draws each party makes, in canonical order; together they are the size of the coreset."""
        counts = inputs.get("counts")
        if counts is None or counts.shape != (len(self._owners),) or counts.dtype.kind != "i" or counts.min() < 0:
            raise BadInput("The draws of a coreset are divided between its parties.")
        if int(counts.sum()) != self.rows.size:
            raise BadInput("The draws of a coreset add up to its size.")
        self._counts = [int(count) for count in counts]
        return {"counts": counts}

    @property
    def length(self) -> int:
        """One place a draw."""
        return self.rows.size

    def summand(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return some of the places: this party's rows, counted from one, and zero where others draw."""
        if self._vector is None:
            self._vector = self._placed(table)
        return np.asarray(self._vector[start:stop])

    def _placed(self, table: PrivateTable) -> NDArray[np.int64]:
        mine = self._owners.index(self._party)
        first = sum(self._counts[:mine])
        places = _shuffled(bytes(self._earlier("key")["key"]), self.rows.size)[first : first + self._counts[mine]]
        vector = np.zeros(self.rows.size, dtype=np.int64)
        vector[places] = drawn_rows(self.rows.scores(table), len(places), self._question) + 1
        return vector


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


class CoresetScores:
    """A party's scores of the drawn rows, for the secure sum."""

    name = "sum of importance scores, exact"

    def __init__(self, plan: Plan, step: Step, schema: Schema) -> None:
        only_parameters(step, CORESET | {"bound", "recipient"})
        self.rows = ScoredRows(plan, step, schema)
        terms = SumTerms.read(plan, step.name)
        if terms.ring.bound < self.rows.largest_score() * SCORE_SCALE:
            raise BadInput("The bound of the sum is below the largest score.")
        self._sample = np.empty(0, dtype=np.int64)

    def accept(self, inputs: Inputs) -> Values:
        """Fix which rows, as the coordinator says; refuse more than the plan's size."""
        sample = inputs.get("rows")
        if sample is None or sample.ndim != 1 or not 1 <= len(sample) <= self.rows.size or sample.dtype.kind != "i":
            raise BadInput("A coreset has at most as many rows as its plan says.")
        if sample.min() < 0 or sample.max() >= self.rows.people:
            raise BadInput("A coreset names rows that the alignment does not have.")
        self._sample = sample.astype(np.int64)
        return {"rows": self._sample}

    @property
    def length(self) -> int:
        """How many values the sum has."""
        return len(self._sample)

    def summand(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return some of the scores in whole units."""
        nonprivate = self.rows.scores(table)[self._sample[start:stop]]
        return np.rint(nonprivate * SCORE_SCALE).astype(np.int64)


class CoresetSample:
    """A uniform sample: every party repeats the same public choice of rows, which says nothing about anybody."""

    name = "public uniform choice of rows"

    def __init__(self, plan: Plan, step: Step, schema: Schema) -> None:
        only_parameters(step, CORESET)
        self.rows = ScoredRows(plan, step, schema)
        self._sample = public_positions(plan, step.name, self.rows.size)

    def disclose(self, table: PrivateTable, inputs: Inputs, randomness: Randomness) -> Values:  # noqa: ARG002
        """Return the rows."""
        return {"rows": self._sample}


class CoresetRows:
    """The exact coded values of the sampled rows."""

    name = "rows of a coreset, exact"
    looks_back = True

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier) -> None:
        only_parameters(step, CORESET)
        self.rows = ScoredRows(plan, step, schema)
        self._earlier = earlier

    def disclose(self, table: PrivateTable, inputs: Inputs, randomness: Randomness) -> Values:  # noqa: ARG002
        """Return one row a sampled person, in the order of the alignment."""
        sample = sampled_rows(self._earlier, self.rows.size)
        return {"value": np.ascontiguousarray(self.rows.coded(table, self.rows.columns, sample).T)}


def sampled_rows(earlier: Earlier, size: int) -> NDArray[np.int64]:
    """Return the people of the study's sample, each once: from this party's own ledger, never from a request."""
    sample = earlier("sample").get("rows")
    if sample is None or not 1 <= len(sample) <= size:
        raise ProtocolError("The sample of this study was not fixed.")
    return np.unique(sample)
