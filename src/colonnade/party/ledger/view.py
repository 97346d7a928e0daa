"""What may be read of a ledger from outside the gate, and how its rows name a step."""

from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.ledger.rows import Entry
from colonnade.plan import EVENT, Plan, Step
from colonnade.protocol import codec
from colonnade.steps.registry import kind_of

__all__ = ["LISTED", "LedgerView", "label_of"]

LISTED = " list"
"""How the label of a row ends that stands for one attempt to match a list."""


class LedgerView:
    """What may be read of a party's ledger from outside the gate. Nothing can be written through it."""

    def __init__(self, ledger: SqliteLedger) -> None:
        self.identity = ledger.identity
        self.budget = ledger.budget
        self.head = ledger.head
        self.spent = ledger.spent
        self._entries = ledger.entries

    def entries(self) -> list[Entry]:
        """Return every row."""
        return list(self._entries())


def label_of(plan: Plan, step: Step) -> str:
    """Public words for the ledger: the study, the step, the first digits of the plan's hash.

    "joint" marks a loss that every party's ledger holds whole, so that a person's total counts it once. Losses of parts (the
    party unit) are added instead, which bounds the whole: Σ_q (T² − (T − R_q²)²) ≥ T² − γ⁴.
    """
    level = " event-level" if plan.relation == EVENT else ""
    name = f"{plan.task}/{plan.method}{level} {step.name} {codec.digest(plan).hex()[:12]}"
    return f"{name} joint" if kind_of(step).together and plan.unit == "person" else name
