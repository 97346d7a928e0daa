"""A test of independence on noisy counts: it keeps its level, it finds dependence, and it refuses what it cannot judge."""

import numpy as np
import pytest
from scipy import stats

import colonnade as cn
from colonnade.estimation.tables import discrete_gaussians, discrete_laplaces, independence_test
from colonnade.estimators.methods.counts import noise_of_counts
from tests import kit
from tests.estimators.moment_samples import federation, frames

TABLES, LEVEL = 400, 0.05
SETTINGS = {
    "much noise": (500, (3, 4), discrete_gaussians(100.0, 2), 1.0),
    "little noise": (2_000, (3, 3), discrete_laplaces(1.0, 1.5), 1.0),
    "even levels, much noise": (300, (5, 5), discrete_laplaces(10.0, 2.0), 0.0),
}


def shares(size, exponent):
    weights = np.arange(1.0, size + 1) ** -exponent
    return weights / weights.sum()


def noisy_table(generator, probabilities, count, noise):
    drawn = generator.multinomial(count, probabilities.ravel()).reshape(probabilities.shape)
    return (drawn + noise.draw(generator, probabilities.shape)).astype(float)


@pytest.mark.every(2)
@pytest.mark.parametrize("setting", SETTINGS)
def test_independent_columns_are_rejected_as_often_as_the_level_says(setting):
    count, (rows, columns), noise, exponent = SETTINGS[setting]
    generator = kit.generator(f"level {setting}")
    probabilities = np.outer(shares(rows, exponent), shares(columns, exponent))
    rejected = 0
    for _ in range(TABLES):
        table = noisy_table(generator, probabilities, count, noise)
        rejected += independence_test(table, noise, people=count, draws=199, generator=generator)[1] <= LEVEL
    assert stats.binom.sf(rejected - 1, TABLES, LEVEL) > kit.ALPHA
    assert rejected > TABLES * LEVEL / 5  # not by never rejecting


def test_the_usual_test_would_reject_far_more_often_than_its_level():
    count, (rows, columns), noise, exponent = SETTINGS["much noise"]
    generator = kit.generator("usual")
    probabilities = np.outer(shares(rows, exponent), shares(columns, exponent))
    usual = [
        stats.chi2_contingency(np.maximum(noisy_table(generator, probabilities, count, noise), 0.5)).pvalue <= LEVEL
        for _ in range(100)
    ]
    assert np.mean(usual) > 0.9


def test_dependence_is_found():
    generator = kit.generator("power")
    probabilities = np.full((3, 3), 0.05) + 0.55 / 3 * np.eye(3)
    noise = discrete_gaussians(100.0, 2)
    for _ in range(20):
        table = noisy_table(generator, probabilities, 2_000, noise)
        assert independence_test(table, noise, people=2_000, draws=199, generator=generator)[1] <= 0.01


@pytest.mark.every(2)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("columns", [["bank.segment", "telco.plan"], ["bank.segment", "bank.default"]])
def test_the_noise_of_a_study_is_the_one_that_its_errors_say(columns, delta):
    with federation() as f:
        study = cn.PatternCount(columns, epsilon=1.0, delta=delta).fit(f)
    noise, people = noise_of_counts(study.plan_, study.schema_)
    assert noise.variance**0.5 == pytest.approx(float(study.stderr_.iloc[0]), rel=1e-6)
    assert people == study.plan_.people


def test_a_study_finds_what_its_columns_have_in_common_and_a_loaded_one_finds_the_same(tmp_path):
    columns = ["bank.segment", "bank.default", "telco.plan"]
    with federation(frames(3_000)) as f:
        study = cn.PatternCount(columns, epsilon=2.0).fit(f)
        pair = cn.PatternCount(columns[::2], epsilon=2.0).fit(f)
    study.save(tmp_path / "study.json")
    found = study.independence(["telco.plan", "bank.segment"])
    assert found.p_value <= 0.01
    assert cn.load(tmp_path / "study.json").independence(["telco.plan", "bank.segment"]) == found
    assert pair.independence().p_value <= 0.01
    assert "p =" in repr(found)
