"""The secure Gram matrix: from ``federation.moments`` to the noisy matrix, beside MPyC 0.11 on the same integers.

    COLONNADE_MPYC_PYTHON=/path/to/python python benchmarks/secure_gram/run.py [--quick]

*Ours.* Everything in one process and everything included: agreement, ledgers (durable), coding, sharing, sealing, codec,
products, degree checks, noise, opening, papers. Warm: the columns are at hand and compiled code is loaded. As many threads as
members. Best of several runs; each is a new draw.

*MPyC* (``mpyc_gram.py``) multiplies integers of the same size, one process a party on this machine, with its vectorised
arithmetic: as its secure integers (SecInt), and in a bare prime field just large enough for our result (SecFld), which is the
least that it could do. It adds no noise, encrypts nothing and records nothing. It is given a part of the rows, at three sizes
that show it to be linear in them, and the better rate of the two larger is extrapolated to all rows. *Full* is the whole
matrix, *cross* the blocks between parties, which is what we multiply on shares. It runs in the Python of COLONNADE_MPYC_PYTHON,
or in this one if mpyc can be imported; without it, only our side is measured.

Both are timed in turns, by the clock and by processor seconds over all parties; best against best. A ratio is the smaller of
the two, because other work on the machine disturbs both.

*Products* come from ``kernels.py``: one node's exact product of shares beside a float64 ``X.T @ X``.
"""

import argparse
import importlib.util
import json
import os
import platform
import signal
import subprocess
import sys
import time
import tomllib
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

import colonnade as cn
from colonnade.steps.joint import read_joint

HERE = Path(__file__).parent
SEED = 20_240_602
SCALE = 4096
EPSILON, DELTA = 1.0, 1e-6
SIZES = {
    (370_000, 14): (9_250, 18_500, 37_000),
    (45_222, 41): (1_000, 2_000, 4_000),
    (195_666, 117): (250, 500, 1_000),
}
"""Rows and columns, and how many rows the peer is given."""
QUICK = {(45_222, 41): (500, 1_000, 2_000)}
CASES = ((2, 3), (3, 3), (4, 4))
"""Data parties and compute nodes; where there are fewer of the former, a node without data helps."""
BARS = {"full": 100.0, "cross": 50.0}
KINDS = ("SecInt", "SecFld")
LARGEST_BYTES = 8.0
PATIENCE = 900  # seconds for one call of the peer


class Seconds(NamedTuple):
    elapsed: float
    processor: float


# Ours -----------------------------------------------------------------------------------------------------------------------


def tables(rows: int, columns: int, owners: int) -> list[np.ndarray]:
    """Columns by rows, uniform in [−1, 1], divided evenly."""
    rng = np.random.default_rng(SEED)
    return [rng.uniform(-1, 1, (len(part), rows)) for part in np.array_split(np.arange(columns), owners)]


def a_federation(blocks: list[np.ndarray], nodes: int) -> cn.Federation:
    parties = {}
    for number, block in enumerate(blocks):
        names = [f"x{place}" for place in range(len(block))]
        frame = pd.DataFrame(dict(zip(names, block, strict=True)))
        frame["id"] = np.arange(len(frame))
        schema = cn.Schema({name: cn.Numeric(-1, 1) for name in names})
        parties[f"party{number + 1}"] = cn.Party(frame, schema=schema)
    helpers = [f"node{number + 1}" for number in range(nodes - len(blocks))]
    return cn.Federation.simulate(
        parties, id="id", budget=cn.Budget(epsilon=1_000.0, delta=1e-3), compute_nodes=helpers
    )


class Ours:
    """One federation, timed again and again."""

    def __init__(self, rows: int, columns: int, owners: int, nodes: int) -> None:
        self._blocks = tables(rows, columns, owners)
        self._federation = a_federation(self._blocks, nodes)
        self.nodes = nodes
        self.taken: list[Seconds] = []
        self.release = self._federation.moments(epsilon=EPSILON, delta=DELTA, scale=SCALE)  # warm
        self.joint = read_joint(self.release.plan_, "gram")

    def time(self, times: int) -> None:
        for _ in range(times):
            elapsed, processor = time.perf_counter(), time.process_time()
            self.release = self._federation.moments(
                epsilon=EPSILON, delta=DELTA, scale=SCALE, repeat=len(self.taken) + 2
            )
            self.taken.append(Seconds(time.perf_counter() - elapsed, time.process_time() - processor))

    @property
    def best(self) -> Seconds:
        return Seconds(*map(min, zip(*self.taken, strict=True)))

    def farthest(self) -> float:
        """How far the opened matrix is from the exact one: the largest deviation in standard errors of its noise."""
        coded = [
            np.full((1, len(self._blocks[0][0])), 1.0),
            *(np.rint(block * SCALE) / SCALE for block in self._blocks),
        ]
        whole = np.concatenate(coded)
        moments = self.release.moments
        noisy = moments.variance > 0
        return float((np.abs(moments.matrix - whole @ whole.T)[noisy] / np.sqrt(moments.variance[noisy])).max())

    def bytes_a_value(self) -> float:
        """The most that a data party sent, all included, a value and a recipient of elements (seeds are not counted)."""
        threshold, sent = self.joint.threshold, []
        for owner, width in zip(self.joint.owners, self.joint.widths, strict=True):
            own = self.joint.nodes.index(owner) + 1
            recipients = sum(point != own for point in range(threshold + 1, self.nodes + 1))
            sent.append(self.release.transcript_.bytes_from[owner] / (self.joint.people * width * recipients))
        return max(sent)

    def close(self) -> None:
        self._federation.close()


# The peer -------------------------------------------------------------------------------------------------------------------


def peer_python() -> str | None:
    named = os.environ.get("COLONNADE_MPYC_PYTHON")
    if named:
        return named
    return sys.executable if importlib.util.find_spec("mpyc") is not None else None


def peer_version(python: str) -> str:
    code = "import mpyc, numpy, gmpy2; print(mpyc.__version__)"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def measure_peer(
    python: str, what: str, kind: str, rows: tuple[int, ...], columns: int, owners: int, nodes: int, bits: int
) -> list[dict]:
    """Let MPyC compute at several numbers of rows; refuse a result that is not exact."""
    command = [python, str(HERE / "mpyc_gram.py"), "--what", what, "--kind", kind, "--bits", str(bits)]
    command += ["--columns", str(columns), "--owners", str(owners), "--rows", *map(str, rows)]
    command += [f"-M{nodes}", "--no-log", "-B", str(20_000 + os.getpid() % 20_000)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            printed, _ = process.communicate(timeout=PATIENCE)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # it started the other parties
    found = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    if process.returncode or len(found) != len(rows) or not all(one["exact"] for one in found):
        raise RuntimeError("The peer failed, or computed something else.")
    return found


def extrapolated(found: list[dict], rows: int) -> Seconds:
    """All rows at the better rate of the two larger sizes; a few rows fit into the cache and flatter."""
    return Seconds(*(min(one[kind] / one["rows"] for one in found[1:]) * rows for kind in Seconds._fields))


# What is measured -----------------------------------------------------------------------------------------------------------


def case(python: str | None, rows: int, columns: int, given: tuple[int, ...], owners: int, nodes: int) -> dict:
    ours = Ours(rows, columns, owners, nodes)
    peer: dict[str, dict] = {}
    bits = (2 * ours.joint.bound).bit_length()
    ours.time(1)
    for what, kind in product(BARS, KINDS) if python else ():
        found = measure_peer(python, what, kind, given, columns, owners, nodes, bits)
        peer[f"{what}, {kind}"] = {"measured": found, "all_rows": extrapolated(found, rows)._asdict()}
        ours.time(2)
    ours.time(0 if python else 4)
    for one in peer.values():
        ratios = [one["all_rows"][field] / getattr(ours.best, field) for field in Seconds._fields]
        one["ratio"] = dict(zip(Seconds._fields, ratios, strict=True))
    result = {
        "rows": rows,
        "columns": columns,
        "owners": owners,
        "nodes": nodes,
        "moduli": list(ours.joint.arithmetic.moduli),
        "rounds": ours.release.transcript_.rounds,
        "bytes_sent": dict(ours.release.transcript_.bytes_from),
        "bytes_a_value_a_recipient": ours.bytes_a_value(),
        "farthest_entry_in_standard_errors": ours.farthest(),
        "repetitions": len(ours.taken),
        "ours": ours.best._asdict(),
        "median": Seconds(*map(float, np.median(ours.taken, axis=0)))._asdict(),
        "peer": peer,
    }
    ours.close()
    if result["farthest_entry_in_standard_errors"] > 8:
        raise RuntimeError("The opened matrix is not the exact one with noise.")
    return result


def products(quick: bool) -> dict:
    """One node's product beside numpy's, in a process with one thread of BLAS."""
    command = [sys.executable, str(HERE / "kernels.py"), "--json", *(["--quick"] if quick else [])]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(command, env={**os.environ, **threads}, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def run(quick: bool = False) -> dict:
    """Measure everything, print it, and (unless quick) keep it in ``results/latest.json`` and ``README.md``."""
    begin, python = time.time(), peer_python()
    sizes, cases = (QUICK, CASES[1:2]) if quick else (SIZES, CASES)
    result: dict = {
        "cases": [case(python, *size, given, *who) for size, given in sizes.items() for who in cases],
        "products": products(quick),
    }
    result["met"] = verdicts(result)
    result["run"] = {
        **circumstances(),
        "peer": f"MPyC {peer_version(python)}" if python else "absent: set COLONNADE_MPYC_PYTHON",
        "load": f"{os.getloadavg()[2]:.1f} over the last 15 minutes",
        "seed": SEED,
        "quick": quick,
        "seconds": round(time.time() - begin, 1),
    }
    report = as_markdown(result, tomllib.loads((HERE / "published.toml").read_text()))
    print(report)
    if not quick:
        (HERE / "results").mkdir(exist_ok=True)
        (HERE / "results" / "latest.json").write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
        (HERE / "README.md").write_text(report)
    return result


def verdicts(result: dict) -> dict[str, bool | None]:
    found: dict[str, bool | None] = {}
    for what, kind in product(BARS, KINDS):
        name = f"{what}, {kind}"
        ratios = [min(one["peer"][name]["ratio"].values()) for one in result["cases"] if name in one["peer"]]
        found[name] = min(ratios) >= BARS[what] if ratios else None
    found["bytes"] = all(one["bytes_a_value_a_recipient"] <= LARGEST_BYTES for one in result["cases"])
    found["products"] = all(one["within_bar"] for one in result["products"]["measurements"])
    return found


def circumstances() -> dict:
    git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True, text=True, check=False)
    names = [line.split(":", 1)[1].strip() for line in _cpuinfo() if line.startswith("model name")]
    return {
        "commit": git.stdout.strip() if git.returncode == 0 else None,
        "version": cn.__version__,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": f"{names[0] if names else platform.processor()}, {len(names) or '?'} cores",
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "numba": version("numba"),
    }


def _cpuinfo() -> list[str]:
    file = Path("/proc/cpuinfo")
    return file.read_text().splitlines() if file.exists() else []


# Putting it down ------------------------------------------------------------------------------------------------------------


def as_markdown(result: dict, published: dict) -> str:
    parts = [
        (
            "# The secure Gram matrix ([Secure PCA](../../docs/references.md#secure-pca) and "
            "[Functional mechanism across parties](../../docs/references.md#functional))"
        ),
        "Written by `run.py` (`colonnade bench secure-gram`); do not edit. Its docstring says what is measured.",
        "## End to end, beside MPyC",
        *_end_to_end(result),
        "## MPyC is linear in the rows",
        *_linearity(result["cases"]),
        "## Published",
        *_published(result["cases"], published["functional_mechanism"]),
        "## One node's product, beside numpy",
        *_products(result),
        "## Bytes",
        *_bytes(result),
        "## Run",
        "\n".join(f"* {name}: {value}" for name, value in result["run"].items()),
    ]
    return "\n\n".join(parts) + "\n"


def _end_to_end(result: dict) -> list[str]:
    names = [f"{what}, {kind}" for what, kind in product(BARS, KINDS)]
    rows = []
    for one in result["cases"]:
        ours = f"{one['ours']['elapsed'] * 1e3:.0f} ms ({one['ours']['processor'] * 1e3:.0f})"
        rows.append((_size(one), _members(one), ours, *(_against(one["peer"].get(name)) for name in names)))
    note = "Elapsed, in brackets processor seconds over all members; MPyC extrapolated to all rows; the smaller of both ratios."
    bars = "; ".join(f"{name} {BARS[name.partition(',')[0]]:.0f} ×: {_verdict(result['met'][name])}" for name in names)
    return [note, _table(("size", "data parties / nodes", "ours", *names), rows), f"Bars: {bars}."]


def _against(one: dict | None) -> str:
    if one is None:
        return "not measured"
    seconds = one["all_rows"]
    ratio = min(one["ratio"].values())
    return f"{seconds['elapsed']:.1f} s ({seconds['processor']:.1f}): **{ratio:.0f} ×**"


def _linearity(cases: list[dict]) -> list[str]:
    rows = []
    for one in cases:
        for what, peer in one["peer"].items():
            points = [f"{m['elapsed']:.2f} s at {m['rows']:,}" for m in peer["measured"]]
            first, last = peer["measured"][0], peer["measured"][-1]
            growth = last["processor"] / first["processor"] / (last["rows"] / first["rows"])
            rows.append((_size(one), _members(one), what, *points, f"{growth:.2f}"))
    if not rows:
        return ["Not measured: MPyC is absent."]
    head = ("size", "data parties / nodes", "what", "", "", "", "growth of processor time over growth of rows")
    return [_table(head, rows)]


def _published(cases: list[dict], published: dict) -> list[str]:
    rows = []
    for theirs in published["runs"]:
        for one in cases:
            seconds = theirs["seconds"].get(str(one["owners"]))
            if seconds is None or (one["rows"], one["columns"]) != (theirs["rows"], theirs["columns"]):
                continue
            here = one["peer"].get("cross, SecInt")
            mpyc = "not measured" if here is None else f"{here['all_rows']['elapsed']:.1f} s"
            ours = one["ours"]["elapsed"]
            rows.append(
                (theirs["data"], str(one["owners"]), f"{seconds} s", mpyc, f"{ours:.3f} s", f"{seconds / ours:.0f} ×")
            )
    head = ("data", "parties", "published", "MPyC here, cross, SecInt", "ours", "published over ours")
    note = f"{published['where']} ({published['machine']}; {published['protocol']}). Other machines: orders of magnitude only."
    return [note, _table(head, rows)] if rows else [note, "Not measured at these sizes."]


def _products(result: dict) -> list[str]:
    rows = [
        (
            _size(one),
            str(one["nodes"]),
            f"{one['arithmetic']}, {len(one['moduli'])} moduli",
            f"{one['numpy_ms']:.1f} ms",
            f"{one['product_full_ms']:.1f} ms: {one['full_to_numpy']:.2f} ×",
            f"{one['product_cross_ms']:.1f} ms: {one['cross_to_numpy']:.2f} ×",
            f"{one['bar']:g} ×",
        )
        for one in result["products"]["measurements"]
    ]
    head = ("size", "nodes", "arithmetic", "numpy `X.T @ X`", "full", "cross", "bar")
    return [_table(head, rows), f"The bar is on the full product: {_verdict(result['met']['products'])}."]


def _bytes(result: dict) -> list[str]:
    rows = []
    for one in result["cases"]:
        sent = ", ".join(f"{name} {count / 1e6:.1f} MB" for name, count in one["bytes_sent"].items())
        rows.append((_size(one), _members(one), f"{one['bytes_a_value_a_recipient']:.3f}", str(one["rounds"]), sent))
    head = ("size", "data parties / nodes", "bytes a value a recipient, at most", "rounds", "sent, everything included")
    verdict = _verdict(result["met"]["bytes"])
    return [_table(head, rows), f"The bar is {LARGEST_BYTES:g} bytes a value and recipient of elements: {verdict}."]


def _size(one: dict) -> str:
    return f"{one['rows']:,} × {one['columns']}"


def _members(one: dict) -> str:
    return f"{one['owners']} / {one['nodes']}"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))


def _verdict(met: bool | None) -> str:
    return "not measured" if met is None else "met" if met else "**NOT met**"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one small size; keeps nothing")
    run(parser.parse_args().quick)


if __name__ == "__main__":
    main()
