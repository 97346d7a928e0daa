"""Pattern counting: our ``response`` against the paper's Algorithm 1 as written, and against bare numpy for speed.

The paper is Primitives (docs/references.md#primitives).

    python benchmarks/pattern_count/run.py [--quick]

*Accuracy.* K = 5 categories at each of two parties, ε = 0.5 a party, correlated columns: the ℓ1 error of the table over the
number of people. The paper's algorithm (``published.toml``) runs on the same data with numpy's generator: unary encoding with
½ ± ε/16, products of unbiased terms, ``max(0, ·)``. Ours runs through gate, codec and ledger.

*Speed.* The same study on a million people and three parties, from ``fit`` to counts, beside a vectorised numpy/PCG64 draw of
the same reports and nothing else: no gate, no codec, no ledger, no decoding, no estimate. The first fit of a federation also
reads and encodes its columns, which numpy is given; the bar is on both. Best of several, taken in turns.

*Rates.* Exponents of the error in the number of people, in ε and in the sampling rate, fitted to measured errors.
"""

import argparse
import json
import math
import platform
import subprocess
import time
import tomllib
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

import colonnade as cn
from colonnade.estimation.counts import project_to_simplex
from colonnade.privacy.accounting import Price
from colonnade.privacy.laws.response import Channel, best_channel

HERE = Path(__file__).parent
SEED = 20_240_601
CATEGORIES, EPSILON, PEOPLE, RUNS = 5, 0.5, 100_000, 20
ACCURACY_BAR, SPEED_BAR = 0.3, 10.0


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


def accuracy(people: int, runs: int, divisor: int) -> dict:
    codes = correlated(people, 2)
    truth = true_counts(codes)
    error = lambda counts: float(np.abs(counts - truth).sum() / people)  # noqa: E731
    rng = np.random.default_rng(SEED + 1)
    paper = [paper_estimate(codes, divisor, rng) for _ in range(runs)]
    with a_federation(codes, runs * EPSILON) as federation:
        ours = [study(2).fit(federation, repeat=run) for run in range(1, runs + 1)]
    clipped = [error(np.maximum(estimate, 0)) for estimate in paper]
    errors = {
        "Algorithm 1 as written": clipped,
        "Algorithm 1, projected instead of clipped": [error(project_to_simplex(one, people)) for one in paper],
        "response, clipped instead of fitted": [error(np.maximum(one.unbiased_.to_numpy(), 0)) for one in ours],
        "response": [error(one.counts_.to_numpy()) for one in ours],
    }
    return {
        "people": people,
        "categories": CATEGORIES,
        "parties": 2,
        "epsilon_a_party": EPSILON,
        "runs": runs,
        "real_epsilon_of_algorithm_1": 2 * math.log((1 + 2 * EPSILON / divisor) / (1 - 2 * EPSILON / divisor)),
        "total_of_algorithm_1_over_people": float(np.mean([np.maximum(one, 0).sum() for one in paper]) / people),
        "error": {name: summary(values) for name, values in errors.items()},
        "ratio": ratio_of_means(errors["response"], clipped),
        "bar": ACCURACY_BAR,
    }


def speed(people: int, federations: int) -> dict:
    codes = correlated(people, 3)
    channel = best_channel(CATEGORIES, Price.of(EPSILON))
    rng = np.random.default_rng(SEED + 2)
    with a_federation([column[:1000] for column in codes], EPSILON) as small:
        study(3).fit(small)  # compiled code is loaded here, not in a timed run
    taken: dict[str, list[Seconds]] = {"bare numpy": [], "first fit": [], "fit": []}
    for _ in range(federations):
        with a_federation(codes, 3 * EPSILON) as federation:
            for draw in (1, 2, 3):
                fit = partial(study(3).fit, federation, repeat=draw)
                taken["first fit" if draw == 1 else "fit"].append(timed(fit))
                taken["bare numpy"].append(timed(partial(bare_reports, codes, channel, rng)))
            transcript = study(3).fit(federation).transcript_
    best = {name: Seconds(*map(min, zip(*times, strict=True))) for name, times in taken.items()}
    return {
        "people": people,
        "parties": 3,
        "categories": CATEGORIES,
        "channel": f"{channel.kind}, {channel.size} of {channel.categories}",
        "repetitions": {name: len(times) for name, times in taken.items()},
        "seconds": {name: one._asdict() for name, one in best.items()},
        "ratio": best["fit"].elapsed / best["bare numpy"].elapsed,
        "ratio_first_fit": best["first fit"].elapsed / best["bare numpy"].elapsed,
        "ratio_processor": best["fit"].processor / best["bare numpy"].processor,
        "ratio_first_fit_processor": best["first fit"].processor / best["bare numpy"].processor,
        "bytes_a_person_and_party": transcript.bytes / (3 * people),
        "bar": SPEED_BAR,
    }


class Seconds(NamedTuple):
    elapsed: float
    processor: float


def timed(call: Callable[[], object]) -> Seconds:
    elapsed, processor = time.perf_counter(), time.process_time()
    call()
    return Seconds(time.perf_counter() - elapsed, time.process_time() - processor)


def rates(people: int, runs: int) -> dict:
    def spread(codes, factor=1.0, **options) -> float:
        """The root mean squared error of the unbiased counts."""
        truth = true_counts(codes)
        with a_federation(codes, runs * EPSILON * factor) as federation:
            draws = [study(2, **options).fit(federation, repeat=run).unbiased_ for run in range(1, runs + 1)]
        return float(np.sqrt(np.mean([(draw.to_numpy() - truth) ** 2 for draw in draws])))

    codes = correlated(people, 2)
    sizes = (people // 16, people // 4, people)
    prices = (EPSILON / 4, EPSILON / 2, EPSILON)
    kept = (1 / 16, 1 / 4, 1.0)
    return {
        "runs": runs,
        "exponent_of_people": slope(sizes, [spread(correlated(size, 2)) for size in sizes]),
        "exponent_of_epsilon_a_party": slope(prices, [spread(codes, epsilon=one) for one in prices]) / 2,
        "exponent_of_rate": slope(kept, [spread(codes, sample=one) for one in kept]),
    }


def slope(places, values) -> float:
    return float(np.polyfit(np.log(places), np.log(values), 1)[0])


def summary(values: list[float]) -> dict:
    """Mean and its 95 % interval by Student's t."""
    mean, half = float(np.mean(values)), 0.0
    if len(values) > 1:
        half = float(stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return {"mean": mean, "low": mean - half, "high": mean + half}


def ratio_of_means(above: list[float], below: list[float]) -> dict:
    """The ratio and its 95 % interval by resampling both."""
    rng = np.random.default_rng(SEED + 3)
    picks = rng.integers(len(above), size=(2, 10_000, len(above)))
    ratios = np.asarray(above)[picks[0]].mean(axis=1) / np.asarray(below)[picks[1]].mean(axis=1)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return {"mean": float(np.mean(above) / np.mean(below)), "low": float(low), "high": float(high)}


# Putting it down ------------------------------------------------------------------------------------------------------------


def run(quick: bool = False) -> dict:
    """Measure everything, print it, and (unless quick) keep it in ``results/latest.json`` and ``README.md``."""
    published = tomllib.loads((HERE / "published.toml").read_text())
    begin = time.time()
    result = {
        "accuracy": accuracy(PEOPLE, 5 if quick else RUNS, published["algorithm"]["divisor"]),
        "speed": speed(1_000_000, 2 if quick else 5),
        "rates": rates(PEOPLE if quick else 4 * PEOPLE, 3 if quick else 20),
    }
    result["met"] = {
        "accuracy": result["accuracy"]["ratio"]["high"] <= ACCURACY_BAR,
        "speed": max(result["speed"]["ratio"], result["speed"]["ratio_first_fit"]) <= SPEED_BAR,
    }
    result["run"] = {**circumstances(), "seed": SEED, "quick": quick, "seconds": time.time() - begin}
    report = as_markdown(result, published)
    print(report)
    if not quick:
        (HERE / "results").mkdir(exist_ok=True)
        (HERE / "results" / "latest.json").write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
        (HERE / "README.md").write_text(report)
    return result


def circumstances() -> dict:
    git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True, text=True, check=False)
    names = [line.split(":", 1)[1].strip() for line in _cpuinfo() if line.startswith("model name")]
    return {
        "commit": git.stdout.strip() if git.returncode == 0 else None,
        "version": cn.__version__,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": f"{names[0] if names else platform.processor()}, {len(names) or '?'} cores",
        "python": platform.python_version(),
        "numpy": version("numpy"),
    }


def _cpuinfo() -> list[str]:
    file = Path("/proc/cpuinfo")
    return file.read_text().splitlines() if file.exists() else []


def as_markdown(result: dict, published: dict) -> str:
    parts = [
        "# Pattern counting ([Primitives](../../docs/references.md#primitives), Algorithm 1, Theorems B.1 and B.2)",
        "Written by `run.py` (`colonnade bench pattern-count`); do not edit. Its docstring says what is measured.",
        "## Accuracy",
        *_accuracy_section(result["accuracy"], result["met"]["accuracy"]),
        "## Speed",
        *_speed_section(result["speed"], result["met"]["speed"]),
        "## Rates",
        *_rates_section(result["rates"], published),
        "## Run",
        "\n".join(f"* {name}: {value}" for name, value in result["run"].items()),
    ]
    return "\n\n".join(parts) + "\n"


def _accuracy_section(one: dict, met: bool) -> list[str]:
    rows = [(name, f"{e['mean']:.3f}", f"{e['low']:.3f} – {e['high']:.3f}") for name, e in one["error"].items()]
    setting = f"K = {CATEGORIES}, two parties, {one['people']:,} people, ε = {EPSILON} a party, correlated columns"
    ratio = f"{one['ratio']['mean']:.3f} ({one['ratio']['low']:.3f} – {one['ratio']['high']:.3f})"
    real, total = one["real_epsilon_of_algorithm_1"], one["total_of_algorithm_1_over_people"]
    return [
        f"{setting}, {one['runs']} runs: ‖error‖₁ over people, mean with 95 % interval.",
        _table(("method", "error", "interval"), rows),
        f"`response` over Algorithm 1 as written: **{ratio}**; the bar is {ACCURACY_BAR}: {_verdict(met)}.",
        f"Algorithm 1 has a real ε of {real:.5f} where it charges {EPSILON}; its counts add up to {total:.2f} m.",
    ]


def _speed_section(one: dict, met: bool) -> list[str]:
    def row(words: str, name: str, suffix: str | None) -> tuple[str, ...]:
        ratios = ("1", "1") if suffix is None else (f"**{one[suffix]:.2f}**", f"{one[f'{suffix}_processor']:.2f}")
        seconds = one["seconds"][name]
        return words, f"{seconds['elapsed']:.3f}", ratios[0], f"{seconds['processor']:.3f}", ratios[1]

    rows = [
        row("numpy/PCG64, drawing the reports only", "bare numpy", None),
        row("`fit`, columns at hand", "fit", "ratio"),
        row("`fit`, the first of a federation: reads and encodes the columns", "first fit", "ratio_first_fit"),
    ]
    counts = ", ".join(f"{name} {count}" for name, count in one["repetitions"].items())
    return [
        f"{one['people']:,} people, three parties, channel {one['channel']}; best of ({counts}), in turns.",
        _table(("", "elapsed", "over numpy", "processor", "over numpy"), rows),
        f"The bar is {SPEED_BAR:.0f}, on elapsed time: {_verdict(met)}.",
        f"{one['bytes_a_person_and_party']:.3f} bytes a person and party travelled, both ways.",
    ]


def _rates_section(one: dict, published: dict) -> list[str]:
    claims = [
        ("error ∝ mˣ", "error", "exponent_of_people"),
        ("error ∝ εˣ a party", "error", "exponent_of_epsilon_a_party"),
        ("error ∝ rateˣ of sampling", "sampling", "exponent_of_rate"),
    ]
    rows = [
        (claim, f"{published[part][name]:g}", f"{one[name]:.3f}", _agrees(one[name], published[part][name]))
        for claim, part, name in claims
    ]
    return [_table(("claim", "published", "ours", "agrees?"), rows), "The paper reports no experiments."]


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))


def _agrees(ours: float, theirs: float) -> str:
    return "yes" if abs(ours - theirs) < 0.1 else "no"


def _verdict(met: bool) -> str:
    return "met" if met else "**NOT met**"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer runs; keeps nothing")
    run(parser.parse_args().quick)


if __name__ == "__main__":
    main()
