"""How several histograms divide one price: pure parts, or Gaussian parts where that is less noise."""

from colonnade.privacy.calibration import gaussian_party_price
from colonnade.privacy.laws.tables import TableNoise
from colonnade.privacy.price import Price

__all__ = ["histogram_price"]

TYPICAL_CELLS = 100


def histogram_price(price: Price, count: int) -> Price:
    """Return what each of some histograms may cost: of the two ways to divide a price, the one with less noise a count.

    A person is in one count of each, so one histogram is best with Laplace noise; the noise of many adds up more slowly where it
    is Gaussian, if the price has a δ.

    Examples
    --------
    >>> histogram_price(Price.of(1.0, 1e-6), 1).delta, histogram_price(Price.of(1.0, 1e-6), 30).delta > 0
    (0.0, True)
    """
    pure = Price(price.nano // count, 0.0)
    if price.delta == 0 or count == 1:
        return pure
    gaussian = gaussian_party_price(price, count, "person")
    noises = {
        one: TableNoise(("left", "right"), one, "person", 1, TYPICAL_CELLS).opened_variance for one in (pure, gaussian)
    }
    return min(noises, key=lambda one: noises[one])
