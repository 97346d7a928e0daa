"""A release of moments that several estimators can be fitted on at no further price."""

from collections.abc import Mapping
from dataclasses import dataclass

from colonnade.coordinator.findings import Findings, Papers
from colonnade.estimation.moments import Moments
from colonnade.schema import Column

__all__ = ["MomentsRelease"]


@dataclass(frozen=True, eq=False)
class MomentsRelease(Papers):
    """One noisy Gram matrix and its papers; made by `Federation.moments`.

    Parameters
    ----------
    moments
        The matrix, its noise and its coded columns.
    columns
        The public descriptions of the columns in it.
    findings
        The papers of the study that released it.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=2_000).federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
    >>> release = federation.moments(["bank.age", "bank.income", "telco.minutes"], epsilon=1.0, delta=1e-5)
    >>> cn.PCA(1).fit(release).components_.shape
    (1, 3)
    """

    moments: Moments
    columns: Mapping[str, Column]
    findings: Findings

    def __repr__(self) -> str:
        return f"MomentsRelease({len(self.columns)} columns, {self.moments.count:,} people)"
