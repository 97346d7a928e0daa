"""Who does not get a line, and what does not travel on one."""

import importlib
import shutil
import sys

import pytest

from colonnade.service import federation_setup
from colonnade.transport.kit import Kit
from tests.service.intruders import INTRUDER
from tests.service.lines import HOST, Started, free_port, relays, until

pytest.importorskip("nvflare", reason="needs the extra colonnade[network]")
provisioning = importlib.import_module("colonnade.service.federation_setup")
flare = importlib.import_module("colonnade.transport.flare")


class Notes:
    """A log that is kept."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict]] = []

    def event(self, name: str, **fields) -> None:
        self.events.append((name, fields))

    def reasons(self) -> list[str]:
        return [fields["reason"] for name, fields in self.events if name == "message-refused"]


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    folder = tmp_path_factory.mktemp("n")
    port = free_port()
    kits = provisioning.provision(folder / "a", host=HOST, sites=("bank", "telco"), kits=folder / "kits")
    other = provisioning.provision(folder / "b", host=HOST, sites=("bank", "telco"), kits=folder / "others")
    notes = Notes()
    transport = flare.FlareTransport(
        ("bank", "telco"), address=f"tcp://{HOST}:{port}", kit=kits["coordinator"], host=HOST, patience=1.0, log=notes
    )
    yield folder, f"tcp://{HOST}:{port}", kits, other, notes, transport
    transport.close()


@pytest.fixture
def intrude(line):
    folder, address, *_ = line
    begun = []

    def start(name, kit, what) -> Started:
        log = folder / f"{len(begun)}-{what}.log"
        log.unlink(missing_ok=True)
        one = Started([sys.executable, "-c", INTRUDER, name, address, str(kit), HOST, what], log)
        begun.append(one)
        return one

    yield start
    for one in begun:
        one.stop()


def said(intruder: Started, word: str) -> list[str]:
    until(lambda: word in intruder.log.read_text().split(), what=f"an intruder being {word}")
    return intruder.log.read_text().splitlines()


def never_came(notes: Notes, intruder: Started, transport) -> bool:
    """FLARE's client believes a hello at once; what counts is that the coordinator never knew it."""
    before = len(notes.events)
    said(intruder, "done")
    return transport.connected() == () and not any(name == "connected" for name, _ in notes.events[before:])


@pytest.mark.every(4)
@pytest.mark.parametrize("what", ["no-certificate", "plaintext"])
def test_without_a_certificate_there_is_no_line(what, line, intrude):
    _, _, kits, _, notes, transport = line
    assert never_came(notes, intrude("bank", kits["bank"], what), transport)


def test_a_certificate_of_another_authority_makes_no_line(line, intrude, tmp_path):
    _, _, kits, other, notes, transport = line
    kit = shutil.copytree(other["bank"], tmp_path / "kit")
    shutil.copy(
        kits["bank"] / "rootCA.pem", kit / "rootCA.pem"
    )  # it trusts the coordinator; the coordinator does not trust it
    assert never_came(notes, intrude("bank", kit, "connect"), transport)


@pytest.mark.every(6)
@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("other-party", "destination"),
        ("objects", "encoding"),
        ("channel", "channel"),
        ("origin", "origin"),
        pytest.param("reply", "reply", marks=pytest.mark.full),
    ],
)
def test_a_party_with_a_line_sends_blocks_to_the_coordinator_and_nothing_else(what, reason, line, intrude):
    _, _, kits, _, notes, _ = line
    before = len(notes.reasons())
    intruder = intrude("bank", kits["bank"], what)
    said(intruder, "done")
    until(lambda: reason in notes.reasons()[before:], what=f"a message refused for its {reason}")
    assert not any("ok" in line.split() for line in intruder.log.read_text().splitlines())


def test_malformed_blocks_are_refused_and_noted(line, intrude):
    _, _, kits, _, notes, _ = line
    said(intrude("bank", kits["bank"], "malformed"), "done")
    until(lambda: any(name == "block-refused" for name, _ in notes.events), what="a malformed block being refused")


def test_an_oversized_frame_ends_the_connection_before_memory_is_taken_for_it(line, intrude):
    _, _, kits, _, notes, _ = line
    gone = sum(name == "disconnected" for name, _ in notes.events)
    said(intrude("bank", kits["bank"], "oversized"), "done")
    until(lambda: sum(name == "disconnected" for name, _ in notes.events) > gone, what="the connection ending")


def posing(address: str, kit, folder) -> Started:
    """Another site that listens as the coordinator would, with a certificate of the same authority."""
    return Started([sys.executable, "-c", IMPOSTOR, address, str(kit)], folder / "impostor.log")


def test_a_sites_certificate_is_not_one_to_listen_with(line, tmp_path):
    """What a certificate may be used for is in it: a site's own is for connecting, and a victim says what it was shown."""
    _, _, kits, *_ = line
    address, pose = f"tcp://{HOST}:{free_port()}", tmp_path / "pose"
    pose.mkdir()
    for name, file in (("rootCA.pem", "rootCA.pem"), ("client.crt", "server.crt"), ("client.key", "server.key")):
        shutil.copy(kits["telco"] / name, pose / file)
    impostor = posing(address, pose, tmp_path)
    victim = relays(tmp_path, "bank", address=address, kits=kits["bank"].parent)
    try:
        until(lambda: victim.events("certificate-refused"), what="the victim's refusal")
        assert not victim.events("connected")
    finally:
        victim.stop()
        impostor.kill()
        impostor.process.stdin.close()


def test_a_site_does_not_believe_another_site_that_poses_as_the_coordinator(line, tmp_path):
    """The server's certificate is checked by its name: another site's, even one that may listen, is not it."""
    folder, _, kits, *_ = line
    address, kit = f"tcp://{HOST}:{free_port()}", Kit(tmp_path / "pose", "server")
    key = federation_setup.SiteRequest("telco", kit.request("telco").decode()).key()
    federation_setup.CertificateAuthority(folder / "a").issue(key, "telco", host="telco").write(kit.folder, "server")
    impostor = posing(address, kit.folder, tmp_path)
    victim = relays(tmp_path, "bank", address=address, kits=kits["bank"].parent)
    try:
        until(lambda: "tried" in impostor.log.read_text(), what="the victim's attempt")
        assert not victim.events("connected")
    finally:
        victim.stop()
        impostor.stop()


IMPOSTOR = """
import sys, time, logging
logging.getLogger("nvflare").setLevel(logging.CRITICAL + 1)
from nvflare.fuel.f3.cellnet.cell import Cell
address, kit = sys.argv[1:]
cell = Cell(fqcn="server", root_url=address, secure=True, credentials={
    "ca_cert": kit + "/rootCA.pem", "server_cert": kit + "/server.crt", "server_key": kit + "/server.key"})
cell.core_cell.set_cell_connected_cb(lambda agent: print("came", agent.get_fqcn(), flush=True))
cell.start()
print("ready", flush=True)
manager = cell.core_cell.communicator.conn_manager
while not any(connector.total_conns for connector in manager.connectors.values()):
    time.sleep(0.05)
time.sleep(1.0)
print("tried", flush=True)
sys.stdin.read()
import os; os._exit(0)
"""
