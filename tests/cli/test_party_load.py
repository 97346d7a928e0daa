"""`colonnade party load`: a table is checked offline, copied, and only then declared. On any failure the old one stays."""

import fcntl
import os
import shutil
from pathlib import Path

import pandas as pd
import pytest

from colonnade.errors import BadInput
from colonnade.party.ledger.file import LedgerFile
from colonnade.party.table.sources import Source
from colonnade.runtime import private_files
from colonnade.service.party_folder import PartyFolder
from tests.cli.studies import call

CANARY = "Xq7canaryZ"


def table(people: int = 50, **columns) -> pd.DataFrame:
    segment = ["basic", "gold"] * (people // 2)
    return pd.DataFrame({"person_id": range(people), "age": 40.0, "segment": segment, "diary": CANARY, **columns})


def made(folder: Path, *, policy: str = "") -> PartyFolder:
    """A party's folder with keys, schema and policy, and no table."""
    member = PartyFolder.create(folder / "bank", name="bank", role="data")
    (member.path / "schema.toml").write_text(
        'id = "person_id"\n[columns]\nage = { lower = 18, upper = 95 }\nsegment = { levels = ["basic", "gold"] }\n'
    )
    (member.path / "policy.toml").write_text(f"[budget]\nepsilon = 1.0\ndelta = 1e-6\n[policy]\n{policy}\n")
    return member


def written(folder: Path, frame: pd.DataFrame, name: str = "bank.parquet") -> Path:
    path = folder / name
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    return path


def version_of(member: PartyFolder) -> int | None:
    with member.ledger() as ledger:
        return ledger.current_version()


def held(member: PartyFolder) -> list[str]:
    """Every file under data/, without what is only there while a load is under way."""
    found = (path.relative_to(member.path / "data") for path in (member.path / "data").rglob("*") if path.is_file())
    return sorted(str(path) for path in found)


# What is kept ---------------------------------------------------------------------------------------------------------


def test_a_table_is_copied_for_its_owner_alone_and_its_version_is_declared(tmp_path):
    member, file = made(tmp_path), written(tmp_path, table())
    result = call("party", "load", member.path, file)
    assert result.exit_code == 0, result.output
    assert "data version 1, 50 people and 2 columns" in result.output
    assert CANARY not in result.output
    assert held(member) == ["0001/0000.parquet", "0001/SHA256SUMS"]
    copy = member.path / "data" / "0001" / "0000.parquet"
    pd.testing.assert_frame_equal(pd.read_parquet(copy), table()[["person_id", "age", "segment"]])
    for path in (copy, copy.with_name("SHA256SUMS")):
        assert path.stat().st_mode & 0o777 == 0o600
    for path in (copy.parent, copy.parent.parent):
        assert path.stat().st_mode & 0o777 == 0o700
    assert version_of(member) == 1
    for shown in (call("ledger", "show", member.path / "ledger.sqlite"), call("party", "status", member.path)):
        assert "data      version 1, declared 20" in shown.output


@pytest.mark.parametrize("name", ["bank.parquet", "bank.csv"])
def test_a_copy_holds_the_declared_columns_and_no_others(name, tmp_path):
    member = made(tmp_path)
    member.load([written(tmp_path, table(), name)])
    (copy,) = (member.path / "data" / "0001").glob("0000.*")
    assert CANARY.encode() not in copy.read_bytes()
    assert b"diary" not in copy.read_bytes()
    assert Source(copy).columns == ("person_id", "age", "segment")
    assert member.check_data() == 50


def test_what_happens_to_the_file_afterwards_matters_to_nobody(tmp_path):
    member, file = made(tmp_path), written(tmp_path, table())
    member.load([file])
    written(tmp_path, table(20))
    assert member.check_data() == 50
    file.unlink()
    assert member.check_data() == 50


def test_the_next_table_is_the_next_version_and_the_copy_before_is_removed(tmp_path):
    member = made(tmp_path)
    for version in (1, 2, 3):
        assert member.load([written(tmp_path, table(10 * version))]).version == version
        assert held(member) == [f"000{version}/0000.parquet", f"000{version}/SHA256SUMS"]
    assert version_of(member) == 3
    assert member.check_data() == 30


# What is refused ------------------------------------------------------------------------------------------------------


def torn(folder: Path) -> Path:
    path = written(folder, table(), "torn.parquet")
    data = path.read_bytes()
    path.write_bytes(data[:200] + bytes(400) + data[600:])
    return path


FAULTS = {
    "repeated ids": (lambda folder: written(folder, table(person_id=7)), "bank"),
    "missing ids": (lambda folder: written(folder, table(person_id=None)), "bank"),
    "no id column": (lambda folder: written(folder, table().drop(columns="person_id")), "id column"),
    "a column is missing": (lambda folder: written(folder, table().drop(columns="age")), "'age'"),
    "no declared level": (lambda folder: written(folder, table(segment="lead")), "segment:"),
    "another type": (lambda folder: written(folder, table(age=pd.Timestamp("2020-01-01"))), "'age'"),
    "more people than the capacity": (lambda folder: written(folder, table(60)), "capacity of 50"),
    "bytes that are no table": (lambda folder: torn(folder), "read"),
    "another format": (lambda folder: shutil.copy(written(folder, table()), folder / "bank.xlsx"), "parquet nor .csv"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_table_that_is_not_in_order_is_refused_to_its_owner_and_the_version_before_stays(fault, tmp_path):
    member = made(tmp_path, policy="capacity = 50")
    member.load([written(tmp_path, table())])
    before = held(member)
    make, words = FAULTS[fault]
    result = call("party", "load", member.path, make(tmp_path))
    assert result.exit_code == 1
    assert words in result.output.replace("\n", " ")
    assert CANARY not in result.output
    assert (version_of(member), held(member)) == (1, before)
    assert member.check_data() == 50


def test_a_party_without_a_table_is_not_opened_and_the_remedy_is_named(tmp_path):
    member = made(tmp_path)
    assert member.check_data() is None
    assert "colonnade party load" in call("party", "status", member.path).output
    (member.path / "schema.toml").write_text('data = "bank.csv"\n' + (member.path / "schema.toml").read_text())
    result = call("party", "load", member.path, written(tmp_path, table()))
    assert result.exit_code == 1
    assert "Remove the line" in result.output


def test_two_loads_at_the_same_time_do_not_share_a_version(tmp_path):
    member, file = made(tmp_path), written(tmp_path, table())
    member.load([file])
    other = os.open(member.path / "data", os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    with pytest.raises(BadInput, match="under way"):
        member.load([file])
    os.close(other)
    assert member.load([file]).version == 2


def changed(copy: Path) -> None:
    copy.write_bytes(copy.read_bytes()[:-1] + b"\0")


def shorter(copy: Path) -> None:
    copy.write_bytes(b"")


def without_sums(copy: Path) -> None:
    copy.with_name("SHA256SUMS").unlink()


@pytest.mark.parametrize("damage", [changed, shorter, Path.unlink, without_sums])
def test_a_copy_that_is_not_what_was_loaded_is_not_answered_from(damage, tmp_path):
    member = made(tmp_path)
    member.load([written(tmp_path, table())])
    damage(member.path / "data" / "0001" / "0000.parquet")
    with pytest.raises(BadInput, match="version 1 in data/ is missing, damaged or changed"):
        member.check_data()
    assert "WRONG data" in call("doctor", "--directory", tmp_path, "--party", member.path).output
    assert member.load([written(tmp_path, table())]).version == 2  # the way out
    assert member.check_data() == 50


# Crashes --------------------------------------------------------------------------------------------------------------


def killed(member: PartyFolder, file: Path, number: int) -> bool:
    """Load in a child that ends, as if killed, just before one of the calls that change a disk; return whether it was."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with pytest.MonkeyPatch.context() as patch:
                _end_before(patch, number)
                member.load([file])
            status = 0
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 9)
    return status == 9


def _end_before(patch: pytest.MonkeyPatch, number: int) -> None:
    calls = iter(range(1, 1_000_000))

    def ending(honest, counts=lambda *_: True):
        def call(*args, **options):
            if counts(*args) and next(calls) == number:
                os._exit(9)
            return honest(*args, **options)

        return call

    patch.setattr(
        LedgerFile, "run", ending(LedgerFile.run, lambda _, words, *__: words.startswith(("INSERT", "COMMIT")))
    )
    for owner, name in ((private_files.os, "open"), (private_files.os, "fsync"), (shutil, "rmtree")):
        patch.setattr(owner, name, ending(getattr(owner, name)))
    for name in ("mkdir", "replace", "rename"):
        patch.setattr(Path, name, ending(getattr(Path, name)))


def test_wherever_a_load_is_killed_the_party_has_the_old_table_or_the_new_one(tmp_path, request):
    """A slice of the places; all of them under --full."""
    file = written(tmp_path, table(20))
    seen = set()
    for number in range(1, 200, 1 if request.config.getoption("--full") else 6):
        member = made(tmp_path / str(number))
        member.load([written(tmp_path, table(), "old.parquet")])
        was_killed = killed(member, file, number)
        people = member.check_data()
        assert people == {1: 50, 2: 20}[version_of(member)]
        seen.add(version_of(member))
        again = member.load([written(tmp_path, table(30), "new.parquet")])
        assert (again.version, member.check_data()) == (version_of(member), 30)
        assert held(member) == [f"{again.version:04d}/0000.parquet", f"{again.version:04d}/SHA256SUMS"]
        if not was_killed:
            break
    assert seen == {1, 2}
    assert 15 < number < 199


# Making a folder --------------------------------------------------------------------------------------------------------


@pytest.mark.every(3)
@pytest.mark.parametrize("stood", [False, True])
@pytest.mark.parametrize("fault", ["schema", "table", "id"])
def test_a_folder_whose_making_is_refused_is_not_left_half_made(tmp_path, fault, stood):
    """Before, a corrected command was refused too: the folder was not empty."""
    file = written(tmp_path, table(), "new.parquet")
    schema, policy = tmp_path / "new.schema.toml", tmp_path / "new.policy.toml"
    good = made(tmp_path / "other")
    schema.write_text((good.path / "schema.toml").read_text())
    policy.write_text((good.path / "policy.toml").read_text())
    folder = tmp_path / "new"
    if stood:
        folder.mkdir()
    arguments = ["party", "init", folder, "--name", "new", "--data", file]
    filled = ["--schema", schema, "--policy", policy]
    if fault == "schema":
        bad = tmp_path / "bad.toml"
        bad.write_text("id = 1\n")
        refused = call(*arguments, "--schema", bad, "--policy", policy)
    elif fault == "table":
        other = written(tmp_path, table().drop(columns="age"), "bad.parquet")
        refused = call("party", "init", folder, "--name", "new", "--data", other, *filled)
    else:
        refused = call(*arguments, "--id", "nobody")
    assert refused.exit_code == 1, refused.output
    assert folder.exists() == stood
    assert not stood or list(folder.iterdir()) == []
    again = call(*arguments, *filled)
    assert again.exit_code == 0, again.output
    assert (folder / "card.toml").exists()
