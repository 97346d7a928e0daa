"""How fast exact noise is drawn, and how that compares with OpenDP's discrete Gaussian, in the same run.

Both add discrete Gaussian noise of the same scale to the same vector of a million integers. OpenDP takes and returns a list; ours
is timed with a list in and a list out (*lists*) as well as on an array. Processor seconds of one thread; each run of ours is the
best of three.
"""

import time
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
from benchmarks.frame import Benchmark, Claim, Part, Row, Table, Unavailable, faster

from colonnade.privacy.randomness import SystemRandomness
from colonnade.privacy.samplers import discrete_gaussian, discrete_laplace, polya_share, skellam

BAR, SIZE = 10.0, 1_000_000
SOURCE = SystemRandomness()
OURS: dict[str, Callable[[int], np.ndarray]] = {
    "discrete Gaussian, σ = 1": lambda size: discrete_gaussian(Fraction(1), size, SOURCE),
    "discrete Gaussian, σ = 1,000": lambda size: discrete_gaussian(Fraction(10**6), size, SOURCE),
    "discrete Gaussian, σ = 2^50": lambda size: discrete_gaussian(Fraction(2**100), size, SOURCE),
    "discrete Laplace, scale 1": lambda size: discrete_laplace(Fraction(1), size, SOURCE),
    "discrete Laplace, scale 1,000": lambda size: discrete_laplace(Fraction(1000), size, SOURCE),
    "discrete Laplace, scale 2^50": lambda size: discrete_laplace(Fraction(2**50), size, SOURCE),
    "Pólya share, scale 20, 3 parts": lambda size: polya_share(Fraction(20), 3, size, SOURCE),
    "Pólya share, scale 2^40, 3 parts": lambda size: polya_share(Fraction(2**40), 3, size, SOURCE),
    "Skellam, mean 100": lambda size: skellam(Fraction(100), size, SOURCE),
    "Skellam, mean 2^52": lambda size: skellam(Fraction(2**52), size, SOURCE),
}


def best_time(call: Callable[[], object], repetitions: int = 3) -> float:
    """Return the least processor time of some repetitions, after one that does not count."""
    call()
    times = []
    for _ in range(repetitions):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return min(times)


def rates(_run: int, law: str) -> Iterator[Row]:
    yield Row({"law": law}, {"million per second": SIZE / best_time(lambda: OURS[law](SIZE)) / 1e6})


def beside_opendp(_run: int, sigma: int) -> Iterator[Row]:
    """Both mechanisms on one vector, one after the other."""
    try:
        import opendp.prelude as dp
    except ModuleNotFoundError as missing:
        raise Unavailable("OpenDP is not installed: pip install colonnade[bench]") from missing
    vector = np.arange(SIZE, dtype=np.int64)
    as_list, variance = vector.tolist(), Fraction(sigma) ** 2

    def perturbed(values: np.ndarray) -> np.ndarray:
        return values + discrete_gaussian(variance, SIZE, SOURCE)

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    mechanism = dp.m.make_gaussian(*space, float(sigma))
    yield Row({"sigma": sigma, "who": "ours"}, {"seconds": best_time(lambda: perturbed(vector))})
    lists = best_time(lambda: perturbed(np.array(as_list)).tolist())
    yield Row({"sigma": sigma, "who": "ours, lists"}, {"seconds": lists})
    begin = time.process_time()
    mechanism(as_list)
    yield Row({"sigma": sigma, "who": "OpenDP"}, {"seconds": time.process_time() - begin})


SIGMAS = (1_000, 2**26)
BENCHMARK = Benchmark(
    name="samplers",
    title="Exact noise, beside OpenDP",
    about=__doc__ or "",
    packages=("numpy", "numba", "opendp"),
    parts=[
        Part("rates", rates, [{"law": law} for law in OURS], 5, 1.0, machine=frozenset({"million per second"})),
        Part("OpenDP", beside_opendp, [{"sigma": one} for one in SIGMAS], 5, 2.0, machine=frozenset({"seconds"})),
    ],
    shown=[
        "## Draws per second",
        Table("rates", {"million per second": "million per second"}, {"law": "law"}, digits=3),
        "## Discrete Gaussian on integers",
        Table(
            "OpenDP", {"seconds": "seconds"}, {"sigma": "σ"}, across="who", digits=3, higher=False, costs=True,
            words="A million integers; processor seconds.", roles={"ours, lists": "ours", "OpenDP": "peer"},
        ),
    ],
    claims=[
        Claim(
            f"{BAR:g} times as fast as OpenDP, lists in and out",
            f"at least {BAR:g} ×",
            lambda found: [
                faster(*(found.sample("OpenDP", "seconds", sigma=s, who=w) for w in ("ours, lists", "OpenDP")), BAR)
                for s in SIGMAS
            ],
            "our bar",
        )
    ],
)  # fmt: skip
