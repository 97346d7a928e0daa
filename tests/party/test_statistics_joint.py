"""Columns as bounded integers, and what one person can do to a Gram matrix or to pair tables of several parties' columns.

The reference is arithmetic on Python integers. A row of the results is a column of the table.
"""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from colonnade.errors import BadInput, ColonnadeError, SchemaMismatch
from colonnade.party.steps.products import PrivateGram, PrivatePairTables, folded_products, triangle_places
from colonnade.party.table.private_table import PrivateTable, coded_rows
from colonnade.party.table.sources import Source
from colonnade.plan import Step
from colonnade.privacy.accounting import Price
from colonnade.schema import Category, Numeric, Schema
from colonnade.steps.kind import LARGEST_SCALE, FixedPoint
from tests import kit

SCHEMA = Schema(
    segment=Category(["basic", "gold", "platinum"]),
    flag=Category(["no", "yes"]),
    age=Numeric(18, 95),
    debt=Numeric(-8e307, 8e307),
    claims=Numeric(0, 10, integer=True),
)
ALL = tuple(SCHEMA)
WIDTHS = {"segment": 3, "flag": 2, "age": 1, "debt": 1, "claims": 1}
SCALES = st.sampled_from([1, 2, 3, 100, 4_096, LARGEST_SCALE])

WORDS = st.sampled_from(["basic", "gold", "platinum", "lead", None])
ANSWERS = st.sampled_from(["no", "yes", "YES", None])
NUMBERS = st.floats(width=64) | st.sampled_from([0.0, 18.0, 95.0, 56.5, 1e308, -1e308, np.nan, np.inf, -np.inf])
ROWS = st.lists(st.tuples(WORDS, ANSWERS, NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=8)
NOTHING = (None, None, np.nan, np.nan, np.nan)
EXTREMES = [
    ("gold", "yes", np.inf, np.inf, np.inf),
    ("basic", "no", -np.inf, -np.inf, -np.inf),
    ("platinum", "yes", 95.0, -8e307, 10.0),
    NOTHING,
]


def table(rows, order=None):
    segment, flag, age, debt, claims = zip(*rows, strict=True)
    words = {"segment": pd.Series(segment, dtype=object), "flag": pd.Series(flag, dtype=object)}
    return PrivateTable(
        Source(pd.DataFrame({**words, "age": age, "debt": debt, "claims": claims})), SCHEMA, order=order
    )


def width(columns, signed=()):
    return sum(1 if name in signed else WIDTHS[name] for name in columns)


def squared_lengths(rows):
    return [sum(int(entry) ** 2 for entry in row) for row in rows.T]


@st.composite
def codings(draw):
    columns = draw(st.lists(st.sampled_from(ALL), min_size=1, unique=True).map(tuple))
    signed = ("flag",) if "flag" in columns and draw(st.booleans()) else ()
    scale = draw(SCALES)
    bound = draw(st.integers(1, len(columns) * scale**2) | st.just(len(columns) * scale**2))
    return FixedPoint(columns, SCHEMA, scale=scale, signed=signed, row_bound=bound)


# Coding ---------------------------------------------------------------------------------------------------------------------


@given(ROWS, codings())
def test_every_row_is_made_of_integers_within_the_scale_and_no_longer_than_its_bound(rows, coding):
    coded = coded_rows(coding, table([*rows, *EXTREMES]), 0, len(rows) + len(EXTREMES))
    assert coded.dtype == np.int64
    assert coded.shape == (coding.width, len(rows) + len(EXTREMES))
    assert np.abs(coded).max() <= coding.scale
    assert max(squared_lengths(coded)) <= coding.row_bound


@given(ROWS, codings(), st.data())
def test_a_person_decides_their_own_row_and_no_other(rows, coding, data):
    person = data.draw(st.integers(0, len(rows) - 1))
    other = [NOTHING if index == person else row for index, row in enumerate(rows)]
    before, after = coded_rows(coding, table(rows), 0, len(rows)), coded_rows(coding, table(other), 0, len(rows))
    others = np.arange(len(rows)) != person
    np.testing.assert_array_equal(before[:, others], after[:, others])
    assert not after[:, person].any()  # zero-out: a record that contributes nothing


@given(st.floats(18, 95), SCALES)
def test_a_number_is_coded_to_the_nearest_integer(age, scale):
    coding = FixedPoint(("age",), SCHEMA, scale=scale, row_bound=scale**2)
    coded = int(coded_rows(coding, table([(None, None, age, 0.0, 0.0)]), 0, 1)[0, 0])
    exact = (Fraction(age) - Fraction(113, 2)) / Fraction(77, 2) * scale
    assert abs(coded - exact) <= Fraction(1, 2) + Fraction(scale, 2**50)


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=4), st.integers(1, 12_000))
def test_clipping_shortens_a_row_no_more_than_truncation_asks_for(numbers, bound):
    names = [f"x{index}" for index in range(len(numbers))]
    schema = Schema(dict.fromkeys(names, Numeric(-50, 50)))
    source = Source(pd.DataFrame([numbers], columns=names, dtype=float))
    coding = FixedPoint(names, schema, scale=50, row_bound=bound)
    coded = coded_rows(coding, PrivateTable(source, schema), 0, 1)[:, 0]
    length = sum(number**2 for number in numbers)
    assert sum(int(entry) ** 2 for entry in coded) <= bound
    if length <= bound:
        assert coded.tolist() == numbers
    else:
        factor = (bound / length) ** 0.5
        assert np.all(np.abs(coded) <= np.abs(numbers))
        assert np.all(np.abs(coded - np.array(numbers) * factor) < 2)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"scale": 0}, BadInput),
        ({"scale": -1}, BadInput),
        ({"scale": LARGEST_SCALE + 1}, BadInput),
        ({"scale": 1.0}, BadInput),
        ({"scale": True}, BadInput),
        ({"row_bound": 0}, BadInput),
        ({"row_bound": -4}, BadInput),
        ({"row_bound": 4.0}, BadInput),
        ({"columns": ("age", "age")}, BadInput),
        ({"signed": ("flag",)}, BadInput),
        ({"columns": ("segment",), "signed": ("segment",)}, SchemaMismatch),
        ({"columns": ("age",), "signed": ("age",)}, SchemaMismatch),
    ],
)
def test_a_coding_that_makes_no_sense_is_refused(options, error):
    with pytest.raises(error):
        FixedPoint(**{"columns": ("age",), "schema": SCHEMA, "scale": 4, "row_bound": 16, "signed": (), **options})


# Joint statistics -----------------------------------------------------------------------------------------------------------

OWNERS = {"bank": ("segment", "age"), "telco": ("flag",), "insurer": ("debt", "claims")}


def a_plan(statistic, parameters, *, people, unit="person", price=None, owners=OWNERS, collusion=1):
    price = price or Price.of(1.0, 1e-5)
    steps = tuple(
        Step(
            name="s",
            party=party,
            kind=statistic,
            columns=columns,
            parameters=parameters(party, columns),
            price=price,
        )
        for party, columns in owners.items()
    )
    return kit.written(
        *steps,
        unit=unit,
        people=people,
        compute_nodes=("bank", "telco", "insurer"),
        collusion=collusion,
    )


def grams(people, *, scale=100, share=Fraction(1), law="gaussian", **options):
    """All parties' statistics of one Gram matrix; each row bound is a share of what nothing would clip."""

    def parameters(_, columns):
        bound = max(1, int(len(columns) * scale**2 * share))
        return {"scale": scale, "row_bound": bound, "width": width(columns), "noise": law}

    plan = a_plan("gram", parameters, people=people, **options)
    return {step.party: kit.private(PrivateGram, plan, step, SCHEMA) for step in plan.steps}


def pair_tables(people, **options):
    owners = {"bank": ("segment", "flag"), "telco": ("flag",), "insurer": ("segment",)}
    plan = a_plan("pair-tables", lambda _, columns: {"width": _cells(columns)}, people=people, owners=owners, **options)
    return {step.party: kit.private(PrivatePairTables, plan, step, SCHEMA) for step in plan.steps}


def _cells(columns):
    return int(np.prod([SCHEMA[name].size for name in columns]))


def whole_matrix(statistics, tables, people):
    """Everything that is opened, without noise, as Python integers: constant column first."""
    scale = next(iter(statistics.values())).step.coding.scale
    blocks = [statistics[party].rows(tables[party], 0, people) for party in statistics]
    columns = [[scale] * people] + [[int(entry) for entry in column] for block in blocks for column in block]
    return [[sum(a * b for a, b in zip(one, other, strict=True)) for other in columns] for one in columns]


def weighted_squared_difference(one, other):
    """Σ (diagonal)² + 2·Σ (above it)²: the squared length in units of the diagonal's noise."""
    size = range(len(one))
    return sum((one[i][j] - other[i][j]) ** 2 * (1 if i == j else 2) for i in size for j in size if i <= j)


def own_block(statistic, one, block=8_192):
    """Products of a party's own columns without noise, a constant column in front."""
    upper = folded_products(one, statistic.rows, statistic.step.width, statistic.step.coding.scale, block)
    size = statistic.step.width + 1
    return upper[triangle_places(*np.indices((size, size)), size)]


@given(ROWS, SCALES, st.sampled_from([Fraction(1), Fraction(1, 3), Fraction(1, 1000)]))
def test_a_partys_own_block_is_the_exact_integer_product(rows, scale, share):
    people = len(rows)
    for party, statistic in grams(people, scale=scale, share=share).items():
        coded = statistic.rows(table(rows), 0, people)
        columns = [[scale] * people] + [[int(entry) for entry in column] for column in coded]
        expected = [[sum(a * b for a, b in zip(one, other, strict=True)) for other in columns] for one in columns]
        for block in (1, 3, 65_536):
            assert own_block(statistic, table(rows), block).tolist() == expected, party


@given(ROWS, SCALES, st.sampled_from([Fraction(1), Fraction(1, 3)]), st.data())
def test_a_person_removed_everywhere_moves_a_gram_matrix_by_no_more_than_declared(rows, scale, share, data):
    person = data.draw(st.integers(0, len(rows) - 1))
    statistics = grams(len(rows), scale=scale, share=share)
    other = [NOTHING if index == person else row for index, row in enumerate(rows)]
    before = whole_matrix(statistics, dict.fromkeys(statistics, table(rows)), len(rows))
    after = whole_matrix(statistics, dict.fromkeys(statistics, table(other)), len(rows))
    assert weighted_squared_difference(before, after) <= 2 * statistics["bank"].step.joint.noise.moved()


@given(ROWS, SCALES, st.sampled_from([Fraction(1), Fraction(1, 3)]), st.sampled_from(list(OWNERS)), st.data())
def test_a_person_removed_at_one_party_moves_a_gram_matrix_by_no_more_than_declared(rows, scale, share, party, data):
    person = data.draw(st.integers(0, len(rows) - 1))
    statistics = grams(len(rows), scale=scale, share=share, unit="party")
    other = [NOTHING if index == person else row for index, row in enumerate(rows)]
    tables = dict.fromkeys(statistics, table(rows))
    before = whole_matrix(statistics, tables, len(rows))
    after = whole_matrix(statistics, {**tables, party: table(other)}, len(rows))
    assert weighted_squared_difference(before, after) <= 2 * statistics[party].step.joint.noise.moved(party)


@given(ROWS, st.data())
def test_a_person_moves_one_cell_of_each_pair_table_by_at_most_one(rows, data):
    person = data.draw(st.integers(0, len(rows) - 1))
    statistics = pair_tables(len(rows))
    other = [NOTHING if index == person else row for index, row in enumerate(rows)]

    def moves(changed):
        tables = {party: (table(rows), table(other if party in changed else rows)) for party in statistics}
        coded = {party: [statistics[party].rows(one, 0, len(rows)) for one in tables[party]] for party in statistics}
        pairs = [(a, b) for a in statistics for b in statistics if a < b]
        return [np.abs(coded[a][0] @ coded[b][0].T - coded[a][1] @ coded[b][1].T) for a, b in pairs]

    everywhere, at_one = moves(set(statistics)), moves({"telco"})
    noise = statistics["bank"].step.joint.noise
    assert all(moved.sum() <= 1 for moved in everywhere)
    assert sum(int(moved.sum()) for moved in everywhere) <= noise.moved() == 3
    assert sum(int((moved**2).sum()) for moved in at_one) <= noise.moved("telco") == 2


@pytest.mark.parametrize("law", ["gaussian", "skellam"])
def test_a_party_noises_its_own_block_with_v_on_the_diagonal_and_half_of_it_elsewhere(law):
    statistic = grams(2, scale=4, law=law)["bank"]
    empty = table([NOTHING] * 2)
    source = kit.sampler(f"own block {law}")
    exact = own_block(statistic, empty)
    upper = np.triu_indices(len(exact))
    drawn = np.array([statistic.own(empty, source) for _ in range(1_500)]) - exact[upper][1:]
    diagonal = (upper[0] == upper[1])[1:]
    half = float(statistic.step.joint.noise.own_variance)
    for entries, variance in ((drawn[:, diagonal], 2 * half), (drawn[:, ~diagonal], half)):
        assert _variance_p(entries, variance) > kit.ALPHA
        assert _variance_p(entries, variance * 0.81) < kit.ALPHA
        assert _variance_p(entries, variance * 1.21) < kit.ALPHA


@pytest.mark.parametrize("law", ["gaussian", "skellam"])
def test_a_share_of_the_noise_between_parties_has_the_declared_variance(law):
    statistic = grams(2, scale=4, law=law)["bank"]
    drawn = statistic.cross_noise(20_000, kit.sampler(f"cross {law}"))
    assert drawn.dtype == np.int64
    assert _variance_p(drawn, statistic.step.joint.noise.share_variance) > kit.ALPHA
    assert _variance_p(drawn, statistic.step.joint.noise.share_variance * 0.81) < kit.ALPHA


@pytest.mark.parametrize("price", [Price.of(0.5), Price.of(0.5, 1e-6)])
def test_a_share_of_the_noise_of_pair_tables_has_the_declared_variance(price):
    statistic = pair_tables(2, price=price)["bank"]
    drawn = statistic.cross_noise(60_000, kit.sampler(f"tables {price}"))
    # The fourth moment of a Pólya share is far above a normal one's, so its sample variance spreads more.
    spread = float(np.sqrt(np.var(drawn.astype(float) ** 2) / len(drawn)))
    assert abs(float(np.mean(drawn.astype(float) ** 2)) - statistic.step.joint.noise.share_variance) < 7 * spread
    assert statistic.own(table([NOTHING] * 2), kit.sampler("unused")) is None


def _variance_p(values, variance):
    """Two-sided p-value of the sum of squares of values that are nearly normal."""
    total = float((values.astype(float) ** 2).sum()) / variance
    return 2 * min(stats.chi2.cdf(total, values.size), stats.chi2.sf(total, values.size))


# Shapes and refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"scale": 0},
        {"scale": 7},
        {"scale": "4"},
        {"row_bound": 0},
        {"row_bound": 2.0},
        {"width": 5},
        {"width": None},
        {"noise": "none"},
        {"noise": "laplace"},
        {"sigma": 0.0},
        {"signed": "flag"},
        {"signed": ("age",)},
    ],
)
def test_a_gram_step_that_makes_no_sense_is_refused_before_data_is_seen(change):
    def parameters(party, columns):
        plain = {"scale": 4, "row_bound": 16 * len(columns), "width": width(columns)}
        return {**plain, **change} if party == "bank" else plain

    plan = a_plan("gram", parameters, people=3)
    with pytest.raises(ColonnadeError):
        kit.private(PrivateGram, plan, plan.step("bank", "s"), SCHEMA)
