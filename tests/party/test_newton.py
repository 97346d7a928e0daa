"""A party's part in Newton steps: bounded whatever the row and the weights are, paid for first, and no round shared twice."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy import stats

import colonnade as cn
from colonnade.errors import PlanMismatch, SchemaMismatch
from colonnade.party.steps.products import NewtonPart, PrivateNewtonSteps
from colonnade.party.table.private_table import PrivateTable
from colonnade.party.table.sources import Source
from colonnade.plan import Plan, Step
from colonnade.secure.sine_link import STEPS, split_parts
from tests import kit
from tests.federations import SCHEMAS, as_if_agreed, federation, frames

CURVATURE = 0
"""The round that opens the curvature in these runs."""

TARGET = "bank.default"
STEP = "newton 1"
FIELDS = {
    "bank": {
        "age": st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True), st.integers(-5, 120)),
        "segment": st.sampled_from(["basic", "gold", "platinum", "lead", None]),
        "default": st.sampled_from(["no", "yes", "maybe", None]),
    },
    "telco": {
        "plan": st.sampled_from(["prepaid", "standard", "", None]),
        "bill": st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True)),
    },
    "insurer": {"product": st.sampled_from(["car", "home", "life", "none", None])},
}
PEOPLE = 40


@cache
def _plan() -> Plan:
    return plan_by(cn.methods.Newton())


def plan_by(method: object) -> Plan:
    """A real plan for the test federation."""
    with federation(PEOPLE) as f:
        study = cn.LogisticRegression(TARGET, method=method, epsilon=1.0, delta=1e-5, standardise="off")
        return study.prepared(f, 1)[1]


def _private(party: str) -> PrivateNewtonSteps:
    return kit.private(PrivateNewtonSteps, _plan(), _plan().step(party, STEP), SCHEMAS[party])


def with_parameters(plan: Plan, step: Step, **parameters: object) -> tuple[Plan, Step]:
    """A plan in which one step has other parameters, and that step."""
    other = replace(step, parameters={**step.parameters, **parameters})
    return replace(plan, steps=tuple(other if one is step else one for one in plan.steps)), other


def table_with(party: str, row: dict) -> PrivateTable:
    filler = frames(PEOPLE)[party].drop(columns="person_id").astype(object).head(PEOPLE - 1)
    frame = pd.concat([pd.DataFrame([row], dtype=object), filler], ignore_index=True)
    for name, column in SCHEMAS[party].items():
        if isinstance(column, cn.Numeric):
            frame[name] = pd.to_numeric(frame[name])
    return PrivateTable(Source(frame), SCHEMAS[party])


def _coded(private, table):
    """Return rows, a column along each row, and labels."""
    found = private.coded(table).read(0, table.people).T
    return found[: private.step.width], found[-1] if private.step.target else None


def _first(party: str, row: dict, weights: np.ndarray) -> tuple[np.ndarray, int, int]:
    """The first person's integers, part of the score and label at one party, by the party's own code."""
    private = _private(party)
    rows, labels = _coded(private, table_with(party, row))
    part = private.in_steps(rows[:, :1], weights[private.step.terms.places(party)])
    return rows[:, 0].astype(np.int64), int(part[0]), 0 if labels is None else int(labels[0])


def _residual_and_weight(parts: dict[str, tuple[np.ndarray, int, int]], words: np.ndarray) -> tuple[int, int]:
    """Residual and weight of one person, in integers, as holders and nodes make them."""
    terms = _private("bank").step.terms
    numbers = np.zeros((2, 1), dtype=np.uint16)
    for (_, part, _), word in zip(parts.values(), words, strict=True):
        numbers += split_parts(np.array([part]), np.array([[word]], dtype=np.uint16))
    label = parts["bank"][2]
    if label < 0:
        return 0, 0
    found, k = [], terms.terms
    for kind in ("residual", "weight"):
        one, other = (terms.bounds.factors(holder, kind, numbers[holder])[:, 0] for holder in range(2))
        found.append(int(one[:k] @ other[:k] - one[k:] @ other[k:]) + terms.bounds.offset(kind))
    return found[0] - terms.bounds.unit * label, found[1]


def _triangle(weight: int, row: np.ndarray) -> np.ndarray:
    first, second = np.triu_indices(len(row))
    return weight * row[first].astype(float) * row[second] / np.where(first == second, np.sqrt(2), 1.0)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_no_record_moves_a_round_by_more_than_declared_whatever_the_weights(data) -> None:
    """A whole record, a record at one party, and the others' records towards a coalition of one party."""
    noise = _private("bank").step.terms.noise
    sizes = st.one_of(st.floats(-(2.0**20), 2.0**20), st.floats(-3, 3))
    weights = np.array(data.draw(st.lists(sizes, min_size=noise.columns, max_size=noise.columns)))
    words = data.draw(st.lists(st.integers(0, STEPS - 1), min_size=6, max_size=6))
    rows = {party: {name: data.draw(values) for name, values in fields.items()} for party, fields in FIELDS.items()}
    parts = {party: _first(party, row, weights) for party, row in rows.items()}
    empty = {party: _first(party, dict.fromkeys(fields), weights) for party, fields in FIELDS.items()}
    for party, (row, _, _) in parts.items():
        assert int(row @ row) <= noise.row_bounds[party]

    def released(records: dict, drawn: list[int]) -> tuple[np.ndarray, np.ndarray]:
        residual, weight = _residual_and_weight(records, np.array(drawn))
        row = np.concatenate([record[0] for record in records.values()])
        return residual * row.astype(float), _triangle(weight, row)

    whole = released(parts, words[:3])
    nothing = released(empty, words[3:])
    assert not nothing[0].any()
    assert not nothing[1].any()
    for number, moved in ((1, whole[0]), (CURVATURE, whole[1])):
        assert moved @ moved <= float(noise.moved_by(number)) * (1 + 1e-9)
    for party, own in parts.items():
        alone = released({**parts, party: empty[party]}, words[3:])
        others = released({**empty, party: own}, words[3:])
        for less, limit in ((alone, {"party": party}), (others, {"colluders": 1})):
            for number in (1, CURVATURE):
                difference = whole[number == CURVATURE] - less[number == CURVATURE]
                assert difference @ difference <= float(noise.moved_by(number, **limit)) * (1 + 1e-9)


def test_parts_are_scores_in_whole_steps_clipped_to_the_window() -> None:
    """Constant, age and three segments: somebody of 18, gold, who defaulted."""
    private = _private("bank")
    terms, link = private.step.terms, private.step.terms.bounds.link
    weights = np.zeros(terms.columns)
    weights[terms.places("bank")] = [1.0, 0.25, 0.0, 2.0, 0.0]
    person = {"age": 18, "segment": "gold", "default": "yes"}
    row, part, label = _first("bank", person, weights)
    assert row.tolist() == [terms.scale, -terms.scale, 0, terms.scale, 0]
    assert label == 1
    assert part == round((1.0 - 0.25 + 2.0) / link.step)
    assert _first("bank", person, 1_000 * weights)[1] == round(link.window / link.step)


def test_columns_and_targets_that_do_not_fit_the_schema_are_refused() -> None:
    for changes, error, words in (
        ({"width": 3}, PlanMismatch, "width"),
        ({"target": "age"}, SchemaMismatch, None),
        ({"row_bound": 1}, PlanMismatch, "below the constant"),
        ({"sigma": 1}, cn.ColonnadeError, None),
    ):
        plan, step = with_parameters(_plan(), _plan().step("bank", STEP), **changes)
        with pytest.raises(error, match=words):
            kit.private(PrivateNewtonSteps, plan, step, SCHEMAS["bank"])


def test_levels_are_left_out_of_products_only_where_they_are_those_of_a_category() -> None:
    """Two numbers are not 0 together, and their squares are not γ times themselves: products that are opened would be others."""
    step, block = _plan().step("bank", STEP), (2, 3)  # after the constant and the age, the three segments
    assert _plan().step("insurer", STEP).parameters["levels"] == (0, 4)  # the longest: four products

    def private(**parameters: object) -> PrivateNewtonSteps:
        def changed(one):
            changes = {"levels": block, **parameters} if one.party == "bank" else {"levels": ()}
            return replace(one, parameters={**one.parameters, **changes}) if one.name == STEP else one

        plan = replace(_plan(), steps=tuple(map(changed, _plan().steps)))
        return kit.private(PrivateNewtonSteps, plan, plan.step("bank", STEP), SCHEMAS["bank"])

    rows, _ = _coded(private(), table_with("bank", {"age": 40, "segment": "gold", "default": "yes"}))
    levels = rows[block[0] : sum(block)].astype(int)
    gamma = private().step.terms.scale
    assert set(np.unique(levels)) <= {0, gamma}
    assert (levels @ levels.T == gamma * np.diag(levels.sum(axis=1))).all()
    for other in ((1, 1), (1, 4), (2, 2), (3, 2)):
        with pytest.raises(PlanMismatch, match="not those of a category"):
            private(levels=other)
    with pytest.raises(PlanMismatch, match="not those of a category"):
        private(row_bound=step.parameters["row_bound"] - 1)  # rows would be scaled down, and levels with them


@pytest.mark.parametrize("number", [CURVATURE, 4])
def test_a_partys_noise_has_the_declared_law_in_every_round(number: int) -> None:
    """Rejects a deviation of nine tenths and of eleven tenths."""
    noise, source = _private("bank").step.terms.noise, kit.sampler(f"a party's share of the noise of round {number}")
    drawn = np.array([noise.draw_round(number, source) for _ in range(300)]).astype(float)
    variance = np.full(noise.entries_of(number), float(noise.shares[number]))
    if number == CURVATURE:
        rows, places = np.triu_indices(noise.columns)
        variance[rows == places] *= 2
    squares = (drawn**2 / variance).sum()
    for factor, fits in ((1.0, True), (0.9, False), (1.1, False)):
        below = stats.chi2.cdf(squares / factor**2, drawn.size)
        assert bool(min(below, 1 - below) > kit.ALPHA) is fits


# Paying and sharing


class Opened:
    """A party's part in Newton steps of a real federation."""

    def __init__(self, folder) -> None:
        self.folder = folder
        self.plan = _plan()
        self.reopen()

    def reopen(self) -> NewtonPart:
        self.federation = federation(PEOPLE, ledger_dir=self.folder)
        self.gate = self.federation._driver.transport._endpoints["bank"]._gate
        as_if_agreed(self.federation._driver.transport._endpoints["bank"], self.plan)
        self.part = self.gate.join(self.plan, STEP)
        return self.part

    def take(self) -> None:
        self.part.take(np.zeros(self.part._step.terms.columns))


@pytest.fixture
def opened(tmp_path):
    one = Opened(tmp_path)
    yield one
    one.federation.close()


def test_all_rounds_are_paid_for_before_the_first_is_shared(opened) -> None:
    assert opened.gate.ledger.spent().epsilon(1e-5) == 0
    with pytest.raises(AssertionError):
        opened.part.noise(0)
    opened.part.begin()
    spent = opened.gate.ledger.spent().epsilon(1e-5)
    whole = opened.part._step.loss.epsilon(1e-5)
    assert spent == whole > 0.5
    for number in (0, 1):
        opened.take()
        opened.part.noise(number)
    assert opened.gate.ledger.spent().epsilon(1e-5) == spent


def test_after_a_restart_a_round_has_the_same_noise_and_is_paid_once(opened) -> None:
    opened.part.begin()
    first = [opened.part.noise(number) for number in (0, 1)]
    assert not np.array_equal(first[1], opened.part.noise(2))
    opened.federation.close()
    again = opened.reopen()
    again.begin()
    assert all(np.array_equal(again.noise(number), drawn) for number, drawn in enumerate(first))
    assert opened.gate.ledger.spent().epsilon(1e-5) == again._step.loss.epsilon(1e-5)
