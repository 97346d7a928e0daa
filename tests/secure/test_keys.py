"""Identities, secrets and framing: what signs, what hides itself, and what two encodings can never share."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import BadInput, ProtocolError
from colonnade.secure.keys import LARGEST_WORD, Identity, PublicIdentity, Secret, frame
from tests.secure import runs

P = 2**255 - 19


def test_the_first_vector_of_rfc_8032_holds() -> None:
    secret = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    public = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    signature = bytes.fromhex(
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
    )
    identity = Identity.from_seed(secret)
    assert identity.public == public
    assert identity.sign(b"") == signature


@pytest.mark.parametrize(
    ("message", "signer", "length"),
    [(b"another", "ana", 64), (b"message", "bo", 64), (b"message", "ana", 63), (b"message", "ana", 0)],
)
def test_a_forged_or_cut_signature_is_refused(message: bytes, signer: str, length: int) -> None:
    signature = runs.identity(signer).sign(b"message")[:length]
    with pytest.raises(ProtocolError):
        PublicIdentity(runs.identity("ana").public).verify(message, signature)


def test_no_flipped_bit_of_a_signature_verifies() -> None:
    identity = runs.identity("ana")
    signature = identity.sign(b"message")
    for position in range(8 * len(signature)):
        forged = bytearray(signature)
        forged[position // 8] ^= 1 << position % 8
        with pytest.raises(ProtocolError):
            PublicIdentity(identity.public).verify(b"message", bytes(forged))


def _add(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    # the addition law of the twisted Edwards curve, to find its torsion from first principles
    d = -121665 * pow(121666, -1, P) % P
    product = d * a[0] * a[1] * b[0] * b[1] % P
    return (
        (a[0] * b[1] + a[1] * b[0]) * pow(1 + product, -1, P) % P,
        (a[1] * b[1] + a[0] * b[0]) * pow(1 - product, -1, P) % P,
    )


def _order_eight() -> tuple[int, int]:
    # a point of order 8 doubles to one with y = 0, so x² = -y²; the curve then says d·y⁴ + 2y² - 1 = 0
    d = -121665 * pow(121666, -1, P) % P
    for root in _square_roots((1 + d) % P):
        for y in _square_roots((-1 + root) * pow(d, -1, P) % P):
            return next((x, y) for x in _square_roots(-y * y % P))
    raise AssertionError("no point of order eight")


def _square_roots(value: int) -> tuple[int, ...]:
    root = pow(value, (P + 3) // 8, P)
    for candidate in (root, root * pow(2, (P - 1) // 4, P) % P):
        if candidate * candidate % P == value % P:
            return candidate, (-candidate) % P
    return ()


def test_all_eight_small_order_points_are_refused_as_identities_in_every_encoding() -> None:
    generator, point, torsion = _order_eight(), (0, 1), set()
    for _ in range(8):
        torsion.add(point)
        point = _add(point, generator)
    assert point == (0, 1)
    assert len(torsion) == 8
    encodings = {y + sign for _, y in torsion for y in (y, y + P) if y < 2**255 for sign in (0, 2**255)}
    assert len(encodings) == 14
    for encoding in encodings:
        with pytest.raises(BadInput):
            PublicIdentity(encoding.to_bytes(32, "little"))


def test_secrets_do_not_show_themselves_in_any_text() -> None:
    value = runs.seed("shown")
    session = runs.sessions()["ana"]
    key = next(iter(session._outgoing.values()))
    for holder in (Secret(value), Identity.from_seed(value), runs.handshake("ana", runs.terms(), drawn=value), session):
        for text in (repr(holder), str(holder), f"{holder}", repr([holder]), repr(vars(session))):
            assert "redacted" in text
            for hidden in (value, key.expose()):
                assert hidden.hex() not in text
                assert repr(hidden)[2:-1] not in text


def test_secrets_are_neither_pickled_nor_hashed() -> None:
    for holder in (
        Secret(bytes(32)),
        runs.identity("ana"),
        runs.sessions()["ana"],
        runs.handshake("ana", runs.terms()),
    ):
        with pytest.raises(TypeError):
            pickle.dumps(holder)
    with pytest.raises(TypeError):
        hash(Secret(bytes(32)))


fields = st.recursive(
    st.binary(max_size=9) | st.text("bs\x00é", max_size=4) | st.integers(0, LARGEST_WORD),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)


@given(st.lists(fields, min_size=1, max_size=4), st.data())
def test_moving_a_boundary_between_fields_changes_the_frame(parts: list, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(parts)))
    nested = (tuple(parts[:at]), *parts[at:])
    assert frame("label", *parts) != frame("label", *nested)
    assert frame("label", *parts) != frame("label", *parts, b"")


@pytest.mark.parametrize("field", [True, -1, 2**64, 1.0, None, [b"list"], bytearray(b"x"), (b"ok", None)])
def test_a_field_without_a_canonical_form_is_refused(field: object) -> None:
    with pytest.raises(BadInput):
        frame("label", field)
