"""k-means scores: the paper's formula, its totals, and what it leaves open (no cost, empty clusters, centroids)."""

import numpy as np
import pytest

from colonnade.papers import private as cluster_scores
from tests.kit import generator
from tests.papers.test_leverage import blocks_of, in_memory


def local_clusters(blocks, people: int, clusters: int, seed: int) -> cluster_scores.LocalClusters:
    return cluster_scores.local_clusters(blocks, people, clusters, seed, in_memory(people))


def scores_of(found: cluster_scores.LocalClusters) -> np.ndarray:
    return found.scores(in_memory(len(found.nonprivate_labels))).mapped()


def rows_of(people: int = 2_000) -> np.ndarray:
    draw = generator("cluster scores")
    return np.concatenate([draw.normal(centre, 1.0, size=(people // 4, 3)) for centre in (-20, 0, 15, 40)])


def test_scores_are_the_papers_formula_on_the_clusters_that_were_found():
    rows = rows_of()
    found = local_clusters(blocks_of(rows), len(rows), 4, seed=0)
    labels = found.nonprivate_labels.mapped()
    gaps = ((rows - found.nonprivate_centres[labels]) ** 2).sum(axis=1)
    cost = gaps.sum()
    for row in (0, 700, 1_999):
        mine = labels == labels[row]
        expected = gaps[row] / cost + gaps[mine].sum() / (mine.sum() * cost) + 2 / mine.sum()
        assert scores_of(found)[row] == pytest.approx(expected)


@pytest.mark.every(2)
@pytest.mark.parametrize("clusters", [1, 3, 7])
def test_scores_sum_to_twice_k_plus_one_and_none_is_below_one_in_n(clusters):
    rows = rows_of()
    scores = scores_of(local_clusters(blocks_of(rows), len(rows), clusters, seed=1))
    assert scores.sum() == pytest.approx(2 * (clusters + 1))
    assert scores.min() >= 1 / len(rows)
    assert scores.max() <= 4


def test_a_table_larger_than_the_starting_sample_is_clustered_from_some_of_its_rows(monkeypatch):
    monkeypatch.setattr(cluster_scores, "SAMPLE", 100)
    rows = generator("stride").permutation(rows_of())
    found = local_clusters(blocks_of(rows, 37), len(rows), 4, seed=5)
    assert sorted(np.bincount(found.nonprivate_labels.mapped()).tolist()) == [500, 500, 500, 500]
