"""Bugs that only a plan which no honest coordinator writes would meet."""

import dataclasses
import hashlib
from functools import partial

from colonnade.party.gate import OrderRecords
from colonnade.party.policy import Policy
from colonnade.party.steps import agreements as alignment
from colonnade.secure.shamir import default_threshold
from colonnade.steps import terms as parameters
from colonnade.steps.joint import SharingFloor
from tests.party import test_forged_plans as forged
from tests.seeded.bug import Bug, replaced, wrapped


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
        partial(forged.test_a_permission_is_for_what_leaves, "coreset-rows"),
    ),
    Bug(
        "the floor of secret sharing is that of the members a plan happens to name",
        wrapped(
            SharingFloor,
            "check",
            lambda honest, self, plan, asker: honest(
                dataclasses.replace(self, threshold=min(self.threshold, default_threshold(len(plan.compute_nodes)))),
                plan,
                asker,
            ),
        ),
        partial(forged.test_naming_few_parties_or_nodes_lowers_no_floor, forged.PARTIES[:2]),
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
