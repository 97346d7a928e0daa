"""Decisions of a served party's owner, made in the party's folder: approve a study, raise a cap, forget a person.

The party may be running: its guard reads the ledger before each request. Decisions are signed with the party's identity key.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from colonnade.errors import BadInput
from colonnade.party.ledger.decisions import Allowance, Approval, CapDecision
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.ledger.refused import RefusedStudies, RefusedStudy
from colonnade.party.ledger.words import Reading, analysts_beside, read_rows
from colonnade.party.permission import Permission
from colonnade.party.policy import Policy
from colonnade.privacy.accounting import nano_epsilon
from colonnade.service.party_folder import PartyFolder

if TYPE_CHECKING:
    from colonnade.privacy.accounting import Budget

__all__ = [
    "Waiting",
    "approve",
    "raise_allowance",
    "raise_cap",
    "refused_studies",
    "requests_in_words",
    "waiting_studies",
]


@dataclass(frozen=True)
class Waiting:
    """A study that waits for its approval.

    Parameters
    ----------
    study
        What was asked.
    words
        The same in one line.
    columns
        The columns that it is about.
    remaining
        How much ε the ledger has left.
    """

    study: RefusedStudy
    words: str
    columns: tuple[str, ...]
    remaining: float

    @property
    def name(self) -> str:
        """How it is named on the command line: the beginning of its plan's hash."""
        return self.study.hash.hex()[:12]


def _reading(ledger: SqliteLedger) -> Reading:
    return Reading(ledger.party, ledger.budget.delta, keys=analysts_beside(ledger.path))


def refused_studies(folder: Path) -> list[str]:
    """Return the studies that a party has refused lately, in words, oldest first."""
    member = PartyFolder(folder)
    with member.ledger() as ledger:
        reading = _reading(ledger)
        return [reading.refusal(one) for one in RefusedStudies(ledger.path).read()]


def waiting_studies(folder: Path) -> list[Waiting]:
    """Return the studies that wait for the owner's approval, the latest first."""
    member = PartyFolder(folder)
    with member.ledger() as ledger:
        reading, version = _reading(ledger), ledger.current_version() or 0
        judged = Permission(member.policy(), member.name, ledger.budget.delta, ledger.entries(), ledger.now())
        found = judged.waiting(RefusedStudies(ledger.path).read(), version)
        left = ledger.remaining()
        return [
            Waiting(one, reading.refusal(one), () if one.plan is None else reading.columns(one.plan), left)
            for one in found
        ]


def requests_in_words(folder: Path) -> tuple[str, int, int]:
    """Return the last release in words, how many studies wait for an approval, and how many were refused lately."""
    member = PartyFolder(folder)
    with SqliteLedger.open(member.path / "ledger.sqlite", party=member.name) as ledger:
        released = [row for row in read_rows(ledger, analysts_beside(ledger.path)) if row.price]
        refused = RefusedStudies(ledger.path).read()
        judged = Permission(Policy(), member.name, ledger.budget.delta, ledger.entries(), ledger.now())
        waiting = judged.waiting(refused, ledger.current_version() or 0)
    return released[-1].sentence() if released else "", len(waiting), len(refused)


def approve(folder: Path, study: RefusedStudy, *, days: float, reason: str) -> int:
    """Approve one study, on the present data version, for so many days; return the row that says so."""
    member = PartyFolder(folder)
    with member.ledger() as ledger:
        until = int((ledger.now().timestamp() + days * 86_400) * 1_000_000)
        version = ledger.current_version()
        if version is None:
            raise BadInput("No table was loaded into this folder.", remedy="colonnade party load FOLDER FILE")
        decision = Approval(plan=study.hash.hex(), version=version, until=until, reason=reason)
        return ledger.decide(decision.signed(ledger.identity, member.identity()))


def raise_allowance(folder: Path, of: Literal["requester", "purpose"], name: str, epsilon: float, reason: str) -> int:
    """Set the cap of one requester or purpose in place of the policy's; return the row that says so."""
    member = PartyFolder(folder)
    decision = Allowance(of=of, name=name, nano=nano_epsilon(epsilon), reason=reason)
    with member.ledger() as ledger:
        return ledger.decide(decision.signed(ledger.identity, member.identity()))


def raise_cap(folder: Path, reason: str) -> "tuple[Budget, Budget]":
    """Take policy.toml's [budget] as the ledger's cap, as a signed decision; return the cap before and after."""
    member = PartyFolder(folder)
    wanted = member.budget()
    with SqliteLedger.open(member.path / "ledger.sqlite", party=member.name) as ledger:
        before = ledger.budget
        if (before.nano, before.delta) == (wanted.nano, wanted.delta):
            raise BadInput(
                "policy.toml has the cap that the ledger has already.",
                remedy="Write the new cap into [budget] of policy.toml first; or name --requester or --purpose.",
            )
        decision = CapDecision(nano=wanted.nano, delta=wanted.delta, reason=reason)
        ledger.decide(decision.signed(ledger.identity, member.identity()))
        return before, ledger.budget
