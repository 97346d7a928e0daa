"""A release of second moments, everything included, beside numpy's plaintext product in the same run, and its lower bound.

45,222 people × 41 columns over three parties that all compute, in one process: agreement, durable ledgers, coding, dealing,
sealing, relaying, products, degree checks, noise, opening, papers. A plaintext ``X.T @ X`` in float64 on one thread is timed in
turns with it; best against best. The bar is 12 times numpy.

*The lower bound* counts what no implementation of this protocol avoids, with the kernels that we have, each timed by itself on
warm memory: dealing every value, sealing and opening every element that travels, expanding shares that travel as seeds, and three
nodes' products, divided by two cores.
"""

import time
from collections.abc import Callable, Iterator

import numpy as np
from benchmarks.frame import Claim, Part, Row, Table, below
from benchmarks.secure_gram.run import DELTA, EPSILON, SCALE, a_federation, tables

from colonnade.secure.keys import Secret, Session
from colonnade.secure.shamir import Dealing, Products, expand
from colonnade.steps.kind import Joint, read_joint

ROWS, COLUMNS, PARTIES, TURNS, BAR, CORES = 45_222, 41, 3, 40, 12.0, 2


def best(work: Callable[[], object], turns: int = 9) -> float:
    """Return the least processor seconds of some work."""
    taken = []
    for _ in range(turns):
        begin = time.process_time()
        work()
        taken.append(time.process_time() - begin)
    return min(taken)


def lower_bound(joint: Joint) -> dict[str, float]:
    """Time each stage's kernel on one chunk, and multiply."""
    arithmetic, width, rows = joint.arithmetic, joint.widths[0], joint.chunks[0][1]
    values = joint.people * sum(joint.widths)
    chunk = width * rows
    rng = np.random.default_rng(1)
    secrets = rng.integers(-joint.largest, joint.largest + 1, (width, rows))
    memory = np.empty((len(joint.nodes), width, rows), dtype=np.uint64)
    dealing = Dealing(arithmetic, nodes=3, degree=1, seed=bytes(32), bound=joint.largest, own=1)
    sent = arithmetic.to_bytes(dealing.shares(1, secrets.T, memory)[2])
    names = {"parties": ("a", "b"), "run": bytes(16), "plan": bytes(32), "transcript": bytes(32)}
    writer = Session(party="a", outgoing={"b": Secret(bytes(32))}, incoming={}, **names)
    reader = Session(party="b", outgoing={}, incoming={"a": Secret(bytes(32))}, **names)
    places, letters = iter(range(100)), enumerate([writer.seal("b", 0, place, sent) for place in range(9)])
    product = Products(arithmetic, [*joint.widths, 2])
    parts = [memory[place, :wide] for place, wide in enumerate(joint.widths)] + [memory[0, :2]]
    travelling = seeded = values  # each owner is a node: one share is a seed, one travels, and its own stays
    return {
        "dealing": best(lambda: dealing.shares(1, secrets.T, memory)) * values / chunk,
        "packing": 2 * best(lambda: arithmetic.to_bytes(memory[2])) * travelling / chunk,
        "sealing": best(lambda: writer.seal("b", 1, next(places), sent)) * travelling / chunk,
        "opening": best(lambda: reader.open("a", 0, *next(letters))) * travelling / chunk,
        "expanding seeds": best(lambda: expand(arithmetic, bytes(32), 1, (width, rows))) * seeded / chunk,
        "products": 3 * best(lambda: product.add(parts)) * joint.people / rows,
    }


def measure(turns: int = TURNS) -> dict[str, float]:
    """Time the release and numpy in turns, and work out the lower bound."""
    blocks = tables(ROWS, COLUMNS, PARTIES)
    plain, taken = np.ascontiguousarray(np.concatenate(blocks).T), []
    with a_federation(blocks, PARTIES) as federation:
        for turn in range(turns + 1):
            begin = time.perf_counter()
            plain.T @ plain
            middle, processor = time.perf_counter(), time.process_time()
            release = federation.moments(epsilon=EPSILON, delta=DELTA, scale=SCALE, repeat=turn + 1)
            end = time.perf_counter()
            taken.append((middle - begin, end - middle, time.process_time() - processor))
    numpy_best, elapsed, processor = map(min, zip(*taken[1:], strict=True))  # the first one warms up
    joint = read_joint(release.plan_, "gram")
    stages = lower_bound(joint)
    bound = sum(stages.values()) / CORES
    return {
        "numpy, ms": 1e3 * numpy_best,
        "ours, ms": 1e3 * elapsed,
        "ours, processor ms": 1e3 * processor,
        "ratio": elapsed / numpy_best,
        "lower bound, ms": 1e3 * bound,
        "lower bound, ratio": bound / numpy_best,
        "MB": release.transcript_.bytes / 1e6,
        **{f"{name}, ms": 1e3 * seconds for name, seconds in stages.items()},
    }


def measured(_run: int, turns: int) -> Iterator[Row]:
    """The release, numpy and the lower bound."""
    yield Row({"size": f"{ROWS:,} × {COLUMNS}, {PARTIES} parties"}, measure(turns))


KERNELS = ("dealing", "packing", "sealing", "opening", "expanding seeds", "products")
TIMES = ("numpy, ms", "ours, ms", "ours, processor ms", "lower bound, ms")
RATIOS = ("ratio", "lower bound, ratio")
PARTS = [
    Part(
        "Gram release",
        measured,
        [{"turns": TURNS}],
        3,
        0.5,
        quick=[{"turns": 5}],
        machine=frozenset({*TIMES, *RATIOS, *(f"{name}, ms" for name in KERNELS)}),
    )
]
SHOWN = [
    "## A release of second moments beside numpy",
    Table(
        "Gram release",
        {**{name: name for name in TIMES}, "ratio": "× numpy", "lower bound, ratio": "bound, × numpy", "MB": "MB"},
        {"size": "size"},
        digits=3,
        costs=True,
    ),
    Table(
        "Gram release",
        {f"{name}, ms": name for name in KERNELS},
        {"size": "size"},
        digits=3,
        words="Milliseconds of each kernel that no implementation of this protocol avoids, one core.",
    ),
]
CLAIMS = [
    Claim(
        "a release of second moments beside numpy's plaintext product (ratio)",
        f"at most {BAR:g} ×",
        lambda found: [below(samples["ratio"], BAR) for _, samples in found.rows("Gram release")],
        "the issue",
    )
]
