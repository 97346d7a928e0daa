"""The studies that ``colonnade demo`` runs: each a title and a function from a federation to a result beside the truth.

A new estimator appends one entry to `STUDIES`; `demo` prints them all alike.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from colonnade.coordinator.federation import Federation
from colonnade.datasets.synthetic import Federated
from colonnade.estimators.pattern_count import PatternCount

__all__ = ["STUDIES", "Comparison", "DemoStudy"]

ROWS = 6


@dataclass(frozen=True)
class Comparison:
    """What a study found, beside what is true.

    Parameters
    ----------
    charges
        What each party's ledger was to be debited, as its preview said.
    estimator
        The fitted estimator.
    table
        The largest few entries, with columns ``true``, ``estimate`` and ``stderr``.
    summary
        The error over all entries, in words.
    """

    charges: dict[str, float]
    estimator: Any
    table: pd.DataFrame
    summary: str


@dataclass(frozen=True)
class DemoStudy:
    """One study of the demonstration."""

    title: str
    run: Callable[[Federated, Federation], Comparison]


def true_counts(data: Federated, columns: Sequence[str], index: pd.Index) -> pd.Series:
    """Count patterns in the joined table, which only invented people have."""
    return data.joined().groupby(list(columns), observed=False).size().reindex(index, fill_value=0)


def _patterns(columns: list[str], **parameters: Any) -> Callable[[Federated, Federation], Comparison]:
    def run(data: Federated, federation: Federation) -> Comparison:
        study = PatternCount(columns, **parameters)
        charges = {str(party): float(charge) for party, charge in study.preview(federation).table()["charge"].items()}
        study.fit(federation)
        truth = true_counts(data, columns, study.counts_.index)
        table = pd.DataFrame({"true": truth, "estimate": study.counts_, "stderr": study.stderr_})
        top = table.sort_values("true", ascending=False, kind="stable").head(ROWS)
        moved = float((study.counts_ - truth).abs().sum()) / 2 / federation.people
        summary = f"{len(table)} patterns; {moved:.1%} of people would have to move to make the estimate exact"
        return Comparison(charges, study, top, summary)

    return run


STUDIES: tuple[DemoStudy, ...] = (
    DemoStudy(
        "Patterns across two parties, randomised response, ε for a person",
        _patterns(["bank.segment", "telco.plan"], method="response", epsilon=2.0),
    ),
    DemoStudy(
        "Patterns across three parties, randomised response, ε for a person",
        _patterns(["bank.segment", "telco.plan", "insurer.product"], method="response", epsilon=3.0),
    ),
    DemoStudy(
        "Patterns across two parties, two columns at one of them, ε for a person's record at a party",
        _patterns(["bank.default", "insurer.product", "insurer.smoker"], method="response", epsilon=1.0, unit="party"),
    ),
    DemoStudy(
        "The same two columns as at first, as if they were independent: little noise, and biased where they are not",
        _patterns(["bank.segment", "telco.plan"], method="independent", epsilon=0.2),
    ),
)
