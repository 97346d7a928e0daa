"""`LinearRegression` and `LogisticRegression`: a column of one party, explained by columns of all parties.

The papers are *Secure PCA* (docs/references.md#secure-pca), *Primitives* (docs/references.md#primitives), *Functional mechanism
across parties* (docs/references.md#functional) and *Coresets* (docs/references.md#coresets).

What regressions share are mixins: tables and intervals of coefficients (`HasCoefficients`), and predictions (`PredictsNumbers`,
`PredictsClasses`). Estimates in tables are not shrunk, whatever the model uses to predict. What an interval covers is in
docs/explanation/intervals.md.
"""

import html
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import r2_score
from sklearn.pipeline import Pipeline

from colonnade.constraints import ColumnList, Either, OneColumn, OneOf, Optional, Real, Whole
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols import score_releases
from colonnade.coordinator.protocols.moment_releases import MomentsRelease
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.estimation import regression, scoring
from colonnade.estimation.moments import Moments
from colonnade.estimation.newton import Convergence
from colonnade.estimation.regression import Inference, RegressionInference
from colonnade.estimators.answers import EvaluationTerms, refuse_recipient, require_fitted, require_matching
from colonnade.estimators.frames import design_matrix, linear_pipeline, logistic_pipeline
from colonnade.estimators.methods import moments
from colonnade.estimators.methods.method import GivenMethod, Method, method_from
from colonnade.estimators.methods.moments import Newton, logistic_attributes
from colonnade.estimators.study import COMMON, Design, MomentStudy, Study
from colonnade.families import LOGISTIC
from colonnade.families.family import Family
from colonnade.plan import Plan
from colonnade.privacy.accounting import Price, Unit
from colonnade.result import PrivacyStatement
from colonnade.schema import CODINGS, Coding, Column, Feature, written_levels
from colonnade.schema.encoders import encoded
from colonnade.steps.registry import STUDIES

INTERCEPT = "intercept"
INSTEAD = "Use a method whose noise has a known law in the coefficients, such as method='secure' with two classes."
LISTED_BOUNDS = 8
"""How many columns' bounds the head of a summary lists before it counts the rest."""
STANDARDISE = OneOf(("auto", "off"))
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
READ_FIRST = ["coefficient", "total error", "lower", "upper", "p"]
"""The columns that a table of a result shows."""
PRIOR = "effects of about 2.5 units of score per two spreads, or four times the size of the others"
HELPS = "Fewer columns, federation.tightened(...) or a larger ε would help."


def marked(frame: pd.DataFrame, *, prior: str = PRIOR) -> pd.DataFrame:
    """Return estimates as every place shows them: ``noise`` says which are hidden, ``attrs["note"]`` what that means.

    Parameters
    ----------
    frame
        Estimates with a column ``hidden``.
    prior
        What is assumed about those.
    """
    hidden = frame["hidden"].to_numpy(dtype=bool)
    shown = frame.drop(columns="hidden").assign(noise=np.where(hidden, "hidden", ""))
    count = f"{hidden.sum()} of {len(hidden)} rows are hidden by noise"
    meaning = f"their estimates and intervals rest on the prior ({prior}) more than on the data"
    shown.attrs["note"] = f"{count}: {meaning}. {HELPS}" if hidden.any() else ""
    return shown


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
        ``privacy share`` (the part of the variance that privacy causes) and ``hidden`` (a weak prior decides more than the data).

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
        shown = self.printed()
        note = ["", shown.attrs["note"]] if shown.attrs["note"] else []
        return "\n".join([self.title, *head, "", shown.to_string(), *note])

    __repr__ = __str__

    def printed(self) -> pd.DataFrame:
        """Return the table as text. What noise hides is marked; what is undefined is blank."""
        cells = {
            name: [form.format(value) if np.isfinite(value) else "" for value in self.frame[name]]
            for name, form in COLUMNS.items()
        }
        return marked(self.frame.assign(**cells))

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(words)}</td></tr>" for name, words in self.head.items()
        )
        shown = self.printed()
        note = f"<p>{html.escape(shown.attrs['note'])}</p>" if shown.attrs["note"] else ""
        return f"<h4>{html.escape(self.title)}</h4><table>{rows}</table>{shown.to_html(escape=True)}{note}"


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
    clipped_: dict[str, Column]
    intercept_: Any
    feature_names_in_: Any
    estimand: ClassVar[str] = ""
    """What is estimated, in words, unless the method has an ``estimand`` of its own."""

    _inference: list[Inference] | None
    standardise: Any = "off"

    @property
    def standardises(self) -> bool:
        """Whether a first release finds how far numbers spread, and the study reads them so (`colonnade.steps.spreads`)."""
        return bool(self.standardise == "auto" and not vars(self).get("ridge"))

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
            Columns ``lower`` and ``upper``, under a weak prior where ``hidden_``. After `Federation.tightened`
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
        """Return the covariance of the estimates in `summary`.

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
    def hidden_(self) -> NDArray[np.bool_]:
        """Whether a weak prior, and not the data, decides most of each coefficient, in the shape of ``coef_``."""
        rows = np.array([one.hidden[:-1] for one in self._inferred()])
        return np.asarray(rows.reshape(np.shape(self.coef_)))

    @property
    def determined_(self) -> NDArray[np.bool_]:
        """Whether the data decides each coefficient: what ``hidden_`` is not."""
        return ~self.hidden_

    def _table(self) -> pd.DataFrame:
        """Return the summary's estimates and intervals; with the errors of the noise alone, for a method without intervals."""
        if vars(self).get("_inference") is None:
            return coefficient_table(self)
        frame = marked(self.summary().frame)[[*READ_FIRST, "noise"]]
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
                "hidden": one.hidden,
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
        clipped = vars(self).get("clipped_", {})
        tightened = self.plan_.read_columns() if not self.standardises else set()
        names = [name for name, column in self.schema_.items() if column.is_number and name in {*clipped, *tightened}]
        if not names:
            return {}
        listed = [f"{name} {clipped.get(name, self.schema_[name]).in_words()}" for name in names[:LISTED_BOUNDS]]
        more = [f"and {len(names) - LISTED_BOUNDS} more"] if len(names) > LISTED_BOUNDS else []
        words = "narrower than declared, and everything is about the clipped table"
        return {"clipped": f"{'; '.join([*listed, *more])}: {words}"}

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


class PredictsNumbers:
    """A mixin of fitted models of a number: coefficients in own units, added up."""

    essential: ClassVar[tuple[str, ...]]
    target: Any
    coef_: NDArray[np.float64]
    intercept_: Any
    feature_names_in_: Any
    schema_: Mapping[str, Column]
    _coded: Sequence[Feature]
    _columns: Mapping[str, Column]
    _deliver: Any

    def predict(self, X: pd.DataFrame | Federation, *, to: str | None = None) -> Any:
        """Return predictions.

        Parameters
        ----------
        X
            Rows that the caller holds, in a frame with the federation's column names; or a federation.
        to
            With a federation: the party that they are opened to. Every party's policy must allow it.

        Returns
        -------
        array, or Delivery
            For a federation, a handle of the scores that the party now holds.
        """
        if isinstance(X, Federation):
            return self._deliver(X, to, "numbers")
        refuse_recipient(to)
        require_fitted(self)
        return np.asarray(design_matrix(X, self._coded, self._columns, coded=False) @ self.coef_ + self.intercept_)

    def score(self, X: pd.DataFrame, y: Sequence[float] | pd.Series) -> float:
        """Return R² of the predictions for rows with these targets."""
        return float(r2_score(y, self.predict(X)))

    def to_sklearn(self) -> Pipeline:
        """Return the fitted model as a plain scikit-learn pipeline that takes the same frame and predicts the same."""
        require_fitted(self)
        return linear_pipeline(self._columns, self.coef_, self.intercept_)

    def _prediction(self, to: str, reading: str) -> score_releases.Prediction:
        weights, intercept = scoring.coded_weights(self._columns, self.coef_[None], np.array([self.intercept_]))
        return score_releases.Prediction(
            scoring.party_scores(self._columns, weights), intercept, to, reading, ("prediction",)
        )

    def _evaluator(self, price: Price, terms: EvaluationTerms) -> score_releases.MeasuredReleases:
        target = str(self.target)
        columns = {**self._columns, target: self.schema_[target]}
        weights, intercept = scoring.coded_weights(self._columns, self.coef_[None], np.array([self.intercept_]))
        return score_releases.regression_evaluation(columns, weights[0], float(intercept[0]), price, terms.level)

    def _check_learned(self) -> None:
        require_matching(self, self.coef_, (len(self.feature_names_in_),))

    def _check(self, design: Design) -> None:
        if not design.explained.is_number:
            raise SchemaMismatch(
                f"The target {self.target!r} is a category.", remedy="Use cn.LogisticRegression for categories."
            )


class PredictsClasses:
    """A mixin of fitted models of a category: scores in log-odds, and the probabilities that they stand for."""

    essential: ClassVar[tuple[str, ...]]
    target: Any
    coef_: NDArray[np.float64]
    intercept_: Any
    classes_: NDArray[np.object_]
    feature_names_in_: Any
    schema_: Mapping[str, Column]
    _coded: Sequence[Feature]
    _columns: Mapping[str, Column]
    _model: regression.LogisticFit
    _deliver: Any
    measured_as_scorecard: ClassVar[bool] = False
    """Whether `evaluate` adds the figures of a scorecard."""
    family: ClassVar[Family] = LOGISTIC

    def predict_proba(self, X: pd.DataFrame | Federation, *, to: str | None = None) -> Any:
        """Return the probability of every class.

        Parameters
        ----------
        X
            Rows that the caller holds, in a frame with the federation's column names; or a federation.
        to
            With a federation: the party that they are opened to. Every party's policy must allow it.

        Returns
        -------
        array, or Delivery
            For a federation, a handle of the scores that the party now holds.
        """
        if isinstance(X, Federation):
            return self._deliver(X, to, "chances")
        refuse_recipient(to)
        require_fitted(self)
        rows = design_matrix(X, self._coded, self._columns, coded=False)
        return self.family.chances(rows @ self._model.coefficients.T + self._model.intercepts)

    def predict(self, X: pd.DataFrame | Federation, *, to: str | None = None) -> Any:
        """Return the most probable class.

        Parameters
        ----------
        X
            Rows that the caller holds, in a frame with the federation's column names; or a federation.
        to
            With a federation: the party that they are opened to. Every party's policy must allow it.

        Returns
        -------
        array, or Delivery
            For a federation, a handle of the scores that the party now holds.
        """
        if isinstance(X, Federation):
            return self._deliver(X, to, "classes")
        refuse_recipient(to)
        require_fitted(self)
        return np.asarray(self.classes_[np.argmax(self.predict_proba(X), axis=1)])

    def decision_function(self, X: pd.DataFrame) -> Any:
        """Return the scores before they become probabilities: one per row for two classes, else one column per class."""
        require_fitted(self)
        scores = design_matrix(X, self._coded, self._columns, coded=False) @ self.coef_.T + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def score(self, X: pd.DataFrame, y: Sequence[object] | pd.Series) -> float:
        """Return the accuracy of the predictions for rows of these classes, which are read as a party's column would be."""
        require_fitted(self)
        labels = encoded(pd.Series(y), self.target, self.schema_[self.target])
        return float(np.mean(np.argmax(self.predict_proba(X), axis=1) == labels))

    def to_sklearn(self) -> Pipeline:
        """Return the fitted model as a plain scikit-learn pipeline that takes the same frame and predicts the same."""
        require_fitted(self)
        return logistic_pipeline(self._columns, self.coef_, self.intercept_, self.classes_.tolist())

    def _prediction(self, to: str, reading: str) -> score_releases.Prediction:
        weights, intercepts = scoring.coded_weights(self._columns, self.coef_, self.intercept_)
        return score_releases.Prediction(
            scoring.party_scores(self._columns, weights), intercepts, to, reading, self.classes_.tolist(), self.family
        )

    def _evaluator(self, price: Price, terms: EvaluationTerms) -> score_releases.MeasuredReleases:
        weights, intercepts = scoring.coded_weights(self._columns, self.coef_, self.intercept_)
        return score_releases.classifier_evaluation(
            self._columns,
            weights,
            intercepts,
            target=str(self.target),
            classes=tuple(map(str, self.classes_)),
            price=price,
            level=terms.level,
            repeat=terms.repeat,
            people=terms.people,
            scorecard=self.measured_as_scorecard,
        )

    def _check_learned(self) -> None:
        rows = 1 if len(self.classes_) == 2 else len(self.classes_)
        require_matching(self, self.coef_, (rows, len(self.feature_names_in_)))
        require_matching(self, self.intercept_, (rows,))

    def _check(self, design: Design) -> None:
        design.classes  # noqa: B018  # refuses a target without classes


class LinearRegression(PredictsNumbers, HasCoefficients, MomentStudy):
    """Linear or ridge regression on columns that different parties hold.

    Parameters
    ----------
    target
        The numeric column to explain, ``"party.column"``.
    columns
        The explaining columns; all but the target by default. A category enters as one indicator per level.
    method
        ``"secure"``: one noisy Gram matrix computed on secret shares, then a solve that takes its noise into account. Options:
        `cn.methods.Secure`.
        ``"sketch"``: each party perturbs a random projection of its rows (*Primitives*, Theorem E.4), then the same solve. One
        message per party and no peers; the error grows with √people. Options: `cn.methods.Sketch`.
        ``"functional"``: pure ε by Laplace noise in shares on the coefficients of the objective (*Functional mechanism across
        parties*), then the same solve with weak correlations pulled towards zero. Options: `cn.methods.Functional`.
        ``"coreset"``: **not differentially private**: scikit-learn on a weighted sample of exact rows that all parties draw
        together (*Coresets*). It needs ``allow_nonprivate=True`` and takes no ε. Each party's policy must allow it by name.
        Options: `cn.methods.Coreset`.
    ridge
        Penalty on the squared weights after scaling each column to [−1, 1], for sums over people as in scikit-learn. Intervals
        are those of least squares without it.
    coding
        How the levels of a category are written in ``coef_`` and in tables: ``"full"`` as they were fitted, ``"reference"`` as
        differences from the first level, ``"sum"`` as differences from the average of the levels. Predictions are the same.
        Tables and intervals of ``"full"``, which has no unique coefficients, are those of ``"reference"``.
    standardise
        ``"auto"``: a tenth of the price goes to a first release of each number's mean and spread, and the study reads numbers in
        these units. That helps wherever bounds are wider than what values spread over. Values far from the mean are clipped:
        the less, the more people and the larger ε, and not at all at a large one. `summary` says where. ``"off"``: numbers are
        read between their declared bounds, as with ``ridge``, which is about these. For ``"secure"`` alone.
    epsilon, delta
        The price. There is no default for ε. δ must be positive, except for ``"functional"``, which spends none.
    unit
        ``"person"``: ε covers one person's records at all parties together. ``"party"``: one person's record at any one party.
    penalty
        With ``method="coreset"``: ``None``, ``"l2"``, ``"l1"`` or ``"elasticnet"``. Its strength and mixture are on
        `cn.methods.Coreset` (``alpha``, ``l1_ratio``).
    size
        With ``method="coreset"``: the number of rows to draw, or ``"auto"``: about as many as serve, by public facts.
    allow_nonprivate
        Your consent to ``method="coreset"``.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Coefficients in the columns' own units.
    intercept_ : float
        The intercept.
    coef_stderr_ : array
        Errors of ``coef_`` as estimates of what the same people give without noise: from the noise, and from what shrinking
        moved (``"sketch"``: the noise alone). The sampling of people is not in
        them (`summary`).
    hidden_, determined_ : array of bool
        Whether noise hides each coefficient (a weak prior decides more of it than the data), and whether it does not.
    feature_names_in_ : array
        The names that the coefficients belong to.
    clipped_ : dict
        The columns whose values were clipped to narrower bounds than declared, with these bounds. Predictions clip explaining
        columns too.
    privacy_, transcript_, receipt_
        Privacy statement, message log and receipt.

    Notes
    -----
    Missing values: all methods do the same. A missing number is the value that its column declares. A person without a level has
    0 in every indicator of that column (or a level of its own). Nobody is left out.

    Privacy
    -------
    Guarantee: (ε, δ) by zCDP of the discrete Gaussian (or the Rényi curve of Skellam noise) for everything that is released
    together. ``"functional"``: (ε, 0) by discrete Laplace noise on the objective's coefficients. ``"coreset"``: none. Which rows
    were drawn leaves the parties, and their exact values or residuals.
    Neighbours: zero-out.
    Adversary: the coordinator together with up to `collusion` parties, or with any set of parties (``"sketch"``).
    Spends: once at every party whose columns enter.
    Not released: residuals, fitted values, any moment without noise (except with ``"coreset"``).

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
    >>> model = cn.LinearRegression("bank.income", columns=["bank.age", "telco.minutes"], epsilon=2.0, delta=1e-5)
    >>> model.fit(federation).coef_.shape
    (2,)

    Pure ε, at prices that the parties name themselves:

    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=2.0))
    >>> budgets = {"bank": 2.0, "telco": 1.0}
    >>> model = cn.LinearRegression(
    ...     "bank.income", columns=["bank.age", "telco.minutes"], method=cn.methods.Functional(budgets=budgets)
    ... ).fit(federation)
    >>> [model.privacy_.epsilon(unit="party", party=party) for party in budgets], model.privacy_.delta()
    ([2.0, 1.0], 0.0)

    Not private, for parties that trust each other with individual rows:

    >>> model = cn.LinearRegression(
    ...     "bank.income", columns=["bank.age", "telco.minutes"], method="coreset", size=1_000, allow_nonprivate=True
    ... ).fit(federation)
    >>> model.privacy_.epsilon()
    inf
    """

    task: ClassVar[str] = STUDIES["LinearRegression"]
    offers: ClassVar[tuple[type[Method[Any]], ...]] = (
        moments.Secure,
        moments.Functional,
    )
    constraints = {
        **COMMON,
        "target": OneColumn(),
        "columns": Optional(ColumnList()),
        "ridge": Real(0, closed="left"),
        "coding": OneOf(CODINGS),
        "standardise": STANDARDISE,
        "penalty": OneOf((None, "l2", "l1", "elasticnet")),
        "size": Optional(Either(Whole(1), OneOf(("auto",)))),
    }
    essential: ClassVar[tuple[str, ...]] = ("coef_", "intercept_", "feature_names_in_", "_coded", "_columns")
    learned: ClassVar[tuple[str, ...]] = (*essential, "coef_stderr_", "_inference", "clipped_")
    estimand = "least squares on clipped values, without shrinking or penalty; residuals of one variance"

    def __init__(
        self,
        target: str,
        *,
        columns: Sequence[str] | None = None,
        method: GivenMethod = "secure",
        ridge: float = 0.0,
        coding: Coding = "full",
        standardise: Literal["auto", "off"] = "auto",
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
        penalty: Literal["l1", "l2", "elasticnet"] | None = None,
        size: int | Literal["auto"] | None = None,
        allow_nonprivate: bool = False,
    ) -> None:
        super().__init__(method=method, epsilon=epsilon, delta=delta, unit=unit)
        self.target = target
        self.columns = columns
        self.ridge = ridge
        self.coding = coding
        self.standardise = standardise
        self.penalty = penalty
        self.size = size
        self.allow_nonprivate = allow_nonprivate

    def learn_from_moments(self, moments: Moments, design: Design) -> dict[str, Any]:
        """Return the coefficients of a solve that takes the noise into account, and their errors."""
        explaining, repaired = design.explaining, self.method.repaired(self, moments)
        fit = regression.linear_from_moments(repaired, self.target, columns=list(explaining), ridge=self.ridge)
        learned = {
            "coef_": fit.coefficients,
            "intercept_": float(fit.intercept),
            "coef_stderr_": fit.errors,
            "feature_names_in_": np.array(fit.names, dtype=object),
            "_coded": [feature for feature in moments.features if feature.column in explaining],
            "_columns": explaining,
        }
        return self._with_inference(learned, moments, regression.linear_inference)


class LogisticRegression(PredictsClasses, HasCoefficients, MomentStudy):
    """Logistic regression on columns that different parties hold, for two or more classes.

    Parameters
    ----------
    target
        The category to predict, ``"party.column"``.
    columns
        The explaining columns; all but the target by default. A category enters as one indicator per level.
    method
        ``"newton"``: Newton steps on secret shares, which converge to maximum likelihood. Every class pays for its own
        steps. It needs three compute nodes besides the coordinator. Options: `cn.methods.Newton`. The others fit a surrogate.
        ``"secure"``: one noisy Gram matrix computed on secret shares. A solve that takes its noise into account gives the
        direction; scale and intercept come from the same moments. Options: `cn.methods.Secure`.
        ``"functional"``: pure ε by Laplace noise in shares on the coefficients of the objective's second-order expansion
        (*Functional mechanism across parties*), then the same with weak correlations pulled towards zero. Options:
        `cn.methods.Functional`.
        ``"gradient"``: noisy gradient steps on secret batches (*Secure PCA*, SLR), for a target of two levels. Its ε is promised
        against the coordinator alone. Parties know the batches; their ε is in ``privacy_``. Options: `cn.methods.Gradient`.
    ridge
        Penalty on the squared weights in the solve, after scaling each column to [−1, 1]. Not for ``"newton"``, ``"gradient"``.
    coding
        How the levels of a category are written in ``coef_`` and in tables: ``"full"`` as they were fitted, ``"reference"`` as
        differences from the first level, ``"sum"`` as differences from the average of the levels. Predictions are the same.
        Tables and intervals of ``"full"``, which has no unique coefficients, are those of ``"reference"``.
    standardise
        ``"auto"``: a tenth of the price goes to a first release of each number's mean and spread, and the study reads numbers in
        these units. That helps wherever bounds are wider than what values spread over. Values far from the mean are clipped:
        the less, the more people and the larger ε, and not at all at a large one. `summary` says where. ``"off"``: numbers are
        read between their declared bounds, as with ``ridge``, which is about these. For ``"newton"`` and ``"secure"``.
    epsilon, delta
        The price. There is no default for ε. δ must be positive, except for ``"functional"``, which spends none.
    unit
        ``"person"``: ε covers one person's records at all parties together. ``"party"``: one person's record at any one party.

    Attributes
    ----------
    coef_ : array of shape (1, n_features) for two classes, else one row per class
        Coefficients in the columns' own units, as `predict` uses them: shrunk where noise outweighs the data. To report
        coefficients take those of `summary`, which are not.
    intercept_ : array
        The intercepts.
    classes_ : array
        The target's levels, in schema order.
    coef_stderr_ : array
        Errors of ``coef_`` as estimates of what the same method gives without noise. NaN for ``"gradient"``. Neither a
        surrogate's bias nor the sampling of people is in them.
    hidden_, determined_ : array of bool
        Whether noise hides each coefficient (a weak prior decides more of it than the data), and whether it does not. Of
        surrogates, for two classes.
    feature_names_in_ : array
        The names that the columns of ``coef_`` belong to.
    clipped_ : dict
        The columns whose values were clipped to narrower bounds than declared, with these bounds. Predictions clip explaining
        columns too.
    privacy_, transcript_, receipt_
        Privacy statement, message log and receipt.

    Notes
    -----
    A surrogate ranks people nearly as well as the maximum-likelihood estimate. Its coefficients differ, by a factor of 2 and more
    for columns far from Gaussian. Intervals cover what the method gives without noise (docs/explanation/intervals.md).

    Missing values: all methods do the same. A missing number is the value that its column declares. A person without a level has
    0 in every indicator of that column (or a level of its own). Nobody is left out, so a target with ``missing="excluded"`` is
    refused.

    Privacy
    -------
    Guarantee: (ε, δ) by zCDP of the discrete Gaussian (or the Rényi curve of Skellam noise) on everything that is opened.
    ``"functional"``: (ε, 0) by discrete Laplace noise on the objective's coefficients. ``"gradient"``: (ε, δ) by the Rényi curve
    of all steps on secret samples.
    Neighbours: zero-out.
    Adversary: the coordinator together with up to `collusion` parties. For ``"gradient"`` with Poisson batches the coordinator
    alone. For ``"newton"`` compute nodes compute as written.
    Spends: once at every party whose columns enter.
    Not released: scores of people, any moment without noise.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
    >>> columns = ["bank.age", "telco.late_payments", "insurer.risk_score"]
    >>> model = cn.LogisticRegression("bank.default", columns=columns, epsilon=2.0, delta=1e-5).fit(federation)
    >>> model.coef_.shape, list(model.classes_)
    ((1, 3), ['no', 'yes'])

    Pure ε for a whole record, and the smaller one for a party's part of it:

    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=2.0))
    >>> model = cn.LogisticRegression("bank.default", columns=columns, method="functional", epsilon=2.0).fit(federation)
    >>> model.privacy_.epsilon(), model.privacy_.delta(), model.privacy_.epsilon(unit="party", party="telco") < 2.0
    (2.0, 0.0, True)

    Gradient steps on secret batches. A peer knows the batches, so its ε is larger:

    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
    >>> model = cn.LogisticRegression(
    ...     "bank.default", columns=columns, method=cn.methods.Gradient(steps=20, rate=0.05), epsilon=2.0, delta=1e-5
    ... ).fit(federation)
    >>> model.privacy_.epsilon() <= 2.0 < model.privacy_.epsilon(observer="telco")
    True
    """

    task: ClassVar[str] = STUDIES["LogisticRegression"]
    offers: ClassVar[tuple[type[Method[Any]], ...]] = (Newton, moments.Secure, moments.Functional)
    constraints = {
        **COMMON,
        "target": OneColumn(),
        "columns": Optional(ColumnList()),
        "ridge": Real(0, closed="left"),
        "coding": OneOf(CODINGS),
        "standardise": STANDARDISE,
    }
    essential: ClassVar[tuple[str, ...]] = (*LinearRegression.essential, "classes_")
    learned: ClassVar[tuple[str, ...]] = (
        *essential,
        "coef_stderr_",
        "_model",
        "_inference",
        "_convergence",
        "clipped_",
    )
    estimand = "the method's quadratic surrogate on clipped values, not the maximum-likelihood estimate"

    def __init__(
        self,
        target: str,
        *,
        columns: Sequence[str] | None = None,
        method: GivenMethod = "newton",
        ridge: float = 0.0,
        coding: Coding = "full",
        standardise: Literal["auto", "off"] = "auto",
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
    ) -> None:
        super().__init__(method=method, epsilon=epsilon, delta=delta, unit=unit)
        self.target = target
        self.columns = columns
        self.ridge = ridge
        self.coding = coding
        self.standardise = standardise

    def fit(self, federation: Federation | MomentsRelease, *rows: object, repeat: int = 1) -> Self:
        """Run the study, or fit on a release of moments. `NotConverged` warns, and the receipt says so, if steps did not."""
        super().fit(federation, *rows, repeat=repeat)
        if vars(self).get("_convergence") and not self.converged_:
            self.receipt_ = f"{self.receipt_}; not converged"
            warnings.warn(moments.NOT_CONVERGED, moments.NotConverged, stacklevel=2)
        return self

    @property
    def convergence_(self) -> list[Convergence]:
        """Whether the steps came to rest, and the figures that say so: one record for two classes, else one per class."""
        require_fitted(self)
        found: list[Convergence] | None = vars(self).get("_convergence")
        if found is None:
            raise AttributeError("This method takes no steps, so there is nothing that could converge.")
        return found

    @property
    def converged_(self) -> bool:
        """Whether the steps of every class came to rest."""
        return all(one.converged for one in self.convergence_)

    @property
    def n_iter_(self) -> int:
        """How many steps were taken."""
        return max(one.steps for one in self.convergence_)

    def _head(self, level: float) -> dict[str, str]:
        found = vars(self).get("_convergence")
        return {**super()._head(level), **({"steps": "; ".join(map(str, found))} if found else {})}

    def learn_from_moments(self, moments: Moments, design: Design) -> dict[str, Any]:
        """Return the coefficients of the surrogate, and their errors."""
        repaired = self.method.repaired(self, moments)
        model = regression.logistic_from_moments(
            repaired, self.target, columns=list(design.explaining), ridge=self.ridge
        )
        learned = logistic_attributes(model, moments.features, design)
        return self._with_inference(learned, moments, regression.logistic_inference)
