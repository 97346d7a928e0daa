"""A federation of real processes on loopback: papers signed, kits provisioned, every member served by `colonnade party serve`."""

import atexit
import copy
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

import colonnade as cn
from colonnade.cli import members as federation_command
from colonnade.cli import studies as coordinator_command
from colonnade.protocol.agreement import COORDINATOR, read_agreement
from colonnade.service.federation_setup import authority_folder, install_coordinator
from colonnade.service.party_folder import PartyFolder
from tests.federations import SCHEMAS, TEST_KEY, frames
from tests.service.lines import HOST, Started, free_port, until

MEMBERS = """
import ctypes, json, os, sys, signal
from pathlib import Path
import typer
import colonnade.service.processes, colonnade.service.served_party
import colonnade.party.guard
from colonnade.cli.members import serve
from colonnade.service import health

pids = []
options = json.loads(sys.argv[1])
for folder in sys.argv[2:]:
    pid = os.fork()
    if pid == 0:
        os.setsid()
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # should the test itself be killed, nothing is left behind
        log = os.open(folder + "/serve.log", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        os.dup2(log, 1), os.dup2(log, 2)
        try:
            chosen = options.get(Path(folder).name, {})
            health.LEAST_FREE = chosen.get("least_free", health.LEAST_FREE)
            log = Path(chosen["log"]) if "log" in chosen else None
            serve(
                Path(folder), change_cap=False, health_port=chosen.get("health_port"), log=log, direct=chosen.get("direct", False)
            )
        except typer.Exit as end:
            os._exit(end.exit_code)
        except BaseException as error:
            print(type(error).__name__, getattr(error, "code", ""), error, file=sys.stderr, flush=True)
        os._exit(1)
    pids.append(pid)
sys.stdin.read()
for pid in pids:
    try: os.kill(pid, signal.SIGTERM)
    except ProcessLookupError: pass
for pid in pids:
    try: os.waitpid(pid, 0)
    except ChildProcessError: pass
os._exit(0)
"""
"""Imports once and forks, because importing takes longer than most tests; each fork is the command as it stands."""


def columns_of(schema: cn.Schema) -> str:
    lines = []
    for name, column in schema.items():
        if isinstance(column, cn.Category):
            listed = list(column.levels)[:-1] if column.missing == "level" else list(column.levels)
            rules = {"missing": column.missing, "other": column.other}
            more = "".join(f", {rule} = {json.dumps(value)}" for rule, value in rules.items() if value is not None)
            lines.append(f"{name} = {{ levels = {json.dumps(listed)}{more} }}")
        else:
            whole = ", integer = true" if column.integer else ""
            whole += "" if column.missing is None else f", missing = {column.missing}"
            lines.append(f"{name} = {{ lower = {column.lower}, upper = {column.upper}{whole} }}")
    return "\n".join(lines)


class Site:
    """Folders of a federation, and the processes that serve them."""

    def __init__(
        self,
        folder: Path,
        *,
        parties: tuple[str, ...] = ("bank", "telco", "insurer"),
        nodes: tuple[str, ...] = (),
        people: int = 300,
        epsilon: float = 10.0,
        tables: dict[str, pd.DataFrame] | None = None,
        host: str = HOST,
        port: int | None = None,
        test_key: bytes | None = TEST_KEY,
        loaded: bool = True,
        schemas: Mapping[str, cn.Schema] = SCHEMAS,
        direct: bool = False,
    ) -> None:
        self.folder = folder
        self.direct = direct
        self.schemas = schemas
        self.parties = parties
        self.tables = tables or frames(people)
        self.started: list[Started] = []
        for name in parties:
            self._make_party(name, epsilon, test_key)
        for name in nodes:
            PartyFolder.create(folder / name, name=name, role="compute", test_key=test_key, direct=self._address())
        self.members = {name: PartyFolder(folder / name) for name in (*parties, *nodes)}
        self.draw_up(host=host, port=port or free_port())
        self.sign()
        for name in parties if loaded else ():
            self.members[name].load([folder / f"{name}.parquet"])

    def _make_party(self, name: str, epsilon: float, test_key: bytes | None) -> None:
        self.tables[name].to_parquet(self.folder / f"{name}.parquet")
        made = PartyFolder.create(self.folder / name, name=name, role="data", test_key=test_key, direct=self._address())
        schema = f'id = "person_id"\ncohort = "../cohort.parquet"\n[columns]\n{columns_of(self.schemas[name])}\n'
        (made.path / "schema.toml").write_text(schema)
        (made.path / "policy.toml").write_text(
            f"[budget]\nepsilon = {epsilon}\ndelta = 1e-5\n[policy]\nevent_level = true\n"
            f'alignments = ["intersection", "cohort"]\ncapacity = {max(400, len(self.tables[name]))}\n'
        )

    def _address(self) -> str:
        """Where a member is reached directly, if this is a federation with direct links."""
        return f"{HOST}:{free_port()}" if self.direct else ""

    def draw_up(self, *, host: str, port: int) -> None:
        common = set.intersection(*(set(self.tables[name]["person_id"]) for name in self.parties))
        pd.DataFrame({"person_id": sorted(common)}).to_parquet(self.folder / "cohort.parquet")
        cards = []
        for name, member in self.members.items():
            path = self.folder / f"{name}.card.toml"
            path.write_text(member.card_text())
            cards.append(path)
        coordinator_command.init_coordinator(self.kit, host=host)
        federation_command.init_federation(
            self.folder, card=cards, coordinator=self.kit / "card.toml", cohort=self.folder / "cohort.parquet", port=port,
            name="test", id="person_id", collusion=1, threshold=None, no_compute=None, min_people=1, max_epsilon=None,
        )  # fmt: skip
        self.papers_path = self.folder / "federation.toml"

    @property
    def kit(self) -> Path:
        """The coordinator's own folder."""
        return self.folder / "kit"

    def sign(self) -> None:
        for member in self.members.values():
            federation_command.sign(self.papers_path, party=member.path)
        if COORDINATOR in self.papers.members:
            federation_command.sign(self.papers_path, party=self.kit)
        install_coordinator(self.kit, self.folder)
        for name in self.members:
            self.hand_out(name)

    def hand_out(self, name: str) -> None:
        """Give a member the papers as they are, signed or not, and its certificate."""
        member = self.members[name]
        (member.path / "federation.toml").write_text(self.papers_path.read_text())
        member.kit.install(self.folder / "kits" / name, name)

    @property
    def papers(self):
        return read_agreement(self.papers_path)

    def start(self, *names: str, **options: dict) -> Started:
        """Serve some members, or all; options of `party serve` are given by member."""
        folders = [str(self.members[name].path) for name in names or self.members]
        started = Started([sys.executable, "-c", MEMBERS, json.dumps(options), *folders], self.folder / "members.log")
        self.started.append(started)
        return started

    def connect(self, **options) -> cn.Federation:
        return cn.Federation.connect(self.papers_path, **options)

    def events(self, name: str, event: str | None = None, **fields) -> list[dict]:
        log = self.members[name].path / "serve.log"
        lines = log.read_text().splitlines() if log.exists() else []
        found = [json.loads(line) for line in lines if line.startswith("{")]
        return [
            one
            for one in found
            if event in (None, one["event"]) and all(one.get(key) == value for key, value in fields.items())
        ]

    def pid(self, name: str, process: str) -> int:
        """The process that the supervisor started last."""
        wanted = [
            one for one in self.events(name) if one["event"] in ("started", "restarted") and one.get("child") == process
        ]
        return wanted[-1]["pid"]

    def kill(self, name: str, process: str) -> int:
        """kill -9 one process of one member, by its id."""
        pid = self.pid(name, process)
        os.kill(pid, signal.SIGKILL)
        return pid

    def ready(self, *names: str) -> None:
        for name in names or self.members:
            until(
                lambda name=name: self.events(name, "started", process="guard") and self.members[name].socket.exists(),
                what=f"the guard of {name} starting",
            )

    def stop(self) -> None:
        for one in self.started:
            one.stop()
        self.started = []


@cache
def _made_once(**options) -> Site:
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "site").mkdir()
    return Site(folder / "site", **options)


def unserved(folder: Path, **options) -> Site:
    """A copy of a federation's folders, whose keys and certificates are made once: for members that no process serves.

    Copies have the same keys and the same port.
    """
    first = _made_once(**options)
    shutil.copytree(first.folder, folder, dirs_exist_ok=True)
    shutil.copytree(authority_folder(first.folder), authority_folder(folder))
    site = copy.copy(first)
    site.folder, site.papers_path, site.started = folder, folder / "federation.toml", []
    site.members = {name: PartyFolder(folder / name) for name in first.members}
    site.tables = {name: table.copy() for name, table in first.tables.items()}
    return site


def simulated(site: Site, **options) -> cn.Federation:
    """The same federation in this process, with the same test randomness."""
    nodes = [name for name, member in site.members.items() if member.role == "compute"]
    return cn.Federation.simulate(
        {name: cn.Party(site.tables[name], schema=SCHEMAS[name]) for name in site.parties},
        id="person_id",
        budget=cn.Budget(epsilon=10.0, delta=1e-5),
        compute_nodes=nodes,
        test_key=TEST_KEY,
        **options,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = Site(tmp_path_factory.mktemp("n"))
    made.start()
    try:
        yield made
    finally:
        made.stop()
