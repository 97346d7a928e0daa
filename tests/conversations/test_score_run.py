"""Histograms of scores among real parties: letters lost, swapped or doubled; runs cut short; members without data."""

import pytest

import colonnade as cn
from colonnade.protocol import messages
from colonnade.protocol.messages import Post
from tests.federations import federation, frames, joined

EPSILON = 200.0


def fitted(f):
    return cn.LogisticRegression("bank.default", method="secure", epsilon=5.0, delta=1e-5).fit(f)


class Meddling:
    """A transport that changes what members are sent in one turn of the histogram."""

    def __init__(self, inner, turn, change):
        self._inner, self._turn, self._change, self.met = inner, turn, change, 0

    def exchange(self, requests):
        decoded = {name: messages.decode_request(data) for name, data in requests.items()}
        posts = {name: request for name, request in decoded.items() if isinstance(request, Post)}
        if posts and {request.turn for request in posts.values()} == {self._turn}:
            self.met += 1
            requests = {**requests, **{name: messages.encode(post) for name, post in self._change(posts).items()}}
        return self._inner.exchange(requests)

    def close(self):
        self._inner.close()


def rewritten(post, letters):
    return Post(plan=post.plan, step=post.step, run=post.run, turn=post.turn, letters=letters, inputs=post.inputs)


def without_givers(posts):
    return {name: rewritten(post, {}) for name, post in posts.items() if post.letters}


def swapped(posts):
    left, right = sorted(name for name, post in posts.items() if post.letters)
    return {left: rewritten(posts[left], posts[right].letters), right: rewritten(posts[right], posts[left].letters)}


def signed_by_another(posts):
    return {
        name: rewritten(post, dict(zip(["bank", "telco"], post.letters.values(), strict=False)))
        for name, post in posts.items()
        if post.letters
    }


def to_everybody(posts):
    letters = next(post.letters for post in posts.values() if post.letters)
    return {name: rewritten(post, letters) for name, post in posts.items()}


@pytest.mark.parametrize("change", [without_givers, swapped, signed_by_another, to_everybody])
def test_letters_that_are_not_as_they_were_written_end_the_run_and_open_nothing(change):
    with federation(120, epsilon=1_000.0) as f:
        model, honest = fitted(f), f._driver.transport
        f._driver.transport = meddling = Meddling(honest, 2, change)
        with pytest.raises(cn.ProtocolError):
            model.evaluate(f, epsilon=EPSILON)
        assert meddling.met == 1
        f._driver.transport = honest
        found = model.evaluate(f, epsilon=EPSILON)
        rows = joined(frames(120))
        assert found["accuracy"].value == pytest.approx(model.score(rows, rows["bank.default"]), abs=0.04)


def test_what_a_histogram_costs_stands_in_every_ledger_and_counts_once_for_a_person():
    with federation(120, epsilon=50.0) as f:
        model = fitted(f)
        before = f.budget(unit="person")["spent"]
        model.evaluate(f, epsilon=1.0)
        rows = [
            entry
            for party in f.parties
            for entry in f._driver.transport.endpoint(party)._gate.ledger.entries()
            if entry.label.startswith("evaluation/")
        ]
        assert len({entry.label for entry in rows}) == 1
        assert all(entry.together for entry in rows)
        assert 0 < f.budget(unit="person")["spent"] - before < 2.5  # three times it would be above 6
