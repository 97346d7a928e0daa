"""The panel of an additive model: one shape per column, the most important first, with bands and the bins' shares of people."""

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from colonnade.report.plots import COLOURS, GRID, NORMAL_95, SOFT, headline, shortened, styled_figure
from colonnade.schema import Crossed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["shape_panel"]

MOST_PANELS = 12
ACROSS = 3
MOST_LABELS = 6
"""How many bins are named below a panel."""
LONGEST_BIN = 12


def shape_panel(study: Any) -> "Figure":
    """Return the panel.

    Parameters
    ----------
    study
        A fitted additive model: ``shape_functions_`` and ``importance_``.
    """
    shapes, order = study.shape_functions_, list(study.importance_.index)
    classes = _by_class(shapes)
    shown = order[:MOST_PANELS]
    rows = -(-len(shown) // ACROSS)
    unit = getattr(study, "effect_unit", "log-odds")

    def draw(figure: "Figure") -> None:
        every = figure.subplots(rows, min(ACROSS, len(shown)), squeeze=False).ravel()
        largest = _reach(shapes)
        for axes, name in zip(every, shown, strict=False):
            own = _by_class(shapes[shapes["column"] == name])
            if isinstance(study.schema_[name], Crossed):
                title, shape = max(own.items(), key=lambda one: float((one[1]["effect"].abs() * one[1]["share"]).sum()))
                _heat_map(figure, axes, shape["effect"].to_numpy(dtype=float), study.schema_[name], largest)
                axes.set_title(shortened(f"{name}, {title}" if title else name, 28))
                continue
            _share_of_people(axes, next(iter(own.values())))
            for colour, (title, shape) in zip(itertools.cycle(COLOURS), own.items()):
                _shape(axes, shape, largest, colour, title)
            axes.set_title(shortened(name, 28))
        if len(classes) > 1:
            lines, titles = every[0].get_legend_handles_labels()
            figure.legend(
                lines, titles, loc="upper right", ncols=min(len(classes), MOST_LABELS), frameon=False, fontsize=8
            )
        for axes in every[len(shown) :]:
            axes.set_axis_off()
        left = f" ({len(shown)} most important of {len(order)})" if len(order) > len(shown) else ""
        hollow = "" if shapes["determined"].all() else "; hollow: not determined"
        headline(
            figure,
            f"{shortened(study.target, 40)}: effect of each column{left}",
            f"{unit} against the average person; bands: noise 95 %; grey: people{hollow}",
        )

    return styled_figure(0.9 + 2.1 * rows, draw)


def _reach(shapes: pd.DataFrame) -> float:
    """Return how far the common scale reaches: all effects, and bands up to twice as far."""
    effects = float(shapes["effect"].abs().max())
    ends = shapes["effect"].abs() + NORMAL_95 * shapes["stderr"].replace(np.inf, 0.0)
    return 1.08 * min(float(ends.max()), 2 * effects) if effects > 0 else 1.0


def _by_class(shapes: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the shapes of each class by its name; of a model of one event or number, under no name."""
    if "class" not in shapes:
        return {"": shapes}
    return {str(name): own for name, own in shapes.groupby("class", sort=False)}


def _share_of_people(axes: Any, shape: pd.DataFrame) -> None:
    people = axes.twinx()
    people.bar(np.arange(len(shape)), shape["share"], width=0.9, color=GRID, zorder=0)
    people.set_ylim(0, 3.2 * max(float(shape["share"].max()), 1e-9))
    people.set_axis_off()
    axes.set_zorder(people.get_zorder() + 1)
    axes.patch.set_visible(False)
    axes.axhline(0, color=SOFT, linewidth=0.8)


def _shape(axes: Any, shape: pd.DataFrame, largest: float, colour: str, title: str) -> None:
    places = np.arange(len(shape))
    effects = shape["effect"].to_numpy(dtype=float)
    errors = shape["stderr"].to_numpy(dtype=float)
    known = np.isfinite(errors)
    reach = np.where(known, NORMAL_95 * np.where(known, errors, 0.0), 0.0)
    axes.fill_between(places, effects - reach, effects + reach, step="mid", color=colour, alpha=0.18, linewidth=0)
    axes.step(places, effects, where="mid", color=colour, linewidth=1.6, label=title or None)
    axes.plot(places[known], effects[known], "o", color=colour, markersize=3)
    axes.plot(places[~known], effects[~known], "o", color=colour, markersize=3, markerfacecolor="white")
    axes.set_ylim(-largest, largest)
    axes.grid(visible=False, axis="x")
    named = np.unique(np.linspace(0, len(places) - 1, min(MOST_LABELS, len(places))).round().astype(int))
    labels = [shortened(_lower_edge(name), LONGEST_BIN) for name in shape["bin"]]
    axes.set_xticks(named, [labels[place] for place in named], rotation=30, ha="right", fontsize=7)


def _heat_map(figure: Any, axes: Any, effects: Any, column: Crossed, largest: float) -> None:
    """Draw what two columns add together: the first upwards, the second to the right."""
    drawn = axes.imshow(
        effects.reshape(column.shape), origin="lower", aspect="auto", cmap="RdBu_r", vmin=-largest, vmax=largest
    )
    axes.grid(visible=False)
    for part, name, put, say in (
        (column.of[1], column.names[1], axes.set_xticks, axes.set_xlabel),
        (column.of[0], column.names[0], axes.set_yticks, axes.set_ylabel),
    ):
        labels = [shortened(_lower_edge(str(level)), LONGEST_BIN) for level in part.levels]
        put(np.arange(part.size), labels, fontsize=6, rotation=30, ha="right")
        say(shortened(name, LONGEST_BIN), fontsize=7)
    figure.colorbar(drawn, ax=axes, fraction=0.06, pad=0.02).ax.tick_params(labelsize=6)


def _lower_edge(name: str) -> str:
    """Return what stands below a bin: where it begins. A level stands there whole."""
    return name[1:].split(", ", maxsplit=1)[0] if name.startswith("[") and ", " in name else name
