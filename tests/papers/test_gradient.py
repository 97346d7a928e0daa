"""A party's part in a descent: bounded whatever the row and the weights are, paid for first, and no step shared twice."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import colonnade as cn
from colonnade.errors import PlanMismatch, PolicyRefusal, ProtocolError, SchemaMismatch
from colonnade.papers.draws import Batches
from colonnade.papers.private import DescentPart, PrivateGradient
from colonnade.papers.steps import KEY, LARGEST_WEIGHT, STEP
from colonnade.plan import Plan
from colonnade.secure.keys import digest
from tests import kit
from tests.federations import SCHEMAS, as_if_agreed, federation
from tests.party.test_newton import FIELDS, PEOPLE, TARGET, plan_by, table_with, with_parameters


@cache
def a_descent() -> Plan:
    return plan_by(cn.methods.Gradient(steps=20, rate=0.2))


def _private(party: str) -> PrivateGradient:
    return kit.private(PrivateGradient, a_descent(), a_descent().step(party, STEP), SCHEMAS[party])


def _first(party: str, row: dict, weights: np.ndarray) -> tuple[np.ndarray, int]:
    """The first person's integers and score at one party, by the party's own code."""
    private = _private(party)
    found = private.coded(table_with(party, row)).read(0, private.step.people)
    rows, labels = found[:, : private.step.width], found[:, -1] if private.step.target else None
    some = rows[:1].astype(np.int64)
    own = weights[private.step.terms.places(party)]
    return some[0], int(private.scores(some, None if labels is None else labels[:1], own)[0])


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_no_record_moves_a_step_by_more_than_declared_whatever_the_weights(data) -> None:
    noise = _private("bank").step.terms.noise
    weights = np.array(
        data.draw(
            st.lists(st.integers(-LARGEST_WEIGHT, LARGEST_WEIGHT), min_size=noise.columns, max_size=noise.columns)
        )
    )
    rows = {party: {name: data.draw(values) for name, values in fields.items()} for party, fields in FIELDS.items()}
    parts = {party: _first(party, row, weights) for party, row in rows.items()}
    for party, (row, score) in parts.items():
        assert int(row @ row) <= noise.row_bounds[party]
        assert abs(score) <= noise.score_bounds[party]
    row, score = np.concatenate([part[0] for part in parts.values()]), sum(part[1] for part in parts.values())
    moved = row.astype(object) * score
    assert int(moved @ moved) <= noise.moved()
    for party in parts:
        without = np.concatenate([np.zeros_like(own) if name == party else own for name, (own, _) in parts.items()])
        difference = moved - without.astype(object) * (score - parts[party][1])
        assert int(difference @ difference) <= noise.moved(party)


def test_columns_and_targets_that_do_not_fit_the_schema_are_refused() -> None:
    for changes, error, words in (
        ({"width": 3}, PlanMismatch, "width"),
        ({"target": "segment"}, SchemaMismatch, None),
        ({"sigma": 1}, cn.ColonnadeError, None),
    ):
        plan, step = with_parameters(a_descent(), a_descent().step("bank", STEP), **changes)
        with pytest.raises(error, match=words):
            kit.private(PrivateGradient, plan, step, SCHEMAS["bank"])


def test_a_partys_noise_has_the_declared_law_in_every_step() -> None:
    """Rejects a deviation of nine tenths and of eleven tenths."""
    terms, source = _private("bank").step.terms, kit.sampler("a party's share of the noise of a step")
    drawn = np.concatenate([terms.noise.draw_share(terms.columns, source) for _ in range(2_000)]).astype(float)
    squares = (drawn**2).sum() / float(terms.noise.share)
    for factor, fits in ((1.0, True), (0.9, False), (1.1, False)):
        below = stats.chi2.cdf(squares / factor**2, len(drawn))
        assert bool(min(below, 1 - below) > kit.ALPHA) is fits


# Paying and sharing


class _Open:
    """A party's part in a descent of a real federation, whose key is kept."""

    def __init__(self, folder, **options: object) -> None:
        self.folder, self.options = folder, options
        self.plan = a_descent()
        self.reopen()

    def reopen(self, tables=None) -> DescentPart:
        self.federation = federation(PEOPLE, ledger_dir=self.folder, tables=tables, **self.options)
        self.gate = self.federation._driver.transport._endpoints["bank"]._gate
        request, body = self.gate.ledger_key(self.plan, KEY)
        if not self.gate._ledger.knows(request):
            self.gate._ledger.keep_key(request, body, b"k" * 32, label="key")
        as_if_agreed(self.federation._driver.transport._endpoints["bank"], self.plan)
        self.part = self.gate.join(self.plan, STEP)
        return self.part

    @property
    def weights(self) -> np.ndarray:
        return np.arange(self.part._step.terms.columns, dtype=np.int64)


@pytest.fixture
def opened(tmp_path):
    one = _Open(tmp_path)
    yield one
    one.federation.close()


def test_all_steps_are_paid_for_before_the_first_is_shared(opened) -> None:
    assert opened.gate.ledger.spent().epsilon(1e-5) == 0
    with pytest.raises(ProtocolError):
        opened.part.share(0, opened.weights)
    opened.part.begin()
    assert 0.99 < opened.gate.ledger.spent().epsilon(1e-5) <= 1.0
    opened.part.share(0, opened.weights)
    opened.part.share(1, opened.weights)
    assert opened.gate.ledger.spent().epsilon(1e-5) <= 1.0


def test_after_a_restart_a_step_is_shared_as_before_and_paid_once(opened) -> None:
    opened.part.begin()
    first = [opened.part.share(position, opened.weights) for position in range(3)]
    opened.federation.close()
    again = opened.reopen()
    again.begin()
    for position, (values, noise) in enumerate(first):
        shared = again.share(position, opened.weights)
        assert np.array_equal(shared[0], values)
        assert np.array_equal(shared[1], noise)
    assert opened.gate.ledger.spent().epsilon(1e-5) <= 1.0


def test_noise_is_fresh_in_every_step_and_rows_are_padded_to_the_capacity(opened) -> None:
    opened.part.begin()
    terms = opened.part._step.terms
    own = digest("colonnade batches v2", b"k" * 32, STEP)
    batches = Batches(own, PEOPLE, terms.rate, terms.steps, "poisson")
    noises = []
    for position in range(5):
        values, noise = opened.part.share(position, opened.weights)
        assert values.shape == (terms.widths["bank"] + 1, terms.capacity)
        assert not values[:, len(batches.members(position)) :].any()
        assert values[1, : len(batches.members(position))].all()  # everyone has a label here, and so the constant
        noises.append(tuple(noise.tolist()))
    assert len(set(noises)) == 5


def test_batches_in_which_somebody_takes_part_too_often_are_refused_before_anything_is_paid(
    opened, monkeypatch
) -> None:
    monkeypatch.setattr(Batches, "largest_participation", lambda self: 21)
    with pytest.raises(PolicyRefusal, match="more steps"):
        opened.part.begin()
    assert opened.gate.ledger.spent().epsilon(1e-5) == 0


def test_a_policy_caps_what_peers_learn() -> None:
    peer = _private("bank").step.peer_loss.epsilon(1e-5)
    assert peer > 2
    for cap, refused in ((peer * 1.01, False), (peer * 0.99, True)):
        with federation(PEOPLE, policies={"bank": cn.Policy(max_peer_epsilon=cap)}) as f:
            study = cn.LogisticRegression(
                TARGET, method=cn.methods.Gradient(steps=20, rate=0.2), epsilon=1.0, delta=1e-5
            )
            if refused:
                with pytest.raises(PolicyRefusal, match="max_peer_epsilon"):
                    study.preview(f)
            else:
                assert math.isclose(study.preview(f).statement.epsilon(observer="telco"), peer, rel_tol=1e-6)
