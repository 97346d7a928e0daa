"""A served party with a Dask cluster of its own: its workers open the loaded copy, and its guard talks to its scheduler alone."""

import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from colonnade.errors import BadInput, LoosePermissions
from colonnade.party.table import dask_table
from colonnade.party.table.dask_table import DaskTable
from colonnade.service import processes
from colonnade.service.party_folder import PartyFolder
from colonnade.service.processes import await_scheduler
from colonnade.service.served_party import public_alignment
from tests.cli.test_large_load import SCHEMA, made
from tests.party.dask_clusters import tls_cluster, write_files


@pytest.fixture(scope="module")
def scheduler():
    with tls_cluster(n_workers=1, threads_per_worker=2, processes=False) as (cluster, security):
        yield cluster.scheduler_address, security


def test_workers_open_the_loaded_copy_in_the_papers_order(tmp_path: Path, scheduler, monkeypatch) -> None:
    monkeypatch.setattr(dask_table, "RANGE", 64)
    made(tmp_path).load([tmp_path / "people"])
    ages = []
    address, security = scheduler
    write_files(security, tmp_path / "bank" / "dask")
    for dask in (None, address):
        folder = PartyFolder(tmp_path / "bank", dask=dask)
        terms, files = folder.loaded()
        papers = SimpleNamespace(members={}, alignment=public_alignment(tmp_path / "list.parquet", "person"))
        cluster = folder._cluster()
        opened = replace(terms, papers=papers, cluster=cluster).open(files, 1)  # type: ignore[arg-type]
        assert isinstance(opened.table, DaskTable) is (dask is not None)
        assert opened.order.people == opened.table.people == 500
        ages.append(opened.table.values("age").tolist())
        if cluster is not None:
            cluster._client.close()
    assert ages[0] == ages[1]


def test_the_scheduler_may_stand_in_the_schema_and_needs_tls_also_on_the_loopback_interface(tmp_path: Path) -> None:
    folder = made(tmp_path, 'dask = "tls://scheduler.example:8786"')
    assert folder.scheduler == "tls://scheduler.example:8786"
    assert PartyFolder(folder.path, dask="tcp://127.0.0.1:1").scheduler == "tcp://127.0.0.1:1"
    with pytest.raises(BadInput, match=r"key\.pem"):
        folder._cluster()
    for address in ("tcp://scheduler.example:8786", "tcp://127.0.0.1:8786", "tcp://localhost:8786"):
        with pytest.raises(BadInput, match="without TLS"):
            PartyFolder(folder.path, dask=address)._cluster()
    (folder.path / "schema.toml").write_text(SCHEMA.format(memory="dask = 8786"))
    with pytest.raises(BadInput, match="dask"):
        folder.scheduler  # noqa: B018


def test_the_key_for_the_cluster_is_for_this_user_alone(tmp_path: Path) -> None:
    folder = made(tmp_path)
    (folder.path / "dask").mkdir(mode=0o700)
    key = folder.path / "dask" / "key.pem"
    key.write_text("")
    key.chmod(0o644)
    with pytest.raises(LoosePermissions, match=r"key\.pem"):
        folder.require_safe()


GUARD = """
import socket, sys
from pathlib import Path
from colonnade.party.table.dask_cluster import Cluster
from colonnade.service.processes import refuse_the_network

address, port = sys.argv[1], int(sys.argv[2])
refuse_the_network(but=address)
attempts = [
    lambda: socket.create_connection(("127.0.0.1", port)),
    lambda: socket.create_connection(("localhost", port)),
    lambda: socket.gethostbyname("localhost"),
    lambda: socket.socket().connect(("127.0.0.1", port)),
    lambda: socket.socket().bind(("127.0.0.1", 0)),
    lambda: socket.socket().listen(),
    lambda: socket.socket().listen(5),
    lambda: socket.socket(type=socket.SOCK_DGRAM),
    lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM),
    lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
    lambda: socket.socket(socket.AF_VSOCK),
]
for number, attempt in enumerate(attempts):
    try:
        attempt()
    except PermissionError:
        continue
    sys.exit(f"attempt {number} was let through")
with socket.socket(socket.AF_UNIX) as own:
    own.bind(sys.argv[3] + "/own.sock")
    own.listen()
cluster = Cluster.of(address, Path(sys.argv[3]), loopback=False)
assert cluster.begin(max, [1, 3, 2])() == 3
assert list(cluster.each([])) == []
cluster._client.close()
print("done")
"""


@pytest.mark.full
def test_a_guard_reaches_its_own_scheduler_and_nothing_else(tmp_path: Path, scheduler) -> None:
    address, security = scheduler
    write_files(security, tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as other:
        command = [sys.executable, "-c", GUARD, address, str(other.getsockname()[1]), str(tmp_path)]
        found = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert found.stdout.strip() == "done", found.stderr[-2_000:]


def test_a_member_waits_for_a_scheduler_that_is_started_after_it(monkeypatch) -> None:
    monkeypatch.setattr(processes, "ASK_AGAIN", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as place:
        port = place.getsockname()[1]
    started: list[socket.socket] = []
    said: list[str] = []

    def away() -> None:
        said.append("away")
        started.append(socket.create_server(("127.0.0.1", port)))

    await_scheduler(f"tls://127.0.0.1:{port}", away)
    assert said == ["away"]
    await_scheduler(f"tls://127.0.0.1:{port}", away)
    assert said == ["away"]
    started[0].close()
