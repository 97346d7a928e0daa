"""Private clustering of one party's block: what it costs, what one person can change, and how much noise there is."""

from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy import stats
from sklearn.cluster import KMeans

from colonnade.audit import distinguish
from colonnade.errors import BadInput
from colonnade.privacy.accounting import Loss, Price
from colonnade.privacy.calibration import budget_loss, ledger_rho
from colonnade.privacy.laws.local_clustering import COUNTS, LocalClustering, Nearest, Query, clustering_schedule, fold
from tests import kit

SCALE = 4096
PRICES = {"gaussian": Price.of(1.0, 1e-5), "laplace": Price.of(1.0)}


def clustering(price, width, *, people, clusters=3, indicators=0, seed=0) -> LocalClustering:
    lower = np.array([-SCALE] * (width - indicators) + [0] * indicators)
    columns = width - indicators + (indicators > 0)
    return LocalClustering(price, lower, SCALE, columns, people=people, clusters=clusters, seed=seed)


def rows_of(points) -> np.ndarray:
    points = np.asarray(points)
    return np.column_stack([np.ones(len(points)), np.rint(points * SCALE)]).astype(np.int16)


def mixture(name, people, width, *, components=4, spread=0.1) -> np.ndarray:
    rng = kit.generator(name)
    means = rng.uniform(-0.75, 0.75, (components, width))
    return np.clip(means[rng.integers(components, size=people)] + spread * rng.standard_normal((people, width)), -1, 1)


def loss(points, centres) -> float:
    return float(((points[:, None] - centres) ** 2).sum(axis=2).min(axis=1).mean())


def questions(mechanism, rows, name) -> list[Query]:
    """Every question of one conversation, with the noise that one set of rows got."""
    asked, source = [], kit.sampler(name)
    rounds = mechanism.queries(source).rounds()
    query = next(rounds)
    while True:
        asked.append(query)
        try:
            query = rounds.send(mechanism.perturb(query, *mechanism.exact(query, rows), source))
        except StopIteration:
            return asked


# What it costs --------------------------------------------------------------------------------------------------------------


@pytest.mark.every(3)
@pytest.mark.parametrize("price", PRICES.values(), ids=PRICES)
@pytest.mark.parametrize("width", [1, 2, 3, 8, 50])
@pytest.mark.parametrize("people", [10, 20_000])
def test_the_questions_of_a_conversation_cost_exactly_the_budget(price, width, people):
    mechanism = clustering(price, width, people=people)
    rows = rows_of(np.zeros((people, width)))
    asked = questions(mechanism, rows, "shares")
    assert sum((query.share for query in asked), Fraction(0)) == 1
    budget = ledger_rho(price) if price.delta else price.exact
    spent = Fraction(0)
    for query in asked:
        parts = [(1, query.share)]
        if query.radius:
            parts = [(1, query.share * COUNTS), (mechanism.sensitivity(query), query.share * (1 - COUNTS))]
        for sensitivity, share in parts:
            noise = mechanism.parameter(sensitivity, share)
            spent += Fraction(sensitivity) / (2 * noise) if price.delta else Fraction(sensitivity) / noise
    assert spent <= budget
    assert spent > budget * Fraction(999, 1000)
    assert mechanism.loss == (budget_loss(budget) if price.delta else Loss.of_pure(price.nano))
    assert mechanism.loss.fits(price.nano, price.delta)


def test_a_price_that_buys_only_noise_too_large_to_draw_is_refused_before_data_is_read():
    with pytest.raises(BadInput):
        LocalClustering(Price(1, 0.0), np.full(4096, -(2**14)), 2**14, 4096, people=100, clusters=2)


# What one person can change -------------------------------------------------------------------------------------------------

values = st.integers(-(2**15), 2**15 - 1)


@st.composite
def conversations(draw):
    width = draw(st.integers(1, 4))
    indicators = draw(st.integers(0, width - 1))
    price = PRICES[draw(st.sampled_from(sorted(PRICES)))]
    people = draw(st.integers(1, 6))
    rows = np.array(draw(st.lists(st.lists(values, min_size=width, max_size=width), min_size=people, max_size=people)))
    present = np.array(draw(st.lists(st.integers(0, 1), min_size=people, max_size=people)))
    mechanism = clustering(price, width, people=people, clusters=draw(st.integers(1, 4)), indicators=indicators)
    if draw(st.booleans()):  # the forest too, although so few people would not get one
        mechanism.schedule = clustering_schedule(3, 10**9, 1, price)
    return mechanism, np.column_stack([present, rows]).astype(np.int16), draw(st.integers(0, people - 1))


@given(conversations(), st.integers(0, 2**32))
def test_a_record_zeroed_out_moves_one_cell_of_each_question_within_its_bound(conversation, seed):
    mechanism, rows, person = conversation
    rows = np.concatenate(list(mechanism._checked(rows)))
    neighbour = rows.copy()
    neighbour[person] = 0
    for query in questions(mechanism, rows, f"replay {seed}"):
        counts, sums = mechanism.exact(query, rows)
        counts_without, sums_without = mechanism.exact(query, neighbour)
        moved_counts, moved_sums = counts - counts_without, sums - sums_without
        assert np.abs(moved_counts).sum() <= 1
        cells = set(np.flatnonzero(moved_counts)) | set(np.flatnonzero(np.any(moved_sums != 0, axis=1)))
        assert len(cells) <= 1
        length = int((moved_sums.astype(object) ** 2).sum() if mechanism.euclidean else np.abs(moved_sums).sum())
        assert length <= mechanism.sensitivity(query)


@given(st.lists(values, min_size=1, max_size=5), st.integers(0, 10**5), st.booleans())
def test_a_clipped_displacement_keeps_its_radius_and_its_direction(row, radius, squared):
    rows = np.array([[1, *row]], dtype=np.int16)
    label, origin = np.zeros(1, dtype=np.int32), np.zeros((1, len(row)), dtype=np.int64)
    _, sums = fold(rows, label, origin, radius, squared=squared, squares=0)
    length = (sums**2).sum() if squared else np.abs(sums).sum()
    assert length <= (radius**2 if squared else radius)
    assert np.all(np.sign(sums[0]) * np.sign(np.array(row)) >= 0)
    whole = np.array(row, dtype=np.int64)
    if ((whole**2).sum() if squared else np.abs(whole).sum()) <= (radius**2 if squared else radius):
        assert sums[0].tolist() == row


# How much noise there is ----------------------------------------------------------------------------------------------------

CELLS = 100_000


def many_cells(mechanism, *, people_each: int, name: str):
    """One question about very many cells, each with the same few people: as many samples of the noise."""
    query = Query(
        Nearest(np.zeros((CELLS, 1), dtype=np.int64)),
        mechanism.schedule.sweep,
        np.zeros((CELLS, 1), dtype=np.int64),
        100,
    )
    counts = np.full(CELLS, people_each, dtype=np.int64)
    sums = np.full((CELLS, 1), 100 * people_each, dtype=np.int64)
    return mechanism.perturb(query, counts, sums, kit.sampler(name)), query


def spread_p(noise, deviation) -> float:
    """Two-sided p-value of a sample's spread, by the normal limit of the mean of squares."""
    squares = (noise / deviation) ** 2
    z = (squares.mean() - 1) / (squares.std(ddof=1) / np.sqrt(len(squares)))
    return float(2 * stats.norm.sf(abs(z)))


@pytest.mark.parametrize("law", PRICES)
def test_the_noise_has_the_spread_that_accounting_assumes_and_no_other(law):
    mechanism = clustering(PRICES[law], 1, people=1_000)
    answer, query = many_cells(mechanism, people_each=3, name=f"spread {law}")
    counts = mechanism._deviation(1, query.share * COUNTS)
    sums = mechanism._deviation(mechanism.sensitivity(query), query.share * (1 - COUNTS))
    for noise, deviation in ((answer.counts - 3, counts), (answer.sums[:, 0] - 300, sums)):
        assert spread_p(noise, deviation) > kit.ALPHA
        assert spread_p(noise, 0.9 * deviation) < kit.ALPHA
        assert spread_p(noise, 1.1 * deviation) < kit.ALPHA


def audited(price, factor, name):
    """Tell a person's presence from one noisy count, with the noise of a mechanism that says one thing and draws another."""
    mechanism = clustering(price, 1, people=1_000)
    claim = Loss.of_pure(int(price.exact * mechanism.schedule.sweep * COUNTS * 10**9))
    if factor != 1:
        honest = mechanism.parameter
        mechanism.parameter = lambda sensitivity, share: honest(sensitivity, share) * factor
    with_person, _ = many_cells(mechanism, people_each=1, name=f"{name} with")
    without, _ = many_cells(mechanism, people_each=0, name=f"{name} without")
    return distinguish(with_person.counts, without.counts, alpha=kit.ALPHA), claim.epsilon(0.0)


def test_an_audit_does_not_refute_the_claim_and_catches_half_the_noise():
    price = Price.of(40.0)  # a count of one sweep then has ε of about 1
    finding, claimed = audited(price, 1, "audit")
    assert finding.epsilon <= claimed
    finding, claimed = audited(price, Fraction(1, 2), "audit half")
    assert finding.epsilon > claimed


# How good it is -------------------------------------------------------------------------------------------------------------


@pytest.mark.every(2)
@pytest.mark.parametrize(("width", "price", "bar"), [
    (1, Price.of(0.5, 1e-5), 1.1),
    (2, Price.of(0.5, 1e-5), 1.1),
    (4, Price.of(0.5, 1e-5), 1.1),
    (20, Price.of(0.5, 1e-5), 1.1),
    (50, Price.of(1.0, 1e-5), 1.1),
    (1, Price.of(0.5), 1.1),
    (2, Price.of(0.5), 1.15),
])  # fmt: skip
def test_separated_groups_are_found(width, price, bar):
    points = mixture(f"groups {width}", 20_000, width)
    best = loss(points, KMeans(4, n_init=5, random_state=0).fit(points).cluster_centers_)
    mechanism = clustering(price, width, people=len(points), clusters=4)
    centres = mechanism.release(rows_of(points), kit.sampler(f"quality {width} {price.delta}")) / SCALE
    assert loss(points, centres) < bar * best


@pytest.mark.every(2)
@pytest.mark.parametrize("price", PRICES.values(), ids=PRICES)
@pytest.mark.parametrize("width", [1, 3])
def test_degenerate_blocks_give_centres_within_the_box(price, width):
    for points in (np.zeros((5, width)), np.ones((5, width)), np.full((5, width), -1.0)):
        mechanism = clustering(price, width, people=5, clusters=4)
        rows = rows_of(points)
        rows[:, 0] = points[:, 0] != 0
        centres = mechanism.release(rows, kit.sampler(f"degenerate {width}"))
        assert centres.shape == (4, width)
        assert np.abs(centres).max() <= SCALE
