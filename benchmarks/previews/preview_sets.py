"""Public data sets as federations, all by the same rule, so that nothing about a preview can be tuned to one of them.

Columns are dealt to three parties in their order. The bounds of a number are its smallest and largest value, rounded outwards to
two digits of their distance: bounds that somebody who knows the table would declare. Whole numbers are declared as such. Levels
are those that occur.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
from benchmarks.frame import data_file

import colonnade as cn

PARTIES = ("first", "second", "third")
PERSON = "person"
FEW = 40
"""A column of text with more values than this is left out: it names, and does not classify."""


@dataclass(frozen=True)
class Divided:
    """A table that three parties hold.

    Parameters
    ----------
    name
        The name of the set.
    frame
        All columns, named ``"party.column"``.
    schemas
        Each party's schema.
    target
        The column to predict.
    """

    name: str
    frame: pd.DataFrame
    schemas: dict[str, cn.Schema]
    target: str

    def federation(self) -> cn.Federation:
        """Return the federation, with a budget that no study here uses up."""
        parties = {}
        for party, schema in self.schemas.items():
            own = self.frame[[f"{party}.{column}" for column in schema]].set_axis(list(schema), axis=1)
            parties[party] = cn.Party(own.assign(**{PERSON: range(len(own))}), schema=schema)
        return cn.Federation.simulate(parties, id=PERSON, budget=cn.Budget(epsilon=9_000.0, delta=1e-3))

    def columns(self, kind: type) -> list[str]:
        """Return the columns of one kind."""
        return [
            f"{party}.{name}"
            for party, schema in self.schemas.items()
            for name in schema
            if isinstance(schema[name], kind)
        ]


def divide(name: str, frame: pd.DataFrame, target: str) -> Divided:
    """Deal a table's columns to three parties, with schemas made by one rule."""
    kept = [
        c for c in frame.columns if frame[c].nunique() > 1 and not (_is_text(frame[c]) and frame[c].nunique() > FEW)
    ]
    frame = frame[kept].dropna().reset_index(drop=True)
    schemas: dict[str, dict[str, cn.Numeric | cn.Category]] = {party: {} for party in PARTIES}
    parts = {}
    for place, column in enumerate(kept):
        party, values = PARTIES[place * len(PARTIES) // len(kept)], frame[column]
        if _is_text(values):
            values = values.astype(str)
            schemas[party][column] = cn.Category(tuple(sorted(values.unique())))
        else:
            values = values.astype(float)
            low, high = _rounded(float(values.min()), float(values.max()))
            whole = bool((values == values.round()).all()) and low == round(low) and high == round(high)
            schemas[party][column] = cn.Numeric(low, high, integer=whole)
        parts[f"{party}.{column}"] = values
    named = pd.DataFrame(parts)
    chosen = next(one for one in named.columns if one.partition(".")[2] == target)
    return Divided(name, named, {party: cn.Schema(schema) for party, schema in schemas.items()}, chosen)


def _is_text(values: pd.Series) -> bool:
    return not pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values)


def _rounded(low: float, high: float) -> tuple[float, float]:
    unit = 10.0 ** math.floor(math.log10(high - low) - 1)
    return math.floor(low / unit) * unit, math.ceil(high / unit) * unit


def _adult() -> Divided:
    return divide("Adult", pd.read_parquet(data_file("adult")).drop(columns="split"), "income")


def _bank() -> Divided:
    return divide("Bank marketing", pd.read_parquet(data_file("bank_marketing")), "y")


def _credit() -> Divided:
    frame = pd.read_parquet(data_file("credit_card_default")).drop(columns="ID")
    coded = ["SEX", "EDUCATION", "MARRIAGE", "default.payment.next.month"]
    return divide(
        "Credit card default", frame.astype(dict.fromkeys(coded, int)).astype(dict.fromkeys(coded, str)), coded[-1]
    )


def _california() -> Divided:
    return divide("California", pd.read_parquet(data_file("california_housing")), "median_house_value")


def _kc_house() -> Divided:
    frame = pd.read_parquet(data_file("kc_house")).drop(columns=["id", "date", "zipcode"])
    return divide("KC House", frame, "price")


def _diamonds() -> Divided:
    return divide("Diamonds", pd.read_parquet(data_file("diamonds")), "price")


SETS: dict[str, Callable[[], Divided]] = {
    "adult": _adult,
    "bank": _bank,
    "credit": _credit,
    "california": _california,
    "kc": _kc_house,
    "diamonds": _diamonds,
}


def _weather() -> Divided:
    frame = pd.read_parquet(data_file("nycflights13_weather")).drop(columns=["wind_gust", "time_hour"])
    return divide("Weather", frame, "temp")


def _songs() -> Divided:
    return divide("Million songs", pd.read_parquet(data_file("millionsong_sample")), "year")


def _blogs() -> Divided:
    return divide(
        "Blog feedback", pd.read_parquet(data_file("blog_feedback")).drop(columns="split").iloc[::3], "target"
    )


UNSEEN: dict[str, Callable[[], Divided]] = {"weather": _weather, "songs": _songs, "blogs": _blogs}
"""Sets that were run after the assumptions had been settled. Nothing may be changed to suit them."""
