"""`Study`, the base of every estimator: parameters, a preview that spends nothing, and a fit that runs one study.

`MomentStudy` is the base of estimators on second moments, which can also be fitted on a release that was paid for before. A
`Design` says which columns a study reads.
"""

import math
import re
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import msgspec
import pandas as pd
from sklearn.base import BaseEstimator, clone

from colonnade.constraints import Constraint, OneOf, checked_parameters
from colonnade.coordinator.driver import Findings, estimating, forecast_traffic, statement_of
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols.moment_releases import MomentsRelease
from colonnade.coordinator.protocols.score_releases import Prediction
from colonnade.coordinator.tightening import offers
from colonnade.errors import BadInput, ColonnadeError, SchemaMismatch
from colonnade.estimation.expected_errors import PREDICTION, ExpectedError, noise_floor
from colonnade.estimation.moments import Moments
from colonnade.estimation.scoring import EvaluationResult
from colonnade.estimators.answers import (
    FACTORS,
    Delivery,
    Evaluation,
    EvaluationTerms,
    Preview,
    as_fitted,
    budget_after,
    general_warnings,
    require_fitted,
)
from colonnade.estimators.frames import OUTPUT
from colonnade.estimators.methods.method import Expectation, Method, MethodNames, method_from, methods_of
from colonnade.estimators.model_file import STUDY_ATTRIBUTES, write_model
from colonnade.estimators.presentation import presenter
from colonnade.estimators.two_stages import FirstStage, in_two_stages, merge_findings, require_both
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Price, Unit
from colonnade.protocol import messages
from colonnade.protocol.messages import Algorithm, Rounds
from colonnade.result import PrivacyStatement
from colonnade.runtime.event_log import progress_bar
from colonnade.schema import Column, ColumnName, indicated, with_indicators
from colonnade.steps.registry import STUDIES
from colonnade.transport.direct import Transcript

COMMON: Mapping[str, Constraint] = {"unit": OneOf(("person", "party"))}
"""Constraints on the parameters that every estimator has. `colonnade.privacy.accounting.Price` checks ε and δ."""


class Evaluator(Protocol):
    """An algorithm that measures how good a fitted model is. Its rounds return `EvaluationResult`."""

    @property
    def price(self) -> Price:
        """What is spent. Some evaluations need no δ and then spend none."""
        ...

    def steps(self) -> tuple[Step, ...]:
        """Return everything the parties will be asked to release."""
        ...

    def rounds(self, plan: Plan) -> Rounds:
        """Yield requests, receive replies, and return what was measured."""
        ...


class Study(BaseEstimator):
    """The base of all estimators.

    A subclass names its ``task`` and the methods that it ``offers`` (default first). It declares what its parameters may be in
    ``constraints``. The method plans the study, predicts its error and learns from its result. Price, plan, agreement and
    statement are handled here, once for all methods.

    ``learned`` names every attribute that a fit may set. ``essential`` names those that every fitted model has. Only declared
    attributes can be saved and loaded; `colonnade.estimators.model_file` lists the types they may have.
    """

    task: ClassVar[str]
    offers: ClassVar[tuple[type[Method[Any]], ...]] = ()
    methods: ClassVar[MethodNames] = MethodNames()
    """The names of all methods, those of packages too."""
    constraints: ClassVar[Mapping[str, Constraint]] = COMMON
    learned: ClassVar[tuple[str, ...]] = ()
    essential: ClassVar[tuple[str, ...]] = ()

    method: Any
    """The method as it was given: a name, a mapping or an object. In the checked copy that methods work on, the object."""
    epsilon: float | None
    delta: float
    unit: Unit
    feature_names_in_: Any
    schema_: Mapping[str, Column]
    plan_: Plan
    privacy_: PrivacyStatement
    transcript_: Transcript
    receipt_: str
    stage_before: FirstStage | None = None
    """What an earlier stage has released, in a copy of the study that goes on from it."""

    def __init__(self, *, method: Any, epsilon: float | None, delta: float, unit: Unit) -> None:
        self.method = method
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit

    # Public methods --------------------------------------------------------------------------------------------------

    def preview(self, federation: Federation, *, repeat: int = 1) -> Preview:
        """Show the price, the remaining budget, the noise and the expected error. Spends nothing and reads no data.

        Parameters
        ----------
        federation
            The federation on which the study would run.
        repeat
            Which draw of the study: 1 for the first, 2 for a new one, and so on.

        Returns
        -------
        Preview
            Prints as a short table. Where a first stage decides what the second one asks for, it shows a second one of the same
            price, until the first is paid for: then the parties tell again what it released.
        """
        self._require_federation("preview", federation)
        checked, given = self._checked(), federation
        federation = checked._as_read(federation)
        first = checked._first_stage(federation, repeat)
        if first is not None:
            return checked._preview_both(first, federation, given, repeat)
        algorithm, plan = checked._plan(federation, repeat)
        quote = federation._driver.quote(plan)
        expectation = checked.method.expect(checked, algorithm, federation)
        statement = statement_of(
            plan, quote, {}, federation._driver.columns.schemas, local=checked.method.is_local(checked)
        )
        accounts = federation._driver.accounts()
        charges = {party: quote.charge(party) for party in plan.parties}
        return Preview(
            title=f"{type(self).__name__}, method {plan.method!r}",
            statement=statement,
            charges=charges,
            unpaid={
                party: {
                    messages.request_identity(plan, party, step): quote.losses[party][step]
                    for step in quote.unpaid[party]
                }
                for party in plan.parties
            },
            budget=budget_after(accounts, {}),
            after=budget_after(accounts, charges),
            expected=expectation.words,
            warnings=tuple(
                dict.fromkeys(
                    (
                        *general_warnings(plan, statement),
                        *expectation.warnings,
                        *offers(federation._driver.columns, _columns_of(plan)),
                    )
                )
            ),
            errors=expectation.errors,
            traffic=forecast_traffic(plan, quote, federation._driver.columns.schemas, federation._driver.linked),
            others=_other_epsilons(checked, federation) if expectation.errors else pd.DataFrame(),
            epsilon=self.epsilon,
        )

    def fit(self, federation: Federation, *rows: object, repeat: int = 1) -> Self:
        """Run the study.

        Parameters
        ----------
        federation
            The federation on which to run it. Columns and target are named in the constructor.
        repeat
            Which draw of the study. 1 is the first: asking for it again returns the same release and debits nothing. 2 is a new
            draw at a new price, and so on.

        Returns
        -------
        self
        """
        self._require_federation("fit", federation, *rows)
        checked, given = self._checked(), federation
        federation = checked._as_read(federation)
        first = checked._first_stage(federation, repeat)
        if first is not None:
            return self._fit_both(checked, first, federation, given, repeat)
        algorithm, plan = checked._plan(federation, repeat)
        title = f"{type(self).__name__}(method={plan.method!r})"
        with progress_bar(type(self).__name__) as progress:
            findings = federation._driver.study(
                algorithm,
                plan,
                title=title,
                name=_in_words(self),
                local=checked.method.is_local(checked),
                progress=progress,
            )
        with estimating(findings):
            learned = checked.method.learn(checked, federation, findings.value)
        self._adopt(learned)
        self.privacy_ = findings.privacy
        self.transcript_ = findings.transcript
        self.receipt_ = checked.method.receipt(checked, findings)
        self.plan_ = plan
        explained = getattr(self, "target", None)  # a model is measured on its target as it is declared
        clipped = {name: column for name, column in learned.get("clipped_", {}).items() if name != explained}
        self.schema_ = {**_schema_of(plan, federation), **clipped}
        self._fitted_on = weakref.ref(given._origin or given)  # one that only says a title may be gone soon
        return self

    def prepared(self, federation: Federation, repeat: int = 1) -> tuple[Algorithm, Plan]:
        """Return what ``fit`` would run, and its plan; of a study in two stages the first. Nothing is run or spent."""
        self._require_federation("fit", federation)
        checked = self._checked()
        federation = checked._as_read(federation)
        first = checked._first_stage(federation, repeat)
        return checked._plan(federation, repeat) if first is None else (first.algorithm, first.plan)

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a file that `colonnade.load` reads: JSON, with statement, plan hash and schema inside.

        Parameters
        ----------
        path
            The file to write. An existing file is replaced.
        """
        require_fitted(self)
        not_learned = {*self.get_params(deep=False), "_fitted_on", OUTPUT}
        fitted = {name: value for name, value in vars(self).items() if name not in not_learned}
        undeclared = set(fitted) - {*STUDY_ATTRIBUTES, *self.learned}
        if undeclared:
            raise BadInput(
                f"The {type(self).__name__} has attributes that its class does not declare: {', '.join(sorted(undeclared))}.",
                remedy="Remove them with del, then save again.",
            )
        write_model(path, type(self).__name__, self.get_params(deep=False), fitted)

    def evaluate(
        self,
        federation: Federation,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
        level: float = 0.95,
        repeat: int = 1,
    ) -> Evaluation:
        """Measure privately how good the fitted model is on a federation. Nobody's score leaves its party.

        Parameters
        ----------
        federation
            The federation to measure it on, such as the test part of `Federation.split`.
        epsilon, delta, unit
            The price of the evaluation, and the unit for which it is promised. There is no default for ε.
        level
            The level of the intervals. They cover noise and rounding.
        repeat
            Which draw of the evaluation. A higher number is a new draw at a new price.
        """
        require_fitted(self)
        federation = as_fitted(self, federation)
        algorithm = self._evaluator(Price.of(epsilon, delta), EvaluationTerms(unit, level, repeat, federation.people))
        plan = federation._driver.plan(
            algorithm,
            task=STUDIES["evaluate"],
            method=self.listed_name(),
            price=algorithm.price,
            unit=unit,
            parameters={},  # the model's weights stand in the steps
            repeat=repeat,
        )
        title = f"{type(self).__name__}.evaluate"
        with progress_bar(title) as progress:
            findings = federation._driver.study(algorithm, plan, title=title, progress=progress)
        measured: EvaluationResult = findings.value
        schema = _schema_of(plan, federation)
        return Evaluation(type(self).__name__, measured.metrics, level, findings, schema, measured.tables)

    def table(self) -> pd.DataFrame:
        """Return the result as a table that a person reads: counts, centres, components or coefficients, each by name.

        Examples
        --------
        >>> import colonnade as cn
        >>> federation = cn.datasets.three_organisations(people=2_000).federation(budget=cn.Budget(epsilon=4.0))
        >>> study = cn.PatternCount(["bank.segment", "telco.plan"], epsilon=1.0).fit(federation)
        >>> list(study.table().columns)
        ['count', 'stderr', 'unbiased']
        """
        require_fitted(self)
        return self._table()

    def plot(self) -> Any:
        """Return a chart of the result as a matplotlib figure; ``figure.savefig("result.svg")`` writes it.

        Needs matplotlib: ``pip install 'colonnade[plots]'``.

        Examples
        --------
        >>> import colonnade as cn
        >>> federation = cn.datasets.three_organisations(people=2_000).federation(budget=cn.Budget(epsilon=4.0))
        >>> figure = cn.PatternCount(["bank.segment", "telco.plan"], epsilon=1.0).fit(federation).plot()
        >>> figure.get_suptitle()
        'People by bank.segment and telco.plan'
        """
        return presenter().plot(self)

    def report(self, path: str | Path, *, federation: Federation | None = None) -> Path:
        """Write the privacy report: one HTML file that needs no network and can be printed and signed.

        Parameters
        ----------
        path
            The file to write. An existing file is replaced.
        federation
            The federation whose ledgers are shown. By default the one that ``fit`` was called with, if it is still open.

        Returns
        -------
        Path
            The file that was written.

        Examples
        --------
        >>> import colonnade as cn, tempfile, pathlib
        >>> federation = cn.datasets.three_organisations(people=2_000).federation(budget=cn.Budget(epsilon=4.0))
        >>> study = cn.PatternCount(["bank.segment", "telco.plan"], epsilon=1.0).fit(federation)
        >>> path = study.report(pathlib.Path(tempfile.mkdtemp(), "study.html"))
        >>> path.stat().st_size < 1_000_000
        True
        """
        fitted_on = vars(self).get("_fitted_on", lambda: None)
        return presenter().report(self, path, federation or fitted_on())

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters. Options of the method are written ``method__steps=500``."""
        nested = any(name.startswith("method__") for name in parameters)
        given = parameters.get("method", self.method)
        if nested and not isinstance(given, Method):
            parameters.pop("method", None)
            self.method = method_from(given, type(self))
        super().set_params(**parameters)
        return self

    @property
    def n_features_in_(self) -> int:
        """How many coded columns the model has."""
        require_fitted(self)
        return len(self.feature_names_in_)

    # Overridden by subclasses ----------------------------------------------------------------------------------------

    def _as_read(self, federation: Federation) -> Federation:
        """Return the federation with its columns read as this study needs them: by default as they are declared."""
        return federation

    def _first_stage(self, federation: Federation, repeat: int) -> FirstStage | None:  # noqa: ARG002
        """Return what is to be released before the study itself; by default nothing. To be called on a checked copy."""
        return None

    def _second_stage(self, first: FirstStage, found: Any) -> Self:
        """Return the study that follows a first stage, given what that has released; ``None`` if that is not known yet."""
        raise NotImplementedError

    def _stage_words(self, first: FirstStage, second: Self) -> dict[str, str]:
        """Return what a preview says about the first stage."""
        raise NotImplementedError

    def _as_written(self, learned: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what was learned as the study's parameters want it written."""
        return learned

    def _table(self) -> pd.DataFrame:
        """Return the result as a table: by default what was learned and is a series, side by side, the largest entries first."""
        series = {
            name: getattr(self, name) for name in self.learned if isinstance(getattr(self, name, None), pd.Series)
        }
        frame = pd.DataFrame({str(one.name or name.rstrip("_")): one for name, one in series.items()})
        return frame.sort_values(frame.columns[0], ascending=False, kind="stable")

    def _prediction(self, to: str, reading: str) -> Prediction:  # noqa: ARG002
        """Return how the fitted model scores people, for one reader and one way of reading."""
        raise BadInput(
            f"{type(self).__name__} does not score people.",
            remedy="predict and transform are methods of models, such as cn.KMeans, cn.PCA and the regressions.",
        )

    def _evaluator(self, price: Price, terms: EvaluationTerms) -> Evaluator:  # noqa: ARG002
        """Return the algorithm that measures how good the fitted model is."""
        raise BadInput(
            f"{type(self).__name__} has nothing to evaluate: its result is a release, not a model.",
            remedy="Its standard errors are in stderr_. evaluate(...) is for models: cn.KMeans, cn.PCA, the regressions.",
        )

    def _check_learned(self) -> None:
        """Refuse learned attributes, read from a file, that do not match each other."""

    # Internals -----------------------------------------------------------------------------------------------

    def _checked(self) -> Self:
        """Return a copy with plain, allowed parameters, whose ``method`` is an object. Refuse anything else."""
        method = method_from(self.method, type(self)).checked()
        plain = checked_parameters(self.get_params(deep=False), self.constraints)
        defaults = {name: one.default for name, one in signature(type(self)).parameters.items()}
        for name, remedy in method.unused.items():
            if name in plain and not _same(plain[name], defaults[name]):
                raise BadInput(f"{name} has no meaning with method {method.name!r}.", remedy=remedy)
        found = type(self)(**{**plain, "method": method})
        found.stage_before = self.stage_before
        return found

    def _plan(self, federation: Federation, repeat: int) -> tuple[Algorithm, Plan]:
        """Return what the coordinator would run, and the plan. To be called on a checked copy."""
        method, price = self.method, self.method.price(self)
        if price is not None and price.delta == 0 and method.needs_delta(self, federation):
            pure = [one.name for one in methods_of(type(self)) if one.private and one.delta != "needed"]
            raise BadInput(
                f"method={method.name!r} needs a positive delta.",
                remedy="For example delta=1e-6, well below 1/people"
                + (f"; for delta=0 use method={pure[0]!r}." if pure else "."),
            )
        algorithm = method.protocol(self, federation, price, repeat)
        plan = federation._driver.plan(
            algorithm,
            task=method.task(self),
            method=method.name,
            price=price,
            unit=method.unit(self),
            parameters=method.parameters(self),
            repeat=repeat,
            relation=method.relation(self),
        )
        if self.stage_before is not None:
            plan = msgspec.structs.replace(plan, parameters={**plan.parameters, "after": self.stage_before.digest})
        return algorithm, plan

    @classmethod
    def listed_name(cls) -> str:
        """Return the name by which plans, policies and packages know this estimator: a user's subclass goes by its parent's."""
        names = [kind.__name__ for kind in cls.__mro__]
        return next((name for name in names if name in STUDIES), names[0])

    def _fit_both(
        self, checked: Self, first: FirstStage, read: Federation, federation: Federation, repeat: int
    ) -> Self:
        """Run both stages, the second on the federation as it was given: it reads its own columns."""
        require_both(federation, first, partial(self.preview, federation, repeat=repeat))
        title = f"{type(self).__name__}(first stage)"
        with progress_bar(title) as progress:
            findings = read._driver.study(first.algorithm, first.plan, title=title, progress=progress)
        with estimating(findings):
            second = checked._second_stage(first, findings.value)
        second.fit(federation, repeat=repeat)
        name = f"{type(self).__name__}(method={second.plan_.method!r})"
        own = Findings(None, second.plan_, second.privacy_, second.transcript_, second.receipt_)
        both = merge_findings(name, findings, own)
        self._adopt({name: value for name, value in vars(second).items() if name in self.learned})
        self.privacy_, self.transcript_, self.receipt_ = both.privacy, both.transcript, both.receipt
        self.plan_, self.schema_, self._fitted_on = second.plan_, second.schema_, second._fitted_on
        return self

    def _preview_both(self, first: FirstStage, read: Federation, federation: Federation, repeat: int) -> Preview:
        found = None
        if not any(read._driver.quote(first.plan).unpaid.values()):
            found = read._driver.study(first.algorithm, first.plan, title=f"{type(self).__name__}(first stage)").value
        second = self._second_stage(first, found)
        words = self._stage_words(first, second)
        return in_two_stages(read, first, second.preview(federation, repeat=repeat), self.method.price(self), words)

    def _adopt(self, learned: Mapping[str, Any]) -> None:
        """Keep what was learned, and nothing of an earlier fit."""
        for name in self.learned:
            self.__dict__.pop(name, None)
        for name, value in self._as_written(learned).items():
            setattr(self, name, value)

    def _deliver(self, federation: Federation, to: str | None, reading: str) -> Delivery:
        """Score everybody in a federation and open the scores to one party, if every policy allows that."""
        require_fitted(self)
        if to not in federation.parties:
            raise BadInput(
                f"to={to!r} does not name a party: individual scores are opened to one party of the federation.",
                remedy=f"Use one of to={', '.join(map(repr, federation.parties))}.",
            )
        algorithm = self._prediction(str(to), reading)
        federation = as_fitted(
            self, federation, [str(ColumnName(part.party, name)) for part in algorithm.parts for name in part.columns]
        )
        plan = federation._driver.plan(
            algorithm, task=STUDIES["predict"], method=self.listed_name(), price=None, unit="person", parameters={}
        )
        title = f"{type(self).__name__}, scores for {to}"
        with progress_bar(title) as progress:
            findings = federation._driver.study(algorithm, plan, title=title, progress=progress)
        return Delivery(str(to), findings, federation, _schema_of(plan, federation))

    def _require_federation(self, call: str, federation: object, *rows: object) -> None:
        """Refuse rows and targets, which scikit-learn's estimators take, and a release that this one is not fitted on."""
        if isinstance(federation, MomentsRelease):
            raise BadInput(
                f"{type(self).__name__} is not fitted on moments: it opens other numbers.",
                remedy="Give it a federation.",
            )
        if not isinstance(federation, Federation) or rows:
            raise BadInput(
                f"{call} takes a federation and no rows: rows stay with the parties. Columns and target are named in the "
                "constructor.",
                remedy="Make a federation with cn.Federation.simulate(...).",
            )

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_fitted_on"}

    def _repr_html_(self) -> str:
        return presenter().study_html(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}


def _same(value: object, default: object) -> bool:
    """Return whether a parameter has its default value."""
    plain = isinstance(value, bool | int | float | str)
    return value is default or (plain and value == default)


def _other_epsilons(study: Study, federation: Federation) -> pd.DataFrame:
    """Return the expected error at a few other ε, one row per ε at which it is known.

    No party is asked anything. The same public formulas are evaluated again.
    """
    rows = [
        {"epsilon": study.epsilon * factor, "error": error, "unit": unit}
        for factor in FACTORS
        if study.epsilon is not None
        for error, unit in _expected_at(study, federation, study.epsilon * factor)
    ]
    return pd.DataFrame(rows, columns=["epsilon", "error", "unit"])


def _expected_at(study: Study, federation: Federation, epsilon: float) -> list[tuple[float, str]]:
    try:
        other = clone(study).set_params(epsilon=epsilon)
        algorithm = other.method.protocol(other, federation, other.method.price(other), 1)
        expectation = other.method.expect(other, algorithm, federation)
    except ColonnadeError:  # not every ε that a table would show can be asked for
        return []
    return [(error.value, error.unit) for error in expectation.errors[:1] if error.value is not None]


def _in_words(study: Study) -> str:
    """Return what a study is called where nobody has given it a title: "Logistic regression of bank.default"."""
    first, *rest = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(study).__name__).split()
    target = getattr(study, "target", None)
    return " ".join([first, *map(str.lower, rest), *(["of", str(target)] if target else [])])


def _schema_of(plan: Plan, federation: Federation) -> dict[str, Column]:
    """Return what is public about every column that enters a study."""
    entering = set(_columns_of(plan))
    return federation.describe([name for name in federation.describe() if name in entering])


def _columns_of(plan: Plan) -> list[str]:
    """Return the columns that enter a study."""
    return [str(ColumnName(step.party, column)) for step in plan.steps for column in step.columns]


# On second moments ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Design:
    """The columns that a study reads, in the federation's order, and the one among them that it explains."""

    columns: dict[str, Column]
    target: str | None = None

    @classmethod
    def of(cls, available: Mapping[str, Column], names: Sequence[str] | None, target: str | None = None) -> Self:
        """Choose columns by name, all by default; refuse names that are not there, and a target that explains itself."""
        targets = [] if target is None else [target]
        if names is None:
            kept = [name for name, column in available.items() if indicated(name, column) not in targets]
            features = [name for name in kept if name not in targets]
        else:
            features = with_indicators(names, available)
        wanted = [*features, *targets]
        unknown = [name for name in wanted if name not in available]
        if unknown:
            raise SchemaMismatch(
                f"There is no column {unknown[0]!r} here.",
                remedy=f"The columns are {', '.join(available)}.",
            )
        if len(set(wanted)) != len(wanted):
            raise BadInput(f"The target {target!r} is also among the columns.", remedy="Leave it out of columns=[...].")
        asked = set(wanted)
        return cls({name: column for name, column in available.items() if name in asked}, target)

    @property
    def explaining(self) -> dict[str, Column]:
        """All columns but the target."""
        return {name: column for name, column in self.columns.items() if name != self.target}

    @property
    def explained(self) -> Column:
        """The target."""
        return self.columns[str(self.target)]

    @property
    def classes(self) -> Column:
        """The target, which has classes; refuse one without, and one that leaves people out."""
        column = self.explained
        if column.is_number:
            raise SchemaMismatch(
                f"The target {self.target!r} is numeric.", remedy="Use cn.LinearRegression for numbers."
            )
        if column.excludes:
            raise SchemaMismatch(
                f"The target {self.target!r} leaves out people without a value, and a model is fitted to everybody.",
                remedy='Declare it with missing="level", or leave these people out of the table.',
            )
        if column.size < 2:
            raise SchemaMismatch(
                f"The target {self.target!r} has one level only.", remedy="Choose a target with two levels or more."
            )
        return column

    @property
    def has_two_classes(self) -> bool:
        """Whether the target is a category of two levels."""
        return self.target is not None and not self.explained.is_number and self.classes.size == 2


class MomentStudy(Study):
    """The base of estimators on second moments: their columns, and fitting on a release of moments.

    Methods ask it for `design`, `reads_wide`, `expect_on_moments` and `learn_from_moments`.
    """

    columns: Any
    target: Any = None
    """The column that the study explains, if it does."""

    @property
    def standardises(self) -> bool:
        """Whether a first release finds how far numbers spread, and the study reads them so (`colonnade.steps.spreads`)."""
        return False

    def learn_from_moments(self, moments: Moments, design: Design) -> dict[str, Any]:
        """Return the fitted attributes, from moments that hold at least the study's columns."""
        raise NotImplementedError

    def expect_on_moments(self, width: int, variance: float, fixed: bool) -> Expectation:  # noqa: ARG002  # PCA's needs it
        """Return what noise of this variance in a covariance matrix means for a result: by default for a regression."""
        error = ExpectedError.not_known(PREDICTION, "of the standard deviation of predictions")
        return Expectation(floor_in_words(width, variance), lost_columns(width, variance), (error,))

    def reads_wide(self, design: Design) -> bool:  # noqa: ARG002  # a study that does looks at it
        """Return whether the study reads moments of these columns as `WideMoments`."""
        return False

    def design(self, available: Mapping[str, Column]) -> Design:
        """Return the study's columns; refuse those that the fit cannot use, before anything is spent."""
        found = Design.of(available, self.columns, self.target)
        self._check(found)
        return found

    def _check(self, design: Design) -> None:
        """Refuse columns that the fit cannot use."""

    def fit(self, federation: Federation | MomentsRelease, *rows: object, repeat: int = 1) -> Self:
        """Run the study, or fit on a release of moments without spending again.

        Parameters
        ----------
        federation
            The federation on which to run it; or what `Federation.moments` returned, which takes no ``epsilon``.
        repeat
            Which draw of the study. 1 is the first: asking for it again returns the same release and debits nothing. 2 is a new
            draw at a new price, and so on.

        Returns
        -------
        self
        """
        if not isinstance(federation, MomentsRelease):
            return super().fit(federation, *rows, repeat=repeat)
        if self.epsilon is not None:
            raise BadInput(
                "Fitting on a release takes no epsilon: the release was paid for when it was made.",
                remedy="Leave out epsilon.",
            )
        if repeat != 1:
            raise BadInput(
                "Fitting on a release takes no repeat: a release is one draw.",
                remedy="Make a release of another draw: federation.moments(..., repeat=2).",
            )
        checked = self._checked()
        design = checked.design(federation.columns)
        with estimating():
            learned = checked.learn_from_moments(federation.moments, design)
        self._adopt(learned)
        self.privacy_ = federation.privacy_
        self.transcript_ = federation.transcript_
        self.plan_ = federation.plan_
        self.schema_ = design.columns
        self.receipt_ = f"{type(self).__name__} from moments, nothing spent; {federation.receipt_}"
        return self


ALL_NOISE = (
    "Every column would be lost in the noise: ask for fewer columns, narrower bounds or a larger epsilon, or, if delta is 0, for "
    "method='secure' with a positive delta."
)


def lost_columns(width: int, variance: float) -> tuple[str, ...]:
    """Return a warning if no column can stand out of the noise: between −1 and 1, no variance is above 1."""
    return (ALL_NOISE,) if noise_floor(width, variance) > 1 else ()


def floor_in_words(width: int, variance: float) -> dict[str, str]:
    """Return the noise floor as a standard deviation, in parts of the distance between bounds. A coded column is 2 wide."""
    deviation = math.sqrt(noise_floor(width, variance)) / 2
    words = f"columns, and combinations of columns, whose standard deviation is below {deviation:.2g} of their bounds"
    return {"lost in the noise": words}
