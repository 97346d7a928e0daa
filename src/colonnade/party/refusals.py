"""What a party may say when it does not answer: the one place that turns failures into refusals.

*The rule.* A refusal is a function of the plan, the policy, the ledger's public state and declared facts (schema, capacity, data
version). It never depends on rows, ids, counts, or whether anything has changed.

Code that reads rows runs inside `among_rows`. Whatever is raised there would tell something about rows, if only that it was
raised. So it is never said: the party stops, and from then on it gives the same constant answer as a party that its operator
has stopped (`STOPPED`). What went wrong stays with the party (`RowsFailed`). For the same reason a check of what others
have sent comes before the first row is read: a malformed request is refused, and stops nobody. A party's own workers hold its
rows and multiply shares for others too; where they fail at that (`colonnade.runtime.workers.WorkersFailed`), it stops in the
same way.

Everything else is outside. An error of this package is said as it is; its words come from public facts only, which
tests/party/test_refusals.py holds (the table in SECURITY.md lists them all). Any other exception becomes one constant message.
"""

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from colonnade.errors import BadInput, ColonnadeError, PartyAway, ProtocolError
from colonnade.protocol import codec
from colonnade.protocol.messages import Refused
from colonnade.runtime.workers import WorkersFailed


class RowsFailed(Exception):
    """Reading or computing from rows failed. The cause is the party's own, and is shown to its operator only."""

    @classmethod
    def because(cls, cause: BaseException | None) -> Self:
        """Return a failure with a cause that was found elsewhere."""
        failure = cls()
        failure.__cause__ = cause
        return failure

    @property
    def code(self) -> str:
        """The kind of failure, in a plain word for the party's own log."""
        cause = self.__cause__
        return cause.code if isinstance(cause, ColonnadeError) else type(cause).__name__

    def for_the_owner(self) -> ColonnadeError:
        """Return what the party's own screen and log may show: words of ours, or the kind and the place of another error."""
        if isinstance(self.__cause__, ColonnadeError):
            return self.__cause__
        return BadInput(
            f"The table could not be read ({self.code} in {self.place}).",
            remedy="COLONNADE_TRACEBACK=1 shows all of it, to somebody who may see the data.",
        )

    @property
    def place(self) -> str:
        """Where it was raised: a module of ours, and a line."""
        frames = traceback.extract_tb(None if self.__cause__ is None else self.__cause__.__traceback__)
        ours = [frame for frame in frames if "colonnade" in Path(frame.filename).parts] or frames
        return f"{Path(ours[-1].filename).stem}:{ours[-1].lineno}" if ours else ""


@contextmanager
def among_rows() -> Iterator[None]:
    """Run code that reads rows. Whatever it raises becomes `RowsFailed`, of which nothing but `STOPPED` is ever said.

    Examples
    --------
    >>> try:
    ...     with among_rows():
    ...         raise ValueError("alice has no row 17")
    ... except RowsFailed as failure:
    ...     print(repr(str(failure)), failure.code)
    '' ValueError
    """
    try:
        yield
    except RowsFailed:
        raise
    except WorkersFailed as error:
        raise RowsFailed from error.__cause__
    except Exception as error:
        raise RowsFailed from error


def refusal(error: Exception, spent: float | None) -> Refused:
    """Return what is said about an error that was raised outside `among_rows`.

    Parameters
    ----------
    error
        An error of this package, or any other: the text of an unforeseen one might quote data.
    spent
        What the request cost this party's ledger all the same.
    """
    known = error if isinstance(error, ColonnadeError) else ProtocolError("The party failed while answering.")
    return Refused.of(known, spent)


def show(error: BaseException) -> None:
    """Print an error with its place in the code: for the party's own engineer, on the party's own screen, by request only."""
    if os.environ.get("COLONNADE_TRACEBACK") == "1":
        traceback.print_exception(error)


STOPPED: bytes = codec.encode(refusal(PartyAway("This party does not answer: it has been stopped."), None))
"""The answer of a party that its operator has stopped, or that has stopped by itself. It says nothing else, and costs nothing."""
