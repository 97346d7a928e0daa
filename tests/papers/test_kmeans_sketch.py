"""k-means and k-median with sketches under a key that the parties share: from estimator to gate and back."""

import math

import numpy as np
import pytest

import colonnade as cn
from colonnade.papers.private import PrivateMembershipSketches
from colonnade.protocol import messages
from colonnade.protocol.messages import Ask, Conclude, Posted, Refused, Released
from colonnade.transport.direct import Recorded
from tests.estimators.clustering_samples import federated, groups, joined, loss, split
from tests.estimators.test_kmeans import best_loss, blank, exchange, neighbours, record
from tests.federations import as_if_agreed

BOTH = (cn.KMeans, cn.KMedian)
SKETCH = {"method": "sketch", "epsilon": 1.0, "delta": 1e-5}


# How good it is -------------------------------------------------------------------------------------------------------------


@pytest.mark.every(2)
@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize("parties", [2, 3])
def test_separated_groups_are_recovered(estimator, parties):
    tables = split(groups("recovered", people=8_000, width=6), parties)
    whole = joined(tables).to_numpy()
    with federated(tables) as f:
        study = estimator(4, **SKETCH).fit(f)
    assert loss(whole, study.cluster_centers_) < 1.15 * best_loss(whole, 4)
    assert study.grid_weights_.sum() == pytest.approx(8_000)
    assert (study.grid_weights_ >= 0).all()


def test_weights_are_close_to_the_people_in_the_cells():
    tables = split(groups("weights", people=6_000, width=4), 2)
    with federated(tables) as f:
        study = cn.KMeans(4, n_local_clusters=4, method="sketch", epsilon=2.0, delta=1e-5).fit(f)
    whole = joined(tables)
    nearest = [
        np.linalg.norm(
            whole[[name for name in whole if name.startswith(party)]].to_numpy()[:, None] - study.local_centers_[party],
            axis=2,
        ).argmin(axis=1)
        for party in tables
    ]
    true = np.zeros((4, 4))
    np.add.at(true, tuple(nearest), 1)
    assert np.abs(study.grid_weights_.to_numpy().reshape(4, 4) - true).sum() / 6_000 < 0.12


# What it costs --------------------------------------------------------------------------------------------------------------


@pytest.mark.every(2)
@pytest.mark.parametrize("parties", [2, 3])
@pytest.mark.parametrize("unit", ["person", "party"])
def test_the_price_is_kept_towards_the_coordinator_for_either_unit(parties, unit):
    tables = split(groups("price", people=500, width=3), parties)
    with federated(tables, delta=1e-5) as f:
        study = cn.KMeans(2, unit=unit, **SKETCH).fit(f)
        ledgers, person = f.budget(), f.budget(unit="person")["spent"]
        quoted = cn.KMeans(2, unit=unit, **SKETCH).preview(f)
    assert 0.93 < study.privacy_.epsilon(unit=unit) <= 1.0
    assert study.privacy_.delta(unit=unit) == 1e-5
    assert study.privacy_.epsilon(unit="party") <= 1.0
    if unit == "person":
        assert person == pytest.approx(study.privacy_.epsilon(unit="person"), abs=1e-6)  # the sketches count once
        assert len(study.privacy_.openings) == parties + 1
    assert (ledgers["spent"] >= study.privacy_.epsilon(unit="party") - 1e-6).all()
    assert (quoted.table()["charge"] == 0).all()  # paid for


def test_nothing_is_promised_towards_whoever_has_the_key():
    tables = split(groups("key", people=300, width=3), 3)
    with federated(tables) as f:
        study = cn.KMeans(2, **SKETCH).fit(f)
    assert study.privacy_.epsilon(observer="coordinator") <= 1.0
    for observer in ("party0", ("coordinator", "party1"), ("party0", "party2")):
        assert math.isinf(study.privacy_.epsilon(observer=observer))
        assert math.isinf(study.privacy_.epsilon_if_replaced(observer=observer))
    words = " ".join(study.privacy_.assumptions)
    for cost in ("anybody who holds the key", "leaks later", "this study alone", "erased"):
        assert cost in words
    assert set(study.privacy_.table()["observer"]) == {"coordinator", "party0", "party1", "party2"}


# What is asked of a party ---------------------------------------------------------------------------------------------------


def test_the_key_of_one_study_is_no_key_of_another_and_is_gone_at_the_end():
    tables = split(groups("reuse", people=200, width=2), 2)
    with federated(tables) as f:
        cn.KMeans(2, **SKETCH).fit(f)
        spent = f.budget()["spent"].tolist()
        _, first = cn.KMeans(2, **SKETCH).prepared(f, 1)
        _, second = cn.KMeans(2, **SKETCH).prepared(f, 2)
        exchange(f, "party0", Ask(plan=second, step="centres"))
        reply = exchange(f, "party0", Ask(plan=second, step="sketches"))
        assert isinstance(reply, Refused)  # another plan: the key of the first is not met
        stored = exchange(f, "party0", Ask(plan=first, step="sketches"))
        assert isinstance(stored, Released)  # the same plan: the same bytes, without the key
        assert f.budget()["spent"].tolist()[1] == spent[1]


def test_a_key_that_is_erased_too_early_leaves_the_sketches_unpaid():
    tables = split(groups("early", people=200, width=2), 2)
    with federated(tables) as f:
        algorithm, plan = cn.KMeans(2, **SKETCH).prepared(f, 1)
        for party in tables:
            as_if_agreed(f._driver.transport._endpoints[party], plan)
        rounds = algorithm.rounds(plan)
        requests = next(rounds)
        while not any(isinstance(one, Ask) and one.step == "sketches" for one in requests.values()):
            replies = {
                party: messages.decode_reply(reply)
                for party, reply in f._driver.transport.exchange(
                    {party: messages.encode(request) for party, request in requests.items()}
                ).items()
            }
            requests = rounds.send(replies)
        for party in tables:
            exchange(f, party, Conclude(plan=plan, step="key", values={}))
        reply = exchange(f, "party0", requests["party0"])
    assert isinstance(reply, Refused)
    assert reply.spent is None


@pytest.mark.parametrize("person", [0, 149])
def test_a_person_removed_changes_one_membership_given_the_same_centres(person, monkeypatch):
    released: dict[int, np.ndarray] = {}
    study, statistics = cn.KMeans(3, n_local_clusters=3, **SKETCH), (PrivateMembershipSketches,)
    (said_one, before), (said_other, after) = (
        record(tables, study, statistics, released, monkeypatch) for tables in neighbours(person)
    )
    assert len(said_one) == len(said_other)
    for (_, told_one), (_, told_other) in zip(said_one, said_other, strict=True):
        assert {party: blank(data) for party, data in told_one.items()} == {
            party: blank(data) for party, data in told_other.items()
        }
    assert len(before) == 2
    for columns, codes in before.items():
        assert np.flatnonzero(codes != after[columns]).tolist() == [person]
        assert after[columns][person] == -1


# The estimator --------------------------------------------------------------------------------------------------------------


# The number of sketches, and of local clusters ------------------------------------------------------------------------------


def weight_error(study, tables):
    """Σ|weight − people| / people over the grid."""
    whole = joined(tables)
    nearest = [
        np.linalg.norm(whole.filter(like=party).to_numpy()[:, None] - study.local_centers_[party], axis=2).argmin(
            axis=1
        )
        for party in tables
    ]
    true = np.zeros((study.n_local_clusters_,) * len(tables))
    np.add.at(true, tuple(nearest), 1)
    return np.abs(study.grid_weights_.to_numpy().reshape(true.shape) - true).sum() / len(whole)


def test_more_sketches_give_better_weights_at_the_same_price_and_that_many_leave():
    """√M: sixteen times as many sketches have about a quarter of the error, here at a price at which noise matters little."""
    tables = split(groups("many sketches", people=6_000, width=4), 2)
    errors = {}
    for sketches in (256, 4_096):
        method, price = cn.methods.SketchedClusters(sketches=sketches), {"epsilon": 8.0, "delta": 1e-5}
        with federated(tables) as f:
            study = cn.KMeans(4, n_local_clusters=4, method=method, **price).fit(f)
            asked = study.plan_.steps[-1]
        assert asked.parameters["sketches"] == sketches
        assert study.privacy_.epsilon() <= 8.0
        errors[sketches] = weight_error(study, tables)
    assert errors[4_096] < errors[256] / 2


def test_the_number_of_local_clusters_follows_the_price_and_is_not_always_the_same():
    tables = split(groups("rule", people=4_000, width=4), 2)
    with federated(tables) as f:
        chosen = [
            cn.KMeans(2, method="sketch", epsilon=epsilon, delta=1e-5).prepared(f, 1)[0].local_clusters
            for epsilon in (0.05, 0.5, 5.0)
        ]
    assert chosen == sorted(set(chosen))
    assert chosen[-1] > 4  # twice the clusters asked for was the cap, whatever the price


def test_sketches_without_a_key_are_refused_and_cost_nothing():
    tables = split(groups("order", people=200, width=2), 2)
    with federated(tables) as f:
        _, plan = cn.KMeans(2, **SKETCH).prepared(f, 1)
        assert isinstance(exchange(f, "party0", Ask(plan=plan, step="centres")), Released)
        spent = f.budget()["spent"].tolist()
        reply = exchange(f, "party0", Ask(plan=plan, step="sketches"))
        assert isinstance(reply, Refused)
        assert reply.spent is None
        assert f.budget()["spent"].tolist() == spent


def test_nothing_between_the_parties_shows_the_coordinator_a_key():
    tables = split(groups("relay", people=200, width=2), 2)
    with federated(tables) as f:
        f._driver.transport = recorded = Recorded(f._driver.transport, keep=True)
        cn.KMeans(2, **SKETCH).fit(f)
    replies = [messages.decode_reply(reply) for _, told in recorded.exchanges for reply in told.values()]
    letters = [
        bytes(letter.view) for reply in replies if isinstance(reply, Posted) for letter in reply.letters.values()
    ]
    assert len(letters) == 4  # a commitment and a reveal from each, sealed
    assert all(len(letter) > 32 for letter in letters)
    assert sum(isinstance(reply, Released) for reply in replies) == 4
