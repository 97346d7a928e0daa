"""A study in two stages: what the first one releases decides what the second one asks for.

Each stage is a plan of its own, because a plan names every column and weight before anything is released. The price is divided
between the two, in parts of ρ. The second plan names the hash of the first, and the statement of the study is about both.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pandas as pd

from colonnade.coordinator.driver import Findings, Traffic, forecast_traffic, statement_of
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols.counting import TargetTables
from colonnade.coordinator.protocols.moment_releases import GramRelease
from colonnade.errors import BadInput, BudgetExceeded, Cost
from colonnade.estimators.answers import Preview, budget_after
from colonnade.plan import Plan
from colonnade.privacy.accounting import GAUSSIAN_PART, NOTHING, Price, of_several
from colonnade.privacy.calibration import ledger_rho, price_of_rho
from colonnade.protocol import messages
from colonnade.result import PrivacyStatement
from colonnade.schema import ColumnName
from colonnade.transport.direct import Transcript

AUTO = "auto:"
Purpose = Literal["choice", "evidence"]
CHOICE_SHARE, EVIDENCE_SHARE = 15, 80
"""How many hundredths of a price go to the first stage: where it chooses columns, and where it is nearly all of the study."""


@dataclass(frozen=True, eq=False)
class FirstStage:
    """What is released first, and what for.

    Parameters
    ----------
    purpose
        ``"choice"`` of columns, or ``"evidence"``: the tables that a model is made of.
    algorithm, plan
        What is run.
    rest
        The price that is left for the second stage.
    found
        What was released; ``None`` before that.
    """

    purpose: Purpose
    algorithm: TargetTables | GramRelease
    plan: Plan
    rest: Price
    found: Any = None

    @property
    def digest(self) -> str:
        """The hash of its plan, which the second plan names."""
        return messages.digest(self.plan).hex()


def how_many(columns: Sequence[str] | str | None) -> int | None:
    """Return how many columns are to be chosen; ``None`` where they are named.

    Examples
    --------
    >>> how_many("auto:10"), how_many(["bank.age"])
    (10, None)
    """
    return int(columns.removeprefix(AUTO)) if isinstance(columns, str) else None


def best_columns(scores: Mapping[str, float], target: str, wanted: int) -> list[str]:
    """Return the columns of the largest scores. At least one of them is at another party than the target.

    Without one nothing would be left to compute together, after the first stage was paid for.

    Examples
    --------
    >>> best_columns({"bank.age": 3.0, "bank.income": 2.0, "telco.bill": 1.0}, "bank.default", 2)
    ['bank.age', 'telco.bill']
    """
    order = sorted(scores, key=lambda name: -scores[name])
    kept, holder = order[:wanted], ColumnName.of(target).party
    elsewhere = [name for name in order if ColumnName.of(name).party != holder]
    if elsewhere and not set(elsewhere) & set(kept):
        kept[-1] = elsewhere[0]
    return kept


def divided(price: Price, share: int) -> tuple[Price, Price]:
    """Divide a price between two stages. The first one has this many hundredths of ρ.

    Examples
    --------
    >>> first, second = divided(Price.of(1.0, 1e-6), 15)
    >>> round(first.epsilon, 2), round(second.epsilon, 2)
    (0.36, 0.92)
    """
    if price.delta == 0:
        raise BadInput("A study in two stages needs a positive delta.", remedy="For example delta=1e-6.")
    delta = GAUSSIAN_PART * price.delta  # two plans
    unit = ledger_rho(Price(price.nano, delta), 100)
    return price_of_rho(unit * share, delta), price_of_rho(unit * (100 - share), delta)


# Both stages as one ----------------------------------------------------------------------------------------------------------


def merge_findings(title: str, first: Findings, second: Findings) -> Findings:
    """Return the record of both stages: one statement, one log of messages, and what both have cost."""
    privacy = _both(first.privacy, second.privacy)
    epsilon, delta = privacy.epsilon(unit=second.plan.unit), privacy.delta(unit=second.plan.unit)
    lines = [first.receipt.splitlines()[-1], second.receipt.splitlines()[-1]]
    whole = f"{title} in two stages: ε={epsilon:.4g}, δ={delta:.4g} per {second.plan.unit} towards the coordinator, together."
    return replace(
        second,
        privacy=privacy,
        transcript=_added(first.transcript, second.transcript),
        receipt="\n".join([str(privacy.trust), whole, *lines]),
        cost=_summed(first.cost, second.cost),
    )


def in_two_stages(
    federation: Federation, first: FirstStage, second: Preview, price: Price, words: Mapping[str, str]
) -> Preview:
    """Return what to expect of both stages.

    Parameters
    ----------
    federation
        Whose parties are asked what the first stage costs, with columns as they are read.
    first, second
        The first stage, and what to expect of the second.
    price
        Of both.
    words
        What is said about the first.
    """
    plan, quote = first.plan, federation._driver.quote(first.plan)
    statement = statement_of(plan, quote, {}, federation._driver.columns.schemas, local=False)
    parties = dict.fromkeys((*plan.parties, *second.charges))
    charges = {party: of_several((quote.charge(party), second.charges.get(party, NOTHING))) for party in parties}
    unpaid = {
        party: {messages.request_identity(plan, party, step): quote.losses[party][step] for step in quote.unpaid[party]}
        for party in plan.parties
    }
    factor = price.epsilon / second.epsilon if second.epsilon else 1.0
    others = second.others.assign(epsilon=second.others["epsilon"] * factor) if len(second.others) else pd.DataFrame()
    return replace(
        second,
        statement=_both(statement, second.statement),
        charges=charges,
        unpaid={party: {**unpaid.get(party, {}), **second.unpaid.get(party, {})} for party in parties},
        after=budget_after(federation._driver.accounts(), charges),
        expected={**words, **second.expected},
        traffic=_traffic(forecast_traffic(plan, quote, federation._driver.columns.schemas), second.traffic),
        others=others,
        epsilon=price.epsilon,
    )


def require_both(federation: Federation, first: FirstStage, preview: Callable[[], Preview]) -> None:
    """Refuse a study whose second stage could not follow, before the first is paid for.

    Parameters
    ----------
    federation, first
        Whose parties are asked, and for what. A first stage that was paid for costs nothing again, and nothing is checked.
    preview
        Returns what to expect of both; the parties then say whether their policies allow the second.
    """
    if not any(federation._driver.quote(first.plan).unpaid.values()):
        return
    after = preview().after
    over = [str(party) for party, row in after.iterrows() if row["spent"] > row["epsilon"]]
    if over:
        raise BudgetExceeded(f"Both stages of this study would take the ledger of {over[0]!r} past its cap.")


def _traffic(first: Traffic | None, second: Traffic | None) -> Traffic | None:
    if first is None or second is None:
        return None
    bytes_to, bytes_from = Counter(first.bytes_to), Counter(first.bytes_from)
    bytes_to.update(second.bytes_to)
    bytes_from.update(second.bytes_from)
    return Traffic(first.rounds + second.rounds, bytes_to, bytes_from)


def _both(first: PrivacyStatement, second: PrivacyStatement) -> PrivacyStatement:
    return replace(
        second,
        openings=tuple(one.followed_by_others() for one in (*first.openings, *second.openings)),
        parties=tuple(dict.fromkeys((*second.parties, *first.parties))),
        study_delta=max(first.study_delta, second.study_delta),
        assumptions=tuple(dict.fromkeys((*first.assumptions, *second.assumptions))),
        local=first.local and second.local,
    )


def _added(first: Transcript, second: Transcript) -> Transcript:
    found = Transcript()
    for one in (first, second):
        found.rounds += one.rounds
        found.messages += one.messages
        found.signatures |= one.signatures
        for name in ("bytes_to", "bytes_from", "seconds", "received", "numbers_to", "numbers_from", "direct"):
            for key, value in getattr(one, name).items():
                getattr(found, name)[key] += value
    return found


def _summed(first: Cost, second: Cost) -> Cost:
    parties = dict.fromkeys((*first.spent, *second.spent))
    return Cost(
        {party: first.spent.get(party, 0.0) + second.spent.get(party, 0.0) for party in parties},
        tuple(dict.fromkeys((*first.unknown, *second.unknown))),
        tuple(dict.fromkeys((*first.disclosed, *second.disclosed))),
    )
