"""Who works for a member besides its own process: workers that are given functions and hand back results."""

from collections.abc import Callable
from typing import Protocol, TypeVar

__all__ = ["Workers"]

Result = TypeVar("Result")


class Workers(Protocol):
    """Workers of one member, inside its own trust boundary."""

    def begin(self, function: Callable[..., Result], *given: object) -> Callable[[], Result]:
        """Have a function called by a worker, and return what waits for its result.

        A worker that is lost is replaced and the function called again, so it is a function of what it is given alone: it draws
        nothing and pays for nothing.
        """
