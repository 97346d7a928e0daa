"""Private clustering of one party's block: DP-Lloyd, with an LSH forest to start from where it pays.

Private vertical clustering (Li, Wang, Li, 2023), §3.5 (docs/references.md#clustering), with differences: Gaussian noise at a
positive δ, because each party can bound its own block (docs/proofs/local-clustering.md); integer noise on integer sums;
displacements from released reference points, clipped to the measured spread of the data, instead of whole rows; a last few
sweeps of Lloyd's algorithm, which repair what the forest's random cuts tore apart.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.privacy.accounting import Loss, Price
from colonnade.privacy.calibration import discrete_laplace_variance, ledger_rho, round_up
from colonnade.privacy.laws import LARGEST_LAPLACE, LARGEST_SIGMA_SQUARED, Description, RowBlocks, Sampler
from colonnade.privacy.laws._clustering_cells import fold
from colonnade.privacy.laws.clustering_rounds import COUNTS, Analyst, Answer, Block, Query, clustering_schedule

__all__ = ["LocalClustering"]


@dataclass(frozen=True)
class _ClippedRows:
    """Rows within the bounds that the law rests on, whatever was handed in."""

    blocks: Iterable[NDArray[Any]]
    low: list[int]
    high: list[int]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        for block in self.blocks:
            yield np.asarray(np.clip(block, self.low, self.high).astype(block.dtype, copy=False))


class LocalClustering:
    """Release k′ centres of one party's rows, all of its rounds together at one price.

    Parameters
    ----------
    price
        What the release may cost: discrete Laplace noise at δ = 0, discrete Gaussian noise otherwise.
    lower, scale
        The smallest value of each coded column (−γ for a number, 0 for an indicator), and γ, the largest.
    columns
        How many of the schema's columns the block has; a row is then at most √columns·γ long, and columns·γ in magnitudes.
    people, clusters
        How many rows, and k′; both public.
    seed
        Of public choices.

    Examples
    --------
    >>> from colonnade.privacy.randomness import SystemRandomness
    >>> from colonnade.privacy.samplers import ExactSampler
    >>> mechanism = LocalClustering(Price.of(1.0), np.array([-4096]), 4096, 1, people=1_000, clusters=2)
    >>> rows = np.ones((1_000, 2), dtype=np.int16)
    >>> rows[:, 1] = np.arange(1_000) % 2 * 4_000 - 2_000
    >>> mechanism.release(rows, ExactSampler(SystemRandomness())).shape, mechanism.loss
    ((2, 1), Loss(epsilon=1))

    Notes
    -----
    The release is a conversation. An `Analyst`, who has public facts only, asks questions; each is a partition of the people
    that follows from earlier *answers*, a reference point per cell and a radius. The answer is the number of people in each cell
    and the sum of their displacements from its reference, clipped to the radius, both with integer noise. Under zero-out one
    person leaves one cell: one count changes by 1, and that cell's sum by a vector of length at most the radius (twice its
    square with the squares of the first question, which are no longer than the displacements), whatever the earlier answers
    were. With shares w of the budget, C of each for counts, question i is therefore

    * Gaussian, ``σ² = Δ₂²/(2ρ·w_i(1-C))`` on sums and ``1/(2ρ·w_i·C)`` on counts: ``w_iρ``-zCDP;
    * Laplace, scales ``Δ₁/(ε·w_i(1-C))`` and ``1/(ε·w_i·C)``: ``w_iε``-DP,

    for every fixed sequence of earlier answers. Shares are exact rationals that add up to 1, so adaptive composition gives
    ρ-zCDP or ε-DP, known before a row is read although partitions, references and radii follow from answers. Cells, displacements
    and clipping are functions of one row in integers (`colonnade.privacy.laws._clustering_cells`), so no rounding in one
    person's favour moves another's cell. The centres are a function of the answers.

    Privacy
    -------
    Guarantee
        Pure ε-DP at δ = 0: the shares wᵢε of all questions add up to ε. Otherwise ρ-zCDP, Σwᵢρ = ρ, and so (ε, δ)-DP at the
        price by the ledger's conversion. Proof: docs/proofs/local-clustering.md.
    Neighbours
        Zero-out: a person's row against no row at all. A missing record (0 in the first column) is in no cell.
    Adversary
        Anybody who reads the released centres, or all noisy answers.
    Numerics
        Integer noise on integers; scales are exact rationals, rounded up, and the samplers exact. Rows are clamped and clipped
        here, in integers, whatever was handed in.
    Checked by
        tests/party/test_local_clustering.py
    """

    def __init__(
        self,
        price: Price,
        lower: NDArray[np.int64],
        scale: int,
        columns: int,
        *,
        people: int,
        clusters: int,
        seed: int = 0,
    ) -> None:
        self.price = price
        self.euclidean = price.delta > 0
        row = math.isqrt(columns * scale**2 - 1) + 1 if self.euclidean else columns * scale
        self.block = Block(np.asarray(lower, dtype=np.int64), scale, row, clusters, self.euclidean, seed)
        self.schedule = clustering_schedule(len(lower), people, clusters, price)
        self.people = people
        self.budget = ledger_rho(price) if self.euclidean else price.exact
        self.loss = Loss.of_zcdp(self.budget) if self.euclidean else Loss.of_pure(price.nano)
        self.name = f"private clustering ({self.schedule.method}), {self._law}"
        self._require_drawable()

    @property
    def _law(self) -> str:
        return "discrete Gaussian" if self.euclidean else "discrete Laplace"

    def release(self, nonprivate: NDArray[Any] | RowBlocks, sampler: Sampler) -> NDArray[np.int64]:
        """Return k′ integer centres in units of 1/γ.

        ``nonprivate`` has a row per person: 1 or 0 for whether there is a record, then the coded columns. It may be rows that are
        read some at a time: every question is answered by a pass over them.
        """
        rows = self._checked(nonprivate)
        rounds = self.analyst(sampler).rounds()
        query = next(rounds)
        try:
            while True:
                counts, sums = self.exact(query, rows)
                query = rounds.send(self.perturb(query, counts, sums, sampler))
        except StopIteration as finished:
            return np.asarray(finished.value, dtype=np.int64)

    def describe(self) -> Description:
        """Return sensitivity and scale in words."""
        return Description(
            f"one person in one cluster, displacement clipped; {self.people:,} people",
            f"{self.block.clusters} clusters; {self.schedule.sweeps} sweeps",
        )

    def analyst(self, sampler: Sampler) -> Analyst:
        """Return who asks the questions. It sees no row, and of the sampler the stream of the public seed only."""
        return Analyst(
            self.block,
            self.schedule,
            sampler.keyed(self.block.seed.to_bytes(32, "big")),
            count_noise=lambda share: self._deviation(1, share * COUNTS),
            sum_noise=lambda share: self._deviation(1, share * (1 - COUNTS)),
        )

    def exact(
        self, query: Query, nonprivate: NDArray[Any] | Iterable[NDArray[Any]]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Answer a question without noise: counts by cell, sums by cell and column."""
        blocks = [nonprivate] if isinstance(nonprivate, np.ndarray) else nonprivate
        width = query.references.shape[1] * (2 if query.squares else 1)
        counts = np.zeros(len(query.references), dtype=np.int64)
        sums = np.zeros((len(query.references), width), dtype=np.int64)
        for block in blocks:
            labels = query.partition.labels(block)
            some = fold(block, labels, query.references, query.radius, squared=self.euclidean, squares=query.squares)
            counts += some[0]
            sums += some[1]
        return counts, sums

    def sensitivity(self, query: Query) -> int:
        """Return by how much one person changes the sums: Δ₂² under Gaussian noise, Δ₁ under Laplace noise."""
        return (query.radius**2 if self.euclidean else query.radius) * (2 if query.squares else 1)

    def perturb(self, query: Query, counts: NDArray[np.int64], sums: NDArray[np.int64], sampler: Sampler) -> Answer:
        """Add the noise that a question's share of the budget buys."""
        if not query.radius:  # counts alone take the whole share
            return Answer(
                (counts + self._draw(1, query.share, counts.shape, sampler)).astype(float), np.zeros(sums.shape)
            )
        noisy_counts = counts + self._draw(1, query.share * COUNTS, counts.shape, sampler)
        noisy_sums = sums + self._draw(self.sensitivity(query), query.share * (1 - COUNTS), sums.shape, sampler)
        return Answer(noisy_counts.astype(float), noisy_sums.astype(float))

    def parameter(self, sensitivity: int, share: Fraction) -> Fraction:
        """Return σ² of Gaussian noise from Δ₂², or the scale of Laplace noise from Δ₁, for a share of the budget."""
        if self.euclidean:
            return round_up(Fraction(sensitivity) / (2 * self.budget * share))
        return Fraction(sensitivity) / (self.budget * share)

    def _draw(self, sensitivity: int, share: Fraction, shape: tuple[int, ...], sampler: Sampler) -> NDArray[np.int64]:
        draw = sampler.discrete_gaussian if self.euclidean else sampler.discrete_laplace
        return draw(self.parameter(sensitivity, share), shape)

    def _deviation(self, sensitivity: int, share: Fraction) -> float:
        parameter = self.parameter(sensitivity, share)
        return math.sqrt(parameter if self.euclidean else discrete_laplace_variance(parameter))

    def _checked(self, nonprivate: NDArray[Any] | RowBlocks) -> Iterable[NDArray[Any]]:
        shape = (self.people, self.block.width + 1)
        if nonprivate.shape != shape or nonprivate.dtype.kind != "i":
            raise BadInput(
                "Clustering takes whole numbers, one row per person, with whether there is a record in front."
            )
        blocks = [nonprivate] if isinstance(nonprivate, np.ndarray) else nonprivate
        return _ClippedRows(blocks, [0, *self.block.lower], [1, *([self.block.scale] * self.block.width)])

    def _require_drawable(self) -> None:
        """Refuse before the debit what samplers would refuse after it: the widest radius at the smallest share."""
        smallest = min(self.schedule.location, self.schedule.sweep) * (1 - COUNTS)
        radius = 2 * self.block.row
        widest = 2 * (radius**2 if self.euclidean else radius)
        limit = LARGEST_SIGMA_SQUARED if self.euclidean else LARGEST_LAPLACE
        counts = min(self.schedule.level, smallest) if self.schedule.depth else smallest
        if self.parameter(widest, smallest) > limit or self.parameter(1, counts * COUNTS) > limit:
            raise BadInput("The noise would be too large to draw.", remedy="Raise epsilon.")
