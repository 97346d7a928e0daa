"""Parts of a public model's scores at one party: what one person can do to them, and that they are what the model says."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.audit import distinguish
from colonnade.coordinator.protocols.score_releases import ScoreHistogramRelease
from colonnade.errors import BadInput, ColonnadeError, PlanMismatch
from colonnade.estimation.scoring import coded_weights, party_scores
from colonnade.estimators.frames import design_matrix
from colonnade.party.steps.local import PrivateSquaredLength
from colonnade.party.steps.products import PrivateScoreHistogram
from colonnade.party.table.private_table import PrivateTable, bounded_scores, partial_scores
from colonnade.party.table.sources import Source
from colonnade.plan import Step
from colonnade.privacy.accounting import Price
from colonnade.schema import Category, Numeric, Schema, features_of
from colonnade.steps.kind import BoundedScores, ScoreWeights
from tests import kit

SCHEMA = Schema(
    segment=Category(["basic", "gold", "platinum"]),
    age=Numeric(18, 95),
    claims=Numeric(0, 10, integer=True),
    default=Category(["no", "yes"]),
)
COLUMNS = ("segment", "age", "claims")
WIDTH = 5
WORDS = st.sampled_from(["basic", "gold", "platinum", "lead", None])
LABELS = st.sampled_from(["no", "yes", None])
NUMBERS = st.floats(width=64) | st.sampled_from([18.0, 95.0, 56.5, np.nan, np.inf, -np.inf])
RECORDS = st.tuples(WORDS, NUMBERS, NUMBERS, LABELS)
NOTHING = (None, np.nan, np.nan, None)
WEIGHTS = st.lists(st.floats(-1e3, 1e3), min_size=WIDTH, max_size=WIDTH)


def table(records, order=None):
    segment, age, claims, default = zip(*records, strict=True)
    frame = {"segment": pd.Series(segment, dtype=object), "default": pd.Series(default, dtype=object)}
    return PrivateTable(Source(pd.DataFrame({**frame, "age": age, "claims": claims})), SCHEMA, order=order)


# Partial scores -------------------------------------------------------------------------------------------------------------


@given(st.lists(RECORDS, min_size=1, max_size=6), WEIGHTS, st.floats(-10, 10))
def test_a_partial_score_is_the_models_own_product_on_the_coded_columns(records, weights, intercept):
    own = np.array(weights)
    columns = {f"bank.{name}": SCHEMA[name] for name in COLUMNS}
    coded, shifted = coded_weights(columns, own[None], np.array([intercept]))
    scores = ScoreWeights(COLUMNS, SCHEMA, tuple(coded[0].tolist()))
    frame = pd.DataFrame(
        {f"bank.{name}": [record[place] for record in records] for place, name in enumerate(COLUMNS)}, dtype=object
    )
    expected = design_matrix(frame, features_of(columns)[1:], columns, coded=False) @ own + intercept
    found = partial_scores(scores, table(records), 0, len(records), 0) + shifted[0]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-6)


# Score columns of a Gram matrix ---------------------------------------------------------------------------------------------


def coding(weights, largest, heights, scale=100, row_bound=None):
    parameters = {"weights": tuple(weights), "largest": tuple(largest), "heights": tuple(heights)}
    bound = sum(height**2 for height in heights) if row_bound is None else row_bound
    return BoundedScores(COLUMNS, SCHEMA, parameters, scale=scale, row_bound=bound)


@given(
    st.lists(RECORDS, min_size=1, max_size=5),
    WEIGHTS,
    WEIGHTS,
    st.floats(1e-6, 1e6),
    st.lists(st.integers(1, 100), min_size=2, max_size=2),
)
def test_no_row_of_scores_is_longer_than_its_bound_whatever_the_plan_says(records, one, other, largest, heights):
    coded = coding([*one, *other], [largest, 2 * largest], heights)
    rows = bounded_scores(coded, table([*records, NOTHING]), 0, len(records) + 1)
    assert rows.dtype == np.int64
    assert np.all(np.abs(rows) <= np.array(heights)[:, None])
    assert all(sum(int(entry) ** 2 for entry in row) <= coded.row_bound for row in rows.T)
    assert not rows[:, -1].any()  # a null record contributes nothing: the bound is one for zero-out


@pytest.mark.parametrize(
    "bad",
    [
        {"heights": (0,)},
        {"heights": (101,)},
        {"heights": (1, 1)},
        {"heights": (1.0,)},
        {"largest": (0.0,)},
        {"largest": (-1.0,)},
        {"largest": (float("inf"),)},
        {"largest": ()},
        {"weights": (1.0,) * (WIDTH - 1)},
        {"weights": (float("nan"),) * WIDTH},
        {"weights": "all"},
        {"weights": ()},
        {"row_bound": 99},
    ],
)
def test_a_plan_whose_scores_make_no_sense_is_refused(bad):
    fields = {"weights": (1.0,) * WIDTH, "largest": (3.0,), "heights": (10,), "row_bound": 100} | bad
    bound = fields.pop("row_bound")
    with pytest.raises((BadInput, PlanMismatch)):
        BoundedScores(COLUMNS, SCHEMA, fields, scale=100, row_bound=bound)


# The sum of squares ---------------------------------------------------------------------------------------------------------


def squared(people, weights, largest=20.0, height=1_000):
    parameters = {"weights": tuple(weights), "largest": largest, "height": height}
    step = Step(name="s", party="bank", kind="squared-length", columns=COLUMNS, parameters=parameters, price=None)
    return kit.private(PrivateSquaredLength, plan([step], people), step, SCHEMA)


@given(st.lists(RECORDS, min_size=1, max_size=5), st.integers(0, 4), WEIGHTS, st.floats(1e-3, 1e3))
def test_a_record_zeroed_out_moves_a_sum_of_squares_by_at_most_its_height(records, place, weights, largest):
    statistic = squared(len(records), weights, largest)
    other = [NOTHING if number == place % len(records) else record for number, record in enumerate(records)]
    moved = abs(int(statistic.compute(table(records))[0]) - int(statistic.compute(table(other))[0]))
    mechanism = statistic.law(Price.of(1.0))
    assert moved <= statistic.step.height
    assert mechanism.scale >= Fraction(statistic.step.height)


# The histogram --------------------------------------------------------------------------------------------------------------


def plan(steps, people, **changes):
    fields = {
        "task": "evaluation",
        "method": "LogisticRegression",
        "price": Price.of(1.0),
        "federation": "f0" * 32,
        "alignment": "a" * 64,
        "compute_nodes": ("bank", "telco", "insurer"),
    }
    return kit.written(*steps, people=people, **(fields | changes))


def release(parties, *, label="bank.default", seed=0, bins=96):
    rng = np.random.default_rng(seed)
    columns = {f"{party}.{name}": SCHEMA[name] for party in parties for name in COLUMNS}
    weights = rng.normal(size=(1, WIDTH * len(parties)))
    return ScoreHistogramRelease(
        "odds", party_scores(columns, weights), 0.3, label, (0, 1), Price.of(1.0), largest_bins=bins
    )


def statistics(parties, people, **options):
    made = release(parties, **options)
    agreed = plan(made.steps(), people)
    return made, {step.party: kit.private(PrivateScoreHistogram, agreed, step, SCHEMA) for step in agreed.steps}


def histogram(made, parts, tables, name):
    """Play all parties: givers give, left and right share, and the products are added up as the nodes would."""
    people = next(iter(tables.values())).people
    some = next(iter(parts.values())).step.table
    for giver in some.givers:
        left, right = parts[giver].give(tables[giver], kit.sampler(f"{name} {giver}"))
        parts[some.left].receive(memoryview(left), people)
        parts[some.right].receive(memoryview(right), people)
    left, right = (parts[party].rows(tables[party], 0, people) for party in (some.left, some.right))
    products = (left @ right.T).ravel()
    counts = np.bincount(some.fold[some.fold >= 0], weights=products[some.fold >= 0], minlength=some.cells)
    return counts.reshape(made.bins, 2).astype(int)


def people_of(count, seed):
    rng = np.random.default_rng(seed)
    segments = rng.choice(np.array(["basic", "gold", "platinum", None], dtype=object), count)
    labels = rng.choice(np.array(["no", "yes"], dtype=object), count)
    return list(zip(segments, rng.uniform(0, 120, count), rng.uniform(-2, 12, count), labels, strict=True))


@pytest.mark.every(2)
@pytest.mark.parametrize("parties", [("bank", "telco"), ("telco", "bank", "insurer"), ("telco", "u", "bank", "v")])
def test_the_histogram_counts_everybody_once_in_the_bin_of_their_rounded_score(parties):
    made, parts = statistics(parties, 200)
    tables = {party: table(people_of(200, number)) for number, party in enumerate(parties)}
    counts = histogram(made, parts, tables, f"counts {parties}")
    numbers = sum(parts[party].numbers(tables[party], 0, 200) for party in parties)
    expected = np.zeros_like(counts)
    np.add.at(expected, (numbers, tables["bank"].codes("default")), 1)
    assert np.array_equal(counts, expected)
    exact = sum(partial_scores(parts[party].step.scores, tables[party], 0, 200, 0) for party in parties) + 0.3
    rounded = made.offset + sum(float(part.low[0]) for part in made.parts) + made.step * numbers
    assert np.max(np.abs(rounded - exact)) < len(parties) * made.step


@pytest.mark.every(3)
@pytest.mark.parametrize("lacking", ["bank", "telco", "insurer", "everybody"])
@pytest.mark.parametrize("parties", [("telco", "bank", "insurer"), ("insurer", "bank", "telco")])
def test_a_record_zeroed_out_at_one_party_or_at_all_moves_one_count_by_one(parties, lacking):
    made, parts = statistics(parties, 30)
    records = {party: people_of(30, number) for number, party in enumerate(parties)}
    whole = histogram(made, parts, {party: table(records[party]) for party in parties}, "whole")
    for person in (0, 17, 29):
        other = {
            party: [
                NOTHING if place == person and lacking in (party, "everybody") else r for place, r in enumerate(rows)
            ]
            for party, rows in records.items()
        }
        _, fresh = statistics(parties, 30)
        changed = histogram(made, fresh, {party: table(other[party]) for party in parties}, f"without {person}")
        assert np.abs(whole - changed).sum() == 1
        assert changed.sum() == whole.sum() - 1
        assert fresh[parties[0]].step.joint.noise.moved() == fresh[parties[0]].step.joint.noise.moved(parties[0]) == 1


def test_what_left_and_right_are_given_is_uniform_whatever_the_scores_are():
    """Each by itself: a chi-square test over all residues, for scores that are all alike and for nobody at all."""
    people = 40_000
    _, parts = statistics(("telco", "bank", "insurer"), people)
    modulus = parts["insurer"].step.table.modulus
    for name, record in {"alike": ("gold", 95.0, 10.0, "no"), "nobody": NOTHING}.items():
        given_out = parts["insurer"].give(table([record] * people), kit.sampler(f"giver {name}"))
        shares = [np.frombuffer(part, dtype="<u2") for part in given_out]
        for share in shares:
            counts = np.bincount(share, minlength=modulus)
            assert len(counts) == modulus
            assert kit.chi_square_p(counts, np.full(modulus, 1 / modulus)) > kit.ALPHA
        assert len(set(((shares[0].astype(int) + shares[1]) % modulus).tolist())) <= 2


CHANGES = {
    "two left parties": ("insurer", {"role": "left"}),
    "no role": ("insurer", {"role": "guest"}),
    "other bins": ("insurer", {"bins": 7}),
    "another step": ("insurer", {"step": 0.5}),
    "a step of nothing": ("insurer", {"step": 0.0}),
    "another seed": ("telco", {"seed": "0" * 64}),
    "parts that do not add up": ("telco", {"parts": 3}),
    "too many bins": ("telco", {"bins": 100_000}),
    "a label that is a number": ("bank", {"label": "age"}),
    "a label of somebody else": ("bank", {"label": "shoe"}),
    "a label twice": ("bank", {"kept": (1, 1)}),
    "a label that there is not": ("bank", {"kept": (0, 2)}),
    "a label too many": ("bank", {"kept": (0, 1, 2)}),
    "weights of nothing": ("telco", {"weights": ()}),
    "an unknown parameter": ("telco", {"noise": 0}),
    "a price of its own": ("telco", None),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_plan_that_its_parties_would_understand_differently_is_refused(what):
    made = release(("telco", "bank", "insurer"))
    party, change = CHANGES[what]

    def changed(step):
        fields = {name: getattr(step, name) for name in step.__struct_fields__}
        if step.party != party:
            return step
        if change is None:
            return Step(**{**fields, "price": Price.of(9.0)})
        return Step(**{**fields, "parameters": {**step.parameters, **change}})

    agreed = plan([changed(step) for step in made.steps()], 5)
    with pytest.raises(ColonnadeError):
        for step in agreed.steps:
            kit.private(PrivateScoreHistogram, agreed, step, SCHEMA)


# The noise ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("party", ["bank", "telco"])
def test_the_noise_of_a_count_follows_its_law_and_no_other(party):
    """With one colluding party allowed, one share alone is the whole discrete Laplace noise; ×0.9 and ×1.1 are rejected."""
    _, parts = statistics(("telco", "bank", "insurer"), 5)
    drawn = parts[party].cross_noise(60_000, kit.sampler(f"count noise {party}"))
    reach = np.arange(-25, 26)
    counts = np.array([np.sum(drawn == value) for value in reach])

    def law(scale):
        ratio = np.exp(-1 / scale)
        return (1 - ratio) / (1 + ratio) * ratio ** np.abs(reach)

    scale = float(parts[party].step.joint.noise.share)
    assert scale == 1.0  # known answer: one count moves by one, at ε = 1
    assert kit.chi_square_p(counts, law(scale)) > kit.ALPHA
    for wrong in (0.9, 1.1):
        assert kit.chi_square_p(counts, law(scale * wrong)) < kit.ALPHA


def test_half_the_noise_is_convicted_by_a_distinguishing_audit():
    """One person more or less in one count: the honest noise passes at its ε, half of it does not."""
    _, parts = statistics(("telco", "bank", "insurer"), 5)
    one, other = parts["bank"].cross_noise(200_000, kit.sampler("audit counts")).reshape(2, -1)
    assert 0.5 < distinguish(one, 1 + other).epsilon <= 1.0
    assert distinguish(one // 2, 1 + other // 2).epsilon > 1.0
