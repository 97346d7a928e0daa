"""Ids in one normal form: what counts as the same person is agreed, and faults are counted, never quoted."""

import unicodedata

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import BadInput, PlanMismatch
from colonnade.party.table.row_order import normal_ids
from colonnade.steps.alignment import IdRules

PLAIN = IdRules()


def normal(ids, rules=PLAIN, kind=None):
    return normal_ids(pa.array(ids, type=kind), rules, party="bank")


def test_numbers_and_their_digits_are_the_same_id():
    assert normal([1, 20, -3]) == normal(["1", "20", "-3"]) == [b"1", b"20", b"-3"]


def test_whole_numbers_are_read_from_text_of_any_width():
    rules = IdRules(kind="whole")
    assert normal(["007", " 8 ", "+9", "-0"], rules) == [b"7", b"8", b"9", b"0"]


def test_text_that_is_no_number_is_refused_without_telling_how_much_there_is():
    with pytest.raises(BadInput, match="'bank': some ids are not whole"):
        normal(["1", "x", "1.5"], IdRules(kind="whole"))


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_every_way_to_write_an_accent_is_the_same_id(form):
    assert normal([unicodedata.normalize(form, "Zoë Ångström")]) == normal(["Zoë Ångström"])


def test_case_is_kept_unless_the_rules_fold_it():
    assert normal(["Ann"]) != normal(["ann"])
    assert normal(["STRASSE", "x"], IdRules(case="fold")) == normal(["straße", "X"], IdRules(case="fold"))


def test_white_space_at_the_ends_goes_unless_the_rules_keep_it():
    assert normal([" a b\t"]) == [b"a b"]
    assert normal([" a"], IdRules(strip=False)) == [b" a"]


def test_without_a_form_text_is_compared_as_it_is():
    assert len(normal(["é", "e\u0301"], IdRules(form=""))) == 2


@pytest.mark.parametrize(
    ("ids", "fault"),
    [
        (["a", None, "b"], "1 missing ids"),
        (["a", " ", ""], "2 missing ids"),
        (["é", "e\u0301", "x"], "1 repeated ids"),
        (["a", "a ", " a", None], "1 missing and 2 repeated ids"),
    ],
)
def test_missing_and_repeated_ids_are_an_error_that_names_the_party_and_the_count(ids, fault):
    with pytest.raises(BadInput, match="'bank'") as caught:
        normal(ids)
    assert fault in caught.value.message


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=4), min_size=2))
def test_no_error_quotes_an_id(ids):
    with pytest.raises(BadInput) as caught:
        normal([f"secret{one}secret" for one in [*ids, ids[0]]], kind=pa.large_string())
    assert "secret" not in str(caught.value)


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=4), unique=True))
def test_the_normal_form_is_its_own_normal_form(ids):
    rules = IdRules(case="fold")
    try:
        once = normal(ids, rules, pa.large_string())
    except BadInput:
        return
    assert normal([one.decode() for one in once], IdRules(), pa.large_string()) == [
        unicodedata.normalize("NFC", one.decode()).strip().encode() for one in once
    ]


def test_an_empty_list_is_a_list():
    assert normal([], kind=pa.large_string()) == []


@pytest.mark.parametrize("wrong", [{"kind": "int"}, {"form": "nfc"}, {"case": "lower"}, {"strip": 1}])
def test_rules_that_nobody_knows_are_refused(wrong):
    with pytest.raises(BadInput):
        IdRules(**wrong)


def test_a_plan_without_rules_is_refused():
    with pytest.raises(PlanMismatch):
        IdRules.read({"kind": "text"})
