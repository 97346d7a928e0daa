"""Where the loss comes from (Figure 8), and how fine local clusterings should be (Figure 9)."""

import numpy as np
from clustering_methods import CLUSTERS, memberships, on_grid, papers, scored, true_weights
from clustering_sets import Points, a_federation, in_order
from sklearn.cluster import KMeans

import colonnade as cn
from colonnade.estimation.clustering import fitted_grid
from colonnade.estimation.clustering_budget import RULES, clustering_prices
from colonnade.estimation.sketch_tables import sketched_tables
from colonnade.estimation.tables import consistent_tables
from colonnade.privacy.accounting import Price
from colonnade.privacy.laws.sketch_law import sketching
from colonnade.privacy.laws.sketches import PairSide, PartitionSketches
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


def decoded(law, pairs: dict, clusters: int, parties: int, people: int):
    """The weighted grid of all pairs, as the product decodes it."""
    tables = sketched_tables(law, pairs, (clusters,) * parties, people)
    return fitted_grid(consistent_tables(tables, float(people)), float(people))


def components(points: Points, owned: list[list[int]], runs: int, summary) -> dict:
    """Figure 8: only the weights private, only the centres, and both; at ε = 0.5 and 2, half for each part."""
    people, found = len(points.values), {}
    for epsilon in (0.5, 2.0):
        price = clustering_prices(Price.of(epsilon, 1 / people), len(owned), "person", RULES["sketch"]).weights
        sketched, exact, both = [], [], []
        with a_federation(points, owned) as federation:
            for run in range(1, runs + 1):
                fits = [KMeans(CLUSTERS, n_init=3, random_state=run).fit(points.values[:, block]) for block in owned]
                centres = [fit.cluster_centers_ for fit in fits]
                grid = decoded(
                    *released(memberships(points, owned, centres), CLUSTERS, price), CLUSTERS, len(owned), people
                )
                table = np.zeros((CLUSTERS,) * len(owned))
                table[tuple(grid.cells.T)] = grid.weights
                sketched.append(on_grid(points, owned, centres, table, run, true_weights(points, owned, centres)))
                exact.append(papers(points, owned, federation, epsilon, run)["exact table"])
                study = cn.KMeans(
                    CLUSTERS,
                    method="sketch",
                    n_local_clusters=CLUSTERS,
                    epsilon=epsilon,
                    delta=1 / people,
                    random_state=run,
                ).fit(federation)
                both.append(scored(points, in_order(study.cluster_centers_, owned)))
        found |= {
            f"exact centres, sketched weights at ε = {epsilon:g}": summary(sketched),
            f"private centres, exact weights at ε = {epsilon:g}": summary(exact),
            f"both private at ε = {epsilon:g}": summary(both),
        }
    return found


def finer(points: Points, owned: list[list[int]], runs: int, summary) -> dict:
    """Figure 9: the loss against k′, and the k′ that the rule chooses."""
    people, found = len(points.values), {}
    with a_federation(points, owned) as federation:
        for epsilon in (0.25, 2.0):
            for local in (3, 4, 5, 7, 10, None):
                each = []
                for run in range(1, runs + 1):
                    study = cn.KMeans(
                        CLUSTERS,
                        method="sketch",
                        n_local_clusters=local,
                        epsilon=epsilon,
                        delta=1 / people,
                        random_state=run,
                    ).fit(federation)
                    each.append(scored(points, in_order(study.cluster_centers_, owned)))
                name = f"k′ = {local}" if local else f"the rule's k′ = {study.n_local_clusters_}"
                found[f"{name} at ε = {epsilon:g}"] = summary(each)
    return found
