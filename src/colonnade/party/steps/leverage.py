"""Leverage scores of a party's block of columns, in passes over row blocks (paper 004, Algorithm 2).

We differ from the paper in three ways. The orthonormal basis is never formed: a score is ‖x_i·W‖², where W whitens the block's
Gram matrix, so a pass costs one product and memory is a few blocks of rows. The rank is revealed rather than assumed (plain QR
of a rank-deficient block gives scores that sum to its width, not to its rank). And the block has a constant column, because our
regressions have an intercept: scores are then the same whatever the columns' units and origins are.

Numerics. Columns are scaled to length one, which changes no score. An eigenvalue of the Gram matrix carries an error of about
width·u·λ₁ (u: unit round-off), so a pass resolves the directions with λ > λ₁·10⁻⁶, to about 10⁻⁹ in the scores; one pass is
enough for most blocks. Otherwise another pass, as in CholeskyQR2, multiplies the rows by what whitens the resolved directions,
and by the others as they are: products of rows, unlike the Gram matrix, keep singular values down to u·σ₁. Whatever stays below
max(people, width)·u·σ₁ once the resolved directions are taken out is zero, as in `numpy.linalg.matrix_rank`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Blocks", "Leverage", "leverage_scores"]

Array = NDArray[np.float64]
Blocks = Callable[[], Iterable[Array]]
"""One pass over the rows: arrays of columns by rows, the same ones each time."""

RESOLVED = 1e-6
"""Eigenvalues above this share of the largest one need no further pass."""

UNIT = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Leverage:
    """Scores of all rows, which sum to the rank."""

    nonprivate_scores: Array
    rank: int


def leverage_scores(blocks: Blocks, people: int) -> Leverage:
    """Return ‖u_i‖² for every row, u an orthonormal basis of the column space.

    Parameters
    ----------
    blocks
        Yields the rows, columns along the first axis, at each call from the start.
    people
        How many rows there are.

    Examples
    --------
    >>> rows = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 0.0]])  # two columns, the second twice the first
    >>> found = leverage_scores(lambda: [rows], 3)
    >>> found.rank, found.nonprivate_scores.round(6).tolist()
    (1, [0.5, 0.5, 0.0])
    """
    whitening = _whitening(blocks, people)
    scores = np.empty(people)
    start = 0
    for block in blocks():
        projected = whitening.T @ block
        np.einsum("ij,ij->j", projected, projected, out=scores[start : start + block.shape[1]])
        start += block.shape[1]
    if start != people:
        raise ValueError("A pass over the rows has another length.")
    np.clip(scores, 0.0, 1.0, out=scores)  # rounding may step over either end
    return Leverage(scores, whitening.shape[1])


def _whitening(blocks: Blocks, people: int) -> Array:
    """Return W of full column rank with (XW)ᵀ(XW) = I and the column space of X."""
    gram = _gram(blocks, None)
    width = len(gram)
    lengths = np.sqrt(np.diag(gram))
    scale = np.divide(1.0, lengths, out=np.zeros(width), where=lengths > 0)
    gram *= np.outer(scale, scale)
    found, rest = np.zeros((width, 0)), np.diag(scale)
    smallest = max(people, width) * UNIT * float(np.sqrt(max(np.linalg.eigvalsh(gram)[-1], 0.0)))
    while rest.shape[1]:
        found, rest = _resolve(gram, found, rest, smallest)
        if rest.shape[1]:
            gram = _gram(blocks, np.concatenate([found, rest], axis=1))
    return found


def _resolve(gram: Array, found: Array, rest: Array, smallest: float) -> tuple[Array, Array]:
    """Whiten what was found once more, and take from the rest the directions whose length this Gram matrix resolves."""
    known = found.shape[1]
    across = np.linalg.solve(gram[:known, :known], gram[:known, known:])  # the first matrix is close to the unit matrix
    remainder = gram[known:, known:] - gram[known:, :known] @ across
    values, vectors = np.linalg.eigh((remainder + remainder.T) / 2)
    present = np.sqrt(np.maximum(values, 0.0)) > smallest
    resolved = present & (values > RESOLVED * values[-1])
    directions = (rest - found @ across) @ vectors
    whitened = found @ _inverse_root(gram[:known, :known])
    further = directions[:, resolved] / np.sqrt(values[resolved])
    left = directions[:, ~resolved] if resolved.any() else directions[:, :0]  # nothing longer than round-off is left
    return np.concatenate([whitened, further], axis=1), left


def _inverse_root(gram: Array) -> Array:
    values, vectors = np.linalg.eigh(gram)
    return np.asarray(vectors / np.sqrt(values))


def _gram(blocks: Blocks, basis: Array | None) -> Array:
    total: Array | None = None
    for block in blocks():
        rows = block if basis is None else basis.T @ block
        product = rows @ rows.T  # numpy takes the symmetric product where both sides are one array
        total = product if total is None else total + product
    assert total is not None  # a table has rows
    return total
