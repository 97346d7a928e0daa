"""Charts of what estimators learned, and their tables in notebooks.

Charts have sizes that fit their labels, colours that everybody can tell apart, and no global state. Labels are parties' own
words: they are cut to a length that fits and never read as mathematics, whatever signs they contain. The functions are called
by name from `colonnade.estimators.presentation`: a report looks at estimators, so no estimator may depend on it.
"""

import io
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.estimation.expected_errors import ExpectedError
from colonnade.estimators.answers import Preview
from colonnade.report.markup import Html, figure, join, table, tag
from colonnade.result import PrivacyStatement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "COLOURS",
    "chart_of",
    "coefficient_chart",
    "curve_chart",
    "headline",
    "heat_chart",
    "interval_chart",
    "plot",
    "plot_preview",
    "preview_html",
    "profile_chart",
    "scree_chart",
    "shortened",
    "statement_html",
    "study_html",
    "styled_figure",
    "svg",
]

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


def styled_figure(height: float, draw: Callable[["Figure"], None]) -> "Figure":
    """Return a figure in the common style, drawn by a function and laid out so that nothing overflows.

    Parameters
    ----------
    height
        In inches.
    draw
        The function that puts axes on the figure.
    """
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
    labels: Sequence[object], values: Array, reach: Array, *, title: str, xlabel: str, zero: bool = False
) -> "Figure":
    """Return values as points with intervals, one row per label, the first on top."""

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        _intervals(axes, labels, values, reach, zero=zero)
        headline(figure, title, xlabel)

    return styled_figure(_height(len(labels)), draw)


def coefficient_chart(
    panels: Sequence[tuple[str, Array, Array]], labels: Sequence[object], *, title: str, xlabel: str
) -> "Figure":
    """Return coefficients with intervals, one panel per class."""

    def draw(figure: "Figure") -> None:
        rows = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (name, values, reach) in zip(rows, panels, strict=True):
            _intervals(axes, labels, values, reach, zero=True)
            axes.set_title(shortened(name, 44))
        headline(figure, title, xlabel)

    return styled_figure(len(panels) * _height(len(labels)), draw)


def _intervals(axes: Any, labels: Sequence[object], values: Array, reach: Array, *, zero: bool) -> None:
    places, known = np.arange(len(labels)), np.isfinite(reach)
    style = {"color": COLOURS[0], "ms": 4.5}
    axes.errorbar(values[known], places[known], xerr=reach[known], fmt="o", capsize=3, lw=1.4, **style)
    # any number is within the interval of the others: a hollow marker, and no filled one behind or before it
    axes.plot(values[~known], places[~known], ls="", marker="o", mfc="white", **style)
    axes.set_yticks(places, [shortened(label) for label in labels])
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
        axes.set_xticks(
            places, [shortened(name, 26) for name in names], rotation=40, ha="right", rotation_mode="anchor"
        )
        axes.set(ylabel="between the column's bounds", ylim=(-0.04, 1.04))
        headline(figure, title)
        axes.set_yticks([0, 0.5, 1], ["lower", "middle", "upper"])
        figure.legend(loc="outside lower center", ncols=min(len(profiles), 5), frameon=False)

    return styled_figure(4.4, draw)


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

    def draw(figure: "Figure") -> None:
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

    return styled_figure(3.4, draw)


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
    labels = [" / ".join(map(str, key)) if isinstance(key, tuple) else str(key) for key in chosen.index]
    reach = NORMAL_95 * study.stderr_.reindex(chosen.index).to_numpy(dtype=float)
    left = len(study.counts_) - len(chosen)
    title = "People by " + " and ".join(shortened(name, 28) for name in study.counts_.index.names)
    return interval_chart(
        labels,
        chosen.to_numpy(dtype=float),
        reach,
        title=shortened(title, 62) + (f" ({len(chosen)} largest of {len(study.counts_):,})" if left else ""),
        xlabel="people; bars: 95 % intervals of the privacy noise",
    )


def _centres(study: Any) -> "Figure":
    low, high = _bounds(study)
    names, centres = _texts(study.feature_names_in_), np.asarray(study.cluster_centers_, dtype=float)
    shown = slice(0, MOST_ROWS)
    profiles = np.clip((centres - low) / (high - low), 0.0, 1.0)[:, shown]
    some = f" (the first {MOST_ROWS} of {len(names)} columns)" if len(names) > MOST_ROWS else ""
    return profile_chart(names[shown], profiles, title=f"{len(centres)} centres{some}")


def _bounds(study: Any) -> tuple[Array, Array]:
    """Return the public bounds of every coded column. An indicator lies between 0 and 1."""
    low, high = [], []
    for name in study.feature_names_in_:
        column = study.schema_.get(name)
        numeric = column is not None and hasattr(column, "low")
        low.append(column.low if numeric else 0.0)
        high.append(column.high if numeric else 1.0)
    return np.array(low), np.array(high)


def _texts(names: Iterable[object]) -> list[str]:
    return [str(name) for name in names]


def _components(study: Any) -> "Figure":
    loadings = np.asarray(study.components_, dtype=float).T[:MOST_ROWS]
    names = _texts(study.feature_names_in_)[:MOST_ROWS]
    reach = NORMAL_95 * np.asarray(study.explained_variance_stderr_, dtype=float)

    def draw(figure: "Figure") -> None:
        left, right = figure.subplots(1, 2, width_ratios=[1.5, 1.0])
        heat_chart(left, loadings, [str(number + 1) for number in range(loadings.shape[1])], names)
        left.set(title="Loadings", xlabel="component")
        values = np.asarray(study.explained_variance_, dtype=float)
        scree_chart(right, values, reach, getattr(study, "noise_floor_", None))

    return styled_figure(max(3.2, 1.1 + 0.32 * len(names)), draw)


def _coefficients(study: Any) -> "Figure":
    values = np.atleast_2d(np.asarray(study.coef_, dtype=float))
    errors = np.atleast_2d(np.asarray(getattr(study, "coef_stderr_", np.zeros_like(values)), dtype=float))
    low, high = _bounds(study)
    span = high - low
    shown = slice(0, MOST_ROWS)
    names = _texts(study.feature_names_in_)[shown]
    classes = [str(name) for name in getattr(study, "classes_", [])]
    titles = classes if len(values) > 1 else [""]
    panels = [
        (title, (row * span)[shown], NORMAL_95 * (error * span)[shown])
        for title, row, error in zip(titles, values, errors, strict=True)
    ]
    unit = "log-odds" if classes else f"units of {shortened(study.target, 30)}"
    hollow = "; hollow: not determined" if np.isinf(errors[:, shown]).any() else ""
    return coefficient_chart(
        panels,
        names,
        title=f"{shortened(study.target, 40)}: effect of a column from its lower to its upper bound",
        xlabel=f"{unit}; bars: 95 % intervals of the privacy noise{hollow}",
    )


def _value(study: Any) -> "Figure":
    return interval_chart(
        [f"moment of order {study.p:g}"],
        np.array([study.value_]),
        np.array([NORMAL_95 * study.stderr_]),
        title="Moment of sums over parties",
        xlabel="bars: 95 % intervals of the privacy noise",
    )


def _drawn_in(module: str, chart: str) -> Callable[[Any], "Figure"]:
    """Return a chart of another module, which draws with what is defined here and is imported when it is drawn."""

    def drawn(study: Any) -> "Figure":
        found: Figure = getattr(import_module(f"colonnade.report.{module}"), chart)(study)
        return found

    return drawn


CHARTS: Mapping[str, Callable[[Any], "Figure"]] = {
    "figures_": _drawn_in("column_plots", "described_chart"),
    "rank_error_": _drawn_in("column_plots", "quantile_chart"),
    "unbiased_": _counts,
    "cluster_centers_": _centres,
    "components_": _components,
    "shape_functions_": _drawn_in("shapes", "shape_panel"),
    "coef_": _coefficients,
    "correlation_": _drawn_in("heat_maps", "correlation_chart"),
    "consistent_": _drawn_in("group_chart", "group_chart"),
    "value_": _value,
    "pair_trends_": _drawn_in("heat_maps", "agreement_chart"),
}
"""Charts by the fitted attribute that they need."""


LONGEST = 20
"""How many rows of a result a notebook shows."""


def study_html(fitted: Any) -> Html:
    """Return an estimator as HTML: its parameters and, once fitted, its result, its receipt and who could see what."""
    parts = [tag("code", repr(fitted))]
    if hasattr(fitted, "privacy_"):
        whole = fitted.table()
        top = whole.head(LONGEST).reset_index().astype(object)
        parts += [
            table([str(name) for name in top.columns], top.to_numpy().tolist()),
            *(
                [tag("p", f"The first {LONGEST} of {len(whole):,} rows; table() has all.")]
                if len(whole) > LONGEST
                else []
            ),
            *(tag("p", line) for line in fitted.receipt_.splitlines()),
            tag("details", tag("summary", "Who could see what"), statement_html(fitted.privacy_)),
        ]
    return tag("div", *parts)


def statement_html(privacy: PrivacyStatement) -> Html:
    """Return a privacy statement as an HTML table, one row per observer and unit."""
    rows = [
        (row["observer"], row["unit"], row["epsilon"], row["delta"], row["epsilon_if_replaced"], row["relation"])
        for row in privacy.table().to_dict("records")
    ]
    assumptions = tag("ul", *(tag("li", words) for words in (privacy.pooling, *privacy.assumptions)))
    return join([table(["observer", "unit", "ε", "δ", "ε if replaced", "neighbours"], rows), assumptions])


def preview_html(shown: Preview) -> Html:
    """Return a preview as HTML: charges, who may pool what they see, expected errors, errors at other ε, and warnings."""
    charges = [(party, *row) for party, row in shown.table().iterrows()]
    expected = [("may pool what they see", shown.statement.pooling), *shown.expected.items()]
    expected += [(f"expected error of {error.quantity}", _span(error)) for error in shown.errors]
    if shown.traffic is not None:
        expected.append(("traffic", shown.traffic.words))
    parts = [
        tag("strong", f"{shown.title}: a preview; nothing is spent."),
        *(tag("p", line) for line in shown.statement.trust.lines),
        table(["party", "charge ε", "remaining ε", "would then remain ε"], charges),
        table(["what", "expect"], expected),
    ]
    if len(shown.others):
        rows = shown.others[["epsilon", "error"]].to_numpy().tolist()
        parts.append(table(["ε", "expected error"], rows))
    if shown.warnings:
        parts.append(tag("ul", *(tag("li", warning) for warning in shown.warnings)))
    return tag("div", *parts)


def _span(error: ExpectedError) -> str:
    if error.value is None:
        return f"unknown, because {error.unknown}"
    return f"{figure(error.value)} {error.unit}, whatever the data"
