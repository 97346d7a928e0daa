"""One release of moments: its noise is what the statement says, it is audited, and everything fitted on it is free."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import colonnade as cn
from colonnade.audit import distinguish
from colonnade.privacy import samplers
from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import ledger_rho
from colonnade.privacy.laws.gram import GramNoise
from colonnade.privacy.laws.tables import TableNoise
from tests import kit
from tests.estimators.moment_samples import (
    GENEROUS,
    PRICE,
    assert_same_directions,
    federation,
    frames,
    joined,
    joined_numbers,
    plain_gram,
    scores,
    split,
)

COLUMNS, PEOPLE, RELEASES = 36, 100, 8


@dataclass(frozen=True)
class Setting:
    """Who holds the columns, and against whom the noise is made."""

    parties: int
    collusion: int = 1
    nodes: tuple[str, ...] = ()
    noise: str = "gaussian"
    unit: str = "person"

    def __str__(self) -> str:
        return f"{self.parties} parties, c={self.collusion}, {self.noise}, {self.unit}, nodes {self.nodes}"


SETTINGS = [
    Setting(2),
    Setting(2, nodes=("auditor",)),
    Setting(3, collusion=0),
    Setting(3, noise="skellam"),
    Setting(4, unit="party"),
    Setting(3, collusion=2, nodes=("auditor", "ombudsman")),
]


@cache
def released(setting: Setting) -> tuple[tuple[cn.MomentsRelease, ...], np.ndarray]:
    """Some releases of one setting, and the moments without noise."""
    with split(
        COLUMNS, setting.parties, PEOPLE, name=str(setting), compute_nodes=setting.nodes, collusion=setting.collusion
    ) as f:
        draws = tuple(
            f.moments(**PRICE, noise=setting.noise, unit=setting.unit, repeat=number)
            for number in range(1, RELEASES + 1)
        )
        frame = joined_numbers(f, COLUMNS, PEOPLE)
    return draws, plain_gram(frame, draws[0].columns, 64 if setting.noise == "skellam" else 4096)


def z_scores(setting: Setting) -> np.ndarray:
    draws, plain = released(setting)
    return np.concatenate([scores(draw.moments, plain) for draw in draws])


def is_standard_normal(values: np.ndarray) -> bool:
    """Whether mean, variance and shape are all plausible, at a third of the level each."""
    size = len(values)
    mean = 2 * stats.norm.sf(abs(values.mean()) * np.sqrt(size))
    spread = 2 * min(stats.chi2.cdf(np.sum(values**2), size), stats.chi2.sf(np.sum(values**2), size))
    cells = np.bincount((stats.norm.cdf(values) * 50).astype(int).clip(0, 49), minlength=50)
    return min(mean, spread, kit.chi_square_p(cells, np.ones(50))) > kit.ALPHA / 3


# The noise ------------------------------------------------------------------------------------------------------------------


@pytest.mark.every(4)
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_the_noise_of_a_release_is_as_large_as_it_says(setting):
    assert is_standard_normal(z_scores(setting))


@pytest.mark.every(2)
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_tenth_more_or_less_noise_would_have_been_noticed(factor):
    assert all(not is_standard_normal(factor * z_scores(setting)) for setting in SETTINGS[:3])
    assert not is_standard_normal(z_scores(SETTINGS[0]) + 0.15)


def test_no_two_entries_and_no_two_draws_share_noise():
    for setting in SETTINGS[:2]:
        draws, plain = released(setting)
        values = [scores(draw.moments, plain) for draw in draws]
        products = np.concatenate([one * other for one, other in pairwise(values)])
        neighbours = np.concatenate([one[1:] * one[:-1] for one in values])
        for product in (products, neighbours):
            assert 2 * stats.norm.sf(abs(product.sum()) / np.sqrt(len(product))) > kit.ALPHA


@pytest.mark.every(2)
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_stated_variances_are_those_of_the_row_bound_and_the_price(setting):
    """V = (R⁴ − γ⁴)/2ρ on the diagonal (the constant column stays), V/2 inside a party, P/(P−c) times that between
    parties (docs/proofs/gram.md)."""
    variance = released(setting)[0][0].moments.variance
    own, rest = COLUMNS // setting.parties, COLUMNS + 1 - COLUMNS // setting.parties
    moved = (COLUMNS + 1) ** 2 - (rest**2 if setting.unit == "party" else 1)
    diagonal = moved / (2 * float(ledger_rho(Price.of(**PRICE))))
    slack = 0.01 if setting.noise == "skellam" else 1e-6
    np.testing.assert_allclose(np.diag(variance)[1:], diagonal, rtol=slack)
    np.testing.assert_allclose(variance[0, 1:], diagonal / 2, rtol=slack)
    np.testing.assert_allclose(variance[1, 2 : own + 1], diagonal / 2, rtol=slack)
    factor = setting.parties / (setting.parties - setting.collusion)
    np.testing.assert_allclose(variance[1, own + 1 :], factor * diagonal / 2, rtol=slack)
    assert variance[0, 0] == 0


def test_how_many_parties_hold_the_columns_changes_the_noise_between_them_by_the_stated_factor_only():
    inside, between, errors = [], [], []
    for parties in (2, 3, 4):
        draws, plain = released(Setting(parties))
        variance = draws[0].moments.variance
        inside.append(variance[0, 1])
        between.append(variance[1, -1])
        upper = np.triu_indices(len(plain), 1)
        cross = variance[upper] > inside[-1]
        noise = np.concatenate([(draw.moments.matrix - plain)[upper][cross] for draw in draws])
        errors.append((noise.var(), len(noise)))
    np.testing.assert_allclose(inside, inside[0])
    np.testing.assert_allclose(np.array(between) / inside[0], [2, 3 / 2, 4 / 3])
    for (one, count), (other, others), ratio in zip(errors, errors[1:], [4 / 3, 9 / 8], strict=False):
        quotient = one / other / ratio  # an F statistic, were the noise continuous
        assert 2 * min(stats.f.cdf(quotient, count, others), stats.f.sf(quotient, count, others)) > kit.ALPHA


# Audits ---------------------------------------------------------------------------------------------------------------------

CLAIM = Price.of(4.0, 1e-5)
SAMPLES = 60_000
GAMMA = 16


def gram_noise(parties: int = 3, collusion: int = 1, law: str = "gaussian") -> GramNoise:
    """Parties with one number each."""
    return GramNoise(dict.fromkeys(range(parties), GAMMA**2), GAMMA**2, parties, CLAIM, "person", collusion, law)


def gram_views(
    noise: GramNoise, own: Fraction, share: Fraction, shares: int, name: str
) -> tuple[np.ndarray, np.ndarray]:
    """The most telling number in many releases without and with the person whose every column is at its bound.

    Each party noises its column's sum and square alone; of an entry between parties the observer lacks ``shares`` shares.
    """
    randomness, parties = kit.source(name), len(noise.row_bounds)
    draw = samplers.discrete_gaussian if noise.family == "gaussian" else _skellam
    entries = [(own, 1)] * parties + [(2 * own, 1)] * parties + [(share, shares)] * math.comb(parties, 2)
    sides = np.zeros((2, SAMPLES))
    for side, shift in enumerate((0, GAMMA**2)):
        for variance, count in entries:
            entry = shift + sum(draw(variance, SAMPLES, randomness) for _ in range(count))
            sides[side] += entry / float(variance * count)
    return sides[0], sides[1]


def _skellam(variance, size, randomness):
    return samplers.skellam(variance / 2, size, randomness)


def refuted(views, loss) -> bool:
    deltas = (1e-4, 1e-3, 1e-2, 0.05, 0.2)
    findings = [distinguish(*views, delta=delta, alpha=kit.ALPHA / len(deltas)) for delta in deltas]
    return any(finding.epsilon > loss.epsilon(finding.delta) for finding in findings)


@pytest.mark.every(2)
@pytest.mark.parametrize("law", ["gaussian", "skellam"])
@pytest.mark.parametrize("colluders", [0, 1, 2])
def test_an_audit_of_the_gram_matrix_does_not_refute_its_loss_and_convicts_half_the_noise(law, colluders):
    noise = gram_noise(law=law)
    loss, shares, name = noise.loss(colluders=colluders), 3 - max(colluders, 1), f"gram audit {law} {colluders}"
    assert not refuted(gram_views(noise, noise.own_variance, noise.share, shares, name), loss)
    assert refuted(gram_views(noise, noise.own_variance / 4, noise.share / 4, shares, name), loss)


def test_shares_that_forget_the_colluders_are_convicted():
    """Five of six parties may collude: then every share is the whole noise, and a sixth of it is far too little."""
    noise = gram_noise(6, collusion=5)
    loss, careless = noise.loss(colluders=5), gram_noise(6, collusion=0).share
    assert float(noise.share / careless) == pytest.approx(6, rel=1e-6)
    assert not refuted(gram_views(noise, noise.own_variance, noise.share, 1, "careful"), loss)
    assert refuted(gram_views(noise, noise.own_variance, careless, 1, "careless"), loss)


def table_views(noise: TableNoise, honest: int, scale: Fraction, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The cell that a person is in, in each of three tables, as a coalition with one party sees it."""
    randomness = kit.source(name)
    tables = len(noise.parties)
    sides = []
    for shift in (0, 1):
        shares = [samplers.polya_share(scale, honest, tables * SAMPLES, randomness) for _ in range(noise.honest)]
        sides.append((shift + sum(shares)).reshape(-1, tables))
    return sides[0], sides[1]


def told_apart(views) -> float:
    return distinguish(*views, alpha=kit.ALPHA, statistic=lambda cells: np.clip(cells, 0, 1)).epsilon


def test_an_audit_of_the_tables_does_not_refute_their_loss_and_convicts_half_the_noise():
    noise = TableNoise(("a", "b", "c"), Price.of(2.0), "person", 1, 12)
    claimed = noise.loss(colluders=1).epsilon(0.0)
    assert claimed == pytest.approx(2.0)
    assert told_apart(table_views(noise, noise.honest, noise.share, "tables")) <= claimed
    assert told_apart(table_views(noise, noise.honest, noise.share / 2, "half tables")) > claimed


def test_tables_whose_shares_forget_the_colluder_are_convicted():
    noise = TableNoise(("a", "b", "c"), Price.of(2.0), "person", 1, 12)
    assert told_apart(table_views(noise, len(noise.parties), noise.share, "careless tables")) > 2.0


# What is free ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def both():
    """A federation, a generous release of all its columns, and the people in it."""
    tables = frames(1_500)
    with federation(tables) as f:
        yield f, f.moments(**GENEROUS), joined(tables)


def test_a_release_has_its_papers(both):
    f, release, people = both
    assert set(release.columns) == set(f.describe())
    assert release.moments.count == len(people)
    assert 500 < release.privacy_.epsilon() <= GENEROUS["epsilon"]
    assert release.transcript_.bytes > 0
    assert release.plan_.task == "moments"
    assert "paid" in release.receipt_
    assert "6 columns" in repr(release)
    assert "1,500 people" in repr(release)


def test_many_models_from_one_release_cost_nothing(both):
    f, release, people = both
    spent = f.budget().spent.copy()
    targets = {
        name: (cn.LogisticRegression if isinstance(column, cn.Category) else cn.LinearRegression)(name).fit(release)
        for name, column in release.columns.items()
    }
    paths = [cn.LinearRegression("bank.age", ridge=ridge).fit(release) for ridge in (1.0, 100.0, 1e4, 1e6)]
    subsets = [
        cn.LinearRegression("bank.age", columns=some).fit(release)
        for some in (["telco.bill"], ["insurer.product", "telco.bill"])
    ]
    components = [cn.PCA(k).fit(release) for k in (1, 5, 13)]
    pd.testing.assert_series_equal(f.budget().spent, spent)
    assert all("nothing spent" in model.receipt_ for model in [*targets.values(), *paths, *subsets, *components])
    assert targets["insurer.product"].coef_.shape == (4, len(targets["insurer.product"].feature_names_in_))
    coded = np.where(paths[0].feature_names_in_ == "telco.bill", 100.0, 1.0)  # half the width of its bounds
    norms = [float(np.linalg.norm(path.coef_ * coded)) for path in paths]
    assert norms == sorted(norms, reverse=True)
    assert list(subsets[1].feature_names_in_) == ["telco.bill", *(f"insurer.product={p}" for p in PRODUCTS)]
    assert targets["bank.default"].score(people, people["bank.default"]) > 0.6
    assert [len(one.components_) for one in components] == [1, 5, 13]


PRODUCTS = ("car", "home", "life", "none")


def test_a_subset_of_a_release_is_what_a_release_of_the_subset_says(both):
    f, release, _ = both
    some = ["bank.age", "telco.bill", "telco.plan"]
    small = f.moments(some, **GENEROUS)
    one, other = (cn.PCA(2, columns=some).fit(source) for source in (release, small))
    assert_same_directions(one.components_, other.components_, within=0.03)
    np.testing.assert_allclose(one.mean_, other.mean_, rtol=1e-3)


def test_a_signed_category_serves_as_target_and_as_feature_and_not_for_components(both):
    f, _, people = both
    signed = f.moments(signed=["telco.plan", "bank.default"], **GENEROUS)
    levels = both[1]
    for target in ("telco.plan", "bank.default"):
        one, other = (cn.LogisticRegression(target, method="secure").fit(release) for release in (signed, levels))
        assert list(one.feature_names_in_) == list(other.feature_names_in_)
        np.testing.assert_allclose(one.predict_proba(people), other.predict_proba(people), atol=0.01)
    linear = [cn.LinearRegression("bank.age").fit(release).predict(people) for release in (signed, levels)]
    np.testing.assert_allclose(linear[0], linear[1], atol=0.2)
    with pytest.raises(cn.BadInput, match="signed"):
        cn.PCA(2).fit(signed)
    spent = f.budget().spent.copy()
    f.moments(signed=["bank.default", "telco.plan", "bank.default"], **GENEROUS)
    pd.testing.assert_series_equal(f.budget().spent, spent)
