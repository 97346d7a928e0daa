"""One door: in real studies of every channel nothing but the gate writes to a ledger, or makes a sampler for what it paid for.

`tests/test_structure.py` says the same of the source. Here it is watched while it happens, whatever the source looks like.
"""

import sys
from pathlib import Path

import pytest

import colonnade as cn
from colonnade.party import gate
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.privacy.samplers import ExactSampler
from tests.coordinator.test_align import unaligned
from tests.federations import federation

WRITES = (
    "reserve",
    "keep_key",
    "keep_plan",
    "record_alignment",
    "record_list",
    "record_nonprivate",
    "seal",
    "commit",
)
COLUMNS = ["bank.age", "telco.bill"]
GAUSSIAN = {"epsilon": 1.0, "delta": 1e-5}


def local(f: cn.Federation) -> None:
    cn.PatternCount(["bank.segment", "telco.plan"], method="response", epsilon=1.0).fit(f)


def shares(f: cn.Federation) -> None:
    cn.PatternCount(["bank.segment", "telco.plan"], epsilon=1.0).fit(f)
    cn.LinearRegression("telco.bill", columns=["bank.age"], method="functional", epsilon=1.0).fit(f)


def gradient(f: cn.Federation) -> None:
    cn.LogisticRegression("bank.default", method=cn.methods.Gradient(steps=4, rate=0.5), **GAUSSIAN).fit(f)


def sketches(f: cn.Federation) -> None:
    cn.KMeans(2, columns=COLUMNS, method="sketch", n_local_clusters=2, **GAUSSIAN).fit(f)


def sums(f: cn.Federation) -> None:
    coreset = {"method": cn.methods.Coreset(gather=False), "size": 40, "allow_nonprivate": True}
    cn.LinearRegression("telco.bill", columns=["bank.age"], **coreset).fit(f)
    model = cn.LinearRegression("telco.bill", columns=["bank.age"], **GAUSSIAN).fit(f)
    train, _ = f.split(test=0.5)
    model.evaluate(train, **GAUSSIAN)


STUDIES = {study.__name__: study for study in (local, shares, gradient, sketches, sums)}


class Watch:
    """Notes who calls a ledger's write methods, and who makes samplers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.writers: set[tuple[str, str]] = set()
        self.makers: set[str] = set()
        for method in WRITES:
            monkeypatch.setattr(SqliteLedger, method, self._watched(method))
        honest = ExactSampler.__init__

        def made(sampler, randomness):
            self.makers.add(_caller())
            honest(sampler, randomness)

        monkeypatch.setattr(ExactSampler, "__init__", made)

    def _watched(self, method: str):
        honest = getattr(SqliteLedger, method)

        def written(*args, **options):
            self.writers.add((method, _caller()))
            return honest(*args, **options)

        return written


def _caller() -> str:
    """The file of the function that called what is watched."""
    return Path(sys._getframe(2).f_code.co_filename).name


def through_the_gate(watch: Watch) -> bool:
    door = Path(gate.__file__).name
    places = {place for _, place in watch.writers}
    return watch.makers <= {door} and places == {door}


@pytest.mark.every(2)
@pytest.mark.parametrize("name", STUDIES)
def test_a_study_writes_and_draws_in_the_gate_alone(name, monkeypatch):
    with federation(200, epsilon=100.0) as f:
        watch = Watch(monkeypatch)
        STUDIES[name](f)
        monkeypatch.undo()
    assert through_the_gate(watch)


@pytest.mark.every(2)
@pytest.mark.parametrize("options", [{"size": "public"}, {"epsilon": 0.5}, {"mode": "cohort", "ids": ["p1", "p2"]}])
def test_an_alignment_writes_and_draws_in_the_gate_alone(options, monkeypatch):
    with unaligned() as f:
        watch = Watch(monkeypatch)
        f.align(**options)
        monkeypatch.undo()
    assert through_the_gate(watch)


def test_these_studies_write_in_every_way_there_is(monkeypatch):
    watch = Watch(monkeypatch)
    with federation(200, epsilon=100.0) as f:
        for study in (local, shares, gradient, sums):
            study(f)
    with unaligned() as f:
        f.align(size="public")
    monkeypatch.undo()
    assert {method for method, _ in watch.writers} == set(WRITES)
    assert watch.makers


def test_the_watch_would_notice_another_door(monkeypatch):
    watch = Watch(monkeypatch)
    with federation(200) as f:
        local(f)
        side_door = f._driver.transport._endpoints["bank"]._gate._ledger
        side_door.record_nonprivate(bytes(32), bytes(32), label="past the gate")
    monkeypatch.undo()
    assert not through_the_gate(watch)
