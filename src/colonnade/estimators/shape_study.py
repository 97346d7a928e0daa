"""What additive models share: columns read in bins, shapes to read, and effects that are centred and monotone."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

from colonnade.coding.columns import ColumnName, Feature
from colonnade.constraints import (
    ColumnList,
    ColumnPairs,
    Constraint,
    Either,
    Numbers,
    OneColumn,
    OneOf,
    Optional,
    PerColumn,
    Real,
    Whole,
)
from colonnade.coordinator.federation import Federation
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.estimation.inference import Inference
from colonnade.estimation.shape_belief import AdditiveFit
from colonnade.estimation.shapes import places_by_column
from colonnade.estimators.answers import require_fitted, require_matching
from colonnade.estimators.export import cells_of, stored_names
from colonnade.estimators.inference import RegressionStudy
from colonnade.estimators.second_moments import MomentStudy
from colonnade.estimators.study import COMMON
from colonnade.readings import AND
from colonnade.schema import Bins, Category, Column, Crossed, Date, Indicator, Numeric

__all__ = ["ADDITIVE", "BINS", "ShapeStudy", "centring"]

Array = NDArray[np.float64]
BINS = 16
MOST_BINS = 256
PAIR_BINS = 6
"""How many bins a number has at most where it is read together with another column: neighbours are put together."""
DIRECTIONS = ("increasing", "decreasing")
ADDITIVE: Mapping[str, Constraint] = {
    **COMMON,
    "target": OneColumn(),
    "columns": Optional(ColumnList()),
    "bins": Either(Whole(2, MOST_BINS), PerColumn(Either(Whole(2, MOST_BINS), Numbers(3)))),
    "monotone": Optional(PerColumn(OneOf(DIRECTIONS))),
    "pairs": ColumnPairs(),
    "smooth": Either(OneOf(("auto",)), Real(0, closed="neither")),
    "special_codes": Optional(PerColumn(Numbers(1))),
}
"""Constraints on the parameters that additive models have."""


class ShapeStudy(RegressionStudy):
    """The base of additive models."""

    bins: Any
    monotone: Any
    pairs: Any
    smooth: Any
    special_codes: Any
    _coded: Sequence[Feature]
    _columns: Mapping[str, Column]
    _people: Array
    intercept_: Any
    coef_stderr_: Any

    @property
    def shape_functions_(self) -> pd.DataFrame:
        """One row per bin: its column, its effect against the average person, its error and its share of people."""
        require_fitted(self)
        (found,) = self._inferred()
        return pd.DataFrame(
            {
                "column": [feature.column for feature in self._coded],
                "bin": self._bins(),
                "effect": np.ravel(self.coef_),
                "stderr": np.ravel(self.coef_stderr_),
                "share": self._people / self._people[self._places()[self._coded[0].column]].sum(),
                "determined": found.determined[:-1],
            }
        )

    @property
    def importance_(self) -> pd.Series:
        """The mean size of each column's effect over people, the largest first."""
        shapes = self.shape_functions_
        size = (shapes["effect"].abs() * shapes["share"]).groupby(shapes["column"], sort=False).sum()
        return size.rename("importance").sort_values(ascending=False, kind="stable")

    def explain(self, row: Mapping[str, Any] | pd.Series | pd.DataFrame) -> pd.DataFrame:
        """Return what each column adds to one person's score, the largest first; the constant is ``"intercept"``.

        Parameters
        ----------
        row
            One record that the caller holds: a mapping, a series or a frame of one row, with the federation's column names.

        Examples
        --------
        >>> import colonnade as cn
        >>> data = cn.datasets.three_organisations(people=5_000)
        >>> federation = data.federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
        >>> model = cn.AdditiveClassifier("bank.default", columns=["bank.age", "telco.minutes"], epsilon=2.0, delta=1e-5)
        >>> list(model.fit(federation).explain(data.joined().iloc[[0]]).columns)
        ['bin', 'effect']
        """
        require_fitted(self)
        frame = _one_row(row)
        read = [own for name, column in self._columns.items() for own in stored_names(name, column)]
        missing = [name for name in read if name not in frame.columns]
        if missing:
            raise SchemaMismatch(f"The record lacks the column {missing[0]!r}.", remedy="Columns are 'party.column'.")
        found = []
        bins = np.array(self._bins(), dtype=object)
        for name, places in self._places().items():
            code = int(cells_of(frame, name, self._columns[name])[0])
            effect = float(np.ravel(self.coef_)[places[code]]) if code >= 0 else 0.0
            found.append((name, str(bins[places[code]]) if code >= 0 else "none", effect))
        found.sort(key=lambda one: -abs(one[2]))
        found.append(("intercept", "", float(np.ravel(self.intercept_)[0])))
        return pd.DataFrame(found, columns=["column", "bin", "effect"]).set_index("column")

    # Columns as they are read ----------------------------------------------------------------------------------------------

    def _as_read(self, federation: Federation) -> Federation:
        """Return the federation with numbers in bins, missing values as bins or levels of their own, and pairs together."""
        described = federation.describe()
        chosen = self._chosen(described)
        self._check_names(chosen)
        read = {name: self._reading(name, column) for name, column in chosen.items() if name != self.target}
        read |= self._together(read)
        return federation.read_as({name: column for name, column in read.items() if column != described.get(name)})

    def _reading(self, name: str, column: Column) -> Column:
        if isinstance(column, Numeric | Date):
            wanted = self.bins.get(name, BINS) if isinstance(self.bins, Mapping) else self.bins
            edges = Bins.equal(column, wanted).edges if isinstance(wanted, int) else wanted
            codes = (self.special_codes or {}).get(name, ())
            return Bins(edges=edges, of=column, missing=None if column.fill is None else "level", codes=codes)
        if isinstance(column, Category) and column.excludes:
            return msgspec.structs.replace(column, missing="level")
        return column

    def _together(self, read: Mapping[str, Column]) -> dict[str, Crossed]:
        """Return the pairs of columns that are read together, each under a name of its own."""
        found = {}
        for pair in self.pairs:
            names = [ColumnName.of(name) for name in pair]
            first, second = (_coarse(read[name]) for name in pair)
            assert isinstance(first, Category)  # as every column is read here
            assert isinstance(second, Category)
            both = Crossed(names=(names[0].column, names[1].column), of=(first, second))
            found[str(ColumnName(names[0].party, both.name))] = both
        return found

    def _check_names(self, chosen: Mapping[str, Column]) -> None:
        named = {
            "bins": self.bins if isinstance(self.bins, Mapping) else {},
            "monotone": self.monotone or {},
            "special_codes": self.special_codes or {},
        }
        for parameter, columns in named.items():
            for name in columns:
                if name not in chosen or not isinstance(chosen[name], Numeric | Date | Bins):
                    raise BadInput(
                        f"{parameter} names {name!r}, which is no number or date among the columns.",
                        remedy="Name columns of numbers or dates that enter the model.",
                    )
        for pair in self.pairs:
            self._check_pair(pair, chosen)

    def _check_pair(self, pair: Sequence[str], chosen: Mapping[str, Column]) -> None:
        outside = [name for name in pair if name not in chosen or name == self.target]
        if outside:
            raise BadInput(
                f"pairs names {outside[0]!r}, which is not among the columns that explain.",
                remedy="Name columns that enter the model.",
            )
        if len({frozenset(one) for one in self.pairs}) != len(self.pairs) or pair[0] == pair[1]:
            raise BadInput("A pair is two different columns, and is named once.", remedy="Name each pair once.")
        if ColumnName.of(pair[0]).party != ColumnName.of(pair[1]).party:
            raise BadInput(
                f"{pair[0]!r} and {pair[1]!r} belong to two parties. A pair is read from one row of one party: nobody holds both "
                "values, and to multiply them for every person on shares would cost a round per combination.",
                remedy="Pair columns of one party; columns of different parties add up.",
            )
        bound = [name for name in pair if name in (self.monotone or {})]
        if bound:
            raise BadInput(
                f"{bound[0]!r} is monotone, and what it adds together with another column would not be.",
                remedy="Leave it out of pairs=, or out of monotone=.",
            )

    def _chosen(self, available: Mapping[str, Column]) -> dict[str, Column]:
        """Return the study's columns. A missing value is a bin of its column, so indicators are left out."""
        names = {*MomentStudy._chosen(self, available), *map(_name_of_pair, self.pairs)}
        return {n: one for n, one in available.items() if n in names and not isinstance(one, Indicator)}

    @property
    def _smoothness(self) -> float | None:
        return None if self.smooth == "auto" else float(self.smooth)

    # Effects -------------------------------------------------------------------------------------------------------------------

    def _effects(
        self,
        found: AdditiveFit,
        features: Sequence[Feature],
        columns: Mapping[str, Column],
        *,
        unit: float = 1.0,
    ) -> Inference:
        """Return effects against the average person, the intercept last: monotone where they have to be, with their errors.

        Parameters
        ----------
        found, features, columns
            What was fitted, the constant first.
        unit
            What an error is small against.
        """
        centred = centring(features, found.people)
        effects = centred @ found.weights
        for name, direction in (self.monotone or {}).items():
            places = places_by_column(features)[name]
            effects = _monotone(effects, places, found.people, columns[name], direction)
        order = np.append(np.arange(1, len(features)), 0)
        privacy, sampling = (
            (centred @ one @ centred.T)[np.ix_(order, order)] for one in (found.covariance, found.sampling)
        )
        determined = found.determined_in(centred, unit)[order]
        return Inference(effects[order], privacy, sampling, determined, 1.0)

    def _places(self) -> dict[str, NDArray[np.intp]]:
        """Return where each column's bins stand among the coefficients."""
        columns = np.array([feature.column for feature in self._coded])
        return {name: np.flatnonzero(columns == name) for name in self._columns}

    def _bins(self) -> list[str]:
        return [feature.name.removeprefix(f"{feature.column}=") for feature in self._coded]

    def _check_learned(self) -> None:
        super()._check_learned()
        require_matching(self, self._people, (len(self.feature_names_in_),))

    def _table(self) -> pd.DataFrame:
        """Return the shapes, the most important column first."""
        order = {name: place for place, name in enumerate(self.importance_.index)}
        return self.shape_functions_.sort_values("column", key=lambda names: names.map(order), kind="stable").set_index(
            ["column", "bin"]
        )


def centring(features: Sequence[Feature], people: Array) -> Array:
    """Return the map from effects to effects against the average person; the constant takes what that moves."""
    centred = np.eye(len(features))
    for places in places_by_column(features).values():
        shares = people[places] / people[places].sum()
        centred[np.ix_(places, places)] -= shares
        centred[0, places] += shares
    return centred


def _monotone(effects: Array, places: NDArray[np.intp], people: Array, column: Column, direction: str) -> Array:
    """Return the nearest effects, weighted by people, of which those of a column's bins rise or fall; centred again."""
    assert isinstance(column, Bins)  # as `_check_names` has it
    ordered = places[: len(column.middles)]
    found = effects.copy()
    weights = people[ordered] + 1.0  # an empty bin follows its neighbours
    found[ordered] = isotonic_regression(effects[ordered], sample_weight=weights, increasing=direction == "increasing")
    moved = float(people[places] @ found[places]) / float(people[places].sum())
    found[places] -= moved
    found[0] += moved
    return found


def _name_of_pair(pair: Sequence[str]) -> str:
    """Return what two columns are called where they are read together."""
    first, second = map(ColumnName.of, pair)
    return str(ColumnName(first.party, AND.join((first.column, second.column))))


def _coarse(column: Column) -> Column:
    """Return a column in fewer bins, each several neighbours of its own; what the caller has read in bins stays."""
    if not isinstance(column, Bins) or len(column.middles) <= PAIR_BINS:
        return column
    kept = np.linspace(0, len(column.middles), PAIR_BINS + 1).round().astype(int)
    return msgspec.structs.replace(column, edges=[column.edges[place] for place in kept], levels=())


def _one_row(row: Mapping[str, Any] | pd.Series | pd.DataFrame) -> pd.DataFrame:
    frame = row if isinstance(row, pd.DataFrame) else pd.DataFrame([dict(row)])
    if len(frame) != 1:
        raise BadInput("explain takes one record.", remedy="For example frame.iloc[[0]].")
    return frame
