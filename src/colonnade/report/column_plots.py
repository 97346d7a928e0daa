"""Charts of columns one by one: a histogram for each described column, and quantiles."""

from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.report.plots import COLOURS, INK, NORMAL_95, interval_chart, shortened, styled_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["described_chart", "quantile_chart"]

MOST_PANELS = 12
PANELS_IN_A_ROW = 2
MOST_LABELS = 5


def described_chart(study: Any) -> "Figure":
    """Return one small histogram per described column, with intervals of the noise."""
    columns = list(dict.fromkeys(study.counts_.index.get_level_values("column")))
    shown = columns[:MOST_PANELS]
    rows = -(-len(shown) // PANELS_IN_A_ROW)

    def draw(figure: "Figure") -> None:
        panels = figure.subplots(rows, PANELS_IN_A_ROW, squeeze=False).ravel()
        for axes, name in zip(panels, shown, strict=False):
            _histogram(axes, study.counts_[name], study.stderr_[name])
            axes.set_title(shortened(name, 30))
        for axes in panels[len(shown) :]:
            axes.set_visible(False)
        some = f" (the first {len(shown)} of {len(columns)})" if len(columns) > len(shown) else ""
        figure.suptitle(
            f"People by value{some}; bars: 95 % intervals of the privacy noise", x=0.01, ha="left", fontsize=10.5
        )

    return styled_figure(0.6 + 2.2 * rows, draw)


def _histogram(axes: Any, counts: Any, errors: Any) -> None:
    values, reach = counts.to_numpy(dtype=float), NORMAL_95 * errors.to_numpy(dtype=float)
    places = np.arange(len(values))
    axes.bar(places, values, color=COLOURS[5], edgecolor=COLOURS[0], lw=0.6, width=0.9)
    axes.errorbar(places, values, yerr=np.vstack([np.minimum(reach, values), reach]), fmt="none", ecolor=INK, lw=0.9)
    some = np.unique(np.linspace(0, len(values) - 1, min(len(values), MOST_LABELS)).astype(int))
    axes.set_xticks(some, [shortened(counts.index[place], 14) for place in some], rotation=30, ha="right", fontsize=7)
    axes.set_ylim(bottom=0)
    axes.grid(axis="x", visible=False)


def quantile_chart(study: Any) -> "Figure":
    """Return the quantiles of a column as points, one row per share."""
    labels = [f"{share:.4g}" for share in study.values_.index]
    return interval_chart(
        labels,
        study.values_.to_numpy(dtype=float),
        np.zeros(len(labels)),
        title=f"Quantiles of {shortened(study.column, 40)}",
        xlabel=f"ranks are within {2 * float(study.rank_error_.max()):.2%} of the people (two standard errors)",
    )
