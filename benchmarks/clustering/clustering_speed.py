"""Speed as ratios within one run, and Table 1: what a party sends and how long the grid takes.

Processor time, the least of several; slow ones are measured on a part and scaled (the part is stated).
"""

import time
from itertools import combinations

import numpy as np
from clustering_methods import CLUSTERS
from clustering_paper import (
    SWEEPS,
    algorithm_3,
    algorithm_4,
    algorithm_4_by_cells,
    algorithm_5,
    basic,
    epsilon_each,
    same_law,
)
from clustering_variations import decoded, released

from colonnade.privacy.accounting import Price
from colonnade.privacy.laws.sketch_law import SKETCHES, least_phantoms, sketching
from colonnade.privacy.laws.sketches import PairSide, PartitionSketches
from colonnade.privacy.randomness import SystemRandomness
from colonnade.privacy.samplers import ExactSampler

BARS = {"sketching": 30.0, "estimation": 50.0}
GAMMA = 0.1


def least(call, times: int) -> float:
    spent = []
    for _ in range(times):
        started = time.process_time()
        call()
        spent.append(time.process_time() - started)
    return min(spent)


def speed(quick: bool) -> dict:
    return {"sketching": sketching_ratio(quick), "estimation": estimation_ratio(quick), "table 1": table_1(quick)}


def sketching_ratio(quick: bool) -> dict:
    """Nanoseconds a (person, sketch) at 100,000 people: ours with all sketches, plain numpy with some of them."""
    rng, people = np.random.default_rng(0), 100_000
    codes = rng.integers(CLUSTERS, size=people).astype(np.int32)
    part = 32 if quick else 128
    each = epsilon_each(0.245, 5e-6, SKETCHES)
    slow = least(lambda: algorithm_3(codes, CLUSTERS, list(range(part)), 1.0, each, rng), 2) / (people * part)
    mechanism = PartitionSketches(
        sketching(Price.of(0.49, 1e-5), 2, "person"), "person", CLUSTERS, (PairSide("pair", True),), lambda: b"k" * 32
    )
    fast = least(lambda: mechanism.release(codes, ExactSampler(SystemRandomness())), 3) / (people * SKETCHES)
    return {
        "plain numpy, ns": slow * 1e9,
        "numpy measured on sketches": part,
        "ours, ns": fast * 1e9,
        "ratio": slow / fast,
        "bar": BARS["sketching"],
    }


def memberships(people: int, clusters: int, parties: int, rng) -> list[np.ndarray]:
    group = rng.integers(clusters, size=people)
    return [np.where(rng.random(people) < 0.15, rng.integers(clusters, size=people), group) for _ in range(parties)]


def estimation_ratio(quick: bool) -> dict:
    """S = 4, k′ = 8: our tables and grid, against Algorithms 4 and 5 as loops over cells."""
    rng, people, clusters, parties = np.random.default_rng(1), 20_000, 8, 4
    codes = memberships(people, clusters, parties, rng)
    law, pairs = released(codes, clusters, Price.of(0.5, 1 / people))
    ours = least(lambda: decoded(law, pairs, clusters, parties, people), 3)
    table = np.zeros((clusters,) * parties)
    np.add.at(table, tuple(codes), 1)
    each = epsilon_each(0.125, 1 / (people * parties), SKETCHES)
    sketches, phantoms = same_law(table, SKETCHES, GAMMA, each, rng), least_phantoms(each)
    part = 8 if quick else 32
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
    sweeps = 2 if quick else 6
    five += least(lambda: algorithm_5(tables, margins, people, sweeps), 1) * SWEEPS / sweeps
    by_cells = least(lambda: algorithm_4_by_cells(sketches, people, phantoms, GAMMA), 1)
    return {
        "Algorithm 4 as loops, s": four,
        "Algorithm 5 as loops, s": five,
        "Algorithm 4, loops over cells and numpy over sketches, s": by_cells,
        "loops measured on sketches": part,
        "ours, s": ours,
        "ratio to 4 and 5": (four + five) / ours,
        "ratio to 5 alone": five / ours,
        "ratio to 4 with numpy": by_cells / ours,
        "bar": BARS["estimation"],
    }


def table_1(quick: bool) -> dict:
    """Bytes that a party sends (its centres, which all methods send alike, not counted), and seconds for the grid."""
    rng, people, found = np.random.default_rng(2), 20_000, {}
    for clusters in (5, 8):
        for parties in (2, 4):
            codes = memberships(people, clusters, parties, rng)
            law, pairs = released(codes, clusters, Price.of(0.5, 1 / people))
            seconds = least(lambda: decoded(law, pairs, clusters, parties, people), 1 if quick else 3)  # noqa: B023
            found[f"k′ = {clusters}, {parties} parties"] = {
                "bytes a party": 2 * (parties - 1) * SKETCHES * clusters,
                "seconds": seconds,
            }
    return found
