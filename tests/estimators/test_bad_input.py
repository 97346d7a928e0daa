"""One matrix of bad input to estimators: a typed error with a remedy and the truth about cost, and ledgers unchanged.

What a parameter's own constraint refuses is in `test_every_estimator`, for every estimator and every method. Here is what only
the federation's schemas, other parameters or the price show. Words that people are told are in `test_mistakes`.
"""

import math

import pandas as pd
import pytest

import colonnade as cn
from tests import kit
from tests.federations import SCHEMAS, federation, frames

TWO = ["bank.segment", "telco.plan"]
FEATURES = ["telco.bill", "insurer.product"]
CANARY = "canary-7f3a"
PRICE = {"epsilon": 1.0, "delta": 1e-5}
OPEN = {"allow_nonprivate": True}
BUDGETS = {"bank": 1.0, "telco": 1.0, "insurer": 1.0}
PRICES = (None, 0, 0.0, -1.0, math.nan, math.inf, -math.inf, "1.0", True, 1e-12, 1e9, [1.0], 1j)


def check(refusal: pytest.ExceptionInfo[cn.ColonnadeError]) -> None:
    error = refusal.value
    assert isinstance(error, cn.ColonnadeError)
    assert error.code
    assert error.remedy
    assert error.spent is None
    assert CANARY not in str(error)
    assert "Nothing was spent" in str(error)


@pytest.fixture(scope="module")
def untouched():
    """A federation on which nothing is ever released."""
    tables = frames()
    counts = cn.Numeric(0, 10, integer=True)
    schemas = {**SCHEMAS, "insurer": cn.Schema({**SCHEMAS["insurer"], "claims": counts, "late": counts})}
    tables["insurer"] = tables["insurer"].assign(claims=3, late=1)
    parties = {name: cn.Party(tables[name], schema=schemas[name]) for name in tables}
    with cn.Federation.simulate(parties, id="person_id", budget=cn.Budget(epsilon=1e4, delta=1e-5)) as opened:
        yield opened


def pca(n_components=2, **options):
    return cn.PCA(n_components, **{**PRICE, **options})


def linear(target="bank.age", **options):
    return cn.LinearRegression(target, **{**PRICE, **options})


def logistic(target="bank.default", **options):
    return cn.LogisticRegression(target, **{"method": "secure", **PRICE, **options})


def kmeans(n_clusters=3, **options):
    return cn.KMeans(n_clusters, **{"columns": ["bank.age", "telco.bill"], **PRICE, **options})


def moment(columns, p=2, **options):
    return cn.Moment(columns, p, **{"epsilon": 1.0, **options})


def coreset(size=50, **options):
    return cn.Coreset(size, **{"target": "telco.bill", **OPEN, **options})


def sampled(**options):
    return cn.LinearRegression("telco.bill", method="coreset", **{"size": 50, **OPEN, **options})


def newton(**options):
    return cn.LogisticRegression("bank.default", method=cn.methods.Newton(**options), **PRICE)


REFUSED = {
    cn.SchemaMismatch: [
        *[cn.PatternCount([name], epsilon=1.0) for name in ("bank.salary", "bank.person_id", "bank.age")],
        *[study(columns=["telco.bill", name]) for study in (pca, linear) for name in ("mint.plan", "person_id")],
        *[logistic(target) for target in ("bank.age", "bank.salary", "mint.age")],
        *[linear(target) for target in ("bank.segment", "bank.salary", "mint.age")],
        logistic("bank.age", method="gradient"),
        coreset(target="bank.segment"),
        *[moment([name]) for name in ("telco.bill", "bank.segment", "insurer.nothing")],
        cn.GroupBy(["bank.age"], **PRICE),
        cn.GroupBy(["bank.segment"], ["telco.plan"], **PRICE),
        cn.GroupBy(["bank.age"], ["bank.age"], bins=3, **PRICE),
        cn.GroupBy(["bank.nothing"], **PRICE),
        cn.Quantiles("bank.segment", epsilon=1.0),
    ],
    cn.BadInput: [
        *[cn.PatternCount(columns, epsilon=1.0) for columns in (["mint.segment"], ["segment"], TWO[:1] * 2)],
        cn.PatternCount(TWO, method="magic", epsilon=1.0),
        cn.PatternCount(TWO, method={"name": "independent", "sample": 0.5}, epsilon=1.0),
        linear(columns=["bank.segment", "bank.default"]),
        pca(columns=["bank.segment", "bank.age"]),
        logistic(columns=["bank.segment"]),
        logistic(columns=["bank.segment"], method="gradient"),
        cn.LogisticRegression("bank.default", columns=["bank.age", "bank.segment"], **PRICE),
        *[linear(columns=["bank.age", *FEATURES]), logistic(columns=["bank.default", *FEATURES])],
        *[pca(count) for count in (0, -1, 16, 1.0, True, "2", None, math.nan)],
        *[pca(epsilon=1e-9, delta=1e-12, method=method) for method in ("secure", "local")],
        pca(epsilon=1e-6, method=cn.methods.Secure(noise="skellam")),
        *[study(delta=0.0) for study in (pca, linear, logistic)],
        *[pca(delta=0.0, method=method) for method in ("local", "sketch")],
        *[study(method=cn.methods.Secure(row_norms={"mint": 1.0})) for study in (pca, linear, logistic)],
        pca(method={"name": "sketch", "row_norms": {"mint": 1.0}}),
        pca(method=cn.methods.Secure(noise="skellam", scale=1 << 20)),
        *[pca(method={"name": "local", name: value}) for name, value in (("row_norms", {"bank": 1.0}), ("noise", "x"))],
        linear(method="functional", epsilon=None, delta=0.0),
        *[
            linear(method=cn.methods.Functional(budgets=budgets), epsilon=epsilon, delta=0.0)
            for epsilon, budgets in ((1.0, BUDGETS), (None, {"bank": 1.0}), (None, {**BUDGETS, "stranger": 1.0}))
        ],
        linear(method={"name": "functional", "scale": 1 << 20}, epsilon=1e-9, delta=0.0),
        linear(method={"name": "secure", "budgets": BUDGETS}),
        logistic(method="gradient", ridge=1.0),
        logistic(method={"name": "gradient", "scale": 1 << 16}),
        logistic(method="gradient", delta=0.0),
        logistic(method="newton", ridge=1.0),
        newton(window=9),
        newton(gram=0.6, curvature=0.5),
        *[kmeans(20, n_local_clusters=3), kmeans(method="sketch", delta=0.0), kmeans(columns=["mint.x", "bank.age"])],
        *[kmeans(method={"name": "sketch", "sketches": 0}), kmeans(5_000)],
        moment(["insurer.claims", "insurer.late"]),
        *[moment(["insurer.claims"], **options) for options in ({"p": 1e4}, {"change": 0.5}, {"method": "sketch"})],
        moment(["insurer.claims"], 3, method="sketch", delta=1e-6),
        sampled(ridge=1.0),
        sampled(epsilon=1.0),
        sampled(size=None),
        sampled(size=301),
        cn.LinearRegression("telco.bill", method=cn.methods.Coreset(gather=False), size=50, penalty="l1", **OPEN),
        linear(penalty="l2"),
        kmeans(method="coreset", size=2, epsilon=None, delta=0.0, **OPEN),
        kmeans(method="coreset", size=50, split=0.5, epsilon=None, delta=0.0, **OPEN),
        *[coreset(target=None), coreset(task="kmeans"), coreset(columns=["telco.bill"])],
        coreset(task="kmeans", n_clusters=2),
        cn.GroupBy(["bank.segment"], ["telco.bill"], statistics=["count"], **PRICE),
        cn.Histogram("bank.age", bins=[50, 200], epsilon=1.0),
        cn.Histogram("bank.segment", bins=[50, 200], epsilon=1.0),
    ],
}


@pytest.mark.parametrize("error", REFUSED, ids=lambda error: error.__name__)
def test_what_cannot_be_meant_is_refused_before_anything_is_paid(untouched, error):
    for study in REFUSED[error]:
        for call in (study.preview, study.fit):
            with pytest.raises(error) as refusal:
                call(untouched)
            check(refusal)
    assert (untouched.budget().releases == 0).all()
    assert (untouched.budget().spent == 0).all()


def test_an_epsilon_that_cannot_be_meant_is_refused():
    with federation() as f:
        for epsilon in PRICES:
            for method in ("response", "independent"):
                study = cn.PatternCount(TWO, method=method, epsilon=epsilon)
                for call in (study.fit, study.preview):
                    with pytest.raises(cn.BadInput) as refusal:
                        call(f)
                    check(refusal)
        assert (f.budget().spent == 0).all()
        assert (f.budget().releases == 0).all()


@kit.needs_mbi
def test_a_synthetic_table_has_columns_of_two_parties_and_few_levels(untouched):
    for study, words in (
        (cn.SyntheticTable(["bank.age"], **PRICE), "two columns"),
        (cn.SyntheticTable(TWO, cells=5, **PRICE), "'bank.segment' has 3"),
        (cn.SyntheticTable(["bank.age", "bank.segment"], **PRICE), "two parties"),
        (cn.SyntheticTable(TWO, epsilon=1.0), "positive delta"),
    ):
        with pytest.raises(cn.ColonnadeError, match=words) as refusal:
            study.fit(untouched)
        check(refusal)


def test_a_repeat_and_a_signed_column_that_cannot_be_meant_are_refused(untouched):
    for repeat in (0, -1, 1.5, True, "2"):
        for call in (pca().fit, lambda f, repeat: f.moments(repeat=repeat, **PRICE)):
            with pytest.raises(cn.BadInput):
                call(untouched, repeat=repeat)
    for signed in (["bank.segment"], ["bank.age"], ["bank.salary"], "bank.default"):
        with pytest.raises(cn.BadInput) as refusal:
            untouched.moments(signed=signed, **PRICE)
        assert refusal.value.spent is None
    with pytest.raises(cn.BadInput, match="delta"):
        untouched.moments(epsilon=1.0)


@pytest.mark.parametrize(
    "describe",
    [
        lambda: cn.Numeric(0),
        lambda: cn.Numeric(None, 5),
        lambda: cn.Numeric(math.nan, 1),
        lambda: cn.Schema(age=(0, 120)),
        lambda: cn.Party(pd.DataFrame({"id": [1]}), schema={"age": cn.Numeric(0, 1)}),
    ],
)
def test_a_column_without_bounds_is_refused(describe):
    with pytest.raises(cn.BoundsRequired) as refusal:
        describe()
    check(refusal)


@pytest.mark.parametrize(
    "describe",
    [
        lambda: cn.Numeric(5, 5),
        lambda: cn.Category([]),
        lambda: cn.Category(["one"], missing="midpoint"),
        lambda: cn.Category(["?"], na_values=["?"]),
        lambda: cn.Category(["one"], na_values="?"),
        lambda: cn.Numeric(0, 5, missing=6),
        lambda: cn.Numeric(0, 5, missing=math.nan),
        lambda: cn.Numeric(0, 5, missing="0"),
        lambda: cn.Numeric(0, 5, integer=True, missing=2.5),
        lambda: cn.Numeric(0, 5, indicator=True),
        lambda: cn.Numeric(0, 5, missing=1, indicator="yes"),
        lambda: cn.Numeric(0, 5, na_values="?"),
        lambda: cn.Numeric(0, 5, na_values=[None]),
        lambda: cn.Numeric(0, 5, thousands="x"),
        lambda: cn.Numeric(0, 5, thousands="."),
        lambda: cn.Numeric(0, 5, decimal=";"),
        lambda: cn.Date("2020-01-01", "2020-01-01"),
        lambda: cn.Date("2020-01-01", "2021-01-01", missing="2022-01-01"),
        lambda: cn.Date("2020-01-01", "2021-01-01", indicator=True),
        lambda: cn.Schema(x=cn.Numeric(0, 1, missing=0, indicator=True), x_missing=cn.Numeric(0, 1)),
        lambda: cn.Category([1, "1"]),
        lambda: cn.Category([0.5, 1.5]),
        lambda: cn.Schema(),
        lambda: cn.Schema({"a=b": cn.Numeric(0, 1)}),
        lambda: cn.Budget(epsilon=math.nan),
        lambda: cn.Budget(epsilon=1.0, delta=2),
        lambda: cn.Policy(max_epsilon=0),
    ],
)
def test_public_descriptions_that_cannot_be_meant_are_refused(describe):
    with pytest.raises(cn.BadInput) as refusal:
        describe()
    check(refusal)


def simulate(tables, **options):
    parties = {name: cn.Party(tables[name], schema=SCHEMAS[name]) for name in tables}
    return cn.Federation.simulate(parties, **({"id": "person_id", "budget": cn.Budget(epsilon=1.0)} | options))


@pytest.mark.parametrize("name", ["coordinator", "the bank", "", "bank.telco", 7])
def test_a_party_has_a_plain_name(name):
    with pytest.raises(cn.BadInput) as refusal:
        cn.Federation.simulate(
            {name: cn.Party(frames()["bank"], schema=SCHEMAS["bank"])}, id="person_id", budget=cn.Budget(epsilon=1.0)
        )
    check(refusal)


def test_a_budget_that_one_party_lacks_costs_nobody_anything():
    with federation(epsilon=1.0) as f:
        cn.PatternCount(["telco.plan"], method="response", epsilon=0.9).fit(f)
        before = f.budget().spent.copy()
        with pytest.raises(cn.BudgetExceeded, match="telco") as refusal:
            cn.PatternCount(TWO, method="response", epsilon=0.4).fit(f)
        check(refusal)
        pd.testing.assert_series_equal(f.budget().spent, before)


def test_what_a_party_has_agreed_to_is_not_taken_by_another_study_meanwhile(monkeypatch):
    """Another study asks for the telco's last unit after it agreed and before it is asked: it is held."""
    from colonnade.coordinator import driver

    honest = driver._exchange

    def racing(requests, transport):
        replies = honest(requests, transport)
        if any(type(request).__name__ == "Propose" for request in requests.values()):
            monkeypatch.setattr(driver, "_exchange", honest)
            _, other = cn.PatternCount(["telco.plan"], method="response", epsilon=0.9).prepared(f, 1)
            with pytest.raises(cn.BudgetExceeded, match="telco"):
                driver.propose(other, transport, hold=True)
        return replies

    with federation(epsilon=1.0, delta=0.0) as f:
        monkeypatch.setattr(driver, "_exchange", racing)
        cn.PatternCount(TWO, method="response", epsilon=0.4).fit(f)
        assert f.budget("bank").spent == pytest.approx(0.2)
        assert f.budget("telco").spent == pytest.approx(0.2)


def test_a_study_past_one_partys_cap_costs_nobody_anything():
    for options, error in (
        ({"policies": {"telco": cn.Policy(max_epsilon=0.5)}}, cn.PolicyRefusal),
        ({"epsilon": 0.9}, cn.BudgetExceeded),
        ({"epsilon": 100.0, "delta": 0.0}, cn.BudgetExceeded),  # a cap without δ has no room for Gaussian noise
    ):
        with federation(**options) as f:
            for study in (pca(), linear(), logistic()):
                with pytest.raises(error) as refusal:
                    study.fit(f)
                assert refusal.value.spent is None
            assert (f.budget().releases == 0).all()
