"""What holds for every estimator and every method, as scikit-learn's own checks hold for its estimators."""

import inspect
import math
import pickle
import re
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn.exceptions
from sklearn.base import clone

import colonnade as cn
from colonnade.constraints import (
    Boolean,
    ColumnList,
    ColumnPairs,
    Constraint,
    Either,
    Numbers,
    OneColumn,
    OneOf,
    Optional,
    PerColumn,
    PerParty,
    Real,
    RisingNumbers,
    SomeOf,
    Whole,
    checked,
)
from colonnade.estimators.catalogue import BEGIN, END, REFERENCES, catalogue, method_table
from colonnade.estimators.catalogue import every_estimator as every_estimator_there_is
from colonnade.estimators.methods.method import Method, method_from, methods_of
from colonnade.estimators.study import Study
from colonnade.protocol import messages
from colonnade.steps.registry import EXACT, STUDIES
from tests import kit
from tests.federations import SCHEMAS, frames, joined

ROOT = Path(__file__).parents[2]
GAUSSIAN = {"epsilon": 2.0, "delta": 1e-5}
OPEN = {"size": 50, "allow_nonprivate": True}
WHOLE = ["bank.visits", "telco.calls"]
FEW = ["bank.age", "telco.bill", "insurer.product"]

USUAL = {"target": "telco.bill", "columns": FEW[::2], **GAUSSIAN}


def usual(kind: type[Study]) -> Study:
    """An estimator whose parameters are those that most have."""
    return kind(**{name: USUAL[name] for name in inspect.signature(kind).parameters if name in USUAL})


PUBLIC = [kind for name in cn.__all__ if isinstance(kind := getattr(cn, name), type) and issubclass(kind, Study)]
MAKE = {kind: partial(usual, kind) for kind in PUBLIC} | {
    cn.PatternCount: lambda: cn.PatternCount(["bank.segment", "telco.plan"], epsilon=1.0),
    cn.GroupBy: lambda: cn.GroupBy(["bank.segment"], ["telco.bill"], **GAUSSIAN),
    cn.Moment: lambda: cn.Moment(WHOLE, 2, **GAUSSIAN),
    cn.KMeans: lambda: cn.KMeans(2, columns=["bank.age", "telco.bill"], **GAUSSIAN),
    cn.KMedian: lambda: cn.KMedian(2, columns=["bank.age", "telco.bill"], **GAUSSIAN),
    cn.PCA: lambda: cn.PCA(1, columns=FEW, **GAUSSIAN),
    cn.LogisticRegression: lambda: cn.LogisticRegression("bank.default", method="secure", columns=FEW, **GAUSSIAN),
    cn.Describe: lambda: cn.Describe(FEW, epsilon=1.0),
    cn.Histogram: lambda: cn.Histogram("bank.age", bins=4, epsilon=1.0),
    cn.Quantiles: lambda: cn.Quantiles("telco.bill", [0.25, 0.5, 0.75], epsilon=1.0),
    cn.AdditiveClassifier: lambda: cn.AdditiveClassifier("bank.default", columns=FEW, bins=4, **GAUSSIAN),
    cn.AdditiveRegressor: lambda: cn.AdditiveRegressor("telco.bill", columns=FEW[::2], bins=4, **GAUSSIAN),
    cn.Scorecard: lambda: cn.Scorecard("bank.default", columns=FEW, bins=4, **GAUSSIAN),
    cn.Coreset: lambda: cn.Coreset(30, target="telco.bill", columns=FEW[::2], allow_nonprivate=True),
    cn.SyntheticTable: lambda: cn.SyntheticTable(FEW, bins=4, **GAUSSIAN),
}
QUICK = {"gradient": cn.methods.Gradient(steps=4, rate=0.1)}
CASES = [(kind, method) for kind in MAKE for method in methods_of(kind)]
NEEDS = {cn.SyntheticTable: kit.needs_mbi}
"""What an estimator needs beyond the library itself."""
every_method = pytest.mark.parametrize(
    ("kind", "method"),
    [pytest.param(kind, method, marks=NEEDS.get(kind, ())) for kind, method in CASES],
    ids=[f"{kind.__name__}-{method.name}" for kind, method in CASES],
)
every_estimator = pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=NEEDS.get(kind, ())) for kind in MAKE], ids=[kind.__name__ for kind in MAKE]
)


def made(kind: type[Study], method: type[Method] | None = None, /, **more) -> Study:
    """An estimator with parameters that the method takes."""
    named = {} if method is None else {"method": QUICK.get(method.name, method.name)}
    private = method is None or method.private or kind is cn.Coreset
    return (
        MAKE[kind]()
        .set_params(**named, **({} if private else {"epsilon": None, "delta": 0.0, **OPEN}))
        .set_params(**more)
    )


@pytest.fixture(scope="module")
def federation():
    tables = frames(300)
    tables["bank"]["visits"] = np.arange(len(tables["bank"])) % 5
    tables["telco"]["calls"] = np.arange(len(tables["telco"])) % 3
    counts = cn.Numeric(0, 10, integer=True)
    schemas = {
        **SCHEMAS,
        "bank": cn.Schema({**SCHEMAS["bank"], "visits": counts}),
        "telco": cn.Schema({**SCHEMAS["telco"], "calls": counts}),
    }
    parties = {name: cn.Party(tables[name], schema=schemas[name]) for name in tables}
    with cn.Federation.simulate(parties, id="person_id", budget=cn.Budget(epsilon=500.0, delta=1e-4)) as f:
        yield f


@pytest.fixture(scope="module")
def fitted(federation):
    """Every estimator by every method, fitted once."""
    found: dict[tuple[type, str], Study] = {}

    def get(kind, method=None):
        study = made(kind, method)
        name = getattr(study.method, "name", study.method)
        if (kind, name) not in found:
            found[kind, name] = study.fit(federation)
        return found[kind, name]

    return get


def test_every_public_estimator_is_checked():
    assert set(MAKE) == set(every_estimator_there_is())


# Parameters -----------------------------------------------------------------------------------------------------------------
@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("study", "words"),
    [
        (cn.PCA(2, method={"name": "secure", "steps": 5}), "no option 'steps'"),
        (cn.PCA(2, method={"steps": 5}), "needs a name"),
        (cn.PCA(2, method=cn.methods.Gradient()), "no method 'gradient'"),
        (cn.KMeans(2, method=cn.methods.Secure(noise="skellam")), "no option 'noise'"),
        (cn.KMeans(2, method=cn.methods.Coreset(alpha=2.0)), "no option 'alpha'"),
        (cn.PCA(2, method=None), "no method None"),
        (cn.PCA(2, method=7), "no method 7"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_method_that_is_not_offered_is_refused_and_so_is_an_option_that_it_lacks(study, words, federation):
    with pytest.raises(cn.BadInput, match=words):
        study.set_params(**GAUSSIAN).fit(federation)


def test_an_object_serves_every_estimator_that_offers_a_method_of_its_name(federation):
    study = cn.KMeans(2, columns=["bank.age", "telco.bill"], method=cn.methods.Coreset(gather=False), **OPEN)
    assert study.fit(federation).plan_.method == "coreset"
    assert cn.Moment(WHOLE, 2, method=cn.methods.Sketch(), **GAUSSIAN).fit(federation).plan_.method == "sketch"


# Constraints ----------------------------------------------------------------------------------------------------------------


def wrong_types(constraint: Constraint) -> list[object]:
    """Values of types that the constraint does not allow."""
    match constraint:
        case Optional(given):
            return [value for value in wrong_types(given) if value is not None]
        case Either(first, second):
            return [value for value in wrong_types(first) if not second.allows(value)]
        case Whole() | Real():
            return [None, True, "1", [1], 1j]
        case OneOf(options):
            return [value for value in (None, 1, True, ["a"], b"a") if value not in options]
        case SomeOf():
            return [None, 3, "count", {"count"}, [3]]
        case Boolean():
            return [None, 1, 0, "True", np.bool_(True)]
        case OneColumn():
            return [None, 3, ["bank.age"], b"bank.age"]
        case ColumnList():
            return [None, 3, "bank.age", {"bank.age"}, [3], [["bank.age"]], ["bank.age", None]]
        case ColumnPairs():
            return [None, 3, "bank.age", {("bank.age", "bank.income")}, ["bank.age"], [("bank.age", 3)]]
        case RisingNumbers():
            return [None, 3, "0.5", {0.5}, ["0.5"], [[0.5]], [True]]
        case PerParty():
            return [None, 3, "bank", [1.0], {3: 1.0}, {"bank": "1"}, {"bank": None}, {"bank": True}]
    raise AssertionError(constraint)


def wrong_values(constraint: Constraint) -> list[object]:
    """Values of the right type that the constraint does not allow."""
    match constraint:
        case Optional(given):
            return wrong_values(given)
        case Either(first, second):
            return [value for value in wrong_values(first) + wrong_values(second) if not constraint.allows(value)]
        case Whole(low, high):
            return [low - 1, low + 0.5, *([] if high is None else [high + 1])]
        case Real(low, high, closed):
            ends = {"both": [], "left": [high], "right": [low], "neither": [low, high]}[closed]
            beyond = [low - 1.0, math.nan, math.inf, -math.inf, *([] if high is None else [high + 1.0])]
            return [*beyond, *(end for end in ends if end is not None)]
        case OneOf():
            return ["", "another"]
        case SomeOf():
            return [[], ["count", "count"], ["another"]]
        case ColumnList():
            return [[], ["bank.age", "bank.age"]]
        case ColumnPairs():
            return [[("bank.age",)], [("bank.age", "bank.income", "bank.since")]]
        case RisingNumbers(each):
            beyond = [] if each.low < -1e300 else [[each.low - 1.0]]
            return [[], [0.5, 0.5], [0.7, 0.2], [math.nan], [math.inf], *beyond]
        case PerParty():
            return [{}, {"bank": -1.0}, {"bank": math.nan}]
    return []


@pytest.mark.parametrize(
    ("constraint", "words"),
    [
        (Whole(1, 4_096), "x must be a whole number from 1 to 4,096, not 'a'."),
        (Whole(1), "x must be a whole number of at least 1, not 'a'."),
        (Real(0, closed="left"), "x must be a number of at least 0, not 'a'."),
        (Real(0, 1, closed="right"), "x must be a number above 0 and at most 1, not 'a'."),
        (Real(0, 1, closed="neither"), "x must be a number above 0 and below 1, not 'a'."),
        (OneOf(("person", "party")), "x must be 'person' or 'party', not 'a'."),
        (OneOf(("auto",)), "x must be 'auto', not 'a'."),
        (SomeOf(("count", "mean")), "x must be a list of 'count' or 'mean', each once, not 'a'."),
        (Boolean(), "x must be True or False, not 'a'."),
        (ColumnList(), "x must be a list of the names of columns, not 'a'."),
        (Optional(Whole(2)), "x must be a whole number of at least 2, or None, not 'a'."),
        (Either(Whole(1), OneOf(("auto",))), "x must be a whole number of at least 1, or 'auto', not 'a'."),
        (
            RisingNumbers(Real(0, 1, closed="neither")),
            "x must be a rising list of numbers, each a number above 0 and below 1, not 'a'.",
        ),
        (Numbers(2), "x must be a list of at least 2 numbers, not 'a'."),
        (PerColumn(Numbers(3)), "x must be a mapping of column to a list of at least 3 numbers, not 'a'."),
        (PerParty(Real(0, closed="neither")), "x must be a mapping of party to a number above 0, not 'a'."),
    ],
    ids=str,
)
def test_a_mistake_has_one_wording(constraint, words):
    with pytest.raises(cn.BadInput) as refusal:
        checked("x", "a", constraint)
    assert refusal.value.message == words
    assert refusal.value.remedy.startswith("For example x=")
    assert constraint.allows(eval(refusal.value.remedy.removeprefix("For example x=").removesuffix(".")))


def test_what_is_allowed_becomes_plain():
    plain = checked("columns", [np.str_("bank.age")], Optional(ColumnList()))
    assert [type(name) for name in plain] == [str]
    assert type(checked("x", np.int64(3), Whole(1))) is int
    assert type(checked("x", np.float32(0.5), Real(0))) is float
    assert type(checked("x", 3, Real(0))) is int
    assert checked("x", {np.str_("bank"): np.float64(1.0)}, PerParty(Real(0))) == {"bank": 1.0}


# Fitting --------------------------------------------------------------------------------------------------------------------


# Fitted or not --------------------------------------------------------------------------------------------------------------


def test_scikit_learns_own_error_catches_it_and_it_survives_pickling():
    with pytest.raises(sklearn.exceptions.NotFittedError) as refusal:
        cn.PCA(2).transform(pd.DataFrame())
    again = pickle.loads(pickle.dumps(refusal.value))
    assert type(again) is cn.NotFittedError
    assert str(again) == str(refusal.value)


def test_a_model_file_keeps_the_methods_object(federation, tmp_path):
    method = cn.methods.Functional(budgets={"bank": 1.0, "telco": 2.0, "insurer": 1.0})
    cn.LinearRegression("telco.bill", columns=FEW[::2], method=method).fit(federation).save(tmp_path / "model.json")
    assert cn.load(tmp_path / "model.json").method == method


# Features -------------------------------------------------------------------------------------------------------------------

MODELS = [kind for kind in MAKE if hasattr(kind, "predict") or hasattr(kind, "transform")]
every_model = pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)


def scored(model, frame):
    return model.transform(frame) if isinstance(model, cn.PCA) else model.predict(frame)


@pytest.mark.every(3)
@every_model
def test_columns_are_found_by_name_whatever_their_order_and_whatever_else_there_is(kind, fitted):
    model, frame = fitted(kind), joined(frames(300))
    expected = scored(model, frame)
    needed = frame[list(model._columns)]
    np.testing.assert_array_equal(scored(model, needed), expected)
    np.testing.assert_array_equal(scored(model, needed[needed.columns[::-1]]), expected)
    np.testing.assert_array_equal(scored(model, needed.assign(**{"bank.shoe": 1})), expected)


@every_model
def test_a_missing_column_is_named_and_rows_without_names_are_refused(kind, fitted):
    model, frame = fitted(kind), joined(frames(300))
    for name in model._columns:
        with pytest.raises(cn.SchemaMismatch, match=re.escape(name)):
            scored(model, frame.drop(columns=name))
    with pytest.raises(cn.BadInput, match="frame"):
        scored(model, frame[list(model._columns)].to_numpy())


def test_scores_have_names(fitted):
    model = fitted(cn.PCA)
    names = model.get_feature_names_out()
    assert names.dtype == object
    assert list(names) == ["component_1"]
    assert model.transform(joined(frames(300))).shape[1] == len(names)


# What is said about methods -------------------------------------------------------------------------------------------------


def test_the_table_of_methods_is_the_one_that_the_methods_write():
    text = (ROOT / "docs" / "reference" / "estimators.md").read_text(encoding="utf-8")
    shown = text[text.index(BEGIN) : text.index(END) + len(END)]
    assert shown == method_table("../references.md"), "put colonnade.estimators.catalogue.method_table(...) there"


def test_every_reference_is_where_the_table_points_to():
    text = (ROOT / "docs" / "references.md").read_text(encoding="utf-8")
    for anchor, title in REFERENCES.items():
        assert f"### {title} {{#{anchor}}}" in text
    assert {row.method.reference for row in catalogue()} - {""} == set(REFERENCES)


# Parameters -----------------------------------------------------------------------------------------------------------------
@every_method
def test_parameters_and_methods_are_set_as_they_are_shown(kind, method):
    study = made(kind, method)
    shown = study.get_params(deep=False)
    assert set(shown) == set(inspect.signature(kind).parameters)
    assert made(kind).set_params(**shown).get_params() == clone(study).get_params() == study.get_params()
    typed = eval(
        repr(study), {one: getattr(cn.methods, one) for one in cn.methods.__all__} | {one.__name__: one for one in MAKE}
    )
    assert typed.get_params() == study.get_params()
    for given in (method.name, np.str_(method.name), method(), {"name": method.name}):
        assert type(method_from(given, kind)) is method
    options = method().get_params()
    by_object = made(kind, method, method=method())
    nested = {name for name in by_object.get_params() if name.startswith("method__")}
    assert nested == {f"method__{one}" for one in options}
    for name, value in options.items():
        assert made(kind, method, method=method.name).set_params(**{f"method__{name}": value}).method == method()
    assert clone(by_object).method == method()
    assert clone(by_object).method is not by_object.method


PRICES = {
    "epsilon": (None, 0, -1.0, math.nan, math.inf, "1", True, 1e-12, 1e9, [1.0]),
    "delta": (-0.1, 1.0, math.nan, math.inf, "0", None, True),
}
UNUSED = {"penalty": "l2", "size": 40, "ridge": 1.0, "n_local_clusters": 3, "split": 0.5, "epsilon": 1.0, "delta": 1e-6}


@every_estimator
def test_every_declared_constraint_refuses_wrong_types_and_values_and_names_the_parameter(kind, federation):
    before = federation.budget()

    def refused(study, name):
        for call in (study.fit, study.preview):
            with pytest.raises(cn.BadInput, match=rf"^\[bad-input\] {name} ") as refusal:
                call(federation)
            assert refusal.value.spent is None
            assert refusal.value.remedy

    assert set(kind.constraints) <= set(inspect.signature(kind).parameters)
    for name, constraint in kind.constraints.items():
        for value in (*wrong_types(constraint), *wrong_values(constraint)):
            refused(made(kind, **{name: value}), name)
    for method in kind.offers:
        assert set(method.constraints) == set(method().get_params())
        for name, constraint in method.constraints.items():
            for value in (*wrong_types(constraint), *wrong_values(constraint)):
                refused(made(kind, method, method={"name": method.name, name: value}), name)
        for name in set(method.unused) & set(inspect.signature(kind).parameters):
            with pytest.raises(cn.BadInput, match=f"{name} has no meaning with method '{method.name}'"):
                made(kind, method, **{name: UNUSED[name]}).fit(federation)
        for name in set(PRICES) & set(inspect.signature(kind).parameters) - set(method.unused):
            for value in () if name == "delta" and method.delta == "not used" else PRICES[name]:
                with pytest.raises(cn.BadInput) as refusal:
                    made(kind, method, **{name: value}).fit(federation)
                assert refusal.value.spent is None
    assert before.equals(federation.budget())


# Fitting --------------------------------------------------------------------------------------------------------------------


@pytest.mark.every(3)
@every_method
def test_fitting_again_is_the_same_release_and_costs_nothing(kind, method, federation, fitted):
    first = fitted(kind, method)
    before = federation.budget()
    study = made(kind, method)
    given = study.get_params(deep=False)
    assert study.fit(federation) is study
    assert all(study.get_params(deep=False)[name] is value for name, value in given.items())
    assert before.equals(federation.budget())
    assert study.plan_ == first.plan_
    assert study.plan_.task == (STUDIES[kind.__name__] if method.private else EXACT["Coreset"])
    assert study.plan_.method == method.name
    assert study.receipt_.splitlines()[2].startswith(f"{kind.__name__}(method='{method.name}')")
    assert vars(study).keys() == vars(first).keys()
    for name in first.learned:
        if hasattr(first, name) and isinstance(getattr(first, name), np.ndarray | pd.Series):
            np.testing.assert_array_equal(getattr(study, name), getattr(first, name))


@pytest.mark.every(3)
@every_method
def test_numpys_words_and_numbers_are_as_good_as_pythons(kind, method, federation, fitted):
    """The plan is the same, so that what was released before is returned."""
    study = made(kind, method)
    for name, value in study.get_params(deep=False).items():
        if isinstance(value, str):
            study.set_params(**{name: np.str_(value)})
        if isinstance(value, list):
            study.set_params(**{name: [(np.str_ if isinstance(one, str) else np.float64)(one) for one in value]})
        if type(value) is int:
            study.set_params(**{name: np.int64(value)})
    plan, known = study.prepared(federation, 1)[1], fitted(kind, method).plan_
    assert plan == known or messages.digest(plan).hex() == known.parameters.get("after")  # or its first stage


@every_estimator
def test_what_is_fitted_is_a_federation_and_nothing_beside_it(kind, federation):
    rows, target = pd.DataFrame({"bank.age": [1, 2]}), pd.Series([0, 1])
    for given in ((rows,), (rows, target), (rows.to_numpy(), target.to_numpy()), (None,), (federation, target)):
        with pytest.raises(cn.BadInput, match="constructor"):
            made(kind).fit(*given)
    with pytest.raises(cn.BadInput, match="federation"):
        made(kind).preview(rows)


@pytest.mark.every(4)
@every_method
def test_a_fit_by_another_method_leaves_nothing_of_the_one_before(kind, method, federation, fitted):
    study = made(kind).fit(federation)
    study.set_params(**made(kind, method).get_params(deep=False)).fit(federation)
    assert vars(study).keys() == vars(fitted(kind, method)).keys()


@pytest.mark.every(3)
@every_method
def test_a_study_is_pickled_and_saved_and_read_again(kind, method, fitted, tmp_path):
    study = fitted(kind, method)
    study.save(tmp_path / "model.json")
    loaded = cn.load(tmp_path / "model.json")
    for again in (pickle.loads(pickle.dumps(study)), loaded):
        assert again.get_params() == study.get_params()
        assert again.receipt_ == study.receipt_
        assert vars(again).keys() == vars(study).keys() - {"_fitted_on"}
        assert again.privacy_.table().equals(study.privacy_.table())


CALLS = {
    "predict": lambda study: study.predict(pd.DataFrame()),
    "predict_proba": lambda study: study.predict_proba(pd.DataFrame()),
    "transform": lambda study: study.transform(pd.DataFrame()),
    "score": lambda study: study.score(pd.DataFrame(), []),
    "to_sklearn": lambda study: study.to_sklearn(),
    "inverse_transform": lambda study: study.inverse_transform([[0.0]]),
    "decision_function": lambda study: study.decision_function(pd.DataFrame()),
    "explained_variance_ratio_": lambda study: study.explained_variance_ratio_,
    "table": lambda study: study.table(),
    "get_feature_names_out": lambda study: study.get_feature_names_out(),
    "evaluate": lambda study: study.evaluate(None, epsilon=1.0),
    "save": lambda study: study.save("nowhere.json"),
    "n_features_in_": lambda study: study.n_features_in_,
    "sample": lambda study: study.sample(),
    "write": lambda study: study.write("nowhere.csv"),
    "quality": lambda study: study.quality(),
    "shape_functions_": lambda study: study.shape_functions_,
    "importance_": lambda study: study.importance_,
    "explain": lambda study: study.explain({}),
    "points_": lambda study: study.points_,
    "information_value_": lambda study: study.information_value_,
    "total_points": lambda study: study.total_points(pd.DataFrame()),
    "to_sql": lambda study: study.to_sql(),
    "to_html": lambda study: study.to_html("nowhere.html"),
}


@every_estimator
def test_what_needs_a_fit_says_so(kind):
    for name, call in CALLS.items():
        if not hasattr(kind, name):
            continue
        with pytest.raises(cn.NotFittedError) as refusal:
            call(made(kind))
        error = refusal.value
        assert isinstance(error, sklearn.exceptions.NotFittedError)
        assert isinstance(error, cn.BadInput)
        assert error.code == "not-fitted"
        assert error.spent is None
        assert kind.__name__ in error.message
        assert "fit" in error.remedy


@every_estimator
def test_a_method_says_what_it_does_what_it_guarantees_and_whether_it_needs_a_delta(kind, federation):
    for method in kind.offers:
        assert method.does
        assert method.guarantee
        assert method.adversary
        assert method.private == ("not private" not in method.guarantee)
        study = made(kind, method)
        if method.delta == "needed":
            with pytest.raises(cn.BadInput, match="delta"):
                study.set_params(delta=0.0).preview(federation)
        elif method.private:
            assert study.set_params(delta=0.0).preview(federation).statement.delta() == 0.0
        if method.private and method.delta == "not used":
            assert made(kind, method, delta=1e-5).preview(federation).statement.delta() == 0.0
