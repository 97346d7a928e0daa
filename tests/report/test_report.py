"""The privacy report: one file, nothing fetched, nothing unescaped, and every figure that somebody has to sign for."""

import base64
import html
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import colonnade as cn
from colonnade.protocol import messages
from colonnade.report import document
from colonnade.report.document import Html, join, noise_words_of, table, tag
from tests import federations

GAUSSIAN = {"epsilon": 1.0, "delta": 1e-5}


@pytest.fixture(scope="module")
def federation():
    with federations.federation(600, epsilon=40.0) as f:
        yield f


@pytest.fixture(scope="module")
def studies(federation) -> dict[str, Any]:
    made = {
        "secure": cn.PatternCount(["bank.segment", "telco.plan"], epsilon=1.0),
        "response": cn.PatternCount(["bank.segment", "insurer.product"], method="response", epsilon=1.0),
        "independent": cn.PatternCount(["bank.segment", "insurer.product"], method="independent", epsilon=1.0),
        "gram": cn.PCA(2, columns=["bank.age", "telco.bill"], **GAUSSIAN),
        "sketch": cn.PCA(1, columns=["bank.age", "telco.bill"], method="sketch", **GAUSSIAN),
        "rows": cn.PCA(1, columns=["bank.age", "telco.bill"], method="local", **GAUSSIAN),
        "clusters": cn.KMeans(2, columns=["bank.age", "telco.bill"], **GAUSSIAN),
        "logistic": cn.LogisticRegression("bank.default", method="secure", columns=["telco.bill"], **GAUSSIAN),
    }
    return {name: study.fit(federation) for name, study in made.items()}


@pytest.fixture(scope="module")
def reports(studies, tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    return {name: study.report(folder / f"{name}.html") for name, study in studies.items()}


class Page(HTMLParser):
    """What a browser would do with a page: which elements, which addresses, which text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.addresses: list[str] = []
        self.handlers: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append(name)
        for key, value in attributes:
            if key in ("src", "href", "action", "data", "poster", "srcset", "xlink:href"):
                self.addresses.append(value or "")
            if key.startswith("on") or key == "style":
                self.handlers.append(key)

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def read(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


@pytest.mark.every(4)
@pytest.mark.parametrize(
    "name", ["secure", "response", "independent", "gram", "sketch", "rows", "clusters", "logistic"]
)
def test_a_report_is_one_small_file_that_fetches_nothing_and_runs_nothing(name, reports):
    path = reports[name]
    page = read(path)
    assert path.stat().st_size < 1_000_000
    assert all(address.startswith(("#", "data:image/svg+xml;base64,")) for address in page.addresses)
    assert not {"script", "link", "iframe", "object", "embed", "form", "svg"} & set(page.elements)
    assert page.handlers == []
    assert "url(" not in path.read_text()
    assert "@import" not in path.read_text()
    assert "default-src 'none'" in html.unescape(path.read_text())
    images = [address for address in page.addresses if address.startswith("data:")]
    assert 1 <= len(images) <= 2  # the study's own, and the trade-off between false alarms and misses
    drawing = "".join(base64.b64decode(image.partition(",")[2]).decode() for image in images)
    assert "<script" not in drawing
    assert not re.search(r'(href|src)="(?!#|data:image/png;base64,)', drawing)


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "name", ["secure", "response", "independent", "gram", "sketch", "rows", "clusters", "logistic"]
)
def test_it_says_what_was_promised_to_whom_at_what_price_and_where_the_proof_is(name, studies, federation, reports):
    study = studies[name]
    page = read(reports[name])
    assert document.PROMISE in page.text
    assert " ".join(study.receipt_.split()) in page.text
    assert messages.digest(study.plan_).hex() in page.text
    for assumption in study.privacy_.assumptions:
        assert assumption in page.text
    for observer in study.privacy_.table()["observer"]:
        assert observer in page.text
    anchors = [address for address in page.addresses if address.startswith("#")]
    source = reports[name].read_text(encoding="utf-8")
    assert anchors
    assert all(f'id="{anchor[1:]}"' in source for anchor in anchors)
    for party, signature in study.transcript_.signatures.items():
        assert party in page.text
        assert signature in page.text
    for party in federation.parties:
        remaining = federation.budget(party)["remaining"]
        assert f"{remaining:.4g}" in page.text
    for account in federation._driver.accounts(in_words=True).values():
        assert all(entry.words in page.text for entry in account.entries)
    for kind, size in study.transcript_.received.items():
        assert f"{kind} {size:,}" in page.text


def test_sensitivity_and_scale_are_those_of_the_mechanism_that_drew_the_noise(studies):
    found = {name: noise_words_of(study.plan_, study.schema_) for name, study in studies.items()}
    assert found["secure"][0].scale.startswith("standard deviation 1.919")
    assert "1 cell of the tables" in found["secure"][0].sensitivity
    assert all(noise.sensitivity == "Δ₁ = 1 (whole numbers released)" for noise in found["independent"])
    assert all(noise.scale == "b = 2" for noise in found["independent"])
    assert "p = " in found["response"][0].scale
    assert all(noise.proof is not None for several in found.values() for noise in several)
    assert all(noise.sensitivity and noise.scale for several in found.values() for noise in several)


def test_secure_studies_show_a_signature_of_every_member_and_local_ones_say_that_there_is_none(studies, reports):
    assert set(studies["secure"].transcript_.signatures) == {"bank", "telco", "insurer"}
    assert studies["response"].transcript_.signatures == {}
    page = read(reports["response"])
    assert "No run was signed" in page.text


def test_what_a_party_calls_itself_cannot_become_markup(tmp_path):
    hostile = '"><script>alert(1)</script><img src=x onerror=alert(1)>'
    name = '"><script>alert(2)</script>'
    frame = pd.DataFrame({"id": range(600), name: [hostile, "b\u202e"] * 300})
    party = cn.Party(frame, schema=cn.Schema({name: cn.Category([hostile, "b\u202e"])}))
    with cn.Federation.simulate({"p": party}, id="id", budget=cn.Budget(epsilon=2.0)) as f:
        study = cn.PatternCount([f"p.{name}"], method="response", epsilon=1.0).fit(f)
        path = study.report(tmp_path / "study.html")
    page = read(path)
    assert {"script", "img"} & set(page.elements) == {"img"}
    assert all(address.startswith(("#", "data:image/svg+xml;base64,")) for address in page.addresses)
    assert page.handlers == []
    assert "\u202e" not in path.read_text(encoding="utf-8")
    assert f"p.{name}" in page.text


def test_text_is_escaped_unless_it_is_markup_by_type():
    assert tag("p", "<b>", klass='"') == '<p class="&quot;">&lt;b&gt;</p>'
    assert tag("p", tag("b", "&")) == "<p><b>&amp;</b></p>"
    assert isinstance(join(["<", Html("<i>")]), Html)
    assert "&lt;x&gt;" in table(["<x>"], [["<x>"]])
    with pytest.raises(ValueError, match="name"):
        tag("p onclick=x")


def test_a_study_that_is_not_private_says_so_loudly(tmp_path):
    with federations.federation(600, epsilon=1.0) as f:
        study = cn.LinearRegression(
            "telco.bill", columns=["bank.age"], method="coreset", size=50, allow_nonprivate=True
        ).fit(f)
        page = read(study.report(tmp_path / "study.html"))
        source = (tmp_path / "study.html").read_text()
    assert document.NONPRIVATE in page.text
    assert source.index('class="alarm"') < source.index("The promise")
    assert "NO NOISE" in page.text
    assert "∞" in page.text
    assert "nothing: not differentially private" in page.text


def test_the_first_page_has_two_lines_per_study_a_verdict_per_party_and_what_is_left_out(studies, federation, tmp_path):
    some = [studies["secure"], studies["response"]]
    why = {"<A sample>": "it is not private, and would run again"}
    path = document.write(some, tmp_path / "all.html", federation=federation, left_out=why)
    page = read(path)
    first = page.text[: page.text.index("What was asked")]
    for study in some:
        assert all(line in first for line in study.privacy_.trust.lines)
    assert "bank: Holds Noise hides every person from the coordinator, also together with 1 other party." in first
    assert "<A sample> : it is not private, and would run again" in first
    assert "Its ledger was charged ε = 1.5 for these studies" in first  # one of them as a whole, half of the other
    assert f"in all, of its cap of ε = {federation.budget().epsilon['bank']:g}" in first
