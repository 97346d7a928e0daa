"""Members of a benchmark's federation as processes: folders, papers, kits, `colonnade party serve`; and echoes behind relays."""

import contextlib
import io
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from colonnade.cli import members as federation_command
from colonnade.cli import studies as coordinator_command
from colonnade.protocol.messages import read_frame, write_frame
from colonnade.service.federation_setup import install_coordinator
from colonnade.service.party_folder import PartyFolder

HOST = "localhost"
PARTIES = ("first", "second", "third")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


def draw_up(folder: Path, tables: dict[str, pd.DataFrame], bound: float, *, nodes: Sequence[str] = ()) -> Path:
    """Make a folder per member, with these numeric columns, and papers that all have signed; return the papers."""
    members = {name: _party(folder, name, table, bound) for name, table in tables.items()}
    members |= {name: PartyFolder.create(folder / name, name=name, role="compute") for name in nodes}
    cards = []
    for name, member in members.items():
        cards.append(folder / f"{name}.card.toml")
        cards[-1].write_text(member.card_text())
    next(iter(tables.values()))[["id"]].to_parquet(folder / "cohort.parquet")
    with contextlib.redirect_stdout(io.StringIO()):
        coordinator_command.init_coordinator(folder / "kit", host=HOST)
        federation_command.init_federation(
            folder, card=cards, coordinator=folder / "kit" / "card.toml", cohort=folder / "cohort.parquet", port=free_port(),
            name="benchmark", id="id", collusion=1, min_people=1, max_epsilon=None,
        )  # fmt: skip
        for name in members:
            federation_command.sign(folder / "federation.toml", party=folder / name)
    install_coordinator(folder / "kit", folder)
    for member in members.values():
        member.install(folder)
    for name in tables:
        members[name].load([folder / f"{name}.parquet"])
    return folder / "federation.toml"


def _party(folder: Path, name: str, table: pd.DataFrame, bound: float) -> PartyFolder:
    table.to_parquet(folder / f"{name}.parquet")
    made = PartyFolder.create(folder / name, name=name, role="data")
    columns = [f"{column} = {_described(table[column], bound)}" for column in table.columns if column != "id"]
    (made.path / "schema.toml").write_text(
        "\n".join(['id = "id"', 'cohort = "../cohort.parquet"', "[columns]", *columns])
    )
    (made.path / "policy.toml").write_text("[budget]\nepsilon = 10000.0\ndelta = 1e-5\n")
    return made


def _described(values: pd.Series, bound: float) -> str:
    """A category of texts, or a number between bounds, as schema.toml has it."""
    if not pd.api.types.is_numeric_dtype(values):
        return f"{{ levels = {sorted(values.unique())!r} }}"
    return f"{{ lower = {-bound}, upper = {bound} }}"


def serve(folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "serve.log").open("wb") as log:
        command = [sys.executable, "-m", "colonnade.cli", "party", "serve", str(folder)]
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)


def end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    process.wait(30)


def children(pid: int) -> dict[str, int]:
    """Guard and relay of a supervisor, in the order in which it started them."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return dict(zip(("guard", "relay"), map(int, sorted(found, key=int)), strict=False))


def memory(pid: int) -> dict[str, float]:
    """Resident memory now and at its peak, in MB."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return {name: int(lines[key].split()[0]) / 1024 for name, key in (("now", "VmRSS"), ("peak", "VmHWM"))}


def echo_behind(path: Path) -> int:
    """Fork a process that answers frames on a Unix socket with the same frames; return its id."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(16)
    pid = os.fork()
    if pid:
        listener.close()
        return pid
    while True:
        connection, _ = listener.accept()
        with connection, connection.makefile("rwb") as stream, contextlib.suppress(Exception):
            while (data := read_frame(stream)) is not None:
                write_frame(stream, data)


def relay(name: str, guard: Path, address: str, kit: Path) -> int:
    """Fork a relay; return its id."""
    from colonnade.service.relay import SiteRelay

    pid = os.fork()
    if pid:
        return pid
    SiteRelay(name, guard=guard, address=address, kit=kit, host=HOST)
    while True:
        time.sleep(60)


def random_tables(rows: int, columns: int) -> dict[str, pd.DataFrame]:
    generator = np.random.default_rng(7)
    parts = np.array_split(np.arange(columns), len(PARTIES))
    return {
        name: pd.DataFrame({"id": np.arange(rows), **{f"x{k}": generator.uniform(-1, 1, rows) for k in part}})
        for name, part in zip(PARTIES, parts, strict=True)
    }
