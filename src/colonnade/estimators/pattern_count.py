"""`PatternCount`: how many people show each combination of categories at several parties."""

from collections.abc import Sequence
from typing import ClassVar

from colonnade.constraints import ColumnList
from colonnade.estimators.methods.counts import Independent, Response, SecureTables
from colonnade.estimators.methods.method import GivenMethod
from colonnade.estimators.study import COMMON, Study
from colonnade.plan import Unit

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
        party; unbiased, local differential privacy; its options are on `cn.methods.Response`) or ``"independent"`` (products
        of noisy one-way histograms).
    epsilon
        The price. There is no default.
    delta
        0 for a pure guarantee; with ``"secure"``, a positive δ takes Gaussian noise instead of Laplace.
    unit
        ``"person"``: ε covers one person's records at all parties together, each party paying an equal part;
        ``"party"``: ε covers one person's record at any one party.

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
    offers = (SecureTables, Response, Independent)
    constraints = {**COMMON, "columns": ColumnList()}
    learned: ClassVar[tuple[str, ...]] = ("counts_", "stderr_", "unbiased_")
    essential: ClassVar[tuple[str, ...]] = ("counts_",)

    def __init__(
        self,
        columns: Sequence[str],
        *,
        method: GivenMethod = "secure",
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
    ) -> None:
        self.columns = columns
        self.method = method
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
