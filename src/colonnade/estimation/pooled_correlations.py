"""The noisy curvature of paper 003's objective, repaired without a second draw: weak products are pulled towards none.

With pure ε most products of two features can be smaller than their noise, and inverting the matrix then inverts noise. What is
known before anybody looks: a product of centred columns is a correlation times the two deviations. If correlations are alike in
size, r² on average, an entry C_ij = truth + noise has a truth of variance r²·C_ii·C_jj, so that its best linear estimate is

    s_ij·C_ij,   s_ij = r²·C_ii·C_jj / (r²·C_ii·C_jj + V_ij),

and r² follows from all entries at once: Σ(C_ij² − V_ij)/ΣC_ii·C_jj. Rare levels are pulled most, entries that stand out stay. The
noise left in an entry has variance s²V; what pulling hides is bias, and no standard error counts it. Before that, sums that no
column could have are brought back: a coded column lies in [−1, 1], an indicator in [0, 1]. Without noise nothing is changed. A
function of the release alone.
"""

import numpy as np

from colonnade.estimation.moments import Moments

__all__ = ["pooled_correlations"]


def pooled_correlations(moments: Moments, target: str) -> Moments:
    """Return moments whose products of two features (not those with the target) are pulled towards no correlation."""
    moments = _possible(moments)
    features = np.array([feature.column not in (target, moments.features[0].column) for feature in moments.features])
    pulled = np.outer(features, features) & (moments.variance > 0)
    np.fill_diagonal(pulled, val=False)
    if not pulled.any():
        return moments
    means = moments.matrix[0] / moments.count
    expected = moments.count * np.outer(means, means)
    centred = moments.matrix - expected
    spread = np.maximum(np.diag(centred), 0.0)
    products = np.outer(spread, spread)
    excess = float(np.sum((centred**2 - moments.variance)[pulled]))
    possible = float(products[pulled].sum())
    squared = min(max(excess, 0.0), possible) / possible if possible > 0 else 0.0
    kept = np.where(pulled, squared * products / np.where(pulled, squared * products + moments.variance, 1.0), 1.0)
    matrix = np.where(pulled, expected + kept * centred, moments.matrix)
    return Moments(matrix, kept**2 * moments.variance, moments.count, moments.features)


def _possible(moments: Moments) -> Moments:
    """Return moments whose sums, and the squares of indicators with them, lie where those of coded columns can."""
    matrix, count = np.array(moments.matrix), float(moments.count)
    indicators = np.array([feature.kind == "level" for feature in moments.features])
    sums = np.clip(matrix[0], np.where(indicators, 0.0, -count), count)
    matrix[0], matrix[:, 0] = sums, sums
    matrix[indicators, indicators] = sums[indicators]
    return Moments(matrix, moments.variance, moments.count, moments.features)
