"""What a promise is about, and what each party may spend on it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import BadInput
from colonnade.privacy.accounting import UNITS, Price, party_price, valid_unit


@given(st.integers(1, 10**13), st.integers(1, 50))
def test_a_promise_to_a_person_is_shared_between_the_parties(nano: int, parties: int) -> None:
    price = Price(nano, 1e-6)
    assert party_price(price, parties, "party") == price
    if nano >= parties:
        shared = party_price(price, parties, "person")
        assert shared.nano * parties <= nano
        assert shared.delta * parties <= price.delta * (1 + 1e-12)


@pytest.mark.parametrize("bad", ["people", "", None, 1, "Person"])
def test_units_are_person_or_party(bad: object) -> None:
    with pytest.raises(BadInput):
        valid_unit(bad)
    assert UNITS == ("person", "party")


def test_there_is_at_least_one_party() -> None:
    with pytest.raises(BadInput):
        party_price(Price.of(1.0), 0, "person")
