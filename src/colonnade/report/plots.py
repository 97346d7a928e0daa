"""Charts of what estimators learned.

Charts have sizes that fit their labels, colours that everybody can tell apart, and no global state. Labels are parties' own
words: they are cut to a length that fits and never read as mathematics, whatever signs they contain. The functions are called
by name from `colonnade.estimators.frames`: a report looks at estimators, so no estimator may depend on it.
"""

import io
import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.estimators.answers import Preview
from colonnade.schema import Column

if TYPE_CHECKING:
    from matplotlib.figure import Figure


COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito (2008), distinct for people with any of the common colour-vision deficiencies. Markers differ as well."""
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


@contextmanager
def styled_figure(height: float) -> "Iterator[Figure]":
    """Give a figure in the common style, its height in inches; once it is drawn it is laid out so that nothing overflows."""
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise BadInput("Plots need matplotlib.", remedy="pip install 'colonnade[plots]'") from None
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about characters that the font does not have
        figure: Figure = _notebook_figure(Figure)(figsize=(WIDTH, height), dpi=110, layout="constrained")
        FigureCanvasAgg(figure)
        yield figure
        figure.canvas.draw()


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
        Whether letters are drawn as paths, so that no font is needed. Letters as text take a fifth of the space.
    """
    import matplotlib as mpl

    buffer = io.BytesIO()
    fonttype = "path" if drawn else "none"
    with mpl.rc_context({**STYLE, "svg.fonttype": fonttype}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue().replace(b"'DejaVu Sans'", b"'DejaVu Sans', Verdana, Arial, sans-serif")


def shortened(label: object, longest: int = LONGEST_LABEL) -> str:
    """Return a label on one line, cut in the middle if it is long.

    Examples
    --------
    >>> shortened("bank.a_very_long_column_name_indeed=and_a_level", 21)
    'bank.a_ver…nd_a_level'
    """
    words = " ".join("".join(one if one.isprintable() else " " for one in str(label)).split())
    half = (longest - 1) // 2
    return words if len(words) <= longest else f"{words[:half]}…{words[-half:]}"


def interval_chart(
    labels: Sequence[object],
    panels: Sequence[tuple[str, Array, Array]],
    *,
    title: str,
    xlabel: str,
    zero: bool = False,
    hollow: Sequence[Any] | None = None,
) -> "Figure":
    """Return values as points with intervals, one row per label, the first on top; one panel per (name, values, reach).

    Points are hollow where ``hollow``, which has one mask per panel, says so.
    """
    with styled_figure(len(panels) * _height(len(labels))) as figure:
        rows = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        masks = [np.zeros(len(labels), dtype=bool) for _ in panels] if hollow is None else hollow
        for axes, (name, values, reach), mask in zip(rows, panels, masks, strict=True):
            _intervals(axes, labels, values, reach, zero=zero, hollow=mask)
            axes.set_title(shortened(name, 44))
        headline(figure, title, xlabel)
    return figure


def _intervals(axes: Any, labels: Sequence[object], values: Array, reach: Array, *, zero: bool, hollow: Any) -> None:
    places, reach = np.arange(len(labels)), np.where(np.isfinite(reach), reach, 0.0)
    style = {"color": COLOURS[0], "ms": 4.5, "fmt": "o", "capsize": 3, "lw": 1.4}
    for rows, colour in ((~hollow, COLOURS[0]), (hollow, "white")):
        axes.errorbar(values[rows], places[rows], xerr=reach[rows], mfc=colour, **style)
    axes.set_yticks(places, [shortened(label) for label in labels])
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.margins(x=0.06)
    if zero:
        axes.axvline(0, color=SOFT, lw=1)
    _few_ticks(axes.xaxis)


def profile_chart(names: Sequence[object], profiles: Array, *, title: str) -> "Figure":
    """Return each row of profiles as a line over the names; values lie between 0 and 1."""
    with styled_figure(4.4) as figure:
        axes = figure.subplots()
        places = np.arange(len(names))
        for number, profile in enumerate(profiles):
            colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
            axes.plot(places, profile, lw=1.6, ms=5, label=f"centre {number + 1}", color=colour, marker=marker)
        axes.set_xticks(
            places, [shortened(name, 26) for name in names], rotation=40, ha="right", rotation_mode="anchor"
        )
        axes.set(ylabel="between the column's bounds", ylim=(-0.04, 1.04))
        headline(figure, title)
        axes.set_yticks([0, 0.5, 1], ["lower", "middle", "upper"])
        figure.legend(loc="outside lower center", ncols=min(len(profiles), 5), frameon=False)
    return figure


def heat_chart(
    axes: Any, matrix: Array, rows: Sequence[str], columns: Sequence[object], *, share: bool = False
) -> None:
    """Draw a matrix of entries between −1 and 1 with the numbers in it; ``share``: between 0 and 1, most of them near 1."""
    colours, low, dark = ("YlGnBu", 0.5, 0.75) if share else ("PuOr", -1.0, 0.62)
    axes.imshow(matrix, cmap=colours, vmin=low, vmax=1, aspect="auto")
    axes.set_xticks(range(len(rows)), rows)
    axes.set_yticks(range(len(columns)), [shortened(name) for name in columns])
    axes.grid(visible=False)
    axes.tick_params(length=0)
    if matrix.size > 240:
        return
    for (row, column), value in np.ndenumerate(matrix):
        colour = "white" if abs(value) > dark else INK
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
    axes.set(title="Explained variance", xlabel="component", ylabel="after scaling to [−1, 1]")


def curve_chart(epsilons: Array, errors: Array, *, here: float, title: str, ylabel: str) -> "Figure":
    """Return expected error against ε, both on logarithmic scales, with the ε of the study marked."""
    with styled_figure(3.4) as figure:
        axes = figure.subplots()
        axes.loglog(epsilons, errors, marker="o", color=COLOURS[0], lw=1.6)
        nearest = int(np.argmin(np.abs(np.log(epsilons / here))))
        axes.plot(epsilons[nearest], errors[nearest], marker="D", ms=9, color=COLOURS[1], ls="none", label="this study")
        axes.set_xticks(epsilons, [f"{value:g}" for value in epsilons])
        axes.minorticks_off()
        axes.set_yticks(errors, [f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in errors])
        axes.set(xlabel="ε", ylabel=ylabel)
        axes.legend(frameon=False)
        headline(figure, title)
    return figure


def headline(figure: "Figure", title: str, below: str = "") -> None:
    """Put title and unit at the left edge of the figure, cut so that they fit however wide the labels are."""
    figure.suptitle(shortened(title, LONGEST_TITLE), x=0.01, ha="left", fontsize=10.5)
    if below:
        figure.supxlabel(shortened(below, LONGEST_TITLE + 8), x=0.01, ha="left", fontsize=9.5)


def _height(rows: int) -> float:
    return 1.25 + 0.27 * max(rows, 2)


def _few_ticks(axis: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(6))


NORMAL_95 = 1.96
MOST_ROWS = 24


def plot(study: Any) -> "Figure":
    """Return the chart of a fitted estimator.

    Parameters
    ----------
    study
        A fitted estimator; only its fitted attributes are read.
    """
    draw = chart_of(study)
    if draw is not None:
        return draw(study)
    if not hasattr(study, "privacy_"):
        raise BadInput("There is nothing to plot yet.", remedy="Call fit(...) first.")
    raise BadInput(f"{type(study).__name__} has no plot.", remedy="Use table() or the fitted attributes.")


def chart_of(study: Any) -> "Callable[[Any], Figure] | None":
    """Return the function that draws a fitted estimator, or ``None`` for one without a chart, such as a coreset."""
    return next((draw for attribute, draw in CHARTS.items() if hasattr(study, attribute)), None)


def plot_preview(preview: Preview) -> "Figure":
    """Return expected error against ε."""
    if len(preview.others) < 2 or not preview.errors or preview.epsilon is None:
        raise BadInput(
            "This study does not predict its error at other ε.", remedy="print(preview) shows what is known."
        )
    others = preview.others
    return curve_chart(
        others["epsilon"].to_numpy(dtype=float),
        others["error"].to_numpy(dtype=float),
        here=preview.epsilon,
        title=f"{preview.title}: expected error",
        ylabel=shortened(f"{preview.errors[0].quantity} ({preview.errors[0].unit})", 48),
    )


def _counts(study: Any) -> "Figure":
    chosen = study.counts_.sort_values(ascending=False, kind="stable").head(MOST_ROWS)
    if study.counts_.index.nlevels == 1:  # the bins of one column keep their order
        chosen = study.counts_[study.counts_.index.isin(chosen.index)]
    labels = _labels(chosen.index)
    reach = NORMAL_95 * study.stderr_.reindex(chosen.index).to_numpy(dtype=float)
    left = len(study.counts_) - len(chosen)
    title = "People by " + " and ".join(shortened(name, 28) for name in study.counts_.index.names)
    return interval_chart(
        labels,
        [("", chosen.to_numpy(dtype=float), reach)],
        title=shortened(title, 62) + (f" ({len(chosen)} largest of {len(study.counts_):,})" if left else ""),
        xlabel="people; bars: 95 % intervals of the privacy noise",
    )


def _centres(study: Any) -> "Figure":
    low, high = _bounds(study)
    names, centres = _labels(study.feature_names_in_), np.asarray(study.cluster_centers_, dtype=float)
    shown = slice(0, MOST_ROWS)
    profiles = np.clip((centres - low) / (high - low), 0.0, 1.0)[:, shown]
    title = f"{len(centres)} centres{_first(MOST_ROWS, len(names), ' columns')}"
    return profile_chart(names[shown], profiles, title=title)


def _bounds(study: Any) -> tuple[Array, Array]:
    """Return the public bounds of every coded column. An indicator lies between 0 and 1."""
    low, high = [], []
    for name in study.feature_names_in_:
        column = study.schema_.get(name)
        numeric = column is not None and hasattr(column, "low")
        low.append(column.low if numeric else 0.0)
        high.append(column.high if numeric else 1.0)
    return np.array(low), np.array(high)


def _labels(index: Any) -> list[str]:
    return [" / ".join(map(str, key)) if isinstance(key, tuple) else str(key) for key in index]


def _first(shown: int, all_of_them: int, words: str = "") -> str:
    """Say in a title that not everything is shown."""
    return f" (the first {shown} of {all_of_them}{words})" if all_of_them > shown else ""


def _components(study: Any) -> "Figure":
    loadings = np.asarray(study.components_, dtype=float).T[:MOST_ROWS]
    names = _labels(study.feature_names_in_)[:MOST_ROWS]
    reach = NORMAL_95 * np.asarray(study.explained_variance_stderr_, dtype=float)
    with styled_figure(max(3.2, 1.1 + 0.32 * len(names))) as figure:
        left, right = figure.subplots(1, 2, width_ratios=[1.5, 1.0])
        heat_chart(left, loadings, [str(number + 1) for number in range(loadings.shape[1])], names)
        left.set(title="Loadings", xlabel="component")
        values = np.asarray(study.explained_variance_, dtype=float)
        scree_chart(right, values, reach, getattr(study, "noise_floor_", None))
    return figure


def _coefficients(study: Any) -> "Figure":
    names = _labels(study.feature_names_in_)
    whole, (low, high), shown = study.table(), _bounds(study), slice(0, MOST_ROWS)
    tables = {"": whole} if whole.index.nlevels == 1 else dict(list(whole.groupby(level=0, sort=False)))
    rows = {str(name): one.iloc[: len(names)][shown] for name, one in tables.items()}
    span = (high - low)[shown]
    panels = [
        (name, one["coefficient"].to_numpy() * span, (one["upper"] - one["lower"]).to_numpy() / 2 * span)
        for name, one in rows.items()
    ]
    hollow = [one["noise"].to_numpy() == "hidden" for one in rows.values()] if "noise" in whole else None
    unit = "log-odds" if hasattr(study, "classes_") else f"units of {shortened(study.target, 30)}"
    covers = "the population" if "p" in whole else "the privacy noise"
    hidden = "; hollow: hidden by noise" if hollow and np.any(hollow) else ""
    return interval_chart(
        names[shown],
        panels,
        title=f"{shortened(study.target, 40)}: effect of a column from its lower to its upper bound",
        xlabel=f"{unit}; bars: 95 % intervals of {covers}{hidden}",
        zero=True,
        hollow=hollow,
    )


def _value(study: Any) -> "Figure":
    return interval_chart(
        [f"moment of order {study.p:g}"],
        [("", np.array([study.value_]), np.array([NORMAL_95 * study.stderr_]))],
        title="Moment of sums over parties",
        xlabel="bars: 95 % intervals of the privacy noise",
    )


MOST_PANELS = 12
PANELS_IN_A_ROW = 2
MOST_LABELS = 5


def described_chart(study: Any) -> "Figure":
    """Return one small histogram per described column, with intervals of the noise."""
    columns = list(dict.fromkeys(study.counts_.index.get_level_values("column")))
    shown = columns[:MOST_PANELS]
    rows = -(-len(shown) // PANELS_IN_A_ROW)
    with styled_figure(0.6 + 2.2 * rows) as figure:
        panels = figure.subplots(rows, PANELS_IN_A_ROW, squeeze=False).ravel()
        for axes, name in zip(panels, shown, strict=False):
            _histogram(axes, study.counts_[name], study.stderr_[name])
            axes.set_title(shortened(name, 30))
        for axes in panels[len(shown) :]:
            axes.set_visible(False)
        headline(
            figure, f"People by value{_first(len(shown), len(columns))}; bars: 95 % intervals of the privacy noise"
        )
    return figure


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
        [("", study.values_.to_numpy(dtype=float), np.zeros(len(labels)))],
        title=f"Quantiles of {shortened(study.column, 40)}",
        xlabel=f"ranks are within {2 * float(study.rank_error_.max()):.2%} of the people (two standard errors)",
    )


MOST_COLUMNS = 16
MOST_NUMBERED_CELLS = 160
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
    labels = _labels(chosen.index)
    left = f" ({len(chosen)} largest of {len(table):,})" if len(chosen) < len(table) else ""
    return interval_chart(
        labels,
        [("", chosen[shown].to_numpy(dtype=float), reach)],
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
    with styled_figure(max(3.2, 1.5 + 0.3 * len(values))) as figure:
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
        headline(figure, title, "grey: groups that are too small for their noise")
        if values.size <= MOST_NUMBERED_CELLS and kept.count():
            middle = (kept.min() + kept.max()) / 2
            for (row, column), value in np.ndenumerate(values):
                if not np.ma.getmaskarray(kept)[row, column]:
                    colour = "white" if value < middle else INK
                    axes.text(column, row, f"{value:.4g}", ha="center", va="center", color=colour, fontsize=7.5)
    return figure


def correlation_chart(study: Any) -> "Figure":
    """Every column against every other, the first ones of many."""
    matrix = np.asarray(study.correlation_, dtype=float)[:MOST_ROWS, :MOST_ROWS]
    names = [str(name) for name in study.correlation_.columns]
    shown = names[:MOST_ROWS]
    with styled_figure(max(3.2, 1.4 + 0.32 * len(shown))) as figure:
        axes = figure.subplots()
        heat_chart(axes, matrix, [shortened(name, 20) for name in shown], shown)
        axes.tick_params(axis="x", rotation=40)
        headline(figure, f"Correlations{_first(MOST_ROWS, len(names), ' columns')}")
    return figure


def agreement_chart(study: Any) -> "Figure":
    """Pair trends of a synthetic table, with column shapes on the diagonal."""
    names = list(study.column_shapes_.index)[:MOST_ROWS]
    matrix = np.diag(study.column_shapes_.loc[names].to_numpy(dtype=float))
    for (one, other), value in study.pair_trends_.items():
        if one in names and other in names:
            matrix[names.index(one), names.index(other)] = matrix[names.index(other), names.index(one)] = value
    with styled_figure(max(3.2, 1.1 + 0.36 * len(names))) as figure:
        axes = figure.subplots()
        heat_chart(axes, matrix, [str(number + 1) for number in range(len(names))], _numbered(names), share=True)
        headline(
            figure, "Agreement with people, column by column and pair by pair", "1: as the people; 0: nothing alike"
        )
    return figure


def _numbered(names: Sequence[str]) -> list[str]:
    return [f"{shortened(name, 26)}  {number}" for number, name in enumerate(names, start=1)]


SHAPES_IN_A_ROW = 3
MOST_SHAPE_LABELS = 6
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
    rows = -(-len(shown) // SHAPES_IN_A_ROW)
    unit = getattr(study, "effect_unit", "log-odds")
    with styled_figure(0.9 + 2.1 * rows) as figure:
        every = figure.subplots(rows, min(SHAPES_IN_A_ROW, len(shown)), squeeze=False).ravel()
        largest = _reach(shapes)
        for axes, name in zip(every, shown, strict=False):
            own = _by_class(shapes[shapes["column"] == name])
            if study.schema_[name].parts:
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
                lines, titles, loc="upper right", ncols=min(len(classes), MOST_SHAPE_LABELS), frameon=False, fontsize=8
            )
        for axes in every[len(shown) :]:
            axes.set_axis_off()
        left = f" ({len(shown)} most important of {len(order)})" if len(order) > len(shown) else ""
        hollow = "; hollow: hidden" if shapes["hidden"].any() else ""
        headline(
            figure,
            f"{shortened(study.target, 40)}: effect of each column{left}",
            f"{unit} against the average person; bands: noise 95 %; grey: people{hollow}",
        )
    return figure


def _reach(shapes: pd.DataFrame) -> float:
    """Return how far the common scale reaches: all effects, and bands up to twice as far."""
    effects = float(shapes["effect"].abs().max())
    ends = shapes["effect"].abs() + NORMAL_95 * shapes["stderr"].where(~shapes["hidden"], 0.0)
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
    known = ~shape["hidden"].to_numpy(dtype=bool)
    reach = np.where(known, NORMAL_95 * errors, 0.0)
    axes.fill_between(places, effects - reach, effects + reach, step="mid", color=colour, alpha=0.18, linewidth=0)
    axes.step(places, effects, where="mid", color=colour, linewidth=1.6, label=title or None)
    axes.plot(places[known], effects[known], "o", color=colour, markersize=3)
    axes.plot(places[~known], effects[~known], "o", color=colour, markersize=3, markerfacecolor="white")
    axes.set_ylim(-largest, largest)
    axes.grid(visible=False, axis="x")
    named = np.unique(np.linspace(0, len(places) - 1, min(MOST_SHAPE_LABELS, len(places))).round().astype(int))
    labels = [shortened(_lower_edge(name), LONGEST_BIN) for name in shape["bin"]]
    axes.set_xticks(named, [labels[place] for place in named], rotation=30, ha="right", fontsize=7)


def _heat_map(figure: Any, axes: Any, effects: Any, column: Column, largest: float) -> None:
    """Draw what two columns add together: the first upwards, the second to the right."""
    drawn = axes.imshow(
        effects.reshape(column.shape), origin="lower", aspect="auto", cmap="RdBu_r", vmin=-largest, vmax=largest
    )
    axes.grid(visible=False)
    for part, name, put, say in (
        (column.parts[1], column.names[1], axes.set_xticks, axes.set_xlabel),
        (column.parts[0], column.names[0], axes.set_yticks, axes.set_ylabel),
    ):
        labels = [shortened(_lower_edge(str(level)), LONGEST_BIN) for level in part.levels]
        put(np.arange(part.size), labels, fontsize=6, rotation=30, ha="right")
        say(shortened(name, LONGEST_BIN), fontsize=7)
    figure.colorbar(drawn, ax=axes, fraction=0.06, pad=0.02).ax.tick_params(labelsize=6)


def _lower_edge(name: str) -> str:
    """Return what stands below a bin: where it begins. A level stands there whole."""
    return name[1:].split(", ", maxsplit=1)[0] if name.startswith("[") and ", " in name else name


CHARTS: Mapping[str, Callable[[Any], "Figure"]] = {
    "figures_": described_chart,
    "rank_error_": quantile_chart,
    "unbiased_": _counts,
    "cluster_centers_": _centres,
    "components_": _components,
    "shape_functions_": shape_panel,
    "coef_": _coefficients,
    "correlation_": correlation_chart,
    "consistent_": group_chart,
    "value_": _value,
    "pair_trends_": agreement_chart,
}
"""Charts by the fitted attribute that they need."""
