"""Two lines that anybody understands: who learns what, and when the guarantee fails. And figures for replacement."""

import math
from fractions import Fraction
from itertools import combinations
from typing import Any

import pytest
from scipy.stats import norm

import colonnade as cn
from colonnade.privacy.accounting import NOTHING, Loss
from colonnade.result import COORDINATOR, Opening, PrivacyStatement, TrustPicture
from tests import federations

PRICE: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
ONE = Loss.of_pure(10**9)
BOTH = ["bank.age", "telco.bill"]


def test_with_two_parties_preview_receipt_and_print_say_what_a_coordinator_that_computes_must_not_do():
    words = "The guarantee fails if the coordinator and bank, or the coordinator and telco, pool what they see."
    with federations.federation(600, epsilon=20.0, parties=("bank", "telco")) as f:
        study = cn.PCA(1, columns=BOTH, **PRICE)
        preview = study.preview(f)
        study.fit(f)
    assert any("pools what it sees with bank or with telco" in warning for warning in preview.warnings)
    assert "compute_nodes=[...]" in str(preview)
    for shown in (str(preview), preview._repr_html_(), study.receipt_, str(study.privacy_), study._repr_html_()):
        assert words in shown
    assert math.isinf(study.privacy_.epsilon(observer=("coordinator", "bank")))


@pytest.mark.every(2)
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-5])
def test_a_preview_charges_what_the_receipt_then_says_was_paid_and_the_budget_what_remains(delta):
    """The study's own δ is another than the cap's: the ledger's figure is at the cap's."""
    with federations.federation(600, epsilon=20.0) as f:
        study = cn.PCA(1, columns=BOTH, epsilon=1.0, delta=delta)
        shown = study.preview(f).table()
        study.fit(f)
        budget = f.budget()
    paid = ", ".join(f"{party} ε={shown.charge[party]:.6g}" for party in ("bank", "telco"))
    assert f"paid: {paid} (at the δ of each cap)" in study.receipt_
    assert budget.spent["bank"] == shown.charge["bank"]
    assert budget.remaining["bank"] == shown["would remain"]["bank"]


def test_a_statement_prints_for_reading_and_opens_with_the_two_lines():
    with federations.federation(600, epsilon=5.0) as f:
        study = cn.PatternCount(["bank.segment", "telco.plan"], epsilon=1.0).fit(f)
    lines = str(study.privacy_).splitlines()
    assert lines[:2] == list(study.privacy_.trust.lines) == study.receipt_.splitlines()[:2]
    assert "by a factor of at most 2.7 (ε = 1)" in lines[0]
    assert "Opening(" not in str(study.privacy_)
    assert all(any(observer in line for line in lines) for observer in study.privacy_.table()["observer"])


def test_where_every_record_is_randomised_by_itself_all_may_pool():
    with federations.federation(600, epsilon=5.0) as f:
        study = cn.PatternCount(["bank.segment", "telco.plan"], method="response", epsilon=1.0).fit(f)
    assert study.privacy_.trust.holds == "The guarantee holds even if all pool what they see."


def test_parties_that_hold_a_key_are_named_and_not_said_to_learn_anything():
    with federations.federation(600, epsilon=5.0) as f:
        study = cn.KMeans(2, columns=BOTH, method="sketch", **PRICE).fit(f)
    trust = study.privacy_.trust
    assert trust.exposed == ()
    assert "The guarantee fails if the coordinator shows what it received to bank or telco:" in trust.holds
    assert trust.learns.startswith("Who learns what: the coordinator learns noisy figures only.")


def test_exact_values_are_said_to_be_exact():
    with federations.federation(600, epsilon=5.0) as f:
        study = cn.LinearRegression(
            "telco.bill", columns=["bank.age"], method="coreset", size=50, allow_nonprivate=True
        )
        study.fit(f)
    assert "the coordinator, bank and telco learn exact values" in study.receipt_
    assert "No noise protects anybody from the coordinator" in study.receipt_


def test_scores_that_one_party_is_told_are_said_to_be_told():
    scores = Opening("scores", ("bank", "telco"), (NOTHING,), key_holders=("telco",))
    trust = PrivacyStatement((scores,), ("bank", "telco"), 0.0).trust
    assert trust.exposed == ("telco",)
    assert "the coordinator and bank learn nothing about any person. telco learns exact values" in trust.learns
    assert "The guarantee fails if telco passes on what it learned." in trust.holds


STATEMENTS = {
    "coordinator computes": (("bank", "telco"), ("bank", "telco", COORDINATOR), 1, (ONE,)),
    "three compute": (("bank", "telco", "shop"), ("bank", "telco", "shop"), 1, (ONE, ONE)),
    "five compute": (("bank", "telco", "shop"), ("bank", "telco", "shop", "n1", "n2"), 2, (ONE, ONE, ONE + ONE)),
    "nobody computes": (("bank", "telco"), (), 0, (ONE,)),
    "scores with a party that does not compute": (
        ("bank", "telco", "shop"),
        ("n1", "n2", "n3"),
        1,
        (ONE, ONE, ONE + ONE),
        (("bank",), ("telco", "n1", "n2")),
    ),
    "scores with two parties that do not compute": (
        ("bank", "telco", "shop", "clinic"),
        ("n1", "n2", "n3", "n4", "n5"),
        2,
        (ONE, ONE, ONE),
        (("bank", "telco"), ("shop", "n1", "n2", "n3")),
    ),
}


@pytest.mark.every(2)
@pytest.mark.parametrize("name", STATEMENTS)
def test_the_second_line_is_what_a_search_over_all_coalitions_finds(name):
    parties, nodes, threshold, losses, *scores = STATEMENTS[name]
    opening = Opening(
        "a count", parties, losses, nodes=nodes, threshold=threshold, score_holders=(*scores, ((), ()))[0]
    )
    statement = PrivacyStatement((opening,), parties, 0.0)
    members = list(dict.fromkeys((COORDINATOR, *parties, *nodes)))
    broken = [
        group
        for size in range(1, len(members) + 1)
        for group in combinations(members, size)
        if not set(parties) <= set(group) and math.isinf(statement.epsilon(observer=group))
    ]
    smallest = min(map(len, broken), default=0)
    found = {frozenset(group) for group in broken if len(group) == smallest}
    assert set(TrustPicture(statement)._broken()) == found
    assert ("The guarantee fails" in statement.trust.holds) == bool(found)


def test_the_second_line_says_what_still_holds_with_one_party_too_many():
    opening = Opening("a count", ("bank", "telco", "shop"), (ONE, ONE, ONE + ONE))
    statement = PrivacyStatement((opening,), opening.scope, 0.0)
    assert statement.collusion == 1
    assert "Only ε = 2 is guaranteed if the coordinator and any 2 parties pool what they see." in statement.trust.holds


# Replacement figures --------------------------------------------------------------------------------------------------------


def _gaussian_delta(epsilon: float, shift: float) -> float:
    """The exact δ of Gaussian noise whose mean shifts by so many deviations (Balle and Wang, 2018)."""
    return float(norm.cdf(shift / 2 - epsilon / shift) - math.exp(epsilon) * norm.cdf(-shift / 2 - epsilon / shift))


@pytest.mark.every(3)
@pytest.mark.parametrize("rho", [Fraction(1, 200), Fraction(1, 8), Fraction(2), Fraction(8)])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
def test_the_figure_for_replaced_records_holds_for_gaussian_noise_whose_distance_doubles(rho, delta):
    bound = Loss.of_zcdp(rho).epsilon_if_replaced(delta)
    assert _gaussian_delta(bound, 2 * math.sqrt(2 * rho)) <= delta
    assert bound >= Loss.of_zcdp(rho).epsilon(delta)


def test_of_a_pure_loss_the_figure_is_at_most_twice_as_large_and_of_nothing_nothing():
    assert ONE.epsilon_if_replaced(0.0) == ONE.epsilon_if_replaced(1e-5) == 2.0
    assert (ONE * 400).epsilon_if_replaced(1e-5) <= 800.0
    assert math.isinf(Loss.of_zcdp(Fraction(1, 8)).epsilon_if_replaced(0.0))
    assert NOTHING.epsilon_if_replaced(1e-5) == NOTHING.epsilon_if_replaced(0.0) == 0.0
