"""A data party's part in agreeing on a key: keep it once, in the ledger, under the step of the plan that it belongs to."""

from typing import TYPE_CHECKING

from colonnade.errors import ReleaseLost
from colonnade.party.steps.group_key import GroupKey
from colonnade.party.steps.ledger_words import label_of, row_terms
from colonnade.plan import Plan, Step

if TYPE_CHECKING:
    from colonnade.party.gate import Gate

__all__ = ["KeyPart"]


class KeyPart:
    """Where a group key is kept.

    Parameters
    ----------
    gate
        The party's door; the key goes into its ledger, and with it into whatever protects that file.
    plan, step
        What the key is for. Another plan is another request, so no second study ever meets this key.
    statistic
        Says that the step is in order.
    """

    def __init__(self, gate: "Gate", plan: Plan, step: Step, statistic: GroupKey) -> None:
        self._gate = gate
        self._plan = plan
        self._step = step
        self._statistic = statistic

    def begin(self) -> None:
        """Refuse if a key is kept for this step already: see `colonnade.conversations.group_key` for why it is never replaced."""
        if self._gate.ledger.knows(self._gate.paid_as(self._plan, self._step.name)[0]):
            raise ReleaseLost(
                "The parties agreed on the key of this study before, and not all of them kept it.",
                remedy="Run the study again with the next repeat=.",
            )

    def keep(self, key: bytes) -> None:
        """Keep the key, durably, before anyone is told that it is settled."""
        request, body = self._gate.paid_as(self._plan, self._step.name)
        terms = row_terms(self._gate.ledger, self._plan, self._step)
        self._gate.ledger.keep_key(request, body, key, label=label_of(self._plan, self._step), **terms)
