"""A coordinator gone bad: plans that break a promise, plans that differ, forged members. Refused, and nothing is paid."""

import pytest

import colonnade as cn
from colonnade.conversations import products as run_module
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.protocol.messages import (
    Acknowledged,
    Agreed,
    Ask,
    Blob,
    Conclude,
    GetAccount,
    GetDescription,
    NotKept,
    Post,
    Propose,
    Recall,
    Refused,
)
from tests.conversations.sites import STEP, Site, replaced
from tests.conversations.stage import NAMES, members, seed
from tests.federations import federation

RUN = bytes(range(16))


# A coordinator gone bad: plans ----------------------------------------------------------------------------------------------


def _first(plan: Plan, **changes) -> tuple[Step, ...]:
    return (replaced(plan.steps[0], **changes), *plan.steps[1:])


BAD_PLANS = {
    "threshold zero": lambda plan: {"threshold": 0},
    "a negative threshold": lambda plan: {"threshold": -1},
    "a threshold that cannot open products": lambda plan: {"threshold": 2},
    "collusion above the threshold": lambda plan: {"collusion": 2},
    "negative collusion": lambda plan: {"collusion": -1},
    "a node twice": lambda plan: {"compute_nodes": ("bank", "telco", "bank")},
    "two nodes": lambda plan: {"compute_nodes": ("bank", "telco")},
    "no nodes": lambda plan: {"compute_nodes": ()},
    "a node that nobody knows": lambda plan: {"compute_nodes": ("bank", "telco", "mallory")},
    "the coordinator as an unknown node": lambda plan: {"compute_nodes": ("bank", "telco", "insurer", "coordinator")},
    "another federation": lambda plan: {"federation": "0" * 64},
    "another alignment": lambda plan: {"alignment": "0" * 64},
    "another number of people": lambda plan: {"people": plan.people + 1},
    "somebody who is not a data party of the plan": lambda plan: {"parties": ("bank", "telco")},
    "a party alone": lambda plan: {"parties": ("bank",), "steps": plan.steps[:1]},
    "different prices": lambda plan: {"steps": _first(plan, price=Price.of(0.1))},
    "no price": lambda plan: {"steps": tuple(replaced(step, price=None) for step in plan.steps)},
    "two statistics under one name": lambda plan: {"steps": _first(plan, kind="histogram")},
    "a width that is not the party's": lambda plan: {"steps": _first(plan, parameters={"width": 4})},
    "no width": lambda plan: {"steps": _first(plan, parameters={})},
    "a width of zero": lambda plan: {"steps": _first(plan, parameters={"width": 0})},
    "a parameter that is not the statistic's": lambda plan: {
        "steps": _first(plan, parameters={"width": 3, "noise": 0})
    },
    "a column that is not in the schema": lambda plan: {"steps": _first(plan, columns=("salary",))},
    "a price above the cap": lambda plan: {
        "steps": tuple(replaced(step, price=Price.of(9_000.0)) for step in plan.steps)
    },
}


@pytest.mark.every(3)
@pytest.mark.parametrize("fault", BAD_PLANS)
def test_a_plan_with_this_is_refused_and_costs_nothing(fault, site):
    """By the bank, to whom it is put, when it is proposed and when a run is begun at once, unannounced."""
    plan = replaced(site.plan(), **BAD_PLANS[fault](site.plan()))
    for request in (Propose(plan=plan), Post(plan=plan, step=STEP, run=RUN, turn=0, letters={})):
        reply = site.ask("bank", request)
        assert isinstance(reply, Refused)
        assert reply.code in {
            "plan-mismatch",
            "not-enough-compute-nodes",
            "bad-input",
            "schema-mismatch",
            "protocol-error",
            "budget-exceeded",
            "nonprivate-refused",
        }
        assert reply.spent is None
    assert set(site.spent().values()) == {0}


def test_a_joint_step_is_not_answered_as_if_it_were_the_partys_own(site):
    reply = site.ask("bank", Ask(plan=site.plan(), step=STEP))
    assert isinstance(reply, Refused)
    assert set(site.spent().values()) == {0}


def test_whoever_computes_without_data_cannot_be_made_to_share_rows(pair):
    """A coordinator that dealt columns of its own could deal a huge indicator of one row, and open that row."""
    plan = pair.plan()
    spy = replaced(plan.steps[0], party="coordinator", columns=("anything",))
    for changes in (
        {"steps": (*plan.steps, spy)},
        {"steps": (*plan.steps, spy), "parties": ("bank", "telco", "coordinator")},
    ):
        for name in ("bank", "telco"):
            for request in (
                Propose(plan=replaced(plan, **changes)),
                Post(plan=replaced(plan, **changes), step=STEP, run=RUN, turn=0, letters={}),
            ):
                reply = pair.ask(name, request)
                assert isinstance(reply, Refused)
                assert reply.code == "plan-mismatch"
    assert isinstance(pair.ask("bank", Propose(plan=plan)), Agreed)  # the plan itself was fine


def relay_by_hand(site: Site, posts: dict[str, Post], turns: int = 2) -> dict[int, dict]:
    """Greet with whatever each member was shown, then give everybody everybody's hello."""
    for post in posts.values():
        site.agreed(post.plan)
    said: dict[int, dict] = {0: {name: site.ask(name, post) for name, post in posts.items()}}
    hellos = {name: Blob(reply.hello) for name, reply in said[0].items()}
    for turn in range(1, turns):
        said[turn] = {name: site.ask(name, replaced(post, turn=turn, letters=hellos)) for name, post in posts.items()}
    return said


def test_different_plans_to_different_parties_are_found_out_by_all_before_anybody_pays(site):
    honest = site.plan()
    other = replaced(honest, repeat=2)
    posts = {
        name: Post(plan=other if name == "telco" else honest, step=STEP, run=RUN, turn=0, letters={})
        for name in site.parties
    }
    said = relay_by_hand(site, posts)
    assert {reply.code for reply in said[1].values()} == {"plan-mismatch"}  # alike, at every honest party
    assert {reply.spent for reply in said[1].values()} == {None}
    assert set(site.spent().values()) == {0}


def test_a_coordinator_that_answers_in_a_partys_place_is_found_out(site):
    """It has a key of its own, and nobody's signature but that."""
    plan = site.agreed(site.plan())
    posts = {name: Post(plan=plan, step=STEP, run=RUN, turn=0, letters={}) for name in site.parties}
    hellos = {name: Blob(site.ask(name, post).hello) for name, post in posts.items()}
    mallory = replaced(site.plan(), compute_nodes=site.plan().compute_nodes)
    forger = run_module.ProductRun(
        replaced_member("insurer", "mallory"), mallory, STEP, RUN, part=None, secret=seed("mallory")
    )
    hellos["insurer"] = Blob(forger.turn(0, {}, {}).hello)
    for name in ("bank", "telco"):
        reply = site.ask(name, replaced(posts[name], turn=1, letters=hellos))
        assert isinstance(reply, Refused)
        assert reply.code == "protocol-error"
    assert set(site.spent().values()) == {0}


def replaced_member(name: str, keys_of: str):
    return run_module.Member(name, members([keys_of])[keys_of].identity, members(NAMES))


# A node without data --------------------------------------------------------------------------------------------------------


def test_a_node_without_data_answers_proposals_turns_and_what_it_opened_and_nothing_else(pair):
    plan = pair.plan()
    for request in (Ask(plan=plan, step=STEP), GetDescription(), GetAccount()):
        reply = pair.ask("coordinator", request)
        assert isinstance(reply, Refused)
        assert reply.code == "protocol-error"
    assert isinstance(pair.ask("coordinator", Propose(plan=plan)), Agreed)
    assert isinstance(pair.ask("coordinator", Recall(plan=plan, step=STEP)), NotKept)
    assert isinstance(pair.ask("coordinator", Conclude(plan=plan, step=STEP, values={})), Acknowledged)  # forgets


@pytest.mark.every(2)
@pytest.mark.parametrize("changes", [{"federation": "0" * 64}, {"threshold": 0}, {"compute_nodes": ("bank", "telco")}])
def test_a_node_without_data_checks_the_plan_too(changes, pair):
    plan = replaced(pair.plan(), **changes)
    for request in (Propose(plan=plan), Post(plan=plan, step=STEP, run=RUN, turn=0, letters={})):
        assert isinstance(pair.ask("coordinator", request), Refused)


@pytest.mark.parametrize(
    "policy",
    [cn.Policy(min_collusion=2), cn.Policy(min_threshold=2)],
)
def test_a_party_may_insist_on_more_colluders_or_a_higher_threshold_than_the_plan_has(policy):
    with federation(policies={"telco": policy}) as f:
        with pytest.raises(cn.PolicyRefusal, match=r"telco.*threshold is below 2") as refusal:
            cn.PatternCount(["bank.segment", "telco.plan", "insurer.product"], epsilon=0.5).fit(f)
        assert refusal.value.spent is None
