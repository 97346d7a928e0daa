"""The README of the benchmark: tables, bars, and what the paper says beside what we found."""

BAR_EPSILON, SECURE_BARS = 0.5, {2: 1.05, 4: 1.08}
ERROR_BARS = {2: {0.5: 0.06, 1.0: 0.05, 2.0: 0.04}, 4: {0.5: 0.25, 1.0: 0.18, 2.0: 0.15}}
CLUSTERS, PEOPLE = 5, 20_000
RUN = ("runs", "commit", "date", "python", "numpy", "scikit-learn", "seconds")


def bars(pieces: dict) -> list[dict]:
    """Every bar that the kept pieces can answer: what, the bar, ours, met or not."""
    found = []

    def add(what: str, bar: float, value: float, *, least: bool = False) -> None:
        found.append({"what": what, "bar": bar, "ours": value, "met": value >= bar if least else value <= bar})

    for parties, bar in SECURE_BARS.items():
        one = pieces.get(f"letter, {parties} parties", {}).get("found", {})
        if f"secure, k′ = 5 at ε = {BAR_EPSILON:g}" in one:
            value = one[f"secure, k′ = 5 at ε = {BAR_EPSILON:g}"]["loss"] / one["non-private vertical"]["loss"]
            add(f"letter, {parties} parties, ε = {BAR_EPSILON:g}: secure over non-private vertical loss", bar, value)
    for parties, by_epsilon in ERROR_BARS.items():
        one = pieces.get(f"mixture, {parties} parties", {}).get("found", {})
        for epsilon, bar in by_epsilon.items():
            at = f" at ε = {epsilon:g}"
            if f"sketch, k′ = 5{at}" in one:
                _sketch_bars(add, one, f"mixture, {parties} parties, ε = {epsilon:g}", at, bar, parties)
    timed = pieces.get("speed", {}).get("found")
    if timed:
        sketched, estimated = timed["sketching"], timed["estimation"]
        add("sketching 100,000 people, times as fast as plain numpy", sketched["bar"], sketched["ratio"], least=True)
        add(
            "grid of 4 parties, k′ = 8, times as fast as Algorithms 4 and 5 as loops",
            estimated["bar"],
            estimated["ratio to 4 and 5"],
            least=True,
        )
        add(
            "the same, times as fast as Algorithm 5 alone as loops",
            estimated["bar"],
            estimated["ratio to 5 alone"],
            least=True,
        )
    return found


def _sketch_bars(add, one: dict, where: str, at: str, bar: float, parties: int) -> None:
    ours = one[f"sketch, k′ = 5{at}"]
    for rival in ("IND-LAP", "LDP-AGG-2PEst"):
        add(f"{where}: sketch over {rival} loss", 1.0, ours["loss"] / one[f"{rival}{at}"]["loss"])
    add(f"{where}: sketch over exact-table loss", 1.05, ours["loss"] / one[f"exact table{at}"]["loss"])
    add(f"{where}: error of weights", bar, ours["weight_error"])
    add(
        f"{where}: error of BasicEst over ours",
        3.0,
        one[f"DPFMPS-BasicEst{at}"]["weight_error"] / ours["weight_error"],
        least=True,
    )
    if parties == 4:
        add(
            f"{where}: error of weights over 2PEst's",
            1.0,
            ours["weight_error"] / one[f"DPFMPS-2PEst{at}"]["weight_error"],
        )


def as_markdown(result: dict, published: dict, epsilons: tuple[float, ...]) -> str:
    pieces = result["pieces"]
    parts = [
        (
            "# Clustering across parties ([Primitives](../../docs/references.md#primitives), Algorithm 3, and "
            "[Private vertical clustering](../../docs/references.md#clustering))"
        ),
        "Written by `run.py` (`colonnade bench clustering`); do not edit. Its docstring says what is measured.",
        f"k = {CLUSTERS}, {PEOPLE:,} people, δ = 1/people; mean loss with 95 % interval.",
        "## Bars",
        table(
            ("what", "bar", "ours", ""),
            [
                (one["what"], f"{one['bar']:g}", f"{one['ours']:.3g}", "met" if one["met"] else "**NOT met**")
                for one in result["bars"]
            ],
        ),
    ]
    for name, piece in pieces.items():
        if name == "speed":
            continue
        parts += [f"## {name[0].upper()}{name[1:]}", *_losses(piece["found"])]
    if "speed" in pieces:
        parts += ["## Speed", *_speed(pieces["speed"]["found"], published)]
    parts += ["## Published", shape(pieces, published, epsilons)]
    ran = [
        (
            name,
            *(str(piece["run"].get(key, "")) for key in RUN),
        )
        for name, piece in pieces.items()
    ]
    parts += ["## Runs", table(("piece", *RUN), ran)]
    return "\n\n".join(parts) + "\n"


def _losses(found: dict) -> list[str]:
    if not all("loss" in one for one in found.values()):
        return [part for name, one in found.items() for part in (f"### {name[0].upper()}{name[1:]}", *_losses(one))]
    base = found.get("non-private vertical", {}).get("loss")
    rows = [
        (
            method,
            f"{one['loss']:.4f} ± {one['half_width']:.4f}",
            f"{one['loss'] / base:.3f}" if base else "",
            f"{one['v_score']:.3f}",
            f"{one['weight_error']:.3f}" if "weight_error" in one else "",
            str(one.get("local_clusters", "")),
            f"{one['seconds']:.2f}" if "seconds" in one else "",
        )
        for method, one in found.items()
    ]
    return [table(("method", "loss", "over vertical", "V-score", "error of weights", "k′", "seconds"), rows)]


def _speed(timed: dict, published: dict) -> list[str]:
    rows = [
        (part, name, f"{value:.4g}")
        for part in ("sketching", "estimation")
        for name, value in timed[part].items()
        if name != "bar"
    ]
    costs = []
    for name, one in timed["table 1"].items():
        theirs = published["table_1"].get(name.replace("k′ = ", "k").replace(", ", "_").replace(" ", "_"), {})
        costs.append(
            (
                name,
                str(theirs.get("kilobytes", "")),
                f"{one['bytes a party'] / 1e3:.0f}",
                str(theirs.get("seconds", "")),
                f"{one['seconds']:.3f}",
            )
        )
    return [
        table(("", "", "value"), rows),
        "Table 1 (M = 4,096; theirs on another machine, 8 bytes a value):",
        table(("", "kB a party, published", "ours", "seconds for the grid, published", "ours"), costs),
    ]


def shape(pieces: dict, published: dict, epsilons: tuple[float, ...]) -> str:
    """Put what the paper says in words beside ours; it tabulates no losses. One part in a thousand is a tie."""
    rows = []
    for name, piece in pieces.items():
        one = piece["found"]
        if "non-private vertical" not in one:
            continue
        above = one["non-private vertical"]["loss"] / one["central"]["loss"]
        verdict = "yes" if above > 1.001 else "a tie" if above > 0.999 else "no"
        rows.append((name, published["vertical_above_central"], f"{above:.3f} of central", verdict))
        first, last = (one.get(f"IND-LAP at ε = {epsilon:g}") for epsilon in (min(epsilons), max(epsilons)))
        if first and last:
            fall = last["weight_error"] / first["weight_error"]
            words = f"error at ε = {max(epsilons):g} is {fall:.3f} of that at {min(epsilons):g}"
            rows.append((name, published["independent_flat"], words, "yes" if fall > 0.9 else "no"))
        rows += _sketches_best(name, one, published, epsilons)
    listed = [(name, f"{claim['says']} ({claim['where']})", ours, verdict) for name, claim, ours, verdict in rows]
    return table(("set", "published", "ours", "agrees?"), listed)


def _sketches_best(name: str, one: dict, published: dict, epsilons: tuple[float, ...]) -> list:
    there = [epsilon for epsilon in epsilons if f"DPFMPS-2PEst at ε = {epsilon:g}" in one]
    if not there:
        return []
    rivals = ("IND-LAP", "LDP-AGG-2PEst")
    theirs, ours = (
        sum(
            one[f"{method} at ε = {epsilon:g}"]["loss"]
            < min(one[f"{rival} at ε = {epsilon:g}"]["loss"] for rival in rivals)
            for epsilon in there
        )
        for method in ("DPFMPS-2PEst", "sketch, k′ = 5")
    )
    words = f"2PEst at {theirs} of {len(there)} ε; our sketch at {ours}"
    return [
        (name, published["sketches_lowest"], words, "yes" if theirs == len(there) else "partly" if theirs else "no")
    ]


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))
