"""Across machines: a round, bytes per second and a large secure Gram matrix over NVIDIA FLARE, beside the same in one process.

Everything is on one machine, over the loopback interface, with provisioned mutual TLS: a coordinator (this process), and for
each of three parties a guard and a relay. *Bare Cell* is FLARE's own request and reply of blocks of 1 MB to a process that
sends them back: the pipe without anything of ours. *Relayed* is what a study sees: coordinator, relay, Unix socket, an echo,
and back.

The Gram matrix is `federation.moments` with everything included, in process and over the network in turns. The bar is 2.5
times the time in one process plus the study's bytes at the rate of the bare echo, all in the same run. Memory is what the
operating system says of each process afterwards. Other work on the machine disturbs both sides. ``beside.py`` compares two
checkouts; ``additive.py`` has the additive model.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

from benchmarks.frame import Benchmark, Claim, Part, Results, Row, Table, within
from benchmarks.frame.claims import Test
from benchmarks.network import additive, sites

import colonnade as cn
from colonnade.protocol import messages
from colonnade.protocol.messages import GetDescription
from colonnade.service.federation_setup import provision
from colonnade.transport.direct import Direct, UnixEndpoint
from colonnade.transport.flare import FlareTransport

HERE = Path(__file__).parent
BAR = 2.5
MEGABYTE = 1e6
BLOCK = 1 << 20
SIZE, TIMES = 64 << 20, 200


class Echo:
    def handle(self, data: bytes) -> bytes:
        return bytes(memoryview(data))  # a copy, as any line makes one


# Rounds and bytes -----------------------------------------------------------------------------------------------------


def round_seconds(transport, names, times: int) -> float:
    data = dict.fromkeys(names, b"x" * 300)
    transport.exchange(data)
    return median(timed(lambda: transport.exchange(data)) for _ in range(times))


def rate(transport, names, size: int) -> float:
    """MB a second, both ways together, all parties at the same time."""
    data = dict.fromkeys(names, os.urandom(size))
    transport.exchange(data)
    best = min(timed(lambda: transport.exchange(data)) for _ in range(3))
    return 2 * size * len(names) / best / MEGABYTE


def timed(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def bare_cell(folder: Path) -> dict[str, float]:
    """FLARE's own request and reply, from a process of its own: one process talks to one federation at a time."""
    port = sites.free_port()
    kits = provision(folder / "echo", host=sites.HOST, sites=sites.PARTIES, kits=folder / "echo-kits")
    script = [sys.executable, "-m", "benchmarks.network.run", f"tcp://{sites.HOST}:{port}", str(kits["coordinator"])]
    address = f"tcp://{sites.HOST}:{port}"
    echoes = [
        subprocess.Popen(
            [sys.executable, str(HERE / "cell_echo.py"), name, address, str(kits[name]), sites.HOST],
            stdin=subprocess.PIPE,
        )
        for name in sites.PARTIES
    ]
    try:
        found = subprocess.run(script, capture_output=True, text=True, check=True, cwd=HERE.parents[1])
        return json.loads(found.stdout.splitlines()[-1])
    finally:
        for echo in echoes:
            echo.stdin.close()
            echo.wait(30)


def bare(address: str, kit: str) -> None:
    """Be the coordinator of the bare echo."""
    from nvflare.fuel.f3.cellnet.cell import Cell
    from nvflare.fuel.f3.message import Message

    credentials = {
        "ca_cert": f"{kit}/rootCA.pem",
        "server_cert": f"{kit}/server.crt",
        "server_key": f"{kit}/server.key",
    }
    cell = Cell(fqcn="server", root_url=address, secure=True, credentials=credentials)
    cell.start()
    core = cell.core_cell
    while not set(sites.PARTIES) <= set(core.agents):
        time.sleep(0.05)
    pool = ThreadPoolExecutor(len(sites.PARTIES))

    def ask(name: str, data: bytes, times: int) -> None:
        for _ in range(times):
            core.send_request(channel="echo", topic="echo", target=name, request=Message({}, data), timeout=30)

    def everyone(data: bytes, times: int) -> None:
        list(pool.map(lambda name: ask(name, data, times), sites.PARTIES))

    everyone(b"x" * 300, 3)
    small = median(timed(lambda: everyone(b"x" * 300, 1)) for _ in range(TIMES))
    blocks = 64
    data = os.urandom(BLOCK)
    best = min(timed(lambda: everyone(data, blocks)) for _ in range(3))
    print(json.dumps({"round": small, "rate": 2 * BLOCK * blocks * len(sites.PARTIES) / best / MEGABYTE}), flush=True)
    os._exit(0)


def relayed(folder: Path) -> dict[str, dict[str, float]]:
    """The same through our relays and a Unix socket, through the socket alone, and in this process."""
    port = sites.free_port()
    kits = provision(folder / "relay", host=sites.HOST, sites=sites.PARTIES, kits=folder / "relay-kits")
    address = f"tcp://{sites.HOST}:{port}"
    pids = [sites.echo_behind(folder / f"{name}.sock") for name in sites.PARTIES]
    pids += [sites.relay(name, folder / f"{name}.sock", address, kits[name]) for name in sites.PARTIES]
    try:
        here = Direct({name: Echo() for name in sites.PARTIES})
        socket_only = Direct({name: UnixEndpoint(folder / f"{name}.sock") for name in sites.PARTIES})
        far = FlareTransport(sites.PARTIES, address=address, kit=kits["coordinator"], host=sites.HOST)
        found = {}
        for title, transport in (("in process", here), ("Unix socket", socket_only), ("relayed", far)):
            found[title] = {
                "round": round_seconds(transport, sites.PARTIES, TIMES),
                "rate": rate(transport, sites.PARTIES, SIZE),
            }
        far.close()
        return found
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


# A large study --------------------------------------------------------------------------------------------------------


def gram(folder: Path, rows: int, columns: int, times: int) -> dict:
    """The secure Gram matrix in process and over the network, in turns."""
    tables = sites.random_tables(rows, columns)
    papers = sites.draw_up(folder, tables, 1.0)
    served = {name: sites.serve(folder / name) for name in tables}
    schema = {
        name: cn.Schema({c: cn.Numeric(-1.0, 1.0) for c in table.columns if c != "id"})
        for name, table in tables.items()
    }
    parties = {name: cn.Party(table, schema=schema[name]) for name, table in tables.items()}
    try:
        with (
            cn.Federation.simulate(parties, id="id", budget=cn.Budget(epsilon=1000.0, delta=1e-5)) as here,
            cn.Federation.connect(papers, patience=180.0) as there,
        ):
            times_here, times_there, bytes_ = [], [], 0
            for draw in range(1, times + 2):  # the first loads columns and compiled code
                for federation, list_ in ((here, times_here), (there, times_there)):
                    start = time.perf_counter()
                    release = federation.moments(epsilon=1.0, delta=1e-6, repeat=draw)
                    list_.append(time.perf_counter() - start)
                bytes_ = release.transcript_.bytes
            message = dict.fromkeys(tables, messages.encode(GetDescription()))
            asked = median(timed(lambda: there.transport.exchange(message)) for _ in range(50))
            processes = {"coordinator": sites.memory(os.getpid())}
            for name, process in served.items():
                for role, pid in sites.children(process.pid).items():
                    processes[f"{name} {role}"] = sites.memory(pid)
    finally:
        for process in served.values():
            sites.end(process)
    return {
        "rows": rows,
        "columns": columns,
        "in_process": min(times_here[1:]),
        "network": min(times_there[1:]),
        "bytes": bytes_,
        "round_to_guards": asked,
        "memory": processes,
    }


# What is measured -----------------------------------------------------------------------------------------------------------


def lines(_run: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="cn-") as name:
        for title, one in {"bare Cell": bare_cell(Path(name)), **relayed(Path(name))}.items():
            yield Row({"line": title}, {"ms per round": 1e3 * one["round"], "MB/s": one["rate"]})


def study(_run: int, rows: int, columns: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="cn-") as name:
        found = gram(Path(name), rows, columns, 3)
    size = {"size": f"{rows:,} × {columns}"}
    yield Row({**size, "where": "one process"}, {"seconds": found["in_process"]})
    yield Row({**size, "where": "network"}, {"seconds": found["network"]})
    yield Row(size, {"MB": found["bytes"] / MEGABYTE, "round to guards, ms": 1e3 * found["round_to_guards"]})
    for process, one in found["memory"].items():
        yield Row({"process": process}, {"now": one["now"], "peak": one["peak"]})


def _within(found: Results) -> Iterator[Test]:
    rate = found.sample("lines", "MB/s", line="bare Cell").mean
    for labels, samples in found.rows("study", where="network"):
        here = found.sample("study", "seconds", size=labels["size"], where="one process")
        sent = found.sample("study", "MB", size=labels["size"]).mean
        yield within(samples["seconds"], here, BAR + sent / rate / here.mean)


BENCHMARK = Benchmark(
    name="network",
    title="Across machines, on one machine",
    about=__doc__ or "",
    packages=("numpy", "nvflare"),
    parts=[
        Part("lines", lines, [{}], 3, 1.5, machine=frozenset({"ms per round", "MB/s"})),
        Part(
            "study",
            study,
            [{"rows": 195_666, "columns": 117}],
            3,
            2.5,
            quick=[{"rows": 20_000, "columns": 30}],
            machine=frozenset({"seconds", "round to guards, ms", "now", "peak"}),
        ),
        *additive.PARTS,
    ],
    shown=[
        "## A round to three parties, and bytes both ways",
        Table("lines", {"ms per round": "ms per round", "MB/s": "MB/s"}, {"line": "line"}, digits=3),
        "## Secure Gram matrix, three parties",
        Table(
            "study", {"seconds": "seconds"}, {"size": "size"}, across="where", filled="seconds", digits=3, costs=True
        ),
        Table(
            "study",
            {"MB": "MB", "round to guards, ms": "ms for a round to guards"},
            {"size": "size"},
            filled="MB",
            digits=3,
        ),
        Table("study", {"now": "MB now", "peak": "MB at its peak"}, {"process": "process"}, filled="peak", digits=3),
        *additive.SHOWN,
    ],
    claims=[
        Claim(
            "the network costs at most 2.5 times the time in one process, plus the bytes at the bare rate (ratio)",
            f"{BAR:g} × and the bytes",
            _within,
            "our bar",
        ),
        *additive.CLAIMS,
    ],
)

if __name__ == "__main__":
    bare(*sys.argv[1:3])
