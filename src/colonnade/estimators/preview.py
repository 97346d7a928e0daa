"""What a study would cost and how good it would be, before anything is spent."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from colonnade.privacy.loss import Loss
from colonnade.result import PrivacyStatement

__all__ = ["Preview"]


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
        What each party's ledger would be debited; zero where the release is already paid for.
    budget
        The parties' accounts now.
    expected
        The expected error, in words by figure.
    warnings
        What a careful colleague would point out.
    """

    title: str
    statement: PrivacyStatement
    charges: Mapping[str, Loss]
    budget: pd.DataFrame
    expected: Mapping[str, str]
    warnings: tuple[str, ...] = ()

    def table(self) -> pd.DataFrame:
        """Return one row a party: the charge, and what remains before it."""
        delta = self.statement.study_delta
        rows = {
            party: {"charge": loss.epsilon(delta), "remaining": self.budget.loc[party, "remaining"]}
            for party, loss in self.charges.items()
        }
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("party")

    def __str__(self) -> str:
        lines = [f"{self.title}: a preview; nothing is spent."]
        whole, part = self.statement.epsilon(unit="person"), self.statement.epsilon(unit="party")
        lines.append(
            f"  ε towards the coordinator: {whole:.4g} a person, {part:.4g} a party (δ = {self.statement.delta():.3g})"
        )
        for party, row in self.table().iterrows():
            lines.append(f"  {party}: charge ε={row['charge']:.4g}, remaining ε={row['remaining']:.4g}")
        lines += [f"  {name}: {words}" for name, words in self.expected.items()]
        lines += [f"  ! {warning}" for warning in self.warnings]
        return "\n".join(lines)

    __repr__ = __str__
