"""What a study will say, forecast from its plan: rounds, and bytes to and from every member. No message is sent."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from colonnade.coordinator.driver import Quote
from colonnade.errors import ColonnadeError
from colonnade.plan import Plan
from colonnade.protocol import codec
from colonnade.protocol.messages import Propose
from colonnade.schema import Schema
from colonnade.steps.registry import whole_steps
from colonnade.steps.traffic import LOSS, SMALL, Forecast

__all__ = ["Traffic", "forecast_traffic"]


@dataclass(frozen=True)
class Traffic:
    """What a study will say: rounds, and bytes to and from all members.

    Parameters
    ----------
    rounds
        Exchanges between the coordinator and the members.
    bytes_to, bytes_from
        To and from each member, in all rounds.
    """

    rounds: int = 0
    bytes_to: Mapping[str, int] = field(default_factory=dict)
    bytes_from: Mapping[str, int] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """All bytes in both directions."""
        return sum(self.bytes_to.values()) + sum(self.bytes_from.values())


def forecast_traffic(plan: Plan, quote: Quote, schemas: Mapping[str, Schema]) -> Traffic | None:
    """Return what running a plan will say; ``None`` if one of its kinds of step cannot be forecast.

    Parameters
    ----------
    plan
        The study.
    quote
        What is paid for already: a release that is kept is fetched, not made.
    schemas
        The parties' public schemas.
    """
    forecast = Forecast(len(codec.encode(Propose(plan=plan))))
    forecast.round(
        dict.fromkeys((*plan.parties, *plan.compute_nodes), 0),
        {name: SMALL + sum(len(step) + LOSS + 4 for step in losses) for name, losses in quote.losses.items()},
    )
    for kind, steps in whole_steps(plan):
        name = next(iter(steps.values())).name
        kept = not any(quote.unpaid.values()) if kind.keeps_key else _is_paid(quote, steps, name)
        try:
            if not kind.forecast(plan, steps, schemas, forecast, kept=kept):
                return None
        except ColonnadeError:  # a parameter that the kind does not take
            return None
    return Traffic(forecast.rounds, forecast.to, forecast.back)


def _is_paid(quote: Quote, parties: Mapping[str, object], name: str) -> bool:
    return not any(name in quote.unpaid[party] for party in parties)
