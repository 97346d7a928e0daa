"""Seed streams: the same bytes from the same seed and position, however the calls divide them."""

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

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


def test_subseeds_of_different_purposes_and_indices_differ():
    seeds = {subseed(SEED, label, index) for label in ("a", "b") for index in range(3)} | {SEED}
    assert len(seeds) == 7
