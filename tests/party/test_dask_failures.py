"""A party whose workers fail: nothing of it is said, nothing is paid for, and chunks that wait for workers are bounded."""

import dataclasses
from functools import partial

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client

import colonnade as cn
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.party.guard import STOPPED
from colonnade.party.party import Party
from colonnade.protocol import messages
from colonnade.protocol.messages import GetDescription, Refused
from colonnade.secure import shamir
from tests.federations import federation
from tests.party.test_gate import spent
from tests.party.test_one_door import shares


@pytest.fixture(scope="module")
def client():
    with Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0") as made:
        yield made


FAULTS = {
    "a task that kills workers": RuntimeError("a worker was killed"),
    "memory": MemoryError("worker 3"),
    "no workers": BadInput("The party's Dask cluster has no workers."),
    "words of ours": SchemaMismatch("In words of ours."),
}


def _fails(error):
    raise error


class Unable:
    """Workers that fail: at once, or when a result is waited for."""

    def __init__(self, error, *, at_once):
        self.error, self.at_once = error, at_once

    def begin(self, function, *given):
        if self.at_once:
            raise self.error
        return partial(_fails, self.error)


def with_workers(f, names, workers):
    for name in names:
        runs = f._driver.transport._endpoints[name]._runs
        runs.member = dataclasses.replace(runs.member, workers=workers)


def replies_of(f, name):
    """Note what a member says from now on."""
    member, notes = f._driver.transport._endpoints[name], []
    honest = member.handle
    member.handle = lambda data: notes.append(honest(data)) or notes[-1]
    return notes


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_party_whose_workers_fail_at_products_says_what_a_stopped_party_says(fault, at_once, monkeypatch):
    monkeypatch.setattr(shamir, "FEWEST_COLUMNS", 1)
    with federation(120, epsilon=100.0) as f:
        with_workers(f, ["bank"], Unable(FAULTS[fault], at_once=at_once))
        notes = replies_of(f, "bank")
        with pytest.raises(cn.errors.PartyAway):
            shares(f)
        assert notes[-1] == STOPPED
        assert not [note for note in notes if note != STOPPED and isinstance(messages.decode_reply(note), Refused)]
        failure = f._driver.transport._endpoints["bank"].failure
        assert failure.__cause__ is FAULTS[fault]  # for its owner
        assert f._driver.transport._endpoints["bank"].handle(messages.encode(GetDescription())) == STOPPED


def test_a_node_whose_workers_fail_has_one_constant_message(monkeypatch):
    monkeypatch.setattr(shamir, "FEWEST_COLUMNS", 1)
    said = set()
    for fault in FAULTS.values():
        with federation(120, epsilon=100.0, parties=("bank", "telco"), compute_nodes=["node"]) as f:
            node = "node"
            with_workers(f, [node], Unable(fault, at_once=False))
            notes = replies_of(f, node)
            with pytest.raises(cn.errors.ColonnadeError):
                shares(f)
            said.add(notes[-1])
            assert messages.decode_reply(notes[-1]).message == "The node failed while answering."
    assert len(said) == 1


def test_a_cluster_that_is_lost_costs_nothing(client, monkeypatch):
    schemas = {"bank": cn.Schema(age=cn.Numeric(0, 120)), "telco": cn.Schema(minutes=cn.Numeric(0, 600))}
    one = pd.DataFrame({"person": np.arange(200), "age": np.arange(200) % 80})
    other = pd.DataFrame({"person": np.arange(200), "minutes": np.arange(200) % 300})
    parties = {
        "bank": Party(dd.from_pandas(one, npartitions=3), schema=schemas["bank"]),
        "telco": Party(other, schema=schemas["telco"]),
    }
    with cn.Federation.simulate(parties, id="person", budget=cn.Budget(epsilon=5.0, delta=1e-6)) as f:
        guard = f._driver.transport._endpoints["bank"]
        client.cancel(guard._gate._table._ranges)  # as a scheduler that was started again does
        with pytest.raises(cn.errors.PartyAway):
            cn.Histogram("bank.age", epsilon=1.0).fit(f)
        assert guard.failure is not None
        assert spent(f) == 0
