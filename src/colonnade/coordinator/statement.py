"""What a plan opens to whom: the openings behind a privacy statement, and what they rest on."""

from collections.abc import Mapping

from colonnade.coordinator.driver import Quote
from colonnade.plan import EVENT, Plan
from colonnade.result import Opening, PrivacyStatement
from colonnade.schema import Schema
from colonnade.steps.registry import discloses, whole_steps

__all__ = ["statement_of"]

EVENT_LEVEL = (
    "Event level: neighbours differ in one person's value at each party by at most {change}. "
    "Steps of that size are hidden; a whole value, and the order of its size, is not."
)
NOT_PRIVATE = (
    "Not differentially private: exact values left the parties, each of which allows this by name in its policy. "
    "What is said to stay hidden does so from a coordinator that follows the protocol; one that does not can learn more, up to "
    "the rows that take part."
)


def statement_of(
    plan: Plan, quote: Quote, mechanisms: Mapping[str, str], schemas: Mapping[str, Schema], *, local: bool
) -> PrivacyStatement:
    """Return who could see what of a plan, at what price.

    Parameters
    ----------
    plan, quote
        The study, and what each party computed that it costs.
    mechanisms
        What each step was perturbed by, in words, where that is known.
    schemas
        What is public about the parties' columns.
    local
        Whether local differential privacy holds.
    """
    return PrivacyStatement(
        _openings(plan, quote, mechanisms, schemas),
        plan.parties,
        plan.price.delta if plan.price is not None else 0.0,
        local=local,
        collusion=min((kind.collusion(plan, steps) for kind, steps in whole_steps(plan)), default=0),
        assumptions=_assumptions(plan),
        relation=plan.relation,
    )


def _openings(
    plan: Plan, quote: Quote, mechanisms: Mapping[str, str], schemas: Mapping[str, Schema]
) -> tuple[Opening, ...]:
    """Return one opening per local release, and one per joint step."""
    openings: list[Opening] = []
    for kind, steps in whole_steps(plan):
        name = next(iter(steps.values())).name
        losses = {party: quote.losses[party][name] for party in steps if name in quote.losses.get(party, {})}
        openings += kind.openings(plan, steps, losses, schemas, mechanisms.get(name, kind.title))
    return tuple(openings)


def _assumptions(plan: Plan) -> tuple[str, ...]:
    """Return what the guarantee of a plan rests on, in words."""
    words: list[str] = []
    if plan.relation == EVENT:
        words.append(EVENT_LEVEL.format(change=max(step.parameters.get("change", 0) for step in plan.steps)))
    if any(discloses(step) for step in plan.steps):
        words.append(NOT_PRIVATE)
    for kind, steps in whole_steps(plan):
        words += kind.assumptions(plan, steps)
    return tuple(dict.fromkeys(words))
