"""Bugs that lower a floor, print a false c, or let a plan through that nobody meant."""

import dataclasses
from functools import partial

from colonnade.coordinator.driver import ComputeMembers
from colonnade.coordinator.federation import Federation
from colonnade.party import guard as guards
from colonnade.party import policy as policies
from colonnade.party.guard import Guard
from colonnade.party.policy import Policy
from colonnade.result import Opening, PrivacyStatement
from colonnade.secure.shamir import FEWEST_NODES
from colonnade.steps import kind as kinds
from colonnade.steps.joint import SharingFloor
from tests.conversations import test_floors as floors
from tests.estimators import test_names_in_plans as names
from tests.estimators import test_pooling as pooling
from tests.seeded.bug import Bug, replaced, wrapped


def _stops_at_three(honest, self, asked, threshold, dealing=()):
    return honest(self, asked, 1, dealing)[: max(FEWEST_NODES, len(asked))]


def _lowers_collusion(patch):
    """As before: the coordinator stops at three nodes and lowers c, and no party knows what was asked for."""
    wrapped(ComputeMembers, "choose", _stops_at_three)(patch)
    honest = Federation.plan

    def plan(self, *more, **options):
        asked, self.collusion = self.collusion, 1
        try:
            return honest(self, *more, **options)
        finally:
            self.collusion = asked

    patch.setattr(Federation, "plan", plan)
    patch.setattr(SharingFloor, "check", lambda *_: None)


def _without(name):
    """An opening that is counted as if one of its fields were empty."""

    def counted(honest, self, parties):
        return honest(dataclasses.replace(self, **{name: ()}), parties)

    return wrapped(Opening, "collusion", counted)


def _knows_anything(patch):
    for module in (guards, policies):
        patch.setattr(module, "require_known", lambda plan: None)


def _known_by_beginning(honest, plan):
    methods = kinds.TASKS.get(plan.task, {})
    meant = [method for method in methods if method[:4] == plan.method[:4]]
    return honest(names.replaced(plan, method=meant[0] if meant else plan.method))


BUGS = [
    Bug(
        "a policy's floor of collusion is no floor under the threshold",
        wrapped(
            Policy,
            "_check_sharing",
            lambda honest, self, plan, party: SharingFloor(self.min_threshold or 1).check(plan, "this party's policy"),
        ),
        partial(floors.test_noise_covers_what_a_policy_insists_on_or_all_parties_but_one, 1, True),
    ),
    Bug(
        "the coordinator lowers collusion without a word",
        _lowers_collusion,
        floors.test_the_honest_coordinator_has_idle_parties_compute_until_two_learn_nothing,
    ),
    Bug(
        "too few nodes for the requested collusion will do",
        wrapped(
            ComputeMembers, "choose", lambda honest, self, asked, threshold, dealing=(): honest(self, asked, 1, dealing)
        ),
        partial(floors.test_too_few_compute_nodes_are_refused_with_the_number_to_add_and_that_number_suffices, 3, 2),
    ),
    Bug(
        "a party that only computes checks nothing",
        replaced(Guard, "_assist", lambda self, plan: None),
        floors.test_a_party_that_only_computes_checks_the_plan_too_when_it_agrees_and_when_it_is_asked_without_having_agreed,
    ),
    Bug(
        "any node will do",
        replaced(Policy, "_accepted_nodes", lambda self, party: None),
        partial(floors.test_a_party_refuses_nodes_that_it_has_not_named_whether_it_is_asked_for_data_or_not, True),
    ),
    Bug(
        "the federation's floor does not bind its members",
        wrapped(
            SharingFloor,
            "check",
            lambda honest, self, plan, asker: None if asker == "this federation" else honest(self, plan, asker),
        ),
        floors.test_a_node_without_data_holds_the_federations_floor_too,
    ),
    Bug(
        "c counts on a coordinator that is itself a compute node",
        _without("nodes"),
        partial(pooling.test_c_is_true_for_every_shape_of_a_federation, "two parties and the coordinator"),
    ),
    Bug(
        "c counts on a key that the parties hold",
        _without("key_holders"),
        partial(
            pooling.test_where_parties_hold_a_key_that_the_promise_rests_on_c_is_zero,
            lambda: pooling.logistic("poisson"),
            0,
        ),
    ),
    Bug(
        "the coordinator with a party is not shown where it computes itself",
        replaced(PrivacyStatement, "_largest_pool", property(lambda self: self.collusion)),
        pooling.test_c_is_shown_beside_the_first_coalition_that_reads_everything,
    ),
    Bug(
        "names in a plan are not looked up",
        _knows_anything,
        names.test_a_plan_that_nobody_meant_is_neither_quoted_nor_debited,
    ),
    Bug(
        "a method is known by its beginning",
        lambda patch: [
            patch.setattr(module, "require_known", partial(_known_by_beginning, kinds.require_known))
            for module in (guards, policies)
        ],
        names.test_a_plan_that_nobody_meant_is_neither_quoted_nor_debited,
    ),
]
