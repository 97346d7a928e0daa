"""Additive models in two stages: columns that are chosen, and weights of evidence that are recalibrated."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import colonnade as cn
from colonnade.coordinator.protocols.counting import TargetTables
from colonnade.estimation.additive import centring, information, marginal_shapes
from colonnade.estimation.shape_belief import ShapePrior, TargetCounts
from colonnade.estimators import two_stages
from colonnade.estimators.two_stages import divided
from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import ledger_rho
from colonnade.protocol import messages
from colonnade.schema import Bins, features_of
from tests.federations import from_one_table

PEOPLE, DELTA = 3_000, 1e-5
USEFUL = ["bank.age", "shop.basket"]
PARTIES = {
    "bank": {"age": cn.Numeric(0, 1), "noise": cn.Numeric(0, 1), "late": cn.Category(["no", "yes"])},
    "shop": {"basket": cn.Numeric(0, 1), "other": cn.Numeric(0, 1), "plan": cn.Category(["a", "b"])},
    "clinic": {"height": cn.Numeric(0, 1), "spend": cn.Numeric(0, 10)},
}


def _frame() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    names = ["bank.age", "bank.noise", "shop.other", "clinic.height"]
    frame = pd.DataFrame({name: rng.uniform(0, 1, PEOPLE) for name in names})
    frame["shop.basket"] = np.clip(frame["bank.age"] + rng.normal(0, 0.1, PEOPLE), 0, 1)  # says much the same as age
    frame["shop.plan"] = rng.choice(["a", "b"], PEOPLE)
    score = 3.0 * frame["bank.age"] + 3.0 * frame["shop.basket"] - 3.0
    frame["bank.late"] = np.where(rng.random(PEOPLE) < 1 / (1 + np.exp(-score)), "yes", "no")
    frame["clinic.spend"] = 2 + 6 * frame["shop.basket"] + rng.normal(0, 0.5, PEOPLE)
    return frame


FRAME = _frame()
LATE = (FRAME["bank.late"] == "yes").to_numpy()


@pytest.fixture(scope="module")
def federation():
    with from_one_table(FRAME, PARTIES) as opened:
        yield opened


def _model(kind=cn.AdditiveClassifier, target: str = "bank.late", **options: object):
    return kind(target, **{"bins": 6, "epsilon": 200.0, "delta": DELTA, **options})


EVIDENCE = {"name": "newton", "plan": "evidence"}


@pytest.fixture(scope="module")
def evidence(federation) -> cn.Scorecard:
    return _model(cn.Scorecard, method=EVIDENCE).fit(federation)


# Chosen columns --------------------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "target", "best"),
    [
        (cn.AdditiveClassifier, "bank.late", set(USEFUL)),
        (cn.AdditiveRegressor, "clinic.spend", set(USEFUL)),
    ],
)
def test_the_columns_that_tell_most_are_kept_and_both_stages_are_paid_for(federation, kind, target, best) -> None:
    columns = "auto:2"
    model = _model(kind, target, columns=columns).fit(federation)
    kept = set(model.importance_.index)
    assert kept == best
    assert model.columns == columns
    assert 0.9 * 200 < model.privacy_.epsilon() <= 200
    spent = str(federation.budget())
    again = _model(kind, target, columns=columns).fit(federation)
    assert np.array_equal(again.coef_, model.coef_)
    assert str(federation.budget()) == spent


def test_the_second_plan_names_the_first_and_the_statement_is_about_both(federation) -> None:
    study = _model(columns="auto:2")
    first = study.prepared(federation)[1]
    model = study.fit(federation)
    assert set(model.importance_.index) == set(USEFUL)
    assert model.plan_.parameters["after"] == messages.digest(first).hex()
    assert first.parameters == {"stage": "choice", "keep": 2}
    second = model.plan_.price.epsilon
    assert first.price.epsilon < second < model.privacy_.epsilon()
    assert len(model.privacy_.openings) > len({step.name for step in model.plan_.steps})
    assert "in two stages" in model.receipt_


def test_after_a_fit_its_preview_charges_neither_stage_again_and_names_what_was_chosen(federation) -> None:
    for study in (_model(columns="auto:2"), _model(cn.Scorecard, method=EVIDENCE)):
        study.fit(federation)
        preview = study.preview(federation)
        assert all(charge.epsilon(DELTA) == 0 for charge in preview.charges.values())
        assert not any(preview.unpaid.values())
    assert "bank.age, shop.basket" in str(_model(columns="auto:2").preview(federation))


def test_a_preview_of_two_stages_forecasts_the_traffic_of_both(federation) -> None:
    study = _model(method=EVIDENCE, epsilon=50.0)
    preview = study.preview(federation, repeat=3)
    assert preview.traffic is not None
    study.fit(federation, repeat=3)
    assert preview.traffic.rounds == study.transcript_.rounds
    seen = sum(study.transcript_.bytes_to.values()) + sum(study.transcript_.bytes_from.values())
    assert preview.traffic.bytes == pytest.approx(seen, rel=0.1)


@pytest.mark.every(2)
@pytest.mark.parametrize("columns", ["auto", "auto:", "auto:0", "auto:-1", "auto:x", "bank.age"])
def test_a_choice_is_auto_and_how_many(federation, columns) -> None:
    with pytest.raises(cn.BadInput, match="columns must be"):
        _model(columns=columns).fit(federation)


def test_a_study_whose_second_stage_cannot_follow_is_refused_before_the_first_is_paid_for() -> None:
    with from_one_table(FRAME, PARTIES, budget=cn.Budget(epsilon=2.0, delta=DELTA)) as small:
        with pytest.raises(cn.BudgetExceeded, match="Both stages") as refused:
            _model(columns="auto:2", epsilon=2.1).fit(small)
        assert refused.value.spent is None
        assert small.budget()["spent"].max() == 0
    strict = {"bank": cn.Policy(max_epsilon=1.0)}
    with from_one_table(FRAME, PARTIES, policies=strict) as limited:
        with pytest.raises(cn.PolicyRefusal):
            _model(columns="auto:2", epsilon=1.9).fit(limited)
        assert limited.budget()["spent"].max() == 0


def test_two_stages_cost_no_more_than_the_price() -> None:
    price = Price.of(0.7, 1e-6)
    first, second = divided(price, 15)
    assert ledger_rho(first) + ledger_rho(second) <= ledger_rho(price)
    assert float(ledger_rho(first) / ledger_rho(price)) == pytest.approx(0.15, rel=0.02)


def test_a_choice_leaves_a_column_of_another_party() -> None:
    scores = {"bank.a": 3.0, "bank.b": 2.0, "shop.c": 1.0, "clinic.d": 0.5}
    assert two_stages.best_columns(scores, "bank.late", 2) == ["bank.a", "shop.c"]
    assert two_stages.best_columns(scores, "bank.late", 1) == ["shop.c"]
    assert two_stages.best_columns(scores, "shop.late", 2) == ["bank.a", "bank.b"]


# Tables ----------------------------------------------------------------------------------------------------------------------


def test_a_person_is_in_one_cell_of_every_table_so_each_has_its_part_of_the_price() -> None:
    columns = {f"{party}.x{place}": cn.Category(["a", "b", "c"]) for party in ("bank", "shop") for place in range(3)}
    study = TargetTables({**columns, "bank.late": cn.Category(["no", "yes"])}, "bank.late", Price.of(1.0, 1e-6), 1_000)
    steps = study.steps()
    assert len({step.name for step in steps}) == 6
    assert len(steps) == 3 + 2 * 3
    whole = 0.0
    for name in {step.name for step in steps}:
        price = next(step.price for step in steps if step.name == name)
        whole += float(ledger_rho(price)) if price.delta else price.epsilon**2 / 2
    assert whole <= float(ledger_rho(Price.of(1.0, 1e-6)))
    assert whole >= 0.98 * float(ledger_rho(Price.of(1.0, 1e-6)))


def test_tables_of_own_and_of_other_parties_columns_count_people_as_they_are(evidence) -> None:
    table = evidence.binning_table_.set_index(["column", "bin"])
    for name in ("shop.plan", "bank.age"):
        cells = FRAME[name] if name == "shop.plan" else pd.cut(FRAME[name], np.linspace(0, 1, 7), include_lowest=True)
        for place, (_, row) in enumerate(table.loc[name].iterrows()):
            here = (cells.astype("category").cat.codes == place).to_numpy()
            assert row["count"] == pytest.approx(here.sum(), abs=5 * row["count_stderr"] + 1)
            assert row["event"] == pytest.approx(LATE[here].sum(), abs=5 * row["event_stderr"] + 1)


# Weights of evidence ---------------------------------------------------------------------------------------------------------


def test_columns_that_say_the_same_are_not_counted_twice(evidence) -> None:
    chances = evidence.predict_proba(FRAME)[:, 1]
    calibrated = LogisticRegression(C=1e6).fit(np.log(chances / (1 - chances))[:, None], LATE)
    assert calibrated.coef_[0, 0] == pytest.approx(1.0, abs=0.1)
    assert calibrated.intercept_[0] == pytest.approx(0.0, abs=0.1)
    assert roc_auc_score(LATE, chances) > 0.8


def test_a_model_of_tables_says_that_its_effects_are_marginal(evidence, federation) -> None:
    assert evidence.marginal_
    assert "marginal" in str(evidence.summary())
    preview = str(_model(method=EVIDENCE, epsilon=0.01).preview(federation))
    assert "plan: weights of evidence" in preview
    assert "intervals: of marginal effects" in preview
    assert not _model().fit(federation).marginal_


def test_the_plan_is_chosen_by_the_noise_to_expect(federation) -> None:
    small, middle = (str(_model(epsilon=epsilon).preview(federation)) for epsilon in (0.02, 3.0))
    assert "plan: weights of evidence" in small
    assert "plan: weights of evidence" not in middle
    with pytest.raises(cn.BadInput, match="one column at a time"):
        _model(method=EVIDENCE, pairs=[("bank.age", "bank.noise")]).fit(federation)
    assert "weights of evidence" not in str(
        _model(epsilon=0.02, pairs=[("bank.age", "bank.noise")]).preview(federation)
    )


# The estimates ---------------------------------------------------------------------------------------------------------------

COLUMNS = {"a.x": Bins.equal(cn.Numeric(0, 1), 6), "a.y": cn.Category(["u", "v", "w"])}
FEATURES = features_of(COLUMNS)


def _counts(noise: float, rng: np.random.Generator) -> TargetCounts:
    people = np.array([60_000.0, *[10_000.0] * 6, *[20_000.0] * 3])
    rates = np.array([0.0, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.1, 0.3, 0.425])
    events = people * rates
    events[0] = events[1:7].sum()
    drawn = noise * rng.normal(size=(2, len(people)))
    drawn[:, 0] = 0.0
    return TargetCounts(people + drawn.sum(axis=0), events + drawn[1], max(noise**2, 1e-6))


def test_without_noise_a_marginal_effect_is_the_weight_of_evidence() -> None:
    found = marginal_shapes(ShapePrior.of(FEATURES, COLUMNS), FEATURES, _counts(0.0, np.random.default_rng(0)))
    rates = np.array([0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.1, 0.3, 0.425])
    evidence = np.log(rates / (1 - rates)) - np.log(0.275 / 0.725)
    assert np.abs(found.weights[1:] - evidence).max() < 0.03


def test_noise_pulls_effects_to_nothing_and_a_column_of_noise_tells_little() -> None:
    prior = ShapePrior.of(FEATURES, COLUMNS)
    exact, noisy = (marginal_shapes(prior, FEATURES, _counts(one, np.random.default_rng(1))) for one in (0.0, 20_000.0))
    assert np.abs(noisy.weights[1:]).max() < 0.5 * np.abs(exact.weights[1:]).max()
    told, lost = (information(one, FEATURES) for one in (exact, noisy))
    assert all(lost[name] < 0.2 * told[name] for name in told)


@pytest.mark.full
def test_intervals_of_marginal_effects_cover_them_however_far_noise_has_pulled_them() -> None:
    prior, rng = ShapePrior.of(FEATURES, COLUMNS), np.random.default_rng(2)
    truth = marginal_shapes(prior, FEATURES, _counts(0.0, rng))
    for noise, least in ((100.0, 0.945), (300.0, 0.94), (1_000.0, 0.92)):  # of ten thousand people per bin
        inside = []
        for _ in range(100):
            found = marginal_shapes(prior, FEATURES, _counts(noise, rng))
            centred = centring(FEATURES, found.people)
            apart = (centred @ (found.weights - truth.weights))[1:]
            errors = np.sqrt(np.diag(centred @ found.covariance @ centred.T)[1:])
            inside.append((np.abs(apart) <= 1.96 * errors)[found.determined_in(centred, 1.0)[1:]])
        assert least < np.mean(np.concatenate(inside)) < 1.0, noise
