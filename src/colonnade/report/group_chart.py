"""Charts of counts and means by group: a map for two columns, points with intervals otherwise."""

from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.report.plots import INK, MOST_ROWS, SOFT, interval_chart, shortened, styled_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["group_chart"]

MOST_COLUMNS = 16
FULL = 160
"""Cells beyond which no numbers are written into a map."""


def group_chart(study: Any) -> "Figure":
    """Return the chart of a fitted `GroupBy`: means of its first value, or counts where it has none.

    Parameters
    ----------
    study
        A fitted estimator; only its fitted attributes are read.
    """
    shown = _shown(study)
    table, names = study.table_, [str(name) for name in study.table_.index.names]
    words = f"{'People' if shown == 'count' else shown.rpartition('_')[0] + ', mean'} by {' and '.join(names)}"
    if len(names) == 2 and len(table.index.unique(level=1)) <= MOST_COLUMNS:
        return _map(table, shown, title=words)
    chosen = table.sort_values("count", ascending=False, kind="stable") if "count" in table else table
    chosen = chosen[np.isfinite(chosen[shown].to_numpy(dtype=float))].head(MOST_ROWS)
    ends = study.conf_int().reindex(chosen.index)
    reach = (ends[f"{shown}_high"] - ends[f"{shown}_low"]).to_numpy(dtype=float) / 2
    labels = [" / ".join(map(str, key)) if isinstance(key, tuple) else str(key) for key in chosen.index]
    left = f" ({len(chosen)} largest of {len(table):,})" if len(chosen) < len(table) else ""
    return interval_chart(
        labels,
        chosen[shown].to_numpy(dtype=float),
        reach,
        title=shortened(words, 62) + left,
        xlabel="bars: 95 % intervals of the privacy noise",
    )


def _shown(study: Any) -> str:
    columns = list(study.table_.columns)
    means = [name for name in columns if str(name).endswith("_mean")]
    sums = [name for name in columns if str(name).endswith("_sum")]
    return str((means or sums or columns)[0])


def _map(table: Any, shown: str, *, title: str) -> "Figure":
    """Draw one cell per group; a cell whose group is too small for its noise is left grey."""
    rows, columns = (list(table.index.unique(level=place)) for place in (0, 1))
    values = table[shown].to_numpy(dtype=float).reshape(len(rows), len(columns))[:MOST_ROWS]
    small = table["small"].to_numpy(dtype=bool).reshape(len(rows), len(columns))[:MOST_ROWS]
    kept = np.ma.masked_where(small | ~np.isfinite(values), values)

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        axes.set_facecolor("#eceff2")
        image = axes.imshow(kept, cmap="viridis", aspect="auto")
        axes.set_xticks(range(len(columns)), [shortened(name, 14) for name in columns])
        axes.set_yticks(range(len(values)), [shortened(name, 24) for name in rows[: len(values)]])
        axes.grid(visible=False)
        axes.tick_params(length=0)
        if len(columns) > 6:
            axes.tick_params(axis="x", rotation=40)
        figure.colorbar(image, ax=axes, shrink=0.85).outline.set_edgecolor(SOFT)
        figure.suptitle(shortened(title, 84), x=0.01, ha="left", fontsize=10.5)
        figure.supxlabel("grey: groups that are too small for their noise", x=0.01, ha="left", fontsize=9.5)
        if values.size <= FULL and kept.count():
            middle = (kept.min() + kept.max()) / 2
            for (row, column), value in np.ndenumerate(values):
                if not np.ma.getmaskarray(kept)[row, column]:
                    colour = "white" if value < middle else INK
                    axes.text(column, row, f"{value:.4g}", ha="center", va="center", color=colour, fontsize=7.5)

    return styled_figure(max(3.2, 1.5 + 0.3 * len(values)), draw)
