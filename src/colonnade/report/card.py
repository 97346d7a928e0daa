"""A scorecard as one page: points per bin beside counts, event rates and weights of evidence, with their errors."""

from typing import Any

import pandas as pd

from colonnade.report.document import POLICY
from colonnade.report.markup import STYLE, Html, join, raw, table, tag

__all__ = ["card_html"]

COLUMNS = ("bin", "points", "people", "events", "event rate", "weight of evidence")


def card_html(card: Any) -> Html:
    """Return the page.

    Parameters
    ----------
    card
        A fitted scorecard.
    """
    title = f"Scorecard: {card.target}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("title", title),
        tag("style", raw(STYLE)),
    )
    values, rows = card.information_value_, card.binning_table_
    sections = [_column(name, values[name], rows[rows["column"] == name]) for name in card.importance_.index]
    body = tag(
        "body", tag("h1", title), *_head(card), *sections, *(tag("p", line) for line in card.receipt_.splitlines())
    )
    return join([raw("<!doctype html>\n"), tag("html", head, body, lang="en"), raw("\n")])


def _head(card: Any) -> list[Html]:
    event = str(card.classes_[1])
    meaning = (
        f"A score is {card.base_points_:,} base points and the points of one bin per column. {card.scorecard_points:g} points "
        f"stand for odds of {card.odds:g} to 1 against {event!r}. {card.pdo:g} further points double these odds. "
        f"Rounding moves a score by at most {card.rounding_:g} points."
    )
    errors = "Counts carry noise for privacy; ± is one standard error of it. What noise hides is left out."
    return [tag("p", meaning), tag("p", errors, klass="soft")]


def _column(name: str, value: float, rows: pd.DataFrame) -> Html:
    cells = [
        (
            row["bin"],
            f"{row['points']:+d}",
            f"{row['count']:,.0f} ± {row['count_stderr']:,.0f}",
            f"{row['event']:,.0f} ± {row['event_stderr']:,.0f}",
            _with_error(100 * row["event_rate"], 100 * row["event_rate_stderr"], " %"),
            _with_error(row["woe"], row["woe_stderr"]),
        )
        for row in rows.to_dict("records")
    ]
    return join([tag("h2", name), tag("p", f"Information value {value:.3f}", klass="soft"), table(COLUMNS, cells)])


def _with_error(value: float, error: float, unit: str = "") -> str:
    return "–" if pd.isna(value) else f"{value:.2f} ± {error:.2f}{unit}"
