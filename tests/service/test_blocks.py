"""What a relay does with blocks: in order, again, out of order, too many, for a guard that is slow, gone, or talks nonsense."""

import contextlib
import importlib
import io
import os
import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import BadInput, ProtocolError
from colonnade.protocol.messages import LARGEST_FRAME
from colonnade.runtime.event_log import Log
from colonnade.transport.flare import BLOCK, LARGEST_BLOCK, BlockAnswer, BlockCall, Status, Verb

pytest.importorskip("nvflare", reason="needs the extra colonnade[network]")
relay = importlib.import_module("colonnade.service.relay")

SESSION = b"s" * 16


def put(data: bytes, total: int, offset: int = 0, *, message: int = 1, session: bytes = SESSION) -> BlockCall:
    return BlockCall(7, Verb.PUT, session, message, total, offset, data)


def get(offset: int, *, message: int = 1) -> BlockCall:
    return BlockCall(8, Verb.GET, SESSION, message, 0, offset)


# Bytes ----------------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=300), st.integers(0, 2**63), st.integers(0, 500))
def test_calls_and_answers_survive_the_line(data, number, offset):
    total = offset + len(data) if data else 0
    call = BlockCall(number, Verb.PUT, SESSION, number, total, offset if data else 0, data)
    assert BlockCall.decode(call.encode()) == call
    if data:
        answer = BlockAnswer(number, Status.DATA, total, offset, data)
        assert BlockAnswer.decode(answer.encode()) == answer


@given(st.binary(max_size=400))
def test_anything_else_is_refused_by_an_error_of_ours(data):
    for kind in (BlockCall, BlockAnswer):
        try:
            kind.decode(data)
        except ProtocolError:
            continue
        pytest.fail("bytes that nobody made were taken for a block")  # the mark alone is 40 bits


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_block_is_never_larger_than_a_block(shift):
    data = bytes(BLOCK + max(shift, 0))
    encoded = put(data, len(data)).encode()
    if shift > 0:
        with pytest.raises(ProtocolError):
            BlockCall.decode(encoded)
    else:
        assert len(encoded) <= LARGEST_BLOCK


# A relay's passage ----------------------------------------------------------------------------------------------------


class Guard:
    """A guard that answers one frame in a thread, as it is told to."""

    def __init__(self, path, answer) -> None:
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(path))
        self.listener.listen()
        self.received: list[bytes] = []
        self.go = threading.Event()
        self.go.set()
        self.thread = threading.Thread(target=self._serve, args=(answer,))
        self.thread.start()

    def _serve(self, answer) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self.listener.accept()
            with connection, connection.makefile("rb") as stream:
                length = int.from_bytes(stream.read(8), "big")
                self.received.append(stream.read(length))
                self.go.wait(20)
                connection.sendall(answer)
                stream.read(1)  # until the other side hangs up

    def close(self) -> None:
        self.go.set()
        self.thread.join(20)
        self.listener.close()


def relayed(tmp_path, answer: bytes, total: int, *, raw: bool = False):
    made = Guard(tmp_path / "g", answer if raw else len(answer).to_bytes(8, "big") + answer)
    return made, relay.RelayedMessage(tmp_path / "g", total)


def test_blocks_pass_in_order_and_each_may_be_sent_again(tmp_path):
    message, reply = os.urandom(3 * BLOCK + 5), os.urandom(2 * BLOCK + 9)
    guard, one = relayed(tmp_path, reply, len(message))
    try:
        for offset in range(0, len(message), BLOCK):
            call = put(message[offset : offset + BLOCK], len(message), offset)
            answers = [one.call(call) for _ in range(2)]
            assert answers[0] == answers[1]
        assert answers[0].status == Status.DATA
        got = b""
        while len(got) < len(reply):
            blocks = [one.call(get(len(got))) for _ in range(3)]
            assert len({bytes(block.data) for block in blocks}) == 1
            got += blocks[0].data
        assert got == reply
        assert guard.received == [message]
        assert one.through
        assert one.call(get(2 * BLOCK)).status == Status.DATA  # the last block again, though the guard has been let go
    finally:
        one.close()
        guard.close()


def test_a_slow_guard_is_waited_for_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(relay, "PATIENCE", 0.05)
    guard, one = relayed(tmp_path, b"reply", 3)
    guard.go.clear()
    try:
        assert one.call(put(b"abc", 3)).status == Status.WAIT
        assert one.call(put(b"abc", 3)).status == Status.WAIT
        guard.go.set()
        answers = [one.call(put(b"abc", 3)) for _ in range(200)]
        assert answers[-1].status == Status.DATA
        assert bytes(answers[-1].data) == b"reply"
    finally:
        one.close()
        guard.close()


@pytest.mark.every(2)
@pytest.mark.parametrize("answer", [b"", b"\x00\x00", b"\xff" * 8, bytes(8), (LARGEST_FRAME + 1).to_bytes(8, "big")])
def test_a_guard_that_hangs_up_or_babbles_is_away(tmp_path, answer, monkeypatch):
    monkeypatch.setattr(relay, "PATIENCE", 0.5)
    guard, one = relayed(tmp_path, answer, 3, raw=True)
    statuses = set()
    if answer in (b"", b"\x00\x00"):
        guard.listener.shutdown(socket.SHUT_RDWR)
    try:
        statuses.add(one.call(put(b"abc", 3)).status)
        one.close()
        statuses.add(one.call(put(b"abc", 3)).status)
        assert Status.AWAY in statuses
        assert Status.DATA not in statuses
    finally:
        guard.close()


# Logs -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ("something", {}),
        ("refused", {"message": "x"}),
        ("refused", {"code": "a value from a table: Ångström"}),
        ("refused", {"code": "x" * 81}),
        ("refused", {"code": "two\nlines"}),
    ],
)
def test_nothing_free_can_be_logged(event, fields):
    stream = io.StringIO()
    with pytest.raises(BadInput):
        Log(stream, "bank", "guard").event(event, **fields)
    assert not stream.getvalue()
