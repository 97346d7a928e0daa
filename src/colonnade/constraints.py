"""Constraints on parameters as data: one class for each kind of constraint, with the wording of its error.

An estimator or a method declares what its parameters may be::

    constraints = {"ridge": Real(0, closed="left"), "columns": Optional(ColumnList())}

and `checked_parameters` checks them all in one place, before anything else happens. It returns plain values, which can be written
into a plan: ``numpy.str_`` becomes ``str``, and ``numpy.int64`` becomes ``int``.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, isfinite
from numbers import Integral
from numbers import Real as RealNumber
from typing import Any, Literal

from colonnade.errors import BadInput

LONGEST_SHOWN = 40


class Constraint(ABC):
    """A constraint on the value of a parameter."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What is allowed, in words that follow "must be"."""

    @property
    @abstractmethod
    def example(self) -> str:
        """An allowed value, as it would be typed."""

    @abstractmethod
    def allows(self, value: Any) -> bool:
        """Return whether a value is allowed. A truth value is no number, and a text is no list."""

    def plain(self, value: Any) -> Any:
        """Return an allowed value as one of Python's own types."""
        return value

    def problem(self, name: str, value: Any) -> str:
        """Return what is wrong with a value that is not allowed."""
        return f"{name} must be {self.words}, not {_shown(value)}."


def checked(name: str, value: Any, constraint: Constraint, *, remedy: str | None = None) -> Any:
    """Return a parameter as a plain value. Refuse a value that its constraint does not allow.

    Examples
    --------
    >>> checked("n_clusters", 3, Whole(1, 10))
    3
    >>> checked("ridge", "x", Real(0, closed="left"))
    Traceback (most recent call last):
    colonnade.errors.BadInput: [bad-input] ridge must be a number of at least 0, not 'x'. Nothing was spent. ...
    """
    if constraint.allows(value):
        return constraint.plain(value)
    raise BadInput(constraint.problem(name, value), remedy=remedy or f"For example {name}={constraint.example}.")


def checked_parameters(given: Mapping[str, Any], constraints: Mapping[str, Constraint]) -> dict[str, Any]:
    """Return all parameters, those with a constraint as plain values. Refuse the first that is not allowed."""
    return {
        name: checked(name, value, constraints[name]) if name in constraints else value for name, value in given.items()
    }


@dataclass(frozen=True)
class Whole(Constraint):
    """A whole number between two bounds, both included. The upper bound is optional."""

    low: int
    high: int | None = None

    @property
    def words(self) -> str:
        if self.high is None:
            return f"a whole number of at least {self.low:,}"
        return f"a whole number from {self.low:,} to {self.high:,}"

    @property
    def example(self) -> str:
        return str(self.low)

    def allows(self, value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, Integral):
            return False
        return self.low <= int(value) and (self.high is None or int(value) <= self.high)

    def plain(self, value: Any) -> int:
        return int(value)


@dataclass(frozen=True)
class Real(Constraint):
    """A finite number between two bounds. ``closed`` says which bounds are included. The upper bound is optional."""

    low: float
    high: float | None = None
    closed: Literal["both", "left", "right", "neither"] = "both"

    @property
    def words(self) -> str:
        """The bounds, and which of them are included."""
        lower = f"of at least {self.low:g}" if self.closed in ("both", "left") else f"above {self.low:g}"
        if self.high is None:
            return f"a number {lower}"
        upper = f"at most {self.high:g}" if self.closed in ("both", "right") else f"below {self.high:g}"
        return f"a number {lower} and {upper}"

    @property
    def example(self) -> str:
        return f"{(self.low + (self.low + 2 if self.high is None else self.high)) / 2:g}"

    def allows(self, value: Any) -> bool:
        """Return whether the value is a number within the bounds; NaN is none."""
        if isinstance(value, bool) or not isinstance(value, RealNumber) or not isfinite(value):
            return False
        number = float(value)
        above = number >= self.low if self.closed in ("both", "left") else number > self.low
        if self.high is None:
            return above
        return above and (number <= self.high if self.closed in ("both", "right") else number < self.high)

    def plain(self, value: Any) -> int | float:
        return int(value) if isinstance(value, Integral) else float(value)


@dataclass(frozen=True)
class OneOf(Constraint):
    """One of a few words, or none where ``None`` is among them."""

    options: tuple[str | None, ...]

    @property
    def words(self) -> str:
        *first, last = (repr(option) for option in self.options)
        return f"{', '.join(first)} or {last}" if first else last

    @property
    def example(self) -> str:
        return repr(self.options[0])

    def allows(self, value: Any) -> bool:
        return (value is None or isinstance(value, str)) and value in self.options

    def plain(self, value: Any) -> str | None:
        return None if value is None else str(value)


@dataclass(frozen=True)
class SomeOf(Constraint):
    """A list of a few words, each once."""

    options: tuple[str, ...]

    @property
    def words(self) -> str:
        return f"a list of {OneOf(self.options).words}, each once"

    @property
    def example(self) -> str:
        return repr([self.options[0]])

    def allows(self, value: Any) -> bool:
        words = _is_list(value) and all(isinstance(one, str) and one in self.options for one in value)
        return words and len(set(value)) == len(value)

    def plain(self, value: Any) -> tuple[str, ...]:
        return tuple(option for option in self.options if option in value)


@dataclass(frozen=True)
class Boolean(Constraint):
    """True or False."""

    words = "True or False"
    example = "True"

    def allows(self, value: Any) -> bool:
        return isinstance(value, bool)


@dataclass(frozen=True)
class OneColumn(Constraint):
    """The name of one column. The federation checks whether there is such a column."""

    words = "the name of a column, 'party.column'"
    example = "'bank.income'"

    def allows(self, value: Any) -> bool:
        return isinstance(value, str)

    def plain(self, value: Any) -> str:
        return str(value)


@dataclass(frozen=True)
class ColumnList(Constraint):
    """A list of the names of columns, each once."""

    words = "a list of the names of columns"
    example = "['bank.age', 'telco.minutes']"

    def allows(self, value: Any) -> bool:
        return _are_names(value) and len(set(value)) == len(value)

    def plain(self, value: Any) -> list[str]:
        return [str(name) for name in value]

    def problem(self, name: str, value: Any) -> str:
        """Return what is wrong; it names a column that is listed twice."""
        if not _are_names(value):
            return super().problem(name, value)
        twice = next(one for one in value if list(value).count(one) > 1)
        return f"{name} names {str(twice)!r} twice."


@dataclass(frozen=True)
class RisingNumbers(Constraint):
    """A list of numbers, each within bounds and above the one before."""

    each: Real

    @property
    def words(self) -> str:
        return f"a rising list of numbers, each {self.each.words}"

    @property
    def example(self) -> str:
        middle = float(self.each.example)
        return f"[{(self.each.low + middle) / 2:g}, {middle:g}]"

    def allows(self, value: Any) -> bool:
        numbers = _is_list(value) and all(self.each.allows(one) for one in value)
        return numbers and all(low < high for low, high in pairwise(value))

    def plain(self, value: Any) -> list[float]:
        return [float(one) for one in value]


@dataclass(frozen=True)
class PerParty(Constraint):
    """A mapping from parties to values of one kind."""

    each: Constraint

    @property
    def words(self) -> str:
        return f"a mapping of party to {self.each.words}"

    @property
    def example(self) -> str:
        return f"{{'bank': {self.each.example}}}"

    def allows(self, value: Any) -> bool:
        if not isinstance(value, Mapping) or not value:
            return False
        return all(isinstance(party, str) and self.each.allows(entry) for party, entry in value.items())

    def plain(self, value: Any) -> dict[str, Any]:
        return {str(party): self.each.plain(entry) for party, entry in value.items()}


@dataclass(frozen=True)
class PerColumn(PerParty):
    """A mapping from columns to values of one kind."""

    @property
    def words(self) -> str:
        return f"a mapping of column to {self.each.words}"

    @property
    def example(self) -> str:
        return f"{{'bank.age': {self.each.example}}}"


@dataclass(frozen=True)
class AutoColumns(Constraint):
    """How many columns to choose: ``"auto:10"``."""

    words = "'auto:' and how many columns to choose"
    example = "'auto:10'"

    def allows(self, value: Any) -> bool:
        number = value.removeprefix("auto:") if isinstance(value, str) and value.startswith("auto:") else ""
        return number.isascii() and number.isdigit() and int(number) > 0

    def plain(self, value: Any) -> str:
        return str(value)


@dataclass(frozen=True)
class ColumnPairs(Constraint):
    """A list of pairs of columns, possibly empty."""

    words = "a list of pairs of columns"
    example = "[('bank.age', 'bank.income')]"

    def allows(self, value: Any) -> bool:
        return _is_list(value, fewest=0) and all(_are_names(one) and len(one) == 2 for one in value)

    def plain(self, value: Any) -> list[tuple[str, str]]:
        return [(str(first), str(second)) for first, second in value]


@dataclass(frozen=True)
class Numbers(Constraint):
    """A list of finite numbers with a least length."""

    fewest: int

    @property
    def words(self) -> str:
        return f"a list of at least {self.fewest} numbers"

    @property
    def example(self) -> str:
        return repr(list(range(self.fewest)))

    def allows(self, value: Any) -> bool:
        return _is_list(value, self.fewest) and all(Real(-inf).allows(one) for one in value)

    def plain(self, value: Any) -> list[float]:
        return [float(one) for one in value]


@dataclass(frozen=True)
class Optional(Constraint):
    """What another constraint allows, or None."""

    given: Constraint

    @property
    def words(self) -> str:
        return f"{self.given.words}, or None"

    @property
    def example(self) -> str:
        return self.given.example

    def allows(self, value: Any) -> bool:
        return value is None or self.given.allows(value)

    def plain(self, value: Any) -> Any:
        return None if value is None else self.given.plain(value)

    def problem(self, name: str, value: Any) -> str:
        """Return the inner constraint's own description of the problem, if it has one."""
        own = self.given.problem(name, value)
        return super().problem(name, value) if own.startswith(f"{name} must be ") else own


@dataclass(frozen=True)
class Either(Constraint):
    """What one of two constraints allows."""

    first: Constraint
    second: Constraint

    @property
    def words(self) -> str:
        return f"{self.first.words}, or {self.second.words}"

    @property
    def example(self) -> str:
        return self.first.example

    def allows(self, value: Any) -> bool:
        return self.first.allows(value) or self.second.allows(value)

    def plain(self, value: Any) -> Any:
        return (self.first if self.first.allows(value) else self.second).plain(value)


def _is_list(value: Any, fewest: int = 1) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes) and len(value) >= fewest


def _are_names(value: Any) -> bool:
    return _is_list(value) and all(isinstance(name, str) for name in value)


def _shown(value: Any) -> str:
    """Return a value as it was typed, or its type if that is long."""
    if value is None or isinstance(value, bool | int | float | str):
        typed = repr(value)
        if len(typed) <= LONGEST_SHOWN:
            return typed
    return f"a value of type {type(value).__name__}"
