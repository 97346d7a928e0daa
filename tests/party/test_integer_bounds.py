"""One person's integers stay within the bound that a step's noise is made for, whatever the columns, readings and cells are.

A reading ``Numeric(0, 5e-324)`` once made coding divide by zero. What is no number then passed every clamp, and became −2⁶³.
"""

import ast
import math
import struct
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from colonnade.errors import BadInput, ColonnadeError, SchemaMismatch
from colonnade.papers import private
from colonnade.party.guard import STOPPED
from colonnade.party.steps import PRIVATE_STEPS, participants
from colonnade.party.table import private_table
from colonnade.party.table.private_table import RowsFailed, among_rows, require_within, whole_numbers
from colonnade.plan import Step
from colonnade.privacy.accounting import Price
from colonnade.protocol import messages
from colonnade.protocol.messages import Ask, Refused, Released
from colonnade.schema import Bins, Date, Number, Numeric, Schema, to_unit_range
from colonnade.schema.encoders import encoded
from colonnade.steps.describing import Cells, GroupTotals
from tests import kit
from tests.federations import as_if_agreed
from tests.party import integer_bounds as bounds

TINY, LEAST, LARGEST = 5e-324, sys.float_info.min, sys.float_info.max

# Every kind of step -----------------------------------------------------------------------------------------------------------


def test_every_kind_of_step_has_a_bound_that_is_tried():
    assert set(bounds.BOUNDS) | bounds.WITHOUT_ROWS == set(PRIVATE_STEPS)
    assert {one.step.kind for one in bounds.planned()} == set(bounds.BOUNDS)


def every_kind_keeps_its_bound(draws, part=0):
    tally = bounds.try_every_kind(draws, kit.generator(f"integer bounds {part}"))
    assert tally.draws >= draws
    assert set(tally.asked) == set(bounds.BOUNDS)
    assert tally.refused > draws / 50  # some of the columns are none


def test_no_column_no_reading_and_no_cell_takes_any_kind_of_step_past_its_bound():
    every_kind_keeps_its_bound(500)


@pytest.mark.full
@pytest.mark.parametrize("part", range(1, 11))
def test_a_hundred_thousand_columns_take_no_kind_of_step_past_its_bound(part):
    every_kind_keeps_its_bound(10_000, part)


def test_nothing_else_at_a_party_makes_integers_of_numbers():
    """What is cast elsewhere was an integer or a flag before, or is public."""
    cast = set()
    for path in [
        *Path(participants.__file__).parent.glob("*.py"),
        Path(private_table.__file__),
        Path(private.__file__),
    ]:
        for function in [one for one in ast.walk(ast.parse(path.read_text())) if isinstance(one, ast.FunctionDef)]:
            calls = [one for one in ast.walk(function) if isinstance(one, ast.Call)]
            named = [(one, one.func.attr) for one in calls if isinstance(one.func, ast.Attribute)]
            makes = (path.name, function.name) == ("private_table.py", "_made")
            assert makes or not {"rint", "round", "trunc"} & {name for _, name in named}
            if any(name == "astype" and "int" in ast.unparse(one.args[0]) for one, name in named):
                cast.add(f"{path.stem}.{function.name}")
    assert cast == CASTS


CASTS = {
    "private._batch",
    "private._whole",
    "private.accept",
    "private.disclose",
    "private.scores",
    "private_table._divided",
    "products.columns",
    "products.give",
    "products.group_rows",
    "products.labels",
    "products.receive",
    "products.rows",
}

# Bounds that are none ---------------------------------------------------------------------------------------------------------

REFUSED = [
    (0, TINY),
    (0.0, 1e-310),
    (-TINY, TINY),
    (-0.0, LEAST),
    (LEAST, math.nextafter(LEAST, 1)),
    (1.0, math.nextafter(1.0, 2)),
    (1.0, 1.0 + 2 * math.ulp(1.0)),  # half of it is one step of floats
    (-1e300, math.nextafter(-1e300, 0)),
    (2**53, 2**53 + 2),
    (-LARGEST, LARGEST),
    (0.9 * LARGEST, LARGEST),
    (0, 10**400),
    (-0.0, 0.0),
    (0, math.nan),
    (-math.inf, 0),
]
ACCEPTED = [
    (0, 2 * LEAST),
    (-LEAST, LEAST),
    (1.0, 1.0 + 3 * math.ulp(1.0)),
    (-LARGEST / 2, LARGEST / 2),
    (0, LARGEST),
    (-0.0, 1),
    (2**53, 2**53 + 6),
    (-(10**30), 10**30),
]


@pytest.mark.parametrize(("low", "high"), REFUSED)
def test_bounds_too_close_together_or_too_far_apart_to_compute_with_are_refused(low, high):
    with pytest.raises(BadInput):
        Numeric(low, high)


@pytest.mark.parametrize(("low", "high"), ACCEPTED)
def test_every_cell_of_a_column_that_is_accepted_is_coded_between_minus_one_and_one(low, high):
    column = Numeric(low, high)
    cells = [math.nan, math.inf, -math.inf, TINY, -TINY, -0.0, 1e308, -1e308, LARGEST, -LARGEST, column.midpoint]
    cells += [math.nextafter(end, way) for end in (column.low, column.high) for way in (-math.inf, math.inf, end)]
    objects = [None, "", "nan", "1e999", "-1e999", "?", 10**400, [], object(), b"1", 1j, pd.NaT, pd.NA]
    for values in (pd.Series(cells), pd.Series([*cells, *objects], dtype=object), pd.Series([*map(repr, cells)])):
        coded = to_unit_range(encoded(values, "x", column), column)
        assert np.all(np.abs(coded) <= 1)
    assert to_unit_range(np.array([column.midpoint]), column)[0] == 0  # a null record


def test_a_description_travels_whatever_numbers_it_was_made_of():
    column = Numeric(-(10**30), 10**30, missing=10**25, na_values=[10**40])
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(column), type=Numeric) == column


def test_whole_numbers_need_one_between_their_bounds_and_dates_are_days():
    with pytest.raises(BadInput, match="no whole number"):
        Numeric(0.2, 0.8, integer=True)
    assert Date("0001-01-01", "0001-01-02").half_range == 0.5


@pytest.mark.parametrize("make", [
    lambda: Bins(edges=[0, 10**400, 10], of=Numeric(0, 10)),
    lambda: Bins.equal(Numeric(1.0, 1.0 + 3 * math.ulp(1.0)), 64),
    lambda: Cells(Numeric(0, 2 * LEAST)).positions,
    lambda: Cells(Numeric(1.0, 1.0 + 3 * math.ulp(1.0))).positions,
    lambda: Numeric(0, 10).narrowed(5, math.nextafter(5, 6)),
    lambda: Schema(x=Numeric(0, 10)).read_as({"x": Numeric(-1, 10)}),
])  # fmt: skip
def test_what_rests_on_bounds_refuses_with_a_typed_error(make):
    with pytest.raises(BadInput):
        make()


# The one function -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", [math.nan, math.inf, -math.inf])
def test_what_is_no_finite_number_never_becomes_an_integer(cell):
    for place in range(3):
        numbers = np.array([0.5, -0.5, 0.25])
        numbers[place] = cell
        out = np.zeros(3, dtype=np.int64)
        with pytest.raises(SchemaMismatch):
            whole_numbers(numbers, 4_096, scale=4_096, out=out)
        assert np.abs(out).max() <= 4_096


def test_the_refusal_is_the_same_whatever_the_rows_are():
    def said(numbers):
        try:
            with among_rows():
                whole_numbers(np.array(numbers), 7)
        except RowsFailed as failure:
            return str(failure), failure.for_the_owner().message, failure.code

    assert said([math.nan]) == said([1.0, -math.inf, 3.0]) != ("", "", "")
    assert b"whole" not in STOPPED


@pytest.mark.every(2)
@pytest.mark.parametrize("largest", [1, 4_096, 2**53 + 1, 2**54 + 3, 2**62 - 1])
def test_integers_keep_a_bound_that_no_float_has(largest):
    made = whole_numbers(np.array([1e300, -1e300, 0.4, float(largest)]), largest)
    assert int(made.max()) <= largest
    assert int(made.min()) >= -largest
    assert made[2] == 0


def test_rows_beyond_their_bound_are_not_shared():
    half = next(one for one in bounds.planned() if one.step.kind == "gram")
    made = half.made(half.step, half.schema)
    made.rows = lambda table, start, stop: np.full((made.step.width, stop - start), made.step.joint.largest + 1)
    with pytest.raises(SchemaMismatch):
        participants.DealtRows(made, _Dealing(), [(0, 1)])(None, 0, 1)
    require_within(np.array([-7, 7]), 7)
    with pytest.raises(SchemaMismatch):
        require_within(np.array([-8, 7]), 7)


class _Dealing:
    nodes, seeds = 3, ()

    def shares(self, *_):
        return ()


# The attack, as it was --------------------------------------------------------------------------------------------------------

DEBT = cn.Schema(debt=cn.Numeric(0, 1000))
MARK = 7.25


def _debtors(debt_of_one):
    table = pd.DataFrame({"id": range(1_500), "debt": np.linspace(1, 999, 1_500)})
    table.loc[7, "debt"] = debt_of_one
    return table


def _one(debt):
    return cn.Federation.simulate(
        {name: cn.Party(_debtors(debt), schema=DEBT) for name in ("bank", "telco")},
        id="id",
        budget=cn.Budget(epsilon=1.0, delta=1e-6),
    )


def _forged(federation, upper):
    """The bytes of a request for sums of a reading 0..upper: no object of ours has such a reading, so the bytes are changed."""
    plan = cn.Describe(["bank.debt"], epsilon=1e-6).prepared(federation, 1)[1]
    step = GroupTotals.ask(
        name="groups",
        party="bank",
        columns=("debt",),
        parameters={"by": (), "values": ("debt",), "groups": 1, "scale": 4096, "height": 2896, "width": 2},
        price=Price.of(1e-6),
    )
    step = msgspec.structs.replace(step, readings={"debt": Numeric(0, MARK)})
    changed = {"task": "groups", "method": "secure", "parties": ("bank",), "data_versions": {"bank": 1}}
    forged = msgspec.structs.replace(plan, parameters={}, steps=(step,), **changed)
    asked = messages.encode(Ask(plan=forged, step="groups", inputs={}))
    mark = b"\xcb" + struct.pack(">d", MARK)
    assert asked.count(mark) == 1
    return asked.replace(mark, b"\xcb" + struct.pack(">d", upper))


def test_a_forged_reading_that_switches_clipping_off_is_refused_the_same_for_every_table_and_stops_nobody():
    answers = []
    for debt in (0.0, 500.0):
        with _one(debt) as federation:
            bank = federation._driver.transport.exchange
            forged = _forged(federation, TINY)
            with suppress(ColonnadeError):  # a party that takes the plan for sound has said yes to it
                as_if_agreed(federation._driver.transport._endpoints["bank"], messages.decode_request(forged).plan)
            reply = bank({"bank": forged})["bank"]
            assert isinstance(messages.decode_reply(reply), Refused)
            assert float(federation.budget("bank")["spent"]) == 0
            sound = _forged(federation, 5.0)
            as_if_agreed(federation._driver.transport._endpoints["bank"], messages.decode_request(sound).plan)
            assert isinstance(messages.decode_reply(bank({"bank": sound})["bank"]), Released)
            answers.append(reply)
    assert answers[0] == answers[1]
    assert len(answers[0]) < 1_000


def test_an_analyst_cannot_ask_for_such_a_reading():
    with _one(0.0) as federation, pytest.raises(BadInput, match="too close together"):
        federation.read_as({"bank.debt": cn.Numeric(0, TINY)})


def test_a_step_decoded_from_a_plan_has_no_such_reading():
    step = Step(name="s", party="bank", kind="rows", columns=("x",), price=None, readings={"x": Numeric(0, MARK)})
    data = messages.encode(step).replace(struct.pack(">d", MARK), struct.pack(">d", 1e-310))
    with pytest.raises(ColonnadeError):
        messages.decode(data, Step)


D = {"epsilon": 0.5, "delta": 1e-6}
PATHS = {
    "groups of two": lambda: cn.GroupBy(["bank.seg", "telco.p"], ["bank.debt"], epsilon=0.5),
    "groups of three": lambda: cn.GroupBy(["bank.seg", "telco.p", "ins.p"], ["bank.debt"], epsilon=0.5),
    "quantiles": lambda: cn.Quantiles("bank.debt", epsilon=0.5),
    "description": lambda: cn.Describe(["bank.debt"], epsilon=0.5),
    "histogram": lambda: cn.Histogram("bank.debt", epsilon=0.5),
    "components": lambda: cn.PCA(1, columns=["bank.debt", "telco.x", "ins.x"], **D),
    "logistic": lambda: cn.LogisticRegression("bank.y", columns=["bank.debt", "telco.x", "ins.x"], **D),
    "linear": lambda: cn.LinearRegression("telco.x", columns=["bank.debt", "ins.x"], **D),
    "clusters": lambda: cn.KMeans(2, columns=["bank.debt", "telco.x"], **D),
    "additive": lambda: cn.AdditiveClassifier("bank.y", columns=["bank.debt", "telco.x"], **D),
}
CLOSE = [(0, 3 * LEAST), (500.0, 500.0 + 7 * math.ulp(500.0)), (0, 1e-200)]


def _outcome(study, reading, debt):
    rng = np.random.default_rng(1)
    words, numbers = (lambda *of: rng.choice(of, 1_200)), rng.random(1_200)
    bank = _debtors(debt).head(1_200).assign(seg=words("a", "b", "c"), y=words("n", "y"))
    other = pd.DataFrame({"id": range(1_200), "p": words("u", "v"), "x": numbers})
    schema = cn.Schema(p=cn.Category(["u", "v"]), x=cn.Numeric(0, 1))
    with cn.Federation.simulate(
        {
            "bank": cn.Party(bank, schema=cn.Schema(DEBT, seg=cn.Category(["a", "b", "c"]), y=cn.Category(["n", "y"]))),
            "telco": cn.Party(other, schema=schema),
            "ins": cn.Party(other, schema=schema),
        },
        id="id",
        budget=cn.Budget(epsilon=5.0, delta=1e-6),
    ) as federation:
        try:
            PATHS[study]().fit(federation.read_as({"bank.debt": cn.Numeric(*reading)}))
        except BadInput as error:  # anything else is raised: a party that stops, an error that is not ours
            return str(error)
        return "answered"


@pytest.mark.filterwarnings(
    "ignore::RuntimeWarning"
)  # the analyst's: a variance per squared unit of 10⁻²⁰⁰ is no float
@pytest.mark.every(5)
@pytest.mark.parametrize("study", PATHS)
@pytest.mark.parametrize("reading", CLOSE)
def test_the_closest_bounds_that_are_accepted_stop_no_party_and_a_refusal_does_not_depend_on_rows(study, reading):
    assert _outcome(study, reading, 5.0) == _outcome(study, reading, 0.0)


def test_all_pairs_of_bounds_next_to_nothing_are_refused_or_coded_within_bounds():
    points = sorted(
        {float(sign * k * TINY) for k in range(40) for sign in (1, -1)} | {-LEAST, LEAST, -2 * LEAST, 2 * LEAST}
    )
    kept = 0
    for place, low in enumerate(points):
        for high in points[place + 1 :]:
            try:
                column: Number = Numeric(low, high)
            except BadInput:
                continue
            kept += 1
            inside = np.array([one for one in points if low <= one <= high] + [column.midpoint])
            assert np.all(np.abs(to_unit_range(inside, column)) <= 1)
    assert kept
