"""Members as processes: two parties and a compute node without data; guard and relay apart; what status and logs say."""

import os
import signal
import socket
from pathlib import Path

import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import BudgetExceeded
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.service.processes import refuse_the_network
from tests.cli.studies import call
from tests.service.lines import until
from tests.service.served import Site, simulated

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = Site(tmp_path_factory.mktemp("n"), parties=("bank", "telco"), nodes=("auditor",))
    made.start()
    try:
        yield made
    finally:
        made.stop()


def pca() -> cn.PCA:
    return cn.PCA(1, epsilon=1.0, delta=1e-6)


def test_a_node_without_data_computes_and_the_ledgers_agree_with_the_statement(site):
    with simulated(site) as here, site.connect() as there:
        one, other = pca().fit(here), pca().fit(there)
        np.testing.assert_array_equal(one.components_, other.components_)
        assert "auditor" in other.plan_.compute_nodes
        for party in site.parties:
            with SqliteLedger.open(site.members[party].path / "ledger.sqlite") as ledger:
                assert ledger.spent().epsilon(1e-6) == pytest.approx(other.privacy_.epsilon(unit="person"), rel=1e-9)
        with pytest.raises(BudgetExceeded):
            cn.PCA(1, epsilon=20.0, delta=1e-6).fit(there)
        (refused,) = site.events("bank", "refused", process="guard")
        assert refused["code"] == "budget-exceeded"


def test_status_says_who_is_connected_what_was_asked_and_what_is_left(site):
    with site.connect() as federation:
        federation.budget()
        until(lambda: call("party", "status", str(site.members["bank"].path), "--ready").exit_code == 0, what="health")
        shown = call("party", "status", str(site.members["bank"].path)).output
        assert "connected to the coordinator" in shown
        assert "budget    ε=" in shown
        assert call("coordinator", "status", str(site.folder / "coordinator-state"), "--check").exit_code == 0
        study = call("coordinator", "status", str(site.folder / "coordinator-state")).output
        assert "connected bank, telco, auditor" in study
    assert call("party", "status", str(site.members["auditor"].path)).exit_code == 0


def test_the_guard_has_no_network_and_its_socket_is_its_users_alone(site):
    site.ready()
    for name in site.members:
        assert site.members[name].socket.stat().st_mode & 0o777 == 0o600
        guard, relay = site.pid(name, "guard"), site.pid(name, "relay")
        assert not internet(guard)
        assert "nvflare" not in Path(f"/proc/{guard}/maps").read_text()
        until(lambda relay=relay: Path(f"/proc/{relay}").exists(), what="the relay running")


def internet(pid: int) -> set[str]:
    """The internet sockets that a process holds."""
    tables = ("tcp", "tcp6", "udp", "udp6")
    known = {
        line.split()[9] for table in tables for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
    }
    held = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(entry.readlink())
        except OSError:
            continue
        if target.startswith("socket:["):
            held.add(target[8:-1])
    return held & known


def test_whatever_runs_in_the_guard_cannot_open_a_connection():
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            refuse_the_network()
            socket.socket(socket.AF_UNIX).close()
            for attempt in (
                socket.socket,
                lambda: socket.create_connection(("localhost", 9)),
                lambda: socket.gethostbyname("x"),
            ):
                try:
                    attempt()
                except PermissionError:
                    status = 0
                else:
                    status = 1
                    break
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_guard_and_relay_end_with_a_supervisor_that_is_killed(site):
    site.ready("auditor")
    guard, relay = site.pid("auditor", "guard"), site.pid("auditor", "relay")
    (supervisor,) = {int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1]) for pid in (guard, relay)}
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: not any(alive(pid) for pid in (guard, relay)), what="the children of a killed supervisor ending")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_member_with_papers_that_nobody_else_signed_is_not_served_and_says_why(site, tmp_path):
    folder = tmp_path / "copy"
    bank = site.members["bank"].path
    folder.mkdir(mode=0o700)
    for name in ("member.toml", "schema.toml", "policy.toml"):
        (folder / name).write_text((bank / name).read_text())
    (folder / "kit").symlink_to(bank / "kit")
    papers = (bank / "federation.toml").read_text().split("[signatures]")[0] + "[signatures]\n"
    (folder / "federation.toml").write_text(papers)
    served = call("party", "serve", str(folder))
    assert served.exit_code == 1
    assert "not signed by" in served.output
    assert '"event": "papers-refused"' in served.output


@pytest.mark.full
def test_two_parties_and_a_coordinator_that_is_the_third_node(tmp_path):
    site = Site(tmp_path, parties=("bank", "telco"))
    site.start()
    try:
        with simulated(site) as here, site.connect() as there:
            one, other = pca().fit(here), pca().fit(there)
            np.testing.assert_array_equal(one.components_, other.components_)
            assert "coordinator" in other.plan_.compute_nodes
            assert "colludes with no party" in str(other.privacy_)
    finally:
        site.stop()


@pytest.mark.full
def test_a_member_ends_in_order_when_it_is_asked_to(tmp_path):
    site = Site(tmp_path, parties=("bank", "telco"))
    one = site.start("bank")
    site.ready("bank")
    guard, relay = site.pid("bank", "guard"), site.pid("bank", "relay")
    assert one.stop() == 0
    assert not alive(guard)
    assert not alive(relay)
    assert [event["child"] for event in site.events("bank", "stopped") if "child" in event] == ["relay", "guard"]
