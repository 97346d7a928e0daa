"""Noise of moments on a union: the parts add up, nobody moves them further than declared, and the price is kept."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import BadInput
from colonnade.privacy.accounting import Price, total
from colonnade.privacy.laws.gram import UnionNoise

PARTS = ("cross", "a", "b")


def noise(part="cross", *, bounds=(12, 8), widths=(3, 2), constant=4, collusion=1, epsilon=1.0):
    return UnionNoise(
        dict(zip("ab", bounds, strict=True)),
        dict(zip("ab", widths, strict=True)),
        constant,
        Price.of(epsilon, 1e-5),
        "person",
        collusion,
        part,
    )


rows = st.lists(st.integers(-2, 2), min_size=2, max_size=3).map(np.array)


@given(rows, rows, st.integers(1, 3))
def test_nobody_moves_a_part_further_than_declared(first, second, gamma):
    """With half the weight for squares and for the number of people: exactly what `moved` says, where bounds are attained."""
    a, b = int(first @ first), int(second @ second)
    declared = noise(bounds=(max(a, 1), max(b, 1)), widths=(len(first), len(second)), constant=gamma**2)
    cross = np.outer([gamma, *first], [gamma, *second]).astype(float) ** 2 * 2
    cross[0, 0] /= 2
    own = {}
    for name, row in (("a", first), ("b", second)):
        products = np.outer(row, row).astype(float) ** 2
        own[name] = products.trace() + 2 * products[np.triu_indices(len(row), 1)].sum()
    assert cross.sum() <= 2 * declared.moved_by("cross")
    assert own["a"] <= 2 * declared.moved_by("a")
    assert own["b"] <= 2 * declared.moved_by("b")
    if a and b:
        assert cross.sum() == 2 * declared.moved_by("cross")
        assert own == {"a": 2 * declared.moved_by("a"), "b": 2 * declared.moved_by("b")}


@given(st.integers(1, 50), st.integers(1, 50), st.integers(1, 20))
def test_the_parts_add_up_to_the_whole_matrix(a, b, c):
    declared = noise(bounds=(a, b), constant=c)
    assert sum(2 * declared.moved_by(part) for part in PARTS) == (a + b + c) ** 2


@pytest.mark.parametrize("collusion", [0, 1])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_the_three_steps_together_keep_within_the_price_and_use_it(collusion, epsilon):
    parts = [noise(part, collusion=collusion, epsilon=epsilon) for part in PARTS]
    assert len({one.share for one in parts}) == 1
    spent = total(one.loss() for one in parts)
    assert spent.fits(parts[0].price.nano, 1e-5)
    assert spent.epsilon(1e-5) > 0.9999 * epsilon


def test_a_coalition_that_holds_all_shares_is_promised_nothing():
    assert noise().loss(colluders=2) is None
    assert noise().replaced_loss(colluders=2) is None
    assert noise(collusion=0).loss(colluders=1).epsilon(1e-5) > noise(collusion=0).loss().epsilon(1e-5)


def test_a_replaced_record_costs_twice_as_much_in_zcdp():
    one = noise()
    assert one.replaced_loss().epsilon(1e-5) > one.loss().epsilon(1e-5)


@pytest.mark.parametrize("wrong", [{"part": "c"}, {"bounds": (0, 1)}, {"collusion": 2}, {"constant": 0}])
def test_what_cannot_be_meant_is_refused(wrong):
    with pytest.raises(BadInput):
        noise(**wrong)
