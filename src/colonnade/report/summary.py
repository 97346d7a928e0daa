"""The first page of a report: who learns what, what must not happen for it to hold, and a verdict per party.

It is written for a data-protection officer who reads one page and signs for one party. The details follow it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isinf

from colonnade.coordinator.accounts import losses_in, plan_accounts
from colonnade.coordinator.driver import NoJournal
from colonnade.coordinator.federation import Federation
from colonnade.errors import ColonnadeError
from colonnade.estimators.answers import Delivery, Evaluation
from colonnade.estimators.study import Study
from colonnade.privacy.accounting import NANO, Loss, total
from colonnade.protocol import codec
from colonnade.protocol.messages import Accounted
from colonnade.report import markup
from colonnade.report.markup import Html, figure, tag
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
    parts += [tag("h3", "Verdict per party"), *_verdict_cards(studies, federation)]
    if left_out:
        reasons = [tag("li", tag("strong", title), f": {reason}") for title, reason in left_out.items()]
        parts += [tag("h3", "Not in this report"), tag("ul", *reasons)]
    parts.append(tag("p", markup.READING, klass="soft"))
    return tag("section", *parts, klass="summary")


def _verdict_cards(studies: Sequence[Reported], federation: Federation | None) -> list[Html]:
    """Return one card per party: the verdict, why, and what its ledger was charged, by its own account."""
    accounts = _accounts(federation)
    cards = []
    for verdict in verdicts(studies):
        bad = verdict.word == NOT_PRIVATE
        title = tag("p", tag("strong", f"{verdict.party}: {verdict.word}", klass="bad" if bad else None))
        charged = "What its ledger was charged could not be read when this was written."
        account = accounts.get(verdict.party)
        if federation is not None and account is not None:
            spent, cap = Loss.from_bytes(account.spent).epsilon(account.cap_delta), account.cap_nano / NANO
            charged = (
                f"Its ledger was charged {_charged(verdict.party, studies, federation)} for these studies, and "
                f"ε = {figure(spent)} in all, of its cap of ε = {figure(cap)} (δ = {figure(account.cap_delta)})."
            )
            uncovered = sum(entry.loss is None for entry in account.entries)
            if uncovered:
                charged += f" No budget covers {uncovered} of its releases: not private."
        cards.append(tag("div", title, tag("p", verdict.reason), tag("p", charged, klass="soft"), klass="receipt"))
    return cards


def _accounts(federation: Federation | None) -> dict[str, Accounted]:
    try:
        return {} if federation is None else federation.accounts()
    except (ColonnadeError, RuntimeError):  # closed, or out of reach
        return {}


def _charged(party: str, studies: Sequence[Reported], federation: Federation) -> str:
    """Return what one party's ledger was ever charged for these studies, composed."""
    plans = {codec.digest(study.plan_): study.plan_ for study in studies if party in study.plan_.parties}
    auditor, losses, delta = federation.journal or NoJournal(), list[Loss](), 0.0
    for plan in plans.values():  # one release may serve several studies
        account = plan_accounts(plan, {party: 0}, federation.transport, auditor)[party]
        if not isinstance(account, Accounted):
            return "an unknown ε"
        losses, delta = [*losses, *losses_in(account)], account.cap_delta
    return f"ε = {figure(total(losses).epsilon(delta))}"
