"""The kinds of columns that an owner declares besides `Numeric` and `Category`, a module for each.

A module that is put here is found: nothing else lists it.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Union

from colonnade.schema.column import Category, Number, Numeric


def _found() -> Iterator[type[Number | Category]]:
    for module in iter_modules(__path__):
        for kind in vars(import_module(f"{__name__}.{module.name}")).values():
            if isinstance(kind, type) and issubclass(kind, Number | Category) and kind.needed:
                yield kind


DECLARED: Mapping[str, type[Number | Category]] = {
    "number": Numeric,
    "category": Category,
    **{kind.__name__.lower(): kind for kind in _found() if kind not in (Numeric, Category)},
}
"""The kinds that an owner declares, by what a value is."""

if TYPE_CHECKING:
    Measured = Number
else:  # msgspec tells them apart by their tags
    Measured = Union[tuple(kind for kind in DECLARED.values() if issubclass(kind, Number))]  # noqa: UP007  # a list of types
"""The kinds of numbers that an owner declares: with quantiles, and bounds that may be narrowed."""
