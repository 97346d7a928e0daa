"""Who draws results and writes reports: `colonnade.report`, which reads estimators and therefore stands above them.

Estimators, previews and notebooks ask `presenter` for it. The report enters itself here when the package is imported, so that no
estimator depends on how it is shown.
"""

from pathlib import Path
from typing import Any, Protocol

__all__ = ["Presenter", "present_with", "presenter"]


class Presenter(Protocol):
    """What can be shown, and how."""

    def plot(self, study: Any) -> Any:
        """Return a chart of a fitted estimator, as a matplotlib figure."""
        ...

    def plot_preview(self, preview: Any) -> Any:
        """Return a chart of expected error against ε, as a matplotlib figure."""
        ...

    def report(self, study: Any, path: str | Path, federation: Any) -> Path:
        """Write the privacy report of a fitted estimator."""
        ...

    def study_html(self, study: Any) -> str:
        """Return an estimator as a notebook shows it."""
        ...

    def preview_html(self, preview: Any) -> str:
        """Return a preview as a notebook shows it."""
        ...


_entered: list[Presenter] = []


def present_with(one: Presenter) -> None:
    """Enter the presenter."""
    _entered[:] = [one]


def presenter() -> Presenter:
    """Return the presenter."""
    return _entered[0]
