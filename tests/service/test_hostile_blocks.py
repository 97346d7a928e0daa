"""A relay and the guard behind it under hostile blocks: random calls, coordinators that come and go, a guard that hangs up."""

import contextlib
import importlib
import itertools
import socket
from datetime import UTC, datetime
from pathlib import Path

import pytest

from colonnade.protocol import messages
from colonnade.protocol.messages import GetAccount
from colonnade.transport.flare import BLOCK, COORDINATOR_CELL, BlockAnswer, BlockCall, Status, Verb
from tests import kit
from tests.federations import federation
from tests.party.test_serving import Served, hostile_frames

pytest.importorskip("nvflare", reason="needs the extra colonnade[network]")
relay = importlib.import_module("colonnade.service.relay")

LONGEST = 1 << 62


class NoKit:
    """The kit of a site without a network: its certificate never ends."""

    def __init__(self, *_, **__) -> None:
        self.ends = datetime(2100, 1, 1, tzinfo=UTC)

    def mark(self) -> str:
        return ""

    def credentials(self) -> None:
        """There is nothing to refuse."""

    def certificates(self) -> dict:
        return {"client.crt": self}


class NoLine:
    """A line without a network: what the relay says is kept here."""

    def __init__(self, *_, **__) -> None:
        self.said: list[bytes] = []

    def send(self, target: str, block: bytes) -> bool:
        assert target == COORDINATOR_CELL
        self.said.append(block)
        return True

    def connected(self, name: str) -> bool:
        return True

    def close(self) -> None:
        """There is nothing to close."""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A relay before a guard that is served by a thread of this process, and what the guard's own federation is."""
    monkeypatch.setattr(relay, "Line", NoLine)
    monkeypatch.setattr(relay, "Kit", NoKit)
    monkeypatch.setattr(relay, "PATIENCE", 0.02)
    with federation() as f:
        served = Served(tmp_path / "g", f._driver.transport.endpoint("bank").handle)
        made = relay.SiteRelay("bank", guard=tmp_path / "g", address="", kit=tmp_path, host="")
        yield f, served, made
        made.close()
        served.stop()


def ask(made, data: bytes, session: bytes, number: int) -> bytes:
    """What an honest coordinator does: put, then get until the reply is whole."""
    answer = made._answer(BlockCall(1, Verb.PUT, session, number, len(data), 0, data))
    for _ in range(2_000):
        if answer.status == Status.DATA:
            break
        assert answer.status == Status.WAIT
        answer = made._answer(BlockCall(1, Verb.PUT, session, number, len(data), 0, data))
    assert answer.status == Status.DATA
    assert len(answer.data) == answer.total
    return bytes(answer.data)


def hostile_call(source, frame: bytes, session: bytes, numbers) -> bytes:
    """One block, with anything in it."""
    match int(source.integers(5)):
        case 0:
            return bytes(source.bytes(int(source.integers(200))))
        case 1:
            call = BlockCall(1, Verb.PUT, session, next(numbers), len(frame), 0, frame)
        case 2:  # the first block of a message that never ends
            call = BlockCall(1, Verb.PUT, session, next(numbers), int(source.integers(LONGEST)) + len(frame), 0, frame)
        case 3:
            number, offset = int(source.integers(40)), int(source.integers(LONGEST))
            call = BlockCall(1, Verb.GET, session, number, 0, offset)
        case _:
            number, offset = int(source.integers(40)), int(source.integers(2 * BLOCK))
            call = BlockCall(1, Verb.PUT, session, number, offset + len(frame), offset, frame)
    data = bytearray(call.encode())
    if source.random() < 0.2:
        data[int(source.integers(len(data)))] ^= 1 << int(source.integers(8))
    return bytes(data)


@pytest.mark.parametrize("count", [1_000, pytest.param(20_000, marks=pytest.mark.full)])
def test_hostile_blocks_leave_relay_and_guard_as_they_were(count, site):
    """Sessions that end at random hang up on the guard in the middle of everything. Nothing is spent and nothing leaks."""
    f, served, made = site
    source, numbers = kit.generator("hostile blocks"), itertools.count(1)
    account = messages.encode(GetAccount())
    before = served.ask(account)
    frames, session = hostile_frames(f, source), bytes(16)
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(count):
        frame = next(frames) or b"x"
        made._receive(COORDINATOR_CELL, memoryview(hostile_call(source, frame, session, numbers)))
        if source.random() < 0.05:
            session = source.bytes(16)  # another coordinator: what this one left is hung up on
        assert len(made._messages) <= relay.MOST_MESSAGES
        answers = [BlockAnswer.decode(said) for said in made._line.said]
        assert all(answer.status in set(Status) for answer in answers)
        made._line.said.clear()
    assert ask(made, account, b"honest coordinat", 1) == before
    assert served.failure is None
    made._end_session(b"")
    assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors + 2


def test_a_guard_that_takes_nobody_is_away_and_the_relay_does_not_wait_for_it(tmp_path, monkeypatch):
    """Its line of clients is full: connecting would block, and with it every other message of this site."""
    monkeypatch.setattr(relay, "Line", NoLine)
    monkeypatch.setattr(relay, "Kit", NoKit)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener, contextlib.ExitStack() as stack:
        listener.bind(str(tmp_path / "g"))
        listener.listen(1)
        while True:
            client = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            client.setblocking(False)
            try:
                client.connect(str(tmp_path / "g"))
            except BlockingIOError:
                break
        made = relay.SiteRelay("bank", guard=tmp_path / "g", address="", kit=tmp_path, host="")
        answer = made._answer(BlockCall(1, Verb.PUT, b"s" * 16, 1, 3, 0, b"abc"))
        assert answer.status == Status.AWAY
        made.close()
