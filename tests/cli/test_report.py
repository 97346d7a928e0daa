"""`colonnade report`: on what was run, never by running it."""

import json
from pathlib import Path

from tests.cli.studies import SECOND, STUDY, call, edited, heads, make, refused, rewrite

SPLIT = edited(("[budget]", "[split]\ntest = 0.25\n\n[budget]"))


def test_a_study_that_was_not_run_is_refused_and_nothing_is_spent(tmp_path: Path) -> None:
    study = make(tmp_path)
    assert "colonnade run" in refused(call("report", study), "bad-input")
    assert heads(tmp_path) == {}
    assert not study.with_suffix(".html").exists()


def test_what_was_run_is_reported_free_with_the_ledgers_as_they_are(tmp_path: Path) -> None:
    study = make(tmp_path)
    assert call("run", study).exit_code == 0
    before = heads(tmp_path)
    result = call("report", study, "--output", tmp_path / "signed.html")
    assert result.exit_code == 0, result.output
    assert heads(tmp_path) == before
    page = (tmp_path / "signed.html").read_text(encoding="utf-8")
    assert "Ledger of bank" in page
    assert "Ledger of telco" in page
    assert "Privacy report: study.toml" in page


def test_one_study_of_two_that_was_not_run_is_left_out_and_named(tmp_path: Path) -> None:
    study = make(tmp_path)
    assert call("run", study).exit_code == 0
    before = heads(tmp_path)
    rewrite(tmp_path, STUDY + SECOND.replace("1.75", "0.5"))
    result = call("report", study)
    assert result.exit_code == 0, result.output
    assert "left out: Another: it has not been run" in result.output
    assert "<strong>Another</strong>: it has not been run" in study.with_suffix(".html").read_text(encoding="utf-8")
    assert heads(tmp_path) == before


def test_one_study_that_is_not_private_does_not_block_the_report_of_the_others(tmp_path: Path) -> None:
    sample = """
[[study]]
title = "A sample"
estimator = "Coreset"
size = 20
task = "kmeans"
n_clusters = 2
allow_nonprivate = true
"""
    study = make(tmp_path, STUDY + sample)
    assert call("run", study).exit_code == 0
    before = heads(tmp_path)
    written = json.loads(call("report", study, "--json").stdout)
    assert "not private" in written["left_out"]["A sample"]
    assert Path(written["written"]).is_file()
    assert heads(tmp_path) == before


def test_studies_of_a_part_of_the_people_are_found_again_as_they_were_run(tmp_path: Path) -> None:
    study = make(tmp_path, SPLIT)
    assert call("run", study).exit_code == 0
    before = heads(tmp_path)
    preview = json.loads(call("preview", study, "--json").stdout)
    assert [row["this file"] for row in preview["total"]] == [0.0, 0.0]
    result = call("report", study)
    assert result.exit_code == 0, result.output
    assert "left out" not in result.output
    assert heads(tmp_path) == before
