"""c and t: counted on the losses of a statement, and shown wherever a guarantee is; so is a coordinator that computes."""

import math
from itertools import combinations
from types import SimpleNamespace

import pytest

import colonnade as cn
from colonnade.cli import running
from colonnade.estimators.answers import Preview
from colonnade.report import document
from colonnade.result import PrivacyStatement
from tests.conversations.test_floors import NAMES, a_federation
from tests.estimators.test_every_estimator import every_method, federation, made  # noqa: F401  # a fixture

PRICE = {"epsilon": 1.0, "delta": 1e-6}
ALONE = "assumes the coordinator colludes with no party"
POOLED = "ε = ∞ towards the coordinator with any party"


def clusters(**options) -> cn.KMeans:
    return cn.KMeans(2, columns=["bank.x", "telco.x"], n_local_clusters=3, **PRICE, **options)


def logistic(sampling: str, rate: float = 0.1) -> cn.LogisticRegression:
    method = cn.methods.Gradient(steps=4, rate=rate, sampling=sampling)
    return cn.LogisticRegression("bank.k", columns=["bank.x", "telco.x", "shop.x"], method=method, **PRICE)


def secure(names=NAMES[:3]) -> cn.PCA:
    return cn.PCA(1, columns=[f"{name}.x" for name in names], **PRICE)


# One number, counted on the losses ------------------------------------------------------------------------------------------


def require_true(statement: PrivacyStatement) -> None:
    """c parties with the coordinator learn no more than it does alone; with one more, somebody does."""
    counts = {size: list(combinations(statement.parties, size)) for size in range(len(statement.parties))}

    def most(size: int, unit: str) -> float:
        return max(statement.epsilon(observer=("coordinator", *group), unit=unit) for group in counts[size])

    alone = {unit: statement.epsilon(unit=unit) for unit in ("person", "party")}
    for size in range(statement.collusion + 1):
        for unit, epsilon in alone.items():
            assert most(size, unit) <= epsilon
    beyond = statement.collusion + 1
    if beyond < len(statement.parties):
        assert any(most(beyond, unit) > epsilon for unit, epsilon in alone.items())


@pytest.mark.every(6)
@every_method
def test_c_is_the_largest_coalition_that_weakens_nothing_for_every_estimator_and_method(kind, method, federation):  # noqa: F811
    require_true(made(kind, method).preview(federation).statement)


SHAPES = {
    "two parties and the coordinator": (NAMES[:2], {"collusion": 1}, 0),
    "two parties and a node": (NAMES[:2], {"collusion": 1, "nodes": ["notary"]}, 1),
    "three parties, no collusion": (NAMES[:3], {"collusion": 0}, 0),
    "three parties": (NAMES[:3], {"collusion": 1}, 1),
    "three parties and two nodes": (NAMES[:3], {"collusion": 2, "nodes": ["notary", "auditor"]}, 2),
    "five parties": (NAMES, {"collusion": 2}, 2),
    "five parties, c = 1": (NAMES, {"collusion": 1}, 1),
}


@pytest.mark.every(2)
@pytest.mark.parametrize("shape", SHAPES)
def test_c_is_true_for_every_shape_of_a_federation(shape):
    names, options, expected = SHAPES[shape]
    with a_federation(names, **options) as f:
        statement = secure(names).preview(f).statement
        local = cn.PatternCount([f"{name}.k" for name in names], method="response", epsilon=1.0).preview(f).statement
    assert statement.collusion == expected
    require_true(statement)
    assert (local.collusion, local.threshold) == (len(names) - 1, None)
    require_true(local)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("study", "expected"),
    [
        (lambda: logistic("poisson"), 0),
        (lambda: logistic("balanced"), 1),
        (lambda: logistic("poisson", rate=1.0), 1),  # everybody takes part in every step: nothing is secret
        (lambda: clusters(method="sketch"), 0),
        (lambda: clusters(), 1),
        (lambda: clusters(method="response"), 1),
    ],
    ids=["poisson batches", "balanced batches", "whole batches", "sketches", "tables", "reports"],
)
def test_where_parties_hold_a_key_that_the_promise_rests_on_c_is_zero(study, expected):
    with a_federation(NAMES[:3], collusion=1) as f:
        statement = study().preview(f).statement
    assert statement.collusion == expected
    require_true(statement)
    if not expected:
        (alone,) = {statement.epsilon()}
        assert all(statement.epsilon(observer=("coordinator", party)) > alone for party in statement.parties)


# Wherever it is shown -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted() -> dict[str, tuple[cn.PCA, Preview, cn.Federation]]:
    """The same study with the coordinator as third node, and with a node in its place."""
    found = {}
    for name, nodes in (("coordinator", []), ("notary", ["notary"])):
        f = a_federation(NAMES[:2], collusion=1, nodes=nodes)
        study = secure(NAMES[:2])
        found[name] = (study.fit(f), study.preview(f), f)
    yield found
    for _, _, f in found.values():
        f.close()


RENDERINGS = {
    "preview": lambda study, preview, f: str(preview),
    "preview in a notebook": lambda study, preview, f: preview._repr_html_(),
    "receipt": lambda study, preview, f: study.receipt_,
    "statement in words": lambda study, preview, f: study.privacy_.pooling,
    "statement in a notebook": lambda study, preview, f: study.privacy_._repr_html_(),
    "statement in a study's notebook": lambda study, preview, f: study._repr_html_(),
    "statement as HTML": lambda study, preview, f: document.statement_html(study.privacy_),
    "report": lambda study, preview, f: document.page([study], federation=f),
    "what was asked, in the report": lambda study, preview, f: document.request_section(study),
    "results as JSON": lambda study, preview, f: str(
        running.as_json(SimpleNamespace(estimator=study, title="", repeat=1, purpose=""))
    ),
    "evaluation": lambda study, preview, f: str(study.evaluate(f, **PRICE)),
    "evaluation in a notebook": lambda study, preview, f: study.evaluate(f, **PRICE)._repr_html_(),
}


@pytest.mark.every(3)
@pytest.mark.parametrize("rendering", RENDERINGS)
def test_every_rendering_says_that_the_coordinator_is_assumed_to_collude_with_nobody_and_what_if_it_did(
    rendering, fitted
):
    shown = RENDERINGS[rendering](*fitted["coordinator"])
    assert ALONE in shown
    assert POOLED in shown
    assert "c = 0 parties with the coordinator, t = 1 compute node" in shown
    other = RENDERINGS[rendering](*fitted["notary"])
    assert ALONE not in other
    assert POOLED not in other
    assert "c = 1 party with the coordinator, t = 1 compute node" in other


def test_the_table_and_the_report_have_a_row_for_the_coordinator_with_each_party(fitted):
    study = fitted["coordinator"][0]
    table = study.privacy_.table().set_index(["observer", "unit"])
    for party in NAMES[:2]:
        for unit in ("person", "party"):
            assert table.loc[(f"coordinator + {party}", unit), "epsilon"] == math.inf
        assert f"coordinator + {party}" in document.observers_section(study)
    assert table.loc[("coordinator", "person"), "epsilon"] <= PRICE["epsilon"]
    assert all(ALONE in words for words in table.assumption)


def test_the_assumptions_name_no_number_that_contradicts_c(fitted):
    words = " ".join(fitted["coordinator"][0].privacy_.assumptions)
    assert "besides the coordinator" not in words
    assert "Noise covers 1 colluding data party." in words  # one party, and not the coordinator with it


def test_what_is_not_private_promises_no_c():
    with a_federation(NAMES[:3], collusion=1) as f:
        study = cn.Coreset(10, target="bank.x", allow_nonprivate=True).fit(f)
    assert study.privacy_.pooling == "nothing is guaranteed, even if nobody pools"
    assert "c = " not in study.receipt_


def test_the_coordinator_as_one_of_five_nodes_may_pool_with_one_party_and_not_with_two():
    """By a federation's papers it may be a node beside others. Then the first coalition that reads everything is shown."""
    with a_federation(NAMES[:4], collusion=1) as f:
        study = secure(NAMES[:4]).fit(f)
        (opening,) = study.privacy_.openings
    nodes = (*NAMES[:4], "coordinator")
    fields = {name: getattr(opening, name) for name in opening.__dataclass_fields__}
    statement = PrivacyStatement(
        (type(opening)(**{**fields, "nodes": nodes, "threshold": 2}),), NAMES[:4], study.privacy_.study_delta
    )
    assert (statement.collusion, statement.threshold) == (1, 2)
    assert statement.pooling.endswith("ε = ∞ towards the coordinator with any 2 parties")
    assert "coordinator + bank + telco" in set(statement.table().observer)
    require_true(statement)
