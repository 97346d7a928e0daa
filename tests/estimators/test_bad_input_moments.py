"""Bad input to studies of moments: a typed error before anything is paid, and ledgers unchanged."""

import math

import numpy as np
import pytest

import colonnade as cn
from tests.estimators.moment_samples import PRICE, federation, frames

FEATURES = ["telco.bill", "insurer.product"]


@pytest.fixture(scope="module")
def untouched():
    """A federation on which nothing is ever released: checked after every test and at the end."""
    with federation() as f:
        yield f
        assert (f.budget().releases == 0).all()


def refuse(f: cn.Federation, study, error: type[cn.ColonnadeError] = cn.BadInput) -> cn.ColonnadeError:
    """Both calls refuse, with the truth about cost: nothing."""
    for call in (study.preview, study.fit):
        with pytest.raises(error) as refusal:
            call(f)
        assert refusal.value.code
        assert refusal.value.remedy
        assert refusal.value.spent is None
        assert "Nothing was spent" in str(refusal.value)
    accounts = f.budget()
    assert (accounts.spent == 0).all()
    assert (accounts.releases == 0).all()
    return refusal.value


def by(options: dict) -> dict:
    """The same with the method's own options on the method."""
    own = {name: options.pop(name) for name in ("noise", "scale", "row_norms") if name in options}
    return {**PRICE, **options} | ({"method": {"name": options.get("method", "secure"), **own}} if own else {})


def pca(n_components=2, **options):
    return cn.PCA(n_components, **by(options))


def linear(target="bank.age", **options):
    return cn.LinearRegression(target, **by(options))


def logistic(target="bank.default", **options):
    return cn.LogisticRegression(target, **{"method": "secure", **by(options)})


EVERY = pytest.mark.parametrize("study", [pca, linear, logistic])


@EVERY
def test_moments_take_a_positive_delta(untouched, study):
    assert "delta" in str(refuse(untouched, study(delta=0.0)))
    with pytest.raises(cn.BadInput, match="delta"):
        untouched.moments(epsilon=1.0)


def test_perturbed_rows_take_a_positive_delta(untouched):
    assert "delta" in str(refuse(untouched, pca(delta=0.0, method="local")))


@pytest.mark.every(3)
@pytest.mark.parametrize("delta", [-1e-9, 1.0, math.nan, math.inf, "1e-5", None, True])
@pytest.mark.parametrize("method", ["secure", "local"])
def test_a_delta_that_cannot_be_meant_is_refused(untouched, delta, method):
    refuse(untouched, pca(delta=delta, method=method))


@pytest.mark.every(3)
@pytest.mark.parametrize("epsilon", [None, 0, -1.0, math.nan, math.inf, "1", True, 1e-12, 1e9, [1.0]])
@EVERY
def test_an_epsilon_that_cannot_be_meant_is_refused(untouched, study, epsilon):
    refuse(untouched, study(epsilon=epsilon))


@pytest.mark.every(3)
@pytest.mark.parametrize("options", [{}, {"noise": "skellam"}, {"method": "local"}])
@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 1e-4])
def test_an_epsilon_too_small_for_its_delta_is_refused(untouched, epsilon, options):
    refuse(untouched, pca(epsilon=epsilon, **options))


@pytest.mark.every(2)
@EVERY
def test_one_party_alone_needs_no_federation(untouched, study):
    columns = ["bank.segment"] if study is not pca else ["bank.segment", "bank.age"]
    assert "two parties" in str(refuse(untouched, study(columns=columns)))


@pytest.mark.every(3)
@pytest.mark.parametrize("columns", [None, FEATURES])
@pytest.mark.parametrize(
    ("study", "target", "error"),
    [
        (linear, "bank.segment", cn.SchemaMismatch),
        (logistic, "bank.age", cn.SchemaMismatch),
        *[(study, "bank.salary", cn.SchemaMismatch) for study in (linear, logistic)],
        *[(study, "mint.age", cn.SchemaMismatch) for study in (linear, logistic)],
        *[(study, target, cn.BadInput) for study in (linear, logistic) for target in (None, 3, ["bank.age"], 1.5)],
    ],
)
def test_a_target_that_cannot_be_explained_is_refused_before_anything_is_paid(untouched, study, target, error, columns):
    refuse(untouched, study(target, columns=columns), error)


def test_a_target_of_the_wrong_kind_is_sent_to_the_right_estimator(untouched):
    assert "LogisticRegression" in str(refuse(untouched, linear("bank.default"), cn.SchemaMismatch))
    assert "LinearRegression" in str(refuse(untouched, logistic("telco.bill"), cn.SchemaMismatch))


@pytest.mark.parametrize("study", [linear, logistic])
def test_the_target_is_no_feature(untouched, study):
    name = study().target
    assert "target" in str(refuse(untouched, study(columns=[name, *FEATURES])))


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ("telco.bill", cn.BadInput),
        ([], cn.BadInput),
        (7, cn.BadInput),
        ({"telco.bill"}, cn.BadInput),
        ([3], cn.BadInput),
        ([["telco.bill"]], cn.BadInput),
        (["telco.bill", None], cn.BadInput),
        (["telco.bill", "telco.bill"], cn.BadInput),
        (["telco.bill", "insurer.salary"], cn.SchemaMismatch),
        (["telco.bill", "mint.plan"], cn.SchemaMismatch),
        (["telco.bill", "person_id"], cn.SchemaMismatch),
    ],
)
@EVERY
def test_columns_that_are_not_there_are_refused(untouched, study, columns, error):
    refuse(untouched, study(columns=columns), error)


@pytest.mark.every(3)
@pytest.mark.parametrize("method", ["secure", "local"])
@pytest.mark.parametrize("components", [0, -1, 14, 1_000, 1.0, 2.5, True, "2", None, [2], math.nan])
def test_a_number_of_components_out_of_range_is_refused(untouched, components, method):
    assert "1 to 13" in str(refuse(untouched, pca(components, method=method)))


@pytest.mark.every(3)
@pytest.mark.parametrize("ridge", [-1e-9, math.nan, math.inf, "1", None, True, [1.0]])
@pytest.mark.parametrize("study", [linear, logistic])
def test_a_ridge_that_cannot_be_meant_is_refused(untouched, study, ridge):
    refuse(untouched, study(ridge=ridge))


@pytest.mark.every(3)
@pytest.mark.parametrize("scale", [0, -1, 1.5, "64", True, (1 << 20) + 1, 1 << 40])
@pytest.mark.parametrize("options", [{}, {"noise": "skellam"}, {"method": "local"}])
def test_a_scale_that_cannot_be_meant_is_refused(untouched, scale, options):
    refuse(untouched, pca(scale=scale, **options))


def test_skellam_noise_too_large_to_draw_exactly_is_refused(untouched):
    assert "scale" in str(refuse(untouched, pca(noise="skellam", scale=1 << 20)))


@pytest.mark.every(3)
@pytest.mark.parametrize("noise", ["laplace", "normal", "", None, 1, ["gaussian"]])
@EVERY
def test_noise_is_gaussian_or_skellam(untouched, study, noise):
    refuse(untouched, study(noise=noise))


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "norms",
    [
        {"mint": 1.0},
        {"bank": 0},
        {"bank": -1.0},
        {"bank": math.nan},
        {"bank": math.inf},
        {"bank": "1"},
        {"bank": True},
        {"bank": None},
        [1.0],
        "bank",
        1.0,
    ],
)
@EVERY
def test_row_norms_map_parties_of_the_study_to_positive_lengths(untouched, study, norms):
    refuse(untouched, study(row_norms=norms))


def test_what_goes_with_the_secure_method_is_refused_by_the_local_one(untouched):
    refuse(untouched, pca(method="local", row_norms={"bank": 1.0}))
    refuse(untouched, pca(method="local", noise="skellam"))


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "study",
    [pca(method="sketchy"), linear(method="local"), logistic(method=None), pca(unit="household"), linear(unit=None)],
)
def test_methods_and_units_that_do_not_exist_are_refused(untouched, study):
    refuse(untouched, study)


@pytest.mark.every(3)
@pytest.mark.parametrize("what", [None, 5, np.zeros((3, 3))])
@EVERY
def test_fit_takes_a_federation_or_a_release(study, what):
    with pytest.raises(cn.BadInput, match="federation"):
        study().fit(what)


@pytest.mark.parametrize("signed", [["bank.segment"], ["bank.age"], ["bank.salary"], "bank.default"])
def test_only_a_category_of_two_levels_is_signed(untouched, signed):
    with pytest.raises(cn.BadInput) as refusal:
        untouched.moments(signed=signed, **PRICE)
    assert refusal.value.spent is None


@pytest.mark.parametrize("repeat", [0, -1, 1.5, True, "2"])
def test_a_repeat_that_cannot_be_meant_is_refused(untouched, repeat):
    for call in (pca().fit, lambda f, repeat: f.moments(repeat=repeat, **PRICE)):
        with pytest.raises(cn.BadInput):
            call(untouched, repeat=repeat)


@pytest.mark.every(2)
@EVERY
def test_a_study_past_one_partys_cap_costs_nobody_anything(study):
    policies = {"telco": cn.Policy(max_epsilon=0.5)}
    for options, error in (
        ({"policies": policies}, cn.PolicyRefusal),
        ({"budget": cn.Budget(epsilon=0.9, delta=1e-5)}, cn.BudgetExceeded),
        ({"budget": cn.Budget(epsilon=100.0)}, cn.BudgetExceeded),  # a cap without δ has no room for Gaussian noise
    ):
        with federation(**options) as f:
            with pytest.raises(error) as refusal:
                study().fit(f)
            assert refusal.value.spent is None
            assert (f.budget().releases == 0).all()


def test_a_federation_of_one_party_has_too_few_nodes_and_too_few_columns():
    with federation({"bank": frames()["bank"]}) as f:
        refuse(f, pca())
