"""What is uploaded: the package, typed, with what builds it, and no data. `make dist` installs it into a clean environment."""

import email
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from colonnade._version import __version__

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "colonnade"
BESIDE = {
    "README.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "CITATION.cff",
    "LICENSE",
    "pyproject.toml",
    "PKG-INFO",
    ".gitignore",
}
SOURCES = {
    path.relative_to(PACKAGE).as_posix()
    for path in PACKAGE.rglob("*")
    if path.is_file() and not re.search(r"__pycache__|\.pyc$|\.nb[ci]$", str(path))
}


def built(target: str, source: Path, folder: Path) -> Path:
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    line = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    done = subprocess.run(line, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return next(path for path in folder.iterdir() if path.suffix in (".gz", ".whl"))


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """The archive of sources, unpacked."""
    folder = tmp_path_factory.mktemp("sources")
    with tarfile.open(built("sdist", ROOT, folder)) as archive:
        archive.extractall(folder, filter="data")
    return folder / f"colonnade-{__version__}"


@pytest.mark.full
def test_the_archive_of_sources_has_the_package_and_its_papers_and_no_data(sources):
    found = {path.relative_to(sources).as_posix() for path in sources.rglob("*") if path.is_file()}
    assert found == {f"src/colonnade/{name}" for name in SOURCES} | BESIDE
    assert {Path(name).suffix for name in SOURCES} == {".py", ".typed", ".html", ".css", ".js", ".txt", ".toml"}


@pytest.mark.full
def test_a_wheel_made_from_the_archive_alone_has_every_module_and_says_that_it_is_typed(sources, tmp_path):
    with zipfile.ZipFile(built("wheel", sources, tmp_path)) as wheel:
        names = {name.removeprefix("colonnade/") for name in wheel.namelist() if name.startswith("colonnade/")}
        assert names == SOURCES
        assert "py.typed" in names
        (metadata,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
        told = email.message_from_bytes(wheel.read(metadata))
    assert told["Version"] == __version__
    assert told["License-Expression"] == "Apache-2.0"
    assert told["Description-Content-Type"] == "text/markdown"


def test_every_place_that_names_the_version_names_this_one():
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    heading = re.search(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text().replace("## Unreleased\n", ""), re.MULTILINE)[
        1
    ]
    assert re.fullmatch(rf"{re.escape(__version__)} \(\d{{4}}-\d\d-\d\d\)", heading)


def test_every_supported_python_is_a_classifier_and_a_session_of_nox():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [one.rsplit(" ", 1)[1] for one in project["classifiers"] if re.search(r"Python :: 3\.\d+$", one)]
    assert f"PYTHONS = {listed}".replace("'", '"') in (ROOT / "noxfile.py").read_text()
    assert project["requires-python"] == f">={listed[0]}"


def test_a_party_that_is_served_loads_none_of_the_packages_that_only_analysts_need():
    """`docs/how-to/install.md` says so. What an extra brings is loaded where it is used."""
    code = (
        "import sys, colonnade.party.guard, colonnade.party.serving, colonnade.service.served_party\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"numpy", "pyarrow", "numba"} <= set(shown)
    analysts = {"sklearn", "joblib", "dp_accounting", "rich", "matplotlib", "duckdb", "jax", "mbi", "torch", "polars"}
    assert set(shown) & analysts == set()
