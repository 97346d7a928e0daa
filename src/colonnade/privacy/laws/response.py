"""Randomised response on categories: the best channel for a price, and the reports drawn from it.

A person has one of K categories. The report is a set of categories. Two numbers describe it: the probability p that the set
contains the true category, and the probability q that it contains any other given one.

========  =======================================  =======================  =====================================
kind      the set                                  p                        q
========  =======================================  =======================  =====================================
grr       one category                             e^ε/(e^ε+K-1)            1/(e^ε+K-1)
subset    exactly k categories, 2 ≤ k < K          ke^ε/(ke^ε+K-k)          (k-p)/(K-1)
oue       each category by a coin of its own       1/2                      1/(1+e^ε)
========  =======================================  =======================  =====================================

Primitives (Cohen-Addad, Kacham, Mirrokni, Zhong; docs/references.md#primitives), Algorithm 1, with one change: the paper's
unary encoding with p, q = ½ ± ε/16 uses about half of the permitted ε (0.2503 of 0.5) and has at least four times the variance.
The coordinator and every party derive the same channel from the same price. Probabilities are computed with correctly rounded
decimal arithmetic, so no two machines can disagree on the best one. Proof: docs/proofs/randomised-response.md.

The inner loops are compiled: integers only, and no decision that is not exact. A uniform word is compared with ``T =
⌊p·2^64⌋``: below T means "yes", above T means "no". Given "yes" it is uniform below T and given "no" uniform above, so dividing
what it exceeds the range's start by ``step = ⌊range/n⌋`` gives each number below n for exactly ``step`` words. What is left, a
tie or one of the fewer than n words too many, is *unsure*: the person is listed, and the caller decides with further bits. Its
probability is below ``(n+1)/2^64`` per word.

Each person takes a fixed number of words, whatever their category; a code outside the categories is a null record.
"""

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import Any, Literal, NamedTuple

import msgspec
import numba
import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, ProtocolError
from colonnade.privacy._exact import Threshold, of_real, ratio
from colonnade.privacy.accounting import LARGEST_EPSILON, NANO, Loss, Price
from colonnade.privacy.laws import Description, Sampler

_ONE = np.uint64(1)
_HALF = np.uint64(1 << 63)

_SUBSET_CODES = (
    "int64(int64[::1], uint64[::1], uint64, uint64, uint64, uint64, uint64, uint64, uint16[:, ::1], uint16[::1], "
    "int64[::1])"
)


@numba.njit(
    ["int64(int64[::1], uint64[::1], int64, uint64, uint64, uint64, uint16[::1], int64[::1])"], cache=True, nogil=True
)
def response_codes(
    codes: NDArray[np.int64],
    words: NDArray[np.uint64],
    categories: int,
    threshold: np.uint64,
    other_step: np.uint64,
    any_step: np.uint64,
    reports: NDArray[np.uint16],
    unsure: NDArray[np.int64],
) -> int:
    """Report one category per person, from one word; a null record reports any. Return how many are unsure."""
    doubts = 0
    others = np.uint64(categories - 1)
    for person in range(len(codes)):
        code, word = codes[person], words[person]
        if code < 0 or code >= categories:
            drawn = word // any_step
            if drawn <= others:
                reports[person] = drawn
                continue
        elif word < threshold:
            reports[person] = code
            continue
        elif word > threshold and other_step > 0:
            drawn = (word - threshold - _ONE) // other_step
            if drawn < others:
                reports[person] = drawn + np.uint64(np.int64(drawn) >= code)
                continue
        unsure[doubts] = person
        doubts += 1
    return doubts


@numba.njit([_SUBSET_CODES], cache=True, nogil=True)
def subset_codes(
    codes: NDArray[np.int64],
    words: NDArray[np.uint64],
    threshold: np.uint64,
    inside: np.uint64,
    inside_step: np.uint64,
    outside: np.uint64,
    outside_step: np.uint64,
    any_step: np.uint64,
    sets: NDArray[np.uint16],
    reports: NDArray[np.uint16],
    unsure: NDArray[np.int64],
) -> int:
    """Report a set of at most 16 categories, from one word and a list of all sets, those with the category first.

    ``sets[code]`` lists the ``inside`` sets that contain the category, then the ``outside`` others; a null record takes
    any of the list, evenly. Return how many are unsure.
    """
    doubts = 0
    categories = sets.shape[0]
    for person in range(len(codes)):
        code, word = codes[person], words[person]
        if code < 0 or code >= categories:
            drawn = word // any_step
            if drawn < inside + outside:
                reports[person] = sets[0, np.int64(drawn)]
                continue
        elif word < threshold:
            if inside_step > 0:
                drawn = word // inside_step
                if drawn < inside:
                    reports[person] = sets[code, np.int64(drawn)]
                    continue
        elif word > threshold and outside_step > 0:
            drawn = (word - threshold - _ONE) // outside_step
            if drawn < outside:
                reports[person] = sets[code, np.int64(inside + drawn)]
                continue
        unsure[doubts] = person
        doubts += 1
    return doubts


@numba.njit(
    ["int64(int64[::1], uint64[:, ::1], int64, int64, uint64, uint64[::1], uint8[:, ::1], int64[::1])"],
    cache=True,
    nogil=True,
)
def subset_sets(
    codes: NDArray[np.int64],
    words: NDArray[np.uint64],
    categories: int,
    size: int,
    threshold: np.uint64,
    steps: NDArray[np.uint64],
    reports: NDArray[np.uint8],
    unsure: NDArray[np.int64],
) -> int:
    """Report a set of any size as bits, from ``size + 2`` words, and return how many are unsure.

    The words: null's category; with the category or without; then Floyd's sampling of the others. ``steps[n - 1]`` is
    ``⌊(2^64 - 1)/n⌋``.
    """
    doubts = 0
    for person in range(len(codes)):
        code = codes[person]
        sure = bool(words[person, 1] != threshold)
        if code < 0 or code >= categories:
            code = np.int64(words[person, 0] // steps[categories - 1])
            if code >= categories:
                sure = False
                code = 0
        others = size
        if words[person, 1] < threshold:
            reports[person, code >> 3] |= np.uint8(1 << (code & 7))
            others = size - 1
        for place in range(others):
            last = categories - 1 - others + place
            drawn = np.int64(words[person, 2 + place] // steps[last])
            if drawn > last:
                sure = False
                drawn = np.int64(last)
            member = drawn + (drawn >= code)
            if reports[person, member >> 3] >> (member & 7) & 1:
                member = last + (last >= code)
            reports[person, member >> 3] |= np.uint8(1 << (member & 7))
        if not sure:
            unsure[doubts] = person
            doubts += 1
    return doubts


@numba.njit(
    ["int64(int64[::1], uint64[:, ::1], int64, uint64, uint64, uint8[:, ::1], int64[::1])"], cache=True, nogil=True
)
def coin_sets(
    codes: NDArray[np.int64],
    words: NDArray[np.uint64],
    categories: int,
    threshold: np.uint64,
    any_step: np.uint64,
    reports: NDArray[np.uint8],
    unsure: NDArray[np.int64],
) -> int:
    """Report a set by one coin per category, from ``categories + 1`` words, null's category first.

    The true category's coin is fair. Return how many are unsure.
    """
    doubts = 0
    for person in range(len(codes)):
        code = codes[person]
        sure = True
        if code < 0 or code >= categories:
            code = np.int64(words[person, 0] // any_step)
            sure = bool(code < categories)
        for member in range(categories):
            word = words[person, 1 + member]
            if member == code:
                chosen = word < _HALF
            else:
                chosen = word < threshold
                sure = bool(sure and word != threshold)
            if chosen:
                reports[person, member >> 3] |= np.uint8(1 << (member & 7))
        if not sure:
            unsure[doubts] = person
            doubts += 1
    return doubts


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
            raise BadInput("This kind of local randomiser is unknown: a subset of size 1 is called 'grr'.")

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
            raise ProtocolError("Reports have the wrong shape.")
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


_WORDS = 1 << 16  # random words held at once: they stay in the processor's cache
_FULL = 2**64 - 1

Codes = NDArray[np.int64]
Words = NDArray[np.uint64]
Reports = NDArray[np.uint8]


class RandomizedResponse:
    """Replace each person's category by a random set of categories that says little about it.

    Parameters
    ----------
    channel
        Which sets, with which probabilities; see the module.

    Examples
    --------
    >>> from colonnade.privacy.randomness import SystemRandomness
    >>> from colonnade.privacy.samplers import ExactSampler
    >>> mechanism = RandomizedResponse(Channel("grr", 4, 1, 10**9))
    >>> mechanism.release(np.array([0, 3, -1]), ExactSampler(SystemRandomness())).shape, mechanism.loss.epsilon(0.0)
    ((3, 1), 1.0)

    Notes
    -----
    *grr, subset.* A report is a set S of k categories (k = 1 for grr). Given category x, with ``E = e^ε``: with
    probability ``p = kE/(kE+K-k)`` one of the ``C(K-1,k-1)`` sets that contain x, evenly, else one of the ``C(K-1,k)``
    that do not. As ``C(K-1,k-1)/C(K-1,k) = k/(K-k)``, each set of the first kind has E times the probability of each of
    the second; so for any S and any x, x′ the ratio is 1/E, 1 or E.

    *oue.* Two categories x, x′ differ in two coins. With ``q = 1/(1+E)`` the ratio is largest where x is in S and x′ is
    not: ``½(1-q)/(½q) = E``.

    *Null.* A null record draws a category evenly first. Its law is a mixture of the others', and a bound on all pairs'
    ratios holds for mixtures. People's reports are independent, and one person's part of them is one report.

    Privacy
    -------
    Guarantee
        Pure ε-DP, ε = ``channel.nano``·10⁻⁹: ``P(report | x) ≤ e^ε · P(report | x′)`` for all categories, null included.
        Across parties, with independent coins, the ε add up. Proof: docs/proofs/randomised-response.md.
    Neighbours
        One party's part of one record replaced by any other category or by null (party-block). The composition over
        parties covers zero-out and replace of a whole record. The number of people is public.
    Adversary
        Anybody who reads all reports: local differential privacy; the coordinator and peers are not trusted.
    Numerics
        Exact: random bits are compared with real probabilities to whatever precision it takes; no floating point. Which
        bits a person uses does not depend on data, except with a probability below ``(sets+1)/2^64`` each.
    Checked by
        tests/privacy/test_mechanisms.py, tests/privacy/test_response.py, tests/audit/test_distinguish.py
    """

    __slots__ = ("_fill", "_threshold", "_words", "channel", "loss")

    name = "randomised response"

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.loss = Loss.of_pure(channel.nano)
        self._threshold = _threshold(channel)
        self._words, self._fill = _filler(channel, self._threshold.floor)

    def release(self, nonprivate: NDArray[Any], sampler: Sampler) -> Reports:
        """Return one report of ``channel.report_width`` bytes per person.

        Parameters
        ----------
        nonprivate
            One code per person, of an integer type; whatever is not in ``0, …, K-1`` is a null record.
        sampler
            Where the coins come from.
        """
        if nonprivate.ndim != 1 or nonprivate.dtype.kind not in "iu":
            raise BadInput("Randomised response takes one whole-number code per person.")
        reports = np.zeros((len(nonprivate), self.channel.report_width), dtype=np.uint8)
        for start in range(0, len(nonprivate), self.block):
            part = nonprivate[start : start + self.block]
            reports[start : start + self.block] = self.apply(part, self.draw(len(part), sampler), sampler)
        return reports

    @property
    def block(self) -> int:
        """How many people's coins are drawn at once."""
        return max(1, _WORDS // self._words)

    def draw(self, people: int, sampler: Sampler) -> Words:
        """Toss the coins of some people."""
        return sampler.words(people * self._words).reshape(people, self._words)

    def apply(self, nonprivate: NDArray[Any], coins: Words, sampler: Sampler) -> Reports:
        """Report by coins that were tossed before; who is still unsure tosses more."""
        codes = np.ascontiguousarray(nonprivate, dtype=np.int64)
        rows = np.zeros((len(codes), self.channel.report_width), dtype=np.uint8)
        for person in self._fill(codes, coins, rows):
            rows[person] = self._decide(int(codes[person]), coins[person], sampler)
        return rows

    def _decide(self, code: int, words: Words, sampler: Sampler) -> Reports:
        """Make the report of a person whose words were not conclusive; the words keep what they did decide."""
        K, null = self.channel.categories, not 0 <= code < self.channel.categories
        if null:
            code = int(sampler.uniform_below(K, 1)[0])
        if self.channel.kind == "oue":
            coins = [self._below(int(word), sampler) for word in words[1:]]
            coins[code] = int(words[1 + code]) < 2**63
            return self._encoded([member for member in range(K) if coins[member]])
        if null and len(words) == 1:  # that word was spent on the category
            words = sampler.words(1)
        inside = self._below(int(words[0 if len(words) == 1 else 1]), sampler)
        others = [member for member in range(K) if member != code]
        chosen = [code] if inside else []
        while len(chosen) < self.channel.size:
            chosen.append(others.pop(int(sampler.uniform_below(len(others), 1)[0])))
        return self._encoded(chosen)

    def _below(self, word: int, sampler: Sampler) -> bool:
        floor = self._threshold.floor
        return word < floor or (word == floor and self._threshold.resolve(sampler))

    def _encoded(self, members: list[int]) -> Reports:
        width = self.channel.report_width
        number = members[0] if self.channel.kind == "grr" else sum(1 << member for member in members)
        return np.frombuffer(number.to_bytes(width, "little"), dtype=np.uint8)

    def describe(self) -> Description:
        channel = self.channel
        odds = f"the true one with p = {channel.p:.4g}, another with q = {channel.q:.4g}"
        return Description(
            "one report per person, whatever the category",
            f"{channel.kind} on {channel.categories} categories: {odds}",
        )

    def __repr__(self) -> str:
        return f"RandomizedResponse({self.channel!r})"


def _threshold(channel: Channel) -> Threshold:
    """Return the probability of a set that contains the truth, or for "oue" that of a false category's coin."""
    epsilon = Fraction(channel.nano, NANO)
    if channel.kind == "oue":
        return Threshold.logistic(-epsilon)
    odds = Fraction(channel.categories - channel.size, channel.size)
    return Threshold(of_real(lambda context: 1 / (1 + ratio(context, odds) * context.exp(-ratio(context, epsilon)))))


def _filler(channel: Channel, floor: int) -> tuple[int, Callable[[Codes, Words, Reports], Codes]]:
    """Return how many words each person takes, and what fills reports from them and returns who is unsure."""
    K, k, threshold = channel.categories, channel.size, np.uint64(floor)
    any_step = np.uint64(_FULL // K)
    if channel.kind == "grr":
        other_step = np.uint64((_FULL - floor) // (K - 1))
        return 1, lambda codes, words, rows: _by_code(
            rows,
            lambda out, unsure: response_codes(codes, words[:, 0], K, threshold, other_step, any_step, out, unsure),
        )
    if channel.kind == "oue":
        return K + 1, lambda codes, words, rows: _listed(
            rows, lambda unsure: coin_sets(codes, words, K, threshold, any_step, rows, unsure)
        )
    if K <= 16:
        inside, outside = math.comb(K - 1, k - 1), math.comb(K - 1, k)
        counts = (inside, floor // inside, outside, (_FULL - floor) // outside, _FULL // (inside + outside))
        sets, sizes = _all_sets(K, k), tuple(map(np.uint64, counts))
        return 1, lambda codes, words, rows: _by_code(
            rows, lambda out, unsure: subset_codes(codes, words[:, 0], threshold, *sizes, sets, out, unsure)
        )
    steps = np.array([_FULL // n for n in range(1, K + 1)], dtype=np.uint64)
    return k + 2, lambda codes, words, rows: _listed(
        rows, lambda unsure: subset_sets(codes, words, K, k, threshold, steps, rows, unsure)
    )


def _by_code(rows: Reports, fill: Callable[[NDArray[np.uint16], Codes], int]) -> Codes:
    """Let ``fill`` write one number per person, then store it in one or two bytes."""
    out = np.empty(len(rows), dtype=np.uint16)
    unsure = _listed(rows, lambda unsure: fill(out, unsure))
    rows[:, 0] = out & 255
    if rows.shape[1] == 2:
        rows[:, 1] = out >> 8
    return unsure


def _listed(rows: Reports, fill: Callable[[Codes], int]) -> Codes:
    unsure = np.empty(len(rows), dtype=np.int64)
    return unsure[: fill(unsure)]


def _all_sets(categories: int, size: int) -> NDArray[np.uint16]:
    """Return, for each category, all sets of a size as bits, those with the category first."""
    numbers = [sum(1 << member for member in chosen) for chosen in combinations(range(categories), size)]
    rows = [sorted(numbers, key=lambda number: not number >> code & 1) for code in range(categories)]
    return np.array(rows, dtype=np.uint16)
