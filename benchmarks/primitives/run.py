"""Moments and sketches: our one-round primitives beside the paper's theorems and its Algorithm 2 as written.

The paper is Primitives (docs/references.md#primitives).

    python benchmarks/primitives/run.py [--quick]

*Moments.* Two parties, Poisson visits of mean 2 (at most 20), ε = 0.5 a party at event level: the standard deviation of the
estimate over runs, relative to the true moment. Algorithm 2 runs once on the same data, as written: 2.4 million patterns.

*Sketches.* Four columns at two parties: the error of the centred Gram matrix, of regression coefficients and of the variance
captured by two components, root mean square over runs, beside what `privacy.md` §2.4 predicts for the noise and the size used.

*Lines.* Errors against the number of people for counts, second moments and Gram entries: each party perturbing alone, the √m that
no local method can beat, and the secure channel at the same price.

*Size.* Counts and moments of ten million people at three parties, in a process of its own, from parquet files.
"""

import argparse
import json
import math
import platform
import subprocess
import sys
import time
import tomllib
from importlib.metadata import version
from pathlib import Path

import colonnade as cn

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # a benchmark is a script, also where `colonnade bench` loads it

import log_plot  # noqa: E402
import measures  # noqa: E402

SKETCH_BAR, MEMORY_BAR = 0.10, 3.0
TITLES = {
    "counts": ("Counts of 25 patterns at two parties", "error of a count"),
    "moment": ("Second moment of whole values at two parties", "standard error"),
    "gram": ("Gram matrix of four columns at two parties", "error of an entry"),
}


def run(quick: bool = False) -> dict:
    """Measure everything, print it, and (unless quick) keep it in ``results/`` and ``README.md``."""
    published = tomllib.loads((HERE / "published.toml").read_text())
    begin = time.time()
    result = {
        "moments": measures.moments(100_000, 20 if quick else 200, published, as_written=not quick),
        "rates": measures.rates(25_600 if quick else 102_400, 20 if quick else 150),
        "sketches": measures.sketches(20_000 if quick else 100_000, 20 if quick else 200, 4.0),
        "lines": measures.lines((1_000, 4_000) if quick else (2_000, 8_000, 32_000, 128_000), 3 if quick else 12),
        "many_people": measures.many_people(200_000 if quick else 10_000_000),
    }
    result["met"] = verdicts(result)
    result["run"] = {**circumstances(), "seed": measures.SEED, "quick": quick, "seconds": time.time() - begin}
    report = as_markdown(result, published)
    print(report)
    if not quick:
        keep(result, report)
    return result


def verdicts(result: dict) -> dict:
    orders, sketches = result["moments"]["orders"], result["sketches"]
    return {
        **{f"moment {p}": orders[str(p)]["relative_sd"] <= bar for p, bar in measures.BARS.items()},
        **{
            name: sketches[name]["ratio"] <= 1 + SKETCH_BAR
            for name in ("gram", "components", "plain_regression", "regression")
        },
        "memory": result["many_people"]["peak_over_columns_read"] <= MEMORY_BAR,
    }


def keep(result: dict, report: str) -> None:
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "latest.json").write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    for name, (title, up) in TITLES.items():
        local, secure = (result["lines"][channel][name] for channel in ("local", "secure"))
        bound = [(people, math.sqrt(people)) for people, _ in local]
        lines = {"each party alone": local, "secure channel": secure, "(√people": bound}
        lines["(√people)"] = lines.pop("(√people")
        log_plot.write(HERE / "results" / f"{name}.svg", title, "people", up, lines)
    (HERE / "README.md").write_text(report)


def circumstances() -> dict:
    git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True, text=True, check=False)
    file = Path("/proc/cpuinfo")
    cpu = (
        [line.split(":", 1)[1].strip() for line in file.read_text().splitlines() if line.startswith("model name")]
        if file.exists()
        else []
    )
    return {
        "commit": git.stdout.strip() if git.returncode == 0 else None,
        "version": cn.__version__,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": f"{cpu[0] if cpu else platform.processor()}, {len(cpu) or '?'} cores",
        "python": platform.python_version(),
        "numpy": version("numpy"),
    }


# The report -----------------------------------------------------------------------------------------------------------------


def as_markdown(result: dict, published: dict) -> str:
    met = result["met"]
    parts = [
        "# Primitives ([Primitives](../../docs/references.md#primitives): Algorithms 2 and 4, Theorems C.2, E.1, E.4, E.5)",
        "Written by `run.py` (`colonnade bench primitives`); do not edit. Its docstring says what is measured.",
        "## Moments at event level",
        *_moments(result["moments"], met),
        "## Rates",
        *_rates(result["rates"], result["lines"], published),
        "## Sketches",
        *_sketches(result["sketches"], met),
        "## Beside the secure channel",
        *_lines(result["lines"], quick=result["run"]["quick"]),
        "## Many people",
        *_many(result["many_people"], met["memory"]),
        "## Run",
        "\n".join(f"* {name}: {value}" for name, value in result["run"].items()),
    ]
    return "\n\n".join(parts) + "\n"


def _moments(one: dict, met: dict) -> list[str]:
    rows = []
    for p, found in one["orders"].items():
        best = min(found["obvious_continuations"].values(), default=None)
        bar = measures.BARS.get(float(p))
        rows.append(
            (
                p,
                f"**{found['relative_sd']:.2%}**",
                f"{found['predicted']:.2%}",
                f"{found['bias_in_standard_errors']:+.1f}",
                "–" if best is None else f"{best:.2%}",
                "–" if bar is None else f"{bar:.0%}: {_verdict(met[f'moment {float(p):g}'])}",
            )
        )
    head = (
        "p",
        "relative sd",
        "stated by `stderr_`",
        "mean − truth, in standard errors",
        "best of the three obvious continuations",
        "bar",
    )
    text = [
        f"m = {one['people']:,}, two parties, ε = {one['epsilon_a_party']} a party, change 1, {one['runs']} runs.",
        _table(head, rows),
    ]
    if "as_written" in one:
        paper = one["as_written"]
        errors = ", ".join(f"p = {p}: {error:,.0f} times the moment" for p, error in paper["relative_error"].items())
        text.append(
            f"Algorithm 2 as written (α = {paper['alpha']}), once: {paper['patterns']:,} patterns, standard deviation of a count "
            f"{paper['cell_sd']:,.0f} people; relative error {errors}; {paper['seconds']:.0f} s."
        )
    return text


def _rates(one: dict, lines: dict, published: dict) -> list[str]:
    of_people = published["moments"]["exponent_of_people"]
    rows = [
        (
            "second moment ∝ mˣ",
            f"{of_people}",
            f"{one['exponent_of_people']:.3f}",
            _agrees(one["exponent_of_people"], of_people),
        ),
        ("second moment ∝ εˣ, small ε", "−(p + v) = −4", f"{one['exponent_of_epsilon']:.3f}", "better: −p, whatever v"),
        *(
            (f"{name} without peers ∝ mˣ", "0.5", f"{slope:.3f}", _agrees(slope, 0.5))
            for name, slope in lines["exponent_of_people"].items()
        ),
    ]
    growth = ", ".join(f"{parties}: {error:,.0f}" for parties, error in one["error_by_parties"].items())
    return [
        _table(("claim", "published", "ours", "agrees?"), rows),
        f"Error of the second moment by number of parties (ε = {measures.EPSILON} each): {growth}.",
        "The paper reports no experiments.",
    ]


def _sketches(one: dict, met: dict) -> list[str]:
    words = {
        "gram": "Gram matrix, Frobenius",
        "components": "captured variance lost, root",
        "plain_regression": "coefficients, ℓ2, plain solve",
        "regression": "coefficients, ℓ2, `LinearRegression` (shrinks)",
    }
    rows = [
        (
            words[name],
            f"{one[name]['measured']:.4g}",
            f"{one[name]['predicted']:.4g}",
            f"**{one[name]['ratio']:.3f}** ± {one[name]['ratio_error']:.3f}",
            _verdict(met[name]),
        )
        for name in words
    ]
    return [
        f"{one['people']:,} people, ε = {one['epsilon']}, δ = {one['delta']}, s = {one['size']}, {one['runs']} runs.",
        _table(("error", "measured", "predicted", "ratio", f"within {SKETCH_BAR:.0%}?"), rows),
        f"The paper's bound on a sketched row takes {one['paper_noise_over_ours']:.2f} times our noise (s = 100, m = 100,000).",
    ]


def _lines(one: dict, *, quick: bool) -> list[str]:
    rows = []
    for name in TITLES:
        for (people, local), (_, secure) in zip(one["local"][name], one["secure"][name], strict=True):
            rows.append((name, f"{people:,}", f"{local:,.4g}", f"{math.sqrt(people):,.4g}", f"{secure:,.4g}"))
    table = _table(("primitive", "people", "each party alone", "√people", "secure channel"), rows)
    plots = [] if quick else [f"![{title}](results/{name}.svg)" for name, (title, _) in TITLES.items()]
    return [f"ε = {one['epsilon']} a person, δ = {one['delta']} where noise is Gaussian.", table, *plots]


def _many(one: dict, met: bool) -> list[str]:
    rows = [
        (
            step,
            f"{one['seconds'][step]:.1f}",
            f"{one['people_a_second'][step]:,.0f}",
            f"{one['peak_bytes'][step] / 1e6:,.0f}",
        )
        for step in one["seconds"]
    ]
    return [
        f"{one['people']:,} people, three parties, from parquet files; columns of eight bytes, ids among them.",
        _table(("step", "seconds", "people a second", "peak MB so far"), rows),
        _peak(one, met),
    ]


def _peak(one: dict, met: bool) -> str:
    read, start = one["bytes_of_the_columns_read"] / 1e6, one["peak_bytes"]["imports and schemas"] / 1e6
    ratio = f"Peak memory over the columns read ({read:,.0f} MB): **{one['peak_over_columns_read']:.2f}**"
    return f"{ratio} ({start:,.0f} MB of it before a row is aligned); the bar is {MEMORY_BAR:.0f}: {_verdict(met)}."


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))


def _agrees(ours: float, theirs: float) -> str:
    return "yes" if abs(ours - theirs) < 0.1 else "no"


def _verdict(met: bool) -> str:
    return "met" if met else "**NOT met**"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer runs and people; keeps nothing")
    run(parser.parse_args().quick)


if __name__ == "__main__":
    main()
