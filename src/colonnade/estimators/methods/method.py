"""`Method`, the base of all methods: options, a guarantee in words, and how it plans, predicts its error and learns.

An estimator names its method (``method="gradient"``) or is given one as an object with options of its own
(``method=cn.methods.Gradient(steps=500)``) or, as a study file writes it, as a mapping
(``method = {name = "gradient", steps = 500}``). `method_from` turns all three into the object that the estimator works with.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from sklearn.base import BaseEstimator

from colonnade.constraints import Constraint, checked_parameters
from colonnade.coordinator.driver import Findings
from colonnade.coordinator.federation import Federation
from colonnade.errors import BadInput
from colonnade.estimation.expected_errors import ExpectedError
from colonnade.plan import RELATION, Parameter, Plan
from colonnade.privacy.accounting import Price, Unit
from colonnade.protocol.messages import Algorithm
from colonnade.steps.kind import Registry

if TYPE_CHECKING:
    from colonnade.estimators.study import Study


StudyType = TypeVar("StudyType", bound="Study", contravariant=True)  # noqa: PLC0105
"""The estimators that offer a method."""


@dataclass(frozen=True)
class Expectation:
    """What a method predicts before it runs, from public facts alone.

    Parameters
    ----------
    words
        What to expect: names of figures, and what to say about them.
    warnings
        Warnings to the user.
    errors
        The expected errors, the most important one first. One may be unknown, for a reason. Empty if a method has none.
    """

    words: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    errors: tuple[ExpectedError, ...] = ()


class Method(BaseEstimator, Generic[StudyType]):
    """How an estimator gets its result.

    The parameters of a method's constructor are the options that only this method has. A method never sees data: it plans what
    the parties are asked, and reads what was opened. The study that it is given has plain, checked parameters, and its
    ``method`` is this object.
    """

    name: ClassVar[str]
    """The name that ``method=`` takes, and that the plan holds."""
    does: ClassVar[str]
    """What it does, in one line."""
    guarantee: ClassVar[str]
    """The guarantee, in one line."""
    adversary: ClassVar[str]
    """The adversary that the guarantee is against, in one line."""
    delta: ClassVar[Literal["not used", "optional", "needed"]]
    """Whether it takes a positive δ."""
    reference: ClassVar[str] = ""
    """The paper that it follows, as an anchor of ``docs/references.md``."""
    private: ClassVar[bool] = True
    """Whether it is differentially private."""
    constraints: ClassVar[Mapping[str, Constraint]] = {}
    """What its options may be."""
    unused: ClassVar[Mapping[str, str]] = {}
    """Parameters of the estimator that it does not use, and what to type instead."""

    def task(self, study: StudyType) -> str:
        """Return the name of the task, by which policies allow the study."""
        return study.task

    def price(self, study: StudyType) -> Price | None:
        """Return the price of the study for its unit; ``None`` for a study that is not private."""
        return Price.of(study.epsilon, study.delta)

    def needs_delta(self, study: StudyType, federation: Federation) -> bool:
        """Return whether this study has no meaning at δ = 0."""
        return self.delta == "needed"

    def unit(self, study: StudyType) -> Unit:
        """Return the unit that the price protects."""
        return study.unit

    def relation(self, study: StudyType) -> str:
        """Return the neighbouring relation of the guarantee."""
        return RELATION

    def parameters(self, study: StudyType) -> dict[str, Parameter]:
        """Return the parameters that identify the study besides its steps."""
        return {}

    def is_local(self, study: StudyType) -> bool:
        """Return whether local differential privacy holds."""
        return False

    def draft(self, study: StudyType, algorithm: Any, federation: Federation) -> Plan:
        """Return a plan of the algorithm that is never run: it says how large the noise would be."""
        return federation._driver.plan(
            algorithm, task=study.task, method=self.name, price=algorithm.price, unit=self.unit(study), parameters={}
        )

    def protocol(self, study: StudyType, federation: Federation, price: Price, repeat: int) -> Algorithm:
        """Return the algorithm that the coordinator runs."""
        raise NotImplementedError

    def expect(self, study: StudyType, algorithm: Any, federation: Federation) -> Expectation:
        """Return what to expect before anything runs, from public facts alone.

        It is called again for other ε, so it depends on nothing but its arguments. Where the noise alone does not
        decide an error, it is not known.
        """
        raise NotImplementedError

    def learn(self, study: StudyType, federation: Federation, value: Any) -> dict[str, Any]:
        """Return the fitted attributes, from what the protocol returned."""
        raise NotImplementedError

    def receipt(self, study: StudyType, findings: Findings) -> str:
        """Return the receipt."""
        return findings.receipt

    def checked(self) -> "Method[StudyType]":
        """Return the same method with plain options. Refuse options that are not allowed."""
        return type(self)(**checked_parameters(self.get_params(deep=False), self.constraints))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.get_params() == other.get_params()

    __hash__ = None  # type: ignore[assignment]  # options can be changed


METHODS: Registry[tuple[str, str], type[Method[Any]]] = Registry("methods")
"""What packages add to the methods that estimators offer themselves, by the estimator's name and the method's."""


def methods_of(study: "type[Study]") -> tuple[type[Method[Any]], ...]:
    """Return every method of an estimator: those that it offers itself, the default first, and those of packages."""
    return (*study.offers, *(method for (name, _), method in METHODS.items() if name == study.listed_name()))


class MethodNames:
    """The names of an estimator's methods, as an attribute of its class."""

    def __get__(self, study: "Study | None", kind: "type[Study]") -> tuple[str, ...]:
        return tuple(method.name for method in methods_of(kind))


GivenMethod = str | Mapping[str, Any] | Method[Any]
"""A method as a user gives it."""


def method_from(given: object, study: "type[Study]") -> Method[Any]:
    """Return the method that an estimator is to use.

    Parameters
    ----------
    given
        A name, an object of `colonnade.methods`, or a mapping with ``name`` and options. An object of another estimator's method
        is accepted if this estimator has a method of that name with the options that were set.
    study
        The estimator's class.

    Examples
    --------
    >>> import colonnade as cn
    >>> method_from({"name": "gradient", "steps": 200}, cn.LogisticRegression)
    Gradient(steps=200)
    >>> method_from(cn.methods.Coreset(gather=False), cn.KMeans)
    ClusterCoreset(gather=False)
    """
    name, options = _name_and_options(given, study)
    kind = next((kind for kind in study.offers if kind.name == name), None)
    if kind is None and isinstance(name, str):
        kind = METHODS.get((study.listed_name(), name))
    if kind is None:
        raise BadInput(
            f"{study.__name__} has no method {name!r}.", remedy=f"Use one of {', '.join(map(repr, study.methods))}."
        )
    if isinstance(given, kind):
        return given
    unknown = [option for option in options if option not in kind().get_params()]
    if unknown:
        known = ", ".join(kind().get_params()) or "none"
        raise BadInput(
            f"Method {name!r} of {study.__name__} has no option {unknown[0]!r}.", remedy=f"Its options: {known}."
        )
    return kind(**options)


def _name_and_options(given: object, study: "type[Study]") -> tuple[object, dict[str, Any]]:
    if isinstance(given, Method):
        defaults = type(given)().get_params(deep=False)
        options = given.get_params(deep=False)
        return given.name, {name: value for name, value in options.items() if value != defaults[name]}
    if isinstance(given, Mapping):
        if "name" not in given:
            raise BadInput(
                "A method given as a mapping needs a name.",
                remedy=f"Add name = one of {', '.join(map(repr, study.methods))}.",
            )
        return given["name"], {str(name): value for name, value in given.items() if name != "name"}
    return (str(given) if isinstance(given, str) else given), {}
