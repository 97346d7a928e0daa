"""A study file that could mean something else than it says is refused before any data is opened."""

from pathlib import Path

import pytest

from colonnade.errors import BadInput, BoundsRequired
from colonnade.schema import Category, Numeric
from colonnade.service import study_keys
from colonnade.service.study_file import read
from tests.cli.studies import STUDY, edited, rewrite


def test_a_study_file_is_read_as_it_is_written(tmp_path: Path) -> None:
    study = read(rewrite(tmp_path, STUDY))
    assert study.id == "person_id"
    assert (study.budget.epsilon, study.budget.delta) == (2.0, 1e-6)
    assert list(study.members) == ["bank", "telco"]
    assert dict(study.members["bank"].schema) == {
        "age": Numeric(18, 95, integer=True),
        "segment": Category(["basic", "gold"], other="basic"),
    }
    (asked,) = study.studies
    assert asked.title == "Segments and plans"
    assert asked.repeat == 1
    assert asked.estimator.get_params()["epsilon"] == 1.0


def test_paths_are_relative_to_the_study_file(tmp_path: Path) -> None:
    study = read(rewrite(tmp_path, STUDY))
    assert study.members["bank"].data == (tmp_path / "bank.csv",)
    assert study.ledger_dir == tmp_path / "ledgers"


def test_a_limit_on_memory_is_the_partys(tmp_path: Path) -> None:
    (tmp_path / "bank.csv").write_text("person_id,age,segment\n1,30,gold\n", encoding="utf-8")
    text = edited(('data = "bank.csv"', 'data = "bank.csv"\nmemory = "2GB"'))
    study = read(rewrite(tmp_path, text))
    assert study.members["bank"].party().memory == 2_000_000_000
    assert study.members["telco"].memory is None


def test_a_method_may_be_a_table_with_its_own_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Taking:
        def __init__(self, columns: list[str], *, method: object = "response", epsilon: float) -> None:
            self.columns, self.method, self.epsilon = columns, method, epsilon

    monkeypatch.setattr(study_keys, "estimators", lambda: {"PatternCount": Taking})
    text = edited(('method = "response"', 'method = {name = "gradient", steps = 500, rate = 0.01}'))
    (asked,) = read(rewrite(tmp_path, text)).studies
    assert asked.estimator.method == {"name": "gradient", "steps": 500, "rate": 0.01}


@pytest.mark.parametrize(
    ("old", "new", "key", "suggestion"),
    [
        ('id = "person_id"\n', 'idd = "person_id"\n', "idd", "'id'"),
        ('data = "bank.csv"', 'dat = "bank.csv"', "dat", "'data'"),
        ("upper = 95", "uper = 95", "uper", "'upper'"),
        ("lower = 18, upper = 95", 'levels = ["a", "b"], upper = 95', "upper", "levels"),
        ("\nepsilon = 1.0", "\nepsilonn = 1.0", "epsilonn", "'epsilon'"),
        ('method = "response"', 'metod = "response"', "metod", "'method'"),
        (
            "[parties.telco]\n",
            "[parties.bank.policy]\nmax_epsilom = 1.0\n[parties.telco]\n",
            "max_epsilom",
            "'max_epsilon'",
        ),
    ],
)
def test_an_unknown_key_is_refused_with_a_suggestion(
    tmp_path: Path, old: str, new: str, key: str, suggestion: str
) -> None:
    with pytest.raises(BadInput) as caught:
        read(rewrite(tmp_path, edited((old, new))))
    assert repr(key) in caught.value.message
    assert suggestion in caught.value.remedy
    assert caught.value.spent is None


@pytest.mark.parametrize(
    "column",
    [
        "age = {}",
        "age = 95",
        'age = "numeric"',
        "age = { lower = 18 }",
        "age = { upper = 95 }",
        "age = { integer = true }",
    ]
    + [f"age = {{ lower = 18, upper = {bound} }}" for bound in ("inf", "nan", "true", '"95"')],
)
def test_a_column_without_bounds_is_refused_by_name(tmp_path: Path, column: str) -> None:
    text = edited(("age = { lower = 18, upper = 95, integer = true }", column))
    with pytest.raises(BoundsRequired) as caught:
        read(rewrite(tmp_path, text))
    assert "parties.bank.columns.age" in caught.value.message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[budget]\nepsilon = 2.0\ndelta = 1e-6\n", ""),
        ("epsilon = 2.0", "epsilon = 0"),
        ("epsilon = 2.0", "epsilon = nan"),
        ("epsilon = 2.0", 'epsilon = "2"'),
        ("delta = 1e-6", "delta = 1.0"),
        ('data = "bank.csv"', "data = 3"),
        ('data = "bank.csv"', "data = []"),
        ("upper = 95", "upper = 17"),
        ("integer = true", "integer = 1"),
        ('levels = ["basic", "gold"]', 'levels = ["basic", "basic"]'),
        ('levels = ["basic", "gold"]', 'levels = "basic"'),
        ('estimator = "PatternCount"\n', ""),
        ("\nepsilon = 1.0", "\nepsilon = 1.0\nrepeat = 0"),
        ("\nepsilon = 1.0", "\nepsilon = 1.0\nrepeat = true"),
        ("[parties.bank]", "[parties]\nbank = 3\n[parties.other]"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(tmp_path: Path, old: str, new: str) -> None:
    with pytest.raises(BadInput) as caught:
        read(rewrite(tmp_path, edited((old, new))))
    assert caught.value.spent is None
    assert caught.value.remedy


def test_every_public_estimator_can_be_named_in_a_study_file() -> None:
    import colonnade as cn

    assert study_keys.estimators()["PatternCount"] is cn.PatternCount
