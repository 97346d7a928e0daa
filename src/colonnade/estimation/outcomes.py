"""What becomes of a study whose releases cannot be turned into numbers: a typed outcome that says what is kept."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from colonnade.cost import Cost
from colonnade.errors import ColonnadeError, EstimateFailed

__all__ = ["estimating"]

_FAILED = "What the parties opened could not be turned into an answer ({})."


class Paid(Protocol):
    """The record of a study that is paid for and has opened everything: `colonnade.coordinator.findings.Findings`."""

    @property
    def cost(self) -> Cost:
        """What it cost each party, by the party's own account."""
        ...


@contextmanager
def estimating(findings: Paid | None = None) -> Iterator[None]:
    """Turn any failure of the block into `EstimateFailed`: releases are noisy, so no test of ours has seen all of them.

    The failure itself is the error's cause, with its traceback. Errors of ours pass: they say what to do.

    Parameters
    ----------
    findings
        The record of the study, if it is at its end. An error then says what it cost.

    Examples
    --------
    >>> try:
    ...     with estimating():
    ...         1 / 0
    ... except EstimateFailed as error:
    ...     print(error.message)
    What the parties opened could not be turned into an answer (ZeroDivisionError).
    """
    try:
        yield
    except StopIteration:  # so an algorithm says that it has come to its end
        raise
    except Exception as error:
        failed = error if isinstance(error, ColonnadeError) else EstimateFailed(_FAILED.format(type(error).__name__))
        if findings is not None:
            failed.cost = findings.cost
        if isinstance(failed, EstimateFailed):
            failed.findings = findings
        if failed is error:
            raise
        raise failed from error
