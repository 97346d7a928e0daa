"""`Preview`: the price and the expected error of a study, before anything is spent."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from colonnade.coordinator.findings import Traffic
from colonnade.estimators.methods.method import ExpectedError
from colonnade.estimators.presentation import presenter
from colonnade.plan import Plan
from colonnade.privacy.accounting import Loss
from colonnade.result import PrivacyStatement

__all__ = ["FACTORS", "Preview", "general_warnings"]

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
    budget
        The parties' accounts now.
    expected
        What to expect: names of figures, and what to say about them.
    warnings
        Warnings to the user.
    errors
        The expected errors as numbers, the most important one first. Empty if a method does not predict its error.
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
    budget: pd.DataFrame
    expected: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    errors: tuple[ExpectedError, ...] = ()
    traffic: Traffic | None = None
    others: pd.DataFrame = field(default_factory=pd.DataFrame)
    epsilon: float | None = None

    @property
    def expected_error(self) -> float | None:
        """The expected error of the result, in its own units; ``None`` if the method does not predict it."""
        return self.errors[0].value if self.errors else None

    def table(self) -> pd.DataFrame:
        """Return one row per party: the charge, and the budget that remains before it."""
        delta = self.statement.study_delta
        rows = {
            party: {"charge": loss.epsilon(delta), "remaining": self.budget.loc[party, "remaining"]}
            for party, loss in self.charges.items()
        }
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("party")

    def plot(self) -> Any:
        """Return a chart of the expected error against ε, as a matplotlib figure (``pip install 'colonnade[plots]'``)."""
        return presenter().plot_preview(self)

    def _repr_html_(self) -> str:
        return presenter().preview_html(self)

    def __str__(self) -> str:
        lines = [f"{self.title}: a preview; nothing is spent."]
        whole, part = self.statement.epsilon(unit="person"), self.statement.epsilon(unit="party")
        lines.append(
            f"  ε towards the coordinator: {whole:.4g} per person, {part:.4g} per party (δ = {self.statement.delta():.3g})"
        )
        for party, row in self.table().iterrows():
            lines.append(f"  {party}: charge ε={row['charge']:.4g}, remaining ε={row['remaining']:.4g}")
        lines += [f"  {name}: {words}" for name, words in self.expected.items()]
        lines += [f"  expected error of {error!r}" for error in self.errors]
        if self.traffic is not None:
            lines.append(f"  traffic: {self.traffic.rounds} rounds, about {self.traffic.bytes:,} bytes")
        if not self.others.empty:
            rows = [f"ε={row.epsilon:.4g} → {row.error:,.4g}" for row in self.others.itertuples()]
            lines.append(f"  other ε: {', '.join(rows)}")
        lines += [f"  ! {warning}" for warning in self.warnings]
        return "\n".join(lines)

    __repr__ = __str__


def general_warnings(plan: Plan) -> list[str]:
    """Return warnings that apply to any study: few people, or an unusual ε or δ."""
    warnings = []
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
