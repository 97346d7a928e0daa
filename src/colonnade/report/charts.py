"""Charts as matplotlib figures: sizes that fit their labels, colours that everybody can tell apart, no global state.

Labels are parties' own words: they are cut to a length that fits and never read as mathematics, whatever signs they contain.
"""

import io
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "COLOURS",
    "blank",
    "brief",
    "coefficient_chart",
    "curve_chart",
    "heat_chart",
    "interval_chart",
    "profile_chart",
]
__all__ += ["scree_chart", "svg"]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito (2008), told apart by people with any of the common colour-vision deficiencies; markers differ as well."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
INK, SOFT, GRID = "#1b1f24", "#57606a", "#e3e7eb"
WIDTH = 7.2
LONGEST_LABEL, LONGEST_TITLE = 34, 84
STYLE = {
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "xtick.color": SOFT,
    "ytick.color": INK,
    "svg.hashsalt": "colonnade",
}

Array = NDArray[np.float64]


def blank(height: float, draw: Callable[["Figure"], None]) -> "Figure":
    """Return a figure of the house's style, drawn by a function, laid out so that nothing overflows.

    Parameters
    ----------
    height
        In inches.
    draw
        What puts axes on it.
    """
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise BadInput("Plots need matplotlib.", remedy="pip install 'colonnade[plots]'") from None
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scripts that the font does not have
        figure: Figure = _notebook_figure(Figure)(figsize=(WIDTH, height), dpi=110, layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure)
        figure.canvas.draw()
    return figure


def _notebook_figure(figure: Any) -> Any:
    """A figure that shows itself in a notebook, whether or not pyplot was ever imported."""

    class Plot(figure):
        """A matplotlib figure; ``savefig`` writes it to a file."""

        def _repr_svg_(self) -> str:
            return svg(self).decode()

    return Plot


def svg(figure: "Figure", *, drawn: bool = True) -> bytes:
    """Return a figure as SVG without time or tool in it.

    Parameters
    ----------
    figure
        The figure.
    drawn
        Whether letters are drawn, so that no font is needed; written ones take a fifth of the space.
    """
    import matplotlib as mpl

    buffer = io.BytesIO()
    fonttype = "path" if drawn else "none"
    with mpl.rc_context({**STYLE, "svg.fonttype": fonttype}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue().replace(b"'DejaVu Sans'", b"'DejaVu Sans', Verdana, Arial, sans-serif")


def brief(label: object, longest: int = LONGEST_LABEL) -> str:
    """Return a label on one line, cut in the middle if it is long.

    Examples
    --------
    >>> brief("bank.a_very_long_column_name_indeed=and_a_level", 21)
    'bank.a_ver…nd_a_level'
    """
    words = " ".join("".join(one if one.isprintable() else " " for one in str(label)).split())
    half = (longest - 1) // 2
    return words if len(words) <= longest else f"{words[:half]}…{words[-half:]}"


def interval_chart(
    labels: Sequence[object], values: Array, reach: Array, *, title: str, xlabel: str, zero: bool = False
) -> "Figure":
    """Return values as points with intervals, one row a label, the first on top."""

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        _intervals(axes, labels, values, reach, zero=zero)
        _headline(figure, title, xlabel)

    return blank(_tall(len(labels)), draw)


def coefficient_chart(
    panels: Sequence[tuple[str, Array, Array]], labels: Sequence[object], *, title: str, xlabel: str
) -> "Figure":
    """Return coefficients with intervals, one panel a class."""

    def draw(figure: "Figure") -> None:
        rows = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (name, values, reach) in zip(rows, panels, strict=True):
            _intervals(axes, labels, values, reach, zero=True)
            axes.set_title(brief(name, 44))
        _headline(figure, title, xlabel)

    return blank(len(panels) * _tall(len(labels)), draw)


def _intervals(axes: Any, labels: Sequence[object], values: Array, reach: Array, *, zero: bool) -> None:
    places = np.arange(len(labels))
    axes.errorbar(values, places, xerr=reach, fmt="o", color=COLOURS[0], ecolor=COLOURS[0], capsize=3, ms=4.5, lw=1.4)
    axes.set_yticks(places, [brief(label) for label in labels])
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.margins(x=0.06)
    if zero:
        axes.axvline(0, color=SOFT, lw=1)
    _few_ticks(axes.xaxis)


def profile_chart(names: Sequence[object], profiles: Array, *, title: str) -> "Figure":
    """Return each row of profiles as a line over the names; values lie between 0 and 1."""

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        places = np.arange(len(names))
        for number, profile in enumerate(profiles):
            colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
            axes.plot(places, profile, lw=1.6, ms=5, label=f"centre {number + 1}", color=colour, marker=marker)
        axes.set_xticks(places, [brief(name, 26) for name in names], rotation=40, ha="right", rotation_mode="anchor")
        axes.set(ylabel="between the column's bounds", ylim=(-0.04, 1.04))
        _headline(figure, title)
        axes.set_yticks([0, 0.5, 1], ["lower", "middle", "upper"])
        figure.legend(loc="outside lower center", ncols=min(len(profiles), 5), frameon=False)

    return blank(4.4, draw)


def heat_chart(axes: Any, matrix: Array, rows: Sequence[str], columns: Sequence[object]) -> None:
    """Draw a matrix of entries between −1 and 1 with the numbers in it."""
    axes.imshow(matrix, cmap="PuOr", vmin=-1, vmax=1, aspect="auto")
    axes.set_xticks(range(len(rows)), rows)
    axes.set_yticks(range(len(columns)), [brief(name) for name in columns])
    axes.grid(visible=False)
    axes.tick_params(length=0)
    if matrix.size > 240:
        return
    for (row, column), value in np.ndenumerate(matrix):
        colour = "white" if abs(value) > 0.62 else INK
        axes.text(column, row, f"{value:.2f}".replace("-", "−"), ha="center", va="center", color=colour, fontsize=8)


def scree_chart(axes: Any, values: Array, reach: Array, floor: float | None) -> None:
    """Draw explained variances with intervals, and the floor below which noise alone explains a component."""
    places = np.arange(1, len(values) + 1)
    axes.bar(places, values, color=COLOURS[5], edgecolor=COLOURS[0], width=0.62)
    axes.errorbar(places, values, yerr=reach, fmt="none", ecolor=INK, capsize=3, lw=1.2)
    if floor is not None:
        axes.axhline(floor, color=COLOURS[1], lw=1.5, ls="--", label="noise floor")
        axes.legend(frameon=False, loc="upper right")
    axes.set_xticks(places)
    axes.set_ylim(bottom=0)
    axes.grid(axis="x", visible=False)
    axes.set(title="Explained variance", xlabel="component", ylabel="coded units")


def curve_chart(epsilons: Array, errors: Array, *, here: float, title: str, ylabel: str) -> "Figure":
    """Return expected error against ε, both on logarithmic scales, with the asked-for ε marked."""

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        axes.loglog(epsilons, errors, marker="o", color=COLOURS[0], lw=1.6)
        nearest = int(np.argmin(np.abs(np.log(epsilons / here))))
        axes.plot(epsilons[nearest], errors[nearest], marker="D", ms=9, color=COLOURS[1], ls="none", label="as asked")
        axes.set_xticks(epsilons, [f"{value:g}" for value in epsilons])
        axes.minorticks_off()
        axes.set_yticks(errors, [f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in errors])
        axes.set(xlabel="ε", ylabel=ylabel)
        axes.legend(frameon=False)
        _headline(figure, title)

    return blank(3.4, draw)


def _headline(figure: "Figure", title: str, below: str = "") -> None:
    """Put title and unit at the left edge of the figure, cut so that they fit however wide the labels are."""
    figure.suptitle(brief(title, LONGEST_TITLE), x=0.01, ha="left", fontsize=10.5)
    if below:
        figure.supxlabel(brief(below, LONGEST_TITLE + 8), x=0.01, ha="left", fontsize=9.5)


def _tall(rows: int) -> float:
    return 1.25 + 0.27 * max(rows, 2)


def _few_ticks(axis: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(6))
