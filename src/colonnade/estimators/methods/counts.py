"""Methods of `PatternCount`.

The paper is *Primitives* (Cohen-Addad, Kacham, Mirrokni, Zhong; docs/references.md#primitives).
"""

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colonnade.constraints import Real
from colonnade.coordinator.driver import Findings
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols.counting import (
    IndependentCounts,
    PairCounts,
    ResponseCounts,
    table_layout,
)
from colonnade.errors import BadInput
from colonnade.estimation.expected_errors import ExpectedError
from colonnade.estimation.tables import (
    CountNoise,
    CountTable,
    discrete_gaussians,
    discrete_laplaces,
    variance_from_pairs,
)
from colonnade.estimators.methods.method import Expectation, Method
from colonnade.plan import Parameter, Plan
from colonnade.privacy.accounting import Price, party_price
from colonnade.privacy.calibration import laplace_scale
from colonnade.privacy.laws.tables import TableNoise
from colonnade.schema import Column
from colonnade.steps.kind import read_joint

if TYPE_CHECKING:
    from colonnade.estimators.releases import PatternCount


Array = NDArray[np.float64]
Counts = PairCounts | ResponseCounts | IndependentCounts
PATTERNS = "it depends on how people spread over the patterns"
FITTED = (
    "A fit to all pairs of parties, not a count. The expected error is that of the noise; where three columns depend on each "
    "other in ways that pairs do not show, the fit is further off by an amount that is not known. method='response' is unbiased."
)
MULTIPLIED = (
    "A product of histograms, not a count. The expected error is that of the noise; where parties' columns depend on each other, "
    "the product is further off, often by far more than the noise. method='secure' counts."
)


class CountMethod(Method["PatternCount"]):
    """A method of `PatternCount`. Each gives a table of counts with an error for each cell."""

    sampled: float = 1.0
    """The share of people that are asked to report."""

    def parameters(self, study: "PatternCount") -> dict[str, Parameter]:
        """Return the columns, and the share of people that report."""
        return {"columns": tuple(study.columns), "sample": float(self.sampled)}

    def note(self, algorithm: Counts) -> dict[str, str]:
        """Return further remarks for the preview, by name."""
        return {}

    def doubts(self, algorithm: Counts) -> tuple[str, ...]:
        """Return what the expected error does not include, as warnings."""
        return ()

    def variance(self, study: "PatternCount", algorithm: Any, federation: Federation, counts: Array) -> Array:
        """Return the variance of every cell's estimate for these counts."""
        return np.asarray(algorithm.variance(counts))

    def expect(self, study: "PatternCount", algorithm: Counts, federation: Federation) -> Expectation:
        """Return the standard error of a count, where it is the same however people spread over the patterns."""
        cells, sizes = algorithm.layout.cells, [group.size for group in algorithm.layout.groups]
        tables = [
            federation.people * reduce(np.multiply.outer, [rises / rises.sum() for rises in parts])
            for parts in ([np.ones(size) for size in sizes], [np.arange(1.0, size + 1) for size in sizes])
        ]
        errors = [
            float(np.sqrt(self.variance(study, algorithm, federation, np.asarray(table)).mean())) for table in tables
        ]
        error = ExpectedError.if_same("unbiased_", errors, "people", PATTERNS)
        words = {} if error.value is None else {"95 % of counts are within": f"{2 * error.value:,.3g} people"}
        words |= self.note(algorithm)
        warnings = list(self.doubts(algorithm))
        if min(errors) > federation.people / cells:
            warnings.append(
                "The noise of a count exceeds the average count: ask for fewer levels, or a larger epsilon."
            )
        if cells > federation.people / 10:
            warnings.append(f"{cells:,} patterns for {federation.people:,} people: most counts are below ten.")
        return Expectation(words, tuple(warnings), (error,))

    def learn(self, study: "PatternCount", federation: Federation, value: CountTable) -> dict[str, Any]:
        """Return one count and one error for each combination of levels."""
        index = _index(study, federation)
        return {
            "counts_": pd.Series(value.counts.ravel(), index=index, name="count"),
            "stderr_": pd.Series(value.stderr.ravel(), index=index, name="stderr"),
            "unbiased_": pd.Series(value.unbiased.ravel(), index=index, name="unbiased"),
        }


class SecureTables(CountMethod):
    """Pair tables computed on secret shares. For more than two parties, the table of greatest entropy that agrees with them."""

    name = "secure"
    does = "pair tables with the noise of a single count; more than two parties: a fit to all pairs, not a count"
    guarantee = "pure ε at δ = 0, else (ε, δ)"
    adversary = "the coordinator and up to c colluding parties"
    delta = "optional"

    def protocol(
        self, study: "PatternCount", federation: Federation, price: Price, repeat: int
    ) -> PairCounts | IndependentCounts:
        """Return an algorithm that opens all pair tables at once. The columns of a single party need no shares."""
        table = table_layout(federation, study.columns)
        if len(table.groups) > 1:
            return PairCounts(table, price, federation.people)
        return IndependentCounts(table, _share(study, price, 1), federation.people)

    def variance(self, study: "PatternCount", algorithm: Any, federation: Federation, counts: Array) -> Array:
        """Return the variance that opened values will have."""
        if len(algorithm.layout.groups) == 1:
            return super().variance(study, algorithm, federation, counts)
        plan = self.draft(study, algorithm, federation)
        return variance_from_pairs(counts, read_joint(plan, "tables").noise.opened_variance)

    def doubts(self, algorithm: Counts) -> tuple[str, ...]:
        """Return a warning if the result is a fit and not a count."""
        return (FITTED,) if len(algorithm.layout.groups) > 2 else ()

    def receipt(self, study: "PatternCount", findings: Findings) -> str:
        """Return the receipt; it says if the result is a fit and not a count."""
        fitted = len(findings.plan.parties) > 2
        return findings.receipt + ("; a fit to pairs of parties, not a count" if fitted else "")


class Response(CountMethod):
    """Randomised response: each person's category is randomised at each party.

    Parameters
    ----------
    sample
        The share of people that public coins choose to report. It saves communication. It adds no privacy, because everybody can
        see who was chosen.
    """

    name = "response"
    does = "unbiased counts from randomised categories, with standard errors, and counts made consistent"
    guarantee = "pure ε, local differential privacy"
    adversary = "the coordinator and any parties"
    delta = "not used"
    reference = "primitives"
    constraints = {"sample": Real(0, 1, closed="right")}

    def __init__(self, *, sample: float = 1.0) -> None:
        self.sample = sample

    @property
    def sampled(self) -> float:  # type: ignore[override]
        """The option ``sample``."""
        return self.sample

    def is_local(self, study: "PatternCount") -> bool:
        """Return True: every person's category is randomised on its own."""
        return True

    def protocol(self, study: "PatternCount", federation: Federation, price: Price, repeat: int) -> ResponseCounts:
        """Return an algorithm with one report per person and party."""
        require_sample(self.sample, federation.people)
        table = table_layout(federation, study.columns)
        share = _share(study, price, len(table.groups))
        return ResponseCounts(table, share, federation.people, float(self.sample), repeat)

    def note(self, algorithm: Counts) -> dict[str, str]:
        """Return a remark that consistent counts have smaller errors."""
        return {"after making counts consistent": "the error is smaller: no count is negative, and they add up"}


class Independent(CountMethod):
    """Products of noisy histograms of each party's columns."""

    name = "independent"
    does = "products of noisy histograms: right only where parties' columns are independent"
    guarantee = "pure ε"
    adversary = "the coordinator and any parties"
    delta = "not used"

    def protocol(self, study: "PatternCount", federation: Federation, price: Price, repeat: int) -> IndependentCounts:
        """Return an algorithm with one histogram per party."""
        table = table_layout(federation, study.columns)
        return IndependentCounts(table, _share(study, price, len(table.groups)), federation.people)

    def doubts(self, algorithm: Counts) -> tuple[str, ...]:
        """Return a warning that the error of assuming independence comes on top."""
        return (MULTIPLIED,) if len(algorithm.layout.groups) > 1 else ()


def require_sample(sample: float, people: int) -> None:
    """Refuse a share of people that is expected to choose nobody."""
    if sample * people < 1:
        raise BadInput(
            f"A sample of {sample:g} of {people:,} people is less than one person.",
            remedy=f"Use sample={2 / people:.1g} or more.",
        )


def _share(study: "PatternCount", price: Price, parties: int) -> Price:
    """Return the price of each party's release; δ is not spent."""
    return party_price(Price(price.nano, 0.0), parties, study.unit)


def _index(study: "PatternCount", federation: Federation) -> pd.MultiIndex:
    levels = []
    for name in study.columns:
        description = federation.describe([name])[name]
        assert not description.is_number  # the layout refused anything else
        levels.append(list(description.levels))
    return pd.MultiIndex.from_product(levels, names=list(study.columns))


def noise_of_counts(plan: Plan, columns: Mapping[str, Column]) -> tuple[CountNoise, int | None]:
    """Return the noise of a count that a plan releases, and how many people its table holds if that is public.

    Refuse a plan whose table was not counted, or whose errors are not independent from cell to cell.
    """
    if plan.method != SecureTables.name or len(plan.parties) > 2:
        raise BadInput(
            "This table is a fit, or its errors depend on each other: it cannot be tested for independence.",
            remedy='Count two columns, or columns of two parties, with method="secure".',
        )
    leaves_out = any(column.excludes for column in columns.values())
    people = None if leaves_out else plan.people
    if len(plan.parties) == 2:
        law = read_joint(plan, plan.steps[0].name).noise
        assert isinstance(law, TableNoise)  # two parties count pairs
        parties = len(law.parties)
        if law.family == "gaussian":
            return discrete_gaussians(float(law.share), parties), people
        return discrete_laplaces(float(law.share), parties / law.honest), people
    (step,) = plan.steps
    assert step.price is not None  # a histogram has one
    return discrete_laplaces(float(laplace_scale(step.price, 1)), 1.0), people
