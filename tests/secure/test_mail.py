"""Sealed letters against a coordinator that alters, cuts, repeats, reorders, splices and misdelivers them."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import BadInput, ProtocolError
from colonnade.secure import keys
from colonnade.secure.keys import LARGEST_LETTER, OVERHEAD, Session
from tests import kit
from tests.secure import runs

BODY = b"forty-two shares of somebody's secret, or so"


@pytest.fixture
def trio() -> dict[str, Session]:
    return runs.sessions(3)


@pytest.mark.parametrize("count", range(3, 9))
def test_every_party_can_write_to_every_other(count: int) -> None:
    sessions = runs.sessions(count)
    for sender, receiver in itertools.permutations(sessions, 2):
        for step, sequence in itertools.product((0, 7), range(3)):
            body = repr((sender, receiver, step, sequence)).encode()
            sealed = sessions[sender].seal(receiver, step, sequence, body)
            assert len(sealed) == len(body) + OVERHEAD
            assert sessions[receiver].open(sender, step, sequence, sealed) == body


@pytest.mark.parametrize(
    "payload",
    [
        np.arange(24, dtype=np.uint64).reshape(4, 6),
        np.arange(24, dtype=np.int8).reshape(2, 3, 4),
        np.empty((0, 5)),
        np.float64(1.5) * np.ones(3),
        bytearray(b"mutable"),
        memoryview(b"a view of bytes")[2:7],
        b"",
    ],
)
def test_buffers_are_sealed_as_their_bytes(trio: dict[str, Session], payload: object) -> None:
    plain = bytes(payload.tobytes() if hasattr(payload, "tobytes") else payload)
    sealed = trio["ana"].seal("bo", 0, 0, payload)
    assert trio["bo"].open("ana", 0, 0, memoryview(sealed)) == plain


# --- one altered letter ---


def _refuses_every_flip(session: Session, sealed: bytes, positions: range | list[int], bits: tuple[int, ...]) -> None:
    for position, bit in itertools.product(positions, bits):
        forged = bytearray(sealed)
        forged[position] ^= 1 << bit
        with pytest.raises(ProtocolError):
            session.open("ana", 1, 0, bytes(forged))
    assert session.open("ana", 1, 0, sealed) == BODY  # no forgery used up the true letter's place


def test_a_flipped_bit_at_any_byte_of_a_letter_is_refused(trio: dict[str, Session]) -> None:
    sealed = trio["ana"].seal("bo", 1, 0, BODY)
    _refuses_every_flip(trio["bo"], sealed, range(len(sealed)), (3,))


def test_a_letter_cut_at_any_length_is_refused(trio: dict[str, Session]) -> None:
    sealed = trio["ana"].seal("bo", 1, 0, BODY)
    for length in range(len(sealed)):
        for cut in (sealed[:length], sealed[len(sealed) - length :]):
            with pytest.raises(ProtocolError):
                trio["bo"].open("ana", 1, 0, cut)
    assert trio["bo"].open("ana", 1, 0, sealed) == BODY


def test_an_oversized_letter_is_refused_before_it_is_decrypted(
    trio: dict[str, Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed = trio["ana"].seal("bo", 1, 0, BODY)
    monkeypatch.setattr(keys, "LARGEST_LETTER", len(BODY) - 1)
    with pytest.raises(ProtocolError, match="length"):
        trio["bo"].open("ana", 1, 0, sealed)
    with pytest.raises(BadInput, match="too long"):
        trio["ana"].seal("bo", 1, 1, BODY)
    assert LARGEST_LETTER + OVERHEAD < 2**31  # what the cipher's interface takes


# --- a true letter in the wrong place ---


def test_a_letter_delivered_to_the_wrong_party_is_refused(trio: dict[str, Session]) -> None:
    sealed = trio["ana"].seal("bo", 1, 0, BODY)
    with pytest.raises(ProtocolError):
        trio["cy"].open("ana", 1, 0, sealed)


def test_a_letter_delivered_under_another_senders_name_is_refused(trio: dict[str, Session]) -> None:
    sealed = trio["ana"].seal("bo", 1, 0, BODY)
    with pytest.raises(ProtocolError):
        trio["bo"].open("cy", 1, 0, sealed)


@pytest.mark.parametrize("step", [0, 2, 1 << 8, 1 << 31])
def test_a_letter_of_another_step_is_refused(trio: dict[str, Session], step: int) -> None:
    sealed = trio["ana"].seal("bo", 1, 0, BODY)
    with pytest.raises(ProtocolError):
        trio["bo"].open("ana", step, 0, sealed)


def test_a_replayed_letter_is_refused(trio: dict[str, Session]) -> None:
    sealed = trio["ana"].seal("bo", 1, 0, BODY)
    trio["bo"].open("ana", 1, 0, sealed)
    for sequence in (0, 1):
        with pytest.raises(ProtocolError):
            trio["bo"].open("ana", 1, sequence, sealed)


@pytest.mark.parametrize("change", ["run", "plan", "federation"])
def test_a_letter_of_another_run_or_plan_is_refused(trio: dict[str, Session], change: str) -> None:
    stale = runs.sessions(3, **{change: runs.seed("another")})["ana"].seal("bo", 1, 0, BODY)
    with pytest.raises(ProtocolError):
        trio["bo"].open("ana", 1, 0, stale)


@pytest.mark.parametrize("change", ["run", "plan"])
def test_the_address_holds_even_where_the_keys_are_equal(trio: dict[str, Session], change: str) -> None:
    # run and plan are bound by the transcript and once more by every letter: here with the first binding taken away
    ana, other = trio["ana"], {"run": trio["ana"].run, "plan": trio["ana"].plan} | {change: runs.seed("another")}
    forger = Session(
        party="ana",
        parties=ana.parties,
        transcript=ana.transcript,
        outgoing=ana._outgoing,
        incoming=ana._incoming,
        **other,
    )
    with pytest.raises(ProtocolError):
        trio["bo"].open("ana", 1, 0, forger.seal("bo", 1, 0, BODY))


# --- restarts and retries ---


def test_a_second_plaintext_for_one_address_is_refused_in_a_session(trio: dict[str, Session]) -> None:
    trio["ana"].seal("bo", 1, 0, BODY)
    for other in (BODY[:-1], BODY + b"\x00", b"", BODY[::-1]):
        with pytest.raises(ProtocolError):
            trio["ana"].seal("bo", 1, 0, other)
    assert trio["ana"].seal("cy", 1, 0, BODY[::-1])  # another receiver is another address


@given(st.binary(min_size=1, max_size=80), st.binary(min_size=1, max_size=80))
def test_no_key_stream_is_used_twice_even_when_a_restart_forgets_what_was_sealed(first: bytes, second: bytes) -> None:
    one, other = (runs.sessions(3)["ana"].seal("bo", 1, 0, body) for body in (first, second))
    if first == second:
        assert one == other
        return
    assert one[:16] != other[:16]
    shared = min(len(first), len(second))
    if shared >= 16:  # with a repeated key stream the difference of the letters would be that of the plaintexts
        difference = bytes(a ^ b for a, b in zip(one[16 : 16 + shared], other[16 : 16 + shared], strict=True))
        assert difference != bytes(a ^ b for a, b in zip(first, second, strict=False))


def test_a_retried_request_may_bring_the_same_letters_again(trio: dict[str, Session]) -> None:
    letters = [trio["ana"].seal("bo", 1, n, BODY) for n in range(3)]
    for sealed, sequence in zip(letters[:2], range(2), strict=True):
        trio["bo"].open("ana", 1, sequence, sealed)
    for sequence, sealed in enumerate(letters):
        assert trio["bo"].open("ana", 1, sequence, sealed, retried=True) == BODY


def test_a_retried_request_may_not_bring_another_letter(trio: dict[str, Session]) -> None:
    trio["bo"].open("ana", 1, 0, trio["ana"].seal("bo", 1, 0, BODY))
    other = runs.sessions(3)["ana"].seal("bo", 1, 0, b"what a dishonest sender would rather have said")
    with pytest.raises(ProtocolError):
        trio["bo"].open("ana", 1, 0, other, retried=True)
    with pytest.raises(ProtocolError):
        trio["bo"].open("ana", 1, 2, trio["ana"].seal("bo", 1, 2, BODY), retried=True)


# --- what the coordinator sees ---


def test_the_coordinators_transcript_is_uniform() -> None:
    randomness = kit.source("uniform letters")
    run = randomness.bytes(32)
    sessions = runs.sessions(3, run=run)
    plain = bytes(4096)
    seen = b"".join(
        sessions[a].seal(b, step, n, plain)
        for a, b in itertools.permutations(sessions, 2)
        for step in range(4)
        for n in range(4)
    )
    octets = np.frombuffer(seen, dtype=np.uint8)
    assert kit.chi_square_p(np.bincount(octets, minlength=256), np.ones(256)) > kit.ALPHA
    neighbours = octets[:-1] ^ octets[1:]
    assert kit.chi_square_p(np.bincount(neighbours, minlength=256), np.ones(256)) > kit.ALPHA


def test_the_uniformity_test_would_notice_plaintext() -> None:
    observed = np.bincount(np.frombuffer(BODY * 100, dtype=np.uint8), minlength=256)
    assert kit.chi_square_p(observed, np.ones(256)) < kit.ALPHA
