"""How a step is named in the ledger, and how a statistic is asked to fail before anything is paid."""

from typing import Any

from colonnade.party.table.private_table import PrivateTable
from colonnade.plan import EVENT, Plan, Step
from colonnade.protocol import codec
from colonnade.steps.joint import is_joint

__all__ = ["label_of", "prepare"]


def prepare(statistic: Any, table: PrivateTable) -> None:
    """Let a statistic fail, if it must, before anything is paid."""
    if hasattr(statistic, "prepare"):
        statistic.prepare(table)


def label_of(plan: Plan, step: Step) -> str:
    """Public words for the ledger: the study, the step, the first digits of the plan's hash.

    "joint" marks a loss that every party's ledger holds whole, so that a person's total counts it once. Losses of parts (the
    party unit) are added instead, which bounds the whole: Σ_q (T² − (T − R_q²)²) ≥ T² − γ⁴.
    """
    level = " event-level" if plan.relation == EVENT else ""
    name = f"{plan.task}/{plan.method}{level} {step.name} {codec.digest(plan).hex()[:12]}"
    together = is_joint(step) or step.statistic in ("gradient", "membership-sketches")
    return f"{name} joint" if together and plan.unit == "person" else name
