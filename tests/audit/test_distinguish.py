"""The distinguishing audit: it convicts half the noise, it does not convict the truth, and its confidence is honest."""

import numpy as np
import pytest
from scipy import stats

from colonnade.audit import audit, distinguish
from colonnade.privacy.accounting import Price
from colonnade.privacy.laws import Mechanism
from colonnade.privacy.laws.additive import DiscreteGaussian, DiscreteLaplace, GaussianCounts
from colonnade.privacy.laws.response import Channel, RandomizedResponse, best_channel
from tests import kit


class Mutant:
    """Another mechanism's output under this one's claim."""

    name = "mutant"

    def __init__(self, release: Mechanism, claim: Mechanism) -> None:
        self.loss, self.release = claim.loss, release.release


def laplace(epsilon: float) -> tuple[Mechanism, Mechanism]:
    mechanism, weak = DiscreteLaplace(Price.of(epsilon), 1), DiscreteLaplace(Price.of(epsilon), 1)
    weak.scale = weak.scale / 2
    return mechanism, Mutant(weak, mechanism)


def gaussian(epsilon: float) -> tuple[Mechanism, Mechanism]:
    mechanism, weak = DiscreteGaussian(Price.of(epsilon, 1e-5), 1), DiscreteGaussian(Price.of(epsilon, 1e-5), 1)
    weak.sigma_squared = weak.sigma_squared / 4
    return mechanism, Mutant(weak, mechanism)


def counts(epsilon: float) -> tuple[Mechanism, Mechanism]:
    mechanism, weak = GaussianCounts(Price.of(epsilon, 1e-5), 1), GaussianCounts(Price.of(epsilon, 1e-5), 1)
    weak.sigma_squared = weak.sigma_squared / 4
    return mechanism, Mutant(weak, mechanism)


def response(kind: str, epsilon: float) -> tuple[Mechanism, Mechanism]:
    channel = best_channel(5, Price.of(epsilon)) if kind == "best" else Channel(kind, 5, 1, round(epsilon * 1e9))
    mechanism = RandomizedResponse(channel)
    weak = RandomizedResponse(Channel(channel.kind, 5, channel.size, 2 * channel.nano))
    return mechanism, Mutant(weak, mechanism)


CASES = {
    "laplace 0.5": lambda: laplace(0.5),
    "laplace 2": lambda: laplace(2.0),
    "gaussian 1": lambda: gaussian(1.0),
    "gaussian 4": lambda: gaussian(4.0),
    "counts 4": lambda: counts(4.0),
    "response 0.5": lambda: response("best", 0.5),
    "response 2": lambda: response("best", 2.0),
    "oue 1": lambda: response("oue", 1.0),
}


@pytest.mark.parametrize("case", CASES)
def test_the_truth_stands_and_half_the_noise_is_caught(case: str) -> None:
    mechanism, mutant = CASES[case]()
    randomness = kit.source(f"audit {case}")
    honest = audit(mechanism, 0, 1, randomness=randomness, samples=100_000, alpha=kit.ALPHA)
    weak = audit(mutant, 0, 1, randomness=randomness, samples=100_000, alpha=kit.ALPHA)
    assert not honest.caught, str(honest)
    assert weak.caught, str(weak)
    assert honest.claimed == mechanism.loss.epsilon(honest.delta)


@pytest.mark.full
@pytest.mark.parametrize("case", CASES)
def test_the_truth_stands_at_a_million_samples(case: str) -> None:
    mechanism, _ = CASES[case]()
    finding = audit(mechanism, 0, 1, randomness=kit.source(f"large {case}"), samples=1_000_000, alpha=kit.ALPHA)
    assert not finding.caught, str(finding)


@pytest.mark.full
@pytest.mark.parametrize("pair", [(0, 1), (1, 0), (4, 2), (0, -1), (-1, 3)])
@pytest.mark.parametrize("epsilon", [0.25, 1.0, 3.0])
def test_every_pair_of_categories_stands(pair: tuple[int, int], epsilon: float) -> None:
    for kind in ("best", "grr", "oue"):
        mechanism, _ = response(kind, epsilon)
        name = f"pair {pair} {epsilon} {kind}"
        assert not audit(mechanism, *pair, randomness=kit.source(name), samples=100_000, alpha=kit.ALPHA).caught


def test_the_bound_for_a_pure_mechanism_is_close_to_the_truth() -> None:
    finding = audit(DiscreteLaplace(Price.of(1.0), 1), 0, 1, randomness=kit.source("close"), samples=100_000)
    assert 0.85 < finding.epsilon < 1.0


def test_a_vector_whose_entries_share_the_sensitivity_is_audited_whole() -> None:
    mechanism = DiscreteLaplace(Price.of(1.0), 1)  # claims to hide one person in one entry, not in two
    finding = audit(mechanism, [0, 0], [1, 1], randomness=kit.source("vector"), samples=100_000, alpha=kit.ALPHA)
    assert finding.caught
    assert finding.epsilon < 2


def test_a_null_record_is_protected_as_well_as_any_category() -> None:
    mechanism, _ = response("best", 1.0)
    finding = audit(mechanism, 0, -1, randomness=kit.source("null"), samples=100_000, alpha=kit.ALPHA)
    assert not finding.caught


def test_wide_reports_are_told_apart_by_a_statistic() -> None:
    honest = RandomizedResponse(best_channel(64, Price.of(1.0)))
    weak = Mutant(RandomizedResponse(best_channel(64, Price.of(2.0))), honest)

    def two_bits(channel: Channel, reports: np.ndarray) -> np.ndarray:
        return channel.supports(reports)[:, :2]

    for mechanism, channel, caught in (
        (honest, honest.channel, False),
        (weak, best_channel(64, Price.of(2.0)), True),
    ):
        finding = audit(
            mechanism,
            0,
            1,
            randomness=kit.source("wide"),
            samples=100_000,
            alpha=kit.ALPHA,
            statistic=lambda reports, channel=channel: two_bits(channel, reports),
        )
        assert finding.caught is caught, str(finding)


def test_outputs_that_never_repeat_are_told_apart_by_their_size() -> None:
    generator = kit.generator("continuous")
    first, second = generator.normal(0, 1, 100_000), generator.normal(3, 1, 100_000)
    finding = distinguish(first, second)
    assert 3 < finding.epsilon < 12
    assert distinguish(first, generator.permutation(first)).epsilon == 0


def test_the_confidence_is_honest() -> None:
    """Two outcomes with exactly the claimed ratio: conviction at level α happens about α of the time at most."""
    generator = kit.generator("confidence")
    runs, alpha = 400, 0.1
    p = np.e / (1 + np.e)
    caught = 0
    for _ in range(runs):
        first, second = generator.random(2000) < p, generator.random(2000) < 1 - p
        caught += distinguish(first, second, alpha=alpha).epsilon > 1
    assert stats.binom.sf(caught - 1, runs, alpha) > kit.ALPHA


def test_choosing_among_many_outcomes_does_not_convict() -> None:
    """Two hundred outcomes and no difference: an audit that chose and counted on the same samples would convict."""
    generator = kit.generator("many")
    caught = 0
    for _ in range(200):
        first, second = generator.integers(0, 200, (2, 20_000))
        caught += distinguish(first, second, alpha=0.05).epsilon > 0
    assert stats.binom.sf(caught - 1, 200, 0.05) > kit.ALPHA


def test_delta_is_taken_off_the_frequent_side() -> None:
    first, second = np.array([0] * 9000 + [1] * 1000), np.array([0] * 10_000)
    kit.generator("delta").shuffle(first)
    assert distinguish(first, second).epsilon > 1
    assert distinguish(first, second, delta=0.2).epsilon == 0


def test_outcomes_that_only_one_side_has_prove_much() -> None:
    finding = distinguish(np.zeros(100_000), np.ones(100_000), alpha=1e-6)
    assert finding.epsilon > 7
