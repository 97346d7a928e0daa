"""Planted strings appear in nothing that anybody is shown: no report, page, log line, receipt, model file or error.

The canaries are ids, values (in and out of bounds, known and unknown levels, a column outside the schema) and keys. Every
estimator runs with every method, and every refusal that can be provoked from outside is provoked.
"""

import base64
import inspect
import logging
import re
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from colonnade.datasets import three_organisations
from colonnade.estimators.study import Study
from colonnade.privacy.randomness import KeyedRandomness
from tests import kit
from tests.cli import studies as files

PEOPLE = 1_200
IDS = [f"idCANARY{number:05d}z" for number in range(PEOPLE)]
WORD = "wordCANARYq8"
NUMBERS = ("918273.6455", "-55443322.875", "7319.0625")
GAUSSIAN = {"epsilon": 1.0, "delta": 1e-5}
COLUMNS = ["bank.age", "telco.bill", "insurer.claims"]


def _tables() -> dict[str, pd.DataFrame]:
    """Ordinary people, and among them some whose values would be recognised anywhere."""
    rng = np.random.default_rng(5)
    level = rng.integers(3, size=PEOPLE)
    tables = {
        "bank": {
            "age": rng.integers(18, 90, PEOPLE).astype(float),
            "segment": np.array(["basic", "gold", "top"], dtype=object)[level],
            "default": np.array(["no", "yes"], dtype=object)[level % 2],
        },
        "telco": {"bill": rng.random(PEOPLE) * 200, "plan": np.array(["pre", "post"], dtype=object)[(level + 1) % 2]},
        "insurer": {"claims": rng.integers(0, 9, PEOPLE), "late": rng.integers(0, 9, PEOPLE)},
    }
    frames = {name: pd.DataFrame({"person": IDS, **columns}) for name, columns in tables.items()}
    frames["bank"].loc[:2, "age"] = [float(NUMBERS[0]), float(NUMBERS[1]), np.nan]
    frames["bank"].loc[3:9, "segment"] = WORD
    frames["bank"]["diary"] = WORD
    frames["telco"].loc[4, "bill"] = float(NUMBERS[2])
    return {name: frame.sample(frac=1, random_state=3) for name, frame in frames.items()}


SCHEMAS = {
    "bank": cn.Schema(
        age=cn.Numeric(18, 95, missing=40),
        segment=cn.Category(["basic", "gold", "top"], other="top"),
        default=cn.Category(["no", "yes"]),
    ),
    "telco": cn.Schema(bill=cn.Numeric(0, 200), plan=cn.Category(["pre", "post"])),
    "insurer": cn.Schema(claims=cn.Numeric(0, 12, integer=True), late=cn.Numeric(0, 12, integer=True)),
}


def _federation(tables: dict[str, pd.DataFrame] | None = None, **options: Any) -> cn.Federation:
    tables = tables or _tables()
    schemas = SCHEMAS | options.pop("schemas", {})
    parties = {name: cn.Party(tables[name], schema=schemas[name]) for name in schemas}
    budget = options.pop("budget", cn.Budget(epsilon=200.0, delta=1e-5))
    return cn.Federation.simulate(
        parties, id="person", budget=budget, test_key=b"canary key " * 2 + b"0123456789", **options
    )


OPEN: dict[str, Any] = {"allow_nonprivate": True, "size": 60}
USUAL: dict[str, Any] = {"target": "telco.bill", "columns": COLUMNS[::2], **GAUSSIAN}


def _usual(kind: type, method: str) -> Any:
    own = inspect.signature(kind).parameters
    return kind(method=method, **{name: value for name, value in USUAL.items() if name in own})


PUBLIC = [kind for name in cn.__all__ if isinstance(kind := getattr(cn, name), type) and issubclass(kind, Study)]
MAKE: dict[type, Callable[[str], Any]] = {kind: partial(_usual, kind) for kind in PUBLIC} | {
    cn.PatternCount: lambda method: cn.PatternCount(["bank.segment", "telco.plan"], method=method, epsilon=1.0),
    cn.GroupBy: lambda method: cn.GroupBy(
        ["bank.segment", "telco.plan"], ["bank.age", "insurer.claims"], method=method, **GAUSSIAN
    ),
    cn.Describe: lambda method: cn.Describe(COLUMNS, method=method, epsilon=1.0),
    cn.Histogram: lambda method: cn.Histogram("bank.segment", method=method, epsilon=1.0),
    cn.Quantiles: lambda method: cn.Quantiles("telco.bill", method=method, epsilon=1.0),
    cn.Moment: lambda method: cn.Moment(["insurer.claims"], 2, method=method, **GAUSSIAN),
    cn.PCA: lambda method: cn.PCA(2, columns=COLUMNS, method=method, **GAUSSIAN),
    cn.LinearRegression: lambda method: cn.LinearRegression(
        "telco.bill",
        columns=["bank.age", "insurer.claims"],
        method=method,
        **(OPEN if method == "coreset" else GAUSSIAN),
    ),
    cn.LogisticRegression: lambda method: cn.LogisticRegression(
        "bank.default", columns=["telco.bill", "insurer.claims"], method=method, **GAUSSIAN
    ),
    cn.KMeans: lambda method: cn.KMeans(
        2, columns=COLUMNS, method=method, **(OPEN if method == "coreset" else GAUSSIAN)
    ),
    cn.KMedian: lambda method: cn.KMedian(2, columns=COLUMNS, method=method, **GAUSSIAN),
    cn.AdditiveClassifier: lambda method: cn.AdditiveClassifier(
        "bank.default", columns=["telco.bill", "insurer.claims"], bins=4, method=method, **GAUSSIAN
    ),
    cn.AdditiveRegressor: lambda method: cn.AdditiveRegressor(
        "telco.bill", columns=["bank.age", "insurer.claims"], bins=4, method=method, **GAUSSIAN
    ),
    cn.Scorecard: lambda method: cn.Scorecard(
        "bank.default", columns=["telco.bill", "insurer.claims"], bins=4, method=method, **GAUSSIAN
    ),
    cn.SyntheticTable: lambda method: cn.SyntheticTable(COLUMNS, bins=4, method=method, **GAUSSIAN),
    cn.Coreset: lambda method: cn.Coreset(
        60, task="kmeans", n_clusters=2, columns=COLUMNS, method=method, allow_nonprivate=True
    ),
}
CASES = [(kind, method) for kind in MAKE for method in kind.methods]  # type: ignore[attr-defined]


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Every long string of random bytes that was drawn: identities, seeds, keys."""
    drawn: list[bytes] = []
    honest = KeyedRandomness.bytes

    def recorded(self: KeyedRandomness, count: int) -> bytes:
        value = honest(self, count)
        if 16 <= count <= 64:
            drawn.append(value)
        return value

    monkeypatch.setattr(KeyedRandomness, "bytes", recorded)
    return drawn


def _unpacked(page: str) -> Iterator[str]:
    """Yield a page, and every drawing inside it."""
    yield page
    for data in re.findall(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)", page):
        yield base64.b64decode(data).decode()


def _assert_clean(texts: list[str], secrets: list[bytes] = []) -> None:  # noqa: B006
    everything = "\n".join(part for text in texts for part in _unpacked(text))
    planted = ["CANARY", "canary key", *NUMBERS, *(f"{float(number):g}" for number in NUMBERS)]
    for canary in planted:
        assert canary not in everything, canary
    for secret in secrets:
        for form in (secret.hex(), base64.b64encode(secret).decode(), repr(secret)[2:-1]):
            assert form not in everything


def _shown(study: Any, federation: cn.Federation, folder: Path) -> list[str]:
    """Everything that a fitted study shows of itself."""
    preview = study.preview(federation)
    study.fit(federation)
    report = study.report(folder / "study.html").read_text(encoding="utf-8")
    texts = [str(preview), preview._repr_html_(), repr(study), study.receipt_, study._repr_html_(), report]
    texts += [study.privacy_.table().to_string(), repr(study.privacy_), repr(study.transcript_), repr(study.plan_)]
    if study.plan_.price is not None:  # an exact release holds what it discloses; that is what it is for
        study.save(folder / "model.json")
        texts += [(folder / "model.json").read_text(encoding="utf-8"), repr(vars(study))]
    return [*texts, repr(federation), federation._repr_html_(), federation.budget().to_string()]


def test_the_search_would_have_found_them():
    drawing = base64.b64encode(f"<svg>{IDS[3]}</svg>".encode()).decode()
    secret = bytes(range(32))
    for text in (
        WORD,
        f"a {IDS[0]} b",
        NUMBERS[1],
        "918274",
        secret.hex(),
        f'<img src="data:image/svg+xml;base64,{drawing}">',
    ):
        with pytest.raises(AssertionError):
            _assert_clean([text], [secret])


@pytest.mark.every(12)
@pytest.mark.parametrize(
    ("kind", "method"),
    [pytest.param(*case, marks=kit.needs_mbi if case[0] is cn.SyntheticTable else ()) for case in CASES],
    ids=[f"{kind.__name__}-{method}" for kind, method in CASES],
)
def test_no_study_shows_anything_that_was_planted(kind, method, secrets, tmp_path, caplog, capfd, monkeypatch):
    monkeypatch.setenv("COLONNADE_PROGRESS", "lines")
    caplog.set_level(logging.DEBUG)
    with _federation() as federation:
        texts = _shown(MAKE[kind](method), federation, tmp_path)
    out, err = capfd.readouterr()
    assert err
    _assert_clean([*texts, out, err, caplog.text], secrets)


def _with(party: str, change: Callable[[pd.DataFrame], pd.DataFrame]) -> dict[str, pd.DataFrame]:
    tables = _tables()
    return {**tables, party: change(tables[party])}


def _twice(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([frame, frame.iloc[:1]])


REFUSALS: dict[str, Callable[[], object]] = {
    "two rows of one person": lambda: _federation(_with("bank", _twice)),
    "values without a rule": lambda: _federation(
        schemas={"bank": cn.Schema(age=cn.Numeric(18, 95), segment=cn.Category(["basic", "gold", "top"]))}
    ),
    "text in a column of numbers": lambda: cn.PCA(1, columns=COLUMNS, **GAUSSIAN).fit(
        _federation(_with("bank", lambda frame: frame.assign(age=WORD)))
    ),
    "numbers in a column of levels": lambda: cn.PatternCount(["bank.segment"], method="response", epsilon=1.0).fit(
        _federation(_with("bank", lambda frame: frame.assign(default=float(NUMBERS[0]))))
    ),
    "lists in a column": lambda: cn.PatternCount(["bank.segment"], method="response", epsilon=1.0).fit(
        _federation(_with("bank", lambda frame: frame.assign(default=[[WORD]] * PEOPLE)))
    ),
    "a missing id column": lambda: _federation(_with("telco", lambda frame: frame.drop(columns="person"))),
    "a missing column": lambda: _federation(_with("telco", lambda frame: frame.drop(columns="bill"))),
    "nobody in common": lambda: _federation(_with("telco", lambda frame: frame.assign(person=range(PEOPLE)))),
    "missing ids": lambda: _federation(_with("telco", lambda frame: frame.assign(person=None))),
    "a column outside the schema": lambda: cn.PatternCount(["bank.diary"], epsilon=1.0).fit(_federation()),
    "too much": lambda: cn.PatternCount(["bank.segment"], method="response", epsilon=300.0).fit(_federation()),
    "a delta above the cap's": lambda: cn.PCA(1, columns=COLUMNS, epsilon=1.0, delta=1e-3).fit(_federation()),
    "no consent": lambda: cn.KMeans(2, method="coreset", size=60).fit(_federation()),
    "a policy without exact releases": lambda: cn.KMeans(2, columns=COLUMNS, method="coreset", **OPEN).fit(
        _federation(policies={"bank": cn.Policy(nonprivate=())})
    ),
    "a policy that caps a release": lambda: cn.PatternCount(["bank.segment"], method="response", epsilon=1.0).fit(
        _federation(policies={"bank": cn.Policy(max_epsilon=0.1)})
    ),
    "an event-level study": lambda: cn.Moment(["insurer.claims"], 2, epsilon=1.0).fit(
        _federation(policies={"insurer": cn.Policy(event_level=False)})
    ),
    "a number that is no whole one": lambda: cn.Moment(["telco.bill"], 2, epsilon=1.0).fit(_federation()),
    "too few people": lambda: cn.PatternCount(["bank.segment"], method="response", epsilon=1.0).fit(
        _federation(policies={"bank": cn.Policy(min_people=10_000)})
    ),
}


@pytest.mark.every(6)
@pytest.mark.parametrize("name", REFUSALS)
def test_no_refusal_quotes_anything_that_was_planted(name, secrets, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    with pytest.raises(cn.ColonnadeError) as caught:
        REFUSALS[name]()
    out, err = capfd.readouterr()
    error = caught.value
    shown = [str(error), repr(error), error.message, error.remedy, "".join(traceback.format_exception(error)), out, err]
    quoted = [line for text in shown for line in text.splitlines() if not line.startswith("    ")]  # lines of this file
    _assert_clean([*quoted, caplog.text], secrets)


def test_the_command_line_shows_nothing_that_was_planted(tmp_path):
    study = files.make(tmp_path)
    shown = [files.call(verb, study).output for verb in ("preview", "run", "report", "run")]
    shown += [files.call("ledger", "show", tmp_path / "ledgers").output]
    shown.append(study.with_suffix(".html").read_text(encoding="utf-8"))
    everything = "\n".join(part for text in shown for part in _unpacked(text))
    assert "Segments and plans" in everything
    assert files.CANARY not in everything


@pytest.mark.full
def test_the_demonstration_and_its_report_name_none_of_its_people(tmp_path):
    path = tmp_path / "demo.html"
    result = files.call("demo", "--people", 1_500, "--report", path)
    assert result.exit_code == 0, result.output
    ids = {
        str(one) for organisation in three_organisations(people=1_500).values() for one in organisation.frame.iloc[:, 0]
    }
    everything = "\n".join(
        part for text in (result.output, path.read_text(encoding="utf-8")) for part in _unpacked(text)
    )
    assert len(ids) > 1_500
    assert not ids & set(re.findall(r"(?<![\d.])\d{8}(?![\d.])", everything))
