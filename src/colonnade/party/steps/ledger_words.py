"""How a step is named in the ledger, and how a statistic is asked to fail before anything is paid."""

from typing import Any

from colonnade.party.ledger.ledger import RowTerms, SqliteLedger
from colonnade.party.table.private_table import PrivateTable
from colonnade.plan import EVENT, Plan, Step
from colonnade.protocol import codec
from colonnade.steps.joint import is_joint

__all__ = ["label_of", "paid_together", "prepare", "row_terms"]


def prepare(statistic: Any, table: PrivateTable) -> None:
    """Let a statistic fail, if it must, before anything is paid."""
    if hasattr(statistic, "prepare"):
        statistic.prepare(table)


def label_of(plan: Plan, step: Step) -> str:
    """Public words for the ledger: the study, the step, the first digits of the plan's hash."""
    level = " event-level" if plan.relation == EVENT else ""
    return f"{plan.task}/{plan.method}{level} {step.name} {codec.digest(plan).hex()[:12]}"


def paid_together(plan: Plan, step: Step) -> bool:
    """Return whether every party's ledger holds this step's loss whole, so that a person's total counts it once.

    Losses of parts (the party unit) are added instead, which bounds the whole: Σ_q (T² − (T − R_q²)²) ≥ T² − γ⁴.
    """
    together = is_joint(step) or step.statistic in ("gradient", "membership-sketches")
    return together and plan.unit == "person"


def row_terms(ledger: SqliteLedger, plan: Plan, step: Step) -> RowTerms:
    """Hand the plan over to the ledger, and return what a row says about its step beside label and loss."""
    digest = codec.digest(plan)
    ledger.keep_plan(digest, codec.encode(plan))
    return {"together": paid_together(plan, step), "event_level": plan.relation == EVENT, "plan": digest}
