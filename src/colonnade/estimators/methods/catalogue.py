"""Every method of every estimator in one table, from the methods themselves: what README and documentation show."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from colonnade.estimators.coreset import Coreset
from colonnade.estimators.kmeans import KMeans
from colonnade.estimators.kmedian import KMedian
from colonnade.estimators.linear_regression import LinearRegression
from colonnade.estimators.logistic_regression import LogisticRegression
from colonnade.estimators.methods.method import Method
from colonnade.estimators.moment import Moment
from colonnade.estimators.pattern_count import PatternCount
from colonnade.estimators.pca import PCA
from colonnade.estimators.study import Study

__all__ = ["BEGIN", "END", "ESTIMATORS", "REFERENCES", "MethodRow", "catalogue", "method_table"]

ESTIMATORS: Sequence[type[Study]] = (
    PatternCount,
    Moment,
    KMeans,
    KMedian,
    PCA,
    LinearRegression,
    LogisticRegression,
    Coreset,
)
REFERENCES = {
    "primitives": "Primitives",
    "clustering": "Private vertical clustering",
    "secure-pca": "Secure PCA",
    "functional": "Functional mechanism across parties",
    "coresets": "Coresets",
}
"""The papers that methods follow: anchor and title in ``docs/references.md``."""
BEGIN = "<!-- methods: written by colonnade.estimators.methods.catalogue -->"
END = "<!-- end of methods -->"
HEADER = ("estimator", "method", "what it does", "guarantee", "against", "δ", "follows")


@dataclass(frozen=True)
class MethodRow:
    """One method of one estimator.

    Parameters
    ----------
    estimator
        By name.
    method
        Its class.
    default
        Whether the estimator uses it unless told otherwise.
    """

    estimator: str
    method: type[Method[Any]]
    default: bool

    def cells(self, references: str) -> tuple[str, ...]:
        """Return the row as it is shown; ``references`` is where the page of references is."""
        method, anchor = self.method, self.method.reference
        follows = f"[{REFERENCES[anchor]}]({references}#{anchor})" if anchor else ""
        return (
            f"`{self.estimator}`",
            f'`"{method.name}"`' + (" (default)" if self.default else ""),
            method.does,
            method.guarantee,
            method.trust,
            method.delta,
            follows,
        )


def catalogue() -> list[MethodRow]:
    """Return every method of every estimator, the default first."""
    return [
        MethodRow(estimator.__name__, method, place == 0)
        for estimator in ESTIMATORS
        for place, method in enumerate(estimator.offers)
    ]


def method_table(references: str) -> str:
    """Return the table in Markdown, between the marks that a page has around it.

    Examples
    --------
    >>> print(method_table("docs/references.md").splitlines()[1])
    | estimator | method | what it does | guarantee | against | δ | follows |
    """
    rows = [HEADER, tuple("---" for _ in HEADER), *(row.cells(references) for row in catalogue())]
    return "\n".join([BEGIN, *(f"| {' | '.join(row)} |" for row in rows), END])
