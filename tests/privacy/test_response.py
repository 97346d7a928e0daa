"""Reading randomised reports: exact laws, unbiasedness, exact variance, projection."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from colonnade.errors import BadInput, ProtocolError
from colonnade.estimation.counts import joint_counts, project_counts, variance_of_counts
from colonnade.estimation.tables import project_to_simplex
from colonnade.privacy.accounting import Price
from colonnade.privacy.laws.response import Channel, RandomizedResponse, best_channel
from tests import kit
from tests.privacy.report_laws import report_law

HALF, ONE, TWO = 500_000_000, 10**9, 2 * 10**9

SMALL = [
    Channel("grr", 2, 1, HALF),
    Channel("grr", 5, 1, ONE),
    Channel("subset", 5, 2, HALF),
    Channel("subset", 5, 4, ONE),
    Channel("subset", 9, 3, HALF),
    Channel("oue", 2, 1, ONE),
    Channel("oue", 5, 1, HALF),
    Channel("oue", 9, 1, TWO),
]


# Known answers: docs/proofs/randomised-response.md -----------------------------------------------------------------------


def test_known_answers_of_the_channels() -> None:
    five = Channel("grr", 5, 1, HALF)
    found = [f"{value:.9f}" for value in (five.p, five.q, five.v0, five.v1)]
    assert found == ["0.291875133", "0.177031217", "11.046310109", "15.670792356"]
    other = Channel("grr", 5, 1, ONE)
    assert [f"{v:.9f}" for v in (other.p, other.q, other.v0)] == ["0.404609675", "0.148847581", "1.936764256"]
    assert f"{Channel('subset', 5, 2, HALF).v0:.9f}" == "9.752865516"
    assert f"{Channel('subset', 16, 4, ONE).v0:.9f}" == "3.110715706"


def test_known_answers_of_the_table_of_variances() -> None:
    def grr(nano: int, *sizes: int) -> list[float]:
        return [round(Channel("grr", K, 1, nano).v0, 3) for K in sizes]

    assert [round(Channel("oue", 4, 1, nano).v0, 3) for nano in (HALF, ONE, TWO)] == [15.671, 3.683, 0.724]
    assert grr(HALF, 2, 3, 5, 16, 64) == [3.918, 6.294, 11.046, 37.185, 151.242]  # §2.1 prints 37.19 for 37.1846
    assert grr(ONE, 2, 3, 5, 16, 64) == [0.921, 1.259, 1.937, 5.662, 21.92]
    assert grr(TWO, 5, 16) == [0.255, 0.524]
    best = {
        (5, HALF): 9.753,
        (16, HALF): 13.65,
        (64, HALF): 15.154,
        (5, ONE): 1.937,
        (16, ONE): 3.111,
        (64, ONE): 3.537,
    }
    assert {key: round(best_channel(key[0], Price(key[1], 0.0)).v0, 3) for key in best} == best
    assert round(best_channel(16, Price(TWO, 0.0)).v0, 3) == 0.52


def test_the_best_channels_are_the_known_ones() -> None:
    assert best_channel(5, Price(HALF, 0.0)) == Channel("subset", 5, 2, HALF)
    assert best_channel(5, Price(ONE, 0.0)) == Channel("grr", 5, 1, ONE)
    assert best_channel(16, Price(ONE, 0.0)) == Channel("subset", 16, 4, ONE)


# Channels ---------------------------------------------------------------------------------------------


@pytest.mark.every(3)
@pytest.mark.parametrize("channel", SMALL, ids=str)
def test_the_law_has_the_stated_ratio_and_no_less(channel: Channel) -> None:
    _, law = report_law(channel)
    ratio = (law[:, None, :] / law[None, :, :]).max()
    assert math.log(ratio) == pytest.approx(channel.nano / 1e9, rel=1e-12)


@pytest.mark.every(3)
@pytest.mark.parametrize("channel", SMALL, ids=str)
def test_null_records_are_within_the_ratio_too(channel: Channel) -> None:
    _, law = report_law(channel)
    null = law.mean(axis=0)
    assert max((law / null).max(), (null / law).max()) <= math.exp(channel.nano / 1e9) * (1 + 1e-12)


@pytest.mark.every(3)
@pytest.mark.parametrize("channel", SMALL, ids=str)
def test_decoding_is_unbiased_and_has_the_stated_variance_exactly(channel: Channel) -> None:
    reports, law = report_law(channel)
    rows = np.array([list(report) for report in reports], dtype=np.uint8)
    z = (channel.supports(rows) - channel.q) / channel.spread
    np.testing.assert_allclose(law @ z, np.eye(channel.categories), atol=1e-9)
    variance = law @ z**2 - (law @ z) ** 2
    expected = np.where(np.eye(channel.categories) == 1, channel.v1, channel.v0)
    np.testing.assert_allclose(variance, expected, rtol=1e-9)


@given(st.integers(2, 60), st.floats(-2.5, 1.3).map(lambda power: 10**power))
def test_no_channel_beats_the_best_one(categories: int, epsilon: float) -> None:
    price = Price.of(epsilon)
    best = best_channel(categories, price)
    rivals = [Channel("grr", categories, 1, price.nano), Channel("oue", categories, 1, price.nano)]
    rivals += [Channel("subset", categories, k, price.nano) for k in range(2, categories)]
    assert best.v0 <= min(rival.v0 for rival in rivals)


@pytest.mark.parametrize(
    ("kind", "categories", "size", "nano"),
    [
        ("grr", 1, 1, ONE),
        ("grr", 65537, 1, ONE),
        ("grr", 5, 2, ONE),
        ("subset", 5, 1, ONE),
        ("subset", 5, 5, ONE),
        ("oue", 5, 2, ONE),
        ("other", 5, 1, ONE),
        ("grr", 5, 1, 0),
        ("grr", 5, 1, 10**14),
        ("grr", 5.0, 1, ONE),
        ("grr", 5, 1, 1.5),
    ],
)
def test_channels_that_cannot_be_are_refused(kind: str, categories: int, size: int, nano: int) -> None:
    with pytest.raises(BadInput):
        Channel(kind, categories, size, nano)


@pytest.mark.parametrize(
    ("channel", "row"),
    [
        (Channel("grr", 5, 1, ONE), [5]),
        (Channel("grr", 300, 1, ONE), [44, 1]),
        (Channel("subset", 5, 2, HALF), [0b00000111]),
        (Channel("subset", 5, 2, HALF), [0b00100001]),
        (Channel("subset", 20, 2, HALF), [1, 0, 0]),
        (Channel("oue", 5, 1, HALF), [0b00100000]),
        (Channel("oue", 20, 1, HALF), [0, 0, 0b00010000]),
    ],
)
def test_bytes_that_are_no_report_are_refused(channel: Channel, row: list[int]) -> None:
    rows = np.array([row], dtype=np.uint8)
    with pytest.raises(ProtocolError):
        channel.supports(rows)
    with pytest.raises(ProtocolError):
        joint_counts([rows], [channel])


# The joint estimator ----------------------------------------------------------------------------------


def people(name: str, count: int, sizes: list[int]) -> list[np.ndarray]:
    """Correlated categories: every column leans on a hidden number."""
    generator = kit.generator(name)
    hidden = generator.standard_normal(count)
    columns = []
    for size in sizes:
        weights = np.arange(size, 0, -1.0)
        cuts = stats.norm.ppf(np.cumsum(weights / weights.sum())[:-1])
        columns.append(np.searchsorted(cuts, 0.8 * hidden + 0.6 * generator.standard_normal(count)))
    return columns


def table_of(columns: list[np.ndarray], sizes: list[int]) -> np.ndarray:
    table = np.zeros(sizes)
    np.add.at(table, tuple(columns), 1)
    return table


MIXES = [
    [Channel("grr", 4, 1, ONE)],
    [Channel("subset", 5, 2, HALF), Channel("grr", 3, 1, ONE)],
    [Channel("oue", 3, 1, ONE), Channel("grr", 2, 1, HALF), Channel("subset", 4, 2, ONE)],
    [Channel("subset", 20, 6, ONE), Channel("grr", 3, 1, TWO)],
]


@pytest.mark.parametrize("channels", MIXES, ids=range(len(MIXES)))
def test_the_joint_estimate_is_unbiased_and_its_variance_exact(channels: list[Channel]) -> None:
    sizes = [channel.categories for channel in channels]
    columns = people("joint", 400, sizes)
    truth, randomness = table_of(columns, sizes), kit.sampler(f"joint {sizes}")
    runs = 600
    mechanisms = [RandomizedResponse(channel) for channel in channels]
    estimates = np.array(
        [
            joint_counts(
                [m.release(column, randomness) for m, column in zip(mechanisms, columns, strict=True)], channels
            )
            for _ in range(runs)
        ]
    )
    variance = variance_of_counts(truth, channels)
    z = (estimates.mean(axis=0) - truth) / np.sqrt(variance / runs)
    assert 2 * stats.norm.sf(np.abs(z).max()) * z.size > kit.ALPHA
    ratio = estimates.var(axis=0, ddof=1) / variance
    assert abs(ratio.mean() - 1) < 0.1
    assert 0.6 < ratio.min() <= ratio.max() < 1.6


# Projection -------------------------------------------------------------------------------------------

tables = st.integers(0, 10**6).map(lambda seed: np.random.default_rng(seed).normal(20, 60, (4, 3)))
GRID = [Channel("subset", 4, 2, HALF), Channel("grr", 3, 1, ONE)]


@given(tables, st.floats(0, 1e6))
def test_the_simplex_projection_is_the_nearest_feasible_table(table: np.ndarray, total: float) -> None:
    projected = project_to_simplex(table, total)
    assert projected.min() >= 0
    assert projected.sum() == pytest.approx(total, rel=1e-9, abs=1e-9)
    gradient = projected - table  # optimal iff no feasible direction descends
    assert (gradient * projected).sum() <= gradient.min() * total + 1e-6 * (1 + total) * (1 + np.abs(gradient).max())


@given(tables, st.integers(50, 1000))
def test_the_projection_solves_its_quadratic_programme(estimate: np.ndarray, total: int) -> None:
    """With the noise covariance written out in full: strong convexity turns the duality gap into a distance."""
    moments = []
    for channel in GRID:
        reports, law = report_law(channel)
        rows = np.array([list(report) for report in reports], dtype=np.uint8)
        z = (channel.supports(rows) - channel.q) / channel.spread
        moments.append(np.einsum("xr,ri,rj->ij", law, z, z) / channel.categories)
    covariance = np.kron(*moments) - np.eye(12) / 12
    precision = np.linalg.pinv(covariance, hermitian=True, rcond=1e-9)
    counts = project_counts(estimate, total, GRID).ravel()
    gradient = precision @ (counts - estimate.ravel())
    gap = gradient @ counts - gradient.min() * total
    assert gap >= -1e-9 * total
    assert math.sqrt(2 * max(gap, 0) * np.linalg.eigvalsh(covariance).max()) <= 1e-3 * total
