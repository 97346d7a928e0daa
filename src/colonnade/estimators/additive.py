"""`AdditiveClassifier`: one shape per column, added up. Every shape belongs to one party's column and can be read and signed."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

from colonnade.coding.columns import Feature
from colonnade.coding.encoders import encoded
from colonnade.constraints import ColumnList, Either, Numbers, OneColumn, OneOf, Optional, PerColumn, Whole
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.findings import MomentsRelease
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.estimation.inference import Inference
from colonnade.estimation.regression import LogisticFit
from colonnade.estimation.shape_belief import AdditiveFit
from colonnade.estimation.shapes import places_by_column
from colonnade.estimators.answers import require_fitted, require_matching
from colonnade.estimators.methods.additive import AdditiveNewton
from colonnade.estimators.methods.method import GivenMethod, Method
from colonnade.estimators.regression import LogisticRegression
from colonnade.estimators.second_moments import MomentStudy
from colonnade.estimators.study import COMMON
from colonnade.privacy.accounting import Unit
from colonnade.schema import Bins, Category, Column, Date, Indicator, Numeric
from colonnade.steps.registry import STUDIES

__all__ = ["AdditiveClassifier"]

Array = NDArray[np.float64]
BINS = 16
MOST_BINS = 256
DETERMINED, SMALL_ERROR = 0.5, 0.5
"""An effect is determined if the release leaves less than this part of the variance that it was believed to have, or if its
error is below so many log-odds."""
WIDENED = 2.5
"""The factor on standard errors for the curvature, which the release does not tell exactly (benchmarks/additive)."""
DIRECTIONS = ("increasing", "decreasing")


class AdditiveClassifier(LogisticRegression):
    """An additive model of an event: one effect per bin of every column, added up to log-odds.

    Numbers and dates are read in public bins, a missing value in a bin of its own. Neighbouring bins are pulled together and
    weak columns to no effect, as far as noise asks for it: the penalties follow from the release and cost nothing.

    Parameters
    ----------
    target
        A category of two levels, ``"party.column"``. The second is the event.
    columns
        The explaining columns; all but the target by default.
    bins
        How many bins of equal width a number has; or a mapping of column to a number of bins or to a list of edges, the
        column's bounds included. Columns that it does not name have 16.
    monotone
        Columns whose effect may only rise or only fall: ``{"bank.income": "decreasing"}``. It holds exactly.
    method
        ``"newton"``: tables of every column with the target, then Newton steps on secret shares. It needs three compute nodes
        besides the coordinator. Options: `cn.methods.AdditiveNewton`.
    epsilon, delta
        The price. There is no default for ε, and δ must be positive.
    unit
        ``"person"``: ε covers one person's records at all parties together. ``"party"``: one person's record at any one party.

    Attributes
    ----------
    shape_functions_ : DataFrame
        One row per bin: ``column``, ``bin``, ``effect`` in log-odds against the average person, ``stderr``, ``share`` of
        people, and whether the release determines it.
    importance_ : Series
        The mean size of each column's effect over people, the largest first.
    classes_ : array
        The target's levels.
    coef_, intercept_, feature_names_in_
        The same model as coefficients of bins: effects, and the log-odds of a person without any.
    privacy_, transcript_, receipt_
        Privacy statement, message log and receipt.

    Notes
    -----
    Errors are for the model that the same people give without noise, with the penalties that were found
    (docs/explanation/additive-models.md). They are approximate.

    Missing values: a number that declares ``missing=`` has a further bin for them. A category with ``missing="excluded"`` has a
    further level. Nobody is left out.

    Privacy
    -------
    Guarantee: (ε, δ) by zCDP of the discrete Gaussian for all openings together.
    Neighbours: zero-out.
    Adversary: the coordinator together with up to `collusion` parties. Compute nodes compute as written.
    Spends: once at every party whose columns enter.
    Not released: scores of people, any count or gradient without noise.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
    >>> columns = ["bank.age", "telco.late_payments", "insurer.risk_score"]
    >>> model = cn.AdditiveClassifier("bank.default", columns=columns, bins=8, epsilon=2.0, delta=1e-5).fit(federation)
    >>> list(model.shape_functions_.columns)
    ['column', 'bin', 'effect', 'stderr', 'share', 'determined']
    >>> sorted(model.importance_.index) == sorted(columns)
    True
    """

    task: ClassVar[str] = STUDIES["AdditiveClassifier"]
    offers: ClassVar[tuple[type[Method[Any]], ...]] = (AdditiveNewton,)
    constraints = {
        **COMMON,
        "target": OneColumn(),
        "columns": Optional(ColumnList()),
        "bins": Either(Whole(2, MOST_BINS), PerColumn(Either(Whole(2, MOST_BINS), Numbers(3)))),
        "monotone": Optional(PerColumn(OneOf(DIRECTIONS))),
    }
    essential: ClassVar[tuple[str, ...]] = (*LogisticRegression.essential, "_people", "_tables")
    learned: ClassVar[tuple[str, ...]] = (*essential, "coef_stderr_", "_model", "_inference")
    coding = "full"
    ridge = 0.0

    def __init__(
        self,
        target: str,
        *,
        columns: Sequence[str] | None = None,
        bins: int | Mapping[str, int | Sequence[float]] = BINS,
        monotone: Mapping[str, str] | None = None,
        method: GivenMethod = "newton",
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
    ) -> None:
        self.target = target
        self.columns = columns
        self.bins = bins
        self.monotone = monotone
        self.method = method
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit

    def fit(self, federation: Federation | MomentsRelease, *rows: object, repeat: int = 1) -> Self:
        """Run the study.

        Parameters
        ----------
        federation
            The federation on which to run it.
        repeat
            Which draw of the study. 1 is the first: asking for it again returns the same release and debits nothing. 2 is a new
            draw at a new price, and so on.

        Returns
        -------
        self
        """
        if isinstance(federation, MomentsRelease):
            raise BadInput(
                "An additive model is not fitted on moments: it opens tables and gradients of its own.",
                remedy="Give a federation and epsilon=, or use cn.LogisticRegression.",
            )
        return super().fit(federation, *rows, repeat=repeat)

    @property
    def shape_functions_(self) -> pd.DataFrame:
        """One row per bin: its column, its effect in log-odds against the average person, its error and its share of people."""
        require_fitted(self)
        (found,) = self._inferred()
        return pd.DataFrame(
            {
                "column": [feature.column for feature in self._coded],
                "bin": self._bins(),
                "effect": self.coef_[0],
                "stderr": self.coef_stderr_[0],
                "share": self._people / self._people[self._places()[self._coded[0].column]].sum(),
                "determined": found.determined[:-1],
            }
        )

    @property
    def importance_(self) -> pd.Series:
        """The mean size of each column's effect over people, in log-odds, the largest first."""
        shapes = self.shape_functions_
        size = (shapes["effect"].abs() * shapes["share"]).groupby(shapes["column"], sort=False).sum()
        return size.rename("importance").sort_values(ascending=False, kind="stable")

    def explain(self, row: Mapping[str, Any] | pd.Series | pd.DataFrame) -> pd.DataFrame:
        """Return what each column adds to one person's log-odds, the largest first; the constant is ``"intercept"``.

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
        missing = [name for name in self._columns if name not in frame.columns]
        if missing:
            raise SchemaMismatch(f"The record lacks the column {missing[0]!r}.", remedy="Columns are 'party.column'.")
        found = []
        bins = np.array(self._bins(), dtype=object)
        for name, places in self._places().items():
            code = int(encoded(frame[name], name, self._columns[name])[0])
            effect = float(self.coef_[0, places[code]]) if code >= 0 else 0.0
            found.append((name, str(bins[places[code]]) if code >= 0 else "none", effect))
        found.sort(key=lambda one: -abs(one[2]))
        found.append(("intercept", "", float(self.intercept_[0])))
        return pd.DataFrame(found, columns=["column", "bin", "effect"]).set_index("column")

    # Columns as they are read ----------------------------------------------------------------------------------------------

    def _as_read(self, federation: Federation) -> Federation:
        """Return the federation with numbers in bins, and missing values as bins or levels of their own."""
        described = federation.describe()
        chosen = self._chosen(described)
        self._check_names(chosen)
        read = {name: self._reading(name, column) for name, column in chosen.items() if name != self.target}
        return federation.read_as({name: column for name, column in read.items() if column != described[name]})

    def _reading(self, name: str, column: Column) -> Column:
        if isinstance(column, Numeric | Date):
            wanted = self.bins.get(name, BINS) if isinstance(self.bins, Mapping) else self.bins
            own = column.fill is not None
            if isinstance(wanted, int):
                return Bins.equal(column, wanted, missing=own)
            return Bins(edges=wanted, of=column, missing="level" if own else None)
        if isinstance(column, Category) and column.excludes:
            return msgspec.structs.replace(column, missing="level")
        return column

    def _check_names(self, chosen: Mapping[str, Column]) -> None:
        named = {"bins": self.bins if isinstance(self.bins, Mapping) else {}, "monotone": self.monotone or {}}
        for parameter, columns in named.items():
            for name in columns:
                if name not in chosen or not isinstance(chosen[name], Numeric | Date | Bins):
                    raise BadInput(
                        f"{parameter} names {name!r}, which is no number or date among the columns.",
                        remedy="Name columns of numbers or dates that enter the model.",
                    )

    def _chosen(self, available: Mapping[str, Column]) -> dict[str, Column]:
        """Return the study's columns. A missing value is a bin of its column, so indicators are left out."""
        chosen = MomentStudy._chosen(self, available)
        return {name: column for name, column in chosen.items() if not isinstance(column, Indicator)}

    # What was opened ---------------------------------------------------------------------------------------------------------

    def _shapes(self, found: AdditiveFit, features: Sequence[Feature], columns: Mapping[str, Column]) -> dict[str, Any]:
        """Return the fitted attributes: centred effects, monotone where they have to be, and their errors."""
        centred = _centring(features, found.people)
        effects = centred @ found.weights
        for name, direction in (self.monotone or {}).items():
            places = places_by_column(features)[name]
            effects = _monotone(effects, places, found.people, columns[name], direction)
        order = np.append(np.arange(1, len(features)), 0)  # the intercept last
        privacy, sampling, believed = (
            (centred @ one @ centred.T)[np.ix_(order, order)]
            for one in (WIDENED**2 * found.covariance, found.sampling, found.believed)
        )
        left, error = np.diag(found.covariance_in(centred))[order], np.sqrt(np.diag(privacy + sampling))
        determined = (left <= DETERMINED * np.diag(believed)) | (error <= SMALL_ERROR)
        inference = Inference(effects[order], privacy, sampling, determined, 1.0)
        errors = inference.errors(total=False)[:-1]
        names = tuple(feature.name for feature in features[1:])
        levels = tuple(str(level) for level in self._category(columns).levels)
        model = LogisticFit(levels, names, effects[None, 1:], effects[:1], errors[None], np.full(len(levels), np.nan))
        tables = found.tables
        opened = np.full((len(features), 4), np.nan)
        if tables is not None:
            deviations = np.sqrt([tables.people_variance, tables.events_variance])
            opened = np.column_stack([tables.people, tables.events, *(np.full(len(features), d) for d in deviations)])
        return {
            **self._learned(model, features[1:], columns),
            "_inference": [inference],
            "_people": found.people[1:].copy(),
            "_tables": opened,
        }

    def _places(self) -> dict[str, NDArray[np.intp]]:
        """Return where each column's bins stand among the coefficients."""
        columns = np.array([feature.column for feature in self._coded])
        return {name: np.flatnonzero(columns == name) for name in self._columns}

    def _bins(self) -> list[str]:
        return [feature.name.removeprefix(f"{feature.column}=") for feature in self._coded]

    def _table(self) -> pd.DataFrame:
        """Return the shapes, the most important column first."""
        order = {name: place for place, name in enumerate(self.importance_.index)}
        return self.shape_functions_.sort_values("column", key=lambda names: names.map(order), kind="stable").set_index(
            ["column", "bin"]
        )

    def _check_learned(self) -> None:
        super()._check_learned()
        require_matching(self, self._people, (len(self.feature_names_in_),))


def _centring(features: Sequence[Feature], people: Array) -> Array:
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


def _one_row(row: Mapping[str, Any] | pd.Series | pd.DataFrame) -> pd.DataFrame:
    frame = row if isinstance(row, pd.DataFrame) else pd.DataFrame([dict(row)])
    if len(frame) != 1:
        raise BadInput("explain takes one record.", remedy="For example frame.iloc[[0]].")
    return frame
