"""Every method of every estimator in one table, from the methods themselves: what README and documentation show."""

from dataclasses import dataclass
from typing import Any

from colonnade.estimators.loading import every_estimator
from colonnade.estimators.methods.method import Method

__all__ = ["BEGIN", "END", "REFERENCES", "MethodRow", "catalogue", "method_table"]

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
    """Return every method of every estimator, the default first; estimators by name, those without a private method last."""
    estimators = sorted(
        every_estimator(), key=lambda one: (not any(method.private for method in one.offers), one.__name__)
    )
    return [
        MethodRow(estimator.__name__, method, place == 0)
        for estimator in estimators
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
