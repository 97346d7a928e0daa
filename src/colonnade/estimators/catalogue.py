"""Every estimator of this library: found by name for `load`, and listed with its methods for the documentation."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from colonnade import estimators
from colonnade.errors import BadInput
from colonnade.estimators.methods.method import Method, methods_of
from colonnade.estimators.model_file import STUDY_ATTRIBUTES, read_model
from colonnade.estimators.study import Study
from colonnade.steps.kind import PACKAGES


def load(path: str | Path) -> Any:
    """Return a fitted estimator from a file that ``est.save(path)`` wrote.

    The file carries the study's statement and receipt. ``print(model.privacy_)`` says who learned what and when the
    guarantee fails; ``print(model.receipt_)`` also says what each party's ledger was charged.

    Nothing in the file is executed. Its digest, its plan's hash and its schema are checked here. When the model is used with a
    federation, that federation's schema is compared with it.

    Parameters
    ----------
    path
        The model file.

    Examples
    --------
    >>> import colonnade as cn, tempfile, pathlib
    >>> federation = cn.datasets.three_organisations(people=2_000).federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
    >>> model = cn.LinearRegression("bank.income", columns=["telco.minutes"], epsilon=1.0, delta=1e-5).fit(federation)
    >>> path = pathlib.Path(tempfile.mkdtemp(), "model.json")
    >>> model.save(path)
    >>> loaded = cn.load(path)
    >>> bool(loaded.coef_ == model.coef_), loaded.receipt_ == model.receipt_
    (True, True)
    """
    name, parameters, fitted = read_model(path)
    kind = next((kind for kind in every_estimator() if kind.__name__ == name), None)
    if kind is None:
        raise BadInput(
            f"The file holds a model of type {name!r}, which this version does not have.",
            remedy="Use a newer version of colonnade.",
        )
    if set(parameters) != set(inspect.signature(kind).parameters):
        raise BadInput(
            "The file's parameters are not those of its estimator.",
            remedy="Use the version of colonnade that wrote it.",
        )
    declared = {*kind.learned, *STUDY_ATTRIBUTES}
    if not set(fitted) <= declared or any(attribute not in fitted for attribute in kind.essential):
        raise BadInput(
            "The file's learned attributes are not those of its estimator.",
            remedy="Use the version of colonnade that wrote it.",
        )
    model = kind(**parameters)
    for attribute, value in fitted.items():
        setattr(model, attribute, value)
    model._check_learned()  # noqa: SLF001  # the estimator's own check of its own state
    return model


def every_estimator() -> list[type[Study]]:
    """Return every estimator of this library, also those that were not imported yet."""
    for module in iter_modules(estimators.__path__):
        import_module(f"{estimators.__name__}.{module.name}")
    for package in PACKAGES:
        import_module(f"{package}.estimators")
    return [kind for kind in dict.fromkeys(_below(Study)) if "task" in vars(kind)]  # one may be below two others


def _below(kind: type[Study]) -> Iterator[type[Study]]:
    for one in kind.__subclasses__():
        if one.__module__.startswith("colonnade."):
            yield one
        yield from _below(one)


REFERENCES = {
    "primitives": "Primitives",
    "clustering": "Private vertical clustering",
    "secure-pca": "Secure PCA",
    "functional": "Functional mechanism across parties",
    "coresets": "Coresets",
    "private-pgm": "Private-PGM",
}
"""The papers that methods follow, by their anchors in ``docs/references.md``."""
BEGIN = "<!-- methods: written by colonnade.estimators.catalogue -->"
END = "<!-- end of methods -->"
HEADER = ("estimator", "method", "what it does", "guarantee", "against", "δ", "follows")


@dataclass(frozen=True)
class MethodRow:
    """One method of one estimator.

    Parameters
    ----------
    estimator
        The name of the estimator.
    method
        The class of the method.
    default
        Whether the estimator uses it by default.
    """

    estimator: str
    method: type[Method[Any]]
    default: bool

    def cells(self, references: str) -> tuple[str, ...]:
        """Return the cells of the table; ``references`` is the path of the page of references."""
        method, anchor = self.method, self.method.reference
        follows = f"[{REFERENCES[anchor]}]({references}#{anchor})" if anchor else ""
        return (
            f"`{self.estimator}`",
            f'`"{method.name}"`' + (" (default)" if self.default else ""),
            method.does,
            method.guarantee,
            method.adversary,
            method.delta,
            follows,
        )


def catalogue() -> list[MethodRow]:
    """Return every method of every estimator, the default first. Estimators without a private method come last."""
    estimators = sorted(
        every_estimator(), key=lambda one: (not any(method.private for method in methods_of(one)), one.__name__)
    )
    return [
        MethodRow(estimator.__name__, method, place == 0)
        for estimator in estimators
        for place, method in enumerate(methods_of(estimator))
    ]


def method_table(references: str) -> str:
    """Return the table in Markdown, between the comments that mark its place on a page.

    Examples
    --------
    >>> print(method_table("docs/references.md").splitlines()[1])
    | estimator | method | what it does | guarantee | against | δ | follows |
    """
    rows = [HEADER, tuple("---" for _ in HEADER), *(row.cells(references) for row in catalogue())]
    return "\n".join([BEGIN, *(f"| {' | '.join(row)} |" for row in rows), END])
