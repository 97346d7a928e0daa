"""What previews foretell, held against what then happens, on public data.

Every set is a federation of three parties (`preview_sets.py`), and every study runs on the real channel of a simulation, once
per run. What is foretold and what is measured is defined in `docs/explanation/previews.md` (`preview_measures.py`): the
measured error is the root of the mean square over runs. A preview holds if the measured error lies in its range, which is at
most a factor of four wide, or within a factor of two of its value. It may also say that it does not know. The bar: it holds
in 90 % of all cases, and it does not know in at most 15 %. Studies of one set are not independent, so that the interval of
the share is a rough one.

The assumptions of previews are constants. They were settled with twelve public sets in view: the six of the first table, four
others, and two that are not recorded. The sets of the last table were run afterwards. Nothing may be changed to suit them.
Logistic regressions here are those of ``"secure"``, not of the default ``"newton"``.
"""

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from benchmarks.frame import Benchmark, Claim, Part, Results, Row, Sample, Table, share
from benchmarks.frame.claims import Test
from benchmarks.previews import preview_measures as measures
from benchmarks.previews.preview_sets import SETS, UNSEEN, Divided

import colonnade as cn
from colonnade.estimators.second_moments import MomentStudy

EPSILONS = (0.25, 1.0, 4.0)
DELTA = 1e-6
BAR, MOST_UNKNOWN = 0.9, 0.15

Measure = Callable[[Any, Any, Divided], float]


@cache
def opened(name: str) -> tuple[Divided, cn.Federation]:
    data = {**SETS, **UNSEEN}[name]()
    return data, data.federation()


EXACT: dict[tuple[str, str], Any] = {}
"""Results without noise, by set and study."""


def studies(data: Divided, epsilon: float, *, every: bool) -> Iterator[tuple[Any, Measure]]:
    """Yield the studies of a set at one ε, and how their errors are measured; without ``every`` one method of each."""
    price = {"epsilon": epsilon, "delta": DELTA}
    categories = measures.levels_of(data)
    if len(categories) > 1:
        for columns in {tuple(categories[:2]), tuple(categories[:3])} if every else {tuple(categories[:2])}:
            for method in ("secure", "response", "independent") if every else ("secure",):
                yield cn.PatternCount(list(columns), method=method, epsilon=epsilon), measures.counts
    if every and (whole := _whole_columns(data)):
        yield cn.Moment(whole, 2, change="bounds", epsilon=epsilon), measures.value
        yield cn.Moment(whole, 2, method="sketch", change="bounds", **price), measures.value
    for method in ("secure", "sketch", "local") if every else ("secure",):
        yield cn.PCA(3, method=method, **price), measures.components
    numeric = data.target in data.columns(cn.Numeric)
    kind = cn.LinearRegression if numeric else cn.LogisticRegression
    for method in (
        (("secure", "functional", "sketch") if numeric else ("secure", "functional")) if every else ("secure",)
    ):
        yield kind(data.target, method=method, **price), measures.predictions
    for method in ("secure", "sketch", "response", "independent") if every else ("secure",):
        yield cn.KMeans(4, method=method, **price), measures.weights  # KMedian has the same releases


def _whole_columns(data: Divided) -> list[str]:
    """Return one column of whole numbers, not negative, from each party that has one; none if fewer than two do."""
    chosen: dict[str, str] = {}
    for name in data.columns(cn.Numeric):
        party, _, column = name.partition(".")
        if data.schemas[party][column].integer and data.schemas[party][column].low >= 0:
            chosen.setdefault(party, name)
    return list(chosen.values()) if len(chosen) > 1 else []


def held(low: float, high: float, value: float, found: float) -> bool:
    """Return whether a measured error lies in the foretold range, or within a factor of two of the foretold value."""
    return low <= found <= high or value / 2 <= found <= 2 * value


def compare(run: int, set: str, epsilon: float, every: bool) -> Iterator[Row]:  # noqa: A002  # the page's label
    """One draw of every study of a set at one ε."""
    data, federation = opened(set)
    for study, measure in studies(data, epsilon, every=every):
        error = study.preview(federation).errors[0]
        columns = study.get_params().get("columns")
        key = set, f"{type(study).__name__}, {study.method}, {columns}"
        if key not in EXACT:
            EXACT[key] = _without_noise(study, data)
        squared = measure(study.fit(federation, repeat=run), EXACT[key], data)
        labels = {"set": data.name, "estimator": type(study).__name__, "method": study.method, "epsilon": epsilon}
        if isinstance(study, cn.PatternCount):
            labels["estimator"] += f" of {len(columns)}"
        values = {"squared error": squared}
        if error.value is not None:
            low, high = error.interval
            values |= {"foretold": error.value, "low": low, "high": high}
        yield Row(labels, values)


def _without_noise(study: Any, data: Divided) -> Any:
    if isinstance(study, MomentStudy):
        return measures.exact_model(study, data)
    return measures.quiet_study(study, data) if isinstance(study, cn.PatternCount) else None


# Report -----


def _root(sample: Sample) -> str:
    return f"{math.sqrt(sample.mean):.3g}"


def holds(samples: dict[str, Sample]) -> bool | None:
    """Return whether a preview held; ``None`` if it did not know."""
    if "foretold" not in samples:
        return None
    low, high, value = (samples[name].mean for name in ("low", "high", "foretold"))
    return held(low, high, value, math.sqrt(samples["squared error"].mean))


def claims(part: str) -> Iterator[Claim]:
    def verdicts(found: Results) -> list[bool | None]:
        return [holds(samples) for _, samples in found.rows(part)]

    def held_(found: Results) -> Iterator[Test]:
        known = [one for one in verdicts(found) if one is not None]
        if known:
            yield share(sum(known), len(known), BAR, 1.0)

    def unknown(found: Results) -> Iterator[Test]:
        if each := verdicts(found):
            yield share(sum(one is None for one in each), len(each), 0.0, MOST_UNKNOWN)

    yield Claim(f"{part}: previews hold", f"at least {BAR:.0%} of those that say something", held_, "the issue")
    yield Claim(f"{part}: previews that do not know", f"at most {MOST_UNKNOWN:.0%}", unknown, "the issue")


def table(part: str) -> Table:
    values = {"low": "foretold, from", "foretold": "foretold", "high": "to", "squared error": "measured"}
    rows = {"set": "set", "estimator": "estimator", "method": "method", "epsilon": "ε"}
    formats = {"squared error": _root}
    return Table(part, values, rows, digits=3, formats=formats)


def cases(sets: dict[str, Any], epsilons: tuple[float, ...], *, every: bool = False) -> list[dict[str, Any]]:
    return [{"set": name, "epsilon": epsilon, "every": every} for name in sets for epsilon in epsilons]


BENCHMARK = Benchmark(
    name="previews",
    title="Previews against what happens",
    about=__doc__ or "",
    parts=[
        Part("default methods", compare, cases(SETS, EPSILONS), 6, 6.0),
        Part("every method", compare, cases(SETS, (1.0,), every=True), 3, 5.0),
        Part("unseen sets", compare, cases(UNSEEN, EPSILONS), 6, 5.0),
    ],
    shown=[
        "## Default methods",
        table("default methods"),
        "## Every method",
        table("every method"),
        "## Sets that were run afterwards",
        table("unseen sets"),
    ],
    claims=[claim for part in ("default methods", "every method", "unseen sets") for claim in claims(part)],
)
