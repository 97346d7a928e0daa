"""Memory and time of an additive model over three served parties, beside logistic regression at the same coded width.

Each party is a process of its own (`colonnade party serve`) with its guard and its relay, and computes on shares. The columns are
numbers in bins. Memory is what the operating system says of each process afterwards, at its peak; the bar is 4 GB per process for
500,000 people, 20 columns and 16 bins. With fewer people `LogisticRegression` with ``method="newton"`` is also fitted to the same
columns read in the same bins, at the same price; the bar is twice its time.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from benchmarks.frame import Claim, Part, Results, Row, Table, below, within
from benchmarks.frame.claims import Test
from benchmarks.network import sites

import colonnade as cn
from colonnade.schema import Bins

COLUMNS, BINS = 20, 16
MOST_MEMORY, MOST_TIME = 4_096.0, 2.0
PRICE = {"epsilon": 1.0, "delta": 1e-6}


def tables(people: int, columns: int) -> dict:
    """Columns spread over three parties; the first also has the event, of which some columns tell something."""
    found = sites.random_tables(people, columns)
    generator = np.random.default_rng(8)
    score = sum(table.iloc[:, 1].to_numpy() for table in found.values()) - 1.0
    event = generator.uniform(size=people) < 1 / (1 + np.exp(-score))
    found["first"]["event"] = np.where(event, "yes", "no").astype(object)
    return found


def measure(people: int, columns: int, bins: int, *, beside: bool) -> dict:
    """Fit, and return seconds, bytes and the memory of every process."""
    with tempfile.TemporaryDirectory(prefix="cn-") as name:
        folder = Path(name)
        held = tables(people, columns)
        papers = sites.draw_up(folder, held, 1.0)
        served = {party: sites.serve(folder / party) for party in held}
        seconds = {}
        try:
            with cn.Federation.connect(papers, patience=600.0) as federation:
                start = time.perf_counter()
                model = cn.AdditiveClassifier("first.event", bins=bins, **PRICE).fit(federation)
                seconds["additive"] = time.perf_counter() - start
                processes = {"coordinator": sites.memory(os.getpid())}
                for party, process in served.items():
                    for role, pid in sites.children(process.pid).items():
                        processes[f"{party} {role}"] = sites.memory(pid)
                if beside:
                    start = time.perf_counter()
                    cn.LogisticRegression("first.event", method="newton", **PRICE).fit(read_in_bins(federation, bins))
                    seconds["logistic"] = time.perf_counter() - start
        finally:
            for process in served.values():
                sites.end(process)
    return {"seconds": seconds, "bytes": model.transcript_.bytes, "memory": processes}


def read_in_bins(federation: cn.Federation, bins: int) -> cn.Federation:
    described = {name: one for name, one in federation.describe().items() if isinstance(one, cn.Numeric)}
    return federation.read_as({name: Bins.equal(column, bins) for name, column in described.items()})


def measured(_run: int, people: int, columns: int = COLUMNS, *, beside: bool) -> Iterator[Row]:
    """Fit an additive model; and a logistic one, where it is asked for."""
    found = measure(people, columns, BINS, beside=beside)
    for model, seconds in found["seconds"].items():
        yield Row({"people": people, "model": model}, {"seconds": seconds})
    largest = max(one["peak"] for one in found["memory"].values())
    coordinator = found["memory"]["coordinator"]["peak"]
    values = {"GB sent": found["bytes"] / 1e9, "largest": largest, "coordinator": coordinator}
    yield Row({"people": people, "process": "all"}, values)


def _time(found: Results) -> Iterator[Test]:
    for labels, samples in found.rows("additive", model="logistic"):
        yield within(
            found.sample("additive", "seconds", people=labels["people"], model="additive"),
            samples["seconds"],
            MOST_TIME,
        )


MACHINE = frozenset({"seconds", "largest", "coordinator"})
PARTS = [
    Part(
        "additive",
        measured,
        [{"people": 20_000, "beside": True}],
        3,
        1.0,
        quick=[{"people": 2_000, "columns": 6, "beside": True}],
        machine=MACHINE,
    ),
    Part(
        "additive, many people",
        measured,
        [{"people": 500_000, "beside": False}],
        2,
        3.5,
        quick=[{"people": 4_000, "columns": 6, "beside": False}],
        machine=MACHINE,
    ),
]
SHOWN = [
    "## An additive model over three served parties",
    *(
        shown
        for part in ("additive", "additive, many people")
        for shown in (
            Table(part, {"seconds": "seconds"}, {"people": "people"}, across="model", filled="seconds", digits=3),
            Table(
                part,
                {"largest": "largest process, MB", "coordinator": "coordinator, MB", "GB sent": "GB sent"},
                {"people": "people"},
                where={"process": "all"},
                digits=3,
                words=f"{COLUMNS} columns of {BINS} bins.",
            ),
        )
    ),
]
CLAIMS = [
    Claim(
        "an additive model takes at most twice the time of logistic regression on the same bins (ratio)",
        f"at most {MOST_TIME:g} ×",
        _time,
        "the issue",
    ),
    Claim(
        "memory of the largest process, 500,000 people, MB",
        f"at most {MOST_MEMORY:,.0f} MB",
        lambda found: [
            below(samples["largest"], MOST_MEMORY) for _, samples in found.rows("additive, many people", process="all")
        ],
        "the issue",
    ),
]
