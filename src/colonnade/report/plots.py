"""One chart for each kind of result: what people would rather look at than read."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.errors import BadInput
from colonnade.report import charts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["chart_of", "plot", "plot_preview"]

NINETEEN_IN_TWENTY = 1.96
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
    raise BadInput(f"{type(study).__name__} has no plot.")


def chart_of(study: Any) -> "Callable[[Any], Figure] | None":
    """Return what draws a fitted estimator; ``None`` for one that has nothing to look at, such as a coreset."""
    return next((draw for attribute, draw in CHARTS.items() if hasattr(study, attribute)), None)


def plot_preview(preview: Any) -> "Figure":
    """Return expected error against ε."""
    if len(preview.others) < 2 or not preview.errors:
        raise BadInput("This study does not predict its error at other ε.")
    others = preview.others
    return charts.curve_chart(
        others["epsilon"].to_numpy(dtype=float),
        others["error"].to_numpy(dtype=float),
        here=float(preview.epsilon),
        title=f"{preview.title}: expected error",
        ylabel=charts.brief(f"{preview.errors[0].quantity} ({preview.errors[0].unit})", 48),
    )


def _counts(study: Any) -> "Figure":
    chosen = study.counts_.sort_values(ascending=False, kind="stable").head(MOST_ROWS)
    labels = [" / ".join(map(str, key)) if isinstance(key, tuple) else str(key) for key in chosen.index]
    reach = NINETEEN_IN_TWENTY * study.stderr_.reindex(chosen.index).to_numpy(dtype=float)
    left = len(study.counts_) - len(chosen)
    title = "People by " + " and ".join(charts.brief(name, 28) for name in study.counts_.index.names)
    return charts.interval_chart(
        labels,
        chosen.to_numpy(dtype=float),
        reach,
        title=charts.brief(title, 62) + (f" ({len(chosen)} largest of {len(study.counts_):,})" if left else ""),
        xlabel="people; bars hold the privacy noise nineteen times in twenty",
    )


def _centres(study: Any) -> "Figure":
    low, high = _bounds(study)
    names, centres = _spread_names(study.feature_names_in_), np.asarray(study.cluster_centers_, dtype=float)
    shown = slice(0, MOST_ROWS)
    profiles = np.clip((centres - low) / (high - low), 0.0, 1.0)[:, shown]
    some = f" (the first {MOST_ROWS} of {len(names)} columns)" if len(names) > MOST_ROWS else ""
    return charts.profile_chart(names[shown], profiles, title=f"{len(centres)} centres{some}")


def _bounds(study: Any) -> tuple[Any, Any]:
    """Return the public bounds of every coded column; an indicator lies between 0 and 1."""
    low, high = [], []
    for name in study.feature_names_in_:
        column = study.schema_.get(name)
        numeric = column is not None and hasattr(column, "low")
        low.append(column.low if numeric else 0.0)
        high.append(column.high if numeric else 1.0)
    return np.array(low), np.array(high)


def _spread_names(names: Any) -> list[str]:
    return [str(name) for name in names]


def _components(study: Any) -> "Figure":
    loadings = np.asarray(study.components_, dtype=float).T[:MOST_ROWS]
    names = _spread_names(study.feature_names_in_)[:MOST_ROWS]
    reach = NINETEEN_IN_TWENTY * np.asarray(study.explained_variance_stderr_, dtype=float)

    def draw(figure: "Figure") -> None:
        left, right = figure.subplots(1, 2, width_ratios=[1.5, 1.0])
        charts.heat_chart(left, loadings, [str(number + 1) for number in range(loadings.shape[1])], names)
        left.set(title="Loadings", xlabel="component")
        values = np.asarray(study.explained_variance_, dtype=float)
        charts.scree_chart(right, values, reach, getattr(study, "noise_floor_", None))

    return charts.blank(max(3.2, 1.1 + 0.32 * len(names)), draw)


def _coefficients(study: Any) -> "Figure":
    values = np.atleast_2d(np.asarray(study.coef_, dtype=float))
    errors = np.atleast_2d(np.asarray(getattr(study, "coef_stderr_", np.zeros_like(values)), dtype=float))
    low, high = _bounds(study)
    span = high - low
    shown = slice(0, MOST_ROWS)
    names = _spread_names(study.feature_names_in_)[shown]
    classes = [str(name) for name in getattr(study, "classes_", [])]
    titles = classes if len(values) > 1 else [""]
    panels = [
        (title, (row * span)[shown], NINETEEN_IN_TWENTY * (error * span)[shown])
        for title, row, error in zip(titles, values, errors, strict=True)
    ]
    unit = "log-odds" if classes else f"units of {charts.brief(study.target, 30)}"
    return charts.coefficient_chart(
        panels,
        names,
        title=f"{charts.brief(study.target, 40)}: effect of a column from its lower to its upper bound",
        xlabel=f"{unit}; bars hold the privacy noise nineteen times in twenty",
    )


def _value(study: Any) -> "Figure":
    return charts.interval_chart(
        [f"moment of order {study.p:g}"],
        np.array([study.value_]),
        np.array([NINETEEN_IN_TWENTY * study.stderr_]),
        title="Moment of sums over parties",
        xlabel="bars hold the privacy noise nineteen times in twenty",
    )


CHARTS: Mapping[str, Callable[[Any], "Figure"]] = {
    "unbiased_": _counts,
    "cluster_centers_": _centres,
    "components_": _components,
    "coef_": _coefficients,
    "value_": _value,
}
"""By the attribute that a fitted estimator of that kind has."""
