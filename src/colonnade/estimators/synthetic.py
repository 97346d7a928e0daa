"""`SyntheticTable`: a table of people who do not exist, with the columns of all parties.

Files of synthetic rows: a table that any tool reads, and beside it a JSON file that says what the table is.

The second file is named after the first, with ``.json`` behind it. It carries the privacy statement, the columns' descriptions,
the quality, the plan's hash and the receipt. Hand both on together.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import msgspec
import numpy as np
import pandas as pd

from colonnade._version import __version__
from colonnade.constraints import ColumnList, Optional, Whole, checked
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols.moment_releases import GramRelease, MomentsRelease
from colonnade.coordinator.protocols.score_releases import MeasuredReleases
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.estimation import table_model
from colonnade.estimation.moments import Moments
from colonnade.estimation.table_model import GramTables, TableModel, quality_series, table_metrics
from colonnade.estimators.answers import Evaluation, EvaluationTerms, require_fitted
from colonnade.estimators.methods.additive import SecurePairs
from colonnade.estimators.methods.method import GivenMethod
from colonnade.estimators.presentation import presenter
from colonnade.estimators.study import COMMON, Design, MomentStudy
from colonnade.plan import Plan
from colonnade.privacy.accounting import Price, Unit
from colonnade.protocol import messages
from colonnade.protocol.public_choice import public_uniforms
from colonnade.schema import Column, equal_bins
from colonnade.schema.encoders import values_of
from colonnade.steps.registry import STUDIES

LARGEST_SEED = 2**31 - 1
LARGEST_ROWS = 50_000_000
MOST_LEVELS = 2_048
"""How many levels all columns have together, at most: a release has one number for every two of them."""
WHAT_IT_IS = (
    "A synthetic table: its rows are invented and belong to nobody. They follow noisy counts of columns and of pairs of "
    "columns. What three or more columns do together is inferred from these pairs, and groups smaller than the noise are "
    "guesses. What the table tells about any person is bounded by ε and δ above, however many rows are drawn and whatever is "
    "done with them. It is no copy of the people's table, no sample of it, and no proof of anything about it: measure what "
    "matters by a study."
)
"""What every statement of a synthetic table says besides its guarantee."""


@dataclasses.dataclass(frozen=True, eq=False)
class TableQuality:
    """How well a synthetic table agrees with the people it was made from; made by `SyntheticTable.quality`.

    A column shape is one minus the share of people who would have to move for the two columns to be distributed alike (one minus
    the total variation distance, on levels and bins). A pair trend is the same for two columns together. 1 is perfect.

    Parameters
    ----------
    column_shapes_
        By column.
    pair_trends_
        By pair of columns.
    evaluation
        The private measurement that the figures come from, with intervals and a receipt; ``None`` if they cost nothing.
    """

    column_shapes_: pd.Series
    pair_trends_: pd.Series
    evaluation: Evaluation | None = None

    @property
    def column_shapes(self) -> float:
        """The mean over columns."""
        return self._figure("column_shapes", self.column_shapes_)

    @property
    def pair_trends(self) -> float:
        """The mean over pairs."""
        return self._figure("pair_trends", self.pair_trends_)

    @property
    def score(self) -> float:
        """The mean of the two."""
        return (self.column_shapes + self.pair_trends) / 2

    def details(self) -> pd.DataFrame:
        """Return one row per pair of columns, the worst first."""
        return self.pair_trends_.sort_values(kind="stable").to_frame().reset_index()

    def table(self) -> pd.DataFrame:
        """Return one row per column: its shape, and the mean of its pair trends."""
        return _by_column(self.column_shapes_, self.pair_trends_)

    def plot(self) -> Any:
        """Return a heat map of pair trends, with column shapes on the diagonal, as a matplotlib figure."""
        return presenter().plot(self)

    def _figure(self, name: str, series: pd.Series) -> float:
        return float(series.mean()) if self.evaluation is None else self.evaluation[name].value

    def __str__(self) -> str:
        by = "estimated from the release itself; nothing spent" if self.evaluation is None else "measured on people"
        lines = [f"Quality of a synthetic table, {by}"]
        for name in ("score", "column_shapes", "pair_trends"):
            found = None if self.evaluation is None else self.evaluation[name]
            span = "" if found is None else f"  ({found.low:.1%} … {found.high:.1%})"
            lines.append(f"  {name.replace('_', ' '):<14} {getattr(self, name):.1%}{span}")
        worst = self.details().head(3)
        lines += [f"  weakest pair   {row.column} and {row.other}: {row[3]:.1%}" for row in worst.itertuples()]
        return "\n".join(lines)

    __repr__ = __str__


class SyntheticTable(MomentStudy):
    """A table of people who do not exist, with columns of all parties, to explore freely.

    One release has the noisy tables of all pairs of columns. A graphical model is fitted to them, and rows are drawn from it. The
    release is all that is paid for: fitting, drawing any number of rows and whatever is done with them cost nothing more.

    Needs the library mbi to fit (``pip install 'colonnade[synthetic]'``); reading, drawing and saving do without.

    Parameters
    ----------
    columns
        The columns, two or more, at two parties or more; all by default.
    bins
        In how many bins of equal width numbers and dates are counted. Of whole numbers there is at most one bin per number.
        Other edges: ``federation.read_as({"bank.age": Bins(edges=[...], of=...)})``.
    cells
        How large the model may be: the number of cells of its tables together. A larger one keeps more pairs of columns, and
        takes longer to fit.
    method
        ``"secure"``: the pair tables are counted on secret shares. It has no options of its own.
    epsilon, delta
        The price. There is no default for ε, and δ must be positive.
    unit
        ``"person"``: ε covers one person's records at all parties together. ``"party"``: one person's record at any one party.

    Attributes
    ----------
    column_shapes_ : pandas.Series
        By column, one minus the share of people who would have to move for model and people to be distributed alike: an estimate
        from the noisy tables, with their known noise taken out.
    pair_trends_ : pandas.Series
        The same by pair of columns.
    pairs_ : list of pairs
        The pairs of columns that the model keeps. Others depend on each other through these.
    feature_names_in_ : array
        The columns.
    privacy_, transcript_, receipt_
        Privacy statement, message log and receipt.

    Notes
    -----
    Missing values: a column that declares what a missing value counts as has a bin, or a level, of its own for it. Such values
    are empty in the synthetic table, about as often as in the people's.
    Values inside a bin are uniform: the release says nothing about where in it. Narrow bounds first where they are far wider than
    the values (`Federation.tightened`).
    On a cohort, people without a row at a party are taken to be like the others there. On a union the table is about the people
    in common, whose number is noisy.

    Privacy
    -------
    Guarantee: (ε, δ) by zCDP of the discrete Gaussian for all pair tables together. A person is one cell of each, so a row has
    the same length for everybody and no noise is wasted on a bound.
    Neighbours: zero-out.
    Adversary: the coordinator together with up to `collusion` parties.
    Spends: once at every party whose columns enter. ``sample``, ``write`` and ``quality()`` spend nothing;
    ``quality(federation, epsilon=...)`` is a release of its own.
    Not released: any person's row, any count without noise, any table of three columns.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=2_000).federation(budget=cn.Budget(epsilon=4.0, delta=1e-5))
    >>> columns = ["bank.age", "bank.segment", "telco.plan"]
    >>> preview = cn.SyntheticTable(columns, bins=8, epsilon=2.0, delta=1e-5).preview(federation)
    >>> preview.errors[0].quantity
    'pair counts as released'
    """

    column_shapes_: pd.Series
    pair_trends_: pd.Series
    pairs_: list[tuple[str, str]]
    _model: TableModel
    _people: int

    task: ClassVar[str] = STUDIES["SyntheticTable"]
    offers = (SecurePairs,)
    constraints = {**COMMON, "columns": Optional(ColumnList()), "bins": Whole(1, 1_024), "cells": Whole(4, 10_000_000)}
    learned: ClassVar[tuple[str, ...]] = (
        "column_shapes_",
        "pair_trends_",
        "pairs_",
        "feature_names_in_",
        "_model",
        "_people",
    )
    essential: ClassVar[tuple[str, ...]] = learned

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        *,
        bins: int = 16,
        cells: int = table_model.CELLS,
        method: GivenMethod = "secure",
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
    ) -> None:
        super().__init__(method=method, epsilon=epsilon, delta=delta, unit=unit)
        self.columns = columns
        self.bins = bins
        self.cells = cells

    def fit(self, federation: Federation | MomentsRelease, *rows: object, repeat: int = 1) -> Self:
        """Release the pair tables and fit a model to them.

        Parameters
        ----------
        federation
            The federation on which to run it; or what `Federation.moments` returned, on a federation that reads numbers in bins.
            That takes no ``epsilon``.
        repeat
            Which draw of the study. 1 is the first: asking for it again returns the same release and debits nothing. 2 is a new
            draw at a new price, and so on.

        Returns
        -------
        self
        """
        self._checked()
        if isinstance(federation, Federation | MomentsRelease) and not rows:
            table_model.require_library()  # before anything is spent
        super().fit(federation, *rows, repeat=repeat)
        self.privacy_ = dataclasses.replace(self.privacy_, assumptions=(*self.privacy_.assumptions, WHAT_IT_IS))
        return self

    def sample(self, n: int | None = None, *, random_state: int = 0) -> pd.DataFrame:
        """Return invented people, in the columns' own units. Costs nothing, however often it is called.

        Parameters
        ----------
        n
            How many rows; by default as many as there are people.
        random_state
            Another number gives other rows. The same number gives the same rows on any machine.

        Returns
        -------
        DataFrame
            One column per column of the model, named ``"party.column"``. Counts are as near to the model's as whole rows allow.
        """
        require_fitted(self)
        rows = self._people if n is None else checked("n", n, Whole(1, LARGEST_ROWS))
        seed = checked("random_state", random_state, Whole(0, LARGEST_SEED))
        uniforms = partial(_uniforms, self.plan_, f"synthetic table {seed}")
        codes = self._model.draw(rows, uniforms)
        inside = {name: uniforms(f"inside a bin of {name}", rows) for name in self._model.columns}
        return pd.DataFrame(
            {name: values_of(self.schema_[name], codes[name], inside[name]) for name in self._model.columns}
        )

    def write(self, path: str | Path, *, n: int | None = None, random_state: int = 0) -> Path:
        """Write invented people to a ``.parquet`` or ``.csv`` file, and a second file that says what they are.

        Parameters
        ----------
        path
            The file to write. Beside it stands ``path.json`` with the privacy statement, the schema, the quality and the receipt.
        n, random_state
            As in ``sample``.

        Returns
        -------
        Path
            The second file.
        """
        return write_table(self, Path(path), self.sample(n, random_state=random_state), random_state)

    def quality(
        self,
        federation: Federation | None = None,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
        level: float = 0.95,
        repeat: int = 1,
    ) -> TableQuality:
        """Return how well the synthetic table agrees with people: column shapes and pair trends.

        Without a federation it is estimated from the release that was paid for, and costs nothing. With one it is measured on its
        people, with intervals, by a release of its own: `evaluate` in other words.

        Parameters
        ----------
        federation
            The federation to measure it on, such as the test part of `Federation.split`.
        epsilon, delta, unit, level, repeat
            As in `evaluate`.
        """
        require_fitted(self)
        if federation is None:
            if epsilon is not None:
                raise BadInput(
                    "quality takes epsilon only with a federation to measure on.",
                    remedy="quality() costs nothing; quality(federation, epsilon=1.0, delta=1e-6) measures on people.",
                )
            return TableQuality(self.column_shapes_, self.pair_trends_)
        found = self.evaluate(federation, epsilon=epsilon, delta=delta, unit=unit, level=level, repeat=repeat)
        series = {name: table.iloc[:, 0] for name, table in found.tables.items()}
        return TableQuality(series["column shapes"], series["pair trends"], found)

    # Internals -----------------------------------------------------------------------------------------------

    def _as_read(self, federation: Federation) -> Federation:
        """Return the federation with every column of the study read as levels."""
        readings: dict[str, Column] = {}
        for name, column in federation.describe(self.columns).items():
            if column.is_measured:
                readings[name] = equal_bins(column, self.bins, missing=column.missing is not None)
            elif column.excludes:
                readings[name] = column.with_missing_level()
        return federation.read_as(readings)

    def design(self, available: Mapping[str, Column]) -> Design:
        """Return the study's columns. Missing values have a level of their own, so no indicator is among them."""
        named = list(available) if self.columns is None else self.columns
        unknown = [name for name in named if name not in available]
        if unknown:
            raise SchemaMismatch(
                f"There is no column {unknown[0]!r} here.", remedy=f"The columns are {', '.join(available)}."
            )
        indicators = [name for name in named if available[name].indicates is not None]
        if indicators and self.columns is not None:
            raise BadInput(
                f"Column {indicators[0]!r} says where another column is missing.",
                remedy="Name that column instead: its missing values have a level of their own.",
            )
        design = Design({name: available[name] for name in available if name in named and name not in indicators})
        self._check(design)
        return design

    def _check(self, design: Design) -> None:
        columns = design.columns
        numbers = [name for name, column in columns.items() if column.is_number]
        if numbers:
            raise SchemaMismatch(
                f"Column {numbers[0]!r} is a number in this release, and a table counts levels.",
                remedy="Release the moments of federation.read_as({name: Bins.equal(column, 16)}), or fit on the federation.",
            )
        if len(columns) < 2:
            raise BadInput(
                "A synthetic table has two columns or more.",
                remedy='For one column use cn.PatternCount; or name more: columns=["bank.age", "telco.plan"].',
            )
        sizes = {name: column.size for name, column in columns.items() if not column.is_number}
        largest = sorted(sizes, key=lambda name: -sizes[name])
        if sum(sizes.values()) > MOST_LEVELS or sizes[largest[0]] * sizes[largest[1]] > self.cells:
            raise BadInput(
                f"There are too many levels: {largest[0]!r} has {sizes[largest[0]]:,}, all columns together "
                f"{sum(sizes.values()):,}.",
                remedy=_fewer(largest[0], columns[largest[0]], self.cells, sizes[largest[1]]),
            )

    def learn_from_moments(self, moments: Moments, design: Design) -> dict[str, Any]:
        """Return the model that is fitted to the noisy tables, and how well it agrees with them."""
        tables = GramTables(moments.select(list(design.columns)))
        model = table_model.fitted_model(tables, self.cells)
        pairs = table_model.chosen_pairs(tables, self.cells)
        shapes, trends = quality_series(model, tables, pairs)
        return {
            "column_shapes_": shapes,
            "pair_trends_": trends,
            "pairs_": [*pairs],
            "feature_names_in_": np.array(tables.columns, dtype=object),
            "_model": model,
            "_people": tables.people,
        }

    def _evaluator(self, price: Price, terms: EvaluationTerms) -> MeasuredReleases:
        columns = {name: self.schema_[name] for name in self._model.columns}
        release = GramRelease(columns, price)
        return MeasuredReleases([release], partial(table_metrics, self._model, level=terms.level), price)

    def _check_learned(self) -> None:
        sizes = [getattr(self.schema_.get(name), "size", 0) for name in self._model.columns]
        if tuple(sizes) != self._model.sizes or type(self._people) is not int or self._people < 1:
            raise BadInput(
                "The file's SyntheticTable has a model of other columns than its schema.",
                remedy="Save the model again.",
            )

    def _table(self) -> pd.DataFrame:
        frame = _by_column(self.column_shapes_, self.pair_trends_)
        frame.insert(0, "levels", pd.Series(dict(zip(self._model.columns, self._model.sizes, strict=True))))
        return frame


def _uniforms(plan: Plan, seed: str, label: str, count: int) -> Any:
    return public_uniforms(plan, f"{seed}: {label}", count)


def _by_column(shapes: pd.Series, trends: pd.Series) -> pd.DataFrame:
    either = [trends[[name in pair for pair in trends.index]].mean() for name in shapes.index]
    return pd.DataFrame({"column shape": shapes, "mean pair trend": either}, index=shapes.index)


def _fewer(name: str, column: Column, cells: int, second: int) -> str:
    """Return what to do about a column with too many levels."""
    if column.is_binned:
        return f"Use fewer bins=, or leave {name!r} out."
    most = max(cells // max(second, 1), 2)
    return (
        f"Group the levels of {name!r} (at most {most:,} beside the next largest column), declare it as a number if it is one, "
        "or leave it out."
    )


FORMATS = (".parquet", ".csv")


def require_format(path: Path) -> None:
    """Refuse a file of another kind, before anything is done."""
    if path.suffix not in FORMATS:
        raise BadInput(
            f"A synthetic table is written to a .parquet or a .csv file, not to {path.name}.",
            remedy=f"For example {path.stem or 'people'}.parquet.",
        )


def write_table(study: "SyntheticTable", path: Path, rows: pd.DataFrame, random_state: int) -> Path:
    """Write rows, then what they are. Existing files are replaced, each at once or not at all.

    Parameters
    ----------
    study
        The fitted estimator that the rows were drawn from.
    path
        The file to write.
    rows, random_state
        The rows, and the seed they were drawn with.
    """
    require_format(path)
    beside = path.with_name(f"{path.name}.json")
    draft = path.with_name(f".{os.getpid()}.{path.name}")
    words = msgspec.json.format(msgspec.json.encode(_described(study, path, rows, random_state)), indent=1)
    try:
        if path.suffix == ".csv":
            rows.to_csv(draft, index=False)
        else:
            rows.to_parquet(draft, index=False)
        draft.replace(path)
        draft.write_bytes(words + b"\n")
        draft.replace(beside)
    except OSError:
        draft.unlink(missing_ok=True)
        raise BadInput(
            f"The table cannot be written to {path.name}.", remedy="Check the folder and its permissions."
        ) from None
    return beside


def _described(study: "SyntheticTable", path: Path, rows: pd.DataFrame, random_state: int) -> dict[str, Any]:
    quality = study.quality()
    statement = study.privacy_.table().astype(object)
    return {
        "format": "colonnade synthetic table",
        "version": 1,
        "library": __version__,
        "table": path.name,
        "rows": len(rows),
        "random_state": random_state,
        "statement": {
            "in_words": str(study.privacy_),
            "observers": [{name: _plain(value) for name, value in row.items()} for row in statement.to_dict("records")],
        },
        "schema": {name: msgspec.to_builtins(column) for name, column in study.schema_.items()},
        "quality": {
            "column_shapes": quality.column_shapes,
            "pair_trends": quality.pair_trends,
            "by_column": {str(name): float(value) for name, value in quality.column_shapes_.items()},
        },
        "plan_hash": messages.digest(study.plan_).hex(),
        "receipt": study.receipt_,
    }


def _plain(value: Any) -> Any:
    """Return a cell of the statement as JSON knows it; an infinity as text."""
    return value if isinstance(value, str | bool | int) or value is None else _number(float(value))


def _number(value: float) -> float | str:
    return value if abs(value) < float("inf") else "infinite"
