"""`KMeans(method="coreset")`: k-means of a weighted sample of exact rows. Not differentially private."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols.coreset_study import CoresetFindings, CoresetStudy
from colonnade.errors import BadInput
from colonnade.estimation.coreset_models import joined_clusters, sampled_clusters
from colonnade.estimators.coreset_options import checked_size

if TYPE_CHECKING:
    from colonnade.estimators.kmeans import KMeans

__all__ = ["clustering_coreset", "coreset_centres"]


def clustering_coreset(study: "KMeans", federation: Federation, clusters: int, seed: int) -> CoresetStudy:
    """Return the algorithm: draw a coreset, then gather its rows, or cluster them where they are."""
    size = checked_size(study.size, federation.people)
    if size < clusters:
        raise BadInput("A coreset has at least as many rows as there are clusters.", remedy="Raise size=.")
    if study.n_local_clusters is not None or study.split is not None:
        raise BadInput("n_local_clusters and split go with the private methods.")
    return CoresetStudy(
        columns=federation.describe(study.columns),
        task="kmeans",
        size=size,
        people=federation.people,
        clusters=clusters,
        training="rows" if study.gather else "clusters",
        seed=seed,
    )


def coreset_centres(findings: CoresetFindings, clusters: int, seed: int) -> NDArray[np.float64]:
    """Return coded centres of the sampled rows, or of the grid of local centres."""
    weights = findings.coreset.weights
    if findings.gathered is not None:
        return sampled_clusters(findings.gathered, weights, clusters, seed=seed)
    assert findings.clusters is not None
    return joined_clusters(findings.clusters, weights, clusters, seed=seed)
