"""The dashboard shows a privacy officer who asked what: titles, columns, requesters, purposes, what waits, what to look at."""

import dataclasses
from datetime import UTC, datetime

import pytest

pytest.importorskip("fastapi", reason="the extra colonnade[dashboard] is not installed")
pytest.importorskip("uvicorn", reason="the extra colonnade[dashboard] is not installed")
import httpx

import colonnade as cn
from colonnade.errors import ApprovalNeeded
from colonnade.party.ledger.decisions import RefusedStudies
from colonnade.party.party import SIMULATED
from colonnade.report import dashboard as application
from colonnade.report.dashboard import COOKIE, Sources, party_view
from tests.federations import federation
from tests.party.test_gate import a_plan
from tests.party.test_requests import ANALYST
from tests.report.test_dashboard import EVIL, TOKEN, served

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Ledgers of a federation in which much has happened."""
    path = tmp_path_factory.mktemp("ledgers")
    rules = dataclasses.replace(SIMULATED, approve_above=2.6)
    with federation(ledger_dir=path, epsilon=4.0, analyst=ANALYST, policies={"bank": rules}) as f:
        cn.PCA(2, columns=["bank.age", "telco.bill"], epsilon=1.0, delta=1e-5).fit(
            f.asking(title=f"Churn {EVIL}", purpose="to keep customers")
        )
        cn.PatternCount(["bank.segment", "telco.plan"], epsilon=1.0).fit(f.asking(title="Plans by segment"))
        with pytest.raises(ApprovalNeeded):
            cn.PatternCount(["bank.segment"], method="response", epsilon=1.5).fit(f.asking(title="Segments"))
    with federation(ledger_dir=path, epsilon=4.0) as f:
        cn.Coreset(20, task="regression", target="bank.age", allow_nonprivate=True).fit(f)
    return path


@pytest.fixture
def address(folder):
    shown = Sources({name: folder / f"{name}.sqlite" for name in ("bank", "telco")})
    with served(application.dashboard(shown, TOKEN)) as found:
        yield found


def test_a_party_reads_who_asked_for_what_about_which_columns_and_for_what(address):
    with httpx.Client(base_url=address, cookies={COOKIE: TOKEN}) as client:
        page = client.get("/party/bank").text
        overview = client.get("/").text
    for words in ("Churn &lt;script&gt;", "asked by analyst@telco", "for: to keep customers", "bank.age, telco.bill"):
        assert words in page
    assert EVIL not in page + overview
    assert "Segments: randomised response" in page
    assert "study waits for your approval" in page
    for words in (
        "spent (ε)",
        "remaining (ε)",
        "studies refused",
        "waiting for approval",
        "not differentially private",
    ):
        assert words in overview


def test_releases_without_privacy_raise_an_alarm(folder):
    view = party_view(folder / "bank.sqlite")
    assert view.exact > 0
    assert any("ε = ∞" in words for words in view.alarms)


def test_refused_studies_are_bounded_kept_once_and_a_changed_file_is_said_to_be_damaged(folder, tmp_path):
    kept = RefusedStudies(tmp_path / "bank.sqlite")
    with federation() as f:
        for number in range(210):
            kept.record(NOW, "policy-refusal", a_plan(f, repeat=1 + number), None)
            kept.record(NOW, "policy-refusal", a_plan(f, repeat=1 + number), None)
    found = kept.read()
    assert len(found) == 200
    assert found[-1].plan.repeat == 210
    assert kept.path.stat().st_mode & 0o077 == 0
    damaged = folder / "bank.refused"
    before = damaged.read_bytes()
    try:
        damaged.write_bytes(before.replace(b'"hash":"', b'"hash":"AAAA', 1))
        assert any("damaged" in words for words in party_view(folder / "bank.sqlite").alarms)
    finally:
        damaged.write_bytes(before)
