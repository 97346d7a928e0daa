"""What the README and its companions claim: code that runs as printed, commands and files that exist."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from colonnade.cli import app
from colonnade.report import document as markup
from colonnade.service import study_keys
from colonnade.service.study_file import read
from tests.cli.studies import call

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def words(passage: str) -> list[str]:
    return passage.split()


def promise(name: str) -> str:
    """The promise that a document gives as a list, as one passage: without bullets and the words in bold that each opens with."""
    items = r"^\* \*\*Guarantee\.\*\* .*?which are not differentially private\.$"
    found = re.search(items, text(name), re.MULTILINE | re.DOTALL)
    assert found
    return " ".join(words(re.sub(r"^\* \*\*.*?\*\* ", "", found[0], flags=re.MULTILINE)))


@pytest.mark.parametrize("document", ["SECURITY.md", "docs/explanation/promise.md"])
def test_the_promise_is_the_same_wherever_it_stands(document: str) -> None:
    assert promise(document) == markup.PROMISE


def test_every_command_is_in_the_table_of_commands() -> None:
    verbs = set(re.findall(r"`colonnade (\w+)", text("docs/reference/commands.md")))
    for verb in verbs:
        assert call(verb, "--help").exit_code == 0, verb
    assert verbs == {info.name for info in app.registered_commands} | {info.name for info in app.registered_groups}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_file_that_a_document_names_exists(document: str) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", text(document))
    paths = re.findall(r"`((?:src|tests|examples|requirements|privacy|party|coordinator|cli)/[\w/.]+)`", text(document))
    for path in [*links, *paths]:
        assert (ROOT / path).exists() or (ROOT / "src" / "colonnade" / path).exists(), path


def test_the_table_of_what_exists_lists_every_estimator_and_method() -> None:
    table = text("docs/reference/estimators.md")
    for name, kind in study_keys.estimators().items():
        for method in kind.methods:
            assert re.search(rf"\| `{name}` \| `\"{method}\"`", table), (name, method)


def test_the_page_that_helps_to_choose_names_each_study_with_its_own_methods() -> None:
    kinds, chosen = study_keys.estimators(), set()
    for line in re.findall(r"^\| `.*$", text("docs/how-to/choose-a-method.md"), re.MULTILINE):
        studies, default, *others = line.strip("|").split("|")
        for name in set(re.findall(r"`(\w+)`", studies)) & set(kinds):
            methods = list(kinds[name].methods)
            assert re.findall(r'`"(\w+)"`', default)[0] == methods[0]
            assert set(re.findall(r'`"(\w+)"`', " ".join([default, *others]))) <= set(methods), line
            chosen.add(name)
    assert len(chosen) > len(kinds) / 2


def test_the_tested_versions_name_packages_and_versions_and_nothing_else() -> None:
    lines = text("requirements/tested.txt").splitlines()
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][\w.]*", line) for line in lines)
    names = {line.partition("==")[0] for line in lines}
    project = tomllib.loads(text("pyproject.toml"))["project"]
    extras = project["optional-dependencies"]
    taken = [
        *project["dependencies"],
        *(one for extra in ("dev", "plots", "network", "dashboard", "docs") for one in extras[extra]),
    ]
    assert {re.match(r"[\w-]+", one)[0].lower() for one in taken} - {"colonnade"} <= names
    assert "colonnade" not in names


@pytest.mark.full
def test_the_example_study_is_valid_and_its_data_can_be_made(tmp_path: Path) -> None:
    for name in ("study.toml", "make_data.py"):
        (tmp_path / name).write_text(text(f"examples/{name}"), encoding="utf-8")
    assert [asked.title for asked in read(tmp_path / "study.toml").studies]
    subprocess.run([sys.executable, tmp_path / "make_data.py"], check=True, cwd=tmp_path)
    result = call("run", tmp_path / "study.toml")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("policy", sorted(ROOT.glob("examples/**/policy.toml")), ids=lambda path: path.parent.name)
def test_an_example_policy_that_allows_matching_does_not_say_that_nothing_leaves_without_privacy(policy: Path) -> None:
    rules, words = tomllib.loads(policy.read_text())["policy"], policy.read_text()
    assert "nothing leaves" not in words
    if {"intersection", "union"} & set(rules["alignments"]):
        assert "NOT private" in next(line for line in words.splitlines() if line.startswith("alignments"))
