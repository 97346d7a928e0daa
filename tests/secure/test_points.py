"""Points: hashed onto the group, multiplied by secrets, and refused where they are not of the group."""

import hashlib

import nacl.bindings
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import BadInput, ProtocolError
from colonnade.secure.keys import Secret
from colonnade.secure.matching import FIELD, ORDER, Multiplier, hash_to_points, require_points

SEED = bytes(range(32))
KNOWN_POINT = "2deeb213375daf96a9e49c07fa21c942a48de29387970aa7ef17c701a6296161"
KNOWN_BLINDED = "df6457899e6628928a7e908bbbf3a119af1a27441c70fcf4daa3bf736cea440e"

SMALL = [
    0,
    1,
    FIELD - 1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
]
"""The coordinates of all points of small order, on the curve and on its twist."""


def digests(count: int, name: str = "ids") -> np.ndarray:
    data = b"".join(hashlib.sha256(f"{name} {number}".encode()).digest() for number in range(count))
    return np.frombuffer(data, dtype=np.uint8).reshape(count, 32)


def multiplier(name: str) -> Multiplier:
    return Multiplier.derive(Secret(hashlib.sha256(name.encode()).digest()), name)


def encoded(*numbers: int) -> np.ndarray:
    return np.frombuffer(b"".join(number.to_bytes(32, "little") for number in numbers), dtype=np.uint8).reshape(-1, 32)


def numbers(points: np.ndarray) -> list[int]:
    return [int.from_bytes(row.tobytes(), "little") for row in points]


def on_curve(u: int) -> bool:
    return pow(u * (u * u + 486662 * u + 1) % FIELD, (FIELD - 1) // 2, FIELD) == 1


def off_curve_number() -> int:
    return next(u for u in range(2, 100) if not on_curve(u))


def test_the_map_agrees_with_the_library_that_others_use():
    hashed = digests(50)
    for row, point in zip(hashed, hash_to_points(hashed), strict=True):
        edwards = nacl.bindings.crypto_core_ed25519_from_uniform(row.tobytes())
        assert nacl.bindings.crypto_core_ed25519_is_valid_point(
            edwards
        )  # on the curve, and in the prime-order subgroup
        assert nacl.bindings.crypto_sign_ed25519_pk_to_curve25519(edwards) == point.tobytes()


def test_a_known_answer():
    point = hash_to_points(digests(1))[0].tobytes()
    blinded = multiplier("known").multiply(hash_to_points(digests(1)))[0].tobytes()
    assert point.hex() == KNOWN_POINT
    assert blinded.hex() == KNOWN_BLINDED


def test_no_twist_bit_shows_in_hashed_or_blinded_points():
    hashed = hash_to_points(digests(200))
    assert all(on_curve(u) for u in numbers(hashed))
    assert all(on_curve(u) for u in numbers(multiplier("blind").multiply(hashed)))


def test_multipliers_commute_undo_each_other_and_combine():
    hashed = hash_to_points(digests(20))
    one, two = multiplier("one"), multiplier("two")
    both = one.multiply(two.multiply(hashed))
    assert (both == two.multiply(one.multiply(hashed))).all()
    assert (one.inverse().multiply(both) == two.multiply(hashed)).all()
    assert (one.after(two).multiply(hashed) == both).all()
    assert not (both == hashed).all(axis=1).any()


@given(st.binary(max_size=8))
def test_all_but_a_vanishing_part_of_residues_have_a_multiplier_of_the_clamped_form_up_to_sign(name):
    residue = int.from_bytes(hashlib.sha512(name).digest(), "big") % ORDER
    found = Multiplier._of(residue)._number
    assert found % ORDER in (residue, ORDER - residue)
    assert found % 8 == 0
    assert 2**254 <= found < 2**255


def test_the_vanishing_part_is_refused():
    with pytest.raises(BadInput):
        Multiplier._of(8)


def test_multipliers_spread_over_the_whole_range():
    drawn = [Multiplier.derive(Secret(SEED), str(number))._number for number in range(500)]
    assert {number >> 251 & 7 for number in drawn} == set(range(8))
    assert len(set(drawn)) == 500


@pytest.mark.parametrize("number", SMALL)
def test_a_point_of_small_order_is_refused(number):
    bad = np.concatenate([hash_to_points(digests(3)), encoded(number % FIELD)])
    with pytest.raises(ProtocolError):
        multiplier("any").multiply(require_points(bad, SEED))


@pytest.mark.parametrize("number", [FIELD, FIELD + 1, FIELD + 9, 2**255, 2**255 + 9, 2**256 - 1])
def test_a_form_that_is_not_canonical_is_refused(number):
    with pytest.raises(ProtocolError, match="canonical"):
        require_points(encoded(number), SEED)


@pytest.mark.parametrize("place", [0, 1, 4, 6])
def test_one_point_off_the_curve_among_many_is_refused(place):
    good = hash_to_points(digests(7)).copy()
    good[place] = encoded(off_curve_number())[0]
    with pytest.raises(ProtocolError, match="curve"):
        require_points(good, SEED)


def test_two_points_off_the_curve_do_not_cancel():
    good = hash_to_points(digests(8)).copy()
    good[1] = good[5] = encoded(off_curve_number())[0]
    with pytest.raises(ProtocolError, match="curve"):
        require_points(good, SEED)
