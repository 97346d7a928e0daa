"""A map that does not show its keys."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import ProtocolError
from colonnade.secure.matching import HiddenMap, slots_for
from tests import kit


def words(count: int, name: str) -> np.ndarray:
    return kit.source(f"hidden map {name}").words(2 * count).reshape(count, 2)


@given(st.integers(0, 300), st.integers(0, 5))
def test_every_written_key_reads_its_value(count, number):
    keys, values = words(count, f"keys {number}"), words(count, f"values {number}")
    written = HiddenMap.write(keys, values, kit.source("filling"))
    assert (written.read(keys) == values).all()
    assert len(written.table) == slots_for(count)


def test_a_key_that_was_not_written_reads_noise():
    written = HiddenMap.write(words(500, "keys"), words(500, "values"), kit.source("filling"))
    read = written.read(words(2_000, "others"))
    ones = np.unpackbits(read.view(np.uint8).reshape(-1)).sum(dtype=int)
    assert abs(ones - read.nbytes * 4) < 8 * np.sqrt(read.nbytes * 2)
    assert len(np.unique(read[:, 0])) == len(read)


def test_the_table_looks_the_same_whatever_the_keys():
    """With uniform values each bit of each slot is a fair coin, for keys that crowd as for keys that spread."""
    crowded = np.stack([np.arange(300, dtype=np.uint64), np.zeros(300, dtype=np.uint64)], axis=1)
    for name, keys in (("crowded", crowded), ("spread", words(300, "spread"))):
        counts = np.zeros(256)
        for number in range(20):
            written = HiddenMap.write(keys, words(300, f"value {name} {number}"), kit.source(f"fill {name} {number}"))
            counts += np.bincount(written.table.view(np.uint8).reshape(-1), minlength=256)
        assert kit.chi_square_p(counts, np.full(256, 1 / 256)) > kit.ALPHA


def test_how_many_salts_are_tried_depends_on_the_number_of_keys_only():
    salts = [
        [HiddenMap.write(words(64, f"{name} {k}"), words(64, f"v{k}"), kit.source("f")).salt for k in range(300)]
        for name in ("one list", "another")
    ]
    tried = np.array([np.bincount(np.minimum(one, 2), minlength=3) for one in salts])
    assert abs(tried[0, 0] - tried[1, 0]) < 60  # both are mostly placed at once


@pytest.mark.parametrize(("salt", "slots"), [(-1, 99), (1_000, 99), (0, 100)])
def test_a_malformed_map_is_refused(salt, slots):
    with pytest.raises(ProtocolError):
        HiddenMap(salt, words(slots, "table")).read(words(1, "key"))
