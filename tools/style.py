"""What the style guide promises about modules, names, docstrings and pages: prints every complaint, exits 1 if there is one.

Run it from anywhere: ``python tools/style.py``. What holds an invariant of SECURITY.md is a test (tests/test_structure.py).
"""

import ast
import importlib
import inspect
import json
import pkgutil
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import typer

import colonnade as cn
from colonnade import cli, errors
from colonnade.errors import ColonnadeError
from colonnade.estimators.study import Study
from colonnade.party.steps import PRIVATE_STEPS
from colonnade.privacy import laws
from colonnade.steps.kind import KINDS

ROOT = Path(__file__).parents[1]
SOURCE, DOCS, TESTS = ROOT / "src" / "colonnade", ROOT / "docs", ROOT / "tests"
FILES = sorted(SOURCE.rglob("*.py"))
PAGES = [
    *sorted(DOCS.rglob("*.md")),
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY", "CHANGELOG")),
]
OPTIONAL = {"nvflare", "dask", "polars", "flwr", "opendp", "mpyc", "matplotlib", "torch", "mbi", "jax"}
DRAWERS = {"utils", "util", "common", "helpers", "helper", "types", "misc", "manager", "base_classes"}
LAW_ITEMS = ("Guarantee", "Neighbours", "Adversary", "Numerics", "Checked by")
ESTIMATOR_ITEMS = ("Guarantee", "Neighbours", "Adversary", "Spends", "Not released")
BARS = tomllib.loads((TESTS / "bars.toml").read_text(encoding="utf-8"))
SHORT = 3
"""A function of so many lines says itself what it does."""

Complaints = Iterator[tuple[object, str]]
CHECKS: list[Callable[[], Complaints]] = []


def check(function: Callable[[], Complaints]) -> Callable[[], Complaints]:
    CHECKS.append(function)
    return function


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def modules() -> Iterator[object]:
    """Every module that can be imported here; one whose extra is not installed is left out."""
    names = {"colonnade", *(found.name for found in pkgutil.walk_packages(cn.__path__, "colonnade."))}
    for name in sorted(names - {"colonnade.cli.__main__"}):
        try:
            yield importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.split(".")[0] not in OPTIONAL:
                raise


def section(kind: object, title: str) -> str:
    """The body of one section of a numpy docstring, or nothing."""
    text = inspect.getdoc(kind) or ""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\S[^\n]*\n-{{3,}}\n|\Z)", text, flags=re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def subclasses(kind: type) -> Iterator[type]:
    for one in kind.__subclasses__():
        yield one
        yield from subclasses(one)


def written(node: ast.expr) -> str:
    """The last name of an expression: what a variable, an attribute or an imported class is called."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


# Modules and names ----------------------------------------------------------------------------------------------------


@check
def every_module_says_what_it_is() -> Complaints:
    for path in FILES:
        if not ast.get_docstring(tree(path)) and path.name != "_version.py":
            yield path, "a module starts with a docstring"


@check
def no_name_is_a_drawer_for_odds_and_ends() -> Complaints:
    for path in FILES:
        for part in path.relative_to(SOURCE).parts:
            if part.removesuffix(".py").strip("_") in DRAWERS:
                yield path, f"{part} says nothing about what is inside"
        for node in ast.walk(tree(path)):
            name = node.name.strip("_") if isinstance(node, ast.ClassDef) else ""
            if name.endswith("Manager") or name.startswith("Base"):
                yield path, f"{name} says nothing about what it is"


@check
def a_list_of_public_names_is_true_and_holds_each_name_once() -> Complaints:
    """The linter sorts it."""
    for module in modules():
        listed = list(getattr(module, "__all__", ()))
        for name in listed:
            if listed.count(name) > 1 or not hasattr(module, name):
                yield module.__name__, f"__all__ has {name} twice, or it does not exist"


@check
def a_kinds_name_is_written_once_and_compared_by_its_own_modules() -> Complaints:
    """A step's kind is looked up in a registry; only the modules of kinds compare it, and by the class that has the name."""
    conversations = {kind.conversation for kind in KINDS.values()}
    telling = {
        name: kind for name, kind in KINDS.items() if "-" in name and name not in conversations
    }  # no ordinary words
    classes = {one.__name__ for kind in KINDS.values() for one in (kind, PRIVATE_STEPS[kind.name])}
    for path in FILES:
        nodes = list(ast.walk(tree(path)))
        attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
        kinds = [node for node in attributes if node.attr == "kind"]
        if SOURCE / "steps" not in path.parents and path != SOURCE / "papers" / "steps.py":
            if any(written(node.value).endswith("step") for node in kinds):
                yield path, "a step's kind is looked up in the registry, not looked at"
            if any(node.attr == "name" and written(node.value) in classes for node in attributes):
                yield path, "a kind is known by its class, not by its name"
        for node in nodes:
            if isinstance(node, ast.Compare) and any(one in kinds for one in ast.walk(node)):
                for one in ast.walk(node):
                    if isinstance(one, ast.Constant) and one.value in KINDS:
                        yield path, f"compares a kind with {one.value!r}"
        here = [node.value for node in nodes if isinstance(node, ast.Constant) and node.value in telling]
        for name in here:
            if here.count(name) > 1 or Path(inspect.getfile(telling[name])) != path:
                yield path, f"the kind's name {name!r} is written where the kind is defined, once"


# Docstrings -----------------------------------------------------------------------------------------------------------


@check
def a_public_function_longer_than_it_looks_says_what_it_does() -> Complaints:
    """Private and short functions need no docstring; what a law says in place of its shape has the same meaning."""
    for path in FILES:
        if SOURCE / "privacy" in path.parents or path == SOURCE / "papers" / "laws.py":
            continue
        places = [
            tree(path),
            *(node for node in tree(path).body if isinstance(node, ast.ClassDef) and node.name[0] != "_"),
        ]
        for node in (one for place in places for one in place.body):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
                continue
            decorators = {written(one) for one in node.decorator_list}
            lines = node.end_lineno - node.body[0].lineno + 1
            if lines > SHORT and not ast.get_docstring(node) and not decorators & {"override", "overload", "setter"}:
                yield path, f"{node.name} has no docstring"


@check
def a_public_name_shows_how_it_is_used() -> Complaints:
    for name in cn.__all__:
        public = getattr(cn, name)
        if not (inspect.isclass(public) or inspect.isfunction(public)):
            continue
        if inspect.isclass(public) and issubclass(public, ColonnadeError) and public is not ColonnadeError:
            continue  # the root of the tree shows how all of them are used
        if ">>>" not in section(public, "Examples"):
            yield name, "a public name has a section Examples with an example"


@check
def a_law_states_its_guarantee_its_proof_and_its_tests() -> Complaints:
    found = set()
    homes = [info.name for info in pkgutil.iter_modules(laws.__path__, "colonnade.privacy.laws.")]
    for home in [*homes, "colonnade.papers.laws"]:
        for kind in vars(importlib.import_module(home)).values():
            if not (inspect.isclass(kind) and kind.__module__ == home):
                continue
            if not (hasattr(kind, "release") or hasattr(kind, "draw_share")):
                continue
            found.add(kind.__name__)
            text = section(kind, "Privacy")
            for item in LAW_ITEMS:
                if not re.search(rf"^{item}\b", text, flags=re.MULTILINE):
                    yield home, f"{kind.__name__}: its section Privacy lacks {item}"
            if not re.search(r"Checked by.*tests/\S+\.py", text, flags=re.DOTALL):
                yield home, f"{kind.__name__}: Checked by names no test"
            pages = re.findall(r"docs/proofs/[a-z-]+\.md", text.partition("Neighbours")[0])
            if not pages or not all((ROOT / page).is_file() for page in pages):
                yield home, f"{kind.__name__}: its guarantee names no page of docs/proofs"
    if (
        not {"DiscreteLaplace", "DiscreteGaussian", "RandomizedResponse", "GramNoise", "TableNoise", "GradientNoise"}
        <= found
    ):
        yield "colonnade.privacy.laws", "this check no longer finds the laws"


@check
def no_class_ends_a_longer_chain_of_ours_than_the_bar() -> Complaints:
    def chain(kind: type) -> int:
        return 1 + max((chain(one) for one in kind.__bases__ if one.__module__.startswith("colonnade.")), default=0)

    ours = {
        kind
        for module in modules()
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__.startswith("colonnade.")
    }
    for kind in sorted(ours, key=lambda one: one.__qualname__):
        if chain(kind) > BARS["classes"]["longest_chain"]:
            yield kind.__qualname__, f"is the end of a chain of {chain(kind)} classes"


@check
def the_house_is_no_larger_than_its_bars() -> Complaints:
    """Lower a bar when it is beaten; a bar that is raised says why in the changelog."""
    source = sum(map(code_lines, FILES))
    tests = sum(map(code_lines, TESTS.rglob("*.py")))
    for name, found in (("source", source), ("modules", len(FILES)), ("tests", tests)):
        if found > BARS["size"][name]:
            yield "tests/bars.toml", f"{name}: {found:,}, and the bar is {BARS['size'][name]:,}"


def code_lines(path: Path) -> int:
    """Count the lines of a module that are no docstring, comment or blank."""
    documented: set[int] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            documented |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
    return sum(1 for number, line in lines if (bare := line.strip()) and bare[0] != "#" and number not in documented)


@check
def an_estimator_states_its_guarantee_what_it_keeps_and_what_it_does_with_missing_values() -> Complaints:
    list(modules())
    kinds = {kind for kind in subclasses(Study) if "task" in vars(kind) and kind.__module__.startswith("colonnade.")}
    if cn.PatternCount not in kinds:
        yield "colonnade.estimators", "this check no longer finds the estimators"
    for kind in sorted(kinds, key=lambda one: one.__name__):
        for item in ESTIMATOR_ITEMS:
            if not re.search(rf"^{item}\b", section(kind, "Privacy"), flags=re.MULTILINE):
                yield kind.__name__, f"its section Privacy lacks {item}"
        if "Missing values:" not in section(kind, "Notes"):
            yield kind.__name__, "its section Notes does not say what happens to missing values"


@check
def a_test_that_a_docstring_names_exists() -> Complaints:
    for path in FILES:
        for mentioned in re.findall(r"\btests/[\w/]+\.py", path.read_text(encoding="utf-8")):
            if not (ROOT / mentioned).is_file():
                yield path, f"{mentioned} does not exist"


@check
def the_tree_of_errors_in_the_docstring_is_the_real_one() -> Complaints:
    drawn = {"ColonnadeError", *re.findall(r"[│├└─ ]*\b([A-Z]\w+)\b  +\S", errors.__doc__ or "")}
    for name in sorted(
        drawn
        ^ {
            kind.__name__
            for kind in {ColonnadeError, *subclasses(ColonnadeError)}
            if kind.__module__ == errors.__name__
        }
    ):
        yield "colonnade.errors", f"{name} is in the tree or in the module, not in both"


@check
def a_kind_of_step_has_a_recorded_study_and_a_test() -> Complaints:
    studies = json.loads((TESTS / "golden" / "golden.json").read_text()).values()
    texts = [path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py") if "golden" not in path.parts]
    for name, kind in KINDS.items():
        if not any(name in study["kinds"] for study in studies):
            yield name, "no study in tests/golden asks for this kind of step"
        words = re.compile(rf"\b(Private)?{kind.__name__}\b|[\"']{re.escape(name)}[\"']")
        if not any(words.search(text) for text in texts):
            yield name, "no test names this kind of step"


# Pages ----------------------------------------------------------------------------------------------------------------


@check
def a_file_that_a_page_names_exists() -> Complaints:
    for page in PAGES:
        roots = (ROOT, SOURCE, page.parent)
        for path in re.findall(r"`((?:[\w-]+/)+[\w-]+\.(?:py|md|toml))(?:::\w+)?`", page.read_text(encoding="utf-8")):
            if not any((root / path).exists() for root in roots):
                yield page, f"{path} does not exist"
    for link in re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text(encoding="utf-8")):
        if "://" not in link and not (ROOT / link).exists():
            yield "README.md", f"{link} does not exist"


@check
def a_page_is_in_plain_words_and_cites_papers_by_name() -> Complaints:
    unwanted = r"\b(?:hence|lest|wherefore|whoever|whom|[Pp]aper 00\d|privacy\.md)\b"
    for page in PAGES:
        for word in re.findall(unwanted, page.read_text(encoding="utf-8"), re.IGNORECASE):
            yield page, f"{word!r}: plain words, and papers by their names"


@check
def a_command_that_a_page_names_exists() -> Complaints:
    pages = [
        ROOT / "README.md",
        *(DOCS / "how-to" / f"{name}.md" for name in ("operate", "certificates", "upgrade", "deploy")),
    ]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        groups = r"colonnade ((?:party|federation|coordinator|ledger) [a-z]+)"
        promised = (
            re.findall(r"`colonnade ((?:[a-z]+ ?)+)", text)
            if page.name == "README.md"
            else re.findall(groups, " ".join(text.split()))
        )
        for words in promised:
            command = typer.main.get_command(cli.app)
            for word in words.split():
                if not hasattr(command, "commands"):
                    break
                if word not in command.commands:
                    yield page, f"colonnade {words} is no command"
                    break
                command = command.commands[word]


@check
def a_make_target_that_a_page_names_exists() -> Complaints:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    needed = {
        "README.md": {"demo", "test"},
        "CONTRIBUTING.md": {"demo", "test", "test-all", "lint", "docs", "dist", "bench"},
    }
    for page, least in needed.items():
        promised = set(re.findall(r"^make ([a-z-]+)", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE))
        for name in sorted((promised - targets) | (least - promised)):
            yield page, f"make {name} is not said here, or is no target"


@check
def every_folder_of_the_source_is_in_the_map() -> Complaints:
    mapped = set(re.findall(r"`(\w+)/`", (DOCS / "explanation" / "walk.md").read_text(encoding="utf-8")))
    for path in SOURCE.iterdir():
        if (path / "__init__.py").is_file() and path.name not in mapped:
            yield "docs/explanation/walk.md", f"{path.name}/ is not in the map"


def main() -> int:
    found = 0
    for one in CHECKS:
        for place, complaint in one():
            where = place.relative_to(ROOT) if isinstance(place, Path) else place
            print(f"{where}: {complaint}  [{one.__name__}]")
            found += 1
    print(f"{found} complaints" if found else f"{len(CHECKS)} checks of style: no complaint")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
