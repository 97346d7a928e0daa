"""A second opinion on composition: Google's dp-accounting, by privacy loss distributions, under zero-out.

The ledger adds Rényi curves; privacy loss distributions compose tightly, for continuous Gaussian noise and for pure
mechanisms. So the ledger's ε should never be below theirs, up to their discretisation, and not far above. Measured:

* δ ≤ 1e-5 and ε ≥ 0.5: at most 10 % above, for Gaussian releases, pure ones and mixtures; nothing where the plain sum
  of pure losses is the best bound;
* larger δ or smaller ε: more, up to 16 % (Gaussian, ε = 0.1 at δ = 1e-4). The conversion from Rényi loses there.

It says nothing about noise whose loss is known as a curve only (Skellam, sub-sampled steps). dp-accounting's event for
randomised response is not used: under its zero-out relation (``REPLACE_SPECIAL``) it measures the distance to an even
coin, 0.62 for ε = 1, which does not stand for an arbitrary pure mechanism.
"""

import math
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

from colonnade.errors import BadInput
from colonnade.privacy.price import NANO

__all__ = ["second_opinion"]


def second_opinion(
    *, pure: Iterable[int] = (), rhos: Iterable[Fraction] = (), delta: float, interval: float = 1e-4
) -> float:
    """Return the ε of a composition at this δ by privacy loss distributions.

    Parameters
    ----------
    pure
        The ε of each pure release, in nano-units.
    rhos
        The ρ of each Gaussian release, σ = Δ₂/√(2ρ).
    delta
        Where ε is wanted.
    interval
        The grid of losses; their figure may exceed the true one by this much a release.

    Examples
    --------
    >>> round(second_opinion(pure=[500_000_000], delta=1e-12), 3)
    0.5
    """
    from dp_accounting.pld import privacy_loss_distribution as distributions
    from dp_accounting.pld.common import DifferentialPrivacyParameters

    if not 0 < delta < 1:
        raise BadInput("delta lies between 0 and 1.")
    composed = distributions.identity(interval)
    for nano, times in Counter(pure).items():
        parameters = DifferentialPrivacyParameters(nano / NANO, 0.0)
        one = distributions.from_privacy_parameters(parameters, value_discretization_interval=interval)
        composed = composed.compose(one.self_compose(times))
    for rho, times in Counter(rhos).items():  # the sum of Gaussian losses is a Gaussian loss
        deviation = 1 / math.sqrt(2 * rho * times)
        composed = composed.compose(
            distributions.from_gaussian_mechanism(deviation, value_discretization_interval=interval)
        )
    return float(composed.get_epsilon_for_delta(delta))
