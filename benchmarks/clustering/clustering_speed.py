"""Speed as ratios within one run, and Table 1: what a party sends and how long the grid takes.

Processor time, the least of several; slow ones are measured on a part and scaled (the part is stated).
"""

import time
from collections.abc import Iterator
from itertools import combinations

import numpy as np
from benchmarks.clustering.clustering_methods import CLUSTERS, GAMMA
from benchmarks.clustering.clustering_paper import (
    SWEEPS,
    algorithm_3,
    algorithm_4,
    algorithm_5,
    basic,
    epsilon_each,
    same_law,
)
from benchmarks.clustering.clustering_variations import decoded, released
from benchmarks.frame import Row

from colonnade.papers.laws import SKETCHES, PairSide, PartitionSketches, least_phantoms, sketching
from colonnade.privacy.accounting import Price
from colonnade.privacy.randomness import SystemRandomness
from colonnade.privacy.samplers import ExactSampler


def least(call, times: int) -> float:
    spent = []
    for _ in range(times):
        started = time.process_time()
        call()
        spent.append(time.process_time() - started)
    return min(spent)


def sketching_speed(_run: int, part: int = 128) -> Iterator[Row]:
    """Nanoseconds per person and sketch at 100,000 people: ours with all sketches, plain numpy with some of them."""
    rng, people = np.random.default_rng(0), 100_000
    codes = rng.integers(CLUSTERS, size=people).astype(np.int32)
    each = epsilon_each(0.245, 5e-6, SKETCHES)
    slow = least(lambda: algorithm_3(codes, CLUSTERS, list(range(part)), 1.0, each, rng), 2) / (people * part)
    mechanism = PartitionSketches(
        sketching(Price.of(0.49, 1e-5), 2, "person"), "person", CLUSTERS, (PairSide("pair", True),), lambda: b"k" * 32
    )
    fast = least(lambda: mechanism.release(codes, ExactSampler(SystemRandomness())), 3) / (people * SKETCHES)
    yield Row({"what": "sketching, nanoseconds"}, {"ours": fast * 1e9, "plain": slow * 1e9})


def memberships(people: int, clusters: int, parties: int, rng) -> list[np.ndarray]:
    group = rng.integers(clusters, size=people)
    return [np.where(rng.random(people) < 0.15, rng.integers(clusters, size=people), group) for _ in range(parties)]


def grid_speed(_run: int, part: int = 32, sweeps: int = 6) -> Iterator[Row]:
    """S = 4, k′ = 8: our tables and grid, against Algorithms 4 and 5 as loops over cells (a part of the sketches, scaled)."""
    rng, people, clusters, parties = np.random.default_rng(1), 20_000, 8, 4
    codes = memberships(people, clusters, parties, rng)
    law, pairs = released(codes, clusters, Price.of(0.5, 1 / people))
    ours = least(lambda: decoded(law, pairs, clusters, parties, people), 3)
    table = np.zeros((clusters,) * parties)
    np.add.at(table, tuple(codes), 1)
    each = epsilon_each(0.125, 1 / (people * parties), SKETCHES)
    sketches, phantoms = same_law(table, SKETCHES, GAMMA, each, rng), least_phantoms(each)
    listed = [one[:part].astype(int).tolist() for one in sketches]
    four = least(lambda: algorithm_4(listed, people, phantoms, GAMMA), 1) * SKETCHES / part
    couples = list(combinations(range(parties), 2))
    five = (
        least(lambda: [algorithm_4([listed[a], listed[b]], people, phantoms, GAMMA) for a, b in couples], 1)
        * SKETCHES
        / part
    )
    tables = {(a, b): basic([sketches[a], sketches[b]], people, phantoms, GAMMA) for a, b in couples}
    margins = [np.full(clusters, people / clusters)] * parties
    five += least(lambda: algorithm_5(tables, margins, people, sweeps), 1) * SWEEPS / sweeps
    yield Row({"what": "grid, seconds"}, {"ours": ours, "plain": four + five})


def cost_of_grids(_run: int, local: int, parties: int) -> Iterator[Row]:
    """Table 1: kilobytes that a party sends (centres, which all methods send alike, not counted), and seconds for the grid."""
    rng, people = np.random.default_rng(2), 20_000
    law, pairs = released(memberships(people, local, parties, rng), local, Price.of(0.5, 1 / people))
    seconds = least(lambda: decoded(law, pairs, local, parties, people), 3)
    yield Row(
        {"local": local, "parties": parties},
        {"kilobytes": 2 * (parties - 1) * SKETCHES * local / 1_000, "seconds": seconds},
    )
