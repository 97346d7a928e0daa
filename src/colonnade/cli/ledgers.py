"""Commands about a party's ledger: read it (`show`, `verify`, `explain`, `export`), copy it, put it back (`restore`, `attest`).

Those that read it spend nothing and show no answer. They are for the party's privacy officer, who has nothing but the party's
folder: who asked what, about which columns, for what, when and at what price.
"""

import csv
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colonnade.cli import screen
from colonnade.cli.members import Folder
from colonnade.errors import BadInput, LedgerCorrupt
from colonnade.schema import ColumnName

if TYPE_CHECKING:
    from colonnade.party.ledger.ledger import SqliteLedger
    from colonnade.party.ledger.rows import Entry
    from colonnade.party.ledger.words import RowInWords
    from colonnade.plan import Plan


ledger = typer.Typer(
    help="Read, check, copy and put back a party's ledger. Only `restore --forfeit` charges it.",
    no_args_is_help=True,
)

LedgerPath = Annotated[
    Path,
    typer.Argument(
        metavar="PATH", exists=True, help="A ledger, a party's folder, or a folder of ledgers (ledger_dir)."
    ),
]


@ledger.command()
def show(path: LedgerPath, json: screen.AsJson = False) -> None:
    """Show what was asked, by whom and at what price, row by row; total, cap and what remains. Opening a ledger verifies it."""
    from colonnade.party.ledger.words import analysts_beside, read_rows

    if json:
        export(path, Format.JSON)
        return
    for file in _files(path):
        screen.heading(file.name)
        with opened(file) as found:
            _print_rows(found, read_rows(found, analysts_beside(file)))


@ledger.command()
def verify(path: LedgerPath) -> None:
    """Check every page, row, hash, answer and signature, and ask for a second opinion on the total."""
    from colonnade.party.ledger.words import analysts_beside, read_rows

    for file in _files(path):
        screen.heading(file.name)
        with opened(file) as found:
            found.verify()
            _check_requesters(read_rows(found, analysts_beside(file)))
            _check_decisions(found)
            _second_opinion(found)


@ledger.command()
def explain(
    path: LedgerPath, row: Annotated[int, typer.Argument(min=0, metavar="ROW", help="Its number in `ledger show`.")]
) -> None:
    """Say everything about one row: who asked, the columns of every party, steps and prices, and how it can be checked."""
    from colonnade.party.ledger.words import analysts_beside, plans_of, read_rows

    files = _files(path)
    if len(files) > 1:
        raise BadInput(f"{path} has several ledgers.", remedy="Name one of them.")
    with opened(files[0]) as found:
        entries = found.entries()
        if row >= len(entries):
            raise BadInput(f"The ledger has no row {row}.", remedy=f"Its rows are 0 to {len(entries) - 1}.")
        words = read_rows(found, analysts_beside(files[0]))[row]
        screen.line(words.sentence())
        _explain(words, entries[row], plans_of(found, entries).get(entries[row].plan or b""), found)


class Format(StrEnum):
    """What `ledger export` writes."""

    CSV = "csv"
    JSON = "json"


@ledger.command()
def export(
    path: LedgerPath,
    form: Annotated[Format, typer.Option("--format", help="csv, or json with every plan whole.")] = Format.CSV,
    out: Annotated[Path | None, typer.Option(dir_okay=False, help="A new file, not the screen.")] = None,
) -> None:
    """Write all rows for an auditor: what was asked, by whom, for what, the columns, and the price. No answer is written."""
    rows = [row for file in _files(path) for row in _exported(file, whole=form is Format.JSON)]
    text = json.dumps(rows, indent=2, ensure_ascii=False) + "\n" if form is Format.JSON else _csv(rows)
    if out is None:
        typer.echo(text, nl=False)
        return
    if out.exists():
        raise BadInput(f"{out} exists already.", remedy="Name a file that does not exist yet.")
    out.write_text(text, encoding="utf-8")
    screen.line(f"written: {out} ({len(rows)} rows)")


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    own = path / "ledger.sqlite"  # a party's folder has other databases too
    files = [own] if own.is_file() else sorted(path.glob("*.sqlite"))
    if not files:
        raise BadInput(f"There is no ledger in {path}.", remedy="Name a file, or a folder with *.sqlite files.")
    return files


@contextmanager
def opened(file: Path) -> "Iterator[SqliteLedger]":
    """Open a ledger for reading, verified."""
    from colonnade.party.ledger.ledger import SqliteLedger

    with SqliteLedger.open(file) as found:
        yield found


def _print_rows(found: "SqliteLedger", rows: "list[RowInWords]") -> None:
    from colonnade.service.checks import version_in_words

    budget, delta = found.budget, found.budget.delta
    for row, entry in zip(rows, found.entries(), strict=True):
        answer = f" · {_kept(entry)}" if entry.request is not None else ""
        screen.line(f"{row.sequence:>4}  {row.sentence()}{answer}")
    screen.line(f"party {found.party}; ledger {found.identity}{'; FOR TESTS ONLY' if found.test else ''}")
    screen.line(f"data      {version_in_words(found)}")
    screen.line(f"spent     ε={found.spent().epsilon(delta):.9g} at δ={delta:g}")
    exact = sum(not row.is_private for row in rows)
    if exact:
        screen.line(
            f"besides   {exact} release{'s' if exact > 1 else ''} without differential privacy, which no ε covers"
        )
    screen.line(f"cap       ε={budget.epsilon:.9g} at δ={delta:g}")
    screen.line(f"remaining ε={found.remaining():.9g}")


def _kept(entry: "Entry") -> str:
    return "" if entry.request is None else "answer kept" if entry.sealed else "answer not kept"


def _check_requesters(rows: "list[RowInWords]") -> None:
    """Print how many studies are signed; refuse a ledger with a signature that is not valid."""
    from colonnade.party.ledger.words import Provenance

    studies = {(row.plan, row.requester) for row in rows if row.requester is not None}
    count = {provenance: sum(who.provenance is provenance for _, who in studies) for provenance in Provenance}
    if count[Provenance.FORGED]:
        raise LedgerCorrupt(
            "The ledger has a request whose signature is not valid.",
            remedy="Keep the file, and find out who could write to it: the party accepts no such request.",
        )
    words = [f"{number} {provenance}" for provenance, number in count.items() if number]
    screen.line(f"requests  {', '.join(words) or 'none'}")


def _check_decisions(found: "SqliteLedger") -> None:
    """Print how many decisions of the owner there are; refuse one that is signed with another key than the party's."""
    from colonnade.protocol.agreement import read_agreement

    made = [entry.decision for entry in found.entries() if entry.decision is not None]
    papers = found.path.parent / "federation.toml"
    if not made or not papers.is_file():
        screen.line(
            f"decisions {f'{len(made)}, signed; there are no papers here to compare the key with' if made else 'none'}"
        )
        return
    keys = read_agreement(papers).check().keys_of(found.party)
    if any(decision.signer(found.identity) not in keys for decision in made):
        raise LedgerCorrupt(
            "A decision in the ledger is signed with another key than this party's.",
            remedy="Keep the file, and find out who could write to it.",
        )
    screen.line(f"decisions {len(made)}, signed with the key of {found.party}")


def _second_opinion(found: "SqliteLedger") -> None:
    """Print the total twice; refuse a ledger that shows less than was released."""
    from colonnade.audit import SLACK, distribution_epsilon

    delta = found.budget.delta
    losses = [entry.loss for entry in found.entries() if entry.loss is not None]
    recorded = found.spent().epsilon(delta)
    screen.line(f"chain     {found.head().sequence + 1} rows check: pages, schema, hashes, answers, plans, cap")
    screen.line(f"ledger    ε={recorded:.6g} at δ={delta:g}, as it adds up")
    other = distribution_epsilon(losses, delta)
    if other is None:
        screen.line("opinion   none: it needs a row, a positive δ, and rows that are pure or zCDP")
        return
    screen.line(f"opinion   ε={other:.6g} at δ={delta:g}, privacy loss distributions (dp-accounting)")
    if not other <= recorded * (1 + SLACK):
        raise LedgerCorrupt("The ledger shows less than its rows cost by a second method; nothing was released.")


def _explain(row: "RowInWords", entry: "Entry", plan: "Plan | None", found: "SqliteLedger") -> None:
    from colonnade.plan import one_line

    facts = {
        "title": row.title,
        "purpose": row.purpose,
        "asked by": "" if row.requester is None else (row.requester.name or "somebody unnamed"),
        "known": "" if row.requester is None else str(row.requester.provenance),
        "price": row.price,
        "answer": _kept(entry),
        "version": "" if row.version is None else f"data version {row.version}",
        "plan": row.plan,
        "hash": f"row {row.sequence} and all before it check, up to {found.head().hash.hex()[:16]}…",
    }
    if plan is not None:
        promise = "not private" if plan.price is None else f"ε {plan.price.epsilon:g}, δ {plan.price.delta:g}"
        facts |= {
            "study": f"{one_line(plan.task)}, method {one_line(plan.method)}, draw {plan.repeat}",
            "promise": f"{promise} per {plan.unit}, against {plan.collusion} colluding with the coordinator",
            "people": f"{plan.people:,}",
            "nodes": ", ".join(map(one_line, plan.compute_nodes)),
        }
    for name, words in facts.items():
        if words:
            screen.line(f"  {name:<9}{words}")
    if plan is not None:
        _print_steps(plan, found.party)


def _print_steps(plan: "Plan", party: str) -> None:
    from colonnade.party.ledger.words import kind_in_words
    from colonnade.plan import one_line

    rows = [
        (
            f"{one_line(step.party)}{' (you)' if step.party == party else ''}",
            kind_in_words(step),
            ", ".join(step.columns_in_words()),
            "none" if step.price is None else f"ε {step.price.epsilon:g}",
        )
        for step in plan.steps
    ]
    screen.print_table(["party", "what it releases", "columns", "price"], rows)


def _exported(file: Path, *, whole: bool) -> list[dict[str, Any]]:
    import msgspec

    from colonnade.party.ledger.words import analysts_beside, plans_of, read_rows

    with opened(file) as found:
        entries = found.entries()
        plans = plans_of(found, entries)
        rows = read_rows(found, analysts_beside(file))
        result = []
        for entry, row in zip(entries, rows, strict=True):
            own = [name for name in row.columns if ColumnName.of(name).party == found.party]
            cells: dict[str, Any] = {
                "party": found.party,
                "row": row.sequence,
                "written": entry.when.isoformat(),
                "kind": row.kind,
                "title": row.title,
                "what": row.what,
                "purpose": row.purpose,
                "requester": "" if row.requester is None else row.requester.name,
                "known": "" if row.requester is None else str(row.requester.provenance),
                "columns": list(row.columns),
                "own columns": own,
                "epsilon": row.epsilon,
                "delta": found.budget.delta,
                "private": row.is_private,
                "readers": row.readers,
                "data version": row.version,
                "plan": row.plan,
            }
            plan = plans.get(entry.plan or b"")
            if whole:
                cells["whole plan"] = None if plan is None else msgspec.to_builtins(plan)
            result.append(cells)
    return result


def _csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(rows[0])
    writer.writerows([_cell(value) for value in row.values()] for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    """Return a cell that no spreadsheet takes for a formula: a text that looks like one starts with an apostrophe."""
    if isinstance(value, list):
        value = " ".join(value)
    if isinstance(value, str) and value.lstrip()[:1] in ("=", "+", "-", "@"):
        return f"'{value}"
    return "" if value is None else value


def backup(
    path: Annotated[Path, typer.Argument(metavar="PATH", exists=True, help="A ledger, or the folder of its party.")],
    target: Annotated[Path, typer.Argument(metavar="TARGET", dir_okay=False, help="The copy, a new file.")],
) -> None:
    """Copy a ledger, in use or not, to a new file that only this user can read, and verify the copy."""
    from colonnade.party.ledger.backup import back_up

    head = back_up(path / "ledger.sqlite" if path.is_dir() else path, target)
    screen.line(f"copied   {target}: verified up to row {head.sequence}")
    screen.line("keep it  as safe as the ledger itself: it holds answers, and seeds of steps that are not finished")


def restore(
    folder: Folder,
    copy: Annotated[
        Path | None,
        typer.Argument(
            metavar="[BACKUP]", exists=True, dir_okay=False, help="What `backup` wrote; without it the ledger stays."
        ),
    ] = None,
    attested: Annotated[
        list[Path] | None,
        typer.Option(exists=True, help="What `attest` printed at a member or the coordinator; from all."),
    ] = None,
    forfeit: Annotated[
        bool,
        typer.Option("--forfeit", help="Write off, signed, what it may have forgotten: the whole cap, or --spent."),
    ] = False,
    spent: Annotated[
        float | None,
        typer.Option(min=0.0, help="All ε that was ever spent, by your records: the total becomes at least this."),
    ] = None,
) -> None:
    """Put a back-up in the place of a party's ledger; refuse one that has forgotten releases, unless they are charged."""
    from colonnade.service.decisions import restore_ledger
    from colonnade.service.party_folder import PartyFolder

    found = restore_ledger(PartyFolder(folder.resolve()), copy, attested or (), forfeit=forfeit, spent=spent)
    screen.line(f"restored {folder / 'ledger.sqlite'}: verified up to row {found.head.sequence}")
    if found.rows:
        screen.line(
            f"charged  ε={found.charged:.6g} for what may be lost, and signed; the total is ε={found.head.nano / 1e9:.6g}; "
            "δ counts twice from now on"
        )
        screen.line(
            f"next     if data/ was lost too: colonnade party load {folder} FILE; the same table keeps its version"
        )


def attest(
    folder: Folder,
    about: Annotated[str, typer.Option(help="The party whose ledger was lost.")],
) -> None:
    """Print the highest row and total that this member has seen of another party's ledger, signed, for `ledger restore`."""
    from colonnade.service.decisions import attest as said
    from colonnade.service.party_folder import PartyFolder

    screen.line(said(PartyFolder(folder), about).text())


def attest_coordinator(
    state: Annotated[Path, typer.Argument(metavar="STATE", exists=True, file_okay=False, help="Its state folder.")],
    papers: Annotated[Path, typer.Argument(metavar="PAPERS", exists=True, dir_okay=False, help="The papers.")],
    about: Annotated[str, typer.Option(help="The party whose ledger was lost.")],
) -> None:
    """Print the highest row and total that the coordinator has seen of a party's ledger, for `ledger restore`."""
    from colonnade.protocol.agreement import read_agreement
    from colonnade.service.decisions import attest_as_coordinator

    screen.line(attest_as_coordinator(read_agreement(papers).check(), state, about).text())
