"""The handshake against a coordinator that lies and parties that misbehave."""

import itertools
from collections.abc import Callable

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from colonnade.errors import BadInput, PlanMismatch, ProtocolError
from colonnade.secure.keys import Hello, RunTerms, _signed
from tests.secure import runs

P = 2**255 - 19
ORDER_EIGHT = (
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
)
SMALL_ORDER = (0, 1, P - 1, P, P + 1, *ORDER_EIGHT)


def agree(relayed: dict[str, Hello], name: str = "ana", terms: RunTerms | None = None, **pins: object) -> object:
    return runs.handshake(name, terms or runs.terms()).agree(relayed, runs.pinned() | pins)


def signed_by(name: str, terms: RunTerms, ephemeral: bytes, *, party: str | None = None) -> Hello:
    party = party or name
    return Hello(terms.digest, party, ephemeral, runs.identity(name).sign(_signed(terms.digest, party, ephemeral)))


@pytest.mark.parametrize("count", range(2, 9))
def test_every_pair_of_parties_arrives_at_the_same_keys(count: int) -> None:
    sessions = runs.sessions(count)
    assert len({session.transcript for session in sessions.values()}) == 1
    keys = []
    for sender, receiver in itertools.permutations(sessions, 2):
        assert sessions[sender]._outgoing[receiver] == sessions[receiver]._incoming[sender]
        keys.append(sessions[sender]._outgoing[receiver].expose())
    assert len(set(keys)) == count * (count - 1)  # none is used for two pairs, or for both directions of one


def test_a_restarted_party_regenerates_its_hello_and_its_keys_from_the_seed() -> None:
    terms = runs.terms()
    first, second = runs.handshake("ana", terms), runs.handshake("ana", terms)
    assert first.hello == second.hello
    relayed = runs.hellos(terms)
    one, other = first.agree(relayed, runs.pinned()), second.agree(relayed, runs.pinned())
    assert one._outgoing == other._outgoing
    assert one._incoming == other._incoming


# --- a coordinator gone bad ---


@pytest.mark.parametrize("change", ["federation", "run", "plan"])
def test_different_plans_shown_to_different_parties_are_caught_by_both(change: str) -> None:
    shown, other = runs.terms(), runs.terms(**{change: runs.seed("another")})
    relayed = runs.hellos(shown) | {"bo": runs.handshake("bo", other).hello}
    for name, terms in (("ana", shown), ("bo", other), ("cy", shown)):
        with pytest.raises(PlanMismatch):
            agree(relayed, name, terms)


def test_a_hello_replayed_from_an_earlier_run_is_refused() -> None:
    stale = runs.hellos(runs.terms(run=runs.seed("yesterday")))
    with pytest.raises(PlanMismatch):
        agree(runs.hellos(runs.terms()) | {"bo": stale["bo"]})


@pytest.mark.parametrize("missing", ["ana", "bo", "cy"])
def test_a_missing_hello_is_refused(missing: str) -> None:
    relayed = runs.hellos(runs.terms())
    del relayed[missing]
    with pytest.raises(ProtocolError):
        agree(relayed)


def test_a_hello_reflected_to_its_own_author_is_refused() -> None:
    relayed = runs.hellos(runs.terms())
    with pytest.raises(ProtocolError):
        agree(relayed | {"bo": relayed["ana"]})


def test_a_key_signed_by_nobody_is_refused() -> None:
    terms = runs.terms()
    key = runs.handshake("bo", terms, drawn=runs.seed("coordinator")).hello.ephemeral
    true = runs.hellos(terms)["bo"]
    for forged in (msgspec.structs.replace(true, ephemeral=key), signed_by("hal", terms, key, party="bo")):
        with pytest.raises(ProtocolError, match="signature"):
            agree(runs.hellos(terms) | {"bo": forged})


def test_no_field_of_a_hello_can_be_altered_under_its_signature() -> None:
    terms = runs.terms()
    true = runs.hellos(terms)["bo"]
    others = [runs.terms(**{change: runs.seed("x")}) for change in ("federation", "run", "plan")] + [runs.terms(4)]
    forged = [msgspec.structs.replace(true, terms=other.digest) for other in others]
    forged += [msgspec.structs.replace(true, signature=bytes(64))]
    for hello in forged:
        with pytest.raises(ProtocolError, match="signature"):
            agree(runs.hellos(terms) | {"bo": hello})


def test_a_hello_signed_under_another_name_is_refused() -> None:
    terms = runs.terms()
    true = runs.hellos(terms)["bo"]
    signature = runs.identity("bo").sign(_signed(terms.digest, "cy", true.ephemeral))
    with pytest.raises(ProtocolError, match="signature"):
        agree(runs.hellos(terms) | {"bo": msgspec.structs.replace(true, signature=signature)})


def test_one_identity_for_two_parties_is_refused() -> None:
    pins = runs.pinned()
    terms = runs.terms()
    key = runs.handshake("cy", terms, drawn=runs.seed("two names")).hello.ephemeral
    relayed = runs.hellos(terms) | {"cy": signed_by("bo", terms, key, party="cy")}
    with pytest.raises(ProtocolError, match="same identity"):
        agree(relayed, cy=pins["bo"])


# --- a party gone bad ---


@pytest.mark.parametrize("high_bit", [0, 2**255])
@pytest.mark.parametrize("point", SMALL_ORDER)
def test_a_small_order_key_is_refused_even_when_signed(point: int, high_bit: int) -> None:
    terms = runs.terms()
    encoding = (point + high_bit).to_bytes(32, "little")
    with pytest.raises(ProtocolError, match="agrees on nothing"):
        agree(runs.hellos(terms) | {"bo": signed_by("bo", terms, encoding)})


def test_an_ordinary_key_with_its_ignored_bit_set_gives_the_same_secret_but_another_transcript() -> None:
    terms = runs.terms()
    relayed = runs.hellos(terms)
    key = bytearray(relayed["bo"].ephemeral)
    key[31] |= 0x80
    plain = agree(relayed)
    other = agree(relayed | {"bo": signed_by("bo", terms, bytes(key))})
    assert plain._outgoing["bo"] != other._outgoing["bo"]


def test_a_party_that_presents_anothers_ephemeral_key_as_its_own_is_refused() -> None:
    terms = runs.terms()
    relayed = runs.hellos(terms)
    with pytest.raises(ProtocolError, match="same key"):
        agree(relayed | {"bo": signed_by("bo", terms, relayed["cy"].ephemeral)})


def test_the_shared_secret_is_that_of_rfc_7748() -> None:
    ours = bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
    theirs = bytes.fromhex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")
    shared = X25519PrivateKey.from_private_bytes(ours).exchange(X25519PublicKey.from_public_bytes(theirs))
    assert shared.hex() == "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"


# --- what cannot be said at all ---


@pytest.mark.parametrize(
    "changes",
    [
        {"federation": b"short"},
        {"plan": bytes(33)},
        {"run": bytes(15)},
        {"run": bytes(65)},
        {"parties": ("ana",)},
        {"parties": ("ana", "ana")},
        {"parties": ("ana", "")},
        {"parties": ("ana", "b\n")},
        {"parties": ("ana", "b" * 256)},
        {"parties": ("ana", "b\ud800")},
    ],
)
def test_terms_that_cannot_be_meant_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        runs.terms(**changes)


@pytest.mark.parametrize(
    "alter",
    [
        lambda raw: {**raw, "ephemeral": b"short"},
        lambda raw: {**raw, "signature": bytes(65)},
        lambda raw: {**raw, "nonces": b"short"},
        lambda raw: {**raw, "extra": 1},
        lambda raw: {**raw, "terms": raw["terms"][:-1]},
        lambda raw: {key: value for key, value in raw.items() if key != "signature"},
    ],
)
def test_a_malformed_hello_does_not_decode(alter: Callable[[dict], dict]) -> None:
    raw = msgspec.msgpack.decode(msgspec.msgpack.encode(runs.handshake("ana", runs.terms()).hello))
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(alter(raw)), type=Hello)
