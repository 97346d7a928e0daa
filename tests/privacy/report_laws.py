"""The exact law of every report of a small channel, from the definition, sharing no code with what it checks."""

import math
from itertools import combinations, product

import numpy as np

from colonnade.privacy.accounting import NANO
from colonnade.privacy.laws.response import Channel


def report_law(channel: Channel, scale: float = 1.0) -> tuple[list[bytes], np.ndarray]:
    """All reports, and their probabilities by category (rows), with ε multiplied by ``scale``."""
    K, growth = channel.categories, math.exp(scale * channel.nano / NANO)
    if channel.kind == "oue":
        sets = [tuple(k for k in range(K) if bits[k]) for bits in product((0, 1), repeat=K)]
        weights = np.array([[_coins(chosen, x, K, growth) for chosen in sets] for x in range(K)])
    else:
        sets = list(combinations(range(K), channel.size))
        weights = np.array([[growth if x in chosen else 1.0 for chosen in sets] for x in range(K)])
    return [_encoded(channel, chosen) for chosen in sets], weights / weights.sum(axis=1, keepdims=True)


def _coins(chosen: tuple[int, ...], x: int, categories: int, growth: float) -> float:
    q = 1 / (1 + growth)
    return 0.5 * math.prod(q if k in chosen else 1 - q for k in range(categories) if k != x)


def _encoded(channel: Channel, chosen: tuple[int, ...]) -> bytes:
    number = chosen[0] if channel.kind == "grr" else sum(1 << k for k in chosen)
    return number.to_bytes(channel.report_width, "little")


def tally(reports: np.ndarray, alphabet: list[bytes]) -> np.ndarray:
    """How often each report of the alphabet occurs; anything else is an error."""
    numbers = sum(reports[:, byte].astype(np.int64) << 8 * byte for byte in range(reports.shape[1]))
    places = [int.from_bytes(report, "little") for report in alphabet]
    counts = np.bincount(numbers, minlength=max(places) + 1)
    assert counts[places].sum() == len(reports)
    return counts[places]
