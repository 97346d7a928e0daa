"""Parameters that a fixed point, a ledger's unit or a count of people would round to nothing: refused, for that reason."""

import pytest

import colonnade as cn
from colonnade.estimation.scoring import histogram_price
from colonnade.privacy.accounting import Price
from tests import federations

PRICE = {"epsilon": 1.0, "delta": 1e-5}
TWO = ["bank.age", "telco.bill"]


def _refuse(study: cn.PCA | cn.LogisticRegression | cn.PatternCount, reason: str) -> str:
    """See that a fit is refused for a reason and costs nothing, and return the remedy."""
    with federations.federation(300, epsilon=300.0) as f:
        before = f.budget()
        with pytest.raises(cn.BadInput, match=reason) as refused:
            study.fit(f)
        assert before.equals(f.budget())
    return refused.value.remedy


@pytest.mark.parametrize("method", [cn.methods.Secure, cn.methods.Sketch])
def test_rows_cut_below_one_step_of_the_fixed_point_are_refused_and_rows_of_one_step_are_not(method):
    scale = 64
    short, long = (method(row_norms={"bank": steps / scale}, scale=scale) for steps in (0.99, 1.0))
    _refuse(cn.PCA(1, columns=TWO, method=short, **PRICE), "cut to nothing")
    with federations.federation(300) as f:
        cn.PCA(1, columns=TWO, method=long, **PRICE).preview(f)


def test_scores_bounded_below_one_step_of_the_fixed_point_are_refused():
    method = cn.methods.Gradient(steps=3, rate=0.5, score_bound=1e-12)
    _refuse(cn.LogisticRegression("bank.default", columns=TWO, method=method, **PRICE), "every score would be 0")


def test_a_sample_of_less_than_one_person_is_refused_before_it_is_paid_for():
    method = cn.methods.Response(sample=0.9 / 300)
    remedy = _refuse(cn.PatternCount(["bank.segment"], method=method, epsilon=1.0), "less than one person")
    least = float(remedy.split("sample=")[1].split()[0])
    with federations.federation(300) as f:
        cn.PatternCount(["bank.segment"], method=cn.methods.Response(sample=least), epsilon=1.0).fit(f)


def test_a_price_that_has_no_such_share_says_how_often_it_was_to_be_divided():
    with pytest.raises(cn.BadInput, match="too small to be divided by 7"):
        Price(6, 0.0).share(7)
    with pytest.raises(cn.BadInput, match="too small to be divided by 7"):
        histogram_price(Price(6, 0.0), 7)
    with federations.federation(300) as f:
        model = cn.KMeans(2, columns=TWO, **PRICE).fit(f)
        with pytest.raises(cn.BadInput, match="too small to be divided by 4"):
            model.evaluate(f, epsilon=3e-9)


LARGEST = 9_999.0
STUDIES = {
    "counts": lambda: cn.PatternCount(["bank.segment", "telco.plan"], epsilon=LARGEST),
    "fitted counts": lambda: cn.PatternCount(["bank.segment", "telco.plan", "insurer.product"], epsilon=LARGEST),
    "reports": lambda: cn.PatternCount(["bank.segment", "telco.plan"], method="response", epsilon=LARGEST),
    "histograms": lambda: cn.PatternCount(["bank.segment", "telco.plan"], method="independent", epsilon=LARGEST),
    "clusters": lambda: cn.KMeans(2, columns=TWO, epsilon=LARGEST),
    "clusters by reports": lambda: cn.KMeans(2, columns=TWO, method="response", epsilon=LARGEST),
    "clusters by histograms": lambda: cn.KMeans(2, columns=TWO, method="independent", epsilon=LARGEST),
    "components": lambda: cn.PCA(1, columns=TWO, epsilon=LARGEST, delta=1e-5),
    "functional": lambda: cn.LinearRegression("bank.age", columns=["telco.bill"], method="functional", epsilon=LARGEST),
}


@pytest.mark.every(3)
@pytest.mark.parametrize("name", STUDIES)
def test_noise_that_is_next_to_nothing_neither_overflows_nor_divides_by_nothing(name):
    with federations.federation(300, epsilon=10_000.0) as f:
        preview = STUDIES[name]().preview(f)
        STUDIES[name]().fit(f)
    assert preview.errors[0].unknown or preview.expected_error >= 0
