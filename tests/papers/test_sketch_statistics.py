"""Sketches: the same public signs for everybody, exact products, exactly the declared sensitivity, noise of the right size."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import BadInput
from colonnade.papers.draws import PEOPLE, Signs
from colonnade.papers.private import PrivateSketch, PrivateValueSketch
from colonnade.party.table.private_table import PrivateTable, coded_rows
from colonnade.party.table.sources import Source
from colonnade.plan import EVENT, RELATION, Step
from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import ledger_rho
from colonnade.schema import Category, Numeric, Schema
from tests import kit

SCHEMA = Schema(age=Numeric(18, 95), kind=Category(["a", "b", "c"]), visits=Numeric(0, 20, integer=True))
SEED = "ab" * 32
PRICE = Price.of(1.0, 1e-6)


def made(kind, columns, people, *, size=7, seed=SEED, relation=RELATION, **parameters):
    step = Step(
        name="s",
        party="clinic",
        kind=kind.kinds[0].name,
        columns=columns,
        parameters={"size": size, "seed": seed, **parameters},
        price=PRICE,
    )
    plan = kit.written(step, method="sketch", relation=relation, people=people)
    return kit.private(kind, plan, step, SCHEMA)


def coded(people, *, scale=64, row_bound=None, **options):
    return made(
        PrivateSketch, ("age", "kind"), people, scale=scale, row_bound=row_bound or 2 * scale**2, width=4, **options
    )


def table(ages, kinds=None, visits=None, order=None):
    frame = pd.DataFrame(
        {
            "age": ages,
            "kind": pd.Series(["a"] * len(ages) if kinds is None else kinds, dtype=object),
            "visits": np.zeros(len(ages)) if visits is None else visits,
        }
    )
    return PrivateTable(Source(frame), SCHEMA, order=order)


def dense(signs: Signs, people: int) -> np.ndarray:
    """The whole matrix, by unpacking its bits."""
    blocks = [_by_person(signs.bits(number)) for number in range(-(-people // PEOPLE))]
    return np.concatenate(blocks, axis=1)[:, :people]


def _by_person(bits: np.ndarray) -> np.ndarray:
    each = (bits[:, None, :] >> np.arange(8, dtype=np.uint8)[:, None]) & 1  # group, person of it, row
    return (2 * each.reshape(PEOPLE, -1).astype(np.int64) - 1).T


# Signs ----------------------------------------------------------------------------------------------------------------------


def test_signs_are_a_public_function_of_the_seed_and_do_not_change_with_the_number_of_people():
    first, again, other = (Signs(bytes.fromhex(seed), 40) for seed in (SEED, SEED, "cd" * 32))
    np.testing.assert_array_equal(dense(first, 3_000), dense(again, 3_000))
    np.testing.assert_array_equal(dense(first, 3_000)[:, :1_500], dense(again, 1_500))
    assert (dense(first, 3_000) != dense(other, 3_000)).mean() == pytest.approx(0.5, abs=0.02)


def test_signs_are_fair_and_pairwise_independent():
    matrix = dense(Signs(bytes.fromhex(SEED), 64), 20_000)
    assert set(np.unique(matrix)) == {-1, 1}
    gram = matrix @ matrix.T / np.sqrt(20_000)
    off = gram[np.triu_indices(64, 1)]
    assert abs(off).max() < 6
    assert off.std() == pytest.approx(1, abs=0.1)
    assert abs(matrix.sum() / np.sqrt(matrix.size)) < 6


# Products and sensitivity ---------------------------------------------------------------------------------------------------


@pytest.mark.every(3)
@pytest.mark.parametrize("people", [5, 1_024, 2_600])
@pytest.mark.parametrize("scale", [64, 1_024, 2**20])
def test_a_sketch_is_the_exact_product_of_signs_and_coded_rows_under_their_sums(people, scale):
    rng = kit.generator(f"sketch {people} {scale}")
    data = table(rng.uniform(18, 95, people), rng.choice(["a", "b", "c", "d"], people))
    statistic = coded(people, scale=scale, size=30)
    rows = coded_rows(statistic.step.coding, data, 0, people)
    expected = dense(statistic.step.signs, people).astype(object) @ rows.T.astype(object)
    found = statistic.compute(data)
    np.testing.assert_array_equal(found[1:], expected.astype(np.int64))
    np.testing.assert_array_equal(found[0], rows.sum(axis=1))


AGES = st.lists(st.one_of(st.floats(0, 120), st.just(np.nan)), min_size=1, max_size=8)


@given(AGES, st.integers(1, 40), st.sampled_from([None, 3_000, 64**2]), st.data())
def test_a_person_removed_moves_a_sketch_by_no_more_than_the_declared_length(ages, size, row_bound, data):
    kinds = data.draw(st.lists(st.sampled_from(["a", "b", "c", "d", None]), min_size=len(ages), max_size=len(ages)))
    statistic = coded(len(ages), size=size, row_bound=row_bound)
    before = statistic.compute(table(ages, kinds))
    person = data.draw(st.integers(0, len(ages) - 1))
    order = np.arange(len(ages))
    order[person] = -1
    emptied = [
        [np.nan if i == person else a for i, a in enumerate(ages)],
        [None if i == person else k for i, k in enumerate(kinds)],
    ]
    for neighbour in (table(ages, kinds, order=order), table(*emptied)):
        difference = before - statistic.compute(neighbour)
        assert (difference.astype(object) ** 2).sum() <= (size + 1) * statistic.step.coding.row_bound


@given(st.lists(st.integers(0, 20), min_size=1, max_size=8), st.integers(1, 25), st.data())
def test_a_value_moved_by_the_change_moves_its_sketch_by_the_declared_length(visits, change, data):
    statistic = made(PrivateValueSketch, ("visits",), len(visits), change=change, relation=EVENT)
    person = data.draw(st.integers(0, len(visits) - 1))
    moved = list(visits)
    moved[person] = data.draw(st.integers(max(0, visits[person] - change), min(20, visits[person] + change)))
    ages = [50.0] * len(visits)
    difference = statistic.compute(table(ages, visits=visits)) - statistic.compute(table(ages, visits=moved))
    assert (
        (difference**2).sum() == 8 * (moved[person] - visits[person]) ** 2 <= 8 * statistic.step.values.sensitivity**2
    )


# Price and noise ------------------------------------------------------------------------------------------------------------


def test_the_noise_is_that_of_the_exact_length_at_the_ledgers_own_rho():
    mechanism = coded(100, size=99).law(PRICE)
    assert mechanism.sigma_squared == pytest.approx(float(100 * 2 * 64**2 / (2 * ledger_rho(PRICE))), rel=1e-3)
    assert mechanism.sigma_squared >= Fraction(100 * 2 * 64**2) / (2 * ledger_rho(PRICE))
    assert mechanism.loss.epsilon(1e-6) <= 1.0


@pytest.mark.every(2)
@pytest.mark.parametrize("factor", [0.9, 1.0, 1.1])
def test_released_noise_has_the_stated_variance_and_no_other(factor):
    statistic = made(PrivateSketch, ("age",), 3, size=20_000, scale=4, row_bound=16, width=1)
    mechanism = statistic.law(PRICE)
    nonprivate = np.zeros((20_001, 1), dtype=np.int64)
    drawn = mechanism.release(nonprivate, kit.sampler("sketch noise"))
    from scipy import stats

    statistic_value = float((drawn.astype(float) ** 2).sum() / (float(mechanism.sigma_squared) * factor**2))
    p = 2 * min(stats.chi2.sf(statistic_value, drawn.size), stats.chi2.cdf(statistic_value, drawn.size))
    assert (p > kit.ALPHA) == (factor == 1.0)


# What is refused ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [
        {"size": 0},
        {"size": 10**6},
        {"size": True},
        {"seed": "ab"},
        {"seed": "zz" * 32},
        {"scale": 0},
        {"row_bound": -1},
    ],
)
def test_a_step_that_makes_no_sense_is_refused(changed):
    with pytest.raises(BadInput):
        made(PrivateSketch, ("age", "kind"), 3, **{"scale": 64, "row_bound": 8_192, "width": 4, **changed})
