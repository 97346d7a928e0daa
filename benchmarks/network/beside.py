"""This checkout beside another one: an empty round and a whole PCA over the network, in turns, in one run.

    python benchmarks/network/beside.py OTHER [--turns 20]

OTHER is a checkout of another commit (``git worktree add --detach OTHER COMMIT``). Both sides run at the same time, each a
coordinator and three members on the loopback interface with mutual TLS, and are asked in turns: so other work on the machine
disturbs both alike. A round asks three guards for what is public about them. The PCA is of 2,000 people and 12 columns at three
parties, everything included. The bar: at most 1.2 times the time of OTHER. The ratio is the median over turns, with the range in
which nine of ten turns lie. Processor time, of the coordinator and all guards and relays together, is what is left of a time
where the machine has other work.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np

HERE = Path(__file__).resolve().parent
BAR = 1.2
ROUNDS, STUDIES = 100, 5


class Side:
    """A process that measures one checkout."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        path = os.pathsep.join(str(checkout / part) for part in ("src", "benchmarks/network"))
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(HERE / "side.py"), str(folder)],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    def measure(self, rounds: int = ROUNDS, studies: int = STUDIES) -> dict[str, list[float]]:
        """Return how long rounds and studies took, in seconds."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{rounds} {studies}\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def _answer(self) -> dict[str, list[float]]:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            if line.startswith("{"):
                return json.loads(line)
        raise SystemExit("A side ended early.")


def commit(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def compare(other: Path, turns: int) -> dict:
    here = HERE.parents[1]
    with tempfile.TemporaryDirectory(prefix="cn-") as one, tempfile.TemporaryDirectory(prefix="cn-") as two:
        sides = {"here": Side(here, Path(one)), "other": Side(other, Path(two))}
        try:
            for side in sides.values():
                side.measure()  # loads columns and compiled code
            found = []
            for turn in range(turns):
                order = list(sides) if turn % 2 else list(sides)[::-1]
                found.append({name: sides[name].measure() for name in order})
        finally:
            for side in sides.values():
                side.close()
    figures = {}
    for what in found[0]["here"]:
        medians = {name: [median(turn[name][what]) for turn in found] for name in sides}
        ratios = np.array(medians["here"]) / np.array(medians["other"])
        figures[what] = {
            "here": median(medians["here"]),
            "other": median(medians["other"]),
            "ratio": float(np.median(ratios)),
            "range": [float(one) for one in np.quantile(ratios, [0.05, 0.95])],
        }
    return {
        "commits": {"here": commit(here), "other": commit(other)},
        "turns": turns,
        "figures": figures,
        "circumstances": {
            "python": platform.python_version(), "processors": os.cpu_count(), "load": os.getloadavg()[0],
        },
    }  # fmt: skip


def as_markdown(result: dict) -> str:
    commits, where = result["commits"], result["circumstances"]
    words = f"Python {where['python']}, {where['processors']} processors; load {where['load']:.1f}"
    rows = [
        f"| {what} | {1e3 * one['other']:.2f} ms | {1e3 * one['here']:.2f} ms | {one['ratio']:.2f} "
        f"({one['range'][0]:.2f} to {one['range'][1]:.2f}) | {'met' if one['ratio'] <= BAR else 'missed'} |"
        for what, one in result["figures"].items()
    ]
    return "\n".join(
        [
            "# This commit beside an earlier one",
            "",
            (__doc__ or "").split("\n\n", 2)[2].strip(),
            "",
            f"| | {commits['other']} | {commits['here']} | ratio | at most {BAR} |",
            "|---|---|---|---|---|",
            *rows,
            "",
            f"{result['turns']} turns of {ROUNDS} rounds and {STUDIES} studies per side. {words}.",
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("other", type=Path)
    parser.add_argument("--turns", type=int, default=20)
    arguments = parser.parse_args()
    result = compare(arguments.other.resolve(), arguments.turns)
    print(as_markdown(result))
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "beside.json").write_text(json.dumps(result, indent=2) + "\n")
    (HERE / "BESIDE.md").write_text(as_markdown(result))


if __name__ == "__main__":
    main()
