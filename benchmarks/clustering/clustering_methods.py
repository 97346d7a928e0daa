"""What is compared: k-means without privacy, central k-means with it, our methods, and the paper's on the same local centres.

The paper is Private vertical clustering (docs/references.md#clustering).
"""

import io
import math
import subprocess
from typing import NamedTuple

import numpy as np
from benchmarks.clustering.clustering_paper import (
    basic,
    epsilon_each,
    local_aggregate,
    reported,
    same_law,
    sketched_two_party,
)
from benchmarks.clustering.clustering_sets import CLUSTERS, Points, a_federation, in_order
from benchmarks.frame import Unavailable
from benchmarks.frame.peers import DIFFPRIVLIB, quiet_environment
from sklearn.cluster import KMeans
from sklearn.metrics import v_measure_score

import colonnade as cn
from colonnade.estimation.clustering import LARGEST_GRID, weighted_kmeans
from colonnade.estimation.tables import project_to_simplex
from colonnade.papers.laws import SKETCHES, least_phantoms

OURS = {
    "secure": {"method": "secure"},
    "secure, k′ = 5": {"method": "secure", "n_local_clusters": CLUSTERS},
    "sketch": {"method": "sketch"},
    "sketch, k′ = 5": {"method": "sketch", "n_local_clusters": CLUSTERS},
    "response": {"method": "response"},
    "independent, k′ = 5": {"method": "independent", "n_local_clusters": CLUSTERS},
}
GAMMA = 0.1
LARGEST = 10_000
"""Cells of a grid up to which the paper's methods without pairs are drawn: BasicEst keeps one number per cell and sketch."""


class Scores(NamedTuple):
    """One run: loss, V-score and, where there is a grid of k′ = 5, the relative ℓ₁ error of its weights."""

    loss: float
    agreement: float
    error: float = math.nan
    local: int = 0

    @property
    def values(self) -> dict[str, float]:
        """The numbers that are known, by name."""
        known = {"loss": self.loss, "v_score": self.agreement}
        known |= {} if math.isnan(self.error) else {"weight_error": self.error}
        return known | ({"local": float(self.local)} if self.local else {})


def distances(points: Points, centres: np.ndarray) -> np.ndarray:
    """Squared distances to every centre."""
    return np.stack([((points.values - centre) ** 2).sum(axis=1) for centre in centres], axis=1)


def scored(points: Points, centres: np.ndarray, error: float = math.nan, local: int = 0) -> Scores:
    gaps = distances(points, centres)
    agreement = v_measure_score(points.groups, gaps.argmin(axis=1))
    return Scores(float(gaps.min(axis=1).mean()), float(agreement), float(error), local)


# Without privacy ------------------------------------------------------------------------------------------------------------


def central(points: Points, seed: int) -> Scores:
    return scored(points, KMeans(CLUSTERS, n_init=10, random_state=seed).fit(points.values).cluster_centers_)


def vertical(points: Points, owned: list[list[int]], seed: int) -> Scores:
    """Non-private VFL (DistDim): local k-means with k′ = k, exact weights of the grid, weighted k-means of its points."""
    fits = [KMeans(CLUSTERS, n_init=10, random_state=seed).fit(points.values[:, block]) for block in owned]
    return on_grid(points, owned, [fit.cluster_centers_ for fit in fits], None, seed)


# With privacy, by ours ------------------------------------------------------------------------------------------------------


def ours(
    points: Points, owned: list[list[int]], federation: cn.Federation, options: dict, epsilon: float, run: int
) -> Scores:
    """One study; ``options`` are parameters of `cn.KMeans`."""
    study = cn.KMeans(CLUSTERS, epsilon=epsilon, delta=1 / len(points.values), **options)
    study.fit(federation, repeat=run)
    return scored(
        points, in_order(study.cluster_centers_, owned), weight_error(points, owned, study), study.n_local_clusters_
    )


def weight_error(points: Points, owned: list[list[int]], study) -> float:
    """Σ|weight − people| / people over the whole grid; only for k′ = 5, as in Figure 7."""
    if study.n_local_clusters_ != CLUSTERS:
        return math.nan
    truth = true_weights(points, owned, list(study.local_centers_.values()))
    found = np.zeros_like(truth)
    found[tuple(np.array(study.grid_weights_.index.to_list()).T)] = study.grid_weights_.to_numpy()
    return float(np.abs(found - truth).sum() / len(points.values))


def central_private(points: Points, epsilon: float, run: int) -> Scores:
    """Our local clustering with all columns at one party."""
    with a_federation(points, [list(range(points.values.shape[1]))]) as federation:
        study = cn.KMeans(
            CLUSTERS, method="independent", n_local_clusters=2 * CLUSTERS, epsilon=epsilon, delta=1 / len(points.values)
        ).fit(federation, repeat=run)
    return scored(points, study.cluster_centers_)


def peer_private(points: Points, epsilon: float, run: int) -> Scores:
    """diffprivlib's k-means (pure ε), in an environment of its own."""
    program = (
        "import io, sys, numpy as np, warnings; warnings.simplefilter('ignore')\n"
        "from diffprivlib.models import KMeans\n"
        "values = np.load(io.BytesIO(sys.stdin.buffer.read()))\n"
        "fit = KMeans(int(sys.argv[1]), epsilon=float(sys.argv[2]), random_state=int(sys.argv[3]),\n"
        "             bounds=(-np.ones(values.shape[1]), np.ones(values.shape[1]))).fit(values)\n"
        "kept = io.BytesIO(); np.save(kept, fit.cluster_centers_); sys.stdout.buffer.write(kept.getvalue())\n"
    )
    sent = io.BytesIO()
    np.save(sent, points.values)
    command = [DIFFPRIVLIB.python(), "-c", program, str(CLUSTERS), str(epsilon), str(run)]
    answer = subprocess.run(command, input=sent.getvalue(), capture_output=True, check=False, env=quiet_environment())
    if answer.returncode:
        raise Unavailable("diffprivlib fails here")
    return scored(points, np.load(io.BytesIO(answer.stdout)))


# With privacy, by the paper -------------------------------------------------------------------------------------------------


def papers(points: Points, owned: list[list[int]], federation, epsilon: float, run: int) -> dict[str, Scores]:
    """All of the paper's ways to weights on the same private centres, each with the other half of ε, ε/2S a party."""
    people, parties = len(points.values), len(owned)
    study = cn.KMeans(
        CLUSTERS,
        method="independent",
        split=0.5,
        n_local_clusters=CLUSTERS,
        epsilon=epsilon,
        delta=1 / people,
    ).fit(federation, repeat=run)
    centres = list(study.local_centers_.values())
    codes = memberships(points, owned, centres)
    truth = true_weights(points, owned, centres)
    rng = np.random.default_rng(run)
    share, each = epsilon / (2 * parties), epsilon_each(epsilon / (2 * parties), 1 / (people * parties), SKETCHES)
    sketches, phantoms = same_law(truth, SKETCHES, GAMMA, each, rng), least_phantoms(each)
    reports = [reported(one, CLUSTERS, share, rng) for one in codes]
    margins = [
        project_to_simplex(np.bincount(one, minlength=CLUSTERS) + rng.laplace(scale=1 / share, size=CLUSTERS), people)
        for one in codes
    ]
    independent = margins[0]
    for margin in margins[1:]:
        independent = np.multiply.outer(independent, margin / people)
    tables = {
        "IND-LAP": independent,
        "LDP-AGG-2PEst": local_aggregate(reports, CLUSTERS, share, pairs=True),
        "DPFMPS-2PEst": sketched_two_party(sketches, people, phantoms, GAMMA),
        "exact table": truth,
    }
    if truth.size <= LARGEST:
        tables["LDP-AGG"] = local_aggregate(reports, CLUSTERS, share, pairs=False)
        tables["DPFMPS-BasicEst"] = basic(sketches, people, phantoms, GAMMA)
    return {name: on_grid(points, owned, centres, table, run, truth) for name, table in tables.items()}


# The grid -------------------------------------------------------------------------------------------------------------------


def memberships(points: Points, owned: list[list[int]], centres: list[np.ndarray]) -> list[np.ndarray]:
    return [
        ((points.values[:, block][:, None] - own) ** 2).sum(axis=2).argmin(axis=1)
        for block, own in zip(owned, centres, strict=True)
    ]


def true_weights(points: Points, owned: list[list[int]], centres: list[np.ndarray]) -> np.ndarray:
    table = np.zeros(tuple(len(one) for one in centres))
    np.add.at(table, tuple(memberships(points, owned, centres)), 1)
    return table


def on_grid(
    points: Points,
    owned: list[list[int]],
    centres: list[np.ndarray],
    table: np.ndarray | None,
    seed: int,
    truth: np.ndarray | None = None,
) -> Scores:
    """Weighted k-means of the grid; exact weights where none are given."""
    weights = true_weights(points, owned, centres) if table is None else table
    cells = np.indices(weights.shape).reshape(weights.ndim, -1).T
    heavy = np.sort(np.argsort(-weights.ravel(), kind="stable")[:LARGEST_GRID])  # as the product does
    cells, flat = cells[heavy], weights.ravel()[heavy]
    grid = np.concatenate([own[cells[:, party]] for party, own in enumerate(centres)], axis=1)
    found = weighted_kmeans(grid, flat, CLUSTERS, seed=seed)
    error = math.nan if truth is None or table is None else np.abs(table - truth).sum() / len(points.values)
    return scored(points, in_order(found, owned), error)
