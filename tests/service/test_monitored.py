"""What a served guard says of itself, and how it ends, with several requests under way."""

import io
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import colonnade as cn
from colonnade.errors import BadInput
from colonnade.party.table.private_table import RowsFailed
from colonnade.protocol import messages
from colonnade.protocol.messages import GetAccount, GetDescription, NotKept, Refused
from colonnade.runtime.event_log import Log
from colonnade.service import health, processes
from colonnade.service.processes import MonitoredEndpoint
from colonnade.transport.direct import Direct
from tests import side_by_side as sides
from tests.party.refusal_matrix import REQUESTS, TABLES
from tests.service.lines import until

REFUSED = messages.encode(Refused(code="policy-refusal", message="No.", remedy="Ask for less."))


class Slow:
    """An endpoint that answers when it is told to."""

    def __init__(self) -> None:
        self.go, self.begun = threading.Event(), threading.Semaphore(0)

    def handle(self, data: bytes) -> bytes:
        self.begun.release()
        assert self.go.wait(30)
        return REFUSED if data == messages.encode(GetDescription()) else messages.encode(NotKept())


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
    one.ready()
    slow.go.set()
    asked = [messages.encode(GetAccount()), messages.encode(GetDescription())] * 50
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one.handle, asked))
    counted = {"requests": {"GetAccount": 50, "GetDescription": 50}, "refusals": {"policy-refusal": 50}}
    until(lambda: counted.items() <= json.loads((tmp_path / "guard.status").read_text()).items(), what="the status")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()][1:]
    assert len(lines) == 50
    assert {(line["code"], line["request"]) for line in lines} == {("policy-refusal", "GetDescription")}


def test_a_guard_that_has_stopped_goes_on_saying_why(monitored, tmp_path, monkeypatch):
    """A request that comes in meanwhile does not write over it."""
    one, slow, _, _ = monitored
    slow.go.set()
    slow.failure = RowsFailed()
    slow.failure.__cause__ = BadInput("Of 300 ids, 3 are repeated.")
    monkeypatch.setattr(processes.os, "kill", lambda *_: None)
    main, honest = threading.main_thread(), processes.time.sleep
    monkeypatch.setattr(
        processes.time,
        "sleep",
        lambda seconds: sys.exit() if threading.current_thread() is main else honest(seconds),  # others go on writing
    )
    for _ in range(2):
        with pytest.raises(SystemExit):
            one.handle(messages.encode(GetAccount()))
        one._write()
        assert "3 are repeated" in json.loads((tmp_path / "guard.status").read_text())["stopped"]


def test_a_guard_ends_once_every_answer_under_way_is_out_and_takes_no_new_request(monitored):
    one, slow, ended, _ = monitored
    with ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(one.handle, messages.encode(GetAccount())) for _ in range(3)]
        for _ in answers:
            assert slow.begun.acquire(timeout=30)
        one.end()
        with pytest.raises(ConnectionAbortedError):
            one.handle(messages.encode(GetAccount()))
        assert not ended.is_set()
        slow.go.set()
        assert {answer.result() for answer in answers} == {messages.encode(NotKept())}
    assert ended.wait(30)


# Neighbouring tables -------------------------------------------------------------------------------------------------


class MonitoredSide(sides.Served):
    """Served parties of which the bank is monitored, as `colonnade party serve` does it."""

    def _opened(self) -> cn.Federation:
        opened, self.stream = super()._opened(), io.StringIO()
        inner = opened._driver.transport
        bank = self.bank = MonitoredEndpoint(inner.endpoint("bank"), Log(self.stream, "bank", "guard"), self.status)
        line = Direct({name: bank if name == "bank" else inner.endpoint(name) for name in self._members})
        return cn.Federation(
            line, parties=opened.parties, compute_nodes=opened._driver.computing.nodes, agreement=self._papers
        )

    @property
    def status(self):
        return self.folder / "bank" / "guard.status"

    def seen(self) -> tuple[list[dict], dict, list[str]]:
        """The log, the status file and the metrics, without times and process ids."""
        own = {"time", "pid"}
        self.bank._write()
        log = [json.loads(line) for line in self.stream.getvalue().splitlines()]
        status = json.loads(self.status.read_text())
        metrics = [
            line
            for line in health.metrics(health.member_status(self.folder / "bank")).splitlines()
            if "days_left" not in line
        ]
        return (
            [{key: value for key, value in line.items() if key not in own} for line in log],
            {key: value for key, value in status.items() if key not in own},
            metrics,
        )


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return sides.Served.template(tmp_path_factory.mktemp("template"))


def watched(template, folder, tables: sides.Tables) -> tuple[list[dict], dict, list[str]]:
    """Ask for everything once, for something beyond the budget, and for what was left half done; return what a monitor sees."""
    folder.mkdir()
    with sides.everything_else_the_same():
        stage = MonitoredSide(template, folder, tables, tables, {}, aligned=True, sizes=True)
        stage.open()
        for name in ("response", "pair tables", "sketches", "uniform coreset", "cohort", "describe"):
            stage.hear(lambda f, name=name: REQUESTS[name].ask(f, 0.1, 1))
        stage.hear(lambda f: REQUESTS["response"].ask(f, 1e3, 2))
        stage.hear(lambda f: REQUESTS["PCA"].ask(f, 0.1, 1), 3)
        stage.replay()
        stage.question()
        stage.federation.close()
    return stage.seen()


@pytest.mark.every(2)
@pytest.mark.parametrize("name", ["a record changed", "levels that are not listed", "nobody in common"])
def test_log_status_and_metrics_are_the_same_on_neighbouring_tables(name, template, tmp_path):
    tables = sides.tables()
    log, status, metrics = watched(template, tmp_path / "one", tables)
    other_log, other_status, other_metrics = watched(template, tmp_path / "other", TABLES[name](tables))
    assert len(log) > 50
    assert other_log == log
    assert other_status == status
    assert other_metrics == metrics
