"""A new version of a served party's data: taken over between two requests, by nobody's wish but its owner's.

The first part serves the parties in this process. The second part serves them as processes.
"""

import os
import signal
from pathlib import Path

import pytest

import colonnade as cn
from colonnade.errors import BadInput, ColonnadeError, PartyAway, ReleaseLost
from colonnade.party.guard import STOPPED
from colonnade.protocol import messages
from colonnade.protocol.messages import GetDescription
from colonnade.service.party_folder import Snapshots
from tests.cli.studies import call
from tests.service.lines import until
from tests.service.served import Site
from tests.service.test_members import alive
from tests.service.test_papers import opened

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

EPSILON = 50.0


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path, parties=("bank", "telco"), nodes=("auditor",), epsilon=10_000.0)


def counts(**options) -> cn.PatternCount:
    """So dear that the noise is nothing: what is seen is the table that was answered from."""
    return cn.PatternCount(["bank.segment"], epsilon=EPSILON, **options)


def golden(federation: cn.Federation, repeat: int = 1) -> int:
    """How many people of the bank have gold."""
    found = counts(method="independent").fit(federation, repeat=repeat).counts_
    return round(float(found["gold"]))


def table(site: Site, segment: str) -> Path:
    path = site.folder / "next.parquet"
    site.tables["bank"].assign(segment=segment).to_parquet(path)
    return path


def load(site: Site, segment: str) -> int:
    return site.members["bank"].load([table(site, segment)]).version


# In this process ------------------------------------------------------------------------------------------------------


def test_a_party_whose_current_copy_is_not_in_order_does_not_answer(site):
    with opened(site) as federation:
        golden(federation)
        with site.members["bank"].ledger() as ledger:
            ledger.declare_version(2)  # what no load does: there is no copy
        for _ in range(2):
            assert federation._driver.transport.exchange({"bank": messages.encode(GetDescription())})["bank"] == STOPPED
        assert "version 2 in data/" in str(federation._driver.transport.endpoint("bank").failure.for_the_owner())
    with pytest.raises(BadInput, match="version 2 in data/"):
        site.members["bank"].guard()


def test_a_party_whose_copy_is_changed_while_it_is_open_stops_and_says_no_more_than_a_stopped_one(site):
    copy = site.members["bank"].path / "data" / "0001" / "0000.parquet"
    with opened(site) as federation:
        copy.write_bytes(copy.read_bytes() + b"\0")
        with pytest.raises(PartyAway):
            golden(federation)
        assert federation._driver.transport.exchange({"bank": messages.encode(GetDescription())})["bank"] == STOPPED
        assert "has changed" in str(federation._driver.transport.endpoint("bank").failure.for_the_owner())
    with pytest.raises(BadInput, match="damaged or changed"):
        site.members["bank"].guard()


def test_a_copy_that_is_replaced_while_it_is_opened_gives_way_to_the_newer_one(site, monkeypatch):
    bank, honest = site.members["bank"], Snapshots.files

    def late(self, version):
        if version == 1:
            monkeypatch.setattr(Snapshots, "files", honest)
            assert load(site, "gold") == 2
        return honest(self, version)

    monkeypatch.setattr(Snapshots, "files", late)
    with opened(site) as federation:
        assert golden(federation) == 300
    assert sorted(path.name for path in (bank.path / "data").iterdir()) == ["0002"]


# As processes ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    made = Site(tmp_path_factory.mktemp("n"), parties=("bank", "telco"), nodes=("auditor",), epsilon=10_000.0)
    made.start()
    made.ready()
    try:
        yield made
    finally:
        made.stop()


def test_a_running_party_takes_a_new_version_over_without_stopping(served):
    bank = served.members["bank"]
    guard = served.pid("bank", "guard")
    with served.connect() as federation:
        assert golden(federation) < 200
        shown = call("party", "load", bank.path, table(served, "gold"))
        assert shown.exit_code == 0, shown.output
        assert "data version 2" in shown.output
        assert "taken over by the running party" in shown.output
        with pytest.raises(ReleaseLost):
            golden(federation)
    with served.connect() as federation:
        assert golden(federation) == 300
        assert federation.budget("bank").spent > EPSILON
    assert served.pid("bank", "guard") == guard
    assert "data      version 2, declared" in call("party", "status", bank.path).output
    assert sorted(path.name for path in (bank.path / "data").iterdir()) == ["0002"]


@pytest.mark.full
def test_a_party_without_a_loaded_table_is_not_served_and_never_meets_the_coordinator(tmp_path):
    site = Site(tmp_path, parties=("bank", "telco"), nodes=("auditor",), loaded=False)
    site.start("bank")
    try:
        until(lambda: site.events("bank", "exited", child="guard", status=1), what="the guard refusing")
        until(lambda: site.events("bank", "stopped", child="relay"), what="the relay being stopped")
    finally:
        site.stop()
    folder = site.members["bank"].path
    assert not site.events("bank", process="relay")  # it has not dialled
    assert not (folder / "relay.status").exists()
    assert "colonnade party load" in (folder / "serve.log").read_text()
    assert "No table was loaded" in call("party", "status", folder).output


def refusal(site: Site, stop) -> ColonnadeError:
    """What a coordinator is told while a party goes away in the middle of a study."""
    with site.connect(patience=15.0) as federation:
        federation.budget()
        stop(federation)
        with pytest.raises(ColonnadeError) as told:
            federation.budget()
    return told.value


def supervisor_of(site: Site, name: str) -> int:
    stat = Path(f"/proc/{site.pid(name, 'guard')}/stat").read_text()
    return int(stat.rsplit(")", 1)[1].split()[1])


@pytest.mark.full
def test_a_party_that_loses_its_table_looks_like_one_that_its_operator_has_stopped(tmp_path):
    told, ended = {}, {}
    for way in ("stopped", "damaged"):
        (tmp_path / way).mkdir()
        site = Site(tmp_path / way, parties=("bank", "telco"), nodes=("auditor",))
        site.start()
        site.ready()
        supervisor, bank = supervisor_of(site, "bank"), site.members["bank"]

        def stop(_, site=site, way=way, supervisor=supervisor, bank=bank):
            if way == "stopped":
                os.kill(supervisor, signal.SIGTERM)
                until(lambda: not alive(supervisor), what="the member stopping")
            else:
                with bank.ledger() as ledger:
                    ledger.declare_version(2)  # and there is no copy of it

        try:
            told[way] = refusal(site, stop)
            until(lambda supervisor=supervisor: not alive(supervisor), what="the member ending")
            ended[way] = [(one["child"]) for one in site.events("bank", "stopped") if "child" in one]
            if way == "damaged":
                (refused,) = site.events("bank", "refused-to-run")
                assert refused["code"] == "bad-input"
                assert "version 2 in data/ is missing" in call("party", "status", bank.path).output
                assert "version 2" in (bank.path / "serve.log").read_text()
        finally:
            site.stop()
    assert isinstance(told["damaged"], PartyAway)
    assert type(told["damaged"]) is type(told["stopped"])
    assert str(told["damaged"]) == str(told["stopped"])
    assert ended["damaged"] == ended["stopped"] == ["relay", "guard"]
