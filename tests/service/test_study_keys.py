"""Every key of a study file is read, is in the JSON schema, and is on the reference page."""

import datetime as dt
import json
import tomllib
from pathlib import Path

import pytest

import colonnade as cn
from colonnade.service import study_keys
from colonnade.service.study_file import read, read_for_coordinator
from colonnade.service.study_keys import json_schema, reference_page
from tests.cli.studies import STUDY, call, edited, make, refused, rewrite

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")

WHOLE = edited(
    ('id = "person_id"', 'id = { bank = "person_id", telco = "person_id" }\ntitle = "Shops"\npurpose = "Plan shops"'),
    ('ledger_dir = "ledgers"', 'ledger_dir = "ledgers"\ncompute_nodes = ["auditor"]\ncollusion = 1'),
    ("[budget]", '[split]\ntest = 0.25\nrepeat = 1\n\n[tighten]\ncolumns = ["bank.age"]\nepsilon = 0.5\n\n[budget]'),
    ("\nepsilon = 1.0", '\nepsilon = 1.0\nrepeat = 1\npurpose = "Plan the shops of 2027"'),
)


def of_json(value: object) -> object:
    """A document of TOML as JSON has it: dates are texts."""
    if isinstance(value, dict):
        return {key: of_json(one) for key, one in value.items()}
    if isinstance(value, list):
        return [of_json(one) for one in value]
    return value.isoformat() if isinstance(value, dt.date) else value


def fits_schema(text: str) -> bool:
    return jsonschema.Draft202012Validator(json_schema()).is_valid(of_json(tomllib.loads(text)))


def test_the_command_prints_the_schema_which_is_one() -> None:
    printed = json.loads(call("schema").stdout)
    assert printed == json_schema()
    jsonschema.Draft202012Validator.check_schema(printed)


@pytest.mark.parametrize("text", [STUDY, WHOLE], ids=["plain", "whole"])
def test_what_is_read_fits_the_schema(tmp_path: Path, text: str) -> None:
    read(rewrite(tmp_path, text))
    assert fits_schema(text)


WRONG = [
    (STUDY, 'id = "person_id"', 'idd = "person_id"'),
    (STUDY, "delta = 1e-6", "detla = 1e-6"),
    (STUDY, 'data = "bank.csv"', 'data = "bank.csv"\ncolour = "red"'),
    (STUDY, "upper = 95", "uper = 95"),
    (STUDY, 'method = "response"', 'method = "magic"'),
    (STUDY, 'method = "response"', 'method = { name = "response", steps = 3 }'),
    (STUDY, '"PatternCount"', '"PaternCount"'),
    (WHOLE, "test = 0.25", 'test = "some"'),
    (WHOLE, "test = 0.25", "share = 0.25"),
    (WHOLE, "collusion = 1", "collusion = -1"),
    (WHOLE, 'compute_nodes = ["auditor"]', 'compute_nodes = "auditor"'),
    (WHOLE, 'purpose = "Plan shops"', "purpose = 3"),
    (WHOLE, '"person_id", telco = "person_id"', '"person_id", telco = 3'),
]


@pytest.mark.parametrize(("text", "old", "new"), WRONG, ids=[new for _, _, new in WRONG])
def test_what_the_schema_refuses_the_reader_refuses_too(tmp_path: Path, text: str, old: str, new: str) -> None:
    wrong = edited((old, new), text=text)
    assert not fits_schema(wrong)
    study = make(tmp_path, wrong)
    refused(call("preview", study), "bad-input")


def test_the_page_lists_every_key() -> None:
    page = reference_page()
    tables = [
        study_keys.FILE,
        study_keys.COORDINATOR_FILE,
        study_keys.BUDGET,
        study_keys.MEMBER,
        study_keys.STUDY,
        study_keys.ALIGN,
        study_keys.SPLIT,
        study_keys.TIGHTEN,
        study_keys.POLICY,
        *study_keys.COLUMNS.values(),
        *(study_keys.study_keys(kind) for kind in study_keys.estimators().values()),
        *(keys for kind in study_keys.estimators().values() for keys in study_keys.method_keys(kind).values()),
    ]
    assert [key.name for keys in tables for key in keys if f"| `{key.name}` |" not in page] == []
    assert [key.name for keys in tables for key in keys if not key.words] == []
    assert [name for name in study_keys.estimators() if f"### `{name}`" not in page] == []


def test_a_federation_is_opened_as_the_file_says(tmp_path: Path) -> None:
    study = read(make(tmp_path, WHOLE))
    assert study.id == {"bank": "person_id", "telco": "person_id"}
    with study.federation(spend=False) as federation:
        assert federation._driver.computing.nodes == ("auditor",)
        fit_on, held_out = study.parts(federation)
        assert fit_on.people + held_out.people == federation.people
        assert fit_on.people < federation.people


def test_an_id_for_a_stranger_is_refused_and_so_is_a_party_without_one(tmp_path: Path) -> None:
    with pytest.raises(cn.BadInput, match="'telko'"):
        read(rewrite(tmp_path, edited(('id = "person_id"', 'id = { bank = "a", telko = "b" }'))))
    with pytest.raises(cn.BadInput, match="id needs telco"):
        read(rewrite(tmp_path, edited(('id = "person_id"', 'id = { bank = "a" }'))))


def test_a_coordinators_file_takes_a_split_and_words_but_no_compute_nodes(tmp_path: Path) -> None:
    text = (
        'federation = "federation.toml"\npurpose = "Shops"\n[split]\ntest = 0.2\n' + STUDY[STUDY.index("[[study]]") :]
    )
    file = read_for_coordinator(tmp_path / "study.toml", text)
    assert file.split == {"test": 0.2, "repeat": 1}
    assert file.studies[0].purpose == "Shops"
    assert fits_schema(text)
    with pytest.raises(cn.BadInput, match="'compute_nodes'"):
        read_for_coordinator(tmp_path / "study.toml", f'compute_nodes = ["auditor"]\n{text}')
