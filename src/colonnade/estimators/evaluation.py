"""What `est.evaluate(...)` returns: figures with intervals, and the papers of the study that found them."""

import html
from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from colonnade.coordinator.findings import Findings, Papers
from colonnade.errors import BadInput
from colonnade.estimation.metrics import Metric
from colonnade.plan import Unit
from colonnade.schema import Column

__all__ = ["Evaluation", "EvaluationTerms"]


@dataclass(frozen=True)
class EvaluationTerms:
    """How an evaluation was asked for: for whom ε is promised, at which level intervals hold, which draw, of how many people."""

    unit: Unit
    level: float
    repeat: int
    people: int


@dataclass(frozen=True, eq=False)
class Evaluation(Papers):
    """How good a model is on a federation, privately.

    Parameters
    ----------
    title
        Of which model.
    metrics
        The figures, in order.
    level
        How often an interval covers the figure that the exact scores of the same people would give.
    findings
        The papers of the study.
    schema_
        What is public about the columns that entered.
    tables
        Figures that are tables, such as calibration, by name.

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
        """What was measured."""
        return tuple(metric.name for metric in self.metrics)

    @property
    def method(self) -> str:
        """Which model, by its estimator's name."""
        return self.plan_.method

    def get_params(self, *, deep: bool = False) -> dict[str, object]:  # noqa: ARG002  # as an estimator's
        """Return what was asked for besides the price, for reports."""
        return {"level": self.level, "repeat": self.plan_.repeat}

    def table(self) -> pd.DataFrame:
        """Return the figures as a table, one row a metric."""
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
        lines.append(f"  intervals at {self.level:.0%}, for noise and rounding on these very people")
        lines.append(f"  {self.receipt_}")
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
            f"<p>{html.escape(self.receipt_)}</p>"
        )
