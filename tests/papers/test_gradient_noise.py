"""How much a person moves a gradient step, how much noise covers it, and what it costs each observer."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import binom

from colonnade.audit import distinguish
from colonnade.errors import BadInput
from colonnade.papers.laws import GradientNoise, participation_bound
from colonnade.privacy import samplers
from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import budget_loss
from tests import kit

PRICE = Price.of(1.0, 1e-5)


def noise_of(
    scores: dict[str, int] | None = None, rows: dict[str, int] | None = None, **changes: object
) -> GradientNoise:
    facts: dict[str, object] = {
        "columns": 12,
        "steps": 500,
        "rate": 0.01,
        "participations": participation_bound(0.01, 500),
        "secret": True,
        "price": PRICE,
        "unit": "person",
        "collusion": 1,
    }
    return GradientNoise(
        scores or {"a": 30_000, "b": 9_000, "c": 9_000},
        rows or {"a": 5_000, "b": 900, "c": 700},
        **{**facts, **changes},
    )


def _part(draw, bound: int, score: int) -> tuple[np.ndarray, int]:
    """One party's integers of a row within its bound, and a score within its."""
    row = np.array(draw(st.lists(st.integers(-40, 40), min_size=2, max_size=2)))
    while row @ row > bound:
        row = np.trunc(row * 0.9).astype(int)
    return row, draw(st.integers(-score, score))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_no_row_and_no_score_moves_a_step_by_more_than_the_bound(data) -> None:
    rows, scores = {"a": 2_000, "b": 300}, {"a": 70, "b": 20}
    noise = noise_of(scores, rows)
    parts = {party: _part(data.draw, rows[party], scores[party]) for party in rows}
    row, score = np.concatenate([part[0] for part in parts.values()]), sum(part[1] for part in parts.values())
    moved = score * row
    assert moved @ moved <= noise.moved()
    for party, places in (("a", slice(0, 2)), ("b", slice(2, 4))):
        without = row.copy()
        without[places] = 0
        difference = moved - (score - parts[party][1]) * without
        assert difference @ difference <= noise.moved(party) <= noise.moved()


def test_the_bound_on_a_whole_record_is_reached() -> None:
    noise = noise_of({"a": 7, "b": 5}, {"a": 9, "b": 16})
    row = np.array([3, 4])
    assert (12 * row) @ (12 * row) == noise.moved()


@pytest.mark.parametrize("unit", ["person", "party"])
@pytest.mark.parametrize("secret", [True, False])
def test_the_price_is_kept_and_nearly_used_up(unit: str, secret: bool) -> None:
    noise = noise_of(unit=unit, secret=secret, participations=noise_of().participations if secret else 5)
    losses = [noise.loss()] if unit == "person" else [noise.loss(party=party) for party in noise.row_bounds]
    worst = max(loss.epsilon(1e-5) for loss in losses)
    assert 0.999 < worst <= 1.0


def test_one_party_costs_less_than_the_whole_record_and_parts_cover_the_whole() -> None:
    noise = noise_of()
    assert all(noise.moved(party) < noise.moved() for party in noise.row_bounds)
    assert sum(noise.moved(party) for party in noise.row_bounds) >= noise.moved()


def test_whoever_knows_the_batches_is_accounted_by_participations_without_amplification() -> None:
    noise = noise_of()
    shares = len(noise.parties) - 1
    rho = Fraction(noise.moved()) / (2 * shares * noise.share) * noise.participations
    peer = noise.loss(colluders=1)
    assert peer is not None
    assert math.isclose(peer.epsilon(1e-5), budget_loss(rho).epsilon(1e-5), rel_tol=1e-3)
    assert peer.epsilon(1e-5) > 5 * noise.loss().epsilon(1e-5)
    assert noise.loss(colluders=3) is None


def test_balanced_batches_promise_the_same_to_the_coordinator_with_colluders() -> None:
    noise = noise_of(secret=False, participations=5)
    assert noise.loss() == noise.loss(colluders=1)
    assert noise.loss(colluders=1).epsilon(1e-5) <= 1.0 < noise.loss(colluders=2).epsilon(1e-5)


def test_participations_are_bounded_as_tightly_as_chance_allows() -> None:
    for rate, steps in ((0.001, 5_000), (0.01, 500), (0.3, 40)):
        bound = participation_bound(rate, steps)
        assert binom.sf(bound, steps, rate) <= 2.0**-64 < binom.sf(bound - 1, steps, rate)
    assert participation_bound(1.0, 50) == 50


def test_what_is_not_a_bound_is_refused() -> None:
    for changes in ({"scores": {"a": 0, "b": 1}, "rows": {"a": 1, "b": 1}}, {"collusion": 3}, {"participations": 501}):
        with pytest.raises(BadInput):
            noise_of(**changes)


# The law of the opened noise, and an audit of one step


def _opened(noise: GradientNoise, samples: int, name: str, factor: Fraction = Fraction(1)) -> np.ndarray:
    randomness = kit.source(name)
    return sum(samplers.discrete_gaussian(noise.share * factor, samples, randomness) for _ in range(len(noise.parties)))


@pytest.mark.parametrize(("factor", "fits"), [(1.0, True), (0.9, False), (1.1, False)])
def test_all_shares_together_have_the_declared_deviation(factor: float, fits: bool) -> None:
    """The sum of P shares against the normal law with the declared variance; it is a rounding of it far below the deviation."""
    noise = noise_of()
    drawn = _opened(noise, 20_000, "gradient noise", Fraction(factor).limit_denominator(100) ** 2)
    p = stats.kstest(drawn / math.sqrt(noise.opened_variance), "norm").pvalue
    spread = stats.chi2.cdf((drawn.astype(float) ** 2).sum() / noise.opened_variance, len(drawn))
    assert bool(min(p, spread, 1 - spread) > kit.ALPHA) is fits


def test_an_audit_of_one_step_convicts_half_the_noise_and_not_the_truth() -> None:
    """One step in which the person takes part for certain, as a peer sees it but for its own share: the worst coordinate."""
    noise = noise_of(
        {"a": 60, "b": 60},
        {"a": 4, "b": 4},
        steps=1,
        rate=1.0,
        participations=1,
        secret=False,
        price=Price.of(3.0, 1e-2),
    )
    moved = math.isqrt(noise.moved())
    share = noise.share

    def outputs(shift: int, scale: Fraction, name: str) -> np.ndarray:
        return shift + samplers.discrete_gaussian(share * scale, 100_000, kit.source(name))

    claimed = noise.loss(colluders=1).epsilon(1e-2)
    honest = distinguish(outputs(0, Fraction(1), "a0"), outputs(moved, Fraction(1), "a1"), delta=1e-2, alpha=kit.ALPHA)
    mutant = distinguish(
        outputs(0, Fraction(1, 4), "b0"), outputs(moved, Fraction(1, 4), "b1"), delta=1e-2, alpha=kit.ALPHA
    )
    assert honest.epsilon <= claimed < mutant.epsilon
