"""Bad input: a typed error with a code, a remedy and the truth about cost; ledgers unchanged when nothing left."""

import math

import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from tests.federations import SCHEMAS, federation, frames

TWO = ["bank.segment", "telco.plan"]
CANARY = "canary-7f3a"


def check(refusal: pytest.ExceptionInfo[cn.ColonnadeError]) -> None:
    error = refusal.value
    assert isinstance(error, cn.ColonnadeError)
    assert error.code
    assert error.remedy
    assert error.spent is None
    assert CANARY not in str(error)
    assert "Nothing was spent" in str(error)


@pytest.mark.parametrize(
    "epsilon", [None, 0, 0.0, -1.0, math.nan, math.inf, -math.inf, "1.0", True, 1e-12, 1e9, [1.0], 1j]
)
@pytest.mark.parametrize("method", ["response", "independent"])
def test_an_epsilon_that_cannot_be_meant_is_refused(epsilon, method):
    with federation() as f:
        for call in ("fit", "preview"):
            with pytest.raises(cn.BadInput) as refusal:
                getattr(cn.PatternCount(TWO, method=method, epsilon=epsilon), call)(f)
            check(refusal)
        assert (f.budget().spent == 0).all()
        assert (f.budget().releases == 0).all()


@pytest.mark.every(2)
@pytest.mark.parametrize("delta", [-0.1, 1.0, math.nan, "0", None, True])
def test_a_delta_that_cannot_be_meant_is_refused(delta):
    with federation() as f, pytest.raises(cn.BadInput) as refusal:
        cn.PatternCount(TWO, method="response", epsilon=1.0, delta=delta).fit(f)
    check(refusal)


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("columns", "error"),
    [
        (["bank.salary"], cn.SchemaMismatch),
        (["bank.person_id"], cn.SchemaMismatch),
        (["bank.age"], cn.SchemaMismatch),
        (["mint.segment"], cn.BadInput),
        (["segment"], cn.BadInput),
        ([], cn.BadInput),
        ("bank.segment", cn.BadInput),
        (["bank.segment", "bank.segment"], cn.BadInput),
        ([3], cn.BadInput),
        (None, cn.BadInput),
    ],
)
def test_columns_that_are_not_there_are_refused_by_name(columns, error):
    with federation() as f:
        with pytest.raises(error) as refusal:
            cn.PatternCount(columns, method="response", epsilon=1.0).fit(f)
        check(refusal)
        assert (f.budget().spent == 0).all()


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "parameters",
    [
        {"method": "magic"},
        {"unit": "household"},
        {"method": {"name": "response", "sample": 0}},
        {"method": {"name": "response", "sample": 1.5}},
        {"method": {"name": "response", "sample": math.nan}},
        {"method": {"name": "response", "sample": "half"}},
        {"method": {"name": "independent", "sample": 0.5}},
    ],
)
def test_parameters_that_cannot_be_meant_are_refused(parameters):
    with federation() as f, pytest.raises(cn.BadInput) as refusal:
        cn.PatternCount(TWO, **({"method": "response", "epsilon": 1.0} | parameters)).fit(f)
    check(refusal)


@pytest.mark.every(2)
@pytest.mark.parametrize("repeat", [0, -1, 1.5, True, "2"])
def test_a_repeat_that_cannot_be_meant_is_refused(repeat):
    with federation() as f, pytest.raises(cn.BadInput) as refusal:
        cn.PatternCount(TWO, method="response", epsilon=1.0).fit(f, repeat=repeat)
    check(refusal)


@pytest.mark.every(2)
@pytest.mark.parametrize("what", [None, 5, pd.DataFrame()])
def test_fit_takes_a_federation(what):
    with pytest.raises(cn.BadInput) as refusal:
        cn.PatternCount(TWO, method="response", epsilon=1.0).fit(what)
    check(refusal)


@pytest.mark.parametrize(
    "describe",
    [
        lambda: cn.Numeric(),
        lambda: cn.Numeric(0),
        lambda: cn.Numeric(None, 5),
        lambda: cn.Numeric(0, math.inf),
        lambda: cn.Numeric(math.nan, 1),
        lambda: cn.Schema(age=int),
        lambda: cn.Schema(age=(0, 120)),
        lambda: cn.Party(pd.DataFrame({"id": [1]}), schema=None),
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
        lambda: cn.Numeric(6, 5),
        lambda: cn.Category("ab"),
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
        lambda: cn.Date("2020-01-01", "soon"),
        lambda: cn.Date("2020-01-01", "2021-01-01", missing="2022-01-01"),
        lambda: cn.Date("2020-01-01", "2021-01-01", indicator=True),
        lambda: cn.Schema(x=cn.Numeric(0, 1, missing=0, indicator=True), x_missing=cn.Numeric(0, 1)),
        lambda: cn.Category(["a", "a"]),
        lambda: cn.Category([1, "1"]),
        lambda: cn.Category([0.5, 1.5]),
        lambda: cn.Schema(),
        lambda: cn.Schema({"a=b": cn.Numeric(0, 1)}),
        lambda: cn.Budget(epsilon=0),
        lambda: cn.Budget(epsilon=math.nan),
        lambda: cn.Budget(epsilon="1"),
        lambda: cn.Budget(epsilon=1.0, delta=2),
        lambda: cn.Policy(max_epsilon=0),
        lambda: cn.Policy(min_people=0),
    ],
)
def test_public_descriptions_that_cannot_be_meant_are_refused(describe):
    with pytest.raises(cn.BadInput) as refusal:
        describe()
    check(refusal)


def simulate(tables, **options):
    parties = {name: cn.Party(tables[name], schema=SCHEMAS[name]) for name in tables}
    return cn.Federation.simulate(parties, **({"id": "person_id", "budget": cn.Budget(epsilon=1.0)} | options))


def test_a_missing_id_column_is_refused_and_names_the_party():
    tables = frames()
    tables["telco"] = tables["telco"].drop(columns="person_id")
    with pytest.raises(cn.BadInput, match="telco") as refusal:
        simulate(tables)
    check(refusal)


def test_duplicate_ids_are_counted_and_not_shown():
    tables = {name: frame.assign(person_id=frame.person_id.astype(str)) for name, frame in frames().items()}
    tables["telco"].loc[[0, 1, 2], "person_id"] = CANARY
    with pytest.raises(cn.BadInput, match="telco") as refusal:
        simulate(tables)
    check(refusal)
    assert "2" in refusal.value.message or "3" in refusal.value.message


def test_missing_ids_are_counted_and_not_shown():
    tables = {name: frame.assign(person_id=frame.person_id.astype(str)) for name, frame in frames().items()}
    tables["bank"].loc[[4, 7], "person_id"] = None
    with pytest.raises(cn.BadInput, match="bank") as refusal:
        simulate(tables)
    check(refusal)
    assert "2" in refusal.value.message


def test_an_empty_intersection_is_refused():
    tables = frames()
    tables["telco"] = tables["telco"].assign(person_id=tables["telco"].person_id + 10**12)
    with pytest.raises(cn.BadInput) as refusal:
        simulate(tables)
    check(refusal)


def test_a_column_of_the_schema_that_the_table_lacks_is_refused():
    tables = frames()
    tables["telco"] = tables["telco"].drop(columns="plan")
    with pytest.raises(cn.SchemaMismatch, match="plan") as refusal:
        simulate(tables)
    check(refusal)


def test_a_truncated_parquet_file_is_refused_without_quoting_it(tmp_path):
    path = tmp_path / "bank.parquet"
    frame = frames()["bank"]
    frame.to_parquet(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(cn.ColonnadeError) as refusal:
        cn.Party(path, schema=SCHEMAS["bank"])
    check(refusal)


def test_values_outside_the_schema_are_refused_and_leak_into_no_message():
    tables = frames(1_000)
    rogue = np.arange(len(tables["bank"])) % 4 == 0
    tables["bank"].loc[rogue, "segment"] = CANARY
    with pytest.raises(cn.SchemaMismatch, match=r"segment: 251 of 1,001 values") as refusal:
        simulate(tables, budget=cn.Budget(epsilon=60.0))
    check(refusal)


@pytest.mark.parametrize("parties", [{}, None, [], {"bank": 3}, {"bank": pd.DataFrame({"a": [1]})}])
def test_a_federation_is_made_of_parties(parties):
    with pytest.raises(cn.BadInput) as refusal:
        cn.Federation.simulate(parties, id="person_id", budget=cn.Budget(epsilon=1.0))
    check(refusal)


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


def test_an_unknown_party_has_no_budget():
    with federation() as f, pytest.raises(cn.BadInput) as refusal:
        f.budget("mint")
    check(refusal)


def test_a_test_ledger_is_not_opened_for_production_noise_the_other_way_round(tmp_path):
    with federation(test_key=None, ledger_dir=tmp_path):
        pass
    with pytest.raises(cn.PolicyRefusal) as refusal:
        federation(ledger_dir=tmp_path)
    check(refusal)
