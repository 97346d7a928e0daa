"""Moments and sketches: our one-round primitives beside the paper's theorems and its Algorithm 2 as written.

The paper is [Primitives](../../docs/references.md#primitives). It reports no experiments, so that what is compared is its
algorithm and the rates of its theorems.

*Moments.* Two parties, 100,000 people, Poisson visits of mean 2 (at most 20), ε = 0.5 per party at event level: the standard
deviation of the estimate over runs, relative to the true moment. Algorithm 2 runs on the same data, as written: 2.4 million
patterns.

*Sketches.* Four columns at two parties: the error of the centred Gram matrix, of regression coefficients and of the variance
captured by two components, root mean square over runs, over what [theory](../../docs/proofs/projections.md) predicts for the
noise and the size used.

*Lines.* Errors against the number of people for counts, second moments and Gram entries: each party perturbing alone, the √m
that no local method can beat, and the secure channel at the same price (ε = 1 per person, δ = 10⁻⁶ where noise is Gaussian).

*Size.* Counts and moments of ten million people at three parties, in a process of its own, from Parquet files; columns of
eight bytes, ids among them.
"""

import math
from collections.abc import Callable, Iterator

from benchmarks.frame import Benchmark, Claim, Part, Plot, Results, Row, Sample, Table, below, exponent, near
from benchmarks.frame.claims import Test
from benchmarks.primitives import measures
from benchmarks.primitives.measures import EPSILON

ORDERS = (0.5, 1.5, 2.0, 3.0, 4.0)
BARS = {2.0: 0.01, 3.0: 0.03}
SKETCH_BAR, MEMORY_BAR, MARGIN = 0.10, 3.0, 0.1
SIZES = (2_000, 8_000, 32_000, 128_000)
RATES = (
    *({"people": people, "parties": 2, "epsilon": EPSILON} for people in (6_400, 25_600, 102_400)),
    *({"people": 25_600, "parties": 2, "epsilon": epsilon} for epsilon in (0.02, 0.1)),
    *({"people": 25_600, "parties": parties, "epsilon": EPSILON} for parties in (1, 3, 4)),
)


def rates(run: int, people: int, parties: int, epsilon: float) -> Iterator[Row]:
    return measures.moment(run, 2.0, people, parties, epsilon)


def _root(sample: Sample) -> str:
    return f"{math.sqrt(sample.mean):.3%}"


def of_people(found: Results) -> Iterator[Test]:
    pick = {"p": 2.0, "parties": 2, "epsilon": EPSILON}
    # errors relative to the moment, which itself grows with the people: one is added to their exponent
    few, many = (found.sample("rates", "squared", people=people, **pick) for people in (6_400, 102_400))
    yield exponent(few, many, 16.0, -0.5 - MARGIN, -0.5 + MARGIN)


def of_epsilon(found: Results) -> Iterator[Test]:
    pick = {"p": 2.0, "people": 25_600, "parties": 2}
    dear, cheap = (found.sample("rates", "squared", epsilon=epsilon, **pick) for epsilon in (0.02, 0.1))
    yield exponent(dear, cheap, 5.0, -2.0 - 2 * MARGIN, math.inf)


def line(primitive: str) -> Callable[[Results], Iterator[Test]]:
    def tests(found: Results) -> Iterator[Test]:
        pick = {"primitive": primitive, "who": "each party alone"}
        few, many = (found.sample("lines", "error", people=people, **pick) for people in (SIZES[0], SIZES[-1]))
        yield exponent(few, many, SIZES[-1] / SIZES[0], 0.5 - MARGIN, 0.5 + MARGIN, power=1.0)

    return tests


CLAIMS = [
    *(
        Claim(
            f"p = {p:g}: relative standard deviation (squared)",
            f"at most {bar:.0%}: {bar**2:g}",
            lambda found, p=p, bar=bar: [below(found.sample("moments", "squared", p=p), bar**2)],
            "our bar",
        )
        for p, bar in BARS.items()
    ),
    *(
        Claim(
            f"p = {p:g}: no bias (margin 1 % of the moment)",
            "unbiased",
            lambda found, p=p: [near(found.sample("moments", "estimate", p=p), 1.0, 0.01)],
            "[proof](../../docs/proofs/values-and-moments.md#unbiased-powers)",
        )
        for p in ORDERS
    ),
    Claim("relative error of the second moment ∝ people^x", f"x = −1/2; margin {MARGIN:g}", of_people, "Theorem C.2"),
    Claim(
        "error of the second moment ∝ ε^x at small ε, no worse than",
        "x = −p = −2 (theirs −(p + v) = −4)",
        of_epsilon,
        "Theorem C.2",
    ),
    *(
        Claim(f"{primitive} without peers ∝ people^x", f"x = 1/2; margin {MARGIN:g}", line(primitive), "Theorem E.1")
        for primitive in ("counts", "second moment", "Gram entry")
    ),
    Claim(
        "sketches: every root mean square error at most 10 % above what theory predicts (squared)",
        f"at most {(1 + SKETCH_BAR) ** 2:.2f}",
        lambda found: [below(samples["squared ratio"], (1 + SKETCH_BAR) ** 2) for _, samples in found.rows("sketches")],
        "our bar",
    ),
    Claim(
        "ten million people: peak memory over the columns read",
        f"at most {MEMORY_BAR:g}",
        lambda found: [below(found.sample("many people", "peak over columns read", people=10_000_000), MEMORY_BAR)],
        "our bar",
    ),
]
BENCHMARK = Benchmark(
    name="primitives",
    title="Primitives ([Primitives](../../docs/references.md#primitives): Algorithms 2 and 4, Theorems C.2, E.1, E.4, E.5)",
    about=__doc__ or "",
    packages=("numpy", "numba", "pyarrow"),
    parts=[
        Part("moments", measures.moment, [{"p": p} for p in ORDERS], 400, 1.6),
        Part("as written", measures.as_written, [{}], 2, 2.0, quick=[{"alpha": 1.5}], machine=frozenset({"seconds"})),
        Part("rates", rates, RATES, 240, 1.2),
        Part("sketches", measures.sketches, [{"epsilon": 4.0}], 240, 1.2),
        Part("lines", measures.lines, [{"people": people} for people in SIZES], 40, 1.0),
        Part(
            "many people",
            measures.many_people,
            [{"people": 10_000_000}],
            2,
            3.0,
            quick=[{"people": 200_000}],
            machine=frozenset({"seconds", "peak MB", "peak over columns read"}),
        ),
    ],
    shown=[
        "## Moments at event level",
        Table(
            "moments",
            {
                "squared": "relative sd",
                "stated": "stated by `stderr_`",
                "estimate": "mean, the truth is 1",
                "obvious": "best of the three obvious continuations",
            },
            {"p": "p"},
            formats={
                "squared": _root,
                "stated": lambda one: f"{one.mean:.3%}",
                "obvious": lambda one: f"{one.mean:.3%}",
            },
        ),
        Table(
            "as written",
            {
                "times the moment": "error, times the moment",
                "sd of a count": "sd of a count, people",
                "seconds": "seconds",
            },
            {"p": "p", "patterns": "patterns"},
            words="Algorithm 2 as written, α = 0.3.",
        ),
        "## Rates",
        Table(
            "rates",
            {"squared": "relative root mean square error"},
            {"people": "people", "parties": "parties", "epsilon": "ε per party"},
            words="The second moment.",
            formats={"squared": _root},
        ),
        "## Sketches",
        Table(
            "sketches",
            {"squared ratio": "squared error over the predicted one"},
            {"error": "error", "epsilon": "ε", "size": "rows of the sketch"},
            words=(
                "100,000 people, δ = 10⁻⁶. The paper's bound on a sketched row takes 2.36 times our noise (s = 100, m = 100,000)."
            ),
        ),
        "## Beside the secure channel",
        Plot(
            "lines",
            "lines",
            "error",
            "people",
            "who",
            "Errors against the number of people",
            "error",
            panel="primitive",
            log=True,
        ),
        Table("lines", {"error": "error"}, {"primitive": "primitive", "people": "people"}, across="who"),
        "## Many people",
        Table(
            "many people",
            {"seconds": "seconds", "peak MB": "peak MB so far"},
            {"people": "people", "step": "step"},
            filled="seconds",
        ),
        Table(
            "many people",
            {"peak over columns read": "peak memory over the columns read"},
            {"people": "people"},
            filled="peak over columns read",
        ),
    ],
    claims=CLAIMS,
)
