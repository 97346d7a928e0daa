"""Coresets: Table 1 and Figures 2 to 11 of the [paper](../../docs/references.md#coresets), through real federations.

COLONNADE_YEARPREDICTION may name a copy of YearPredictionMSD, which is not part of the data sets. Without it stands a
synthetic set of its size: rows of an elliptical t distribution with 5 degrees of freedom, mean and covariance those of the
public sample of 1,176 songs. Its losses are its own; what can be compared with the paper are ratios.

*Losses.* Regression: mean squared residual, on held-out rows with the ridge penalty (as the paper), else the training
objective per row. k-means: squared distance to the nearest centre per row, columns scaled to standard deviation one. Every
coreset and every uniform sample is drawn and gathered by the parties of a federation (totals, draws, secure sum of scores,
rows); CENTRAL and KMEANS++ are scikit-learn on all rows. C- and U-SAGA and C- and U-DISTDIM train where the rows are. SAGA
solves the ridge and the plain regression; the lasso and the elastic net have no such method here, so that their SAGA lines of
the paper are not measured.

*Penalty.* The paper penalises raw features; here, as everywhere in the library, the columns mapped to [-1, 1] by their
bounds.

*Communication.* Numbers moved, from the transcript of the same runs, and bytes beside them; CENTRAL moves every row.
"""

import time
import tomllib
import tracemalloc
import warnings
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import numpy as np
from benchmarks.coresets.coreset_sets import SPREAD, Rows, loaded
from benchmarks.frame import Benchmark, Claim, Part, Plot, Results, Row, Table, below, better
from benchmarks.frame.claims import Test
from scipy.linalg import blas
from sklearn.cluster import KMeans
from sklearn.linear_model import ElasticNet

import colonnade as cn
from colonnade.papers.estimation import estimated_size, joined_clusters, sampled_clusters, sampled_regression
from colonnade.papers.private import leverage_scores
from colonnade.papers.protocols import CoresetFindings, CoresetStudy
from colonnade.runtime.spilled_rows import SpilledRows

PUBLISHED = tomllib.loads((Path(__file__).parent / "published.toml").read_text())
SIZES = (1_000, 2_000, 3_000, 4_000, 5_000, 6_000)
SOME_SIZES = (1_000, 3_000, 6_000)
HOUSE_SIZES = (100, 200, 400, 600, 800, 1_000)
CLUSTERS = 10
PENALTIES = {  # penalty, alpha, l1_ratio; relative to people
    "ridge": ("l2", 1e-5, 0.0),
    "linear": (None, 0.0, 0.0),
    "lasso": ("l1", 1e-5, 1.0),
    "elastic net": ("elasticnet", 2e-5, 0.5),
}
BARS = {2_000: 1.06, 6_000: 1.025}
COMMUNICATION_BAR, SPEED_BAR, MEMORY_BAR = 50, 3.0, 1.5


# One sample, and what is trained on it --------------------------------------------------------------------------------------


def drawn(
    federation: cn.Federation, size: int, run: int, *, uniform: bool, clusters: int = 1, target: str | None, **more
):
    """Have the parties draw one sample; ``run`` is the draw."""
    study = CoresetStudy(
        columns=federation.describe(),
        task="kmeans" if target is None else "regression",
        size=size,
        people=federation.people,
        target=target,
        clusters=clusters,
        uniform=uniform,
        **more,
    )
    plan = federation._driver.plan(
        study, task="coreset", method="coreset", price=None, unit="person", parameters={}, repeat=run
    )
    outcome = federation._driver.run(study, plan)
    return outcome.value, outcome.transcript


def coefficients(found: CoresetFindings, people: int, kind: str) -> tuple[np.ndarray, float]:
    penalty, alpha, ratio = PENALTIES[kind]
    model = sampled_regression(
        found.gathered[:, :-1],
        found.gathered[:, -1],
        found.coreset.weights,
        people,
        penalty=penalty,
        alpha=alpha,
        l1_ratio=ratio,
    )
    return model.coefficients, model.intercept


def regression_loss(rows: Rows, theta: np.ndarray, intercept: float, kind: str) -> float:
    """Testing loss for ridge where rows are held out, else the training objective a row, in the target's own units."""
    if kind == "ridge" and rows.training < len(rows.coded):
        return rows.loss(theta, intercept, test=True)
    penalty, alpha, ratio = PENALTIES[kind]
    size = 0.0 if penalty is None else alpha * (2 * ratio * np.abs(theta).sum() + (1 - ratio) * (theta**2).sum())
    return rows.loss(theta, intercept, test=False) + size * rows.halves[-1] ** 2


def central_regression(rows: Rows, kind: str) -> tuple[np.ndarray, float]:
    """All rows, from their Gram matrix; the penalised ones by scikit-learn's coordinate descent on it."""
    penalty, alpha, ratio = PENALTIES[kind]
    people, width = rows.training, rows.width
    mean = rows.gram[0, 1:] / people
    covariance = rows.gram[1:, 1:] / people - np.outer(mean, mean)
    if penalty in (None, "l2"):
        theta = np.linalg.solve(covariance[:-1, :-1] + alpha * np.eye(width), covariance[:-1, -1])
    else:
        values, vectors = np.linalg.eigh(covariance)
        square = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T * np.sqrt(len(covariance))
        model = ElasticNet(alpha=alpha, l1_ratio=ratio, fit_intercept=False, tol=1e-9, max_iter=200_000)
        theta = model.fit(square[:, :-1], square[:, -1]).coef_
    return theta, float(mean[-1] - mean[:-1] @ theta)


def clustering_loss(points: np.ndarray, squares: float, centres: np.ndarray, scale: float) -> float:
    """Mean squared distance to the nearest centre; ``squares`` is the sum of the points' own squared lengths."""
    total, centres = squares, centres.astype(points.dtype)
    lengths = (centres**2).sum(axis=1)
    for start in range(0, len(points), 65_536):
        total += float((lengths - 2 * points[start : start + 65_536] @ centres.T).min(axis=1).sum(dtype=np.float64))
    return total / len(points) * scale


# What is measured -----------------------------------------------------------------------------------------------------------


@cache
def opened(name: str, parties: int, target: bool) -> cn.Federation:
    return loaded(name).federation(parties, target=target)


@cache
def central_loss(name: str, kind: str) -> float:
    rows = loaded(name)
    return regression_loss(rows, *central_regression(rows, kind), kind)


def regressions(
    run: int,
    set: str,  # noqa: A002  # the label on the page
    parties: int,
    size: int,
    training: str,
    penalty: str = "",
) -> Iterator[Row]:
    """One coreset and one uniform sample; every penalty, or the one that is given, is fitted on the same samples."""
    rows = loaded(set)
    names = list(rows.parties(parties, target=True))
    target, federation = f"{names[-1]}.c{rows.width}", opened(set, parties, True)
    kinds = (
        (penalty,)
        if penalty
        else ("linear",)
        if set == "KC House"
        else tuple(PENALTIES)
        if training == "rows" and parties == 3
        else ("ridge",)
    )
    labels = {"set": set, "parties": parties, "size": size}
    for kind in kinds:
        for method in ("CENTRAL",) if training == "rows" else ():
            yield Row({**labels, "penalty": kind, "method": method}, {"loss": central_loss(set, kind)})
    for method, uniform in (("C", False), ("U", True)):
        more = {"ridge": PENALTIES[kinds[0]][1]} if training == "saga" else {}
        found, said = drawn(federation, size, run, uniform=uniform, target=target, training=training, **more)
        for kind in kinds:
            if training == "rows":
                model = coefficients(found, rows.training, kind)
            else:
                blocks = [found.coefficients[name] for name in names]
                model = np.concatenate([*blocks[:-1], blocks[-1][1:]]), float(blocks[-1][0])
            values = {"loss": regression_loss(rows, *model, kind), "numbers": said.numbers, "MB": said.bytes / 1e6}
            name = f"{method}-{'CENTRAL' if training == 'rows' else 'SAGA'}"
            yield Row({**labels, "penalty": kind, "method": name}, values)


@cache
def clustered(name: str, parties: int, clusters: int) -> tuple[np.ndarray, float, dict[str, float]]:
    """The points, the sum of their squared lengths, and the costs of all rows: in one place, and where the rows are."""
    rows = loaded(name)
    points = np.ascontiguousarray(rows.coded[:, :-1], dtype=np.float32)
    squares = float((points.astype(np.float64) ** 2).sum())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = KMeans(clusters, n_init=1, max_iter=100, random_state=0).fit(points).cluster_centers_
        local = {
            party: KMeans(clusters, n_init=1, max_iter=50, random_state=0).fit(points[:, places])
            for party, places in rows.parties(parties, target=False).items()
        }
    joined = joined_clusters(
        {party: (one.cluster_centers_.astype(float), one.labels_.astype(np.int64)) for party, one in local.items()},
        np.ones(len(points)),
        clusters,
        seed=0,
    )
    costs = {"KMEANS++": whole, "DISTDIM": joined}
    return points, squares, {who: clustering_loss(points, squares, one, SPREAD**2) for who, one in costs.items()}


def clusterings(run: int, set: str, parties: int, size: int, clusters: int) -> Iterator[Row]:  # noqa: A002
    """Costs of k-means on one coreset and one uniform sample, gathered (KMEANS++) and where the rows are (DISTDIM)."""
    points, squares, whole = clustered(set, parties, clusters)
    labels = {"set": set, "parties": parties, "clusters": clusters, "size": size}
    for who, cost in whole.items():
        yield Row({**labels, "method": who}, {"cost": cost})
    for method, uniform in (("C", False), ("U", True)):
        for training, who in (("rows", "KMEANS++"), ("clusters", "DISTDIM")):
            found, said = drawn(
                opened(set, parties, False),
                size,
                run,
                uniform=uniform,
                clusters=clusters,
                target=None,
                training=training,
            )
            weights = found.coreset.weights
            centres = (
                sampled_clusters(found.gathered, weights, clusters, seed=run)
                if training == "rows"
                else joined_clusters(found.clusters, weights, clusters, seed=run)
            )
            cost = clustering_loss(points, squares, centres, SPREAD**2)
            values = {"cost": cost, "numbers": said.numbers, "MB": said.bytes / 1e6}
            yield Row({**labels, "method": f"{method}-{who}"}, values)


def automatic(run: int, set: str, parties: int, task: str) -> Iterator[Row]:  # noqa: A002
    """`size="auto"`: how many rows it draws, and how much larger the loss is than with all rows."""
    rows, federation = loaded(set), opened(set, parties, task == "regression")
    target = f"{list(rows.parties(parties, target=True))[-1]}.c{rows.width}" if task == "regression" else None
    draft = CoresetStudy(federation.describe(), task, 1, federation.people, target, clusters=CLUSTERS)
    totals = sum(draft.maxima().values())
    size = estimated_size(task, rows.width, CLUSTERS, totals, error=ERROR, failure=0.05)
    found, _ = drawn(
        federation, size, run, uniform=False, clusters=1 if target else CLUSTERS, target=target, training="rows"
    )
    if target:
        loss, least = (
            regression_loss(rows, *coefficients(found, rows.training, "linear"), "linear"),
            central_loss(set, "linear"),
        )
    else:
        points, squares, whole = clustered(set, parties, CLUSTERS)
        centres = sampled_clusters(found.gathered, found.coreset.weights, CLUSTERS, seed=run)
        loss, least = clustering_loss(points, squares, centres, SPREAD**2), whole["KMEANS++"]
    yield Row({"set": set, "task": task}, {"size": size, "share": size / federation.people, "excess": loss / least - 1})


def speed(_run: int) -> Iterator[Row]:
    """Scores of one party that holds everything, beside one Gram matrix and one triangular solve; in the same process."""
    columns = np.ascontiguousarray(loaded(BIG).coded[:, :-1].T)
    people = columns.shape[1]
    room = partial(SpilledRows, people)

    def blocks():
        for start in range(0, people, 8_192):
            yield columns[:, start : start + 8_192]

    def gram() -> np.ndarray:
        return columns @ columns.T

    root = np.asfortranarray(np.linalg.cholesky(gram()))
    right = np.asfortranarray(columns)

    def solve() -> None:
        blas.dtrsm(1.0, root, right, lower=1, overwrite_b=0)

    values = {
        "Gram matrix": _seconds(gram),
        "solve": _seconds(solve),
        "scores": _seconds(lambda: leverage_scores(blocks, people, room)),
    }
    values["ratio"] = values["scores"] / (values["Gram matrix"] + values["solve"])
    tracemalloc.start()
    leverage_scores(blocks, people, room)
    values["memory"] = 1 + tracemalloc.get_traced_memory()[1] / columns.nbytes
    tracemalloc.stop()
    yield Row({"rows": columns.shape[1], "columns": columns.shape[0]}, values)


def _seconds(work) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


# Claims -----------------------------------------------------------------------------------------------------------------------

BIG = "YearPredictionMSD, or synthetic"
REGRESSIONS = [
    *({"set": BIG, "parties": 3, "size": size, "training": "rows"} for size in SIZES),
    *({"set": BIG, "parties": 5, "size": size, "training": "rows"} for size in SOME_SIZES),
    *({"set": "KC House", "parties": 2, "size": size, "training": "rows"} for size in HOUSE_SIZES),
]
SAGA = [
    *({"set": BIG, "parties": parties, "size": size, "training": "saga"} for parties in (3, 5) for size in SOME_SIZES),
    *({"set": BIG, "parties": 3, "size": size, "training": "saga", "penalty": "linear"} for size in SOME_SIZES[::2]),
    *({"set": "KC House", "parties": 2, "size": size, "training": "saga"} for size in HOUSE_SIZES[::2]),
]
AUTOMATIC = [
    {"set": "KC House", "parties": 2, "task": "regression"},
    {"set": "KC House", "parties": 2, "task": "kmeans"},
    {"set": BIG, "parties": 3, "task": "regression"},
]
ERROR = 0.1
CLUSTERINGS = [
    *(
        {"set": BIG, "parties": p, "size": size, "clusters": k}
        for p, k in ((3, 10), (5, 10), (3, 5))
        for size in SOME_SIZES
    ),
    *({"set": "KC House", "parties": 2, "size": size, "clusters": CLUSTERS} for size in HOUSE_SIZES[::2]),
]


def below_uniform(part: str, value: str, who: str, words: str, **labels: object) -> Claim:
    def tests(found: Results) -> Iterator[Test]:
        for size in found.labels(part, "size", **labels):
            pick = {**labels, "size": size}
            yield better(*(found.sample(part, value, method=f"{one}-{who}", **pick) for one in ("U", "C")))

    return Claim(
        f"{words}: the coreset's mean is below the uniform sample's at every size", "below", tests, "Figures 2 to 11"
    )


def close_to_central(size: int) -> Claim:
    published = PUBLISHED["regression"]["coreset"][str(size)][0] / PUBLISHED["regression"]["central"]["cost"]

    def tests(found: Results) -> Iterator[Test]:
        pick = {"set": BIG, "parties": 3, "size": size, "penalty": "ridge"}
        central = found.sample("regression", "loss", method="CENTRAL", **pick).mean
        yield below(found.sample("regression", "loss", method="C-CENTRAL", **pick), published * central)

    words = f"ridge, 3 parties, {size:,} rows: loss at most the published multiple of CENTRAL's"
    return Claim(words, f"{published:.3f} × ours of all rows", tests, "Table 1")


CLAIMS = [
    *map(close_to_central, (1_000, 2_000, 6_000)),
    *(
        below_uniform("regression", "loss", "CENTRAL", f"{kind}, 3 parties", set=BIG, parties=3, penalty=kind)
        for kind in PENALTIES
    ),
    below_uniform("regression", "loss", "CENTRAL", "ridge, 5 parties", set=BIG, parties=5, penalty="ridge"),
    below_uniform("regression", "loss", "CENTRAL", "KC House", set="KC House", penalty="linear"),
    below_uniform("SAGA", "loss", "SAGA", "SAGA, ridge, 3 parties", set=BIG, parties=3, penalty="ridge"),
    below_uniform("SAGA", "loss", "SAGA", "SAGA, linear, 3 parties", set=BIG, parties=3, penalty="linear"),
    below_uniform("SAGA", "loss", "SAGA", "SAGA, ridge, 5 parties", set=BIG, parties=5),
    below_uniform("SAGA", "loss", "SAGA", "SAGA, KC House", set="KC House"),
    *(
        below_uniform("k-means", "cost", who, f"k-means, {who}, {p} parties, k = {k}", set=BIG, parties=p, clusters=k)
        for p, k in ((3, 10), (5, 10), (3, 5))
        for who in ("KMEANS++", "DISTDIM")
    ),
    below_uniform("k-means", "cost", "KMEANS++", "k-means, KC House", set="KC House"),
    Claim(
        "automatic size: the loss in excess of that of all rows",
        f"at most {ERROR:g}, the default of `error`",
        lambda found: [
            below(found.sample("automatic size", "excess", set=one["set"], task=one["task"]), ERROR)
            for one in AUTOMATIC
        ],
        "our bar",
    ),
    Claim(
        "communication at 2,000 rows, 3 parties: fewer numbers than CENTRAL's 42 million",
        "at least 50 × fewer",
        lambda found: [
            below(
                found.sample(
                    "regression", "numbers", set=BIG, parties=3, size=2_000, penalty="ridge", method="C-CENTRAL"
                ),
                PUBLISHED["regression"]["central"]["communication"] / 50,
            )
        ],
        "our bar; Table 1 has 210 ×",
    ),
    Claim(
        "scores cost at most 3 times one Gram matrix and one triangular solve",
        "at most 3 ×",
        lambda found: [below(samples["ratio"], 3.0) for _, samples in found.rows("speed")],
        "our bar",
    ),
    Claim(
        "memory of the scores over the block",
        "at most 1.5",
        lambda found: [below(samples["memory"], 1.5) for _, samples in found.rows("speed")],
        "our bar",
    ),
]
WHERE = {"set": "set", "parties": "parties", "penalty": "penalty", "size": "rows"}
KWHERE = {"set": "set", "parties": "parties", "clusters": "k", "size": "rows"}
BENCHMARK = Benchmark(
    name="coresets",
    title="Coresets ([paper](../../docs/references.md#coresets): Table 1, Figures 2–11)",
    about=__doc__ or "",
    packages=("numpy", "scikit-learn"),
    parts=[
        Part("regression", regressions, REGRESSIONS, 10, 7.0, quick=REGRESSIONS[-1:], quick_runs=2),
        Part("SAGA", regressions, SAGA, 3, 5.5, quick=SAGA[-1:]),
        Part("automatic size", automatic, AUTOMATIC, 8, 2.0, quick=AUTOMATIC[:2], quick_runs=2),
        Part("k-means", clusterings, CLUSTERINGS, 5, 7.5, quick=CLUSTERINGS[-1:]),
        Part("speed", speed, [{}], 3, 0.5, machine=frozenset({"Gram matrix", "solve", "scores", "ratio"})),
    ],
    shown=[
        "## Regression",
        Plot(
            "regression",
            "regression",
            "loss",
            "size",
            "method",
            "Regression on a sample: loss",
            "loss",
            panel="penalty",
        ),
        Table(
            "regression",
            {"loss": "loss"},
            WHERE,
            across="method",
            words="Losses; CENTRAL has all rows.",
            roles={"C-CENTRAL": "ours", "U-CENTRAL": "peer", "CENTRAL": "plain"},
            higher=False,
            digits=5,
        ),
        Table("SAGA", {"loss": "loss"}, WHERE, across="method", words="SAGA, where the rows are.", digits=5),
        "## k-means",
        Table(
            "k-means",
            {"cost": "cost"},
            KWHERE,
            across="method",
            words="Costs; KMEANS++ and DISTDIM have all rows.",
            roles={"C-KMEANS++": "ours", "U-KMEANS++": "peer", "KMEANS++": "plain"},
            higher=False,
            digits=5,
        ),
        "## Automatic sizes",
        Table(
            "automatic size",
            {"size": "rows drawn", "share": "share of the people", "excess": "excess of the loss"},
            {"set": "set", "task": "task"},
            words='`size="auto"` at its defaults.',
        ),
        "## Communication",
        Table(
            "regression",
            {"numbers": "numbers"},
            WHERE,
            across="method",
            filled="numbers",
            words="Numbers moved, regression.",
        ),
        Table("SAGA", {"numbers": "numbers"}, WHERE, across="method", words="Numbers moved, SAGA."),
        Table(
            "k-means",
            {"numbers": "numbers"},
            KWHERE,
            across="method",
            filled="numbers",
            words="Numbers moved, k-means.",
        ),
        "## Scores",
        Table(
            "speed",
            {
                "Gram matrix": "Gram matrix, s",
                "solve": "solve, s",
                "scores": "scores, s",
                "ratio": "ratio",
                "memory": "memory over the block",
            },
            {"rows": "rows", "columns": "columns"},
            digits=3,
        ),
    ],
    claims=CLAIMS,
)
