"""ε towards one client, when ε towards the server is given: Tables 1 and 2 by several readings of the paper's formulas."""

import math
from collections.abc import Callable

from benchmarks.spca.closed_forms import (
    analytic_gaussian_epsilon,
    analytic_gaussian_sigma,
    zcdp_epsilon,
    zcdp_rho,
)
from scipy.optimize import brentq

DELTA = 1e-5
ORDERS = [*range(2, 257), 320, 384, 512, 768, 1_024, 2_048]


def epsilon_of(curve: Callable[[int], float]) -> float:
    """The (ε, δ) that a Rényi curve at whole orders gives (docs/proofs/neighbours-and-losses.md)."""
    extra = lambda a: (math.log(1 / DELTA) + (a - 1) * math.log1p(-1 / a) - math.log(a)) / (a - 1)  # noqa: E731
    return min(curve(order) + extra(order) for order in ORDERS)


def skellam(order: int, l1: float, l2: float, mean: float) -> float:
    leading = order * l2**2 / (4 * mean)
    return leading + min(((2 * order - 1) * l2**2 + 6 * l1) / (16 * mean**2), 3 * l1 / (4 * mean))


def mean_for(epsilon: float, l1: float, l2: float) -> float:
    """μ at which the server's ε is the given one."""
    excess = lambda log: epsilon_of(lambda a: skellam(a, l1, l2, math.exp(log))) - epsilon  # noqa: E731
    return math.exp(brentq(excess, math.log(l2**2) - 10, math.log(l2**2) + 15))


def client_figures(epsilon: float, n: int, gamma: int) -> dict[str, float]:
    """ε towards one client when n clients hold a column each, by several readings."""
    square = gamma**2 + n
    paper = mean_for(epsilon, math.sqrt(n) * square, square)
    bound = (gamma + math.sqrt(n)) ** 2
    proved = mean_for(epsilon, (n + 1) / 2 * bound, bound)
    eq9 = lambda a: (  # noqa: E731
        a * n**2 * square**2 / ((n - 1) ** 2 * paper)
        + min(
            n**3 / (n - 1) ** 2 * ((2 * a - 1) * square**2 + 3 * math.sqrt(n) * square) / (4 * paper**2),
            3 * n * math.sqrt(n) * square / (2 * (n - 1) * paper),
        )
    )
    return {
        "equation_9": epsilon_of(eq9),
        "two_clients_doubled": epsilon_of(lambda a: skellam(a, 2 * math.sqrt(n) * square, 2 * square, paper / 2)),
        "corrected": epsilon_of(
            lambda a: skellam(a, (n / math.sqrt(2) + 1) * bound, math.sqrt(2) * bound, proved * (n - 1) / n)
        ),
        "server_with_a_proof": epsilon_of(lambda a: skellam(a, (n + 1) / 2 * bound, bound, paper)),
    }


def tables(published: dict) -> dict:
    server = published["server"]
    result: dict = {
        "server": server,
        "baseline": [analytic_gaussian_epsilon(analytic_gaussian_sigma(e, DELTA) / 2, DELTA) for e in server],
        "ours_zero_out": server,
        "ours_replace": [zcdp_epsilon(2 * zcdp_rho(e, DELTA), DELTA) for e in server],
    }
    for name in ("table_1", "table_2"):
        n = published[name]["columns"]
        result[name] = {str(gamma): [client_figures(e, n, gamma) for e in server] for gamma in (4, 6, 12)}
    return result
