"""Bugs in noise and in where it comes from."""

from functools import partial

import numpy as np
import pytest

from colonnade.privacy import randomness, samplers
from colonnade.privacy.accounting import Price
from colonnade.privacy.laws import response
from colonnade.privacy.laws.additive import DiscreteGaussian, DiscreteLaplace
from colonnade.privacy.laws.response import Channel, RandomizedResponse
from tests.audit import test_distinguish as audits
from tests.privacy import test_mechanisms as laws
from tests.privacy import test_randomness as sources
from tests.privacy import test_samplers as draws
from tests.seeded.bug import Bug, replaced, wrapped


def _half_the_laplace_noise(honest, self, nonprivate, source):
    weak = DiscreteLaplace(Price.of(1.0), 1)
    weak.scale = self.scale / 2
    return honest(weak, nonprivate, source)


def _half_the_gaussian_noise(honest, self, nonprivate, source):
    weak = DiscreteGaussian(Price.of(1.0, 1e-5), 1)
    weak.sigma_squared = self.sigma_squared / 4
    return honest(weak, nonprivate, source)


def _truth_too_often(honest, channel):
    return honest(Channel(channel.kind, channel.categories, channel.size, 2 * channel.nano))


def _noise_around_zero_only(honest, self, nonprivate, source):
    return np.where(nonprivate == 0, honest(self, nonprivate, source), nonprivate)


def _null_reports_the_first_category(honest, self, nonprivate, source):
    return honest(self, np.where(nonprivate < 0, 0, nonprivate), source)


def _ties_are_won(honest, self, word, source):
    return word <= self._threshold.floor


def _one_seed_of_two(count):
    seed = int.from_bytes(np.random.bytes(4), "big") % 2
    return np.random.default_rng(seed).integers(256, size=count, dtype=np.uint8)


def _too_few_bits(bound, size, source):
    return ((source.words(size) >> np.uint64(54)) % np.uint64(bound)).astype(np.int64)


def _rounded_normal(honest, sigma_squared, size, source):
    one, two = (source.words(2 * size).astype(np.float64) / 2**64).reshape(2, -1)
    normal = np.sqrt(-2 * np.log(one + 1e-18)) * np.cos(2 * np.pi * two)
    return np.rint(normal * float(sigma_squared) ** 0.5).astype(np.int64)


def _law_of_narrow_noise():
    """The sampler's own test, on the sampler as its module has it now."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draws, "discrete_gaussian", samplers.discrete_gaussian)
        draws.test_the_discrete_gaussian_has_its_law("1/2")


_ADDITIVE = laws.test_additive_noise_has_its_law_and_not_that_of_another_scale
_REPORTS = laws.test_reports_have_their_law_and_not_that_of_another_price
_AUDIT = audits.test_the_truth_stands_and_half_the_noise_is_caught

BUGS = [
    Bug(
        "half the Laplace noise",
        wrapped(DiscreteLaplace, "release", _half_the_laplace_noise),
        partial(_ADDITIVE, laws.ADDITIVE[0]),
    ),
    Bug(
        "half the Gaussian noise",
        wrapped(DiscreteGaussian, "release", _half_the_gaussian_noise),
        partial(_ADDITIVE, laws.ADDITIVE[2]),
    ),
    Bug(
        "half the Laplace noise, seen by the audit",
        wrapped(DiscreteLaplace, "release", _half_the_laplace_noise),
        partial(_AUDIT, "laplace 0.5"),
        full=True,
    ),
    Bug(
        "half the Gaussian noise, seen by the audit",
        wrapped(DiscreteGaussian, "release", _half_the_gaussian_noise),
        partial(_AUDIT, "gaussian 1"),
        full=True,
    ),
    Bug(
        "the truth is reported at twice the price",
        wrapped(response, "_threshold", _truth_too_often),
        partial(_REPORTS, laws.CHANNELS[1], 0),
    ),
    Bug(
        "the truth is reported at twice the price, seen by the audit",
        wrapped(response, "_threshold", _truth_too_often),
        partial(_AUDIT, "response 0.5"),
        full=True,
    ),
    Bug(
        "noise that depends on the value",
        wrapped(DiscreteLaplace, "release", _noise_around_zero_only),
        partial(laws.test_noise_does_not_depend_on_the_value, laws.ADDITIVE[0]),
    ),
    Bug(
        "a null record reports the first category",
        wrapped(RandomizedResponse, "release", _null_reports_the_first_category),
        partial(_REPORTS, laws.CHANNELS[1], -1),
    ),
    Bug(
        "a tie with a probability is always won",
        wrapped(RandomizedResponse, "_below", _ties_are_won),
        laws.test_a_tie_is_resolved_by_further_bits_not_by_convention,
    ),
    Bug(
        "a rounded float instead of an exact draw",
        wrapped(samplers, "discrete_gaussian", _rounded_normal),
        _law_of_narrow_noise,
    ),
    Bug(
        "a generator with a seed of one bit",
        replaced(randomness, "_fresh", _one_seed_of_two),
        sources.test_the_system_never_repeats_itself,
    ),
    Bug(
        "uniform integers by the remainder of ten bits",
        replaced(draws, "uniform_below", _too_few_bits),
        partial(draws.test_uniform_integers_are_uniform, 1000),
    ),
]
