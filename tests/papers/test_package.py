"""`colonnade.papers` is loaded by name alone: the core runs without it, and registries take nothing from anybody else."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import colonnade as cn
from colonnade.conversations.endpoint import CONVERSATIONS
from colonnade.errors import BadInput
from colonnade.estimators.methods.method import METHODS, methods_of
from colonnade.party.steps import PRIVATE_STEPS
from colonnade.steps.kind import KINDS, PACKAGES, TASKS, Registry

SOURCE = Path(cn.__file__).parent

CORE_STUDIES = """
import sys
import colonnade as cn
import colonnade.service.party_folder, colonnade.service.served_party
federation = cn.datasets.three_organisations(people=300).federation(budget=cn.Budget(epsilon=20.0, delta=1e-4))
price = {"epsilon": 4.0, "delta": 1e-6}
cn.PCA(2, columns=["bank.age", "telco.minutes"], **price).fit(federation)
cn.KMeans(2, columns=["bank.age", "telco.minutes"], **price).fit(federation)
model = cn.LinearRegression("bank.income", columns=["telco.minutes"], **price).fit(federation)
model.evaluate(federation, **price)
loaded = [name for name in sys.modules if name.startswith("colonnade.papers")]
assert not loaded, loaded
cn.KMeans(2, columns=["bank.age", "telco.minutes"], method="independent", **price).preview(federation)
assert not any(name.startswith("colonnade.papers") for name in sys.modules)
cn.KMeans(2, columns=["bank.age", "telco.minutes"], method="sketch", **price).preview(federation)
assert "colonnade.papers.methods" in sys.modules
"""


def test_a_study_that_needs_no_papers_loads_none_at_the_coordinator_nor_at_a_party():
    subprocess.run([sys.executable, "-W", "ignore", "-c", CORE_STUDIES], check=True, timeout=300)


REGISTRIES = {
    "kinds": (KINDS, "gradient"),
    "tasks": (TASKS, ("clustering", "sketch")),
    "conversations": (CONVERSATIONS, "saga"),
    "private steps": (PRIVATE_STEPS, "rows"),
    "methods": (METHODS, ("LogisticRegression", "gradient")),
}


@pytest.mark.parametrize("name", REGISTRIES)
def test_a_registry_knows_what_the_package_adds_and_takes_nothing_from_anybody_else(name):
    registry, added = REGISTRIES[name]
    assert added in registry
    assert registry.get("nothing of that name") is None
    before = dict(registry)
    with pytest.raises(BadInput, match="no part of colonnade"):
        registry.register("somebody.else", {"new": object})
    with pytest.raises(BadInput, match="registered already"):
        registry.register("colonnade.papers.steps", {added: object})
    assert dict(registry) == before


def test_a_package_is_loaded_once_a_name_is_asked_for_that_the_core_lacks(monkeypatch):
    loaded = []
    monkeypatch.setattr("colonnade.steps.kind.import_module", loaded.append)
    registry: Registry[str, int] = Registry("room")
    registry.register("colonnade.core", {"one": 1})
    assert registry["one"] == 1
    assert loaded == []
    assert registry.get("two") is None
    assert loaded == [f"{package}.room" for package in PACKAGES] == ["colonnade.papers.room"]


@pytest.mark.full
def test_private_steps_are_loaded_by_the_partys_registry_and_by_no_other():
    """A registry of another room cannot reach them; only a party's code makes one of this room."""
    made = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "Registry"
        and ast.unparse(node.args[0]) == "'private'"
    }
    assert made == {"party/steps/__init__.py"}


def test_users_find_every_method_where_they_had_it():
    assert cn.KMeans.methods == ("secure", "independent", "sketch", "response", "coreset")
    assert cn.KMedian.methods == ("secure", "independent", "sketch", "response")
    assert cn.PCA.methods == ("secure", "sketch", "local")
    assert cn.LogisticRegression.methods == ("newton", "secure", "functional", "gradient")
    assert set(cn.LinearRegression.methods) == {"secure", "sketch", "functional", "coreset"}
    assert (cn.Moment.methods, cn.Coreset.methods) == (("local", "sketch"), ("importance", "uniform"))
    for name in cn.methods.__all__:
        assert getattr(cn.methods, name).__name__ == name
    with pytest.raises(AttributeError):
        cn.methods.Nothing  # noqa: B018


def test_a_users_subclass_has_the_methods_of_its_parent():
    class Mine(cn.KMeans):
        pass

    assert methods_of(Mine) == methods_of(cn.KMeans)
