"""Bugs that let somebody learn who is in whose list."""

import hashlib
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from colonnade.conversations import matching as matching_run
from colonnade.conversations import matching as union_run
from colonnade.conversations.memory import RunRecords
from colonnade.errors import ProtocolError
from colonnade.party import party as opening
from colonnade.party.gate import AdmittedStep, OrderRecords
from colonnade.party.handles import Attempt, Reservation
from colonnade.party.steps import agreements
from colonnade.party.table import row_order as identifiers
from colonnade.party.table.private_table import PrivateTable
from colonnade.party.table.stored_table import party_ids
from colonnade.privacy.laws.union import UnionNoise
from colonnade.secure import matching
from colonnade.secure import matching as points
from colonnade.secure.matching import HiddenMap, UnionSide
from colonnade.service import study_file
from colonnade.steps.alignment import Cohort
from colonnade.steps.kind import RowOrderKind
from colonnade.steps.products import Gram
from tests.cli import test_align as previews
from tests.conversations import test_matching_run as runs
from tests.conversations import test_union_run as union_runs
from tests.coordinator import test_align as aligned
from tests.coordinator import test_union_studies as unions
from tests.party import test_alignment_refusals as refusals
from tests.party import test_forged_plans as forged
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
    return Reservation(self._gate.random_bytes(32))


def _recorded_late(patch):
    honest, read = agreements._begin_attempt, agreements.comparable_ids
    waiting = []
    patch.setattr(agreements, "_begin_attempt", lambda admitted: waiting.append(admitted) or bytes(32))

    def late(ids, rules):
        found = read(ids, rules)
        honest(waiting.pop())
        return found

    patch.setattr(agreements, "comparable_ids", late)


def _off_the_account(patch):
    patch.setattr(OrderRecords, "disclose", lambda *_: None)
    patch.setattr(OrderRecords, "tell", lambda *_: None)


def _requires_every_own_name(honest, self, names):
    order = honest(self, names)
    if np.count_nonzero(order >= 0) != self._people:
        raise ProtocolError("The union lacks an id of this party's.")
    return order


def _first_of_each(array):
    values = array.to_numpy(zero_copy_only=False)
    if values.dtype.kind != "i":
        return values
    return np.array([code if code not in values[:place] else 10**6 + place for place, code in enumerate(values)])


def _in_a_folder(test):
    """Run a test that keeps ledgers in a folder of its own."""

    def run():
        with tempfile.TemporaryDirectory() as folder:
            test(tmp_path=Path(folder))

    return run


def _read_by_a_preview(honest, file, folder, align):
    for name, member in file.members.items():
        party_ids(member.party().source, "person_id", party=name, memory=None)
    return honest(file, folder, align)


def _preview_of_rows_to_be_matched() -> None:
    with tempfile.TemporaryDirectory() as folder:
        previews.test_a_preview_of_rows_to_be_matched_reads_no_data_and_draws_nothing(
            Path(folder), "epsilon = 0.25", ""
        )


BUGS = [
    Bug(
        "a preview reads the ids that are still to be matched",
        wrapped(study_file, "_to_be_matched", _read_by_a_preview),
        _preview_of_rows_to_be_matched,
    ),
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
        "attempts to align are not bounded",
        replaced(agreements, "check_attempt", lambda *_: None),
        aligned.test_a_policy_bounds_the_attempts_to_align_in_every_mode,
    ),
    Bug(
        "the plan chooses how long a list looks",
        refusals._capacity_from_the_plan,
        partial(refusals.test_no_question_about_the_length_of_a_list_is_answered, None),
    ),
    Bug(
        "a longer list than declared is opened, and fails on request",
        replaced(opening, "require_capacity", lambda ids, capacity, party: None),
        aligned.test_a_longer_list_than_its_capacity_is_refused_to_its_owner_when_the_table_is_opened,
    ),
    Bug(
        "a list that has changed is refused, and only such a one",
        refusals._refuses_a_changed_list,
        _in_a_folder(refusals.test_a_match_under_a_new_version_is_refused_whether_or_not_anybody_has_come),
    ),
    Bug(
        "a new data version does not close matching",
        wrapped(agreements, "check_attempt", lambda honest, policy, step, *rest: honest(policy, Cohort, *rest)),
        _in_a_folder(refusals.test_a_match_under_a_new_version_is_refused_whether_or_not_anybody_has_come),
    ),
    Bug(
        "an alignment to a public list is not recorded",
        wrapped(
            agreements,
            "_begin_attempt",
            lambda honest, admitted: b"" if isinstance(admitted.half, Cohort) else honest(admitted),
        ),
        refusals.test_a_public_list_tells_nothing_of_ids_that_repeat_and_every_attempt_counts,
    ),
    Bug(
        "an attempt is recorded after the list was read",
        _recorded_late,
        _in_a_folder(partial(forged.test_a_run_that_fails_is_an_attempt_that_was_counted_before, "intersection")),
    ),
    Bug(
        "an error counts the ids that repeat",
        replaced(agreements, "comparable_ids", refusals._counting(agreements.comparable_ids)),
        partial(
            refusals.test_neighbouring_lists_leave_the_same_transcript_and_the_same_rows,
            name="cohort",
            rule="fold",
            which=refusals.SOME,
        ),
    ),
    Bug(
        "of ids that become equal the first is taken",
        replaced(identifiers, "_numpy", _first_of_each),
        partial(ids.test_missing_ids_have_no_place_and_ids_that_become_equal_have_none_either, ["a", "a ", "x"], [2]),
    ),
    Bug(
        "an intersection is not in the account",
        _off_the_account,
        partial(
            aligned.test_an_intersection_is_in_every_account_before_the_first_letter_leaves, options={"size": "hidden"}
        ),
    ),
    Bug(
        "an intersection is allowed by default",
        refusals._intersections_by_default_and_off_the_account,
        refusals.test_nobody_learns_whom_a_bank_has_unless_it_says_so_and_then_its_account_shows_it,
    ),
    Bug(
        "a peer may bring another list to another run",
        replaced(RunRecords, "keep", lambda *_, **__: None),
        _in_a_folder(refusals.test_a_peer_with_a_new_list_for_another_run_of_one_request_finds_nobody_to_talk_to),
    ),
    Bug(
        "every run counts as an attempt",
        wrapped(Attempt, "within", lambda honest, *rest: [replace(one, body=None) for one in honest(*rest)]),
        _in_a_folder(partial(refusals.test_runs_that_were_cut_short_are_one_attempt, "intersection")),
    ),
    Bug(
        "a union refuses where one of its own names is missing",
        wrapped(UnionSide, "order", _requires_every_own_name),
        pairs.test_a_row_whose_name_is_left_out_has_no_place_and_nobody_hears_of_it,
    ),
    Bug(
        "a union is made with a list that has names twice",
        replaced(union_run, "require_distinct", lambda _: None),
        union_runs.test_a_list_with_names_twice_does_not_ask_whether_somebody_is_on_the_other_list,
    ),
    Bug(
        "a run taken up again draws its noise anew",
        wrapped(AdmittedStep, "reserve", _draws_again),
        aligned.test_a_run_that_was_cut_short_is_taken_up_with_the_same_noise,
    ),
    Bug(
        "own products of people whom the other party lacks",
        replaced(PrivateTable, "held", lambda self, start=0, stop=None: np.ones(self.people, dtype=bool)[start:stop]),
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
        replaced(UnionNoise, "doubled", np.array([], dtype=int)),
        partial(unions.test_shares_of_the_noise_have_the_declared_variance_and_no_other, "cross"),
    ),
    Bug(
        "plain moments on a union",
        replaced(Gram, "row_order_kind", RowOrderKind.ANY),
        unions.test_a_coordinator_cannot_ask_for_plain_moments_on_a_union,
    ),
    Bug(
        "a noisy size opened a second time, over another number",
        replaced(RunRecords, "keep", lambda *_, **__: None),
        aligned.test_a_noisy_size_is_opened_once_even_if_a_peers_list_has_changed_since,
    ),
]
