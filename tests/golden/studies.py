"""Small studies through the public interface alone, which together use every kind of step and every method of every estimator.

The data is made here, so that it does not change with the library's own examples.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import colonnade as cn

PEOPLE = 360
TEST_KEY = b"golden releases: a fixed test key"[:32]
GAUSSIAN: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-6}
OPEN: dict[str, Any] = {"allow_nonprivate": True, "size": 60}

SCHEMAS = {
    "bank": cn.Schema(
        age=cn.Numeric(18, 95),
        balance=cn.Numeric(-50, 50),
        visits=cn.Numeric(0, 20, integer=True),
        segment=cn.Category(["basic", "gold", "platinum"]),
        default=cn.Category(["no", "yes"]),
    ),
    "telco": cn.Schema(
        bill=cn.Numeric(0, 200), calls=cn.Numeric(0, 30, integer=True), plan=cn.Category(["prepaid", "standard"])
    ),
    "insurer": cn.Schema(drift=cn.Numeric(-1, 1), product=cn.Category(["car", "home", "life", "none"])),
    "clinic": cn.Schema(pressure=cn.Numeric(-10, 30), kind=cn.Category(["a", "b", "c", "d", "e"])),
    "shop": cn.Schema(basket=cn.Numeric(-20, 80), member=cn.Category(["no", "yes"])),
}
NUMBERS = ["bank.age", "bank.balance", "telco.bill", "insurer.drift"]
MIXED = ["bank.age", "bank.balance", "bank.segment", "telco.bill", "telco.plan", "insurer.product"]
THREE = ("bank", "telco", "insurer")

KINDS = [
    "centres",
    "coreset-clusters",
    "coreset-rows",
    "coreset-sample",
    "coreset-total",
    "histogram",
    "membership-sketches",
    "reports",
    "rows",
    "sketch",
    "squared-length",
    "total",
    "value-sketch",
    "values",
    "coefficients",
    "cohort",
    "column-counts",
    "coreset-draws",
    "coreset-gradient",
    "coreset-scores",
    "gradient",
    "gram",
    "newton",
    "spreads",
    "group-chain",
    "group-key",
    "group-sums",
    "group-totals",
    "matching",
    "pair-tables",
    "predictions",
    "quantiles",
    "score-table",
    "split",
    "union",
    "union-cross",
    "union-own",
]
"""Every kind of step that there was when the releases were recorded."""

ESTIMATORS = (
    cn.PatternCount,
    cn.GroupBy,
    cn.Correlation,
    cn.Moment,
    cn.PCA,
    cn.LinearRegression,
    cn.LogisticRegression,
    cn.KMeans,
    cn.KMedian,
    cn.Describe,
    cn.Histogram,
    cn.Quantiles,
    cn.Coreset,
)

Results = dict[str, Any]
STUDIES: dict[str, tuple[Callable[[], cn.Federation], Callable[[cn.Federation], Results]]] = {}
"""A study's name to how its federation is opened and what is then done."""


def tables(people: int = PEOPLE) -> dict[str, pd.DataFrame]:
    """Correlated tables, rows in different orders, values missing here and there, and a few people whom the others lack."""
    rng = np.random.default_rng(20240611)
    hidden = rng.normal(size=people)
    made = {}
    for number, (party, schema) in enumerate(SCHEMAS.items()):
        columns: dict[str, Any] = {"id": np.arange(people) * 11 + 5}
        for name, column in schema.items():
            place = 1 / (1 + np.exp(-(hidden + rng.normal(size=people))))
            if isinstance(column, cn.Category):
                levels = np.array(column.levels, dtype=object)
                values = levels[np.minimum((place * len(levels)).astype(int), len(levels) - 1)]
                values[rng.random(people) < 0.04] = None
            else:
                values = np.round(column.low + place * (column.high - column.low), 0 if column.integer else 3)
                values[rng.random(people) < 0.04] = np.nan
            columns[name] = values
        frame = pd.DataFrame(columns)
        own = frame.iloc[: 3 + number].assign(id=1_000_003 + 100 * number + np.arange(3 + number))
        made[party] = pd.concat([frame, own]).iloc[rng.permutation(people + 3 + number)].reset_index(drop=True)
    return made


def opened(parties: tuple[str, ...] = THREE, **options: Any) -> Callable[[], cn.Federation]:
    """Return how to open a federation of some parties."""

    def simulate() -> cn.Federation:
        found = tables()
        return cn.Federation.simulate(
            {name: cn.Party(found[name], schema=SCHEMAS[name]) for name in parties},
            id="id",
            budget=cn.Budget(epsilon=1_000.0, delta=1e-5),
            test_key=TEST_KEY,
            **options,
        )

    return simulate


def fitted(study: Any) -> Results:
    """Return what an estimator learned, by attribute, without its papers."""
    papers = {"privacy_", "transcript_", "receipt_", "plan_", "schema_"}
    found = {name: value for name, value in vars(study).items() if name.endswith("_") and not name.startswith("_")}
    return {name: value for name, value in found.items() if name not in papers}


def fits(name: str, make: Callable[[], Any], open_: Callable[[], cn.Federation] | None = None) -> None:
    """Add a study that fits one estimator, named by the estimator and its method."""
    made = make()

    def fit(federation: cn.Federation) -> Results:
        return fitted(make().fit(federation))

    method = made.method if isinstance(made.method, str) else made.method.name
    title = f"{type(made).__name__}:{method}{', ' if name else ''}{name}"
    assert title not in STUDIES, f"two studies are called {title!r}"
    STUDIES[title] = (open_ or opened(), fit)


def does(name: str, open_: Callable[[], cn.Federation] | None = None) -> Callable[[Any], Any]:
    """Add a study that is a function of its federation."""

    def add(function: Callable[[cn.Federation], Results]) -> Callable[[cn.Federation], Results]:
        STUDIES[name] = (open_ or opened(), function)
        return function

    return add


TWO = opened(("bank", "telco"))
FIVE = tuple(SCHEMAS)
SHARING = {
    "two parties and the coordinator": TWO,
    "two parties and a node without data": opened(("bank", "telco"), compute_nodes=["helper"]),
    "three parties": opened(),
    "three parties, collusion 0": opened(collusion=0),
    "three parties and a node without data": opened(compute_nodes=["helper"]),
    "five parties, collusion 0": opened(FIVE, collusion=0),
    "five parties, collusion 1": opened(FIVE),
    "five parties, collusion 2": opened(FIVE, collusion=2),
}
LOWERED = opened(FIVE, collusion=1)
"""For two studies of four of the five parties. When they were recorded, asking for collusion 2 gave 1 there without a word. It
is refused or kept now, so they ask for what they were given; their names in golden.json stay.
"""
ACROSS = ["bank.segment", "telco.plan"]
SKELLAM, CLIPPED = cn.methods.Secure(noise="skellam"), cn.methods.Secure(row_norms={"bank": 0.8}, scale=512)

# Counts -------------------------------------------------------------------------------------------------------------------

fits("", lambda: cn.PatternCount(ACROSS, method="response", epsilon=2.0))
fits("three parties", lambda: cn.PatternCount([*ACROSS, "insurer.product"], method="response", epsilon=4.0))
fits("sampled", lambda: cn.PatternCount(ACROSS, method=cn.methods.Response(sample=0.5), epsilon=2.0))
fits("unit party", lambda: cn.PatternCount(ACROSS, method="response", epsilon=2.0, unit="party"))
fits("", lambda: cn.PatternCount(["bank.segment", "bank.default", "telco.plan"], method="independent", epsilon=2.0))
fits("one party", lambda: cn.PatternCount(["bank.segment", "bank.default"], method="secure", epsilon=2.0))
for unit in ("person", "party"):
    fits(f"pure, unit {unit}", lambda unit=unit: cn.PatternCount(ACROSS, epsilon=2.0, unit=unit))
    fits(
        f"gaussian, unit {unit}",
        lambda unit=unit: cn.PatternCount([*ACROSS, "insurer.product"], unit=unit, **GAUSSIAN),
    )
for where, open_ in SHARING.items():
    fits(f"pure, {where}", lambda: cn.PatternCount(ACROSS, epsilon=2.0), open_)
fits("five columns", lambda: cn.PatternCount(["bank.default", "clinic.kind", "shop.member"], epsilon=4.0), opened(FIVE))

# Columns one by one ---------------------------------------------------------------------------------------------------------

fits("pure", lambda: cn.Describe(["bank.age", "bank.visits", "bank.segment", "telco.bill"], epsilon=2.0))
fits("gaussian, unit party", lambda: cn.Describe(["bank.age", "telco.plan"], unit="party", **GAUSSIAN))
fits("levels", lambda: cn.Histogram("bank.segment", epsilon=1.0))
fits("edges", lambda: cn.Histogram("telco.bill", bins=[20.0, 50.0, 120.0], **GAUSSIAN))
fits("pure", lambda: cn.Quantiles("bank.balance", [0.1, 0.25, 0.5, 0.9], epsilon=2.0))
fits("gaussian", lambda: cn.Quantiles("bank.visits", [0.5], **GAUSSIAN))
# Groups and correlations ---------------------------------------------------------------------------------------------------

fits("one party", lambda: cn.GroupBy(["bank.segment"], ["bank.age"], **GAUSSIAN))
fits("two parties and a helper", lambda: cn.GroupBy(ACROSS, ["telco.bill", "bank.age"], **GAUSSIAN))
fits("pure, two parties", lambda: cn.GroupBy(["bank.segment"], ["telco.bill"], epsilon=2.0), TWO)
fits("three parties", lambda: cn.GroupBy([*ACROSS, "insurer.product"], ["telco.bill"], **GAUSSIAN))
fits("in bins", lambda: cn.GroupBy(["bank.age", "telco.plan"], bins=3, unit="party", **GAUSSIAN))
fits("", lambda: cn.Correlation(MIXED, **GAUSSIAN))

# Moments of one column ----------------------------------------------------------------------------------------------------

WHOLE = ["bank.visits", "telco.calls"]
fits("values", lambda: cn.Moment(WHOLE, 2, epsilon=1.0))
fits("values within bounds", lambda: cn.Moment(WHOLE, 3, epsilon=4.0, change="bounds", unit="party"))
fits("broken order", lambda: cn.Moment(WHOLE, 2.5, epsilon=2.0))
fits("totals", lambda: cn.Moment(WHOLE, 1, epsilon=1.0, change="bounds"))
fits("", lambda: cn.Moment(WHOLE, 2, method="sketch", change="bounds", **GAUSSIAN))

# Models from moments ------------------------------------------------------------------------------------------------------

for unit in ("person", "party"):
    fits(f"unit {unit}", lambda unit=unit: cn.PCA(2, columns=MIXED, unit=unit, **GAUSSIAN))
    fits(f"skellam, unit {unit}", lambda unit=unit: cn.PCA(2, columns=MIXED, unit=unit, method=SKELLAM, **GAUSSIAN))
    fits(f"unit {unit}", lambda unit=unit: cn.LinearRegression("telco.bill", columns=MIXED[:3], unit=unit, **GAUSSIAN))
    fits(
        f"unit {unit}",
        lambda unit=unit: cn.LogisticRegression("bank.default", method="secure", columns=MIXED, unit=unit, **GAUSSIAN),
    )
    for kind, target in ((cn.LinearRegression, "telco.bill"), (cn.LogisticRegression, "bank.default")):
        fits(
            f"unit {unit}",
            lambda kind=kind, target=target, unit=unit: kind(
                target, columns=["bank.age", "insurer.drift"], method="functional", epsilon=8.0, unit=unit
            ),
        )
fits("", lambda: cn.PCA(2, columns=NUMBERS, method="sketch", **GAUSSIAN))
fits("", lambda: cn.PCA(2, columns=MIXED, method="local", epsilon=8.0, delta=1e-6))
fits("clipped", lambda: cn.PCA(2, columns=NUMBERS, method=CLIPPED, **GAUSSIAN))
fits("", lambda: cn.LinearRegression("telco.bill", columns=NUMBERS[:2], method="sketch", **GAUSSIAN))
fits("ridge", lambda: cn.LinearRegression("telco.bill", columns=MIXED[:3], ridge=5.0, **GAUSSIAN))
fits("three classes", lambda: cn.LogisticRegression("bank.segment", method="secure", columns=NUMBERS, **GAUSSIAN))
fits(
    "bottom-up",
    lambda: cn.LogisticRegression(
        "bank.default",
        columns=["telco.bill", "insurer.drift"],
        method=cn.methods.Functional(budgets={"bank": 4.0, "telco": 6.0, "insurer": 3.0}),
    ),
)
fits(
    "five parties, collusion 2",
    lambda: cn.LinearRegression(
        "telco.bill", columns=["bank.balance", "clinic.pressure", "shop.basket"], method="functional", epsilon=8.0
    ),
    LOWERED,
)


def _moments(federation: cn.Federation, **options: Any) -> Results:
    found = federation.moments(**GAUSSIAN, **options).moments
    return {"matrix": found.matrix, "count": found.count}


for where, open_ in SHARING.items():
    STUDIES[f"moments, gaussian, {where}"] = (open_, _moments)
    STUDIES[f"moments, skellam, {where}"] = (open_, lambda federation: _moments(federation, noise="skellam"))
STUDIES["moments, signed target"] = (
    opened(),
    lambda federation: _moments(federation, signed=["bank.default", "telco.plan"]),
)
STUDIES["moments, unit party"] = (opened(), lambda federation: _moments(federation, unit="party"))


@does("moments, one release for several estimators, and a second draw")
def _shared(federation: cn.Federation) -> Results:
    release = federation.moments(MIXED, **GAUSSIAN)
    again = federation.moments(MIXED, repeat=2, **GAUSSIAN)
    return {
        "components": fitted(cn.PCA(2).fit(release)),
        "regression": fitted(cn.LinearRegression("telco.bill").fit(release)),
        "again": again.moments.matrix,
    }


# Descents -----------------------------------------------------------------------------------------------------------------

for sampling in ("poisson", "balanced"):
    for unit in ("person", "party"):
        fits(
            f"{sampling}, unit {unit}",
            lambda sampling=sampling, unit=unit: cn.LogisticRegression(
                "bank.default",
                columns=["bank.age", "telco.bill", "insurer.drift"],
                method=cn.methods.Gradient(steps=6, rate=0.25, sampling=sampling),
                unit=unit,
                **GAUSSIAN,
            ),
        )
fits(
    "adam, five parties, collusion 2",
    lambda: cn.LogisticRegression(
        "bank.default",
        columns=["telco.bill", "clinic.pressure", "shop.basket"],
        method=cn.methods.Gradient(steps=4, rate=0.5, optimiser="adam"),
        **GAUSSIAN,
    ),
    LOWERED,
)

# Newton steps -------------------------------------------------------------------------------------------------------------

for unit in ("person", "party"):
    fits(
        f"two steps, unit {unit}",
        lambda unit=unit: cn.LogisticRegression(
            "bank.default",
            columns=["bank.age", "telco.bill", "insurer.drift"],
            method=cn.methods.Newton(steps=2),
            unit=unit,
            **GAUSSIAN,
        ),
    )

# Clusters -----------------------------------------------------------------------------------------------------------------

for kind in (cn.KMeans, cn.KMedian):
    for method in ("secure", "sketch", "response", "independent"):
        fits(
            "",
            lambda kind=kind, method=method: kind(
                2, columns=NUMBERS, n_local_clusters=3, method=method, epsilon=8.0, delta=1e-6
            ),
        )
fits("pure, unit party", lambda: cn.KMeans(2, columns=NUMBERS, n_local_clusters=4, epsilon=8.0, unit="party"))
fits(
    "own number of local clusters",
    lambda: cn.KMeans(2, columns=NUMBERS[:3], n_local_clusters=4, random_state=3, **GAUSSIAN),
    TWO,
)

# Coresets -----------------------------------------------------------------------------------------------------------------

for gather in (True, False):
    where = "gathered" if gather else "in place"
    fits(
        where,
        lambda gather=gather: cn.LinearRegression(
            "telco.bill", columns=NUMBERS[:2], method=cn.methods.Coreset(gather=gather), **OPEN
        ),
    )
    fits(where, lambda gather=gather: cn.KMeans(2, columns=NUMBERS, method=cn.methods.Coreset(gather=gather), **OPEN))
for method in ("importance", "uniform"):
    fits("regression", lambda method=method: cn.Coreset(60, target="telco.bill", method=method, allow_nonprivate=True))
    fits(
        "k-means",
        lambda method=method: cn.Coreset(
            50, task="kmeans", n_clusters=2, columns=NUMBERS, method=method, allow_nonprivate=True
        ),
    )

# Evaluations and scores ---------------------------------------------------------------------------------------------------

MODELS: dict[str, Callable[[], Any]] = {
    "linear": lambda: cn.LinearRegression(
        "telco.bill", columns=["bank.age", "telco.plan", "insurer.drift"], **GAUSSIAN
    ),
    "logistic": lambda: cn.LogisticRegression("bank.default", method="secure", columns=NUMBERS, **GAUSSIAN),
    "components": lambda: cn.PCA(2, columns=NUMBERS, **GAUSSIAN),
    "clusters": lambda: cn.KMeans(2, columns=NUMBERS, n_local_clusters=3, **GAUSSIAN),
    "medians": lambda: cn.KMedian(2, columns=NUMBERS, n_local_clusters=3, **GAUSSIAN),
}
TO_BANK = cn.Policy(
    event_level=True,
    predictions={kind.__name__: ["bank"] for kind in ESTIMATORS},
)


def _evaluated(model: str, unit: str) -> Callable[[cn.Federation], Results]:
    def evaluate(federation: cn.Federation) -> Results:
        found = MODELS[model]().fit(federation).evaluate(federation, unit=unit, epsilon=4.0, delta=1e-6)
        return {"metrics": found.table(), "tables": dict(found.tables)}

    return evaluate


for model in MODELS:
    for unit in ("person", "party"):
        STUDIES[f"evaluation, {model}, unit {unit}"] = (opened(), _evaluated(model, unit))


def _scored(model: str) -> Callable[[cn.Federation], Results]:
    def score(federation: cn.Federation) -> Results:
        found = MODELS[model]().fit(federation)
        read = found.transform if model == "components" else found.predict
        return {"scores": read(federation, to="bank").read()}

    return score


for model in MODELS:
    STUDIES[f"scores opened to a party, {model}"] = (opened(policies=dict.fromkeys(THREE, TO_BANK)), _scored(model))

# Parts and orders of the people: reports are one a person, in order, so they show the order -------------------------------


def _reported(federation: cn.Federation) -> Results:
    study = cn.PatternCount(ACROSS, method="response", epsilon=4.0).fit(federation)
    return {"people": federation.people, **fitted(study)}


@does("split, then a study of either part")
def _divided(federation: cn.Federation) -> Results:
    train, test = federation.split(test=0.3)
    inner, _ = train.split(test=0.5, repeat=2)
    return {name: _reported(part) for name, part in (("train", train), ("test", test), ("inner", inner))}


@does("split, fitted on one part and evaluated on the other")
def _held_out(federation: cn.Federation) -> Results:
    train, test = federation.split(test=0.4)
    model = MODELS["linear"]().fit(train)
    return {"model": fitted(model), "metrics": model.evaluate(test, **GAUSSIAN).table()}


def _aligned(**options: Any) -> Callable[[cn.Federation], Results]:
    return lambda federation: _reported(federation.align(**options))


UNALIGNED = opened(aligned=False)
STUDIES["aligned by intersection, declared"] = (opened(), _aligned())
STUDIES["aligned by intersection, public size"] = (UNALIGNED, _aligned(size="public"))
STUDIES["aligned by intersection, noisy size"] = (UNALIGNED, _aligned(epsilon=1.0))
STUDIES["aligned by intersection, hidden size"] = (UNALIGNED, _aligned(size="hidden"))
STUDIES["aligned by intersection, two parties"] = (
    opened(("telco", "bank"), aligned=False),
    _aligned(size="public"),
)
STUDIES["aligned to a cohort"] = (UNALIGNED, _aligned(mode="cohort", ids=[5 + 11 * k for k in range(0, 2 * PEOPLE, 3)]))
STUDIES["coreset on an aligned order"] = (
    UNALIGNED,
    lambda federation: fitted(
        cn.Coreset(40, target="telco.bill", method="uniform", allow_nonprivate=True).fit(
            federation.align(size="public")
        )
    ),
)


def _united(federation: cn.Federation, size: str) -> Results:
    federation.align("union", size=size)
    counts = cn.PatternCount(ACROSS, epsilon=4.0).fit(federation)
    return {"people": federation.people, "counts": fitted(counts), **_moments(federation)}


for size in ("hidden", "public"):
    STUDIES[f"aligned by union, {size} size"] = (
        opened(("bank", "telco"), aligned=False),
        lambda federation, size=size: _united(federation, size),
    )
