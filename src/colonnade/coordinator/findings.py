"""What a finished study leaves behind besides its result: who could see what, what was said, and a line to keep."""

import math
from dataclasses import dataclass
from typing import Any

from colonnade.conversations.registry import uses_compute_nodes
from colonnade.coordinator.driver import Outcome, Quote
from colonnade.coordinator.statement import assumptions_of, is_sketch, openings_of
from colonnade.plan import Plan
from colonnade.result import PrivacyStatement
from colonnade.transport.transcript import Transcript

__all__ = ["Findings", "Papers", "findings_of", "statement_of"]


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


def statement_of(plan: Plan, quote: Quote, mechanisms: dict[str, str], *, local: bool) -> PrivacyStatement:
    """Return who could see what of a plan, at what price."""
    secure = uses_compute_nodes(plan)
    alone = any(is_sketch(step) for step in plan.steps)  # a party in the coalition has the key
    return PrivacyStatement(
        openings_of(plan, quote, mechanisms),
        plan.parties,
        plan.price.delta if plan.price is not None else 0.0,
        local=local,
        collusion=0 if alone else plan.collusion if secure else len(plan.parties) - 1,
        assumptions=assumptions_of(plan),
        relation=plan.relation,
    )


def findings_of(outcome: Outcome, *, title: str, local: bool) -> Findings:
    """Draw up the papers of a finished study."""
    plan = outcome.plan
    statement = statement_of(plan, outcome.quote, dict(outcome.mechanisms), local=local)
    epsilon, delta = statement.epsilon(unit=plan.unit), statement.delta(unit=plan.unit)
    paid = "paid" if any(outcome.quote.unpaid.values()) else "already paid, nothing spent"
    if plan.price is None and any(outcome.quote.disclosed.values()):
        paid = "not differentially private, allowed by name, paid for by no budget"
    receipt = (
        f"{title}: ε={_figure(epsilon)}, δ={_figure(delta)} a {plan.unit} towards the coordinator; {paid}; "
        f"{plan.people:,} people, {len(plan.parties)} parties, {outcome.transcript.rounds} rounds, "
        f"{outcome.transcript.bytes:,} bytes, {outcome.transcript.wall_time:.2f} s"
    )
    return Findings(outcome.value, plan, statement, outcome.transcript, receipt)


def _figure(value: float) -> str:
    return "∞ (not private)" if math.isinf(value) else f"{value:.4g}"
