"""A scorecard as an SQL expression: one ``CASE`` per column, in the SQL that common databases share."""

import datetime as dt
from collections.abc import Mapping, Sequence

import pandas as pd

from colonnade.schema import Bins, Category, Column, Date

__all__ = ["points_in_sql"]


def points_in_sql(columns: Mapping[str, Column], points: pd.DataFrame, base: int) -> str:
    """Return the whole score as one expression.

    Parameters
    ----------
    columns
        ``"party.column"`` to what it is read as: categories and bins.
    points
        ``column``, ``bin`` and ``points``, bins in the order of the column's levels.
    base
        What everybody has.

    Examples
    --------
    >>> card = pd.DataFrame({"column": ["a.plan"] * 2, "bin": ["x", "y's"], "points": [3, -4]})
    >>> print(points_in_sql({"a.plan": Category(["x", "y's"])}, card, 500))
    500
      + CASE WHEN "a.plan" = 'x' THEN 3 WHEN "a.plan" = 'y''s' THEN -4 END
    """
    cases = [
        _case(name, column, points.loc[points["column"] == name, "points"].tolist()) for name, column in columns.items()
    ]
    return "\n  + ".join([str(base), *cases])


def _case(name: str, column: Column, points: Sequence[int]) -> str:
    assert isinstance(column, Category)  # a scorecard has nothing else
    cell = '"' + name.replace('"', '""') + '"'
    whens = _bins(cell, column, points) if isinstance(column, Bins) else _levels(cell, column, points)
    return " ".join(["CASE", *whens, "END"])


def _bins(cell: str, column: Bins, points: Sequence[int]) -> list[str]:
    """A value below the first inner edge is in the first bin, and so on: as if clipped to the bounds before."""
    value = f"ROUND({cell})" if column.of.whole and not isinstance(column.of, Date) else cell
    found = [f"WHEN {cell} IS NULL THEN {points[-1] if column.missing else 'NULL'}"]
    found += [f"WHEN {value} < {_edge(edge, column)} THEN {points[place]}" for place, edge in enumerate(column.inner)]
    return [*found, f"ELSE {points[len(column.inner)]}"]


def _edge(edge: float, column: Bins) -> str:
    if not isinstance(column.of, Date):
        return f"{edge:.17g}"
    day = dt.date.fromisoformat(column.of.first) + dt.timedelta(days=int(edge))
    return f"DATE '{day.isoformat()}'"


def _levels(cell: str, column: Category, points: Sequence[int]) -> list[str]:
    found = [f"WHEN {cell} IS NULL THEN {points[column.missing_code]}"] if column.missing_code >= 0 else []
    for place, level in enumerate(column.levels):
        if place != column.missing_code:
            found.append(f"WHEN {cell} = {_literal(level)} THEN {points[place]}")
    return [*found, f"ELSE {points[column.other_code]}"] if column.other_code is not None else found


def _literal(level: object) -> str:
    return str(level) if type(level) is int else "'" + str(level).replace("'", "''") + "'"
