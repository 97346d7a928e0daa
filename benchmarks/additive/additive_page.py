"""The page of the additive benchmark, from recorded runs."""

import json
from pathlib import Path

import numpy as np
from scipy.stats import t as student

__all__ = ["written"]

SETS = {"adult": "Adult", "bank": "bank marketing", "credit": "credit card default"}
FURTHER = {"flights": "flights", "diamonds": "diamonds", "bank_additional": "bank marketing, additional"}
ALL = {**SETS, **FURTHER}
EPSILONS = (0.1, 1.0, 10.0)
OURS, CENTRAL, PEER = "additive", "additive, centrally", "DP-EBM"
MODELS = {
    OURS: "additive, channel",
    CENTRAL: "additive, central",
    "LogisticRegression": "`LogisticRegression`, channel",
    PEER: "DP-EBM, pooled",
    "diffprivlib": "diffprivlib, pooled",
    "regression without privacy": "regression, no privacy",
    "boosting without privacy": "boosting, no privacy",
}
LEAST_AREA = {("adult", 0.1): 0.868, ("adult", 1.0): 0.900, ("adult", 10.0): 0.910}
AHEAD, BEHIND = {"adult": 0.01}, -0.003

HEAD = """\
# Additive models

Written by `run.py --page` from `results/runs.jsonl`, `results/coverage.json` and `results/notes.md`. The docstrings of
`run.py` and `coverage.py` say what is measured.

δ = 10⁻⁶, c = 1, four parties, sixteen bins of equal width between declared bounds. Means over splits into four fifths
and one fifth, in brackets how many. *Channel* is the whole protocol between parties. *Central* is the same plan with
the channel's noise on plain numbers. DP-EBM is the explainable boosting machine with differential privacy of
`interpret-core`, which gets the same public bounds and all data in one place; so does diffprivlib's logistic
regression.
"""


def written(runs: list[dict], results: Path) -> str:
    """Return the page."""
    found: dict[tuple, dict[int, dict]] = {}
    for run in runs:
        found.setdefault((run["model"], run["set"], run["epsilon"]), {})[run["seed"]] = run
    parts = [HEAD, "## Area under the curve\n", _figures(found, "auc"), "\n## Against DP-EBM\n", _paired(found)]
    parts += [
        "\n## Brier score\n",
        _figures(found, "brier"),
        "\n## Calibration error\n",
        _figures(found, "calibration"),
    ]
    path = results / "coverage.json"
    if path.exists():
        parts += ["\n## Intervals\n", _coverage(json.loads(path.read_text()))]
    notes = results / "notes.md"
    if notes.exists():
        parts += ["", notes.read_text().rstrip()]
    return "\n".join(parts) + "\n"


def _cells(found: dict, model: str, name: str, epsilon: float) -> list[dict]:
    return list((found.get((model, name, epsilon)) or found.get((model, name, None)) or {}).values())


def _figures(found: dict, figure: str) -> str:
    models = [model for model in MODELS if any(key[0] == model for key in found)]
    lines = [f"| data | ε | {' | '.join(MODELS[model] for model in models)} |", "|---" * (2 + len(models)) + "|"]
    for name, words in SETS.items():
        for epsilon in EPSILONS:
            cells = [_cells(found, model, name, epsilon) for model in models]
            shown = [f"{np.mean([one[figure] for one in each]):.3f} ({len(each)})" if each else "" for each in cells]
            lines.append(f"| {words if epsilon == EPSILONS[0] else ''} | {epsilon:g} | {' | '.join(shown)} |")
    return "\n".join(lines)


def ahead(ours: dict[int, dict], theirs: dict[int, dict]) -> tuple[int, float, float]:
    """Return over how many splits, the mean paired difference of the areas, and the lower end of its interval."""
    apart = np.array([ours[seed]["auc"] - theirs[seed]["auc"] for seed in ours if seed in theirs])
    if len(apart) < 2:
        return len(apart), float("nan"), float("nan")
    reach = student.ppf(0.975, len(apart) - 1) * apart.std(ddof=1) / np.sqrt(len(apart))
    return len(apart), float(apart.mean()), float(apart.mean() - reach)


def _paired(found: dict) -> str:
    lines = ["| data | ε | run | splits | ahead | lower end | bar | |", "|---" * 8 + "|"]
    for name, words in SETS.items():
        for epsilon in EPSILONS:
            for model in (OURS, CENTRAL):
                each = (found.get((one, name, epsilon), {}) for one in (model, PEER))
                splits, mean, lower = ahead(*each)
                if splits < 2:
                    continue
                bar = AHEAD.get(name, BEHIND)
                area = np.mean([one["auc"] for one in found[model, name, epsilon].values()])
                met = lower > bar and area >= LEAST_AREA.get((name, epsilon), 0.0)
                run = "channel" if model == OURS else "central"
                lines.append(
                    f"| {words} | {epsilon:g} | {run} | {splits} | {mean:+.4f} | {lower:+.4f} | {bar:+.3f} | "
                    f"{'met' if met else '**missed**'} |"
                )
    return "\n".join(lines)


def _coverage(report: dict[str, dict]) -> str:
    lines = ["| data | ε | covered | determined bins | draws |", "|---|---|---|---|---|"]
    for key, cell in report.items():
        name, epsilon = key.rsplit(" ", 1)
        share = cell["called"] / cell["draws"] / cell["bins"]
        lines.append(
            f"| {ALL[name]} | {epsilon} | {cell['inside'] / max(cell['called'], 1):.1%} | {share:.0%} | {cell['draws']} |"
        )
    for words, names in {"all sets of the bars": SETS, "the further sets": FURTHER, "all": ALL}.items():
        cells = [cell for key, cell in report.items() if key.rsplit(" ", 1)[0] in names]
        if cells:
            share = sum(cell["inside"] for cell in cells) / sum(cell["called"] for cell in cells)
            lines.append(f"| **{words}** | | **{share:.1%}** | | |")
    return "\n".join(lines)
