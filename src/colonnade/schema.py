"""What is public about a column: bounds of a number, levels of a category.

A schema is declared, never inferred. Data outside it is clipped (numbers) or counted as missing (categories), because what a
table really contains is private.

Examples
--------
>>> Schema(age=Numeric(18, 95), segment=Category(["basic", "gold"]))
Schema(age=Numeric(18, 95), segment=Category(['basic', 'gold']))
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral, Real

import msgspec

from colonnade.errors import BadInput, BoundsRequired

__all__ = ["Category", "Column", "Level", "Numeric", "Schema"]

Level = str | bool | int
LARGEST_DOMAIN = 4096


class Numeric(msgspec.Struct, frozen=True, tag="numeric", forbid_unknown_fields=True):
    """A number with public bounds. A value outside them is clipped; a missing one becomes the midpoint.

    Parameters
    ----------
    lower, upper
        Finite bounds that hold for any data whatever, not the extremes of this table.
    integer
        Whether values are whole numbers (moments need that); others are then rounded.

    Examples
    --------
    >>> Numeric(0, 120).midpoint
    60.0
    """

    lower: float | int | None = None
    upper: float | int | None = None
    integer: bool = False

    def __post_init__(self) -> None:
        bounds: tuple[object, ...] = (self.lower, self.upper)
        for bound in bounds:
            if bound is None:
                raise BoundsRequired("A numeric column needs a public lower and upper bound.")
            if isinstance(bound, bool) or not isinstance(bound, Real) or not math.isfinite(float(bound)):
                raise BoundsRequired("The bounds of a numeric column must be finite numbers.")
        for name, bound in (("lower", self.lower), ("upper", self.upper)):
            if type(bound) not in (int, float):  # a numpy number would not travel
                msgspec.structs.force_setattr(self, name, int(bound) if isinstance(bound, Integral) else float(bound))  # type: ignore[arg-type]  # checked above
        if not self.low < self.high:
            raise BadInput(
                f"The lower bound of a column must be below its upper bound: {self.lower!r} is not below {self.upper!r}.",
                remedy="For example cn.Numeric(0, 120).",
            )

    @property
    def low(self) -> float:
        """The lower bound as a float."""
        return float(self.lower)  # type: ignore[arg-type]  # checked above

    @property
    def high(self) -> float:
        """The upper bound as a float."""
        return float(self.upper)  # type: ignore[arg-type]  # checked above

    @property
    def midpoint(self) -> float:
        """What a missing value becomes."""
        return self.low / 2 + self.high / 2

    @property
    def half_range(self) -> float:
        """How far each bound is from the midpoint: one unit once the bounds are mapped to [−1, 1]."""
        return self.high / 2 - self.low / 2

    def __repr__(self) -> str:
        return f"Numeric({self.lower!r}, {self.upper!r}{', integer=True' if self.integer else ''})"


class Category(msgspec.Struct, frozen=True, tag="category", forbid_unknown_fields=True):
    """One of a public list of levels. A value outside the list is no category at all.

    Examples
    --------
    >>> Category(["basic", "gold", "platinum"]).size
    3
    """

    levels: Sequence[Level]  # kept as a tuple

    def __post_init__(self) -> None:
        if isinstance(self.levels, str) or not isinstance(self.levels, Sequence):
            raise BadInput("A category takes a list of levels.", remedy='For example cn.Category(["no", "yes"]).')
        msgspec.structs.force_setattr(self, "levels", tuple(_plain_level(level) for level in self.levels))
        if any(not isinstance(level, str | bool | int) for level in self.levels):
            raise BadInput(
                "The levels of a category are strings, whole numbers or booleans.",
                remedy='For example cn.Category(["no", "yes"]) or cn.Category([1, 2, 3]).',
            )
        if not 2 <= len(self.levels) <= LARGEST_DOMAIN:
            raise BadInput(
                f"A category has between 2 and {LARGEST_DOMAIN} levels, not {len(self.levels)}.",
                remedy="Group rare levels together, or describe a number by its bounds: cn.Numeric(0, 120).",
            )
        if len({str(level) for level in self.levels}) != len(self.levels):
            raise BadInput(
                "The levels of a category must differ, also when written as text.",
                remedy="Name each level once; 1 and '1' are the same level.",
            )

    @property
    def size(self) -> int:
        """How many levels there are."""
        return len(self.levels)

    def __repr__(self) -> str:
        return f"Category({list(self.levels)!r})"


def _plain_level(level: Level) -> Level:
    """Return text as plain text: a numpy string would not travel."""
    return str(level) if isinstance(level, str) else level


Column = Numeric | Category


class Schema(Mapping[str, Column]):
    """The public description of one party's columns, in order.

    Parameters
    ----------
    **columns
        A `Numeric` or a `Category` for each column that may ever be read; also a single mapping, for names that are not
        identifiers.

    Examples
    --------
    >>> list(Schema({"zip code": Category(["north", "south"])}, age=Numeric(0, 120)))
    ['zip code', 'age']
    """

    def __init__(self, mapping: Mapping[str, Column] | None = None, /, **columns: Column) -> None:
        given = {**(mapping or {}), **columns}
        self._columns: dict[str, Column] = {
            str(name) if isinstance(name, str) else name: column for name, column in given.items()
        }
        if not self._columns:
            raise BadInput(
                "A schema needs at least one column.", remedy="For example cn.Schema(age=cn.Numeric(0, 120))."
            )
        for name, column in self._columns.items():
            if not isinstance(name, str) or not name or "=" in name or not name.isprintable():
                raise BadInput(
                    "A column name is a non-empty printable string without '='.",
                    remedy="Rename the column in the data source, and in the schema.",
                )
            if not isinstance(column, Numeric | Category):
                raise BoundsRequired(
                    f"Column {name!r} is described by {type(column).__name__}, not by cn.Numeric or cn.Category."
                )

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return "Schema(" + ", ".join(f"{name}={column!r}" for name, column in self.items()) + ")"
