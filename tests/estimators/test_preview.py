"""A preview: what it says, what it costs (nothing), and what it must refuse."""

import html

import pandas as pd
import pytest

import colonnade as cn
from colonnade.estimators.answers import FACTORS
from tests import federations

GAUSSIAN = {"epsilon": 1.0, "delta": 1e-5}
STUDIES = {
    "counts secure": lambda: cn.PatternCount(["bank.segment", "telco.plan"], epsilon=1.0),
    "counts response": lambda: cn.PatternCount(["bank.segment", "insurer.product"], method="response", epsilon=1.0),
    "counts sampled": lambda: cn.PatternCount(["bank.segment"], method=cn.methods.Response(sample=0.5), epsilon=1.0),
    "counts independent": lambda: cn.PatternCount(["bank.segment", "telco.plan"], method="independent", epsilon=1.0),
    "pca secure": lambda: cn.PCA(1, columns=["bank.age", "telco.bill", "insurer.product"], **GAUSSIAN),
    "pca sketch": lambda: cn.PCA(1, columns=["bank.age", "telco.bill"], method="sketch", **GAUSSIAN),
    "pca local": lambda: cn.PCA(1, columns=["bank.age", "telco.bill"], method="local", **GAUSSIAN),
    "linear": lambda: cn.LinearRegression("telco.bill", columns=["bank.age", "insurer.product"], **GAUSSIAN),
    "logistic": lambda: cn.LogisticRegression(
        "bank.default", method="secure", columns=["telco.bill", "bank.age"], **GAUSSIAN
    ),
    "kmeans secure": lambda: cn.KMeans(2, **GAUSSIAN),
    "kmeans response": lambda: cn.KMeans(2, method="response", epsilon=2.0),
    "kmeans sketch": lambda: cn.KMeans(2, method="sketch", **GAUSSIAN),
    "linear functional": lambda: cn.LinearRegression(
        "telco.bill", columns=["bank.age", "insurer.product"], method="functional", epsilon=1.0
    ),
}


@pytest.fixture(scope="module")
def federation():
    with federations.federation(3_000, epsilon=300.0) as f:
        yield f


@pytest.mark.every(4)
@pytest.mark.parametrize("name", STUDIES)
def test_rounds_are_predicted_exactly_and_bytes_within_a_twentieth(name):
    """Proofs that ledgers extend what peers remember grow with the logarithm of their rows; here they are short."""
    study = STUDIES[name]()
    with federations.federation(3_000, epsilon=300.0) as federation:
        traffic = study.preview(federation).traffic
        said = study.fit(federation).transcript_
    assert traffic.rounds == said.rounds
    assert traffic.bytes == pytest.approx(said.bytes, rel=0.05)
    for member in said.bytes_from:
        assert traffic.bytes_from[member] == pytest.approx(said.bytes_from[member], rel=0.1, abs=400)
        assert traffic.bytes_to[member] == pytest.approx(said.bytes_to[member], rel=0.1, abs=400)


@pytest.mark.every(2)
@pytest.mark.parametrize("name", ["counts secure", "counts response", "pca secure", "kmeans sketch"])
def test_what_is_paid_for_is_predicted_to_cost_one_short_round_more(name, federation):
    study = STUDIES[name]().fit(federation)
    traffic = study.preview(federation).traffic
    again = STUDIES[name]().fit(federation).transcript_
    assert traffic.rounds == again.rounds
    assert traffic.bytes == pytest.approx(again.bytes, rel=0.1)


@pytest.mark.every(6)
@pytest.mark.parametrize("name", STUDIES)
def test_a_preview_spends_nothing_and_says_the_same_twice(name, federation):
    before = federation.budget()
    first, second = (STUDIES[name]().preview(federation) for _ in range(2))
    assert str(first) == str(second)
    assert before.equals(federation.budget())


@pytest.mark.every(6)
@pytest.mark.parametrize("name", STUDIES)
def test_more_epsilon_never_makes_the_expected_error_larger_and_the_middle_row_is_what_was_asked(name, federation):
    preview = STUDIES[name]().preview(federation)
    others = preview.others.set_index("epsilon")["error"]
    assert set(others.index) <= {factor * preview.epsilon for factor in FACTORS}
    assert others.is_monotonic_decreasing
    assert others.get(preview.epsilon) == preview.expected_error  # both are missing where it is not known


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("people", "parameters", "words"),
    [
        (300, {"epsilon": 1.0}, "300 people are few"),
        (3_000, {"epsilon": 0.005}, "below 0.01"),
        (3_000, {"epsilon": 11.0}, "gives little protection"),
        (3_000, {"epsilon": 1.0, "delta": 1e-3}, "1/people or more"),
    ],
)
def test_a_preview_warns_of_few_people_and_of_an_unusual_price(people, parameters, words):
    with federations.federation(people, epsilon=20.0, delta=1e-3) as f:
        warnings = cn.PatternCount(["bank.segment", "telco.plan"], **parameters).preview(f).warnings
        assert any(words in warning for warning in warnings)


@pytest.mark.parametrize(
    "name", [name for name in STUDIES if "functional" not in name]
)  # which is pure, whatever delta is
def test_a_delta_above_the_caps_is_refused_before_anything_is_asked(name):
    with federations.federation(300, epsilon=20.0, delta=1e-7) as f:
        before = f.budget()
        for call in (STUDIES[name]().set_params(delta=1e-6).preview, STUDIES[name]().set_params(delta=1e-6).fit):
            with pytest.raises(
                cn.BudgetExceeded, match="delta of 1e-06 exceeds the 1e-07 in the budget of party"
            ) as caught:
                call(f)
            assert caught.value.spent is None
        assert before.equals(f.budget())


def test_notebooks_see_tables_and_never_markup_of_somebody_else(federation):
    hostile = "<script>alert(1)</script>"
    schema = cn.Schema({hostile: cn.Category(["a", "b"])})
    frame = pd.DataFrame({"id": range(800), hostile: ["a", "b"] * 400})
    with cn.Federation.simulate({"p": cn.Party(frame, schema=schema)}, id="id", budget=cn.Budget(epsilon=2.0)) as f:
        study = cn.PatternCount([f"p.{hostile}"], method="response", epsilon=1.0)
        preview = study.preview(f)
        study.fit(f)
        shown = [one._repr_html_() for one in (study, preview, study.privacy_, f)]
        shown.append(study._repr_mimebundle_()["text/html"])
    for page in shown:
        assert page.startswith("<")
        assert hostile not in page
    assert html.escape(hostile) in shown[3]
    assert "a preview; nothing is spent" in shown[1]
    assert "<table" in shown[2]
    assert "NaN" not in shown[2]
    assert "<table" in shown[0]  # the result itself
    assert html.escape(f"p.{hostile}") in shown[0]
