"""The first page of a report: who learns what, what must not happen for it to hold, and a verdict per party.

It is written for a data-protection officer who reads one page and signs for one party. The details follow it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isinf

import pandas as pd

from colonnade.coordinator.accounts import CostOfCall
from colonnade.coordinator.driver import NoJournal
from colonnade.coordinator.federation import Federation
from colonnade.errors import ColonnadeError
from colonnade.estimators.answers import Delivery, Evaluation
from colonnade.estimators.study import Study
from colonnade.protocol import codec
from colonnade.report import markup
from colonnade.report.markup import Html, figure, table, tag
from colonnade.result import COORDINATOR
from colonnade.steps.kind import Admission, kind_of

__all__ = ["Reported", "Verdict", "is_private", "summary_section", "verdicts"]

Reported = Study | Delivery | Evaluation
"""What a report is written of: fitted estimators, deliveries of scores, and evaluations."""

HOLDS, ON_TRUST, NOT_PRIVATE = "Holds", "Holds on trust", "NOT PRIVATE"


def is_private(study: Reported) -> bool:
    """Return whether ε per person is finite, towards the coordinator and towards every party that scores were opened to."""
    opened = [step for step in study.plan_.steps if kind_of(step).admission == Admission.PREDICTION]
    recipients = {str(step.parameters["recipient"]) for step in opened}
    return not any(
        isinf(study.privacy_.epsilon(observer=one, unit="person")) for one in ("coordinator", *sorted(recipients))
    )


@dataclass(frozen=True)
class Verdict:
    """What one party's officer has to know first.

    Parameters
    ----------
    party
        Whose verdict it is.
    word
        ``"Holds"``, ``"Holds on trust"`` (in the coordinator, or in the holders of a key) or ``"NOT PRIVATE"``.
    reason
        Why, in a sentence.
    """

    party: str
    word: str
    reason: str


def verdicts(studies: Sequence[Reported]) -> list[Verdict]:
    """Return a verdict for every party that took part in one of the studies."""
    parties = dict.fromkeys(party for study in studies for party in study.plan_.parties)
    return [_verdict(party, [study for study in studies if party in study.plan_.parties]) for party in parties]


def _verdict(party: str, studies: Sequence[Reported]) -> Verdict:
    readers = dict.fromkeys(one for study in studies for one in _exact_readers(study, party))
    if readers:
        who = " and ".join("the coordinator" if one == COORDINATOR else one for one in readers)
        return Verdict(
            party,
            NOT_PRIVATE,
            f"Exact values from {party} went to {who}. Its policy allowed this by name, and no noise hides them.",
        )
    if any(_rests_on_the_coordinator(study, party) for study in studies):
        return Verdict(
            party, ON_TRUST, "Noise hides every person, as long as the coordinator shows what it saw to no other party."
        )
    covered = min(study.privacy_.collusion for study in studies)
    pooled = "alone" if covered == 0 else f"also together with {covered} other {'party' if covered == 1 else 'parties'}"
    return Verdict(party, HOLDS, f"Noise hides every person from the coordinator, {pooled}.")


def _exact_readers(study: Reported, party: str) -> list[str]:
    """Return who learned exact values that this party's columns entered."""
    readers = [one for one in study.privacy_.trust.exposed if one != party]
    return [
        one
        for one in readers
        if any(
            party in opening.scope and opening.loss_to(frozenset({one})) is None for opening in study.privacy_.openings
        )
    ]


def _rests_on_the_coordinator(study: Reported, party: str) -> bool:
    others = [one for one in study.privacy_.parties if one != party]
    return any(isinf(study.privacy_.epsilon(observer=(COORDINATOR, one), unit="party", party=party)) for one in others)


def summary_section(
    studies: Sequence[Reported], federation: Federation | None, left_out: Mapping[str, str] | None = None
) -> Html:
    """Return the summary: the trust picture of each study, a verdict per party, and what is left out of the report and why."""
    parts = [tag("h2", "Summary")]
    if any(not is_private(study) for study in studies):
        parts.append(tag("p", markup.NONPRIVATE, klass="alarm", role="alert"))
    for number, study in enumerate(studies, start=1):
        title = f"{type(study).__name__}, method {study.plan_.method!r}"
        heading = f"Study {number}: {title}" if len(studies) > 1 else title
        lines = [tag("p", line) for line in study.privacy_.trust.lines]
        parts.append(tag("div", tag("p", tag("strong", heading)), *lines, klass="receipt"))
    parts += [tag("h3", "Verdict per party"), _verdict_table(studies, federation)]
    if left_out:
        reasons = [tag("li", tag("strong", title), f": {reason}") for title, reason in left_out.items()]
        parts += [tag("h3", "Not in this report"), tag("ul", *reasons)]
    parts.append(tag("p", markup.READING, klass="soft"))
    return tag("section", *parts, klass="summary")


def _verdict_table(studies: Sequence[Reported], federation: Federation | None) -> Html:
    budget = _budget(federation)
    charged = None if federation is None or budget is None else _charged(studies, federation)
    rows = []
    for verdict in verdicts(studies):
        word = tag("strong", verdict.word, klass="bad" if verdict.word == NOT_PRIVATE else None)
        row: list[object] = [verdict.party, word, verdict.reason]
        if budget is not None and charged is not None:
            spent, cap = (float(budget[column][verdict.party]) for column in ("spent", "epsilon"))
            row += [charged[verdict.party], f"{figure(spent)} of {figure(cap)}"]
        rows.append(row)
    columns = ["party", "verdict", "why"]
    if budget is not None:
        columns += ["ε for these studies", "ε in all, of its cap"]
    return table(columns, rows)


def _budget(federation: Federation | None) -> pd.DataFrame | None:
    try:
        return None if federation is None else federation.budget()
    except (ColonnadeError, RuntimeError):  # closed, or out of reach
        return None


def _charged(studies: Sequence[Reported], federation: Federation) -> dict[str, str]:
    """Return what each party's ledger was ever charged for these studies, by its own account."""
    plans = list(
        {codec.digest(study.plan_): study.plan_ for study in studies}.values()
    )  # one release may serve several
    costs = [
        CostOfCall(plan, federation.transport, federation.journal or NoJournal(), dict.fromkeys(plan.parties, 0)).read()
        for plan in plans
    ]
    parties = dict.fromkeys(party for plan in plans for party in plan.parties)
    return {
        party: "unknown"
        if any(party in cost.unknown for cost in costs)
        else figure(sum(cost.spent.get(party, 0.0) for cost in costs))
        for party in parties
    }
