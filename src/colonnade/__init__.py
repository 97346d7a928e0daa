"""Colonnade: private analysis of columns that different organisations hold about the same people.

>>> import colonnade as cn
>>> federation = cn.datasets.three_organisations(people=1_000).federation(budget=cn.Budget(epsilon=2.0))
>>> study = cn.PatternCount(["bank.segment", "telco.plan"], method="response", epsilon=2.0).fit(federation)
>>> study.privacy_.epsilon(observer="coordinator", unit="person")
2.0

Names other than errors are imported when they are first used. ``import colonnade`` alone takes a few milliseconds, so an error
class or the command line's help does not wait for numerical libraries. Type-checkers see all names.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import colonnade.report  # noqa: F401  # registers what shows results; loads little until something is shown
from colonnade._version import __version__
from colonnade.errors import (
    AlreadyRunning,
    ApprovalNeeded,
    BadInput,
    BoundsRequired,
    BudgetExceeded,
    Busy,
    CertificateExpired,
    ColonnadeError,
    DiskFull,
    EstimateFailed,
    LedgerCorrupt,
    LoosePermissions,
    NonPrivateRefused,
    NotEnoughComputeNodes,
    PartyAway,
    PlanMismatch,
    PolicyRefusal,
    ProtocolError,
    ReleaseLost,
    SchemaMismatch,
)

if TYPE_CHECKING:
    from colonnade import datasets, methods
    from colonnade.coordinator.connect import TemporaryLedgers
    from colonnade.coordinator.driver import Analyst
    from colonnade.coordinator.federation import Federation
    from colonnade.coordinator.protocols.moment_releases import MomentsRelease
    from colonnade.estimators.additive import AdditiveClassifier, AdditiveRegressor
    from colonnade.estimators.answers import NotFittedError
    from colonnade.estimators.catalogue import load
    from colonnade.estimators.clustering import KMeans, KMedian
    from colonnade.estimators.describing import Correlation, Describe, GroupBy, Histogram, Quantiles
    from colonnade.estimators.frames import named
    from colonnade.estimators.methods.moments import NotConverged
    from colonnade.estimators.pca import PCA
    from colonnade.estimators.regression import LinearRegression, LogisticRegression
    from colonnade.estimators.releases import PatternCount
    from colonnade.estimators.scorecard import Scorecard
    from colonnade.estimators.synthetic import SyntheticTable
    from colonnade.papers.estimators import Coreset, Moment
    from colonnade.party.party import Party
    from colonnade.party.policy import Policy
    from colonnade.party.table.checking import TableCheck
    from colonnade.party.table.sources import DuckDB
    from colonnade.privacy.accounting import Budget
    from colonnade.result import PrivacyStatement
    from colonnade.schema import Category, Date, Numeric, Schema

__all__ = [
    "PCA",
    "AdditiveClassifier",
    "AdditiveRegressor",
    "AlreadyRunning",
    "Analyst",
    "ApprovalNeeded",
    "BadInput",
    "BoundsRequired",
    "Budget",
    "BudgetExceeded",
    "Busy",
    "Category",
    "CertificateExpired",
    "ColonnadeError",
    "Coreset",
    "Correlation",
    "Date",
    "Describe",
    "DiskFull",
    "DuckDB",
    "EstimateFailed",
    "Federation",
    "GroupBy",
    "Histogram",
    "KMeans",
    "KMedian",
    "LedgerCorrupt",
    "LinearRegression",
    "LogisticRegression",
    "LoosePermissions",
    "Moment",
    "MomentsRelease",
    "NonPrivateRefused",
    "NotConverged",
    "NotEnoughComputeNodes",
    "NotFittedError",
    "Numeric",
    "Party",
    "PartyAway",
    "PatternCount",
    "PlanMismatch",
    "Policy",
    "PolicyRefusal",
    "PrivacyStatement",
    "ProtocolError",
    "Quantiles",
    "ReleaseLost",
    "Schema",
    "SchemaMismatch",
    "Scorecard",
    "SyntheticTable",
    "TableCheck",
    "TemporaryLedgers",
    "__version__",
    "datasets",
    "load",
    "methods",
    "named",
]

_HOMES = {
    "coordinator.driver": ("Analyst",),
    "coordinator.federation": ("Federation",),
    "coordinator.protocols.moment_releases": ("MomentsRelease",),
    "coordinator.connect": ("TemporaryLedgers",),
    "estimators.additive": ("AdditiveClassifier", "AdditiveRegressor"),
    "estimators.releases": ("PatternCount",),
    "estimators.answers": ("NotFittedError",),
    "estimators.clustering": ("KMeans", "KMedian"),
    "estimators.describing": ("Correlation", "Describe", "GroupBy", "Histogram", "Quantiles"),
    "estimators.frames": ("named",),
    "estimators.methods.moments": ("NotConverged",),
    "estimators.regression": ("LinearRegression", "LogisticRegression"),
    "estimators.catalogue": ("load",),
    "estimators.scorecard": ("Scorecard",),
    "estimators.pca": ("PCA",),
    "estimators.synthetic": ("SyntheticTable",),
    "papers.estimators": ("Coreset", "Moment"),
    "party.party": ("Party",),
    "party.policy": ("Policy",),
    "party.table.sources": ("DuckDB",),
    "party.table.checking": ("TableCheck",),
    "privacy.accounting": ("Budget",),
    "result": ("PrivacyStatement",),
    "schema": ("Category", "Date", "Numeric", "Schema"),
}
_HOME_OF = {name: f"{__name__}.{module}" for module, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # a type-checker that saw this would take any name to exist

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used (PEP 562)."""
        if name in ("datasets", "methods"):
            return import_module(f"colonnade.{name}")
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_HOME_OF[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)  # what a reader is offered to type, and nothing that this module is made of
