"""Where the loss comes from (Figure 8): the parts of a clustering by sketches, one by one."""

from collections.abc import Iterator

import numpy as np
from benchmarks.clustering.clustering_methods import CLUSTERS, Scores, memberships, on_grid, papers, true_weights
from benchmarks.clustering.clustering_sets import Points
from sklearn.cluster import KMeans

import colonnade as cn
from colonnade.estimation.clustering import Grid, clustering_prices, fitted_grid
from colonnade.estimation.tables import consistent_tables
from colonnade.papers.estimation import sketch_rule, sketched_tables
from colonnade.papers.laws import SKETCHES, PairSide, PartitionSketches, sketching
from colonnade.privacy.accounting import Price
from colonnade.privacy.randomness import SystemRandomness
from colonnade.privacy.samplers import ExactSampler


def released(codes: list[np.ndarray], clusters: int, price: Price) -> tuple:
    """All parties' sketches at a price, by the real mechanism, pair by pair; and their law."""
    bought, source = sketching(price, len(codes), "person"), SystemRandomness()
    key = source.bytes(32)
    parties = range(len(codes))
    by_party = []
    for party in parties:
        sides = tuple(
            PairSide(f"{min(party, other)}|{max(party, other)}", party < other) for other in parties if other != party
        )
        mechanism = PartitionSketches(bought, "person", clusters, sides, lambda: key)
        by_party.append(mechanism.release(codes[party].astype(np.int32), ExactSampler(source)))
    pairs = {(a, b): (by_party[a][b - 1], by_party[b][a]) for a in parties for b in parties if a < b}
    return bought.law, pairs


def decoded(law, pairs: dict, clusters: int, parties: int, people: int) -> Grid:
    """The weighted grid of all pairs, as the product decodes it."""
    tables = sketched_tables(law, pairs, (clusters,) * parties, people)
    return fitted_grid(consistent_tables(tables, float(people)), float(people))


def components(
    points: Points, owned: list[list[int]], federation: cn.Federation, epsilon: float, run: int
) -> Iterator[tuple[str, Scores]]:
    """Figure 8: only the weights private, and only the centres, each at its part of the budget."""
    people = len(points.values)
    price = clustering_prices(Price.of(epsilon, 1 / people), len(owned), "person", sketch_rule(SKETCHES)).weights
    fits = [KMeans(CLUSTERS, n_init=3, random_state=run).fit(points.values[:, block]) for block in owned]
    centres = [fit.cluster_centers_ for fit in fits]
    grid = decoded(*released(memberships(points, owned, centres), CLUSTERS, price), CLUSTERS, len(owned), people)
    table = np.zeros((CLUSTERS,) * len(owned))
    table[tuple(grid.cells.T)] = grid.weights
    truth = true_weights(points, owned, centres)
    yield "exact centres, sketched weights", on_grid(points, owned, centres, table, run, truth)
    yield "private centres, exact weights", papers(points, owned, federation, epsilon, run)["exact table"]
