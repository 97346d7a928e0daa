"""``colonnade ledger show PATH`` and ``ledger verify PATH``: what a party has ever released, and for how much."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colonnade.cli import screen
from colonnade.errors import BadInput, LedgerCorrupt

if TYPE_CHECKING:
    from colonnade.party.ledger.ledger import SqliteLedger

__all__ = ["app", "show", "verify"]

app = typer.Typer(
    help="Read and check a party's ledger. Neither command spends; one of format 2 is migrated.",
    no_args_is_help=True,
)

LedgerPath = Annotated[
    Path, typer.Argument(metavar="PATH", exists=True, help="A ledger, or a folder of them (study.toml's ledger_dir).")
]


@app.command()
def show(path: LedgerPath) -> None:
    """Show rows, total, cap and what remains; answers are never shown. Opening a ledger verifies all of it."""
    for file in _files(path):
        with _opened(file) as ledger:
            _show(ledger)


@app.command()
def verify(path: LedgerPath) -> None:
    """Check every page, row, hash and answer, and ask for a second opinion on the total."""
    for file in _files(path):
        with _opened(file) as ledger:
            ledger.verify()
            _second_opinion(ledger)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("*.sqlite"))
    if not files:
        raise BadInput("There is no ledger in this folder.", remedy="Name a file, or a folder with *.sqlite files.")
    return files


@contextmanager
def _opened(file: Path) -> "Iterator[SqliteLedger]":
    from colonnade.party.ledger.ledger import SqliteLedger

    screen.heading(file.name)
    with SqliteLedger.open(file) as ledger:
        yield ledger


def _show(ledger: "SqliteLedger") -> None:
    budget, delta = ledger.budget, ledger.budget.delta
    rows = [
        (
            entry.sequence,
            f"{entry.when:%Y-%m-%d %H:%M:%S}",
            entry.kind,
            entry.label,
            "" if entry.loss is None else screen.figure(entry.loss.epsilon(delta)),
            "" if entry.request is None else "kept" if entry.sealed else "not kept",
        )
        for entry in ledger.entries()
    ]
    screen.print_table(["row", "written (UTC)", "kind", "what", "epsilon", "answer"], rows)
    screen.line(f"party {ledger.party}; ledger {ledger.identity}{'; FOR TESTS ONLY' if ledger.test else ''}")
    screen.line(f"spent     ε={ledger.spent().epsilon(delta):.9g} at δ={delta:g}")
    screen.line(f"cap       ε={budget.epsilon:.9g} at δ={delta:g}")
    screen.line(f"remaining ε={ledger.remaining():.9g}")


def _second_opinion(ledger: "SqliteLedger") -> None:
    """Print the total twice; refuse a ledger that shows less than was released."""
    from colonnade.audit.second_opinion import SLACK, distribution_epsilon

    delta = ledger.budget.delta
    losses = [entry.loss for entry in ledger.entries() if entry.loss is not None]
    recorded = ledger.spent().epsilon(delta)
    screen.line(f"chain     {ledger.head().sequence + 1} rows check: pages, schema, hashes, answers, cap")
    screen.line(f"ledger    ε={recorded:.6g} at δ={delta:g}, Rényi curves and pure sums")
    other = distribution_epsilon(losses, delta)
    if other is None:
        screen.line("opinion   none: it needs a row, a positive δ, and rows that are pure or zCDP")
        return
    screen.line(f"opinion   ε={other:.6g} at δ={delta:g}, privacy loss distributions (dp-accounting)")
    if not other <= recorded * (1 + SLACK):
        raise LedgerCorrupt("The ledger shows less than its rows cost by a second account; nothing was released.")
