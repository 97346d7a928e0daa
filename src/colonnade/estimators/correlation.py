"""`Correlation`: correlations of columns that different parties hold, from one release of second moments."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from colonnade.coding.columns import features_of
from colonnade.constraints import ColumnList, Optional
from colonnade.errors import BadInput
from colonnade.estimation.expected_errors import ExpectedError
from colonnade.estimation.moment_summaries import MomentSummary, PairEstimates
from colonnade.estimation.moments import Moments
from colonnade.estimators.answers import require_fitted, require_matching
from colonnade.estimators.methods.method import Expectation, GivenMethod
from colonnade.estimators.methods.moments import Secure
from colonnade.estimators.second_moments import MomentStudy
from colonnade.estimators.study import COMMON
from colonnade.privacy.accounting import Unit
from colonnade.schema import Column
from colonnade.steps.registry import STUDIES

__all__ = ["Correlation"]

SPREAD = "the noise of a covariance is known, and how far columns spread between their bounds is not"
MOSTLY_OPEN = "Correlations would be lost in the noise: ask for fewer columns, narrower bounds or a larger epsilon."


class Correlation(MomentStudy):
    """Correlations of columns that different parties hold.

    A number enters as it is, a category level by level: the correlation with a level is that with its indicator.

    Parameters
    ----------
    columns
        The columns; all by default.
    method
        ``"secure"``: one noisy Gram matrix, computed on secret shares (*Secure PCA*, docs/references.md#secure-pca). Options:
        `cn.methods.Secure`.
    epsilon, delta
        The price. There is no default for ε, and δ must be positive.
    unit
        ``"person"``: ε covers one person's records at all parties together. ``"party"``: one person's record at any one party.

    Attributes
    ----------
    correlation_ : pandas.DataFrame
        The correlations, one row and one column per coded column. It is the nearest positive semi-definite matrix to what was
        measured. A correlation that the noise leaves open counts as 0 there, and its error is infinite.
    stderr_ : pandas.DataFrame
        The standard error that the noise causes, before the projection.
    mean_ : pandas.Series
        Means in own units, and shares of people for levels.
    feature_names_in_ : array
        The coded columns.
    privacy_, transcript_, receipt_
        Privacy statement, message log and receipt.

    Notes
    -----
    Missing values: a missing number is the value that its column declares, and pulls correlations towards zero. A person without
    a level has 0 in every indicator of that column, or the level ``"missing"`` with ``missing="level"``.

    Privacy
    -------
    Guarantee: (ε, δ) by zCDP of the discrete Gaussian (or the Rényi curve of Skellam noise) for the whole matrix.
    Neighbours: zero-out.
    Adversary: the coordinator together with up to `collusion` parties.
    Spends: once at every party whose columns enter. Nothing, when fitted on what `Federation.moments` returned.
    Not released: any entry without noise.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
    >>> study = cn.Correlation(["bank.age", "bank.income", "telco.minutes"], epsilon=2.0, delta=1e-5).fit(federation)
    >>> study.correlation_.shape, bool(study.conf_int().low.to_numpy().min() >= -1)
    ((3, 3), True)
    """

    correlation_: pd.DataFrame
    stderr_: pd.DataFrame
    mean_: pd.Series

    task: ClassVar[str] = STUDIES["Correlation"]
    offers = (Secure,)
    constraints = {**COMMON, "columns": Optional(ColumnList())}
    learned: ClassVar[tuple[str, ...]] = (
        "correlation_",
        "stderr_",
        "mean_",
        "feature_names_in_",
        "_moments",
        "_columns",
    )
    essential: ClassVar[tuple[str, ...]] = ("correlation_", "stderr_", "_moments", "_columns")

    def __init__(
        self,
        columns: Sequence[str] | None = None,
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

    def conf_int(self, level: float = 0.95, *, total: bool = False) -> PairEstimates:
        """Return intervals of all correlations.

        Parameters
        ----------
        level
            The level of the intervals.
        total
            Whether they also cover the sampling of people. By default they cover the correlation of the same people.

        Returns
        -------
        PairEstimates
            Frames ``values``, ``stderr``, ``low`` and ``high``; ``table()`` has one row per pair.
        """
        require_fitted(self)
        return self._summary().correlation(level, total=total)

    def _summary(self) -> MomentSummary:
        matrix, variance = self._moments["matrix"], self._moments["variance"]
        moments = Moments(matrix, variance, int(self._moments["count"]), features_of(self._columns))
        return MomentSummary(moments, self._columns)

    def _table(self) -> pd.DataFrame:
        return self.conf_int().table()

    def _check(self, columns: Mapping[str, Column]) -> None:
        if len(columns) < 2:
            raise BadInput("A correlation takes two columns or more.", remedy="Name another column.")

    def _check_learned(self) -> None:
        size = len(features_of(self._columns))
        for name in ("matrix", "variance"):
            require_matching(self, self._moments.get(name), (size, size))

    def _learn_from_moments(self, moments: Moments, columns: Mapping[str, Column]) -> dict[str, Any]:
        selected = moments.select(list(columns))
        summary = MomentSummary(selected, columns)
        correlation = summary.correlation()
        return {
            "correlation_": correlation.values,
            "stderr_": correlation.stderr,
            "mean_": summary.mean()["mean"],
            "feature_names_in_": np.array(summary.names, dtype=object),
            "_moments": {"matrix": selected.matrix, "variance": selected.variance, "count": selected.count},
            "_columns": dict(columns),
        }

    def _expect_on_moments(self, width: int, variance: float, fixed: bool) -> Expectation:  # noqa: ARG002  # as of all
        deviation = math.sqrt(variance)
        words = {"noise of a covariance": f"{deviation:.2g} (after scaling to [−1, 1], where no variance is above 1)"}
        error = ExpectedError.not_known("correlation_", "as a correlation", SPREAD)
        return Expectation(words, (MOSTLY_OPEN,) if deviation > 1 else (), (error,))
