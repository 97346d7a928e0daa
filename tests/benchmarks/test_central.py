"""The central run of Newton steps draws what rounded tables make of a score from its law, not from splits: the two agree."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from colonnade.families import LOGISTIC
from colonnade.secure.sine_link import STEPS
from tests import kit

FOLDER = Path(__file__).parents[2] / "benchmarks" / "newton"


@pytest.fixture
def central(monkeypatch):
    """The module, which its neighbours import by its bare name."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import central

    yield central
    for name in ("central", "newton_sets"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("kind", ["residual", "weight"])
def test_what_is_drawn_for_a_score_has_the_mean_and_the_deviation_of_splits(central, kind):
    bounds, score = LOGISTIC.bounds(12, 2, 6, 16), 9_001
    law = central.LinkLaw.of(bounds, kind)
    every = central.LinkLaw.split(bounds, kind, np.full(STEPS, score), np.arange(STEPS))
    assert np.isclose(every.mean(), law.means[score], atol=1e-6 * bounds.unit)
    assert 0.9 < every.std() / law.deviation < 1.1
    drawn = law.draw(np.full(20_000, score), kit.generator(f"central link {kind}"))
    p = stats.kstest((drawn - every.mean()) / law.deviation, "norm").pvalue
    assert p > kit.ALPHA


def test_sums_over_people_cannot_be_told_from_those_of_splits(central):
    """What is opened is a sum over people, so that is what must agree."""
    bounds, generator = LOGISTIC.bounds(12, 2, 6, 16), kit.generator("central link sums")
    law = central.LinkLaw.of(bounds, "residual")
    scores = generator.integers(0, STEPS, 2_000)
    split = [
        central.LinkLaw.split(bounds, "residual", scores, generator.integers(0, STEPS, 2_000)).sum() for _ in range(200)
    ]
    drawn = [law.draw(scores, generator).sum() for _ in range(200)]
    assert stats.ks_2samp(split, drawn).pvalue > kit.ALPHA
