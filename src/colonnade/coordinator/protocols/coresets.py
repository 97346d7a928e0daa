"""Drawing a coreset together, and training on it where the rows are. Not differentially private.

Algorithms 1 to 3 and §6 of Coresets (Huang, Li, Sun, Zhao, 2022; docs/references.md#coresets). See also
docs/proofs/non-private.md#coresets and #weights.

We differ from the paper in four ways. Draws come through a secure sum with secret places, so that the coordinator learns
which rows were drawn and not by which party. So do scores of drawn rows: no party's own score is seen. A coreset's rows are
fixed in each party's ledger, and only these are gathered. And in vertical SAGA residuals are summed under masks, in batches,
after each party has whitened its own block. It stays what it is: not differentially private.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.conversations.sums import LARGEST_TURN, batch_of
from colonnade.coordinator.driver import Relay, agree_on_key, forget_key, key_steps, open_sum, unmasked_sum
from colonnade.errors import BadInput, ProtocolError
from colonnade.estimation import coresets
from colonnade.plan import Parameter, Plan, Step
from colonnade.protocol.messages import Array, Opened, Recall, Released, Rounds, ask_all, pack, unpack
from colonnade.protocol.public_choice import public_positions, public_uniforms
from colonnade.schema import Column
from colonnade.schema.features import ColumnName, Feature, coded_widths, columns_at, features_of, parties_of
from colonnade.steps import sums
from colonnade.steps.kind import StepKind

BlockCoefficients = Mapping[str, NDArray[np.float64]]
MARGIN_SCALE = 2**32
EPOCHS = 300
SETTLED = 1e-4
"""Relative change of residuals over an epoch, below which the training ends; the loss is then within about 10⁻⁴ of the best."""


def vertical_saga(plan: Plan, step: str, weights: NDArray[np.float64], widths: Mapping[str, int]) -> Rounds:
    """Train by vertical SAGA, and return each party's coefficients of its coded columns (after scaling to [−1, 1]).

    Each turn every party sends its masked part of a batch's residuals. The coordinator opens their sum and sends it back, and
    every party steps. In the whitened coordinates of `colonnade.party.steps.coresets` the gradient of row i is u_i·r_i with
    ‖u_i‖² its leverage. So the smoothness of a batch of b of m rows is L(b) = m(b−1)/(b(m−1))·L + (m−b)/(b(m−1))·m·max‖u_i‖²
    with L ≤ the number of parties (Gower, Richtárik and Bach 2021), and the step is 1/(3·L(b)).

    Parameters
    ----------
    plan, step
        The plan, and the name of the step.
    weights
        The weights of the sampled rows.
    widths
        The number of coefficients of each party.
    """
    terms, rows = sums.SumTerms.read(plan, step), len(weights)
    relay = Relay(plan, step, terms.owners)
    yield from relay.greet()
    replies = yield from relay.last({"weights": pack(weights)})
    lengths = unmasked_sum(terms, replies, rows) / MARGIN_SCALE
    batch = len(batch_of(plan, 2, rows))
    length = _step_length(lengths, batch, len(terms.owners))
    known = np.full(rows, np.nan)
    inputs: dict[str, Array] = {}
    turns = -(-rows // batch)
    moved, size = np.zeros(turns), np.ones(turns)
    for number in range(2, min(LARGEST_TURN - 1, EPOCHS * turns)):
        replies = yield from relay.last(inputs)
        places = batch_of(plan, number, rows)
        residuals = unmasked_sum(terms, replies, batch) / MARGIN_SCALE
        change = residuals - np.nan_to_num(known[places])
        moved[number % turns], size[number % turns] = change @ change, residuals @ residuals
        known[places] = residuals
        inputs = {"residuals": pack(residuals), "step": pack(np.array([length]))}
        if number > 4 * turns and moved.sum() <= SETTLED**2 * max(float(size.sum()), 1e-300):
            break
    replies = yield from relay.last({**inputs, "stop": pack(np.zeros(1))})
    return {party: _block(party, replies[party], widths[party]) for party in terms.owners}


def _step_length(lengths: NDArray[np.float64], batch: int, parties: int) -> float:
    rows = len(lengths)
    whole, single = float(parties), rows * float(max(lengths.max(), 1e-12))
    if rows == batch:
        return 1 / whole
    smoothness = rows * (batch - 1) * whole + (rows - batch) * single
    return batch * (rows - 1) / (3 * smoothness)


def _block(party: str, reply: object, width: int) -> NDArray[np.float64]:
    own = unpack(reply.own) if isinstance(reply, Opened) and reply.own is not None else None
    if own is None or own.shape != (width,) or not np.all(np.isfinite(own)):
        raise ProtocolError(f"Party {party!r} sent coefficients of another shape.")
    return own.astype(np.float64)


Floats = NDArray[np.float64]
Training = Literal["none", "rows", "clusters", "saga"]
"""What follows the sample: nothing, gathering its rows, local clusters of it (DISTDIM), or residuals of it (SAGA)."""

MARGIN_BOUND = 2**50
SMALLEST_BOUND = 2**32
"""The smallest bound on draws: they are summed in eight bytes, like all other numbers of a coreset."""


@dataclass(frozen=True, eq=False)
class CoresetFindings:
    """What a coreset study learned.

    Parameters
    ----------
    coreset
        Rows and weights.
    gathered
        The sampled rows, coded, all parties' columns side by side (training ``"rows"``).
    clusters
        Each party's local centres and labels (training ``"clusters"``).
    coefficients
        Each party's coefficients (training ``"saga"``).
    """

    coreset: coresets.WeightedSample
    gathered: Floats | None = None
    clusters: Mapping[str, tuple[Floats, NDArray[np.int64]]] | None = None
    coefficients: BlockCoefficients | None = None


@dataclass(frozen=True)
class CoresetStudy:
    """One coreset, and what is trained on it.

    Parameters
    ----------
    columns
        ``"party.column"`` to its description, in the federation's order, the target among them; of two parties or more.
    task, target, clusters
        The problem that the coreset is for.
    size, people
        The number of draws, and the number of people.
    uniform
        Whether rows are drawn uniformly by a public choice instead.
    training
        What is trained on the sample.
    seed
        The seed of public choices.
    ridge
        Penalty of vertical SAGA on squared coded coefficients, relative to the mean squared residual.
    """

    columns: Mapping[str, Column]
    task: coresets.Task
    size: int
    people: int
    target: str | None = None
    clusters: int = 1
    uniform: bool = False
    training: Training = "none"
    seed: int = 0
    ridge: float = 0.0

    def __post_init__(self) -> None:
        if len(self.parties) < 2:
            raise BadInput(
                "A coreset takes columns of at least two parties.", remedy="One party alone needs no federation."
            )

    @cached_property
    def parties(self) -> tuple[str, ...]:
        """The parties whose columns enter, in the federation's order."""
        return parties_of(self.columns)

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        """The coded columns that are gathered: the target's among them, no constant."""
        return features_of(self.columns)[1:]

    def width(self, party: str) -> int:
        """How many coded columns a party has, its target included."""
        return coded_widths(self.features)[party]

    # What is asked ------------------------------------------------------------------------------------------------------

    def steps(self) -> tuple[Step, ...]:
        """Return the steps of every party."""
        names: NamedKinds = [("sample", sums.CoresetSample)] if self.uniform else IMPORTANCE
        names = [*names, *TRAININGS[self.training]]
        keys = () if self.uniform else self.parties
        return (
            *key_steps(keys, "key"),
            *(self._step(party, name, kind) for party in self.parties for name, kind in names),
        )

    def rounds(self, plan: Plan) -> Rounds:
        """Draw the coreset, then train."""
        coreset = yield from (self._uniform(plan) if self.uniform else self._importance(plan))
        if self.training == "rows":
            return CoresetFindings(coreset, gathered=(yield from self._gather(plan, coreset)))
        if self.training == "clusters":
            return CoresetFindings(coreset, clusters=(yield from self._cluster(plan, coreset)))
        if self.training == "saga":
            found = yield from vertical_saga(plan, "train", coreset.weights, self._block_widths())
            return CoresetFindings(coreset, coefficients=found)
        return CoresetFindings(coreset)

    # The sample ---------------------------------------------------------------------------------------------------------

    def _uniform(self, plan: Plan) -> Rounds:
        replies = yield from ask_all(plan, "sample")
        sample = public_positions(plan, "sample", self.size)
        if any(not np.array_equal(reply.array("rows"), sample) for reply in replies.values()):
            raise ProtocolError("The parties do not repeat the same public choice of rows.")
        return coresets.weighted_coreset(sample, np.full(self.size, 1.0 / self.people), 1.0)

    def _importance(self, plan: Plan) -> Rounds:
        totals = yield from self._totals(plan)
        sample = yield from self._kept(plan)
        if sample is None:
            yield from agree_on_key(plan, "key")
            sample = yield from self._draw(plan, totals)
        scores = yield from open_sum(plan, "sample", len(sample), {"rows": pack(sample)})
        yield from forget_key(plan, "key")  # also where an earlier run failed just before
        return coresets.weighted_coreset(sample, scores / sums.SCORE_SCALE, sum(totals.values()))

    def _totals(self, plan: Plan) -> Rounds:
        replies = yield from ask_all(plan, "total")
        claimed = {party: _number(party, reply) for party, reply in replies.items()}
        return coresets.checked_totals(claimed, self.maxima())

    def maxima(self) -> dict[str, float]:
        """Return the largest total that each party can have, from public facts."""
        held = None if self.target is None else ColumnName.of(self.target).party
        return {
            party: coresets.largest_total(
                self.task, self.width(party) - (party == held), self.people, self.clusters, target=party == held
            )
            for party in self.parties
        }

    def _kept(self, plan: Plan) -> Rounds:
        """Return the sample that the parties have kept of an earlier run of this plan, if there was one."""
        replies = yield {party: Recall(plan=plan, step="sample") for party in self.parties}
        for reply in replies.values():
            if isinstance(reply, Released):
                return reply.array("rows").astype(np.int64)
        return None

    def _draw(self, plan: Plan, totals: Mapping[str, float]) -> Rounds:
        """Have the parties draw. The rows are sorted, so that nobody can tell which party drew which row."""
        shares = coresets.allocate_draws(totals, public_uniforms(plan, "allocation", self.size))
        counts = np.array([shares[party] for party in sorted(shares)])
        drawn = yield from open_sum(plan, "draws", self.size, {"counts": pack(counts)})
        if not _in_range(drawn - 1, self.people):
            raise ProtocolError("The parties drew rows that the alignment does not have.")
        return np.sort(drawn - 1)

    # What follows -------------------------------------------------------------------------------------------------------

    def _gather(self, plan: Plan, coreset: coresets.WeightedSample) -> Rounds:
        replies = yield from ask_all(plan, "rows")
        parts = []
        for party in self.parties:
            rows = replies[party].array("value")
            if rows.shape != (len(coreset.rows), self.width(party)) or rows.dtype != np.float64:
                raise ProtocolError(f"Party {party!r} sent rows of another shape.")
            parts.append(rows)
        gathered = np.concatenate(parts, axis=1)
        if not np.all(np.isfinite(gathered)) or np.abs(gathered).max(initial=0.0) > 1 + 1e-9:
            raise ProtocolError("A party sent rows outside its public bounds.")
        return gathered

    def _cluster(self, plan: Plan, coreset: coresets.WeightedSample) -> Rounds:
        replies = yield from ask_all(plan, "clusters", {"weights": pack(coreset.weights)})
        found = {}
        for party in self.parties:
            centres, labels = replies[party].array("centres"), replies[party].array("labels").astype(np.int64)
            if centres.ndim != 2 or centres.shape[1] != self.width(party) or not 1 <= len(centres) <= self.clusters:
                raise ProtocolError(f"Party {party!r} sent centres of another shape.")
            if labels.shape != coreset.rows.shape or not _in_range(labels, len(centres)):
                raise ProtocolError(f"Party {party!r} sent labels of another shape.")
            found[party] = (centres.astype(np.float64), labels)
        return found

    def _block_widths(self) -> dict[str, int]:
        """Coefficients of each party: the target's party has the intercept in place of the target."""
        return {party: self.width(party) for party in self.parties}

    def _step(self, party: str, name: str, kind: type[StepKind]) -> Step:
        own = columns_at(party, self.columns)
        parameters: dict[str, Parameter] = {
            "task": "uniform" if self.uniform else self.task,
            "size": self.size,
            "clusters": self.clusters,
            "seed": self.seed,
        }
        if self.target is not None and ColumnName.of(self.target).party == party:
            parameters["target"] = ColumnName.of(self.target).column
        bounds: dict[type[StepKind], dict[str, Parameter]] = {
            sums.CoresetDraws: {"bound": max(self.people, SMALLEST_BOUND)},
            sums.CoresetScores: {"bound": int(sums.LARGEST_SCORES[self.task]) * sums.SCORE_SCALE},
            sums.CoresetGradient: {"bound": MARGIN_BOUND, "ridge": float(self.ridge)},
        }
        parameters |= bounds.get(kind, {})
        return kind.ask(name=name, party=party, columns=own, parameters=parameters, price=None)


NamedKinds = list[tuple[str, type[StepKind]]]
IMPORTANCE: NamedKinds = [("total", sums.CoresetTotal), ("draws", sums.CoresetDraws), ("sample", sums.CoresetScores)]
TRAININGS: Mapping[Training, NamedKinds] = {
    "none": [],
    "rows": [("rows", sums.CoresetRows)],
    "clusters": [("clusters", sums.CoresetClusters)],
    "saga": [("train", sums.CoresetGradient)],
}


def _number(party: str, reply: Released) -> float:
    value = reply.array("value")
    if value.shape != (1,) or value.dtype != np.float64:
        raise ProtocolError(f"Party {party!r} sent a total of another shape.")
    return float(value[0])


def _in_range(places: NDArray[np.generic], people: int) -> bool:
    return bool(places.size == 0 or (places.min() >= 0 and places.max() < people))
