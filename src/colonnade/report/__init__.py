"""What people are shown of a study: charts, tables in notebooks, and the privacy report.

Estimators do not import any of it. They ask `colonnade.estimators.frames` for a presenter, which is registered below. The
modules that it needs are imported when something is shown for the first time.
"""

from colonnade.estimators.presentation import Presenter, present_with

__all__: list[str] = []


def _presenter() -> Presenter:
    from colonnade.report import document, plots

    return Presenter(
        plot=plots.plot,
        plot_preview=plots.plot_preview,
        report=lambda study, path, federation: document.write([study], path, federation=federation),
        study_html=document.study_html,
        preview_html=document.preview_html,
        card_html=document.card_html,
    )


present_with(_presenter)
