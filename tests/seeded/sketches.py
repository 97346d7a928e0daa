"""Bugs in partition sketches: whose phantoms, how many, where the floor lies, who has the key, what counts once."""

from functools import partial

import numpy as np

from colonnade.estimation import clustering, sketch_tables
from colonnade.estimators.methods.clusters import SketchedClusters
from colonnade.party.steps.local import PrivateMembershipSketches, require_centres
from colonnade.privacy.laws import sketches as all_sketches
from colonnade.privacy.laws.sketches import Sketching, SketchLaw
from colonnade.privacy.randomness import KeyedRandomness
from colonnade.result import Opening
from colonnade.steps import local as membership_sketches
from colonnade.steps.local import MembershipSketches
from tests.audit import test_shared_keys as attacks
from tests.coordinator import test_sketch_tables as tables
from tests.estimators import test_kmeans_sketch as studies
from tests.party import test_membership_sketches as statistics
from tests.privacy import test_partition_sketch as laws
from tests.privacy import test_partition_sketches as mechanisms
from tests.seeded.bug import Bug, replaced, wrapped


def _half_the_phantoms(honest, law, sketches, clusters, source):
    return honest(all_sketches.sketch_law(max(1, law.phantoms // 2)), sketches, clusters, source)


def _each_partys_own(honest, law, sketches, clusters, source):
    _each_partys_own.calls += 1
    return honest(law, sketches, clusters, source.spawn(str(_each_partys_own.calls)))


_each_partys_own.calls = 0


def _none_without_a_record(honest, law, sketches, clusters, source):
    values = honest(law, sketches, clusters, source)
    values[:, :, clusters] = values[:, clusters, :] = law.floor
    return values


def _unfloored(honest, *arguments):
    values = honest(*arguments)
    return np.where(values == values.min(), values - 1, values).astype(np.uint16)


def _phantoms_forgotten(honest, evidence, phantoms, counts, people, **options):
    return honest(evidence, phantoms // 2, counts, people, **options)


_honest_noise = tables.weight_noise

BUGS = [
    Bug(
        "a block of people that is read at once has streams of its own",
        wrapped(
            all_sketches, "_some_people", lambda honest, blocks: (some for block in blocks for some in honest([block]))
        ),
        partial(mechanisms.test_people_that_are_read_some_at_a_time_are_sketched_as_all_at_once, 700),
    ),
    Bug(
        "phantoms that each party draws for itself",
        wrapped(all_sketches, "phantom_values", _each_partys_own),
        attacks.test_the_attack_fails_against_ours,
    ),
    Bug(
        "no phantoms where one party has no record",
        wrapped(all_sketches, "phantom_values", _none_without_a_record),
        partial(
            mechanisms.test_values_have_the_law_of_so_many_people_and_phantoms_and_of_no_tenth_more_or_fewer, 0, 20
        ),
    ),
    Bug(
        "half the phantoms",
        wrapped(all_sketches, "phantom_values", _half_the_phantoms),
        partial(
            mechanisms.test_values_have_the_law_of_so_many_people_and_phantoms_and_of_no_tenth_more_or_fewer, 0, 20
        ),
    ),
    Bug(
        "values below the floor that get out",
        wrapped(all_sketches.PartitionSketches, "release", _unfloored),
        partial(
            mechanisms.test_values_have_the_law_of_so_many_people_and_phantoms_and_of_no_tenth_more_or_fewer, 0, 20
        ),
    ),
    Bug(
        "a floor that costs nothing",
        replaced(SketchLaw, "down", property(lambda law: law.up / 1000)),
        partial(laws.test_every_ratio_of_the_tables_is_within_the_claimed_range, 182),
    ),
    Bug(
        "one element fewer than the phantoms pay for",
        replaced(SketchLaw, "up", property(lambda law: np.log1p(1 / (law.phantoms + 1)))),
        partial(laws.test_every_ratio_of_the_tables_is_within_the_claimed_range, 7),
    ),
    Bug(
        "a part of a record that moves one cell and not two",
        wrapped(
            Sketching,
            "loss",
            lambda honest, self, unit: honest(Sketching(self.parties, self.phantoms, self.sketches // 2), unit),
        ),
        partial(laws.test_a_person_costs_as_much_as_a_part_or_more_and_a_replacement_twice_one_cell, 2),
    ),
    Bug(
        "sketches of one pair that pay for all pairs",
        wrapped(Sketching, "loss", lambda honest, self, unit: honest(Sketching(2, self.phantoms, self.sketches), unit)),
        partial(laws.test_a_person_costs_as_much_as_a_part_or_more_and_a_replacement_twice_one_cell, 4),
    ),
    Bug(
        "one key stream for every pair",
        replaced(KeyedRandomness, "spawn", lambda self, label: self),
        partial(mechanisms.test_another_key_or_pair_gives_other_values, {"side": mechanisms.PairSide("other", True)}),
    ),
    Bug(
        "parties that may be asked for different sketches",
        replaced(
            membership_sketches,
            "_agreeing",
            lambda plan, step: tuple(one.party for one in plan.steps if one.name == step.name),
        ),
        partial(
            statistics.test_parties_that_are_asked_for_different_sketches_are_refused,
            {"price": statistics.Price.of(2.0, 1e-5)},
        ),
    ),
    Bug(
        "sketches that are paid for before there is a key",
        replaced(PrivateMembershipSketches, "require_earlier", lambda self: require_centres(self.category)),
        studies.test_sketches_without_a_key_are_refused_and_cost_nothing,
    ),
    Bug(
        "parties' parts of one release that count as several",
        replaced(MembershipSketches, "together", False),
        partial(studies.test_the_price_is_kept_towards_the_coordinator_for_either_unit, 2, "person"),
        full=True,
    ),
    Bug(
        "a party that has the key and counts as one that has not",
        wrapped(
            Opening,
            "loss_to",
            lambda honest, self, coalition, party=None: honest(
                Opening(self.mechanism, self.scope, self.losses, self.party_losses), coalition, party
            ),
        ),
        studies.test_nothing_is_promised_towards_whoever_has_the_key,
    ),
    Bug(
        "phantoms that are counted as people",
        wrapped(sketch_tables, "_climb", _phantoms_forgotten),
        tables.test_every_cell_is_found_within_its_predicted_error,
    ),
    Bug(
        "partial records that nobody looks for",
        replaced(sketch_tables, "_partial", lambda *_: None),
        tables.test_people_whom_one_party_has_no_record_of_are_noticed,
    ),
    Bug(
        "the constant of other sketches in the rule for k′",
        replaced(tables, "weight_noise", lambda *arguments: 0.649 * _honest_noise(*arguments) / 1.04),
        tables.test_an_average_cell_of_the_automatic_grid_is_clear_of_its_noise_with_the_right_constant,
    ),
    Bug(
        "an automatic k′ that is its cap at every price",
        replaced(clustering, "FINEST", 0),
        studies.test_the_number_of_local_clusters_follows_the_price_and_is_not_always_the_same,
    ),
    Bug(
        "a number of sketches that changes nothing",
        replaced(SketchedClusters, "step_options", lambda *_: {}),
        studies.test_more_sketches_give_better_weights_at_the_same_price_and_that_many_leave,
    ),
]
