"""A release of moments that several estimators can be fitted on at no further price."""

from collections.abc import Mapping
from dataclasses import dataclass

from colonnade.coordinator.algorithms.moments import Moments
from colonnade.coordinator.findings import Findings
from colonnade.plan import Plan
from colonnade.result import PrivacyStatement
from colonnade.schema import Column
from colonnade.transport.transcript import Transcript

__all__ = ["MomentsRelease"]


@dataclass(frozen=True, eq=False)
class MomentsRelease:
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

    @property
    def privacy_(self) -> PrivacyStatement:
        """Who could see what, at what price."""
        return self.findings.privacy

    @property
    def transcript_(self) -> Transcript:
        """What was said."""
        return self.findings.transcript

    @property
    def receipt_(self) -> str:
        """A line to keep."""
        return self.findings.receipt

    @property
    def plan_(self) -> Plan:
        """What was asked."""
        return self.findings.plan

    def __repr__(self) -> str:
        return f"MomentsRelease({len(self.columns)} columns, {self.moments.count:,} people)"
