"""Plain implementations of published theorems that the library's own bounds are compared with."""

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln, log_expit, logsumexp

from colonnade.privacy.calibration import between_whole_orders


def zcdp_epsilon(rho: float, delta: float) -> float:
    """ε at this δ of ρ-zCDP, every real order allowed [Canonne–Kamath–Steinke 2020]."""
    log_inverse = -math.log(delta)
    best = brentq(lambda more: rho * more**2 + math.log1p(more) - log_inverse, 1e-12, 1 / delta, xtol=1e-14, rtol=1e-14)
    order = 1 + best
    return rho * order + (log_inverse + best * math.log(best / order) - math.log(order)) / best


def zcdp_rho(epsilon: float, delta: float) -> float:
    """The largest ρ whose `zcdp_epsilon` at this δ is ε."""
    return math.exp(brentq(lambda log: zcdp_epsilon(math.exp(log), delta) - epsilon, -60, 20, xtol=1e-13, rtol=1e-14))


def kov_delta(each: float, count: int, epsilon: float) -> float:
    """δ at this ε of ``count`` pure mechanisms of ε ``each``, optimally composed [Kairouz–Oh–Viswanath 2015]."""
    losing = np.arange(count // 2 + 1)
    gap = (count - 2 * losing) * each - epsilon
    losing, gap = losing[gap > 0], gap[gap > 0]
    log_choose = gammaln(count + 1) - gammaln(losing + 1) - gammaln(count - losing + 1)
    log_weight = log_choose + losing * log_expit(-each) + (count - losing) * log_expit(each)
    return float(np.sum(np.exp(log_weight) * -np.expm1(-gap)))


def kov_epsilon_each(epsilon: float, delta: float, count: int) -> float:
    """The largest ε′ such that ``count`` pure mechanisms of ε′ compose to (ε, δ)."""
    return brentq(lambda each: kov_delta(each, count, epsilon) - delta, epsilon / count, epsilon, xtol=1e-15)


def subsampled_rdp(order: float, rate: float, curve: Callable[[int], float]) -> float:
    """The Rényi bound of a mechanism on a secret Poisson sample [Zhu–Wang 2019, Theorem 5], term by term."""
    return between_whole_orders(lambda alpha: _sampled_at(alpha, rate, curve), order)


def _sampled_at(alpha: int, rate: float, curve: Callable[[int], float]) -> float:
    log_out, log_in = math.log1p(-rate), math.log(rate)
    logs = [(alpha - 1) * log_out + math.log1p((alpha - 1) * rate)]
    for drawn in range(2, alpha + 1):
        choose = math.lgamma(alpha + 1) - math.lgamma(drawn + 1) - math.lgamma(alpha - drawn + 1)
        factor = math.log(3) if drawn > 2 else 0.0
        logs.append(factor + choose + (alpha - drawn) * log_out + drawn * log_in + (drawn - 1) * curve(drawn))
    return min(max(float(logsumexp(logs)), 0.0) / (alpha - 1), curve(alpha))
