"""A model of a whole table: its cliques, rows drawn from it, values in own units, and how well it agrees with noisy tables."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import colonnade as cn
from colonnade.estimation import table_model
from colonnade.estimation.moments import Moments
from colonnade.estimation.scoring import interval_reach
from colonnade.estimation.table_model import (
    Differences,
    GramTables,
    TableModel,
    differences,
    fitted_distance,
    held_out_distance,
    quality_series,
)
from colonnade.schema import Bins, features_of
from colonnade.schema.encoders import values_of
from tests import kit


def uniforms(name):
    rng = kit.generator(name)
    return lambda _, count: rng.random(count)


def some_graph(rng):
    """Columns, pairs of them, and factors of all: a small graphical model."""
    names = tuple(f"c{number}" for number in range(rng.integers(2, 8)))
    sizes = {name: int(rng.integers(1, 4)) for name in names}
    pairs = [pair for pair in itertools.combinations(names, 2) if rng.random() < rng.choice([0.2, 0.5])]
    factors = {pair: rng.normal(0, 1.5, (sizes[pair[0]], sizes[pair[1]])) for pair in pairs}
    factors |= {(name,): rng.normal(0, 1, sizes[name]) for name in names}
    return SimpleNamespace(columns=names, sizes=sizes), pairs, factors


def joint_of(tables, factors):
    """The whole distribution, cell by cell."""
    logs = np.zeros([tables.sizes[name] for name in tables.columns])
    for columns, values in factors.items():
        logs = logs + values.reshape([tables.sizes[name] if name in columns else 1 for name in tables.columns])
    shares = np.exp(logs - logs.max())
    return shares / shares.sum()


def onto(joint, names, columns):
    kept = [name for name in names if name in columns]
    sums = joint.sum(axis=tuple(axis for axis, name in enumerate(names) if name not in columns))
    return np.transpose(sums, [kept.index(name) for name in columns])


def test_tables_of_cliques_and_of_any_two_columns_are_those_of_the_whole_distribution():
    rng = kit.generator("cliques of random graphs")
    for _ in range(60):
        tables, pairs, factors = some_graph(rng)
        model, joint = table_model._calibrated(tables, pairs, factors), joint_of(tables, factors)
        for clique, table in zip(model.cliques, model.tables, strict=True):
            np.testing.assert_allclose(table, onto(joint, tables.columns, clique), atol=1e-9)
        for name in tables.columns:
            np.testing.assert_allclose(model.share(name), onto(joint, tables.columns, (name,)), atol=1e-9)
            found = model.pairs_with(name)
            assert set(found) == set(tables.columns) - {name}
            for other, table in found.items():
                np.testing.assert_allclose(table, onto(joint, tables.columns, (name, other)), atol=1e-9)


def test_rows_follow_the_whole_distribution():
    rng = kit.generator("rows of random graphs")
    for _ in range(12):
        tables, pairs, factors = some_graph(rng)
        model, joint = table_model._calibrated(tables, pairs, factors), joint_of(tables, factors)
        drawn = model.draw(20_000, lambda _, count: rng.random(count))
        codes = np.ravel_multi_index([drawn[name] for name in tables.columns], joint.shape)
        observed = np.bincount(codes, minlength=joint.size)
        assert kit.chi_square_p(observed, joint.ravel()) > kit.ALPHA


def test_counts_of_the_first_clique_are_as_near_as_whole_rows_allow():
    shares = kit.generator("first clique").dirichlet(np.ones(12)).reshape(3, 4)
    model = TableModel(("x", "y"), (3, 4), (("x", "y"),), (shares,))
    for rows in (1, 7, 1_000):
        drawn = model.draw(rows, uniforms(f"first clique {rows}"))
        counts = np.bincount(np.ravel_multi_index((drawn["x"], drawn["y"]), (3, 4)), minlength=12)
        assert np.abs(counts - rows * shares.ravel()).max() < 2
        assert counts.sum() == rows


# Values ----------------------------------------------------------------------------------------------------------------------


def test_numbers_are_inside_their_bins_and_whole_where_the_column_is():
    rng = kit.generator("inside bins")
    for column in (
        cn.Numeric(0, 9, integer=True),
        cn.Numeric(-3, 40, integer=True),
        cn.Numeric(0.5, 99.5, integer=True),
    ):
        bins = Bins.equal(column, 7)
        codes = rng.integers(bins.size, size=4_000)
        values = values_of(bins, codes, rng.random(4_000))
        assert values.dtype == np.int64
        np.testing.assert_array_equal(np.digitize(values, bins.inner), codes)
        assert values.between(column.low, column.high).all()
        assert values.max() == math.floor(column.high)
        assert values.min() == math.ceil(column.low)
    bins = Bins.equal(cn.Numeric(-1.0, 2.5), 5)
    codes = rng.integers(5, size=1_000)
    np.testing.assert_array_equal(np.digitize(values_of(bins, codes, rng.random(1_000)), bins.inner), codes)


# Noisy tables ----------------------------------------------------------------------------------------------------------------

COLUMNS = {"a.x": cn.Category(list("abcd")), "a.y": cn.Category(list("abc")), "b.z": cn.Category(list("abcde"))}


def released(name, people=4_000, deviation=6.0, dependent=("a.x", "b.z")):
    """Exact codes of invented people, and their tables with noise: two columns hang together, the third does not."""
    rng = kit.generator(name)
    codes = {one: rng.integers(column.size, size=people) for one, column in COLUMNS.items()}
    first, second = dependent
    follows = rng.random(people) < 0.5
    codes[second] = np.where(follows, codes[first] % COLUMNS[second].size, codes[second])
    rows = np.concatenate([np.eye(COLUMNS[one].size)[codes[one]] for one in COLUMNS], axis=1)
    rows = np.concatenate([np.ones((people, 1)), rows], axis=1)
    noise = np.triu(rng.normal(0, deviation, (rows.shape[1], rows.shape[1])))
    noise[np.diag_indices(len(noise))] *= math.sqrt(2)
    variance = np.full(noise.shape, deviation**2)
    variance[np.diag_indices(len(noise))] *= 2
    gram = rows.T @ rows + noise + np.triu(noise, 1).T
    return codes, GramTables(Moments.of_release(gram, variance, people, features_of(COLUMNS)))


def exact_table(codes, one, other):
    shape = COLUMNS[one].size, COLUMNS[other].size
    return np.bincount(np.ravel_multi_index((codes[one], codes[other]), shape), minlength=math.prod(shape)).reshape(
        shape
    )


def test_a_count_uses_every_entry_that_counts_it():
    """The sum of an indicator, its square, and its rows in two tables: one number with four noises."""
    errors = []
    for draw in range(150):
        codes, tables = released(f"both entries {draw}")
        counts, variance = tables.counts("b.z")
        errors.append((counts - np.bincount(codes["b.z"], minlength=5)) / math.sqrt(variance))
    assert variance == pytest.approx(36 / (1 + 1 / 2 + 1 / 4 + 1 / 3))
    assert tables.counts("b.z", apart_from=["a.x"])[1] == pytest.approx(36 / (1 + 1 / 2 + 1 / 3))
    squares = float(np.square(errors).sum())
    size = np.size(errors)
    assert stats.chi2.sf(squares, size) > kit.ALPHA
    assert stats.chi2.cdf(squares, size) > kit.ALPHA


def test_pairs_that_only_noise_explains_are_left_out():
    kept = dict.fromkeys(itertools.combinations(COLUMNS, 2), 0)
    for draw in range(20):
        _, tables = released(f"kept pairs {draw}", deviation=25.0)
        for pair in table_model.chosen_pairs(tables):
            kept[pair] += 1
    assert kept["a.x", "b.z"] == 20
    assert max(kept["a.x", "a.y"], kept["a.y", "b.z"]) < 20


def test_a_spanning_forest_comes_first_and_the_cliques_stay_small():
    _, tables = released("small cliques", deviation=0.1)
    scores = tables.dependences()
    best = max(scores, key=scores.get)
    assert table_model.chosen_pairs(tables, 23) == [best]
    assert table_model._cells(table_model.chosen_pairs(tables, 35), tables) <= 35


# Quality ---------------------------------------------------------------------------------------------------------------------


def as_model(codes):
    """The people's own table, as a model: nothing to find fault with."""
    shape = [column.size for column in COLUMNS.values()]
    counts = np.bincount(np.ravel_multi_index(list(codes.values()), shape), minlength=math.prod(shape))
    names = tuple(COLUMNS)
    return TableModel(names, tuple(shape), (names,), (counts.reshape(shape) / counts.sum(),))


def independent_columns(codes):
    shares = [np.bincount(codes[name], minlength=column.size) / len(codes[name]) for name, column in COLUMNS.items()]
    sizes = tuple(len(one) for one in shares)
    return TableModel(tuple(COLUMNS), sizes, tuple((name,) for name in COLUMNS), tuple(shares))


def true_distance(codes, model, one, other):
    exact = exact_table(codes, one, other)
    return float(np.abs(exact / exact.sum() - model.pairs_with(one)[other]).sum() / 2)


def test_without_noise_a_perfect_model_has_no_distance():
    codes, tables = released("perfect", deviation=1e-6)
    shapes, trends = quality_series(as_model(codes), tables, [])
    assert shapes.min() > 1 - 1e-6
    assert trends.min() > 1 - 1e-6


def test_the_known_noise_is_taken_out_of_a_distance():
    """Columns that have nothing to do with each other: without that, noise alone would be reported as a distance."""
    reported, alone = [], []
    for draw in range(40):
        codes, tables = released(f"taken out {draw}", deviation=30.0)
        model = independent_columns(codes)
        found = differences(model, tables)[1]["a.y", "b.z"]
        truth = true_distance(codes, model, "a.y", "b.z")
        reported.append(fitted_distance(found, fitted=False) - truth)
        alone.append(float(np.abs(found.people).sum()) / 2 / 4_000 - truth)
    assert abs(np.mean(reported)) < 0.4 * np.mean(alone)


def test_a_table_that_was_fitted_to_is_as_far_away_as_the_noise_that_the_fit_took():
    """A model that is the noisy table itself agrees with it perfectly, and is wrong by all of its noise."""
    rng = kit.generator("fitted to the noise")
    noise = rng.normal(0, 5.0, 400)
    found = Differences(np.zeros(400), np.full(400, 1 / 400), 25.0, 10_000)
    true = np.abs(noise).sum() / 2 / 10_000
    assert fitted_distance(found, fitted=True) == pytest.approx(true, rel=0.2)
    assert fitted_distance(found, fitted=False) == 0


def test_intervals_of_a_measured_quality_cover():
    covered, draws, level = 0, 150, 0.9
    for draw in range(draws):
        codes, tables = released(f"covers {draw}", people=1_500, deviation=12.0)
        model = independent_columns(codes)
        _, double = differences(model, tables)
        metric, each = held_out_distance(double, interval_reach(level), "pair_trends")
        truth = 1 - np.mean([true_distance(codes, model, *pair) for pair in double])
        covered += metric.covers(truth)
        assert metric.covers(metric.value)
        assert set(each) == set(tables.pairs)
    assert stats.binom.cdf(covered, draws, level) > kit.ALPHA
