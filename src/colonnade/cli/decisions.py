"""Commands with which a party's owner decides: `party approve`, `party refused`, `party erase` and `ledger raise`."""

from typing import TYPE_CHECKING, Annotated

import typer

from colonnade.cli import screen
from colonnade.cli.members import Folder
from colonnade.errors import BadInput

if TYPE_CHECKING:
    from colonnade.service.decisions import Waiting

__all__ = ["approve", "erase", "raise_cap", "refused"]

Reason = Annotated[str, typer.Option("--reason", help="One line, for the record.")]


def approve(
    folder: Folder,
    plan: Annotated[str | None, typer.Argument(metavar="[PLAN]", help="Which study, as the list names it.")] = None,
    days: Annotated[float, typer.Option("--days", min=0.01, max=366.0, help="How long the approval holds.")] = 7.0,
    reason: Reason = "",
    yes: Annotated[bool, typer.Option("--yes", help="Approve it. Without this, it is only shown.")] = False,
) -> None:
    """Show the studies that wait for this party's approval; with PLAN and --yes, approve one, signed and in the ledger.

    An approval is for one plan on the present data version, and ends after some days. It spends nothing by itself.
    """
    from colonnade.service import decisions

    found = decisions.waiting_studies(folder)
    chosen = [one for one in found if plan is None or one.study.hash.hex().startswith(plan)]
    if not found:
        screen.line("nothing waits for an approval")
        return
    if not chosen:
        raise BadInput(
            f"No study that waits is called {plan}.", remedy=f"There are {', '.join(one.name for one in found)}."
        )
    for one in chosen:
        _print_waiting(one)
    if plan is None or not yes:
        screen.line(f"next:     colonnade party approve {folder} {chosen[0].name} --yes")
        return
    if len(chosen) > 1:
        raise BadInput("Several studies that wait begin like this.", remedy="Give more of the name.")
    row = decisions.approve(folder, chosen[0].study, days=days, reason=reason)
    screen.line(f"approved: {chosen[0].name} for {days:g} days, in row {row} of the ledger; ask again to run it")


def _print_waiting(one: "Waiting") -> None:
    screen.line(f"{one.name}  {one.words}")
    plan = one.study.plan
    screen.line(f"  columns   {', '.join(one.columns)}")
    if plan is not None:
        promise = (
            "not differentially private" if plan.price is None else f"ε={plan.price.epsilon:g}, δ={plan.price.delta:g}"
        )
        screen.line(f"  promise   {promise} per {plan.unit}; {plan.people:,} people of {', '.join(plan.parties)}")
    screen.line(f"  remaining ε={one.remaining:.6g} before it")


def refused(folder: Folder) -> None:
    """Show the studies that this party has refused lately: who asked for what, and why it was refused."""
    from colonnade.service import decisions

    found = decisions.refused_studies(folder)
    for words in found:
        screen.line(words)
    if not found:
        screen.line("nothing was refused")


def erase(
    folder: Folder,
    people: Annotated[list[str], typer.Argument(metavar="ID", help="Ids of people, as the table has them.")],
    yes: Annotated[bool, typer.Option("--yes", help="Erase them. Without this, it only says what would stay.")] = False,
) -> None:
    """Erase people: load the table without them as the next data version, and delete row orders and scores that name them."""
    from colonnade.service import erasing

    if yes:
        done = erasing.erase(folder, people)
        screen.line(
            f"erased:  {done.rows} row{'s' if done.rows != 1 else ''}; the table is data version {done.version}"
        )
        screen.line(f"deleted: {done.orders} row orders of the version before, {done.scores} delivered scores")
    else:
        rows = erasing.rows_of(folder, people)
        screen.line(
            f"rows:    {rows} of the table {'has' if rows == 1 else 'have'} one of these ids; compare how you wrote them"
        )
        screen.line(
            "         a new data version is declared in any case, so that it does not tell whether they were there"
        )
    screen.line("what cannot be undone:" if yes else "what would stay, and cannot be undone:")
    for words in erasing.WHAT_STAYS:
        screen.line(f"  {words}")
    if not yes:
        screen.line(f"next:    colonnade party erase {folder} {' '.join(people)} --yes")


def raise_cap(
    folder: Folder,
    requester: Annotated[str | None, typer.Option("--requester", help="The cap of this analyst's studies.")] = None,
    purpose: Annotated[str | None, typer.Option("--purpose", help="The cap of studies with this purpose.")] = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="The new cap of requester or purpose.")] = None,
    reason: Reason = "",
) -> None:
    """Raise or renew a cap: a decision of the owner, signed, in the ledger.

    Without --requester and --purpose it is the ledger's own cap, as [budget] of policy.toml has it now. What was spent stays so.
    """
    from colonnade.service import decisions

    name = purpose if requester is None else requester
    if None not in (requester, purpose) or (epsilon is None) != (name is None):
        raise BadInput(
            "Name --requester or --purpose with --epsilon, or none of the three for the ledger's own cap.",
            remedy='For example --requester analyst@telco --epsilon 0.5 --reason "renewed for spring"',
        )
    if name is not None and epsilon is not None:
        row = decisions.raise_allowance(folder, "purpose" if requester is None else "requester", name, epsilon, reason)
        screen.line(f"decided:  studies of {name} may cost ε={epsilon:g} in all; row {row} of the ledger")
        return
    before, after = decisions.raise_cap(folder, reason)
    screen.line(f"decided:  the cap is ε={after.epsilon:g} at δ={after.delta:g}; it was ε={before.epsilon:g}")
