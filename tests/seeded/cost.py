"""Bugs in what a call is said to have cost, and in the two lines that say who learns what."""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from colonnade.conversations import conversation
from colonnade.coordinator import driver
from colonnade.coordinator.driver import CostOfCall
from colonnade.errors import Cost
from colonnade.privacy.accounting import Loss
from colonnade.protocol.messages import GetAccount
from colonnade.report import document
from colonnade.result import PrivacyStatement, TrustPicture
from tests.conversations.sites import Site
from tests.coordinator import test_cost as costs
from tests.estimators import test_trust as trust
from tests.report import test_report as reports
from tests.seeded.bug import Bug, replaced, wrapped


def _with_a_site(test: Callable[..., None], **arguments: object) -> Callable[[], None]:
    def run() -> None:
        with tempfile.TemporaryDirectory() as name:
            test(site=Site(Path(name)), **arguments)

    return run


def _start_again(honest: Callable[..., None], call: CostOfCall, quote: object) -> None:
    call.since = None
    honest(call, quote)


BUGS = [
    Bug(
        "a study that is taken up again forgets what its first attempt paid",
        wrapped(CostOfCall, "agreed", _start_again),
        _with_a_site(costs.test_a_fit_that_was_taken_up_again_says_what_it_paid_and_the_next_that_it_paid_nothing),
    ),
    Bug(
        "a lost release leaves out the party that lost it",
        wrapped(CostOfCall, "agreed", _start_again),
        _with_a_site(costs.test_a_release_whose_party_died_as_it_had_paid_is_drawn_when_it_is_back_and_paid_once),
    ),
    Bug(
        "what others spend meanwhile is counted",
        replaced(
            driver,
            "plan_accounts",
            lambda plan, since, *rest, separately=False: driver.read_accounts(
                dict.fromkeys(since, GetAccount()), *rest
            ),
        ),
        _with_a_site(costs.test_what_another_coordinator_spends_meanwhile_is_not_counted),
    ),
    Bug(
        "a party that does not answer is taken to have spent nothing",
        wrapped(CostOfCall, "read", lambda honest, call, **how: Cost(honest(call, **how).spent)),
        _with_a_site(costs.test_of_a_party_that_stays_away_no_figure_is_given),
    ),
    Bug(
        "a signature on an account that leaves out its lines",
        replaced(conversation, "_account_words", lambda account, nonce: nonce),
        costs.test_an_account_is_signed_with_every_line_and_for_one_question,
    ),
    Bug(
        "twice the epsilon, at the same delta, for a record that is replaced",
        replaced(Loss, "epsilon_if_replaced", lambda loss, delta: 2 * loss.epsilon(delta)),
        partial(
            trust.test_the_figure_for_replaced_records_holds_for_gaussian_noise_whose_distance_doubles,
            trust.Fraction(8),
            1e-5,
        ),
    ),
    Bug(
        "nobody is said to have to keep from pooling",
        replaced(TrustPicture, "_broken", lambda picture: []),
        partial(trust.test_the_second_line_is_what_a_search_over_all_coalitions_finds, "coordinator computes"),
    ),
    Bug(
        "no warning of a coordinator that computes",
        replaced(PrivacyStatement, "coordinator_computes", False),
        trust.test_with_two_parties_preview_receipt_and_print_say_what_a_coordinator_that_computes_must_not_do,
    ),
    Bug(
        "a verdict that overlooks exact values",
        replaced(document, "_exact_readers", lambda study, party: []),
        reports.test_a_verdict_rests_on_what_a_party_must_fear,
    ),
]
