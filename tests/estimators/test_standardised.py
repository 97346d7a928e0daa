"""Regressions on standardised columns: own units come out right, clipping is said and repeated, wide bounds cost nothing."""

import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from tests import kit

PEOPLE = 3_000
COLUMNS = ["bank.age", "shop.spent", "shop.member", "clinic.score"]
TRUTH = np.array([0.03, 0.002, 0.4, 0.5])


def frames() -> dict[str, pd.DataFrame]:
    rng = kit.generator("standardised")
    age, spent, score = rng.normal(45, 12, PEOPLE), rng.exponential(300, PEOPLE), rng.normal(size=PEOPLE)
    member = rng.random(PEOPLE) < 0.4
    signal = np.column_stack([age - 45, spent - 300, member, score]) @ TRUTH
    late = rng.random(PEOPLE) < 1 / (1 + np.exp(1 - signal))
    ids = {"id": range(PEOPLE)}
    return {
        "bank": pd.DataFrame({**ids, "age": age, "late": np.where(late, "yes", "no")}),
        "shop": pd.DataFrame({**ids, "spent": spent, "member": np.where(member, "yes", "no")}),
        "clinic": pd.DataFrame({**ids, "score": score, "cost": 10 * signal + rng.normal(0, 10, PEOPLE)}),
    }


def schemas(wide: float) -> dict[str, cn.Schema]:
    """Bounds that hold for these people, or so many times as wide."""
    answer = cn.Category(["no", "yes"])
    return {
        "bank": cn.Schema(age=cn.Numeric(45 - 50 * wide, 45 + 50 * wide), late=answer),
        "shop": cn.Schema(spent=cn.Numeric(0, 3_500 * wide), member=answer),
        "clinic": cn.Schema(score=cn.Numeric(-5 * wide, 5 * wide), cost=cn.Numeric(-400 * wide, 400 * wide)),
    }


def federation(wide: float = 20.0, **options: object) -> cn.Federation:
    described = schemas(wide)
    return cn.Federation.simulate(
        {name: cn.Party(frame, schema=described[name], **options) for name, frame in frames().items()},
        id="id",
        budget=cn.Budget(epsilon=9_000.0, delta=1e-3),
        test_key=bytes(32),
    )


def rows() -> pd.DataFrame:
    return cn.named(frames(), id="id")


def design(clipped: dict) -> np.ndarray:
    table = rows()
    numbers = [
        table[name].clip(*((clipped[name].low, clipped[name].high) if name in clipped else (None, None)))
        for name in COLUMNS
        if name != "shop.member"
    ]
    return np.column_stack([np.ones(PEOPLE), numbers[0], numbers[1], table["shop.member"] == "yes", numbers[2]])


def maximum_likelihood(design: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    late, scale = (rows()["bank.late"] == "yes").to_numpy(), design.std(axis=0)
    scale[0] = 1.0
    coded, weights = design / scale, np.zeros(design.shape[1])
    for _ in range(30):
        chance = 1 / (1 + np.exp(-coded @ weights))
        curvature = (coded * (chance * (1 - chance))[:, None]).T @ coded
        weights = weights + np.linalg.solve(curvature, coded.T @ (late - chance))
    return weights / scale, np.sqrt(np.diag(np.linalg.inv(curvature))) / scale


def found(model: object) -> np.ndarray:
    table = model.summary().frame["coefficient"]
    return table[["intercept", "bank.age", "shop.spent", "shop.member=yes", "clinic.score"]].to_numpy()


def logistic(**options: object) -> cn.LogisticRegression:
    return cn.LogisticRegression("bank.late", columns=COLUMNS, coding="reference", delta=1e-5, **options)


def test_at_a_large_epsilon_own_units_and_intercept_are_those_of_the_clipped_columns() -> None:
    with federation() as f:
        model = logistic(epsilon=1_000.0).fit(f)
    truth, errors = maximum_likelihood(design(model.clipped_))
    assert np.all(np.abs(found(model) - truth) < 0.25 * errors)


def test_bounds_that_come_before_the_reach_clip_nothing() -> None:
    with federation(wide=1.0) as f:
        model = logistic(epsilon=1_000.0).fit(f)
    truth, errors = maximum_likelihood(design(model.clipped_))
    assert set(model.clipped_) <= {"shop.spent"}  # its tail is heavy
    assert np.all(np.abs(found(model) - truth) < 0.25 * errors)


def test_wide_bounds_cost_much_less_than_without() -> None:
    """Five times as wide: errors of the noise are a few times as large, and at least ten times without standardising."""

    def widest(wide: float, standardise: str) -> np.ndarray:
        with federation(wide) as f:
            options = {"columns": COLUMNS, "epsilon": 30.0, "delta": 1e-5, "standardise": standardise}
            model = cn.LinearRegression("clinic.cost", **options).fit(f)
            return model.summary().frame["privacy error"][["bank.age", "clinic.score"]].to_numpy()

    near, far, off = widest(1.0, "auto"), widest(5.0, "auto"), widest(5.0, "off")
    assert np.all(far < 5 * near)
    assert np.all(off > 10 * near)


def test_a_summary_says_where_values_were_clipped_and_predictions_clip_there(tmp_path) -> None:
    with federation() as f:
        model = logistic(epsilon=4.0).fit(f)
        measured = model.evaluate(f, epsilon=200.0, delta=1e-5)
    bounds = model.clipped_["shop.spent"]
    assert bounds.low == 0
    assert f"shop.spent between 0 and {bounds.high:g}" in model.summary().head["clipped"]
    one = rows().head(1)
    far, at = one.assign(**{"shop.spent": 60_000.0}), one.assign(**{"shop.spent": bounds.high})
    np.testing.assert_allclose(model.predict_proba(far), model.predict_proba(at))
    np.testing.assert_allclose(model.to_sklearn().predict_proba(far), model.predict_proba(at))
    exact = np.mean(model.predict(rows()) == rows()["bank.late"])
    assert measured["accuracy"].value == pytest.approx(exact, abs=0.02)
    model.save(tmp_path / "model.json")
    loaded = cn.load(tmp_path / "model.json")
    assert loaded.clipped_ == model.clipped_
    assert loaded.summary().head == model.summary().head


def test_a_numeric_target_is_clipped_for_the_fit_and_measured_as_declared() -> None:
    with federation() as f:
        model = cn.LinearRegression("clinic.cost", columns=COLUMNS, epsilon=4.0, delta=1e-5).fit(f)
    assert "clinic.cost" in model.clipped_
    assert model.schema_["clinic.cost"] == schemas(20.0)["clinic"]["cost"]
    assert "clinic.cost between" in model.summary().head["clipped"]


def test_a_preview_says_how_far_values_reach_and_what_it_does_not_know() -> None:
    with federation() as f:
        for study in (logistic(epsilon=4.0), cn.LinearRegression("clinic.cost", epsilon=4.0, delta=1e-5)):
            preview = study.preview(f)
            assert "not known before the first release" in preview.expected["numbers"]
            assert preview.statement.epsilon() <= 4.0
            assert preview.traffic is not None


def test_off_has_no_such_release_and_a_penalty_is_about_declared_bounds() -> None:
    with federation() as f:
        plain = logistic(epsilon=4.0, standardise="off").prepared(f)[1]
        penalised = cn.LinearRegression("clinic.cost", ridge=1.0, epsilon=4.0, delta=1e-5).prepared(f)[1]
        assert not {"spreads"} & {step.kind for plan in (plain, penalised) for step in plan.steps}
        with pytest.raises(cn.BadInput):
            logistic(epsilon=4.0, standardise="on").prepared(f)


@pytest.mark.parametrize("noise", ["gaussian", "skellam"])
@pytest.mark.parametrize("unit", ["person", "party"])
def test_moments_of_standardised_columns_cost_what_was_offered(noise: str, unit: str) -> None:
    with federation(wide=1.0) as f:
        method = cn.methods.Secure(noise=noise)
        model = cn.LinearRegression("clinic.cost", columns=COLUMNS, method=method, unit=unit, epsilon=2.0, delta=1e-5)
        assert 1.95 < model.fit(f).privacy_.epsilon(unit=unit) <= 2.0
