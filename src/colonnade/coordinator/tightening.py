"""Narrower bounds from noisy quantiles: the work of `Federation.tightened`.

Every noise of this library is in proportion to the distance between declared bounds, and owners declare bounds that hold for any
data whatever. A release of counts (`colonnade.coordinator.protocols.counting`) finds where most values are. It is paid for like
any other, and what it finds is public. Studies of the tightened federation read values through the narrower bounds
(`colonnade.schema.column`): a value outside of them is clipped, so results are about the *clipped* table.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from colonnade.constraints import ColumnList, Optional, Real, RisingNumbers, checked
from colonnade.coordinator.driver import Findings, StudyRecord
from colonnade.coordinator.protocols.counting import ColumnTables
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.estimation.describing import CountedTable
from colonnade.privacy.accounting import Price, Unit, party_price
from colonnade.privacy.calibration import gaussian_party_price
from colonnade.schema import Column, parties_of
from colonnade.steps.registry import STUDIES

if TYPE_CHECKING:
    from colonnade.coordinator.driver import Driver
    from colonnade.coordinator.federation import FederationColumns


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


def note_spread(columns: "FederationColumns", name: str, table: CountedTable) -> None:
    """Keep in what part of its bounds a column's values lie, from counts that were released."""
    counts = table.numbers()
    low, high = counts.at(USUAL[0]), counts.at(USUAL[1])
    columns.spreads[name] = (high - low) / float(counts.edges[-1] - counts.edges[0])


def offers(columns: "FederationColumns", names: Iterable[str]) -> tuple[str, ...]:
    """Return a word about columns whose values are known to lie in a small part of their bounds; empty if there are none."""
    narrow = {
        name: columns.spreads[name]
        for name in dict.fromkeys(names)
        if name not in columns.readings and columns.spreads.get(name, 1.0) < SMALL_PART
    }
    if not narrow:
        return ()
    listed = ", ".join(f"{name} in {part:.2g}" for name, part in narrow.items())
    words = (
        f"Nearly all values lie in a small part of their bounds ({listed}). Noise is in proportion to bounds: "
        f"federation.tightened({list(narrow)}, epsilon=...) would narrow them, at a price."
    )
    return (words,)


def tighten(
    driver: "Driver",
    columns: Sequence[str] | None,
    price: Price,
    *,
    quantiles: tuple[float, float],
    width: float,
    unit: Unit,
    repeat: int,
) -> tuple[dict[str, Column], Tightening]:
    """Release the counts, and return the narrower columns and the record; see `Federation.tightened`."""
    quantiles, width = _two_quantiles(quantiles), checked("width", width, Real(0, 1, closed="neither"))
    described = _numbers(driver.columns, checked("columns", columns, Optional(ColumnList())))
    divided = party_price if price.delta == 0 else gaussian_party_price
    algorithm = ColumnTables(described, divided(price, len(parties_of(described)), unit), driver.people)
    plan = driver.plan(
        algorithm, task=STUDIES["Describe"], method="local", price=price, unit=unit, parameters={}, repeat=repeat
    )
    findings = driver.study(algorithm, plan, title="tightened(method='local')")
    tables: dict[str, CountedTable] = findings.value
    found = {name: _bounds(column, tables[name], quantiles, width) for name, column in described.items()}
    return found, Tightening(findings, _side_by_side(described, found), dict(described))


def _two_quantiles(quantiles: tuple[float, float]) -> tuple[float, float]:
    plain = checked("quantiles", quantiles, RisingNumbers(Real(0, 1, closed="neither")))
    if len(plain) != 2:
        raise BadInput(
            "quantiles are two shares: below the lower bound, and below the upper one.",
            remedy="For example quantiles=(0.005, 0.995).",
        )
    return plain[0], plain[1]


def _numbers(available: "FederationColumns", columns: Sequence[str] | None) -> dict[str, Column]:
    """Return the numbers and dates among the columns; refuse one that was named and has no bounds."""
    described = available.describe(columns)
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


def _bounds(column: Column, table: CountedTable, quantiles: tuple[float, float], width: float) -> Column:
    low, high = map(table.numbers().at, quantiles)
    try:
        return column.narrowed(*widened(low, high, column.low, column.high, width))
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
