"""Narrower bounds from noisy quantiles: the work of `Federation.tightened`.

Every noise of this library is in proportion to the distance between declared bounds, and owners declare bounds that hold for any
data whatever. A release of counts (`colonnade.coordinator.protocols.describing`) finds where most values are. It is paid for like
any other, and what it finds is public. Studies of the tightened federation read values through the narrower bounds
(`colonnade.schema.column`): a value outside of them is clipped, so results are about the *clipped* table.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self, cast

import msgspec
import pandas as pd

from colonnade.constraints import ColumnList, Optional, Real, RisingNumbers, checked
from colonnade.coordinator.findings import Findings, StudyRecord
from colonnade.coordinator.protocols.describing import ColumnTables, CountedTable
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.plan import Step
from colonnade.privacy.accounting import Price, Unit, party_price
from colonnade.privacy.calibration import gaussian_party_price
from colonnade.schema import Column, Schema
from colonnade.schema.features import ColumnName, parties_of, plain_names
from colonnade.steps.registry import STUDIES

if TYPE_CHECKING:
    from colonnade.coordinator.federation import Federation


class FederationColumns:
    """The columns of a federation, by ``"party.column"``.

    Parameters
    ----------
    schemas
        What each party's owner has declared, parties in the federation's order.
    """

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self.parties = tuple(schemas)
        self.schemas = dict(schemas)
        self.readings: dict[str, Column] = {}

    def column(self, name: str) -> tuple[str, str, Column]:
        """Resolve ``"party.column"`` to its party, its own name and its public description."""
        party, column = ColumnName.of(name)
        self._require_party(party, name)
        if column not in self.schemas[party]:
            raise SchemaMismatch(
                f"Party {party!r} has no column {column!r} in its schema.",
                remedy=f"Its columns are {', '.join(self.schemas[party])}.",
            )
        return party, column, self.schemas[party][column]

    def _require_party(self, party: str, name: str) -> None:
        if party not in self.schemas:
            raise BadInput(
                f"{name!r} is not known here: {party!r} is no party of this federation.",
                remedy=f"Columns are named 'party.column'; the parties are {', '.join(self.parties)}.",
            )

    def columns(self) -> list[str]:
        """Return every column of the federation: parties as given, then schema order."""
        return [str(ColumnName(party, column)) for party in self.parties for column in self.schemas[party]]

    def describe(self, columns: Sequence[str] | None = None) -> dict[str, Column]:
        """Return the public descriptions of some columns (all by default), in the federation's order."""
        found = {name: self.column(name)[2] for name in (self.columns() if columns is None else plain_names(columns))}
        return {name: found[name] for name in self.columns() if name in found}

    def read_as(self, readings: Mapping[str, Column]) -> Self:
        """Return the same federation, with some columns read as coarser descriptions: in bins, or between narrower bounds.

        Studies of it are the same code, and are debited to the same ledgers. The plan says how a column is read, and every party
        checks it against what its owner has declared.

        Parameters
        ----------
        readings
            ``"party.column"`` to the description; others are read as before.

        Examples
        --------
        >>> import colonnade as cn
        >>> from colonnade.schema import Bins
        >>> federation = cn.datasets.three_organisations(people=100).federation(budget=cn.Budget(epsilon=1.0))
        >>> age = federation.describe(["bank.age"])["bank.age"]
        >>> federation.read_as({"bank.age": Bins.equal(age, 3)}).describe(["bank.age"])["bank.age"].levels
        ('[18, 44)', '[44, 70)', '[70, 95]')
        """
        own: dict[str, dict[str, Column]] = {}
        for name, reading in readings.items():
            together = bool(reading.parts)  # two columns, known by a name of their own from now on
            party, column = ColumnName.of(name) if together else self.column(name)[:2]
            if party not in self.schemas or self.schemas[party].get(column) != reading:
                own.setdefault(party, {})[column] = reading
        for party, columns in own.items():
            self._require_party(party, str(ColumnName(party, next(iter(columns)))))
        other = copy.copy(self)
        other.schemas = {party: schema.read_as(own.get(party, {})) for party, schema in self.schemas.items()}
        other.readings = self.readings | {
            str(ColumnName(party, column)): reading for party, read in own.items() for column, reading in read.items()
        }
        return other

    def allows(self, name: str, reading: Column) -> bool:
        """Return whether a column here may be read as another description; or two columns together, under their common name."""
        party, column = ColumnName.of(name)
        return party in self.schemas and self.schemas[party].allows(column, reading)

    def as_read(self, steps: Sequence[Step]) -> tuple[Step, ...]:
        """Return steps that say how their columns are read, where that is not as declared."""
        if not self.readings:
            return tuple(steps)
        return tuple(msgspec.structs.replace(step, readings=self._readings_of(step) or msgspec.UNSET) for step in steps)

    def _readings_of(self, step: Step) -> dict[str, Column]:
        named = {column: str(ColumnName(step.party, column)) for column in step.columns}
        return {column: self.readings[name] for column, name in named.items() if name in self.readings}


USUAL = (0.005, 0.995)
"""The quantiles between which nearly all values lie."""
SMALL_PART = 0.25
"""Of the declared distance: from here on narrower bounds are worth an offer."""


@dataclass(frozen=True)
class Tightening(StudyRecord):
    """The release that narrower bounds rest on.

    Parameters
    ----------
    findings
        Statement, transcript, plan and receipt of the release.
    bounds
        One row per column: the declared bounds, the narrower ones, and their width in parts of the declared one.
    schema_
        What was public about the columns before.
    """

    findings: Findings
    bounds: pd.DataFrame
    schema_: dict[str, Column]

    def __repr__(self) -> str:
        return f"Tightening({len(self.bounds)} columns)\n{self.bounds.to_string()}"


class TightenedColumns(FederationColumns):
    """The columns of a federation, with bounds that may be tightened."""

    tightened_: Tightening | None = None
    """What the narrower bounds rest on; ``None`` where bounds are as declared."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        super().__init__(schemas)
        self._spread: dict[str, float] = {}  # shared by copies: what was released is known to all of them

    def note_spread(self, name: str, table: CountedTable) -> None:
        """Keep in what part of its bounds a column's values lie, from counts that were released."""
        counts = table.numbers()
        low, high = counts.at(USUAL[0]), counts.at(USUAL[1])
        self._spread[name] = (high - low) / float(counts.edges[-1] - counts.edges[0])

    def offers(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Return a word about columns whose values are known to lie in a small part of their bounds; empty if there are none."""
        narrow = {
            name: self._spread[name]
            for name in dict.fromkeys(columns)
            if name not in self.readings and self._spread.get(name, 1.0) < SMALL_PART
        }
        if not narrow:
            return ()
        listed = ", ".join(f"{name} in {part:.2g}" for name, part in narrow.items())
        words = (
            f"Nearly all values lie in a small part of their bounds ({listed}). Noise is in proportion to bounds: "
            f"federation.tightened({list(narrow)}, epsilon=...) would narrow them, at a price."
        )
        return (words,)

    def tightened(
        self,
        columns: Sequence[str] | None = None,
        *,
        quantiles: tuple[float, float] = USUAL,
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
        width: float = 0.01,
        repeat: int = 1,
    ) -> Self:
        """Return the same federation with narrower bounds, found privately. From then on values outside of them are clipped.

        Results of its studies are about the clipped table. ``tightened_`` has the bounds and the receipt. Asking again costs
        nothing, also for other quantiles or another width: it is the same release.

        Parameters
        ----------
        columns
            Numbers and dates; all of them by default.
        quantiles
            The shares of people below the lower bound and below the upper one.
        epsilon, delta, unit
            The price of the bounds, and the unit that it protects. There is no default for ε.
        width
            How far apart bounds are at least, in parts of the declared distance.
        repeat
            A higher number is a new draw at a new price.

        Examples
        --------
        >>> import colonnade as cn
        >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=4.0))
        >>> narrow = federation.tightened(["bank.income"], epsilon=1.0)
        >>> narrow.describe(["bank.income"])["bank.income"].high < federation.describe(["bank.income"])["bank.income"].high
        True
        """
        asked = _Asked(_two_quantiles(quantiles), checked("width", width, Real(0, 1, closed="neither")), unit, repeat)
        described = _numbers(self, checked("columns", columns, Optional(ColumnList())))
        found, record = _tighten(cast("Federation", self), described, Price.of(epsilon, delta), asked)
        other = self.read_as(found)
        other.tightened_ = record
        return other


class _Asked(NamedTuple):
    """What is asked besides columns and price."""

    quantiles: tuple[float, float]
    width: float
    unit: Unit
    repeat: int


def _tighten(
    federation: "Federation", described: dict[str, Column], price: Price, asked: _Asked
) -> tuple[dict[str, Column], Tightening]:
    """Release the counts, and return the narrower columns and the record."""
    parties = len(parties_of(described))
    divided = party_price if price.delta == 0 else gaussian_party_price
    algorithm = ColumnTables(described, divided(price, parties, asked.unit), federation.people)
    plan = federation.plan(
        algorithm,
        task=STUDIES["Describe"],
        method="local",
        price=price,
        unit=asked.unit,
        parameters={},
        repeat=asked.repeat,
    )
    findings = federation.study(algorithm, plan, title="tightened(method='local')")
    tables: dict[str, CountedTable] = findings.value
    found = {name: _bounds(column, tables[name], asked) for name, column in described.items()}
    return found, Tightening(findings, _side_by_side(described, found), dict(described))


def _two_quantiles(quantiles: tuple[float, float]) -> tuple[float, float]:
    plain = checked("quantiles", quantiles, RisingNumbers(Real(0, 1, closed="neither")))
    if len(plain) != 2:
        raise BadInput(
            "quantiles are two shares: below the lower bound, and below the upper one.",
            remedy="For example quantiles=(0.005, 0.995).",
        )
    return plain[0], plain[1]


def _numbers(federation: FederationColumns, columns: Sequence[str] | None) -> dict[str, Column]:
    """Return the numbers and dates among the columns; refuse one that was named and has no bounds."""
    described = federation.describe(columns)
    found = {name: column for name, column in described.items() if column.is_measured}
    without = [name for name in described if name not in found]
    if columns is not None and without:
        raise SchemaMismatch(
            f"Column {without[0]!r} is no number and no date, and has no bounds.",
            remedy="Name numbers and dates only, or leave columns out for all of them.",
        )
    if not found:
        raise SchemaMismatch("No column here has bounds.", remedy="Tighten numbers and dates.")
    return found


def _bounds(column: Column, table: CountedTable, asked: _Asked) -> Column:
    low, high = map(table.numbers().at, asked.quantiles)
    try:
        return column.narrowed(*widened(low, high, column.low, column.high, asked.width))
    except BadInput:  # nothing narrower can be computed with, and the counts are paid for
        return column


def widened(low: float, high: float, least: float, most: float, width: float) -> tuple[float, float]:
    """Return bounds that are at least a part ``width`` of the declared ones apart, around the same middle and inside them.

    Examples
    --------
    >>> widened(40.0, 40.0, 0.0, 1_000.0, 0.01), widened(0.0, 2.0, 0.0, 1_000.0, 0.01)
    ((35.0, 45.0), (0.0, 10.0))
    """
    needed = (most - least) * width
    if high - low >= needed:
        return max(low, least), min(high, most)
    start = min(max((low + high - needed) / 2, least), most - needed)
    return start, min(start + needed, most)


def _side_by_side(declared: dict[str, Column], found: dict[str, Column]) -> pd.DataFrame:
    rows = {
        name: {
            "declared_low": column.as_written(column.low),
            "declared_high": column.as_written(column.high),
            "low": found[name].as_written(found[name].low),
            "high": found[name].as_written(found[name].high),
            "width": (found[name].high - found[name].low) / (column.high - column.low),
        }
        for name, column in declared.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(index="column")
