"""`PatternCount`: how many people show each combination of categories at several parties."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from colonnade.coding.names import plain_names
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.findings import Findings
from colonnade.coordinator.protocols.layout import layout
from colonnade.coordinator.protocols.pair_counts import PairCounts
from colonnade.coordinator.protocols.pattern_counts import CountTable, IndependentCounts, ResponseCounts
from colonnade.errors import BadInput
from colonnade.estimators.preview import Expectation, ExpectedError
from colonnade.estimators.study import Study
from colonnade.plan import Parameter
from colonnade.privacy.neighbours import Unit, party_price
from colonnade.privacy.price import Price
from colonnade.protocol.rounds import Algorithm
from colonnade.schema import Category
from colonnade.steps.registry import read_joint

__all__ = ["PatternCount"]


class PatternCount(Study):
    """Count people by combination of categories, where the categories are held by different parties.

    Parameters
    ----------
    columns
        Category columns such as ``["bank.segment", "telco.plan"]``, one or more a party.
    method
        ``"secure"`` (pair tables computed on secret shares; with more than two parties, the table of greatest entropy
        that fits them: a fit to pairs, not a count), ``"response"`` (each person's category is randomised at each
        party; unbiased, local differential privacy) or ``"independent"`` (products of noisy one-way histograms).
    epsilon
        The price. There is no default.
    delta
        0 for a pure guarantee; with ``"secure"``, a positive δ takes Gaussian noise instead of Laplace.
    unit
        ``"person"``: ε covers one person's records at all parties together, each party paying an equal part;
        ``"party"``: ε covers one person's record at any one party.
    sample
        With ``"response"``: the rate at which public coins choose who reports. It saves communication; it buys no privacy,
        because everyone can see who was chosen.

    Attributes
    ----------
    counts_ : pandas.Series
        Non-negative counts that add up to the number of people, over every combination of levels, last column fastest.
    stderr_ : pandas.Series
        The standard error that the noise gives the unbiased estimate of each count.
    unbiased_ : pandas.Series
        The estimate before it was made non-negative and consistent.
    privacy_, transcript_, receipt_
        The statement, what was said, and a line to keep.

    Privacy
    -------
    Guarantee: ``"secure"``: ε (pure at δ = 0) for the tables as a whole, against the coordinator and up to `collusion` parties.
    Otherwise pure ε: each party's release is ε/v-DP (``unit="person"``, v parties) or ε-DP (``unit="party"``); parties use
    independent randomness, so losses add.
    Neighbours: zero-out; for ``"response"`` also replacement of a record, at the same price.
    Adversary: the coordinator together with up to `collusion` parties (``"secure"``), or any set of parties (otherwise).
    Spends: once at every party whose columns are named.
    Not released: any person's category; which people are missing a value.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=2_000).federation(budget=cn.Budget(epsilon=4.0))
    >>> study = cn.PatternCount(["bank.segment", "telco.plan"], method="response", epsilon=4.0)
    >>> round(study.fit(federation).counts_.sum())
    2000
    """

    task: ClassVar[str] = "pattern-count"
    methods: ClassVar[tuple[str, ...]] = ("secure", "response", "independent")
    learned: ClassVar[tuple[str, ...]] = ("counts_", "stderr_", "unbiased_")
    essential: ClassVar[tuple[str, ...]] = ("counts_",)

    def __init__(
        self,
        columns: Sequence[str],
        *,
        method: str = "secure",
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
        sample: float = 1.0,
    ) -> None:
        self.columns = columns
        self.method = method
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.sample = sample

    def _algorithm(self, federation: Federation, price: Price, repeat: int) -> Algorithm:
        table = layout(federation, self.columns)
        if self.method != "response" and self._rate() != 1:
            raise BadInput('sample goes with method="response".')
        if self.method == "secure" and len(table.groups) > 1:
            return PairCounts(table, price, federation.people)
        share = party_price(Price(price.nano, 0.0), len(table.groups), self.unit)
        if self.method == "response":
            return ResponseCounts(table, share, federation.people, self._rate(), repeat)
        return IndependentCounts(table, share, federation.people)

    def _rate(self) -> float:
        if isinstance(self.sample, bool) or not isinstance(self.sample, int | float) or not 0 < self.sample <= 1:
            raise BadInput("sample must be a rate in (0, 1].")
        return float(self.sample)

    def _parameters(self) -> dict[str, Parameter]:
        return {"columns": tuple(plain_names(self.columns)), "sample": self._rate()}

    def _is_local(self) -> bool:
        return self.method == "response"

    def _learn(self, federation: Federation, value: CountTable) -> None:
        index = self._index(federation)
        self.counts_ = pd.Series(value.counts.ravel(), index=index, name="count")
        self.stderr_ = pd.Series(value.stderr.ravel(), index=index, name="stderr")
        self.unbiased_ = pd.Series(value.unbiased.ravel(), index=index, name="unbiased")

    def _index(self, federation: Federation) -> pd.MultiIndex:
        levels = []
        for name in self.columns:
            description = federation.column(name)[2]
            assert isinstance(description, Category)  # the layout refused anything else
            levels.append(list(description.levels))
        return pd.MultiIndex.from_product(levels, names=list(self.columns))

    def _expect(self, algorithm: Any, federation: Federation) -> Expectation:
        cells = algorithm.layout.cells
        uniform = np.full([group.size for group in algorithm.layout.groups], federation.people / cells)
        one = np.zeros_like(uniform)
        one.flat[0] = federation.people
        even, uneven = (float(np.sqrt(self._variance(algorithm, federation, table).mean())) for table in (uniform, one))
        stderr = even
        expected = {
            "standard error of a count": f"about {stderr:,.1f} people, if all {cells:,} patterns were equally frequent; "
            f"nineteen counts in twenty within {2 * stderr:,.1f}",
        }
        if self.method == "response":
            expected["after making counts consistent"] = "less than that: none is negative, and they add up"
        if self.method == "secure" and len(algorithm.layout.groups) > 2:
            expected["what it is"] = "a fit to all pairs of parties, not a count; method='response' is the unbiased way"
        if self.method == "independent":
            expected["not covered"] = "the error of assuming that the parties' columns are independent"
        warnings = []
        if stderr > federation.people / cells:
            warnings.append(
                "The noise of a count exceeds the average count: ask for fewer levels, or a larger epsilon."
            )
        if cells > federation.people / 10:
            warnings.append(f"{cells:,} patterns for {federation.people:,} people: most counts are below ten.")
        error = ExpectedError(
            "unbiased_", even, "people", min(even, uneven), max(even, uneven), "patterns equally frequent"
        )
        return expected, tuple(warnings), (error,)

    def _variance(self, algorithm: Any, federation: Federation, counts: Any) -> Any:
        if not isinstance(algorithm, PairCounts):
            return algorithm.variance(counts)
        plan = federation.plan(
            algorithm, task=self.task, method=self.method, price=algorithm.price, unit=self.unit, parameters={}
        )
        return algorithm.variance(counts, read_joint(plan, "tables").noise.opened_variance)

    def _receipt(self, findings: Findings) -> str:
        fitted = self.method == "secure" and len(findings.plan.parties) > 2
        return findings.receipt + ("; a fit to pairs of parties, not a count" if fitted else "")
