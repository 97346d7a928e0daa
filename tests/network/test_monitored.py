"""What a served guard says of itself, and how it ends, with several requests under way."""

import io
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from colonnade.event_log import Log
from colonnade.protocol import codec
from colonnade.protocol.messages import GetAccount, GetDescription, NotKept, Refused
from colonnade.service import processes
from colonnade.service.processes import MonitoredEndpoint

REFUSED = codec.encode(Refused(code="policy-refusal", message="No.", remedy="Ask for less."))


class Slow:
    """An endpoint that answers when it is told to."""

    def __init__(self) -> None:
        self.go, self.begun = threading.Event(), threading.Semaphore(0)

    def handle(self, data: bytes) -> bytes:
        self.begun.release()
        assert self.go.wait(30)
        return REFUSED if data == codec.encode(GetDescription()) else codec.encode(NotKept())


class Ended(BaseException):
    """The process would be gone."""


@pytest.fixture
def monitored(tmp_path, monkeypatch):
    ended = threading.Event()

    def leave(status: int) -> None:
        assert status == 0
        ended.set()
        if threading.current_thread() is threading.main_thread():
            raise Ended

    monkeypatch.setattr(processes.os, "_exit", leave)
    stream, slow = io.StringIO(), Slow()
    return MonitoredEndpoint(slow, Log(stream, "bank", "guard"), tmp_path / "guard.status"), slow, ended, stream


def test_requests_at_once_are_all_counted(monitored, tmp_path):
    one, slow, _, stream = monitored
    slow.go.set()
    asked = [codec.encode(GetAccount()), codec.encode(GetDescription())] * 50
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one.handle, asked))
    one.handle(asked[0])
    found = json.loads((tmp_path / "guard.status").read_text())
    assert (found["answered"], found["refused"]) == (100, 50)  # written as a request comes in
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert len(lines) == 50
    assert {(line["code"], line["request"]) for line in lines} == {("policy-refusal", "GetDescription")}


def test_a_guard_without_anything_to_do_ends_at_once(monitored):
    one, _, ended, _ = monitored
    with pytest.raises(Ended):
        one.end()
    assert ended.is_set()


def test_a_guard_ends_once_every_answer_under_way_is_out_and_takes_no_new_request(monitored):
    one, slow, ended, _ = monitored
    with ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(one.handle, codec.encode(GetAccount())) for _ in range(3)]
        for _ in answers:
            assert slow.begun.acquire(timeout=30)
        one.end()
        with pytest.raises(ConnectionAbortedError):
            one.handle(codec.encode(GetAccount()))
        assert not ended.is_set()
        slow.go.set()
        assert {answer.result() for answer in answers} == {codec.encode(NotKept())}
    assert ended.wait(30)


def test_an_endpoint_that_fails_is_not_counted_as_being_at_work(monitored):
    one, slow, ended, _ = monitored
    slow.go.set()
    slow.handle = lambda data: (_ for _ in ()).throw(RuntimeError)
    with pytest.raises(RuntimeError):
        one.handle(codec.encode(GetAccount()))
    with pytest.raises(Ended):
        one.end()
    assert ended.is_set()
