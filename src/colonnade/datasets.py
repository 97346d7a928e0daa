"""Synthetic federations: invented people whose columns at different organisations are correlated.

All data are made from a public seed, so true answers may be shown next to private ones. Every organisation also has some people
that the others do not have, and its rows are in an order of their own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colonnade.coordinator.federation import Federation
from colonnade.errors import BadInput
from colonnade.party.party import Party
from colonnade.runtime.public_coins import PublicGenerator, public_generator
from colonnade.schema import Category, Numeric, Schema

Vector = NDArray[np.float64]

BANK = Schema(
    age=Numeric(18, 95, integer=True),
    income=Numeric(0, 150_000),
    savings=Numeric(0, 100_000),
    segment=Category(("basic", "gold", "platinum")),
    default=Category(("no", "yes")),
)
TELCO = Schema(
    plan=Category(("prepaid", "standard", "premium", "family")),
    monthly_bill=Numeric(0, 120),
    minutes=Numeric(0, 1_500),
    late_payments=Numeric(0, 12, integer=True),
    churn=Category(("no", "yes")),
)
INSURER = Schema(
    product=Category(("basic", "comfort", "complete")),
    premium=Numeric(0, 3_000),
    claims=Numeric(0, 10, integer=True),
    risk_score=Numeric(0, 100),
    smoker=Category(("no", "yes")),
)


@dataclass(frozen=True)
class Organisation:
    """One organisation's table and its public schema."""

    frame: pd.DataFrame = field(repr=False)
    schema: Schema


@dataclass(frozen=True)
class Federated(Mapping[str, Organisation]):
    """Organisations by name, and the column on which their rows are aligned.

    Examples
    --------
    >>> data = three_organisations(people=1_000)
    >>> {name: len(organisation.frame) for name, organisation in data.items()}
    {'bank': 1100, 'telco': 1080, 'insurer': 1050}
    >>> len(data.joined())
    1000
    """

    organisations: Mapping[str, Organisation]
    id: str = "person_id"

    def __getitem__(self, name: str) -> Organisation:
        return self.organisations[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.organisations)

    def __len__(self) -> int:
        return len(self.organisations)

    def federation(self, **options: Any) -> Federation:
        """Return the organisations as a federation in this process. Takes the options of `Federation.simulate`.

        Examples
        --------
        >>> from colonnade import Budget
        >>> three_organisations(people=500).federation(budget=Budget(epsilon=1.0)).people
        500
        """
        parties = {name: Party(organisation.frame, schema=organisation.schema) for name, organisation in self.items()}
        return Federation.simulate(parties, id=self.id, **options)

    def joined(self) -> pd.DataFrame:
        """Return all columns in one table, named ``"party.column"``, by id. No organisation could see it."""
        tables = [self[name].frame.set_index(self.id).add_prefix(f"{name}.") for name in self]
        return pd.concat(tables, axis=1, join="inner").sort_index()


def three_organisations(people: int = 50_000, seed: int = 0) -> Federated:
    """Invent a bank, a telco and an insurer with ``people`` customers in common.

    All columns depend on three hidden traits of each person: *wealth*, *caution* and *youth*. People come in three kinds. So
    there are patterns and clusters across organisations, three strong principal components, and a default at the bank that the
    columns of the other two help to predict.

    Parameters
    ----------
    people
        The number of people that all three have. Each has a further 5 to 10 % that the others do not have.
    seed
        The seed of the public generator.
    """
    _require_count("people", people)
    generator = public_generator(seed)
    extra = {"bank": people // 10, "telco": people * 8 // 100, "insurer": people // 20}
    traits = _traits(people + sum(extra.values()), generator)
    tables = {
        "bank": Organisation(_bank(traits, generator), BANK),
        "telco": Organisation(_telco(traits, generator), TELCO),
        "insurer": Organisation(_insurer(traits, generator), INSURER),
    }
    return _distributed(tables, people, extra, generator)


def _traits(people: int, generator: PublicGenerator) -> Vector:
    """Return wealth, caution and youth of people of three kinds: settled, young and careless, old and careful."""
    kinds = np.array([[1.0, 0.4, -0.2], [-0.4, -0.9, 1.1], [-0.6, 0.6, -0.9]])
    return kinds[generator.integers(3, size=people)].T + 0.6 * generator.standard_normal((3, people))


def _bank(traits: Vector, generator: PublicGenerator) -> pd.DataFrame:
    wealth, caution, youth = traits
    noise = generator.standard_normal((4, len(wealth)))
    return pd.DataFrame(
        {
            "age": np.rint(np.clip(46 - 14 * youth + 5 * noise[0], 18, 95)).astype(np.int64),
            "income": np.exp(10.6 + 0.5 * wealth - 0.15 * youth + 0.2 * noise[1]).round(2),
            "savings": np.exp(9.3 + 0.7 * wealth + 0.5 * caution - 0.3 * youth + 0.4 * noise[2]).round(2),
            "segment": _level(BANK, "segment", wealth + 0.4 * noise[3], (0.4, 1.4)),
            "default": _yes(-1.6 - 0.7 * wealth - 1.6 * caution + 0.3 * youth, generator),
        }
    )


def _telco(traits: Vector, generator: PublicGenerator) -> pd.DataFrame:
    wealth, caution, youth = traits
    noise = generator.standard_normal((4, len(wealth)))
    return pd.DataFrame(
        {
            "plan": _level(TELCO, "plan", wealth - 0.4 * youth + 0.4 * noise[0], (-0.9, 0.3, 1.3)),
            "monthly_bill": (45 + 14 * wealth + 8 * youth + 6 * noise[1]).clip(0).round(2),
            "minutes": np.exp(6.0 + 0.4 * youth - 0.2 * caution + 0.3 * noise[2]).round(1),
            "late_payments": generator.poisson(np.exp(-0.4 - 0.9 * caution - 0.4 * wealth)),
            "churn": _yes(-1.2 + 0.9 * youth - 0.8 * caution + 0.3 * noise[3], generator),
        }
    )


def _insurer(traits: Vector, generator: PublicGenerator) -> pd.DataFrame:
    wealth, caution, youth = traits
    noise = generator.standard_normal((4, len(wealth)))
    return pd.DataFrame(
        {
            "product": _level(INSURER, "product", 0.8 * wealth + 0.6 * caution + 0.4 * noise[0], (-0.3, 0.9)),
            "premium": np.exp(6.6 + 0.4 * wealth - 0.3 * youth + 0.2 * noise[1]).round(2),
            "claims": generator.poisson(np.exp(-0.3 - 0.6 * caution - 0.2 * youth)),
            "risk_score": (50 - 15 * caution + 6 * youth + 6 * noise[2]).clip(0, 100).round(1),
            "smoker": _yes(-1.3 - 0.9 * caution - 0.4 * wealth + 0.3 * noise[3], generator),
        }
    )


def _level(schema: Schema, name: str, score: Vector, cuts: tuple[float, ...]) -> NDArray[np.object_]:
    """Return the level whose interval between cuts holds the score."""
    column = schema[name]
    levels: NDArray[np.object_] = np.array(column.levels, dtype=object)
    return levels[np.digitize(score, cuts)]


def _yes(logit: Vector, generator: PublicGenerator) -> NDArray[np.object_]:
    happens = generator.random(len(logit)) < 1 / (1 + np.exp(-logit))
    return np.where(happens, "yes", "no").astype(object)


def _distributed(
    tables: Mapping[str, Organisation], people: int, extra: Mapping[str, int], generator: PublicGenerator
) -> Federated:
    """Give each organisation the common people and its own, with ids, in an order of its own.

    Ids ascend in the order of the given rows, so ``joined()`` keeps that order.
    """
    steps = generator.integers(1, 10, size=people + sum(extra.values()))
    ids = 10_000_000 + np.cumsum(steps)
    start, organisations = people, {}
    for name, organisation in tables.items():
        rows = np.concatenate([np.arange(people), np.arange(start, start + extra[name])])
        start += extra[name]
        rows = generator.permutation(rows)
        frame = organisation.frame.iloc[rows].reset_index(drop=True)
        frame.insert(0, "person_id", ids[rows])
        organisations[name] = Organisation(frame, organisation.schema)
    return Federated(organisations)


def _require_count(name: str, count: object) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise BadInput(f"{name} must be a whole number of at least 1.", remedy=f"For example {name}=3.")
