"""Tables of stated conditioning for previews: how far columns spread between their bounds, and how they hang together."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

import colonnade as cn
from tests import kit
from tests.federations import from_one_table

PARTIES = ("a", "b", "c")
LEVELS = ("one", "two", "three", "four", "five")
BOUND = 5.0
"""Bounds of a number, in standard deviations: a standard deviation is a tenth of the distance between them."""


@dataclass(frozen=True)
class Sample:
    """A table of numbers, one category per party, a number and a class to predict, and sums of small whole numbers."""

    frame: pd.DataFrame
    schemas: dict[str, cn.Schema]

    def federation(self, key: str) -> cn.Federation:
        """Return a federation of its own, with draws of its own."""
        budget = cn.Budget(epsilon=9_000.0, delta=1e-3)
        return from_one_table(self.frame, self.schemas, budget=budget, test_key=kit.source(key).bytes(32))

    @property
    def numbers(self) -> list[str]:
        """The columns that explain, without categories."""
        return [name for name in self.frame.columns if name.partition(".")[2].startswith("x")]


def sample(name: str, people: int = 8_000, width: int = 15, *, faintest: float = 1e-3, bound: float = BOUND) -> Sample:
    """Return a table of `width` numbers.

    Parameters
    ----------
    name
        Of the draw.
    people, width
        How many people and numbers.
    faintest
        The variance of the faintest direction over that of the strongest. Between them variances fall geometrically: 1 makes
        independent columns that are alike, a small one columns that are nearly copies of combinations of others.
    bound
        The bounds of a number, in standard deviations to either side.
    """
    rng = kit.generator(f"preview sample {name}")
    turned = np.linalg.qr(rng.normal(size=(width, width)))[0]
    numbers = rng.normal(size=(people, width)) * np.sqrt(np.geomspace(1.0, faintest, width)) @ turned
    numbers /= numbers.std(axis=0)
    score = numbers @ rng.normal(size=width)
    score = score / score.std() + rng.normal(size=people)  # half of its variance is explained
    columns = {f"x{place}": numbers[:, place] for place in range(width)}
    schemas: dict[str, dict] = {party: {} for party in PARTIES}
    parts = {}
    for place, (column, values) in enumerate(columns.items()):
        party = PARTIES[place % len(PARTIES)]
        schemas[party][column] = cn.Numeric(-bound, bound)
        parts[f"{party}.{column}"] = np.clip(values, -bound, bound)
    for party in PARTIES:
        shares = np.arange(1, len(LEVELS) + 1) ** -1.5
        parts[f"{party}.kind"] = rng.choice(LEVELS, size=people, p=shares / shares.sum())
        schemas[party]["kind"] = cn.Category(LEVELS)
        parts[f"{party}.visits"] = np.minimum(rng.poisson(2.0, size=people), 20)
        schemas[party]["visits"] = cn.Numeric(0, 20, integer=True)
    parts["a.number"] = np.clip(score / np.sqrt(2), -bound, bound)
    parts["b.answer"] = np.where(score > 0.5, "yes", "no")
    schemas["a"]["number"] = cn.Numeric(-bound, bound)
    schemas["b"]["answer"] = cn.Category(("no", "yes"))
    order = [f"{party}.{column}" for party in PARTIES for column in schemas[party]]
    return Sample(pd.DataFrame(parts)[order], {party: cn.Schema(schema) for party, schema in schemas.items()})
