"""A whole functional regression beside MPyC, which multiplies the same columns between parties; and one wide study from files."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.frame import Row, Unavailable
from benchmarks.frame.peers import MPYC, quiet_environment

import colonnade as cn
from colonnade.steps.kind import read_joint

SCRIPT = Path(__file__).parents[1] / "secure_gram" / "mpyc_gram.py"
GIVEN = {14: (9_250, 18_500), 41: (1_000, 2_000), 36: (1_000, 2_000)}
"""How many rows MPyC is given, by the number of features; all rows are taken at the rate of the larger number."""
PATIENCE = 900
REPEATS = 3


def run_time(_run: int, data: str, rows: int, features: int, parties: int) -> Iterator[Row]:
    """Seconds of a study of that size, and of the peer, in one run."""
    labels = {"data": data, "parties": parties}
    nodes = max(parties, 3)
    with _federation(rows, features + 1, parties, nodes) as federation:
        study = cn.LinearRegression("party1.x0", method="functional", epsilon=1.0)
        study.fit(federation)  # warm
        taken = []
        for repeat in range(REPEATS):
            begin = time.perf_counter()
            study.fit(federation, repeat=2 + repeat)
            taken.append(time.perf_counter() - begin)
        bits = (2 * read_joint(study.plan_, "coefficients").bound).bit_length()
    yield Row(labels, {"ours": min(taken)})
    yield Row(labels, {"MPyC": _peer(GIVEN[features], rows, features + 1, parties, nodes, bits)})


def _federation(rows: int, columns: int, parties: int, nodes: int) -> cn.Federation:
    rng, held = np.random.default_rng(rows), {}
    for number, places in enumerate(np.array_split(np.arange(columns), parties)):
        frame = pd.DataFrame(rng.uniform(-1, 1, (rows, len(places))), columns=[f"x{k}" for k in range(len(places))])
        schema = cn.Schema({name: cn.Numeric(-1, 1) for name in frame.columns})
        held[f"party{number + 1}"] = cn.Party(frame.assign(id=np.arange(rows)), schema=schema)
    helpers = [f"node{number + 1}" for number in range(nodes - parties)]
    return cn.Federation.simulate(held, id="id", budget=cn.Budget(epsilon=1_000.0), compute_nodes=helpers)


def _peer(given: tuple[int, ...], rows: int, columns: int, owners: int, nodes: int, bits: int) -> float:
    command = [MPYC.python(), str(SCRIPT), "--what", "cross", "--kind", "SecInt", "--bits", str(bits)]
    command += ["--columns", str(columns), "--owners", str(owners), "--rows", *map(str, given)]
    command += [f"-M{nodes}", "--no-log", "-B", str(20_000 + os.getpid() % 20_000)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        env=quiet_environment(),
    ) as process:
        try:
            printed, _ = process.communicate(timeout=PATIENCE)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # it started the other parties
    found = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    if process.returncode or len(found) != len(given) or not all(one["exact"] for one in found):
        raise Unavailable("MPyC fails here, or computes something else")
    return found[-1]["elapsed"] / found[-1]["rows"] * rows


# Wide data -------------------------------------------------------------------------------------------------------------------


def sparse_set(people: int, features: int, sparsity: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return one of Table II's sets as far as they are described: a share of entries and of true weights is not 0.

    The target is scaled so that four standard deviations reach 1, and its residual is the published error without privacy.
    """
    rng = np.random.default_rng([seed, int(100 * sparsity)])
    rows = np.empty((people, features), dtype=np.float32)
    for place in range(features):  # by columns: the numbers of all together would not fit a small machine twice
        rows[:, place] = rng.uniform(-1, 1, people) * (rng.random(people) < sparsity)
    weights = rng.normal(size=features) * (rng.random(features) < sparsity)
    weights /= 4 * np.sqrt(sparsity / 3 * np.sum(weights**2))
    return rows, np.clip(rows @ weights + rng.normal(0, np.sqrt(0.0033), people), -1, 1).astype(np.float32)


def wide_study(run: int, people: int, features: int, sparsity: float, parties: int) -> Iterator[Row]:
    """From Parquet files to the model in a process of its own: seconds, memory, the error."""
    rows, target = sparse_set(people + people // 4, features, sparsity, run)
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder), rows, target, people, parties)
        command = [sys.executable, str(Path(__file__).parent / "wide.py"), folder, "--epsilon", "1"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    values = {"seconds": found["seconds"], "gigabytes": found["peak_bytes"] / 1e9, "error": found["error"]}
    yield Row({"sparsity": sparsity, "parties": parties}, values)


def _write(folder: Path, rows: np.ndarray, target: np.ndarray, people: int, parties: int) -> None:
    test: dict[str, np.ndarray] = {"party1.y": target[people:]}
    for number, places in enumerate(np.array_split(np.arange(rows.shape[1]), parties)):
        frame = pd.DataFrame(rows[:people, places], columns=[f"x{place:03d}" for place in places])
        frame["id"] = np.arange(people)
        if number == 0:
            frame["y"] = target[:people]
        frame.to_parquet(folder / f"party{number + 1}.parquet")
        test |= {f"party{number + 1}.x{place:03d}": rows[people:, place] for place in places}
    pd.DataFrame(test).to_parquet(folder / "test.parquet")
