"""Ids in common, in one order; and errors that count ids without showing one."""

import hashlib
import itertools
import struct
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import BadInput
from colonnade.party.table.row_order import align, common_ids, read_ids
from colonnade.party.table.sources import Source
from tests.party.test_sources import CANARY, KINDS, everything_said, make


def ids_of(cells: object, kind: str = "pandas", folder: Path | None = None) -> pa.Array:
    frame = pd.DataFrame({"id": cells, "other": range(len(cells))})
    return read_ids(Source(make(kind, frame, folder)), "id", party="bank")


def refused(cells: object, kind: str = "pandas", folder: Path | None = None) -> str:
    with pytest.raises(BadInput) as caught:
        ids_of(cells, kind, folder)
    assert CANARY not in everything_said(caught.value)
    assert caught.value.spent is None
    assert caught.value.remedy
    return caught.value.message


@pytest.mark.every(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cells", [[30, 10, 20], ["c30", "a10", "é"], ["007", "7", "08"]])
def test_ids_are_the_same_from_every_source(kind: str, cells: list, tmp_path: Path) -> None:
    ids = ids_of(cells, kind, tmp_path)
    assert ids.to_pylist() == cells
    assert ids.type == (pa.int64() if isinstance(cells[0], int) else pa.large_string())


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([424242, 424242, 7], "1 repeated"),
        ([424242.0, None, 7.0], "1 missing"),
        ([424242.5, 1.0], "1 ids are not whole"),
        ([float("inf"), 424242.0], "1 ids are too large to be exact"),
        ([2.0**54, 424242.0], "1 ids are too large to be exact"),
        (np.array([2**64 - 1, 424242], dtype=np.uint64), "1 ids are beyond"),
        (["", CANARY], "1 missing"),
        ([True, False], "neither text nor whole"),
        ([pd.Timestamp(2020, 1, 1)], "neither text nor whole"),
    ],
)
def test_ids_that_are_none_are_refused(cells: object, said: str) -> None:
    message = refused(cells)
    assert said in message
    assert "424242" not in message


def test_ids_of_broken_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "broken.csv"
    path.write_bytes(b"id\n" + CANARY.encode() + b"\xff\n")
    with pytest.raises(BadInput, match="UTF-8") as caught:
        read_ids(Source(path), "id", party="bank")
    assert CANARY not in everything_said(caught.value)


def test_text_is_ordered_by_its_bytes_in_normal_form() -> None:
    composed, decomposed = "é", unicodedata.normalize("NFD", "é")
    ids = pa.array(["z", "Z", decomposed, "10", "9 ", "𐍈", "\uffee"], pa.large_string())
    normal = ["10", "9", "Z", "z", composed, "\uffee", "𐍈"]
    assert common_ids({"bank": ids}).to_pylist() == normal == sorted(normal, key=lambda text: text.encode())
    with pytest.raises(BadInput, match="1 repeated"):
        common_ids({"bank": pa.array([composed, decomposed], pa.large_string())})


kinds = st.sampled_from(
    [
        st.integers(-(2**63), 2**63 - 1),
        st.integers(0, 60),
        st.text(st.characters(codec="utf-8", categories=("L", "N", "S")), min_size=1).map(
            lambda text: unicodedata.normalize("NFC", text)
        ),
    ]
)


@given(
    kinds.flatmap(lambda ids: st.lists(ids, unique=True, min_size=1, max_size=8)).flatmap(
        lambda common: st.tuples(
            st.just(common),
            st.lists(st.tuples(st.permutations(common), st.sets(st.sampled_from(common))), min_size=1, max_size=4),
        )
    )
)
def test_everybody_in_common_stands_in_the_same_place_at_every_party(drawn: tuple) -> None:
    universe, draws = drawn
    kind = pa.int64() if isinstance(universe[0], int) else pa.large_string()
    lists = [[id_ for id_ in shuffled if id_ not in left_out] for shuffled, left_out in draws]
    tables = {f"party{number}": pa.array(ids, kind) for number, ids in enumerate(lists)}
    key = (lambda id_: id_) if kind == pa.int64() else (lambda id_: id_.encode())
    shared = sorted(set.intersection(*map(set, lists)), key=key)
    if not shared:
        with pytest.raises(BadInput):
            common_ids(tables)
        return
    parts = {party: align(ids, common_ids(tables), party=party) for party, ids in tables.items()}
    assert len({part.identity for part in parts.values()}) == 1
    for part, ids in zip(parts.values(), lists, strict=True):
        assert part.people == len(shared)
        assert part.rows.dtype == np.int64
        assert [ids[row] for row in part.rows] == shared


def test_an_identity_is_32_bytes_and_changes_with_the_ids_their_kind_and_the_mode() -> None:
    lists = [
        pa.array([1, 2]),
        pa.array([1, 3]),
        pa.array([1]),
        pa.array(["1", "2"], pa.large_string()),
        pa.array(["12"], pa.large_string()),
        pa.array(["1", "2", "3"], pa.large_string()),
        pa.array(["1", "23"], pa.large_string()),
        pa.array(["12", "3"], pa.large_string()),
    ]
    names = [align(ids, ids, party="bank", mode=mode).identity for ids in lists for mode in ("intersection", "cohort")]
    assert all(len(bytes.fromhex(name)) == 32 for name in names)
    assert all(one != other for one, other in itertools.combinations(names, 2))


def test_an_identity_is_the_hash_that_is_documented() -> None:
    """Plans name alignments by it: it must not drift between versions."""
    head = b"colonnade alignment 1\0intersection "
    numbers = pa.array([1, 2])
    by_hand = hashlib.sha256(head + b"whole 2\0" + struct.pack("<2q", 1, 2))
    assert align(numbers, numbers, party="x").identity == by_hand.hexdigest()
    text = pa.array(["a", "bc"], pa.large_string())
    by_hand = hashlib.sha256(head + b"text 2\0" + struct.pack("<2q", 1, 2) + b"abc")
    assert align(text, text, party="x").identity == by_hand.hexdigest()


def test_a_party_that_lacks_a_common_id_says_how_many_or_has_null_records() -> None:
    ids, common = pa.array([424242, 5, 9]), pa.array([5, 7, 8, 9])
    with pytest.raises(BadInput, match="'bank' lacks 2 of the 4"):
        align(ids, common, party="bank")
    assert align(ids, common, party="bank", mode="cohort").rows.tolist() == [1, -1, -1, 2]
