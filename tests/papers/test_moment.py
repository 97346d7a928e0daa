"""Moments of sums over parties, from estimator to gate and back."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import colonnade as cn
from tests import kit
from tests.federations import TEST_KEY

SCHEMA = cn.Schema(
    visits=cn.Numeric(0, 20, integer=True),
    late=cn.Numeric(3, 12, integer=True),
    share=cn.Numeric(0, 1),
    signed=cn.Numeric(-5, 5, integer=True),
    kind=cn.Category(["a", "b"]),
)
TWO = ["clinic.visits", "pharmacy.visits"]
THREE = [*TWO, "insurer.visits"]


def tables(people=2_000, parties=3):
    rng = np.random.default_rng(7)
    ids = np.arange(people)
    frames = {}
    for number, name in enumerate(("clinic", "pharmacy", "insurer")[:parties]):
        frame = pd.DataFrame({"id": ids, "visits": np.minimum(rng.poisson(1 + number, people), 20)})
        frame["late"] = rng.integers(3, 13, people)
        frame["share"], frame["signed"], frame["kind"] = rng.random(people), 0, "a"
        frames[name] = frame.sample(frac=1, random_state=number)
    return frames


def federation(frames=None, epsilon=1_000.0, delta=1e-5, test_key=TEST_KEY, policies=None):
    frames = frames or tables()
    return cn.Federation.simulate(
        {name: cn.Party(frame, schema=SCHEMA) for name, frame in frames.items()},
        id="id",
        budget=cn.Budget(epsilon=epsilon, delta=delta),
        test_key=None if kit.fresh() else test_key,
        policies=policies,
    )


def truth(frames, columns, p):
    parts = [frames[c.split(".")[0]].set_index("id")[c.split(".")[1]].sort_index() for c in columns]
    return float((sum(parts).astype(float) ** p).sum())


def agrees(draws, exact, factor=1.0):
    """Whether the mean of estimates is the truth, and their spread what their standard errors say, times a factor."""
    values, errors = np.array([(draw.value_, draw.stderr_) for draw in draws]).T
    freedom = len(values) - 1
    z = (values.mean() - exact) / (values.std(ddof=1) / np.sqrt(len(values)))
    spread = freedom * values.var(ddof=1) / np.mean((factor * errors) ** 2)
    p = [2 * stats.t.sf(abs(z), freedom), 2 * min(stats.chi2.sf(spread, freedom), stats.chi2.cdf(spread, freedom))]
    return min(p) > kit.ALPHA


@pytest.mark.every(8)
@pytest.mark.parametrize("p", [0.5, 1, 1.5, 2, 3])
@pytest.mark.parametrize("columns", [TWO[:1], TWO, THREE])
def test_estimates_have_the_true_mean_and_the_stated_error(p, columns):
    frames = tables()
    with federation(frames) as f:
        draws = [cn.Moment(columns, p, epsilon=2.0, unit="party").fit(f, repeat=r) for r in range(1, 31)]
    assert agrees(draws, truth(frames, columns, p))


@pytest.mark.full
def test_the_stated_error_is_not_half_of_what_it_is_nor_twice_that():
    frames = tables()
    with federation(frames) as f:
        draws = [cn.Moment(TWO, 2, epsilon=2.0, unit="party").fit(f, repeat=r) for r in range(1, 151)]
    assert [agrees(draws, truth(frames, TWO, 2), factor) for factor in (0.5, 1.0, 2.0)] == [False, True, False]


@pytest.mark.every(6)
@pytest.mark.parametrize("change", [2, "bounds"])
@pytest.mark.parametrize("p", [1, 2, 2.5])
def test_other_changes_too_and_columns_that_do_not_start_at_zero(change, p):
    frames = tables()
    columns = ["clinic.visits", "pharmacy.late"]
    with federation(frames, epsilon=5_000) as f:
        draws = [cn.Moment(columns, p, change=change, epsilon=4.0).fit(f, repeat=r) for r in range(1, 31)]
    assert agrees(draws, truth(frames, columns, p))


@pytest.mark.parametrize("change", [1, "bounds"])
def test_the_sketch_has_the_true_mean_and_the_stated_error(change):
    frames = tables()
    with federation(frames, epsilon=5_000, delta=1e-4) as f:
        draws = [
            cn.Moment(TWO, 2, method="sketch", change=change, epsilon=3.0, delta=1e-5).fit(f, repeat=r)
            for r in range(1, 21)
        ]
    assert agrees(draws, truth(frames, TWO, 2))


def test_the_statement_says_event_level_and_where_local_privacy_holds():
    with federation() as f:
        event = cn.Moment(THREE, 2, epsilon=3.0).fit(f)
        whole = cn.Moment(THREE, 2, epsilon=3.0, change="bounds").fit(f)
        total = cn.Moment(THREE, 1, epsilon=3.0).fit(f)
        sketch = cn.Moment(THREE, 2, epsilon=3.0, delta=1e-6, method="sketch").fit(f)
    assert [one.privacy_.local for one in (event, whole, total, sketch)] == [True, True, False, False]
    assert [one.privacy_.relation for one in (event, whole, total, sketch)] == ["event", "zero-out", "event", "event"]
    assert event.privacy_.epsilon(unit="person") == pytest.approx(3.0)
    assert event.privacy_.epsilon(unit="party") == pytest.approx(1.0)
    assert event.privacy_.epsilon(observer=("coordinator", "clinic", "pharmacy")) == pytest.approx(1.0)
    assert (event.privacy_.delta(), sketch.privacy_.delta()) == (0, 1e-6)
    assert sketch.privacy_.epsilon() <= 3.0
    assert event.privacy_.table().assumption.str.contains("Event level").all()
    assert not whole.privacy_.table().assumption.str.contains("Event level").any()
    assert np.isinf(event.privacy_.epsilon_if_replaced())
    assert whole.privacy_.epsilon_if_replaced() == pytest.approx(3.0)


def test_a_partys_own_policy_has_to_allow_an_event_level():
    with federation(policies={"pharmacy": cn.Policy()}) as f:
        with pytest.raises(cn.PolicyRefusal) as refusal:
            cn.Moment(TWO, 2, epsilon=1.0).fit(f)
        assert refusal.value.spent is None
        assert "bounds" in refusal.value.remedy
        cn.Moment(TWO, 2, epsilon=1.0, change="bounds").fit(f)
    with federation(policies={"pharmacy": cn.Policy(event_level=True)}) as f:
        cn.Moment(TWO, 2, epsilon=1.0).fit(f)


def test_a_ledger_marks_an_event_level_release(tmp_path):
    from colonnade.party.ledger.ledger import SqliteLedger

    frames = tables(parties=1)
    with cn.Federation.simulate(
        {"clinic": cn.Party(frames["clinic"], schema=SCHEMA)},
        id="id",
        budget=cn.Budget(epsilon=9.0),
        ledger_dir=tmp_path,
    ) as f:
        cn.Moment(TWO[:1], 2, epsilon=1.0).fit(f)
        cn.Moment(TWO[:1], 2, epsilon=1.0, change="bounds").fit(f)
    with SqliteLedger.open(tmp_path / "clinic.sqlite", party="clinic") as ledger:
        labels = [entry.label for entry in ledger.entries() if entry.label.startswith("moment/")]
    assert ["event-level" in label for label in labels] == [True, False]
