"""A scorecard as an SQL expression: one ``CASE`` per column, in the SQL that common databases share."""

import datetime as dt
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from colonnade.coding.cells import na_numbers
from colonnade.estimators.export import stored_names
from colonnade.schema import Bins, Category, Column, Crossed, Date

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
    if not isinstance(column, Crossed):
        return _chosen(name, column, list(map(str, points)))
    first, second = stored_names(name, column)
    size = column.of[1].size
    rows = [list(map(str, points[start : start + size])) for start in range(0, len(points), size)]
    return _chosen(first, column.of[0], [_chosen(second, column.of[1], row) for row in rows])


def _chosen(name: str, column: Category, points: Sequence[str]) -> str:
    """Return what a cell's level stands for, one expression per level."""
    cell = '"' + name.replace('"', '""') + '"'
    whens = _bins(cell, column, points) if isinstance(column, Bins) else _levels(cell, column, points)
    return " ".join(["CASE", *whens, "END"])


def _bins(cell: str, column: Bins, points: Sequence[str]) -> list[str]:
    """A value below the first inner edge is in the first bin, and so on: as if clipped to the bounds before."""
    value = f"ROUND({cell})" if column.of.whole and not isinstance(column.of, Date) else cell
    own = dict(zip(column.codes, points[len(column.middles) :], strict=False))
    found = [f"WHEN {cell} = {code:.17g} THEN {score}" for code, score in own.items()]
    others = [] if isinstance(column.of, Date) else [code for code in na_numbers(column.of) if code not in own]
    found += [f"WHEN {test} THEN {_missing(column, points)}" for test in (f"{cell} IS NULL", *_are(cell, others))]
    found += [f"WHEN {value} < {_edge(edge, column)} THEN {points[place]}" for place, edge in enumerate(column.inner)]
    return [*found, f"ELSE {points[len(column.inner)]}"]


def _missing(column: Bins, points: Sequence[str]) -> str:
    """A missing value is in the bin of its own, or where its declared fill value is."""
    if column.missing is not None:
        return points[-1]
    return (
        "NULL" if column.of.fill is None else points[int(np.searchsorted(column.inner, column.of.fill, side="right"))]
    )


def _are(cell: str, codes: Sequence[float]) -> list[str]:
    return [f"{cell} IN ({', '.join(f'{code:.17g}' for code in codes)})"] if codes else []


def _edge(edge: float, column: Bins) -> str:
    if not isinstance(column.of, Date):
        return f"{edge:.17g}"
    day = dt.date.fromisoformat(column.of.first) + dt.timedelta(days=int(edge))
    return f"DATE '{day.isoformat()}'"


def _levels(cell: str, column: Category, points: Sequence[str]) -> list[str]:
    found = [f"WHEN {cell} IS NULL THEN {points[column.missing_code]}"] if column.missing_code >= 0 else []
    for place, level in enumerate(column.levels):
        if place != column.missing_code:
            found.append(f"WHEN {cell} = {_literal(level)} THEN {points[place]}")
    return [*found, f"ELSE {points[column.other_code]}"] if column.other_code is not None else found


def _literal(level: object) -> str:
    return str(level) if type(level) is int else "'" + str(level).replace("'", "''") + "'"
