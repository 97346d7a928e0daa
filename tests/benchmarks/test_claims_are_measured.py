"""Every claim of the papers' benchmarks is about rows that their grids measure: with made-up numbers none is "not measured"."""

import dataclasses
from itertools import count
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from benchmarks.clustering import run as clustering
from benchmarks.clustering.clustering_methods import Scores
from benchmarks.frame.benchmark import Benchmark, Row
from benchmarks.frame.claims import NOT_MEASURED
from benchmarks.frame.pages import page
from benchmarks.frame.records import Measured, Results
from benchmarks.functional import run as functional
from benchmarks.newton import run as newton

PAPERS = ("IND-LAP", "LDP-AGG-2PEst", "DPFMPS-2PEst", "exact table", "LDP-AGG", "DPFMPS-BasicEst")


def filled(benchmark: Benchmark) -> Results:
    """Two runs of every case."""
    parts = {}
    for part in benchmark.parts:
        held = Measured(exact=part.exact, runs=2, cases=[dict(case) for case in part.cases])
        for run in (1, 2):
            for case in part.cases:
                held.add(part.measure(run, **case))
        parts[part.name] = held
    return Results({"commit": "none"}, parts)


def unmeasured(benchmark: Benchmark) -> list[str]:
    results = filled(benchmark)
    assert page(benchmark, results)
    return [claim.words for claim in benchmark.claims if claim.judged(results).verdict == NOT_MEASURED]


def remeasured(benchmark: Benchmark, measures: dict) -> Benchmark:
    """The same benchmark with other functions for some parts."""
    parts = [dataclasses.replace(part, measure=measures.get(part.name, part.measure)) for part in benchmark.parts]
    return dataclasses.replace(benchmark, parts=parts)


def test_every_claim_about_clustering_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = count(1)

    def some(*_: object) -> Scores:
        return Scores(1 + next(numbers) / 1_000, 0.5, 0.1 + next(numbers) / 1_000, 5)

    points = SimpleNamespace(values=np.zeros((4, 16)), groups=np.zeros(4))
    for name in ("ours", "central", "vertical", "central_private", "peer_private"):
        monkeypatch.setattr(clustering, name, some)
    monkeypatch.setattr(clustering, "papers", lambda *_: {name: some() for name in PAPERS})
    monkeypatch.setattr(clustering, "components", lambda *_: [("private centres, exact weights", some())])
    monkeypatch.setattr(clustering, "federation", lambda *_: None)
    monkeypatch.setattr(
        clustering,
        "load",
        lambda name: points if name in ("letter", "credit") else SimpleNamespace(values=np.zeros((4, 8))),
    )
    kinds = ("KMedian, secure", "KMeans, secure", "KMedian, sketch", "KMeans, sketch", "central k-median of 2,000 rows")

    def medians(_run: int, set: str, epsilon: float):  # noqa: A002
        return [Row({"set": set, "epsilon": epsilon, "method": kind}, {"distance": some().loss}) for kind in kinds]

    speed = {"ours": 1.0, "plain": 60.0}
    measures = {
        "k-median": medians,
        "sketching speed": lambda _run: [Row({"what": "sketching, nanoseconds"}, speed)],
        "grid speed": lambda _run: [Row({"what": "grid, seconds"}, speed)],
        "cost of grids": lambda _run, local, parties: [Row({"local": local, "parties": parties}, {"seconds": 1.0})],
    }
    assert unmeasured(remeasured(clustering.BENCHMARK, measures)) == []


def test_every_claim_about_the_functional_mechanism_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = count(1)

    def score(*_: object, **__: object) -> float:
        return 0.5 + next(numbers) / 100_000

    answers, rows = np.array([0.0, 1.0] * 4), np.arange(8.0)[:, None]

    def coded(data: SimpleNamespace, _: object) -> SimpleNamespace:
        return SimpleNamespace(logistic=data.logistic, answers=answers, rows=rows, written=rows, bound=1)

    class Nothing:
        def __enter__(self) -> None:
            return None

        def __exit__(self, *_: object) -> None:
            return None

    def load(name: str) -> SimpleNamespace:
        return SimpleNamespace(logistic=name in functional.LOGISTIC, target="a.y")

    monkeypatch.setattr(functional, "load", load)
    monkeypatch.setattr(functional, "split", lambda *_: (None, pd.DataFrame({"y": answers})))
    monkeypatch.setattr(functional, "Coded", coded)
    monkeypatch.setattr(functional, "dealt", lambda *_: {"party1": {"y": None}})
    monkeypatch.setattr(functional, "federation", lambda *_, **__: Nothing())
    monkeypatch.setattr(functional, "_diffprivlib", lambda *_: [])
    for name in ("_through_the_channel", "_one_holder"):
        monkeypatch.setattr(functional, name, score)
    for name in (
        "paper_logistic",
        "noisy_steps",
        "local_rows",
        "paper_linear",
        "frank_wolfe",
        "frank_wolfe_of_parties",
    ):
        monkeypatch.setattr(functional.baselines, name, lambda *_, **__: np.array([next(numbers) / 1e5, 0.0]))
    wide = (functional.HOLDER, "Frank–Wolfe, central", "Frank–Wolfe, 2 parties", "Frank–Wolfe, 4 parties")
    measures = {
        "wide": lambda _run, sparsity: [Row({"sparsity": sparsity, "method": one}, {"error": score()}) for one in wide],
        "wide study": lambda _run, sparsity, parties, **_: [
            Row({"sparsity": sparsity, "parties": parties}, {"error": 1.0})
        ],
        "run time": lambda _run, data, parties, **_: [
            Row({"data": data, "parties": parties}, {"ours": 1.0, "MPyC": 60 + score()})
        ],
    }
    assert unmeasured(remeasured(functional.BENCHMARK, measures)) == []


def test_every_claim_about_the_cost_of_newton_steps_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes and time of both sizes; the rows are those of a few people."""
    monkeypatch.setitem(newton.newton_cost.SHAPES, 300, ((3, 2, 2, 2), 4))
    few = list(newton.costs(1, 300))
    held = Measured(runs=2, cases=[dict(case) for case in newton.BENCHMARK.part("cost").cases])
    for case in held.cases * 2:
        held.add(Row({**row.labels, **case}, row.values) for row in few)
    results = Results({"commit": "none"}, {"cost": held})
    judged = [claim.judged(results) for claim in newton.BENCHMARK.claims if "beside one Gram matrix" in claim.words]
    assert [one.claim.published for one in judged] == ["at most 5 ×"] * 2 + ["at most 15 ×"] * 2
    assert NOT_MEASURED not in [one.verdict for one in judged]
    assert page(newton.BENCHMARK, results)
