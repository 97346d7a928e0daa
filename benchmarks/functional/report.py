"""The benchmark's results as a page: published, ours, agrees?"""

from collections.abc import Mapping, Sequence


def as_markdown(result: dict, published: dict) -> str:
    parts = [
        "# The functional mechanism with pure ε ([Functional mechanism across parties](../../docs/references.md#functional))",
        "Written by `run.py` (`colonnade bench functional`); do not edit. Its docstring says what is measured.",
        *_regression_parts(result["regressions"], published, result["met"]),
        "## Wide data (Table II's size)",
        *_wide(result["wide"], published["table_2"]),
        "## Run time (Table IV)",
        *_run_times(result["run_times"], published, result["met"]["run time"]),
        "## Run",
        "\n".join(f"* {name}: {value}" for name, value in result["run"].items()),
    ]
    return "\n\n".join(parts) + "\n"


def _regression_parts(regressions: Mapping[str, dict], published: dict, met: Mapping[str, bool | None]) -> list[str]:
    parts = []
    for name, one in regressions.items():
        table = published["table_3" if one["kind"] == "accuracy" else "table_1"]
        known = table.get(name)
        parts += [f"## {one['data']}: {one['kind']}", *_regression(one, table["epsilons"], known)]
        if name == "adult":
            bars = " / ".join(f"{bar}" for bar in published["bars"]["logistic"].values())
            law = ", ".join(f"{p:.2f} at ε = {e}" for e, p in one["same_law"].items())
            parts.append(
                f"Bars for every row of ours, {bars}: {_verdict(met['adult'])}. One holder, two and four parties without "
                f"colluders score alike (Friedman's test over the splits, p = {law}): {_verdict(met['same law'])}."
            )
    missing = [name for name in ("us", "brazil", "dutch") if name not in regressions]
    if missing:
        words = ", ".join(missing)
        parts += [f"Not measured, for want of the data: {words} (published figures are in `published.toml`)."]
    return parts


def _regression(one: dict, epsilons: Sequence[float], known: dict | None) -> list[str]:
    better = 1 if one["kind"] == "accuracy" else -1
    rows = []
    if known is not None:
        rows.append(("*published, functional*", *(f"{value:.4f}" for value in known["functional"])))
        if "gradient" in known:
            rows.append(("*published, noisy gradients*", *(f"{value:.4f}" for value in known["gradient"])))
    for method, scores in one["scores"].items():
        if method != "without privacy":
            ours = "colluder" in method or method == "one holder"
            cells = [_interval(scores[str(epsilon)]) for epsilon in epsilons]
            rows.append((f"**ours**, {method}" if ours else method, *cells))
    if known is not None:
        default = one["scores"]["4 parties, one colluder"]
        verdicts = [
            _agrees(default[str(e)], theirs, better) for e, theirs in zip(epsilons, known["functional"], strict=True)
        ]
        rows.append(("agrees?", *verdicts))
    without = one["scores"]["without privacy"][""]
    told = f"; published {known['without_privacy']:.4f}" if known is not None else ""
    note = (
        f"{one['people']:,} people, {one['columns']} coded columns, 80/20 splits, {one['runs']} runs, δ = 0; mean with 95 % "
        f"interval. Without privacy {_interval(without)}{told}. A fit takes {one['seconds_a_fit']:.2f} s (median)."
    )
    return [note, _table(("", *(f"ε = {epsilon:g}" for epsilon in epsilons)), rows)]


def _agrees(ours: dict, theirs: float, better: int) -> str:
    if ours["low"] <= theirs <= ours["high"]:
        return "yes"
    return "no, better" if (ours["mean"] - theirs) * better > 0 else "no, worse"


def _wide(cases: Sequence[dict], published: dict) -> list[str]:
    rows = []
    for one in cases:
        place = published["sparsity"].index(one["sparsity"])
        rows.append(
            (
                f"{one['sparsity']:g}",
                str(one["parties"]),
                f"{one['features']:,} × {one['people']:,}",
                f"{one['seconds']:.0f} s",
                f"{one['peak_bytes'] / 1e9:.2f} GB",
                f"{one['error']:.4f}",
                f"{one['mean_only']:.4f}",
                f"{one['without_privacy']:.4f}",
                f"{published['functional'][place]:.4f}",
            )
        )
    head = (
        "sparsity",
        "parties",
        "features × people",
        "files to model",
        "peak memory",
        "ours",
        "always the mean",
        "without privacy",
        "published",
    )
    d, n = published["features"], published["people"]
    moved = d * (d + 3) // 2 + d + 1
    return [
        "From Parquet files to the model in one process, everything included; mean square errors at ε = 1, one draw.",
        _table(head, rows),
        (
            f"Agrees? No, and on such data it cannot: a record of {d} numbers moves the coefficients by up to {moved:,} in "
            f"total, so that pure ε = 1 takes noise of that scale on sums over {n:,} people whose own size is at most {n:,}. "
            f"With the paper's Δ = {2 * (d + 1) ** 2:,} it is four times larger still. Nothing can be learned at this ε and "
            "δ = 0 from so many features. Use `method='secure'` (δ > 0), fewer features, or more people."
        ),
    ]


def _run_times(cases: Sequence[dict], published: dict, met: bool | None) -> list[str]:
    rows = []
    for one in cases:
        mpyc = one.get("mpyc")
        ratio = min(one["ratio"].values()) if mpyc else None
        rows.append(
            (
                one["data"],
                f"{one['rows']:,} × {one['features']}",
                f"{one['parties']} / {one['nodes']}",
                f"{one['published']} s",
                "not measured" if mpyc is None else f"{mpyc['elapsed']:.1f} s ({mpyc['processor']:.1f})",
                f"{one['ours']['elapsed']:.3f} s ({one['ours']['processor']:.3f})",
                "" if ratio is None else f"**{ratio:.0f} ×**",
                f"{one['published'] / one['ours']['elapsed']:.0f} ×",
            )
        )
    head = (
        "size of",
        "rows × features",
        "parties / nodes",
        "published",
        "MPyC here",
        "ours",
        "MPyC over ours",
        "published over ours",
    )
    return [
        (
            "A whole study: agreement, ledgers, coding, sharing, sealing, products, degree checks, noise, opening, solve. "
            "Elapsed, in brackets processor seconds over all members; MPyC multiplies the blocks between parties only and is "
            "extrapolated to all rows; the smaller of both ratios."
        ),
        _table(head, rows),
        f"Bar, {published['bars']['run_time']:.0f} × beside MPyC in one run: {_verdict(met)}.",
    ]


def _interval(one: dict) -> str:
    if abs(one["mean"]) > 100:
        return f"{one['mean']:.1e}"
    return f"{one['mean']:.4f} ({one['low']:.4f} – {one['high']:.4f})"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))


def _verdict(met: bool | None) -> str:
    return "not measured" if met is None else "met" if met else "**NOT met**"
