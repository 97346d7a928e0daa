"""The attack on sketches under shared keys of *Private vertical clustering* (Li, Wang, Li, 2023; docs/references.md#clustering).

Theorem 4 of the paper adds up losses that rest on shared keys. The attack runs on the paper's mechanism and on ours;
docs/proofs/sketches.md#proof has the proof of ours.

Two parties hash people with the same keys and release maxima. At both parties the victim is alone in its cluster, except for
phantoms. In the paper phantoms belong to clusters, and each party draws its own. A value that *both* parties release for the
victim's clusters is then a coincidence unless the victim is there. The ratio is unbounded, so the parties' losses cannot be
added as if their randomness were independent. In ours (`colonnade.papers.laws`) phantoms belong to cells and are
common to both parties, so equal values occur without the victim too. The statistic is the largest value that both parties
release in the same sketch.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from colonnade.audit import Finding, distinguish
from colonnade.papers.laws import GAMMA, PairSide, PartitionSketches, Sketching, least_floor, least_phantoms, sketching
from colonnade.privacy.accounting import Price
from colonnade.privacy.randomness import Randomness
from colonnade.privacy.samplers import ExactSampler

Values = NDArray[np.int64]
ATTACKED = 128
"""The number of sketches per release in the attack. The paper's loss hardly depends on it."""


class _TwoParties(Protocol):
    """Two parties' sketches of the victim's clusters."""

    @property
    def price(self) -> Price:
        """The price that is claimed for both parties' sketches together."""

    def release(self, samples: int, randomness: Randomness, *, present: bool) -> Values:
        """Return independent releases: samples × sketches × parties."""


@dataclass(frozen=True)
class PaperSketches:
    """Algorithm 3 of the paper at two parties, with the budget of its Algorithm 1. **Not private**: for audits only.

    Parameters
    ----------
    price
        (ε, δ) that the paper claims for both parties' sketches together; each has half.
    sketches, gamma
        M and γ.
    """

    price: Price
    sketches: int = ATTACKED
    gamma: float = GAMMA

    @property
    def epsilon_each(self) -> float:
        """ε′ = ε₂/(4√(M ln 1/δ₂))."""
        return self.price.epsilon / 2 / (4 * math.sqrt(self.sketches * math.log(2 / self.price.delta)))

    def release(self, samples: int, randomness: Randomness, *, present: bool) -> Values:
        """Return both parties' values of the victim's clusters."""
        shape = samples, self.sketches
        own = [self._geometric(randomness, shape, least_phantoms(self.epsilon_each)) for _ in range(2)]
        hashed = self._geometric(randomness, shape, 1) if present else 0
        floor = least_floor(self.epsilon_each, self.gamma)
        return np.stack([np.maximum(np.maximum(one, hashed), floor) for one in own], axis=2)

    def _geometric(self, randomness: Randomness, shape: tuple[int, int], elements: int) -> Values:
        """Return the maximum of N geometric values: F^-1(u^(1/N))."""
        uniform = (randomness.words(math.prod(shape)) >> np.uint64(11)).astype(np.float64) + 0.5
        above = -np.expm1(np.log(uniform * 2.0**-53) / elements)
        return np.ceil(-np.log(above) / math.log1p(self.gamma)).astype(np.int64).reshape(shape)


@dataclass(frozen=True)
class ColonnadeSketches:
    """Our sketches in the same situation: the real mechanism at both parties, one cluster each.

    Parameters
    ----------
    price
        What both parties' sketches cost together.
    sketches
        M.
    """

    price: Price
    sketches: int = ATTACKED

    def release(self, samples: int, randomness: Randomness, *, present: bool) -> Values:
        """Return both parties' values. Sketches are independent, so many releases are drawn as one with many sketches."""
        bought = sketching(self.price, 2, "person", self.sketches)
        key, people = randomness.bytes(32), np.array([0 if present else -1], dtype=np.int32)
        many = Sketching(2, bought.phantoms, self.sketches * samples)
        sampler = ExactSampler(randomness)
        both = [
            PartitionSketches(many, "person", 1, (PairSide("both", first),), lambda: key).release(people, sampler)
            for first in (True, False)
        ]
        return np.stack(both, axis=-1).astype(np.int64).reshape(samples, self.sketches, 2)


def largest_common(values: NDArray[np.integer]) -> Values:
    """Return the largest value that both parties have in the same sketch, 0 for none, one per release."""
    common = np.where(values[..., 0] == values[..., 1], values[..., 0], 0)
    return np.asarray(common.max(axis=1), dtype=np.int64)


def attack(two_parties: _TwoParties, *, randomness: Randomness, samples: int = 20_000, alpha: float = 1e-6) -> Finding:
    """Tell by common maxima whether the victim is there, and compare the bound on ε with the claim at the claimed δ.

    Parameters
    ----------
    two_parties
        The mechanism of both parties.
    randomness
        The source of keys and coins.
    samples
        The number of releases per side.
    alpha
        The probability with which a true claim may be refuted.

    Examples
    --------
    >>> from colonnade.privacy.randomness import KeyedRandomness
    >>> attack(PaperSketches(Price.of(0.49, 1e-5)), randomness=KeyedRandomness(bytes(32))).caught
    True
    """
    there, away = (
        largest_common(two_parties.release(samples, randomness, present=present)) for present in (True, False)
    )
    found = distinguish(there, away, delta=two_parties.price.delta, alpha=alpha)
    return msgspec.structs.replace(found, claimed=two_parties.price.epsilon)


def _in_some(each: NDArray[np.float64], sketches: int) -> NDArray[np.float64]:
    return np.asarray(-np.expm1(sketches * np.log1p(-np.clip(each, 0.0, 1 - 1e-15))))
