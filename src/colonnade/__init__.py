"""Colonnade: private analysis of columns that different organisations hold about the same people.

>>> import colonnade as cn
>>> federation = cn.datasets.three_organisations(people=1_000).federation(budget=cn.Budget(epsilon=2.0))
>>> study = cn.PatternCount(["bank.segment", "telco.plan"], method="response", epsilon=2.0).fit(federation)
>>> study.privacy_.epsilon(observer="coordinator", unit="person")
2.0
"""

from colonnade import datasets
from colonnade._version import __version__
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.release import MomentsRelease
from colonnade.errors import (
    BadInput,
    BoundsRequired,
    BudgetExceeded,
    ColonnadeError,
    LedgerCorrupt,
    NonPrivateRefused,
    NotEnoughComputeNodes,
    PlanMismatch,
    PolicyRefusal,
    ProtocolError,
    ReleaseLost,
    SchemaMismatch,
)
from colonnade.estimators.kmeans import KMeans
from colonnade.estimators.kmedian import KMedian
from colonnade.estimators.linear_regression import LinearRegression
from colonnade.estimators.logistic_regression import LogisticRegression
from colonnade.estimators.moment import Moment
from colonnade.estimators.pattern_count import PatternCount
from colonnade.estimators.pca import PCA
from colonnade.party.party import Party
from colonnade.party.policy import Policy
from colonnade.privacy.price import Budget
from colonnade.result import PrivacyStatement
from colonnade.schema import Category, Numeric, Schema

__all__ = [
    "PCA",
    "BadInput",
    "BoundsRequired",
    "Budget",
    "BudgetExceeded",
    "Category",
    "ColonnadeError",
    "Federation",
    "KMeans",
    "KMedian",
    "LedgerCorrupt",
    "LinearRegression",
    "LogisticRegression",
    "Moment",
    "MomentsRelease",
    "NonPrivateRefused",
    "NotEnoughComputeNodes",
    "Numeric",
    "Party",
    "PatternCount",
    "PlanMismatch",
    "Policy",
    "PolicyRefusal",
    "PrivacyStatement",
    "ProtocolError",
    "ReleaseLost",
    "Schema",
    "SchemaMismatch",
    "__version__",
    "datasets",
]
