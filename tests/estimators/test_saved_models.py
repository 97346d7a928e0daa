"""Models are files: what is read is what was written, in any process, and nothing that was changed is read at all."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator

import colonnade as cn
from colonnade.estimators.model_file import restored, stored
from tests.federations import SCHEMAS, federation, frames

MODELS = {
    "linear": lambda: cn.LinearRegression("telco.bill", epsilon=1.0, delta=1e-5),
    "linear, sketch": lambda: cn.LinearRegression("telco.bill", method="sketch", epsilon=1.0, delta=1e-5),
    "linear, functional": lambda: cn.LinearRegression("telco.bill", method="functional", epsilon=1.0),
    "linear, coreset": lambda: cn.LinearRegression("telco.bill", method="coreset", size=50, allow_nonprivate=True),
    "logistic, functional": lambda: cn.LogisticRegression("bank.default", method="functional", epsilon=1.0),
    "logistic, gradient": lambda: cn.LogisticRegression(
        "bank.default", method=cn.methods.Gradient(steps=5, rate=0.1), epsilon=1.0, delta=1e-5
    ),
    "k-means, coreset": lambda: cn.KMeans(2, method="coreset", size=50, allow_nonprivate=True),
    "coreset": lambda: cn.Coreset(30, target="telco.bill", allow_nonprivate=True),
    "logistic": lambda: cn.LogisticRegression("bank.default", method="secure", epsilon=1.0, delta=1e-5),
    "logistic, three classes": lambda: cn.LogisticRegression("bank.segment", method="secure", epsilon=1.0, delta=1e-5),
    "pca": lambda: cn.PCA(2, epsilon=1.0, delta=1e-5),
    "pca, local": lambda: cn.PCA(2, method="local", epsilon=1.0, delta=1e-5),
    "k-means": lambda: cn.KMeans(3, epsilon=2.0, delta=1e-5),
    "k-means, response": lambda: cn.KMeans(3, method="response", epsilon=2.0),
    "k-median": lambda: cn.KMedian(2, epsilon=2.0, delta=1e-5),
    "counts": lambda: cn.PatternCount(["bank.segment", "telco.plan"], epsilon=1.0),
    "counts, response": lambda: cn.PatternCount(["bank.segment", "telco.plan"], method="response", epsilon=1.0),
}


@pytest.fixture(scope="module")
def data():
    with federation(400, epsilon=200.0) as f:
        yield f


@pytest.fixture(scope="module")
def fitted(data):
    return {name: make().fit(data) for name, make in MODELS.items()}


def same(one, other):
    """Return whether two learned values are equal to the last bit, whatever they are made of."""
    if isinstance(one, np.ndarray):
        plain = one.dtype.kind == "f"
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=plain)
    if isinstance(one, pd.Series):
        return one.equals(other) and one.index.equals(other.index) and one.index.names == other.index.names
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if hasattr(one, "__dataclass_fields__") and not isinstance(one, BaseEstimator):
        return all(same(getattr(one, name), getattr(other, name)) for name in one.__dataclass_fields__)
    return type(one) is type(other) and one == other


@pytest.mark.every(4)
@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_is_the_saved_one_to_the_last_bit(name, fitted, tmp_path):
    model = fitted[name]
    model.save(tmp_path / "model.json")
    loaded = cn.load(tmp_path / "model.json")
    assert type(loaded) is type(model)
    assert loaded.get_params() == model.get_params()
    assert vars(loaded).keys() == vars(model).keys() - {"_fitted_on"}
    for attribute in (*model.learned, "schema_", "plan_", "receipt_"):
        if hasattr(model, attribute):
            assert same(getattr(loaded, attribute), getattr(model, attribute)), attribute
    assert loaded.privacy_.table().equals(model.privacy_.table())
    assert loaded.transcript_ == model.transcript_


def change(document, path, value):
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value


CHANGES = {
    "a coefficient": (("learned", "coef_", "values", 0), 1.0),
    "the schema": (("schema_", "items", 0, 1, "value", "upper"), 1),
    "the price in the plan": (("plan_", "value", "price", "nano"), 1),
    "the plan's hash": (("plan_hash",), "0" * 64),
    "the statement": (("privacy_", "fields", "study_delta"), 0.5),
    "the estimator": (("estimator",), "LogisticRegression"),
    "the digest": (("digest",), "0" * 64),
    "the version": (("version",), 1),
    "the format": (("format",), "something else"),
    "a field of nobody": (("extra",), 1),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_file_that_was_changed_is_refused(what, fitted, tmp_path):
    fitted["linear"].save(tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text())
    change(document, *CHANGES[what])
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(cn.BadInput):
        cn.load(tmp_path / "model.json")


FORGERIES = {
    "another plan under the old hash": (("plan_", "value", "repeat"), 7),
    "a schema without columns": (("schema_", "items"), []),
    "a schema of other columns": (("schema_", "items", 0, 0), "bank.shoe"),
    "an attribute that hides a method": (("learned", "predict"), 1.0),
    "a coefficient too few": (
        ("learned", "coef_"),
        {"kind": "array", "dtype": "float64", "shape": [1], "values": [1.0]},
    ),
    "a coefficient that is no number": (("learned", "coef_", "values", 0), {"kind": "float", "value": "nan"}),
    "coefficients that are words": (("learned", "coef_", "values", 0), "1.0"),
    "an unknown kind": (("learned", "coef_", "kind"), "object"),
    "an unknown record": (("privacy_", "type"), "Popen"),
    "a parameter of nobody": (("parameters", "shell"), "ls"),
    "an estimator of nobody": (("estimator",), "Study"),
    "an array of objects": (("learned", "coef_", "dtype"), "O"),
    "an array longer than its shape": (("learned", "coef_", "shape"), [3]),
}


@pytest.mark.parametrize("what", FORGERIES)
def test_a_forged_file_with_a_right_digest_is_refused_by_its_structure(what, fitted, tmp_path):
    from colonnade.estimators.model_file import _digest

    fitted["linear"].save(tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text())
    change(document, *FORGERIES[what])
    document["digest"] = _digest(document)
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(cn.ColonnadeError):
        cn.load(tmp_path / "model.json")


def test_only_a_fitted_model_is_saved_and_only_with_what_it_declares(fitted, tmp_path):
    with pytest.raises(cn.BadInput, match="fitted"):
        cn.PCA(2, epsilon=1.0, delta=1e-5).save(tmp_path / "model.json")
    with pytest.raises(cn.BadInput, match="written"):
        fitted["pca"].save(tmp_path / "no such folder" / "model.json")
    fitted["pca"].favourite_ = 1
    try:
        with pytest.raises(cn.BadInput, match="declare"):
            fitted["pca"].save(tmp_path / "model.json")
    finally:
        del fitted["pca"].favourite_
    assert not (tmp_path / "model.json").exists()


def test_a_model_refuses_a_federation_whose_schema_has_changed(fitted, tmp_path):
    fitted["linear"].save(tmp_path / "model.json")
    loaded = cn.load(tmp_path / "model.json")
    other = {**SCHEMAS, "bank": cn.Schema({**SCHEMAS["bank"], "age": cn.Numeric(50, 51)})}
    tables = frames(100)
    changed = cn.Federation.simulate(
        {name: cn.Party(tables[name], schema=other[name]) for name in tables},
        id="person_id",
        budget=cn.Budget(epsilon=10.0, delta=1e-5),
        policies={name: cn.Policy(predictions={"LinearRegression": ["bank"]}) for name in tables},
    )
    with changed, pytest.raises(cn.SchemaMismatch, match=r"bank\.age"):
        loaded.evaluate(changed, epsilon=1.0, delta=1e-5)
    with changed, pytest.raises(cn.SchemaMismatch, match=r"bank\.age"):
        loaded.predict(changed, to="bank")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=20,
)


@given(VALUES)
def test_whatever_is_stored_comes_back_as_it_was(value):
    assert restored(json.loads(json.dumps(stored(value), allow_nan=False))) == value


@given(st.lists(st.floats(width=64), max_size=6))
def test_arrays_of_any_floats_come_back_bit_by_bit(values):
    back = restored(json.loads(json.dumps(stored(np.array(values, dtype=float)), allow_nan=False)))
    np.testing.assert_array_equal(back, np.array(values, dtype=float))
