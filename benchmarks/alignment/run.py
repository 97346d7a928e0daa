"""Alignment: seconds and bytes to find out who is in every list, beside OpenMined PSI on two parties in the same run.

    COLONNADE_PSI_PYTHON=/path/to/python python benchmarks/alignment/run.py [--quick] [--million]

*Ours.* One process a party, behind its guard on a Unix socket, and the coordinator in this one: agreement, ledgers (durable),
normal forms, hashing to points, blinding, checks of every received point, maps, sealing, codec, relaying and keeping the order.
Every party learns which of its rows are common, in one row order; with three or more, nobody learns more. Processor seconds are
those of all parties and the coordinator together (what one core would take); the clock is that of a machine with the number of
cores below, which other work shares.

*OpenMined PSI* (``openmined_psi.py``, two parties in one process, exact data structure): one party learns which of its ids the
other has. It seals, records and relays nothing, and fills up no list. It runs in the Python of COLONNADE_PSI_PYTHON, or in this
one if it can be imported; without it, only our side is measured.

Bytes of ours are those to and from the coordinator, so a letter counts twice; theirs are those of its three messages.

Both take turns, and of several repetitions the least counts. Both are linear in the number of ids; a figure in brackets is not
measured but the largest measured one times the ratio of the numbers of ids.
"""

import argparse
import importlib.util
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cryptography
import nacl
import numpy as np

import colonnade as cn
from colonnade.protocol.codec import read_frame, write_frame

HERE = Path(__file__).parent
NAMES = ("ana", "bo", "cy", "dee", "eva")
SIZES = (10_000, 100_000, 1_000_000)
PARTIES = (2, 3, 5)
MEASURED = 100_000
"""Up to how many ids everything is measured; a million are extrapolated, and marked so, unless ``--million`` asks for them."""
AT, BAR = 100_000, 1.0
PATIENCE = 1_800


class Sockets:
    """A transport to guards on Unix sockets, all asked at once."""

    def __init__(self, paths: dict[str, Path]) -> None:
        self._streams = {}
        for name, path in paths.items():
            line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            line.connect(str(path))
            self._streams[name] = line.makefile("rwb")
        self._pool = ThreadPoolExecutor(len(paths))

    def exchange(self, requests: dict[str, bytes]) -> dict[str, bytes]:
        def ask(name: str) -> bytes:
            write_frame(self._streams[name], requests[name])
            reply = read_frame(self._streams[name])
            assert reply is not None
            return reply

        return dict(zip(requests, self._pool.map(ask, requests), strict=True))

    def close(self) -> None:
        for stream in self._streams.values():
            stream.close()


def _cpu(process: int | str) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ours(parties: int, ids: int) -> dict:
    """One alignment, each party a process."""
    names = NAMES[:parties]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder) / name for name in names}
        processes = [
            subprocess.Popen(
                [sys.executable, str(HERE / "party_process.py"), name, ",".join(names), str(ids), str(paths[name])],
                stdout=subprocess.PIPE,
                env=environment,
            )
            for name in names
        ]
        try:
            for process in processes:
                assert process.stdout is not None
                assert process.stdout.readline() == b"ready\n"
            federation = cn.Federation(Sockets(paths), parties=names)
            members = ["self", *(process.pid for process in processes)]
            before = [_cpu(member) for member in members]
            clock = time.perf_counter()
            federation.align(size="public", capacity=ids)
            seconds = time.perf_counter() - clock
            used = [after - start for after, start in zip(map(_cpu, members), before, strict=True)]
            assert federation.people == ids // 2
            transcript = federation.aligned_.findings.transcript
            federation.close()
        finally:
            for process in processes:
                process.terminate()
                process.wait()
    return {
        "seconds": seconds,
        "cpu_seconds": sum(used),
        "busiest_party_cpu_seconds": max(used[1:]),
        "bytes": transcript.bytes,
        "rounds": transcript.rounds,
    }


def peer_python() -> str | None:
    chosen = os.environ.get("COLONNADE_PSI_PYTHON")
    return chosen or (sys.executable if importlib.util.find_spec("private_set_intersection") else None)


def theirs(python: str, ids: int) -> dict:
    call = [python, str(HERE / "openmined_psi.py"), str(ids)]
    return json.loads(subprocess.run(call, check=True, capture_output=True, timeout=PATIENCE).stdout)


def _least(found: list[dict]) -> dict:
    return min(found, key=lambda one: one["cpu_seconds"])


def _scaled(found: dict, factor: int) -> dict:
    kept = {
        name: value * factor
        for name, value in found.items()
        if name in ("seconds", "cpu_seconds", "bytes", "busiest_party_cpu_seconds")
    }
    return {**found, **kept, "extrapolated": True}


def run(quick: bool = False, million: bool = False) -> dict:
    """Measure; the result says whether the bar is met."""
    python = peer_python()
    sizes = SIZES[:1] if quick else SIZES
    cases, peers = [], {}
    for ids in sizes:
        if ids > MEASURED and not million:
            known = [one for one in cases if one["ids"] == MEASURED]
            cases += [{**_scaled(one, ids // MEASURED), "ids": ids} for one in known]
            continue
        repetitions = 2 if ids <= AT else 1
        mine, other = [], []
        for number in range(repetitions):  # in turns, so that other work on the machine disturbs both
            mine.append(ours(2, ids))
            if python is not None and ids <= MEASURED:
                other.append(theirs(python, ids))
            print(f"{ids:,} ids, repetition {number + 1} of {repetitions}", file=sys.stderr, flush=True)
        cases.append({"parties": 2, "ids": ids, **_least(mine)})
        if other:
            peers[ids] = _least(other)
        cases += [{"parties": parties, "ids": ids, **ours(parties, ids)} for parties in PARTIES[1:]]
    for ids in sizes:
        if ids not in peers and MEASURED in peers:
            peers[ids] = _scaled(peers[MEASURED], ids // MEASURED)
    at = min(AT, sizes[-1])
    own = next(one for one in cases if one["parties"] == 2 and one["ids"] == at)
    ratio = peers[at]["cpu_seconds"] / own["cpu_seconds"] if at in peers else None
    return {
        "cases": cases,
        "openmined": {str(ids): found for ids, found in peers.items()},
        "bar": {"ids": at, "ratio": ratio, "at_least": BAR, "met": None if ratio is None else ratio >= BAR},
        "circumstances": circumstances(),
        "quick": quick,
    }


def circumstances() -> dict:
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "numpy": np.__version__,
        "cryptography": cryptography.__version__,
        "pynacl": nacl.__version__,
        "date": time.strftime("%Y-%m-%d"),
    }


def as_markdown(result: dict) -> str:
    lines = [
        "# Alignment: who is in every list",
        "",
        "Generated by `benchmarks/alignment/run.py`; the figures are in `results/latest.json`.",
        "",
        *[line.strip() for line in (__doc__ or "").split("\n\n", 2)[2].splitlines()],
        "",
        "## Ours",
        "",
        "| ids a party | parties | CPU seconds | busiest party's | seconds by the clock | MB relayed | bytes an id, party |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for one in result["cases"]:
        figures = (one["cpu_seconds"], one["busiest_party_cpu_seconds"], one["seconds"], one["bytes"] / 1e6)
        shown = [_bracketed(one, value) for value in figures]
        each = one["bytes"] / one["ids"] / one["parties"]
        lines.append(f"| {one['ids']:,} | {one['parties']} | {' | '.join(shown)} | {each:,.0f} |")
    lines += ["", "## Beside OpenMined PSI, two parties", ""]
    if not result["openmined"]:
        return "\n".join([*lines, "OpenMined PSI was not at hand.", ""])
    version = next(iter(result["openmined"].values()))["version"]
    lines += [
        f"| ids a party | ours, processor seconds | OpenMined PSI {version} | ratio | ours, MB | theirs, MB |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for ids, peer in result["openmined"].items():
        own = next(one for one in result["cases"] if one["parties"] == 2 and one["ids"] == int(ids))
        mine, other = (_bracketed(one, one["cpu_seconds"]) for one in (own, peer))
        lines.append(
            f"| {int(ids):,} | {mine} | {other} | {peer['cpu_seconds'] / own['cpu_seconds']:.2f} | "
            f"{_bracketed(own, own['bytes'] / 1e6)} | {_bracketed(peer, peer['bytes'] / 1e6)} |"
        )
    bar = result["bar"]
    verdict = "met" if bar["met"] else "NOT met"
    lines += [
        "",
        f"At {bar['ids']:,} ids and two parties theirs takes {bar['ratio']:.2f} times our processor time.",
        f"At least as fast was asked: **{verdict}**.",
        "",
        f"Machine: {result['circumstances']}",
        "",
    ]
    return "\n".join(lines)


def _bracketed(found: dict, value: float) -> str:
    return f"({value:,.1f})" if found.get("extrapolated") else f"{value:,.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="10,000 ids only, and nothing is kept")
    parser.add_argument("--million", action="store_true", help="measure a million ids too: half an hour on one core")
    chosen = parser.parse_args()
    result = run(chosen.quick, chosen.million)
    print(as_markdown(result))
    if not result["quick"]:
        (HERE / "results" / "latest.json").write_text(json.dumps(result, indent=2) + "\n")
        (HERE / "README.md").write_text(as_markdown(result))


if __name__ == "__main__":
    main()
