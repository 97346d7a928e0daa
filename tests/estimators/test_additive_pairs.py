"""Pairs of columns, special codes and smoothness of additive models: in shapes, exports and scores alike."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

import colonnade as cn
from colonnade.estimation.shape_belief import ShapePrior
from colonnade.schema import Bins, Crossed, features_of
from tests.federations import from_one_table

PEOPLE, DELTA = 3_000, 1e-5
PAIR = "bank.age & income"
CODE = -999
SCHEMAS = {
    "bank": cn.Schema(
        age=cn.Numeric(0, 100, integer=True),
        income=cn.Numeric(0, 1, missing=0.5, na_values=[CODE]),
        late=cn.Category(["no", "yes"]),
    ),
    "shop": cn.Schema(basket=cn.Numeric(0, 1), plan=cn.Category(["a", "b"])),
}


def _frame() -> pd.DataFrame:
    rng = np.random.default_rng(9)
    frame = pd.DataFrame(
        {
            "bank.age": rng.integers(0, 101, PEOPLE),
            "bank.income": rng.uniform(0, 1, PEOPLE),
            "shop.basket": rng.uniform(0, 1, PEOPLE),
            "shop.plan": rng.choice(["a", "b"], PEOPLE),
        }
    )
    alike = (frame["bank.age"] > 50) == (frame["bank.income"] > 0.5)  # neither of the two tells anything by itself
    frame.loc[frame.index[::10], "bank.income"] = CODE
    frame.loc[frame.index[5::20], "bank.income"] = np.nan
    score = np.where(frame["bank.income"] == CODE, 2.0, np.where(alike, 1.5, -1.5))
    frame["bank.late"] = np.where(rng.random(PEOPLE) < 1 / (1 + np.exp(-score)), "yes", "no")
    return frame


FRAME = _frame()
LATE = (FRAME["bank.late"] == "yes").to_numpy()


@pytest.fixture(scope="module")
def federation():
    with from_one_table(FRAME, SCHEMAS, compute_nodes=["node"]) as opened:
        yield opened


def _card(federation, **options: object) -> cn.Scorecard:
    given = {"pairs": [("bank.age", "bank.income")], "special_codes": {"bank.income": [CODE]}, **options}
    return cn.Scorecard("bank.late", bins=8, epsilon=1_000.0, delta=DELTA, **given).fit(federation)


@pytest.fixture(scope="module")
def card(federation) -> cn.Scorecard:
    return _card(federation)


def test_a_pair_finds_what_two_columns_tell_only_together(card, federation) -> None:
    alone = _card(federation, pairs=())
    areas = [roc_auc_score(LATE, one.predict_proba(FRAME)[:, 1]) for one in (card, alone)]
    assert areas[0] > areas[1] + 0.1
    assert card.importance_.index[0] == PAIR
    effects = card.shape_functions_.set_index(["column", "bin"])["effect"]
    assert effects[PAIR].iloc[0] > 0.5 > -0.5 > effects[PAIR].iloc[5]


def test_a_pair_counts_as_one_more_column_in_what_a_person_changes(card) -> None:
    (step,) = (one for one in card.plan_.steps if one.name == "newton 1" and one.party == "bank")
    assert "age & income" in step.columns
    assert step.parameters["row_bound"] == len(step.columns) == 4
    assert "together in 48 combinations" in " ".join(card.plan_.columns_in_words())


def test_every_form_of_the_model_has_the_pair_and_the_codes(card, tmp_path) -> None:
    odd = FRAME.head(6).assign(
        **{"bank.income": [None, CODE, -5.0, 7.0, 1.0, 1e308], "bank.age": [0, 50.5, 100, 999, -3, 49]}
    )
    rows = pd.concat([FRAME, odd], ignore_index=True)
    chances = card.predict_proba(rows)
    assert np.abs(card.to_sklearn().predict_proba(rows) - chances).max() < 1e-9
    card.save(tmp_path / "card.json")
    assert np.array_equal(cn.load(tmp_path / "card.json").predict_proba(rows), chances)
    explained = card.explain(rows.iloc[[7]])
    assert explained["effect"].sum() == pytest.approx(float(card.decision_function(rows.iloc[[7]])[0]))
    assert PAIR in explained.index
    exact = 600 - 20 / np.log(2) * (np.log(50) + card.decision_function(rows))
    assert np.abs(card.total_points(rows) - exact).max() <= card.rounding_ == 3.0


def test_a_code_and_a_missing_value_are_bins_with_effects_of_their_own(card) -> None:
    shapes = card.shape_functions_.set_index(["column", "bin"]).loc["bank.income"]
    assert shapes.index.tolist()[-2:] == ["-999", "missing"]
    assert shapes.loc["-999", "share"] == pytest.approx(0.1, abs=0.01)
    assert shapes.loc["missing", "share"] == pytest.approx(0.05, abs=0.01)
    assert shapes.loc["-999", "effect"] > shapes.loc["missing", "effect"] + 0.5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"pairs": [("bank.age", "shop.basket")]}, "two parties"),
        ({"pairs": [("bank.age", "bank.late")]}, "not among the columns"),
        ({"pairs": [("bank.age", "bank.salary")]}, "not among the columns"),
        ({"pairs": [("bank.age", "bank.age")]}, "two different columns"),
        ({"pairs": [("bank.age", "bank.income"), ("bank.income", "bank.age")]}, "named once"),
        ({"monotone": {"bank.age": "increasing"}}, "monotone"),
        ({"pairs": ["bank.age"]}, "pairs must be"),
        ({"special_codes": {"bank.income": [-1]}}, "declared among na_values"),
        ({"special_codes": {"shop.plan": [-1]}}, "no number or date"),
        ({"smooth": 0}, "smooth must be"),
        ({"smooth": "much"}, "smooth must be"),
    ],
)
def test_what_cannot_be_a_pair_a_code_or_a_smoothness_is_refused(federation, options, words) -> None:
    with pytest.raises(cn.ColonnadeError, match=words):
        _card(federation, **options)


# The belief ------------------------------------------------------------------------------------------------------------------


def test_what_a_pair_adds_has_mean_zero_along_either_column() -> None:
    age, plan = Bins.equal(cn.Numeric(0, 1), 9), cn.Category(["a", "b", "c"])
    coarse = Bins(edges=[age.edges[place] for place in (0, 3, 6, 9)], of=age.of)
    both = Crossed(names=("age", "plan"), of=(coarse, plan))
    columns = {"p.age": age, "p.plan": plan, "p.age & plan": both}
    prior = ShapePrior.of(features_of(columns), columns)
    basis = prior.components[-1].basis.reshape(3, 3, 3, 3)
    assert np.allclose(basis.sum(axis=0), 0)
    assert np.allclose(basis.sum(axis=1), 0)
    assert np.linalg.matrix_rank(prior.components[-1].basis) == prior.components[-1].rank == 4


def test_what_a_pair_has_in_common_with_its_own_columns_is_known() -> None:
    rng = np.random.default_rng(4)
    age, plan = Bins.equal(cn.Numeric(0, 1, missing=0), 6, missing=True), cn.Category(["a", "b"])
    coarse = Bins(edges=[age.edges[place] for place in (0, 3, 6)], of=age.of, missing="level")
    columns = {"p.age": age, "p.plan": plan, "p.age & plan": Crossed(names=("age", "plan"), of=(coarse, plan))}
    features = features_of(columns)
    first, second = rng.integers(0, 7, 70_000), rng.integers(0, 2, 70_000)
    together = np.array([0, 0, 0, 1, 1, 1, 2])[first] * 2 + second
    rows = np.column_stack(
        [
            np.ones(len(first)),
            first[:, None] == np.arange(7),
            second[:, None] == np.arange(2),
            together[:, None] == np.arange(6),
        ]
    )
    gram = rows.T @ rows
    for overlap in ShapePrior.of(features, columns).overlaps:
        truth = gram[np.ix_(overlap.places, overlap.own)]
        found = overlap.products(gram[0])
        assert np.all(found[truth == 0] == 0)
        assert np.allclose(found, truth, rtol=0.06, atol=1)
