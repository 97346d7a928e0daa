"""Reading the parameters of a step. What is missing, unknown or of another type is refused before any data is read."""

from collections.abc import Mapping

from colonnade.errors import BadInput
from colonnade.plan import Parameter, Step

__all__ = [
    "LARGEST_NUMBER",
    "number_list",
    "number_parameter",
    "only_parameters",
    "seed_parameter",
    "whole_list",
    "whole_parameter",
    "word_list",
]

LARGEST_NUMBER = 2.0**200
"""The largest weight, and the largest divisor. Sums and quotients of such numbers are finite."""

LARGEST_WHOLE = 2**62 - 1


def only_parameters(step: Step, allowed: frozenset[str]) -> dict[str, Parameter]:
    """Return a step's parameters. An unknown one could mean less noise, so it is refused."""
    if not set(step.parameters) <= allowed:
        raise BadInput("A step has a parameter that its kind does not know.")
    return step.parameters


def whole_parameter(
    parameters: Mapping[str, Parameter], name: str, largest: int = LARGEST_WHOLE, *, least: int = 1
) -> int:
    """Return a whole number within bounds."""
    value = parameters.get(name)
    if type(value) is not int or not least <= value <= largest:
        raise BadInput(f"A step's {name} must be a whole number between {least} and {largest}.")
    return value


def number_parameter(parameters: Mapping[str, Parameter], name: str) -> float:
    """Return a number of ordinary size."""
    return _number(parameters.get(name), name)


def number_list(parameters: Mapping[str, Parameter], name: str) -> tuple[float, ...]:
    """Return a list of numbers of ordinary size. A product that overflows is not a number, and no clamp holds that."""
    values = parameters.get(name)
    if not isinstance(values, tuple):
        raise BadInput(f"A step's {name} must be a list of numbers.")
    return tuple(_number(value, name) for value in values)


def whole_list(parameters: Mapping[str, Parameter], name: str) -> tuple[int, ...]:
    """Return a list of whole numbers."""
    values = parameters.get(name)
    if not isinstance(values, tuple) or any(type(value) is not int for value in values):
        raise BadInput(f"A step's {name} must be a list of whole numbers.")
    return tuple(int(value) for value in values)


def word_list(parameters: Mapping[str, Parameter], name: str) -> tuple[str, ...]:
    """Return a list of names; an absent one is empty."""
    values = parameters.get(name, ())
    if not isinstance(values, tuple) or any(not isinstance(value, str) for value in values):
        raise BadInput(f"A step's {name} must be a list of names.")
    return tuple(str(value) for value in values)


def seed_parameter(parameters: Mapping[str, Parameter], name: str = "seed", default: str = "") -> bytes:
    """Return 32 public bytes from their hexadecimal form."""
    try:
        seed = bytes.fromhex(str(parameters.get(name, default)))
    except ValueError:
        seed = b""
    if len(seed) != 32:
        raise BadInput(f"A step's {name} must be 32 bytes in hexadecimal.")
    return seed


def _number(value: object, name: str) -> float:
    if type(value) not in (float, int) or not abs(value) <= LARGEST_NUMBER:  # type: ignore[arg-type]  # a number by now
        raise BadInput(f"A step's {name} must be a number of ordinary size.")
    return float(value)  # type: ignore[arg-type]  # likewise
