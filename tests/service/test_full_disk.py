"""A disk that is full and then is not: a member says that it is not ready, and is ready again without a person."""

import os
import shutil
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import colonnade as cn
from colonnade.errors import DiskFull, LedgerCorrupt
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.protocol import messages
from colonnade.runtime.event_log import Log
from colonnade.service import health, processes
from colonnade.service.processes import MonitoredEndpoint
from tests.cli.studies import call
from tests.service.lines import free_port, until
from tests.service.served import Site, unserved

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 32 MB where the bank's folder will be."""
    place = tmp_path / "bank"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=32m,mode=700", "none", str(place)]
    if sys.platform != "linux" or not shutil.which("mount") or subprocess.run(mount, check=False).returncode:
        pytest.skip("needs Linux, and the right to mount a small file system")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=False)


def fill(folder: Path) -> Path:
    path = folder / "somebody.else"
    with path.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(bytes(4096))
    return path


def counts() -> cn.PatternCount:
    return cn.PatternCount(["bank.segment", "telco.plan"], method="response", epsilon=0.01)


def asked(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except urllib.error.URLError:
        return 0, ""


@pytest.mark.full
def test_a_member_whose_disk_was_full_is_not_ready_and_then_ready_again_without_a_person(tmp_path, small_disk):
    site, port = Site(tmp_path, parties=("bank", "telco"), nodes=("auditor",)), free_port()
    bank = str(site.members["bank"].path)
    site.start(bank={"health_port": port, "least_free": 1 << 16, "log": str(tmp_path / "bank.log")})
    try:
        with site.connect() as federation:
            counts().fit(federation)
            until(lambda: asked(port, "/ready")[0] == 200, what="the bank being ready")
            spent = [line for line in asked(port, "/metrics")[1].splitlines() if "epsilon" in line]
            filler = fill(small_disk)
            with pytest.raises(DiskFull):
                counts().fit(federation, repeat=2)
            status, text = asked(port, "/ready")
            assert status == 503
            assert "WRONG ledger       its disk was full" in text
            assert asked(port, "/live")[0] == 200  # a restart would not help
            shown = call("party", "status", bank, "--ready")
            assert shown.exit_code == 1
            assert "WRONG ledger" in shown.output
            assert "refuses everything: disk-full" in call("party", "status", bank).output
            figures = asked(port, "/metrics")[1]
            assert 'colonnade_up{member="bank"} 0' in figures
            assert [line for line in figures.splitlines() if "epsilon" in line] == spent  # they do not vanish
            filler.unlink()
            until(lambda: asked(port, "/ready")[0] == 200, what="the bank being ready again", seconds=120)
            assert 'colonnade_up{member="bank"} 1' in asked(port, "/metrics")[1]
            counts().fit(federation, repeat=3)
        said = [line for line in (tmp_path / "bank.log").read_text().splitlines() if '"disk-f' in line]
        assert [("disk-full" in line, "disk-freed" in line) for line in said[-2:]] == [(True, False), (False, True)]
        with SqliteLedger.open(small_disk / "ledger.sqlite") as ledger:
            ledger.verify()
    finally:
        site.stop()


# What ends by itself, and what does not ------------------------------------------------------------------------------


class Refusing:
    """A guard whose ledger met a failure."""

    def __init__(self, error: cn.ColonnadeError) -> None:
        self.reply = messages.encode(messages.Refused(code=error.code, message=error.message, remedy=error.remedy))

    def handle(self, _: bytes) -> bytes:
        return self.reply


class Ending(MonitoredEndpoint):
    """Notes its end, where a process would end."""

    def __init__(self, error: cn.ColonnadeError, status: Path) -> None:
        super().__init__(Refusing(error), Log(None, "bank", "guard"), status)
        self.ends: list[bool] = []
        for _ in range(3):
            self.handle(messages.encode(messages.GetAccount()))

    def end(self, *_: object) -> None:
        self.ends.append(True)


def test_a_guard_ends_to_be_started_again_once_there_is_room_and_not_before(tmp_path, monkeypatch):
    room = threading.Event()
    monkeypatch.setattr(processes, "_await_room", lambda _: room.wait())
    guard = Ending(DiskFull("full"), tmp_path / "guard.status")
    assert guard.ends == []
    room.set()
    until(lambda: guard.ends == [True], what="the guard ending, once", seconds=10)


def test_a_failed_sync_is_never_tried_again_by_itself(tmp_path, monkeypatch):
    """After a failed fsync nobody knows what the disk holds: that is for a person, with room or without."""
    waited: list[Path] = []
    monkeypatch.setattr(processes, "_await_room", waited.append)
    guard = Ending(LedgerCorrupt("The ledger cannot be written durably."), tmp_path / "guard.status")
    for thread in threading.enumerate():
        if thread.name == "colonnade-room":
            thread.join(10)
    assert (waited, guard.ends) == ([], [])


def test_room_is_what_can_be_written_and_synced(tmp_path, monkeypatch):
    tries: list[int] = []

    def full_at_first(_: int) -> None:
        tries.append(1)
        if len(tries) < 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(processes, "ROOM_SECONDS", 0.01)
    monkeypatch.setattr(os, "fsync", full_at_first)
    processes._await_room(tmp_path)
    assert len(tries) == 3
    assert list(tmp_path.iterdir()) == []


def test_a_guard_that_meets_a_full_disk_when_it_starts_waits_for_room(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "ROOM_SECONDS", 0.01)
    tries: list[int] = []

    class Folder:
        path = tmp_path

        def guard(self, *, change_cap: bool) -> str:
            tries.append(1)
            if len(tries) < 3:
                raise DiskFull("A ledger cannot be created: the disk is full.")
            return "a guard"

    opened = processes._opened(Folder(), Log(None, "bank", "guard"), tmp_path / "guard.status", change_cap=False)
    assert (opened, len(tries)) == ("a guard", 3)


def test_a_ledger_that_refuses_for_another_reason_is_neither_live_nor_ready(tmp_path, monkeypatch):
    folder = unserved(tmp_path, parties=("bank", "telco")).members["bank"].path
    refused = messages.Refused(code="ledger-corrupt", message="It failed.", remedy="")
    monkeypatch.setattr(health, "_asked", lambda *_: refused)
    for checks in (health.live_checks(folder), health.ready_checks(folder)):
        told = {name: words for name, sound, words in health.run_checks(checks) if not sound}
        assert "ledger-corrupt" in told["ledger"]
    assert 'colonnade_up{member="bank"} 0' in health.metrics(health.member_status(folder))
