"""One randomised report a person: the local randomiser of pattern counting."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.party.steps.categories import only_parameters
from colonnade.party.steps.memberships import MEMBERSHIP, Earlier, category_of, nothing_earlier
from colonnade.party.steps.parameters import seed_parameter
from colonnade.party.table.private_table import PrivateTable
from colonnade.plan import Plan, Step
from colonnade.privacy.laws import Mechanism
from colonnade.privacy.laws.channel import best_channel
from colonnade.privacy.laws.response import RandomizedResponse
from colonnade.privacy.price import Price
from colonnade.privacy.randomness import KeyedRandomness
from colonnade.schema import Schema

__all__ = ["Reports"]


class Reports:
    """Each person's category at this party (`colonnade.party.steps.memberships`), to be randomised person by person.

    Sensitivity: a person's record decides that person's report and no other. ``sample`` (a rate) and ``seed`` restrict the
    reports to people chosen by public coins; since everyone can see who was chosen, it saves bytes and buys no privacy: a
    chosen person pays the full ε. Checked by tests/party/test_statistics.py.
    """

    looks_back = True

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        parameters = only_parameters(step, frozenset({"sample", "seed"}) | MEMBERSHIP)
        self.columns = step.columns
        self.category = category_of(plan, step, schema, earlier)
        self.size = self.category.size
        self.people = plan.people
        self.sample = _rate(parameters.get("sample", 1.0))
        self.seed = seed_parameter(parameters.get("seed", "00" * 32))

    @property
    def taking_part(self) -> NDArray[np.bool_] | None:
        """Who reports; ``None`` for everyone."""
        return None if self.sample == 1 else chosen(self.seed, self.sample, self.people)

    def prepare(self, table: PrivateTable) -> None:
        """Require whatever the category rests on, before anything is paid."""
        self.category.prepare(table)

    def mechanism(self, price: Price) -> Mechanism:
        """Return the response of least variance for this many categories at this price."""
        return RandomizedResponse(best_channel(self.size, price))

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Return the category of each person who takes part; -1 where it is missing."""
        nonprivate_codes, some = self.everyone(table), self.taking_part
        return nonprivate_codes if some is None else nonprivate_codes[some]

    def everyone(self, table: PrivateTable) -> NDArray[Any]:
        """Return the category of every person in the table, chosen or not."""
        return self.category.codes(table)


def chosen(seed: bytes, rate: float, people: int) -> NDArray[np.bool_]:
    """Return who takes part: each person independently with probability ``rate``, by coins that all can recompute."""
    coins = KeyedRandomness(seed).words(people)
    return coins < np.uint64(int(rate * 2**64))


def _rate(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise BadInput("sample must be a rate in (0, 1].")
    return float(value)
