"""One party's part in a histogram of scores by label (`colonnade.steps.score_bins` says what is added up, and why)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, PlanMismatch, SchemaMismatch
from colonnade.party.steps.categories import only_parameters
from colonnade.party.steps.parameters import seed_parameter, whole_parameter
from colonnade.party.steps.partial_scores import LARGEST_NUMBER, PartialScores, numbers_parameter, wholes_parameter
from colonnade.party.table.private_table import PrivateTable
from colonnade.plan import Plan, Step
from colonnade.privacy.laws import Sampler
from colonnade.privacy.laws.joint_noise import TableNoise
from colonnade.privacy.loss import Loss
from colonnade.privacy.randomness import KeyedRandomness, Randomness
from colonnade.schema import Category, Schema
from colonnade.steps.joint import Joint
from colonnade.steps.score_bins import ScoreTable

__all__ = ["ScoreHistogram"]

PARAMETERS = frozenset(
    {"role", "weights", "low", "step", "parts", "bins", "labels", "seed", "label", "points", "guesses", "kept"}
)
NOBODY = -1


class ScoreHistogram:
    """How many steps this party's part of a score is, for every person; with the label at the party that holds it.

    A part is counted in steps above its public lowest value and rounded up or down by a public coin that no record has a say in
    (dither), so that rounding has no direction. Sensitivity: a person is in one count or in none. A record without any value
    here, or without a label, takes the person out of the histogram, so zeroing a record out, at one party or at all of them,
    moves one count by one (`colonnade.privacy.laws.joint_noise.TableNoise` with one table). Checked by
    tests/party/test_score_statistics.py.
    """

    name = "histogram of scores with noise in shares"
    looks_at_presence = True

    def __init__(self, plan: Plan, step: Step, schema: Schema) -> None:
        parameters = only_parameters(step, PARAMETERS)
        joint = Joint.read(plan, step.name)
        assert isinstance(joint.noise, TableNoise)  # the statistic's name decided
        assert joint.table is not None  # likewise
        self.noise, self.table = joint.noise, joint.table
        self.party = step.party
        self.columns = step.columns
        self.label = _label_of(step, schema, self.table) if step.party == self.table.right else None
        features = [name for name in step.columns if name != getattr(self.label, "column", None)]
        weights = numbers_parameter(parameters.get("weights"))
        self.scores = PartialScores(features, schema, weights) if features else None
        if (0 if self.scores is None else self.scores.outputs) != (1 if features else len(weights)):
            raise PlanMismatch("A histogram has one score.")
        (self.low,) = numbers_parameter((parameters.get("low"),))
        (self.step,) = numbers_parameter((parameters.get("step"),))
        if self.step < 1 / LARGEST_NUMBER:
            raise BadInput("The step of a histogram is positive, and of ordinary size.")
        self.parts = whole_parameter(parameters.get("parts"))
        self.seed = seed_parameter(parameters.get("seed"))
        self.owner = step.party if plan.unit == "party" else None
        self.received: NDArray[np.int64] | None = None

    @property
    def loss(self) -> Loss:
        """The full loss of the opening; a record at one party moves as much as a whole one."""
        loss = self.noise.loss(party=self.owner)
        assert loss is not None  # with no more colluders than the plan allows, noise is left
        return loss

    def prepare(self, table: PrivateTable) -> None:
        """Read who has a record, before anything is paid."""
        table.present(self.columns)

    def numbers(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return some people's parts in steps, −1 for a person without a record here."""
        nonprivate = np.zeros(stop - start, dtype=np.int64)
        if self.scores is not None:
            above = (self.scores.values(table, start, stop) - self.low) / self.step
            counted = np.floor(above + self._coins(table.people)[start:stop])
            nonprivate = np.clip(counted, 0, self.parts - 1).astype(np.int64)
        return np.where(table.present(self.columns)[start:stop], nonprivate, NOBODY)

    def give(self, table: PrivateTable, randomness: Randomness) -> tuple[bytes, bytes]:
        """Divide everybody's number into two that are uniform each; a person without a record adds the number of bins."""
        numbers = self.numbers(table, 0, table.people)
        nonprivate = np.where(numbers == NOBODY, self.table.bins, numbers)
        drawn = np.frombuffer(randomness.bytes(2 * table.people), dtype="<u2").astype(np.int64)
        share = drawn % self.table.modulus  # a power of two: uniform
        rest = (nonprivate - share) % self.table.modulus
        return share.astype("<u2").tobytes(), rest.astype("<u2").tobytes()

    def receive(self, part: memoryview, people: int) -> None:
        """Add one giver's numbers to this party's own."""
        if part.nbytes != 2 * people:
            raise BadInput("A giver's letter is not one number a person.")
        numbers = np.frombuffer(part, dtype="<u2").astype(np.int64)
        self.received = numbers if self.received is None else self.received + numbers

    def cross_noise(self, entries: int, sampler: Sampler) -> NDArray[np.int64]:
        """Return Pólya shares of discrete Laplace noise, or discrete Gaussian shares."""
        return self.noise.draw_share(entries, sampler)

    def rows(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return indicators of number and label; none for a person without a record, or without a label."""
        numbers, modulus = self.numbers(table, start, stop), self.table.modulus
        counted = numbers != NOBODY
        codes = numbers if self.received is None else (numbers + self.received[start:stop]) % modulus
        if self.label is not None:
            labels = self.label.codes(table, start, stop)
            counted = counted & (labels >= 0)
            codes = codes * self.table.labels + labels
        nonprivate = np.zeros((self.table.widths[self.party], stop - start), dtype=np.int64)
        present = np.flatnonzero(counted)
        nonprivate[codes[present], present] = 1
        return nonprivate

    def own(self, table: PrivateTable, sampler: Sampler) -> None:  # noqa: ARG002
        """Nothing: the histogram is all."""
        return

    def _coins(self, people: int) -> NDArray[np.float64]:
        """Return one public number between 0 and 1 a person, of this party's own."""
        words = KeyedRandomness(self.seed).spawn(f"dither {self.party}").words(people)
        return np.asarray((words >> np.uint64(11)).astype(np.float64) * 2.0**-53)


class _Level:
    """A label that stands in a category column."""

    def __init__(self, step: Step, schema: Schema, table: ScoreTable) -> None:
        label = step.parameters.get("label")
        column: Any = schema[label] if isinstance(label, str) and label in step.columns else None
        if not isinstance(column, Category):
            raise SchemaMismatch("The label of a histogram is a category of the party that holds it.")
        self.column = str(label)
        self._places = _places(step, table, column.size)

    def codes(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return some people's labels, by their place among those that are counted; a missing one is the last place: none."""
        return np.asarray(self._places[table.codes(self.column)[start:stop]])


class _NearestPoint:
    """A label that stands for the nearest of some public points, by this party's own columns."""

    def __init__(self, step: Step, schema: Schema, table: ScoreTable) -> None:
        self._points = PartialScores(step.columns, schema, numbers_parameter(step.parameters.get("points")))
        self._guesses = np.array(wholes_parameter(step.parameters.get("guesses")), dtype=np.int64)
        if len(self._guesses) != self._points.outputs or self._guesses.min() < 0:
            raise PlanMismatch("The plan has another number of points than of labels for them.")
        self._places = _places(step, table, int(self._guesses.max(initial=0)) + 1 + max(_kept(step)))

    def codes(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return some people's labels: x is nearest to the point p with the largest x·p − ‖p‖²/2."""
        nearness = self._points.all_values(table, start, stop)
        nearness -= (self._points.weights**2).sum(axis=1)[:, None] / 2
        return np.asarray(self._places[self._guesses[nearness.argmax(axis=0)]])


def _label_of(step: Step, schema: Schema, table: ScoreTable) -> _Level | _NearestPoint:
    if ("label" in step.parameters) == ("points" in step.parameters):
        raise PlanMismatch("A histogram has one label: a column, or the nearest of some points.")
    return _Level(step, schema, table) if "label" in step.parameters else _NearestPoint(step, schema, table)


def _kept(step: Step) -> tuple[int, ...]:
    kept = wholes_parameter(step.parameters.get("kept"))
    if not kept or min(kept) < 0:
        raise PlanMismatch("A histogram says which labels it counts.")
    return kept


def _places(step: Step, table: ScoreTable, size: int) -> NDArray[np.int64]:
    """Return for every label, and for none, the place among those that are counted, or −1."""
    kept = _kept(step)
    if len(kept) != table.labels or len(set(kept)) != len(kept) or max(kept) >= size:
        raise PlanMismatch("A histogram counts as many different labels as the plan says.")
    places = np.full(size + 1, NOBODY, dtype=np.int64)
    places[list(kept)] = np.arange(len(kept))
    return places
