"""Additive models and scorecards: shapes that are read and signed, the same release for every table, and exact points."""

import sqlite3
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

import colonnade as cn
from colonnade.coordinator.protocols.newton_steps import chosen_division, row_bounds
from colonnade.estimation.additive import STEPS, TABLES, AdditiveSearch, centring
from colonnade.estimation.moments import Moments
from colonnade.estimation.shape_belief import PROBE, OpenedTables, ShapePrior
from colonnade.privacy.accounting import Price
from colonnade.schema import Bins, features_of
from tests import kit

PEOPLE, DELTA = 6_000, 1e-5
COLUMNS = ["bank.age", "bank.plan", "shop.basket", "clinic.pressure"]
SCHEMAS = {
    "bank": cn.Schema(
        age=cn.Numeric(0, 100, integer=True),
        plan=cn.Category(["a", "b", "c"], missing="excluded"),
        late=cn.Category(["no", "yes"]),
    ),
    "shop": cn.Schema(basket=cn.Numeric(-50, 50, missing=0, indicator=True), since=cn.Date("2020-01-01", "2023-12-31")),
    "clinic": cn.Schema(pressure=cn.Numeric(80, 180)),
}


def _frame() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "bank.age": rng.integers(0, 101, PEOPLE),
            "bank.plan": rng.choice(["a", "b", "c"], PEOPLE, p=[0.5, 0.3, 0.2]),
            "shop.basket": rng.uniform(-50, 50, PEOPLE),
            "shop.since": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 1461, PEOPLE), unit="D"),
            "clinic.pressure": rng.uniform(80, 180, PEOPLE),
        }
    )
    frame.loc[frame.index[::10], "shop.basket"] = np.nan
    frame.loc[frame.index[3::20], "bank.plan"] = None
    bent = 2.0 * np.sin(np.pi * frame["bank.age"] / 100)
    score = bent + 1.2 * (frame["bank.plan"] == "c") - 1.0 * frame["shop.basket"].isna() - 1.8
    frame["bank.late"] = np.where(rng.random(PEOPLE) < 1 / (1 + np.exp(-score)), "yes", "no")
    return frame


FRAME = _frame()
LATE = (FRAME["bank.late"] == "yes").to_numpy()


def _federation(**options: object) -> cn.Federation:
    parties = {
        party: cn.Party(
            pd.DataFrame(
                {
                    name: FRAME[f"{party}.{name}"]
                    for name, column in schema.items()
                    if f"{party}.{name}" in FRAME.columns and column
                }
            ).assign(id=np.arange(PEOPLE)),
            schema=schema,
        )
        for party, schema in SCHEMAS.items()
    }
    return cn.Federation.simulate(parties, id="id", **{"budget": cn.Budget(epsilon=10_000.0, delta=DELTA), **options})


def _model(**options: object) -> cn.AdditiveClassifier:
    given = {"columns": COLUMNS, "bins": 8, "epsilon": 1_000.0, "delta": DELTA, **options}
    return cn.AdditiveClassifier("bank.late", **given)


@pytest.fixture(scope="module")
def federation():
    with _federation() as opened:
        yield opened


@pytest.fixture(scope="module")
def model(federation) -> cn.AdditiveClassifier:
    return _model().fit(federation)


def _card(federation) -> cn.Scorecard:
    monotone = {"clinic.pressure": "increasing", "bank.age": "decreasing"}
    study = cn.Scorecard("bank.late", columns=COLUMNS, bins=8, monotone=monotone, epsilon=900.0, delta=DELTA)
    return study.fit(federation)


@pytest.fixture(scope="module")
def card(federation) -> cn.Scorecard:
    return _card(federation)


def test_almost_without_noise_a_bent_effect_is_found_that_a_straight_one_misses(model, federation) -> None:
    straight = cn.LogisticRegression("bank.late", columns=COLUMNS, epsilon=1_000.0, delta=DELTA).fit(federation)
    areas = [roc_auc_score(LATE, one.predict_proba(FRAME)[:, 1]) for one in (model, straight)]
    assert areas[0] > areas[1] + 0.02
    age = model.shape_functions_.query("column == 'bank.age'")["effect"].to_numpy()
    assert np.argmax(age) in (3, 4)
    assert age[3] - age[0] > 1.0
    assert age[3] - age[-1] > 1.0


def test_effects_are_against_the_average_person_and_shares_add_up(model) -> None:
    shapes = model.shape_functions_
    for _, shape in shapes.groupby("column"):
        assert shape["share"].sum() == pytest.approx(1.0)
        assert shape["effect"] @ shape["share"] == pytest.approx(0.0, abs=1e-9)
    importance = model.importance_
    assert importance.is_monotonic_decreasing
    assert importance.index[0] == "bank.age"
    assert importance.index[-1] == "clinic.pressure"


def test_what_columns_add_up_to_is_the_score(model) -> None:
    row = FRAME.iloc[[7]]
    explained = model.explain(row)
    assert explained["effect"].sum() == pytest.approx(float(model.decision_function(row)[0]))
    assert model.explain(dict(FRAME.iloc[7]))["effect"].equals(explained["effect"])
    with pytest.raises(cn.BadInput, match="one record"):
        model.explain(FRAME.iloc[:2])
    with pytest.raises(cn.SchemaMismatch, match="lacks the column"):
        model.explain({"bank.age": 30})


def test_it_costs_its_price_once_and_a_second_fit_asks_for_nothing_new(federation, model) -> None:
    assert 500.0 < model.privacy_.epsilon() <= 1_000.0  # noise of a whole number is not arbitrarily small
    spent = str(federation.budget())
    assert np.array_equal(_model().fit(federation).coef_, model.coef_)
    monotone = _model(monotone={"clinic.pressure": "increasing"}).fit(federation)
    assert not np.array_equal(monotone.coef_, model.coef_)
    assert str(federation.budget()) == spent  # a constraint is post-processing


def test_a_person_is_in_one_bin_per_column_so_a_row_is_as_long_as_there_are_columns(model) -> None:
    rounds = [step.parameters for step in model.plan_.steps if step.name == "newton 1"]
    bounds, widths = ([one[name] for one in rounds] for name in ("row_bound", "width"))
    assert sum(bounds) == len(COLUMNS) + 1
    assert sum(widths) > 20


@pytest.mark.parametrize("direction", ["increasing", "decreasing"])
def test_a_monotone_effect_is_monotone_exactly_and_stays_centred(federation, direction) -> None:
    shapes = _model(monotone={"bank.age": direction}).fit(federation).shape_functions_
    age = shapes[shapes["column"] == "bank.age"]
    steps = np.diff(age["effect"])
    assert np.all(steps >= 0) if direction == "increasing" else np.all(steps <= 0)
    assert age["effect"] @ age["share"] == pytest.approx(0.0, abs=1e-9)


def test_saved_exported_and_evaluated_models_are_the_same(model, federation, tmp_path) -> None:
    model.save(tmp_path / "model.json")
    chances = model.predict_proba(FRAME)
    assert np.array_equal(cn.load(tmp_path / "model.json").predict_proba(FRAME), chances)
    assert np.abs(model.to_sklearn().predict_proba(FRAME) - chances).max() < 1e-9
    found = model.evaluate(federation, epsilon=500.0, level=1 - kit.ALPHA)
    assert found["auc"].low <= roc_auc_score(LATE, chances[:, 1]) <= found["auc"].high


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"monotone": {"bank.plan": "increasing"}}, "monotone names 'bank.plan'"),
        ({"bins": {"clinic.weight": 4}}, "bins names 'clinic.weight'"),
        ({"bins": {"bank.age": [0, 50, 90]}}, "first and the last edge"),
        ({"bins": 1}, "bins must be"),
        ({"delta": 0.0}, "positive delta"),
        ({"columns": ["bank.age", "bank.late"]}, "also among the columns"),
    ],
)
def test_what_cannot_be_fitted_is_refused_before_anything_is_spent(federation, options, words) -> None:
    before = str(federation.budget())
    for call in ("preview", "fit"):
        with pytest.raises(cn.ColonnadeError, match=words):
            getattr(_model(**options), call)(federation)
    assert str(federation.budget()) == before


# Numbers ----------------------------------------------------------------------------------------------------------------------


def test_a_number_with_a_bent_effect_is_explained_better_by_shapes_than_by_a_slope(federation) -> None:
    rng = np.random.default_rng(8)
    people = {"x": rng.uniform(0, 1, 4_000), "y": rng.choice(["u", "v"], 4_000), "id": np.arange(4_000)}
    frame = pd.DataFrame(people)
    frame["z"] = 50 + 20 * np.cos(2 * np.pi * frame["x"]) + 8 * (frame["y"] == "v") + rng.normal(0, 3, 4_000)
    parties = {
        "a": cn.Party(frame[["x", "id"]], schema=cn.Schema(x=cn.Numeric(0, 1))),
        "b": cn.Party(frame[["y", "id"]], schema=cn.Schema(y=cn.Category(["u", "v"]))),
        "c": cn.Party(frame[["z", "id"]], schema=cn.Schema(z=cn.Numeric(0, 100))),
    }
    named = frame.rename(columns={"x": "a.x", "y": "b.y", "z": "c.z"})
    with cn.Federation.simulate(parties, id="id", budget=cn.Budget(epsilon=2_000.0, delta=DELTA)) as three:
        model = cn.AdditiveRegressor("c.z", bins=12, epsilon=500.0, delta=DELTA).fit(three)
        line = cn.LinearRegression("c.z", epsilon=500.0, delta=DELTA).fit(three)
        found = model.evaluate(three, epsilon=100.0, delta=DELTA, level=1 - kit.ALPHA)["r2"]
        monotone = cn.AdditiveRegressor("c.z", bins=12, monotone={"a.x": "decreasing"}, epsilon=500.0, delta=DELTA)
        shapes = monotone.fit(three).shape_functions_
    assert model.score(named, named["c.z"]) > 0.9 > 0.3 > line.score(named, named["c.z"])
    assert found.low <= model.score(named, named["c.z"]) <= found.high
    effects = model.shape_functions_.set_index(["column", "bin"])["effect"]
    assert effects["b.y", "v"] - effects["b.y", "u"] == pytest.approx(8.0, abs=0.5)
    assert np.all(np.diff(shapes.query("column == 'a.x'")["effect"]) <= 0)
    explained = model.explain(named.iloc[[3]])
    assert explained["effect"].sum() == pytest.approx(float(model.predict(named.iloc[[3]])[0]))
    assert np.abs(model.to_sklearn().predict(named) - model.predict(named)).max() < 1e-9


# The plans --------------------------------------------------------------------------------------------------------------------


def test_where_products_would_be_lost_in_noise_the_price_goes_to_tables(federation) -> None:
    bounds = row_bounds({f"{party}.x{place}": cn.Category(["a"]) for party in "abcd" for place in range(6)})
    assert bounds == dict.fromkeys("abcd", 6)
    chosen = [chosen_division(bounds, Price.of(epsilon, 1e-6), 24_000, "person", 1) for epsilon in (0.1, 1.0)]
    assert chosen == [TABLES, STEPS]
    small, large = (str(_model(epsilon=epsilon).preview(federation)) for epsilon in (0.3, 10.0))
    assert "tables first" in small
    assert "plan: steps" in large
    forced = _model(epsilon=0.3, method=cn.methods.AdditiveNewton(plan="steps")).preview(federation)
    assert "plan: steps" in str(forced)


def test_two_gradients_at_constant_scores_are_the_tables_of_every_column() -> None:
    rng = np.random.default_rng(1)
    people, events = rng.integers(50, 90, 6).astype(float), rng.integers(5, 40, 6).astype(float)
    least = 1 / (1 + np.exp(PROBE))
    tables = OpenedTables(people * least - events, people * (1 - least) - events, (4.0, 9.0))
    assert np.allclose(tables.people, people)
    assert np.allclose(tables.events, events)
    gradient, _ = tables.gradient(0.3)
    assert np.allclose(gradient, 0.3 * people - events)
    draws = rng.normal(size=(20_000, 2)) * (2.0, 3.0)
    noisy = OpenedTables(draws[:, 0], draws[:, 1], (4.0, 9.0))
    assert np.var(noisy.people) == pytest.approx(noisy.people_variance, rel=0.05)
    assert np.var(noisy.events) == pytest.approx(noisy.events_variance, rel=0.05)
    assert np.var(noisy.gradient(0.3)[0]) == pytest.approx(noisy.gradient(0.3)[1], rel=0.05)


SEARCHED = {"a.x": Bins.equal(cn.Numeric(0, 1), 6), "b.y": cn.Category(["u", "v"])}
FEATURES = features_of(SEARCHED)


def _searched(
    *, lost: tuple[int, ...] = (), steep: float = 0.5, deviation: float = 1e-3, draw: int = 0
) -> tuple[AdditiveSearch, np.ndarray, np.ndarray]:
    """A search driven by noisy openings, some of which are lost; the rows and labels that they come from."""
    rng, noise = np.random.default_rng(2), np.random.default_rng(draw)
    columns = {**SEARCHED, "b.late": cn.Category(["no", "yes"])}
    codes, other = rng.integers(0, 6, 5_000), rng.integers(0, 2, 5_000)
    rows = np.column_stack([np.ones(5_000), codes[:, None] == np.arange(6), other[:, None] == np.arange(2)]).astype(
        float
    )
    labels = (rng.random(5_000) < 1 / (1 + np.exp(2 * steep - steep * codes + other))).astype(float)
    whole = np.column_stack([rows, 2 * labels - 1])
    features = features_of(columns, signed=("b.late",))
    moments = Moments.of_release(whole.T @ whole, np.full((9 + 1, 9 + 1), 1e-6), 5_000, features)
    target = np.zeros(10)
    target[[0, 9]] = 0.5
    explaining = features[:-1]
    prior = ShapePrior.of(explaining, columns)
    search = AdditiveSearch(prior, explaining, moments, target, secants=True)
    for number in range(8):
        chance = 1 / (1 + np.exp(-rows @ search.next_weights))
        if number == 1:
            opened = (rows * (chance * (1 - chance))[:, None]).T @ rows
        else:
            opened = rows.T @ (chance - labels) + deviation * noise.normal(size=rows.shape[1])
        search.see(None if number in lost else opened, deviation**2)
    return search, rows, labels


def _without_noise(rows: np.ndarray, labels: np.ndarray, believed: np.ndarray) -> np.ndarray:
    """The penalised maximum of the likelihood."""
    base = np.zeros(rows.shape[1])
    base[0] = np.log(labels.mean() / (1 - labels.mean()))
    weights = base
    for _ in range(30):
        chance = 1 / (1 + np.exp(-rows @ weights))
        bend, slope = (rows * (chance * (1 - chance))[:, None]).T @ rows, rows.T @ (chance - labels)
        aim = believed @ (bend @ (weights - base) - slope)
        weights = base + np.linalg.solve(believed @ bend + np.eye(len(base)), aim)
    return weights


@pytest.mark.every(2)
@pytest.mark.parametrize("lost", [(), (0,), (1,), (2, 3)])
def test_without_noise_the_gradient_vanishes_whatever_opening_was_lost(lost) -> None:
    search, rows, labels = _searched(lost=lost)
    found = search.result()
    left = rows.T @ (1 / (1 + np.exp(-rows @ found.weights)) - labels)
    assert np.abs(left).max() < 25  # of 5,000 people: penalties for the sampling of people remain
    assert (found.tables is None) == bool(set(lost) & {0, 2})


@pytest.mark.parametrize("steep", [0.1, 0.6])
def test_intervals_cover_effects_whether_or_not_they_are_as_small_as_believed(steep) -> None:
    inside: list[bool] = []
    for draw in range(12):
        search, rows, labels = _searched(steep=steep, deviation=120.0, draw=draw)
        found = search.result()
        centred = centring(FEATURES, found.people)[1:]
        apart = np.abs(centred @ (found.weights - _without_noise(rows, labels, found.believed)))
        inside += (apart <= 1.96 * np.sqrt(np.diag(centred @ found.covariance @ centred.T))).tolist()
    assert np.mean(inside) > 0.93


# Scorecards -------------------------------------------------------------------------------------------------------------------


def test_points_are_the_model_up_to_the_rounding_that_is_stated(card) -> None:
    exact = 600 - 20 / np.log(2) * (np.log(50) + card.decision_function(FRAME))
    assert np.abs(card.total_points(FRAME) - exact).max() <= card.rounding_ == 2.5
    assert card.points_["points"].dtype.kind == "i"
    age = card.points_.query("column == 'bank.age'")["points"]
    assert age.is_monotonic_increasing  # fewer events, more points
    doubled = cn.Scorecard("bank.late").set_params(**{**card.get_params(deep=False), "pdo": 40})
    assert doubled.pdo == 40


def test_the_binning_table_counts_people_and_events_as_they_are(card) -> None:
    table = card.binning_table_.set_index(["column", "bin"])
    for name, cells in {"bank.plan": FRAME["bank.plan"].fillna("missing")}.items():
        for level in cells.unique():
            row, here = table.loc[(name, level)], (cells == level).to_numpy()
            assert row["count"] == pytest.approx(here.sum(), abs=5 * row["count_stderr"] + 1)
            assert row["event"] == pytest.approx(LATE[here].sum(), abs=5 * row["event_stderr"] + 1)
            good, bad = (~LATE[here]).sum() / (~LATE).sum(), LATE[here].sum() / LATE.sum()
            assert row["woe"] == pytest.approx(np.log(good / bad), abs=0.05)
    assert set(card.information_value_.index) == set(COLUMNS)
    assert card.information_value_["bank.age"] > card.information_value_["clinic.pressure"]


def test_the_score_in_sql_is_the_score(card) -> None:
    shown = FRAME.assign(**{"bank.age": FRAME["bank.age"].astype(float)}).drop(columns="shop.since")
    with sqlite3.connect(":memory:") as base:
        shown.to_sql("people", base, index=False)
        found = [one for (one,) in base.execute(f"SELECT {card.to_sql()} FROM people ORDER BY rowid")]
    assert found == card.total_points(FRAME).tolist()


def test_cut_offs_tell_who_would_be_approved_and_at_which_rate_of_events(card, federation) -> None:
    gains = card.evaluate(federation, epsilon=500.0).tables["gains"]
    scores = 600 - 20 / np.log(2) * (np.log(50) + card.decision_function(FRAME))
    assert gains.index.is_monotonic_decreasing
    cut = gains.index[len(gains) // 2]
    row, approved = gains.loc[cut], scores >= cut
    assert row["approved"] == pytest.approx(approved.mean(), abs=0.05)
    assert row["approved_bad_rate"] == pytest.approx(LATE[approved].mean(), abs=0.05)
    assert row["approved_low"] <= row["approved"] <= row["approved_high"]


@pytest.mark.full
def test_a_population_that_has_not_changed_is_stable(card, federation) -> None:
    first, second = (card.evaluate(federation, epsilon=50.0, repeat=one) for one in (1, 2))
    found = card.stability(first, second)
    assert found.loc["total", "psi"] < 0.01
    _, fewer = federation.split(test=0.25)  # another number of people: the histogram's steps are a little other ones
    assert card.stability(first, card.evaluate(fewer, epsilon=50.0)).loc["total", "psi"] < 0.05
    bands = first.tables["bands"]
    moved = pd.IntervalIndex.from_arrays(bands.index.left + 1.0, bands.index.right + 1.0, closed="left")
    other = replace(first, tables={"bands": bands.set_axis(moved)})
    with pytest.raises(cn.BadInput, match="different scorecards"):
        card.stability(first, other)
    plain = _model().fit(federation).evaluate(federation, epsilon=50.0)
    with pytest.raises(cn.BadInput, match="evaluations of a scorecard"):
        card.stability(first, plain)
