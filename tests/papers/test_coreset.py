"""Coresets end to end: unbiased, bounded in what leaves, refused wherever somebody did not consent, and marked as not private."""

import math

import msgspec
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import ElasticNet, Ridge
from sklearn.linear_model import LinearRegression as Plain

import colonnade as cn
from colonnade.coordinator.driver import Relay
from colonnade.errors import BadInput, NonPrivateRefused, ProtocolError
from colonnade.papers.estimation import estimated_size
from colonnade.papers.private import PrivateCoresetDraws, PrivateCoresetTotal, drawn_rows, row_scores
from colonnade.papers.protocols import CoresetStudy
from colonnade.papers.steps import CoresetTerms
from colonnade.protocol import messages
from colonnade.protocol.messages import Ask, Blob, Post, Posted, pack, unpack
from colonnade.runtime.spilled_rows import SpilledRows
from colonnade.transport.direct import Recorded
from tests.federations import as_if_agreed
from tests.kit import ALPHA, chi_square_p, generator

COLUMNS = ["bank.wealth", "bank.kind", "telco.calls", "insurer.claims"]
TARGET = "telco.spend"
CONSENT = {"allow_nonprivate": True}


def tables(people: int = 400) -> dict[str, pd.DataFrame]:
    """Heavy-tailed rows that are common to three parties, in one order."""
    draw = generator("coreset tables")
    scale = draw.pareto(2.0, people) + 0.3
    kind = draw.integers(0, 3, people)
    wealth, calls, claims = (scale * draw.normal(size=people) for _ in range(3))
    spend = 3 * wealth - calls + 2 * (kind == 1) + 0.5 * claims + 0.3 * draw.normal(size=people)
    numbers = np.arange(people)
    return {
        "bank": pd.DataFrame({"id": numbers, "wealth": wealth, "kind": np.array(["a", "b", "c"])[kind]}),
        "telco": pd.DataFrame({"id": numbers, "calls": calls, "spend": spend}),
        "insurer": pd.DataFrame({"id": numbers, "claims": claims, "twice": 2 * claims}),
    }


SCHEMAS = {
    "bank": cn.Schema(wealth=cn.Numeric(-50, 50), kind=cn.Category(["a", "b", "c"])),
    "telco": cn.Schema(calls=cn.Numeric(-50, 50), spend=cn.Numeric(-200, 200)),
    "insurer": cn.Schema(claims=cn.Numeric(-50, 50), twice=cn.Numeric(-100, 100)),
}


def a_federation(people: int = 400, *, policies: dict[str, cn.Policy] | None = None, **options) -> cn.Federation:
    parties = {name: cn.Party(frame, schema=SCHEMAS[name]) for name, frame in tables(people).items()}
    return cn.Federation.simulate(parties, id="id", budget=cn.Budget(epsilon=1.0), policies=policies, **options)


def coded(people: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """The rows as the parties code them, and the target, in the order of the alignment (by id)."""
    found = tables(people)
    kinds = np.stack([found["bank"]["kind"] == level for level in "abc"], axis=1).astype(float)
    numbers = np.clip(
        np.stack([found["bank"]["wealth"], found["telco"]["calls"], found["insurer"]["claims"]], axis=1), -50, 50
    )
    rows = np.concatenate([numbers[:, :1], kinds, numbers[:, 1:]], axis=1)
    rows[:, [0, 4, 5]] /= 50
    return rows, np.clip(found["telco"]["spend"].to_numpy(), -200, 200) / 200


def regression_coreset(size: int = 150, **options) -> cn.Coreset:
    return cn.Coreset(size, task="regression", target=TARGET, columns=COLUMNS, **({**CONSENT, **options}))


# What it estimates ----------------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("task", ["regression", "kmeans"])
def test_the_cost_of_200_coresets_is_unbiased(task):
    """Costs of eight models each; σ of the mean is 0.0018, so the bar of 0.01 is five of it away."""
    rows, target = coded()
    draw = generator(f"unbiased {task}")
    if task == "regression":
        coreset = regression_coreset(400)
        costs = [(rows @ draw.normal(size=6) - target) ** 2 for _ in range(8)]
    else:
        coreset = cn.Coreset(400, task="kmeans", n_clusters=4, columns=COLUMNS, **CONSENT)
        picked = [rows[draw.integers(0, 400, 4)] for _ in range(8)]
        costs = [((rows[:, None] - centres) ** 2).sum(axis=2).min(axis=1) for centres in picked]
    cost = np.mean([one / one.sum() for one in costs], axis=0)
    federation = a_federation()
    ratios = []
    for repeat in range(1, 201):
        coreset.fit(federation, repeat=repeat)
        ratios.append(coreset.weights_ @ cost[coreset.rows_])
    assert np.std(ratios) / math.sqrt(200) < 0.003
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.01)


@pytest.mark.full
def test_importance_has_a_smaller_spread_than_a_uniform_choice():
    rows, target = coded()
    cost = (rows @ np.array([2.0, 0, 0, 0, 2.0, 2.0]) - target) ** 2  # exactly, the ratio of spreads is 0.32
    federation = a_federation()
    spread = {}
    for method in ("importance", "uniform"):
        coreset = regression_coreset(method=method)
        totals = []
        for repeat in range(1, 46):
            coreset.fit(federation, repeat=repeat)
            totals.append(coreset.weights_ @ cost[coreset.rows_])
        spread[method] = np.std(totals)
    assert (
        spread["importance"] < spread["uniform"]
    )  # the logarithm of their ratio is -1.1, and 0.15 is its standard error


def test_scores_of_a_party_are_leverage_scores_with_a_constant_and_its_target():
    federation = a_federation()
    study = regression_coreset().prepared(federation, 1)[0]
    assert study.maxima() == {"bank": 6.0, "telco": 4.0, "insurer": 3.0}
    plan = federation._driver.plan(study, task="coreset", method="importance", price=None, unit="person", parameters={})
    scores = scores_of(federation, plan, "bank").mapped()
    block = np.concatenate([np.ones((400, 1)), coded()[0][:, :4]], axis=1)
    left, values, _ = np.linalg.svd(block, full_matrices=False)
    assert (values > 1e-9).sum() == 4  # all levels of a category add up to the constant
    assert np.allclose(scores, (left[:, :4] ** 2).sum(axis=1) + 1 / 400)


# Models ---------------------------------------------------------------------------------------------------------------------


def full_fit(penalty: str | None, alpha: float) -> tuple[np.ndarray, float]:
    rows, target = coded()
    model = {
        None: Plain(),
        "l2": Ridge(alpha=400 * alpha),
        "l1": ElasticNet(alpha=alpha, l1_ratio=1.0, tol=1e-8, max_iter=100_000),
        "elasticnet": ElasticNet(alpha=alpha, l1_ratio=0.5, tol=1e-8, max_iter=100_000),
    }[penalty].fit(rows, target)
    residuals = rows @ model.coef_ + model.intercept_ - target
    ratio = {None: 0.0, "l2": 0.0, "l1": 1.0, "elasticnet": 0.5}[penalty]
    size = 0.0 if penalty is None else alpha
    penalised = 2 * ratio * np.abs(model.coef_).sum() + (1 - ratio) * (model.coef_**2).sum()
    return model.coef_, float((residuals**2).sum() + 400 * size * penalised)


@pytest.mark.every(2)
@pytest.mark.parametrize("penalty", [None, "l2", "l1", "elasticnet"])
def test_a_regression_on_a_coreset_is_close_to_that_on_everybody_in_its_own_objective(penalty):
    rows, target = coded()
    alpha = 1e-4
    model = cn.LinearRegression(
        TARGET, columns=COLUMNS, method=cn.methods.Coreset(alpha=alpha), penalty=penalty, size=300, **CONSENT
    ).fit(a_federation())
    halves = np.array([50, 1, 1, 1, 50, 50])
    theta = model.coef_ * halves / 200
    residuals = rows @ theta + model.intercept_ / 200 - target
    ratio = {None: 0.0, "l2": 0.0, "l1": 1.0, "elasticnet": 0.5}[penalty]
    size = 0.0 if penalty is None else alpha
    cost = (residuals**2).sum() + 400 * size * (2 * ratio * np.abs(theta).sum() + (1 - ratio) * (theta**2).sum())
    best = full_fit(penalty, alpha)[1]
    assert best * (1 - 1e-6) <= cost <= 1.15 * best


@pytest.mark.parametrize("options", [{}, {"penalty": "l2", "alpha": 0.01}])
def test_training_without_gathering_reaches_the_weighted_solution(options):
    """SAGA on the sample that stays with the parties, against a direct solution on the same rows and weights."""
    federation = a_federation()
    method = cn.methods.Coreset(gather=False, alpha=options.get("alpha", 1.0))
    penalty = options.get("penalty")
    model = cn.LinearRegression(TARGET, columns=COLUMNS, method=method, penalty=penalty, size=200, **CONSENT)
    captured = []
    original = CoresetStudy.rounds

    def watched(self, plan):
        value = yield from original(self, plan)
        captured.append(value)
        return value

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CoresetStudy, "rounds", watched)
        model.fit(federation)
    (found,) = captured
    rows, target = coded()
    chosen, weights = found.coreset.rows, found.coreset.weights
    alpha = options.get("alpha", 0.0)
    design = np.c_[np.ones(len(chosen)), rows[chosen]]
    gram = design.T @ (weights[:, None] * design) / 400 + np.diag([0.0] + [alpha] * 6)
    best = np.linalg.pinv(gram) @ design.T @ (weights * target[chosen]) / 400
    ours = np.r_[model.intercept_ / 200, model.coef_ * np.array([50, 1, 1, 1, 50, 50]) / 200]

    def objective(theta: np.ndarray) -> float:
        return float(weights @ (design @ theta - target[chosen]) ** 2 / 400 + alpha * (theta[1:] ** 2).sum())

    assert objective(best) * (1 - 1e-9) <= objective(ours) <= objective(best) * (1 + 1e-4)


# What leaves, and who must consent --------------------------------------------------------------------------------------------


def estimators() -> dict[str, object]:
    columns = ["bank.wealth", "telco.calls"]
    return {
        "coreset": cn.Coreset(50, target=TARGET, columns=columns),
        "coreset for k-means": cn.Coreset(50, task="kmeans", n_clusters=2, columns=columns),
        "uniform": cn.Coreset(50, target=TARGET, columns=columns, method="uniform"),
        "regression": cn.LinearRegression(TARGET, columns=columns, method="coreset", size=50),
        "saga": cn.LinearRegression(TARGET, columns=columns, method=cn.methods.Coreset(gather=False), size=50),
        "k-means": cn.KMeans(2, columns=columns, method="coreset", size=50),
        "distdim": cn.KMeans(2, columns=columns, method=cn.methods.Coreset(gather=False), size=50),
    }


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", estimators())
def test_nothing_runs_without_the_users_consent(kind):
    federation = a_federation()
    study = estimators()[kind]
    for call in (study.fit, study.preview):
        with pytest.raises(NonPrivateRefused):
            call(federation)
    for almost in (1, "yes", None):
        with pytest.raises(NonPrivateRefused):
            study.set_params(allow_nonprivate=almost).fit(federation)
    assert federation.budget()["nonprivate"].sum() == 0


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", estimators())
def test_nothing_runs_where_one_party_does_not_allow_it_by_name(kind):
    """A served party's own policy is cn.Policy(): it refuses, whatever the coordinator says."""
    others = (cn.Policy(nonprivate=["align"]), cn.Policy(nonprivate=["Coreset"], allow=["PCA"]))
    for policy in (cn.Policy(), *others):
        federation = a_federation(policies={"telco": policy})
        with pytest.raises(cn.PolicyRefusal) as refused:
            estimators()[kind].set_params(**CONSENT).fit(federation)
        assert isinstance(refused.value, NonPrivateRefused) == (policy.allow is None)
        assert federation.budget()["nonprivate"].sum() == 0  # the others have given nothing away either


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", estimators())
def test_it_says_everywhere_that_it_is_not_private(kind):
    federation = a_federation()
    study = estimators()[kind].set_params(**CONSENT)
    assert "NOT PRIVATE" in str(study.preview(federation))
    study.fit(federation)
    assert "not differentially private" in study.receipt_
    assert any("Not differentially private" in words for words in study.privacy_.assumptions)
    for observer in ("coordinator", "bank", ("coordinator", "bank")):
        for unit in ("person", "party"):
            assert study.privacy_.epsilon(observer=observer, unit=unit) == math.inf
    budget = federation.budget()
    assert (budget.loc[["bank", "telco"], "nonprivate"] > 0).all()
    assert budget["spent"].sum() == 0


def test_a_proved_size_is_used_where_it_fits():
    coreset = cn.Coreset("proved", target="b.x", columns=["a.x"], error=0.9, outliers=0.9, failure=0.5, **CONSENT)
    gap, totals = 2 * 3 / (0.9 * 2), 6  # three sensitivities, two parties; ranks of [1, x] and [1, y], plus one each
    expected = math.ceil((gap * totals / 0.9) ** 2 * (1 + math.log(2)))
    assert coreset.fit(two_columns()).counts_.sum() == expected == 837


def test_an_automatic_size_is_that_of_the_public_facts_for_samples_and_for_models():
    federation = two_columns()
    expected = estimated_size("regression", 1, 0, 6.0, error=0.1, failure=0.05)
    study = cn.Coreset("auto", target="b.x", columns=["a.x"], **CONSENT)
    assert f"{expected:,}" in study.preview(federation).expected["rows to draw"]
    assert study.fit(federation).counts_.sum() == expected
    model = cn.LinearRegression("b.x", columns=["a.x"], method="coreset", size="auto", **CONSENT)
    looser = model.set_params(method=cn.methods.Coreset(error=0.5, failure=0.5)).fit(federation)
    assert looser.plan_.steps[-1].parameters["size"] == estimated_size("regression", 1, 0, 6.0, error=0.5, failure=0.5)
    clusters = cn.KMeans(2, method="coreset", size="auto", **CONSENT).fit(federation)
    assert clusters.plan_.steps[-1].parameters["size"] == estimated_size("kmeans", 2, 2, 12.0, error=0.1, failure=0.05)


# A coordinator, or a party, gone bad --------------------------------------------------------------------------------------


def asked(federation: cn.Federation, request: object, party: str = "bank"):
    return messages.decode_reply(federation._driver.transport.exchange({party: messages.encode(request)})[party])


def test_rows_are_gathered_of_the_sample_only_and_the_sample_is_fixed_once():
    federation = a_federation()
    model = cn.LinearRegression(TARGET, columns=COLUMNS, method="coreset", size=40, **CONSENT).fit(federation)
    plan = model.plan_
    before = asked(federation, Ask(plan=plan, step="rows")).array("value")
    everything = {"rows": pack(np.arange(40))}
    again = asked(federation, Ask(plan=plan, step="rows", inputs=everything))
    assert again.code == "bad-input"  # the sample is in the party's own ledger, whatever a coordinator says
    assert len(before) <= 40
    recorded = Recorded(federation._driver.transport)
    algorithm, _ = model.prepared(federation, 1)
    rounds = algorithm._importance(plan)
    requests = next(rounds)
    while not isinstance(next(iter(requests.values())), Post) or next(iter(requests.values())).turn < 1:
        replies = recorded.exchange({name: messages.encode(one) for name, one in requests.items()})
        requests = rounds.send({name: messages.decode_reply(reply) for name, reply in replies.items()})
    post = requests["bank"]
    swapped = Post(plan=post.plan, step=post.step, run=post.run, turn=1, letters=post.letters, inputs=everything)
    refusal = asked(federation, swapped)
    assert getattr(refusal, "code", "answered") == ProtocolError.code
    assert "other rows" in refusal.message


def posted(federation: cn.Federation, step: str, inputs: dict, *, run: bytes = b"one run of many."):
    """Play the first two turns of a conversation with everybody; return what came back."""
    _, plan = regression_coreset().prepared(federation, 1)
    for name in plan.parties:
        as_if_agreed(federation._driver.transport._endpoints[name], plan)
    greeting = {name: messages.encode(Post(plan=plan, step=step, run=run, turn=0, letters={})) for name in plan.parties}
    met = {
        name: messages.decode_reply(reply) for name, reply in federation._driver.transport.exchange(greeting).items()
    }
    hellos = {name: Blob(reply.hello) for name, reply in met.items()}
    first = Post(plan=plan, step=step, run=run, turn=1, letters=hellos, inputs=inputs)
    replies = federation._driver.transport.exchange(dict.fromkeys(plan.parties, messages.encode(first)))
    return {name: messages.decode_reply(reply) for name, reply in replies.items()}


@pytest.mark.every(2)
@pytest.mark.parametrize("counts", [[50, 50, 51], [-1, 100, 51], [75, 75], [50.0, 50.0, 50.0]])
def test_parties_draw_as_many_rows_together_as_the_plan_says(counts):
    replies = posted(a_federation(), "draws", {"counts": pack(np.array(counts))})
    assert {getattr(reply, "code", "answered") for reply in replies.values()} == {BadInput.code}


def test_draws_need_the_key_that_hides_who_made_them():
    replies = posted(a_federation(), "draws", {"counts": pack(np.array([50, 50, 50]))})
    assert {getattr(reply, "code", "answered") for reply in replies.values()} == {ProtocolError.code}


def test_draws_are_divided_once():
    """Otherwise a coordinator could ask again with another division, and see whose rows change places."""
    federation = a_federation()
    regression_coreset().fit(federation)
    replies = posted(federation, "draws", {"counts": pack(np.array([150, 0, 0]))})
    assert not any(isinstance(reply, Posted) for reply in replies.values())


def test_the_coordinator_sees_rows_and_not_who_drew_them(monkeypatch):
    federation, owned = a_federation(), {}
    honest = PrivateCoresetDraws._placed

    def watched(self, table):
        vector = honest(self, table)
        owned[self.step.party] = vector > 0
        return vector

    monkeypatch.setattr(PrivateCoresetDraws, "_placed", watched)
    federation._driver.transport = recorded = Recorded(federation._driver.transport, keep=True)
    coreset, sent = regression_coreset().fit(federation), {}
    for requests, replies in recorded.exchanges:
        for name, reply in replies.items():
            request, message = messages.decode_request(requests[name]), messages.decode_reply(reply)
            if isinstance(message, Posted) and request.step == "draws":
                sent[name] = np.frombuffer(message.letters["coordinator"].view, dtype=np.uint64)
    assert np.array_equal(np.unique(sum(sent.values()).astype(np.int64) - 1), coreset.rows_)
    assert all(not np.isin(vector, np.arange(401)).any() for vector in sent.values())  # nothing shows before the sum
    owner = np.argmax(np.stack([owned[name] for name in sorted(owned)]), axis=0)
    switches = np.count_nonzero(np.diff(owner))
    assert 60 < switches < 130  # 98 if places are shuffled, 2 if every party's stand side by side


def scores_of(federation: cn.Federation, plan: object, party: str) -> SpilledRows:
    transport = getattr(federation._driver.transport, "_inner", federation._driver.transport)
    table = transport._endpoints[party]._row_orders.first._table
    return row_scores(CoresetTerms(plan, plan.step(party, "total"), SCHEMAS[party]), table)


def test_draws_follow_the_scores():
    federation = a_federation()
    _, plan = regression_coreset().prepared(federation, 1)
    kept = scores_of(federation, plan, "bank")
    scores, drawn = kept.mapped(), drawn_rows(kept, 100_000, b"a question")
    order = np.argsort(scores)
    counts = np.bincount(drawn, minlength=400).astype(float)
    observed, expected = (np.add.reduceat(one[order], np.arange(0, 400, 20)) for one in (counts, scores))
    assert chi_square_p(observed, expected) > ALPHA
    assert np.array_equal(drawn[:50], drawn_rows(kept, 50, b"a question"))  # asking again tells nothing new
    assert not np.array_equal(drawn[:50], drawn_rows(kept, 50, b"another question"))


def test_a_party_that_is_fed_other_residuals_makes_no_more_sums(monkeypatch):
    """Otherwise a coordinator could move one party's coefficients alone, and see that party's rows in the margins."""
    honest = Relay._posts

    def fed(self, inputs):
        posts = honest(self, inputs)
        if "residuals" in inputs:
            changed = {**inputs, "residuals": pack(np.zeros_like(unpack(inputs["residuals"])))}
            posts["bank"] = msgspec.structs.replace(posts["bank"], inputs=changed)
        return posts

    monkeypatch.setattr(Relay, "_posts", fed)
    method = cn.methods.Coreset(gather=False)
    model = cn.LinearRegression(TARGET, columns=COLUMNS, method=method, size=100, **CONSENT)
    with pytest.raises(ProtocolError, match="cancel"):
        model.fit(a_federation())


def test_a_party_that_claims_too_much_is_refused(monkeypatch):
    monkeypatch.setattr(PrivateCoresetTotal, "disclose", lambda *_: {"value": np.array([1e9])})
    with pytest.raises(ProtocolError, match="cannot have"):
        regression_coreset().fit(a_federation())


def test_the_coordinator_sees_no_single_score():
    """What one party sends of its scores is uniform: it does not change by more than chance when the data does."""
    federation = a_federation(2_000)
    recorded = Recorded(federation._driver.transport, keep=True)
    federation._driver.transport = recorded
    cn.Coreset(2_000, task="kmeans", n_clusters=1, columns=["bank.wealth", "telco.calls"], **CONSENT).fit(federation)
    octets = []
    for _, replies in recorded.exchanges:
        message = messages.decode_reply(replies["bank"]) if "bank" in replies else None
        for letter in getattr(message, "letters", {}).values():
            octets.append(np.frombuffer(letter.view, dtype=np.uint8))
    found = np.concatenate(octets)
    found = found[
        -8 * 2_000 :
    ]  # the draws before them, and letters about the key, are as uniform but sealed or of other parties
    assert chi_square_p(np.bincount(found, minlength=256), np.ones(256)) > ALPHA


def two_columns(people=2_000):
    draw = generator("automatic size")
    frames = {name: pd.DataFrame({"id": range(people), "x": draw.normal(size=people)}) for name in ("a", "b")}
    parties = {name: cn.Party(frame, schema=cn.Schema(x=cn.Numeric(-5, 5))) for name, frame in frames.items()}
    return cn.Federation.simulate(parties, id="id", budget=cn.Budget(epsilon=1.0))


def test_each_of_them_asks_for_the_steps_that_it_needs_and_for_no_others():
    drawn = {"coreset-total", "group-key", "coreset-draws", "coreset-scores"}
    expected = {
        "coreset": drawn,
        "coreset for k-means": drawn,
        "uniform": {"coreset-sample"},
        "regression": drawn | {"coreset-rows"},
        "saga": drawn | {"coreset-gradient"},
        "k-means": drawn | {"coreset-rows"},
        "distdim": drawn | {"coreset-clusters"},
    }
    for kind, study in estimators().items():
        _, plan = study.set_params(**CONSENT).prepared(a_federation(), 1)
        assert {step.kind for step in plan.steps} == expected[kind], kind
