"""How fast exact noise is drawn, and how that compares with OpenDP's discrete Gaussian, in one run.

    python benchmarks/samplers/run.py [--quick]

Both add discrete Gaussian noise of the same scale to the same vector of integers. OpenDP takes and returns a list; ours
is timed with a list in and a list out as well as on an array. Processor time of one thread, the best of a few runs.
"""

import argparse
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from colonnade.privacy.randomness import SystemRandomness
from colonnade.privacy.samplers import discrete_gaussian, discrete_laplace, polya_share, skellam

BAR = 10.0
"""What the ratio to OpenDP has to reach at least."""

SIGMAS = (1_000, 2**26)
OURS: dict[str, Callable[[int, SystemRandomness], np.ndarray]] = {
    "discrete Gaussian, σ = 1": lambda size, source: discrete_gaussian(Fraction(1), size, source),
    "discrete Gaussian, σ = 1,000": lambda size, source: discrete_gaussian(Fraction(10**6), size, source),
    "discrete Gaussian, σ = 2^50": lambda size, source: discrete_gaussian(Fraction(2**100), size, source),
    "discrete Laplace, scale 1": lambda size, source: discrete_laplace(Fraction(1), size, source),
    "discrete Laplace, scale 1,000": lambda size, source: discrete_laplace(Fraction(1000), size, source),
    "discrete Laplace, scale 2^50": lambda size, source: discrete_laplace(Fraction(2**50), size, source),
    "Pólya share, scale 20, 3 parts": lambda size, source: polya_share(Fraction(20), 3, size, source),
    "Pólya share, scale 2^40, 3 parts": lambda size, source: polya_share(Fraction(2**40), 3, size, source),
    "Skellam, mean 100": lambda size, source: skellam(Fraction(100), size, source),
    "Skellam, mean 2^52": lambda size, source: skellam(Fraction(2**52), size, source),
}


def best_time(call: Callable[[], object], repetitions: int) -> float:
    """The least processor time of some repetitions, after one that does not count."""
    call()
    times = []
    for _ in range(repetitions):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return min(times)


def opendp_time(vector: list[int], sigma: int) -> float:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    mechanism = dp.m.make_gaussian(*space, float(sigma))
    mechanism(vector[:1000])
    begin = time.process_time()
    mechanism(vector)
    return time.process_time() - begin


def beside_opendp(size: int, sigma: int) -> dict[str, float]:
    """Both mechanisms on one vector, one after the other."""
    vector = np.arange(size, dtype=np.int64)
    as_list, variance, source = vector.tolist(), Fraction(sigma) ** 2, SystemRandomness()

    def perturbed(values: np.ndarray) -> np.ndarray:
        return values + discrete_gaussian(variance, size, source)

    array = best_time(lambda: perturbed(vector), 5)
    in_lists = best_time(lambda: perturbed(np.array(as_list)).tolist(), 5)
    theirs = opendp_time(as_list, sigma)
    return {
        "sigma": float(sigma),
        "size": float(size),
        "seconds_opendp": theirs,
        "seconds_ours": array,
        "seconds_ours_lists": in_lists,
        "ratio": theirs / array,
        "ratio_lists": theirs / in_lists,
    }


def run(quick: bool = False) -> dict:
    """Measure; the result says whether the bar is met, by the less favourable ratio."""
    size, source = (100_000 if quick else 1_000_000), SystemRandomness()
    rates = {name: size / best_time(lambda sample=sample: sample(size, source), 5) for name, sample in OURS.items()}
    compared = [beside_opendp(size, sigma) for sigma in SIGMAS]
    ratio = min(row["ratio_lists"] for row in compared)
    return {"draws_per_second": rates, "beside_opendp": compared, "ratio": ratio, "bar": BAR, "met": ratio >= BAR}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    result = run(parser.parse_args().quick)
    print(f"{'draws':<36}{'million a second':>18}")
    for name, rate in result["draws_per_second"].items():
        print(f"{name:<36}{rate / 1e6:>18.1f}")
    print(f"\n{'discrete Gaussian on integers':<36}{'OpenDP':>10}{'ours':>10}{'ratio':>8}{'lists':>10}{'ratio':>8}")
    for row in result["beside_opendp"]:
        name = f"σ = {row['sigma']:,.0f}, {row['size']:,.0f} entries"
        print(
            f"{name:<36}{row['seconds_opendp']:>8.2f} s{row['seconds_ours']:>8.4f} s{row['ratio']:>8.0f}"
            f"{row['seconds_ours_lists']:>8.4f} s{row['ratio_lists']:>8.0f}"
        )
    print(
        f"\nAt least {result['ratio']:.0f} times OpenDP; the bar is {BAR:.0f}: {'met' if result['met'] else 'NOT met'}."
    )


if __name__ == "__main__":
    main()
