"""`Describe`, `Histogram`, `Quantiles` and `Federation.tightened` on tables of which everything is known."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import colonnade as cn
from colonnade.coordinator.tightening import widened
from colonnade.estimation.describing import BinCounts
from tests import federations, kit

PEOPLE = 4_000
QUIET = 3_000.0
SCHEMAS = {
    "bank": cn.Schema(
        age=cn.Numeric(18, 95, integer=True),
        income=cn.Numeric(0, 1_000, missing=0),
        opened=cn.Date("2010-01-01", "2019-12-31"),
        segment=cn.Category(["basic", "gold"], missing="excluded"),
    ),
    "telco": cn.Schema(
        bill=cn.Numeric(-1_000, 1_000), plan=cn.Category(["a", "b"], missing="level"), lump=cn.Numeric(0, 10_000)
    ),
}


def tables(people: int = PEOPLE) -> dict[str, pd.DataFrame]:
    rng = kit.generator("described")
    ids = np.arange(people)
    opened = pd.Timestamp("2010-01-01") + pd.to_timedelta(rng.integers(0, 3_652, people), unit="D")
    bank = pd.DataFrame(
        {
            "id": ids,
            "age": rng.integers(20, 70, people),
            "income": np.where(rng.random(people) < 0.25, np.nan, rng.gamma(4.0, 50.0, people)),
            "opened": opened.strftime("%Y-%m-%d"),
            "segment": pd.Series(rng.choice(["basic", "gold", None], people, p=[0.6, 0.3, 0.1]), dtype=object),
        }
    )
    telco = pd.DataFrame(
        {
            "id": ids,
            "bill": rng.normal(50.0, 10.0, people),
            "plan": pd.Series(rng.choice(["a", "b", None], people, p=[0.5, 0.3, 0.2]), dtype=object),
            "lump": np.where(rng.random(people) < 0.7, 0.0, rng.exponential(100.0, people)),
        }
    )
    return {"bank": bank, "telco": telco}


def federation(epsilon: float = 10_000.0, people: int = PEOPLE, **more) -> cn.Federation:
    frames = tables(people)
    parties = {name: cn.Party(frames[name], schema=SCHEMAS[name]) for name in frames}
    options = {"budget": cn.Budget(epsilon=epsilon, delta=1e-3), "test_key": federations.TEST_KEY, **more}
    return cn.Federation.simulate(parties, id="id", **options)


def joined() -> pd.DataFrame:
    frames = tables()
    whole = [frame.drop(columns="id").add_prefix(f"{name}.") for name, frame in frames.items()]
    return pd.concat(whole, axis=1)


# Known answers --------------------------------------------------------------------------------------------------------------


def test_without_noise_a_description_is_that_of_the_table_up_to_the_width_of_a_bin():
    with federation() as f:
        table = cn.Describe(quantiles=(0.1, 0.5, 0.9), epsilon=QUIET).fit(f).table_
    data = joined()
    assert table.index.tolist() == [f"{p}.{c}" for p, schema in SCHEMAS.items() for c in schema]
    for name, width in (("bank.age", 1.0), ("bank.income", 1.0), ("telco.bill", 2.0), ("telco.lump", 10.0)):
        values = data[name].dropna()
        assert table.loc[name, "mean"] == pytest.approx(values.mean(), abs=width)
        assert table.loc[name, "std"] == pytest.approx(values.std(), abs=width)
        for share in (0.1, 0.5, 0.9):
            exact = np.quantile(values, [max(share - 0.002, 0), min(share + 0.002, 1)])
            assert exact[0] - width <= table.loc[name, f"{share:.0%}"] <= exact[1] + width
    missing = table["missing"]
    assert missing["bank.income"] == pytest.approx(data["bank.income"].isna().mean(), abs=1e-3)
    assert missing["bank.segment"] == pytest.approx(data["bank.segment"].isna().mean(), abs=1e-3)
    assert missing["telco.plan"] == pytest.approx(data["telco.plan"].isna().mean(), abs=1e-3)
    assert missing["bank.age"] == missing["telco.bill"] == 0
    assert np.isnan(table.loc["bank.segment", "mean"])
    days = (pd.to_datetime(data["bank.opened"]) - pd.Timestamp("2010-01-01")).dt.days
    assert table.loc["bank.opened", "mean"] == pytest.approx(days.mean(), abs=4)


def test_quantiles_are_of_people_who_have_a_value_and_do_not_fall():
    data, shares = joined(), [0.05, 0.25, 0.5, 0.75, 0.95]
    with federation() as f:
        for name in ("bank.age", "bank.income", "telco.bill", "telco.lump"):
            found = cn.Quantiles(name, shares, epsilon=40.0).fit(f)
            values = data[name].dropna().to_numpy()
            assert found.values_.is_monotonic_increasing
            for share, value in found.values_.items():
                below, upto = (values < value).mean(), (values <= value + 1e-9).mean()
                assert below - 0.01 <= share <= upto + 0.01
        assert found.values_[0.5] == 0  # seven in ten are 0
        days = cn.Quantiles("bank.opened", [0.5], epsilon=40.0).fit(f).values_[0.5]
    assert 1_500 < days < 2_150


# Errors ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.every(2)
@pytest.mark.parametrize("price", [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}], ids=["pure", "gaussian"])
def test_errors_are_as_large_as_they_are_said_to_be(price):
    draws, names = 40, ["bank.age", "bank.income", "telco.bill"]
    with federation() as f:
        exact = cn.Describe(names, epsilon=QUIET).fit(f)
        studies = [cn.Describe(names, **price).fit(f, repeat=draw) for draw in range(1, draws + 1)]
    for figure in ("mean", "std", "25%", "50%", "75%"):
        scores = np.array(
            [(one.table_[figure] - exact.table_[figure]) / one.table_[f"{figure}_stderr"] for one in studies]
        )
        assert 0.4 < np.sqrt(np.nanmean(scores**2)) < 2.0, figure
    counts = np.array([(one.unbiased_ - exact.unbiased_) / one.stderr_ for one in studies]).ravel()
    counts = counts[np.isfinite(counts)]
    assert (
        stats.chi2.sf((counts**2).sum() / 3, len(counts) / 3) > kit.ALPHA
    )  # heavier tails than a normal law's count less
    assert np.mean(counts**2) == pytest.approx(1.0, abs=0.2)


def test_the_fitted_table_is_the_least_squares_one_and_its_variances_are_exact():
    rng = kit.generator("least squares")
    bins, group = 20, 6
    starts = np.arange(0, bins, group)
    grouping = np.array([[float(place // group == one) for place in range(bins)] for one in range(len(starts))])
    for total in (None, 500.0):
        for design in (np.eye(bins), np.vstack([np.eye(bins), grouping])):
            noisy = design @ rng.integers(0, 50, bins) + rng.normal(size=len(design))
            counts = BinCounts.of(
                range(bins + 1), noisy[:bins], noise=9.0, total=total, groups=noisy[bins:], group=group
            )
            inverse = np.linalg.inv(design.T @ design)
            expected, covariance = inverse @ design.T @ noisy, 9.0 * inverse
            if total is not None:
                parts = inverse.sum(axis=1)
                expected = expected + parts * (total - expected.sum()) / parts.sum()
                covariance = 9.0 * (inverse - np.outer(parts, parts) / parts.sum())
            np.testing.assert_allclose(counts.counts, expected)
            weights = rng.normal(size=bins)
            assert counts.variance(weights) == pytest.approx(weights @ covariance @ weights)
            below = np.tri(bins + 1, bins, -1)
            share = np.zeros(bins + 1) if total else np.clip(np.append(0, np.cumsum(expected)) / expected.sum(), 0, 1)
            moved = below - share[:, None]
            spread = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", moved, covariance, moved), 0.0))
            np.testing.assert_allclose(counts.rank_errors, spread, atol=1e-6)


def test_errors_of_quantiles_are_as_large_also_where_noise_hides_a_tail():
    rng = kit.generator("hidden tails")
    values = np.clip(rng.normal(500.0, 10.0, 5_000), 0.0, 1_000.0)
    edges, scale, shares = np.linspace(0.0, 1_000.0, 1_025), 30.0, (0.05, 0.25, 0.5, 0.95)
    exact = np.histogram(values, edges)[0]
    covered = []
    for _ in range(120):
        bins, groups = (rng.geometric(1 - np.exp(-1 / scale), (2, size)) for size in (1_024, 32))
        counts = BinCounts.of(
            edges,
            exact + bins[0] - bins[1],
            noise=1 / (2 * np.sinh(1 / (2 * scale)) ** 2),
            total=5_000,
            groups=exact.reshape(32, 32).sum(axis=1) + groups[0] - groups[1],
            group=32,
        )
        found = [counts.quantile(share) for share in shares]
        true = np.quantile(values, shares)
        covered.append(
            [abs(one.value - value) < 1.96 * one.stderr + 1.0 for one, value in zip(found, true, strict=True)]
        )
    assert np.mean(covered, axis=0).min() > 0.7
    assert np.mean(covered) > 0.85


@given(st.integers(1, 80), st.integers(1, 80), st.integers(0, 15), st.booleans(), st.booleans(), st.integers(0, 10**6))
def test_whatever_a_party_releases_every_figure_is_a_number_within_the_bounds(bins, group, size, whole, public, seed):
    """Noise may exceed everything, and a party may send anything."""
    rng = np.random.default_rng(seed)
    group = group if bins > group else 1
    edges = np.append(np.arange(bins), bins - 1.0) + 3 if whole else np.linspace(-5.0, 100.0, bins + 1)
    counts = BinCounts.of(
        edges,
        rng.choice([0, 1, -1, 5], bins) * 10.0**size,
        noise=float(rng.choice([1.0, 100.0**size])),
        total=float(rng.integers(0, 1_000)) if public else None,
        groups=rng.normal(size=-(-bins // group)) * 10.0**size if group > 1 else (),
        group=group,
        absent=10.0**size,
        whole=whole,
    )
    figures = [counts.mean(), counts.deviation(), counts.missing(100), *map(counts.quantile, (0.005, 0.5, 0.995))]
    assert all(np.isfinite([one.value, one.stderr]).all() and one.stderr >= 0 for one in figures)
    assert edges[0] <= counts.mean().value <= edges[-1]
    low, high = counts.at(0.005), counts.at(0.995)
    assert edges[0] <= low <= high + 1e-9 <= edges[-1] + 1e-6
    start, end = widened(low, high, edges[0], edges[-1], 0.01)
    assert edges[0] - 1e-9 <= start <= end <= edges[-1] + 1e-9


# Price ----------------------------------------------------------------------------------------------------------------------


# Tightened bounds -----------------------------------------------------------------------------------------------------------


def test_tightened_bounds_are_where_the_values_are_and_never_wider_than_declared():
    data = joined()
    with federation() as f:
        narrow = f.tightened(["telco.bill", "telco.lump", "bank.age"], quantiles=(0.01, 0.99), epsilon=3.0)
        bounds = narrow.tightened_.bounds
        assert (bounds["low"] >= bounds["declared_low"]).all()
        assert (bounds["high"] <= bounds["declared_high"]).all()
        bill = narrow.describe(["telco.bill"])["telco.bill"]
        assert 15 < bill.low < 40
        assert 60 < bill.high < 90
        below, above = (data["telco.bill"] < bill.low).mean(), (data["telco.bill"] > bill.high).mean()
        assert max(below, above) < 0.05
        age = narrow.describe(["bank.age"])["bank.age"]
        assert age.integer
        assert narrow.describe(["bank.income"]) == f.describe(["bank.income"])
        assert f.describe(["telco.bill"])["telco.bill"] == SCHEMAS["telco"]["bill"]
        assert f.tightened_ is None


def test_bounds_that_touch_widen_to_the_least_width_inside_the_declared_ones():
    frame = pd.DataFrame({"id": range(2_000), "same": 40.0, "edge": 1_000.0, "nobody": np.nan})
    column = cn.Numeric(0, 1_000)
    schema = cn.Schema(same=column, edge=column, nobody=cn.Numeric(0, 1_000, missing=0))
    party = cn.Party(frame, schema=schema)
    with cn.Federation.simulate({"p": party}, id="id", budget=cn.Budget(epsilon=500.0)) as f:
        for width in (0.01, 0.2):
            described = f.tightened(width=width, epsilon=90.0).describe()
            for read in described.values():
                assert 0 <= read.low < read.high <= 1_000
                assert read.high - read.low == pytest.approx(1_000 * width, rel=0.2) or width < 0.1
            assert described["p.same"].low <= 40 <= described["p.same"].high
            assert described["p.edge"].high == 1_000
    for low, high in ((5.0, 5.0), (0.0, 0.0), (100.0, 100.0), (20.0, 90.0)):
        start, end = widened(low, high, 0.0, 100.0, 0.1)
        assert 0 <= start <= low
        assert high <= end <= 100
        assert end - start >= 10 - 1e-9


def test_a_preview_offers_narrower_bounds_where_a_released_description_says_that_they_would_help():
    model = cn.LinearRegression("telco.bill", columns=["bank.age"], epsilon=1.0, delta=1e-6)
    with federation() as f:
        assert not any("tightened" in warning for warning in model.preview(f).warnings)
        cn.Describe(["telco.bill", "bank.age"], epsilon=1.0).fit(f)
        (offer,) = (warning for warning in model.preview(f).warnings if "tightened" in warning)
        assert "telco.bill" in offer
        assert "bank.age" not in offer
        narrow = f.tightened(["telco.bill"], epsilon=1.0)
        assert not any("tightened" in warning for warning in model.preview(narrow).warnings)


def test_one_price_covers_all_columns_and_is_divided_between_parties():
    with federation(epsilon=10.0) as f:
        both = cn.Describe(epsilon=1.0).fit(f)
        assert both.privacy_.epsilon() == pytest.approx(1.0)
        assert f.budget()["spent"].max() <= 0.5 + 1e-9
        assert f.budget()["releases"].tolist() == [1, 1]
        gaussian = cn.Describe(epsilon=1.0, delta=1e-6).fit(f)
        assert gaussian.privacy_.epsilon() <= 1.0 + 1e-9
        party = cn.Describe(epsilon=1.0, unit="party").fit(f)
        assert party.privacy_.epsilon(unit="party") == pytest.approx(1.0)
        alone = cn.Histogram("bank.age", epsilon=1.0).fit(f)
        assert alone.stderr_.max() < 2.0
        before = f.budget()
        assert cn.Quantiles("bank.age", epsilon=0.5, delta=1e-6).fit(f).privacy_.epsilon() <= 0.5 + 1e-9
        assert f.budget().loc["telco"].equals(before.loc["telco"])
