"""The walk through the code that the documentation describes is the one that real studies take."""

import json
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

import colonnade

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explanation" / "walk.md"
SOURCE = Path(colonnade.__file__).parent
BARS = tomllib.loads((ROOT / "tests" / "bars.toml").read_text(encoding="utf-8"))["walks"]
STUDIES = ("PCA", "KMeans by sketches", "LogisticRegression", "evaluate")

PROGRAM = """
import inspect, json, sys, threading
import numpy, pandas
import colonnade as cn

SOURCE = sys.argv[1] + "/"
crossed, watching = {}, False

def watch(frame, event, argument):
    code = frame.f_code
    if event != "call" or not watching or not code.co_filename.startswith(SOURCE):
        return
    if code.co_name != "<module>" and "__qualname__" not in code.co_names:  # the body of a class that is imported late
        crossed.setdefault(code.co_filename.removeprefix(SOURCE))

def walked(study, *arguments, **keywords):
    global watching
    crossed.clear()
    watching = True
    study(*arguments, **keywords)
    watching = False
    return list(crossed)

def federation():
    people, numbers = 400, numpy.random.default_rng(7)
    def party(*columns):
        table = {"person_id": range(people), **{name: numbers.uniform(0, 100, people) for name in columns}}
        kinds = {name: cn.Numeric(0, 100) for name in columns}
        if "premium" in columns:
            table["late"], kinds["late"] = numpy.where(table["claims"] > 50, "yes", "no"), cn.Category(["no", "yes"])
        return cn.Party(pandas.DataFrame(table), schema=cn.Schema(kinds))
    parties = {"bank": party("age", "income"), "telco": party("bill", "calls"), "insurer": party("claims", "premium")}
    return cn.Federation.simulate(parties, id="person_id", budget=cn.Budget(epsilon=20.0, delta=1e-4))

threading.setprofile(watch)  # before the parties' threads start
sys.setprofile(watch)
price = {"epsilon": 5.0, "delta": 1e-6}
four = [federation() for _ in range(4)]
numbers = ["bank.age", "bank.income", "telco.bill", "telco.calls", "insurer.claims", "insurer.premium"]
components = cn.PCA(2, columns=numbers, **price)
clusters = cn.KMeans(3, columns=numbers, method="sketch", **price)
model = cn.LinearRegression("insurer.premium", columns=numbers[:-1], **price)
defaults = cn.LogisticRegression("insurer.late", columns=numbers[:4], **price)
print(json.dumps({
    "PCA": walked(components.fit, four[0]),
    "KMeans by sketches": walked(clusters.fit, four[1]),
    "LogisticRegression": walked(defaults.fit, four[2]),
    "evaluate": walked(model.fit(four[3]).evaluate, four[3], **price),
}))
"""


@cache
def walks() -> dict[str, list[str]]:
    """Return the modules in which a function was called, by study, in the order in which they were first entered."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, str(SOURCE)],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def room(module: str) -> str:
    return module.rpartition("/")[0] or "colonnade"


def section(study: str) -> str:
    found = re.search(rf"^## {study}$(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found, f"walk.md has no section on {study}"
    return found[1]


def rows(study: str) -> list[tuple[str, list[str]]]:
    """Return the rooms of a study's table with the modules named there, in the page's order."""
    found = re.findall(r"^\| `([\w/]+)/` \| (.*?) \|", section(study), re.MULTILINE)
    return [(name, re.findall(r"`(\w+\.py)`", modules)) for name, modules in found]


def called_on_the_way(study: str) -> set[str]:
    (line,) = re.findall(r"^Called on the way: (.*)$", section(study), re.MULTILINE)
    return set(re.findall(r"`([\w/]+)/`", line))


@pytest.mark.parametrize("study", STUDIES)
def test_a_study_crosses_the_rooms_that_the_page_lists(study):
    listed = {name for name, _ in rows(study)} | called_on_the_way(study)
    assert {room(module) for module in walks()[study]} == listed


@pytest.mark.parametrize("study", STUDIES)
def test_rooms_are_listed_in_the_order_in_which_a_study_enters_them(study):
    listed = list(dict.fromkeys(name for name, _ in rows(study)))
    entered = list(dict.fromkeys(room(module) for module in walks()[study]))
    assert [name for name in entered if name in listed] == listed


@pytest.mark.parametrize("study", STUDIES)
def test_every_module_that_the_page_names_is_on_the_way(study):
    named = {f"{name}/{module}" for name, modules in rows(study) for module in modules}
    assert named - set(walks()[study]) == set()


@pytest.mark.parametrize("study", STUDIES)
def test_a_way_has_as_many_modules_as_its_bar_and_the_page_say(study):
    """A bar is lowered with every module that leaves the way, and never raised."""
    crossed = len(walks()[study])
    assert crossed == BARS[study]
    assert f"crosses {crossed} modules" in section(study)


def test_the_watch_sees_what_parties_do_in_their_threads():
    assert "party/ledger/ledger.py" in walks()["evaluate"]  # debits are made in a party's thread
