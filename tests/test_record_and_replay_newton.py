"""Two neighbouring data sets, the same randomness: a Newton run differs in what is opened, within bounds, and nowhere else.

As `tests/test_record_and_replay.py`. The coordinator's view is sizes, order and control flow; sealed letters are ciphertexts, and
the weights of later rounds follow from openings, so they are replaced by a fixed path here.
"""

import collections
from types import SimpleNamespace

import numpy as np
import pytest

import colonnade as cn
from colonnade.coordinator import driver as relay
from colonnade.coordinator.protocols import newton_steps
from colonnade.party.steps.newton import NewtonPart
from colonnade.privacy.laws.newton import CURVATURE
from colonnade.protocol import codec
from colonnade.protocol.messages import Opened, Post, Posted
from colonnade.steps.newton import NewtonTerms
from colonnade.transport.direct import Recorded
from tests import kit
from tests.federations import federation
from tests.test_record_and_replay import neighbours
from tests.test_record_and_replay_gradient import require_same_view

STEPS = 3


class Watched:
    """What each party put into a run before it was shared."""

    def __init__(self, patch) -> None:
        self.columns, self.labels, self.parts, self.noise = {}, {}, {}, {}
        kept = {"columns": self.columns, "labels": self.labels, "parts": self.parts}
        for name, into in kept.items():
            patch.setattr(NewtonPart, name, self._range(getattr(NewtonPart, name), into, every=name == "parts"))
        honest, take = NewtonPart.noise, NewtonPart.take
        self.rounds = collections.Counter()

        def taken(part, weights):
            self.rounds[part] = self.rounds[part] + 1 if part in self.rounds else 0
            take(part, weights)

        patch.setattr(NewtonPart, "take", taken)

        def noise(part, number):
            drawn = honest(part, number)
            self.noise[part._admitted.party, number] = drawn.copy()
            return drawn

        patch.setattr(NewtonPart, "noise", noise)

    def _range(self, honest, into, *, every):
        def range_of(part, start, stop):
            found = honest(part, start, stop)
            key = (part._admitted.party, self.rounds[part]) if every else part._admitted.party
            into[key] = found.copy()
            return found

        return range_of

    def sums(self, terms: NewtonTerms, number: int) -> np.ndarray:
        """What a round would open without noise and without rounding; a curvature in units of its deviation off the diagonal."""
        rows = np.concatenate([self.columns[owner] for owner in terms.owners]).astype(float)
        link, unit = terms.bounds.link, terms.bounds.unit
        scores = sum(self.parts[owner, number] for owner in terms.owners) * link.step
        (labels,) = self.labels.values()
        if number == CURVATURE:
            weighted = rows * (unit * link.weight(scores) * (labels >= 0))
            whole = weighted @ rows.T
            return np.append(whole[np.triu_indices(len(rows), 1)], np.diag(whole) / np.sqrt(2))
        return rows @ (unit * (link.mean(scores) - labels) * (labels >= 0))


def _fixed_path(patch) -> None:
    """Weights that do not depend on what is opened: whatever else differs is the parties' doing."""
    fixed = lambda self: np.full(self._terms.columns, 0.1 * (len(self.opened) - 1))  # noqa: E731
    patch.setattr(newton_steps._NewtonReading, "_next", fixed)
    patch.setattr(relay, "os", SimpleNamespace(urandom=bytes))  # the name of a run enters its keys


def record(tables, monkeypatch):
    """Run Newton steps; keep every message, and what each party put into each round before it was shared."""
    shared = Watched(monkeypatch)
    _fixed_path(monkeypatch)
    with kit.zeroed_out(), federation(200, tables=tables) as f:
        f._driver.transport = recorded = Recorded(f._driver.transport, keep=True)
        study = cn.LogisticRegression(
            "bank.default", method=cn.methods.Newton(steps=STEPS), epsilon=1.0, delta=1e-5
        ).fit(f)
    monkeypatch.undo()
    return recorded.exchanges, shared, NewtonTerms.read(study.plan_, newton_steps.step_name(1))


def shape_of(data: bytes) -> tuple:
    """What a coordinator sees of a reply besides shares and noisy values."""
    reply = codec.decode_reply(data)
    if isinstance(reply, Posted):
        return "posted", tuple((name, len(letter)) for name, letter in reply.letters.items())
    if isinstance(reply, Opened):
        return "opened", None if reply.share is None else reply.share.shape, reply.own is None
    return type(reply).__name__, len(data)


@pytest.mark.parametrize("person", [0, 57])
def test_a_person_removed_changes_nothing_but_what_is_opened_and_that_within_bounds(person, monkeypatch) -> None:
    one, other = neighbours(person)
    (said_one, shared_one, terms), (said_other, shared_other, _) = (record(t, monkeypatch) for t in (one, other))
    require_same_view(said_one, said_other, shape_of)
    assert shared_one.noise.keys() == {(owner, number) for owner in terms.owners for number in range(terms.rounds)}
    assert all(np.array_equal(drawn, shared_other.noise[key]) for key, drawn in shared_one.noise.items())
    for number in range(terms.rounds):
        gap = shared_one.sums(terms, number) - shared_other.sums(terms, number)
        assert 0 < gap @ gap <= float(terms.noise.moved_by(number))


def test_weights_are_all_that_a_coordinator_sends(monkeypatch) -> None:
    said, _, terms = record(neighbours(0)[0], monkeypatch)
    taken = 0
    for requests, _ in said:
        for data in requests.values():
            request = codec.decode_request(data)
            if isinstance(request, Post) and request.step == newton_steps.step_name(1) and request.inputs:
                assert set(request.inputs) == {"weights"}
                assert request.inputs["weights"].shape == (terms.columns,)
                taken += 1
    assert taken == terms.rounds * len(terms.members)
