"""What a finished study leaves behind besides its result: who could see what, what was said, and a line to keep."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from colonnade.coordinator.driver import Outcome
from colonnade.coordinator.statement import statement_of
from colonnade.plan import Plan
from colonnade.result import PrivacyStatement
from colonnade.schema import Schema
from colonnade.transport.transcript import Transcript

__all__ = ["Findings", "Papers", "findings_of"]


@dataclass(frozen=True)
class Findings:
    """The result of a study and its papers.

    Parameters
    ----------
    value
        What the algorithm learned.
    plan, privacy, transcript
        What was asked, what it guarantees, what was said.
    receipt
        One line to keep.
    """

    value: Any
    plan: Plan
    privacy: PrivacyStatement
    transcript: Transcript
    receipt: str


class Papers:
    """What shows the papers of the study that it came from, under the names that every estimator has them by."""

    findings: Findings

    @property
    def privacy_(self) -> PrivacyStatement:
        """Who could see what, at what price."""
        return self.findings.privacy

    @property
    def transcript_(self) -> Transcript:
        """What was said."""
        return self.findings.transcript

    @property
    def receipt_(self) -> str:
        """A line to keep."""
        return self.findings.receipt

    @property
    def plan_(self) -> Plan:
        """What was asked."""
        return self.findings.plan


def findings_of(outcome: Outcome, schemas: Mapping[str, Schema], *, title: str, local: bool) -> Findings:
    """Draw up the papers of a finished study."""
    plan = outcome.plan
    statement = statement_of(plan, outcome.quote, outcome.mechanisms, schemas, local=local)
    epsilon, delta = statement.epsilon(unit=plan.unit), statement.delta(unit=plan.unit)
    paid = "paid" if any(outcome.quote.unpaid.values()) else "already paid, nothing spent"
    if plan.price is None and any(outcome.quote.disclosed.values()):
        paid = "not differentially private, allowed by name, not covered by the budget"
    receipt = (
        f"{title}: ε={_figure(epsilon)}, δ={_figure(delta)} a {plan.unit} towards the coordinator; {paid}; "
        f"{plan.people:,} people, {len(plan.parties)} parties, {outcome.transcript.rounds} rounds, "
        f"{outcome.transcript.bytes:,} bytes, {outcome.transcript.wall_time:.2f} s"
    )
    return Findings(outcome.value, plan, statement, outcome.transcript, receipt)


def _figure(value: float) -> str:
    return "∞ (not private)" if math.isinf(value) else f"{value:.4g}"
