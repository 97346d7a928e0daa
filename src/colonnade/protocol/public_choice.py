"""Choices that everybody can repeat from the plan: which rows, which batch, who draws how many. They depend on no data.

The stream is AES keyed by a hash of the plan and a label, so nobody chose it, and a study's second draw (``repeat=2``) makes
other choices. It is public: nothing that protects anybody comes from it.
"""

import numpy as np
from numpy.typing import NDArray

from colonnade.plan import Plan
from colonnade.protocol import messages
from colonnade.secure.keys import SeedStream, digest


def public_uniforms(plan: Plan, label: str, count: int) -> NDArray[np.float64]:
    """Return uniform numbers in [0, 1)."""
    words = SeedStream(digest("colonnade public choice v1", messages.digest(plan), label)).words(count)
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def public_positions(plan: Plan, label: str, count: int) -> NDArray[np.int64]:
    """Return places among the plan's people, drawn with replacement, in ascending order."""
    places = np.sort((public_uniforms(plan, label, count) * plan.people).astype(np.int64))
    return np.minimum(places, plan.people - 1)


def public_subset(plan: Plan, label: str, items: int, count: int) -> NDArray[np.int64]:
    """Return ``count`` different numbers below ``items``, in ascending order."""
    if count >= items:
        return np.arange(items)
    return np.sort(np.argpartition(public_uniforms(plan, label, items), count)[:count])
