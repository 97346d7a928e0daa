"""Columns, readings and cells that try to leave their bounds, and what every kind of step may make of them.

Plans are those of real studies, run once. Their steps are then read over drawn columns: what a number is coded as never depends
on anything but its own column, so weights, scales and bounds of a plan fit any of them.
"""

import contextlib
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import cycle, islice
from typing import Any
from unittest import mock

import msgspec
import numpy as np
import pandas as pd

import colonnade as cn
from colonnade.errors import ColonnadeError
from colonnade.party.gate import Gate
from colonnade.party.steps import PRIVATE_STEPS
from colonnade.party.steps.local import block_rows, category_codes
from colonnade.party.steps.participants import PrivateStep
from colonnade.party.table.private_table import PrivateTable, coded_rows
from colonnade.party.table.sources import Source
from colonnade.plan import Plan, Step
from colonnade.protocol import messages
from colonnade.schema import Bins, Column, Numeric, Schema
from colonnade.steps.kind import KINDS, BoundedScores, FixedPoint
from colonnade.steps.spreads import HEIGHT

# Real plans -----------------------------------------------------------------------------------------------------------------

PEOPLE = 24
SCHEMAS = {
    "bank": Schema(x=Numeric(0, 9), w=Numeric(0, 9, integer=True), g=cn.Category(["a", "b"], missing="excluded")),
    "telco": Schema(x=Numeric(0, 9), w=Numeric(0, 9, integer=True), g=cn.Category(["a", "b"])),
    "insurer": Schema(x=Numeric(0, 9), g=cn.Category(["a", "b"])),
}
NUMBERS = ["bank.x", "bank.w", "telco.x", "insurer.x"]
NOISE: dict[str, Any] = {"epsilon": 50.0, "delta": 1e-6}
OPEN: dict[str, Any] = {"allow_nonprivate": True, "size": 8}
ACROSS = ["bank.g", "telco.g", "insurer.g"]
CORESET = cn.methods.Coreset


def _evaluated(model: Any) -> Callable[[cn.Federation], object]:
    return lambda f: model.fit(f).evaluate(f, **NOISE)


STUDIES: list[Callable[[cn.Federation], object]] = [
    cn.PatternCount(ACROSS[:2], method="response", epsilon=9.0).fit,
    cn.PatternCount(ACROSS[:2], method="independent", epsilon=9.0).fit,
    cn.PatternCount(ACROSS[:2], epsilon=9.0).fit,
    cn.Describe(["bank.x", "bank.w"], epsilon=9.0).fit,
    cn.Quantiles("bank.x", epsilon=9.0).fit,
    cn.Quantiles("bank.w", epsilon=9.0).fit,
    cn.GroupBy(["bank.g"], ["bank.x", "bank.w"], **NOISE).fit,
    cn.GroupBy(["bank.x"], ["bank.w"], bins=3, **NOISE).fit,
    cn.GroupBy(ACROSS[:2], ["bank.x", "bank.w"], **NOISE).fit,
    cn.GroupBy(ACROSS, ["bank.x"], **NOISE).fit,
    cn.Moment(["bank.w", "telco.w"], 2, epsilon=9.0).fit,
    cn.Moment(["bank.w", "telco.w"], 1, epsilon=9.0).fit,
    cn.Moment(["bank.w", "telco.w"], 2, method="sketch", change="bounds", **NOISE).fit,
    cn.PCA(1, columns=[*NUMBERS, "bank.g"], **NOISE).fit,
    cn.PCA(1, columns=NUMBERS, method=cn.methods.Secure(row_norms={"bank": 0.8}, scale=512), **NOISE).fit,
    cn.PCA(1, columns=NUMBERS, method="sketch", **NOISE).fit,
    cn.PCA(1, columns=NUMBERS, method="local", **NOISE).fit,
    cn.LinearRegression("telco.x", columns=["bank.x", "bank.w"], method="functional", epsilon=9.0).fit,
    cn.LogisticRegression("telco.g", columns=NUMBERS, method=cn.methods.Gradient(steps=1, rate=0.5), **NOISE).fit,
    cn.LogisticRegression("telco.g", columns=NUMBERS, method=cn.methods.Newton(steps=1), **NOISE).fit,
    cn.KMeans(2, columns=NUMBERS, n_local_clusters=2, method="sketch", **NOISE).fit,
    cn.LinearRegression("telco.x", columns=NUMBERS[:2], method=CORESET(gather=True), **OPEN).fit,
    cn.LinearRegression("telco.x", columns=NUMBERS[:2], method=CORESET(gather=False), **OPEN).fit,
    cn.KMeans(2, columns=NUMBERS, method=CORESET(gather=False), **OPEN).fit,
    cn.Coreset(8, target="telco.x", method="uniform", allow_nonprivate=True).fit,
    _evaluated(cn.LogisticRegression("telco.g", columns=NUMBERS, method="secure", **NOISE)),
    _evaluated(cn.LinearRegression("telco.x", columns=NUMBERS[:2], **NOISE)),
    _evaluated(cn.KMeans(2, columns=NUMBERS, n_local_clusters=2, **NOISE)),
    lambda f: cn.PCA(1, columns=NUMBERS, **NOISE).fit(f).transform(f, to="bank"),
]


@dataclass(frozen=True)
class Planned:
    """One step of a real plan at the bank, as the bank was asked for it."""

    plan: Plan
    step: Step
    schema: Schema
    earlier: Any

    def made(self, step: Step, schema: Schema) -> Any:
        plan = self._read_alike(step) if "standardised" in step.parameters else self.plan
        return PRIVATE_STEPS[step.kind](KINDS[step.kind](plan, step, schema, self.earlier))

    def _read_alike(self, step: Step) -> Plan:
        """The plan, in which what the step rests on reads its columns as the step does. What was released stays as it was."""
        source = self.plan.step(step.party, step.parameters["standardised"])
        asked = {} if step.readings is msgspec.UNSET else step.readings
        read = {name: reading for name, reading in asked.items() if name in source.columns}
        alike = msgspec.structs.replace(source, readings=read or msgspec.UNSET)
        steps = tuple(alike if one is source else one for one in self.plan.steps)
        return msgspec.structs.replace(self.plan, steps=steps)


@contextlib.contextmanager
def _noted(found: list[Planned]) -> Iterator[None]:
    honest = Gate._admitted

    def note(self: Gate, plan: Plan, step: Step) -> PrivateStep[Any]:
        private = honest(self, plan, step)
        if step.party == "bank":
            found.append(Planned(plan, step, private.step.schema, private.step.earlier))
        return private

    with mock.patch.object(Gate, "_admitted", note):
        yield


@cache
def planned() -> tuple[Planned, ...]:
    """Run the studies, and return every step that they asked of the bank, each once."""
    rng, found = np.random.default_rng(1), []
    frames = {
        party: pd.DataFrame(
            {"id": range(PEOPLE)}
            | {
                name: rng.choice(["a", "b"], PEOPLE) if name == "g" else rng.integers(0, 10, PEOPLE).astype(float)
                for name in schema
            }
        )
        for party, schema in SCHEMAS.items()
    }
    policy = cn.Policy(
        predictions={"PCA": ["bank"]},
        nonprivate=["Coreset"],
        alignments=["union"],
        event_level=True,
        capacity=2 * PEOPLE,
    )

    def opened(parties: tuple[str, ...], **options: Any) -> cn.Federation:
        return cn.Federation.simulate(
            {name: cn.Party(frames[name], schema=SCHEMAS[name]) for name in parties},
            id="id",
            budget=cn.Budget(epsilon=9_999.0, delta=1e-5),
            policies=dict.fromkeys(parties, policy),
            test_key=bytes(32),
            **options,
        )

    with _noted(found):
        federation = opened(tuple(SCHEMAS))  # stays open: steps that rest on earlier ones ask its ledgers
        for study in STUDIES:
            study(federation)
        opened(("bank", "telco"), aligned=False).align("union").moments(["bank.x", "bank.w", "telco.x"], **NOISE)
    found = [one for one in found if one.step.kind not in WITHOUT_ROWS]
    return tuple({(one.step.kind, one.step.columns, str(one.step.parameters)): one for one in found}.values())


# Drawn columns --------------------------------------------------------------------------------------------------------------

LEAST, LARGEST, TINY = sys.float_info.min, sys.float_info.max, 5e-324
SPECIAL = [0.0, -0.0, TINY, -TINY, LEAST, -LEAST, 2 * LEAST, 1e-310, 1e-300, 1.0, -1.0, 2.0**53, 1e300]
SPECIAL += [LARGEST, -LARGEST, LARGEST / 2]


def _float(rng: np.random.Generator) -> float:
    """A number of any magnitude, or a special one."""
    if rng.random() < 0.3:
        return float(SPECIAL[rng.integers(len(SPECIAL))])
    return float(rng.choice([-1, 1]) * rng.random() * 10.0 ** rng.integers(-307, 308))


def _stepped(number: float, steps: int) -> float:
    for _ in range(steps):
        number = math.nextafter(number, math.inf)
    return number


def _bounds(rng: np.random.Generator) -> tuple[Any, Any]:
    way = rng.integers(6)
    first = _float(rng)
    if way == 0:  # neighbours, or a few floats apart
        return first, _stepped(first, int(rng.integers(1, 9)))
    if way == 1:  # around the least normal number
        return int(rng.integers(-40, 40)) * TINY, int(rng.integers(1, 6)) * LEAST + int(rng.integers(-40, 40)) * TINY
    if way == 2:  # whole numbers as Python has them
        return -int(rng.integers(0, 2**60)), int(rng.integers(1, 2**60)) ** int(rng.integers(1, 8))
    if way == 3:  # from nothing
        return float(rng.choice([0.0, -0.0])), abs(first)
    other = _float(rng)
    return (min(first, other), max(first, other)) if way == 4 else (-50, 50.5)


def drawn_column(rng: np.random.Generator, *, whole: bool) -> tuple[Numeric, Numeric]:
    """Return a declared number and what a step reads it as; raise as the class does where there is no such column."""
    low, high = _bounds(rng)
    if whole:  # moments take no negative numbers, and none above 2⁴⁰
        low, high = float(rng.integers(0, 5)), float(2 + rng.integers(0, 2 ** int(rng.integers(4, 41)) - 1))
    declared = Numeric(low, high, integer=whole, missing=low if rng.random() < 0.5 else None)
    if rng.random() < 0.3:
        return declared, declared
    ends = [
        declared.low,
        declared.high,
        declared.midpoint,
        declared.low + (declared.high - declared.low) * rng.random(),
    ]
    one, other = (_stepped(float(ends[rng.integers(4)]), int(rng.integers(0, 4))) for _ in range(2))
    return declared, declared.narrowed(min(one, other), max(one, other))


def drawn_cells(rng: np.random.Generator, *columns: Numeric) -> pd.Series:
    """Cells at bounds, next to them, between and far outside, and what is no number."""
    cells = [math.nan, math.inf, -math.inf, *SPECIAL]
    for column in columns:
        for end in (column.low, column.high, column.midpoint):
            cells += [end, math.nextafter(end, math.inf), math.nextafter(end, -math.inf)]
        cells += (column.low + (column.high - column.low) * rng.random(4)).tolist()
    chosen = rng.choice(np.array(cells), PEOPLE)
    chosen[:8] = [columns[-1].low, columns[-1].high, columns[-1].midpoint, math.nan, math.inf, -math.inf, TINY, -0.0]
    if rng.random() < 0.9:
        return pd.Series(chosen)
    objects = [
        (repr(one), one, int(one) if math.isfinite(one) else [])[place % 3] for place, one in enumerate(chosen.tolist())
    ]
    return pd.Series(objects, dtype=object)


# What each kind may make of them ----------------------------------------------------------------------------------------------


def _within(integers: Any, largest: int, least: int | None = None) -> None:
    found = np.asarray(integers)
    assert found.dtype.kind in "iu"
    assert int(found.max()) <= largest
    assert int(found.min()) >= (-largest if least is None else least)


def _short(rows: Any, row_bound: int) -> None:
    assert max(sum(int(entry) ** 2 for entry in person) for person in np.asarray(rows).T.tolist()) <= row_bound


def _fixed_point(coding: FixedPoint | BoundedScores, rows: Any) -> None:
    _within(rows, coding.scale)
    _short(rows, coding.row_bound)


def _coded(private: Any, table: PrivateTable) -> None:
    coding = private.step.coding
    _fixed_point(coding, coded_rows(coding, table, 0, table.people))


def _gram(private: Any, table: PrivateTable) -> None:
    _fixed_point(private.step.coding, private.rows(table, 0, table.people))


def _union_cross(private: Any, table: PrivateTable) -> None:
    rows = private.rows(table, 0, table.people)
    _within(rows, private.step.coding.scale)
    _short(rows[1:], private.step.coding.row_bound)


def _union_own(private: Any, table: PrivateTable) -> None:
    _within(private.rows(table, 0, table.people), private.step.joint.largest)


def _one_indicator(private: Any, table: PrivateTable) -> None:
    rows = private.rows(table, 0, table.people)
    _within(rows, 1, 0)
    assert rows.sum(axis=0).max() <= 1


def _groups(private: Any, table: PrivateTable) -> None:
    from colonnade.party.steps.products import group_rows

    rows = group_rows(private.step, table, 0, table.people)
    groups, height = private.step.part.groups, private.step.part.height
    assert set(np.unique(rows[:groups]).tolist()) <= {0, height}
    assert np.count_nonzero(rows[:groups], axis=0).max() <= 1
    if len(rows) > groups:
        _within(rows[groups:], private.step.group_terms.scale)
        assert np.count_nonzero(rows.reshape(-1, groups, table.people), axis=1).max() <= 1


def _totals(private: Any, table: PrivateTable) -> None:
    _groups(private, table)
    part = private.step.part
    _within(
        private.compute(table), table.people * max(part.height, private.step.group_terms.scale if part.values else 0)
    )


def _person_by_person(largest: Callable[[Any], int]) -> Callable[[Any, PrivateTable], None]:
    """A sum over people, asked for one of them at a time."""

    def check(private: Any, table: PrivateTable) -> None:
        for person in range(0, table.people, 5):
            total = np.zeros(1, dtype=np.int64)
            private._add(total, table, person, person + 1)
            _within(total, largest(private))

    return check


def _spreads(private: Any, table: PrivateTable) -> None:
    """Both sums of every column, one person at a time."""
    for person in range(0, table.people, 5):
        moved = np.zeros(2 * len(private.step.columns), dtype=np.int64)
        private._add(moved, table, person, person + 1)
        _within(moved, HEIGHT)
        _within(moved[len(private.step.columns) :], HEIGHT, 0)


def _values(private: Any, table: PrivateTable) -> None:
    _within(private.everyone(table), private.step.values.high, private.step.values.low)


def _value_sketch(private: Any, table: PrivateTable) -> None:
    _within(private._whole(table, 0, table.people), private.step.values.high, private.step.values.low)


def _category(private: Any, table: PrivateTable) -> None:
    category = private.step.category
    _within(category_codes(category, table), category.size - 1, -1)


def _counts(private: Any, table: PrivateTable) -> None:
    view = private._view(table)
    for person in range(0, table.people, 5):
        cells = np.zeros(sum(one.counted.size for one in private.step.counted.values()), dtype=np.int64)
        private._count(cells, view, person, person + 1)
        _within(cells, 1, 0)
        assert int(cells.sum()) <= len(private.step.counted)


def _quantiles(private: Any, table: PrivateTable) -> None:
    places = private._cells_block(table, 0, table.people)
    for column, cells in zip(places.T, private.step.cells.values(), strict=True):
        _within(column, cells.number - 1, -1)


def _centres(private: Any, table: PrivateTable) -> None:
    rows = block_rows(private.step.block, table, 0, table.people)
    _within(rows[:, 0], 1, 0)
    _fixed_point(private.step.block.coding, rows[:, 1:].T)


def _labelled(private: Any, table: PrivateTable) -> np.ndarray:
    rows = private.coded(table).read(0, table.people)[:, : private.step.width]
    _within(rows, private.step.terms.scale)
    _short(rows.T, private.step.terms.noise.row_bounds[private.step.party])
    return rows


def _newton(private: Any, table: PrivateTable) -> None:
    rows, link = _labelled(private, table), private.step.terms.bounds.link
    _within(private.in_steps(rows.T, np.full(private.step.width, 2.0**20)), round(link.window / link.step))


def _gradient(private: Any, table: PrivateTable) -> None:
    rows = _labelled(private, table).astype(np.int64)
    _within(private.scores(rows, None, np.full(private.step.width, 2**20)), private.step.score_bound)


def _predictions(private: Any, table: PrivateTable) -> None:
    _within(private.summand(table, 0, private.length), private.step.bound)


def _coreset_rows(private: Any, table: PrivateTable) -> None:
    from colonnade.papers.private import coded_columns

    coded = coded_columns(private.step.terms, table, private.step.columns, np.arange(table.people))
    assert np.all(np.abs(coded) <= 1)


def _coreset_scores(private: Any, table: PrivateTable) -> None:
    from colonnade.papers.steps import SCORE_SCALE

    private._sample = np.arange(table.people)
    _within(private.summand(table, 0, table.people), int(private.step.terms.largest_score * SCORE_SCALE), 1)


def _coreset_draws(private: Any, table: PrivateTable) -> None:
    private.accept({"counts": np.array([private.step.terms.size, *[0] * (len(private.step.owners) - 1)])})
    _within(private.summand(table, 0, private.length), table.people, 0)


def _coreset_total(private: Any, table: PrivateTable) -> None:
    assert 0 < float(private.disclose(table)["value"][0]) <= private.step.terms.largest_score * table.people


def _coreset_gradient(private: Any, table: PrivateTable) -> None:
    private._sample, private._weights = np.arange(table.people), np.full(table.people, 2.0**40)
    private.begin(table)
    _within(private.lengths(), 2**62)
    for sign in (1, -1, 1):  # a coordinator that feeds the largest numbers that are accepted
        private.learn(np.arange(table.people), np.full(table.people, sign * 2.0**200), 2.0**200)
        _within(private.margins(np.arange(table.people)), 2**62)


def _nothing(private: Any, table: PrivateTable) -> None:
    """No number of the table is looked at."""


BOUNDS: dict[str, Callable[[Any, PrivateTable], None]] = {
    "centres": _centres,
    "coefficients": _coded,
    "column-counts": _counts,
    "coreset-clusters": _coreset_rows,
    "coreset-draws": _coreset_draws,
    "coreset-gradient": _coreset_gradient,
    "coreset-rows": _coreset_rows,
    "coreset-sample": _nothing,
    "coreset-scores": _coreset_scores,
    "coreset-total": _coreset_total,
    "gradient": _gradient,
    "gram": _gram,
    "group-chain": _groups,
    "group-key": _nothing,
    "group-sums": _groups,
    "group-totals": _totals,
    "histogram": _category,
    "membership-sketches": _category,
    "newton": _newton,
    "pair-tables": _one_indicator,
    "predictions": _predictions,
    "quantiles": _quantiles,
    "reports": _category,
    "rows": _coded,
    "score-table": _one_indicator,
    "sketch": _coded,
    "spreads": _spreads,
    "squared-length": _person_by_person(lambda private: private.step.height),
    "total": _person_by_person(lambda private: private.step.values.high),
    "union-cross": _union_cross,
    "union-own": _union_own,
    "value-sketch": _value_sketch,
    "values": _values,
}
"""By kind of step: what no table may exceed, in exact integers."""

WITHOUT_ROWS = {"cohort", "matching", "split", "union"}
"""Kinds that read no column: ids alone."""


@dataclass
class Tally:
    """How many columns with a reading and cells were drawn, how many were no columns, and which kinds were asked how often."""

    draws: int = 0
    refused: int = 0
    asked: dict[str, int] = field(default_factory=dict)


def _as_read(column: Column, reading: Numeric) -> Column:
    return Bins.equal(reading, column.size) if isinstance(column, Bins) else reading


def try_every_kind(draws: int, rng: np.random.Generator, *, at_once: int = 3) -> Tally:
    """Draw columns, readings and cells, and hold kinds in turn to their bounds; a refusal is one of ours, or it is raised.

    Parameters
    ----------
    draws
        How many columns are drawn, each with a reading and cells.
    rng
        What they are drawn from.
    at_once
        How many steps are tried on one table; the next table goes on with the next ones.
    """
    tally, turn = Tally(), cycle(planned())
    while tally.draws < draws:
        try:
            tally.draws += 1
            declared, reading = drawn_column(rng, whole=False)
            tally.draws += 1
            whole, read_whole = drawn_column(rng, whole=True)
        except ColonnadeError:
            tally.refused += 1
            continue
        groups = pd.Series(rng.choice(np.array(["a", "b", "c", None], dtype=object), PEOPLE))
        frame = pd.DataFrame(
            {"x": drawn_cells(rng, declared, reading), "w": drawn_cells(rng, whole, read_whole), "g": groups}
        )
        order = np.where(rng.random(PEOPLE) < 0.1, -1, np.arange(PEOPLE))  # some have no row
        schema = Schema(x=declared, w=whole, g=SCHEMAS["bank"]["g"])
        table = PrivateTable(Source(frame), schema, order=order)
        seen: dict[Any, PrivateTable] = {}
        for one in islice(turn, at_once):
            _try_step(one, schema, {"x": reading, "w": read_whole}, table, seen, tally)
    return tally


def _try_step(
    one: Planned, schema: Schema, readings: dict[str, Numeric], table: PrivateTable, seen: Any, tally: Tally
) -> None:
    asked = {name: readings[name] for name in one.step.columns if name in readings}
    try:
        read = {name: _as_read(one.schema[name], reading) for name, reading in asked.items()}
        step = msgspec.structs.replace(one.step, readings=read) if read else one.step
        as_read = messages.decode(messages.encode(step), Step).read(schema)  # as it arrives at the party
        private = one.made(step, as_read)
    except ColonnadeError:
        tally.refused += 1
        return
    key = tuple(private.schema.items())
    view = seen.setdefault(key, table.read_as(private.schema)) if key not in seen else seen[key]
    BOUNDS[step.kind](private, view)
    tally.asked[step.kind] = tally.asked.get(step.kind, 0) + 1
