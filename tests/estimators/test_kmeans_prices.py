"""Clustering at ordinary prices: an answer, or a refusal whose reason is true."""

from functools import lru_cache

import pytest

import colonnade as cn
from colonnade.datasets import three_organisations
from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import ledger_rho

COLUMNS = ["bank.age", "bank.income", "telco.minutes", "telco.monthly_bill"]
PEOPLE = (200, 500, 2_000, 5_000)
DELTAS = ("1/n", "0.001", "1e-06")
EPSILONS = (0.1, 0.5, 5.0)
METHODS = ("secure", "sketch", "response", "independent")
SLICE = {(500, "1/n", 0.5), (200, "1/n", 0.1), (5_000, "0.001", 5.0), (2_000, "1e-06", 0.1)}
"""The fits that are run each time: one per number of people, and the two prices that were refused."""


@lru_cache(maxsize=1)
def _federation(people: int) -> cn.Federation:
    """One per number of people. It costs more to make than a fit does."""
    return three_organisations(people=people).federation(
        budget=cn.Budget(epsilon=5_000.0, delta=0.01), test_key=b"p" * 32
    )


def _price(people: int, delta: str, epsilon: float) -> dict[str, float]:
    return {"epsilon": epsilon, "delta": 1 / people if delta == "1/n" else float(delta)}


@pytest.mark.every(48)
@pytest.mark.parametrize("people", PEOPLE)
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_no_ordinary_price_is_refused_by_a_preview(people, delta, epsilon):
    for kind in (cn.KMeans, cn.KMedian):
        for method in METHODS:
            study = kind(3, columns=COLUMNS, method=method, **_price(people, delta, epsilon))
            assert study.preview(_federation(people)).epsilon == epsilon


@pytest.mark.every(6)
@pytest.mark.parametrize(
    ("people", "delta", "epsilon"),
    [
        pytest.param(people, delta, epsilon, marks=() if (people, delta, epsilon) in SLICE else pytest.mark.full)
        for people in PEOPLE
        for delta in DELTAS
        for epsilon in EPSILONS
    ],
)
@pytest.mark.parametrize("kind", [cn.KMeans, cn.KMedian])
def test_the_same_prices_give_centres_and_keep_the_promise(kind, people, delta, epsilon):
    price = _price(people, delta, epsilon)
    study = kind(3, columns=COLUMNS, **price).fit(_federation(people))
    assert study.cluster_centers_.shape == (3, 4)
    assert study.privacy_.epsilon() <= epsilon
    assert study.privacy_.delta() <= price["delta"]


def test_a_refusal_of_a_price_names_what_was_checked():
    """Below what the ledger can count at this δ nothing can be bought, whatever it is divided between."""
    price = Price.of(1e-9, 1e-12)
    with pytest.raises(cn.BadInput, match="it would pay for less than the ledger's smallest unit") as refused:
        cn.KMeans(3, columns=COLUMNS, epsilon=price.epsilon, delta=price.delta).preview(_federation(500))
    assert "Raise epsilon or delta" in str(refused.value)
    raised = Price.of(0.3, 1e-9)
    assert ledger_rho(raised) > 0
    cn.KMeans(3, columns=COLUMNS, epsilon=raised.epsilon, delta=raised.delta).preview(_federation(500))
