"""The documentation works as printed, covers every command and every error, and has no broken link."""

import importlib
import operator
import re
import subprocess
import sys
from pathlib import Path

import pytest

import colonnade as cn
from colonnade import errors
from colonnade.estimation.newton import Division
from tests.docs import printed

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
NOTEBOOKS = sorted(DOCS.rglob("*.ipynb"))
ERRORS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.ColonnadeError)]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def run(code: str, folder: Path) -> subprocess.CompletedProcess:
    """Run somewhere else, in a process of its own, as a reader would."""
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


SHOWN = printed.pages()


@pytest.mark.every(30)
@pytest.mark.parametrize("page", SHOWN, ids=lambda page: page.stem)
def test_the_outputs_on_a_page_are_what_its_code_prints(page):
    """``python -m tests.docs.printed --write`` writes them anew."""
    for output, (_, shown) in zip(printed.printed(page), printed.parts(page), strict=True):
        if shown is not None:
            assert printed.comparable(shown) == printed.comparable(output)


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "index.md"], ids=["readme", "index"])
def test_the_first_example_is_short_and_shows_its_output(page):
    code, shown = printed.parts(page)[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 11  # ten lines and an import
    assert "remaining" in shown


@pytest.mark.full
def test_the_tutorial_works_as_printed(tmp_path):
    page = DOCS / "tutorials" / "first-study.md"
    done = run("\n".join(blocks(page, "python")), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "budget-exceeded" in done.stdout
    assert (tmp_path / "study.html").stat().st_size < 1_000_000
    commands = re.findall(
        r"^```sh\ncolonnade (.*?)\n```\n\n```text\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE
    )
    assert len(commands) == len(blocks(page, "sh")) > 1
    for command, shown in commands:
        done = subprocess.run(
            [sys.executable, "-m", "colonnade.cli", *command.split()],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, command
        assert timeless(shown) == timeless(done.stdout)


def timeless(text: str) -> str:
    """What a command prints about a ledger, on one line, without its times and the ledger's own name."""
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?|\b[0-9a-f]{32}\b", "_", " ".join(text.split()))


EXAMPLES = [page for page in PAGES if blocks(page, "python") and page not in SHOWN]


@pytest.mark.every(12)
@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.stem)
def test_code_on_a_page_that_shows_no_output_runs(page, tmp_path):
    done = run("\n".join(blocks(page, "python")), tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.every(10)
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(notebook, tmp_path):
    """Cell by cell in one process, as its kernel would; what IPython adds is display."""
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    book = nbformat.read(notebook, as_version=4)
    assert any(cell.get("outputs") for cell in book.cells)  # a reader sees results before running anything
    assert not [one for cell in book.cells for one in cell.get("outputs", []) if one.output_type == "error"]
    done = run("\n".join(cell.source for cell in book.cells if cell.cell_type == "code"), tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.full
def test_the_site_builds_offline_without_a_broken_link(tmp_path):
    pytest.importorskip("mkdocs", reason="the extra colonnade[docs] is not installed")
    built = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    for page in (tmp_path / "site").rglob("*.html"):
        assert not re.search(r'(?:src|href)="https?://[^"]*\.(?:js|css|woff2?)', page.read_text(encoding="utf-8")), page
    command_line = (tmp_path / "site" / "reference" / "command-line.html").read_text(encoding="utf-8")
    for command in ("demo", "run", "preview", "ledger show", "ledger verify", "doctor", "bench", "audit", "dashboard"):
        assert f"colonnade {command}" in command_line
    choosing = (tmp_path / "site" / "how-to" / "choose-a-method.html").read_text(encoding="utf-8")
    assert 'href="../reference/estimators.html#colonnade.PatternCount"' in choosing  # names lead to the reference
    shown = (tmp_path / "site" / "reference" / "errors.html").read_text(encoding="utf-8")
    assert [kind.code for kind in ERRORS if kind.code not in shown] == []


def test_every_public_name_is_in_the_reference():
    shown = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    names = [name for name in cn.__all__ if not name.startswith("__") and not hasattr(errors, name)]
    assert [name for name in names if f"::: colonnade.{name}" not in shown and f"`cn.{name}" not in shown] == []


# The operator's pages -------------------------------------------------------------------------------------------------

OPERATE = DOCS / "how-to" / "operate.md"


def first_cells(page: Path, heading: str) -> list[str]:
    """The first column of the table under a heading, without its marks."""
    part = page.read_text(encoding="utf-8").split(heading, 1)[1]
    lines = part.split("\n## ", 1)[0].splitlines()
    rows = [line.split("|")[1].strip() for line in lines if line.startswith("|")]
    return [row.strip("`") for row in rows[2:]]


def test_the_runbook_says_what_every_error_code_means_and_what_to_do():
    codes = {kind.code for kind in ERRORS} - {errors.ColonnadeError.code}
    listed = first_cells(OPERATE, "## Every error, and what to do")
    assert listed == sorted(listed)
    assert set(listed) == codes | {cn.NotFittedError.code}
    for line in OPERATE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `") and line.split("`")[1] in codes:
            who, meaning, remedy = (cell.strip() for cell in line.split("|")[2:5])
            assert set(who.split(", ")) <= {"analyst", "operator"}
            assert meaning.endswith(".")
            assert remedy.endswith(".")


def test_the_page_of_constants_has_the_values_of_the_code():
    rows = re.findall(
        r"^\| `([\w.]+)` \| `([\w.]+)` \| (.+) \|$", (DOCS / "reference" / "constants.md").read_text(), re.MULTILINE
    )
    assert len(rows) > 50
    for module, name, value in rows:
        found = operator.attrgetter(name)(importlib.import_module(f"colonnade.{module}"))
        if isinstance(found, Division):
            found = (found.gram, found.parts)
        shown = ", ".join(map(str, found)) if isinstance(found, tuple) else str(found)
        assert value.strip("()") == shown.strip("()"), (module, name)
