"""A fitted model as an ordinary scikit-learn pipeline: none of our classes in it, and the same predictions."""

import io
import pickle

import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from tests.federations import federation, frames, joined

SAME = 1e-12


@pytest.fixture(scope="module")
def data():
    with federation(400, epsilon=200.0) as f:
        yield f


@pytest.fixture(scope="module")
def rows():
    """Rows with everything that coding has to deal with: missing, unknown and out of bounds."""
    frame = joined(frames(400))
    frame.loc[frame.index[:20], "bank.age"] = np.nan
    frame.loc[frame.index[10:30], "telco.bill"] = [-5.0, 1e9] * 10
    frame.loc[frame.index[15:40], "telco.plan"] = None
    frame.loc[frame.index[30:50], "insurer.product"] = "boat"
    return frame


def relative(one, other):
    return np.max(np.abs(one - other)) / max(1.0, np.max(np.abs(one)))


def test_linear_predictions_are_equal(data, rows):
    model = cn.LinearRegression("telco.bill", epsilon=1.0, delta=1e-5).fit(data)
    assert relative(model.predict(rows), model.to_sklearn().predict(rows)) <= SAME


@pytest.mark.parametrize("target", ["bank.default", "bank.segment"])
def test_logistic_classes_and_probabilities_are_equal(target, data, rows):
    model = cn.LogisticRegression(target, method="secure", epsilon=1.0, delta=1e-5).fit(data)
    exported = model.to_sklearn()
    assert np.max(np.abs(model.predict_proba(rows) - exported.predict_proba(rows))) <= SAME
    assert np.array_equal(model.predict(rows), exported.predict(rows))


def test_whole_numbers_between_broken_bounds_and_levels_that_are_numbers_are_coded_alike():
    rng = np.random.default_rng(0)
    tables = {
        "a": pd.DataFrame({"id": range(200), "visits": rng.normal(4, 3, 200), "grade": rng.choice([3, 1, 2], 200)}),
        "b": pd.DataFrame({"id": range(200), "flag": rng.choice([True, False], 200), "x": rng.random(200)}),
    }
    schemas = {
        "a": cn.Schema(visits=cn.Numeric(0.5, 9.5, integer=True), grade=cn.Category([3, 1, 2])),
        "b": cn.Schema(flag=cn.Category([False, True]), x=cn.Numeric(0, 1)),
    }
    parties = {name: cn.Party(tables[name], schema=schemas[name]) for name in tables}
    with cn.Federation.simulate(parties, id="id", budget=cn.Budget(epsilon=100.0, delta=1e-5)) as f:
        components = cn.PCA(2, epsilon=2.0, delta=1e-5).fit(f)
        linear = cn.LinearRegression("b.x", epsilon=2.0, delta=1e-5).fit(f)
    frame = joined({name: table.rename(columns={"id": "person_id"}) for name, table in tables.items()})
    assert np.max(np.abs(components.transform(frame) - components.to_sklearn().transform(frame))) <= SAME
    assert relative(linear.predict(frame), linear.to_sklearn().predict(frame)) <= SAME


class PlainUnpickler(pickle.Unpickler):
    """Reads objects of scikit-learn and numpy, and refuses a class of ours."""

    def find_class(self, module, name):
        assert not module.startswith("colonnade"), f"{module}.{name}"
        return super().find_class(module, name)


def test_nothing_of_ours_is_left_in_an_exported_model(data):
    models = [
        cn.LinearRegression("telco.bill", epsilon=1.0, delta=1e-5),
        cn.LogisticRegression("bank.default", method="secure", epsilon=1.0, delta=1e-5),
        cn.PCA(3, epsilon=1.0, delta=1e-5),
        cn.KMeans(3, epsilon=2.0, delta=1e-5),
    ]
    for model in models:
        exported = model.fit(data).to_sklearn()
        PlainUnpickler(io.BytesIO(pickle.dumps(exported))).load()
    assert not hasattr(exported.named_steps["model"], "labels_")
