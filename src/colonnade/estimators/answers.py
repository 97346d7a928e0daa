"""What an estimator answers besides its model: previews before a fit, deliveries and evaluations after it.

The checks that fitted models make before they are used are here too.
"""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, isinf
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import msgspec
import numpy as np
import pandas as pd
from sklearn import exceptions

from colonnade.coordinator.driver import Findings, StudyRecord, Traffic
from colonnade.coordinator.federation import Federation, account_row
from colonnade.errors import BadInput, PolicyRefusal, SchemaMismatch
from colonnade.estimation.expected_errors import ExpectedError
from colonnade.estimation.scoring import Metric
from colonnade.estimators.model_file import STUDY_ATTRIBUTES
from colonnade.estimators.presentation import presenter
from colonnade.plan import Plan
from colonnade.privacy.accounting import NOTHING, Loss, Unit, of_several
from colonnade.protocol.messages import Accounted
from colonnade.result import COORDINATOR, PrivacyStatement
from colonnade.schema import Column

if TYPE_CHECKING:
    from colonnade.estimators.study import Study


FEW_PEOPLE = 500
LARGEST_ORDINARY, SMALLEST_ORDINARY = 10.0, 0.01
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""The other ε that a preview shows, relative to the study's."""


@dataclass(frozen=True)
class Preview:
    """Price, remaining budget, expected error and warnings of a study that has not run.

    Parameters
    ----------
    title
        The estimator and its method.
    statement
        The guarantee that the study would have.
    charges
        The loss that each party's ledger would be debited. Zero if the release is already paid for.
    unpaid
        The same, release by release: for each party, the losses by which its ledger knows them.
    budget, after
        The parties' accounts now, and after the study.
    expected
        What to expect: names of figures, and what to say about them.
    warnings
        Warnings to the user.
    errors
        The expected errors, the most important one first. One may be unknown, for a reason. Empty if a method has none.
    traffic
        Rounds and bytes, if they can be predicted.
    others
        The expected error of the first quantity at other ε, one row per ε.
    epsilon
        The ε of the study; None if the method has no price.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=2_000).federation(budget=cn.Budget(epsilon=4.0))
    >>> preview = cn.PatternCount(["bank.segment", "telco.plan"], epsilon=1.0).preview(federation)
    >>> preview.errors[0].unit, preview.expected_error > 0
    ('people', True)
    """

    title: str
    statement: PrivacyStatement
    charges: Mapping[str, Loss]
    unpaid: Mapping[str, Mapping[bytes, Loss]]
    budget: pd.DataFrame
    after: pd.DataFrame
    expected: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    errors: tuple[ExpectedError, ...] = ()
    traffic: Traffic | None = None
    others: pd.DataFrame = field(default_factory=pd.DataFrame)
    epsilon: float | None = None

    @property
    def expected_error(self) -> float | None:
        """The expected error of the result, in its own units; ``None`` if it is not known."""
        return self.errors[0].value if self.errors else None

    def table(self) -> pd.DataFrame:
        """Return one row per party: the charge at the δ of its cap, what remains now, and what would remain after it."""
        rows = {
            party: {
                "charge": loss.epsilon(float(self.budget["delta"][party])),
                "remaining": self.budget.loc[party, "remaining"],
                "would remain": self.after.loc[party, "remaining"],
            }
            for party, loss in self.charges.items()
        }
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("party")

    def plot(self) -> Any:
        """Return a chart of the expected error against ε, as a matplotlib figure (``pip install 'colonnade[plots]'``)."""
        return presenter().plot_preview(self)

    def _repr_html_(self) -> str:
        return presenter().preview_html(self)

    def __str__(self) -> str:
        lines = [f"{self.title}: a preview; nothing is spent.", *(f"  {line}" for line in self.statement.trust.lines)]
        whole, part = self.statement.epsilon(unit="person"), self.statement.epsilon(unit="party")
        shown = [f"{one:.4g}" if isfinite(one) else "∞" for one in (whole, part)]
        lines.append(
            f"  ε towards the coordinator: {shown[0]} per person, {shown[1]} per party (δ = {self.statement.delta():.3g})"
        )
        lines.append(f"  may pool: {self.statement.pooling}")
        for party, row in self.table().iterrows():
            lines.append(
                f"  {party}: charge ε={row['charge']:.4g}, remaining ε={row['remaining']:.4g}, "
                f"would then remain ε={row['would remain']:.4g}"
            )
        lines += [f"  {name}: {words}" for name, words in self.expected.items()]
        for error in self.errors:
            lines.append(f"  expected error of {error!r}")
        if self.traffic is not None:
            lines.append(f"  traffic: {self.traffic.words}")
        if not self.others.empty:
            rows = [f"ε={row.epsilon:.4g} → {row.error:,.4g}" for row in self.others.itertuples()]
            lines.append(f"  other ε: {', '.join(rows)}")
        lines += [f"  ! {warning}" for warning in self.warnings]
        return "\n".join(lines)

    __repr__ = __str__


def budget_after(accounts: Mapping[str, Accounted], charges: Mapping[str, Loss]) -> pd.DataFrame:
    """Return the parties' budgets as `Federation.budget` shows them, after further losses to some of them."""
    rows = []
    for party, reply in accounts.items():
        spent = of_several((Loss.from_bytes(reply.spent), charges.get(party, NOTHING)))
        rows.append(account_row(msgspec.structs.replace(reply, spent=spent.to_bytes())))
    return pd.DataFrame(rows).set_index("party")


COORDINATOR_COMPUTES = (
    "The coordinator is itself a compute node. The guarantee fails if it pools what it sees with {parties}. Name a node "
    "without data in its place: compute_nodes=[...], or a compute node in the papers."
)


def general_warnings(plan: Plan, statement: PrivacyStatement) -> list[str]:
    """Return warnings that apply to any study: a coordinator that computes, few people, or an unusual ε or δ."""
    warnings = []
    breaking = [party for party in plan.parties if isinf(statement.epsilon(observer=(COORDINATOR, party)))]
    if statement.coordinator_computes and breaking and isfinite(statement.epsilon()):
        warnings.append(COORDINATOR_COMPUTES.format(parties=" or with ".join(breaking)))
    if plan.people < FEW_PEOPLE:
        warnings.append(f"{plan.people} people are few: noise that hides one of them also hides much of the result.")
    if plan.price is None:
        return ["NOT PRIVATE: exact values leave the parties, and they are not covered by the budget.", *warnings]
    if plan.price.epsilon > LARGEST_ORDINARY:
        warnings.append("An epsilon above 10 gives little protection.")
    if plan.price.epsilon < SMALLEST_ORDINARY:
        warnings.append("An epsilon below 0.01 is unusually small: the result will be mostly noise.")
    if plan.price.delta * plan.people >= 1:
        warnings.append("A delta of 1/people or more would allow a whole record to be published: choose a smaller one.")
    return warnings


class NotFittedError(BadInput, exceptions.NotFittedError):
    """A model was used before it was fitted. It is also scikit-learn's error of the same name.

    Examples
    --------
    >>> import colonnade as cn, pandas as pd
    >>> try:
    ...     cn.PCA(2, epsilon=1.0, delta=1e-5).transform(pd.DataFrame())
    ... except cn.NotFittedError as error:
    ...     print(error.code)
    not-fitted
    """

    code = "not-fitted"
    default_remedy = "Call fit(...) or cn.load(...) first."


class Fittable(Protocol):
    """What says which attributes a fitted model has."""

    essential: ClassVar[tuple[str, ...]]


def require_fitted(study: Fittable) -> None:
    """Refuse to use a model that was never fitted."""
    if any(name not in vars(study) for name in (*STUDY_ATTRIBUTES, *study.essential)):
        raise NotFittedError(f"This {type(study).__name__} is not fitted.")


def refuse_recipient(to: object) -> None:
    """Refuse a recipient if the rows to score are the caller's own."""
    if to is not None:
        raise BadInput(
            "to= is for a federation, not for rows of a frame.", remedy="Leave out to=: the scores are returned to you."
        )


def as_fitted(study: "Study", federation: Federation, names: Sequence[str] | None = None) -> Federation:
    """Return a federation with the model's columns (all by default) read as when it was fitted; refuse other declarations."""
    if not isinstance(federation, Federation):
        raise BadInput("evaluate takes a federation.", remedy="Make one with cn.Federation.simulate(...).")
    available = federation.describe()
    wanted = study.schema_ if names is None else {name: study.schema_[name] for name in names}
    other = {name: column for name, column in wanted.items() if not column.is_same(available.get(name))}
    read = study.plan_.read_columns()
    changed = [
        name
        for name, column in other.items()
        if name not in read or not federation._driver.columns.allows(name, column)
    ]
    if changed:
        raise SchemaMismatch(
            f"The federation describes the column {changed[0]!r} otherwise than the model's schema does.",
            remedy="Fit the model anew, or open the parties with the schema that it was fitted on.",
        )
    return federation.read_as(other)


def require_matching(study: object, array: Any, shape: tuple[int, ...]) -> None:
    """Refuse an array, read from a file, of another shape or with entries that are not finite."""
    if not isinstance(array, np.ndarray) or array.shape != shape or not np.all(np.isfinite(array)):
        raise BadInput(
            f"The file's {type(study).__name__} has attributes whose shapes do not match.",
            remedy="Save the model again.",
        )


@dataclass(frozen=True, eq=False)
class Delivery(StudyRecord):
    """Individual scores that were opened to one party and to nobody else.

    The coordinator learns that they were delivered. In a simulation the party is in this process, and `read` returns its scores
    by its own ids. Across machines `read` refuses, and the party's operator finds the file in the folder of its ledger.

    Parameters
    ----------
    to
        The party that holds the scores.
    findings
        Statement, transcript, plan and receipt of the study.
    federation
        The federation whose people were scored.
    schema_
        What is public about the columns that entered.
    """

    to: str
    findings: Findings
    federation: Federation
    schema_: Mapping[str, Column]

    @property
    def receipt_(self) -> str:
        """The receipt: the trust picture in two lines, and one line with the figures."""
        return (
            f"{self.findings.receipt}; individual scores opened to {self.to}, outside the differential-privacy promise"
        )

    @property
    def method(self) -> str:
        """The name of the model's estimator."""
        return self.plan_.method

    def get_params(self, *, deep: bool = False) -> dict[str, object]:  # noqa: ARG002  # as an estimator's
        """Return what was asked for besides the price, for reports."""
        return {"to": self.to}

    def read(self) -> pd.DataFrame | pd.Series:
        """Return the scores by id, as a series if there is one column. Refused if the party runs on another machine."""
        keeper = self.federation._driver.keeper(self.to)
        if keeper is None:
            raise PolicyRefusal(
                f"The scores were opened to {self.to!r} alone, and stay there.",
                remedy=f"The operator of {self.to!r} finds them beside its ledger.",
            )
        frame = keeper.delivered(self.plan_, self.plan_.steps[0].name)
        return frame.iloc[:, 0] if frame.shape[1] == 1 else frame

    def place(self) -> str:
        """Return where the party keeps the scores: a path if the party is in this process and keeps a file."""
        keeper = self.federation._driver.keeper(self.to)
        path = keeper and keeper.delivery_path(self.plan_, self.plan_.steps[0].name)
        return "in the folder of its ledger" if path is None else str(path)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.read().to_numpy(), dtype=dtype, copy=True if copy is None else copy)

    def __len__(self) -> int:
        return len(self.read())

    def __repr__(self) -> str:
        return f"Delivery(to={self.to!r}, {self.plan_.people:,} people)"


@dataclass(frozen=True)
class EvaluationTerms:
    """Terms of an evaluation: the unit that ε protects, the level of intervals, the draw, and the number of people."""

    unit: Unit
    level: float
    repeat: int
    people: int


@dataclass(frozen=True, eq=False)
class Evaluation(StudyRecord):
    """A private measurement of how good a model is on a federation.

    Parameters
    ----------
    title
        The name of the model's estimator.
    metrics
        The metrics, in order.
    level
        The probability with which an interval covers the metric of the exact scores of the same people.
    findings
        Statement, transcript, plan and receipt of the study.
    schema_
        What is public about the columns that entered.
    tables
        Results that are tables, such as calibration, by name.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=4.0, delta=1e-5))
    >>> model = cn.LinearRegression("bank.income", columns=["telco.minutes"], epsilon=2.0, delta=1e-5).fit(federation)
    >>> result = model.evaluate(federation, epsilon=1.0, delta=1e-5)
    >>> result["mse"].low <= result["mse"].value <= result["mse"].high
    True
    """

    title: str
    metrics: tuple[Metric, ...]
    level: float
    findings: Findings
    schema_: Mapping[str, Column]
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Metric:
        for metric in self.metrics:
            if metric.name == name:
                return metric
        raise BadInput(f"There is no metric {name!r} here.", remedy=f"There are {', '.join(self.names)}.")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the metrics."""
        return tuple(metric.name for metric in self.metrics)

    @property
    def method(self) -> str:
        """The name of the model's estimator."""
        return self.plan_.method

    def get_params(self, *, deep: bool = False) -> dict[str, object]:  # noqa: ARG002  # as an estimator's
        """Return what was asked for besides the price, for reports."""
        return {"level": self.level, "repeat": self.plan_.repeat}

    def table(self) -> pd.DataFrame:
        """Return the metrics as a table, one row per metric."""
        rows = [
            {"metric": m.name, "value": m.value, "low": m.low, "high": m.high, "kind": m.kind} for m in self.metrics
        ]
        return pd.DataFrame(rows).set_index("metric")

    def __str__(self) -> str:
        wide = max(len(name) for name in self.names)
        lines = [f"{self.title}, evaluated on {self.plan_.people:,} people"]
        lines += [
            f"  {m.name:<{wide}}  {m.value:.4g}  ({m.low:.4g} … {m.high:.4g})"
            + ("" if m.kind == "exact" else f"  {m.kind}")
            for m in self.metrics
        ]
        lines.append(f"  intervals at {self.level:.0%}, for noise and rounding, on the same people")
        lines += [f"  {line}" for line in self.receipt_.splitlines()]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(m.name)}</td><td>{m.value:.4g}</td><td>{m.low:.4g} … {m.high:.4g}</td>"
            f"<td>{html.escape(m.kind)}</td></tr>"
            for m in self.metrics
        )
        return (
            f"<p><b>{html.escape(self.title)}</b>, evaluated on {self.plan_.people:,} people</p>"
            f"<table><tr><th>metric</th><th>value</th><th>{self.level:.0%} interval</th><th>kind</th></tr>{rows}</table>"
            + "".join(f"<p>{html.escape(line)}</p>" for line in self.receipt_.splitlines())
        )
