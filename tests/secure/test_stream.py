"""Seed streams: the same bytes from the same seed and position, however the calls divide them."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from colonnade.errors import BadInput
from colonnade.secure.keys import SeedStream, subseed

SEED = bytes(range(32))


def test_a_stream_is_aes_256_of_position_and_block_number():
    block = Cipher(AES(SEED), ECB()).encryptor()
    expected = b"".join(block.update((7).to_bytes(8, "big") + n.to_bytes(8, "big")) for n in range(5000))
    assert SeedStream(SEED, 7).bytes(80_000) == expected
    assert SeedStream(SEED, 7).words(10_000).astype("<u8").tobytes() == expected


def test_dividing_the_calls_does_not_change_the_stream():
    whole, parts = SeedStream(SEED), SeedStream(SEED)
    assert parts.bytes(3) + parts.bytes(0) + parts.words(9000).tobytes() + parts.bytes(5) == whole.bytes(72_008)


def test_the_first_and_the_last_position_do_not_meet():
    assert SeedStream(SEED, 2**64 - 1).bytes(16) != SeedStream(SEED, 0).bytes(16)


@pytest.mark.parametrize("position", [-1, 2**64, True, 1.0, "1"])
def test_a_position_that_is_not_one_is_refused(position):
    with pytest.raises(BadInput):
        SeedStream(SEED, position)


@pytest.mark.parametrize("seed", [b"", bytes(31), bytes(33), "x" * 32, bytearray(32)])
def test_a_seed_that_is_not_32_bytes_is_refused(seed):
    with pytest.raises(BadInput):
        SeedStream(seed)
    with pytest.raises(BadInput):
        subseed(seed, "label")


def test_subseeds_of_different_purposes_and_indices_differ():
    seeds = {subseed(SEED, label, index) for label in ("a", "b") for index in range(3)} | {SEED}
    assert len(seeds) == 7


def test_an_empty_request_gives_nothing():
    assert SeedStream(SEED).words(0).shape == (0,)
    assert SeedStream(SEED).words(0).dtype == np.uint64


def test_a_stream_does_not_show_its_seed():
    assert SEED.hex() not in repr(SeedStream(SEED))
    assert "hidden" in repr(SeedStream(SEED))
