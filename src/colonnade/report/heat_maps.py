"""Charts of every column against every other: correlations, and how well a synthetic table agrees with people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.report.plots import MOST_ROWS, headline, heat_chart, shortened, styled_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["agreement_chart", "correlation_chart"]


def correlation_chart(study: Any) -> "Figure":
    """Every column against every other, the first ones of many."""
    matrix = np.asarray(study.correlation_, dtype=float)[:MOST_ROWS, :MOST_ROWS]
    names = [str(name) for name in study.correlation_.columns]
    some = f" (the first {MOST_ROWS} of {len(names)} columns)" if len(names) > MOST_ROWS else ""
    shown = names[:MOST_ROWS]

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        heat_chart(axes, matrix, [shortened(name, 20) for name in shown], shown)
        axes.tick_params(axis="x", rotation=40)
        headline(figure, f"Correlations{some}")

    return styled_figure(max(3.2, 1.4 + 0.32 * len(shown)), draw)


def agreement_chart(study: Any) -> "Figure":
    """Pair trends of a synthetic table, with column shapes on the diagonal."""
    names = list(study.column_shapes_.index)[:MOST_ROWS]
    matrix = np.diag(study.column_shapes_.loc[names].to_numpy(dtype=float))
    for (one, other), value in study.pair_trends_.items():
        if one in names and other in names:
            matrix[names.index(one), names.index(other)] = matrix[names.index(other), names.index(one)] = value

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        heat_chart(axes, matrix, [str(number + 1) for number in range(len(names))], _numbered(names), share=True)
        headline(
            figure, "Agreement with people, column by column and pair by pair", "1: as the people; 0: nothing alike"
        )

    return styled_figure(max(3.2, 1.1 + 0.36 * len(names)), draw)


def _numbered(names: Sequence[str]) -> list[str]:
    return [f"{shortened(name, 26)}  {number}" for number, name in enumerate(names, start=1)]
