"""Studies on a union of two lists: the same as on the joined tables, exactly, and nobody learns who is in both."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import colonnade as cn
from colonnade.coordinator.protocols.moment_releases import UnionRelease
from colonnade.errors import PlanMismatch, PolicyRefusal
from colonnade.party.steps.products import PrivateUnionCross, PrivateUnionOwn
from colonnade.privacy import samplers
from colonnade.privacy.accounting import Price
from tests import kit

LEFT = cn.Schema(
    x=cn.Numeric(0, 1, missing=0.25),  # not the midpoint, which a person without a row here has
    y=cn.Numeric(-1, 1),
    g=cn.Category(["a", "b", "c"], missing="excluded"),
)
RIGHT = cn.Schema(z=cn.Numeric(-1, 1), h=cn.Category(["u", "v"]))
COLUMNS = {f"left.{name}": column for name, column in LEFT.items()} | {f"right.{n}": c for n, c in RIGHT.items()}


def tables(people: int = 120, seed: str = "union") -> dict[str, pd.DataFrame]:
    rng = kit.generator(seed)
    left = pd.DataFrame(
        {
            "id": np.arange(people),
            "x": rng.random(people),
            "y": rng.uniform(-1, 1, people),
            "g": rng.choice(["a", "b", "c"], people),
        }
    )
    left.loc[::9, "g"] = None
    left.loc[::11, "x"] = np.nan
    right = pd.DataFrame(
        {"id": np.arange(people), "z": rng.uniform(-1, 1, people), "h": rng.choice(["u", "v"], people)}
    )
    return {
        "left": left.iloc[: people * 3 // 4].sample(frac=1, random_state=1),
        "right": right.iloc[people // 3 :].sample(frac=1, random_state=2),
    }


def united(found: dict[str, pd.DataFrame] | None = None, *, size: str = "hidden", **options) -> cn.Federation:
    found = found or tables()
    schemas = {"left": LEFT, "right": RIGHT}
    federation = cn.Federation.simulate(
        {name: cn.Party(frame, schema=schemas[name]) for name, frame in found.items()},
        id="id",
        budget=cn.Budget(epsilon=20.0, delta=1e-5),
        aligned=False,
        **options,
    )
    return federation.align("union", size=size)


def nothing(variance, size, randomness):
    """No noise: what is left must be exact."""
    return np.zeros(size, dtype=np.int64)


@pytest.mark.parametrize("size", ["hidden", "public"])
def test_the_matrix_is_that_of_the_joined_tables_exactly(monkeypatch, size):
    monkeypatch.setattr(samplers, "discrete_gaussian", nothing)
    found = tables()
    with united(found, size=size) as federation:
        release = federation.moments(epsilon=1.0, delta=1e-6, scale=64)
        moments = release.moments
    joined = found["left"].merge(found["right"], on="id")
    schemas = {"left": LEFT, "right": RIGHT}
    with cn.Federation.simulate(
        {name: cn.Party(joined[["id", *schema]], schema=schema) for name, schema in schemas.items()},
        id="id",
        budget=cn.Budget(epsilon=20.0, delta=1e-5),
    ) as plain:
        expected = plain.moments(epsilon=1.0, delta=1e-6, scale=64).moments
    assert moments.count == len(joined) == expected.count
    assert (moments.matrix == expected.matrix).all()
    assert moments.features == expected.features


def test_pattern_counts_are_those_of_the_joined_tables():
    found = tables(240)
    with united(found) as federation:
        counted = cn.PatternCount(["left.g", "right.h"], epsilon=8.0).fit(federation)
    joined = found["left"].merge(found["right"], on="id").dropna()
    true = joined.groupby(["g", "h"]).size().reindex(counted.counts_.index, fill_value=0)
    assert np.abs(counted.unbiased_ - true.to_numpy()).max() < 8


def test_three_steps_cost_each_ledger_the_price_and_towards_the_other_party_no_more():
    with united() as federation:
        statement = federation.moments(epsilon=1.0, delta=1e-6).privacy_
        assert federation.budget().releases.tolist() == [3, 3]
        for observer in ("coordinator", "left", "right"):
            assert 0.999 < statement.epsilon(observer=observer) <= 1.0


@pytest.mark.parametrize("part", ["cross", "own products of left"])
def test_shares_of_the_noise_have_the_declared_variance_and_no_other(part):
    plan = None
    with united() as federation:
        release = UnionRelease(COLUMNS, Price.of(1.0, 1e-6), scale=4)
        plan = federation._driver.plan(
            release, task="moments", method="secure", price=release.price, unit="person", parameters={}
        )
    step = plan.step("left", part)
    statistic = kit.private(PrivateUnionCross if part == "cross" else PrivateUnionOwn, plan, step, LEFT)
    entries = statistic.step.joint.noise.entries_of("cross" if part == "cross" else "left")
    heavy = np.isin(np.arange(entries), statistic.step.joint.noise.doubled)
    assert heavy.sum() == (1 if part == "cross" else 5)
    randomness = kit.sampler(f"union noise {part}")
    drawn = np.array([statistic.cross_noise(entries, randomness) for _ in range(3_000)])
    scaled = drawn / np.sqrt(np.where(heavy, 2.0, 1.0) * float(statistic.step.joint.noise.share))
    chi, degrees = (scaled**2).sum(), scaled.size
    low, high = stats.chi2.ppf([kit.ALPHA, 1 - kit.ALPHA], degrees)
    assert low < chi < high
    for factor in (0.9, 1.1):
        assert not low < chi * factor**2 < high
    first = (scaled[:, heavy] ** 2).sum()
    assert stats.chi2.ppf(kit.ALPHA, 3_000) < first / heavy.sum() < stats.chi2.ppf(1 - kit.ALPHA, 3_000)


def test_messages_of_a_study_do_not_depend_on_who_is_in_common():
    """Other overlaps, the same public facts: kinds, turns and lengths of all messages agree."""
    seen = []
    for shift in (0, 40, 1_000):
        found = tables()
        found["right"] = found["right"].assign(id=found["right"]["id"] + shift)
        with united(found) as federation:
            transcript = federation.moments(epsilon=1.0, delta=1e-6, columns=["left.x", "right.z"]).transcript_
            seen.append((federation.people, transcript.rounds, transcript.messages))
    assert seen[0] == seen[1] == seen[2]


def test_who_is_in_common_is_in_neither_partys_keeping():
    """Each party knows which places are its own, and half of its own places look like the other half."""
    with united() as federation:
        guards = federation._driver.transport._endpoints
        for party, count in (("left", 90), ("right", 80)):
            kept = guards[party]._row_orders.order(federation._driver.alignment)
            assert (kept.rows >= 0).sum() == count
            assert kept.union
            assert [one for one in kept.ids.to_pylist() if one is not None] == [
                str(tables()[party].id.iloc[row]) for row in kept.rows if row >= 0
            ]


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "study",
    [
        cn.PatternCount(["left.g", "right.h"], method="response", epsilon=1.0),
        cn.PatternCount(["left.g", "right.h"], method="independent", epsilon=1.0),
        cn.PCA(1, method="local", epsilon=1.0, delta=1e-6),
        cn.PCA(1, method="sketch", epsilon=1.0, delta=1e-6),
    ],
)
def test_a_study_that_would_count_people_whom_the_other_lacks_is_refused(study):
    with united() as federation:
        with pytest.raises(PolicyRefusal, match="union"):
            study.fit(federation)
        assert federation.budget().spent.tolist() == [0.0, 0.0]


def test_a_coordinator_cannot_ask_for_plain_moments_on_a_union():
    with united() as federation:
        federation._driver.union = False
        with pytest.raises(PolicyRefusal, match="union"):
            federation.moments(epsilon=1.0, delta=1e-6)


def test_a_union_is_of_two_parties():
    third = cn.Party(tables()["right"], schema=RIGHT)
    with (
        cn.Federation.simulate(
            {
                "left": cn.Party(tables()["left"], schema=LEFT),
                "right": cn.Party(tables()["right"], schema=RIGHT),
                "more": third,
            },
            id="id",
            budget=cn.Budget(epsilon=1.0),
            aligned=False,
        ) as federation,
        pytest.raises(PlanMismatch, match="products of two"),
    ):
        federation.align("union")
