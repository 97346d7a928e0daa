"""The presenter: what draws charts of results and writes reports.

`colonnade.report` reads estimators, so it stands above them. It registers itself here when the package is imported. Estimators
and previews ask `presenter` for it, so no estimator depends on how it is shown.

So estimators import, fit and preview with matplotlib absent, and the layers of the code stay an order (import-linter checks
it). `colonnade report` writes documents about any study, also one that was loaded from a file.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from colonnade.coordinator.federation import Federation
    from colonnade.estimators.answers import Preview
    from colonnade.estimators.scorecard import Scorecard
    from colonnade.estimators.study import Study
    from colonnade.estimators.synthetic import TableQuality


class Presenter(NamedTuple):
    """The functions that show studies and previews."""

    plot: "Callable[[Study | TableQuality], Figure]"
    """Returns a chart of a fitted estimator, or of how good a synthetic table is."""
    plot_preview: "Callable[[Preview], Figure]"
    """Returns a chart of the expected error against ε."""
    report: "Callable[[Study, str | Path, Federation | None], Path]"
    """Writes the privacy report of a fitted estimator."""
    study_html: "Callable[[Study], str]"
    """Returns an estimator as a notebook shows it."""
    preview_html: "Callable[[Preview], str]"
    """Returns a preview as a notebook shows it."""
    card_html: "Callable[[Scorecard], str]"
    """Returns a scorecard as a page of its own."""


_registered: list[Callable[[], Presenter]] = []


def present_with(load: Callable[[], Presenter]) -> None:
    """Register the function that returns the presenter. It is called when something is shown for the first time."""
    _registered[:] = [load]


@cache
def presenter() -> Presenter:
    """Return the presenter."""
    return _registered[0]()
