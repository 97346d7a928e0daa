"""How the command line says no: a code, what happened, whether budget was spent, what to do. Never a traceback.

An error of ours is printed in those four parts. Of any other only the type is shown, because its text may quote data;
``COLONNADE_TRACEBACK=1`` shows all of it, for people who may see the data.
"""

import os
from collections.abc import Mapping
from typing import Any

import typer
from typer.core import TyperGroup

from colonnade.errors import ColonnadeError

__all__ = ["RefusingGroup", "describe", "report"]

_CONTROL = (typer.Exit, typer.Abort)


def describe(error: ColonnadeError) -> dict[str, Any]:
    """Return an error's four parts, for files."""
    return {
        "code": error.code,
        "message": error.message,
        "spent": None if error.spent is None else dict(error.spent),
        "remedy": error.remedy,
    }


def report(error: ColonnadeError) -> None:
    """Print an error's four parts."""
    _print(error.code, error.message, _account(error.spent), error.remedy)


class RefusingGroup(TyperGroup):
    """A group of commands whose failures are reported in one way."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; turn whatever it raises into a report and exit status 1."""
        try:
            return super().invoke(ctx)
        except ColonnadeError as error:
            report(error)
        except KeyboardInterrupt:
            _interrupted()
        except Exception as error:
            if _is_usage(error) or isinstance(error, _CONTROL) or os.environ.get("COLONNADE_TRACEBACK"):
                raise
            _unforeseen(error)
        raise typer.Exit(1)


def _is_usage(error: Exception) -> bool:
    """Return whether this is the parser's own complaint, which ends with exit status 2."""
    return hasattr(error, "exit_code") and hasattr(error, "show")


def _interrupted() -> None:
    _print(
        "interrupted",
        "Stopped from the keyboard.",
        "What had been released is paid for and recorded in the ledgers.",
        "Run the same command again: what was released is returned at no further price.",
    )


def _unforeseen(error: Exception) -> None:
    _print(
        "internal-error",
        f"Something unforeseen failed ({type(error).__name__}).",
        "What had been released is paid for and recorded in the ledgers: see `colonnade ledger show`.",
        "Run again with COLONNADE_TRACEBACK=1, where the data may be seen, and report what it shows.",
    )


def _account(spent: Mapping[str, float] | None) -> str:
    if not spent:
        return "nothing; every ledger is as it was"
    return ", ".join(f"{party} ε={epsilon:.6g}" for party, epsilon in spent.items())


def _print(code: str, message: str, account: str, remedy: str) -> None:
    typer.echo(f"refused  [{code}]", err=True)
    for label, words in (("what", message), ("spent", account), ("do", remedy)):
        typer.echo(f"  {label:<6} {words}", err=True)
