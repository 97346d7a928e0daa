"""What Newton steps cost beside one Gram matrix of the same columns: bytes that went through the coordinator, and processor time.

Four parties of made-up columns, dealt out in turn, three of whom compute, everything in one process and everything included.
"""

import time

import numpy as np
import pandas as pd

import colonnade as cn

SHAPES = {50_000: ((42, 16, 15, 9, 7, 6, 5), 6), 1_000_000: ((5, 4, 4, 3), 14)}
"""By people: the levels of categories, and how many numbers."""
BARS = {50_000: 5.0, 1_000_000: 15.0}
"""By people: how many times one Gram matrix."""
TURNS = 2
DELTA = 1e-6


def a_federation(people: int) -> cn.Federation:
    """Four parties, the target at the last one."""
    rng = np.random.default_rng(people)
    levels, numbers = SHAPES[people]
    frames = [pd.DataFrame({"id": np.arange(people)}) for _ in range(4)]
    columns: list[dict[str, cn.Category | cn.Numeric]] = [{} for _ in range(4)]
    for place, size in enumerate((*levels, *(0,) * numbers)):
        party, name = place % 4, f"c{place}"
        if size:
            names = [f"l{level}" for level in range(size)]
            frames[party][name] = np.array(names)[rng.integers(0, size, people)]
            columns[party][name] = cn.Category(names)
        else:
            frames[party][name] = rng.uniform(0, 1, people)
            columns[party][name] = cn.Numeric(0, 1)
    frames[3]["y"] = np.array(["no", "yes"])[rng.integers(0, 2, people)]
    columns[3]["y"] = cn.Category(["no", "yes"])
    parties = {
        f"p{number}": cn.Party(frame, schema=cn.Schema(own))
        for number, (frame, own) in enumerate(zip(frames, columns, strict=True))
    }
    return cn.Federation.simulate(parties, id="id", budget=cn.Budget(epsilon=1_000.0, delta=1e-3))


def cost(people: int, run: int) -> dict[str, dict[str, float]]:
    """Take both studies in turns, once to warm up; return bytes and the least seconds of each."""
    taken: dict[str, list[float]] = {"newton": [], "one Gram matrix": []}
    with a_federation(people) as federation:
        for turn in range(TURNS + 1):
            price = {"epsilon": 1.0, "delta": DELTA}
            repeat = run * (TURNS + 1) + turn
            begin = time.process_time()
            model = cn.LogisticRegression("p3.y", **price).fit(federation, repeat=repeat)
            middle = time.process_time()
            release = federation.moments(**price, repeat=repeat)
            taken["one Gram matrix"].append(time.process_time() - middle)
            taken["newton"].append(middle - begin)
    sent = {"newton": model.transcript_.bytes, "one Gram matrix": release.transcript_.bytes}
    return {study: {"bytes": float(sent[study]), "seconds": min(seconds[1:])} for study, seconds in taken.items()}
