"""No rounding decides a draw: the tables, the error bounds and the fallbacks behind the samplers.

The reference here is mpmath's own log-gamma at 400 bits, which the code under test does not use.
"""

import itertools
from collections.abc import Iterator
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from colonnade.privacy import samplers as _envelope
from colonnade.privacy._exact import Threshold, is_below, of_rational, of_real, ratio
from colonnade.privacy.randomness import KeyedRandomness, Randomness
from colonnade.privacy.samplers import (
    ACCURACY,
    SLACK,
    Distribution,
    GaussianDistribution,
    LaplaceDistribution,
    NegativeBinomialDistribution,
    PoissonDistribution,
    Table,
    build_table,
    draw,
)
from tests import kit

FULL = 2**64
KEY = b"a key of thirty-two bytes length"
CERTAINTY = 1e9  # an error bound so wide that float64 never decides

LAWS: list[Distribution] = [
    GaussianDistribution(Fraction(1, 7)),
    GaussianDistribution(Fraction(3)),
    GaussianDistribution(Fraction(10**9, 7)),
    GaussianDistribution(Fraction(2**100)),
    LaplaceDistribution(Fraction(1, 3)),
    LaplaceDistribution(Fraction(100, 3)),
    LaplaceDistribution(Fraction(2**50)),
    NegativeBinomialDistribution(Fraction(1, 2), 1),
    NegativeBinomialDistribution(Fraction(7, 2), 3),
    NegativeBinomialDistribution(Fraction(10**5, 3), 2),
    NegativeBinomialDistribution(Fraction(2**40), 3),
    NegativeBinomialDistribution(Fraction(2**50), 10**6),
    PoissonDistribution(Fraction(1, 5)),
    PoissonDistribution(Fraction(30)),
    PoissonDistribution(Fraction(8191, 2)),
    PoissonDistribution(Fraction(4096)),
    PoissonDistribution(Fraction(10**6, 7)),
    PoissonDistribution(Fraction(2**52) - Fraction(1, 3)),
    PoissonDistribution(Fraction(2**52)),
]


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    with mpmath.workprec(400):
        yield


def rational(value: Fraction | int) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def reference_log(law: Distribution, k: int) -> mpmath.mpf:
    """ln f from the definition of the law."""
    match law:
        case GaussianDistribution():
            return -rational(k * k / (2 * law.sigma_squared))
        case LaplaceDistribution():
            return -rational(abs(k) / law.scale)
        case NegativeBinomialDistribution():
            shape = mpmath.mpf(1) / law.parts
            weight = mpmath.loggamma(k + shape) - mpmath.loggamma(shape) - mpmath.loggamma(k + 1)
            return weight - rational(k / law.scale)
        case PoissonDistribution():
            mode, log_mean = law.mode, mpmath.log(rational(law.mean))
            return (k - mode) * log_mean - mpmath.loggamma(k + 1) + mpmath.loggamma(mode + 1)
    raise AssertionError


def ends(table: Table) -> list[tuple[int, int, int]]:
    """(cell, nearest value to the mode, farthest) for a spread of cells, with the first and last ones of each kind."""
    cells = sorted(
        {*range(0, table.cells, 17), *range(3), table.cells - 1, *np.argsort(table.start[: table.cells])[:2]}
    )
    low = table.start[: table.cells].tolist()
    spans = [
        (cell, low[cell], low[cell] + (1 << int(table.exponent[cell])) - 1) for cell in cells if cell < table.cells
    ]
    return [(cell, a, b) if a >= table.law.mode else (cell, b, a) for cell, a, b in spans]


# --- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.every(3)
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_alias_table_picks_each_cell_with_its_weight_exactly(law: Distribution) -> None:
    table = build_table(law)
    capacity = FULL >> table.column_bits
    mass = [0] * len(table.own)
    for column, (own, other) in enumerate(zip(table.own.tolist(), table.other.tolist(), strict=True)):
        assert 0 <= own <= capacity
        mass[column] += own
        mass[other] += capacity - own
    assert mass[: len(table.weight)] == list(table.weight)
    assert sum(table.weight) == FULL
    assert not any(mass[len(table.weight) :])


@pytest.mark.every(3)
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_cells_and_tails_cover_the_support_once(law: Distribution) -> None:
    table = build_table(law)
    start, width = table.start.tolist(), [1 << exponent for exponent in table.exponent.tolist()]
    order = sorted(range(table.cells), key=start.__getitem__)
    for left, right in itertools.pairwise(order):
        assert start[left] + width[left] == start[right]
    assert start[table.cells] == start[order[-1]] + width[order[-1]]
    if len(start) == table.cells + 3:
        assert start[table.cells + 1] + width[table.cells + 1] == start[order[0]]
    else:
        assert start[order[0]] == 0


@pytest.mark.every(3)
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_weights_are_upper_bounds_and_shortcuts_are_lower_bounds(law: Distribution) -> None:
    table = build_table(law)
    for cell, near, far in ends(table):
        largest = mpmath.exp(reference_log(law, near)) * rational(table.exact_factor(cell))
        smallest = mpmath.exp(reference_log(law, far)) * rational(table.exact_factor(cell))
        assert largest <= 1
        assert int(table.quick[cell]) <= smallest * FULL
        assert table.factor[cell] == pytest.approx(float(table.exact_factor(cell)), rel=1e-15)
    assert not table.quick[table.cells :].any()


@pytest.mark.every(3)
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_tail_weights_are_upper_bounds_for_every_block(law: Distribution) -> None:
    table = build_table(law)
    step = 1 << law.halving
    for cell in range(table.cells, len(table.weight) - 1):
        edge = int(table.start[cell]) if cell == table.cells else int(table.start[cell]) + step - 1
        for block in (0, 1, 2, 10):
            k = edge + (step if cell == table.cells else -step) * block
            if k >= 0:
                assert mpmath.exp(reference_log(law, k)) * rational(table.exact_factor(cell, block)) <= 1


@pytest.mark.every(3)
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_a_step_of_the_stated_width_halves_the_law(law: Distribution) -> None:
    step = 1 << law.halving
    for distance in (0, 1, step // 3, step, 7 * step):
        k = law.mode + distance
        assert reference_log(law, k + step) - reference_log(law, k) <= -mpmath.log(2)
        if law.mode - distance - step >= 0:
            k = law.mode - distance
            assert reference_log(law, k - step) - reference_log(law, k) <= -mpmath.log(2)


@pytest.mark.every(3)
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_float_logarithm_keeps_its_error_bound(law: Distribution) -> None:
    table = build_table(law)
    generator = kit.generator(f"accuracy {law}")
    cells = generator.integers(0, table.cells, 60)
    inside = [int(table.start[c] + generator.integers(0, 1 << int(table.exponent[c]))) for c in cells]
    values = sorted({*inside, *(near for _, near, _ in ends(table)), *(far for _, _, far in ends(table)), law.mode})
    errors = [
        abs(mpmath.mpf(float(got)) - reference_log(law, k))
        for k, got in zip(values, law.approximate(np.array(values)), strict=True)
    ]
    assert max(errors) <= ACCURACY
    assert SLACK >= 8 * ACCURACY


@pytest.mark.every(3)
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_exact_logarithm_is_enclosed_tightly(law: Distribution) -> None:
    table = build_table(law)
    for cell, near, far in ends(table)[::5]:
        for k in (near, far):
            factor = table.exact_factor(cell)
            enclose = of_real(lambda c, k=k, f=factor: c.exp(law.enclose_log(c, k)) * ratio(c, f))
            truth = mpmath.exp(reference_log(law, k)) * rational(factor)
            for bits in (64, 192):
                low, high = enclose(bits)
                assert low <= truth * 2**bits <= high
                assert high - low <= 4


# --- draws -----------------------------------------------------------------------------------------------------------


@pytest.mark.every(3)
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_exact_arithmetic_alone_gives_the_very_same_draws(law: Distribution) -> None:
    """Float64 and the integer shortcut settle nearly everything, and settle it as exact arithmetic does."""
    quick, exact = KeyedRandomness(KEY), KeyedRandomness(KEY)
    assert np.array_equal(draw(law, 120, quick), draw(law, 120, exact, doubt=CERTAINTY))
    assert quick.bytes(8) == exact.bytes(8)


def slow_draws(table: Table, trials: int, randomness: Randomness) -> list[int]:
    """The trials as the module's docstring describes them, one at a time, in whole numbers and 400-bit arithmetic."""
    law, kept = table.law, []
    for pick, place, uniform in randomness.words(3 * trials).reshape(-1, 3).tolist():
        cell = cell_of(table, pick)
        if cell == len(table.weight) - 1:
            continue
        assert cell < table.cells, "a tail, met once in 2^60 trials"
        k = int(table.start[cell]) + place % (1 << int(table.exponent[cell]))
        negative = law.symmetric and place >> 63
        chance = mpmath.exp(reference_log(law, k)) * rational(table.exact_factor(cell)) * FULL
        assert abs(chance - uniform) > 1, "a tie, met once in 2^63 trials"
        if uniform < chance and not (negative and k == 0):
            kept.append(-k if negative else k)
    return kept


def cell_of(table: Table, pick: int) -> int:
    capacity = FULL >> table.column_bits
    column, rest = divmod(pick, capacity)
    return column if rest < int(table.own[column]) else int(table.other[column])


@pytest.mark.every(3)
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_a_slow_reference_fed_the_same_words_gives_the_same_draws(law: Distribution) -> None:
    count = 400
    expected = slow_draws(build_table(law), count + count // 16 + 16, KeyedRandomness(KEY))[:count]
    assert len(expected) > count // 3
    assert draw(law, count, KeyedRandomness(KEY)).tolist()[: len(expected)] == expected


@pytest.mark.parametrize(
    ("law", "reach", "count"),
    [
        (GaussianDistribution(Fraction(25)), 1.0, 2_000),
        (LaplaceDistribution(Fraction(7, 2)), 1.0, 2_000),
        (NegativeBinomialDistribution(Fraction(9), 2), 0.5, 1_500),
        (PoissonDistribution(Fraction(40)), 0.5, 1_500),
        pytest.param(GaussianDistribution(Fraction(1, 3)), 0.5, 8_000, marks=pytest.mark.full),
        pytest.param(PoissonDistribution(Fraction(5000)), 1.0, 2_000, marks=pytest.mark.full),
    ],
)
def test_tails_have_the_law_too(law: Distribution, reach: float, count: int) -> None:
    """With cells over a part of the mass only, the rest comes from the tails and their blocks."""
    table = build_table(law, reach)
    assert sum(table.weight[table.cells : -1]) / FULL > 0.1
    draws = draw(law, count, kit.source(f"tails {law}"), reach=reach)
    assert np.mean(np.abs(draws) >= table.start[table.cells]) > 0.02
    low, high = int(draws.min()), int(draws.max())
    values = range(min(low, -high) if law.symmetric else 0, high + 1)
    weights = [float(mpmath.exp(reference_log(law, abs(k)))) for k in values]
    observed = np.bincount(draws - values[0], minlength=len(weights))
    assert kit.chi_square_p(observed, np.array(weights)) > kit.ALPHA
    flattened = np.sqrt(weights)  # a law with wider tails
    assert kit.chi_square_p(observed, flattened) < kit.ALPHA


def test_a_block_of_a_tail_is_chosen_by_fair_coins() -> None:
    source = kit.source("coins")
    heads = np.bincount([_envelope._heads(source) for _ in range(20_000)])
    assert kit.chi_square_p(heads, 0.5 ** np.arange(1, len(heads) + 1)) > kit.ALPHA
    assert _envelope._heads(Script([0, 0, 8])) == 131


# --- comparing a uniform real with a real ----------------------------------------------------------------------------


class Script:
    """Words that are known in advance; it is an error to ask for more."""

    deterministic = True

    def __init__(self, words: list[int]) -> None:
        self.left = list(words)

    def words(self, count: int) -> np.ndarray:
        taken, self.left = self.left[:count], self.left[count:]
        assert len(taken) == count, "more bits were drawn than the answer needs"
        return np.array(taken, dtype=np.uint64)

    def bytes(self, count: int) -> bytes:
        assert count == 8
        return int(self.words(1)[0]).to_bytes(8, "little")


@given(st.fractions(0, 1), st.integers(0, FULL - 1), st.lists(st.integers(0, FULL - 1), min_size=6, max_size=6))
def test_a_comparison_is_right_whatever_the_bits(p: Fraction, first: int, rest: list[int]) -> None:
    uniform = Fraction(sum(word << 64 * (6 - index) for index, word in enumerate([first, *rest])), 2 ** (64 * 7))
    near = [first, int(p * FULL) % FULL]
    for word in near:
        script = Script(rest)
        answer = is_below(word, of_rational(p), script)
        assert answer == (uniform + Fraction(word - first, FULL) < p)


@pytest.mark.parametrize("exponent", ["1/1000000000", "1/3", "1", "40", "46", "700"])
def test_a_threshold_holds_the_first_64_bits_of_its_probability(exponent: str) -> None:
    x = Fraction(exponent)
    for others in (1, 4, 1000):
        with mpmath.workprec(4000):
            keep = 1 / (1 + others * mpmath.exp(-rational(x)))
            assert Threshold.logistic(x, others).floor == int(mpmath.floor(keep * FULL))


@pytest.mark.parametrize("exponent", ["1/3", "5/2", "41"])
def test_a_tie_is_resolved_with_the_probability_that_is_left(exponent: str) -> None:
    x, count = Fraction(exponent), 1_000
    threshold, source = Threshold.logistic(-x), kit.source(f"tie {exponent}")
    left = float(FULL / (1 + mpmath.exp(rational(x))) - threshold.floor)
    yes = sum(threshold.resolve(source) for _ in range(count))
    assert stats.binomtest(yes, count, left).pvalue > kit.ALPHA
