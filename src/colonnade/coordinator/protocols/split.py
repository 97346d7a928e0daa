"""Dividing a federation's people in two by a hash that is keyed with the parties' group secret."""

from dataclasses import dataclass

from colonnade.coordinator.protocols.relay import settle
from colonnade.errors import BadInput, ReleaseLost
from colonnade.plan import Plan, Step
from colonnade.protocol.rounds import Rounds
from colonnade.steps.keys import Split

__all__ = ["Splitting"]

STEP = "split"


@dataclass(frozen=True)
class Splitting:
    """A division that the parties work out among themselves.

    Parameters
    ----------
    parties
        All of them: two or more.
    test
        The share of people in the second part.
    """

    parties: tuple[str, ...]
    test: float

    def __post_init__(self) -> None:
        if isinstance(self.test, bool) or not isinstance(self.test, float) or not 0 < self.test < 1:
            raise BadInput("test is a share of people between 0 and 1.", remedy="For example test=0.2.")
        if len(self.parties) < 2:
            raise BadInput(
                "A split takes two parties or more.", remedy="One party alone can divide its table by itself."
            )

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party; no column enters."""
        return tuple(
            Split.ask(name=STEP, party=party, parameters={"test": self.test}, price=None) for party in self.parties
        )

    def rounds(self, plan: Plan) -> Rounds:
        """Have the parties divide their people, if they have not before."""
        lost = ReleaseLost(
            "The parties divided their people before, and not all of them kept the parts.",
            remedy="Split again with the next repeat=.",
        )
        yield from settle(plan, STEP, Split.members(plan, STEP), lost)
