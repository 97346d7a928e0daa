"""`colonnade report`: on what was run, never by running it."""

from pathlib import Path

from tests.cli.studies import SECOND, STUDY, call, heads, make, refused, rewrite


def test_a_study_that_was_not_run_is_refused_and_nothing_is_spent(tmp_path: Path) -> None:
    study = make(tmp_path)
    assert "Run it first" in refused(call("report", study), "bad-input")
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


def test_one_study_of_two_that_was_not_run_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    study = make(tmp_path)
    assert call("run", study).exit_code == 0
    before = heads(tmp_path)
    rewrite(tmp_path, STUDY + SECOND.replace("1.75", "0.5"))
    assert "Another has not been run" in refused(call("report", study), "bad-input")
    assert heads(tmp_path) == before


def test_a_file_that_is_neither_a_study_nor_a_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}", encoding="utf-8")
    refused(call("report", tmp_path / "other.json"), "bad-input")
    assert not (tmp_path / "other.html").exists()
