"""The attack on shared keys succeeds against the composition of Private vertical clustering and fails against ours
(docs/proofs/sketches.md)."""

import math

import numpy as np
import pytest

from colonnade.papers import attack as audits
from colonnade.papers import laws
from colonnade.papers.attack import ColonnadeSketches, PaperSketches, attack, largest_common
from colonnade.papers.laws import least_floor, least_phantoms
from colonnade.privacy.accounting import Price
from tests import kit

PRICE = Price.of(0.49, 1e-5)


def loss_bounds(paper: PaperSketches, others: int) -> tuple[float, float]:
    """Lower bounds on the paper's loss (δ at its ε, ε at its δ): exact probabilities of "some sketch has equal values from a on".

    There are so many ``others`` in the victim's cluster at each party, and nobody is in both.
    """
    floor, step = least_floor(paper.epsilon_each, paper.gamma), math.log1p(paper.gamma)
    elements = others + least_phantoms(paper.epsilon_each)
    function = -np.expm1(-step * np.arange(floor, floor + math.ceil(45 / step)))
    before = np.concatenate([[0.0], function[:-1]])
    absent = (function**elements - before**elements) ** 2
    cross = before ** (elements + 1) * function**elements
    present = function ** (2 * elements + 1) - 2 * cross + before ** (2 * elements + 1)
    from_a_on = [np.clip(np.cumsum(one[::-1])[::-1], 0.0, 1 - 1e-15) for one in (absent, present)]
    rare, frequent = (-np.expm1(paper.sketches * np.log1p(-each)) for each in from_a_on)
    usable = rare > 1e-300
    ratio = np.maximum(frequent[usable] - paper.price.delta, 1e-300) / rare[usable]
    return float(np.max(frequent - math.exp(paper.price.epsilon) * rare)), float(np.log(np.max(ratio)))


@pytest.mark.parametrize(
    ("gamma", "others", "delta", "epsilon"),
    [
        (1.0, 0, 3.2e-4, 3.08),
        (1.0, 5_000, 6.5e-5, 1.55),
        (1.0, 20_000, 8.6e-6, 0.41),
        (0.5, 0, 6.1e-4, 3.67),
        (0.5, 20_000, 1.4e-5, 0.65),
        (0.1, 0, 2.5e-3, 5.09),
        (0.1, 5_000, 4.5e-4, 3.40),
        (0.02, 0, 1.2e-2, 6.66),
        (0.02, 20_000, 2.9e-4, 2.97),
    ],
)
def test_the_papers_loss_is_at_least_what_the_table_says(gamma, others, delta, epsilon):
    certain_delta, certain_epsilon = loss_bounds(PaperSketches(PRICE, 4_096, gamma), others)
    assert certain_delta == pytest.approx(delta, rel=0.05)
    assert certain_epsilon == pytest.approx(epsilon, abs=0.015)


def test_the_papers_mechanism_is_the_papers():
    paper = PaperSketches(PRICE, 4_096, 0.1)
    assert paper.epsilon_each == pytest.approx(2.7393e-4, rel=1e-4)
    values = paper.release(300, kit.source("paper"), present=False)[..., 0].ravel()
    floor, elements = least_floor(paper.epsilon_each, 0.1), least_phantoms(paper.epsilon_each)
    cuts = np.arange(floor, floor + 30)
    law = (1 - 1.1 ** -cuts.astype(float)) ** elements
    observed = np.diff(np.searchsorted(np.sort(values), np.append(cuts, 10**6), side="right"), prepend=0)
    assert kit.chi_square_p(observed, np.diff(np.append(law, 1.0), prepend=0.0)) > kit.ALPHA


def test_the_attack_succeeds_against_the_papers_composition():
    found = attack(PaperSketches(PRICE), randomness=kit.source("paper attacked"), samples=16_000, alpha=kit.ALPHA)
    assert found.caught
    assert found.epsilon > 2 * PRICE.epsilon


def test_the_attack_fails_against_ours():
    found = attack(ColonnadeSketches(PRICE), randomness=kit.source("ours attacked"), samples=8_000, alpha=kit.ALPHA)
    assert not found.caught


def test_the_attack_succeeds_against_ours_with_phantoms_of_each_partys_own(monkeypatch):
    honest, parties = laws.phantom_values, iter("abcd")

    def own_phantoms(law, sketches, clusters, source):
        return honest(law, sketches, clusters, source.spawn(next(parties)))

    monkeypatch.setattr(laws, "phantom_values", own_phantoms)
    found = attack(ColonnadeSketches(PRICE), randomness=kit.source("own phantoms"), samples=8_000, alpha=kit.ALPHA)
    assert found.caught


def test_the_attack_succeeds_against_phantoms_that_the_cell_of_a_partial_record_lacks(monkeypatch):
    """Somebody who has a record at one party only, where cells (a, none) have no phantoms: a maximum that only it has."""
    honest = laws.phantom_values

    def none_for_partial_records(law, sketches, clusters, source):
        values = honest(law, sketches, clusters, source)
        values[:, :, clusters] = values[:, clusters, :] = law.floor
        return values

    def only_the_first_has(values):
        return np.where(values[..., 0] > values[..., 1], values[..., 0], 0).max(axis=1)

    class Partial(ColonnadeSketches):
        def release(self, samples, randomness, *, present):
            with pytest.MonkeyPatch.context() as patch:
                honest_release = laws.PartitionSketches.release

                def half(mechanism, codes, source):
                    return honest_release(mechanism, codes if mechanism.sides[0].first else codes * 0 - 1, source)

                patch.setattr(laws.PartitionSketches, "release", half)
                return super().release(samples, randomness, present=present)

    monkeypatch.setattr(audits, "largest_common", only_the_first_has)
    ours = attack(Partial(PRICE), randomness=kit.source("partial"), samples=4_000, alpha=kit.ALPHA)
    monkeypatch.setattr(laws, "phantom_values", none_for_partial_records)
    lacking = attack(Partial(PRICE), randomness=kit.source("partial, lacking"), samples=4_000, alpha=kit.ALPHA)
    assert not ours.caught
    assert lacking.caught


def test_the_largest_common_value_is_of_the_same_sketch_at_both_parties():
    values = np.array([[[5, 5], [9, 8], [3, 3]], [[1, 2], [2, 1], [7, 6]]])
    assert largest_common(values).tolist() == [5, 0]
