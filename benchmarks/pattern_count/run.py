"""Pattern counting: our ``response`` against the paper's Algorithm 1 as written, and against bare numpy for speed.

The paper is [Primitives](../../docs/references.md#primitives). It reports no experiments.

*Accuracy.* K = 5 categories at each of two parties, ε = 0.5 per party, correlated columns, 100,000 people: the ℓ1 error of
the table over the number of people. The paper's algorithm (``published.toml``) runs on the same data with numpy's generator:
unary encoding with ½ ± ε/16, products of unbiased terms, ``max(0, ·)``. It has a real ε of half of what it charges. Ours runs
through gate, codec and ledger. OpenDP's discrete Laplace noise on the pooled table (a curator, ε = 1 per person, which is as
much) is beside them.

*Speed.* The same study on a million people and three parties, from ``fit`` to counts, beside a vectorised numpy/PCG64 draw of
the same reports and nothing else: no gate, no codec, no ledger, no decoding, no estimate. The first fit of a federation also
reads and encodes its columns, which numpy is given; the bar is on both.

*Rates.* Exponents of the error in the number of people, in ε and in the sampling rate, from measured squared errors.
"""

import math
import time
import tomllib
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.frame import Benchmark, Claim, Part, Results, Row, Table, Unavailable, exponent, faster, within
from benchmarks.frame.claims import Test

import colonnade as cn
from colonnade.estimation.tables import project_to_simplex
from colonnade.privacy.accounting import Price
from colonnade.privacy.laws.response import Channel, best_channel

PUBLISHED = tomllib.loads((Path(__file__).parent / "published.toml").read_text())
SEED = 20_240_601
CATEGORIES, EPSILON, PEOPLE = 5, 0.5, 100_000
ACCURACY_BAR, SPEED_BAR, MARGIN = 0.3, 10.0, 0.1


@cache
def correlated(people: int, parties: int, seed: int = SEED) -> list[np.ndarray]:
    """Codes at each party: a skewed first column, and others that copy it for three people in five."""
    rng = np.random.default_rng(seed)
    weights = 0.6 ** np.arange(CATEGORIES)
    draw = lambda: rng.choice(CATEGORIES, size=people, p=weights / weights.sum())  # noqa: E731
    first = draw()
    return [first] + [np.where(rng.random(people) < 0.6, first, draw()) for _ in range(parties - 1)]


def a_federation(codes: list[np.ndarray], budget: float) -> cn.Federation:
    """Put each column behind a party of its own, its rows in an order of its own."""
    schema = cn.Schema(kind=cn.Category(list(range(CATEGORIES))))
    rng = np.random.default_rng(SEED)
    parties = {}
    for number, column in enumerate(codes):
        order = rng.permutation(len(column))
        frame = pd.DataFrame({"id": order, "kind": column[order]})
        parties[f"party{number + 1}"] = cn.Party(frame, schema=schema)
    return cn.Federation.simulate(parties, id="id", budget=cn.Budget(epsilon=budget))


def study(parties: int, *, sample: float = 1.0, epsilon: float = EPSILON) -> cn.PatternCount:
    columns = [f"party{number + 1}.kind" for number in range(parties)]
    return cn.PatternCount(columns, method=cn.methods.Response(sample=sample), unit="party", epsilon=epsilon)


def true_counts(codes: list[np.ndarray]) -> np.ndarray:
    shape = (CATEGORIES,) * len(codes)
    return np.bincount(np.ravel_multi_index(codes, shape), minlength=math.prod(shape)).astype(float)


# The peers ------------------------------------------------------------------------------------------------------------------


def paper_estimate(codes: list[np.ndarray], divisor: int, rng: np.random.Generator) -> np.ndarray:
    """Algorithm 1 before its ``max(0, ·)``: one random bit a person, party and category; unbiased products, summed."""
    bias = EPSILON / divisor
    terms = []
    for column in codes:
        ones = np.arange(CATEGORIES) == column[:, None]
        bits = rng.random(ones.shape) < np.where(ones, 0.5 + bias, 0.5 - bias)
        terms.append((bits - 0.5 + bias) / (2 * bias))
    return (terms[0].T @ terms[1]).ravel()


def bare_reports(codes: list[np.ndarray], channel: Channel, rng: np.random.Generator) -> list[np.ndarray]:
    """The same reports from a floating-point uniform a person: a set with the truth in it or one without, by a table."""
    K, k = channel.categories, channel.size
    inside, outside = math.comb(K - 1, k - 1), math.comb(K - 1, k)
    numbers = [sum(1 << member for member in chosen) for chosen in combinations(range(K), k)]
    sets = np.array([sorted(numbers, key=lambda number: not number >> code & 1) for code in range(K)], dtype=np.uint8)
    reports = []
    for column in codes:
        uniform = rng.random(len(column))
        within, beyond = uniform * (inside / channel.p), inside + (uniform - channel.p) * (outside / (1 - channel.p))
        reports.append(sets[column, np.where(uniform < channel.p, within, beyond).astype(np.int64)])
    return reports


# What is measured -----------------------------------------------------------------------------------------------------------


@cache
def opened(people: int, parties: int) -> cn.Federation:
    return a_federation(correlated(people, parties), 9_000.0)


def accuracy(run: int) -> Iterator[Row]:
    codes = correlated(PEOPLE, 2)
    truth = true_counts(codes)
    paper = paper_estimate(codes, PUBLISHED["algorithm"]["divisor"], np.random.default_rng([SEED, run]))
    ours = study(2).fit(opened(PEOPLE, 2), repeat=run)
    found = {
        "Algorithm 1 as written": np.maximum(paper, 0),
        "Algorithm 1, projected instead of clipped": project_to_simplex(paper, PEOPLE),
        "response, clipped instead of fitted": np.maximum(ours.unbiased_.to_numpy(), 0),
        "response": ours.counts_.to_numpy(),
        "OpenDP, one curator": _opendp(truth, 2 * EPSILON),
    }
    for method, counts in found.items():
        values = {"error": float(np.abs(counts - truth).sum() / PEOPLE), "total": float(counts.sum() / PEOPLE)}
        yield Row({"what": "ℓ1 error over people", "method": method}, values)


def _opendp(truth: np.ndarray, epsilon: float) -> np.ndarray:
    try:
        import opendp.prelude as dp
    except ModuleNotFoundError as missing:
        raise Unavailable("OpenDP is not installed: pip install colonnade[bench]") from missing
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    return np.array(dp.m.make_laplace(*space, 1 / epsilon)([round(one) for one in truth]))


def speed(run: int, people: int) -> Iterator[Row]:
    """One federation: the first fit, a second one, and numpy's draw after each."""
    codes, rng = correlated(people, 3), np.random.default_rng([SEED, run])
    channel = best_channel(CATEGORIES, Price.of(EPSILON))
    with a_federation([column[:1000] for column in codes], EPSILON) as small:
        study(3).fit(small)  # compiled code is loaded here, not in a timed run
    with a_federation(codes, 2 * EPSILON) as federation:
        for draw, name in ((1, "first fit"), (2, "fit")):
            elapsed, processor = timed(partial(study(3).fit, federation, repeat=draw))
            yield Row({"what": name}, {"elapsed": elapsed, "processor": processor})
        sent = study(3).fit(federation).transcript_.bytes / (3 * people)
    elapsed, processor = timed(partial(bare_reports, codes, channel, rng))
    yield Row({"what": "bare numpy"}, {"elapsed": elapsed, "processor": processor})
    yield Row({"people": people}, {"bytes": sent})


def timed(call: Callable[[], object]) -> tuple[float, float]:
    elapsed, processor = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - elapsed, time.process_time() - processor


def rates(run: int, people: int, epsilon: float, sample: float) -> Iterator[Row]:
    """The mean squared error of the unbiased counts."""
    found = study(2, sample=sample, epsilon=epsilon).fit(opened(people, 2), repeat=run).unbiased_.to_numpy()
    error = float(np.mean((found - true_counts(correlated(people, 2))) ** 2))
    yield Row({"people": people, "epsilon": epsilon, "sample": sample}, {"squared error": error})


# Claims -----------------------------------------------------------------------------------------------------------------------

LARGE = 4 * PEOPLE
BASE = {"people": LARGE, "epsilon": EPSILON, "sample": 1.0}
CASES = [BASE, {**BASE, "people": LARGE // 16}, {**BASE, "epsilon": EPSILON / 4}, {**BASE, "sample": 1 / 16}]


def rate(words: str, other: dict[str, float], factor: float, published: float, power: float) -> Claim:
    def tests(found: Results) -> Iterator[Test]:
        less, more = (found.sample("rates", "squared error", **case) for case in (other, BASE))
        yield exponent(less, more, factor, published - MARGIN, published + MARGIN, power)

    return Claim(words, f"x = {published:g}; margin {MARGIN:g}", tests, "Theorems B.1 and B.2; our margin")


def against_numpy(what: str) -> Claim:
    words = f"{what}: at most {SPEED_BAR:g} times numpy's draw of the reports, by the clock"
    return Claim(
        words,
        f"at most {SPEED_BAR:g} ×",
        lambda found: [
            within(*(found.sample("speed", "elapsed", what=one) for one in (what, "bare numpy")), SPEED_BAR)
        ],
        "our bar",
    )


CLAIMS = [
    Claim(
        "error of `response` over that of Algorithm 1 as written",
        f"at most {ACCURACY_BAR:g}, so smaller by",
        lambda found: [
            faster(
                found.sample("accuracy", "error", method="response"),
                found.sample("accuracy", "error", method="Algorithm 1 as written"),
                1 / ACCURACY_BAR,
            )
        ],
        "our bar",
    ),
    against_numpy("fit"),
    against_numpy("first fit"),
    rate("error ∝ people^x", CASES[1], 16.0, PUBLISHED["error"]["exponent_of_people"], 2.0),
    rate("error ∝ ε^x per party", CASES[2], 4.0, PUBLISHED["error"]["exponent_of_epsilon_a_party"], 4.0),
    rate("error ∝ rate^x of sampling", CASES[3], 16.0, PUBLISHED["sampling"]["exponent_of_rate"], 2.0),
]
BENCHMARK = Benchmark(
    name="pattern_count",
    title="Pattern counting ([Primitives](../../docs/references.md#primitives), Algorithm 1, Theorems B.1 and B.2)",
    about=__doc__ or "",
    packages=("numpy", "numba", "opendp"),
    parts=[
        Part("accuracy", accuracy, [{}], 20, 0.5),
        Part("speed", speed, [{"people": 1_000_000}], 5, 1.0, machine=frozenset({"elapsed", "processor"})),
        Part("rates", rates, CASES, 40, 1.0),
    ],
    shown=[
        "## Accuracy",
        Table(
            "accuracy",
            {"error": "error"},
            {"what": "what"},
            across="method",
            roles={"response": "ours", "Algorithm 1 as written": "peer", "OpenDP, one curator": "central"},
            higher=False,
        ),
        Table("accuracy", {"total": "counts add up to, of the people"}, {"method": "method"}),
        "## Speed",
        Table(
            "speed",
            {"elapsed": "seconds by the clock", "processor": "processor seconds"},
            {"what": "what"},
            filled="elapsed",
            digits=3,
            costs=True,
        ),
        Table("speed", {"bytes": "bytes per person and party, both ways"}, {"people": "people"}, filled="bytes"),
        "## Rates",
        Table(
            "rates",
            {"squared error": "squared error"},
            {"people": "people", "epsilon": "ε per party", "sample": "sampled"},
        ),
    ],
    claims=CLAIMS,
)
