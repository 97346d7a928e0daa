"""`colonnade ledger show|verify`: everything about a ledger but its answers."""

import re
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade import audit
from colonnade.audit import SLACK, distribution_epsilon
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.privacy.accounting import Budget, Loss, total
from tests.cli.studies import call, make, refused

ANSWER = b"answerbytesthatarenevershown"


def ledger_at(path: Path, *, delta: float = 1e-6, test: bool = False) -> Path:
    with SqliteLedger.create(path, party="bank", budget=Budget(epsilon=2.0, delta=delta), test=test) as ledger:
        for number, nano in enumerate((500_000_000, 250_000_000), start=1):
            ledger.debit(b"request%d" % number, bytes(32), Loss.of_pure(nano), label=f"study {number}")
        ledger.seal(b"request1", ANSWER)
    return path


def test_show_prints_rows_total_cap_and_what_remains(tmp_path: Path) -> None:
    result = call("ledger", "show", ledger_at(tmp_path / "bank.sqlite"))
    assert result.exit_code == 0, result.output
    assert re.search(r"^ +1  \d{4}-\d\d-\d\d \d\d:\d\d · study 1 · ε 0\.5 · answer kept$", result.output, re.MULTILINE)
    assert re.search(r"^ +2  .* · study 2 · ε 0\.25 · answer not kept$", result.output, re.MULTILINE)
    assert re.search(r"spent +ε=0\.75 at δ=1e-06", result.output)
    assert re.search(r"cap +ε=2 at δ=1e-06", result.output)
    assert re.search(r"remaining ε=1\.25", result.output)


def test_show_and_verify_never_print_an_answer_and_change_nothing(tmp_path: Path) -> None:
    path = ledger_at(tmp_path / "bank.sqlite")
    before = path.read_bytes()
    for verb in ("show", "verify"):
        assert ANSWER.decode() not in call("ledger", verb, path).output
    assert path.read_bytes() == before


def test_a_folder_of_ledgers_is_shown_one_after_another(tmp_path: Path) -> None:
    call("run", make(tmp_path))
    shown = call("ledger", "show", tmp_path / "ledgers").output
    assert shown.index("bank.sqlite") < shown.index("telco.sqlite")
    assert call("ledger", "verify", tmp_path / "ledgers").output.count("ledger    ε=0.5 at δ=1e-06") == 2


def test_verify_reports_the_total_by_two_accounts(tmp_path: Path) -> None:
    result = call("ledger", "verify", ledger_at(tmp_path / "bank.sqlite"))
    assert result.exit_code == 0, result.output
    recorded = float(re.search(r"ledger +ε=([\d.]+)", result.output)[1])
    opinion = float(re.search(r"opinion +ε=([\d.]+)", result.output)[1])
    assert recorded == 0.75
    assert 0.9 * recorded < opinion <= recorded * (1 + SLACK)


def test_verify_refuses_a_ledger_that_shows_less_than_its_rows_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ledger_at(tmp_path / "bank.sqlite")
    for opinion in (0.80, float("nan"), float("inf")):
        monkeypatch.setattr(audit, "distribution_epsilon", lambda *_, opinion=opinion: opinion)
        refused(call("ledger", "verify", path), "ledger-corrupt")


def test_a_flipped_bit_anywhere_in_a_row_is_refused(tmp_path: Path) -> None:
    whole = ledger_at(tmp_path / "bank.sqlite").read_bytes()
    for needle in (b"study 1", b"request2", ANSWER):
        damaged = bytearray(whole)
        damaged[whole.rindex(needle)] ^= 1
        (tmp_path / "bank.sqlite").write_bytes(damaged)
        for verb in ("show", "verify"):
            refused(call("ledger", verb, tmp_path / "bank.sqlite"), "ledger-corrupt")


pure = st.integers(10**6, 3 * 10**9).map(Loss.of_pure)
concentrated = st.integers(1, 2_000).map(lambda thousandths: Loss.of_zcdp(Fraction(thousandths, 10_000)))


@settings(max_examples=6)
@given(st.lists(pure | concentrated, min_size=1, max_size=6), st.sampled_from([1e-9, 1e-6, 1e-3]))
def test_the_ledger_never_shows_less_than_privacy_loss_distributions_do(losses: list[Loss], delta: float) -> None:
    opinion = distribution_epsilon(losses, delta)
    assert opinion is not None
    assert opinion <= total(losses).epsilon(delta) * (1 + SLACK)


@settings(max_examples=8)
@given(st.lists(pure, min_size=1, max_size=6))
def test_half_of_what_was_released_would_be_noticed(losses: list[Loss]) -> None:
    halved = total(Loss.of_pure(-(-loss.pure // 2)) for loss in losses if loss.pure)
    opinion = distribution_epsilon(losses, 1e-9)
    assert opinion is not None
    assert opinion > halved.epsilon(1e-9) * (1 + SLACK)


def test_no_second_opinion_is_given_on_a_curve_that_is_neither_pure_nor_concentrated() -> None:
    curved = Loss.of_curve(lambda order: 0.01 * order + 0.001 * order**2)
    assert distribution_epsilon([curved], 1e-6) is None
    assert distribution_epsilon([curved, Loss.of_pure(10**9)], 1e-6) is None
