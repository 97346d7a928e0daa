"""Floors under threshold and collusion hold whatever members a plan names, and neither number is lowered in silence."""

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from colonnade.conversations.products import ProductRun
from colonnade.coordinator.driver import ComputeMembers
from colonnade.errors import NotEnoughComputeNodes, PolicyRefusal
from colonnade.plan import Plan
from colonnade.protocol import messages
from colonnade.protocol.messages import Agreed, Described, Greeted, Post, Propose, Refused
from colonnade.secure.shamir import reconstruct
from colonnade.steps.kind import SharingFloor
from tests.federations import as_if_agreed
from tests.party.test_gate import guards, replaced

PEOPLE = 30
NAMES = ("bank", "telco", "shop", "clinic", "club")
PRICE = {"epsilon": 1.0, "delta": 1e-6}


def tables(names=NAMES) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(3)
    return {
        name: pd.DataFrame({"id": range(PEOPLE), "x": rng.random(PEOPLE).round(3), "k": rng.choice(["u", "v"], PEOPLE)})
        for name in names
    }


def a_federation(names=NAMES, *, collusion=2, nodes=(), policies=None, epsilon=5.0) -> cn.Federation:
    schema = cn.Schema(x=cn.Numeric(0, 1), k=cn.Category(["u", "v"]))
    return cn.Federation.simulate(
        {name: cn.Party(table, schema=schema) for name, table in tables(names).items()},
        id="id",
        budget=cn.Budget(epsilon=epsilon, delta=1e-5),
        collusion=collusion,
        compute_nodes=nodes,
        policies=policies,
    )


def components(names=("bank", "telco")) -> cn.PCA:
    return cn.PCA(1, columns=[f"{name}.x" for name in names], **PRICE)


def forged(study: cn.PCA, f: cn.Federation, **changes) -> tuple[object, Plan]:
    """What the study would run, and its plan as a hostile coordinator rewrites it."""
    algorithm, plan = study.prepared(f, 1)
    return algorithm, replaced(plan, **changes)


FEW = {"compute_nodes": ("bank", "telco", "shop"), "threshold": 1, "collusion": 1}


def put(f: cn.Federation, name: str, request: object) -> object:
    return messages.decode_reply(f._driver.transport.exchange({name: messages.encode(request)})[name])


# The attack ---------------------------------------------------------------------------------------------------------------


class Held:
    """What each compute node holds of each party's rows: its own knowledge, and no more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shares: dict[str, dict[str, np.ndarray]] = {}
        self.points: dict[str, int] = {}
        take = ProductRun._take_chunk

        def watched(run, chunk, letters):
            take(run, chunk, letters)
            self.arithmetic, self.threshold = run._arithmetic, run.joint.threshold
            self.points[run._me.name] = run.point
            held = zip(run.joint.owners, run._pending[chunk], strict=True)
            self.shares[run._me.name] = {owner: np.array(share) for owner, share in held}

        monkeypatch.setattr(ProductRun, "_take_chunk", watched)

    def pooled(self, colluders: tuple[str, ...], owner: str) -> np.ndarray:
        """What some nodes read of a party's first column together, if their shares suffice for it."""
        shares = {self.points[name]: self.shares[name][owner] for name in colluders}
        return reconstruct(self.arithmetic, shares, degree=len(shares) - 1).reshape(-1, PEOPLE)[0]


def largest_error(read: np.ndarray, plan: Plan, owner: str) -> float:
    scale = plan.steps_of(owner)[0].parameters["scale"]
    return float(np.abs((read / scale + 1) / 2 - tables()[owner].x.to_numpy()).max())


def test_two_parties_read_a_third_ones_rows_where_floors_go_by_the_members_of_a_plan(monkeypatch):
    """The positive control: with the floors switched off, the attack on the plan of three nodes succeeds to rounding."""
    monkeypatch.setattr(SharingFloor, "check", lambda *_: None)
    held = Held(monkeypatch)
    with a_federation(policies=dict.fromkeys(NAMES, cn.Policy(min_collusion=2))) as f:
        algorithm, plan = forged(components(), f, **FEW)
        f._driver.run(algorithm, plan)
    assert largest_error(held.pooled(("telco", "shop"), "bank"), plan, "bank") < 1e-3


def test_the_same_plan_is_refused_by_everybody_before_anything_is_shared_or_paid(monkeypatch):
    held = Held(monkeypatch)
    with a_federation(policies=dict.fromkeys(NAMES, cn.Policy(min_collusion=2))) as f:
        algorithm, plan = forged(components(), f, **FEW)
        for name in FEW["compute_nodes"]:
            for request in (Propose(plan=plan), Post(plan=plan, step="gram", run=bytes(16), turn=0, letters={})):
                reply = put(f, name, request)
                assert isinstance(reply, Refused)
                assert reply.code == PolicyRefusal.code
                assert reply.message.startswith("The plan's threshold is below 2")
        with pytest.raises(PolicyRefusal, match="threshold is below 2"):
            f._driver.run(algorithm, plan)
        assert (f.budget().spent == 0).all()
    assert held.shares == {}


def test_the_honest_coordinator_has_idle_parties_compute_until_two_learn_nothing(monkeypatch):
    held = Held(monkeypatch)
    with a_federation(policies=dict.fromkeys(NAMES, cn.Policy(min_collusion=2))) as f:
        study = components().fit(f)
    assert study.plan_.compute_nodes == NAMES
    assert (study.plan_.threshold, study.plan_.collusion) == (2, 1)
    assert (study.privacy_.threshold, study.privacy_.collusion) == (2, 1)
    for pair in combinations(NAMES[1:], 2):
        assert largest_error(held.pooled(pair, "bank"), study.plan_, "bank") > 1
        assert study.privacy_.epsilon(observer=pair) <= PRICE["epsilon"]
    assert largest_error(held.pooled(NAMES[1:4], "bank"), study.plan_, "bank") < 1e-3  # three of five read everything
    assert study.privacy_.epsilon(observer=NAMES[1:4]) == math.inf


@pytest.mark.parametrize(("collusion", "refused"), [(1, True), (2, False), (3, False)])
def test_noise_covers_what_a_policy_insists_on_or_all_parties_but_one(collusion, refused):
    nodes = tuple(f"node{number}" for number in range(4))
    policies = dict.fromkeys(NAMES[:4], cn.Policy(min_collusion=2))
    with a_federation(NAMES[:4], collusion=3, nodes=nodes, policies=policies) as f:
        plan = forged(components(NAMES[:4]), f, collusion=collusion)[1]
        assert plan.threshold == 3
        policy = f._driver.transport.endpoint("bank")._gate.policy
        terms = f._driver.transport.endpoint("bank")._gate.terms
        if refused:
            with pytest.raises(PolicyRefusal, match="noise covers fewer"):
                policy.admit(plan, plan.steps_of("bank")[0], terms)
        else:
            policy.admit(plan, plan.steps_of("bank")[0], terms)
        pair = forged(components(), f)[1]
        assert pair.collusion == 1  # of two parties, one that colludes leaves one
        policy.admit(pair, pair.steps_of("bank")[0], terms)


# Nothing is lowered in silence -------------------------------------------------------------------------------------------------


@pytest.mark.every(2)
@pytest.mark.parametrize(("parties", "missing"), [(2, 3), (3, 2), (4, 1)])
def test_too_few_compute_nodes_are_refused_with_the_number_to_add_and_that_number_suffices(parties, missing):
    names = NAMES[:parties]
    with a_federation(names) as f:
        for call in (components(names).preview, components(names).fit):
            with pytest.raises(NotEnoughComputeNodes, match="threshold of 2 needs 5 compute nodes") as refusal:
                call(f)
            assert f"Add {missing} node{'s' if missing > 1 else ''} without data" in refusal.value.remedy
            assert "compute_nodes=[...]" in refusal.value.remedy
            assert "papers" in refusal.value.remedy
        assert (f.budget().spent == 0).all()
        cn.PatternCount(["bank.k", "telco.k"], method="response", epsilon=1.0).fit(f)  # a local study needs none
    with a_federation(names, nodes=[f"node{number}" for number in range(missing)]) as f:
        study = components(names).fit(f)
    assert study.plan_.threshold == study.privacy_.threshold == 2
    assert study.plan_.collusion == study.privacy_.collusion == min(2, parties - 1)
    assert not study.privacy_.coordinator_computes


# Who computes ---------------------------------------------------------------------------------------------------------------


def members(nodes=(), allowed=None, **parties) -> ComputeMembers:
    described = {
        name: Described(party=name, schema=(), alignment="", people=1, **facts) for name, facts in parties.items()
    }
    return ComputeMembers(tuple(nodes), described, allowed)


FIVE = {name: {} for name in NAMES}


@pytest.mark.parametrize(
    ("nodes", "threshold", "expected"),
    [
        ((), 1, ("bank", "telco", "shop")),
        ((), 2, NAMES),
        (("notary",), 1, ("bank", "telco", "notary")),
        (("notary",), 2, ("bank", "telco", "notary", "shop", "clinic")),
        (("notary", "auditor", "judge", "clerk"), 1, ("bank", "telco", "notary", "auditor", "judge")),
        (("notary", "coordinator"), 2, ("bank", "telco", "notary", "shop", "clinic")),
        (("coordinator",), 3, None),
        (("notary", "coordinator"), 3, (*NAMES[:2], "notary", *NAMES[2:], "coordinator")),
    ],
)
def test_nodes_without_data_come_first_then_idle_parties_then_the_coordinator(nodes, threshold, expected):
    if expected is None:
        with pytest.raises(NotEnoughComputeNodes, match="7 compute nodes, and this study has 6") as refusal:
            members(nodes, **FIVE).choose(("bank", "telco"), threshold)
        assert "Add 2 nodes" in refusal.value.remedy  # named nodes take the coordinator's place
    else:
        assert members(nodes, **FIVE).choose(("bank", "telco"), threshold) == expected


def test_a_party_that_does_not_compute_for_others_is_passed_over_and_computes_for_itself():
    some = members(**{**FIVE, "shop": {"compute_for_others": False}})
    assert some.choose(("bank", "telco"), 1) == ("bank", "telco", "clinic")
    assert some.choose(("bank", "shop"), 1) == ("bank", "shop", "telco")


# What parties check -----------------------------------------------------------------------------------------------------------


def test_a_party_that_only_computes_checks_the_plan_too_when_it_agrees_and_when_it_is_asked_without_having_agreed():
    with a_federation(NAMES[:3], collusion=1, policies={"shop": cn.Policy(compute_for_others=False)}) as f:
        with pytest.raises(NotEnoughComputeNodes):
            components().fit(f)
        f._driver.computing = members(bank={}, telco={}, shop={})  # a coordinator that does not care
        plan = components().prepared(f, 1)[1]
        for request in (Propose(plan=plan), Post(plan=plan, step="gram", run=bytes(16), turn=0, letters={})):
            reply = put(f, "shop", request)
            assert isinstance(reply, Refused)
            assert "compute_for_others" in reply.message
        own = components(("bank", "shop")).prepared(f, 1)[1]
        assert isinstance(put(f, "shop", Propose(plan=own)), Agreed)  # a study of its own data
        assert isinstance(put(f, "telco", Propose(plan=own)), Agreed)
        as_if_agreed(guards(f)["telco"], own)
        assert isinstance(put(f, "telco", Post(plan=own, step="gram", run=bytes(16), turn=0, letters={})), Greeted)


@pytest.mark.parametrize("asked", [True, False])
def test_a_party_refuses_nodes_that_it_has_not_named_whether_it_is_asked_for_data_or_not(asked):
    policies = {"shop": cn.Policy(compute_nodes=["bank", "telco"])}
    with a_federation(NAMES[:4], collusion=1, nodes=["notary"], policies=policies) as f:
        study = components(("bank", "shop") if asked else ("bank", "telco"))
        plan = forged(study, f, compute_nodes=("bank", "telco", "shop", "notary"))[1]
        reply = put(f, "shop", Propose(plan=plan))
        assert isinstance(reply, Refused)
        assert reply.message == "The plan names a compute node that this party's policy does not accept."
        trusted = replaced(plan, compute_nodes=("bank", "telco", "shop"))
        assert isinstance(put(f, "shop", Propose(plan=trusted)), Agreed)


def test_a_data_party_that_does_not_compute_has_its_rows_shared_between_the_others_and_the_counts_are_right():
    policies = {"bank": cn.Policy(compute_nodes=["telco", "notary"])}
    with a_federation(NAMES[:3], collusion=1, nodes=["notary"], policies=policies, epsilon=200.0) as f:
        study = cn.PatternCount(["bank.k", "shop.k"], epsilon=100.0).fit(f)
    assert study.plan_.parties == ("bank", "shop")
    assert study.plan_.compute_nodes == ("bank", "notary", "telco")
    true = pd.crosstab(tables()["bank"].k, tables()["shop"].k)
    for (one, other), count in study.counts_.items():
        assert round(count) == true.loc[one, other]


def test_the_federations_own_floor_binds_whatever_a_policy_says():
    lenient = dict.fromkeys(NAMES, cn.Policy(min_collusion=0))
    with a_federation(policies=lenient) as f:
        for changes in (FEW, {"collusion": 0}):
            plan = forged(components(), f, **changes)[1]
            reply = put(f, "bank", Propose(plan=plan))
            assert isinstance(reply, Refused)
            assert "this federation asks for" in reply.message
