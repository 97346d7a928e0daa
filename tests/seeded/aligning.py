"""Bugs that let somebody learn who is in whose list."""

import hashlib
from functools import partial

import numpy as np

from colonnade.conversations import matching as matching_run
from colonnade.party.gate import AdmittedStep
from colonnade.party.handles import Reservation
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.steps.agreements import MatchingPart
from colonnade.party.table import row_order as identifiers
from colonnade.party.table.private_table import PrivateTable
from colonnade.privacy.laws.union import UnionNoise
from colonnade.secure import matching
from colonnade.secure import matching as points
from colonnade.secure.hidden_map import HiddenMap
from colonnade.secure.union import UnionSide
from colonnade.steps.kind import RowOrderKind
from colonnade.steps.products import Gram
from tests.conversations import test_matching_run as runs
from tests.coordinator import test_align as aligned
from tests.coordinator import test_union_studies as unions
from tests.party import test_identifiers as ids
from tests.secure import test_hidden_map as maps
from tests.secure import test_matching as matchings
from tests.secure import test_points as groups
from tests.secure import test_union as pairs
from tests.seeded.bug import Bug, replaced, wrapped


def _hashes_as_coordinates(edwards):
    raw = b"".join(hashlib.sha256(edwards[k : k + 32]).digest() for k in range(0, len(edwards), 32))
    numbers = np.frombuffer(raw, dtype=np.uint8).reshape(-1, 32).copy()
    numbers[:, 31] &= 63
    return numbers


def _fills_with_zeros(honest, keys, values, randomness):
    class Zeros:
        def words(self, count):
            return np.zeros(count, dtype=np.uint64)

    return honest(keys, values, Zeros())


def _rows_at_the_front(people, places, secret):
    order = np.arange(places)
    return np.where(order < people, order, -1)


def _draws_again(honest, self, **options):
    honest(self, **options)
    return Reservation(self.random_bytes(32))


BUGS = [
    Bug(
        "hashes taken for coordinates: a twist bit an id",
        replaced(points, "_montgomery", _hashes_as_coordinates),
        groups.test_no_twist_bit_shows_in_hashed_or_blinded_points,
    ),
    Bug(
        "points off the curve let through",
        replaced(points, "_subset_products", lambda values, seed: [1]),
        partial(groups.test_one_point_off_the_curve_among_many_is_refused, 4),
    ),
    Bug(
        "shares of zero under the leader's keys only: it sees who holds what",
        wrapped(
            matching,
            "zero_shares",
            lambda honest, digests, keys: honest(digests, {"leader": keys["leader"]} if "leader" in keys else {}),
        ),
        matchings.test_the_leader_cannot_tell_which_peers_hold_an_id_that_is_not_common_to_all,
    ),
    Bug(
        "empty slots of a map left at zero",
        lambda patch: patch.setattr(HiddenMap, "write", partial(_fills_with_zeros, HiddenMap.write)),
        maps.test_the_table_looks_the_same_whatever_the_keys,
    ),
    Bug(
        "a list shows its length",
        wrapped(matching_run, "padded", lambda honest, digests, capacity, secret: digests),
        runs.test_turns_senders_and_sizes_of_letters_do_not_depend_on_the_lists,
    ),
    Bug(
        "one secret for all runs",
        wrapped(points.Multiplier, "derive", lambda honest, secret, label: honest(points.Secret(bytes(32)), label)),
        matchings.test_the_same_id_looks_different_in_two_runs,
    ),
    Bug(
        "nulls always at the end",
        replaced(matchings, "drawn_order", _rows_at_the_front),
        matchings.test_every_row_order_is_equally_likely,
    ),
    Bug(
        "a changed list is matched again",
        wrapped(MatchingPart, "_check_policy", lambda honest, self, listed: None),
        aligned.test_a_policy_bounds_how_often_a_list_is_matched,
    ),
    Bug(
        "a run taken up again draws its noise anew",
        wrapped(AdmittedStep, "reserve", _draws_again),
        aligned.test_a_run_that_was_cut_short_is_taken_up_with_the_same_noise,
    ),
    Bug(
        "an error quotes ids",
        wrapped(
            identifiers,
            "_require_distinct",
            lambda honest, text, party: (_ for _ in ()).throw(identifiers.BadInput(f"{text.to_pylist()} repeated")),
        ),
        ids.test_no_error_quotes_an_id,
    ),
    Bug(
        "own products of people whom the other party lacks",
        replaced(PrivateTable, "held", lambda self: np.ones(self.people, dtype=bool)),
        partial(unions.test_the_matrix_is_that_of_the_joined_tables_exactly, size="hidden"),
    ),
    Bug(
        "a union in an order that the other party knows",
        wrapped(UnionSide, "shuffle", lambda honest, self, given, purpose: given),
        pairs.test_the_second_party_cannot_link_coinciding_pseudonyms_to_its_own_rows,
    ),
    Bug(
        "names in the order in which they were sent",
        wrapped(
            UnionSide,
            "shuffle",
            lambda honest, self, given, purpose: given if purpose == "names" else honest(self, given, purpose),
        ),
        pairs.test_the_order_of_names_does_not_follow_the_order_that_the_second_party_sent,
    ),
    Bug(
        "squares with the noise of products",
        wrapped(UnionNoise, "doubled", lambda honest, self, entries: np.zeros(entries, dtype=bool)),
        partial(unions.test_shares_of_the_noise_have_the_declared_variance_and_no_other, "cross"),
    ),
    Bug(
        "plain moments on a union",
        replaced(Gram, "row_order_kind", RowOrderKind.ANY),
        unions.test_a_coordinator_cannot_ask_for_plain_moments_on_a_union,
    ),
    Bug(
        "a noisy size opened a second time, over another number",
        replaced(SqliteLedger, "opening_of", lambda self, request: None),
        aligned.test_a_noisy_size_is_opened_once_even_if_a_peers_list_has_changed_since,
    ),
]
