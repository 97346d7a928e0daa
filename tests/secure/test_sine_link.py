"""A link on shares: bounded over its whole period, exact on shares, and silent about scores."""

import os
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from colonnade.errors import ProtocolError
from colonnade.families import FAMILIES, LOGISTIC
from colonnade.secure.residues import Arithmetic
from colonnade.secure.shamir import Dealing, reconstruct
from colonnade.secure.sine_link import (
    STEPS,
    LinkBounds,
    complex_product,
    own_part,
    redealt,
    reduced_degree,
    series_at,
    split_parts,
)
from tests import kit

full = pytest.mark.full
KINDS = ("residual", "weight")
LINKS = LOGISTIC.links
EVERY = pytest.mark.parametrize(
    ("name", "window"), [(name, window) for name, family in FAMILIES.items() for window in family.links]
)


def series(bounds: LinkBounds, numbers: np.ndarray, kind: str) -> np.ndarray:
    """The link of holders' numbers, by complex multiplication as it is taught; below 2⁶³ throughout."""
    terms = bounds.link.terms
    tables = [bounds.factors(holder, kind, numbers[holder]) for holder in range(bounds.holders)]
    real, imaginary = tables[0][:terms], tables[0][terms:]
    for table in tables[1:]:
        cosine, sine = table[:terms], table[terms:]
        real, imaginary = real * cosine - imaginary * sine, real * sine + imaginary * cosine
    return real.sum(axis=0)


@EVERY
def test_on_average_over_holders_numbers_rounded_tables_give_the_link(name: str, window: int) -> None:
    """A holder's number is uniform, so the average over it is what every person gets: taken exactly, by convolution."""
    bounds = FAMILIES[name].bounds(window, 2, 8, 16)
    first, second = (
        np.fft.fft(bounds.factors(holder, "residual", np.arange(STEPS, dtype=np.uint16)).astype(float))
        for holder in (0, 1)
    )
    terms = bounds.link.terms
    both = np.fft.ifft((first[:terms] * second[:terms] - first[terms:] * second[terms:]).sum(axis=0)).real / STEPS
    scores = (np.arange(STEPS) + STEPS // 2) % STEPS - STEPS // 2
    away = (bounds.offset("residual") + both) / bounds.unit - bounds.link.mean(scores * bounds.link.step)
    assert np.max(np.abs(away)) < 0.0001


@EVERY
@pytest.mark.parametrize(
    ("holders", "bits", "finer"),
    [(2, 8, 16), (2, 4, 32), *(pytest.param(*one, marks=full) for one in ((3, 8, 16), (2, 4, 16), (4, 6, 16)))],
)
def test_no_numbers_of_holders_lead_past_the_bounds(
    name: str, window: int, holders: int, bits: int, finer: int
) -> None:
    bounds = FAMILIES[name].bounds(window, holders, bits, finer)
    numbers = np.random.default_rng([window, holders]).integers(0, STEPS, (holders, 50_000))
    means = bounds.offset("residual") + series(bounds, numbers, "residual").astype(float)
    for target in bounds.targets:
        assert np.max(np.abs(means - bounds.unit * target)) <= bounds.residual
    assert np.max(means) - np.min(means) <= bounds.residual_change
    weights = bounds.offset("weight") + series(bounds, numbers, "weight").astype(float)
    assert np.max(np.abs(weights)) <= bounds.weight
    assert max(np.max(weights) - np.min(weights), np.max(np.abs(weights))) <= bounds.weight_change


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parties", [2, 5, *(pytest.param(count, marks=full) for count in (3, 4))])
@pytest.mark.parametrize("threshold", [1, 2, pytest.param(3, marks=full)])
def test_a_link_on_shares_is_the_link_in_integers_exactly(threshold: int, parties: int, kind: str) -> None:
    """With each choice of t + 1 evaluators among the nodes that could be: those that are no maskers."""
    holders, nodes, people = threshold + 1, 2 * threshold + 1, 60
    bounds = LinkBounds(LINKS[12], holders, 8 if holders < 4 else 6)
    arithmetic = Arithmetic.for_headroom(2**61, nodes)
    generator = np.random.default_rng([threshold, parties])
    parts = generator.integers(-40_000, 40_000, (parties, people))
    numbers = np.zeros((holders, people), dtype=np.uint16)
    for part in parts:
        numbers += split_parts(part, generator.integers(0, STEPS, (holders - 1, people)).astype(np.uint16))
    assert np.array_equal(numbers.astype(int).sum(axis=0) % STEPS, parts.sum(axis=0) % STEPS)

    def dealing() -> Dealing:
        return Dealing(arithmetic, nodes=nodes, degree=threshold, seed=os.urandom(32))

    def again(products: list[np.ndarray]) -> list[np.ndarray]:
        dealt = [redealt(dealing(), product) for product in products]
        received = [{node + 1: dealt[node][to] for node in range(nodes)} for to in range(nodes)]
        return [reduced_degree(arithmetic, shares, threshold) for shares in received]

    shares = [dealing().shares(0, bounds.factors(holder, kind, numbers[holder]).T) for holder in range(holders - 1)]
    running = list(shares[0])
    for factor in shares[1:]:
        running = again([complex_product(arithmetic, one, other) for one, other in zip(running, factor, strict=True)])
    told = bounds.factors(holders - 1, kind, numbers[-1])
    for evaluators in combinations(range(1, nodes + 1), threshold + 1):
        sums = {point: series_at(arithmetic, running[point - 1], told) for point in evaluators}
        parts = [own_part(arithmetic, share, evaluators, point) for point, share in sums.items()]
        dealt = [redealt(dealing(), part) for part in parts]
        last = [arithmetic.add(*(one[node] for one in dealt)) for node in range(nodes)]
        opened = reconstruct(arithmetic, dict(enumerate(last, start=1)), degree=threshold)
        assert opened.tolist() == series(bounds, numbers, kind).tolist()


def test_a_degree_is_reduced_with_every_nodes_share_or_not_at_all() -> None:
    arithmetic = Arithmetic.for_headroom(1_000, 3)
    shares = {point: np.zeros(2, dtype=np.uint64) for point in (1, 2)}
    with pytest.raises(ProtocolError, match="all 2t"):
        reduced_degree(arithmetic, shares, 1)


@pytest.mark.parametrize("part", [0, 12_345, -70_000])
def test_what_a_holder_is_given_is_uniform_whatever_the_part(part: int) -> None:
    words = np.frombuffer(kit.source(f"split {part}").bytes(2 * 40_000), dtype="<u2").reshape(1, -1)
    for row in split_parts(np.full(40_000, part), words):
        counts = np.bincount(row >> 10, minlength=64)
        assert stats.chisquare(counts).pvalue > kit.ALPHA
