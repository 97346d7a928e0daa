"""Deliberate bugs, each with the test that must fail under it. The ledger has a list of its own (tests/party).

`tests/test_seeded_bugs.py` plants each one and runs its victim. A bug is planted in one place; where a second defence would
catch it too, the victim is the test of the place. When a claim is added, its bug is added here.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

import colonnade as cn
from colonnade.coordinator import driver
from colonnade.coordinator.algorithms import pattern_counts
from colonnade.party import gate, guard
from colonnade.party.encoding import CategoryEncoder, NumericEncoder
from colonnade.party.gate import Gate
from colonnade.party.ledger import SqliteLedger
from colonnade.party.party import Party
from colonnade.party.policy import Policy
from colonnade.party.statistics import coding, joint
from colonnade.party.statistics.histogram import Histogram
from colonnade.party.statistics.reports import Reports
from colonnade.privacy import curves, joint_noise, loss, price, randomness, samplers
from colonnade.privacy.channel import Channel
from colonnade.privacy.curves import poisson_sampled_nano
from colonnade.privacy.joint_noise import GramNoise, TableNoise
from colonnade.privacy.loss import Loss
from colonnade.privacy.mechanisms import response as mechanism_response
from colonnade.privacy.mechanisms.gaussian import DiscreteGaussian
from colonnade.privacy.mechanisms.laplace import DiscreteLaplace
from colonnade.privacy.mechanisms.response import RandomizedResponse
from colonnade.privacy.price import Price
from colonnade.protocol import codec
from colonnade.protocol.messages import Refused
from colonnade.result import PrivacyStatement
from colonnade.transport.direct import Direct
from colonnade.transport.transcript import Recorded
from tests import test_record_and_replay as replay
from tests.audit import test_distinguish as audits
from tests.estimators import test_bad_input as bad_input
from tests.estimators import test_pattern_count as studies
from tests.party import test_alignment as alignments
from tests.party import test_gate as gates
from tests.party import test_statistics as statistics
from tests.party import test_statistics_joint as joint_statistics
from tests.party import test_table as tables
from tests.privacy import test_calibration as calibrations
from tests.privacy import test_joint_noise as joint_noises
from tests.privacy import test_loss as losses
from tests.privacy import test_mechanisms as laws
from tests.privacy import test_randomness as sources
from tests.privacy import test_response as responses
from tests.privacy import test_samplers as draws
from tests.protocol import test_codec as codecs
from tests.transport.test_direct import TestInThisProcess
from tests.transport.test_transcript import test_rounds_messages_and_bytes_are_counted_exactly

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Bug:
    """A change to the code, and the test that has to notice it."""

    name: str
    plant: Plant
    victim: Callable[..., None]
    full: bool = False

    def run(self) -> None:
        """Run the victim, with a monkeypatch of its own where it takes one."""
        if "monkeypatch" not in inspect.signature(self.victim).parameters:
            return self.victim()
        with pytest.MonkeyPatch.context() as own:
            return self.victim(monkeypatch=own)


def replaced(owner, name, value) -> Plant:
    return lambda patch: patch.setattr(owner, name, value)


def wrapped(owner, name, change) -> Plant:
    """Replace a function by one that is given the honest one first."""
    honest = getattr(owner, name)
    return lambda patch: patch.setattr(owner, name, lambda *args, **kwargs: change(honest, *args, **kwargs))


# Noise ----------------------------------------------------------------------------------------------------------------------


def _half_the_laplace_noise(honest, self, nonprivate, randomness):
    weak = DiscreteLaplace(Price.of(1.0), 1)
    weak.scale = self.scale / 2
    return honest(weak, nonprivate, randomness)


def _half_the_gaussian_noise(honest, self, nonprivate, randomness):
    weak = DiscreteGaussian(Price.of(1.0, 1e-5), 1)
    weak.sigma_squared = self.sigma_squared / 4
    return honest(weak, nonprivate, randomness)


def _truth_too_often(honest, channel):
    return honest(Channel(channel.kind, channel.categories, channel.size, 2 * channel.nano))


def _noise_around_zero_only(honest, self, nonprivate, randomness):
    return np.where(nonprivate == 0, honest(self, nonprivate, randomness), nonprivate)


def _null_reports_the_first_category(honest, self, nonprivate, randomness):
    return honest(self, np.where(nonprivate < 0, 0, nonprivate), randomness)


def _ties_are_won(honest, self, word, randomness):
    return word <= self._threshold.floor


def _a_generator_of_32_bits(count):
    return np.random.default_rng(int.from_bytes(np.random.bytes(4), "big") % 2).integers(
        256, size=count, dtype=np.uint8
    )


def _uniform_by_remainder(bound, size, randomness):
    count = size if isinstance(size, int) else int(np.prod(size))
    return (randomness.words(count) % np.uint64(bound)).astype(np.int64).reshape(size)


def _float_noise(honest, sigma_squared, size, randomness):
    words = randomness.words(2 * int(np.prod(size))).astype(np.float64) / 2**64
    one, two = words.reshape(2, -1)
    normal = np.sqrt(-2 * np.log(one + 1e-18)) * np.cos(2 * np.pi * two)
    return np.rint(normal * float(sigma_squared) ** 0.5).astype(np.int64).reshape(size)


NOISE = [
    Bug(
        "half the Laplace noise",
        wrapped(DiscreteLaplace, "release", _half_the_laplace_noise),
        partial(laws.test_additive_noise_has_its_law_and_not_that_of_another_scale, laws.ADDITIVE[0]),
    ),
    Bug(
        "half the Gaussian noise",
        wrapped(DiscreteGaussian, "release", _half_the_gaussian_noise),
        partial(laws.test_additive_noise_has_its_law_and_not_that_of_another_scale, laws.ADDITIVE[2]),
    ),
    Bug(
        "half the Laplace noise, seen by the audit",
        wrapped(DiscreteLaplace, "release", _half_the_laplace_noise),
        partial(audits.test_the_truth_stands_and_half_the_noise_is_caught, "laplace 0.5"),
        full=True,
    ),
    Bug(
        "twice the permitted odds of the truth, seen by the audit",
        wrapped(mechanism_response, "_threshold", _truth_too_often),
        partial(audits.test_the_truth_stands_and_half_the_noise_is_caught, "response 0.5"),
        full=True,
    ),
    Bug(
        "twice the permitted odds of the truth",
        wrapped(mechanism_response, "_threshold", _truth_too_often),
        partial(laws.test_reports_have_their_law_and_not_that_of_another_price, laws.CHANNELS[1], 0),
    ),
    Bug(
        "noise that depends on the value",
        wrapped(DiscreteLaplace, "release", _noise_around_zero_only),
        partial(laws.test_noise_does_not_depend_on_the_value, laws.ADDITIVE[0]),
    ),
    Bug(
        "a null record reports the first category",
        wrapped(RandomizedResponse, "release", _null_reports_the_first_category),
        partial(laws.test_reports_have_their_law_and_not_that_of_another_price, laws.CHANNELS[1], -1),
    ),
    Bug(
        "a tie with a probability is always won",
        wrapped(RandomizedResponse, "_below", _ties_are_won),
        laws.test_a_tie_is_resolved_by_further_bits_not_by_convention,
    ),
    Bug(
        "a rounded float instead of an exact draw",
        wrapped(samplers, "discrete_gaussian", _float_noise),
        lambda: _law_of_narrow_noise(samplers.discrete_gaussian),
    ),
    Bug(
        "a generator with a seed of few bits",
        replaced(randomness, "_fresh", _a_generator_of_32_bits),
        sources.test_the_system_never_repeats_itself,
    ),
    Bug(
        "uniform integers by remainder",
        replaced(draws, "uniform_below", _uniform_by_remainder),
        partial(draws.test_uniform_integers_are_uniform, 3 << 61),
    ),
]


def _law_of_narrow_noise(sample):
    """The sampler's own test, on the sampler as it stands in its module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draws, "discrete_gaussian", sample)
        draws.test_the_discrete_gaussian_has_its_law("1/2")


# What one person can do -----------------------------------------------------------------------------------------------------


def _counts_the_missing(self, table):
    codes, _ = table.joint_codes(self.columns)
    return np.bincount(np.maximum(codes, 0), minlength=self.size).astype(np.int64)


def _shape_from_the_data(self, table):
    codes, _ = table.joint_codes(self.columns)
    return np.bincount(codes[codes >= 0]).astype(np.int64)


def _drops_the_missing(honest, self, table):
    codes = honest(self, table)
    return codes[codes >= 0]


def _passes_nan(self, column):
    from colonnade.party.encoding import flatten, numbers_in

    return self._bounded(np.array(numbers_in(flatten(column)), dtype=np.float64))


def _unknown_is_the_first_level(honest, self, column):
    return np.maximum(honest(self, column), 0)


def _ranks_instead_of_bounds(honest, self, column):
    numbers = honest(self, column)
    return numbers / max(float(np.abs(numbers).max(initial=1)), 1.0)


def _claims_amplification(self, offered):
    mechanism = RandomizedResponse(mechanism_response.Channel("grr", max(self.size, 2), 1, offered.nano))
    mechanism.loss = Loss.of_pure(poisson_sampled_nano(offered.nano, Fraction(self.sample)))
    return mechanism


def _rows_rounded_up(columns, row_bound):
    for person in range(columns.shape[1]):
        length = float((columns[:, person] ** 2).sum())
        if length > row_bound:
            columns[:, person] = np.rint(columns[:, person] * (row_bound / length) ** 0.5)


PEOPLE = [
    Bug(
        "no clipping of numbers",
        replaced(NumericEncoder, "_bounded", lambda self, numbers: numbers),
        partial(tables.test_a_number_is_clipped_and_a_missing_one_is_the_midpoint, [-5.0, 500.0], [18.0, 95.0]),
    ),  # fmt: skip
    Bug(
        "NaN passes through",
        replaced(NumericEncoder, "__call__", _passes_nan),
        joint_statistics.test_every_row_is_made_of_integers_within_the_scale_and_no_longer_than_its_bound,
    ),
    Bug(
        "an unknown category is the first level",
        wrapped(CategoryEncoder, "__call__", _unknown_is_the_first_level),
        statistics.test_what_is_no_level_is_in_no_cell,
    ),
    Bug(
        "numbers are scaled by the data's own maximum",
        wrapped(NumericEncoder, "__call__", _ranks_instead_of_bounds),
        joint_statistics.test_a_person_decides_their_own_row_and_no_other,
    ),
    Bug(
        "the missing are counted in the first cell",
        replaced(Histogram, "compute", _counts_the_missing),
        statistics.test_what_is_no_level_is_in_no_cell,
    ),
    Bug(
        "a histogram ends at the largest level that occurs",
        replaced(Histogram, "compute", _shape_from_the_data),
        statistics.test_the_shape_of_a_histogram_depends_on_the_schema_alone,
    ),
    Bug(
        "people without a category send no report",
        wrapped(Reports, "compute", _drops_the_missing),
        partial(replay.test_a_person_removed_changes_nothing_but_the_gates_own_outputs, "response, two parties", 57),
    ),
    Bug(
        "a histogram counts everybody twice",
        wrapped(Histogram, "compute", lambda honest, self, table: 2 * honest(self, table)),
        statistics.test_a_person_removed_moves_one_cell_of_a_histogram_by_at_most_one,
    ),
    Bug(
        "a sample is charged as if it were secret",
        replaced(Reports, "mechanism", _claims_amplification),
        statistics.test_a_sample_buys_no_privacy,
    ),
    Bug(
        "rows are not clipped",
        replaced(coding, "_clip_rows", lambda columns, bound: None),
        joint_statistics.test_every_row_is_made_of_integers_within_the_scale_and_no_longer_than_its_bound,
    ),
    Bug(
        "clipped rows are rounded to the nearest integer",
        replaced(coding, "_clip_rows", _rows_rounded_up),
        joint_statistics.test_clipping_shortens_a_row_no_more_than_truncation_asks_for,
    ),
    Bug(
        "the diagonal of a party's own block has the noise of the rest",
        wrapped(
            joint,
            "_draw",
            lambda honest, noise, variance, *rest: honest(noise, min(variance, noise.own_variance), *rest),
        ),
        partial(
            joint_statistics.test_a_party_noises_its_own_block_with_v_on_the_diagonal_and_half_of_it_elsewhere,
            "gaussian",
        ),
    ),
    Bug(
        "duplicate ids are taken",
        lambda patch: patch.setattr(alignments, "read_ids", lambda source, column, *, party: None),
        lambda: bad_input.test_duplicate_ids_are_counted_and_not_shown(),
        full=True,
    ),
]
PEOPLE = [bug for bug in PEOPLE if bug.name != "duplicate ids are taken"]


# Price and loss -------------------------------------------------------------------------------------------------------------


def _no_composition(some):
    return max(some, key=lambda one: one.renyi, default=loss.NOTHING)


def _shares_for_all(self):
    return len(self.row_bounds)


def _sum_is_one_gaussian(l2_sensitivity_squared, share_variance, shares, entries):
    return Fraction(l2_sensitivity_squared) / (2 * shares * share_variance)


PRICES = [
    Bug(
        "losses are rounded down",
        replaced(loss, "nano_up", lambda value: int(value * 10**9)),
        losses.test_a_curve_given_as_a_function_is_rounded_up_at_every_order,
    ),
    Bug(
        "pure curves are rounded down",
        replaced(loss, "nano_up", lambda value: int(value * 10**9)),
        partial(losses.test_a_pure_curve_is_that_of_binary_randomised_response_rounded_up, losses.NANOS[-1]),
    ),
    Bug(
        "releases do not compose",
        replaced(Loss, "__add__", lambda self, other: max(self, other, key=lambda one: one.renyi)),
        losses.test_composition_adds_exactly_and_in_any_order,
    ),  # fmt: skip
    Bug(
        "parties' releases do not compose for a person",
        lambda patch: patch.setattr("colonnade.result.total", _no_composition),
        studies.test_the_statement_divides_a_persons_price_between_the_parties,
    ),
    Bug(
        "every party gets a person's whole price",
        replaced(Price, "share", lambda self, parts: self),
        studies.test_the_statement_divides_a_persons_price_between_the_parties,
    ),
    Bug(
        "a statement forgets that peers know their own columns",
        replaced(
            PrivacyStatement, "_visible", lambda self, coalition, owners: [one.losses[0] for one in self.openings]
        ),
        studies.test_the_statement_divides_a_persons_price_between_the_parties,
    ),
    Bug(
        "an epsilon is rounded up",
        replaced(price, "nano_epsilon", lambda epsilon, what="epsilon": int(epsilon * 10**9) + 1),
        studies.test_a_study_at_the_caps_own_price_fits_a_fresh_ledger_and_a_further_one_does_not,
    ),
    Bug(
        "NaN is a price",
        lambda patch: patch.setattr(price, "nano_epsilon", lambda epsilon, what="epsilon": 10**9),
        partial(bad_input.test_an_epsilon_that_cannot_be_meant_is_refused, float("nan"), "response"),
    ),
    Bug(
        "colluders are forgotten when shares are sized",
        replaced(GramNoise, "honest", property(_shares_for_all)),
        joint_noises.test_up_to_c_colluders_pay_no_more_than_the_price,
    ),
    Bug(
        "a Gram matrix is charged by its rows' length, not its square",
        replaced(GramNoise, "moved", lambda self, party=None: self.total),
        joint_noises.test_nothing_moves_a_gram_matrix_by_more_than_the_noise_was_made_for,
    ),
    Bug(
        "one party's part is charged without its products with the others",
        replaced(
            GramNoise, "moved", lambda self, party=None: (self.total if party is None else self.row_bounds[party]) ** 2
        ),
        joint_noises.test_nothing_moves_a_gram_matrix_by_more_than_the_noise_was_made_for,
    ),
    Bug(
        "pair tables are charged as one table",
        replaced(TableNoise, "moved", lambda self, party=None: 1),
        joint_statistics.test_a_person_moves_one_cell_of_each_pair_table_by_at_most_one,
    ),
    Bug(
        "a sum of discrete Gaussians is taken for one",
        lambda patch: [
            patch.setattr(one, "summed_gaussian_rho", _sum_is_one_gaussian)
            for one in (curves, joint_noise, calibrations)
        ],
        partial(
            calibrations.test_exact_divergences_of_summed_discrete_gaussians_stay_below_the_bound, Fraction(1, 4), 3
        ),
    ),
]


# Gate, policy, protocol -----------------------------------------------------------------------------------------------------


def _draws_before_it_debits(self, ask):
    request, body = codec.request_identity(ask.plan, self.terms.party, ask.step), codec.digest(ask)
    step = ask.plan.step(self.terms.party, ask.step)
    statistic, mechanism = self._admit_local(ask.plan, step)
    value = mechanism.release(statistic.compute(self.table), self.randomness)
    self.ledger.debit(request, body, mechanism.loss, label="late")
    answer = codec.encode(self._release(step, {"value": gate.pack(value)}, mechanism))
    return self.ledger.seal(request, answer)


def _forgets_answers(patch):
    """Every question is a new one: nothing stored is looked up, and ids never repeat."""
    count = iter(range(10**9))
    patch.setattr(SqliteLedger, "answer_to", lambda self, request, body: None)
    patch.setattr(codec, "request_identity", lambda plan, party, step: next(count).to_bytes(32, "big"))


def _takes_deterministic_noise(self, table, policy, terms, ledger, randomness):
    self.table, self.policy, self.terms, self.ledger, self.randomness = table, policy, terms, ledger, randomness


def _quotes_the_error(honest, self, data):
    try:
        return self._answer(data)
    except Exception as error:
        return codec.encode(Refused(code="protocol-error", message=str(error), remedy="", spent=0.5))


def _refunds(honest, self, sequence):
    return None


def _identity_without_the_repeat(honest, plan, party, step):
    fields = {field: getattr(plan, field) for field in plan.__struct_fields__}
    return honest(type(plan)(**{**fields, "repeat": 1}), party, step)


def _one_at_a_time(self, requests):
    return {name: self._endpoints[name].handle(data) for name, data in requests.items()}


def _counts_requests_only(self, requests, replies):
    self.transcript.rounds += 1
    self.transcript.messages += len(requests)


GATE = [
    Bug(
        "debit after the draw",
        replaced(Gate, "answer", _draws_before_it_debits),
        gates.test_the_order_is_admit_debit_compute_draw_seal,
    ),
    Bug(
        "the stored answer is ignored",
        _forgets_answers,
        gates.test_the_same_request_a_thousand_times_gives_the_same_bytes_and_one_debit,
    ),
    Bug(
        "the body's hash is ignored",
        lambda patch: patch.setattr(
            codec,
            "digest",
            lambda message, honest=codec.digest: honest(message.plan) if hasattr(message, "plan") else honest(message),
        ),  # fmt: skip
        gates.test_another_body_under_the_same_id_is_refused,
    ),
    Bug(
        "the policy is not asked about a step",
        replaced(Policy, "_check_step", lambda self, plan, step, terms: None),
        partial(gates.test_a_policy_decides_what_is_answered, cn.Policy(max_epsilon=0.4), False),
    ),
    Bug(
        "the policy is not asked about a plan",
        replaced(Policy, "_check_plan", lambda self, plan, terms: None),
        partial(gates.test_a_plan_for_other_terms_is_refused, {"people": 7}),
    ),
    Bug(
        "unknown parameters are ignored",
        lambda patch: [
            patch.setattr(f"colonnade.party.statistics.{one}.only_parameters", lambda step, allowed: step.parameters)
            for one in ("histogram", "reports", "joint")
        ],
        gates.test_the_noise_scale_is_never_taken_from_outside,
    ),
    Bug(
        "deterministic noise in production",
        replaced(Gate, "__init__", _takes_deterministic_noise),
        gates.test_deterministic_noise_needs_a_test_ledger,
    ),
    Bug(
        "an error quotes the data",
        wrapped(guard.Guard, "handle", _quotes_the_error),
        gates.test_a_crash_between_debit_and_seal_loses_budget_and_never_draws_again,
    ),
    Bug(
        "a failed release is reported as free",
        wrapped(guard.Guard, "_spent_since", _refunds),
        gates.test_a_crash_between_debit_and_seal_loses_budget_and_never_draws_again,
    ),
    Bug(
        "a repeat is the same question",
        wrapped(codec, "request_identity", _identity_without_the_repeat),
        studies.test_fitting_again_is_free_and_identical_and_a_repeat_is_a_new_draw_at_a_new_price,
    ),
    Bug(
        "nobody is asked to agree before somebody pays",
        lambda patch: patch.setattr(
            Gate,
            "quote",
            lambda self, plan: (
                {one.name: self._loss(plan, one) for one in plan.steps_of(self.terms.party)},
                ("reports",),
            ),
        ),
        bad_input.test_a_budget_that_one_party_lacks_costs_nobody_anything,
    ),
    Bug(
        "another plan's agreement is taken",
        lambda patch: patch.setattr(driver, "agree", lambda plan, transport: driver.Quote({}, {})),
        studies.test_a_preview_spends_nothing_and_states_what_the_study_then_costs,
    ),
    Bug(
        "headers need not be canonical",
        replaced(codec, "_refuse_non_finite", lambda value: None),
        lambda: [
            codecs.test_wrong_types_unknown_fields_and_numbers_that_are_not_finite_are_refused(value)
            for value in _non_finite()
        ],
    ),
    Bug(
        "noise is the same for all parties",
        lambda patch: patch.setattr(
            "colonnade.party.party._test_randomness",
            lambda key, party: None if key is None else randomness.KeyedRandomness(bytes(32)),
        ),  # fmt: skip
        lambda: _parties_draw_differently(),
    ),
    Bug(
        "parties are asked one after the other",
        replaced(Direct, "exchange", _one_at_a_time),
        lambda: TestInThisProcess().test_all_of_a_round_is_delivered_at_the_same_time(),
        full=True,
    ),
    Bug(
        "replies are not counted",
        replaced(Recorded, "_count", _counts_requests_only),
        test_rounds_messages_and_bytes_are_counted_exactly,
    ),
]


# Estimates ------------------------------------------------------------------------------------------------------------------

ESTIMATES = [
    Bug(
        "counts are clipped at zero, not fitted",
        replaced(pattern_counts, "project_counts", lambda estimate, total, channels: np.maximum(estimate, 0)),
        partial(
            studies.test_counts_are_non_negative_add_up_and_are_labelled_by_the_columns_asked_for,
            "response",
            studies.THREE,
        ),
    ),
    Bug(
        "reports are counted without decoding",
        replaced(pattern_counts, "joint_counts", lambda reports, channels: _raw(reports, channels)),
        studies.test_the_errors_of_the_unbiased_counts_are_as_large_as_stderr_says,
    ),
    Bug(
        "a report's variance forgets the matching cell",
        replaced(
            responses,
            "variance_of_counts",
            lambda counts, channels: np.full(counts.shape, counts.sum() * np.prod([c.v0 for c in channels])),
        ),  # fmt: skip
        partial(
            responses.test_the_joint_estimate_is_unbiased_and_its_variance_exact, [Channel("grr", 3, 1, 2 * 10**9)]
        ),
    ),
    Bug(
        "a sample is not scaled up",
        wrapped(
            pattern_counts.ResponseCounts, "combine", lambda honest, self, reports: honest(_unsampled(self), reports)
        ),
        studies.test_sampling_scales_the_counts_up_and_charges_the_full_price,
    ),
]


def _raw(reports, channels):
    supports = [channel.supports(report).astype(float) for report, channel in zip(reports, channels, strict=True)]
    return supports[0].T @ supports[1] if len(supports) == 2 else supports[0].sum(axis=0)


def _unsampled(self):
    return pattern_counts.ResponseCounts(self.layout, self.price, self.people)


def _non_finite():
    return [case for case in _cases(codecs.test_wrong_types_unknown_fields_and_numbers_that_are_not_finite_are_refused)]


def _cases(test):
    """The values that a test is parametrised with."""
    (mark,) = [mark for mark in test.pytestmark if mark.name == "parametrize"]
    return mark.args[1]


def _parties_draw_differently():
    """With the same key, two parties that hold the same column must not release the same bytes."""
    from tests.federations import SCHEMAS, TEST_KEY, frames

    table = frames()["telco"]
    both = {name: Party(table, schema=SCHEMAS["telco"]) for name in ("one", "two")}
    with cn.Federation.simulate(both, id="person_id", budget=cn.Budget(epsilon=9.0), test_key=TEST_KEY) as f:
        f.transport = seen = Recorded(f.transport, keep=True)
        cn.PatternCount(["one.plan", "two.plan"], method="response", epsilon=2.0).fit(f)
    replies = seen.exchanges[-1][1]
    values = [codec.decode_reply(replies[name]).array("value").tobytes() for name in both]
    assert values[0] != values[1]


SEEDED_BUGS = [*NOISE, *PEOPLE, *PRICES, *GATE, *ESTIMATES]
