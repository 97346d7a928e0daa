"""Claims, and tests that could have said no.

A test is an interval of what was measured, held against bounds that were stated beforehand. A claim *agrees* if the interval of
each of its tests lies inside the bounds. It *does not* if the interval of one of them, widened for their number, lies outside.
Otherwise the runs *cannot tell*.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from scipy import stats

from benchmarks.frame import intervals
from benchmarks.frame.intervals import LEVEL, Sample
from benchmarks.frame.records import NotMeasured, Results

AGREES, DOES_NOT, CANNOT_TELL, NOT_MEASURED = "agrees", "**does not**", "cannot tell", "not measured"


@dataclass(frozen=True)
class Test:
    """An interval by level, and the bounds that it should lie in."""

    value: float
    interval: Callable[[float], tuple[float, float]]
    low: float
    high: float
    runs: int
    unit: str = ""

    __test__ = False  # not a test of pytest

    @property
    def slack(self) -> float:
        """How far the value is from the nearer bound; negative outside."""
        return min(self.value - self.low, self.high - self.value)

    def inside(self) -> bool:
        low, high = self.interval(LEVEL)
        return self.low <= low and high <= self.high

    def outside(self, tests: int) -> bool:
        low, high = self.interval(1 - (1 - LEVEL) / tests)
        return high < self.low or low > self.high

    def words(self) -> str:
        low, high = self.interval(LEVEL)
        ends = (
            ""
            if low == high
            else " (one run)"
            if math.isinf(low) or math.isinf(high)
            else f" ({low:.4g} to {high:.4g})"
        )
        return f"{self.value:.4g}{self.unit}{ends}"


def above(sample: Sample, bar: float) -> Test:
    """Test that a mean is at least ``bar``."""
    return Test(sample.mean, sample.interval, bar, math.inf, sample.runs)


def below(sample: Sample, bar: float) -> Test:
    """Test that a mean is at most ``bar``."""
    return Test(sample.mean, sample.interval, -math.inf, bar, sample.runs)


def near(sample: Sample, value: float, margin: float) -> Test:
    """Test that a mean is within ``margin`` of ``value``."""
    return Test(sample.mean, sample.interval, value - margin, value + margin, sample.runs)


def better(one: Sample, other: Sample, by: float = 0.0) -> Test:
    """Test that one mean is larger than another by at least ``by``."""
    interval = lambda level: intervals.difference(one, other, level)  # noqa: E731
    return Test(one.mean - other.mean, interval, by, math.inf, min(one.runs, other.runs))


def same(one: Sample, other: Sample, margin: float) -> Test:
    """Test that two means differ by at most ``margin``."""
    interval = lambda level: intervals.difference(one, other, level)  # noqa: E731
    return Test(one.mean - other.mean, interval, -margin, margin, min(one.runs, other.runs))


def faster(one: Sample, other: Sample, times: float = 1.0) -> Test:
    """Test that one is at least ``times`` as small as another, as a ratio: for seconds, bytes and errors."""
    interval = lambda level: intervals.ratio(other, one, level)  # noqa: E731
    return Test(other.mean / one.mean, interval, times, math.inf, min(one.runs, other.runs), " ×")


def within(one: Sample, other: Sample, times: float) -> Test:
    """Test that one is at most ``times`` another, as a ratio: for seconds, bytes and errors."""
    interval = lambda level: intervals.ratio(one, other, level)  # noqa: E731
    return Test(one.mean / other.mean, interval, 0.0, times, min(one.runs, other.runs), " ×")


def exponent(one: Sample, other: Sample, factor: float, low: float, high: float, power: float = 2.0) -> Test:
    """Test the exponent by which errors grow when something grows by ``factor``; ``power`` is 2 for squared errors."""
    unit = power * math.log(factor)
    tiny = [Sample(tuple(max(value, 1e-30) for value in sample.values)) for sample in (other, one)]

    def interval(level: float) -> tuple[float, float]:
        ends = [
            math.log(end) / unit if 0 < end < math.inf else math.copysign(math.inf, end - 1)
            for end in intervals.ratio(*tiny, level)
        ]
        return min(ends), max(ends)

    return Test(math.log(tiny[0].mean / tiny[1].mean) / unit, interval, low, high, min(one.runs, other.runs))


def share(successes: float, trials: float, low: float, high: float) -> Test:
    """Test that a share of independent trials lies between ``low`` and ``high``."""
    interval = lambda level: intervals.proportion(successes, trials, level)  # noqa: E731
    return Test(successes / trials if trials else math.nan, interval, low, high, round(trials))


def coverage_counts(inside: Sequence[int], called: Sequence[int]) -> dict[str, float]:
    """Return values of a row for `covered_as_stated`: of how many intervals of each coefficient, how many covered."""
    held = {f"in {place}": float(count) for place, count in enumerate(inside)}
    return held | {f"of {place}": float(count) for place, count in enumerate(called)}


def covered_as_stated(rows: Iterable[Mapping[str, Sample]], level: float, family: float) -> Iterator[Test]:
    """Yield the test that no coefficient is covered less often than stated, all runs together, whatever their number.

    It is the smallest p-value of one-sided binomial tests, times their number (Bonferroni), and should be at least ``family``.
    """
    held = [
        (sum(samples[f"in {name[3:]}"].values), sum(of.values), of.runs)
        for samples in rows
        for name, of in samples.items()
        if name.startswith("of ") and name[3:].isdigit() and any(of.values)
    ]
    if held:
        least = min(1.0, len(held) * min(float(stats.binom.cdf(inside, of, level)) for inside, of, _ in held))
        yield Test(least, lambda _level: (least, least), family, math.inf, min(runs for *_, runs in held))


@dataclass(frozen=True)
class Claim:
    """Something that the results should show.

    Parameters
    ----------
    words
        The claim.
    published
        What was published, or the bar, with its margin.
    tests
        Given the results, the tests that it stands on.
    where
        The table, figure or page; or who set the bar.
    """

    words: str
    published: str
    tests: Callable[[Results], Iterable[Test]]
    where: str = ""

    @property
    def bar(self) -> str:
        """What was published and where, or the bar and who set it. Bars of issues are our own: a reader has no issues."""
        where = self.where.replace("the issue's bar", "our bar").replace("the issue", "our bar")
        return f"{self.published} ({where})" if where else self.published

    def judged(self, results: Results) -> "Judgement":
        """Return the verdict on recorded results."""
        try:
            tests = list(self.tests(results))
        except NotMeasured as missing:
            return Judgement(self, f"not measured: {missing}", 0, NOT_MEASURED)
        if not tests:
            return Judgement(self, "nothing to compare", 0, NOT_MEASURED)
        worst = min(tests, key=lambda test: (not test.outside(len(tests)), test.inside(), test.slack))  # it decides
        ours = worst.words() + (f", worst of {len(tests)}" if len(tests) > 1 else "")
        return Judgement(self, ours, min(test.runs for test in tests), _verdict(tests))


@dataclass(frozen=True)
class Judgement:
    """A claim with what was measured, over how many runs, and the verdict."""

    claim: Claim
    ours: str
    runs: int
    verdict: str


def _verdict(tests: Sequence[Test]) -> str:
    if all(test.inside() for test in tests):
        return AGREES
    return DOES_NOT if any(test.outside(len(tests)) for test in tests) else CANNOT_TELL
