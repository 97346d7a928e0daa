"""What all sketches share (paper 000, Appendix E): the public seed, the size, and how a noisy sketch is centred.

Letters: s rows of signs G, E the squared length of a column, N the variance of the noise in one row of its sketch divided
by s. An entry of the Gram matrix of two sketched columns has variance ``(E_iE_j + s(N_iE_j + N_jE_i) + s²N_iN_j)/s`` up to the
square of the entry itself, so ``s = ΣE/ΣN`` gives the least sum over all entries (`privacy.md` §2.4). Lengths are private:
columns are taken to be spread evenly between their bounds.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from colonnade.secure.signs import Signs

__all__ = ["LARGEST_SIZE", "SMALLEST_SIZE", "best_size", "centred", "public_seed"]

SMALLEST_SIZE, LARGEST_SIZE = 16, 4_096
"""Larger sketches cost time in proportion and gain little: their own error is then a few parts in a hundred."""

Array = NDArray[np.float64]


def best_size(energy: float, noise: float, *, least: int = SMALLEST_SIZE) -> int:
    """Return s = ΣE/ΣN, within what is sensible.

    Examples
    --------
    >>> best_size(1e6, 2e3)
    500
    """
    return int(np.clip(round(energy / noise), max(least, SMALLEST_SIZE), LARGEST_SIZE))


def public_seed(columns: Sequence[str], draw: int) -> str:
    """Return the seed of the signs: a hash of what is asked, another for every draw."""
    return hashlib.sha256(f"colonnade/sketch/{draw}/{'/'.join(columns)}".encode()).hexdigest()


def centred(sketch: Array, seed: str, people: int) -> tuple[Array, Array]:
    """Return the sketch of columns less their means, and the noisy column sums, from s + 1 released rows.

    The first row holds the sums. G times ones is public, so subtracting it times the means is exact up to the noise in them,
    and leaves a sketch of the centred columns, whose own error does not grow with the means.
    """
    sums, rows = sketch[0], sketch[1:]
    ones = Signs(bytes.fromhex(seed), len(rows)).sums(people).astype(np.float64)
    return rows - np.outer(ones, sums / people), sums
