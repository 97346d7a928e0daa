"""A second computation of a ledger's total: privacy loss distributions, composed by dp-accounting.

The ledger adds Rényi curves and pure ε. A privacy loss distribution describes the same rows more finely: a pure row by its
worst case, binary randomised response; a zCDP row by the Gaussian of the same ρ. Its ε is at most the ledger's, and rarely more
than a tenth below. A larger one would mean that the ledger shows less than was released. At δ = 0, and for rows of any other
curve, there is no second opinion. Measured (tests/audit/test_accountant.py):

* δ ≤ 1e-5 and ε ≥ 0.5: the ledger is at most 10 % above, for Gaussian releases, pure ones and mixtures. It is equal if the plain
  sum of pure losses is the best bound.
* larger δ or smaller ε: up to 16 % above (Gaussian, ε = 0.1 at δ = 1e-4). The conversion from Rényi loses there.

dp-accounting's event for randomised response is not used: under its zero-out relation (``REPLACE_SPECIAL``) it measures the
distance to an even coin, 0.62 for ε = 1, which does not stand for an arbitrary pure mechanism.
"""

import math
from collections import Counter
from collections.abc import Sequence
from functools import reduce
from typing import Any

from colonnade.privacy.accounting import NANO, ORDERS, Loss, total

SLACK = 0.01
"""How far the distribution's ε may lie above the ledger's, as a share of it, because of its grid."""

_FINEST = 1e-4
_LARGEST_GRID = 1_000_000


def distribution_epsilon(losses: Sequence[Loss], delta: float) -> float | None:
    """Return ε at this δ by privacy loss distributions, or ``None`` if they do not apply.

    Examples
    --------
    >>> round(distribution_epsilon([Loss.of_pure(500_000_000)] * 2, 1e-6), 3)
    1.0
    """
    if not losses or delta == 0:
        return None
    kinds = Counter(_kind(loss) for loss in losses)
    if ("other", 0.0) in kinds:
        return None
    interval = _interval(losses, delta)
    parts = [_distribution(kind, interval).self_compose(times) for kind, times in kinds.items()]
    return float(reduce(lambda left, right: left.compose(right), parts).get_epsilon_for_delta(delta))


def _kind(loss: Loss) -> tuple[str, float]:
    if loss.pure is not None:
        return "pure", loss.pure / NANO
    rho = loss.renyi[-1] / (float(ORDERS[-1]) * NANO)
    straight = all(
        abs(entry - rho * float(order) * NANO) <= 1 + 1e-12 * entry
        for order, entry in zip(ORDERS, loss.renyi, strict=True)
    )
    return ("zcdp", rho) if straight else ("other", 0.0)


def _distribution(kind: tuple[str, float], interval: float) -> Any:
    from dp_accounting.pld import common, privacy_loss_distribution

    name, value = kind
    if name == "pure":
        guarantee = common.DifferentialPrivacyParameters(value, 0.0)
        return privacy_loss_distribution.from_privacy_parameters(guarantee, value_discretization_interval=interval)
    return privacy_loss_distribution.from_gaussian_mechanism(
        1 / math.sqrt(2 * value), value_discretization_interval=interval
    )


def _interval(losses: Sequence[Loss], delta: float) -> float:
    """Return the spacing of the grid: rounding each row up adds less than half of `SLACK`, and the size is bounded."""
    wanted = total(losses).epsilon(delta) * SLACK / (2 * len(losses))
    widest = sum((loss.pure or 0) / NANO for loss in losses)
    return max(min(_FINEST, wanted), 2 * widest / _LARGEST_GRID, 1e-9)
