"""Nothing that the documentation tells anybody to send holds a private key."""

import contextlib
import re
import shlex
from pathlib import Path

import pytest

from colonnade.errors import BadInput
from colonnade.service import federation_setup
from tests.cli.studies import call

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "three-organisations"
TUTORIAL = ROOT / "docs" / "tutorials" / "first-federation.md"
PAGE = ROOT / "docs" / "how-to" / "certificates.md"


def tutorial() -> list[list[str]]:
    """The commands of the tutorial that make, sign and install; those that serve and run are left to its own test."""
    (block,) = re.findall(r"```console\n(.*?)```", TUTORIAL.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line[2:] for line in block.replace("\\\n", " ").splitlines() if line.startswith("$ colonnade ")]
    return [shlex.split(line)[1:] for line in lines if not re.search(r" (serve|run) ", line)]


def told_to_send() -> list[str]:
    """The first column of the page's table of what is sent."""
    section = PAGE.read_text(encoding="utf-8").split("## What is sent")[1].split("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def done(*arguments: str) -> str:
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    return result.output


def private_keys(folder: Path) -> dict[Path, set[bytes]]:
    """Every private key below a folder: files by that name and what is in them, and whatever says that it is one."""
    found = {}
    for path in folder.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        if path.suffix in (".key", ".old", ".next") or b"PRIVATE KEY" in content:
            found[path] = {content, *re.findall(rb"^[0-9a-f]{64}$", content, re.MULTILINE)}
    return found


def follow_the_pages(work: Path, *, two: bool) -> Path:
    """Follow the tutorial up to the signatures, then certificates.md and privacy-officer.md; return the folder."""
    with contextlib.chdir(work):
        _follow_the_pages(two=two)
    return work


def _follow_the_pages(*, two: bool) -> None:
    for path in EXAMPLE.glob("*.toml"):
        Path(path.name).write_bytes(path.read_bytes())
    for path in EXAMPLE.glob("*.schema.toml"):
        columns = re.findall(r"^(\w+) *=", path.read_text().split("[columns]")[1], re.MULTILINE)
        Path(path.name.replace(".schema.toml", ".csv")).write_text(f"person_id,{','.join(columns)}\n")
    for words in tutorial():
        if not (two and any(word in ("insurer", "insurer/card.toml") for word in words[-1:]) and "sign" in words):
            done(*(words[:-2] if two and words[:2] == ["federation", "init"] else words))
    if two:
        done("federation", "sign", "federation/federation.toml", "--party", "coordinator")
    done("federation", "check", "federation/federation.toml")
    done("coordinator", "install", "coordinator", "federation")
    for name in ("bank", "telco"):
        done("party", "install", name, "federation")
    done("analyst", "init", "ana.key", "--name", "analyst@telco")
    done("federation", "introduce", "federation/federation.toml", "ana.card.toml", "--party", "telco")
    Path("bank.request.toml").write_text(done("party", "request", "bank", "--new-key"))
    Path("coordinator.request.toml").write_text(done("coordinator", "request", "coordinator", "--new-key"))
    requests = ("--request", "bank.request.toml", "--coordinator", "coordinator.request.toml")
    done("federation", "renew", "federation", *requests, "--new-authority")
    done("party", "install", "bank", "federation")
    done("coordinator", "install", "coordinator", "federation")
    done("party", "rotate", "bank")


@pytest.fixture(
    params=[False, pytest.param(True, marks=pytest.mark.full)],
    ids=["three members", "two members, so that the coordinator computes"],
)
def work(request, tmp_path) -> Path:
    return follow_the_pages(tmp_path, two=request.param)


def test_nothing_that_is_sent_holds_a_private_key(work):
    secrets = set.union(*private_keys(work).values())
    assert (
        len(secrets) >= 12
    )  # two each of the members and the coordinator, the authority's, the analyst's, the old identity
    sent = told_to_send()
    assert {"federation/", "./bank/card.toml", "./coordinator/card.toml"} <= set(sent)
    for name in sent:
        assert (work / name).exists(), f"{PAGE.name} says that {name} is sent, and the pages' commands do not make it"
        for path in [work / name, *(work / name).rglob("*")]:
            content = path.read_bytes() if path.is_file() else b""
            assert path.suffix != ".key", path
            assert b"PRIVATE KEY" not in content, path
            assert not any(secret in content for secret in secrets), path
    for name in ("server.key", "identity.key"):
        assert (work / "coordinator" / name).stat().st_mode & 0o077 == 0
    named = {path.name for path in (work / "federation" / "kits" / "coordinator").iterdir()}
    assert named == {"server.crt", "rootCA.pem"}


def test_an_authority_in_the_folder_that_is_sent_is_moved_out_and_a_coordinators_key_there_is_refused(work):
    """What version 0.2.0 made is mended by the first renewal."""
    beside, inside = work / "federation-authority", work / "federation" / "authority"
    beside.rename(inside)
    left = work / "federation" / "kits" / "coordinator" / "server.key"
    left.write_bytes((work / "coordinator" / "server.key").read_bytes())
    with pytest.raises(BadInput, match="holds a private key of the coordinator") as refusal:
        federation_setup.renew(work / "federation", federation_setup.Renewal())
    assert "coordinator init" in refusal.value.remedy
    left.unlink()
    federation_setup.renew(work / "federation", federation_setup.Renewal())
    assert beside.is_dir()
    assert not inside.exists()
