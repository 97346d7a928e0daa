"""What SECURITY.md rests on and a reader of the code can check: who may import, name, hold and write what.

Each test looks at every file and lists all that offend. What is only style is in tools/style.py, which `make lint` runs.
"""

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

import colonnade as cn
from colonnade import errors
from colonnade.errors import ColonnadeError
from colonnade.party.ledger.chain import LedgerView
from colonnade.party.ledger.ledger import Hold, SqliteLedger
from colonnade.party.steps import PRIVATE_STEPS
from colonnade.steps.kind import KINDS, StepKind

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "colonnade"
FILES = sorted(SOURCE.rglob("*.py"))
DASK = SOURCE / "party" / "table" / "dask_cluster.py"
MODULES = sorted(
    {"colonnade", *(found.name for found in pkgutil.walk_packages(cn.__path__, "colonnade."))}
    - {"colonnade.cli.__main__"}
)
OPTIONAL = {"nvflare", "dask", "polars", "flwr", "opendp", "mpyc", "matplotlib", "torch", "mbi", "jax"}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def offenders(offence: Callable[[Path], object], files: list[Path] = FILES) -> dict[str, object]:
    """What is wrong with each file with which anything is wrong."""
    return {str(path.relative_to(ROOT)): found for path in files if (found := offence(path))}


def modules(names: list[str]) -> list:
    """Import modules; one that needs an extra which is not installed is left out."""
    found = []
    for name in names:
        try:
            found.append(importlib.import_module(name))
        except ModuleNotFoundError as error:
            if error.name is None or error.name.split(".")[0] not in OPTIONAL:
                raise
    return found


def imports(path: Path) -> set[str]:
    """Every module that a file imports, as written, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def _written(node: ast.expr) -> str:
    """The last name of an expression: what a variable, an attribute or an imported class is called."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


# What may be imported and named -----------------------------------------------------------------------------------------------


def test_nothing_insecure_is_imported():
    banned = {"pickle", "marshal", "random", "secrets", "shelve", "dill", "cloudpickle", "joblib"}

    def offence(path):
        here = banned - {"cloudpickle"} if path == DASK else banned
        return {name for name in imports(path) if name == "numpy.random" or name.split(".")[0] in here}

    assert offenders(offence) == {}


def test_one_module_pickles_and_talks_to_dask_and_what_it_pickles_goes_to_a_partys_own_workers():
    asked = re.compile(r"(?:import|import_module\(\")\s*(dask|distributed|cloudpickle)\b")
    assert list(offenders(lambda path: asked.findall(path.read_text()))) == [str(DASK.relative_to(ROOT))]


def test_the_generator_of_public_choices_is_the_only_use_of_numpys_generators():
    def offence(path):
        uses = [node for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute) and node.attr == "random"]
        return [node.lineno for node in uses if _written(node.value) in {"np", "numpy", "torch"}]

    assert set(offenders(offence)) <= {"src/colonnade/runtime/public_coins.py"}


def test_what_is_not_yet_perturbed_is_named_so_only_where_data_is():
    places = {SOURCE / "party", SOURCE / "privacy" / "laws", SOURCE / "audit.py"}
    places |= {SOURCE / "papers" / f"{name}.py" for name in ("private", "laws", "attack")}

    def offence(path):
        nodes = list(ast.walk(tree(path)))
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        names |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        return [name for name in names if name.startswith("nonprivate_") or name == "nonprivate"]

    assert offenders(offence, [path for path in FILES if not places & {path, *path.parents}]) == {}


# Examples and errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "folder", sorted({"colonnade" if name.count(".") < 2 else name.split(".")[1] for name in MODULES})
)
def test_every_example_runs(folder):
    inside = [name for name in MODULES if name.startswith(f"colonnade.{folder}.") or name == f"colonnade.{folder}"]
    inside = inside or [name for name in MODULES if name.count(".") < 2]
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS, verbose=False)
    report: list[str] = []
    for one in modules(inside):
        for example in doctest.DocTestFinder(exclude_empty=True).find(one, one.__name__):
            runner.run(example, out=report.append)
    assert not runner.failures, "".join(report)


def test_every_error_has_a_code_of_its_own_and_a_remedy():
    kinds = [kind for kind in vars(errors).values() if inspect.isclass(kind) and kind.__module__ == errors.__name__]
    kinds = [kind for kind in kinds if issubclass(kind, Exception)]
    assert len(kinds) > 10
    codes = [kind.code for kind in kinds]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in codes)
    for kind in kinds:
        assert issubclass(kind, ColonnadeError)
        assert kind.default_remedy
        assert errors.error_for(kind.code) is kind
    assert len({kind.default_remedy for kind in kinds}) == len(kinds)


# Kinds of step --------------------------------------------------------------------------------------------------------------


def kinds_of_step() -> set[type[StepKind]]:
    """Every kind of step that has a name, wherever it is defined."""
    public = ("colonnade.steps.", "colonnade.papers.steps")
    modules([name for name in MODULES if name.startswith(public)])
    classes, found = [StepKind], set()
    while classes:
        one = classes.pop()
        classes += one.__subclasses__()
        if "name" in vars(one) and one.__module__.startswith(public):
            found.add(one)
    return found


def test_the_registry_has_every_kind_of_step_under_its_name_and_each_has_a_private_step():
    assert set(KINDS.values()) == kinds_of_step()
    assert all(kind.name == name for name, kind in KINDS.items())
    assert set(PRIVATE_STEPS) == set(KINDS)


def test_a_kind_of_step_is_two_classes_of_one_name_with_a_title_and_words():
    for name, kind in KINDS.items():
        private = PRIVATE_STEPS[name]
        homes = ("colonnade.papers.steps", "colonnade.papers.private")
        assert (kind.__module__, private.__module__) == homes or (
            kind.__module__.startswith("colonnade.steps.") and private.__module__.startswith("colonnade.party.steps.")
        ), name
        assert kind in private.kinds, name
        decided = {"name", "title", "conversation", "permission", "admission", "law", "loss", "openings"}
        assert not decided & set(vars(private)), f"{name}: what the kind says the private step does not change"
        assert kind.title, name
        step = kind.ask(name="s", party="bank", columns=("age", "segment"), price=None)
        assert kind.in_words({"bank": step}) == f"{kind.title} of bank.age and bank.segment"
        assert kind.in_words({"bank": kind.ask(name="s", party="bank", price=None)}) == kind.title


def test_a_kind_of_step_leaves_a_party_by_one_of_the_gates_ways_out():
    """A conversation is joined. What is no conversation has a law, or is disclosed by name."""
    for name, kind in KINDS.items():
        private = PRIVATE_STEPS[name]
        released = kind.law is not StepKind.law and hasattr(private, "compute")
        assert [bool(kind.conversation), released, hasattr(private, "disclose")].count(True) == 1, name
        assert bool(kind.conversation) == hasattr(private, "join"), name


# One door -------------------------------------------------------------------------------------------------------------------

PARTY = SOURCE / "party"
GATE = PARTY / "gate.py"
INSIDE = [path for path in FILES if PARTY in path.parents and path != GATE and PARTY / "ledger" not in path.parents]
INSIDE.append(SOURCE / "papers" / "private.py")
RECORDS = {f"colonnade.party.ledger.{name}" for name in ("decisions", "rows", "words")}
"""What says what is written, and writes no row: modules of the ledger's folder."""
HOLD = {"colonnade.party.ledger.ledger", "colonnade.party.ledger.ledger.Hold"}
"""What a policy looks at besides: what is held for other studies, a record by itself."""
WRITES = {
    "debit",
    "reserve",
    "keep_key",
    "keep_plan",
    "record_alignment",
    "record_list",
    "record_nonprivate",
    "seal",
    "commit",
    "hold",
    "sign_hold",
    "begin_hold",
    "end_hold",
}
OWNERS = {"create", "decide", "declare_version", "forfeit"}


def test_the_ledgers_write_methods_are_those_that_the_door_is_about():
    """Besides them only the owner of a ledger writes: its ceiling, the version of the data, what was spent elsewhere."""
    (ledger,) = (
        node
        for node in tree(PARTY / "ledger" / "ledger.py").body
        if isinstance(node, ast.ClassDef) and node.name == SqliteLedger.__name__
    )
    writing = {"append", "answer", "hand_over", "_append", "_keep", "make", "sign", "begin", "withdraw"}
    writers = {
        method.name
        for method in ledger.body
        if isinstance(method, ast.FunctionDef)
        and any(isinstance(node, ast.Attribute) and node.attr in writing for node in ast.walk(method))
    }
    assert {name for name in writers if not name.startswith("_")} == WRITES | OWNERS


def test_nothing_at_a_party_but_the_gate_writes_to_the_ledger():
    """Parts of conversations call verbs of the step that the gate admitted, which have some of the same names."""

    def offence(path):
        calls = [node.func for node in ast.walk(tree(path)) if isinstance(node, ast.Call)]
        verbs = [call for call in calls if isinstance(call, ast.Attribute) and call.attr in WRITES]
        return {_written(call.value) for call in verbs} - {"admitted", "_admitted"}

    assert offenders(offence, INSIDE) == {}


def test_nothing_at_a_party_but_the_gate_reaches_the_ledger_the_noise_or_what_the_gate_keeps():
    def offence(path):
        held = [node for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute)]
        kept = {node.attr for node in held} & {"_ledger", "_randomness"}
        tables = {_written(node.value) for node in held if node.attr == "_table"} - {"self"}
        samplers = {name for name in imports(path) if name.startswith("colonnade.privacy.samplers")}
        ledgers = {name for name in imports(path) if name.startswith("colonnade.party.ledger.")}
        ledgers = {name for name in ledgers if not {name, name.rpartition(".")[0]} & RECORDS}
        ledgers -= HOLD if path == PARTY / "policy.py" else set()
        opens = path == PARTY / "party.py"  # it opens a ledger, and gives it to a gate
        return kept | tables | samplers | (set() if opens else ledgers)

    assert offenders(offence, INSIDE) == {}


def test_what_is_held_is_a_record_and_no_way_to_the_ledger():
    assert Hold.__dataclass_params__.frozen
    assert {field.name for field in fields(Hold)} == {"plan", "requester", "purpose", "steps", "aligns"}
    methods = {name for name, value in vars(Hold).items() if callable(value) and not name.startswith("__")}
    assert not methods & (WRITES | OWNERS)
    assert not {"_ledger", "_file", "_chain"} & {
        node.attr for node in ast.walk(ast.parse(inspect.getsource(Hold))) if isinstance(node, ast.Attribute)
    }


def test_who_opens_a_party_calls_nothing_of_its_ledger_but_how_it_is_opened():
    calls = [node.func for node in ast.walk(tree(PARTY / "party.py")) if isinstance(node, ast.Call)]
    calls = [call for call in calls if isinstance(call, ast.Attribute) and "ledger" in _written(call.value).lower()]
    assert "items" not in dir(SqliteLedger)  # of the mapping of names to ledgers
    assert {call.attr for call in calls} <= {"open", "close", "items", *OWNERS}


def test_what_may_be_read_of_a_ledger_writes_nothing():
    public = {name for name in dir(LedgerView) if not name.startswith("_")}
    assert not public & (WRITES | OWNERS)
    kept = {node.attr for node in ast.walk(ast.parse(inspect.getsource(LedgerView))) if isinstance(node, ast.Attribute)}
    assert not kept & (WRITES | OWNERS | {"_ledger"})


# Layers and bans ------------------------------------------------------------------------------------------------------------


def test_the_layers_hold():
    result = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout


def test_the_coordinator_is_kept_from_data_and_noise_by_a_contract():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    forbidden = [
        one
        for one in contracts
        if one["type"] == "forbidden"
        and "colonnade.coordinator" in one["source_modules"]
        and "colonnade.party" in one["forbidden_modules"]
    ]
    banned = {name for one in forbidden for name in one["forbidden_modules"]}
    assert {"colonnade.party", "colonnade.privacy.samplers", "colonnade.privacy.randomness"} <= banned
    (laws,) = (one for one in contracts if "colonnade.privacy.laws" in one.get("source_modules", ()))
    assert {"colonnade.privacy.samplers", "colonnade.privacy.randomness"} <= set(laws["forbidden_modules"])
    assert not any(one.get("ignore_imports") or one.get("allow_indirect_imports") for one in (*forbidden, laws))


def test_the_linter_refuses_insecure_randomness_and_unpickling():
    lines = [
        "import random",
        "from random import randint",
        "import pickle",
        "import marshal",
        "import secrets",
        "import numpy.random",
        "from numpy.random import default_rng",
        "import numpy as np; x = np.random.default_rng(0)",
    ]
    code = "\n".join(lines)
    found = _ruff(code, "src/colonnade/privacy/invented.py")
    refused = {int(line) for line in re.findall(r"invented\.py:(\d+):\d+: TID251", found)}
    assert refused == set(range(1, len(lines) + 1))
    assert "TID251" not in _ruff(code, "tests/invented.py")


def _ruff(code: str, name: str) -> str:
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--no-cache",
        "--output-format",
        "concise",
        "--stdin-filename",
        name,
        "-",
    ]
    return subprocess.run(command, cwd=ROOT, input=code, capture_output=True, text=True, check=False).stdout
