"""``[align]`` in a study file: rows are matched before studies run, once, and a preview writes nothing."""

from pathlib import Path

import pytest

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


def test_a_preview_aligns_on_copies_and_writes_nothing(tmp_path: Path) -> None:
    study = make(tmp_path, ALIGNED)
    assert call("preview", study).exit_code == 0
    assert heads(tmp_path) == {}
    assert call("run", rewrite(tmp_path, STUDY)).exit_code == 0
    before = heads(tmp_path)
    assert call("preview", rewrite(tmp_path, ALIGNED)).exit_code == 0
    assert heads(tmp_path) == before


def test_a_hidden_size_and_a_public_list_can_be_asked_for(tmp_path: Path) -> None:
    for table in ('size = "hidden"', f'mode = "cohort"\nids = {list(range(PEOPLE // 2))}', 'mode = "union"'):
        folder = tmp_path / str(len(table))
        folder.mkdir()
        text = STUDY.replace("[[study]]", f"[align]\n{table}\n\n[[study]]")
        text = text.replace('method = "response"', 'method = "secure"')
        assert call("run", make(folder, text)).exit_code == 0


@pytest.mark.parametrize("table", ["epsilom = 0.25", 'mode = "join"', 'size = "noisy"', "progress = 1"])
def test_what_cannot_be_meant_is_refused(tmp_path: Path, table: str) -> None:
    text = STUDY.replace("[[study]]", f"[align]\n{table}\n\n[[study]]")
    refused(call("run", make(tmp_path, text)), "bad-input")
