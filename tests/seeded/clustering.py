"""Bugs in clustering: what a person can change, what rounds cost, where centres come from, who has a record."""

from functools import partial
from itertools import count

from colonnade.coordinator.protocols import vertical_clustering
from colonnade.estimation import clustering
from colonnade.estimation import clustering as weighted_clustering
from colonnade.party import gate as gate_module
from colonnade.party.steps import local as counts
from colonnade.party.table.private_table import PrivateTable
from colonnade.privacy.laws import local_clustering
from colonnade.privacy.laws.local_clustering import LocalClustering
from tests.coordinator import test_weighted_clustering as grids
from tests.estimators import test_kmeans as studies
from tests.party import test_local_clustering as local
from tests.party import test_memberships as memberships
from tests.seeded.bug import Bug, replaced, wrapped


def _unclipped(honest, rows, labels, references, radius, *, squared, squares):
    return honest(rows, labels, references, 2**30 if radius else 0, squared=squared, squares=squares)


def _everybody_has_a_record(honest, rows, *arguments, **options):
    everybody = rows.copy()
    everybody[:, 0] = 1
    return honest(everybody, *arguments, **options)


def _one_sweep_free(honest, self, sensitivity, share):
    return honest(
        self, sensitivity, share * 2 if share == self.schedule.sweep * (1 - local_clustering.COUNTS) else share
    )


def _half_the_noise(honest, self, sensitivity, share):
    return honest(self, sensitivity, share) / (4 if self.euclidean else 2)


def _centres_for_one_party(honest, price, parties, unit, method, split=None):
    prices = honest(price, 1, unit, method, split)
    return clustering.ClusteringPrices(prices.centres, honest(price, parties, unit, method, split).weights)


def _squares_instead_of_distances(points, weights, start):
    del start
    return weights @ points / weights.sum()


_parties = count()


def _coins_of_each_party(honest, sample, draw, columns):
    return honest(sample, draw if sample == 1 else 1_000 + next(_parties), columns)


BUGS = [
    Bug(
        "a grid that was pruned is not fitted to its margins again",
        replaced(
            weighted_clustering,
            "_fit",
            lambda grid, _, total: weighted_clustering.Grid(
                grid.cells, grid.weights * total / grid.weights.sum(), grid.sizes
            ),
        ),
        grids.test_an_independent_grid_keeps_its_margins_also_when_pruned,
    ),
    Bug(
        "displacements that nobody clips",
        wrapped(local_clustering, "fold", _unclipped),
        local.test_a_record_zeroed_out_moves_one_cell_of_each_question_within_its_bound,
    ),
    Bug(
        "a null record that is counted",
        wrapped(local, "fold", _everybody_has_a_record),
        local.test_a_missing_record_is_in_no_cell,
    ),
    Bug(
        "sweeps at half their share's noise",
        wrapped(LocalClustering, "parameter", _one_sweep_free),
        partial(local.test_the_questions_of_a_conversation_cost_exactly_the_budget, local.PRICES["laplace"], 3, 20_000),
    ),
    Bug(
        "half the noise in every round",
        wrapped(LocalClustering, "parameter", _half_the_noise),
        partial(
            local.test_the_questions_of_a_conversation_cost_exactly_the_budget, local.PRICES["gaussian"], 8, 20_000
        ),
    ),
    Bug(
        "centres priced as if there were one party",
        wrapped(grids, "clustering_prices", _centres_for_one_party),
        partial(
            grids.test_the_parts_add_up_to_the_price_and_leave_next_to_nothing,
            "secure",
            "person",
            5,
            grids.Price.of(0.3),
            None,
        ),
    ),
    Bug(
        "a missing record that belongs to the first cluster",
        replaced(counts, "MISSING", 0),
        memberships.test_everybody_belongs_to_the_nearest_centre_and_nobody_without_a_value_to_any,
    ),
    Bug(
        "a number at the midpoint that passes for a missing one",
        wrapped(
            PrivateTable,
            "present",
            lambda honest, self, names, *some: honest(self, names, *some) & (self.values(names[0], *some) != 0),
        ),
        memberships.test_everybody_belongs_to_the_nearest_centre_and_nobody_without_a_value_to_any,
    ),
    Bug(
        "memberships that are paid for before their centres are there",
        replaced(gate_module, "require_earlier", lambda *_: None),
        partial(studies.test_memberships_before_their_centres_are_refused_and_cost_nothing, "independent"),
    ),
    Bug(
        "k-median that is k-means by another name",
        replaced(weighted_clustering, "geometric_median", _squares_instead_of_distances),
        partial(grids.test_k_median_finds_what_brute_force_finds_on_tiny_sets, 6, 2, 2),
    ),
    Bug(
        "other people in each party's sample",
        wrapped(vertical_clustering, "sample_coins", _coins_of_each_party),
        studies.test_a_sample_reports_a_quarter_of_the_bytes_at_the_same_price_and_the_weights_are_of_everybody,
    ),
]
