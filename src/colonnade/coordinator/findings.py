"""The record of a study besides its result: privacy statement, traffic, the parties' accounts, and a receipt of three lines."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from colonnade.coordinator.driver import Outcome, Quote
from colonnade.errors import NOTHING_SPENT, BadInput, ColonnadeError, Cost
from colonnade.estimation.moment_summaries import MomentSummary, PairEstimates
from colonnade.estimation.moments import Moments
from colonnade.plan import EVENT, Plan
from colonnade.privacy.accounting import NANO, NOTHING, Loss, Unit, total
from colonnade.protocol import codec, messages
from colonnade.result import Opening, PrivacyStatement
from colonnade.schema import Column, Schema
from colonnade.steps.kind import LOSS, SMALL, Forecast, discloses, whole_steps
from colonnade.transport.direct import Transcript

EVENT_LEVEL = (
    "Event level: neighbours differ in one person's value at each party by at most {change}. "
    "Steps of that size are hidden; a whole value, and the order of its size, is not."
)
NOT_PRIVATE = (
    "Not differentially private: exact values left the parties. Each party allows this by name in its policy. "
    "What is said to stay hidden does so from a coordinator that follows the protocol; one that does not can learn more, up to "
    "the rows that take part."
)


def statement_of(
    plan: Plan, quote: Quote, mechanisms: Mapping[str, str], schemas: Mapping[str, Schema], *, local: bool
) -> PrivacyStatement:
    """Return the privacy statement of a plan: who could see what, at what price.

    Parameters
    ----------
    plan, quote
        The study, and what each party computed that it costs.
    mechanisms
        The mechanism of each step, in words, where it is known.
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
        assumptions=_assumptions(plan),
        relation=plan.relation,
    )


def _openings(
    plan: Plan, quote: Quote, mechanisms: Mapping[str, str], schemas: Mapping[str, Schema]
) -> tuple[Opening, ...]:
    """Return one opening per local release, and one per joint step."""
    openings: list[Opening] = []
    for whole in whole_steps(plan, schemas):
        name, quoted = whole.name, quote.losses
        losses = {party: quoted[party][name] for party in whole.steps if name in quoted.get(party, {})}
        openings += whole.kind.openings(whole, losses, mechanisms.get(name, whole.kind.title))
    return tuple(openings)


def _assumptions(plan: Plan) -> tuple[str, ...]:
    """Return what the guarantee of a plan rests on, in words."""
    words: list[str] = []
    if plan.relation == EVENT:
        words.append(EVENT_LEVEL.format(change=max(step.parameters.get("change", 0) for step in plan.steps)))
    if any(discloses(step) for step in plan.steps):
        words.append(NOT_PRIVATE)
    for whole in whole_steps(plan):
        words += whole.kind.assumptions(whole)
    return tuple(dict.fromkeys(words))


@dataclass(frozen=True)
class Traffic:
    """The traffic that a study will cause: rounds, and bytes to and from each member.

    Parameters
    ----------
    rounds
        Exchanges between the coordinator and the members.
    bytes_to, bytes_from
        To and from each member, in all rounds, where the coordinator relays every letter.
    direct, relayed
        Where members have addresses in the papers and serve them (``colonnade party serve --direct``): bytes of letters that go
        from one to another, and what is left to the coordinator.
    """

    rounds: int = 0
    bytes_to: Mapping[str, int] = field(default_factory=dict)
    bytes_from: Mapping[str, int] = field(default_factory=dict)
    direct: int = 0
    relayed: int = 0

    @property
    def bytes(self) -> int:
        """All bytes in both directions."""
        return sum(self.bytes_to.values()) + sum(self.bytes_from.values())

    @property
    def words(self) -> str:
        """The traffic in words."""
        links = f"; with every direct link up about {self.relayed:,}, and {self.direct:,} between members"
        return f"{self.rounds} rounds, about {self.bytes:,} bytes{links if self.direct else ''}"


QUESTION, YES, HEAD = 32, 200, 170
"""Bytes of a member's question to all ledgers, of a yes, and of where a ledger stands, with its proofs."""


def forecast_traffic(
    plan: Plan, quote: Quote, schemas: Mapping[str, Schema], linked: Collection[str] = ()
) -> Traffic | None:
    """Return the traffic that running a plan will cause; ``None`` if one of its kinds of step cannot be forecast.

    Parameters
    ----------
    plan
        The study.
    quote
        What each party would be charged. A release that was paid for before is fetched, not made again.
    schemas
        The parties' public schemas.
    linked
        Members that have an address for direct links.
    """
    forecast = Forecast(len(codec.encode(messages.Propose(plan=plan))))
    forecast.round(
        dict.fromkeys((*plan.parties, *plan.compute_nodes), 0),
        {name: SMALL + sum(len(step) + LOSS + 4 for step in losses) for name, losses in quote.losses.items()},
    )
    _add_yeses(forecast, plan)
    for whole in whole_steps(plan, schemas):
        unpaid = [whole.name in quote.unpaid[party] for party in whole.steps]
        kept = not any(quote.unpaid.values()) if whole.kind.keeps_key else not any(unpaid)
        try:
            if not whole.kind.forecast(whole, forecast, kept=kept):
                return None
        except ColonnadeError:  # a parameter that the kind does not take
            return None
    pairs = [sizes for ends, sizes in forecast.letters.items() if set(ends) <= set(linked)]
    direct, tickets = sum(map(sum, pairs)), sum(map(len, pairs)) * messages.TICKET_BYTES
    every = sum(forecast.to.values()) + sum(forecast.back.values())
    return Traffic(forecast.rounds, forecast.to, forecast.back, direct, every - 2 * (direct - tickets))


def _add_yeses(forecast: Forecast, plan: Plan) -> None:
    """Add the two rounds in which everybody says yes, and is shown everybody's. They carry the plan's hash, not the plan."""
    members = plan.members
    asked = SMALL + sum(len(name) + QUESTION for name in members)
    said = {name: YES + len(name) + (HEAD if name in plan.parties else 0) for name in members}
    shown = SMALL + sum(said.values())
    forecast.round(dict.fromkeys(members, asked - forecast.plan_bytes), said)
    forecast.round(dict.fromkeys(members, shown - forecast.plan_bytes), dict.fromkeys(members, SMALL // 2))


def account_row(reply: messages.Accounted) -> dict[str, object]:
    """Return one party's line of `Federation.budget`."""
    spent = Loss.from_bytes(reply.spent)
    return {
        "party": reply.party,
        "spent": spent.epsilon(reply.cap_delta),
        "remaining": _remaining_epsilon(spent, reply.cap_nano, reply.cap_delta),
        "epsilon": reply.cap_nano / NANO,
        "delta": reply.cap_delta,
        "releases": sum(entry.loss is not None for entry in reply.entries),
        "nonprivate": sum(entry.loss is None for entry in reply.entries),
        "spent_if_replaced": spent.epsilon_if_replaced(reply.cap_delta),
    }


def _remaining_epsilon(spent: Loss, cap_nano: int, delta: float) -> float:
    """Return the largest pure ε that one more release may cost, by the composition that ledgers use."""
    low, high = 0, cap_nano
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if (spent + Loss.of_pure(middle)).fits(cap_nano, delta) else (low, middle - 1)
    return low / NANO


def budget_table(accounts: Mapping[str, messages.Accounted], party: str | None, unit: Unit) -> pd.DataFrame | pd.Series:
    """Return the parties' accounts as a table, one party's row of it, or one person's total; see `Federation.budget`."""
    if unit == "person":
        return person_row(accounts.values())
    rows = pd.DataFrame([account_row(reply) for reply in accounts.values()]).set_index("party")
    if party is None:
        return rows
    if party not in rows.index:
        raise BadInput(f"There is no party {party!r}.", remedy=f"The parties are {', '.join(accounts)}.")
    return rows.loc[party]


def person_row(accounts: Iterable[messages.Accounted]) -> pd.Series:
    """Return what all parties together have released about one person: a figure that no single ledger caps."""
    replies = list(accounts)
    delta = max((reply.cap_delta for reply in replies), default=0.0)
    return pd.Series({"spent": _person_loss(replies).epsilon(delta), "delta": delta}, name="person")


def _person_loss(accounts: Iterable[messages.Accounted]) -> Loss:
    """Compose all parties' releases. A release that several parties paid for together counts once, at its largest loss."""
    alone: list[Loss] = []
    joint: dict[str, Loss] = {}
    for reply in accounts:
        for entry in reply.entries:
            if entry.loss is None:
                continue
            loss = Loss.from_bytes(entry.loss)
            if entry.joint is None:
                alone.append(loss)
            else:
                joint[entry.joint] = max(joint.get(entry.joint, NOTHING), loss, key=lambda one: one.renyi)
    return total([*alone, *joint.values()])


@dataclass(frozen=True)
class Findings:
    """The result of a study and its record.

    Parameters
    ----------
    value
        What the algorithm learned.
    plan, privacy, transcript
        The plan that was run, its privacy statement, and the log of its messages.
    receipt
        The trust picture in two lines, and one line with the figures.
    cost
        What the call cost, by the parties' own accounts.
    """

    value: Any
    plan: Plan
    privacy: PrivacyStatement
    transcript: Transcript
    receipt: str
    cost: Cost = NOTHING_SPENT


class StudyRecord:
    """A mixin that shows the record of a study, under the attribute names that every estimator uses."""

    findings: Findings

    @property
    def privacy_(self) -> PrivacyStatement:
        """The privacy statement: who could see what, at what price."""
        return self.findings.privacy

    @property
    def transcript_(self) -> Transcript:
        """The log of messages: rounds, bytes and times."""
        return self.findings.transcript

    @property
    def receipt_(self) -> str:
        """The trust picture in two lines, and one line with the figures."""
        return self.findings.receipt

    @property
    def plan_(self) -> Plan:
        """The plan that was run."""
        return self.findings.plan


def findings_of(outcome: Outcome, schemas: Mapping[str, Schema], *, title: str, local: bool) -> Findings:
    """Return a finished study's result and record."""
    plan = outcome.plan
    statement = statement_of(plan, outcome.quote, outcome.mechanisms, schemas, local=local)
    epsilon, delta = statement.epsilon(unit=plan.unit), statement.delta(unit=plan.unit)
    replaced = statement.epsilon_if_replaced() if plan.unit == "person" else math.inf
    receipt = (
        f"{statement.trust}\n"
        f"{title}: ε={_figure(epsilon)}, δ={_figure(delta)} per {plan.unit} towards the coordinator"
        f"{f' (ε={_figure(replaced)} if a record is replaced by another)' if math.isfinite(replaced) and replaced else ''}; "
        f"may pool: {statement.pooling}; {_paid(outcome)}; "
        f"{plan.people:,} people, {len(plan.parties)} {'party' if len(plan.parties) == 1 else 'parties'}, "
        f"{outcome.transcript.rounds} rounds, {outcome.transcript.traffic}, {outcome.transcript.wall_time:.2f} s"
    )
    return Findings(outcome.value, plan, statement, outcome.transcript, receipt, outcome.cost)


def _paid(outcome: Outcome) -> str:
    """Return what the call cost in words, by the parties' own accounts."""
    cost = outcome.cost
    if outcome.plan.price is None and any(outcome.quote.disclosed.values()):
        unread = f"; {Cost(unknown=cost.unknown).words}" if cost.unknown else ""
        return f"not differentially private, allowed by name, not covered by the budget{unread}"
    if outcome.plan.price is None:
        return "nothing to pay for"
    if cost == NOTHING_SPENT:
        return "already paid, nothing spent"
    return f"paid: {cost.words}{' (at the δ of each cap)' if outcome.plan.price.delta else ''}"


def _figure(value: float) -> str:
    return "∞ (not private)" if math.isinf(value) else f"{value:.4g}"


@dataclass(frozen=True, eq=False)
class MomentsRelease(StudyRecord):
    """One noisy Gram matrix and the record of its study; made by `Federation.moments`.

    Parameters
    ----------
    moments
        The matrix, its noise and its coded columns.
    columns
        The public descriptions of the columns in it.
    findings
        The result and record of the study that released it.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=2_000).federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
    >>> release = federation.moments(["bank.age", "bank.income", "telco.minutes"], epsilon=1.0, delta=1e-5)
    >>> cn.PCA(1).fit(release).components_.shape
    (1, 3)
    """

    moments: Moments
    columns: Mapping[str, Column]
    findings: Findings

    def mean(self, level: float = 0.95, *, total: bool = False) -> pd.DataFrame:
        """Return the mean of every column in own units, and the share of people with every level. Nothing is spent.

        Parameters
        ----------
        level
            The level of the intervals.
        total
            Whether intervals and errors also cover the sampling of people. By default they cover the mean of the same people.

        Returns
        -------
        DataFrame
            One row per coded column: ``mean``, ``stderr``, ``low``, ``high``.
        """
        return self._summary().mean(level, total=total)

    def covariance(self, level: float = 0.95, *, total: bool = False) -> PairEstimates:
        """Return the covariance of every two columns in own units, positive semi-definite. Nothing is spent.

        Parameters
        ----------
        level, total
            As for `mean`.

        Returns
        -------
        PairEstimates
            Frames ``values``, ``stderr``, ``low`` and ``high``; ``table()`` has one row per pair.
        """
        return self._summary().covariance(level, total=total)

    def correlation(self, level: float = 0.95, *, total: bool = False) -> PairEstimates:
        """Return the correlation of every two columns, positive semi-definite. Nothing is spent.

        Parameters
        ----------
        level, total
            As for `mean`.

        Returns
        -------
        PairEstimates
            Frames ``values``, ``stderr``, ``low`` and ``high``; ``table()`` has one row per pair.

        Examples
        --------
        >>> import colonnade as cn
        >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
        >>> release = federation.moments(["bank.age", "bank.income", "telco.minutes"], epsilon=2.0, delta=1e-5)
        >>> release.correlation().values.shape
        (3, 3)
        """
        return self._summary().correlation(level, total=total)

    def _summary(self) -> MomentSummary:
        return MomentSummary(self.moments, self.columns)

    def __repr__(self) -> str:
        return f"MomentsRelease({len(self.columns)} columns, {self.moments.count:,} people)"
