"""What one person can do to the table of a target with two columns that are read together, and to all tables of a model."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.audit import distinguish
from colonnade.coordinator.protocols.counting import TargetTables
from colonnade.party.steps.products import PrivatePairTables
from colonnade.party.table.private_table import PrivateTable
from colonnade.party.table.sources import Source
from colonnade.privacy.accounting import Price
from colonnade.schema import Bins, Category, ColumnName, Crossed, Numeric, Schema
from tests import kit
from tests.party.test_statistics_joint import a_plan

AGE, SEGMENT, LATE = Numeric(18, 95), Category(["basic", "gold"]), Category(["no", "yes"])
BOTH = Crossed(names=("age", "segment"), of=(Bins.equal(AGE, 3), SEGMENT))
DECLARED = {"bank": Schema(late=LATE), "telco": Schema(age=AGE, segment=SEGMENT)}
READ = {"bank": DECLARED["bank"], "telco": DECLARED["telco"].read_as({BOTH.name: BOTH})}
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["no", "yes", "NO", None]),
        st.floats(width=64) | st.sampled_from([18.0, 95.0, np.nan, np.inf]),
        st.sampled_from(["basic", "gold", "lead", None]),
    ),
    min_size=1,
    max_size=8,
)
NOTHING = (None, np.nan, None)


def _steps(people: int, price: Price) -> dict[str, PrivatePairTables]:
    plan = a_plan(
        "pair-tables",
        lambda party, _: {"width": 2 if party == "bank" else BOTH.size},
        people=people,
        owners={"bank": ("late",), "telco": (BOTH.name,)},
        price=price,
    )
    return {step.party: kit.private(PrivatePairTables, plan, step, READ[step.party]) for step in plan.steps}


def _declared(rows) -> dict[str, PrivateTable]:
    late, age, segment = zip(*rows, strict=True)
    frames = {
        "bank": pd.DataFrame({"late": pd.Series(late, dtype=object)}),
        "telco": pd.DataFrame({"age": age, "segment": pd.Series(segment, dtype=object)}),
    }
    return {party: PrivateTable(Source(frame), DECLARED[party]) for party, frame in frames.items()}


def _counts(rows, steps) -> np.ndarray:
    read = {party: table.read_as(READ[party]) for party, table in _declared(rows).items()}
    late, both = (steps[party].rows(read[party], 0, len(rows)) for party in ("bank", "telco"))
    return late @ both.T


@given(ROWS, st.data())
def test_a_person_is_in_one_cell_of_the_table_with_two_columns_together_or_in_none(rows, data):
    person = data.draw(st.integers(0, len(rows) - 1))
    steps = _steps(len(rows), Price.of(1.0, 1e-5))
    without = [NOTHING if place == person else row for place, row in enumerate(rows)]
    moved = np.abs(_counts(rows, steps) - _counts(without, steps))
    assert moved.sum() <= steps["bank"].step.joint.noise.moved() == 1


def test_all_tables_of_a_model_cost_its_price_whether_or_not_columns_are_read_together():
    columns = {"bank.late": LATE, "bank.plan": SEGMENT, "telco.segment": SEGMENT, f"telco.{BOTH.name}": BOTH}
    study = TargetTables(columns, "bank.late", Price.of(1.0, 1e-5), 1_000)
    widths = {step.party: step.parameters["width"] for step in study.steps() if step.name == f"table telco.{BOTH.name}"}
    assert widths == {"bank": 2, ColumnName.of(f"telco.{BOTH.name}").party: BOTH.size}


def _noise(price: Price, entries: int) -> np.ndarray:
    """Return what the shares of both parties leave of a cell's noise if one of them tells its own: the other's."""
    return _steps(4, price)["telco"].cross_noise(entries, kit.sampler(f"crossed {price}"))


@pytest.mark.full
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_a_cell_of_a_crossed_table_hides_a_person_and_half_the_noise_does_not(epsilon):
    rows = [("yes", 20.0, "gold"), ("no", 90.0, "basic"), ("yes", 50.0, "gold"), ("no", 30.0, None)]
    price = Price.of(epsilon)
    steps = _steps(len(rows), price)
    here, gone = (
        int(_counts(one, steps)[1, BOTH.levels.index("[18, 43.6667) & gold")]) for one in (rows, [NOTHING, *rows[1:]])
    )
    assert here - gone == 1
    first, second = _noise(price, 200_000).reshape(2, -1)
    honest = distinguish(here + first, gone + second, alpha=kit.ALPHA)
    assert 0.5 * epsilon < honest.epsilon <= epsilon
    assert distinguish(here + first // 2, gone + second // 2, alpha=kit.ALPHA).epsilon > epsilon
