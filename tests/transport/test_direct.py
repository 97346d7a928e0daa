"""Endpoints in this process and behind Unix sockets: the transport contract, and what is particular to each."""

import socket
import threading
from contextlib import contextmanager

import pytest

import colonnade as cn
from colonnade.errors import ProtocolError
from colonnade.protocol import messages
from colonnade.protocol.messages import read_frame, write_frame
from colonnade.transport.direct import Direct, UnixEndpoint
from tests.federations import federation
from tests.transport.contract import TransportContract


class TestInThisProcess(TransportContract):
    @contextmanager
    def bring_up(self, endpoints):
        transport = Direct(endpoints)
        yield transport
        transport.close()


class TestBehindUnixSockets(TransportContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path_factory):
        self.folder = tmp_path_factory.mktemp("s")

    @contextmanager
    def bring_up(self, endpoints):
        servers = {name: Server(self.folder / f"{name}.sock", endpoint) for name, endpoint in endpoints.items()}
        transport = Direct({name: UnixEndpoint(server.path, timeout=60) for name, server in servers.items()})
        try:
            yield transport
        finally:
            transport.close()
            for server in servers.values():
                server.stop()


class Server:
    """Frames in, frames out, in a thread; a party that fails hangs up. (The guard's own server runs until its process ends.)"""

    def __init__(self, path, endpoint) -> None:
        self.path = path
        path.unlink(missing_ok=True)
        self._endpoint = endpoint
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen(16)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection, connection.makefile("rwb") as stream:
                data = read_frame(stream)
                if data == b"stop":
                    return
                try:
                    write_frame(stream, self._endpoint.handle(data))
                except ProtocolError:
                    continue

    def stop(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(str(self.path))
            with connection.makefile("rwb") as stream:
                write_frame(stream, b"stop")
        self._thread.join()
        self._listener.close()


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"\x00\x00\x00",
        (10).to_bytes(8, "big") + b"short",
        b"\xff" * 8,
        (messages.LARGEST_FRAME + 1).to_bytes(8, "big"),
    ],
)
def test_a_guard_that_hangs_up_or_babbles_is_an_error_of_ours(tmp_path, reply):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(tmp_path / "s"))
    listener.listen()

    def babble() -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rwb") as stream:
            read_frame(stream)
            stream.write(reply)

    thread = threading.Thread(target=babble)
    thread.start()
    with pytest.raises(ProtocolError):
        UnixEndpoint(tmp_path / "s", timeout=30).handle(b"well?")
    thread.join()
    listener.close()


def test_a_guard_that_is_not_there_or_never_answers_is_an_error_of_ours(tmp_path):
    with pytest.raises(ProtocolError) as refusal:
        UnixEndpoint(tmp_path / "nowhere").handle(b"well?")
    assert refusal.value.spent is None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "silent"))
        listener.listen()
        with pytest.raises(ProtocolError):
            UnixEndpoint(tmp_path / "silent", timeout=0.05).handle(b"well?")


class Lossy:
    """Carries everything, and loses one reply of one round after the work was done."""

    def __init__(self, inner, *, round_: int) -> None:
        self.inner = inner
        self.left = round_

    def exchange(self, requests):
        replies = dict(self.inner.exchange(requests))
        self.left -= 1
        if self.left == 0:
            replies.pop("bank")
        return replies


def test_a_study_whose_transport_loses_a_reply_fails_and_is_paid_once_when_repeated():
    with federation() as f:
        f._driver.transport = Lossy(
            f._driver.transport, round_=4
        )  # three rounds until everybody has said yes; the fourth asks
        with pytest.raises(ProtocolError):
            cn.PatternCount(["bank.segment", "telco.plan"], method="response", epsilon=1.0).fit(f)
        assert f.budget("bank").spent == pytest.approx(0.5)
        study = cn.PatternCount(["bank.segment", "telco.plan"], method="response", epsilon=1.0).fit(f)
        assert f.budget("bank").spent == pytest.approx(0.5)
        assert f.budget("bank").releases == 1
        assert "nothing spent" in study.receipt_
