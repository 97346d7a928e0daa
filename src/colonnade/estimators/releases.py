"""`PatternCount`: counts of people by combinations of categories."""

from collections.abc import Sequence
from typing import ClassVar

import pandas as pd

from colonnade.constraints import ColumnList, Whole, checked
from colonnade.errors import BadInput
from colonnade.estimation.tables import IndependenceTest, independence_test
from colonnade.estimators.answers import require_fitted
from colonnade.estimators.methods import counts
from colonnade.estimators.methods.method import GivenMethod
from colonnade.estimators.study import COMMON, Study
from colonnade.privacy.accounting import Unit
from colonnade.runtime.public_coins import public_generator
from colonnade.steps.registry import STUDIES


class PatternCount(Study):
    """Counts of people by combination of categories that different parties hold.

    Parameters
    ----------
    columns
        Category columns such as ``["bank.segment", "telco.plan"]``, one or more per party.
    method
        ``"secure"``: tables of all pairs of parties, computed on secret shares. With more than two parties the result is the
        table of greatest entropy that agrees with them: a fit to pairs, not a count.
        ``"response"``: each person's category is randomised at each party. Unbiased, with local differential privacy
        (*Primitives*, docs/references.md#primitives). Its option is on `cn.methods.Response` (``sample``).
        ``"independent"``: products of noisy histograms of each party's columns.
    epsilon
        The price. There is no default.
    delta
        0 for a pure guarantee. With ``"secure"``, a positive δ selects Gaussian noise instead of Laplace noise.
    unit
        ``"person"``: ε covers one person's records at all parties together. ``"party"``: ε covers one person's record at any
        one party.

    Attributes
    ----------
    counts_ : pandas.Series
        Non-negative counts, one per combination of levels. The last column varies fastest. They add up to the number of people;
        where a column leaves people out, to an estimate of how many have a value in every column.
    stderr_ : pandas.Series
        The standard error of each unbiased estimate that the noise causes. The error of a fit to pairs, and of assuming
        independence, comes on top.
    unbiased_ : pandas.Series
        The estimates before they were made non-negative and consistent.
    privacy_, transcript_, receipt_
        Privacy statement, message log and receipt.

    Notes
    -----
    Missing values: all methods do the same. A column with ``missing="excluded"`` leaves people without a value out of every
    count; how many these are is private, so a share is a count divided by the sum of ``counts_``. With ``missing="level"`` they
    are counted as the level ``"missing"``. On a cohort a person without a row at a party is left out too; declare
    ``missing="excluded"`` for that, because ``"response"`` and ``"independent"`` otherwise take it that everybody has a value.

    Privacy
    -------
    Guarantee: ``"secure"``: ε (pure at δ = 0) for all tables together. Otherwise pure ε: each party's release is ε/v-DP
    (``unit="person"``, v parties) or ε-DP (``unit="party"``). Parties use independent randomness, so losses add.
    Neighbours: zero-out. For ``"response"`` also replacement of a record, at the same price.
    Adversary: the coordinator together with up to `collusion` parties (``"secure"``), or any set of parties (otherwise).
    Spends: once at every party whose columns are named.
    Not released: any person's category, and who has a missing value.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=2_000).federation(budget=cn.Budget(epsilon=4.0))
    >>> study = cn.PatternCount(["bank.segment", "telco.plan"], method="response", epsilon=4.0)
    >>> round(study.fit(federation).counts_.sum())
    2000
    """

    counts_: pd.Series
    stderr_: pd.Series
    unbiased_: pd.Series
    task: ClassVar[str] = STUDIES["PatternCount"]
    offers = (counts.SecureTables, counts.Response, counts.Independent)
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
        super().__init__(method=method, epsilon=epsilon, delta=delta, unit=unit)
        self.columns = columns

    def independence(
        self, columns: Sequence[str] | None = None, *, draws: int = 999, random_state: int = 0
    ) -> IndependenceTest:
        """Test whether two columns are independent. It costs nothing: it uses what was released, and knows its noise.

        Parameters
        ----------
        columns
            Two of the study's columns; by default its only two.
        draws
            How many tables to simulate.
        random_state
            The seed of the simulation.

        Returns
        -------
        IndependenceTest
            The p-value: the probability that noise and chance give a table as far from independence.

        Notes
        -----
        For ``method="secure"`` with columns of one or two parties. A table fitted to pairs of more parties, and a product of
        histograms, say nothing about dependence; and randomised responses have errors that are not independent from cell to cell.

        Examples
        --------
        >>> import colonnade as cn
        >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=1.0))
        >>> study = cn.PatternCount(["bank.segment", "insurer.product"], epsilon=1.0).fit(federation)
        >>> study.independence().p_value <= 1
        True
        """
        require_fitted(self)
        names = tuple(self.columns if columns is None else columns)
        if len(set(names)) != 2 or not set(names) <= set(self.columns):
            raise BadInput(
                "A test of independence takes two of the study's columns.",
                remedy=f"Name two of {', '.join(map(repr, self.columns))}.",
            )
        checked("draws", draws, Whole(99, LARGEST_DRAWS))
        noise, people = counts.noise_of_counts(self.plan_, self.schema_)
        table = self.unbiased_.groupby(level=list(names), sort=False).sum().unstack(names[1], sort=False)
        statistic, p_value = independence_test(
            table.to_numpy(dtype=float),
            noise,
            people=people,
            cells=len(self.unbiased_) // table.size,
            draws=draws,
            generator=public_generator(random_state),
        )
        return IndependenceTest((names[0], names[1]), statistic, p_value, draws)


LARGEST_DRAWS = 1_000_000
