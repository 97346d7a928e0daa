"""The table of refusals in SECURITY.md is true: current, complete, and nothing in it comes from rows."""

import ast

import pytest

from colonnade.party import gate
from tests.party import refusal_table
from tests.party.refusal_table import Text, UnknownWordsError


def test_the_table_in_security_md_is_what_the_source_says():
    assert refusal_table.written() == refusal_table.table(), "python -m tests.party.refusal_table --write"


def test_every_word_that_is_filled_into_a_refusal_is_a_public_fact():
    for text in refusal_table.texts():
        assert set(text.depends) <= {"coins", "declared facts", "ledger", "message", "nothing", "plan", "policy"}


def test_every_public_fact_that_is_listed_is_still_used():
    used = {(text.module, words) for text in refusal_table.texts() for words in text.filled_in}
    assert set(refusal_table.FILLED_IN) <= used


@pytest.mark.parametrize(
    "source",
    [
        'raise BadInput(f"There are {len(rows)} rows.")',
        'raise BadInput("Of these ids: " + str(ids))',
        "raise BadInput(words)",
        'raise BadInput("Ids repeat.", remedy=f"Drop {count} of them.")',
        'raise BadInput("Rows: {}".format(rows))',
    ],
)
def test_words_that_come_from_somewhere_else_are_noticed(source):
    call = next(node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    with pytest.raises(UnknownWordsError):
        _ = refusal_table._text("colonnade.party.gate", "f", call).depends


def test_a_module_that_begins_to_speak_needs_a_line_about_what_it_looks_at():
    with pytest.raises(UnknownWordsError):
        _ = Text("colonnade.estimators", "f", "bad-input", "No.", "", ()).depends


def test_modules_that_see_rows_do_not_speak_and_those_that_answer_do():
    speaking = refusal_table.speaking()
    assert not [name for name in speaking if name.startswith(refusal_table.AMONG_ROWS)]
    assert {"colonnade.party.policy", "colonnade.party.ledger.ledger", "colonnade.conversations.products"} <= set(
        speaking
    )


def test_the_gate_touches_its_table_among_rows_only():
    """Nothing else has a table (tests/test_structure.py), so everything that is given one runs among rows."""
    tree = refusal_table.tree_of(gate.__name__)
    inside = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.With) and any("among_rows()" in ast.unparse(item) for item in block.items)
        for node in ast.walk(block)
    }
    passing_on = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and function.name in ("__init__", "reordered")
        for node in ast.walk(function)
    }
    touched = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "_table"]
    assert len(touched) > 5
    assert [node.lineno for node in touched if id(node) not in inside | passing_on] == []
