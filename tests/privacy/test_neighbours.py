"""What a promise is about, and what each party may spend on it."""

from hypothesis import given
from hypothesis import strategies as st

from colonnade.privacy.accounting import Price, party_price


@given(st.integers(1, 10**13), st.integers(1, 50))
def test_a_promise_to_a_person_is_shared_between_the_parties(nano: int, parties: int) -> None:
    price = Price(nano, 1e-6)
    assert party_price(price, parties, "party") == price
    if nano >= parties:
        shared = party_price(price, parties, "person")
        assert shared.nano * parties <= nano
        assert shared.delta * parties <= price.delta * (1 + 1e-12)
