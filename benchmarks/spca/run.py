"""Principal components: Figures 1 and 2 and Tables 1 and 2 of the paper on the data sets that are to be had.

The paper is Secure PCA (docs/references.md#secure-pca).

    python benchmarks/spca/run.py [--quick]

COLONNADE_DATA names the folder of the data sets; by default ``shared/data`` beside the checkout.

*Captured variance.* The variance along the k directions found, over that along the k best, on the true centred columns as
the parties code them (numbers mapped from declared bounds to [-1, 1], categories to indicators). Beside ours stand the
central Gaussian mechanism (equal discrete Gaussian noise on every entry, σ by the analytic calibration, a trusted
curator, the same matrix and the same use of what the coding makes public) and the paper's distributed baseline
(``PCA(method="local")``). NSL-KDD stands in for KDDCUP, Adult for ACSIncome, 181 lung microarrays for Gene; with so few people
nothing short of a huge ε leaves a trace of the components, for anyone.

*Channel and law.* Every figure of ours comes out of the secure channel (sharing, sealing, multiplying, opening), except on
CiteSeer: there one release with four parties does, and the other figures take the same noise law on the same integer
matrix. How large the channel's own noise was, in units of its stated variance, stands beside the figures. On CiteSeer and the
microarrays each party clips its rows to a declared length, and the baseline is drawn by its law with rows as short.

*Tables.* ε towards one client, when ε towards the server is given: as published, as the paper's formulas give it, corrected
(privacy.md §4.4: a row bound that holds for every row, √2 instead of 2 for a replaced row), and ours.
"""

import argparse
import json
import math
import platform
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
from scipy import stats

import colonnade as cn
from colonnade.coding.columns import features_of
from colonnade.coordinator.protocols.moment_releases import GramRelease
from colonnade.estimation.moments import Moments, pca_from_moments
from colonnade.privacy import samplers
from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import ledger_rho
from colonnade.privacy.randomness import SystemRandomness
from colonnade.steps.joint import read_joint

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # a benchmark is a script, also where `colonnade bench` loads it

from closed_forms import analytic_gaussian_sigma  # noqa: E402
from spca_clients import tables  # noqa: E402
from spca_sets import DELTA, WIDE, Problem, data_folder, problems, top  # noqa: E402

BAR, BAR_EPSILON = 0.99, 1.0
PARTIES = (2, 4, 8)
SOURCE = SystemRandomness()


# The mechanisms -------------------------------------------------------------------------------------------------------------


def noise(kinds: np.ndarray, variances: Mapping[int, float]) -> np.ndarray:
    """Symmetric discrete Gaussian noise; ``kinds`` says which variance an entry has."""
    upper = np.triu_indices(len(kinds))
    drawn = np.zeros(len(upper[0]))
    for kind, variance in variances.items():
        places = np.flatnonzero(kinds[upper] == kind)
        drawn[places] = samplers.discrete_gaussian(round(variance), len(places), SOURCE)
    whole = np.zeros(kinds.shape)
    whole[upper] = drawn
    return whole + np.triu(whole, 1).T


def components(problem: Problem, noisy: np.ndarray) -> np.ndarray:
    """What a coordinator makes of a noisy integer matrix, whoever noised it."""
    matrix = noisy / problem.scale**2
    if problem.width <= WIDE:
        features = features_of(problem.columns)
        moments = Moments.of_release(matrix, np.ones_like(matrix), problem.people, features)
        return pca_from_moments(moments, problem.k).components
    return top(matrix[1:, 1:] - np.outer(matrix[0, 1:], matrix[0, 1:]) / problem.people, problem.k)


def central(problem: Problem, epsilon: float, plain: np.ndarray) -> np.ndarray:
    sigma = analytic_gaussian_sigma(epsilon, DELTA) * problem.row_bound * problem.scale**2
    return components(problem, plain + noise(np.zeros(plain.shape), {0: sigma**2}))


def law(problem: Problem, epsilon: float, federation: cn.Federation, plain: np.ndarray) -> np.ndarray:
    """Our release without the channel: P shares of one entry add up to one discrete Gaussian of P times the variance."""
    kinds, variances = stated(problem, epsilon, federation)
    return components(problem, plain + noise(kinds, variances))


def stated(problem: Problem, epsilon: float, federation: cn.Federation) -> tuple[np.ndarray, dict[int, float]]:
    """Which entries are noised how: inside a party 0, on the diagonal 1, between parties 2."""
    norms = problem.row_norms(len(federation.parties))
    algorithm = GramRelease(federation.describe(), Price.of(epsilon, DELTA), row_norms=norms, scale=problem.scale)
    plan = federation.plan(
        algorithm, task="moments", method="secure", price=algorithm.price, unit="person", parameters={}
    )
    joint = read_joint(plan, "gram")
    owners = np.repeat(np.arange(1, len(joint.widths) + 1), joint.widths)
    owners = np.concatenate([[0], owners])
    kinds = np.where((owners[:, None] != owners) & (owners[:, None] > 0) & (owners > 0), 2, 0)
    np.fill_diagonal(kinds, 1)
    own = float(joint.noise.own_variance)
    return kinds, {0: own, 1: 2 * own, 2: joint.noise.opened_variance}


def baseline_law(problem: Problem, epsilon: float) -> np.ndarray:
    """The paper's distributed baseline with rows as short as ours: noise on every cell, then the product."""
    rows = problem.rows(4)
    price = Price.of(epsilon, DELTA)
    variance = round(problem.scale**2 * problem.squared_length / (2 * float(ledger_rho(price))))
    rows = (rows + samplers.discrete_gaussian(variance, rows.size, SOURCE).reshape(rows.shape)) / problem.scale
    rows = rows - rows.mean(axis=1, keepdims=True)
    return top(rows @ rows.T, problem.k)


# What is measured -----------------------------------------------------------------------------------------------------------


def utility(problem: Problem, runs: int, channel_runs: int) -> dict:
    """Captured variance by ε: no privacy is 1."""
    wide = problem.width > WIDE
    parties = {count: problem.federation(count) for count in ((4,) if wide else PARTIES)}
    plain = problem.plain(4)
    rows, spread = [], []
    for epsilon in problem.epsilons:
        row = {"epsilon": epsilon, "central": summary([central(problem, epsilon, plain) for _ in range(runs)], problem)}
        for count, federation in parties.items():
            if wide and epsilon != problem.epsilons[1]:
                found = [law(problem, epsilon, federation, plain) for _ in range(channel_runs)]
            else:
                found = [channel(problem, epsilon, federation, plain, spread, one + 1) for one in range(channel_runs)]
            row[f"secure_{count}"] = summary(found, problem)
        row["local"] = summary([_baseline(problem, epsilon, parties[4])], problem)
        rows.append(row)
    for federation in parties.values():
        federation.close()
    return {
        "people": problem.people,
        "columns": problem.width,
        "k": problem.k,
        "stands_for": problem.stands_for,
        "captured_without_privacy_per_person": problem.best / problem.people,
        "share_of_all_variance": problem.best / float(np.trace(problem.true)),
        "runs": {"central": runs, "secure": channel_runs},
        "by_law": wide,
        "noise_variance_over_stated": float(np.mean(spread)),
        "rows": rows,
    }


def channel(problem, epsilon, federation, plain, spread, repeat) -> np.ndarray:
    """One release through the secure channel; note how large its noise really was."""
    count = len(federation.parties)
    release = federation.moments(
        epsilon=epsilon, delta=DELTA, scale=problem.scale, row_norms=problem.row_norms(count), repeat=repeat
    )
    upper = np.triu(release.moments.variance > 0)
    error = release.moments.matrix - plain / problem.scale**2 if count == 4 or problem.squared_length is None else None
    if error is not None:
        spread.append(float(np.mean(error[upper] ** 2 / release.moments.variance[upper])))
    return cn.PCA(problem.k).fit(release).components_


def _baseline(problem: Problem, epsilon: float, federation: cn.Federation) -> np.ndarray:
    if problem.squared_length is not None:
        return baseline_law(problem, epsilon)
    return cn.PCA(problem.k, method="local", epsilon=epsilon, delta=DELTA).fit(federation).components_


def summary(found: list[np.ndarray], problem: Problem) -> dict:
    """Mean and 95 % interval of the captured share."""
    values = [problem.captured(one) for one in found]
    mean, half = float(np.mean(values)), 0.0
    if len(values) > 1:
        half = float(stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return {"mean": mean, "half": half}


def coarseness(problem: Problem, gammas: tuple[int, ...]) -> list[dict]:
    """What the fixed-point scale costs: the paper's noise grows as γ falls, ours does not."""
    rows, n = [], problem.width
    with problem.federation(4) as federation:
        for gamma in gammas:
            method = cn.methods.Secure(scale=gamma)
            fit = cn.PCA(problem.k, method=method, epsilon=BAR_EPSILON, delta=DELTA).fit(federation)
            rows.append(
                {
                    "gamma": gamma,
                    "captured": problem.captured(fit.components_),
                    "paper_noise": (gamma**2 + n) / gamma**2,
                    "paper_noise_with_a_proof": (gamma + math.sqrt(n)) ** 2 / gamma**2,
                }
            )
    return rows


def separation(problem: Problem, epsilon: float, runs: int) -> dict:
    """Figure 2 as a number: how well a straight line in the plane of two components tells attacks from the rest (AUC)."""
    two = replace(problem, k=2)
    plain, rows, attacks = two.plain(4), two.rows(4).T / two.scale, problem.labels.to_numpy()
    arbitrary = np.random.default_rng(0)
    with two.federation(4) as federation:
        ours = lambda method, draw: cn.PCA(2, method=method, epsilon=epsilon, delta=DELTA).fit(federation, repeat=draw)  # noqa: E731
        planes = {
            "no privacy": lambda _: top(two.true, 2),
            "central": lambda _: central(two, epsilon, plain),
            "secure": lambda draw: ours("secure", draw).components_,
            "local": lambda draw: ours("local", draw).components_,
            "arbitrary": lambda _: np.linalg.qr(arbitrary.standard_normal((two.width, 2)))[0].T,
        }
        return {
            name: float(np.mean([_area(rows @ plane(draw).T, attacks) for draw in range(1, runs + 1)]))
            for name, plane in planes.items()
        }


def _area(points: np.ndarray, labels: np.ndarray) -> float:
    centred = points - points.mean(axis=0)
    direction = np.linalg.lstsq(centred, labels - labels.mean(), rcond=None)[0]
    ranks = stats.rankdata(centred @ direction)
    ones = int(labels.sum())
    return float((ranks[labels].sum() - ones * (ones + 1) / 2) / (ones * (len(labels) - ones)))


# Putting it down ------------------------------------------------------------------------------------------------------------


def run(quick: bool = False) -> dict:
    """Measure everything, print it, and (unless quick) keep it in ``results/latest.json`` and ``README.md``."""
    published = tomllib.loads((HERE / "published.toml").read_text())
    begin = time.time()
    sets = problems(data_folder(), quick)
    channel_runs = 1 if quick else 2
    result: dict = {"figure_1": {}}
    for one in sets:
        runs = (1, 1) if one.width > WIDE else (5, 1) if quick else (published["runs"], channel_runs)
        result["figure_1"][one.name] = utility(one, *runs)
    result["coarseness"] = coarseness(sets[0], (4, 64, 4_096) if quick else (4, 16, 64, 1_024, 4_096))
    result["figure_2"] = separation(sets[0], published["figure_2"]["epsilon"], channel_runs)
    result["tables"] = tables(published["tables"])
    result["bar"] = bar(result["figure_1"]["NSL-KDD"])
    result["run"] = {**circumstances(), "quick": quick, "seconds": round(time.time() - begin, 1)}
    report = as_markdown(result, published)
    print(report)
    if not quick:
        (HERE / "results").mkdir(exist_ok=True)
        (HERE / "results" / "latest.json").write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
        (HERE / "README.md").write_text(report)
    return result


def bar(one: dict) -> dict:
    row = next(row for row in one["rows"] if row["epsilon"] == BAR_EPSILON)
    ratios = {str(count): row[f"secure_{count}"]["mean"] / row["central"]["mean"] for count in PARTIES}
    spread = max(row[f"secure_{count}"]["mean"] for count in PARTIES) - min(
        row[f"secure_{count}"]["mean"] for count in PARTIES
    )
    return {
        "ratio_to_central": ratios,
        "bar": BAR,
        "met": min(ratios.values()) >= BAR,
        "spread_over_parties": spread,
    }


def circumstances() -> dict:
    git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True, text=True, check=False)
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "commit": git.stdout.strip() if git.returncode == 0 else None,
        "version": cn.__version__,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": f"{names[0] if names else platform.processor()}, {len(names) or '?'} cores",
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "noise": "fresh, from the system's source",
    }


def as_markdown(result: dict, published: dict) -> str:
    parts = [
        "# Principal components ([Secure PCA](../../docs/references.md#secure-pca), Figures 1–2, Tables 1–2)",
        "Written by `run.py` (`colonnade bench spca`); do not edit. Its docstring says what is measured.",
        "## Figure 1: captured variance",
        *_figure_1(result, published["figure_1"]),
        "## The fixed-point scale",
        *_coarseness(result["coarseness"]),
        "## Figure 2: two components",
        *_figure_2(result["figure_2"], published["figure_2"]),
        "## Tables 1 and 2: ε towards a client",
        *_tables(result["tables"], published["tables"]),
        "## Run",
        "\n".join(f"* {name}: {value}" for name, value in result["run"].items()),
    ]
    return "\n\n".join(parts) + "\n"


def _figure_1(result: dict, published: dict) -> list[str]:
    parts = []
    for name, one in result["figure_1"].items():
        counts = [key for key in one["rows"][0] if key.startswith("secure_")]
        how = "one release by the channel at the second ε, the others by its law" if one["by_law"] else "by the channel"
        parts += [
            (
                f"**{name}** (for {one['stands_for']}): {one['people']:,} people, {one['columns']:,} coded columns, "
                f"k = {one['k']}; the k best components hold {one['share_of_all_variance']:.1%} of the variance, "
                f"{one['captured_without_privacy_per_person']:.4g} a person. Ours {how}, {_runs(one['runs']['secure'])} "
                f"(central {one['runs']['central']}); the channel's noise has {one['noise_variance_over_stated']:.4f} "
                "of its stated variance."
            ),
            _table(
                ("ε", "central", *(f"secure, P = {key.split('_')[1]}" for key in counts), "local"),
                [
                    (f"{row['epsilon']:g}", *(_share(row[key]) for key in ("central", *counts, "local")))
                    for row in one["rows"]
                ],
            ),
        ]
    return [*parts, *_claims(result, published)]


def _claims(result: dict, published: dict) -> list[str]:
    close = published["close_to_central"]
    figures = {
        name: [
            (row["secure_4"]["mean"] / row["central"]["mean"], row["secure_4"]["mean"] - row["local"]["mean"])
            for row in one["rows"]
        ]
        for name, one in result["figure_1"].items()
    }
    rows = []
    for name, values in figures.items():
        least, margin = min(ratio for ratio, _ in values), min(gain for _, gain in values)
        rows.append(
            (f"{name}: close to the central mechanism", f"≥ {close}", f"{least:.4f} at worst", _yes(least >= close))
        )
        rows.append((f"{name}: above the baseline", "always", f"by {margin:.3f} at least", _yes(margin > 0)))
    one = result["bar"]
    same = one["spread_over_parties"] < 0.001
    rows.append(
        ("NSL-KDD, ε = 1: the number of parties", "no matter", f"spread {one['spread_over_parties']:.5f}", _yes(same))
    )
    ratios = ", ".join(f"P = {count}: **{ratio:.4f}**" for count, ratio in one["ratio_to_central"].items())
    return [
        _table(("claim", "published", "ours, P = 4", "agrees?"), rows),
        (
            f"Bar: NSL-KDD, k = 5, ε = 1, captured over the central mechanism's, at least {BAR}: {ratios}; "
            f"{'met' if one['met'] else '**NOT met**'}. A ratio above 1 is no mistake: off the diagonal we need half the noise "
            "variance, and a party noises its own block alone."
        ),
    ]


def _coarseness(rows: list[dict]) -> list[str]:
    table = [
        (
            str(r["gamma"]),
            f"{r['captured']:.4f}",
            "1",
            f"{r['paper_noise']:.2f}",
            f"{r['paper_noise_with_a_proof']:.2f}",
        )
        for r in rows
    ]
    return [
        (
            "NSL-KDD, ε = 1, P = 4. Our rows keep their bound by construction (rounding to nearest, γ whole), so that the noise "
            "in data units does not depend on γ; the paper's stochastic rounding adds n to the squared row."
        ),
        _table(("γ", "captured", "our noise over γ = ∞", "the paper's", "the paper's, with a bound that holds"), table),
    ]


def _figure_2(one: dict, published: dict) -> list[str]:
    rows = []
    for key, words in (("central", "separates"), ("secure", "separates"), ("local", "does not")):
        separates = one[key] > 0.9 * one["no privacy"]
        rows.append((key, words, f"{one[key]:.3f}", _yes(separates == published["separates"][key])))
    return [
        (
            f"NSL-KDD, k = 2, ε = {published['epsilon']}: area under the curve of the best straight line in the plane of the "
            f"two components, attacks against normal connections. Without privacy {one['no privacy']:.3f}; in an arbitrary "
            f"plane {one['arbitrary']:.3f}. To separate is to reach nine tenths of the former."
        ),
        _table(("method", "published, by eye", "ours", "agrees?"), rows),
    ]


def _tables(ours: dict, published: dict) -> list[str]:
    head = ("ε towards the server", *(f"{e:g}" for e in ours["server"]), "agrees?")
    figures = lambda values: tuple(f"{value:.2f}" for value in values)  # noqa: E731
    parts = [
        (
            "Clients hold one column each. *Agrees?* compares with the corrected figure of privacy.md §4.4, which does not "
            "depend on γ. *Two clients, doubled* is what the published rows really are: noise of two clients of which one is "
            "known, the sensitivity of a replaced row taken as 2. The last rows are what the paper's own noise gives the "
            "server, with a row bound that holds for every row: its ε is understated most where γ is near √n."
        )
    ]
    for name in ("table_1", "table_2"):
        by_gamma = ours[name]
        read = lambda gamma, key: [figure[key] for figure in by_gamma[gamma]]  # noqa: B023, E731
        corrected = read("12", "corrected")
        rows = [
            (f"published, γ = {gamma}", *figures(published[name][gamma]), _near(published[name][gamma], corrected))
            for gamma in by_gamma
        ]
        rows.append(("two clients, doubled, γ = 12", *figures(read("12", "two_clients_doubled")), ""))
        rows.append(("equation 9 with n clients, γ = 12", *figures(read("12", "equation_9")), ""))
        rows.append(("**corrected**", *figures(corrected), ""))
        rows += [
            (f"the server's own, proved, γ = {gamma}", *figures(read(gamma, "server_with_a_proof")), "")
            for gamma in by_gamma
        ]
        parts += [f"n = {published[name]['columns']}:", _table(head, rows)]
    rows = [
        ("baseline, published", *figures(published["baseline"]), _near(published["baseline"], ours["baseline"])),
        ("baseline, half the analytic σ", *figures(ours["baseline"]), ""),
        ("**ours**, zero-out, coordinator and one party together", *figures(ours["ours_zero_out"]), ""),
        ("**ours**, a replaced record", *figures(ours["ours_replace"]), ""),
    ]
    return [*parts, "Any n:", _table(head, rows)]


def _near(published: list[float], ours: list[float]) -> str:
    return _yes(all(abs(one - other) <= 0.02 * other for one, other in zip(published, ours, strict=True)))


def _runs(count: int) -> str:
    return "one run" if count == 1 else f"{count} runs"


def _share(one: dict) -> str:
    return f"{one['mean']:.4f}" + (f" ± {one['half']:.4f}" if one["half"] else "")


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))


def _yes(agrees: bool) -> str:
    return "yes" if agrees else "no"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two data sets, fewer runs; keeps nothing")
    run(parser.parse_args().quick)


if __name__ == "__main__":
    main()
