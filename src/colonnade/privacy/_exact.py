"""Decide ``U < p`` exactly, where U is a uniform real and p a real number known through ever tighter enclosures.

U is an endless string of random bits. Its first b bits, read as an integer n, say that ``n ≤ U·2^b < n + 1``. Given
integers ``low ≤ p·2^b ≤ high``: if ``n + 1 ≤ low`` then U < p, if ``n ≥ high`` then U ≥ p, and otherwise more bits are
drawn and the enclosure is tightened. What was drawn is only ever extended, never drawn again, so the answer is "yes"
with probability p exactly. The third case has probability at most ``(high - low + 1)/2^b``, so the loop ends.

Enclosures come from rational arithmetic, or from mpmath's interval arithmetic with 96 guard bits. The endpoints are
then moved outwards by one unit of 2^-b, which is 2^96 times the last place of a number near one at the working
precision: that covers any doubt whether mpmath rounds outwards in the last few places.
"""

import builtins
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from mpmath.ctx_iv import MPIntervalContext  # here and not where it is used: parties in threads would import it half
from mpmath.libmp import mpf_shift, round_ceiling, round_floor, to_int
from numpy.typing import NDArray

from colonnade.errors import BadInput

WORD = 64
Enclosure = Callable[[int], tuple[int, int]]
"""Given b, integers ``low ≤ p·2^b ≤ high`` that are a few units apart."""

_GUARD = 96
_WIDEST = 4  # units of 2^-b between the ends of an enclosure
_LARGEST_PRECISION = 1 << 14
_PRODUCT = 512  # rising factorials up to this length are multiplied out
_local = threading.local()  # mpmath keeps the precision in its context, so each thread has its own


class UniformBits(Protocol):
    """Where uniform bits come from: a source of randomness, or a sampler on top of one."""

    def bytes(self, count: int) -> builtins.bytes:
        """Return ``count`` uniform bytes."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return ``count`` uniform 64-bit words."""


def is_below(prefix: int, enclose: Enclosure, randomness: UniformBits) -> bool:
    """Return whether U < p, the first 64 bits of U being given; further bits are drawn if they matter."""
    bits = WORD
    while True:
        low, high = enclose(bits)
        if prefix < low:
            return True
        if prefix >= high:
            return False
        prefix = (prefix << WORD) | int.from_bytes(randomness.bytes(WORD // 8), "little")
        bits += WORD


def of_rational(value: Fraction) -> Enclosure:
    """Enclose a rational number."""

    def enclose(bits: int) -> tuple[int, int]:
        scaled = value.numerator << bits
        return scaled // value.denominator, -(-scaled // value.denominator)

    return enclose


def of_real(expression: Callable[[Any], Any]) -> Enclosure:
    """Enclose what ``expression`` computes in an interval context (the interface of ``mpmath.iv``)."""

    def enclose(bits: int) -> tuple[int, int]:
        precision = bits + _GUARD
        while precision <= _LARGEST_PRECISION:
            low, high = _scaled(expression, precision, bits)
            if high - low <= _WIDEST:
                return low, high
            precision *= 2
        raise BadInput("Interval arithmetic does not pin down a probability.")

    return enclose


def _scaled(expression: Callable[[Any], Any], precision: int, bits: int) -> tuple[int, int]:
    context = _context()
    context.prec = precision
    left, right = context.convert(expression(context))._mpi_
    low, high = to_int(mpf_shift(left, bits), round_floor) - 1, to_int(mpf_shift(right, bits), round_ceiling) + 1
    if high < 0 or low > 1 << bits:
        raise BadInput("A probability lies between 0 and 1.")
    return max(low, 0), min(high, 1 << bits)


def _context() -> Any:
    if not hasattr(_local, "context"):
        _local.context = MPIntervalContext()
    return _local.context


def ratio(context: Any, value: Fraction | int) -> Any:
    """Return a rational number as an interval."""
    return context.mpf(value.numerator) / value.denominator


def log_rising(context: Any, start: Fraction, count: int) -> Any:
    """Enclose ``ln(start·(start+1)⋯(start+count-1)) = ln Γ(start+count) - ln Γ(start)``.

    Long products by Stirling's series, whose constant ½ln 2π cancels. For a positive real argument the remainder of the
    series is smaller than its first omitted term; a short product moves the argument to where terms get small enough.
    """
    if count <= _PRODUCT:
        return context.log(ratio(context, _product(start, count)))
    shift = max(0, context.prec // 3 - int(start))
    head = context.log(ratio(context, _product(start, min(shift, count))))
    if shift >= count:
        return head
    return head + _stirling(context, start + count) - _stirling(context, start + shift)


def _product(start: Fraction, count: int) -> Fraction:
    numerator, step = start.numerator, start.denominator
    product = 1
    for index in range(count):
        product *= numerator + index * step
    return Fraction(product, step**count)


def _stirling(context: Any, argument: Fraction) -> Any:
    """Enclose ``ln Γ(argument) - ½ln 2π``."""
    x = ratio(context, argument)
    total = (x - ratio(context, Fraction(1, 2))) * context.log(x) - x
    smallest = context.mpf(2) ** (-context.prec)
    for order in range(1, context.prec):
        numerator, denominator = context.bernfrac(2 * order)
        term = ratio(context, Fraction(numerator, denominator * 2 * order * (2 * order - 1))) / x ** (2 * order - 1)
        if abs(term) < smallest:
            break
        total += term
    return total + term * context.mpf([-1, 1])


class Threshold:
    """A fixed probability p, ready to be compared with uniform 64-bit words, exactly.

    Parameters
    ----------
    enclose
        Enclosures of p, from `of_rational` or `of_real`; p·2^64 must be irrational, or enclosed by exact rationals.

    Attributes
    ----------
    floor
        ``⌊p·2^64⌋`` (2^64 - 1 if p is 1). A word below it means "yes", a word above it "no"; on a tie call `resolve`.

    Examples
    --------
    >>> Threshold.rational(Fraction(1, 4)).floor == 2**62
    True
    >>> round(Threshold.logistic(Fraction(1, 2), others=4).floor / 2**64, 6)  # e^½ / (e^½ + 4)
    0.291875
    """

    __slots__ = ("_enclose", "floor")

    def __init__(self, enclose: Enclosure) -> None:
        self._enclose = enclose
        self.floor = _floor(enclose)

    @classmethod
    def rational(cls, probability: Fraction) -> "Threshold":
        """Return the threshold of a rational probability."""
        if not 0 <= probability <= 1:
            raise BadInput("A probability lies between 0 and 1.")
        return cls(of_rational(probability))

    @classmethod
    def logistic(cls, exponent: Fraction, others: int = 1) -> "Threshold":
        """Return the threshold of ``e^x/(e^x + others)``: keeping the truth in randomised response."""
        if exponent == 0:
            return cls.rational(Fraction(1, 1 + others))
        return cls(of_real(lambda context: 1 / (1 + others * context.exp(-ratio(context, exponent)))))

    def resolve(self, randomness: UniformBits) -> bool:
        """Decide a comparison whose first word equals `floor`, from further bits."""
        return is_below(self.floor, self._enclose, randomness)

    def __repr__(self) -> str:
        return f"Threshold({self.floor / 2**WORD:.6g})"


def _floor(enclose: Enclosure) -> int:
    """Return ``⌊p·2^64⌋``, but at most 2^64 - 1, from an enclosure that is tight enough to know it."""
    extra = 0
    while True:
        low, high = (min(end >> extra, (1 << WORD) - 1) for end in enclose(WORD + extra))
        if low == high:
            return low
        extra = max(WORD, 2 * extra)
