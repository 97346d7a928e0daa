"""Missing and unlisted values count as what the schema declares: in every method, in predictions, and in nothing that is said."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import colonnade as cn
from colonnade.party.steps.local import PrivateHistogram, PrivateReports
from colonnade.party.table.private_table import PrivateTable, coded_rows
from colonnade.party.table.sources import Source
from colonnade.protocol import messages
from colonnade.protocol.messages import Released
from colonnade.schema import Category, Date, Numeric, Schema
from colonnade.steps.kind import FixedPoint
from colonnade.transport.direct import Recorded
from tests import kit
from tests.estimators.test_record_and_replay import blank
from tests.federations import TEST_KEY

TABLES, PEOPLE = 50, 1_000
LEFT, RIGHT = ("u", "v"), ("x", "y", "z")
TAIL = 16.0  # beyond this many standard errors discrete Laplace noise is rarer than kit.ALPHA


def opened(tables: dict[str, pd.DataFrame], schemas: dict[str, cn.Schema], **options) -> cn.Federation:
    parties = {name: cn.Party(frame, schema=schemas[name]) for name, frame in tables.items()}
    return cn.Federation.simulate(
        parties, id="id", budget=cn.Budget(epsilon=5_000.0, delta=1e-5), **({"test_key": TEST_KEY} | options)
    )


# Counts -----------------------------------------------------------------------------------


def many_tables(levels: tuple[str, ...], name: str) -> pd.DataFrame:
    """One column per table, a tenth of its values missing."""
    rng = kit.generator(f"missing values {name}")
    shares = [*np.full(len(levels), 0.9 / len(levels)), 0.1]
    columns = {f"c{table}": rng.choice([*levels, None], PEOPLE, p=shares) for table in range(TABLES)}
    return pd.DataFrame({"id": range(PEOPLE), **columns})


def schema_of(levels: tuple[str, ...], rule: str) -> cn.Schema:
    return cn.Schema({f"c{table}": cn.Category(list(levels), missing=rule) for table in range(TABLES)})


def deviations(method: str, rule: str) -> tuple[np.ndarray, np.ndarray]:
    """How far counts are from the truth, in standard errors, one table per row; and sums of counts less the people counted."""
    left, right = many_tables(LEFT, "left"), many_tables(RIGHT, "right")
    named = [[*levels, *(["missing"] if rule == "level" else [])] for levels in (LEFT, RIGHT)]
    found, sums = [], []
    with opened({"a": left, "b": right}, {"a": schema_of(LEFT, rule), "b": schema_of(RIGHT, rule)}) as federation:
        for table in (f"c{number}" for number in range(TABLES)):
            study = cn.PatternCount([f"a.{table}", f"b.{table}"], method=method, epsilon=4.0).fit(federation)
            one, other = (frame[table].fillna("missing") for frame in (left, right))
            true = pd.crosstab(one, other).reindex(index=named[0], columns=named[1], fill_value=0).to_numpy()
            variance = study.stderr_.to_numpy() ** 2
            if (
                method == "independent"
            ):  # columns are independent here, and tables of such columns vary around the product
                shares = [
                    np.array([(column == level).mean() for level in levels])
                    for column, levels in zip((one, other), named, strict=True)
                ]
                variance = variance + PEOPLE * np.outer(*(share * (1 - share) for share in shares)).ravel()
            found.append((study.unbiased_.to_numpy() - true.ravel()) / np.sqrt(variance))
            sums.append(study.counts_.sum() - true.sum())
    return np.array(found), np.array(sums)


@pytest.mark.every(6)
@pytest.mark.parametrize("rule", ["excluded", "level"])
@pytest.mark.parametrize("method", ["secure", "response", "independent"])
def test_the_counting_methods_agree_with_the_truth_and_so_with_each_other(method, rule):
    found, sums = deviations(method, rule)
    assert np.abs(found).max() < TAIL
    middle = found.mean(axis=1)  # one number per table: cells of one table are not independent of each other
    reach = stats.t.isf(kit.ALPHA / 2, TABLES - 1) * middle.std(ddof=1) / math.sqrt(TABLES)
    assert abs(middle.mean()) < reach
    assert reach < 1.0  # spread over the cells, the people without a value would move this by more
    if rule == "level":
        np.testing.assert_allclose(sums, 0, atol=1e-6)  # nobody is left out, and the number of people is public
    else:
        assert abs(sums.mean()) < stats.t.isf(kit.ALPHA / 2, TABLES - 1) * sums.std(ddof=1) / math.sqrt(TABLES)


# Models -----------------------------------------------------------------------------------


def people(rows: int = 3_000) -> dict[str, pd.DataFrame]:
    """Incomes of which a fifth are missing, more often where the target is large; dates; and segments."""
    rng = kit.generator("people with missing incomes")
    income, gone = rng.normal(40, 10, rows), rng.random(rows) < 0.2
    opened_on = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1_000, rows), unit="D")
    spend = 2 * np.where(gone, 55, income) + 20 * gone + rng.normal(0, 1, rows)
    bank = pd.DataFrame({"id": range(rows), "income": income, "opened": opened_on})
    bank.loc[gone, "income"] = np.nan
    segment = rng.choice(["basic", "gold", None], rows, p=[0.6, 0.3, 0.1])
    return {"bank": bank, "shop": pd.DataFrame({"id": range(rows), "spend": spend, "segment": segment})}


MODELS = {
    "bank": cn.Schema(
        income=cn.Numeric(0, 100, missing=55, indicator=True), opened=cn.Date("2020-01-01", "2022-12-31")
    ),
    "shop": cn.Schema(spend=cn.Numeric(0, 250), segment=cn.Category(["basic", "gold"], missing="excluded")),
}


def test_an_indicator_goes_where_its_column_goes_and_takes_up_what_being_missing_means(tmp_path):
    tables = people()
    with opened(tables, MODELS) as f:
        model = cn.LinearRegression("shop.spend", columns=["bank.income"], epsilon=400.0, delta=1e-6).fit(f)
        everything = cn.LinearRegression("shop.spend", epsilon=400.0, delta=1e-6).fit(f)
    assert list(model.feature_names_in_) == ["bank.income", "bank.income_missing"]
    assert model.coef_ == pytest.approx([2, 20], abs=0.7)
    assert "bank.income_missing" in everything.feature_names_in_
    rows = pd.DataFrame({"bank.income": [40.0, np.nan, 55.0]})
    predicted = model.predict(rows)
    assert predicted == pytest.approx([80, 130, 110], abs=2)
    model.save(tmp_path / "model.json")
    np.testing.assert_array_equal(cn.load(tmp_path / "model.json").predict(rows), predicted)
    np.testing.assert_allclose(model.to_sklearn().predict(rows), predicted)


def test_means_are_over_everybody_with_the_declared_value_and_shares_over_people_with_a_level():
    tables = people()
    with opened(tables, MODELS) as f:
        pca = cn.PCA(2, epsilon=400.0, delta=1e-6).fit(f)
    means = dict(zip(pca.feature_names_in_, pca.mean_, strict=True))
    gone = tables["bank"].income.isna()
    assert means["bank.income"] == pytest.approx(tables["bank"].income.fillna(55).mean(), abs=0.2)
    assert means["bank.income_missing"] == pytest.approx(gone.mean(), abs=0.01)
    present = (means["bank.income"] - 55 * means["bank.income_missing"]) / (1 - means["bank.income_missing"])
    assert present == pytest.approx(tables["bank"].income.mean(), abs=0.5)
    days = (tables["bank"].opened - pd.Timestamp("2020-01-01")).dt.days.mean()
    assert means["bank.opened"] == pytest.approx(days, abs=3)
    shares = tables["shop"].segment.value_counts(normalize=True)
    for level in ("basic", "gold"):
        assert means[f"shop.segment={level}"] == pytest.approx(shares[level], abs=0.01)


def test_a_target_that_leaves_people_out_is_refused_by_every_method():
    with opened(people(400), MODELS) as f:
        for method in ("secure", "functional", "gradient"):
            study = cn.LogisticRegression(
                "shop.segment", columns=["bank.income"], method=method, epsilon=1.0, delta=1e-6
            )
            with pytest.raises(cn.SchemaMismatch, match="leaves out people") as refusal:
                study.fit(f)
            assert 'missing="level"' in refusal.value.remedy


def test_an_accuracy_reads_classes_as_a_partys_column_is_read():
    rng = kit.generator("classes")
    x = rng.random(2_000)
    tables = {"a": pd.DataFrame({"id": range(2_000), "x": x}), "b": pd.DataFrame({"id": range(2_000), "y": x > 0.5})}
    schemas = {"a": cn.Schema(x=cn.Numeric(0, 1)), "b": cn.Schema(y=cn.Category([0, 1]))}
    with opened(tables, schemas) as f:
        model = cn.LogisticRegression("b.y", method="secure", epsilon=100.0, delta=1e-6).fit(f)
    rows, truth = pd.DataFrame({"a.x": x}), x > 0.5
    found = {model.score(rows, y) for y in (truth, truth.astype(int), truth.astype(float), truth.astype(str).tolist())}
    assert len(found) == 1
    assert found.pop() > 0.9


# One person -----------------------------------------------------------------------------------

RULES = Schema(
    n=Numeric(-2, 6, missing=6, indicator=True, na_values=[-1]),
    w=Numeric(0, 5, integer=True, missing=0),
    e=Category(["a", "b"], missing="excluded"),
    l=Category(["a", "b"], missing="level", other="rest"),
    d=Date("2020-01-01", "2020-12-31", missing="2020-12-31"),
)
NUMBERS = st.sampled_from([None, -99.0, -1.0, 0.5, 2.0, 6.0, 1e300, float("inf")])
LEVELS = st.sampled_from([None, "a", "b", "c", ""])
DAYS = st.sampled_from([None, "2019-01-01", "2020-02-29", "2021-02-30", "?"])
ROWS = st.lists(st.tuples(NUMBERS, NUMBERS, LEVELS, LEVELS, DAYS), min_size=1, max_size=8)


@settings(max_examples=100)
@given(rows=ROWS, person=st.integers(0, 7))
def test_a_null_record_is_zero_and_a_missing_value_is_within_the_bounds(rows, person):
    """Zeroing a person out moves that person's integers alone, and no further than one column's worth per column."""
    person %= len(rows)
    source = Source(pd.DataFrame(rows, columns=["n", "w", "e", "l", "d"], dtype=object))
    order = np.arange(len(rows))
    gone = np.where(order == person, -1, order)
    coding = FixedPoint(tuple(RULES), RULES, scale=8, row_bound=64 * len(RULES))
    before, after = (coded_rows(coding, PrivateTable(source, RULES, order=one), 0, len(rows)) for one in (order, gone))
    assert np.flatnonzero(np.any(before != after, axis=0)).tolist() in ([], [person])
    assert not after[:, person].any()
    assert np.all((before**2).sum(axis=0) <= coding.row_bound)


STUDIES = {
    "response": cn.PatternCount(["shop.segment", "bank.kind"], method="response", epsilon=2.0),
    "independent": cn.PatternCount(["shop.segment", "bank.kind"], method="independent", epsilon=2.0),
    "secure": cn.PatternCount(["shop.segment", "bank.kind"], epsilon=2.0),
    "components": cn.PCA(2, epsilon=2.0, delta=1e-6),
    "regression": cn.LinearRegression("shop.spend", epsilon=2.0, delta=1e-6),
    "clusters": cn.KMeans(2, epsilon=2.0, delta=1e-6, n_local_clusters=2, method="independent"),
    "moment": cn.Moment(["bank.visits"], 2, epsilon=2.0, change="bounds"),
}
NEIGHBOURS = {
    "bank": cn.Schema(
        income=cn.Numeric(0, 100, missing=55, indicator=True, na_values=["?"]),
        visits=cn.Numeric(0, 20, integer=True, missing=3),
        kind=cn.Category(["a", "b"], missing="level", other="rest"),
    ),
    "shop": MODELS["shop"],
}
RECORDS = {
    "nothing at all": {"income": None, "visits": None, "kind": None, "spend": 10.0, "segment": None},
    "a word for nothing, and a level that is not listed": {"income": "?", "kind": "unheard of", "segment": None},
    "far outside the bounds": {"income": "1e300", "visits": -5, "kind": "rest", "spend": -1e9},
}


def neighbours(record: str) -> list[dict[str, pd.DataFrame]]:
    """The same tables twice, with another record of one person: missing values, unlisted levels, values out of bounds."""
    found = []
    for change in ({}, RECORDS[record]):
        tables = people(150)
        rng = kit.generator("kinds")
        tables["bank"] = (
            tables["bank"]
            .assign(visits=rng.integers(0, 20, 150).astype(object), kind=rng.choice(["a", "b"], 150).astype(object))
            .astype({"income": object})
        )
        for frame in tables.values():
            for column, value in change.items():
                if column in frame:
                    frame.loc[17, column] = value
        found.append(tables)
    return found


@pytest.mark.every(7)
@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize("name", STUDIES)
def test_one_persons_missing_or_unlisted_values_change_nothing_but_the_gates_own_outputs(name, record, monkeypatch):
    seen, counted = [], []
    for tables in neighbours(record):
        inputs = {}
        with monkeypatch.context() as patch:
            for kind in (PrivateHistogram, PrivateReports):
                honest = kind.compute

                def watched(self, table, honest=honest, inputs=inputs):
                    inputs[self.step.party] = honest(self, table).copy()
                    return inputs[self.step.party]

                patch.setattr(kind, "compute", watched)
            with opened(tables, NEIGHBOURS) as f:
                f._driver.transport = recorded = Recorded(f._driver.transport, keep=True)
                type(STUDIES[name])(**STUDIES[name].get_params(deep=False)).fit(f)
        seen.append(recorded.exchanges)
        counted.append(inputs)
    for (requests, replies), (requests_again, replies_again) in zip(*seen, strict=True):
        assert {party: len(data) for party, data in requests.items()} == {p: len(d) for p, d in requests_again.items()}
        assert list(replies) == list(replies_again)
        for one, other in zip(replies.values(), replies_again.values(), strict=True):
            assert len(one) == len(other)
            if isinstance(messages.decode_reply(one), Released):
                assert blank(one) == blank(other)
    if name != "clusters":  # whose centres are drawn anew
        for party, before in counted[0].items():
            moved = np.abs(before.astype(np.int64) - counted[1][party].astype(np.int64))
            assert (moved.sum() <= 2) if name == "independent" else (np.count_nonzero(moved) <= 1)


# Every kind of column in every method ----------------------------------------------------------------------------------------

GAUSSIAN = {"epsilon": 5.0, "delta": 1e-6}
OPEN = {"size": 60, "allow_nonprivate": True}
EVERYTHING = {
    "bank": cn.Schema(
        income=cn.Numeric(0, 100, missing=5, indicator=True),
        opened=cn.Date("2020-01-01", "2022-12-31", missing="2021-01-01", indicator=True),
        one=cn.Category(["x"]),
        visits=cn.Numeric(0, 10, integer=True, missing=3),
    ),
    "shop": cn.Schema(
        spend=cn.Numeric(0, 10),
        seg=cn.Category(["a", "b"], missing="excluded"),
        kind=cn.Category(["u", "v"], missing="level", other="rest"),
        y=cn.Category(["no", "yes"]),
    ),
}
EVERY = {
    "components": lambda: cn.PCA(2, **GAUSSIAN),
    "sketched components": lambda: cn.PCA(2, method="sketch", **GAUSSIAN),
    "local components": lambda: cn.PCA(2, method="local", **GAUSSIAN),
    "clusters": lambda: cn.KMeans(2, n_local_clusters=2, **GAUSSIAN),
    "sketched clusters": lambda: cn.KMeans(2, method="sketch", n_local_clusters=2, **GAUSSIAN),
    "medians": lambda: cn.KMedian(2, method="response", n_local_clusters=2, **GAUSSIAN),
    "sampled clusters": lambda: cn.KMeans(2, method="coreset", **OPEN),
    "regression": lambda: cn.LinearRegression("shop.spend", **GAUSSIAN),
    "regression of days": lambda: cn.LinearRegression("bank.opened", **GAUSSIAN),
    "sketched regression": lambda: cn.LinearRegression("shop.spend", method="sketch", **GAUSSIAN),
    "functional regression": lambda: cn.LinearRegression("shop.spend", method="functional", epsilon=5.0),
    "sampled regression": lambda: cn.LinearRegression("shop.spend", method="coreset", **OPEN),
    "classes": lambda: cn.LogisticRegression("shop.y", method="secure", **GAUSSIAN),
    "three classes": lambda: cn.LogisticRegression("shop.kind", method="secure", **GAUSSIAN),
    "functional classes": lambda: cn.LogisticRegression("shop.y", method="functional", epsilon=5.0),
    "gradient": lambda: cn.LogisticRegression("shop.y", method=cn.methods.Gradient(steps=3, rate=0.2), **GAUSSIAN),
    "groups": lambda: cn.GroupBy(["shop.seg", "bank.one"], ["bank.income", "bank.opened"], **GAUSSIAN),
    "groups with a level for the missing": lambda: cn.GroupBy(["shop.kind"], ["bank.visits"], **GAUSSIAN),
    "groups of days": lambda: cn.GroupBy(["bank.opened", "shop.seg"], ["shop.spend"], bins=3, **GAUSSIAN),
    "correlations": lambda: cn.Correlation(**GAUSSIAN),
    "moment of days": lambda: cn.Moment(["bank.opened"], 2, epsilon=5.0, change="bounds"),
    "sample": lambda: cn.Coreset(50, target="shop.spend", columns=["bank.income"], allow_nonprivate=True),
}


def everything(rows: int = 240) -> dict[str, pd.DataFrame]:
    rng = kit.generator("columns of every kind")

    def with_gaps(values) -> pd.Series:
        column = pd.Series(values, dtype=object)
        column[rng.random(rows) < 0.1] = None
        return column

    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, rows), unit="D")
    bank = {"income": rng.random(rows) * 100, "opened": days.date.astype(str), "visits": rng.integers(0, 9, rows)}
    shop = {"seg": rng.choice(["a", "b"], rows), "kind": rng.choice(["u", "v", "w"], rows)}
    return {
        "bank": pd.DataFrame({"id": range(rows), "one": "x"} | {name: with_gaps(bank[name]) for name in bank}),
        "shop": pd.DataFrame(
            {"id": range(rows), "spend": rng.random(rows) * 10, "y": rng.choice(["no", "yes"], rows)}
            | {name: with_gaps(shop[name]) for name in shop}
        ),
    }


@pytest.fixture(scope="module")
def of_every_kind():
    tables = everything()
    with opened(tables, EVERYTHING) as federation:
        yield federation, pd.concat([tables[name].set_index("id").add_prefix(f"{name}.") for name in tables], axis=1)


@pytest.mark.every(4)
@pytest.mark.parametrize("name", EVERY)
def test_columns_of_every_kind_are_used_saved_and_exported_alike(name, of_every_kind, tmp_path):
    federation, rows = of_every_kind
    study = EVERY[name]().fit(federation)
    study.save(tmp_path / "study.json")
    again = cn.load(tmp_path / "study.json")
    for call in ("predict", "predict_proba", "transform"):
        if not hasattr(study, call):
            continue
        found = getattr(study, call)(rows)
        np.testing.assert_array_equal(found, getattr(again, call)(rows))
        if isinstance(study, cn.KMedian):  # scikit-learn has none
            continue
        exported = getattr(study.to_sklearn(), call)(rows)
        assert np.all(found == exported) if found.dtype == object else np.allclose(found, exported)


def test_a_policy_of_columns_covers_their_indicators():
    policies = {"bank": cn.Policy(columns=["income"]), "shop": cn.Policy()}
    study = cn.LinearRegression("shop.spend", columns=["bank.income"], epsilon=4.0, delta=1e-6)
    with opened(people(400), MODELS, policies=policies) as f:
        study.fit(f)
        with pytest.raises(cn.PolicyRefusal):
            cn.LinearRegression("shop.spend", columns=["bank.opened"], epsilon=4.0, delta=1e-6).fit(f)
