"""Bugs that only a plan which no honest coordinator writes would meet."""

import hashlib
from functools import partial

from colonnade.party import policy as policies
from colonnade.party.gate import OrderRecords
from colonnade.party.policy import Policy
from colonnade.party.steps import agreements as alignment
from colonnade.steps import terms as parameters
from tests.party import test_forged_plans as forged
from tests.seeded.bug import Bug, replaced


def _with_a_hash_of_the_list(self):
    listed = hashlib.sha256(repr(self._admitted.row_orders.ids.to_pylist()).encode()).digest()
    self._ledger.record_list(
        bytes(28) + self._ledger.head().sequence.to_bytes(4, "big"), listed, **self._admitted.row()
    )
    return bytes(32)


BUGS = [
    Bug(
        "a permission goes by what the coordinator calls a study",
        replaced(Policy, "_check_disclosure", lambda *_: None),
        partial(
            forged.test_a_permission_is_for_what_leaves_and_not_for_what_a_study_calls_itself,
            "coreset-rows",
            "align",
            "alignment",
        ),
    ),
    Bug(
        "the floor of secret sharing is that of the nodes a plan happens to choose",
        replaced(policies, "default_threshold", lambda _: 1),
        forged.test_naming_few_nodes_lowers_no_floor,
    ),
    Bug(
        "weights of any size are taken",
        replaced(parameters, "LARGEST_NUMBER", 1.7e308),
        partial(forged.test_weights_that_could_overflow_past_a_clamp_are_refused, -1e300),
    ),
    Bug(
        "the row of an attempt holds a hash of the list",
        replaced(OrderRecords, "record_attempt", _with_a_hash_of_the_list),
        forged.test_rows_of_attempts_say_which_request_and_nothing_about_the_list,
    ),
    Bug(
        "any order counts as a declared number of people",
        replaced(
            alignment, "_declared", lambda admitted: admitted.row_orders.gate_for(admitted.plan.alignment).terms.people
        ),
        forged.test_a_declared_size_is_what_was_declared_and_never_what_was_found,
    ),
]
