"""The checks of style in tools/style.py complain about what they are for."""

import importlib.util
from pathlib import Path

import pytest

PATH = Path(__file__).parents[1] / "tools" / "style.py"
OFFENCES = {
    "every_module_says_what_it_is": "x = 1\n",
    "no_name_is_a_drawer_for_odds_and_ends": '"""A module."""\n\nclass TableManager: ...\n',
    "a_public_function_longer_than_it_looks_says_what_it_does": "def add(x):\n    a = x\n    b = a\n    c = b\n    return c\n",
    "a_test_that_a_docstring_names_exists": '"""Checked by tests/nowhere/test_nothing.py."""\n',
    "a_kinds_name_is_written_once_and_compared_by_its_own_modules": "def f(step):\n    return step.kind\n",
    "a_file_that_a_page_names_exists": "See `party/nowhere.py`.\n",
    "a_page_is_in_plain_words_and_cites_papers_by_name": "Hence it holds.\n",
}
FINE = '"""A module."""\n\ndef short(x):\n    return x\n\ndef _own(x):\n    a = x\n    b = a\n    c = b\n    return c\n'


@pytest.fixture(scope="module")
def style():
    spec = importlib.util.spec_from_file_location("style", PATH)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.mark.parametrize("check", OFFENCES)
def test_a_check_complains_about_its_offence_and_about_nothing_else(style, check, tmp_path, monkeypatch):
    written = tmp_path / "written.py"
    monkeypatch.setattr(style, "SOURCE", tmp_path)
    monkeypatch.setattr(style, "FILES", [written])
    monkeypatch.setattr(style, "PAGES", [written])
    for text, offends in ((OFFENCES[check], True), (FINE, False)):
        written.write_text(text)
        style.tree.cache_clear()
        assert bool(list(getattr(style, check)())) == offends
    style.tree.cache_clear()
