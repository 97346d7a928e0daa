"""Histograms of scores among real parties: letters lost, swapped or doubled; runs cut short; members without data."""

import numpy as np
import pytest

import colonnade as cn
from colonnade.coordinator.driver import Quote, forecast_traffic
from colonnade.protocol import codec
from colonnade.protocol.messages import SHORTEST_DIRECT, Post, Posted
from tests.federations import SCHEMAS, federation, frames, joined

EPSILON = 200.0


def fitted(f):
    return cn.LogisticRegression("bank.default", method="secure", epsilon=5.0, delta=1e-5).fit(f)


class Meddling:
    """A transport that changes what members are sent in one turn of the histogram."""

    def __init__(self, inner, turn, change):
        self._inner, self._turn, self._change, self.met = inner, turn, change, 0

    def exchange(self, requests):
        decoded = {name: codec.decode_request(data) for name, data in requests.items()}
        posts = {name: request for name, request in decoded.items() if isinstance(request, Post)}
        if posts and {request.turn for request in posts.values()} == {self._turn}:
            self.met += 1
            requests = {**requests, **{name: codec.encode(post) for name, post in self._change(posts).items()}}
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


@pytest.mark.parametrize("turn", [0, 1, 2, 3, 4, 5])
def test_a_run_that_is_cut_short_is_taken_up_again_and_paid_once(turn):
    """The reply is lost after the work was done, at every turn; the second run opens the same histogram at no further price."""

    class Cut:
        def __init__(self, inner):
            self._inner, self._cut = inner, False

        def exchange(self, requests):
            replies = self._inner.exchange(requests)
            posts = [codec.decode_request(data) for data in requests.values()]
            if not self._cut and any(isinstance(post, Post) and post.turn == turn for post in posts):
                self._cut = True
                raise cn.ProtocolError("The line went dead.")
            return replies

    with federation(120, epsilon=1_000.0) as f, federation(120, epsilon=1_000.0) as untouched:
        model = fitted(untouched)
        fitted(f)
        honest, before = f._driver.transport, f.budget()["spent"]
        f._driver.transport = Cut(honest)
        with pytest.raises(cn.ProtocolError):
            model.evaluate(f, epsilon=2.0)
        f._driver.transport = honest
        found = model.evaluate(f, epsilon=2.0)
        once = model.evaluate(untouched, epsilon=2.0)
        assert np.allclose(f.budget()["spent"] - before, untouched.budget()["spent"] - before)
        assert set(found.names) == set(once.names)


@pytest.mark.parametrize("nodes", [["auditor"], ["auditor", "notary"]])
def test_members_without_data_compute_and_learn_nothing_of_their_own(nodes):
    tables = frames(150)
    parties = {name: cn.Party(tables[name], schema=SCHEMAS[name]) for name in ("bank", "telco")}
    budget = cn.Budget(epsilon=1_000.0, delta=1e-5)
    with cn.Federation.simulate(parties, id="person_id", budget=budget, compute_nodes=nodes) as f:
        model = fitted(f)
        found = model.evaluate(f, epsilon=EPSILON)
        rows = joined({name: tables[name] for name in parties})
        assert found["accuracy"].value == pytest.approx(model.score(rows, rows["bank.default"]), abs=0.04)
        assert set(nodes) & set(found.plan_.compute_nodes)


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
        assert 0 < f.budget(unit="person")["spent"] - before <= 1.0 + 1e-6


def test_what_givers_write_is_part_of_the_forecast_and_could_go_directly():
    """Of the letters that could go directly a giver's are a good part: without them the forecast is far too small."""
    letters: dict[tuple[int, str, str], int] = {}

    class Listening(Meddling):
        def exchange(self, requests):
            replies = super().exchange(requests)
            for name, data in replies.items():
                request, reply = codec.decode_request(requests[name]), codec.decode_reply(data)
                if isinstance(request, Post) and isinstance(reply, Posted):
                    letters.update({(request.turn, name, to): len(letter) for to, letter in reply.letters.items()})
            return replies

    with federation(2_000, epsilon=1_000.0) as f:
        model = fitted(f)
        f._driver.transport = Listening(f._driver.transport, None, None)
        found = model.evaluate(f, epsilon=2.0)
        quote = Quote({}, {party: {step.name for step in found.plan_.steps} for party in f.parties})
        foretold = forecast_traffic(found.plan_, quote, f._driver.columns.schemas, f.parties)
    direct = {ends: size for ends, size in letters.items() if size >= SHORTEST_DIRECT}
    (giver,) = {step.party for step in found.plan_.steps if step.parameters.get("role") == "giver"}
    given = sum(size for (turn, sender, _), size in direct.items() if turn == 1 and sender == giver)
    assert given >= 2 * 2 * 2_000, "a number of two bytes per person to each of two parties"
    assert foretold.direct == pytest.approx(sum(direct.values()), abs=given / 4)
