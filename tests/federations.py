"""Small federations for tests."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import colonnade as cn
from colonnade.party.guard import Guard
from colonnade.party.ledger.ledger import Hold
from colonnade.party.policy import requester_of
from colonnade.plan import About, Plan
from colonnade.protocol import messages

TEST_KEY = b"k" * 32

BANK = cn.Schema(
    age=cn.Numeric(18, 95), segment=cn.Category(["basic", "gold", "platinum"]), default=cn.Category(["no", "yes"])
)
TELCO = cn.Schema(plan=cn.Category(["prepaid", "standard"]), bill=cn.Numeric(0, 200))
INSURER = cn.Schema(product=cn.Category(["car", "home", "life", "none"]))
SCHEMAS = {"bank": BANK, "telco": TELCO, "insurer": INSURER}


def frames(people: int = 300, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Three correlated tables, shuffled differently, with a few people the others lack."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(3, size=people)
    ids = np.arange(people) * 7 + 3

    def category(levels: tuple, noise: float) -> np.ndarray:
        shown = np.where(rng.random(people) < noise, rng.integers(len(levels), size=people), kind % len(levels))
        return np.array(levels, dtype=object)[shown]

    tables = {
        "bank": {
            "age": rng.integers(18, 96, size=people),
            "segment": category(BANK["segment"].levels, 0.3),
            "default": category(BANK["default"].levels, 0.5),
        },
        "telco": {"plan": category(TELCO["plan"].levels, 0.3), "bill": rng.random(people) * 200},
        "insurer": {"product": category(INSURER["product"].levels, 0.3)},
    }
    result = {}
    for number, (name, columns) in enumerate(tables.items()):
        frame = pd.DataFrame({"person_id": ids, **columns})
        stranger = frame.iloc[:1].assign(person_id=1_000_000_007 + number)
        result[name] = pd.concat([frame, stranger]).sample(frac=1, random_state=number).reset_index(drop=True)
    return result


def federation(
    people: int = 300,
    *,
    epsilon: float = 10.0,
    delta: float = 1e-5,
    tables: dict[str, pd.DataFrame] | None = None,
    test_key: bytes | None = TEST_KEY,
    ledger_dir: Path | None = None,
    policies: dict[str, cn.Policy] | None = None,
    parties: tuple[str, ...] = ("bank", "telco", "insurer"),
    **more: Any,
) -> cn.Federation:
    tables = tables or frames(people)
    return cn.Federation.simulate(
        {name: cn.Party(tables[name], schema=SCHEMAS[name]) for name in parties},
        id="person_id",
        budget=cn.Budget(epsilon=epsilon, delta=delta),
        test_key=test_key,
        ledger_dir=ledger_dir,
        policies=policies,
        **more,
    )


def from_one_table(frame: pd.DataFrame, schemas: Mapping[str, Any], **options: Any) -> cn.Federation:
    """A federation of one table whose columns are named ``party.column``."""
    parties = {}
    for party, schema in schemas.items():
        own = frame[[f"{party}.{name}" for name in schema]].set_axis(list(schema), axis=1)
        parties[party] = cn.Party(own.assign(id=np.arange(len(frame))), schema=cn.Schema(schema))
    return cn.Federation.simulate(parties, **{"id": "id", "budget": cn.Budget(epsilon=10_000.0, delta=1e-3), **options})


def joined(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    parts = [frame.set_index("person_id").add_prefix(f"{name}.") for name, frame in tables.items()]
    return pd.concat(parts, axis=1, join="inner").sort_index()


def as_if_agreed(endpoint: Any, plan: Plan, about: About | None = None) -> Plan:
    """Let one member take part in a plan as if it had heard everybody's yes, for tests that ask by hand; return the plan."""
    hashed = messages.digest(plan)
    endpoint._consents._agreed[hashed] = None
    if isinstance(endpoint, Guard):
        ledger = endpoint._gate._ledger
        ledger.hold(Hold(hashed, requester_of(about), "" if about is None else about.purpose, {}))
        ledger.begin_hold(hashed, ledger.now().timestamp())
    return plan
