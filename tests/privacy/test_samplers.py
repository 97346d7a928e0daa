"""The samplers' output has the stated law: chi-square and Kolmogorov–Smirnov tests, each shown to have power.

Where a test accepts the truth it also rejects a scale that is 10 % off, on the same draws. That floating point decides
nothing is tested apart, in test_exact_sampling.py.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from colonnade.errors import BadInput
from colonnade.privacy.randomness import KeyedRandomness, SystemRandomness
from colonnade.privacy.samplers import (
    discrete_gaussian,
    discrete_laplace,
    gaussian_pieces,
    polya_share,
    skellam,
    uniform_below,
)
from tests import kit

Pmf = Callable[[np.ndarray, float], np.ndarray]
DRAWS = 200_000
WRONG = (0.9, 1.1)
full = pytest.mark.full
KEY = b"a key of thirty-two bytes length"


def gaussian_pmf(k: np.ndarray, sigma: float) -> np.ndarray:
    return np.exp(-k * k / (2 * sigma**2))


def laplace_pmf(k: np.ndarray, scale: float) -> np.ndarray:
    return np.exp(-np.abs(k) / scale)


def skellam_pmf(k: np.ndarray, mean: float) -> np.ndarray:
    """By the exponentially scaled Bessel function."""
    return special.ive(np.abs(k), 2 * mean)


def polya_pmf(parts: int) -> Pmf:
    """The difference of two negative binomials, by convolution."""

    def pmf(k: np.ndarray, scale: float) -> np.ndarray:
        one_sided = stats.nbinom.pmf(np.arange(len(k)), 1 / parts, -np.expm1(-1 / scale))
        centre = len(k) // 2
        full = np.convolve(one_sided, one_sided[::-1])
        return full[len(k) - 1 - centre : len(k) + centre]

    return pmf


def fits(draws: np.ndarray, pmf: Pmf, scale: float) -> float:
    """p-value of draws against a law on the integers, over a window with the rest in one cell."""
    half = max(int(np.abs(draws).max()), int(40 * scale) + 40)
    k = np.arange(-half, half + 1)
    return kit.chi_square_p(np.bincount(draws + half, minlength=2 * half + 1), pmf(k.astype(float), scale))


def accepts_the_truth_and_nothing_else(draws: np.ndarray, pmf: Pmf, scale: float) -> None:
    assert fits(draws, pmf, scale) > kit.ALPHA
    for factor in WRONG:
        assert fits(draws, pmf, scale * factor) < kit.ALPHA


def residues_are_uniform(draws: np.ndarray) -> None:
    """Low bits and small residues, which give a float64 sampler away: its draws are multiples of a power of two."""
    for modulus in (2, 3, 7, 64):
        counts = np.bincount(np.mod(draws, modulus), minlength=modulus)
        assert kit.chi_square_p(counts, np.ones(modulus)) > kit.ALPHA


def continuous_limit_is(draws: np.ndarray, law: stats.rv_continuous, scale: float) -> None:
    """Kolmogorov–Smirnov against a continuous law, for scales at which the test cannot see the lattice."""
    assert stats.kstest(draws / scale, law.cdf).pvalue > kit.ALPHA
    for factor in WRONG:
        assert stats.kstest(draws / (scale * factor), law.cdf).pvalue < kit.ALPHA


# --- discrete Gaussian -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma_squared", ["1/4", "1/2", "1", "7/3", "100", "12345/7", "70000"])
def test_the_discrete_gaussian_has_its_law(sigma_squared: str) -> None:
    exact = Fraction(sigma_squared)
    draws = discrete_gaussian(exact, DRAWS, kit.source(f"gaussian {exact}"))
    accepts_the_truth_and_nothing_else(draws, gaussian_pmf, float(exact) ** 0.5)


def test_a_narrow_discrete_gaussian_has_its_law() -> None:
    draws = discrete_gaussian(Fraction(1, 20), 2_000_000, kit.source("gaussian narrow"))
    accepts_the_truth_and_nothing_else(draws, gaussian_pmf, 0.05**0.5)


@pytest.mark.parametrize("exponent", [10, 50, pytest.param(26, marks=full), pytest.param(40, marks=full)])
def test_a_wide_discrete_gaussian_has_its_law_and_its_low_bits(exponent: int) -> None:
    draws = discrete_gaussian(Fraction(4**exponent), DRAWS, kit.source(f"gaussian wide {exponent}"))
    residues_are_uniform(draws)
    if exponent > 10:
        continuous_limit_is(draws, stats.norm, 2.0**exponent)


@pytest.mark.parametrize("sample", [discrete_gaussian, discrete_laplace, skellam])
@pytest.mark.parametrize("digits", [30, 400])
def test_an_absurdly_narrow_law_is_a_point(sample: Callable[..., np.ndarray], digits: int) -> None:
    assert not sample(Fraction(1, 10**digits), 500, SystemRandomness()).any()


# --- discrete Laplace ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["1/3", "1", "10/7", "20", "150"])
def test_the_discrete_laplace_has_its_law(scale: str) -> None:
    exact = Fraction(scale)
    draws = discrete_laplace(exact, DRAWS, kit.source(f"laplace {exact}"))
    accepts_the_truth_and_nothing_else(draws, laplace_pmf, float(exact))


@pytest.mark.parametrize("exponent", [12, 50, pytest.param(30, marks=full)])
def test_a_wide_discrete_laplace_has_its_law_and_its_low_bits(exponent: int) -> None:
    draws = discrete_laplace(Fraction(2**exponent), DRAWS, kit.source(f"laplace wide {exponent}"))
    residues_are_uniform(draws)
    if exponent > 12:
        continuous_limit_is(draws, stats.laplace, 2.0**exponent)


# --- Pólya shares ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scale", "parts"), [("1/2", 2), ("3", 1), ("3", 3), ("30", 2), ("30", 10), ("100", 5)])
def test_polya_shares_add_up_to_discrete_laplace(scale: str, parts: int) -> None:
    exact, source = Fraction(scale), kit.source(f"polya {scale} {parts}")
    total = sum(polya_share(exact, parts, DRAWS, source) for _ in range(parts))
    accepts_the_truth_and_nothing_else(np.asarray(total), laplace_pmf, float(exact))


@pytest.mark.parametrize(("scale", "parts"), [("1/2", 3), ("5", 2), ("40", 3), ("40", 100)])
def test_a_single_polya_share_has_its_law(scale: str, parts: int) -> None:
    exact = Fraction(scale)
    draws = polya_share(exact, parts, 4 * DRAWS, kit.source(f"polya single {scale} {parts}"))
    assert fits(draws, polya_pmf(parts), float(exact)) > kit.ALPHA
    if parts < 100:  # with many parts nearly all shares are zero
        for factor in WRONG:
            assert fits(draws, polya_pmf(parts), float(exact) * factor) < kit.ALPHA
        assert fits(draws, polya_pmf(parts + 1), float(exact)) < kit.ALPHA


@pytest.mark.parametrize(
    ("exponent", "parts"), [(50, 2), *(pytest.param(*one, marks=full) for one in ((20, 4), (40, 3)))]
)
def test_polya_shares_of_wide_noise_add_up_too(exponent: int, parts: int) -> None:
    source = kit.source(f"polya wide {exponent} {parts}")
    total = np.asarray(sum(polya_share(Fraction(2**exponent), parts, DRAWS, source) for _ in range(parts)))
    residues_are_uniform(total)
    continuous_limit_is(total, stats.laplace, 2.0**exponent)


# --- Skellam ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", ["1/10", "1", "7/2", "100", "5000"])
def test_skellam_has_its_law(mean: str) -> None:
    exact = Fraction(mean)
    draws = skellam(exact, DRAWS, kit.source(f"skellam {exact}"))
    accepts_the_truth_and_nothing_else(draws, skellam_pmf, float(exact))
    half = 30
    reference = stats.skellam.pmf(np.arange(-half, half + 1), float(exact), float(exact))
    ours = skellam_pmf(np.arange(-half, half + 1.0), float(exact))
    assert np.allclose(ours, reference, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
    "mean", [Fraction(10**15, 3), *(pytest.param(Fraction(2**power), marks=full) for power in (30, 50, 52))]
)
def test_skellam_of_a_large_mean_has_its_spread_and_its_low_bits(mean: Fraction) -> None:
    draws = skellam(mean, DRAWS, kit.source(f"skellam wide {mean}"))
    residues_are_uniform(draws)
    continuous_limit_is(draws, stats.norm, float(2 * mean) ** 0.5)
    variance = np.mean((draws / float(2 * mean) ** 0.5) ** 2)
    assert abs(variance - 1) < stats.norm.isf(kit.ALPHA / 2) * np.sqrt(2 / DRAWS)


# --- uniform integers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [2, 3, 6, 64, 65, 1000])
def test_uniform_integers_are_uniform(bound: int) -> None:
    draws = uniform_below(bound, DRAWS, kit.source(f"uniform {bound}"))
    assert kit.chi_square_p(np.bincount(draws, minlength=bound), np.ones(bound)) > kit.ALPHA
    skewed = np.where(np.arange(bound) < bound // 2, 0.9, 1.0)
    assert kit.chi_square_p(np.bincount(draws, minlength=bound), skewed) < kit.ALPHA


def test_uniform_integers_reach_the_largest_bound() -> None:
    draws = uniform_below(2**63, DRAWS, kit.source("uniform largest"))
    assert draws.min() >= 0
    assert stats.kstest(draws / 2.0**63, "uniform").pvalue > kit.ALPHA
    third = 2**62 + 2**61  # three quarters of the words are kept
    draws = uniform_below(third, DRAWS, kit.source("uniform three quarters"))
    assert draws.max() < third
    assert stats.kstest(draws / float(third), "uniform").pvalue > kit.ALPHA


@given(st.integers(1, 2**63), st.integers(0, 50))
def test_uniform_integers_stay_below_the_bound(bound: int, count: int) -> None:
    draws = uniform_below(bound, count, SystemRandomness())
    assert len(draws) == count
    assert all(0 <= value < bound for value in draws.tolist())


# --- shapes, streams, refusals ---------------------------------------------------------------------------------------

SAMPLERS = {
    "gaussian": lambda size, source: discrete_gaussian(Fraction(9), size, source),
    "laplace": lambda size, source: discrete_laplace(Fraction(5, 2), size, source),
    "polya": lambda size, source: polya_share(Fraction(5), 3, size, source),
    "skellam": lambda size, source: skellam(Fraction(5), size, source),
    "uniform": lambda size, source: uniform_below(5, size, source),
}


@pytest.mark.every(3)
@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("size", [0, 1, 3, 32_767, 32_768, 32_769, 70_001, (), (0, 4), (2, 3), (5, 1, 7)])
def test_any_size_and_shape_can_be_asked_for(name: str, size: int | tuple[int, ...]) -> None:
    draws = SAMPLERS[name](size, KeyedRandomness(KEY))
    assert draws.shape == (size if isinstance(size, tuple) else (size,))
    assert draws.dtype == (np.bool_ if name.startswith("bernoulli") else np.int64)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_key_determines_the_draws_and_nothing_else_does(name: str) -> None:
    first = SAMPLERS[name](1000, KeyedRandomness(KEY))
    assert np.array_equal(first, SAMPLERS[name](1000, KeyedRandomness(KEY)))
    assert not np.array_equal(first, SAMPLERS[name](1000, KeyedRandomness(KEY[::-1])))
    assert not np.array_equal(first, SAMPLERS[name](1000, SystemRandomness()))
    source = KeyedRandomness(KEY)
    SAMPLERS[name](1000, source)
    assert not np.array_equal(first, SAMPLERS[name](1000, source))


def test_neighbouring_draws_are_independent() -> None:
    draws = discrete_laplace(Fraction(2), 400_001, kit.source("serial"))
    clipped = np.clip(draws, -3, 3) + 3
    table = np.zeros((7, 7))
    np.add.at(table, (clipped[:-1:2], clipped[1::2]), 1)
    assert stats.chi2_contingency(table).pvalue > kit.ALPHA


NOT_RATIONAL = [1.0, 0.5, float("nan"), float("inf"), "1", None, True, np.float64(2), 1j]
NOT_POSITIVE = [0, -1, Fraction(-1, 3), Fraction(0)]


@pytest.mark.parametrize("value", NOT_RATIONAL + NOT_POSITIVE)
def test_a_scale_that_is_not_a_positive_rational_is_refused(value: object) -> None:
    source = SystemRandomness()
    for call in (
        lambda: discrete_gaussian(value, 1, source),
        lambda: discrete_laplace(value, 1, source),
        lambda: polya_share(value, 2, 1, source),
        lambda: skellam(value, 1, source),
        lambda: uniform_below(value, 1, source),
    ):
        with pytest.raises(BadInput):
            call()


def test_what_would_not_be_exact_is_refused() -> None:
    source = SystemRandomness()
    for call in (
        lambda: discrete_gaussian(2**100 + 1, 1, source),
        lambda: discrete_laplace(2**50 + Fraction(1, 2), 1, source),
        lambda: polya_share(2**50 + 1, 2, 1, source),
        lambda: skellam(2**52 + Fraction(1, 10**9), 1, source),
        lambda: uniform_below(2**63 + 1, 1, source),
        lambda: uniform_below(Fraction(5, 2), 1, source),
    ):
        with pytest.raises(BadInput):
            call()


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("size", [-1, 1.5, True, None, "3", (2, -1), (2, 1.0), [2, 3], float("nan")])
def test_a_bad_size_is_refused(name: str, size: object) -> None:
    with pytest.raises(BadInput):
        SAMPLERS[name](size, SystemRandomness())


@given(st.lists(st.integers(0, 40_000), min_size=1, max_size=6), st.sampled_from([Fraction(1, 3), Fraction(10**12)]))
def test_draws_in_pieces_are_those_of_one_draw_however_they_are_cut(sizes, variance):
    whole = discrete_gaussian(variance, sum(sizes), KeyedRandomness(KEY))
    pieces = list(gaussian_pieces(variance, sizes, KeyedRandomness(KEY)))
    assert [len(piece) for piece in pieces] == sizes
    assert np.array_equal(np.concatenate(pieces), whole)
