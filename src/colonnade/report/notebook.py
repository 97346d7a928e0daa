"""What a notebook shows of a study, a preview or a statement: small tables, every string escaped."""

from typing import Any

from colonnade.report.markup import Html, figure, join, table, tag

__all__ = ["preview", "statement", "study"]


def study(fitted: Any) -> Html:
    """Return an estimator: its parameters and, once fitted, its receipt and who could see what."""
    parts = [tag("code", repr(fitted))]
    if hasattr(fitted, "privacy_"):
        parts += [
            tag("p", fitted.receipt_),
            tag("details", tag("summary", "Who could see what"), statement(fitted.privacy_)),
        ]
    return tag("div", *parts)


def statement(privacy: Any) -> Html:
    """Return a statement as a table, one row an observer and unit."""
    rows = [
        (row["observer"], row["unit"], row["epsilon"], row["delta"], row["relation"])
        for row in privacy.table().to_dict("records")
    ]
    assumptions = tag("ul", *(tag("li", words) for words in privacy.assumptions))
    return join([table(["observer", "unit", "ε", "δ", "neighbours"], rows), assumptions])


def preview(shown: Any) -> Html:
    """Return a preview: charges, what to expect, what other ε would give, warnings."""
    charges = [(party, row["charge"], row["remaining"]) for party, row in shown.table().iterrows()]
    expected = [(name, words) for name, words in shown.expected.items()]
    expected += [
        (f"expected error of {error.quantity}", f"{figure(error.value)} {error.unit}, {_span(error)}")
        for error in shown.errors
    ]
    if shown.traffic is not None:
        expected.append(("traffic", f"{shown.traffic.rounds} rounds, about {shown.traffic.bytes:,} bytes"))
    parts = [
        tag("strong", f"{shown.title}: a preview; nothing is spent."),
        table(["party", "charge ε", "remaining ε"], charges),
        table(["what", "expect"], expected),
    ]
    if len(shown.others):
        rows = shown.others[["epsilon", "error"]].to_numpy().tolist()
        parts.append(table(["ε", "expected error"], rows))
    if shown.warnings:
        parts.append(tag("ul", *(tag("li", warning) for warning in shown.warnings)))
    return tag("div", *parts)


def _span(error: Any) -> str:
    low, high = error.interval
    return f"between {figure(low)} and {figure(high)}" if high > low else "whatever the data"
