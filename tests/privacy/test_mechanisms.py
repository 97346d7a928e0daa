"""Every mechanism: the law it claims and no other, the loss it claims, and nothing that depends on data but its output."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from colonnade.errors import BadInput
from colonnade.privacy.accounting import Loss, Price
from colonnade.privacy.laws import Mechanism
from colonnade.privacy.laws.additive import DiscreteGaussian, DiscreteLaplace, GaussianCounts
from colonnade.privacy.laws.response import Channel, RandomizedResponse
from colonnade.privacy.randomness import KeyedRandomness
from colonnade.privacy.samplers import ExactSampler
from tests import kit
from tests.privacy.report_laws import report_law, tally

HALF, ONE, TWO = 500_000_000, 10**9, 2 * 10**9
SAMPLES = 200_000

CHANNELS = [
    Channel("grr", 2, 1, ONE),
    Channel("grr", 5, 1, HALF),
    Channel("subset", 5, 2, HALF),
    Channel("subset", 10, 3, ONE),
    Channel("oue", 5, 1, ONE),
]
ADDITIVE = [DiscreteLaplace(Price.of(0.5), 1), DiscreteLaplace(Price.of(2.0), Fraction(7, 3))]
ADDITIVE += [DiscreteGaussian(Price.of(1.0, 1e-5), 1), DiscreteGaussian(Price.of(8.0, 1e-5), 4)]
ADDITIVE += [GaussianCounts(Price.of(8.0, 1e-5), 2)]


class Scripted:
    """Hands out chosen words first, then those of a key."""

    deterministic = True

    def __init__(self, words: list[int]) -> None:
        self.script = list(words)
        self.rest = KeyedRandomness(b"s" * 32)

    def words(self, count: int) -> np.ndarray:
        head, self.script = self.script[:count], self.script[count:]
        return np.concatenate([np.array(head, dtype=np.uint64), self.rest.words(count - len(head))])

    def bytes(self, count: int) -> bytes:
        return self.rest.bytes(count)


class Counting:
    """A key's bits, and how many were taken."""

    deterministic = True

    def __init__(self) -> None:
        self.rest, self.taken = KeyedRandomness(b"c" * 32), []

    def words(self, count: int) -> np.ndarray:
        self.taken.append(count)
        return self.rest.words(count)

    def bytes(self, count: int) -> bytes:
        self.taken.append(-count)
        return self.rest.bytes(count)


def plausible(frequencies: np.ndarray | float, probabilities: np.ndarray | float, trials: int) -> bool:
    """Whether observed frequencies are compatible with probabilities, all of them together."""
    z = (np.asarray(frequencies) - probabilities) / np.sqrt(np.multiply(probabilities, 1 - probabilities) / trials)
    return 2 * stats.norm.sf(np.abs(z).max()) * z.size > kit.ALPHA


# Laws -------------------------------------------------------------------------------------------------


def additive_law(mechanism: DiscreteLaplace | DiscreteGaussian, factor: float, values: np.ndarray) -> np.ndarray:
    if isinstance(mechanism, DiscreteLaplace):
        weights = np.exp(-np.abs(values) / (float(mechanism.scale) * factor))
    else:
        weights = np.exp(-(values**2) / (2 * float(mechanism.sigma_squared) * factor**2))
    return weights / weights.sum()


@pytest.mark.parametrize("mechanism", ADDITIVE, ids=str)
def test_additive_noise_has_its_law_and_not_that_of_another_scale(
    mechanism: DiscreteLaplace | DiscreteGaussian,
) -> None:
    value = 1_000_000_007
    noise = mechanism.release(np.full(SAMPLES, value), kit.sampler(f"additive {mechanism}")) - value
    noise = (noise * getattr(mechanism, "height", 1)).astype(np.int64)
    values = np.arange(-400, 401)
    observed = np.bincount(np.clip(noise, -400, 400) + 400, minlength=801)
    p = {factor: kit.chi_square_p(observed, additive_law(mechanism, factor, values)) for factor in (0.9, 1.0, 1.1)}
    assert p[1.0] > kit.ALPHA
    assert p[0.9] < kit.ALPHA
    assert p[1.1] < kit.ALPHA


@pytest.mark.every(3)
@pytest.mark.parametrize("channel", CHANNELS, ids=str)
@pytest.mark.parametrize("category", [0, 1, -1])
def test_reports_have_their_law_and_not_that_of_another_price(channel: Channel, category: int) -> None:
    mechanism = RandomizedResponse(channel)
    reports = mechanism.release(np.full(SAMPLES, category), kit.sampler(f"reports {channel} {category}"))
    p = {}
    for factor in (0.9, 1.0, 1.1):
        alphabet, law = report_law(channel, factor)
        expected = law.mean(axis=0) if category < 0 else law[category]
        p[factor] = kit.chi_square_p(tally(reports, alphabet), expected)
    assert p[1.0] > kit.ALPHA
    if category >= 0:  # a null record is nearly uniform at any price
        assert p[0.9] < kit.ALPHA
        assert p[1.1] < kit.ALPHA


@pytest.mark.parametrize("channel", [Channel("subset", 40, 12, ONE), Channel("subset", 17, 2, HALF)], ids=str)
@pytest.mark.parametrize("category", [0, 16, -1])
def test_wide_subsets_are_even_in_all_pairs(channel: Channel, category: int) -> None:
    """Sets too many to tabulate: the truth's frequency, all others' frequencies, and all pairs'."""
    supports = channel.supports(
        RandomizedResponse(channel).release(np.full(60_000, category), kit.sampler(f"wide {channel} {category}"))
    ).astype(float)
    K, k = channel.categories, channel.size
    q = channel.q if category >= 0 else k / K
    expected = np.full(K, q)
    if category >= 0:
        expected[category] = channel.p
    assert plausible(supports.mean(axis=0), expected, len(supports))
    others = [member for member in range(K) if member != category]
    pairs = (supports.T @ supports / len(supports))[np.ix_(others, others)][np.triu_indices(len(others), 1)]
    within = channel.p * (k - 1) * (k - 2) + (1 - channel.p) * k * (k - 1)
    both = within / ((K - 1) * (K - 2)) if category >= 0 else k * (k - 1) / (K * (K - 1))
    assert plausible(pairs, both, len(supports))


# The rare branches: ties and words left over ----------------------------------------------------------


@pytest.mark.parametrize("channel", [*CHANNELS, Channel("subset", 20, 3, ONE), Channel("grr", 300, 1, ONE)], ids=str)
def test_ties_and_left_over_words_still_give_reports(channel: Channel) -> None:
    mechanism = RandomizedResponse(channel)
    floor = mechanism._threshold.floor
    for category in (0, channel.categories - 1, -1):
        for word in (floor, floor - 1, floor + 1, 2**64 - 1, 0):
            reports = mechanism.release(np.array([category]), ExactSampler(Scripted([word] * mechanism._words)))
            channel.supports(reports)  # refuses whatever is no report


@pytest.mark.parametrize("channel", [CHANNELS[1], CHANNELS[2], CHANNELS[4], Channel("subset", 20, 3, ONE)], ids=str)
def test_undecided_people_are_drawn_from_the_right_law(channel: Channel) -> None:
    """Every first word of every person is left over: the slow path must have the law that it conditions on."""
    mechanism = RandomizedResponse(channel)
    randomness = kit.sampler(f"undecided {channel}")
    null = [
        mechanism._decide(-1, np.full(mechanism._words, 2**64 - 1, dtype=np.uint64), randomness) for _ in range(4000)
    ]
    supports = channel.supports(np.array(null)).mean(axis=0)
    if channel.kind == "oue":  # all words above the threshold: no coin comes up
        assert not supports.any()
    else:
        assert plausible(supports, channel.size / channel.categories, 4000)


def test_a_tie_is_resolved_by_further_bits_not_by_convention() -> None:
    channel = Channel("grr", 2, 1, ONE)
    mechanism = RandomizedResponse(channel)
    floor = mechanism._threshold.floor
    fraction = _fractional_part(channel)
    randomness = kit.sampler("ties")
    kept = sum(mechanism._below(floor, randomness) for _ in range(4000)) / 4000
    assert plausible(kept, fraction, 4000)
    assert mechanism._below(floor - 1, randomness)
    assert not mechanism._below(floor + 1, randomness)


def _fractional_part(channel: Channel) -> float:
    import mpmath

    with mpmath.workdps(60):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(channel.nano) / 10**9))
        return float(mpmath.frac(p * mpmath.mpf(2) ** 64))


# Data decides the output and nothing else -------------------------------------------------------------


@pytest.mark.parametrize("channel", [*CHANNELS, Channel("subset", 20, 3, ONE)], ids=str)
def test_the_bits_taken_do_not_depend_on_the_data(channel: Channel) -> None:
    generator = kit.generator("bits")
    taken, released = [], []
    first = generator.integers(-1, channel.categories, 70_000)
    second = first.copy()
    second[12_345] = (second[12_345] + 1) % channel.categories
    for codes in (first, second):
        source = Counting()
        released.append(RandomizedResponse(channel).release(codes, ExactSampler(source)))
        taken.append(source.taken)
    assert taken[0] == taken[1]
    assert set(np.flatnonzero((released[0] != released[1]).any(axis=1))) <= {12_345}


@pytest.mark.parametrize("mechanism", ADDITIVE, ids=str)
def test_noise_does_not_depend_on_the_value(mechanism: DiscreteLaplace | DiscreteGaussian) -> None:
    values = kit.generator("values").integers(-(10**15), 10**15, (50, 4))
    noise = [
        mechanism.release(v, ExactSampler(KeyedRandomness(b"n" * 32))) - v for v in (values, np.zeros_like(values))
    ]
    np.testing.assert_array_equal(*noise)


@given(st.integers(-(2**63), 2**63 - 1).filter(lambda code: not 0 <= code < 5))
def test_whatever_is_no_category_is_a_null_record(code: int) -> None:
    for channel in (Channel("grr", 5, 1, ONE), Channel("subset", 5, 2, HALF), Channel("oue", 5, 1, ONE)):
        mechanism = RandomizedResponse(channel)
        released = [mechanism.release(np.array([c]), ExactSampler(KeyedRandomness(b"m" * 32))) for c in (code, -1)]
        np.testing.assert_array_equal(*released)


@pytest.mark.parametrize("bad", [np.array([0.0]), np.array([[0]]), np.array(["a"]), np.array([True])])
def test_codes_of_another_kind_are_refused(bad: np.ndarray) -> None:
    with pytest.raises(BadInput):
        RandomizedResponse(Channel("grr", 5, 1, ONE)).release(bad, kit.sampler("bad"))


@pytest.mark.parametrize("mechanism", ADDITIVE, ids=str)
def test_noise_is_added_to_whole_numbers_only(mechanism: Mechanism) -> None:
    for bad in (np.array([0.5]), np.array([float("nan")]), np.array([True])):
        with pytest.raises(BadInput):
            mechanism.release(bad, kit.sampler("bad"))


# Losses -----------------------------------------------------------------------------------------------


@given(st.integers(1, 10**13), st.integers(1, 10**6))
def test_a_laplace_release_costs_its_price(nano: int, sensitivity: int) -> None:
    price = Price(nano, 0.0)
    if sensitivity / price.exact > 2**50:
        with pytest.raises(BadInput):
            DiscreteLaplace(price, sensitivity)
        return
    mechanism = DiscreteLaplace(price, sensitivity)
    assert mechanism.loss == Loss.of_pure(nano)
    assert sensitivity / mechanism.scale == price.exact


@given(st.integers(20_000_000, 10**11), st.floats(-10, -2), st.integers(1, 2**70))
def test_a_gaussian_release_costs_at_most_its_price_and_hardly_less(nano: int, power: float, squared: int) -> None:
    price = Price(nano, 10**power)
    mechanism = DiscreteGaussian(price, squared)
    assert mechanism.loss.renyi == Loss.of_zcdp(Fraction(squared) / (2 * mechanism.sigma_squared)).renyi
    assert mechanism.loss.fits(price.nano, price.delta)
    assert mechanism.loss.epsilon(price.delta) > price.epsilon * (0.999 if mechanism.variance > 4 else 0.9)


@pytest.mark.parametrize("channel", CHANNELS, ids=str)
def test_a_report_costs_the_logarithm_of_its_largest_ratio(channel: Channel) -> None:
    _, law = report_law(channel)
    ratio = math.log((law.max(axis=0) / law.min(axis=0)).max())
    assert RandomizedResponse(channel).loss.epsilon(0.0) == pytest.approx(ratio, rel=1e-12)


def test_noise_too_large_to_draw_is_refused_before_anything_is_paid() -> None:
    with pytest.raises(BadInput, match="too large"):
        DiscreteLaplace(Price(1, 0.0), 2**40)
    with pytest.raises(BadInput, match="too large"):
        DiscreteGaussian(Price.of(1.0, 1e-5), 2**100)


def test_known_answers_of_the_noise() -> None:
    assert f"{DiscreteLaplace(Price.of(0.5), 1).variance:.9f}" == "7.835396178"
    sigma = math.sqrt(DiscreteGaussian(Price.of(1.0, 1e-5), 1).variance)
    assert 3.7306 < sigma < 3.745  # a continuous Gaussian takes 3.7306; Rényi curves would take 4.04513
