"""What people are shown of a study: charts, notebooks' tables, the privacy report, the dashboard.

Estimators do not import any of it. They ask `colonnade.estimators.presentation` for a presenter, and the one below enters itself
there; what it needs is imported when something is shown.
"""

from pathlib import Path
from typing import Any

from colonnade.estimators.presentation import present_with

__all__: list[str] = []


class _Report:
    """Shows results by the modules of this package."""

    def plot(self, study: Any) -> Any:
        from colonnade.report import plots

        return plots.plot(study)

    def plot_preview(self, preview: Any) -> Any:
        from colonnade.report import plots

        return plots.plot_preview(preview)

    def report(self, study: Any, path: str | Path, federation: Any) -> Path:
        from colonnade.report import document

        return document.write([study], path, federation=federation)

    def study_html(self, study: Any) -> str:
        from colonnade.report import plots as notebook

        return str(notebook.study(study))

    def preview_html(self, preview: Any) -> str:
        from colonnade.report import plots as notebook

        return str(notebook.preview(preview))


present_with(_Report())
