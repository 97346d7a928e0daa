"""Bugs that only a plan which no honest coordinator writes would meet."""

from functools import partial

from colonnade.party import policy as policies
from colonnade.party.policy import Policy
from colonnade.party.steps import agreements as alignment
from colonnade.steps import terms as parameters
from tests.party import test_forged_plans as forged
from tests.seeded.bug import Bug, replaced

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
        "a list's fingerprint has no salt",
        replaced(alignment, "_fingerprint", lambda listed, _: listed),
        forged.test_rows_of_one_list_have_fingerprints_of_their_own,
    ),
    Bug(
        "any order counts as a declared number of people",
        replaced(
            alignment, "_declared", lambda admitted: admitted.row_orders.gate_for(admitted.plan.alignment).terms.people
        ),
        forged.test_a_declared_size_is_what_was_declared_and_never_what_was_found,
    ),
]
