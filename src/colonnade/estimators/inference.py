"""`summary`, `conf_int` and `cov_params` of regressions, and the table that a summary is.

Estimates here are not shrunk, whatever the model uses to predict. What an interval covers is in docs/explanation/intervals.md.
"""

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.estimation.inference import Inference, RegressionInference
from colonnade.estimation.moments import Moments
from colonnade.estimators.answers import require_fitted
from colonnade.estimators.methods.method import Method, method_from
from colonnade.plan import Plan
from colonnade.result import PrivacyStatement
from colonnade.schema import Column
from colonnade.schema.features import written_levels

if TYPE_CHECKING:
    from colonnade.estimators.study import Study

INTERCEPT = "intercept"
INSTEAD = "Use a method whose noise has a known law in the coefficients, such as method='secure' with two classes."
LISTED_BOUNDS = 8
"""How many columns' bounds the head of a summary lists before it counts the rest."""
COLUMNS = {
    "coefficient": "{:.5g}",
    "privacy error": "{:.3g}",
    "sampling error": "{:.3g}",
    "total error": "{:.3g}",
    "lower": "{:.5g}",
    "upper": "{:.5g}",
    "p": "{:.3f}",
    "privacy share": "{:.2f}",
}
"""The columns of numbers in a summary, and how each is printed."""


@dataclass(frozen=True, eq=False)
class Summary:
    """A table of coefficients that can be read, printed and pasted.

    Parameters
    ----------
    title
        The estimator and its method.
    head
        What the figures rest on: ε, δ, the number of people, the bounds, and what is estimated.
    frame
        One row per coefficient, the intercept last: ``coefficient``, ``privacy error`` (from the noise), ``sampling error``
        (from the sampling of people), ``total error``, ``lower`` and ``upper`` ends of the interval for the population, ``p``,
        ``privacy share`` (the part of the variance that privacy causes) and ``determined``.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
    >>> model = cn.LinearRegression("bank.income", columns=["bank.age", "telco.minutes"], epsilon=2.0, delta=1e-5)
    >>> list(model.fit(federation).summary().frame.columns)[:4]
    ['coefficient', 'privacy error', 'sampling error', 'total error']
    """

    title: str
    head: Mapping[str, str]
    frame: pd.DataFrame

    def __str__(self) -> str:
        width = max(map(len, self.head), default=0)
        head = [f"  {name:<{width}}  {words}" for name, words in self.head.items()]
        return "\n".join([self.title, *head, "", self.printed().to_string()])

    __repr__ = __str__

    def printed(self) -> pd.DataFrame:
        """Return the table as text. What is not determined says so instead of showing noise; what is undefined is blank."""
        known = self.frame["determined"].to_numpy(dtype=bool)
        shown = {
            name: [
                form.format(value) if ok and not np.isnan(value) else ""
                for value, ok in zip(self.frame[name], known, strict=True)
            ]
            for name, form in COLUMNS.items()
        }
        verdict = ["yes" if ok else "not at this ε" for ok in known]
        return pd.DataFrame({**shown, "determined": verdict}, index=self.frame.index)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(words)}</td></tr>" for name, words in self.head.items()
        )
        return f"<h4>{html.escape(self.title)}</h4><table>{rows}</table>{self.printed().to_html(escape=True)}"


REACH = 1.96
"""How many standard errors an interval of 95 % reaches to either side."""


def coefficient_table(model: Any) -> pd.DataFrame:
    """Return the coefficients of a regression by name, the intercept last, with intervals of 95 % for the privacy noise.

    Parameters
    ----------
    model
        A fitted regression: ``coef_``, ``intercept_``, ``coef_stderr_`` and ``feature_names_in_``; with more than two classes one
        row of coefficients per class.
    """
    rows = np.atleast_2d(model.coef_)
    errors = np.atleast_2d(getattr(model, "coef_stderr_", np.full_like(rows, np.nan)))
    estimates = np.column_stack([rows, np.atleast_1d(model.intercept_)])
    errors = np.column_stack([errors, np.full(len(rows), np.nan)])
    names = [*model.feature_names_in_, INTERCEPT]
    tables = [
        pd.DataFrame(
            {"coefficient": one, "privacy error": error, "lower": one - REACH * error, "upper": one + REACH * error},
            index=pd.Index(names, name="column"),
        )
        for one, error in zip(estimates, errors, strict=True)
    ]
    return tables[0] if len(tables) == 1 else pd.concat(dict(zip(model.classes_, tables, strict=True)), names=["class"])


class HasCoefficients:
    """A mixin of regressions: tables, intervals and covariances of coefficients, from the inference that a fit has left."""

    essential: ClassVar[tuple[str, ...]]
    target: Any
    coding: Any
    method: Any
    schema_: Mapping[str, Column]
    plan_: Plan
    privacy_: PrivacyStatement
    coef_: NDArray[np.float64]
    coef_stderr_: NDArray[np.float64]
    intercept_: Any
    feature_names_in_: Any
    estimand: ClassVar[str] = ""
    """What is estimated, in words, unless the method has an ``estimand`` of its own."""

    _inference: list[Inference] | None

    def summary(self, *, level: float = 0.95) -> Summary:
        """Return a table of the coefficients with their errors, as a statistician would print it.

        Parameters
        ----------
        level
            The level of the intervals, which are for the population.
        """
        found = self._inferred()
        frames = [self._rows(one, level) for one in found]
        whole = (
            frames[0] if len(frames) == 1 else pd.concat(frames, keys=map(str, self._classes()), names=["class", None])
        )
        return Summary(f"{type(self).__name__}, method {self.plan_.method!r}", self._head(level), whole)

    def conf_int(self, level: float = 0.95, *, total: bool = True) -> pd.DataFrame:
        """Return confidence intervals, one row per coefficient, the intercept last.

        Parameters
        ----------
        level
            The share of such intervals that cover.
        total
            True: they cover the value in the population that the people were drawn from. False: they cover the estimate that
            the same people, with the same clipping, give without noise.

        Returns
        -------
        DataFrame
            Columns ``lower`` and ``upper``; infinite where ε does not determine a coefficient. After `Federation.tightened`
            they cover the value for the clipped table, and ``attrs["clipped"]`` says so.

        Examples
        --------
        >>> import colonnade as cn
        >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
        >>> model = cn.LinearRegression("bank.income", columns=["bank.age", "telco.minutes"], epsilon=2.0, delta=1e-5)
        >>> list(model.fit(federation).conf_int(0.9).index)
        ['bank.age', 'telco.minutes', 'intercept']
        """
        ends = np.vstack([one.interval(level, total=total) for one in self._inferred()])
        frame = pd.DataFrame(ends, index=self._terms(), columns=["lower", "upper"])
        frame.attrs.update(self._clipped())
        return frame

    def cov_params(self, *, total: bool = True) -> pd.DataFrame:
        """Return the covariance of the estimates in `summary`; NaN for coefficients that are not determined.

        Parameters
        ----------
        total
            False: the part that the privacy noise causes. True: with the sampling of people.
        """
        blocks = [one.covariance(total=total) for one in self._inferred()]
        size = sum(map(len, blocks))
        whole, start = np.zeros((size, size)), 0
        for block in blocks:  # classes are fitted one against the rest; between them nothing is known here
            whole[start : start + len(block), start : start + len(block)] = block
            start += len(block)
        return pd.DataFrame(whole, index=self._terms(), columns=self._terms())

    @property
    def determined_(self) -> NDArray[np.bool_]:
        """Whether ε determines each coefficient, in the shape of ``coef_``. If not, its interval is the whole line."""
        rows = np.array([one.determined[:-1] for one in self._inferred()])
        return np.asarray(rows.reshape(np.shape(self.coef_)))

    def _table(self) -> pd.DataFrame:
        """Return the summary's table; coefficients with the errors of the noise alone, for a method without intervals."""
        if vars(self).get("_inference") is None:
            return coefficient_table(self)
        frame = self.summary().frame
        return frame.rename_axis([*frame.index.names[:-1], "column"])

    def _inferred(self) -> list[Inference]:
        require_fitted(self)
        found: list[Inference] | None = vars(self).get("_inference")
        if found is None:
            reason, remedy = self._refusal()
            raise BadInput(reason, remedy=remedy)
        return found

    def _refusal(self) -> tuple[str, str]:
        """Return why there are no intervals, and what to use instead."""
        method = self._fitted_method()
        reason = getattr(method, "no_intervals", "") or "it has them for two classes only"
        return f"{type(self).__name__}(method={method.name!r}) has no intervals: {reason}.", INSTEAD

    def _fitted_method(self) -> Method[Any]:
        return method_from(self.method, cast("type[Study]", type(self)))

    def _classes(self) -> list[object]:
        return list(getattr(self, "classes_", [None]))

    def _terms(self) -> pd.Index:
        names = [*map(str, self.feature_names_in_), INTERCEPT]
        if len(self._inferred()) == 1:
            return pd.Index(names)
        return pd.MultiIndex.from_product([list(map(str, self._classes())), names], names=["class", None])

    def _rows(self, one: Inference, level: float) -> pd.DataFrame:
        ends = one.interval(level)
        return pd.DataFrame(
            {
                "coefficient": one.estimates,
                "privacy error": one.errors(total=False),
                "sampling error": np.sqrt(np.maximum(np.diag(one.sampling), 0.0)),
                "total error": one.errors(),
                "lower": ends[:, 0],
                "upper": ends[:, 1],
                "p": one.p_values(),
                "privacy share": one.privacy_share(),
                "determined": one.determined,
            },
            index=[*map(str, self.feature_names_in_), INTERCEPT],
        )

    def _head(self, level: float) -> dict[str, str]:
        numbers = [(name, column) for name, column in self.schema_.items() if column.is_number]
        listed = [f"{name} {column.low:g} to {column.high:g}" for name, column in numbers[:LISTED_BOUNDS]]
        more = [f"and {len(numbers) - LISTED_BOUNDS} more"] if len(numbers) > LISTED_BOUNDS else []
        categories = any(not self.schema_[name].is_number for name in self.schema_ if name != self.target)
        method = self._fitted_method()
        unmeasured = not getattr(method, "measures_target", True) and self.schema_[self.target].is_number
        coding = {"sum": "difference from the average of the levels"}.get(
            self.coding, "difference from the first level"
        )
        return {
            "target": str(self.target),
            "people": f"{self.plan_.people:,}",
            "ε, δ": f"{self.privacy_.epsilon():.4g}, {self.privacy_.delta():.3g} per person, towards the coordinator",
            "bounds": "; ".join([*listed, *more]) or "none",
            **self._clipped(),
            **({"levels": coding} if categories else {}),
            "estimates": getattr(method, "estimand", self.estimand),
            **({"sampling": "upper bounds: the method releases no sum of squares of the target"} if unmeasured else {}),
            "intervals": f"{level:.4g} for the population; conf_int(total=False) for the same people without noise",
        }

    def _clipped(self) -> dict[str, str]:
        """Return a word about columns that are read between narrower bounds than declared, if there are any."""
        read = self.plan_.read_columns()
        names = [name for name, column in self.schema_.items() if name in read and column.is_number]
        if not names:
            return {}
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        return {"clipped": f"{names[0]}{more} to narrower bounds than declared; everything is about the clipped table"}

    def _with_inference(
        self, learned: dict[str, Any], moments: Moments, infer: Callable[..., RegressionInference | None]
    ) -> dict[str, Any]:
        """Add intervals, and errors that count what shrinking moved, where the method's noise has a known law."""
        written = self._as_written(learned)
        found = None
        if not self.method.no_intervals:
            rows = np.atleast_2d(written["coef_"])[0]
            found = infer(moments, self.target, rows, columns=list(written["_columns"]), coding=self.coding)
        if found is None:
            return written
        errors = found.errors.reshape(np.shape(written["coef_"]))
        return {**written, "coef_stderr_": errors, "_inference": [found.written]}

    def _as_written(self, learned: Mapping[str, Any]) -> dict[str, Any]:
        """Return what was learned with levels as the study's coding writes them; nothing changes the second time."""
        if self.coding == "full":
            return dict(learned)
        both = np.column_stack([np.atleast_2d(learned["coef_"]), np.atleast_1d(learned["intercept_"])])
        both = both @ written_levels(learned["_coded"], self.coding).T
        rows, intercepts = both[:, :-1], both[:, -1]
        model = (
            {"_model": replace(learned["_model"], coefficients=rows, intercepts=intercepts)}
            if "_model" in learned
            else {}
        )
        return {
            **learned,
            **model,
            "coef_": rows.reshape(np.shape(learned["coef_"])),
            "intercept_": intercepts if np.ndim(learned["intercept_"]) else float(intercepts[0]),
        }
