"""``[tighten]`` of a study file: bounds are paid for once, and a preview prices them without reading anything."""

from pathlib import Path

from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.privacy.accounting import NOTHING
from tests.cli.studies import call, edited, heads, make, refused

NARROW = edited(
    ("[budget]", '[tighten]\ncolumns = ["bank.age"]\nquantiles = [0.1, 0.9]\nepsilon = 0.5\n\n[budget]'),
    (
        'estimator = "PatternCount"\ncolumns = ["bank.segment", "telco.plan"]\nmethod = "response"',
        'estimator = "Quantiles"',
    ),
    ("\nepsilon = 1.0", '\ncolumn = "bank.age"\nepsilon = 1.0'),
)


def test_a_file_narrows_bounds_once_and_a_preview_prices_them_without_reading_anything(tmp_path: Path) -> None:
    study = make(tmp_path, NARROW)
    shown = call("preview", study).stdout
    assert "Narrower bounds" in shown
    assert "All 2 studies together" in shown
    assert heads(tmp_path) == {}
    first = call("run", study)
    assert first.exit_code == 0, first.output
    assert "declared_low" in first.stdout
    after = heads(tmp_path)
    assert after
    again = call("run", study)
    assert again.exit_code == 0
    with SqliteLedger.open(tmp_path / "ledgers" / "bank.sqlite", party="bank") as ledger:
        assert ledger.spent().epsilon(1e-6) <= 1.5
    assert heads(tmp_path) == after
    assert "Narrower bounds" not in call("preview", study).stdout  # they are there, and free
    assert call("report", study, "--output", tmp_path / "report.html").exit_code == 0


def test_bounds_and_studies_that_do_not_fit_a_budget_together_are_refused_before_either_is_paid(tmp_path: Path) -> None:
    study = make(tmp_path, edited(("epsilon = 0.5", "epsilon = 1.5"), text=NARROW))
    refused(call("run", study), "budget-exceeded")
    with SqliteLedger.open(tmp_path / "ledgers" / "bank.sqlite", party="bank") as ledger:
        assert ledger.spent() == NOTHING
