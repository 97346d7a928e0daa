"""Ids in one normal form: what counts as the same person is agreed, and no list is refused for what the rules make of it."""

import unicodedata

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import BadInput
from colonnade.party.table.row_order import comparable_ids, normal_ids
from colonnade.steps.alignment import IdRules

PLAIN = IdRules()


def normal(ids, rules=PLAIN, kind=None):
    return comparable_ids(pa.array(ids, type=kind), rules).ids


def rows(ids, rules=PLAIN, kind=None):
    return comparable_ids(pa.array(ids, type=kind), rules).rows.tolist()


def test_whole_numbers_are_read_from_text_of_any_width():
    rules = IdRules(kind="whole")
    assert normal(["007", " 8 ", "+9", "-0"], rules) == [b"7", b"8", b"9", b"0"]


@pytest.mark.every(2)
@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_every_way_to_write_an_accent_is_the_same_id(form):
    assert normal([unicodedata.normalize(form, "Zoë Ångström")]) == normal(["Zoë Ångström"])


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("ids", "kept"),
    [
        (["a", None, "b"], [0, 2]),
        (["a", " ", ""], [0]),
        (["é", "e\u0301", "x"], [2]),
        (["a", "a ", " a", None], []),
        ([None, " "], []),
    ],
)
def test_missing_ids_have_no_place_and_ids_that_become_equal_have_none_either(ids, kept):
    assert rows(ids, kind=pa.large_string()) == kept


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=4)


@given(st.lists(texts, unique=True), texts, st.sampled_from(["text", "whole"]), st.sampled_from(["keep", "fold"]))
def test_one_more_person_changes_at_most_one_of_the_comparable_ids(ids, newcomer, kind, case):
    """The sensitivity of everything that is computed from a list: somebody joins, and one id appears or disappears."""
    rules = IdRules(kind=kind, case=case)
    before = set(normal(ids, rules, pa.large_string()))
    after = set(normal([*ids, newcomer], rules, pa.large_string()))
    assert len(before ^ after) <= 1


@given(st.lists(st.one_of(texts, st.none())), st.sampled_from(["text", "whole"]), st.sampled_from(["NFC", "NFKC", ""]))
def test_no_list_is_refused_and_every_comparable_id_is_of_its_own_row(ids, kind, form):
    rules = IdRules(kind=kind, form=form, case="fold")
    found = comparable_ids(pa.array(ids, type=pa.large_string()), rules)
    forms = normal_ids(pa.array(ids, type=pa.large_string()), rules).to_pylist()
    assert [forms[row] for row in found.rows] == [one.decode() for one in found.ids]
    assert len(set(found.ids)) == len(found.ids)
    assert set(forms) - {None} - {one for one in forms if forms.count(one) > 1} == {one.decode() for one in found.ids}


@pytest.mark.parametrize("wrong", [{"kind": "int"}, {"form": "nfc"}, {"case": "lower"}, {"strip": 1}])
def test_rules_that_nobody_knows_are_refused(wrong):
    with pytest.raises(BadInput):
        IdRules(**wrong)
