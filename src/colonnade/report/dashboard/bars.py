"""Budget as stacked bars, drawn on the server: no script computes what a person reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from colonnade.report.dashboard.party_view import Line

__all__ = ["PALETTE", "Column", "Segment", "columns_over_time", "segments"]

PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7f6f00", "#666666")
"""Okabe and Ito's colours, which people with any common colour vision tell apart; yellow, too pale on white, is darkened."""

MOST_COLUMNS = 40


@dataclass(frozen=True)
class Segment:
    """A part of a bar, in percent of the cap."""

    name: str
    start: float
    width: float
    colour: str
    epsilon: float


@dataclass(frozen=True)
class Column:
    """The stacked total after one release."""

    when: str
    segments: Sequence[Segment]


def segments(studies: Mapping[str, float], cap: float) -> list[Segment]:
    """Return one segment a study, laid end to end."""
    start, result = 0.0, []
    for number, (name, epsilon) in enumerate(studies.items()):
        width = 100.0 * max(epsilon, 0.0) / cap if cap > 0 else 0.0
        result.append(Segment(name, start, width, PALETTE[number % len(PALETTE)], epsilon))
        start += width
    return result


def columns_over_time(lines: Sequence[Line], cap: float) -> list[Column]:
    """Return the stack after each release; of many releases, evenly chosen ones and the last."""
    stack: dict[str, float] = dict.fromkeys((line.study for line in lines), 0.0)  # fixes the colours
    columns = []
    for line in lines:
        stack[line.study] += line.added
        columns.append(Column(line.when, segments(stack, cap)))
    step = max(1, -(-len(columns) // MOST_COLUMNS))
    return columns[::-1][::step][::-1]
