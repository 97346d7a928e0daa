"""`LogisticRegression(method="gradient")`: it learns, is paid for once, survives being cut short, and says who sees what."""

import math
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from colonnade.errors import ColonnadeError
from colonnade.papers.private import DescentPart
from colonnade.papers.protocols import GradientDescent
from colonnade.papers.steps import KEY, STEP, GradientTerms
from colonnade.protocol import messages
from colonnade.protocol.messages import Opened, Post, Posted
from colonnade.transport.direct import Recorded
from tests.conversations.sites import Site, kill_at
from tests.federations import TEST_KEY

SCHEMAS = {
    "bank": cn.Schema(age=cn.Numeric(18, 95), default=cn.Category(["no", "yes"])),
    "telco": cn.Schema(bill=cn.Numeric(0, 200), plan=cn.Category(["prepaid", "standard"])),
    "shop": cn.Schema(visits=cn.Numeric(0, 10)),
}


def people(count: int = 3_000, seed: int = 0) -> dict[str, pd.DataFrame]:
    """People of whom the old with high bills default."""
    rng = np.random.default_rng(seed)
    age, bill, visits = rng.uniform(18, 95, count), rng.uniform(0, 200, count), rng.uniform(0, 10, count)
    plan = rng.choice(["prepaid", "standard"], count)
    score = (age - 56.5) / 38.5 * 2 + (bill - 100) / 100 * 2 - (plan == "prepaid") + rng.logistic(size=count) * 0.5
    ids = np.arange(count)
    return {
        "bank": pd.DataFrame({"id": ids, "age": age, "default": np.where(score > 0, "yes", "no")}),
        "telco": pd.DataFrame({"id": ids, "bill": bill, "plan": plan}),
        "shop": pd.DataFrame({"id": ids, "visits": visits}),
    }


def simulated(tables: dict[str, pd.DataFrame], **options: object) -> cn.Federation:
    parties = {name: cn.Party(table, schema=SCHEMAS[name]) for name, table in tables.items()}
    facts = {"budget": cn.Budget(epsilon=50.0, delta=1e-5), "test_key": TEST_KEY}
    return cn.Federation.simulate(parties, id="id", **facts | options)


def named(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    return pd.concat([table.drop(columns="id").add_prefix(f"{name}.") for name, table in tables.items()], axis=1)


def study(epsilon: float = 4.0, **descent: object) -> cn.LogisticRegression:
    facts = {"steps": 60, "rate": 0.05} | descent
    return cn.LogisticRegression("bank.default", method=cn.methods.Gradient(**facts), epsilon=epsilon, delta=1e-5)


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    return people()


@pytest.mark.every(5)
@pytest.mark.parametrize(
    "descent",
    [
        {},
        {"optimiser": "adam", "learning_rate": 0.1},
        {"sampling": "balanced", "rate": 0.1},
        {"rate": 1.0, "steps": 20},
        {"weight_norm": 2.0},
    ],
)
def test_it_learns_who_defaults(tables, descent: dict) -> None:
    with simulated(tables) as f:
        model = study(8.0, **descent).fit(f)
    assert model.score(named(people(2_000, seed=1)), people(2_000, seed=1)["bank"].default) > 0.8
    assert model.coef_.shape == (1, 5)
    assert list(model.feature_names_in_[:3]) == ["bank.age", "telco.bill", "telco.plan=prepaid"]
    assert list(model.classes_) == ["no", "yes"]
    assert model.coef_[0, 0] > 0 < model.coef_[0, 1]


# Price


def test_every_ledger_holds_the_whole_loss_and_a_person_is_charged_once(tables) -> None:
    with simulated(tables) as f:
        study(1.0).fit(f)
        assert all(0.99 < spent <= 1.0 for spent in f.budget().spent)
        assert f.budget(unit="person").spent <= 1.0


def test_stopping_early_costs_the_same_and_takes_fewer_steps(tables) -> None:
    with simulated(tables) as f:
        f._driver.transport = recorded = Recorded(f._driver.transport, keep=True)
        study(1.0, tolerance=1e6).fit(f)
        turns = [messages.decode_request(next(iter(requests.values()))) for requests, _ in recorded.exchanges]
        assert max(request.turn for request in turns if isinstance(request, Post)) < 3 + 2 * 20
        assert 0.99 < f.budget("bank").spent <= 1.0


def test_the_statement_tells_the_coordinator_from_those_who_hold_the_key(tables) -> None:
    with simulated(tables) as f:
        secret, balanced = study(1.0).fit(f).privacy_, study(1.0, sampling="balanced", rate=0.1).fit(f).privacy_
    assert secret.epsilon() <= 1.0
    assert secret.epsilon(observer="telco") == secret.epsilon(observer=("coordinator", "telco")) > 3
    assert math.isinf(secret.epsilon(observer=("telco", "shop")))
    assert balanced.epsilon(observer=("coordinator", "telco")) <= 1.0
    assert any("secret" in words or "key" in words for words in secret.assumptions)


# What is seen


def _watched(tables, monkeypatch, *, noise: bool):
    """Run a descent; return everything the coordinator was sent, what it made of each step, and the exact sums."""
    shared, opened = {}, []
    honest, read = DescentPart.share, GradientDescent._gradient

    def share(self, position, weights):
        values, drawn = honest(self, position, weights)
        shared[position, self._admitted.party] = values.copy(), self._batches.members(position)
        return values, drawn if noise else np.zeros_like(drawn)

    def gradient(self, terms, replies):
        opened.append(read(self, terms, replies) * 4.0 * self.scale**3 * terms.rate * terms.people)
        return opened[-1] / (4.0 * self.scale**3 * terms.rate * terms.people)

    monkeypatch.setattr(DescentPart, "share", share)
    monkeypatch.setattr(GradientDescent, "_gradient", gradient)
    with simulated(tables) as f:
        f._driver.transport = recorded = Recorded(f._driver.transport, keep=True)
        model = study(1.0, steps=8, rate=0.2).fit(f)
    monkeypatch.undo()
    terms = GradientTerms.read(model.plan_, STEP)
    exact = []
    for position in range(8):
        parts = [shared[position, owner][0] for owner in terms.owners]
        exact.append(np.concatenate([values[1:] for values in parts]) @ sum(values[0] for values in parts))
    sent = b"".join(data for _, replies in recorded.exchanges for data in replies.values())
    return sent, np.array(opened), np.array(exact), shared, terms


def test_the_coordinator_sees_neither_an_exact_gradient_nor_who_is_in_a_batch(monkeypatch) -> None:
    """With noise what it opens is off by the declared deviation; without (the control) it is the exact sum."""
    tables = people(400)
    _, bare, exact, _, _ = _watched(tables, monkeypatch, noise=False)
    assert np.array_equal(np.rint(bare), exact)
    sent, opened, exact, shared, terms = _watched(tables, monkeypatch, noise=True)
    away = (opened - exact) / math.sqrt(terms.noise.opened_variance)
    assert 0.5 < np.sqrt(np.mean(away**2)) < 1.6
    for values, members in shared.values():
        assert members.astype("<i8").tobytes() not in sent
        telling = [row for row in values[:, : len(members)] if row.any()]  # with weights of zero some scores are
        assert all(row.astype("<i8").tobytes() not in sent for row in telling)
    assert all(
        int(value).to_bytes(8, "little", signed=True) not in sent for value in exact.ravel() if abs(value) > 2**40
    )


# Cut short


SITE = {"columns": ["bank.age", "telco.plan", "insurer.product"], "epsilon": 2.0, "delta": 1e-5}


class _Descending(Site):
    """A site that also agrees on keys, which nobody pays for."""

    def handle(self, name: str, data: bytes) -> bytes:
        request = messages.decode_request(data)
        return self.endpoints[name].handle(data) if getattr(request, "step", "") == KEY else super().handle(name, data)


def _at_site(**descent: object) -> cn.LogisticRegression:
    method = cn.methods.Gradient(**({"steps": 12, "rate": 0.3} | descent))
    return cn.LogisticRegression("bank.default", method=method, **SITE)


def _steps_shared(site: Site) -> dict[str, list[int]]:
    """By party, in which turns it gave letters of steps."""
    turns: dict[str, list[int]] = {}
    for requests, replies in site.rounds:
        for name, reply in replies.items():
            request = requests[name]
            if (
                isinstance(request, Post)
                and request.step == STEP
                and isinstance(reply, Posted)
                and request.turn > 2
                and reply.letters
            ):
                turns.setdefault(name, []).append(request.turn)
    return turns


@pytest.mark.every(4)
@pytest.mark.parametrize("turn", [1, 4, 9, *(pytest.param(turn, marks=pytest.mark.full) for turn in (2, 3, 10))])
def test_a_party_that_is_killed_goes_on_and_shares_no_more_steps_than_were_paid_for(tmp_path, turn: int) -> None:
    site = _Descending(tmp_path)
    kill_at(site, STEP, turn, "telco")
    with pytest.raises(ColonnadeError):
        _at_site().fit(site.federation)
    model = _at_site().fit(site.federation)
    assert model.coef_.shape[0] == 1
    assert all(len(set(turns)) <= 12 for turns in _steps_shared(site).values())  # again with the same words
    assert all(spent <= 2.0 for spent in site.federation.budget().spent)
    site.close()


def test_asking_for_more_steps_than_were_paid_for_opens_nothing(tmp_path) -> None:
    """A coordinator that starts run after run gets twelve steps from each party in all."""
    site = _Descending(tmp_path)
    for turn in (7, 5, 11, 9, 9):
        kill_at(site, STEP, turn, "bank")
        with suppress(ColonnadeError):
            _at_site().fit(site.federation)
    shared = _steps_shared(site)
    assert all(len(set(turns)) <= 12 for turns in shared.values())
    opened = {
        (name, messages.encode(reply))  # what is said again is the same, to the byte
        for _, replies in site.rounds
        for name, reply in replies.items()
        if isinstance(reply, Opened) and reply.share is not None
    }
    assert len(opened) <= 36
    site.close()


# Optimisers
