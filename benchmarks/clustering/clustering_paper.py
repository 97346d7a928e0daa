"""The paper's own algorithms, for comparison only: Algorithm 3 in plain numpy, Algorithms 4 and 5, and LDP-AGG.

The paper is Private vertical clustering (docs/references.md#clustering).

κ (`privacy.md` §3.5) is put in place of the paper's harmonic mean, which never converges, and weights are projected; otherwise as
printed. **Algorithm 3 is not private as the paper claims**: `colonnade audit shared-keys`.
"""

import math
from itertools import combinations, product

import numpy as np

from colonnade.estimation.tables import project_to_simplex
from colonnade.papers.laws import least_floor, least_phantoms

SWEEPS = 60
SKETCHES_PER_DRAW = 512
"""Sketches that are drawn at once, to bound the memory."""


def kappa(gamma: float) -> float:
    """Return κ = γ/((1+γ)ln(1+γ)), which makes the harmonic estimate of a cardinality right; 0.7213 at γ = 1."""
    return gamma / ((1 + gamma) * math.log1p(gamma))


def epsilon_each(epsilon: float, delta: float, sketches: int) -> float:
    """ε′ of Algorithm 3."""
    return epsilon / (4 * math.sqrt(sketches * math.log(1 / delta)))


# Algorithm 3 ----------------------------------------------------------------------------------------------------------------


def hashed(ids: np.ndarray, key: int) -> np.ndarray:
    """Uniform numbers by splitmix64."""
    word = ids + np.uint64(key)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        word = (word ^ (word >> np.uint64(shift))) * np.uint64(factor)
    return ((word ^ (word >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53


def algorithm_3(codes: np.ndarray, clusters: int, keys: list[int], gamma: float, each: float, rng) -> np.ndarray:
    """One party's sketches, straightforwardly: hash everybody, take logarithms, the largest of each cluster."""
    ids = np.arange(len(codes), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    phantoms, floor = least_phantoms(each), least_floor(each, gamma)
    sketches = np.empty((len(keys), clusters), dtype=np.int64)
    for number, key in enumerate(keys):
        values = np.ceil(-np.log1p(-hashed(ids, key)) / math.log1p(gamma))
        for cluster in range(clusters):
            real = values[codes == cluster].max(initial=0)
            own = np.ceil(-np.log(rng.random(phantoms)) / math.log1p(gamma)).max()
            sketches[number, cluster] = max(real, own, floor)
    return sketches


def same_law(table: np.ndarray, sketches: int, gamma: float, each: float, rng) -> list[np.ndarray]:
    """All parties' sketches with the law of Algorithm 3, from the sizes of the cells: maxima by their distribution."""
    phantoms, floor = least_phantoms(each), least_floor(each, gamma)

    def maxima(elements: np.ndarray, count: int) -> np.ndarray:
        above = -np.expm1(np.log(rng.random((count, len(elements)))) / elements)
        return np.ceil(-np.log(above) / math.log1p(gamma))

    occupied = np.nonzero(table)
    people = table[occupied]
    found = [np.empty((sketches, size)) for size in table.shape]
    for start in range(0, sketches, SKETCHES_PER_DRAW):
        count = min(SKETCHES_PER_DRAW, sketches - start)
        cells = maxima(people, count)
        for party, size in enumerate(table.shape):
            own = maxima(np.full(size, phantoms), count)
            for cluster in range(size):
                real = cells[:, occupied[party] == cluster].max(axis=1, initial=0)
                found[party][start : start + count, cluster] = np.maximum(np.maximum(real, own[:, cluster]), floor)
    return found


# Algorithm 4 ----------------------------------------------------------------------------------------------------------------


def basic(sketches: list[np.ndarray], people: float, phantoms: int, gamma: float) -> np.ndarray:
    """BasicEst, vectorised: every cell is everybody less its complement; projected."""
    sizes = tuple(one.shape[1] for one in sketches)
    without = []
    for one in sketches:
        order = np.sort(one, axis=1)
        best, second = order[:, -1:], order[:, -2:-1]
        ties = (one == best).sum(axis=1, keepdims=True)
        without.append(np.where((one == best) & (ties == 1), second, best))
    union = without[0].reshape(-1, sizes[0], *(1,) * (len(sizes) - 1))
    for party, one in enumerate(without[1:], start=1):
        shape = [1] * len(sizes)
        shape[party] = sizes[party]
        union = np.maximum(union, one.reshape(-1, *shape))
    cardinality = kappa(gamma) * len(union) / np.exp(-union * math.log1p(gamma)).sum(axis=0)
    weights = people - (cardinality - len(sizes) * (sizes[0] - 1) * phantoms)
    return project_to_simplex(weights.ravel(), people).reshape(sizes)


def algorithm_4(sketches: list, people: float, phantoms: int, gamma: float) -> dict:
    """BasicEst as printed: loops over sketches and cells."""
    clusters, parties = len(sketches[0][0]), len(sketches)
    weights = {}
    for cell in product(range(clusters), repeat=parties):
        total = 0.0
        for number in range(len(sketches[0])):
            largest = max(
                sketches[party][number][a] for party in range(parties) for a in range(clusters) if a != cell[party]
            )
            total += (1 + gamma) ** -largest
        union = kappa(gamma) * len(sketches[0]) / total - parties * (clusters - 1) * phantoms
        weights[cell] = people - union
    return weights


# Algorithm 5 ----------------------------------------------------------------------------------------------------------------


def two_party(pairs: dict, margins: list[np.ndarray], people: float) -> np.ndarray:
    """2PEst's fit, vectorised: from independence, additive steps towards one pair table after the other; projected."""
    weights = np.full((1,) * len(margins), people)
    for party, margin in enumerate(margins):
        shape = [1] * len(margins)
        shape[party] = len(margin)
        weights = weights * (margin / people).reshape(shape)
    for _ in range(SWEEPS):
        for (a, b), target in pairs.items():
            others = tuple(axis for axis in range(weights.ndim) if axis not in (a, b))
            gap = (weights.sum(axis=others) - target) / math.prod(weights.shape[axis] for axis in others)
            weights = weights - np.expand_dims(gap, others)
    return project_to_simplex(weights.ravel(), people).reshape(weights.shape)


def algorithm_5(pairs: dict, margins: list, people: float, sweeps: int = SWEEPS) -> dict:
    """2PEst's fit as printed: loops over cells."""
    clusters, parties = len(margins[0]), len(margins)
    cells = list(product(range(clusters), repeat=parties))
    weights = {cell: people * math.prod(margins[p][cell[p]] / people for p in range(parties)) for cell in cells}
    for _ in range(sweeps):
        for (a, b), target in pairs.items():
            sums = {}
            for cell in cells:
                sums[cell[a], cell[b]] = sums.get((cell[a], cell[b]), 0.0) + weights[cell]
            for cell in cells:
                gap = sums[cell[a], cell[b]] - target[cell[a], cell[b]]
                weights[cell] -= gap / clusters ** (parties - 2)
    return weights


def sketched_two_party(sketches: list[np.ndarray], people: float, phantoms: int, gamma: float) -> np.ndarray:
    """2PEst: BasicEst of every pair, then the fit."""
    pairs = {
        (a, b): basic([sketches[a], sketches[b]], people, phantoms, gamma)
        for a, b in combinations(range(len(sketches)), 2)
    }
    if len(sketches) == 2:
        return pairs[0, 1]
    margins = []
    for one in sketches:
        sizes = kappa(gamma) * len(one) / np.exp(-one * math.log1p(gamma)).sum(axis=0) - phantoms
        margins.append(project_to_simplex(sizes, people))
    return two_party(pairs, margins, people)


# LDP-AGG --------------------------------------------------------------------------------------------------------------------


def reported(codes: np.ndarray, clusters: int, epsilon: float, rng) -> np.ndarray:
    """Generalised randomised response, which the paper's rule prefers to local hashing for this few clusters."""
    keep = math.exp(epsilon) / (math.exp(epsilon) + clusters - 1)
    other = (codes + rng.integers(1, clusters, size=len(codes))) % clusters
    return np.where(rng.random(len(codes)) < keep, codes, other)


def decoded(reports: list[np.ndarray], clusters: int, epsilon: float) -> np.ndarray:
    """Unbiased counts of all combinations: the channel's inverse along every axis (the paper's own estimator is biased)."""
    keep = math.exp(epsilon) / (math.exp(epsilon) + clusters - 1)
    lie = (1 - keep) / (clusters - 1)
    table = np.zeros((clusters,) * len(reports))
    np.add.at(table, tuple(reports), 1)
    inverse = np.linalg.inv(np.full((clusters, clusters), lie) + (keep - lie) * np.eye(clusters))
    for axis in range(table.ndim):
        table = np.moveaxis(np.tensordot(inverse, table, axes=(1, axis)), 0, axis)
    return table


def local_aggregate(reports: list[np.ndarray], clusters: int, epsilon: float, *, pairs: bool) -> np.ndarray:
    """LDP-AGG, or with ``pairs`` LDP-AGG-2PEst."""
    people = float(len(reports[0]))
    if not pairs or len(reports) == 2:
        table = decoded(reports, clusters, epsilon)
        return project_to_simplex(table.ravel(), people).reshape(table.shape)
    tables = {
        (a, b): project_to_simplex(decoded([reports[a], reports[b]], clusters, epsilon).ravel(), people).reshape(
            clusters, clusters
        )
        for a, b in combinations(range(len(reports)), 2)
    }
    margins = [project_to_simplex(decoded([one], clusters, epsilon), people) for one in reports]
    return two_party(tables, margins, people)
