"""What `est.predict(federation, to=...)` returns: papers of scores that one party was told and, in its own hands, the scores."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from colonnade.coordinator.federation import Federation
from colonnade.coordinator.findings import Findings, Papers
from colonnade.schema import Column

__all__ = ["Delivery"]


@dataclass(frozen=True, eq=False)
class Delivery(Papers):
    """Individual scores that one party holds now, and nobody else does.

    Whoever coordinates learns that they were delivered. In a simulation the party is in this process, and `read` returns what it
    holds, by its own ids; across machines `read` refuses, and the party's operator finds the file beside its ledger.

    Parameters
    ----------
    to
        Who holds them.
    findings
        The papers of the study.
    federation
        Where.
    schema_
        What is public about the columns that entered.
    """

    to: str
    findings: Findings
    federation: Federation
    schema_: Mapping[str, Column]

    @property
    def receipt_(self) -> str:
        """A line to keep."""
        return (
            f"{self.findings.receipt}; individual scores opened to {self.to}, outside the differential-privacy promise"
        )

    @property
    def method(self) -> str:
        """Which model, by its estimator's name."""
        return self.plan_.method

    def get_params(self, *, deep: bool = False) -> dict[str, object]:  # noqa: ARG002  # as an estimator's
        """Return what was asked for besides the price, for reports."""
        return {"to": self.to}

    def read(self) -> pd.DataFrame | pd.Series:
        """Return what the party holds, by id: a series where there is one column; refused where the party is elsewhere."""
        frame: pd.DataFrame = self.federation.delivered(self.to, self.plan_, self.plan_.steps[0].name)
        return frame.iloc[:, 0] if frame.shape[1] == 1 else frame

    def place(self) -> str:
        """Return where the party keeps it, in words: a path where the party is in this process and keeps a file."""
        path = self.federation.delivery_path(self.to, self.plan_, self.plan_.steps[0].name)
        return "beside its ledger" if path is None else str(path)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.read().to_numpy(), dtype=dtype, copy=True if copy is None else copy)

    def __len__(self) -> int:
        return len(self.read())

    def __repr__(self) -> str:
        return f"Delivery(to={self.to!r}, {self.plan_.people:,} people)"
