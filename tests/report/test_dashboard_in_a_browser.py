"""The dashboard as a person meets it: by keyboard, on a narrow screen, live during a study, and honest when it is cut off."""

import os

import pytest

pytest.importorskip("uvicorn", reason="the extra colonnade[dashboard] is not installed")

import colonnade as cn
from colonnade.report import dashboard as application
from tests.federations import federation
from tests.report import browser
from tests.report.test_dashboard import TOKEN, served, sources

__all__ = ["sources"]

PAGES = ["/", "/party/bank", "/coordinator"]


@pytest.fixture
def address(sources):
    with served(application.dashboard(sources, TOKEN)) as found:
        yield found


@pytest.mark.every(8)
@pytest.mark.parametrize("width", [400, 1000])
@pytest.mark.parametrize("path", PAGES)
def test_no_page_is_wider_than_the_screen_and_none_complains(address, path, width):
    with browser.page(width) as page:
        complaints = []
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{address}/?token={TOKEN}")
        page.goto(address + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        folder = os.environ.get("COLONNADE_SCREENSHOTS")
        if folder:
            page.screenshot(path=f"{folder}/dashboard{path.replace('/', '-')}-{width}.png", full_page=True)
        assert not complaints


def test_every_page_is_reached_by_the_keyboard_alone(address):
    with browser.page() as page:
        page.goto(f"{address}/?token={TOKEN}")
        reached = set()
        for _ in range(3):  # skip link, overview, first party
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.textContent"))
        assert "Skip to content" in reached
        page.keyboard.press("Enter")
        page.wait_for_url("**/party/bank")
        assert page.evaluate("getComputedStyle(document.querySelector('nav a[aria-current]')).fontWeight") == "700"


def test_what_is_spent_while_somebody_looks_shows_without_a_reload_and_a_dead_program_shows_as_stale(tmp_path):
    with federation(ledger_dir=tmp_path, epsilon=4.0) as f, browser.page() as page:
        shown = application.Sources({"bank": tmp_path / "bank.sqlite"})
        with served(application.dashboard(shown, TOKEN)) as address:
            page.goto(f"{address}/?token={TOKEN}")
            page.goto(f"{address}/party/bank")
            assert "Nothing was released yet" in page.content()
            cn.PatternCount(["bank.segment", "telco.plan"], method="independent", epsilon=1.0).fit(f)
            page.wait_for_selector("td:has-text('Pattern count: histogram')", timeout=15_000)
            assert not page.locator("#stale").is_visible()
        page.wait_for_selector("#stale", state="visible", timeout=15_000)
        assert "out of date" in page.locator("#stale").inner_text()
