"""Components and regressions from sketches: unbiased moments, errors as predicted, and no peer."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import colonnade as cn
from colonnade.papers.protocols import SketchedMoments, best_sketch_size
from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import gaussian_party_price, ledger_rho
from tests import kit
from tests.federations import TEST_KEY

SCHEMAS = {
    "bank": cn.Schema(age=cn.Numeric(0, 100), kind=cn.Category(["a", "b", "c"])),
    "telco": cn.Schema(bill=cn.Numeric(0, 10), minutes=cn.Numeric(-3, 3)),
}
NUMBERS = ["bank.age", "telco.bill", "telco.minutes"]


def tables(people=20_000):
    rng = np.random.default_rng(11)
    hidden = rng.normal(size=people)
    bill = np.clip(6 + 1.5 * hidden + rng.normal(size=people), 0, 10)
    return {
        "bank": pd.DataFrame(
            {
                "id": np.arange(people),
                "age": np.clip(60 + 15 * hidden + 8 * rng.normal(size=people), 0, 100),
                "kind": rng.choice(["a", "b", "c"], people, p=[0.5, 0.3, 0.2]),
            }
        ),
        "telco": pd.DataFrame({"id": np.arange(people), "bill": bill, "minutes": rng.uniform(-3, 3, people)}),
    }


def federation(frames=None, epsilon=5_000.0):
    frames = frames or tables()
    return cn.Federation.simulate(
        {name: cn.Party(frame, schema=SCHEMAS[name]) for name, frame in frames.items()},
        id="id",
        budget=cn.Budget(epsilon=epsilon, delta=1e-4),
        test_key=None if kit.fresh() else TEST_KEY,
    )


def coded(frames):
    bank, telco = frames["bank"], frames["telco"]
    return np.column_stack([bank.age / 50 - 1, telco.bill / 5 - 1, telco.minutes / 3])


def moments(f, columns, epsilon, repeat, **options):
    described = f.describe(columns)
    share = gaussian_party_price(Price.of(epsilon, 1e-5), 2, "person")
    algorithm = SketchedMoments(described, share, f.people, draw=repeat, **options)
    plan = f._driver.plan(
        algorithm,
        task="moments",
        method="sketch",
        price=Price.of(epsilon, 1e-5),
        unit="person",
        parameters={},
        repeat=repeat,
    )
    return algorithm, f._driver.run(algorithm, plan).value


def test_moments_are_unbiased_and_as_noisy_as_they_say():
    frames = tables(5_000)
    x = coded(frames)
    wide = np.column_stack([np.ones(len(x)), x])
    centred = x - x.mean(axis=0)
    with federation(frames) as f:
        found = [moments(f, NUMBERS, 2.0, repeat) for repeat in range(1, 61)]
    errors = np.array([one.matrix - wide.T @ wide for _, one in found])
    centre_errors = np.array(
        [
            one.matrix[1:, 1:] - np.outer(one.matrix[0, 1:], one.matrix[0, 1:]) / 5_000 - centred.T @ centred
            for _, one in found
        ]
    )
    stated = np.sqrt(found[0][0].variance(centred.T @ centred))
    for errors_of, sd in ((errors[:, 0, 1:], stated[0, 1:]), (centre_errors, stated[1:, 1:])):
        z = errors_of.mean(axis=0) / (errors_of.std(axis=0, ddof=1) / np.sqrt(60))
        assert (2 * stats.t.sf(np.abs(z), 59) > kit.ALPHA).all()
        ratio = errors_of.std(axis=0, ddof=1) / sd
        assert 0.6 < ratio.min() <= ratio.max() < 1.45


def test_the_size_is_the_closed_form_of_public_numbers():
    described = {name: SCHEMAS[name.split(".")[0]][name.split(".")[1]] for name in NUMBERS}
    price = Price.of(1.0, 1e-6)
    one = SketchedMoments(described, price, 200_000)
    noise = (1 + 2 + 2) / (2 * float(ledger_rho(price)))
    assert one.size == best_sketch_size(200_000 * 3 / 3, noise) == round(200_000 / noise)
    assert SketchedMoments(described, price, 100).size == 16
    assert SketchedMoments(described, Price.of(100.0, 1e-6), 10**7).size == 4_096
    evenly = np.diag(np.full(len(NUMBERS), 200_000 / 3))
    sizes = [
        float(np.trace(SketchedMoments(described, price, 200_000, rows=s).variance(evenly)[1:, 1:]))
        for s in (one.size // 4, one.size, one.size * 4)
    ]
    assert sizes[1] < min(sizes[0], sizes[2])


def test_with_a_generous_price_only_the_sketchs_own_error_is_left():
    frames = tables()
    x = coded(frames)
    values, vectors = np.linalg.eigh(np.cov(x, rowvar=False))
    with federation(frames) as f:
        pca = cn.PCA(2, columns=NUMBERS, method="sketch", epsilon=1_000.0, delta=1e-5).fit(f)
        exact = cn.PCA(2, columns=NUMBERS, method="secure", epsilon=1_000.0, delta=1e-5).fit(f)
    assert pca.explained_variance_ == pytest.approx(values[::-1][:2], rel=0.15)  # √(2/4096) is 2.2 %
    assert abs(pca.components_[0] @ vectors[:, -1]) > 0.98
    np.testing.assert_allclose(pca.mean_, exact.mean_, atol=0.1)


@pytest.mark.full
def test_regression_from_sketches_agrees_with_its_own_standard_errors():
    frames = tables(5_000)
    x = coded(frames)
    design = np.column_stack([np.ones(len(x)), x[:, [0, 2]]])
    exact = np.linalg.lstsq(design, x[:, 1], rcond=None)[0][1:] * 5 / np.array([50, 3])
    with federation(frames) as f:
        draws = [
            cn.LinearRegression(
                "telco.bill", columns=["bank.age", "telco.minutes"], method="sketch", epsilon=20.0, delta=1e-5
            ).fit(f, repeat=r)
            for r in range(1, 31)
        ]
    errors = np.array([draw.coef_ for draw in draws]) - exact
    stated = np.mean([draw.coef_stderr_ for draw in draws], axis=0)
    assert (np.abs(errors.mean(axis=0)) < 6 * stated / np.sqrt(30) + 0.02 * np.abs(exact)).all()
    assert (errors.std(axis=0) < 2 * stated).all()
    assert (errors.std(axis=0) > stated / 3).all()


def test_the_statement_needs_no_peer_and_stays_within_the_price():
    with federation() as f:
        pca = cn.PCA(1, columns=NUMBERS, method="sketch", epsilon=1.0, delta=1e-5).fit(f)
        model = cn.LinearRegression(
            "telco.bill", columns=["bank.age"], method="sketch", epsilon=1.0, delta=1e-5, unit="party"
        ).fit(f)
        assert 0.9 < f.budget("bank").spent < 2.0
    for study in (pca, model):
        assert not study.privacy_.local
        assert study.privacy_.delta() == 1e-5
        assert study.plan_.compute_nodes == ()
        assert np.isfinite(study.privacy_.epsilon_if_replaced())
    assert 0.99 < pca.privacy_.epsilon(unit="person") <= 1.0
    assert pca.privacy_.epsilon(unit="party") < 0.75
    assert 0.99 < model.privacy_.epsilon(unit="party") <= 1.0
    assert pca.privacy_.epsilon(observer=("coordinator", "telco")) < 0.75


def test_fitting_again_is_free_another_draw_has_other_signs_and_a_preview_says_what_to_expect():
    study = cn.PCA(1, columns=NUMBERS, method="sketch", epsilon=1.0, delta=1e-5)
    with federation() as f:
        text = str(study.preview(f))
        assert (f.budget().spent == 0).all()
        first = cn.PCA(**study.get_params()).fit(f)
        spent = f.budget("bank").spent
        again = cn.PCA(**study.get_params()).fit(f)
        assert f.budget("bank").spent == spent
        other = cn.PCA(**study.get_params()).fit(f, repeat=2)
        cn.LinearRegression("telco.bill", columns=["bank.age"], method="sketch", epsilon=1.0, delta=1e-5).preview(f)
    np.testing.assert_array_equal(first.components_, again.components_)
    assert "noise floor" in text
    seeds = {study.plan_.steps[0].parameters["seed"] for study in (first, again, other)}
    assert len(seeds) == 2
