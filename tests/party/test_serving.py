"""The guard's own socket under clients that do anything but ask and read: nobody else notices, and the guard goes on."""

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from colonnade.errors import LedgerCorrupt, ProtocolError
from colonnade.party import serving
from colonnade.protocol import messages
from colonnade.protocol.messages import Accounted, Ask, GetAccount, GetDescription, Post, Propose, Recall, Refused
from colonnade.transport.direct import UnixEndpoint
from tests import kit
from tests.federations import federation
from tests.party.test_gate import a_plan

STOP = b"stop"


class Served:
    """A guard served by a thread of this process; ``STOP`` ends it, as an error of its own would."""

    def __init__(self, path: Path, handle: Callable[[bytes], bytes], connections: int = serving.CONNECTIONS) -> None:
        self.path = path
        self._handle = handle
        self.failure: BaseException | None = None
        started = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(started.set, connections), daemon=True)
        self._thread.start()
        assert started.wait(30)

    def _serve(self, ready: Callable[[], None], connections: int) -> None:
        try:
            serving.serve(self, self.path, ready=ready, connections=connections)
        except BaseException as error:
            self.failure = error

    def handle(self, data: bytes) -> bytes:
        if data == STOP:
            raise LedgerCorrupt("Asked to stop.")
        return self._handle(data)

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(30)
        connection.connect(str(self.path))
        return connection

    def ask(self, data: bytes) -> bytes:
        return UnixEndpoint(self.path, timeout=30).handle(data)

    def stop(self) -> None:
        with contextlib.suppress(ProtocolError):
            self.ask(STOP)
        self._thread.join(30)
        assert not self._thread.is_alive()
        assert isinstance(self.failure, LedgerCorrupt)  # and nothing else ended it before


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(8, "big") + data


def ends(connection: socket.socket) -> bool:
    """Whether the other side hangs up."""
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.fixture
def echo(tmp_path):
    made = Served(tmp_path / "g", lambda data: b"echo " + bytes(data))
    yield made
    made.stop()


# What clients do --------------------------------------------------------------------------------------------------------------


def hang_up(connection: socket.socket, data: bytes) -> None:
    connection.sendall(framed(data))


def hang_up_in_the_middle(connection: socket.socket, data: bytes) -> None:
    connection.sendall(framed(data)[: 8 + len(data) // 2])


def hang_up_in_the_length(connection: socket.socket, data: bytes) -> None:
    connection.sendall(framed(data)[:3])


def say_nothing(connection: socket.socket, data: bytes) -> None:
    """Connect, and leave."""


def babble(connection: socket.socket, data: bytes) -> None:
    connection.sendall(os.urandom(64))


def announce_too_much(connection: socket.socket, data: bytes) -> None:
    connection.sendall((messages.LARGEST_FRAME).to_bytes(8, "big") + data)


def stop_reading(connection: socket.socket, data: bytes) -> None:
    connection.sendall(framed(data))
    connection.shutdown(socket.SHUT_RD)


def stop_writing(connection: socket.socket, data: bytes) -> None:
    connection.sendall(framed(data)[:-1])
    connection.shutdown(socket.SHUT_WR)


def reset(connection: socket.socket, data: bytes) -> None:
    connection.sendall(framed(data) * 2)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


RUDE = [
    hang_up,
    hang_up_in_the_middle,
    hang_up_in_the_length,
    say_nothing,
    babble,
    announce_too_much,
    stop_reading,
    stop_writing,
    reset,
]


@pytest.mark.every(3)
@pytest.mark.parametrize("act", RUDE)
def test_a_client_that_is_rude_loses_its_connection_and_nobody_else_notices(act, echo):
    for _ in range(5):
        with echo.connect() as connection:
            act(connection, b"x" * 100)
        assert echo.ask(b"hello") == b"echo hello"
    assert echo.failure is None


def test_connections_are_bounded_and_the_one_that_waited_longest_makes_room(tmp_path, monkeypatch):
    now = [1.0]  # a clock that the test turns, so that exactly one client has waited too long
    monkeypatch.setattr(serving, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(serving, "PATIENCE", 1_000.0)
    served = Served(tmp_path / "g", lambda data: bytes(data), connections=4)
    silent = []
    for number in range(4):
        silent.append(served.connect())
        silent[-1].sendall(framed(b"%d" % number))  # it is known to be taken once it is answered
        assert silent[-1].recv(9) == framed(b"%d" % number)
    now[0] = 100.0
    for number in (0, 2, 3):
        silent[number].sendall(framed(b"again"))
        assert silent[number].recv(13) == framed(b"again")  # so that the second is the one that waited longest
    with ThreadPoolExecutor(1) as pool:
        another = pool.submit(served.ask, b"one more")
        monkeypatch.setattr(serving, "PATIENCE", 50.0)
        assert ends(silent[1])
        assert another.result() == b"one more"
    for number in (0, 2, 3):
        silent[number].sendall(framed(b"still here"))
        assert silent[number].recv(18) == framed(b"still here")
    for connection in silent:
        connection.close()
    served.stop()


def test_nobody_is_hung_up_on_whose_request_is_being_worked_on(tmp_path):
    """With all places taken by requests under way, the next client waits for its turn."""
    go = threading.Event()

    def handle(data: bytes) -> bytes:
        assert data == b"quick" or go.wait(30)
        return bytes(data)

    served = Served(tmp_path / "g", handle, connections=2)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(served.ask, b"long %d" % number) for number in range(4)]
        threading.Timer(0.2, go.set).start()
        assert [one.result() for one in asked] == [b"long %d" % number for number in range(4)]
    served.stop()


def test_an_error_of_the_guards_own_ends_the_server_and_any_other_only_the_connection(tmp_path):
    def handle(data: bytes) -> bytes:
        raise MemoryError if data == b"large" else RuntimeError

    served = Served(tmp_path / "g", handle)
    for data in (b"large", b"other"):
        with pytest.raises(ProtocolError, match="did not answer"):
            served.ask(data)
    served.stop()


# Hostile frames -----------------------------------------------------------------------------------------------------------------


def hostile_frames(f, source):
    """Requests, requests with something wrong in them, and noise."""
    plan = a_plan(f)
    sound = [
        messages.encode(request)
        for request in (
            GetAccount(),
            GetDescription(),
            GetDescription(alignment="nowhere"),
            Propose(plan=plan),
            Recall(plan=plan, step="reports"),
            Ask(plan=plan, step="no such step"),
            Post(plan=plan, step="reports", run=bytes(16), turn=0, letters={}),
            Post(plan=plan, step="reports", run=bytes(16), turn=-1, letters={}),
        )
    ]
    while True:
        data = bytearray(sound[int(source.integers(len(sound)))])
        match int(source.integers(6)):
            case 0:
                yield bytes(source.bytes(int(source.integers(300))))
            case 1:
                data[int(source.integers(len(data)))] ^= 1 << int(source.integers(8))
                yield bytes(data)
            case 2:
                yield bytes(data[: int(source.integers(len(data)))])
            case 3:
                yield bytes(data) + source.bytes(int(source.integers(1, 50)))
            case 4:
                place = int(source.integers(len(data)))
                yield bytes(data[:place]) + source.bytes(8) + bytes(data[place:])
            case _:
                yield bytes(data)


@pytest.mark.parametrize("count", [1_000, pytest.param(20_000, marks=pytest.mark.full)])
def test_hostile_frames_from_clients_that_hang_up_at_random_leave_the_guard_as_it_was(count, tmp_path):
    """Nothing is spent, nothing leaks, and the next honest client is answered."""
    source = kit.generator("hostile frames")
    with federation() as f:
        guard = f._driver.transport.endpoint("bank")
        served = Served(tmp_path / "g", guard.handle)
        before = messages.decode_reply(served.ask(messages.encode(GetAccount())))
        descriptors = len(list(Path("/proc/self/fd").iterdir()))
        frames = hostile_frames(f, source)
        for _ in range(count):
            act = RUDE[int(source.integers(len(RUDE)))] if source.random() < 0.5 else None
            data = next(frames)
            with served.connect() as connection, contextlib.suppress(OSError):
                if act is not None:
                    act(connection, data)
                    continue
                connection.sendall(framed(data))
                reply = messages.decode_reply(read(connection))
                assert not isinstance(reply, Accounted) or isinstance(messages.decode_request(data), GetAccount)
        after = messages.decode_reply(served.ask(messages.encode(GetAccount())))
        assert after == before
        assert served.failure is None
        served.stop()
        until(
            lambda: len(list(Path("/proc/self/fd").iterdir())) <= descriptors
        )  # the last clients' threads close theirs
        assert not isinstance(messages.decode_reply(guard.handle(messages.encode(Propose(plan=a_plan(f))))), Refused)


def until(holds: Callable[[], bool]) -> None:
    """Wait for what other threads of this process are about to do."""
    for _ in range(600):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("It does not come about.")


def read(connection: socket.socket) -> bytes:
    with connection.makefile("rb") as stream:
        data = messages.read_frame(stream)
    assert data is not None
    return data
