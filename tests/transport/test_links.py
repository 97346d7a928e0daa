"""Direct links: the same release with them and without, and what a stranger, an impostor or a failing link brings about."""

import contextlib
import os
import socket
import ssl
import struct
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import BadInput, ProtocolError
from colonnade.protocol import messages
from colonnade.protocol.messages import LARGEST_SEALED, Blob, Opened, Posted, Ticket
from colonnade.runtime.event_log import Log
from colonnade.service.federation_setup import provision
from colonnade.transport import links as linking
from colonnade.transport import links as mailbox_module
from colonnade.transport.direct import Direct
from colonnade.transport.kit import Kit
from colonnade.transport.links import Link, Listener, Mailbox, PostOffice
from tests.federations import federation
from tests.transport.test_post_office import Says, a_turn

PARTIES = ("bank", "telco", "insurer")
STUDY = b"s" * 32
SILENT = Log(None, "bank", "relay")


@pytest.fixture(scope="module")
def kits(tmp_path_factory) -> Path:
    """Kits of three members and an outsider whom the papers do not name, and of a member of another federation."""
    folder = tmp_path_factory.mktemp("kits")
    provision(folder / "ours", host="coordinator.test", sites=[*PARTIES, "outsider"], kits=folder)
    provision(folder / "theirs", host="elsewhere.test", sites=["telco"], kits=folder / "elsewhere")
    return folder


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return f"localhost:{probe.getsockname()[1]}"


def until(condition, what: str) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


@dataclass
class Member:
    """One member's side: mailbox, listener, links and post office before its own guard."""

    name: str
    kits: Path
    addresses: dict[str, str]
    folder: Path
    guard: object = None
    room: int = 1 << 30
    listener: Listener | None = None
    mailbox: Mailbox = field(init=False)

    def start(self) -> "Member":
        peers = {name: address for name, address in self.addresses.items() if name != self.name}
        kit = Kit(self.kits / self.name)
        self.mailbox = Mailbox(self.folder / self.name, peers, room=self.room, spare=0)
        self.listener = Listener(self.addresses[self.name], kit, peers, self.mailbox, SILENT)
        self.links = {name: Link(name, address, kit, SILENT) for name, address in peers.items()}
        self.office = PostOffice(self.guard, self.mailbox, self.links)
        return self

    def handle(self, data: bytes) -> bytes:
        return self.office.handle(data)

    def stop(self) -> None:
        self.listener.close()
        self.office.close()


@dataclass
class Kept:
    """A transport that keeps what it carries, and may act on it."""

    inner: Direct
    rounds: list = field(default_factory=list)
    before: object = None
    after: object = None

    def exchange(self, requests):
        if self.before is not None:
            requests = self.before(requests)
        replies = self.inner.exchange(requests)
        self.rounds.append((requests, replies))
        return replies if self.after is None else self.after(replies)

    def endpoint(self, name: str):
        return self.inner.endpoint(name)

    def close(self) -> None:
        self.inner.close()


class Linked:
    """A federation in this process whose members have direct links over TLS on loopback."""

    def __init__(self, kits: Path, folder: Path, **options) -> None:
        self.federation = federation(people=2_000, **options)
        plain, addresses = self.federation._driver.transport, {name: free_address() for name in PARTIES}
        self.members = {name: Member(name, kits, addresses, folder, plain.endpoint(name)).start() for name in PARTIES}
        self.transport = self.federation._driver.transport = Kept(Direct(self.members))

    @property
    def held(self) -> int:
        return sum(len(member.mailbox) for member in self.members.values())

    def stop(self) -> None:
        for member in self.members.values():
            member.stop()


@pytest.fixture
def linked(kits, tmp_path):
    made = Linked(kits, tmp_path)
    yield made
    made.stop()


def pca(made: cn.Federation, **options) -> cn.PCA:
    return cn.PCA(2, epsilon=1.0, delta=1e-6).fit(made, **options)


@pytest.fixture(scope="module")
def plain() -> cn.PCA:
    return pca(federation(people=2_000))


def same(found: cn.PCA, expected: cn.PCA) -> None:
    np.testing.assert_array_equal(found.components_, expected.components_)
    np.testing.assert_array_equal(found.explained_variance_, expected.explained_variance_)


# The same release, with fewer bytes -------------------------------------------------------------------------------------


def test_the_release_is_the_same_bit_for_bit_and_the_coordinator_gets_tickets(linked, plain):
    left: list[int] = []

    def look(replies):
        if any(isinstance(messages.decode_reply(data), Opened) for data in replies.values()):
            left.append(linked.held)
        return replies

    linked.transport.after = look
    found = pca(linked.federation)
    same(found, plain)
    assert left == [0], "the letters of a turn are erased once it is answered, also those of the last one"
    went = sum(found.transcript_.direct.values())
    saved = plain.transcript_.bytes - found.transcript_.bytes
    assert went > 100_000
    assert 2 * went - 20_000 < saved <= 2 * went  # each letter was sent to the coordinator and by it
    assert f"{went:,} directly between members" in found.receipt_
    assert found.transcript_.rounds == plain.transcript_.rounds
    assert found.transcript_.numbers == pytest.approx(plain.transcript_.numbers - went // 8, rel=1e-3)
    assert linked.held == 0, "letters are erased when a study is concluded"


# Links that fail --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turn", [2, pytest.param(3, marks=pytest.mark.full)])
def test_links_that_go_down_in_the_middle_of_a_study_change_nothing_but_the_way(linked, plain, turn):
    def cut(requests):
        first = messages.decode_request(next(iter(requests.values())))
        if getattr(first, "turn", None) == turn:
            for member in linked.members.values():
                member.listener.close()
        return requests

    linked.transport.before = cut
    same(pca(linked.federation), plain)


def test_a_relay_that_is_killed_and_started_again_still_has_the_letters_that_came(linked, plain):
    """Everything in its memory goes; its mailbox is a folder."""

    def restart(requests):
        first = messages.decode_request(next(iter(requests.values())))
        if getattr(first, "turn", None) in (2, 3, 4):
            for member in linked.members.values():
                member.stop()
                member.start()
        return requests

    linked.transport.before = restart
    found = pca(linked.federation)
    same(found, plain)
    assert found.transcript_.direct
    assert linked.held == 0


def test_half_a_letter_is_no_letter(kits, tmp_path):
    member = Member("bank", kits, {name: free_address() for name in PARTIES}, tmp_path).start()
    letter = os.urandom(50_000)
    with dialled(kits / "telco", member) as connection:
        announce(connection, Ticket.of(letter))
        assert connection.recv(1)[0] == linking.LinkAnswer.SEND
        connection.sendall(letter[:40_000])
    until(lambda: not any((tmp_path / "bank").iterdir()), "what has come is removed")
    assert not member.mailbox.holds("telco", STUDY, Ticket.of(letter))
    link = Link("bank", member.addresses["bank"], Kit(kits / "telco"), SILENT)
    assert link.send(STUDY, Ticket.of(letter), letter)
    link.close()
    member.stop()


# A coordinator that plays with tickets ------------------------------------------------------------------------------------


@pytest.mark.every(3)
@pytest.mark.parametrize("trick", ["swapped", "earlier", "invented"])
def test_a_false_ticket_is_refused_and_nothing_is_released(linked, trick):
    seen: list[dict[str, dict]] = []

    def play(requests):
        decoded = {name: messages.decode_request(data) for name, data in requests.items()}
        first = next(iter(decoded.values()))
        if getattr(first, "turn", 0) < 2:
            return requests
        seen.append({name: dict(one.letters) for name, one in decoded.items()})
        if first.turn == 3:
            letters = decoded["bank"].letters
            if trick == "swapped":
                letters["telco"], letters["insurer"] = letters["insurer"], letters["telco"]
            elif trick == "earlier":
                letters["telco"] = seen[0]["bank"]["telco"]
            else:
                letters["telco"] = Ticket(5_000, b"x" * 32).blob()
            requests = {**requests, "bank": messages.encode(decoded["bank"])}
        return requests

    linked.transport.before = play
    with pytest.raises(ProtocolError):
        cn.PCA(2, epsilon=1.0, delta=1e-6).fit(linked.federation)
    kinds = [
        messages.decode_reply(data).__class__.__name__
        for _, replies in linked.transport.rounds
        for data in replies.values()
    ]
    assert "Opened" not in kinds
    assert "Refused" in kinds


# Who may connect ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def dialled(kit: Path | None, member: Member, role: str = "client"):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if kit is not None:
        context.load_cert_chain(kit / f"{role}.crt", kit / f"{role}.key")
    host, port = member.addresses[member.name].split(":")
    with socket.create_connection((host, int(port)), timeout=10) as raw, context.wrap_socket(raw) as connection:
        yield connection


def announce(connection, ticket: Ticket, mark: bytes = linking._MARK) -> None:
    connection.sendall(struct.pack(">8s32sQ32s", mark, STUDY, ticket.size, ticket.digest))


@pytest.fixture
def bank(kits, tmp_path):
    member = Member("bank", kits, {name: free_address() for name in PARTIES}, tmp_path, room=300_000).start()
    yield member
    member.stop()


def refused(open_one, member: Member) -> bool:
    """Whether somebody who connects so gets no answer to a letter, and leaves nothing behind."""
    letter = os.urandom(5_000)
    try:
        with open_one() as connection:
            announce(connection, Ticket.of(letter))
            answered = bool(connection.recv(1))
    except OSError:
        answered = False
    return not answered and len(member.mailbox) == 0


def refused_again(open_one) -> bool:
    try:
        with open_one() as connection:
            announce(connection, Ticket.of(b"x" * 5_000))
            return not connection.recv(1)
    except OSError:
        return True


@dataclass
class Somebody:
    """Whoever listens at an address."""

    address: str
    name: str = "there"

    @property
    def addresses(self) -> dict[str, str]:
        return {self.name: self.address}


@pytest.mark.parametrize("who", ["nobody", "outsider", "coordinator", "itself", "another federation", "plain text"])
def test_whoever_is_no_peer_by_the_papers_and_by_certificate_is_refused(kits, bank, who):
    kit = {
        "nobody": None,
        "outsider": kits / "outsider",
        "coordinator": kits / "coordinator",
        "itself": kits / "bank",
        "another federation": kits / "elsewhere" / "telco",
    }

    def plain_text():
        host, port = bank.addresses["bank"].split(":")
        return socket.create_connection((host, int(port)), timeout=10)

    role = "server" if who == "coordinator" else "client"
    opener = plain_text if who == "plain text" else lambda: dialled(kit[who], bank, role)
    assert refused(opener, bank)


def test_a_peer_is_let_in_where_the_others_were_refused(kits, bank):
    assert not refused(lambda: dialled(kits / "telco", bank), bank)


@pytest.mark.parametrize("impostor", ["outsider", "insurer", "elsewhere/telco"])
def test_no_letter_is_sent_to_somebody_else_who_listens_at_a_peers_address(kits, tmp_path, impostor):
    """A certificate of this federation is not enough: it has to be the peer's own."""
    address = free_address()
    mailbox = Mailbox(tmp_path / "theirs", ["bank"], spare=0)
    listener = Listener(address, Kit(kits / impostor), ["bank"], mailbox, SILENT)
    letter = os.urandom(5_000)
    assert not Link("telco", address, Kit(kits / "bank"), SILENT).send(STUDY, Ticket.of(letter), letter)
    assert len(mailbox) == 0
    listener.close()


def test_a_certificate_that_is_over_opens_no_link_at_either_end(kits, bank):
    later = time.time() + 400 * 86_400
    letter = os.urandom(5_000)
    theirs = Link("bank", bank.addresses["bank"], Kit(kits / "telco", clock=lambda: later), SILENT)
    assert not theirs.send(STUDY, Ticket.of(letter), letter)
    shown = ssl.PEM_cert_to_DER_cert((kits / "telco" / "client.crt").read_text())
    assert Kit(kits / "bank").recognise(shown) == "telco"
    with pytest.raises(BadInput):
        Kit(kits / "bank", clock=lambda: later).recognise(shown)


def in_time(kits, name: str, now: list[float]) -> Kit:
    return Kit(kits / name, clock=lambda: now[0])


def test_a_link_that_is_open_ends_with_the_certificate_at_its_other_end(kits, tmp_path, monkeypatch):
    """At either end: whoever is connected is looked at again, by the kit and the clock as they are then."""
    monkeypatch.setattr(linking, "RECHECK", -1.0)
    theirs, ours, address = [time.time()], [time.time()], free_address()
    box = Mailbox(tmp_path / "mail", ["telco"], spare=0)
    listener = Listener(address, in_time(kits, "bank", theirs), ["telco"], box, SILENT)
    link = Link("bank", address, in_time(kits, "telco", ours), SILENT)
    letters = [os.urandom(5_000) for _ in range(5)]
    assert link.send(STUDY, Ticket.of(letters[0]), letters[0])
    opened = link._connection
    assert link.send(STUDY, Ticket.of(letters[1]), letters[1])
    assert link._connection is opened
    ours[0] += 400 * 86_400
    assert not link.send(STUDY, Ticket.of(letters[2]), letters[2])
    with dialled(kits / "telco", Somebody(address)) as connection:
        assert hand_over(connection, letters[3]) == linking.LinkAnswer.KEPT
        theirs[0] += 400 * 86_400
        announce(connection, Ticket.of(letters[4]))
        with contextlib.suppress(OSError):
            assert connection.recv(1) == b""
    assert len(box) == 3
    listener.close()


def test_a_member_that_the_papers_do_not_name_any_more_is_hung_up_on(kits, bank):
    with dialled(kits / "telco", bank) as telco, dialled(kits / "insurer", bank) as insurer:
        for connection in (telco, insurer):
            assert hand_over(connection, os.urandom(5_000)) == linking.LinkAnswer.KEPT
        bank.listener.keep_only(["insurer", "somebody"])
        with contextlib.suppress(OSError):
            assert telco.recv(1) == b""
        assert hand_over(insurer, os.urandom(5_000)) == linking.LinkAnswer.KEPT
    assert refused_again(lambda: dialled(kits / "telco", bank))
    assert refused_again(lambda: dialled(kits / "outsider", bank))


# What a peer may send -----------------------------------------------------------------------------------------------------


def test_a_letter_larger_than_any_letter_ends_the_connection_and_one_without_room_is_declined(kits, bank):
    with dialled(kits / "telco", bank) as connection:
        announce(connection, Ticket(LARGEST_SEALED + 1, b"x" * 32))
        with contextlib.suppress(OSError):
            assert connection.recv(1) == b""
    with dialled(kits / "telco", bank) as connection:
        announce(connection, Ticket(150_001, b"x" * 32))  # two peers have 150,000 bytes each
        assert connection.recv(1)[0] == linking.LinkAnswer.NO
        letter = os.urandom(140_000)
        announce(connection, Ticket.of(letter))
        assert connection.recv(1)[0] == linking.LinkAnswer.SEND
        connection.sendall(letter)
        assert connection.recv(1)[0] == linking.LinkAnswer.KEPT
        announce(connection, Ticket(20_000, b"x" * 32))
        assert connection.recv(1)[0] == linking.LinkAnswer.NO
    with dialled(kits / "insurer", bank) as connection:  # one peer's letters take nothing from another
        announce(connection, Ticket(20_000, b"x" * 32))
        assert connection.recv(1)[0] == linking.LinkAnswer.SEND


def hand_over(connection, letter: bytes) -> linking.LinkAnswer:
    announce(connection, Ticket.of(letter))
    answer = linking.LinkAnswer(connection.recv(1)[0])
    if answer == linking.LinkAnswer.SEND:
        connection.sendall(letter)
        answer = linking.LinkAnswer(connection.recv(1)[0])
    return answer


def test_the_room_of_a_peer_is_what_its_letters_leave_whatever_became_of_them(tmp_path):
    random = np.random.default_rng(3)
    box = Mailbox(tmp_path / "mail", ["telco", "bank"], spare=0)
    letters: list[tuple[str, bytes, Ticket]] = []
    for number in range(200):
        sender, study = str(random.choice(["telco", "bank"])), bytes([number % 3]) * 32
        content = number.to_bytes(2, "big") * int(random.integers(500, 5_000))
        with contextlib.suppress(ConnectionError), box.place(sender, study, Ticket.of(content)) as place:
            place.file.write(content)
            if random.random() < 0.2:
                raise ConnectionError
            place.whole = bool(random.random() < 0.8)
            letters.append((sender, study, Ticket.of(content)))
        if random.random() < 0.3 and letters:
            sender, study, ticket = letters[int(random.integers(len(letters)))]
            box.forget(study, sender, ticket)  # perhaps for the second time
        if number % 50 == 49:
            box.forget(study)
        for peer in ("telco", "bank"):
            sizes = [held.size for name, held in box._letters.items() if name[1] == peer]
            share = box._shares[peer]
            assert share.letters == len(sizes)
            assert share.filled == sum(max(size, mailbox_module.LEAST_COUNTED) for size in sizes)
    assert len(box) > 5
    again = Mailbox(tmp_path / "mail", ["telco", "bank"], spare=0)
    assert (again._shares, len(again)) == (box._shares, len(box))
    assert box._coming == 0


def test_bytes_under_another_hash_than_their_own_are_not_kept(kits, bank):
    letter = os.urandom(5_000)
    with dialled(kits / "telco", bank) as connection:
        announce(connection, Ticket(5_000, b"x" * 32))
        assert connection.recv(1)[0] == linking.LinkAnswer.SEND
        connection.sendall(letter)
        with contextlib.suppress(OSError):
            assert connection.recv(1) == b""
    assert len(bank.mailbox) == 0


def test_slow_strangers_keep_no_peer_out_and_are_hung_up_on(kits, bank, monkeypatch):
    monkeypatch.setattr(linking, "HANDSHAKE", 1.0)
    host, port = bank.addresses["bank"].split(":")
    strangers = [socket.create_connection((host, int(port)), timeout=20) for _ in range(3 * linking.STRANGERS)]
    letter = os.urandom(5_000)
    link = Link("bank", bank.addresses["bank"], Kit(kits / "telco"), SILENT)
    assert link.send(STUDY, Ticket.of(letter), letter)
    for stranger in strangers:
        with contextlib.suppress(OSError):
            assert stranger.recv(1) == b""
        stranger.close()
    until(lambda: len(bank.listener._callers) == 1, "only the peer is left")
    link.close()


def test_mail_that_nobody_asks_for_is_erased_and_half_letters_do_not_outlive_a_restart(tmp_path):
    now = [time.time()]
    box = Mailbox(tmp_path / "mail", ["telco"], spare=0, clock=lambda: now[0])
    ticket = Ticket.of(b"x" * 2_000)
    with box.place("telco", STUDY, ticket) as place:
        place.file.write(b"x" * 2_000)
        place.whole = True
    (tmp_path / "mail" / "part-7").write_bytes(b"half")
    assert (tmp_path / "mail").stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "mail").iterdir() if path.name != "part-7")
    box = Mailbox(tmp_path / "mail", ["telco"], spare=0, clock=lambda: now[0])
    assert box.holds("telco", STUDY, ticket)
    assert not (tmp_path / "mail" / "part-7").exists()
    now[0] += 3_601
    box.tick()
    assert not list((tmp_path / "mail").iterdir())


# Peers that are slow ------------------------------------------------------------------------------------------------------


class SlowPeer:
    """A peer that lets itself be announced a letter, asks for it, and does not read it."""

    def __init__(self, kits: Path, name: str) -> None:
        self.address, self.met = free_address(), 0
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(kits / name / "client.crt", kits / name / "client.key")
        host, port = self.address.split(":")
        self._socket = socket.create_server((host, int(port)))
        self._context, self._open = context, []
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection = self._context.wrap_socket(self._socket.accept()[0], server_side=True)
                connection.recv(linking._HEAD.size)
                connection.sendall(bytes([linking.LinkAnswer.SEND]))
                self._open.append(connection)
                self.met += 1

    def stop(self) -> None:
        linking._hang_up(self._socket)
        self._socket.close()
        for connection in self._open:
            connection.close()


LONG = 1 << 25
"""Bytes that no socket takes without a reader."""


def test_a_slow_peer_keeps_no_other_letter_waiting_and_its_own_are_relayed(kits, bank, monkeypatch):
    """Nine turns wait for one that is on its way to a peer that does not read; letters to another member still go."""
    monkeypatch.setattr(linking, "DIAL", 30.0)
    slow = SlowPeer(kits, "insurer")
    links = {
        "insurer": Link("insurer", slow.address, Kit(kits / "telco"), SILENT),
        "bank": Link("bank", bank.addresses["bank"], Kit(kits / "telco"), SILENT),
    }
    empty = Mailbox(bank.folder / "telco", ["bank", "insurer"], spare=0)
    guard = Says({"insurer": bytes(LONG)})
    answers: list[Posted] = []
    office = PostOffice(guard, empty, links)
    data = messages.encode(a_turn(3))
    waiting = [
        threading.Thread(target=lambda: answers.append(messages.decode_reply(office.handle(data))), daemon=True)
        for _ in range(9)
    ]
    for thread in waiting:
        thread.start()
    until(lambda: slow.met == 1, "the slow peer was announced a letter")
    until(lambda: len(guard.heard) == 9, "every turn is answered")
    guard.letters = {"bank": os.urandom(5_000)}
    found: list[Posted] = []
    other = threading.Thread(target=lambda: found.append(messages.decode_reply(office.handle(data))), daemon=True)
    other.start()
    other.join(10)
    assert found
    assert Ticket.read(found[0].letters["bank"]) is not None, "it went directly"
    assert not answers, "the others still wait"
    monkeypatch.setattr(linking, "DIAL", 0.1)
    guard.letters = {"insurer": bytes(2_000)}
    assert messages.decode_reply(office.handle(data)).letters["insurer"] == Blob(bytes(2_000)), "it is relayed"
    office.close()
    for thread in waiting:
        thread.join(20)
    assert [len(one.letters["insurer"]) for one in answers] == [LONG] * 9, "what was on its way is relayed"
    slow.stop()
