"""`colonnade run` and `preview`: what they print, what they spend, and how they refuse."""

import json
import shutil
from pathlib import Path

import pytest

import colonnade as cn
from colonnade.party.ledger.ledger import SqliteLedger
from tests.cli.studies import (
    CANARY,
    PEOPLE,
    SECOND,
    STUDY,
    bank,
    call,
    edited,
    heads,
    make,
    refused,
    rewrite,
)


def test_a_study_runs_and_prints_its_result_and_receipt(tmp_path: Path) -> None:
    result = call("run", make(tmp_path))
    assert result.exit_code == 0, result.output
    assert "Segments and plans" in result.output
    assert "receipt: Who learns what: " in result.output
    assert "PatternCount(method='response'): ε=1, δ=0 per person" in result.output
    assert {party: sequence for party, (sequence, _) in heads(tmp_path).items()} == {"bank": 2, "telco": 2}


GROUPS = """
[[study]]
title = "Age by segment and plan"
estimator = "GroupBy"
by = ["bank.segment", "telco.plan"]
values = ["bank.age"]
statistics = ["mean", "count"]
epsilon = 0.5
delta = 1e-7

[[study]]
title = "Plans by age"
estimator = "GroupBy"
by = ["bank.age", "telco.plan"]
bins = 4
method = { name = "secure", helpers = false }
epsilon = 0.2

[[study]]
title = "What goes with what"
estimator = "Correlation"
columns = ["bank.age", "telco.plan"]
epsilon = 0.5
delta = 1e-7
"""


def test_groups_and_correlations_run_from_a_file_and_are_kept(tmp_path: Path) -> None:
    study, output = make(tmp_path, STUDY + GROUPS), tmp_path / "results.json"
    assert "95 % of means of bank.age are within" in call("preview", study).output
    result = call("run", study, "--output", output)
    assert result.exit_code == 0, result.output
    assert "bank.age_mean" in result.output
    assert "[18, 38)" in result.output
    _, means, counts, correlations = json.loads(output.read_text())["studies"]
    assert len(means["results"]["table_"]) == 6
    assert len(counts["results"]["table_"]) == 4 * 3
    assert len(correlations["results"]["correlation_"]) == 4


def test_the_same_file_again_is_free_and_prints_the_same_counts(tmp_path: Path) -> None:
    study, first, second = make(tmp_path), tmp_path / "first.json", tmp_path / "second.json"
    call("run", study, "--output", first)
    before = heads(tmp_path)
    result = call("run", study, "--output", second)
    assert "already paid, nothing spent" in result.output
    assert heads(tmp_path) == before
    one, other = (json.loads(path.read_text())["studies"][0]["results"] for path in (first, second))
    assert one == other


def test_the_output_file_holds_counts_errors_statement_and_receipt(tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    call("run", make(tmp_path), "--output", output)
    document = json.loads(output.read_text(encoding="utf-8"))
    (study,) = document["studies"]
    assert document["failure"] is None
    assert [row["bank.segment"] for row in study["results"]["counts_"]] == ["basic"] * 3 + ["gold"] * 3
    assert sum(row["count"] for row in study["results"]["counts_"]) == pytest.approx(PEOPLE)
    assert all(row["stderr"] > 0 for row in study["results"]["stderr_"])
    assert {"observer": "coordinator", "unit": "person", "epsilon": 1.0}.items() <= study["privacy"][0].items()
    assert study["receipt"].splitlines()[2].startswith("PatternCount")
    assert CANARY not in output.read_text(encoding="utf-8")


def test_changed_data_need_a_new_version_and_a_preview_declares_none(tmp_path: Path) -> None:
    study = make(tmp_path)
    call("run", study)
    before = heads(tmp_path)
    bank().assign(age=40).to_csv(tmp_path / "bank.csv", index=False)
    assert "version=2" in refused(call("run", study), "bad-input")
    rewrite(tmp_path, edited(('data = "bank.csv"', 'data = "bank.csv"\nversion = 2')))
    assert call("preview", study).exit_code == 0
    assert heads(tmp_path) == before
    assert call("run", study).exit_code == 0
    assert {party: sequence for party, (sequence, _) in heads(tmp_path).items()} == {"bank": 4, "telco": 3}


def test_a_preview_spends_nothing_and_leaves_no_ledger(tmp_path: Path) -> None:
    result = call("preview", make(tmp_path))
    assert result.exit_code == 0, result.output
    assert "charge ε=0.5, remaining ε=2" in result.output
    assert not (tmp_path / "ledgers").exists()


def test_studies_that_do_not_fit_the_budget_together_are_refused_before_anything_is_spent(tmp_path: Path) -> None:
    study, output = make(tmp_path, STUDY + SECOND), tmp_path / "results.json"
    printed = refused(call("run", study, "--output", output), "budget-exceeded")
    assert "'bank'" in printed
    assert "ε=2.25" in printed
    assert "(Segments and plans, Another)" in printed
    assert not output.exists()
    assert {sequence for sequence, _ in heads(tmp_path).values()} == {1}


def test_a_study_that_fails_half_way_keeps_what_was_paid_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, output = make(tmp_path, STUDY + SECOND.replace("1.75", "1.0")), tmp_path / "results.json"
    fit = cn.PatternCount.fit

    def fails(self: cn.PatternCount, *given: object, **more: object) -> object:
        if self.columns == ["bank.segment"]:
            raise cn.PartyAway("The party 'bank' did not answer in time.")
        return fit(self, *given, **more)

    monkeypatch.setattr(cn.PatternCount, "fit", fails)
    printed = refused(call("run", study, "--output", output), "party-away")
    assert "receipt" in printed
    document = json.loads(output.read_text(encoding="utf-8"))
    assert [entry["title"] for entry in document["studies"]] == ["Segments and plans"]
    assert document["failure"]["code"] == "party-away"
    assert {sequence for sequence, _ in heads(tmp_path).values()} == {2}


def test_a_preview_adds_up_the_whole_file_party_by_party(tmp_path: Path) -> None:
    study = make(tmp_path, STUDY + SECOND.replace("1.75", "1.0"))
    result = call("preview", study)
    assert "All 2 studies together would cost" in result.output
    document = json.loads(call("preview", study, "--json").stdout)
    assert [one["title"] for one in document["studies"]] == ["Segments and plans", "Another"]
    total = {row["party"]: row for row in document["total"]}
    assert total["bank"] == {"party": "bank", "spent": 0.0, "this file": 1.5, "would remain": 0.5, "cap": 2.0}
    assert total["telco"]["would remain"] == 1.5
    assert not (tmp_path / "ledgers").exists()


def test_json_is_all_that_is_printed_and_is_what_output_writes(tmp_path: Path) -> None:
    study, output = make(tmp_path), tmp_path / "results.json"
    result = call("run", study, "--json", "--output", output)
    assert result.stderr == ""
    assert json.loads(result.stdout) == json.loads(output.read_text(encoding="utf-8"))


def test_a_mistake_in_the_last_study_does_not_cost_the_price_of_the_first(tmp_path: Path) -> None:
    study = make(tmp_path, STUDY + SECOND.replace("bank.segment", "bank.age"))
    refused(call("run", study), "schema-mismatch")
    assert {sequence for sequence, _ in heads(tmp_path).values()} == {1}


def test_a_policy_of_one_party_is_obeyed(tmp_path: Path) -> None:
    study = make(tmp_path, edited(("[parties.telco]\n", "[parties.bank.policy]\nmax_epsilon = 0.1\n[parties.telco]\n")))
    refused(call("run", study), "policy-refusal")
    assert {sequence for sequence, _ in heads(tmp_path).values()} == {1}


def test_another_cap_than_the_ledgers_own_is_refused_unless_it_is_meant(tmp_path: Path) -> None:
    study = make(tmp_path)
    call("run", study)
    before = heads(tmp_path)
    rewrite(tmp_path, edited(("epsilon = 2.0", "epsilon = 20.0")))
    for verb in ("preview", "run"):
        assert "--change-cap" in refused(call(verb, study), "bad-input")
    assert heads(tmp_path) == before
    assert call("run", study, "--change-cap").exit_code == 0
    with SqliteLedger.open(tmp_path / "ledgers" / "bank.sqlite") as ledger:
        assert ledger.budget.epsilon == 20.0


def test_an_output_file_that_cannot_be_written_is_a_refusal_after_which_nothing_is_paid_twice(tmp_path: Path) -> None:
    study = make(tmp_path)
    refused(call("run", study, "--output", tmp_path / "absent" / "results.json"), "bad-input")
    before = heads(tmp_path)
    assert call("run", study, "--output", tmp_path / "results.json").exit_code == 0
    assert heads(tmp_path) == before


def test_a_folder_of_ledgers_can_be_moved_with_its_study(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    call("run", make(tmp_path / "here"))
    before = heads(tmp_path / "here")
    shutil.move(tmp_path / "here", tmp_path / "there")
    assert "already paid" in call("run", tmp_path / "there" / "study.toml").output
    assert heads(tmp_path / "there") == before
