"""``[align]`` in a study file: rows are matched before studies run, once, and a preview writes nothing."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from colonnade.party.party import Party
from colonnade.party.table.sources import Source
from colonnade.privacy.randomness import SystemRandomness
from tests.cli.studies import PEOPLE, STUDY, call, heads, make, refused, rewrite

ALIGNED = STUDY.replace("[[study]]", "[align]\nepsilon = 0.25\n\n[[study]]")


def test_a_study_file_aligns_once_and_then_uses_what_is_kept(tmp_path: Path) -> None:
    study = make(tmp_path, ALIGNED)
    assert call("run", study).exit_code == 0
    before = heads(tmp_path)
    again = call("run", study)
    assert again.exit_code == 0
    assert heads(tmp_path) == before
    assert list((tmp_path / "ledgers" / "bank.alignments").glob("*.alignment"))


def test_a_preview_writes_nothing_and_prices_the_matching(tmp_path: Path) -> None:
    study = make(tmp_path, ALIGNED)
    total = json.loads(call("preview", study, "--json").output)["total"]
    assert [row["this file"] for row in total] == pytest.approx([0.75, 0.75], rel=1e-5)
    assert heads(tmp_path) == {}
    assert call("run", rewrite(tmp_path, STUDY)).exit_code == 0
    before = heads(tmp_path)
    assert call("preview", rewrite(tmp_path, ALIGNED)).exit_code == 0
    assert heads(tmp_path) == before


@contextmanager
def closed_tables(columns: tuple[str, ...] = ()) -> Iterator[None]:
    """Whoever reads a row of a table, beyond these columns, or draws from a party's randomness is found out."""
    honest = Source.batches

    def batches(self: Source, wanted: list[str], **more: object) -> object:
        assert set(wanted) <= set(columns), wanted
        return honest(self, wanted, **more)

    def nothing(*_: object, **__: object) -> None:
        raise AssertionError("a preview drew")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Source, "batches", batches)
        patch.setattr(Party, "check", nothing)
        patch.setattr(SystemRandomness, "bytes", nothing)
        patch.setattr("colonnade.party.table.private_table.PrivateTable.__init__", nothing)
        yield


SPLIT = "\n[split]\ntest = 0.25\n"
TIGHTEN = '\n[tighten]\ncolumns = ["bank.age"]\nepsilon = 0.25\ndelta = 1e-7\n'


@pytest.mark.parametrize("table", ["epsilon = 0.25", 'size = "hidden"', 'mode = "cohort"\nids = [1, 2, 3]'])
@pytest.mark.parametrize("more", ["", SPLIT])
def test_a_preview_of_rows_to_be_matched_reads_no_data_and_draws_nothing(tmp_path: Path, table: str, more: str) -> None:
    """Before, it matched the real ids on copies of the ledgers and printed a fresh noisy count each time."""
    study = make(tmp_path, STUDY.replace("[[study]]", f"[align]\n{table}\n{more}\n[[study]]"))
    with closed_tables():
        first, second = call("preview", study), call("preview", study)
    assert first.exit_code == 0, first.output
    assert first.output == second.output
    people = (("at", "nobody knows yet how many people"), ("cohort", ""))["cohort" in table][1]
    assert people in " ".join(first.output.split())


def test_a_preview_of_matched_rows_is_about_the_number_that_was_released_and_what_is_paid_costs_nothing(
    tmp_path: Path,
) -> None:
    study = make(tmp_path, ALIGNED.replace("[[study]]", SPLIT + "[[study]]"))
    assert call("run", study).exit_code == 0
    with closed_tables():
        found = json.loads(call("preview", study, "--json").output)
    assert found["people_known"]
    assert 0 < abs(found["people"] - PEOPLE) + 1 < 100
    assert [row["this file"] for row in found["total"]] == [0.0, 0.0]


def test_without_align_a_preview_reads_no_id_either_and_says_what_it_assumes(tmp_path: Path) -> None:
    """Before, it read every party's ids and printed how many all of them have."""
    study = make(tmp_path, STUDY.replace("[[study]]", SPLIT + TIGHTEN + "[[study]]"))
    with closed_tables():
        shown = call("preview", study)
        assert shown.exit_code == 0, shown.output
        text = " ".join(shown.output.split())
        assert "nobody knows yet how many people all parties have: this is for 10,000. A capacity in a policy" in text
        assert "Fitted on about 7,500 of 10,000 people" in text
        assert not json.loads(call("preview", study, "--json").output)["people_known"]
    assert call("run", study).exit_code == 0
    with closed_tables():
        found = json.loads(call("preview", study, "--json").output)
        assert (found["people_known"], found["people"]) == (True, PEOPLE)
        assert [row["this file"] for row in found["total"]] == [0.0, 0.0]


def test_a_report_on_rows_that_were_never_matched_matches_nobody(tmp_path: Path) -> None:
    refused(call("report", make(tmp_path, ALIGNED)), "bad-input")
    assert heads(tmp_path) == {}
