"""Two neighbouring data sets, the same randomness: a descent differs in what is opened, within bounds, and nowhere else.

As `tests/test_record_and_replay.py`. The coordinator's view is sizes, order and control flow; sealed letters are ciphertexts, and
the weights of later steps follow from openings, so they are replaced by a fixed path here.
"""

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

import colonnade as cn
from colonnade.coordinator import driver as relay
from colonnade.papers import protocols
from colonnade.papers.estimation import Sgd
from colonnade.papers.private import DescentPart
from colonnade.papers.steps import STEP, GradientTerms
from colonnade.protocol import codec
from colonnade.protocol.messages import Opened, Post, Posted
from colonnade.transport.direct import Recorded
from tests import kit
from tests.federations import federation
from tests.test_record_and_replay import neighbours

STEPS = 6


def _fixed_path(patch) -> None:
    """Weights that do not depend on what is opened: whatever else differs is the parties' doing."""
    steps = iter(range(10**6))
    monotone = lambda self, gradient: np.full_like(gradient, 0.01 * (next(steps) % 7 - 3))  # noqa: E731
    patch.setattr(Sgd, "change", monotone)
    patch.setattr(relay, "os", SimpleNamespace(urandom=bytes))  # the name of a run enters its keys, and so the batches


def record(tables, monkeypatch):
    """Run a descent; keep every message, and what each party put into each step before it was shared."""
    shared = {}
    honest = DescentPart.share

    def watched(self, position, weights):
        values, noise = honest(self, position, weights)
        shared[self._admitted.party, position] = values.copy(), noise.copy()
        return values, noise

    monkeypatch.setattr(DescentPart, "share", watched)
    _fixed_path(monkeypatch)
    with kit.zeroed_out(), federation(200, tables=tables) as f:
        f._driver.transport = recorded = Recorded(f._driver.transport, keep=True)
        study = cn.LogisticRegression(
            "bank.default", method=cn.methods.Gradient(steps=STEPS, rate=0.5), epsilon=1.0, delta=1e-5
        ).fit(f)
    monkeypatch.undo()
    return recorded.exchanges, shared, GradientTerms.read(study.plan_, STEP)


def shape_of(data: bytes) -> tuple:
    """What a coordinator sees of a reply besides shares and noisy values."""
    reply = codec.decode_reply(data)
    if isinstance(reply, Posted):
        return "posted", tuple((name, len(letter)) for name, letter in reply.letters.items())
    if isinstance(reply, Opened):
        return "opened", None if reply.share is None else reply.share.shape, reply.own
    return type(reply).__name__, len(data)


def require_same_view(said_one: list, said_other: list, shape_of: Callable[[bytes], tuple]) -> None:
    """Sizes, order and control flow are the same, round by round, as far as a reply's shape shows them."""
    assert len(said_one) == len(said_other)
    for (asked_one, replies_one), (asked_other, replies_other) in zip(said_one, said_other, strict=True):
        assert [len(data) for data in asked_one.values()] == [len(data) for data in asked_other.values()]
        assert {name: shape_of(data) for name, data in replies_one.items()} == {
            name: shape_of(data) for name, data in replies_other.items()
        }


@pytest.mark.parametrize("person", [0, 57])
def test_a_person_removed_changes_nothing_but_what_is_opened_and_that_within_bounds(person, monkeypatch) -> None:
    one, other = neighbours(person)
    (said_one, shared_one, terms), (said_other, shared_other, _) = (record(t, monkeypatch) for t in (one, other))
    require_same_view(said_one, said_other, shape_of)
    moved = [_difference(terms, shared_one, shared_other, position) for position in range(STEPS)]
    assert all(distance <= terms.noise.moved() for distance in moved)
    assert any(moved)
    assert not all(moved)  # in some steps the person did not take part


def _difference(terms, one, other, position: int) -> int:
    """The squared distance of the exact sums of a step; the noise is the same."""
    sums = []
    for shared in (one, other):
        parts = [shared[owner, position] for owner in terms.owners]
        scores = sum(values[0].astype(object) for values, _ in parts)
        sums.append(np.concatenate([values[1:] for values, _ in parts]).astype(object) @ scores)
        assert all(np.array_equal(one[owner, position][1], other[owner, position][1]) for owner in terms.owners)
    gap = sums[0] - sums[1]
    return int(gap @ gap)


def test_weights_are_all_that_a_coordinator_sends_and_they_are_whole_numbers(monkeypatch) -> None:
    said, _, terms = record(neighbours(0)[0], monkeypatch)
    for requests, _ in said:
        for data in requests.values():
            request = codec.decode_request(data)
            if isinstance(request, Post) and request.inputs:
                assert set(request.inputs) == {"weights"}
                assert request.inputs["weights"].dtype == "<i8"
                assert request.inputs["weights"].shape == (terms.columns,)
    assert protocols.STEP == STEP
