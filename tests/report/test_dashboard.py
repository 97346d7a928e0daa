"""The dashboard reads, on this machine, for people who have the token; it cannot spend, and it escapes what others wrote."""

import contextlib
import json
import socket
import threading
import time

import pytest

pytest.importorskip("fastapi", reason="the extra colonnade[dashboard] is not installed")
pytest.importorskip("uvicorn", reason="the extra colonnade[dashboard] is not installed")
import httpx
import uvicorn

import colonnade as cn
from colonnade.report import dashboard as application
from colonnade.report.dashboard import COOKIE, Sources, party_view
from colonnade.runtime.event_log import Log
from colonnade.service.federation_setup import CertificateAuthority
from colonnade.transport.kit import Kit, KnownCertificates
from tests.federations import federation
from tests.service.certificates import DAY, Clock, certified

TOKEN = "0123456789abcdef"
EVIL = "<script>alert(1)</script>"


@contextlib.contextmanager
def served(app):
    """Serve on a port of its own, on loopback, until the block is left."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


def a_log(path, *events):
    lines = [{"time": "2026-01-01T00:00:00.000Z", "site": "bank", "process": "guard", **event} for event in events]
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    return path


@pytest.fixture
def sources(tmp_path):
    with federation(ledger_dir=tmp_path / "ledgers", epsilon=4.0) as f:
        cn.PatternCount(["bank.segment", "telco.plan"], method="independent", epsilon=1.0).fit(f)
        cn.PatternCount(["bank.segment", "telco.plan"], method="response", epsilon=1.0).fit(f)
    guard = a_log(
        tmp_path / "bank.log",
        {"event": "refused", "code": "budget-exceeded", "request": "propose"},
        {"event": "refused", "code": "ledger-corrupt", "party": EVIL},
        {"event": "invented", "party": "x"},
    )
    coordinator = a_log(
        tmp_path / "coordinator.log",
        {"event": "connected", "party": "bank"},
        {"event": "disconnected", "party": "telco"},
        {"event": "study-started", "study": EVIL},
        {"event": "study-step", "study": EVIL, "step": "gram", "bytes_in": 10, "bytes_out": 20},
        {"event": "study-finished", "study": EVIL, "bytes_in": 1_234, "bytes_out": 20},
    )
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "first.html").write_text("<h1>report</h1>")
    ledgers = {name: tmp_path / "ledgers" / f"{name}.sqlite" for name in ("bank", "telco")}
    return Sources(ledgers, {"bank": guard}, coordinator, tmp_path / "reports")


@pytest.fixture
def address(sources):
    with served(application.dashboard(sources, TOKEN)) as found:
        yield found


@pytest.fixture
def client(address):
    with httpx.Client(base_url=address, cookies={COOKIE: TOKEN}) as one:
        yield one


@pytest.fixture
def stranger(address):
    with httpx.Client(base_url=address) as one:
        yield one


PAGES = ["/", "/party/bank", "/party/bank/live", "/party/telco", "/coordinator", "/coordinator/live"]


@pytest.mark.every(2)
@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_shown_under_a_strict_policy(client, page):
    answer = client.get(page)
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.every(3)
@pytest.mark.parametrize("page", [*PAGES, "/static/style.css", "/report/first.html"])
def test_nothing_is_shown_without_the_token(stranger, page):
    assert stranger.get(page).status_code == 401
    assert stranger.get(page, params={"token": TOKEN[:-1]}).status_code == 401
    assert stranger.get(page, headers={"cookie": f"{COOKIE}={TOKEN}0"}).status_code == 401


def test_the_token_is_taken_out_of_the_address_and_kept_where_no_script_reads_it(stranger):
    answer = stranger.get("/party/bank", params={"token": TOKEN})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/party/bank"
    assert "httponly" in answer.headers["set-cookie"].lower()
    assert "samesite=strict" in answer.headers["set-cookie"].lower()


@pytest.mark.every(4)
@pytest.mark.parametrize("method", ["post", "put", "delete", "patch", "options"])
@pytest.mark.parametrize("page", ["/", "/party/bank", "/coordinator"])
def test_nothing_but_looking_is_possible(client, method, page):
    assert client.request(method, page).status_code == 405


def test_looking_at_every_page_leaves_the_ledgers_as_they_were(client, sources):
    before = {name: path.read_bytes() for name, path in sources.ledgers.items()}
    for page in PAGES:
        client.get(page)
    assert {name: path.read_bytes() for name, path in sources.ledgers.items()} == before


def test_what_others_wrote_is_escaped(client):
    for page in ("/party/bank", "/coordinator"):
        text = client.get(page).text
        assert EVIL not in text
        assert "&lt;script&gt;" in text


def test_a_party_sees_what_it_spent_on_what(client, sources):
    view = party_view(sources.ledgers["bank"])
    assert view.spent + view.remaining == pytest.approx(view.cap, abs=1e-6)
    assert sum(view.studies.values()) == pytest.approx(view.spent)
    text = client.get("/party/bank").text
    assert "Pattern count: randomised response, of 2 columns (1 of yours)" in text
    assert "bank.segment, telco.plan" in text
    assert "asked by somebody unnamed, according to the coordinator" in text
    assert "budget-exceeded" in text
    assert "a peer&#39;s ledger has gone back" in text


def test_a_report_is_served_as_it_is_and_runs_nothing(client):
    answer = client.get("/report/first.html")
    assert answer.text == "<h1>report</h1>"
    assert "sandbox" in answer.headers["content-security-policy"]


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "page", ["/party/nobody", "/report/..%2Fbank.log", "/report/%2e%2e/bank.log", "/report/x.html"]
)
def test_what_is_not_listed_is_not_found(client, page):
    assert client.get(page).status_code == 404


def test_a_ledger_that_does_not_check_shows_its_trouble_and_no_figures(client, sources):
    path = sources.ledgers["bank"]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.write_bytes(bytes(data))
    text = client.get("/party/bank").text
    assert "failed its check" in text
    assert "remaining" not in text


def test_certificates_are_shown_with_their_dates_and_those_that_end_soon_stand_out(sources, client, tmp_path):
    clock = Clock(time.time() - 340 * DAY)
    kit = Kit(sources.ledgers["bank"].parent / "kit", clock=clock)
    found = certified(CertificateAuthority.create(tmp_path / "authority", clock=clock), kit, "bank")
    KnownCertificates(tmp_path / "certificates.status", time.time, Log(None, "coordinator", "coordinator")).learn(
        "bank", found
    )
    page = client.get("/party/bank").text
    assert '<li class="alert">client.crt expires on' in page
    assert "renew it" in page
    assert "<li>rootCA.pem expires on" in page
    assert '<li class="alert">bank expires on' in client.get("/coordinator").text


@pytest.mark.every(2)
@pytest.mark.parametrize("host", ["attacker.example", "127.0.0.1.attacker.example", "10.0.0.1", ""])
def test_another_name_for_this_machine_is_refused(client, host):
    assert client.get("/", headers={"host": host}).status_code == 421
