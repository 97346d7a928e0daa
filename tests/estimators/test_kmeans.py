"""k-means and k-median across parties: from estimator to gate and back."""

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans

import colonnade as cn
from colonnade.party.steps.local import PrivateHistogram, PrivateReports
from colonnade.privacy.accounting import total
from colonnade.privacy.laws.local_clustering import LocalClustering
from colonnade.protocol import messages
from colonnade.protocol.messages import Ask, Refused, Released
from colonnade.transport.direct import Recorded
from tests import kit
from tests.estimators.clustering_samples import coded, federated, groups, joined, loss, split
from tests.estimators.test_record_and_replay import plain
from tests.federations import as_if_agreed

METHODS = ("secure", "response", "independent")
BOTH = (cn.KMeans, cn.KMedian)


def best_loss(points, clusters) -> float:
    centres = KMeans(clusters, n_init=5, random_state=0).fit(coded(points)).cluster_centers_
    return float(((coded(points)[:, None] - centres) ** 2).sum(axis=2).min(axis=1).mean())


# How good it is -------------------------------------------------------------------------------------------------------------


@pytest.mark.every(2)
@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize("parties", [2, 4])
def test_separated_groups_are_recovered(estimator, parties):
    tables = split(groups("recovered", people=8_000, width=8), parties)
    whole = joined(tables).to_numpy()
    with federated(tables) as f:
        study = estimator(4, epsilon=1.0, delta=1e-5).fit(f)
    assert loss(whole, study.cluster_centers_) < 1.1 * best_loss(whole, 4)
    assert study.cluster_centers_.shape == (4, 8)
    assert study.feature_names_in_.tolist() == list(joined(tables).columns)


@pytest.mark.every(2)
@pytest.mark.parametrize("method", METHODS)
def test_a_generous_price_comes_close_to_clustering_without_privacy(method):
    tables = split(groups("generous", people=8_000, width=4), 2)
    whole = joined(tables).to_numpy()
    with federated(tables, epsilon=1_000) as f:
        study = cn.KMeans(4, method=method, n_local_clusters=6, epsilon=200.0, delta=1e-5).fit(f)
    bar = 1.05 if method != "independent" else np.inf  # parties are not independent here, whatever the price
    assert loss(whole, study.cluster_centers_) < bar * best_loss(whole, 4)
    assert study.grid_weights_.sum() == pytest.approx(8_000)
    assert (study.grid_weights_ >= 0).all()


@pytest.mark.full
@pytest.mark.parametrize(("parties", "bar"), [(2, 1.05), (4, 1.08)])
def test_letter_at_half_an_epsilon_is_within_the_bar_of_non_private_vertical_clustering(shared_data, parties, bar):
    frame = pd.read_parquet(shared_data / "letter.parquet").drop(columns="lettr")
    points = frame.to_numpy(float) / 7.5 - 1
    blocks = [list(range(party, 16, parties)) for party in range(parties)]
    order = [column for block in blocks for column in block]
    reference = np.mean([non_private(points, blocks, 5, seed) for seed in range(2)])
    sites = {
        f"p{number}": cn.Party(
            frame.iloc[:, block].assign(id=np.arange(len(frame))),
            schema=cn.Schema({name: cn.Numeric(0, 15) for name in frame.columns[block]}),
        )
        for number, block in enumerate(blocks)
    }
    with cn.Federation.simulate(sites, id="id", budget=cn.Budget(epsilon=50.0, delta=1e-3), test_key=b"k" * 32) as f:
        ours = [
            np.mean(nearest_squared(points[:, order], fitted.cluster_centers_ / 7.5 - 1))
            for fitted in (
                cn.KMeans(5, n_local_clusters=5, epsilon=0.5, delta=5e-5, random_state=seed).fit(f) for seed in range(3)
            )
        ]
        default = cn.KMeans(5, epsilon=0.5, delta=5e-5).fit(f).cluster_centers_ / 7.5 - 1
    assert np.mean(ours) < bar * reference
    assert np.mean(nearest_squared(points[:, order], default)) < bar * reference


def nearest_squared(points, centres):
    return ((points[:, None] - centres) ** 2).sum(axis=2).min(axis=1)


def non_private(points, blocks, clusters, seed) -> float:
    """Local k-means with k' = k, exact weights, weighted k-means of the grid."""
    fits = [KMeans(clusters, n_init=5, random_state=seed).fit(points[:, block]) for block in blocks]
    cells, weights = np.unique(np.column_stack([fit.labels_ for fit in fits]), axis=0, return_counts=True)
    grid = np.concatenate([fit.cluster_centers_[cells[:, party]] for party, fit in enumerate(fits)], axis=1)
    centres = KMeans(clusters, n_init=5, random_state=seed).fit(grid, sample_weight=weights).cluster_centers_
    return float(np.mean(nearest_squared(points[:, [column for block in blocks for column in block]], centres)))


# What it costs --------------------------------------------------------------------------------------------------------------


@pytest.mark.every(6)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("parties", [1, 3])
def test_a_persons_loss_over_all_parties_is_the_price_and_no_more(method, delta, parties):
    tables = split(groups("price", people=500, width=3), parties)
    with federated(tables) as f:
        study = cn.KMeans(2, method=method, epsilon=1.0, delta=delta).fit(f)
        spent = f.budget(unit="person")["spent"]
        ledgers = f.budget()
    assert study.privacy_.epsilon(unit="person") <= 1.0
    assert study.privacy_.epsilon(unit="person") > 0.98
    assert study.privacy_.delta(unit="person") == delta
    assert study.privacy_.epsilon(unit="party") <= 1.0
    assert (
        0.3 < spent <= study.privacy_.epsilon(unit="person") + 1e-9
    )  # the ledgers' cap has a δ, at which pure ε costs less
    assert (ledgers["releases"] == 2).all()
    composed = total(opening.loss_to(frozenset({"coordinator"})) for opening in study.privacy_.openings)
    assert composed.fits(10**9, delta)
    assert len(study.privacy_.openings) == parties + (1 if method == "secure" and parties > 1 else parties)
    assert not study.privacy_.local


@pytest.mark.every(3)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_for_the_party_unit_each_party_pays_the_price_and_no_more(method, delta):
    tables = split(groups("party price", people=500, width=3), 3)
    with federated(tables) as f:
        study = cn.KMeans(2, method=method, epsilon=1.0, delta=delta, unit="party").fit(f)
    assert 0.98 < study.privacy_.epsilon(unit="party") <= 1.0
    assert study.privacy_.epsilon(unit="person") > 1.0


def test_fitting_again_is_free_and_so_is_the_other_objective():
    tables = split(groups("free", people=500, width=4), 2)
    with federated(tables) as f:
        first = cn.KMeans(3, n_local_clusters=6, epsilon=1.0).fit(f)
        spent = f.budget()["spent"].tolist()
        again = cn.KMeans(3, n_local_clusters=6, epsilon=1.0).fit(f)
        median = cn.KMedian(3, n_local_clusters=6, epsilon=1.0).fit(f)
        assert f.budget()["spent"].tolist() == spent
        np.testing.assert_array_equal(first.cluster_centers_, again.cluster_centers_)
        assert first.grid_weights_.equals(median.grid_weights_)
        assert not np.array_equal(first.cluster_centers_, median.cluster_centers_)
        other = cn.KMeans(3, n_local_clusters=6, epsilon=1.0).fit(f, repeat=2)
        assert (f.budget()["spent"] > spent).all()
        assert (f.budget()["releases"] == 4).all()
        assert not np.array_equal(first.cluster_centers_, other.cluster_centers_)


# A sample that reports -------------------------------------------------------------------------------------------------------


SAMPLED = cn.methods.Response(sample=0.25)


def test_a_sample_reports_a_quarter_of_the_bytes_at_the_same_price_and_the_weights_are_of_everybody():
    tables = split(groups("sampled", people=8_000, width=4), 2)
    whole = joined(tables).to_numpy()
    found, sizes = {}, {}
    for name, method in {"everybody": "response", "sample": SAMPLED}.items():
        with federated(tables, epsilon=1_000) as f:
            found[name] = cn.KMeans(4, method=method, n_local_clusters=6, epsilon=100.0, delta=1e-5).fit(f)
            replies = [exchange(f, party, Ask(plan=found[name].plan_, step="reports")) for party in tables]
        sizes[name] = [len(reply.array("value")) for reply in replies]
    assert sizes["everybody"] == [8_000, 8_000]
    assert sizes["sample"][0] == sizes["sample"][1]  # the same people at both parties
    assert sizes["sample"][0] == pytest.approx(2_000, abs=300)
    assert found["sample"].privacy_.epsilon() == found["everybody"].privacy_.epsilon()
    for study in found.values():
        assert study.grid_weights_.sum() == pytest.approx(8_000)
        assert loss(whole, study.cluster_centers_) < 1.1 * best_loss(whole, 4)


# What is asked of a party ---------------------------------------------------------------------------------------------------


def exchange(f, party, request):
    as_if_agreed(f._driver.transport._endpoints[party], request.plan)
    return messages.decode_reply(f._driver.transport.exchange({party: messages.encode(request)})[party])


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("parameters", "columns"),
    [
        ({"clusters": 3}, None),
        ({"centres_of": "nothing"}, None),
        ({"centres_of": "histogram"}, None),
        ({"unheard": 1}, None),
        ({}, ("x0",)),
    ],
)
def test_a_step_that_counts_memberships_of_something_else_is_refused(parameters, columns):
    import msgspec

    tables = split(groups("other", people=200, width=4), 2)
    with federated(tables) as f:
        _, plan = cn.KMeans(2, method="independent", n_local_clusters=2, epsilon=1.0).prepared(f, 1)
        steps = [
            step
            if step.name == "centres"
            else msgspec.structs.replace(
                step, parameters={**step.parameters, **parameters}, columns=columns or step.columns
            )
            for step in plan.steps
        ]
        changed = msgspec.structs.replace(plan, steps=tuple(steps))
        exchange(f, "party0", Ask(plan=changed, step="centres"))
        reply = exchange(f, "party0", Ask(plan=changed, step="histogram"))
    assert isinstance(reply, Refused)
    assert reply.spent is None


def neighbours(person: int):
    one, other = (split(groups("neighbours", people=150, width=3), 2) for _ in range(2))
    for frame in other.values():
        frame.loc[frame.id == person, [column for column in frame.columns if column != "id"]] = np.nan
    return one, other


def blank(data: bytes) -> tuple:
    """A reply with the released values removed: what must not depend on data."""
    reply = messages.decode_reply(data)
    if not isinstance(reply, Released):
        return (len(data),)
    shapes = tuple((name, array.dtype, array.shape) for name, array in reply.values.items())
    return (reply.party, reply.step, reply.mechanism, reply.loss, shapes, len(data))


def record(tables, study, statistics, released, monkeypatch):
    """Run a study with given centres (or keep those it draws); return every message and what was counted, by party."""
    counted, draw = {}, LocalClustering.release

    def fixed(self, nonprivate, randomness):
        return released.setdefault(self.block.width, draw(self, nonprivate, randomness))

    for statistic in statistics:
        real = statistic.compute

        def watched(self, table, real=real):
            found = real(self, table)
            counted[self.step.columns] = (found if isinstance(found, np.ndarray) else found.read(0, len(found))).copy()
            return found

        monkeypatch.setattr(statistic, "compute", watched)
    monkeypatch.setattr(LocalClustering, "release", fixed)
    with kit.zeroed_out(), federated(tables) as f:
        f._driver.transport = recorded = Recorded(f._driver.transport, keep=True)
        study.fit(f)
    monkeypatch.undo()
    return recorded.exchanges, counted


@pytest.mark.every(2)
@pytest.mark.parametrize("method", ["response", "independent"])
@pytest.mark.parametrize("person", [0, 149])
def test_a_person_removed_changes_one_category_given_the_same_centres(method, person, monkeypatch):
    """Centres are fixed from the first run, as adaptive composition has it; then one report or one count changes."""
    released: dict[int, np.ndarray] = {}
    study, statistics = cn.KMeans(3, method=method, n_local_clusters=3, epsilon=2.0), (PrivateHistogram, PrivateReports)
    (said_one, before), (said_other, after) = (
        record(tables, study, statistics, released, monkeypatch) for tables in neighbours(person)
    )
    for (asked_one, told_one), (asked_other, told_other) in zip(said_one, said_other, strict=True):
        assert plain(asked_one) == plain(asked_other)
        assert {party: blank(data) for party, data in told_one.items()} == {
            party: blank(data) for party, data in told_other.items()
        }
    assert len(before) == len(after) == 2
    for columns, counts in before.items():
        if method == "independent":
            assert np.abs(counts - after[columns]).sum() == 1
        else:
            assert np.flatnonzero(counts != after[columns]).tolist() == [person]
            assert after[columns][person] == -1


def test_people_without_a_record_at_a_party_are_in_no_cell_and_half_missing_ones_are():
    points = groups("missing", people=400, width=4)
    tables = split(points, 2)
    tables["party0"].loc[:99, ["x0", "x2"]] = np.nan
    tables["party1"].loc[50:149, "x1"] = np.nan
    with kit.zeroed_out(), federated(tables, epsilon=1_000) as f:
        study = cn.KMeans(2, n_local_clusters=3, epsilon=500.0).fit(f)
    assert study.grid_weights_.sum() == pytest.approx(300, abs=2)


# The estimator --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["response", "independent"])
def test_memberships_before_their_centres_are_refused_and_cost_nothing(method):
    tables = split(groups("order", people=200, width=2), 2)
    with federated(tables) as f:
        study = cn.KMeans(2, method=method, epsilon=1.0)
        algorithm, plan = study.prepared(f, 1)
        reply = exchange(f, "party0", Ask(plan=plan, step=algorithm.weights[0]))
        assert isinstance(reply, Refused)
        assert reply.spent is None
        assert (f.budget()["spent"] == 0).all()
        assert isinstance(exchange(f, "party0", Ask(plan=plan, step="centres")), Released)
        assert isinstance(exchange(f, "party0", Ask(plan=plan, step=algorithm.weights[0])), Released)
