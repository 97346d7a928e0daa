"""Columns in SQL: the level of a cell as one expression."""

from collections.abc import Sequence

import numpy as np

from colonnade.schema import Bins, Category, Column, Crossed, stored_names
from colonnade.schema.encoders import na_numbers


def points_of(name: str, column: Column, points: Sequence[int]) -> str:
    """Return the points of a cell of ``"party.column"``, one number for each level, as an expression."""
    assert isinstance(column, Category)  # a number has no points
    if not isinstance(column, Crossed):
        return _chosen(name, column, list(map(str, points)))
    first, second = stored_names(name, column)
    one, other = column.of
    size = other.size
    rows = [list(map(str, points[start : start + size])) for start in range(0, len(points), size)]
    return _chosen(first, one, [_chosen(second, other, row) for row in rows])


def _chosen(name: str, column: Category, points: Sequence[str]) -> str:
    """Return what a cell's level stands for, one expression per level."""
    cell = '"' + name.replace('"', '""') + '"'
    whens = _bins(cell, column, points) if isinstance(column, Bins) else _levels(cell, column, points)
    return " ".join(["CASE", *whens, "END"])


def _bins(cell: str, column: Bins, points: Sequence[str]) -> list[str]:
    """A value below the first inner edge is in the first bin, and so on: as if clipped to the bounds before."""
    value = f"ROUND({cell})" if column.of.whole and column.of.has_round_numbers else cell
    own = dict(zip(column.codes, points[len(column.middles) :], strict=False))
    found = [f"WHEN {cell} = {code:.17g} THEN {score}" for code, score in own.items()]
    others = [code for code in na_numbers(column.of) if column.of.has_round_numbers and code not in own]
    found += [f"WHEN {test} THEN {_missing(column, points)}" for test in (f"{cell} IS NULL", *_are(cell, others))]
    found += [
        f"WHEN {value} < {column.of.in_sql(edge)} THEN {points[place]}" for place, edge in enumerate(column.inner)
    ]
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


def _levels(cell: str, column: Category, points: Sequence[str]) -> list[str]:
    found = [f"WHEN {cell} IS NULL THEN {points[column.missing_code]}"] if column.missing_code >= 0 else []
    for place, level in enumerate(column.levels):
        if place != column.missing_code:
            found.append(f"WHEN {cell} = {_literal(level)} THEN {points[place]}")
    return [*found, f"ELSE {points[column.other_code]}"] if column.other_code is not None else found


def _literal(level: object) -> str:
    return str(level) if type(level) is int else "'" + str(level).replace("'", "''") + "'"
