"""What a secure study promises to whom: the coordinator, one party, coalitions with and without it, for both units."""

import math
from itertools import combinations

import pytest

import colonnade as cn
from colonnade.steps.kind import read_joint
from tests.federations import SCHEMAS, frames

PARTIES = ("bank", "telco", "insurer")
COLUMNS = {"bank": "bank.segment", "telco": "telco.plan", "insurer": "insurer.product"}
PURE = {"epsilon": 0.5}
APPROXIMATE = {"epsilon": 0.5, "delta": 1e-6}


def a_federation(parties=PARTIES, *, nodes=(), collusion=1, delta=0.0) -> cn.Federation:
    tables = frames(60)
    return cn.Federation.simulate(
        {name: cn.Party(tables[name], schema=SCHEMAS[name]) for name in parties},
        id="person_id",
        budget=cn.Budget(epsilon=10.0, delta=delta),
        compute_nodes=nodes,
        collusion=collusion,
    )


def fit(f: cn.Federation, **price) -> cn.PatternCount:
    return cn.PatternCount([COLUMNS[party] for party in f.parties], **price).fit(f)


def coalitions(*groups: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [(*extra, *group) for group in groups for extra in ((), ("coordinator",)) if extra or group]


# Who sees what


@pytest.mark.parametrize("price", [PURE, APPROXIMATE])
def test_the_coordinator_one_party_and_both_together_learn_no_more_than_the_price(price):
    with a_federation(delta=1e-5) as f:
        statement = fit(f, **price).privacy_
    for observer in ("coordinator", *PARTIES, *coalitions(*((party,) for party in PARTIES))):
        assert 0.4999 < statement.epsilon(observer=observer, unit="person") <= 0.5
        assert statement.delta(observer=observer) == price.get("delta", 0.0)


@pytest.mark.parametrize("unit", ["person", "party"])
def test_more_colluders_than_were_planned_for_weaken_gaussian_noise_and_void_a_pure_promise(unit):
    """Five nodes, threshold two: shares stay secret from two parties, but noise was made for one of them."""
    with a_federation(nodes=("auditor", "notary"), delta=1e-5) as f:
        pure, study = fit(f, **PURE), fit(f, **APPROXIMATE)
    assert (study.plan_.threshold, study.plan_.collusion) == (2, 1)
    noise = read_joint(study.plan_, "tables").noise
    for group in combinations(PARTIES, 2):
        (left,) = set(PARTIES) - set(group)
        for observer in coalitions(group):
            weaker = study.privacy_.epsilon(observer=observer, unit=unit)
            whose = left if unit == "party" else None
            assert weaker == noise.loss(colluders=2, party=whose).epsilon(1e-6)
            assert study.privacy_.epsilon(observer="coordinator", unit=unit) < weaker < math.inf
            assert pure.privacy_.epsilon(observer=observer, unit=unit) == math.inf


def test_a_federation_can_plan_for_more_colluders_and_pays_in_noise_not_in_epsilon():
    variances = {}
    for collusion in (0, 1, 2):
        with a_federation(nodes=("auditor", "notary"), collusion=collusion, delta=1e-5) as f:
            study = fit(f, **APPROXIMATE)
        assert study.plan_.collusion == study.privacy_.collusion == collusion
        for observer in coalitions(*combinations(PARTIES, collusion)):
            assert study.privacy_.epsilon(observer=observer) <= 0.5
        if collusion < 2:
            beyond = study.privacy_.epsilon(observer=("coordinator", *PARTIES[: collusion + 1]))
            assert beyond > 0.5
        variances[collusion] = read_joint(study.plan_, "tables").noise.opened_variance
    assert variances[1] / variances[0] == pytest.approx(3 / 2, rel=1e-6)  # P/(P - c)
    assert variances[2] / variances[0] == pytest.approx(3, rel=1e-6)


def test_a_statement_says_what_it_rests_on():
    with a_federation(nodes=("auditor", "notary")) as f:
        study = fit(f, **PURE)
        assert cn.PatternCount(list(COLUMNS.values()), **PURE).preview(f).statement.assumptions == (
            study.privacy_.assumptions
        )
    words = " ".join(study.privacy_.assumptions)
    assert "At most 2 of the compute nodes bank, telco, insurer, auditor, notary" in words
    assert "Noise covers 1 colluding data party" in words
    assert "semi-honest in their inputs" in words
    assert not study.privacy_.local


# Gram matrices


# Ledgers


def test_ledgers_show_what_the_statement_says_and_a_joint_release_counts_once_a_person():
    with a_federation() as f:
        study = fit(f, **PURE)
        assert f.budget().spent.tolist() == pytest.approx([0.5] * 3)
        assert f.budget(unit="person").spent == pytest.approx(study.privacy_.epsilon(unit="person"))
        cn.PatternCount(["bank.segment", "telco.plan"], epsilon=0.25).fit(f)
        assert f.budget().spent.tolist() == pytest.approx([0.75, 0.75, 0.5])
        assert f.budget(unit="person").spent == pytest.approx(0.75)
        cn.PatternCount(["bank.segment", "telco.plan"], epsilon=1.0, method="response").fit(f)
        assert f.budget(unit="person").spent == pytest.approx(1.75)  # two local releases of half each
