"""Bytes of a regression of 200,000 people × 502 coded columns over four parties, as the coordinator counts them.

    python benchmarks/scale/traffic.py [--rows 200000]

Every byte that the coordinator sends or receives is counted, so a share that is relayed counts twice. The lower bound is that of
Shamir sharing among 2t + 1 = 3 nodes through a relay: a value of an owner that computes reaches one other node as elements (one
share is its own, one a seed), a value of an owner that does not reaches two; an element cannot be shorter than the bound of an
opened integer. Where members have direct links a share travels once, and past the coordinator: what goes directly and what is
left is the preview's forecast.
"""

import argparse
import json
import math
import sys
import time
import warnings
from pathlib import Path

import colonnade as cn
from colonnade.steps.joint import read_joint

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))
from benchmarks.gpu.run import table  # noqa: E402

BEFORE, BAR = 2.85e9, 0.5
"""Bytes when four nodes computed and an element took six bytes or more; and how much less it should be."""


def measure(people: int) -> dict:
    """Fit the regression, and set its bytes beside the bound."""
    budget = cn.Budget(epsilon=10.0, delta=1e-5)
    with cn.Federation.simulate(table(people), id="id", budget=budget, test_key=b"k" * 32) as federation:
        federation.linked = frozenset(federation.parties)
        links = cn.LinearRegression("shop.y", epsilon=1.0, delta=1e-6).preview(federation).traffic
        begin = time.perf_counter()
        model = cn.LinearRegression("shop.y", epsilon=1.0, delta=1e-6).fit(federation)
        elapsed = time.perf_counter() - begin
    plan, counted = model.plan_, model.transcript_.bytes
    name = next(step.name for step in plan.steps if step.kind == "gram")
    joint = read_joint(plan, name)
    shares = sum(
        people * width * (len(joint.nodes) - joint.threshold - (owner in joint.nodes))
        for owner, width in zip(joint.owners, joint.widths, strict=True)
    )
    bits = math.log2(2 * joint.bound + 1)
    return {
        "rows": people,
        "columns": sum(joint.widths),
        "seconds": elapsed,
        "bytes": counted,
        "before": BEFORE,
        "saved": 1 - counted / BEFORE,
        "bar": BAR,
        "element_bits": joint.arithmetic.element_bits,
        "bound_bits": bits,
        "lower_bound": 2 * shares * bits / 8,
        "to_lower_bound": counted / (2 * shares * bits / 8),
        "with_links": links.relayed,
        "direct": links.direct,
        "direct_lower_bound": shares * bits / 8,
        "opened": 8 * joint.entries * len(joint.nodes) + 8 * sum(joint.own_entries.values()),
    }


def main() -> None:
    """Measure, and write it down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    rows = parser.parse_args().rows
    warnings.simplefilter("ignore", cn.TemporaryLedgers)
    result = measure(rows)
    print(json.dumps(result, indent=1))
    if rows == parser.get_default("rows"):
        (HERE / "results" / "traffic.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
