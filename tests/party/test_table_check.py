"""A table that does not fit its schema is refused to its owner, with counts and what to declare; once declared, it is right."""

import datetime as dt
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.party.table.checking import NOTHINGS, check_table
from colonnade.party.table.sources import Source
from colonnade.service.party_folder import PartyFolder
from tests import kit
from tests.cli.studies import call
from tests.party.test_sources import KINDS, make

PEOPLE = 5_000
CANARY = "Zq4canaryW"
TOKYO = ZoneInfo("Asia/Tokyo")


def balances() -> np.ndarray:
    return kit.generator("balances").gamma(2, 700, PEOPLE)


def segments() -> np.ndarray:
    return kit.generator("segments").choice(["basic", "gold", "platinum"], PEOPLE, p=[0.6, 0.3, 0.1])


def other() -> cn.Party:
    frame = pd.DataFrame({"id": range(PEOPLE), "y": kit.generator("other").random(PEOPLE)})
    return cn.Party(frame, schema=cn.Schema(y=cn.Numeric(0, 1)))


def opened(bank: cn.Party) -> cn.Federation:
    budget = cn.Budget(epsilon=1_000.0, delta=1e-6)
    return cn.Federation.simulate({"bank": bank, "other": other()}, id="id", budget=budget)


def written(folder: Path, column: str, cells: object, **options) -> Path:
    path = folder / "bank.csv"
    pd.DataFrame({"id": range(PEOPLE), column: cells}).to_csv(path, index=False, **options)
    return path


# The four messy files -----------------------------------------------------------------------------------


def refused(bank: cn.Party, *, counts: str, remedy: str) -> None:
    with pytest.raises(cn.SchemaMismatch) as refusal:
        opened(bank)
    assert counts in refusal.value.message
    assert remedy in refusal.value.remedy
    assert refusal.value.spent is None


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", KINDS)
def test_thousands_separators(kind: str, tmp_path: Path) -> None:
    true = balances()
    frame = pd.DataFrame({"id": range(PEOPLE), "balance": [f"{balance:,.2f}" for balance in true]})
    data = make(kind, frame, tmp_path)
    marked = int((true.round(2) >= 1_000).sum())
    refused(
        cn.Party(data, schema=cn.Schema(balance=cn.Numeric(0, 100_000))),
        counts=f"balance: {marked:,} of 5,000 values",
        remedy="balance: cn.Numeric(0, 100000, thousands=',').",
    )
    declared = cn.Party(data, schema=cn.Schema(balance=cn.Numeric(0, 100_000, thousands=",")))
    with opened(declared) as federation:
        mean = cn.PCA(1, epsilon=200.0, delta=1e-6).fit(federation).mean_[0]
    assert mean == pytest.approx(true.mean(), abs=20)


def test_question_marks_for_missing_numbers(tmp_path: Path) -> None:
    true, gone = balances(), kit.generator("gone").random(PEOPLE) < 0.087
    path = written(tmp_path, "balance", np.where(gone, "?", true.round(2).astype(str)))
    refused(
        cn.Party(path, schema=cn.Schema(balance=cn.Numeric(0, 100_000))),
        counts=f"balance: {gone.sum():,} of 5,000 values",
        remedy="balance: cn.Numeric(0, 100000, na_values=('?',), missing=...).",
    )
    column = cn.Numeric(0, 100_000, missing=1_000, indicator=True, na_values=["?"])
    with opened(cn.Party(path, schema=cn.Schema(balance=column))) as federation:
        pca = cn.PCA(1, epsilon=200.0, delta=1e-6).fit(federation)
    mean, share = pca.mean_[:2]
    assert list(pca.feature_names_in_[:2]) == ["bank.balance", "bank.balance_missing"]
    assert mean == pytest.approx(np.where(gone, 1_000, true).mean(), abs=20)
    assert (mean - 1_000 * share) / (1 - share) == pytest.approx(true[~gone].mean(), abs=30)


@pytest.mark.parametrize("rule", ["excluded", "level"])
def test_empty_cells_of_a_category(rule: str, tmp_path: Path) -> None:
    true = pd.Series(segments(), dtype=object)
    true[kit.generator("empty").random(PEOPLE) < 0.1] = None
    path = written(tmp_path, "segment", true)
    refused(
        cn.Party(path, schema=cn.Schema(segment=cn.Category(["basic", "gold", "platinum"]))),
        counts=f"segment: {true.isna().sum():,} of 5,000 values",
        remedy=f"cn.Category(['basic', 'gold', 'platinum'], missing={rule!r})",
    )
    declared = cn.Category(["basic", "gold", "platinum"], missing=rule)
    with opened(cn.Party(path, schema=cn.Schema(segment=declared))) as federation:
        for method in ("secure", "response", "independent"):
            counts = cn.PatternCount(["bank.segment"], method=method, epsilon=20.0).fit(federation).counts_
            expected = true.fillna("missing").value_counts().reindex([level for (level,) in counts.index])
            np.testing.assert_allclose(counts, expected, atol=10)


# Other files of the same sort -----------------------------------------------------------------------------------


def test_decimal_commas_behind_semicolons_in_another_encoding(tmp_path: Path) -> None:
    true = balances()
    path = tmp_path / "bank.csv"
    rows = pd.DataFrame({"id": range(PEOPLE), "größe": true.round(2), "ort": "Köln"})
    rows.to_csv(path, index=False, sep=";", decimal=",", encoding="cp1252")
    schema = cn.Schema({"größe": cn.Numeric(0, 100_000, decimal=","), "ort": cn.Category(["Köln"])})
    with pytest.raises(cn.SchemaMismatch, match="'größe', 'ort'") as refusal:
        cn.Party(path, schema=schema)
    assert "separator=';'?" in refusal.value.remedy
    with pytest.raises(cn.SchemaMismatch) as refusal:
        cn.Party(path, schema=schema, separator=";")
    assert "is not valid utf-8 text: encoding='cp1252'?" in refusal.value.remedy
    bank = cn.Party(path, schema=schema, separator=";", encoding="cp1252")
    assert bank.check("id").fits
    with opened(bank) as federation:
        assert cn.PCA(1, epsilon=200.0, delta=1e-6).fit(federation).mean_[0] == pytest.approx(true.mean(), abs=20)


@pytest.mark.parametrize("column", [cn.Numeric(0, 1), cn.Category(["a", "b"]), cn.Date("2020-01-01", "2021-01-01")])
def test_an_empty_column_is_missing_throughout(column) -> None:
    for cells in ([None] * 9, pd.array([None] * 9, dtype="Float64"), [""] * 9):
        frame = pd.DataFrame({"x": cells})
        if isinstance(column, cn.Date) and str(frame.x.dtype) == "Float64":
            continue
        with pytest.raises(cn.SchemaMismatch, match=r"x: 9 of 9 values \(100.0%\) are missing"):
            check_table(Source(frame), cn.Schema(x=column)).refuse()
    for declared in (cn.Numeric(0, 1, missing=0), cn.Category(["a"], missing="level")):
        check_table(Source(pd.DataFrame({"x": [None] * 9})), cn.Schema(x=declared)).refuse()


def test_dates_are_read_from_texts_and_from_typed_columns() -> None:
    days = [dt.date(2020, 1, 5), dt.date(2019, 12, 31), dt.date(2024, 2, 29)]
    schema = cn.Schema(d=cn.Date("2020-01-01", "2024-12-31"))
    for cells in (
        pa.array(days),
        pa.array(days, pa.date64()),
        pa.array([dt.datetime.combine(day, dt.time(3), TOKYO) for day in days], pa.timestamp("us", "Asia/Tokyo")),
        pa.array([day.isoformat() for day in days]),
        pa.array([f" {day.isoformat()} 23:59 " for day in days]),
    ):
        found = check_table(Source(pa.table({"d": cells})), schema)
        assert found.fits
        assert found.columns[0].clipped == 1
    wrong = check_table(Source(pa.table({"d": ["2020-13-01", "01.02.2020", "2023-02-29", "2020-05-05"]})), schema)
    assert wrong.columns[0].unreadable == 3
    with pytest.raises(cn.SchemaMismatch, match=r"cn\.Date needs dates"):
        cn.Party(pa.table({"d": [20200101]}), schema=schema)


# What the check says -----------------------------------------------------------------------------------


def messy() -> cn.Party:
    frame = pd.DataFrame(
        {
            "id": ["1", "2", "2", None, "5", "6"],
            "age": ["31", "?", "", "430", "n/a", CANARY],
            "segment": ["gold", "GOLD ", CANARY, None, "basic", "?"],
            "flat": [7.0] * 6,
            "tiny": np.linspace(0.001, 0.002, 6),
            "listed": ["a", "b", "q", "r", "s", "t"],
        }
    )
    return cn.Party(
        frame,
        schema=cn.Schema(
            age=cn.Numeric(18, 95, missing=40, indicator=True),
            segment=cn.Category(["basic", "gold"]),
            flat=cn.Numeric(0, 10),
            tiny=cn.Numeric(0, 1_000),
            listed=cn.Category(["a", "b"], other="else"),
        ),
    )


def test_a_check_counts_what_is_missing_unreadable_unknown_clipped_constant_and_repeated() -> None:
    found = messy().check("id")
    age, segment, flat, tiny, listed = found.columns
    assert (age.missing, age.unreadable, age.clipped, age.words) == (1, 3, 1, ("?", "n/a"))
    assert (segment.missing, segment.unknown, segment.nearly, segment.words) == (1, 3, 1, ("?",))
    assert flat.constant
    assert tiny.used == pytest.approx(1e-4)
    assert any("0.01% of the declared range" in note for note in tiny.notes)
    assert listed.unknown == 4
    assert any("count as another one" in note for note in listed.notes)
    assert (found.ids.people, found.ids.missing, found.ids.repeated, found.ids.most) == (4, 1, 1, 2)
    assert [name for name, _, _ in found.faults] == ["age", "segment", "segment", "id", "id"]
    assert not found.fits
    assert "age_missing" not in found.frame().index  # it is not stored


def test_a_check_is_shown_as_a_table_and_quotes_no_value() -> None:
    found = messy().check("id")
    with pytest.raises(cn.SchemaMismatch) as refusal:
        found.refuse("bank")
    for text in (
        str(found),
        found.to_html(),
        found._repr_html_(),
        repr(found),
        str(refusal.value),
        refusal.value.remedy,
    ):
        assert CANARY not in text
    assert "6 rows, 4 ids, 1.25 rows per id, at most 2" in str(found)
    assert "refused  age: 3 of 6 values (50.0%) are not readable as numbers" in str(found)
    assert "na_values=('?', 'n/a')" in str(found)
    assert "<td>3</td>" in found.to_html()
    assert {"?", "n/a"} <= set(NOTHINGS)


def test_what_a_check_suggests_for_numbers_reads_the_table() -> None:
    cells = ["1.234,5", "7", "N/A", "-"]
    column = cn.Numeric(0, 5_000, missing=0, thousands=",", na_values=["x"])
    found = check_table(Source(pd.DataFrame({"x": cells})), cn.Schema(x=column))
    ((_, _, remedy),) = found.faults
    suggested = eval(remedy)  # what an owner would paste
    assert suggested == cn.Numeric(0, 5_000, missing=0, thousands=".", decimal=",", na_values=["x", "N/A", "-"])
    assert check_table(Source(pd.DataFrame({"x": cells})), cn.Schema(x=suggested)).fits


def test_a_table_that_fits_says_so_and_refuses_nothing() -> None:
    frame = pd.DataFrame({"id": [1, 2, 3], "x": [1.0, 2.0, None]})
    found = cn.Party(frame, schema=cn.Schema(x=cn.Numeric(0, 9, missing=0))).check("id")
    found.refuse()
    assert found.fits
    assert str(found).endswith("The table fits its schema.")
    assert "missing" not in str(found.faults)


# At the command line, and when a party is served ------------------------------------------------------------------------------


def folder_of(path: Path, data: Path, columns: str, *options: str) -> PartyFolder:
    result = call("party", "init", path, "--name", "bank", "--data", data, "--id", "id", *options)
    assert result.exit_code == 0, result.output
    schema = (path / "schema.toml").read_text()
    (path / "schema.toml").write_text(schema.replace("[columns]", f"[columns]\n{columns}"))
    return PartyFolder(path)


def test_a_schema_file_declares_rules_dates_and_how_files_are_written(tmp_path: Path) -> None:
    data = written(tmp_path, "balance", balances())
    folder = folder_of(
        tmp_path / "bank",
        data,
        'balance = { lower = 0, upper = 9, integer = true, missing = 3, indicator = true, na_values = ["?", -1], '
        'decimal = "," }\n'
        'segment = { levels = ["a", "b"], missing = "excluded", other = "b", na_values = ["?"] }\n'
        "opened = { first = 2020-01-01, last = 2024-12-31, missing = 2022-02-02 }\n",
    )
    assert dict(folder.schema()) == dict(
        cn.Schema(
            balance=cn.Numeric(0, 9, integer=True, missing=3, indicator=True, na_values=["?", -1], decimal=","),
            segment=cn.Category(["a", "b"], missing="excluded", other="b", na_values=["?"]),
            opened=cn.Date("2020-01-01", "2024-12-31", missing="2022-02-02"),
        )
    )
    for wrong in ("missing = 10", "missing = 0.5", "thousand = 3", 'na_values = "?"', "indicator = 1"):
        text = (folder.path / "schema.toml").read_text()
        (folder.path / "schema.toml").write_text(text.replace("missing = 3", wrong))
        with pytest.raises(cn.BadInput):
            folder.schema()
        (folder.path / "schema.toml").write_text(text)
