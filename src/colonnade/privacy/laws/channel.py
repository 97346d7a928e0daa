"""Local randomisers as public objects: what a report looks like and with which probabilities.

A person has one of K categories; the report is a set of categories. What is known about it is two numbers: the probability p
that the set contains the true category, and the probability q that it contains any other given one.

========  =======================================  =======================  =====================================
kind      the set                                  p                        q
========  =======================================  =======================  =====================================
grr       one category                             e^ε/(e^ε+K-1)            1/(e^ε+K-1)
subset    exactly k categories, 2 ≤ k < K          ke^ε/(ke^ε+K-k)          (k-p)/(K-1)
oue       each category by a coin of its own       1/2                      1/(1+e^ε)
========  =======================================  =======================  =====================================

Primitives (Cohen-Addad, Kacham, Mirrokni, Zhong; docs/references.md#primitives), Algorithm 1, with one change: the paper's
unary encoding with p, q = ½ ± ε/16 has a quarter of the permitted ε and at least four times the variance. The coordinator and
every party derive the same channel from the same price: probabilities are computed with correctly rounded decimal arithmetic,
so no two machines can disagree on the best one.
"""

from decimal import Context, Decimal, localcontext
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, ProtocolError
from colonnade.privacy.price import LARGEST_EPSILON, NANO, Price

__all__ = ["LARGEST_CATEGORIES", "Channel", "best_channel", "codes_of"]

LARGEST_CATEGORIES = 1 << 16
_DIGITS = 80  # at ε = 1e-9 a dozen digits cancel; at ε = 10⁴ numbers span 8,700 orders, which decimals do not mind


class _Law(NamedTuple):
    """The numbers of a channel, as decimals."""

    p: Decimal
    q: Decimal
    spread: Decimal

    @property
    def v0(self) -> Decimal:
        return self.q * (1 - self.q) / self.spread**2

    @property
    def v1(self) -> Decimal:
        return self.p * (1 - self.p) / self.spread**2


class Channel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A local randomiser: kind, number of categories, size of the reported set, price.

    Parameters
    ----------
    kind
        ``"grr"``, ``"subset"`` or ``"oue"``.
    categories
        K, at least 2.
    size
        How many categories a report names; 1 unless the kind is ``"subset"``.
    nano
        ε in nano-units: for any two categories and any report, the probabilities differ by a factor of at most e^ε.

    Examples
    --------
    >>> channel = Channel("grr", 5, 1, 500_000_000)
    >>> round(channel.p, 9), round(channel.q, 9), round(channel.v0, 9)
    (0.291875133, 0.177031217, 11.046310109)
    """

    kind: Literal["grr", "subset", "oue"]
    categories: int
    size: int
    nano: int

    def __post_init__(self) -> None:
        if type(self.categories) is not int or not 2 <= self.categories <= LARGEST_CATEGORIES:
            raise BadInput(f"A local randomiser has between 2 and {LARGEST_CATEGORIES} categories.")
        if type(self.nano) is not int or not 0 < self.nano <= LARGEST_EPSILON * NANO:
            raise BadInput("The price of a local randomiser must be positive.")
        sizes = range(2, self.categories) if self.kind == "subset" else range(1, 2)
        if type(self.size) is not int or self.size not in sizes or self.kind not in ("grr", "subset", "oue"):
            raise BadInput("A local randomiser of no known kind: a subset of size 1 is called 'grr'.")

    @property
    def p(self) -> float:
        """The probability that a report contains the true category."""
        return _numbers(self)[0]

    @property
    def q(self) -> float:
        """The probability that a report contains a given other category."""
        return _numbers(self)[1]

    @property
    def spread(self) -> float:
        """``p - q``, without the cancellation."""
        return _numbers(self)[2]

    @property
    def v0(self) -> float:
        """The variance a person adds to the estimated count of a category that is not theirs."""
        return _numbers(self)[3]

    @property
    def v1(self) -> float:
        """The variance a person adds to the estimated count of their own category."""
        return _numbers(self)[4]

    @property
    def report_width(self) -> int:
        """Bytes per person: a code (one byte up to 256 categories, else two), or one bit per category."""
        if self.kind == "grr":
            return 1 if self.categories <= 256 else 2
        return -(-self.categories // 8)

    def supports(self, reports: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return a matrix with 1 where the report contains the category; refuse bytes that are no report.

        Parameters
        ----------
        reports
            One row of `report_width` bytes per person. Codes are little-endian; in a set, bit ``k % 8`` of byte
            ``k // 8`` is category k.

        Examples
        --------
        >>> Channel("grr", 3, 1, 10**9).supports(np.array([[2], [0]], dtype=np.uint8)).tolist()
        [[0, 0, 1], [1, 0, 0]]
        """
        rows = self.checked(reports)
        if self.kind == "grr":
            codes = codes_of(rows)
            if codes.size and int(codes.max()) >= self.categories:
                raise ProtocolError("A report names a category that does not exist.")
            return np.equal(codes[:, None], np.arange(self.categories, dtype=codes.dtype)).view(np.uint8)
        bits = np.unpackbits(rows, axis=1, bitorder="little")
        if np.any(bits[:, self.categories :]):
            raise ProtocolError("A report names a category that does not exist.")
        bits = bits[:, : self.categories]
        if self.kind == "subset" and np.any(bits.sum(axis=1, dtype=np.int64) != self.size):
            raise ProtocolError("A report has the wrong number of categories.")
        return bits

    def checked(self, reports: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the reports as contiguous rows, or refuse a wrong shape."""
        if reports.dtype != np.uint8 or reports.ndim != 2 or reports.shape[1] != self.report_width:
            raise ProtocolError("Reports of the wrong shape.")
        return np.ascontiguousarray(reports)


def codes_of(rows: NDArray[np.uint8]) -> NDArray[np.uint8] | NDArray[np.uint16]:
    """Return reports of one or two bytes as one number per person."""
    return rows[:, 0] if rows.shape[1] == 1 else rows.view("<u2")[:, 0]


def best_channel(categories: int, price: Price) -> Channel:
    """Return the channel of least variance v0; of equal ones, that with the shortest reports.

    Examples
    --------
    >>> best_channel(5, Price.of(0.5))
    Channel(kind='subset', categories=5, size=2, nano=500000000)
    """
    grr = Channel("grr", categories, 1, price.nano)
    subsets = (Channel("subset", categories, k, price.nano) for k in _best_sizes(categories, price) if k > 1)
    candidates = [grr, *subsets, Channel("oue", categories, 1, price.nano)]
    with localcontext(Context(prec=_DIGITS)):
        return min(candidates, key=lambda channel: (_law(channel).v0, channel.report_width, channel.size))


def _best_sizes(categories: int, price: Price) -> list[int]:
    """Return the sizes whose variance is least up to floating-point error; decimals then decide between them."""
    k = np.arange(1, categories, dtype=np.float64)
    inverse = np.exp(-price.epsilon)
    weight = k + (categories - k) * inverse
    variance = (weight - 1) * (weight * (categories - 1 - k) + k) / (k * (categories - k) ** 2)
    return [int(size) for size in k[variance <= variance.min() * (1 + 1e-9)]]


def _law(channel: Channel) -> _Law:
    """Return the probabilities; the caller sets the decimal context."""
    K, k = channel.categories, channel.size
    growth = (Decimal(channel.nano) / NANO).exp()
    if channel.kind == "oue":
        q = 1 / (1 + growth)
        return _Law(Decimal("0.5"), q, Decimal("0.5") - q)
    total = k * growth + K - k
    p = k * growth / total
    return _Law(p, (k - p) / (K - 1), k * (K - k) * (growth - 1) / (total * (K - 1)))


@lru_cache(maxsize=1024)
def _numbers(channel: Channel) -> tuple[float, float, float, float, float]:
    with localcontext(Context(prec=_DIGITS)):
        law = _law(channel)
        return float(law.p), float(law.q), float(law.spread), float(law.v0), float(law.v1)
