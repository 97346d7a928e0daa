"""The ledger against another accountant: never below it, and where the conversion is good, within a tenth of it."""

from fractions import Fraction

import pytest

from colonnade.audit import distribution_epsilon
from colonnade.privacy.accounting import NANO, Loss, Price, total
from colonnade.privacy.calibration import ledger_rho

GRID = 1e-4


def losses(pure: list[int], rhos: list[Fraction]) -> list[Loss]:
    return [*(Loss.of_pure(nano) for nano in pure), *(Loss.of_zcdp(rho) for rho in rhos)]


def second_opinion(pure: list[int], rhos: list[Fraction], delta: float) -> float:
    found = distribution_epsilon(losses(pure, rhos), delta)
    assert found is not None
    return found


def compare(pure: list[int], rhos: list[Fraction], delta: float, most: float) -> None:
    ours, theirs = total(losses(pure, rhos)).epsilon(delta), second_opinion(pure, rhos, delta)
    assert theirs <= ours + GRID * (len(pure) + 1)
    assert ours <= theirs * (1 + most)


def part(epsilon: float, delta: float, parts: int) -> Fraction:
    return ledger_rho(Price.of(epsilon, delta)) / parts


@pytest.mark.parametrize("delta", [1e-8, 1e-6, 1e-5])
@pytest.mark.parametrize(("epsilon", "count"), [(0.5, 1), (1.0, 3), (3.0, 10)])
def test_gaussian_releases_are_within_a_tenth(epsilon: float, count: int, delta: float) -> None:
    compare([], [part(epsilon, delta, count)] * count, delta, 0.10)


@pytest.mark.parametrize("delta", [1e-8, 1e-6, 1e-5])
@pytest.mark.parametrize(("epsilon", "count"), [(1.0, 1), (0.5, 4), (0.1, 30), (0.05, 100), (0.02, 1000)])
def test_pure_releases_are_within_a_tenth(epsilon: float, count: int, delta: float) -> None:
    compare([round(epsilon * NANO)] * count, [], delta, 0.10)


@pytest.mark.parametrize("delta", [1e-8, 1e-6, 1e-5])
@pytest.mark.parametrize(("epsilon", "count", "gaussians"), [(0.1, 5, 3), (0.5, 2, 2), (0.2, 20, 5), (1.0, 1, 1)])
def test_mixtures_are_within_a_tenth(epsilon: float, count: int, gaussians: int, delta: float) -> None:
    compare([round(epsilon * NANO)] * count, [part(1.0, delta, 2)] * gaussians, delta, 0.10)


@pytest.mark.parametrize(("epsilon", "delta", "most"), [(0.1, 1e-5, 0.12), (0.1, 1e-4, 0.16), (1.0, 1e-4, 0.12)])
def test_where_the_conversion_is_worse_it_is_as_bad_as_stated(epsilon: float, delta: float, most: float) -> None:
    compare([], [part(epsilon, delta, 1)], delta, most)


def test_the_second_opinion_agrees_with_closed_forms() -> None:
    """The analytic Gaussian [Balle–Wang 2018] at σ = 2; optimal composition [Kairouz–Oh–Viswanath 2015] of 20 times 0.1."""
    assert second_opinion([], [Fraction(1, 8)], 1e-5) == pytest.approx(1.993091404, abs=2 * GRID)
    assert second_opinion([10**8] * 20, [], 1e-6) == pytest.approx(1.788609117, abs=21 * GRID)
    assert second_opinion([10**9], [Fraction(1, 32)], 1e-6) > 1
