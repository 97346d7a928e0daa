"""A forecast of what a study will say: rounds, and bytes to and from every member. No message is sent.

Everything large in a message is a plan, an array whose shape the plan fixes, or shares of rows whose number and width it fixes.
The rest (names, hashes, seals) is counted as a small constant per message.
"""

from collections.abc import Mapping

from colonnade.privacy.loss import NOTHING
from colonnade.secure.mail import OVERHEAD

__all__ = ["HELLO", "LETTER", "LOSS", "SEED", "SMALL", "Forecast"]

SMALL = 60
"""Bytes of a message besides the plan and what is listed here: names, tags, lengths."""
LOSS = len(NOTHING.to_bytes())
HELLO = 290
LETTER = OVERHEAD + 90
SEED = 32


class Forecast:
    """Adds up rounds. Every request carries the plan.

    Parameters
    ----------
    plan_bytes
        How large the plan is.
    """

    def __init__(self, plan_bytes: int) -> None:
        self.plan_bytes = plan_bytes
        self.rounds = 0
        self.to: dict[str, int] = {}
        self.back: dict[str, int] = {}

    def round(self, to: Mapping[str, int], back: Mapping[str, int]) -> None:
        """Add one round: bytes to and from each member, besides the plan."""
        self.rounds += 1
        for member, size in to.items():
            self.to[member] = self.to.get(member, 0) + size + self.plan_bytes
        for member, size in back.items():
            self.back[member] = self.back.get(member, 0) + size

    def releases(self, step: str, sizes: Mapping[str, int]) -> None:
        """Add one round in which every party sends its own release."""
        self.round(dict.fromkeys(sizes, len(step)), {party: size + LOSS + SMALL + 80 for party, size in sizes.items()})
