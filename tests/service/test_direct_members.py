"""Members served with direct links, as processes over mutual TLS: the same release, less for the coordinator, and refusals."""

import math
import os
import socket
import sys
import threading
import time

import msgspec
import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import BadInput, ProtocolError
from colonnade.party.serving import serve
from colonnade.protocol import messages
from colonnade.protocol.agreement import read_agreement
from colonnade.protocol.messages import Ticket
from colonnade.runtime.event_log import Log
from colonnade.service import processes
from colonnade.service.health import member_status
from colonnade.service.processes import serve_member, where_to_listen
from colonnade.service.relay import MemberLinks
from colonnade.transport.direct import UnixEndpoint
from tests.service.lines import Started, until
from tests.service.served import Site, simulated
from tests.service.test_survival import At
from tests.transport.test_post_office import Says, a_turn

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

DIRECT = {name: {"direct": True} for name in ("bank", "telco", "insurer")}


def pca(federation: cn.Federation, repeat: int = 1) -> cn.PCA:
    return cn.PCA(2, epsilon=0.1, delta=1e-6).fit(federation, repeat=repeat)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = Site(tmp_path_factory.mktemp("n"), people=2_000, direct=True)
    made.start(**DIRECT)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    """Folders and papers with addresses, of members that nobody serves."""
    return Site(tmp_path_factory.mktemp("p"), direct=True)


def test_a_letter_in_an_answer_of_the_guard_reaches_the_other_members_mailbox(papers):
    """The least of it, in this process: papers, kits, two members' links, and sockets in front of their guards."""
    letter, links = os.urandom(5_000), {}
    for name in ("bank", "telco"):
        folder, ready = papers.members[name], threading.Event()
        threading.Thread(
            target=serve, args=(Says({"telco": letter}), folder.socket), kwargs={"ready": ready.set}, daemon=True
        ).start()
        assert ready.wait(20)
        links[name] = MemberLinks(folder, folder.direct, Log(None, name, "relay"))
    answer = messages.decode_reply(UnixEndpoint(links["bank"].socket).handle(messages.encode(a_turn(1))))
    assert Ticket.read(answer.letters["telco"]) == Ticket.of(letter)
    assert (links["bank"].bytes_out, links["telco"].bytes_in, len(links["telco"].mailbox)) == (5_000, 5_000, 1)
    links["telco"]._looked = -math.inf
    links["telco"].tick()
    assert links["telco"]._listener._peers == {"bank", "insurer"}, "by papers that have not changed"
    for name, one in links.items():
        one.close()
        papers.members[name].socket.unlink()


@pytest.mark.every(2)
@pytest.mark.parametrize("direct", [False, True])
def test_mail_is_erased_before_a_member_begins_and_after_it_has_ended(papers, monkeypatch, direct):
    """A guard that is new has no run that a letter could be for, and a member that is served without links takes none."""
    folder = papers.members["insurer"].path
    left = (folder / "mail" / "letter", folder / "post.sock")

    def leave() -> None:
        (folder / "mail").mkdir(exist_ok=True)
        for path in left:
            path.write_bytes(b"sealed")

    class Watching:
        def __init__(self, *_: object) -> None:
            pass

        def run(self) -> int:
            assert not any(path.exists() for path in left)
            leave()
            return 0

    leave()
    monkeypatch.setattr(processes, "Supervisor", Watching)
    assert serve_member(folder, change_cap=False, report=lambda _: None, direct=direct) == 0
    assert not (folder / "mail").exists()
    assert not any(path.exists() for path in left)


@pytest.mark.full
def test_three_parties_release_the_same_bits_and_their_letters_pass_the_coordinator_by(site):
    expected = pca(simulated(site))
    with site.connect() as federation:
        found = pca(federation)
        np.testing.assert_array_equal(found.components_, expected.components_)
        went = sum(found.transcript_.direct.values())
        assert went > 100_000
        assert found.transcript_.bytes < expected.transcript_.bytes - 1.5 * went
        assert "directly between members" in found.receipt_
    for name in site.parties:
        until(
            lambda name=name: (
                member_status(site.members[name].path).carried["direct_out"] == found.transcript_.direct.get(name, 0)
            ),
            what="the status of a relay",
        )
        assert not list((site.members[name].path / "mail").iterdir()), "letters are erased at the end of a study"
        assert (site.members[name].path / "mail").stat().st_mode & 0o077 == 0


@pytest.mark.full
@pytest.mark.parametrize("turn", [1, 2, 3])
def test_relays_killed_between_two_turns_change_nothing(site, turn):
    """A letter that was kept is on disk, and the guard beside it still has its run."""
    with site.connect() as federation:
        killed = []

        def kill() -> None:
            killed.extend(site.kill(name, "relay") for name in site.parties)

        federation._driver.transport = At(federation._driver.transport, turn, kill)
        found = pca(federation, repeat=10 + turn)
        assert len(killed) == len(site.parties)
        spent = federation.budget().spent
        np.testing.assert_array_equal(pca(federation, repeat=10 + turn).components_, found.components_)
        assert federation.budget().spent.equals(spent)


@pytest.mark.full
def test_a_member_served_without_links_gets_its_letters_from_the_coordinator(tmp_path):
    made = Site(tmp_path, people=2_000, direct=True)
    made.start(telco={"direct": True}, insurer={"direct": True})
    try:
        with made.connect() as federation:
            found = pca(federation)
        np.testing.assert_array_equal(found.components_, pca(simulated(made)).components_)
        assert set(found.transcript_.direct) <= {"telco", "insurer"}
        assert found.transcript_.direct
    finally:
        made.stop()


RELAY = """
import sys
from pathlib import Path
from colonnade.service.party_folder import PartyFolder
from colonnade.service.processes import run_relay
folder = PartyFolder(Path(sys.argv[1]))
run_relay(folder, sys.stdout, direct=folder.direct)
"""


@pytest.mark.full
def test_peers_cannot_reach_a_member_whose_guard_does_not_listen(papers):
    """A guard without a valid table looks from outside like one that its owner has stopped."""
    folder = papers.members["bank"]
    where = folder.direct.split(":")

    def is_open() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((where[0], int(where[1]))) == 0

    started = Started([sys.executable, "-c", RELAY, str(folder.path)], papers.folder / "relay.log")
    try:
        for _ in range(100):
            time.sleep(0.05)
            assert not is_open()
        with socket.socket(socket.AF_UNIX) as guard:
            guard.bind(str(folder.socket))
            guard.listen()
            until(is_open, what="a port for the other members")
    finally:
        started.kill()
        started.process.stdin.close()
        folder.socket.unlink(missing_ok=True)


def test_addresses_are_part_of_what_is_signed_and_papers_without_them_keep_their_name(papers):
    found = read_agreement(papers.papers_path).check()
    assert set(found.direct_addresses()) == set(papers.parties)
    moved = msgspec.structs.replace(found.members["telco"], direct="elsewhere.test:443")
    changed = msgspec.structs.replace(found, members={**found.members, "telco": moved})
    assert changed.identity != found.identity
    with pytest.raises(ProtocolError, match="changed after they were signed"):
        changed.check()
    assert "direct" not in msgspec.structs.replace(moved, direct="").direct
    bare = {name: msgspec.structs.replace(member, direct="") for name, member in found.members.items()}
    fields = msgspec.structs.replace(found, members=bare)._fields()
    assert all(len(member) == 6 for member in fields[3]), "as before there were addresses"


def test_a_member_signs_no_papers_with_another_address_than_its_own(papers):
    from colonnade.service import federation_setup

    text = papers.papers_path.read_text()
    mine = papers.members["bank"].direct
    assert f'direct = "{mine}"' in text
    changed = papers.folder / "changed.toml"
    changed.write_text(text.replace(mine, "elsewhere.test:443"))
    with pytest.raises(BadInput, match="otherwise than its own card"):
        federation_setup.sign(changed, papers.members["bank"].path)


def test_a_policy_that_forbids_links_keeps_a_member_from_serving_with_them(papers):
    folder = papers.members["telco"]
    assert where_to_listen(folder) == folder.direct
    assert where_to_listen(folder, "0.0.0.0:8010") == "0.0.0.0:8010"
    policy = folder.path / "policy.toml"
    before = policy.read_text()
    policy.write_text(before + "direct_links = false\n")
    try:
        assert folder.policy().direct_links is False
        with pytest.raises(BadInput, match="forbids direct links"):
            serve_member(folder.path, change_cap=False, report=lambda _: None, direct=True)
    finally:
        policy.write_text(before)
