"""`federation.align` through real guards, gates, ledgers and codec: what comes out, what it costs, what is refused."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from colonnade.errors import BadInput, NonPrivateRefused, PlanMismatch, PolicyRefusal
from colonnade.party.steps.agreements import MatchingPart
from colonnade.protocol import messages
from colonnade.protocol.messages import Described, Post, Posted
from colonnade.steps.alignment import ListMatching
from tests import kit
from tests.conversations.list_stage import list_plan

SCHEMA = cn.Schema(value=cn.Numeric(0, 1), group=cn.Category(["no", "yes"]))
LISTS = {
    "bank": [f"p{k}" for k in range(60)],
    "telco": [f"p{k}" for k in range(20, 90)],
    "shop": [f"p{k}" for k in range(30, 75)],
}
COMMON = {f"p{k}" for k in range(30, 60)}


def table(ids) -> pd.DataFrame:
    rng = kit.generator(f"align {len(ids)}")
    groups = np.array(["no", "yes"])[rng.integers(2, size=len(ids))]
    return pd.DataFrame({"id": list(ids), "value": rng.random(len(ids)), "group": groups})


def unaligned(lists=LISTS, *, aligned=False, policies=None, test_key=None, **options) -> cn.Federation:
    return cn.Federation.simulate(
        {name: cn.Party(table(ids), schema=SCHEMA) for name, ids in lists.items()},
        id="id",
        budget=cn.Budget(epsilon=3.0, delta=1e-5),
        aligned=aligned,
        policies=policies,
        test_key=test_key,
        **options,
    )


def kept_ids(federation: cn.Federation) -> dict[str, list[str | None]]:
    """Look behind the guards: the ids of each party in the order that it keeps."""
    guards = federation._driver.transport._endpoints
    return {
        party: guards[party]._row_orders.order(federation._driver.alignment).ids.to_pylist()
        for party in federation.parties
    }


def shown_order(federation: cn.Federation, lists=LISTS) -> dict[str, list[str | None]]:
    """The same, by the rows of each party's own table."""
    orders = {}
    for party, ids in lists.items():
        order = federation._driver.transport._endpoints[party]._row_orders.order(federation._driver.alignment).rows
        orders[party] = [str(ids[row]) if row >= 0 else None for row in order]
    return orders


# What comes out -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3])
def test_the_intersection_is_exact_and_in_one_order(count):
    lists = dict(list(LISTS.items())[:count])
    with unaligned(lists) as federation:
        assert federation.align(size="public") is federation
        orders = shown_order(federation, lists)
        expected = set.intersection(*map(set, lists.values()))
        assert federation.people == len(expected)
        assert all(set(order) == expected for order in orders.values())
        assert len({tuple(order) for order in orders.values()}) == 1
        assert kept_ids(federation) == orders


def test_studies_run_on_the_alignment_and_count_the_people_in_common():
    with unaligned() as federation:
        federation.align(size="public")
        counted = cn.PatternCount(["bank.group", "telco.group"], epsilon=3.0).fit(federation)
        groups = {name: table(ids).set_index("id").group.rename(name) for name, ids in LISTS.items()}
        joined = pd.concat(groups.values(), axis=1, join="inner")
        true = joined[["bank", "telco"]].value_counts().reindex(counted.counts_.index, fill_value=0)
        assert np.abs(counted.counts_ - true.to_numpy()).max() < 12


def test_a_cohort_keeps_the_lists_order_with_nulls_where_a_party_lacks_somebody():
    listed = ["p10", "p35", "p80", "nobody"]
    with unaligned() as federation:
        federation.align("cohort", ids=listed)
        orders = shown_order(federation)
        assert federation.people == 4
        assert orders["bank"] == ["p10", "p35", None, None]
        assert orders["telco"] == [None, "p35", "p80", None]
        assert kept_ids(federation)["shop"] == listed
        assert federation.aligned_.findings.privacy.epsilon(observer="bank") == 0.0


# Stored, and reused at no cost --------------------------------------------------------------------------------------------


@pytest.mark.every(2)
@pytest.mark.parametrize("options", [{"size": "public"}, {"size": "hidden"}, {"epsilon": 0.5}])
def test_aligning_again_uses_the_order_that_is_kept_and_costs_nothing(options):
    with unaligned() as federation:
        first = federation.align(**options)._driver.alignment
        spent = federation.budget().spent.tolist()
        again = federation.align(**options)
        assert again._driver.alignment == first
        assert federation.budget().spent.tolist() == spent
        assert again.aligned_.findings.transcript.rounds == 5


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "options", [{"size": "public"}, {"epsilon": 0.5}, {"mode": "cohort", "ids": [f"p{i}" for i in range(40, 90)]}]
)
def test_nobody_keeps_the_secrets_of_an_alignment_or_of_a_split(options):
    """From a matching's secret its multiplier follows, and from that, with the letters, who is in the list."""
    with unaligned() as federation:
        for _ in range(2):
            federation.align(**options)
            federation.split(test=0.5)
            for party in federation.parties:
                file = federation._driver.transport._endpoints[party]._runs.member.records._memory
                assert file.execute("SELECT count(*), count(secret) FROM runs").fetchone() == (2, 0)


def test_an_order_outlives_the_process(tmp_path):
    with unaligned(ledger_dir=tmp_path) as federation:
        identity = federation.align(epsilon=0.5)._driver.alignment
        orders = shown_order(federation)
    with unaligned(ledger_dir=tmp_path) as federation:
        assert federation.people == 0
        federation.align(epsilon=0.5)
        assert federation._driver.alignment == identity
        assert shown_order(federation) == orders
        assert (federation.budget().spent == 0.5).all()


def test_an_alignment_that_only_some_parties_keep_is_run_again_and_the_others_keep_the_same(tmp_path, monkeypatch):
    with unaligned(ledger_dir=tmp_path) as federation:
        honest = MatchingPart.keep

        def crashes(self, identity, order):
            if self._admitted.party == "telco":
                raise RuntimeError
            return honest(self, identity, order)

        monkeypatch.setattr(MatchingPart, "keep", crashes)
        with pytest.raises(cn.ColonnadeError):
            federation.align(size="public")
        monkeypatch.undo()
        assert set(shown_order(federation.align(size="public"))["telco"]) == COMMON


def test_a_run_that_was_cut_short_is_taken_up_with_the_same_noise(monkeypatch):
    with unaligned() as federation:
        honest, sizes, noise = MatchingPart.places, [], []

        def once(self, common):
            sizes.append(honest(self, common))
            noise.append(self._reservation.stream("probe").bytes(8))
            if len(sizes) == 1:
                raise RuntimeError
            return sizes[-1]

        monkeypatch.setattr(MatchingPart, "places", once)
        with pytest.raises(cn.ColonnadeError) as caught:
            federation.align(epsilon=0.3)
        assert caught.value.spent == pytest.approx(dict.fromkeys(LISTS, 0.3))
        federation.align(epsilon=0.3)
        assert noise[0] == noise[1]
        assert sizes[0] == sizes[1] == federation.people
        assert federation.budget().spent.tolist() == pytest.approx([0.3] * 3)


def test_a_noisy_size_is_opened_once_even_if_a_peers_list_has_changed_since(monkeypatch):
    """The same noise on another number of people would tell the coordinator the difference exactly."""
    honest_keep, honest_places, shown = MatchingPart.keep, MatchingPart.places, []

    def crashes(self, identity, order):
        raise RuntimeError

    def fewer(self, common):
        shown.append(honest_places(self, common - 7 * len(shown)))
        return shown[-1]

    with unaligned() as federation:
        monkeypatch.setattr(MatchingPart, "places", fewer)
        monkeypatch.setattr(MatchingPart, "keep", crashes)
        with pytest.raises(cn.ColonnadeError):
            federation.align(epsilon=0.3)
        monkeypatch.setattr(MatchingPart, "keep", honest_keep)
        with pytest.raises(cn.ReleaseLost):
            federation.align(epsilon=0.3)
        assert len(shown) == 2


# What the coordinator is told ---------------------------------------------------------------------------------------------


def test_a_noisy_size_is_charged_to_every_ledger_and_counts_once_for_a_person():
    with unaligned() as federation:
        federation.align(epsilon=0.5)
        assert federation.budget().spent.tolist() == [0.5] * 3
        assert federation.budget(unit="person").spent == 0.5
        statement = federation.aligned_.findings.privacy
        assert statement.epsilon() == 0.5
        assert statement.epsilon(observer="bank") == float("inf")
        assert abs(federation.people - len(COMMON)) < 60


def test_the_noise_of_a_size_is_discrete_laplace_at_the_price_and_at_no_other():
    """P(k) ∝ e^(−ε|k|) with sensitivity one; noise of 0.9 or 1.1 times that scale is told apart."""
    plan = list_plan({"ana": 8, "bo": 8}, size="noisy", epsilon=0.5)
    mechanism = ListMatching(plan, plan.steps[0], SCHEMA).size_law
    drawn = mechanism.release(np.zeros(60_000, dtype=np.int64), kit.sampler("noisy size"))
    places = np.arange(-40, 41)
    counts = np.array([(drawn == k).sum() for k in places])
    fits = {
        factor: kit.chi_square_p(counts, np.exp(-0.5 * abs(places) / factor)) > kit.ALPHA for factor in (0.9, 1.0, 1.1)
    }
    assert fits == {0.9: False, 1.0: True, 1.1: False}


def test_noisy_places_hold_everyone_they_can_and_nulls_otherwise(monkeypatch):
    for places in (10, 41):
        with unaligned() as federation:
            monkeypatch.setattr(MatchingPart, "places", lambda self, common, places=places: places)
            federation.align(epsilon=0.5)
            orders = shown_order(federation)
            present = [one for one in orders["bank"] if one is not None]
            assert federation.people == places
            assert len({tuple(order) for order in orders.values()}) == 1
            assert len(present) == len(set(present)) == min(30, places)
            assert set(present) <= COMMON


def test_a_hidden_size_shows_only_what_the_shortest_list_could_have():
    with unaligned() as federation:
        federation.align(size="hidden", capacity={"bank": 64, "telco": 100, "shop": 50})
        assert federation.people == 50
        assert federation.aligned_.findings.privacy.epsilon() == 0.0
        assert told(federation) == {party: ["who is in common"] for party in LISTS}


def told(federation: cn.Federation) -> dict[str, list[str]]:
    """What each party's account says was told without differential privacy: the words after the plan's hash."""
    return {
        party: [line.label.split(" ", 3)[3] for line in account.entries if line.loss is None]
        for party, account in federation._driver.accounts().items()
    }


def test_a_public_size_stands_in_every_ledger_as_not_private():
    with unaligned() as federation:
        federation.align(size="public")
        assert told(federation) == {party: ["who is in common", "size"] for party in LISTS}
        assert federation.budget().nonprivate.tolist() == [2, 2, 2]
        assert federation.aligned_.findings.privacy.epsilon() == float("inf")


@pytest.mark.every(3)
@pytest.mark.parametrize("options", [{"size": "hidden"}, {"epsilon": 0.5}, {"size": "public"}])
def test_an_intersection_is_in_every_account_before_the_first_letter_leaves(options, monkeypatch):
    """Peers learn which of their ids a party has. It stands in the ledger even of a run that came no further than its start."""
    monkeypatch.setattr("colonnade.conversations.matching.MatchingRun._compose", lambda *_: 1 / 0)
    with unaligned() as federation:
        with pytest.raises(cn.ColonnadeError):
            federation.align(**options)
        assert all(lines[:1] == ["who is in common"] for lines in told(federation).values())


def test_a_union_is_in_the_account_by_what_it_tells_and_a_cohort_tells_nothing():
    lists = dict(list(LISTS.items())[:2])
    with unaligned(lists) as federation:
        federation.align("cohort", ids=["p1", "p2"])
        assert told(federation) == {"bank": [], "telco": []}
        federation.align("union")
        assert told(federation) == {"bank": ["how many are in common"], "telco": ["how many are in common"]}


def test_a_coordinator_cannot_claim_that_a_number_was_declared(monkeypatch):
    monkeypatch.setattr("colonnade.coordinator.alignment._size_disclosure", lambda *_: "declared")
    with unaligned() as federation, pytest.raises(PlanMismatch, match="declared public"):
        federation.align()


class Watched:
    """A transport that notes kind and length of everything that passes."""

    def __init__(self, inner) -> None:
        self.inner, self.seen = inner, []

    def exchange(self, requests):
        replies = self.inner.exchange(requests)
        for party in requests:
            request, reply = messages.decode_request(requests[party]), messages.decode_reply(replies[party])
            lengths = {to: len(one) for to, one in reply.letters.items()} if isinstance(reply, Posted) else None
            told = (reply.people,) if isinstance(reply, Described) else None
            turn = request.turn if isinstance(request, Post) else None
            self.seen.append(
                (party, type(request).__name__, turn, type(reply).__name__, len(replies[party]), lengths, told)
            )
        return replies


@pytest.mark.every(2)
@pytest.mark.parametrize("options", [{"size": "hidden"}, {"size": "public"}])
def test_the_coordinators_transcript_is_the_same_for_all_lists_with_the_same_permitted_knowledge(options):
    """Other people, other lengths, another order and other overlaps between two: kinds, sizes and order of messages agree."""
    other = {
        "bank": [f"q{k}" for k in range(5, 35)],
        "telco": [f"q{k}" for k in range(70, -1, -1)],
        "shop": [f"q{k}" for k in range(60)],
    }
    transcripts = []
    for lists in (LISTS, other):
        with unaligned(lists) as federation:
            watched = Watched(federation._driver.transport)
            federation._driver.transport = watched
            federation.align(capacity=100, **options)
            transcripts.append(watched.seen)
    assert transcripts[0] == transcripts[1]


# Policies -----------------------------------------------------------------------------------------------------------------


MATCHING = ("intersection", "union", "cohort")


def test_a_policy_bounds_the_attempts_to_align_in_every_mode():
    rules = {name: cn.Policy(max_alignments=3, alignments=MATCHING) for name in LISTS}
    with unaligned(policies=rules) as federation:
        federation.align(size="hidden")
        federation.align("cohort", ids=["p1", "p2"])
        federation.align(size="hidden", repeat=2)
        for options in ({"size": "hidden", "repeat": 3}, {"mode": "cohort", "ids": ["p3"]}):
            with pytest.raises(PolicyRefusal, match="allows 3 alignments in 30 days"):
                federation.align(**options)
        federation.align(size="hidden", repeat=2)  # what is kept costs nothing and tells nothing
        federation.align("cohort", ids=["p1", "p2"])


def test_after_the_period_attempts_no_longer_count(tmp_path):
    rules = {name: cn.Policy(max_alignments=1, alignments=MATCHING) for name in LISTS}
    with unaligned(ledger_dir=tmp_path, policies=rules) as federation:
        federation.align(size="hidden")
        with pytest.raises(PolicyRefusal, match="allows 1 alignments"):
            federation.align(size="hidden", repeat=2)
    rules = {name: dataclasses.replace(rule, alignment_period=0.0) for name, rule in rules.items()}
    with unaligned(ledger_dir=tmp_path, policies=rules) as federation:
        federation.align(size="hidden", repeat=2)


def test_only_a_public_list_is_aligned_to_by_default_and_a_simulation_allows_every_mode():
    assert cn.Policy().alignments == ("cohort",)
    with unaligned(policies={"telco": cn.Policy()}) as federation:
        for options in ({"size": "hidden"}, {"size": "public"}, {"epsilon": 0.5}):
            with pytest.raises(PolicyRefusal, match="mode of alignment") as caught:
                federation.align(**options)
            assert "tells peers who is in common" in caught.value.remedy
        federation.align("cohort", ids=["p1"])
    with unaligned() as federation:
        federation.align(size="public")


def test_a_public_size_that_the_policy_does_not_name_is_refused():
    refused = pytest.raises(NonPrivateRefused, match="exactly how many")
    with unaligned(policies={"telco": cn.Policy(alignments=MATCHING)}) as federation, refused:
        federation.align(size="public")


def test_the_price_of_a_noisy_size_is_capped_by_policy_and_budget():
    dear = pytest.raises(PolicyRefusal, match="max_epsilon")
    with unaligned(policies={"bank": cn.Policy(max_epsilon=0.1, alignments=MATCHING)}) as federation, dear:
        federation.align(epsilon=0.2)
    with unaligned() as federation:
        with pytest.raises(cn.BudgetExceeded):
            federation.align(epsilon=3.5)
        assert federation.budget().spent.tolist() == [0.0] * 3


def test_a_plan_that_shows_a_list_as_shorter_than_declared_is_refused_without_a_number():
    with unaligned() as federation:
        with pytest.raises(PolicyRefusal, match="shorter than its policy declares") as caught:
            federation.align(size="hidden", capacity=50)
        assert "70" not in str(caught.value)


@pytest.mark.every(3)
@pytest.mark.parametrize("capacity", [1, 60, 4096])
def test_a_party_without_a_declared_capacity_matches_no_list_whatever_the_plan_says(capacity, monkeypatch):
    monkeypatch.setattr("colonnade.party.party._with_capacity", lambda policy, length: policy)
    lists = dict(list(LISTS.items())[:2])
    rules = {name: cn.Policy(alignments=MATCHING) for name in lists}
    with unaligned(lists, policies=rules) as federation:
        for mode in ("intersection", "union"):
            with pytest.raises(BadInput, match="takes part in no matching"):
                federation.align(mode, size="hidden", capacity=capacity)
        monkeypatch.setattr(
            "colonnade.coordinator.alignment._capacities", lambda parties, *_: dict.fromkeys(parties, capacity)
        )
        for mode in ("intersection", "union"):
            with pytest.raises(PolicyRefusal, match="has not declared how long its list of ids looks"):
                federation.align(mode, size="hidden")
        federation.align("cohort", ids=["p1"])
        assert [row.kind for row in rows_of(federation, "bank")] == ["genesis", "version", "list", "alignment"]


def rows_of(federation: cn.Federation, party: str) -> list:
    return federation._driver.transport._endpoints[party]._gate.ledger.entries()


@pytest.mark.every(2)
@pytest.mark.parametrize("mode", ["intersection", "union", "cohort"])
def test_ids_that_become_equal_or_none_have_no_place_and_nobody_is_told(mode):
    lists = {"bank": ["a", "b ", "c", "d", " "], "telco": ["a", "A", "b", "C", "e"]}
    options = {"ids": ["a", "b", "c", "d", "z"]} if mode == "cohort" else {"size": "hidden"}
    with unaligned(lists) as federation:
        federation.align(mode, case="fold", **options)
        orders = shown_order(federation, lists)
        held = {party: {one for one in order if one is not None} for party, order in orders.items()}
        expected = {
            "intersection": {"bank": {"b ", "c"}, "telco": {"b", "C"}},
            "union": {"bank": {"a", "b ", "c", "d"}, "telco": {"b", "C", "e"}},
            "cohort": {"bank": {"a", "b ", "c", "d"}, "telco": {"b", "C"}},
        }
        assert held == expected[mode]


def test_numbers_that_are_none_have_no_place_where_ids_are_compared_as_numbers():
    lists = {"bank": ["1", "007", "x", "2"], "telco": ["7", "2", "02", "9" * 30]}
    with unaligned(lists) as federation:
        federation.align(size="public", kind="whole")
        assert shown_order(federation, lists) == {"bank": ["007"], "telco": ["7"]}


def test_a_longer_list_than_its_capacity_is_refused_to_its_owner_when_the_table_is_opened():
    rules = {name: cn.Policy(alignments=MATCHING, capacity=65) for name in LISTS}
    with pytest.raises(BadInput, match="'telco': the table has more ids than the declared capacity of 65") as caught:
        unaligned(policies=rules)
    assert "70" not in str(caught.value)
    rules["telco"] = dataclasses.replace(rules["telco"], capacity=70)
    with unaligned(policies=rules) as federation:
        federation.align(size="hidden")
        assert federation.people == 65
