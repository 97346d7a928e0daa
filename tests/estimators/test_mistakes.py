"""Mistakes that people make, and what they are told: what is wrong, where, and what to type instead.

Each row is one mistake: the call, words that the message must have (the thing, and the place: party, column, parameter, file or
line), and words that the remedy must have.
"""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.service.study_file import read
from tests.cli.studies import edited, rewrite
from tests.federations import SCHEMAS, federation, frames, joined

SOURCES = Path(cn.__file__).parent
SECRET = "Xq7canaryZ"
AGES = pd.DataFrame({"person_id": [1, 2], "age": [31, 64]})
AGE = cn.Schema(age=cn.Numeric(18, 95))
CITY = cn.Schema(city=cn.Category(["Köln", "Bonn"]))
GAUSSIAN = {"epsilon": 1.0, "delta": 1e-6}
CAP = cn.Budget(4.0, 1e-5)


class Mistake(NamedTuple):
    """A call that is refused, and what the refusal must say."""

    what: str
    call: Callable[["Bench"], object]
    says: tuple[str, ...]
    instead: tuple[str, ...]
    never: tuple[str, ...] = ()


class Bench:
    """What mistakes are made with: files in a folder, an open federation, and fitted models."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.open = federation(policies={"telco": cn.Policy(max_epsilon=2.0)})
        self.rows = joined(frames())
        self.linear = cn.LinearRegression("telco.bill", columns=["bank.age"], **GAUSSIAN).fit(self.open)
        self.counts = cn.PatternCount(["bank.segment"], epsilon=0.5, method="response").fit(self.open)
        self.moments = self.open.moments(["bank.age", "telco.bill"], **GAUSSIAN)

    def csv(self, text: str, encoding: str = "utf-8") -> Path:
        (self.folder / "table.csv").write_bytes(text.encode(encoding))
        return self.folder / "table.csv"

    def binary(self, name: str, content: bytes) -> Path:
        (self.folder / name).write_bytes(content)
        return self.folder / name

    def study(self, *pairs: tuple[str, str]) -> object:
        return read(rewrite(self.folder, edited(*pairs)))


def parties(**tables: pd.DataFrame) -> dict[str, cn.Party]:
    found = {**{name: frames()[name] for name in ("bank", "telco")}, **tables}
    return {name: cn.Party(frame, schema=SCHEMAS[name]) for name, frame in found.items()}


def simulate(given: Any = None, **more: Any) -> cn.Federation:
    return cn.Federation.simulate(parties() if given is None else given, **{"id": "person_id", "budget": CAP, **more})


def opened(table: Any, schema: cn.Schema) -> cn.Federation:
    return simulate({"bank": cn.Party(table, schema=schema)})


DATA = [
    Mistake("no schema", lambda _: cn.Party(AGES, schema=None), ("schema",), ("cn.Schema(age=",)),
    Mistake("a plain schema", lambda _: cn.Party(AGES, schema={"age": (0, 1)}), ("schema",), ("cn.Schema(age=",)),
    Mistake(
        "semicolons",
        lambda b: cn.Party(b.csv("person_id;age\n1;31\n"), schema=AGE),
        ("'age'",),
        ("separator=';'", "table.csv"),
    ),
    Mistake("tabs", lambda b: cn.Party(b.csv("person_id\tage\n1\t31\n"), schema=AGE), ("'age'",), (r"separator='\t'",)),
    Mistake(
        "Latin-1",
        lambda b: opened(b.csv("person_id,city\n1,Köln\n2,Bonn\n", "latin-1"), CITY),
        ("'bank'", "city: "),
        ("encoding='cp1252'", "table.csv"),
    ),
    Mistake(
        "UTF-16",
        lambda b: cn.Party(b.csv("person_id,age\n1,31\n", "utf-16"), schema=AGE),
        ("'age'",),
        ("encoding='utf-16'",),
    ),
    Mistake("no such file", lambda b: cn.Party(b.folder / "absent.csv", schema=AGE), ("'absent.csv'",), ("path",)),
    Mistake("a spreadsheet", lambda b: cn.Party(b.folder / "a.xlsx", schema=AGE), ("'a.xlsx'",), (".parquet", ".csv")),
    Mistake(
        "half a parquet file",
        lambda b: cn.Party(b.binary("half.parquet", b"PAR1"), schema=AGE),
        ("'half.parquet'",),
        ("complete",),
    ),
    Mistake("an array", lambda _: cn.Party(np.zeros((2, 2)), schema=AGE), ("ndarray",), ("pandas", ".csv")),
    Mistake("no data", lambda _: cn.Party([], schema=AGE), ("empty",), ("pandas", ".csv")),
    Mistake(
        "a column that is not there",
        lambda _: cn.Party(AGES, schema=cn.Schema(height=cn.Numeric(0, 3))),
        ("'height'",),
        ("cn.Schema",),
    ),
    Mistake(
        "text for a number",
        lambda _: opened(AGES.assign(age=[SECRET, "31"]), AGE),
        ("'bank'", "age: "),
        ("na_values",),
    ),
    Mistake("empty cells", lambda _: opened(AGES.assign(age=[None, 31]), AGE), ("'bank'", "age: "), ("missing=",)),
    Mistake(
        "an unlisted level",
        lambda _: opened(pd.DataFrame({"person_id": [1], "city": [SECRET]}), CITY),
        ("'bank'", "city: "),
        ("other=",),
    ),
    Mistake("a level twice", lambda _: cn.Category(["no", "no"]), ("levels",), ("once",)),
    Mistake("levels as a text", lambda _: cn.Category("no"), ("levels",), ("[",)),
    Mistake("bounds the wrong way", lambda _: cn.Numeric(95, 18), ("lower", "upper"), ("cn.Numeric(",)),
    Mistake("no bounds", lambda _: cn.Numeric(), ("bound",), ("cn.Numeric(0, 120)",)),
    Mistake("an endless bound", lambda _: cn.Numeric(0, np.inf), ("finite",), ("cn.Numeric(0, 120)",)),
    Mistake("dates the wrong way", lambda _: cn.Date("2024-01-01", "2020-01-01"), ("first", "last"), ("cn.Date(",)),
    Mistake("a date as people write it", lambda _: cn.Date("31.12.2020", "2024-01-01"), ("date",), ("2020-",)),
    Mistake("a type for a column", lambda _: cn.Schema(age=float), ("'age'",), ("cn.Numeric(",)),
    Mistake("version 0", lambda _: cn.Party(AGES, schema=AGE, version=0), ("version",), ("version=",)),
    Mistake("two separators", lambda _: cn.Party(AGES, schema=AGE, separator=";;"), ("separator",), ('separator=";"',)),
    Mistake("no encoding", lambda _: cn.Party(AGES, schema=AGE, encoding="latin-99"), ("encoding",), ("encoding=",)),
]

FEDERATIONS = [
    Mistake("another id column", lambda _: simulate(id="customer"), ("'bank'", "'customer'"), ("id=",)),
    Mistake("an id for one party", lambda _: simulate(id={"bank": "person_id"}), ("'telco'",), ("id=",)),
    Mistake("an id of a stranger", lambda _: simulate(id={"bak": "person_id"}), ("'bak'",), ("bank, telco",)),
    Mistake(
        "several rows per person",
        lambda _: simulate(parties(bank=frames()["bank"].assign(person_id=SECRET))),
        ("'bank'", "repeated"),
        ("one row",),
    ),
    Mistake(
        "nobody in common",
        lambda _: simulate(parties(bank=frames()["bank"].assign(person_id=range(-400, -99)))),
        ("in common",),
        ("id",),
    ),
    Mistake("no party", lambda _: simulate({}), ("mapping",), ('"bank"', "cn.Party(")),
    Mistake("frames for parties", lambda _: simulate(frames()), ("cn.Party",), ("schema=",)),
    Mistake("a name with a space", lambda _: simulate({"my bank": parties()["bank"]}), ("'my bank'",), ("'my_bank'",)),
    Mistake("one node as a text", lambda _: simulate(compute_nodes="auditor"), ("compute_nodes",), ("[",)),
    Mistake("a node called bank", lambda _: simulate(compute_nodes=["bank"]), ("'bank'",), ("name of its own",)),
    Mistake("collusion below 0", lambda _: simulate(collusion=-1), ("collusion",), ("collusion=1",)),
    Mistake("a number for a budget", lambda _: simulate(budget=4.0), ("budget", "cn.Budget"), ("cn.Budget(",)),
    Mistake("a policy of a stranger", lambda _: simulate(policies={"bak": cn.Policy()}), ("'bak'",), ("bank",)),
    Mistake("a policy as a mapping", lambda _: simulate(policies={"bank": {}}), ("policies",), ("cn.Policy(",)),
    Mistake("a budget of 0", lambda _: cn.Budget(0), ("epsilon",), ("epsilon=",)),
    Mistake("a budget as a text", lambda _: cn.Budget("2"), ("epsilon",), ("epsilon=",)),
    Mistake("delta of 1", lambda _: cn.Budget(1.0, 1.0), ("delta",), ("delta=",)),
    Mistake("a rule that is none", lambda _: cn.Policy(allow=["PCAA"]), ("'PCAA'",), ("PCA",)),
    Mistake("nobody is enough", lambda _: cn.Policy(min_people=0), ("min_people",), ("min_people=",)),
    Mistake("the budget of a stranger", lambda b: b.open.budget("banc"), ("'banc'",), ("bank",)),
    Mistake("an unknown alignment", lambda b: b.open.align(mode="join"), ("'join'",), ("intersection",)),
    Mistake("a cohort without ids", lambda b: b.open.align(mode="cohort"), ("ids",), ("ids=[",)),
    Mistake("an unknown size", lambda b: b.open.align(size="small"), ("size",), ("hidden",)),
    Mistake("a capacity of a stranger", lambda b: b.open.align(capacity={"banc": 9}), ("'banc'",), ("bank",)),
    Mistake("a share of 2", lambda b: b.open.split(test=2.0), ("test",), ("test=0.2",)),
    Mistake("two frames, other rows", lambda _: cn.named(bank=AGES, telco=AGES[:1]), ("'bank'", "'telco'"), ("id=",)),
    Mistake("polars for pandas", lambda _: cn.named(bank=[1]), ("'bank'", "list"), ("to_pandas",)),
]

SEGMENTS = ["bank.segment", "telco.plan"]
NUMBERS = ["bank.age", "telco.bill"]


def fit(study: Any) -> Callable[[Bench], object]:
    return lambda bench: study.fit(bench.open)


def preview(study: Any) -> Callable[[Bench], object]:
    return lambda bench: study.preview(bench.open)


ESTIMATORS = [
    Mistake("no epsilon", fit(cn.PatternCount(SEGMENTS)), ("epsilon",), ("epsilon=1.0",)),
    Mistake("epsilon of 0", fit(cn.PatternCount(SEGMENTS, epsilon=0.0)), ("epsilon",), ("epsilon=",)),
    Mistake("epsilon as a text", fit(cn.PatternCount(SEGMENTS, epsilon="1")), ("epsilon",), ("epsilon=",)),
    Mistake("delta above the cap's", fit(cn.PCA(1, columns=NUMBERS, epsilon=1.0, delta=0.1)), ("delta",), ("delta",)),
    Mistake(
        "PCA without delta", fit(cn.PCA(1, columns=NUMBERS, epsilon=1.0)), ("delta",), ("delta=1e-6",), ("functional",)
    ),
    Mistake(
        "a regression without delta",
        fit(cn.LinearRegression("telco.bill", columns=NUMBERS[:1], epsilon=1.0)),
        ("delta",),
        ("delta=1e-6", "functional"),
    ),
    Mistake(
        "sketches without delta",
        fit(cn.KMeans(2, columns=NUMBERS, method="sketch", epsilon=1.0)),
        ("delta",),
        ("delta=1e-6",),
    ),
    Mistake("an unknown method", fit(cn.PCA(1, method="securee", **GAUSSIAN)), ("'securee'", "PCA"), ("'secure'",)),
    Mistake(
        "an option of another method",
        fit(cn.PCA(1, method={"name": "secure", "steps": 5}, **GAUSSIAN)),
        ("'steps'", "'secure'"),
        ("noise",),
    ),
    Mistake(
        "a column without its party", fit(cn.PatternCount(["segment"], epsilon=1.0)), ("'segment'",), ("party.column",)
    ),
    Mistake("an unknown party", fit(cn.PatternCount(["banc.segment"], epsilon=1.0)), ("'banc.segment'",), ("bank",)),
    Mistake(
        "an unknown column", fit(cn.PatternCount(["bank.sgment"], epsilon=1.0)), ("'bank'", "'sgment'"), ("segment",)
    ),
    Mistake(
        "an unknown feature",
        fit(cn.PCA(1, columns=["bank.agee", "telco.bill"], **GAUSSIAN)),
        ("'bank.agee'",),
        ("bank.age",),
    ),
    Mistake(
        "a table of one column",
        preview(cn.SyntheticTable(["bank.age"], **GAUSSIAN)),
        ("two columns",),
        ("PatternCount",),
    ),
    Mistake(
        "a table that is too fine",
        preview(cn.SyntheticTable(["bank.age", "telco.bill"], bins=1_000, **GAUSSIAN)),
        ("too many levels", "1,000"),
        ("bins=",),
    ),
    Mistake("a column twice", fit(cn.PCA(1, columns=NUMBERS * 2, **GAUSSIAN)), ("'bank.age'",), ("columns=",)),
    Mistake("one column as a text", fit(cn.PCA(1, columns="bank.age", **GAUSSIAN)), ("columns",), ("columns=[",)),
    Mistake("too many components", fit(cn.PCA(9, columns=NUMBERS, **GAUSSIAN)), ("n_components", "2"), ("columns",)),
    Mistake("no cluster", fit(cn.KMeans(0, columns=NUMBERS, **GAUSSIAN)), ("n_clusters",), ("n_clusters=",)),
    Mistake(
        "the target among the columns",
        fit(cn.LinearRegression("telco.bill", columns=NUMBERS, **GAUSSIAN)),
        ("target", "'telco.bill'"),
        ("columns",),
    ),
    Mistake(
        "a number for classes",
        fit(cn.LogisticRegression("telco.bill", columns=NUMBERS[:1], **GAUSSIAN)),
        ("'telco.bill'", "numeric"),
        ("cn.LinearRegression",),
    ),
    Mistake(
        "a category for a number",
        fit(cn.LinearRegression("bank.segment", columns=NUMBERS, **GAUSSIAN)),
        ("'bank.segment'", "category"),
        ("cn.LogisticRegression",),
    ),
    Mistake("counts of a number", fit(cn.PatternCount(["bank.age"], epsilon=1.0)), ("'bank.age'",), ("cn.Category",)),
    Mistake(
        "a moment of fractions", fit(cn.Moment(["telco.bill"], 2, epsilon=1.0)), ("telco.bill",), ("integer=True",)
    ),
    Mistake(
        "a household",
        fit(cn.PatternCount(SEGMENTS, epsilon=1.0, unit="household")),
        ("unit", "'household'"),
        ("unit=",),
    ),
    Mistake("a frame to fit on", lambda b: cn.PCA(1, **GAUSSIAN).fit(b.rows), ("fit", "federation"), ("simulate",)),
    Mistake("X and y", lambda b: cn.PCA(1, **GAUSSIAN).fit(b.open, [1]), ("fit", "constructor"), ("simulate",)),
    Mistake("not fitted", lambda b: cn.PCA(1, **GAUSSIAN).transform(b.rows), ("PCA", "not fitted"), ("fit(",)),
    Mistake("a frame without a column", lambda b: b.linear.predict(AGES), ("'bank.age'",), ("cn.named(",)),
    Mistake("an array to predict", lambda b: b.linear.predict(np.zeros((2, 1))), ("frame",), ("cn.named(",)),
    Mistake("scores for a stranger", lambda b: b.linear.predict(b.open, to="banc"), ("'banc'",), ("'bank'",)),
    Mistake("scores for nobody", lambda b: b.linear.predict(b.open), ("to=None",), ("'bank'",)),
    Mistake(
        "scores that no policy allows", lambda b: b.linear.predict(b.open, to="telco"), ("'bank'",), ("predictions",)
    ),
    Mistake("a recipient of a frame", lambda b: b.linear.predict(b.rows, to="bank"), ("to=",), ("Leave out to=",)),
    Mistake("a count to evaluate", lambda b: b.counts.evaluate(b.open, epsilon=1.0), ("PatternCount",), ("stderr_",)),
    Mistake("evaluating on a frame", lambda b: b.linear.evaluate(b.rows, **GAUSSIAN), ("federation",), ("simulate",)),
    Mistake("evaluating without epsilon", lambda b: b.linear.evaluate(b.open), ("epsilon",), ("epsilon=1.0",)),
    Mistake(
        "a sample without consent",
        fit(cn.Coreset(9, target="telco.bill", columns=["bank.age"])),
        ("not differentially private",),
        ("allow_nonprivate=True",),
    ),
    Mistake(
        "a price for what has none",
        fit(cn.KMeans(2, columns=NUMBERS, method="coreset", size=9, allow_nonprivate=True, epsilon=1.0)),
        ("epsilon", "'coreset'"),
        ("epsilon",),
    ),
    Mistake(
        "a size for what has none",
        fit(cn.KMeans(2, columns=NUMBERS, size=9, **GAUSSIAN)),
        ("size", "'secure'"),
        ("size",),
    ),
    Mistake(
        "draw 0", lambda b: cn.PatternCount(SEGMENTS, epsilon=1.0).fit(b.open, repeat=0), ("repeat",), ("repeat=2",)
    ),
    Mistake(
        "more than is left", fit(cn.PatternCount(["bank.segment"], epsilon=50.0)), ("'bank'",), ("budget()", "epsilon")
    ),
    Mistake(
        "more than a policy allows",
        fit(cn.PatternCount(["telco.plan"], method="response", epsilon=3.0)),
        ("'telco'", "max_epsilon"),
        ("epsilon",),
    ),
    Mistake(
        "one party alone",
        fit(cn.PCA(1, columns=["bank.age", "bank.segment"], **GAUSSIAN)),
        ("two parties",),
        ("another",),
    ),
    Mistake(
        "a price on a release", lambda b: cn.PCA(1, **GAUSSIAN).fit(b.moments), ("epsilon",), ("Leave out epsilon",)
    ),
    Mistake(
        "a column that is not in the release",
        lambda b: cn.PCA(1, columns=["bank.segment", "telco.bill"]).fit(b.moments),
        ("'bank.segment'",),
        ("bank.age",),
    ),
    Mistake("a model that is none", lambda b: cn.load(b.binary("m.json", b"{}")), ("m.json",), ("est.save",)),
    Mistake("a model that is not there", lambda b: cn.load(b.folder / "no.json"), ("no.json",), ("path",)),
    Mistake("a container that is none", lambda b: cn.PCA(1).set_output(transform="list"), ("transform",), ("pandas",)),
    Mistake("a metric that is none", lambda b: b.linear.evaluate(b.open, **GAUSSIAN)["auc"], ("'auc'",), ("mse",)),
    Mistake(
        "an observer who is not there", lambda b: b.linear.privacy_.epsilon(observer="banc"), ("observer",), ("bank",)
    ),
]

FILES = [
    Mistake(
        "a misspelt key",
        lambda b: b.study(("delta = 1e-6", "detla = 1e-6")),
        ("study.toml, line 7", "budget", "'detla'"),
        ("'delta'",),
    ),
    Mistake(
        "an unknown estimator",
        lambda b: b.study(('"PatternCount"', '"Count"')),
        ("study 1", "'Count'"),
        ("PatternCount",),
    ),
    Mistake(
        "a text without quotes", lambda b: b.study(('"person_id"', "person_id")), ("study.toml", "line 2"), ("quotes",)
    ),
    Mistake("no id", lambda b: b.study(('id = "person_id"', "")), ("id",), ('id = "person_id"',)),
    Mistake("no ledgers", lambda b: b.study(('ledger_dir = "ledgers"', "")), ("ledger_dir",), ("ledger_dir =",)),
    Mistake(
        "no bounds", lambda b: b.study(("lower = 18, ", "")), ("parties.bank.columns.age",), ("cn.Numeric(0, 120)",)
    ),
    Mistake("no data", lambda b: b.study(('data = "bank.csv"', "")), ("parties.bank", "data"), ("data =",)),
    Mistake("one study for a list", lambda b: b.study(("[[study]]", "[study]")), ("[[study]]",), ("[[study]]",)),
    Mistake(
        "a parameter of another estimator",
        lambda b: b.study(("\nepsilon = 1.0", "\nepsilon = 1.0\nn_clusters = 3")),
        ("study 1", "PatternCount", "'n_clusters'"),
        ("columns",),
    ),
    Mistake(
        "no columns",
        lambda b: b.study(('columns = ["bank.segment", "telco.plan"]', "")),
        ("study 1", "columns"),
        ("columns =",),
    ),
    Mistake(
        "a title of two lines",
        lambda b: b.study(("Segments and plans", r"Segments\nplans")),
        ("study 1", "title"),
        ("line",),
    ),
    Mistake(
        "a purpose that is a number",
        lambda b: b.study(("[[study]]", "[[study]]\npurpose = 3")),
        ("study 1", "purpose"),
        ("purpose =",),
    ),
    Mistake("half a split", lambda b: b.study(("[budget]", "[split]\n[budget]")), ("split.test",), ("test = 0.2",)),
    Mistake(
        "one node as a text",
        lambda b: b.study(("[budget]", 'compute_nodes = "x"\n[budget]')),
        ("compute_nodes",),
        ("[",),
    ),
]

MISTAKES = [*DATA, *FEDERATIONS, *ESTIMATORS, *FILES]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("mistakes"))


@pytest.mark.parametrize("mistake", MISTAKES, ids=[one.what for one in MISTAKES])
def test_a_mistake_is_named_with_its_place_and_its_remedy(mistake: Mistake, bench: Bench) -> None:
    before = bench.open.budget()
    with pytest.raises(cn.ColonnadeError) as refusal:
        mistake.call(bench)
    error = refusal.value
    assert [words for words in mistake.says if words not in error.message] == [], error.message
    assert [words for words in mistake.instead if words not in error.remedy] == [], error.remedy
    assert [words for words in mistake.never if words in error.remedy] == [], error.remedy
    assert SECRET not in str(error)
    assert error.spent is None
    if mistake.what != "a metric that is none":  # which comes after an evaluation
        assert before.equals(bench.open.budget())


def test_there_are_at_least_seventy_five_mistakes_and_each_is_another() -> None:
    assert len(MISTAKES) >= 75
    assert len({one.call for one in MISTAKES}) == len(MISTAKES)


# Remedies that are none ------------------------------------------------------------------------------------------------------

TOLD_TO_USERS = (
    "cli",
    "coding",
    "coordinator",
    "datasets",
    "estimators",
    "report",
    "service",
    "party/policy.py",
    "party/party.py",
    "party/table/sources.py",
    "party/table/checking.py",
    "plan.py",
    "constraints.py",
)


def refusals_without_a_remedy() -> list[str]:
    """Places where an invalid argument is refused with the remedy of the class, which can only be a general one."""
    found = []
    for path in sorted(SOURCES.rglob("*.py")):
        if not str(path.relative_to(SOURCES)).startswith(TOLD_TO_USERS):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Call):
                continue
            named = getattr(node.exc.func, "id", "")
            if named in (BadInput.__name__, SchemaMismatch.__name__) and "remedy" not in {
                one.arg for one in node.exc.keywords
            }:
                found.append(f"{path.relative_to(SOURCES)}:{node.lineno}")
    return found


def test_whoever_refuses_an_argument_says_what_to_type_instead() -> None:
    assert refusals_without_a_remedy() == []


def test_no_remedy_is_to_correct_it_and_call_again() -> None:
    empty = ("Correct the argument", "call again with a correct", "Fix the argument", "Try again.")
    text = {path: path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py")}
    assert [str(path) for path, source in text.items() if any(words in source for words in empty)] == []
