"""What users of scikit-learn and pandas expect of estimators, and find here."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone

import colonnade as cn
from tests.federations import SCHEMAS, frames, joined
from tests.kit import generator

GAUSSIAN = {"epsilon": 50.0, "delta": 1e-5}
FEW = ["bank.age", "telco.bill", "insurer.product"]
BUDGET = cn.Budget(500.0, 1e-4)


@pytest.fixture(scope="module")
def federation():
    tables = frames(400)
    parties = {name: cn.Party(tables[name], schema=SCHEMAS[name]) for name in tables}
    with cn.Federation.simulate(parties, id="person_id", budget=BUDGET) as opened:
        yield opened


@pytest.fixture(scope="module")
def rows():
    return joined(frames(400))


# Principal components ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("standardise", [False, True])
def test_all_components_give_the_rows_back_in_their_own_units(standardise, federation, rows):
    columns = ["bank.age", "telco.bill"]
    model = cn.PCA(2, columns=columns, standardise=standardise, **GAUSSIAN).fit(federation)
    np.testing.assert_allclose(model.inverse_transform(model.transform(rows)), rows[columns].to_numpy(float))


def _two_parties(table, bounds, budget):
    """The first column at one party, the others at another."""
    first, *others = bounds
    parties = {
        "lab": cn.Party(table, schema=cn.Schema({first: bounds[first]})),
        "other": cn.Party(table, schema=cn.Schema({name: bounds[name] for name in others})),
    }
    return cn.Federation.simulate(parties, id="id", budget=budget)


def test_standardised_components_are_those_of_the_correlations():
    """A column whose bounds are far too wide counts for nothing, unless columns are divided by their deviations."""
    rng = generator("standardised components")
    shared = rng.normal(size=4_000)
    noisy = {name: shared + rng.normal(size=4_000) / 2 for name in "ab"}
    table = pd.DataFrame({"id": range(4_000), **noisy, "c": rng.normal(size=4_000)})
    bounds = {"a": cn.Numeric(-4, 4), "b": cn.Numeric(-40, 40), "c": cn.Numeric(-4, 4)}
    with _two_parties(table, bounds, cn.Budget(2_000.0, 1e-3)) as lab:
        raw = cn.PCA(1, epsilon=500.0, delta=1e-5).fit(lab)
        model = cn.PCA(1, standardise=True, epsilon=500.0, delta=1e-5).fit(lab)
        clipped = table[["a", "b", "c"]].clip([-4, -40, -4], [4, 40, 4], axis=1)
        exact = np.linalg.eigh(clipped.corr())[1][:, -1]
        assert abs(exact @ model.components_[0]) > 0.99
        assert abs(raw.components_[0][1]) < 0.2
        assert model.plan_ == raw.plan_  # the same release, so it costs nothing more
        frame = cn.named(lab=table[["id", "a"]], other=table[["id", "b", "c"]], id="id")
        np.testing.assert_allclose(model.to_sklearn().transform(frame), model.transform(frame))
        far = 8 * model.explained_variance_stderr_[0]
        np.testing.assert_allclose(model.transform(frame).var(), model.explained_variance_[0], atol=far)
        found = model.evaluate(lab, epsilon=500.0, delta=1e-5)
        assert found["explained_variance_1"].value == pytest.approx(model.explained_variance_[0], abs=2 * far)
        assert found["explained_variance_ratio"].value == pytest.approx(model.explained_variance_ratio_[0], abs=2 * far)


def test_a_column_that_does_not_vary_is_not_blown_up_by_the_noise(federation):
    table = pd.DataFrame({"id": range(500), "a": np.tile([0.0, 1.0], 250), "flat": 0.5})
    with _two_parties(table, {"a": cn.Numeric(0, 1), "flat": cn.Numeric(0, 1)}, BUDGET) as lab:
        model = cn.PCA(1, standardise=True, epsilon=5.0, delta=1e-5).fit(lab)
    assert np.all(np.isfinite(model.components_))
    assert abs(model.components_[0][0]) > 0.99 * abs(model.components_[0][1])  # its noise may just pass the floor


# Clusters and classes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [cn.KMeans, cn.KMedian])
def test_distances_to_centres_are_those_that_predict_compares(kind, federation, rows):
    model = kind(3, columns=["bank.age", "telco.bill"], **GAUSSIAN).fit(federation)
    distances = model.transform(rows)
    assert distances.shape == (len(rows), 3)
    np.testing.assert_array_equal(distances.argmin(axis=1), model.predict(rows))
    assert list(model.get_feature_names_out()) == [f"{kind.__name__.lower()}{place}" for place in range(3)]
    with pytest.raises(cn.BadInput, match="predict"):
        model.transform(federation, to="bank")


@pytest.mark.parametrize("target", ["bank.default", "bank.segment"])
def test_the_decision_function_is_scikit_learns_and_agrees_with_the_classes(target, federation, rows):
    columns = ["bank.age", "telco.bill"]
    model = cn.LogisticRegression(target, columns=columns, **GAUSSIAN).fit(federation)
    scores = model.decision_function(rows)
    np.testing.assert_allclose(scores, model.to_sklearn().decision_function(rows))
    chosen = (scores > 0).astype(int) if len(model.classes_) == 2 else scores.argmax(axis=1)
    np.testing.assert_array_equal(model.classes_[chosen], model.predict(rows))


# Containers -------------------------------------------------------------------------------------------------------------------

TRANSFORMERS = [cn.PCA(2, columns=FEW, **GAUSSIAN), cn.KMeans(2, columns=["bank.age", "telco.bill"], **GAUSSIAN)]


@pytest.mark.parametrize("study", TRANSFORMERS, ids=lambda study: type(study).__name__)
def test_scores_come_in_the_container_that_was_asked_for(study, federation, rows, tmp_path):
    model = clone(study).fit(federation)
    plain = model.transform(rows)
    assert isinstance(plain, np.ndarray)
    assert model.set_output(transform="pandas") is model
    frame = model.transform(rows)
    assert list(frame.columns) == list(model.get_feature_names_out())
    assert frame.index.equals(rows.index)
    np.testing.assert_array_equal(frame.to_numpy(), plain)
    assert isinstance(clone(model).fit(federation).transform(rows), pd.DataFrame)
    model.save(tmp_path / "model.json")
    assert isinstance(cn.load(tmp_path / "model.json").transform(rows), np.ndarray)
    assert isinstance(model.set_output(transform="default").transform(rows), np.ndarray)
    with sklearn.config_context(transform_output="pandas"):
        assert isinstance(clone(study).fit(federation).transform(rows), pd.DataFrame)
    with pytest.raises(cn.BadInput, match="'pandas'"):
        model.set_output(transform="xarray")


# Results as tables ------------------------------------------------------------------------------------------------------------


def test_results_are_tables_by_name(federation):
    columns = ["bank.age", "telco.bill"]
    centres = cn.KMeans(2, columns=columns, **GAUSSIAN).fit(federation).table()
    assert list(centres.columns) == ["people", *columns]
    assert centres["people"].sum() == pytest.approx(federation.people, rel=0.05)
    model = cn.LinearRegression("telco.bill", columns=["bank.age", "insurer.product"], **GAUSSIAN).fit(federation)
    coefficients = model.table()
    assert coefficients.drop(columns="noise").equals(
        model.summary().frame[list(coefficients)[:-1]].rename_axis("column")
    )
    inside = coefficients.loc["bank.age"]
    assert inside["lower"] < inside["coefficient"] < inside["upper"]
    drawn = cn.LinearRegression(
        "telco.bill", columns=["bank.age"], method="coreset", size=50, allow_nonprivate=True
    ).fit(federation)
    assert list(drawn.table().index) == [*drawn.feature_names_in_, "intercept"]
    assert drawn.table()["coefficient"].tolist() == [*drawn.coef_, drawn.intercept_]
    classes = cn.LogisticRegression("bank.segment", columns=columns, **GAUSSIAN).fit(federation)
    assert classes.table().index.names == ["class", "column"]
    assert set(classes.table().index.get_level_values("class")) == set(classes.classes_)
    sample = cn.Coreset(30, target="telco.bill", columns=["bank.age"], allow_nonprivate=True).fit(federation)
    assert len(sample.table()) < 6
    assert sample.table().loc["rows drawn", "value"] == 30


# Frames and names -------------------------------------------------------------------------------------------------------------


def test_frames_of_several_parties_become_the_frame_that_models_take(federation, rows):
    tables = frames(400)
    found = cn.named(tables, id="person_id")
    pd.testing.assert_frame_equal(found[rows.columns].sort_index(), rows.sort_index(), check_names=False)
    model = cn.PCA(1, columns=FEW, **GAUSSIAN).fit(federation)
    np.testing.assert_array_equal(model.transform(found.loc[rows.index]), model.transform(rows))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"id": "person"}, "no id column 'person'"),
        ({"id": {"bank": "id"}}, "'telco'"),
    ],
)
def test_ids_that_are_not_there_are_named(given, words):
    bank, telco = pd.DataFrame({"id": [1]}), pd.DataFrame({"id": [1]})
    with pytest.raises(cn.ColonnadeError, match=words):
        cn.named(bank=bank, telco=telco, **given)


def test_parties_may_call_their_ids_differently():
    bank = pd.DataFrame({"person_id": [1, 2, 3], "a": [0.1, 0.2, 0.3]})
    telco = pd.DataFrame({"msisdn": [3, 2, 9], "b": [1.0, 2.0, 9.0]})
    parties = {
        "bank": cn.Party(bank, schema=cn.Schema(a=cn.Numeric(0, 1))),
        "telco": cn.Party(telco, schema=cn.Schema(b=cn.Numeric(0, 9))),
    }
    ids = {"bank": "person_id", "telco": "msisdn"}
    with cn.Federation.simulate(parties, id=ids, budget=cn.Budget(1.0)) as opened:
        assert opened.people == 2
    for wrong in ({"bank": "person_id"}, {**ids, "insurer": "x"}, 3, {**ids, "telco": ""}):
        with pytest.raises(cn.BadInput, match="id "):
            cn.Federation.simulate(parties, id=wrong, budget=cn.Budget(1.0))


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("my bank", "my_bank"),
        ("bank-1", "bank_1"),
        ("2bank", "bank"),
        ("bänk ag", "bänk_ag"),
        ("coordinator", "bank"),
        ("", "bank"),
    ],
)
def test_a_name_that_is_no_word_is_refused_with_one_that_is(name, instead):
    party = cn.Party(pd.DataFrame({"id": [1], "a": [1]}), schema=cn.Schema(a=cn.Numeric(0, 1)))
    with pytest.raises(cn.BadInput) as refusal:
        cn.Federation.simulate({name: party}, id="id", budget=cn.Budget(1.0))
    assert repr(name) in refusal.value.message
    assert repr(instead) in refusal.value.remedy


# Ledgers that are not kept ----------------------------------------------------------------------------------------------------

SCRIPT = """
import colonnade as cn, pandas as pd
party = cn.Party(pd.DataFrame({"id": [1, 2], "a": [0, 1]}), schema=cn.Schema(a=cn.Numeric(0, 1)))
for _ in range(3):
    cn.Federation.simulate({"bank": party}, id="id", budget=cn.Budget(1.0)).close()
cn.datasets.three_organisations(people=50).federation(budget=cn.Budget(1.0)).close()
"""


@pytest.mark.full
def test_a_script_is_told_once_that_its_budget_starts_anew():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stderr.count("TemporaryLedgers") == 1
    assert "ledger_dir=" in done.stderr
