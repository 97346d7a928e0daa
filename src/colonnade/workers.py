"""Who works for a member besides its own process: workers that are given functions and hand back results."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

__all__ = ["Workers", "WorkersFailed", "asking_workers"]

Result = TypeVar("Result")


class WorkersFailed(Exception):
    """A member's own workers did not finish what they were given. The cause is the member's own.

    A data party's workers hold its rows too, so whether they can go on may depend on rows. A member says nothing of it: a party
    stops as it does where rows cannot be read (`colonnade.party.refusals`), and a node without data has one constant message.
    """


class Workers(Protocol):
    """Workers of one member, inside its own trust boundary."""

    def begin(self, function: Callable[..., Result], *given: object) -> Callable[[], Result]:
        """Have a function called by a worker, and return what waits for its result.

        A worker that is lost is replaced and the function called again, so it is a function of what it is given alone: it draws
        nothing and pays for nothing.
        """


@contextmanager
def asking_workers() -> Iterator[None]:
    """Ask workers, or wait for them, outside of what reads rows. Whatever is raised becomes `WorkersFailed`.

    Examples
    --------
    >>> try:
    ...     with asking_workers():
    ...         raise MemoryError("worker 3")
    ... except WorkersFailed as failure:
    ...     print(repr(str(failure)))
    ''
    """
    try:
        yield
    except Exception as error:
        raise WorkersFailed from error
