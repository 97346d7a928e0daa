"""What a party allows one requester: caps for each analyst and purpose, and studies that wait for the owner's approval.

All of it follows from the plan, the policy, the words that came with the request, and the ledger. No row of data enters, so a
refusal tells nothing about one.

*Who asks.* A requester is an analyst who has signed the request (`colonnade.plan.About`), and otherwise the coordinator. Rows of
the ledger keep those words, so what somebody has spent is added up from the ledger itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from colonnade.errors import ApprovalNeeded, BudgetExceeded, PolicyRefusal
from colonnade.party.ledger.decisions import Allowance, Approval
from colonnade.party.ledger.holds import Hold
from colonnade.party.ledger.refused import RefusedStudy
from colonnade.party.ledger.rows import Entry
from colonnade.party.policy import Policy
from colonnade.plan import About, Plan
from colonnade.privacy.accounting import Loss, nano_epsilon, total
from colonnade.protocol import codec
from colonnade.result import COORDINATOR

__all__ = ["Permission", "requester_of"]


def requester_of(about: About | None) -> str:
    """Return who asks: the analyst who signed, and otherwise the coordinator. The signature was checked before."""
    return about.requester if about is not None and about.signature else COORDINATOR


@dataclass(frozen=True)
class Permission:
    """The rules of one party about requesters, as they stand.

    Parameters
    ----------
    policy
        The party's rules.
    party
        Its name.
    delta
        The δ of its ledger's cap, at which caps are compared.
    entries
        The rows of its ledger.
    now
        What the ledger's clock shows.
    held
        What is held for other studies: it counts as if it were spent.
    """

    policy: Policy
    party: str
    delta: float
    entries: Sequence[Entry]
    now: datetime
    held: Sequence[Hold] = ()

    def require(self, plan: Plan, about: About | None, cost: Loss, *, discloses: bool) -> None:
        """Refuse a study that its requester may not have, or that waits for an approval.

        Parameters
        ----------
        plan
            The study.
        about
            What is said about it.
        cost
            What it would still cost.
        discloses
            Whether something leaves without differential privacy.
        """
        who = requester_of(about)
        spent = self._spent(lambda entry: requester_of(entry.about) == who, lambda hold: hold.requester == who)
        self._require_cap("requester", self.policy.requesters, who, spent + cost)
        purpose = "" if about is None else about.purpose
        for_it = self._spent(
            lambda entry: entry.about is not None and entry.about.purpose == purpose,
            lambda hold: hold.purpose == purpose,
        )
        self._require_cap("purpose", self.policy.purposes, purpose, for_it + cost)
        if self._is_above(spent + cost, discloses=discloses) and not self.approved(plan):
            raise ApprovalNeeded(
                f"This study waits for the approval of party {self.party!r} (approve_above).",
                remedy="Have its operator look at it and approve it (colonnade party approve FOLDER), then call again.",
            )

    def waiting(self, refused: Sequence[RefusedStudy], version: int) -> list[RefusedStudy]:
        """Return the studies that wait for an approval, each once and the latest first, of the present data version."""
        found: dict[bytes, RefusedStudy] = {}
        for study in reversed(refused):
            plan = study.plan
            if study.code != ApprovalNeeded.code or plan is None or study.hash in found:
                continue
            paid = any(entry.plan == study.hash for entry in self.entries)
            if plan.data_versions.get(self.party) == version and not paid and not self.approved(plan):
                found[study.hash] = study
        return list(found.values())

    def _is_above(self, after: Loss, *, discloses: bool) -> bool:
        limit = self.policy.approve_above
        if limit is None:
            return False
        return discloses or limit == 0 or not after.fits(nano_epsilon(limit), self.delta)

    def approved(self, plan: Plan) -> bool:
        """Return whether the owner has approved this plan, on this data version, and the approval has not ended."""
        wanted = (codec.digest(plan).hex(), plan.data_versions.get(self.party))
        now = int(self.now.timestamp() * 1_000_000)
        return any(
            isinstance(entry.decision, Approval)
            and (entry.decision.plan, entry.decision.version) == wanted
            and now < entry.decision.until
            for entry in self.entries
        )

    def _spent(self, of: Callable[[Entry], bool], for_whom: Callable[[Hold], bool]) -> Loss:
        paid = [entry.loss for entry in self.entries if entry.loss is not None and entry.plan is not None and of(entry)]
        return total((*paid, *(hold.loss for hold in self.held if for_whom(hold))))

    def _require_cap(self, of: str, caps: Mapping[str, float] | None, name: str, after: Loss) -> None:
        if caps is None:
            return
        raised = [
            entry.decision.nano
            for entry in self.entries
            if isinstance(entry.decision, Allowance) and (entry.decision.of, entry.decision.name) == (of, name)
        ]
        if not raised and name not in caps:
            raise PolicyRefusal(
                f"The policy of party {self.party!r} lists every {of} that it answers, and this one is not among them "
                f"({of}s).",
                remedy=f"Ask its operator to add the {of} to its policy, or ask as one that is listed.",
            )
        cap = raised[-1] if raised else nano_epsilon(caps[name])
        if not after.fits(cap, self.delta):
            raise BudgetExceeded(
                f"This would take the {of} past its cap at party {self.party!r} ({of}s).",
                remedy=f"Ask for less, or have the operator raise it: colonnade ledger raise FOLDER --{of} NAME.",
            )
