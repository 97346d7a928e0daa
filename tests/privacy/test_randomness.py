"""The sources of uniform bits: nobody repeats the system's; everyone with the key repeats a keyed one, to the byte."""

import hashlib
import hmac
import multiprocessing
import os
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import BadInput
from colonnade.privacy import randomness
from colonnade.privacy.randomness import KeyedRandomness, Randomness, SystemRandomness
from tests import kit

KEY = bytes(range(32))


def chacha(key: bytes, count: int) -> bytes:
    return Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(count))


def derived(key: bytes, info: bytes) -> bytes:
    """One block of HKDF-Expand, from its definition."""
    return hmac.new(key, info + b"\x01", hashlib.sha256).digest()


@pytest.mark.parametrize("source", [SystemRandomness(), KeyedRandomness(KEY)], ids=["system", "keyed"])
def test_a_source_keeps_its_contract(source: Randomness) -> None:
    assert isinstance(source, Randomness)
    for count in (0, 1, 7, 8, 64, 65, 1000, 70_000):
        data, words = source.bytes(count), source.words(count)
        assert isinstance(data, bytes)
        assert len(data) == count
        assert words.shape == (count,)
        assert words.dtype == np.uint64
        words[:] = 0  # the caller's own memory


def test_only_the_keyed_source_calls_itself_deterministic() -> None:
    assert KeyedRandomness(KEY).deterministic is True
    assert SystemRandomness().deterministic is False


def test_the_keyed_stream_is_what_its_description_says() -> None:
    expected = chacha(derived(KEY, b"colonnade/randomness/stream/" + bytes(8)), 200)
    assert KeyedRandomness(KEY).bytes(200) == expected
    assert expected[:16].hex() == "d7a572e54d7460338e31eaa249f082a1"


@given(st.lists(st.integers(0, 300), max_size=12))
def test_the_keyed_stream_does_not_depend_on_how_calls_divide_it(counts: list[int]) -> None:
    source = KeyedRandomness(KEY)
    assert b"".join(source.bytes(count) for count in counts) == KeyedRandomness(KEY).bytes(sum(counts))


def test_a_new_key_is_derived_when_a_stretch_is_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(randomness, "REKEY_AFTER", 100)
    stretches = [derived(KEY, b"colonnade/randomness/stream/" + index.to_bytes(8, "big")) for index in range(3)]
    expected = b"".join(chacha(key, 100) for key in stretches)
    source = KeyedRandomness(KEY)
    assert source.bytes(30) + source.bytes(150) + source.bytes(120) == expected


def test_the_system_source_takes_a_new_key_when_a_stretch_is_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    monkeypatch.setattr(randomness, "REKEY_AFTER", 100)
    monkeypatch.setattr(os, "urandom", lambda count: taken.append(count) or bytes([len(taken)]) * count)
    assert SystemRandomness().bytes(250) == b"".join(chacha(bytes([i]) * 32, 100) for i in (1, 2, 3))[:250]


def test_other_keys_labels_and_depths_give_other_streams() -> None:
    sources = [KeyedRandomness(KEY), KeyedRandomness(bytes(32)), KeyedRandomness(KEY[::-1])]
    sources += [sources[0].spawn(label) for label in ("", "a", "b", "ab", "a/b", "stream", "ß", "1", "01")]
    sources += [sources[0].spawn("a").spawn("b"), sources[0].spawn("b").spawn("a"), sources[1].spawn("a")]
    streams = {source.bytes(32) for source in sources}
    assert len(streams) == len(sources)


def test_a_sub_stream_does_not_depend_on_what_was_drawn_before() -> None:
    used = KeyedRandomness(KEY)
    used.bytes(12_345)
    assert used.spawn("noise").bytes(64) == KeyedRandomness(KEY).spawn("noise").bytes(64)
    assert used.bytes(8) != KeyedRandomness(KEY).bytes(8)


def test_the_system_never_repeats_itself() -> None:
    sources = [SystemRandomness() for _ in range(50)]
    draws = [source.bytes(count) for source in sources for count in (16, 16, 100, 100, 1000)]
    assert len({draw[:16] for draw in draws}) == len(draws)


def _report(connection: object, source: SystemRandomness) -> None:
    connection.send_bytes(source.bytes(16) + source.bytes(1000))  # type: ignore[attr-defined]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_shares_no_bits_with_its_parent_or_its_siblings() -> None:
    source = SystemRandomness()
    source.bytes(1000)
    context = multiprocessing.get_context("fork")
    drawn = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons dislike forking with threads
        for _ in range(3):
            receiver, sender = context.Pipe(duplex=False)
            child = context.Process(target=_report, args=(sender, source))
            child.start()
            drawn.append(receiver.recv_bytes())
            child.join()
    drawn.append(source.bytes(16) + source.bytes(1000))
    assert len({draw[:16] for draw in drawn} | {draw[16:32] for draw in drawn}) == 2 * len(drawn)


def test_threads_divide_a_keyed_stream_between_them_without_overlap() -> None:
    source, barrier = KeyedRandomness(KEY), threading.Barrier(4)

    def take(_: int) -> list[bytes]:
        barrier.wait()
        return [source.bytes(800) for _ in range(200)]

    with ThreadPoolExecutor(4) as pool:
        chunks = [chunk for taken in pool.map(take, range(4)) for chunk in taken]
    whole = KeyedRandomness(KEY).bytes(800 * 800)
    assert sorted(chunks) == sorted(whole[start : start + 800] for start in range(0, len(whole), 800))


@pytest.mark.parametrize("name", ["system", "keyed"])
def test_bytes_are_uniform(name: str) -> None:
    source = SystemRandomness() if name == "system" else kit.source("uniform bytes")
    data = np.frombuffer(source.bytes(1 << 20), dtype=np.uint8)
    assert kit.chi_square_p(np.bincount(data, minlength=256), np.ones(256)) > kit.ALPHA
    pairs = data[::2].astype(int) // 16 * 16 + data[1::2] // 16
    assert kit.chi_square_p(np.bincount(pairs, minlength=256), np.ones(256)) > kit.ALPHA


@pytest.mark.parametrize("key", [b"", bytes(31), bytes(33), "k" * 32, None, bytearray(32), 7])
def test_a_bad_key_is_refused(key: object) -> None:
    with pytest.raises(BadInput):
        KeyedRandomness(key)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [-1, 1.0, True, None, "3", float("nan")])
@pytest.mark.parametrize("source", [SystemRandomness(), KeyedRandomness(KEY)], ids=["system", "keyed"])
def test_a_bad_count_is_refused(source: Randomness, count: object) -> None:
    for method in (source.bytes, source.words):
        with pytest.raises(BadInput):
            method(count)  # type: ignore[operator]


def test_a_key_is_never_shown() -> None:
    source = KeyedRandomness(KEY)
    for text in (repr(source), str(source), repr(source.spawn("a"))):
        assert KEY.hex() not in text
        assert repr(KEY) not in text
        assert "hidden" in text
