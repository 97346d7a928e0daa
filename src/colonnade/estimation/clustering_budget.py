"""The prices of a clustering study's parts, and how fine local clusterings may be. All rules are public.

The study is that of Primitives (Cohen-Addad, Kacham, Mirrokni, Zhong; docs/references.md#primitives) and Private vertical
clustering (Li, Wang, Li, 2023; docs/references.md#clustering), with other constants
(docs/proofs/local-clustering.md#composition).

*Split.* A study has two parts: local centres (one release per party) and weights of the grid (one joint opening, or one release
per party). On the secure channel the noise of a weight is that of a few counts, for any number of people. Every centre is a
mean that each party pays for alone. So centres get four fifths of the budget. Randomised response needs the opposite: its noise
grows with √people, so weights get three quarters. Histograms are cheap again. Sketches have an error of their own that no
budget removes, so they get half, as in Private vertical clustering. The split is in ρ where δ > 0 and in ε where δ = 0; the
papers halve ε.

*Composition.* For the person unit the local releases of all parties add up, and so does the joint one. The price of the weights
is the largest, to the nano-unit, for which the sum of all losses as ledgers count them stays within the study's price. A part
that a large δ would pay for alone is priced at a smaller δ (docs/proofs/neighbours-and-losses.md#grid).

*How many local clusters* (k₀ of Private vertical clustering, §5.2). The rule takes the most for which an average cell of a pair
table, people/k′², is at least four times the noise of a cell, and one person. The paper has twice the noise; four times loses
little where people spread out and less where they are in separate groups (`benchmarks/clustering` has the loss against k′).
Here it is the noise of the channel in use. For sketches it is that of the joint likelihood, times ρ = 1.04; the paper has the
constant of other sketches, 0.649, and the noise of complements. More clusters would be mostly noise, fewer lose shape. There are
no more than the centres' own noise allows, and no more than `FINEST` or twice the clusters asked for, whichever is larger, so
that a grid's cost has a bound.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from colonnade.errors import BadInput
from colonnade.estimation.sketch_tables import LARGEST_SKETCHED
from colonnade.privacy.accounting import Loss, Price, Unit
from colonnade.privacy.calibration import (
    discrete_laplace_variance,
    laplace_scale,
    ledger_rho,
    price_of_loss,
    price_of_rho,
)
from colonnade.privacy.laws.local_clustering import LARGEST_CLUSTERS, clustering_schedule, displacement_noise
from colonnade.privacy.laws.response import best_channel
from colonnade.privacy.laws.sketches import SKETCHES, sketching
from colonnade.privacy.laws.tables import TableNoise

__all__ = [
    "CLEAR",
    "RULES",
    "ClusteringPrices",
    "WeightMethod",
    "WeightRule",
    "automatic_clusters",
    "clustering_prices",
    "response_rule",
    "sketch_rule",
    "weight_noise",
]

WeightMethod = Literal["secure", "sketch", "response", "independent"]
FINEST = 48
"""Local clusters up to which the rule goes; beyond, a grid takes long and gains little."""
CLEAR = 4.0
"""How many times its noise an average cell is, at least."""
BLURRED = 0.25
TOO_SMALL = (
    "epsilon is too small to be divided between all centres and weights: a part would be below the ledger's unit."
)
SKETCH_CONSTANT = 1.04
"""ρ: √M times the relative error of a cardinality from maxima, at any γ up to 1."""


@dataclass(frozen=True)
class ClusteringPrices:
    """The price of each party's centres, and of the weights: of all of them, or on the local channel of each party's part."""

    centres: Price
    weights: Price


@dataclass(frozen=True)
class WeightRule:
    """What differs between the methods for weights, where there is more than one party.

    Parameters
    ----------
    split
        The centres' share of the budget by default.
    cell_noise
        From (clusters, people, parties, price, unit, collusion) to the standard deviation of an average cell.
    joint
        Whether all parties' weights are one release, which costs once.
    paired
        Whether a cell belongs to a pair of parties.
    own_price
        From (price, spent on centres, parties, unit) to the price of the weights, where it does not follow from what is left.
    most
        The largest number of local clusters that can be decoded.
    """

    split: Fraction
    cell_noise: Callable[[int, int, int, Price, Unit, int], float]
    joint: bool = False
    paired: bool = True
    own_price: Callable[[Price, Loss, int, Unit], Price] | None = None
    most: int | None = None


def clustering_prices(
    price: Price, parties: int, unit: Unit, rule: WeightRule, split: float | None = None
) -> ClusteringPrices:
    """Divide a study's price.

    Parameters
    ----------
    price, unit
        The promise.
    parties
        How many parties release.
    rule
        What is particular to the method that finds the weights.
    split
        The centres' share of the budget; by default that of the rule.

    Examples
    --------
    >>> prices = clustering_prices(Price.of(1.0), 2, "person", RULES["secure"])
    >>> prices.centres.epsilon, prices.weights.epsilon
    (0.4, 0.2)
    """
    share = rule.split if split is None else _share(split)
    times = parties if unit == "person" else 1
    joint = rule.joint and parties > 1
    if price.delta == 0:
        if joint and rule.own_price is not None:
            raise BadInput(
                "Sketches need a positive delta: thousands of small losses add up to little only with one.",
                remedy="For example delta=1e-6, below 1/people; or method='secure', which has a pure form.",
            )
        centres = Price(_positive(math.floor(price.nano * share / times)), 0.0)
        left = price.nano - times * centres.nano
        return ClusteringPrices(centres, Price(_positive(left if joint else left // times), 0.0))
    centres = price_of_rho(ledger_rho(price) * share / times, price.delta)
    spent = Loss.of_zcdp(ledger_rho(centres)) * times
    if joint and rule.own_price is not None:
        return ClusteringPrices(centres, rule.own_price(price, spent, parties, unit))
    if joint:
        return ClusteringPrices(centres, price_of_rho(ledger_rho(price, besides=spent), price.delta))
    return ClusteringPrices(centres, Price(_largest_pure(price, spent, times), 0.0))


def weight_noise(
    rule: WeightRule, clusters: int, people: int, parties: int, price: Price, unit: Unit, collusion: int
) -> float:
    """Return the standard deviation of an average cell of a pair table (of a histogram, for ``"independent"``)."""
    noise = rule.cell_noise if parties > 1 else _histogram_noise
    return noise(clusters, people, parties, price, unit, collusion)


def automatic_clusters(
    n_clusters: int,
    people: int,
    widths: Sequence[int],
    prices: ClusteringPrices,
    *,
    rule: WeightRule,
    unit: Unit,
    collusion: int,
) -> int:
    """Return k′: as many local clusters as the weights and the centres can bear."""
    parties = len(widths)
    fewest: int = max(2, math.ceil(float(n_clusters) ** (1.0 / parties) - 1e-9))
    pairs = 2 if parties > 1 and rule.paired else 1
    best: int = fewest
    most = min(max(FINEST, 2 * n_clusters), rule.most or LARGEST_CLUSTERS)
    for clusters in range(fewest, max(fewest, most) + 1):
        noise = weight_noise(rule, clusters, people, parties, prices.weights, unit, collusion)
        if (
            max(CLEAR * noise, 1.0) * clusters**pairs > people
            or _blur(widths, people, clusters, prices.centres) > BLURRED
        ):
            break
        best = clusters
    return best


def _blur(widths: Sequence[int], people: int, clusters: int, price: Price) -> float:
    """Return how far noise moves a local centre, in units of its block's spread, in the worst block."""
    sweeps = [clustering_schedule(width, people, clusters, price).sweep for width in widths]
    return max(
        displacement_noise(width, price, sweep) * clusters / people for width, sweep in zip(widths, sweeps, strict=True)
    )


def _table_noise(clusters: int, people: int, parties: int, price: Price, unit: Unit, collusion: int) -> float:  # noqa: ARG001
    names = tuple(f"party{number}" for number in range(parties))
    noise = TableNoise(names, price, unit, min(collusion, parties - 1), math.comb(parties, 2) * clusters**2)
    return math.sqrt(noise.opened_variance)


def sketch_rule(sketches: int) -> WeightRule:
    """Return the rule of ``"sketch"`` with M sketches per pair of parties."""

    def noise(clusters: int, people: int, parties: int, price: Price, unit: Unit, collusion: int) -> float:  # noqa: ARG001
        bought = sketching(price, parties, unit, sketches)
        cell = people / clusters**2 + bought.phantoms
        row = people / clusters + (clusters + 1) * bought.phantoms
        return SKETCH_CONSTANT * math.sqrt(cell * (2 * row - cell) / sketches)

    def own_price(price: Price, spent: Loss, parties: int, unit: Unit) -> Price:
        """Return what the sketches that still fit cost: the price by which a party finds the same number of phantoms."""
        return price_of_loss(sketching(price, parties, unit, sketches, besides=spent).loss(unit), price.delta)

    return WeightRule(Fraction(1, 2), noise, joint=True, own_price=own_price, most=LARGEST_SKETCHED)


def response_rule(sample: float) -> WeightRule:
    """Return the rule of ``"response"`` where public coins choose a share of the people to report.

    A sampled term X/s has second moment E X²/s, so a cell's variance is (Var + count)/s − count.
    """

    def noise(clusters: int, people: int, parties: int, price: Price, unit: Unit, collusion: int) -> float:  # noqa: ARG001
        cell = people / clusters**2
        return math.sqrt((people * best_channel(clusters, price).v0 ** 2 + cell) / sample - cell)

    return WeightRule(Fraction(1, 4), noise)


def _histogram_noise(clusters: int, people: int, parties: int, price: Price, unit: Unit, collusion: int) -> float:  # noqa: ARG001
    return math.sqrt(discrete_laplace_variance(laplace_scale(price, 1)))


def _share(split: float) -> Fraction:
    if isinstance(split, bool) or not isinstance(split, int | float) or not 0 < split < 1:
        raise BadInput(
            "split, the centres' share of the budget, must lie between 0 and 1.", remedy="For example split=0.8."
        )
    return Fraction(repr(float(split)))


def _positive(nano: int) -> int:
    if nano < 1:
        raise BadInput(TOO_SMALL, remedy="Raise epsilon.")
    return nano


def _largest_pure(price: Price, spent: Loss, times: int) -> int:
    """Return the largest pure ε of each of several releases, in nano-units and at most the study's, that fits beside a loss."""

    def fits(nano: int) -> bool:
        return (spent + Loss.of_pure(nano) * times).fits(price.nano, price.delta)

    low, high = 1, price.nano
    if not fits(low):
        raise BadInput(TOO_SMALL, remedy="Raise epsilon.")
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


RULES: dict[WeightMethod, WeightRule] = {
    "secure": WeightRule(Fraction(4, 5), _table_noise, joint=True),
    "sketch": sketch_rule(SKETCHES),
    "response": response_rule(1.0),
    "independent": WeightRule(Fraction(4, 5), _histogram_noise, paired=False),
}
"""The rules of the methods with their default options."""
