"""Rows of a ledger in words: one sentence each, from the plan that was kept, and safe on a screen and in a spreadsheet."""

from datetime import UTC, datetime

import msgspec
import pytest

import colonnade as cn
from colonnade.party.ledger.decisions import RefusedStudy
from colonnade.party.ledger.rows import Entry
from colonnade.party.ledger.words import LedgerNarrator, Provenance, Requester, read_rows
from colonnade.plan import About, one_line
from colonnade.privacy.accounting import Loss
from colonnade.protocol import messages
from tests.federations import federation
from tests.party.test_gate import a_plan, gate_of
from tests.party.test_requests import ANALYST, OTHER

WHEN = datetime(2026, 11, 15, 10, 3, tzinfo=UTC)


def entry(plan, about: About | None = None, *, kind: str = "debit", loss: Loss | None = None) -> Entry:
    step = plan.steps_of("bank")[0].name
    request = messages.request_identity(plan, "bank", step)
    return Entry(
        7, kind, f"x {step} y", WHEN, request, loss, None, True, plan=messages.digest(plan), about=about, version=1
    )


def narrator(plan, **more) -> LedgerNarrator:
    return LedgerNarrator("bank", 1e-5, {messages.digest(plan): plan}, **more)


def test_a_row_says_when_what_who_what_for_at_what_price_and_to_whom():
    with federation() as f:
        plan = a_plan(f)
    words = About(title="Churn", purpose="planning", requester=ANALYST.name).signed(
        messages.digest(plan), ANALYST.identity
    )
    row = narrator(plan, keys={ANALYST.name: ANALYST.public}).row(entry(plan, words, loss=Loss.of_pure(980_000_000)))
    assert row.sentence() == (
        "2026-11-15 10:03 · Churn: randomised response, of 2 columns (1 of yours) · asked by analyst@telco · for: planning · "
        "ε 0.98 · to the coordinator"
    )
    assert row.columns == ("bank.segment", "telco.plan")


def test_who_asked_is_judged_by_the_signature_and_the_papers():
    with federation() as f:
        plan = a_plan(f)
    hashed, words = messages.digest(plan), About(requester=ANALYST.name)
    signed = words.signed(hashed, ANALYST.identity)
    judged = {
        Provenance.SIGNED: [(signed, None), (signed, {ANALYST.name: ANALYST.public})],
        Provenance.OTHER_KEY: [(signed, {}), (signed, {ANALYST.name: OTHER.public})],
        Provenance.CLAIMED: [(words, None), (None, None), (About(), {})],
        Provenance.FORGED: [
            (msgspec.structs.replace(signed, title="x"), None),
            (words.signed(bytes(32), ANALYST.identity), None),
        ],
    }
    for provenance, cases in judged.items():
        for about, keys in cases:
            assert Requester.of(about, hashed, keys).provenance is provenance
    assert "according to the coordinator" in Requester.of(None, hashed).words()


EVIL = ["\x1b[2J", "a\nb", "\u202eevil", "\x00", "x" * 5_000, "\ud800"]


@pytest.mark.every(2)
@pytest.mark.parametrize("text", EVIL)
def test_no_text_of_a_coordinator_moves_the_cursor_or_fills_the_screen(text):
    assert one_line(text).isprintable()
    assert len(one_line(text)) <= 200
    with federation() as f:
        plan = a_plan(f)
    if text == "\ud800":
        return  # cannot travel
    steps = tuple(
        step if step.party == "bank" else msgspec.structs.replace(step, columns=(text,)) for step in plan.steps
    )
    hostile = msgspec.structs.replace(plan, steps=steps, method=text)
    row = narrator(hostile).row(entry(hostile))
    study = RefusedStudy(when=0, code="x", hash=messages.digest(hostile), content=messages.encode(hostile))
    assert len(row.columns) == 2
    for words in (row.sentence(), *row.columns, narrator(hostile).refusal(study)):
        assert words.isprintable()
        assert len(words) < 1_000


def test_every_row_of_a_busy_ledger_is_said_and_nothing_in_it_is_an_answer():
    with federation(epsilon=100.0, analyst=ANALYST) as f:
        cn.PCA(2, epsilon=1.0, delta=1e-5).fit(f)
        cn.KMeans(
            2, columns=["bank.age", "telco.bill"], method="sketch", n_local_clusters=2, epsilon=1.0, delta=1e-5
        ).fit(f)
        cn.LinearRegression("telco.bill", columns=["bank.age"], epsilon=1.0, delta=1e-5).fit(f)
        train, _ = f.split(test=0.5)
        cn.Coreset(20, task="regression", target="bank.age", allow_nonprivate=True).fit(train)
        rows = read_rows(gate_of(f)._ledger, {ANALYST.name: ANALYST.public})
    words = [row.sentence() for row in rows]
    assert all(words)
    assert words[0].endswith("the ledger was made; the cap is ε 100 at δ 1e-05")
    assert any("a data version was declared: 1" in one for one in words)
    assert any(
        "Linear regression of telco.bill: Gram matrix with noise in shares, of 2 columns (1 of yours)" in one
        for one in words
    )
    assert any("key agreed on: group key" in one for one in words)
    assert any("ε ∞ (not differentially private)" in one for one in words)
    assert all("asked by analyst@telco" in row.sentence() for row in rows if row.requester is not None)


# What an alignment told -----------------------------------------------------------------------------------------------


@pytest.mark.every(2)
@pytest.mark.parametrize(("size", "rows"), [({"epsilon": 0.5}, 2), ({"size": "public"}, 2), ({"size": "hidden"}, 1)])
def test_an_intersection_says_that_membership_left_and_to_whom(size, rows):
    """Before, the row without a bound was called "discrete Laplace on the number of people"."""
    with federation(60, aligned=False) as f:
        f.align(**size)
        priced = [row for row in read_rows(f._driver.transport._endpoints["bank"]._gate._ledger) if row.price]
    assert len(priced) == rows
    told, *number = priced
    assert told.what == "which of its own ids all parties have, told to every party exactly"
    assert told.price == "ε ∞ (not differentially private)"
    assert told.readers == "to bank, telco, insurer"
    for row in number:
        noisy = "epsilon" in size
        assert row.what == (
            "discrete Laplace on the number of people" if noisy else "the exact number of people in common"
        )
        assert row.readers == "to the coordinator"
        assert row.is_private == noisy
