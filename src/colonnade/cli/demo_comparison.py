"""What a study of the demonstration found, beside what is true."""

from dataclasses import dataclass

import pandas as pd

import colonnade as cn
from colonnade.estimators.study import Study

__all__ = ["ROWS", "Comparison", "charges_of"]

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
        The largest few entries, with columns ``true``, ``estimate`` and ``stderr``. True is what the same kind of model gives on
        the joined table without noise, by scikit-learn: for a logistic regression the maximum-likelihood estimate.
    summary
        The error over all entries, in words.
    """

    charges: dict[str, float]
    estimator: Study
    table: pd.DataFrame
    summary: str


def charges_of(study: Study, federation: cn.Federation) -> dict[str, float]:
    """Return what each party's ledger would be debited, as a preview says."""
    return {str(party): float(charge) for party, charge in study.preview(federation).table()["charge"].items()}
