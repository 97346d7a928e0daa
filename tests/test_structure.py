"""The shape of the code base: what the style guide promises about every module, name, docstring and layer."""

import ast
import doctest
import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

import colonnade as cn
from colonnade import errors
from colonnade.errors import ColonnadeError
from colonnade.estimators.study import Study
from colonnade.party.ledger.chain import LedgerView
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.steps import PRIVATE_HALVES
from colonnade.privacy import laws as mechanisms
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
PUBLIC = [name for name in cn.__all__ if inspect.isclass(getattr(cn, name)) or inspect.isfunction(getattr(cn, name))]
MECHANISM_ITEMS = ("Guarantee", "Neighbours", "Adversary", "Numerics", "Checked by")
ESTIMATOR_ITEMS = ("Guarantee", "Neighbours", "Adversary", "Spends", "Not released")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def module(name: str):
    """Import a module; one that needs an extra which is not installed is skipped."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] in OPTIONAL:
            pytest.skip(f"needs the extra that brings {error.name}")
        raise


def imports(path: Path) -> set[str]:
    """Every module that a file imports, as written, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def section(text: str, title: str) -> str | None:
    """The body of one section of a numpy docstring."""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\S[^\n]*\n-{{3,}}\n|\Z)", text, flags=re.MULTILINE | re.DOTALL)
    return None if found is None else found[1]


def concrete_estimators() -> list[type]:
    for name in MODULES:
        if name.startswith("colonnade.estimators."):
            module(name)
    kinds, found = [Study], []
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if "task" in vars(kind) and kind.__module__.startswith("colonnade."):
            found.append(kind)
    return sorted(found, key=lambda kind: kind.__name__)


def mechanism_classes() -> list[type]:
    found = {}
    for info in pkgutil.iter_modules(mechanisms.__path__, "colonnade.privacy.laws."):
        for kind in vars(module(info.name)).values():
            if inspect.isclass(kind) and kind.__module__ == info.name and _draws(kind):
                found[kind.__name__] = kind
    return [found[name] for name in sorted(found)]


def _draws(kind: type) -> bool:
    return hasattr(kind, "release") or hasattr(kind, "draw_share")


# Modules --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", FILES, ids=named)
def test_every_module_says_what_it_is(path):
    assert ast.get_docstring(tree(path)) or path.name == "_version.py", "a module starts with a docstring"


@pytest.mark.parametrize("name", MODULES)
def test_the_list_of_public_names_is_sorted_and_true(name):
    one = module(name)
    listed = getattr(one, "__all__", None)
    if listed is None:
        return
    assert list(listed) == sorted(set(listed), key=_rank)
    for public in listed:
        assert hasattr(one, public), f"{public} does not exist"


def _rank(name: str) -> tuple[int, str]:
    """Constants, then classes, then the rest, each by name: how the linter sorts."""
    bare = name.lstrip("_")
    if bare.isupper() and len(bare) > 1:
        return 0, name
    return (1 if bare[:1].isupper() else 2), name


@pytest.mark.parametrize("path", FILES, ids=named)
def test_no_name_is_a_drawer_for_odds_and_ends(path):
    parts = {part.removesuffix(".py").strip("_") for part in path.relative_to(SOURCE).parts}
    assert not parts & {"utils", "util", "common", "helpers", "helper", "types", "misc", "manager", "base_classes"}
    classes = [node.name for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef)]
    assert not [name for name in classes if name.strip("_").endswith("Manager") or name.strip("_").startswith("Base")]


@pytest.mark.parametrize("path", FILES, ids=named)
def test_nothing_insecure_is_imported(path):
    banned = {"pickle", "marshal", "random", "secrets", "numpy.random", "shelve", "dill", "cloudpickle", "joblib"}
    if path == DASK:
        banned -= {"cloudpickle"}
    assert not {name for name in imports(path) if name in banned or name.split(".")[0] in banned - {"numpy.random"}}


@pytest.mark.parametrize("path", FILES, ids=named)
def test_one_module_pickles_and_talks_to_dask_and_what_it_pickles_goes_to_a_partys_own_workers(path):
    text = path.read_text()
    asked = re.findall(r"(?:import|import_module\(\")\s*(dask|distributed|cloudpickle)\b", text)
    assert not asked or path == DASK


@pytest.mark.parametrize("path", FILES, ids=named)
def test_the_generator_of_public_choices_is_the_only_use_of_numpys_generators(path):
    uses = [node for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute) and node.attr == "random"]
    numpys = [node for node in uses if isinstance(node.value, ast.Name) and node.value.id in {"np", "numpy", "torch"}]
    assert not numpys or path == SOURCE / "runtime/public_coins.py"


@pytest.mark.parametrize("path", FILES, ids=named)
def test_what_is_not_yet_perturbed_is_named_so_only_where_data_is(path):
    names = {node.id for node in ast.walk(tree(path)) if isinstance(node, ast.Name)}
    names |= {node.arg for node in ast.walk(tree(path)) if isinstance(node, ast.arg)}
    places = (SOURCE / "party", SOURCE / "privacy" / "laws", SOURCE / "audit")
    if not any(place in path.parents for place in places):
        assert not [name for name in names if name.startswith("nonprivate_") or name == "nonprivate"]


# Docstrings -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_a_docstring_with_an_example(name):
    public = getattr(cn, name)
    text = inspect.getdoc(public)
    assert text
    if inspect.isclass(public) and issubclass(public, ColonnadeError) and public is not ColonnadeError:
        return  # the root of the tree shows how all of them are used
    example = section(text, "Examples")
    assert example is not None, "a public name shows how it is used"
    assert ">>>" in example


@pytest.mark.parametrize("name", MODULES)
def test_every_example_runs(name):
    one = module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS, verbose=False)
    for example in doctest.DocTestFinder(exclude_empty=True).find(one, name):
        report: list[str] = []
        runner.run(example, out=report.append)
        assert not runner.failures, "".join(report)


@pytest.mark.parametrize("kind", mechanism_classes(), ids=lambda kind: kind.__name__)
def test_every_mechanism_states_its_guarantee_and_the_tests_that_check_it(kind):
    text = section(inspect.getdoc(kind) or "", "Privacy")
    assert text is not None, "a mechanism has a Privacy section"
    for item in MECHANISM_ITEMS:
        assert re.search(rf"^{item}\b", text, flags=re.MULTILINE), item
    checked_by = text[text.index("Checked by") :]
    assert re.search(r"tests/\S+\.py", checked_by)
    pages = re.findall(r"docs/proofs/[a-z-]+\.md", text[: text.index("Neighbours")])
    assert pages, "the guarantee says where its proof is"
    assert all((ROOT / page).is_file() for page in pages)


@pytest.mark.parametrize("kind", concrete_estimators(), ids=lambda kind: kind.__name__)
def test_every_estimator_states_its_guarantee_and_what_it_does_not_release(kind):
    text = section(inspect.getdoc(kind) or "", "Privacy")
    assert text is not None, "an estimator has a Privacy section"
    for item in ESTIMATOR_ITEMS:
        assert re.search(rf"^{item}\b", text, flags=re.MULTILINE), item


@pytest.mark.parametrize("kind", concrete_estimators(), ids=lambda kind: kind.__name__)
def test_every_estimator_says_what_it_does_with_missing_values(kind):
    assert "Missing values:" in (section(inspect.getdoc(kind) or "", "Notes") or "")


@pytest.mark.parametrize("path", FILES, ids=named)
def test_every_test_that_a_docstring_names_exists(path):
    for mentioned in re.findall(r"\btests/[\w/]+\.py", path.read_text()):
        assert (ROOT / mentioned).is_file(), mentioned


def test_there_are_mechanisms_and_estimators_to_look_at():
    assert {"DiscreteLaplace", "DiscreteGaussian", "RandomizedResponse", "GramNoise", "TableNoise"} <= {
        one.__name__ for one in mechanism_classes()
    }
    assert "PatternCount" in {one.__name__ for one in concrete_estimators()}


# Errors ---------------------------------------------------------------------------------------------------------------------


def test_every_error_has_a_code_of_its_own_and_a_remedy():
    kinds = [getattr(errors, name) for name in errors.__all__ if inspect.isclass(getattr(errors, name))]
    codes = [kind.code for kind in kinds]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in codes)
    for kind in kinds:
        assert issubclass(kind, ColonnadeError)
        assert kind.default_remedy
        assert errors.error_for(kind.code) is kind
    assert len({kind.default_remedy for kind in kinds}) == len(kinds)


def test_the_tree_of_errors_in_the_docstring_is_the_real_one():
    drawn = re.findall(r"[│├└─ ]*\b([A-Z]\w+)\b  +\S", errors.__doc__ or "")
    assert {"ColonnadeError", *drawn} == {name for name in errors.__all__ if name[0].isupper()}


# Kinds of step --------------------------------------------------------------------------------------------------------------


def kinds_of_step() -> set[type[StepKind]]:
    """Every public half that has a name, wherever it is defined."""
    for name in MODULES:
        if name.startswith("colonnade.steps."):
            module(name)
    classes, found = [StepKind], set()
    while classes:
        one = classes.pop()
        classes += one.__subclasses__()
        if "name" in vars(one) and one.__module__.startswith("colonnade.steps."):
            found.add(one)
    return found


def test_the_registry_has_every_kind_of_step_under_its_name():
    assert set(KINDS.values()) == kinds_of_step()
    assert all(kind.name == name for name, kind in KINDS.items())


def test_every_kind_of_step_has_a_private_half_and_no_half_is_without_its_kind():
    assert set(PRIVATE_HALVES) == set(KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_of_step_is_two_classes_of_one_name_with_a_title_and_words(name):
    kind, half = KINDS[name], PRIVATE_HALVES[name]
    assert kind.__module__.startswith("colonnade.steps.")
    assert half.__module__.startswith("colonnade.party.steps.")
    assert issubclass(half, kind)
    assert half is not kind
    assert half.__name__ == f"Private{kind.__name__}"
    assert not {"name", "title", "conversation", "permission", "admission", "law", "loss", "openings"} & set(vars(half))
    for one in (kind, half):
        assert inspect.getdoc(one), "a half says what it is"
    assert kind.title
    step = kind.ask(name="s", party="bank", columns=("age", "segment"), price=None)
    assert kind.in_words({"bank": step}) == f"{kind.title} of bank.age and bank.segment"
    assert kind.in_words({"bank": kind.ask(name="s", party="bank", price=None)}) == kind.title


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_of_step_leaves_a_party_by_one_of_the_gates_ways_out(name):
    """A conversation is joined. What is no conversation has a law, or is disclosed by name."""
    kind, half = KINDS[name], PRIVATE_HALVES[name]
    released = kind.law is not StepKind.law and hasattr(half, "compute")
    assert [bool(kind.conversation), released, hasattr(half, "disclose")].count(True) == 1
    assert bool(kind.conversation) == hasattr(half, "join")


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_step_has_a_recorded_study_and_a_test_of_its_own(name):
    studies = json.loads((ROOT / "tests" / "golden" / "golden.json").read_text()).values()
    assert any(name in study["kinds"] for study in studies)
    tests = [path for path in (ROOT / "tests").rglob("test_*.py") if "golden" not in path.parts]
    words = re.compile(rf"\b(Private)?{KINDS[name].__name__}\b|[\"']{re.escape(name)}[\"']")
    assert any(words.search(path.read_text()) for path in tests if path != Path(__file__))


STEPS = SOURCE / "steps"
REGISTRIES = (STEPS / "registry.py", SOURCE / "party" / "steps" / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=named)
def test_no_module_but_the_kinds_own_compares_its_name(path):
    """A step's kind is looked up in a registry; only the modules of kinds compare it, and by the class that has the name."""
    looked_at = [node for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute) and node.attr == "kind"]
    if STEPS not in path.parents:
        of_steps = [node for node in looked_at if _written(node.value).endswith("step")]
        assert not of_steps or path in REGISTRIES
        named_by_class = [
            node
            for node in ast.walk(tree(path))
            if isinstance(node, ast.Attribute) and node.attr == "name" and _written(node.value) in CLASSES
        ]
        assert not named_by_class
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Compare) and any(one in looked_at for one in ast.walk(node)):
            assert not [one for one in ast.walk(node) if isinstance(one, ast.Constant) and one.value in KINDS]


@pytest.mark.parametrize("path", FILES, ids=named)
def test_a_kinds_name_is_written_once(path):
    """Names that are no ordinary words, and so mean a kind wherever they stand."""
    conversations = {kind.conversation for kind in KINDS.values()}
    telling = {name: kind for name, kind in KINDS.items() if "-" in name and name not in conversations}
    assert len(telling) > 8
    written = [node.value for node in ast.walk(tree(path)) if isinstance(node, ast.Constant) and node.value in telling]
    assert written == [name for name in written if Path(inspect.getfile(telling[name])) == path]
    assert len(set(written)) == len(written)


CLASSES = {one.__name__ for kind in KINDS.values() for one in (kind, PRIVATE_HALVES[kind.name])}


def _written(node: ast.expr) -> str:
    """The last name of an expression: what a variable, an attribute or an imported class is called."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


# One door -------------------------------------------------------------------------------------------------------------------

PARTY = SOURCE / "party"
GATE = PARTY / "gate.py"
HANDLES = PARTY / "handles.py"  # what the gate hands out: quotes, and the noise of a step that is paid
ORDERS = PARTY / "order_records.py"  # a part of the gate, for steps that make a row order
DOOR = (GATE, ORDERS)
INSIDE = [path for path in FILES if PARTY in path.parents and path not in DOOR and PARTY / "ledger" not in path.parents]
RECORDS = {f"colonnade.party.ledger.{name}" for name in ("decisions", "holds", "refused", "rows", "words")}
"""Modules of the ledger's folder that say what is written, and write no row."""
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


@pytest.mark.parametrize("path", INSIDE, ids=named)
def test_nothing_at_a_party_but_the_gate_writes_to_the_ledger(path):
    """Parts of conversations call verbs of the step that the gate admitted, which have some of the same names."""
    calls = [node.func for node in ast.walk(tree(path)) if isinstance(node, ast.Call)]
    verbs = [call for call in calls if isinstance(call, ast.Attribute) and call.attr in WRITES]
    assert {_written(call.value) for call in verbs} <= {"admitted", "_admitted"}


@pytest.mark.parametrize("path", INSIDE, ids=named)
def test_nothing_at_a_party_but_the_gate_reaches_the_ledger_the_noise_or_what_the_gate_keeps(path):
    held = {node.attr for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute)}
    assert not held & {"_ledger", "_randomness"}
    others = [
        node
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and node.attr == "_table" and _written(node.value) != "self"
    ]
    assert not others
    found = imports(path)
    assert path == HANDLES or not {name for name in found if name.startswith("colonnade.privacy.samplers")}
    ledgers = {
        name
        for name in found
        if name.startswith("colonnade.party.ledger.") and ".".join(name.split(".")[:4]) not in RECORDS
    }
    assert not ledgers or path == PARTY / "party.py"  # it opens one, and gives it to a gate


def test_who_opens_a_party_calls_nothing_of_its_ledger_but_how_it_is_opened():
    calls = [node.func for node in ast.walk(tree(PARTY / "party.py")) if isinstance(node, ast.Call)]
    used = {call.attr for call in calls if isinstance(call, ast.Attribute) and "ledger" in _written(call.value).lower()}
    assert used <= {"open", "close", "now", "shown", *OWNERS}


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
        one for one in contracts if one["type"] == "forbidden" and "colonnade.coordinator" in one["source_modules"]
    ]
    banned = {name for one in forbidden for name in one["forbidden_modules"]}
    assert {"colonnade.party", "colonnade.privacy.samplers", "colonnade.privacy.randomness"} <= banned
    (laws,) = (one for one in contracts if "colonnade.privacy.laws" in one.get("source_modules", ()))
    assert {"colonnade.privacy.samplers", "colonnade.privacy.randomness"} <= set(laws["forbidden_modules"])
    assert not any(one.get("ignore_imports") or one.get("allow_indirect_imports") for one in contracts)


@pytest.mark.parametrize(
    "line",
    [
        "import random",
        "from random import randint",
        "import pickle",
        "import marshal",
        "import secrets",
        "import numpy.random",
        "from numpy.random import default_rng",
        "import numpy as np\n\nx = np.random.default_rng(0)",
    ],
)
def test_the_linter_refuses_insecure_randomness_and_unpickling(line):
    code = f'"""A module."""\n\n{line}\n'
    found = _ruff(code, "src/colonnade/privacy/invented.py")
    assert "TID251" in found
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


# What the README promises ---------------------------------------------------------------------------------------------------


def readme() -> str:
    return (ROOT / "README.md").read_text()


def test_every_command_in_the_readme_exists():
    import typer

    from colonnade.cli import app

    top = typer.main.get_command(app)
    promised = re.findall(r"`colonnade ((?:[a-z]+ ?)+)", readme())
    assert promised
    for words in promised:
        command = top
        for word in words.split():
            if not hasattr(command, "commands"):
                break
            assert word in command.commands, f"colonnade {words}"
            command = command.commands[word]


@pytest.mark.parametrize(
    ("document", "named"),
    [
        ("README.md", {"demo", "test"}),
        ("CONTRIBUTING.md", {"demo", "test", "test-all", "lint", "docs", "dist", "bench"}),
    ],
)
def test_every_make_target_that_a_document_names_exists(document, named):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    promised = set(re.findall(r"^make ([a-z-]+)", (ROOT / document).read_text(), flags=re.MULTILINE))
    assert named <= promised <= targets


def test_every_file_that_the_readme_links_to_exists():
    for link in re.findall(r"\]\(([^)#]+)\)", readme()):
        assert "://" in link or (ROOT / link).exists(), link


def test_every_folder_of_the_source_is_in_the_map():
    folders = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file()}
    mapped = set(re.findall(r"`(\w+)/`", (ROOT / "docs" / "explanation" / "walk.md").read_text()))
    assert folders <= mapped, folders - mapped
