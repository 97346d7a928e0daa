"""The party's statistic of membership sketches: whose key, whose centres, and that all parties are asked for the same."""

import msgspec
import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import PlanMismatch, ProtocolError
from colonnade.papers.laws import sketching
from colonnade.papers.private import PrivateMembershipSketches
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.privacy.randomness import SystemRandomness
from colonnade.privacy.samplers import ExactSampler
from tests import kit
from tests.party.test_memberships import CENTRES, FRAME, SCHEMA, table

PRICE = Price.of(1.0, 1e-5)
PARTIES = ("bank", "telco", "insurer")


def the_plan(**changes) -> Plan:
    centres = {"clusters": 3, "scale": 4096, "seed": 0}
    sketches = {"centres_of": "centres", "clusters": 3, "key_of": "key", "sketches": 256}
    steps = []
    for party in PARTIES:
        steps += [
            Step(name="centres", party=party, kind="centres", columns=("x", "y"), parameters=centres, price=PRICE),
            Step(name="key", party=party, kind="group-key", columns=(), price=None),
            Step(
                name="sketches",
                party=party,
                kind="membership-sketches",
                columns=("x", "y"),
                parameters=sketches,
                price=PRICE,
            ),
        ]
    plan = kit.written(*steps, task="clustering", method="sketch", people=len(FRAME))
    return msgspec.structs.replace(plan, **changes)


def changed(plan: Plan, party: str, name: str, **changes) -> Plan:
    """The plan with one party's step altered, or dropped where ``kind`` is None."""
    steps = []
    for step in plan.steps:
        if (step.party, step.name) != (party, name):
            steps.append(step)
        elif changes.get("kind", "") is not None:
            steps.append(msgspec.structs.replace(step, **changes))
    return msgspec.structs.replace(plan, steps=tuple(steps))


def earlier(name: str):
    return {"key": np.frombuffer(b"k" * 32, dtype=np.uint8)} if name == "key" else {"value": CENTRES}


def statistic(plan: Plan, party: str = "bank", look=earlier) -> PrivateMembershipSketches:
    return kit.private(PrivateMembershipSketches, plan, plan.step(party, "sketches"), SCHEMA, look)


def test_what_is_sketched_is_everybodys_nearest_centre():
    assert statistic(the_plan()).compute(table()).mapped().tolist() == [0, 1, 2, -1, 2]


def test_the_price_decides_the_phantoms_and_the_loss_is_that_of_all_parties_together():
    for unit in ("person", "party"):
        mechanism = statistic(the_plan(unit=unit)).law(PRICE)
        bought = sketching(PRICE, 3, unit, 256)
        assert mechanism.law.phantoms == bought.phantoms
        assert mechanism.loss == bought.loss(unit)
        assert mechanism.release(np.array([0, 1, -1], dtype=np.int32), ExactSampler(SystemRandomness())).shape == (
            2,
            256,
            3,
        )


def test_another_step_of_the_plan_under_the_same_key_has_other_values():
    plan = the_plan()
    copied = [msgspec.structs.replace(step, name="again") for step in plan.steps if step.kind == "membership-sketches"]
    twice = msgspec.structs.replace(plan, steps=(*plan.steps, *copied))
    first = kit.private(PrivateMembershipSketches, twice, twice.step("bank", "sketches"), SCHEMA, earlier)
    second = kit.private(PrivateMembershipSketches, twice, twice.step("bank", "again"), SCHEMA, earlier)
    codes = np.zeros(500, dtype=np.int32)
    one, other = (s.law(PRICE).release(codes, ExactSampler(SystemRandomness())) for s in (first, second))
    assert (one == other)[one > first.law(PRICE).law.floor].mean() < 0.1


@pytest.mark.parametrize(
    "changes",
    [
        {"price": Price.of(2.0, 1e-5)},
        {"parameters": {"centres_of": "centres", "clusters": 3, "key_of": "key", "sketches": 512}},
        {"parameters": {"centres_of": "centres", "clusters": 3, "key_of": "other", "sketches": 256}},
        {"kind": "histogram"},
    ],
)
def test_parties_that_are_asked_for_different_sketches_are_refused(changes):
    with pytest.raises(PlanMismatch):
        statistic(changed(the_plan(), "telco", "sketches", **changes))


def test_a_key_that_somebody_lacks_or_somebody_else_holds_is_refused():
    plan = the_plan()
    with pytest.raises(PlanMismatch):
        statistic(changed(plan, "telco", "key", kind=None))
    with pytest.raises(PlanMismatch):
        statistic(changed(plan, "telco", "sketches", kind=None))
    with pytest.raises(PlanMismatch):
        statistic(changed(changed(plan, "telco", "sketches", kind=None), "insurer", "sketches", kind=None))


@pytest.mark.parametrize("missing", ["key", "centres"])
def test_without_key_or_centres_nothing_is_paid(missing):
    def look(name):
        if name == missing:
            raise ProtocolError("not yet")
        return earlier(name)

    with pytest.raises(ProtocolError):
        statistic(the_plan(), look=look).require_earlier()
    statistic(the_plan()).require_earlier()


def test_a_policy_that_bounds_what_peers_learn_refuses_sketches():
    policy = cn.Policy(max_peer_epsilon=10.0)
    with pytest.raises(cn.PolicyRefusal, match="max_peer_epsilon"):
        policy._check_peers(the_plan().step("bank", "sketches"), statistic(the_plan()).step)
