"""How much a person moves a round of Newton steps, how much noise covers it, and what it costs each observer."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from colonnade.audit import distinguish
from colonnade.errors import BadInput
from colonnade.privacy import samplers
from colonnade.privacy.accounting import Loss, Price
from colonnade.privacy.calibration import budget_loss, ledger_rho
from colonnade.privacy.laws.newton import NewtonNoise
from tests import kit

CURVATURE = 1
"""The round that opens the curvature in these runs."""

PRICE = Price.of(1.0, 1e-5)
PARTS = (8, 16, 8, 8, 8, 32)
SLOPE = 0
"""A round that opens a gradient."""


def noise_of(rows: dict[str, int] | None = None, **changes: object) -> NewtonNoise:
    facts: dict[str, object] = {
        "columns": 12,
        "residual": 1_010,
        "residual_change": 1_020,
        "weight": 255,
        "weight_change": 260,
        "parts": PARTS,
        "price": PRICE,
        "unit": "person",
        "collusion": 1,
    }
    return NewtonNoise(rows or {"a": 5_000, "b": 900, "c": 700}, **{**facts, **changes})


def _row(draw, bound: int) -> np.ndarray:
    """One party's integers of a row within its bound, often at it."""
    row = np.array(draw(st.lists(st.integers(-60, 60), min_size=2, max_size=2)))
    while row @ row > bound:
        row = np.trunc(row * 0.95).astype(int)
    return row


def _triangle(weight: int, row: np.ndarray) -> np.ndarray:
    """What the curvature releases of a person, in units of the deviation off the diagonal."""
    first, second = np.triu_indices(len(row))
    return weight * row[first] * row[second] / np.where(first == second, math.sqrt(2), 1.0)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_no_record_moves_a_round_by_more_than_the_bound(data) -> None:
    """A whole record, one party's part, and the honest parties' part towards a coalition that knows its own columns."""
    bounds, places = {"a": 2_000, "b": 300, "c": 900}, {"a": slice(0, 2), "b": slice(2, 4), "c": slice(4, 6)}
    noise = noise_of(bounds, residual=101, residual_change=103, weight=26, weight_change=27)
    row = np.concatenate([_row(data.draw, bound) for bound in bounds.values()])
    residual, weight = data.draw(st.integers(-101, 101)), data.draw(st.integers(-26, 26))
    later, lighter = (
        data.draw(st.integers(residual - 103, residual + 103)),
        data.draw(st.integers(weight - 27, weight + 27)),
    )
    gradient, curvature = residual * row, _triangle(weight, row)
    assert gradient @ gradient <= noise.moved_by(SLOPE)
    assert curvature @ curvature <= float(noise.moved_by(CURVATURE)) * (1 + 1e-12)
    for party, own in places.items():
        without, only = row.copy(), np.zeros_like(row)
        without[own], only[own] = 0, row[own]
        for kept, limit in ((without, {"party": party}), (only, {"colluders": 1})):
            steps, bent = gradient - later * kept, curvature - _triangle(lighter, kept)
            assert steps @ steps <= noise.moved_by(SLOPE, **limit)
            assert bent @ bent <= float(noise.moved_by(CURVATURE, **limit)) * (1 + 1e-12)


def test_the_bounds_are_reached() -> None:
    noise = noise_of({"a": 9, "b": 16}, residual=12, residual_change=12, weight=3, weight_change=3, columns=2)
    row = np.array([3, 4])
    assert (12 * row) @ (12 * row) == noise.moved_by(SLOPE)
    assert math.isclose(float(_triangle(3, row) @ _triangle(3, row)), float(noise.moved_by(CURVATURE)), rel_tol=1e-12)
    moved = np.concatenate([12 * row[:1], (12 + 0) * row[1:]])  # the coalition's column moves by D, the other by M
    assert moved @ moved == noise.moved_by(SLOPE, colluders=1)


@pytest.mark.parametrize("unit", ["person", "party"])
@pytest.mark.parametrize("collusion", [0, 1, 2])
def test_the_price_is_kept_and_nearly_used_up(unit: str, collusion: int) -> None:
    noise = noise_of(unit=unit, collusion=collusion)
    losses = [noise.loss()] if unit == "person" else [noise.loss(party=party) for party in noise.row_bounds]
    worst = max(loss.epsilon(1e-5) for loss in losses)
    assert 0.999 < worst <= 1.0


def test_every_round_costs_its_part_of_the_price() -> None:
    noise = noise_of()
    whole = float(ledger_rho(PRICE))
    for number, part in enumerate(PARTS):
        cost = float(noise.moved_by(number, colluders=1) / (2 * noise.shares[number] * noise.honest))
        assert math.isclose(cost, whole * part / sum(PARTS), rel_tol=1e-6)
    alone = [Loss.of_zcdp(Fraction(whole * part / sum(PARTS))).epsilon(1e-5) for part in PARTS]
    assert max(alone) < 1.0 < sum(alone)


def test_a_known_answer_of_the_noise() -> None:
    """One step at ρ of (1, 10⁻⁵), c = 0, rows of length 5, residuals up to 7: σ = 35/√(2ρ·4/5), over two shares."""
    noise = noise_of(
        {"a": 9, "b": 16}, residual=7, residual_change=7, weight=2, weight_change=2, parts=(4, 1), collusion=0
    )
    rho = 1 / (2 * 3.730632**2)  # of a continuous Gaussian; this small noise is a little above it
    assert math.isclose(noise.variance(SLOPE), 35**2 / (2 * rho * 4 / 5), rel_tol=2e-4)
    assert math.isclose(noise.variance(CURVATURE), (2 * 25) ** 2 / 2 / (2 * rho / 5), rel_tol=1e-4)


def test_colluders_beyond_those_covered_cost_more_and_all_of_them_leave_nothing() -> None:
    noise = noise_of()
    assert noise.loss() == noise.loss(colluders=1)
    assert noise.loss(colluders=1).epsilon(1e-5) <= 1.0 < noise.loss(colluders=2).epsilon(1e-5)
    assert noise.loss(colluders=3) is None


def test_a_replaced_record_costs_four_times_as_much() -> None:
    noise = noise_of()
    whole = sum(float(noise.moved_by(number, colluders=1) / (2 * noise.shares[number] * 2)) for number in range(6))
    assert noise.replaced_loss() == noise.replaced_loss(colluders=1)
    wanted = budget_loss(Fraction(4 * whole)).epsilon(1e-5)
    assert math.isclose(noise.replaced_loss().epsilon(1e-5), wanted, rel_tol=1e-3)
    assert noise.replaced_loss(colluders=3) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"residual": 0},
        {"residual_change": 1_009},
        {"weight_change": 254},
        {"parts": (1,)},
        {"parts": (1, 0)},
        {"collusion": 3},
        {"rows": {"a": 0, "b": 1}},
        *({"curvatures": rounds} for rounds in ((), (1, 1), (2, 1), (-1,), (99,))),
    ],
)
def test_what_is_not_a_bound_is_refused(changes: dict) -> None:
    with pytest.raises(BadInput):
        noise_of(**changes)


# The law of the opened noise, and an audit of one round


@pytest.mark.parametrize(("factor", "fits"), [(1.0, True), (0.9, False), (1.1, False)])
@pytest.mark.parametrize("number", [CURVATURE, 5])
def test_all_shares_together_have_the_declared_deviation(number: int, factor: float, fits: bool) -> None:
    noise = noise_of(columns=40)
    rounds = 30 if number == CURVATURE else 600
    drawn = sum(
        np.concatenate(
            [noise.draw_round(number, kit.sampler(f"newton {number} {party} {one}")) for one in range(rounds)]
        )
        for party in noise.row_bounds
    ).astype(float)
    variance = np.full(noise.entries_of(number), noise.variance(number))
    if number == CURVATURE:
        rows, places = np.triu_indices(40)
        variance[rows == places] *= 2
    scaled = drawn / np.sqrt(np.tile(variance, rounds)) / factor
    p = stats.kstest(scaled, "norm").pvalue
    below = stats.chi2.cdf((scaled**2).sum(), len(scaled))
    assert bool(min(p, below, 1 - below) > kit.ALPHA) is fits


def test_an_audit_of_the_worst_coalition_convicts_half_the_noise_and_not_the_truth() -> None:
    """A step as the coordinator sees it with the party of the longest rows, whose share it takes off.

    The person's record goes at the honest party. On the coalition's own column the residual moves by D, on the other by M; the
    outputs are projected on that direction.
    """
    noise = noise_of(
        {"a": 16, "b": 9},
        columns=2,
        residual=60,
        residual_change=63,
        parts=(1_000_000, 1),
        price=Price.of(3.0, 1e-2),
    )
    moved = np.array([63 * 4, 60 * 3])
    assert moved @ moved == noise.moved_by(SLOPE, colluders=1)
    direction = moved / math.sqrt(moved @ moved)

    def outputs(present: int, scale: Fraction, name: str) -> np.ndarray:
        source = kit.source(name)
        drawn = [samplers.discrete_gaussian(noise.shares[SLOPE] * scale, 100_000, source) for _ in range(2)]
        return (present * moved[:, None] + np.array(drawn)).T @ direction

    claimed = noise.loss(colluders=1).epsilon(1e-2)
    honest = distinguish(outputs(0, Fraction(1), "n0"), outputs(1, Fraction(1), "n1"), delta=1e-2, alpha=kit.ALPHA)
    quarter = Fraction(1, 4)
    mutant = distinguish(outputs(0, quarter, "m0"), outputs(1, quarter, "m1"), delta=1e-2, alpha=kit.ALPHA)
    assert honest.epsilon <= claimed < mutant.epsilon
