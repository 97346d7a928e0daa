"""Additive models of more than two classes: each is fitted against the rest, pays for itself and has shapes of its own."""

import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from tests.federations import from_one_table

PEOPLE, DELTA = 2_000, 1e-5
COLUMNS = ["bank.age", "shop.basket", "clinic.ward"]
SCHEMAS = {
    "bank": {"age": cn.Numeric(0, 1), "choice": cn.Category(["bus", "car", "train"])},
    "shop": {"basket": cn.Numeric(0, 1)},
    "clinic": {"ward": cn.Category(["a", "b"])},
}


def _frame() -> pd.DataFrame:
    rng = np.random.default_rng(11)
    frame = pd.DataFrame({name: rng.uniform(0, 1, PEOPLE) for name in ("bank.age", "shop.basket")})
    frame["clinic.ward"] = rng.choice(["a", "b"], PEOPLE)
    bent = np.abs(2 * frame["bank.age"] - 1)
    scores = np.column_stack([4 * bent, 4 * frame["shop.basket"], 2 + 1.5 * (frame["clinic.ward"] == "b")])
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    codes = (chances.cumsum(axis=1) < rng.random((PEOPLE, 1))).sum(axis=1)
    return frame.assign(**{"bank.choice": np.array(["bus", "car", "train"])[codes]})


FRAME = _frame()


def _model(kind: type = cn.AdditiveClassifier, **options: object) -> cn.AdditiveClassifier:
    return kind("bank.choice", **{"columns": COLUMNS, "bins": 5, "epsilon": 500.0, "delta": DELTA, **options})


@pytest.fixture(scope="module")
def federation():
    with from_one_table(FRAME, SCHEMAS) as opened:
        yield opened


@pytest.fixture(scope="module")
def model(federation):
    return _model().fit(federation)


def _effects(model: cn.AdditiveClassifier, level: str, column: str) -> np.ndarray:
    shapes = model.shape_functions_
    return shapes[(shapes["class"] == level) & (shapes["column"] == column)]["effect"].to_numpy()


def test_every_class_has_a_shape_of_its_own_for_each_column(model):
    assert list(model.shape_functions_.columns[:3]) == ["class", "column", "bin"]
    assert len(model.shape_functions_) == 3 * (5 + 5 + 2)
    bent = _effects(model, "bus", "bank.age")
    assert bent[0] > bent[2] + 1 < bent[4] + 1
    assert (np.diff(_effects(model, "car", "shop.basket")) > 0).all()
    assert np.ptp(_effects(model, "train", "clinic.ward")) > 1
    assert np.ptp(_effects(model, "train", "clinic.ward")) > 1.4 * np.ptp(_effects(model, "bus", "clinic.ward"))


def test_the_most_probable_class_is_right_as_often_as_the_columns_allow(model):
    commonest = FRAME["bank.choice"].value_counts(normalize=True).iloc[0]
    assert model.score(FRAME[COLUMNS], FRAME["bank.choice"]) > commonest + 0.12
    assert np.allclose(model.predict_proba(FRAME[COLUMNS]).sum(axis=1), 1)


def test_what_explains_one_person_adds_up_to_the_score_of_each_class(model):
    row = FRAME.iloc[[7]]
    told = model.explain(row)
    assert list(told.columns) == ["bin", "bus", "car", "train"]
    assert np.allclose(told[["bus", "car", "train"]].sum(), model.decision_function(row)[0])


def test_it_is_exported_stored_drawn_and_summed_up_like_any_model(model, tmp_path):
    exported = model.to_sklearn()
    assert np.allclose(exported.predict_proba(FRAME[COLUMNS]), model.predict_proba(FRAME[COLUMNS]), atol=1e-9)
    model.save(tmp_path / "model.json")
    again = cn.load(tmp_path / "model.json")
    assert again.shape_functions_.equals(model.shape_functions_)
    figure = model.plot()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["bus", "car", "train"]
    assert model.summary().frame.index.names[0] == "class"


def test_all_classes_together_cost_no_more_than_the_price(model):
    assert model.privacy_.epsilon() <= 500.0
    assert len([step for step in model.plan_.steps if step.party == "bank" and step.name.startswith("newton")]) == 3


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"monotone": {"bank.age": "increasing"}}, "monotone= is about one event"),
        ({"columns": "auto:2"}, "has no two levels"),
        ({"method": cn.methods.AdditiveNewton(plan="evidence")}, "has no two levels"),
        ({"kind": cn.Scorecard}, "points against one event"),
    ],
)
def test_what_is_about_one_event_refuses_three_classes_and_spends_nothing(federation, options, words):
    before = federation._driver.accounts()
    with pytest.raises((cn.errors.BadInput, cn.errors.SchemaMismatch), match=words):
        _model(**options).fit(federation, repeat=9)
    assert str(federation._driver.accounts()) == str(before)
