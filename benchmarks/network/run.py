"""Across machines: a round, bytes a second and a large secure Gram matrix over NVIDIA FLARE, beside the same in one process.

    python benchmarks/network/run.py [--quick]

Everything is on one machine, over the loopback interface, with provisioned mutual TLS: a coordinator (this process), and for each
of three parties a guard and a relay. *Bare Cell* is FLARE's own request and reply of blocks of 1 MB to a process that sends them
back: the pipe without anything of ours. *Relayed* is what a study sees: coordinator, relay, Unix socket, an echo, and back.

The Gram matrix is `federation.moments` with everything included, best of several draws, in process and over the network in turns.
The bar is 2.5 times the time in one process plus the study's bytes at the rate of the bare echo, all in the same run. Memory is
what the operating system says of each process afterwards. Other work on the machine disturbs both sides.
"""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from statistics import median

import colonnade as cn
from colonnade.protocol import codec
from colonnade.protocol.messages import GetDescription
from colonnade.service.federation_setup import provision
from colonnade.transport.direct import Direct, UnixEndpoint
from colonnade.transport.flare import FlareTransport

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import sites  # noqa: E402  # beside this file

BAR = 2.5
MEGABYTE = 1e6
BLOCK = 1 << 20


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


def bare_cell(folder: Path, quick: bool) -> dict[str, float]:
    """FLARE's own request and reply, from a process of its own: one process talks to one federation at a time."""
    port = sites.free_port()
    kits = provision(folder / "echo", host=sites.HOST, sites=sites.PARTIES, kits=folder / "echo-kits")
    script = [sys.executable, str(HERE / "run.py"), "--bare", f"tcp://{sites.HOST}:{port}", str(kits["coordinator"])]
    address = f"tcp://{sites.HOST}:{port}"
    echoes = [
        subprocess.Popen(
            [sys.executable, str(HERE / "cell_echo.py"), name, address, str(kits[name]), sites.HOST],
            stdin=subprocess.PIPE,
        )
        for name in sites.PARTIES
    ]
    try:
        found = subprocess.run([*script, "--quick"] if quick else script, capture_output=True, text=True, check=True)
        return json.loads(found.stdout.splitlines()[-1])
    finally:
        for echo in echoes:
            echo.stdin.close()
            echo.wait(30)


def bare(address: str, kit: str, quick: bool) -> None:
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
    small = median(timed(lambda: everyone(b"x" * 300, 1)) for _ in range(30 if quick else 200))
    blocks = 8 if quick else 64
    data = os.urandom(BLOCK)
    best = min(timed(lambda: everyone(data, blocks)) for _ in range(3))
    print(json.dumps({"round": small, "rate": 2 * BLOCK * blocks * len(sites.PARTIES) / best / MEGABYTE}), flush=True)
    os._exit(0)


def relayed(folder: Path, quick: bool) -> dict[str, dict[str, float]]:
    """The same through our relays and a Unix socket, through the socket alone, and in this process."""
    port = sites.free_port()
    kits = provision(folder / "relay", host=sites.HOST, sites=sites.PARTIES, kits=folder / "relay-kits")
    address = f"tcp://{sites.HOST}:{port}"
    pids = [sites.echo_behind(folder / f"{name}.sock") for name in sites.PARTIES]
    pids += [sites.relay(name, folder / f"{name}.sock", address, kits[name]) for name in sites.PARTIES]
    times, size = (30, 8 << 20) if quick else (200, 64 << 20)
    try:
        here = Direct({name: Echo() for name in sites.PARTIES})
        socket_only = Direct({name: UnixEndpoint(folder / f"{name}.sock") for name in sites.PARTIES})
        far = FlareTransport(sites.PARTIES, address=address, kit=kits["coordinator"], host=sites.HOST)
        found = {}
        for title, transport in (("in process", here), ("Unix socket", socket_only), ("relayed", far)):
            found[title] = {
                "round": round_seconds(transport, sites.PARTIES, times),
                "rate": rate(transport, sites.PARTIES, size),
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
            message = dict.fromkeys(tables, codec.encode(GetDescription()))
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


def run(quick: bool = False) -> dict:
    """Measure everything, print it, and (unless quick) keep it in ``results/latest.json`` and ``README.md``."""
    with tempfile.TemporaryDirectory(prefix="cn-") as name:
        folder = Path(name)
        lines = {"bare Cell": bare_cell(folder, quick), **relayed(folder, quick)}
    rows, columns, times = (20_000, 30, 1) if quick else (195_666, 117, 3)
    with tempfile.TemporaryDirectory(prefix="cn-") as name:
        study = gram(Path(name), rows, columns, times)
    allowed = BAR * study["in_process"] + study["bytes"] / MEGABYTE / lines["bare Cell"]["rate"]
    result = {"lines": lines, "gram": {**study, "allowed": allowed}, "circumstances": circumstances()}
    report = as_markdown(result)
    print(report)
    if not quick:
        (HERE / "results").mkdir(exist_ok=True)
        (HERE / "results" / "latest.json").write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
        (HERE / "README.md").write_text(report)
    return result


def circumstances() -> dict:
    return {
        "python": platform.python_version(),
        "nvflare": version("nvflare"),
        "processors": os.cpu_count(),
        "load": os.getloadavg()[0],
    }


def as_markdown(result: dict) -> str:
    lines, study, where = result["lines"], result["gram"], result["circumstances"]
    table = [
        f"| {title} | {1e3 * one['round']:.2f} | {one['rate']:,.0f} |"
        for title, one in sorted(lines.items(), key=lambda item: item[1]["round"])
    ]
    processes = [f"| {name} | {one['now']:,.0f} | {one['peak']:,.0f} |" for name, one in study["memory"].items()]
    here, there, sent, allowed = study["in_process"], study["network"], study["bytes"] / MEGABYTE, study["allowed"]
    met = "met" if there <= allowed else "missed"
    return "\n".join(
        [
            "# Across machines, on one machine",
            "",
            (__doc__ or "").split("\n\n", 2)[2].strip(),
            "",
            "## A round to three parties, and bytes both ways",
            "",
            "| line | ms a round | MB/s |",
            "|---|---|---|",
            *table,
            "",
            f"A round to three guards, answered from what is public about them: {1e3 * study['round_to_guards']:.2f} ms.",
            "",
            f"## Secure Gram matrix, {study['rows']:,} × {study['columns']}, three parties",
            "",
            "| in one process | over the network | bytes | allowed | bar |",
            "|---|---|---|---|---|",
            f"| {here:.2f} s | {there:.2f} s ({there / here:.2f} ×) | {sent:,.0f} MB | {allowed:.2f} s | {met} |",
            "",
            "| process | MB now | MB at its peak |",
            "|---|---|---|",
            *processes,
            "",
            f"Python {where['python']}, nvflare {where['nvflare']}, {where['processors']} processors; load {where['load']:.1f}.",
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--bare", nargs=2, metavar=("ADDRESS", "KIT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bare:
        bare(*arguments.bare, quick=arguments.quick)
    else:
        run(arguments.quick)


if __name__ == "__main__":
    main()
