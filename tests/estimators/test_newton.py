"""Logistic regression by Newton steps: near maximum likelihood, paid for once, and honest about what it asks of nodes."""

from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression as Plain

import colonnade as cn
from colonnade.coordinator.driver import Quote, forecast_traffic
from colonnade.coordinator.protocols.moment_releases import GramRelease
from colonnade.coordinator.protocols.newton_steps import NewtonStudy, default_scale
from colonnade.estimation.newton import Division
from colonnade.privacy.accounting import Price, total
from colonnade.privacy.calibration import ledger_rho
from colonnade.protocol import messages
from colonnade.protocol.messages import Opened, Post, Posted, Reply, unpack
from tests import kit
from tests.conversations.sites import Lost, Site, kill_at
from tests.federations import from_one_table

PEOPLE, DELTA = 4_000, 1e-5
COLUMNS = ["bank.age", "bank.plan", "shop.basket", "clinic.pressure"]
SCHEMAS = {
    "bank": cn.Schema(age=cn.Numeric(0, 100), plan=cn.Category(["a", "b", "c"]), late=cn.Category(["no", "yes"])),
    "shop": cn.Schema(basket=cn.Numeric(-50, 50), kind=cn.Category(["x", "y", "z"])),
    "clinic": cn.Schema(pressure=cn.Numeric(80, 180)),
}


def _frame() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "bank.age": rng.uniform(0, 100, PEOPLE),
            "bank.plan": rng.choice(["a", "b", "c"], PEOPLE, p=[0.5, 0.3, 0.2]),
            "shop.basket": rng.uniform(-50, 50, PEOPLE),
            "clinic.pressure": rng.uniform(80, 180, PEOPLE),
        }
    )
    score = 0.04 * frame["bank.age"] - 0.03 * frame["shop.basket"] + 1.2 * (frame["bank.plan"] == "c") - 3.5
    frame["bank.late"] = np.where(rng.random(PEOPLE) < 1 / (1 + np.exp(-score)), "yes", "no")
    third = rng.random(PEOPLE) * 2 + 0.02 * (frame["bank.age"] - 50)
    frame["shop.kind"] = np.select([third < 0.7, third < 1.4], ["x", "y"], "z")
    return frame


FRAME = _frame()


def _federation(**options: object) -> cn.Federation:
    named = options.pop("parties", tuple(SCHEMAS))
    schemas = {party: schema for party, schema in SCHEMAS.items() if party in named}
    return from_one_table(FRAME, schemas, **{"budget": cn.Budget(epsilon=2_000.0, delta=DELTA), **options})


def _study(**options: object) -> cn.LogisticRegression:
    given = {"columns": COLUMNS, "method": "newton", "epsilon": 1_000.0, "delta": DELTA, **options}
    return cn.LogisticRegression("bank.late", **given)


@pytest.fixture(scope="module")
def federation():
    with _federation(budget=cn.Budget(epsilon=10_000.0, delta=DELTA)) as opened:
        yield opened


@pytest.fixture(scope="module")
def model(federation) -> cn.LogisticRegression:
    return _study().fit(federation)


def test_almost_without_noise_it_is_the_maximum_likelihood_estimate(model) -> None:
    """Within a quarter of a sampling error, every coefficient that is identified: levels against the first one."""
    design = pd.get_dummies(FRAME[COLUMNS], columns=["bank.plan"]).astype(float)
    design = design.drop(columns="bank.plan_a")[
        ["bank.age", "bank.plan_b", "bank.plan_c", "shop.basket", "clinic.pressure"]
    ]
    labels = (FRAME["bank.late"] == "yes").to_numpy()
    plain = Plain(C=1e9, max_iter=5_000, tol=1e-10).fit(design / 10, labels)
    chance = plain.predict_proba(design / 10)[:, 1]
    rows = np.column_stack([np.ones(PEOPLE), design])
    errors = np.sqrt(np.diag(np.linalg.inv((rows * (chance * (1 - chance))[:, None]).T @ rows)))[1:]
    found = dict(zip(model.feature_names_in_, model.coef_[0], strict=True))
    ours = [
        found["bank.age"],
        found["bank.plan=b"] - found["bank.plan=a"],
        found["bank.plan=c"] - found["bank.plan=a"],
        found["shop.basket"],
        found["clinic.pressure"],
    ]
    assert np.all(np.abs(ours - plain.coef_[0] / 10) <= 0.25 * errors)
    mean = model.predict_proba(FRAME[COLUMNS])[:, 1]
    assert abs(mean.mean() - labels.mean()) < 0.002


# The search


def test_prices_add_up_to_the_whole_and_no_more() -> None:
    for classes in (1, 3):
        whole = Price.of(1.0, 1e-6)
        prices = Division.of(steps=5).prices(whole, classes)
        spent = float(ledger_rho(prices.gram)) + classes * float(ledger_rho(prices.rounds))
        assert 0.999 * float(ledger_rho(whole)) <= spent <= float(ledger_rho(whole))


def test_losses_of_all_steps_together_fit_the_ledger() -> None:
    """What every party is debited for the Gram matrix and for the rounds, added up as ledgers do."""
    with _federation(budget=cn.Budget(epsilon=1.0, delta=DELTA)) as tight:
        study = _study(epsilon=1.0)
        plan = study.prepared(tight, 1)[1]
        losses = tight._driver.quote(plan).losses
        for party in SCHEMAS:
            assert total(losses[party].values()).epsilon(DELTA) <= 1.0
        assert study.fit(tight).privacy_.epsilon() <= 1.0


# Cut short


SITE = {"epsilon": 2.0, "delta": 1e-5}
STEP, ROUNDS = "newton 1", 5
OPENS = (7, 11, 15, 20, 24)
"""The turns that open a round: two to meet, one to deal columns, then four or five per round."""


def _at_site() -> cn.LogisticRegression:
    return cn.LogisticRegression("bank.default", method=cn.methods.Newton(steps=ROUNDS - 2), **SITE)


def _posts(site: Site) -> list[tuple[str, Post, Reply]]:
    return [
        (name, requests[name], reply)
        for requests, replies in site.rounds
        for name, reply in replies.items()
        if isinstance(requests[name], Post) and requests[name].step == STEP
    ]


def _check(site: Site) -> None:
    """No party has shared, and no node has opened, more rounds than were paid for; and every ledger holds the price once."""
    for party in site.parties:
        posts = [(post, reply) for name, post, reply in _posts(site) if name == party]
        shared = {
            (post.turn, unpack(post.inputs["weights"]).tobytes())
            for post, reply in posts
            if post.inputs and isinstance(reply, Posted)
        }
        opened = {
            messages.encode(reply) for _, reply in posts if isinstance(reply, Opened)
        }  # again is the same, to the byte
        assert len(shared) <= ROUNDS
        assert len(opened) <= ROUNDS
    assert all(0 < spent <= 2.0 for spent in site.federation.budget().spent)


@pytest.mark.every(6)
@pytest.mark.parametrize(
    "turn", [1, 4, 8, 13, 19, *(pytest.param(turn, marks=pytest.mark.full) for turn in (2, 3, 5, 6, 7, 9, 12, 16, 18))]
)
def test_a_party_that_is_killed_goes_on_and_no_round_is_opened_twice(tmp_path, turn: int) -> None:
    site = Site(tmp_path)
    kill_at(site, STEP, turn, "telco")
    with pytest.raises(cn.ColonnadeError):
        _at_site().fit(site.federation)
    model = _at_site().fit(site.federation)
    assert np.all(np.isfinite(model.coef_))
    _check(site)
    site.close()


def test_a_coordinator_that_comes_back_goes_on_from_what_was_opened(tmp_path) -> None:
    """The third round is cut short. It is taken again, at the same weights, and the others after it."""
    site = Site(tmp_path)
    kill_at(site, STEP, OPENS[2] - 1, "insurer")
    with pytest.raises(cn.ColonnadeError):
        _at_site().fit(site.federation)
    sent = [unpack(post.inputs["weights"]).tolist() for name, post, _ in _posts(site) if name == "bank" and post.inputs]
    assert len(sent) == 3
    assert sent[0] == sent[1] != sent[2]  # the curvature is opened where the first gradient is
    _at_site().fit(site.federation)
    again = [
        unpack(post.inputs["weights"]).tolist() for name, post, _ in _posts(site) if name == "bank" and post.inputs
    ]
    assert sent[2] == again[3]
    assert again[4] == again[5]  # and where the last gradient is
    assert len(again[3:]) == ROUNDS - 2
    _check(site)
    site.close()


@pytest.mark.full
def test_a_lost_reply_ends_the_run_and_the_next_goes_on(tmp_path) -> None:
    site = Site(tmp_path)

    def lose(name, request):
        if isinstance(request, Post) and request.step == STEP and request.turn == OPENS[1] and name == "bank":
            site.lose = lambda name, request: None
            raise Lost

    site.lose = lose
    with pytest.raises(cn.ColonnadeError):
        _at_site().fit(site.federation)
    _at_site().fit(site.federation)
    _check(site)
    site.close()


def test_asking_again_and_again_opens_no_more_rounds_than_were_paid_for(tmp_path) -> None:
    site = Site(tmp_path)
    for turn in (9, 9, 13, 5, 5):
        kill_at(site, STEP, turn, "bank")
        with suppress(cn.ColonnadeError):
            _at_site().fit(site.federation)
    _check(site)
    site.close()


# Intervals, and traffic


def _described(categories: list[int], numbers: int) -> dict[str, cn.Category | cn.Numeric]:
    """Columns of four parties, dealt out in turn; the target is the last party's."""
    columns = [cn.Category([f"l{k}" for k in range(levels)]) for levels in categories] + [cn.Numeric(0, 1)] * numbers
    found = {f"p{place % 4}.c{place}": column for place, column in enumerate(columns)}
    return dict(sorted(found.items())) | {"p3.y": cn.Category(["no", "yes"])}


def _traffic(people: int, columns: dict[str, cn.Category | cn.Numeric]) -> tuple[int, int]:
    """Bytes of Newton steps, the Gram matrix that they start from among them; and of one Gram matrix by itself."""
    schemas = {f"p{k}": cn.Schema({n[3:]: c for n, c in columns.items() if n.startswith(f"p{k}.")}) for k in range(4)}
    price = Price.of(1.0, 1e-6)
    steps = NewtonStudy(columns, "p3.y", price, people, Division.of(steps=5), scale=default_scale(people))
    studies = [steps, GramRelease(columns, price, ("p3.y",))]
    found = []
    for study, nodes in zip(studies, (("p0", "p1", "p3"), ("p0", "p1", "p2")), strict=True):
        plan = kit.written(
            *study.steps(), task="logistic", method="newton", people=people, parties=tuple(schemas), compute_nodes=nodes
        )
        names = {step.name for step in plan.steps}
        quote = Quote({}, dict.fromkeys(schemas, names))
        predicted = forecast_traffic(plan, quote, schemas)
        assert predicted is not None
        found.append(predicted.bytes)
    return found[0], found[1]


@pytest.mark.parametrize(
    ("people", "categories", "numbers", "most"),
    [(50_000, [42, 16, 15, 9, 7, 6, 5], 6, 7), (1_000_000, [5, 4, 4, 3], 14, 11)],
    ids=["50,000 by 106", "1,000,000 by 30"],
)
def test_newton_steps_send_no_more_than_a_few_gram_matrices(
    people: int, categories: list[int], numbers: int, most: int
) -> None:
    newton, gram = _traffic(people, _described(categories, numbers))
    assert newton <= most * gram


# Convergence


def test_a_model_says_whether_its_steps_came_to_rest(federation, model, monkeypatch) -> None:
    assert model.converged_ == model.convergence_[0].converged
    assert "converged in" in str(model.summary()).lower()
    monkeypatch.setattr("colonnade.estimation.newton.NEAR", 0.0)  # one step leaves little here, and more than noise
    with pytest.warns(cn.NotConverged, match="best weights so far"):
        short = _study(method=cn.methods.Newton(steps=1)).fit(federation)
    assert not short.converged_
    assert short.n_iter_ == 1
    assert "NOT CONVERGED" in str(short.summary())
    assert short.receipt_.endswith("not converged")
