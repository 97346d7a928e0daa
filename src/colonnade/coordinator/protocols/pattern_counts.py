"""Paper 000, Algorithm 1 and Theorem B.2: counts of patterns across parties from one randomised report a person and party.

Differences from the paper: each party uses the local randomiser of least variance at its exact ε (the paper's ε/16 spends half
of ε and quadruples the variance); the product of the unbiased terms is over parties; instead of ``max(0, ·)``, which inflates
the total, the table is fitted to its low-variance margins and projected onto non-negative counts with the right total. Sampling
(Theorem B.2) saves communication only: the coordinator sees who was sampled, so no amplification is claimed.

Letters: m people, v parties, K_j categories at party j, (p_j, q_j) its randomiser.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.coordinator.protocols.layout import Layout
from colonnade.errors import ProtocolError
from colonnade.estimation.projection import independent_counts, project_counts
from colonnade.estimation.response_counts import joint_counts, variance_of_counts
from colonnade.plan import Parameter, Plan, Step
from colonnade.privacy.calibration import discrete_laplace_variance, laplace_scale
from colonnade.privacy.laws.channel import Channel, best_channel
from colonnade.privacy.price import Price
from colonnade.protocol.messages import Released
from colonnade.protocol.rounds import Rounds, ask_all
from colonnade.steps.counts import Histogram, Reports

__all__ = ["CountTable", "IndependentCounts", "ResponseCounts"]


@dataclass(frozen=True)
class CountTable:
    """Estimated counts with one axis a column: made consistent, as estimated without bias, and the standard error of
    the latter.
    """

    counts: NDArray[np.float64]
    unbiased: NDArray[np.float64]
    stderr: NDArray[np.float64]


@dataclass(frozen=True)
class ResponseCounts:
    """Randomised response at every party, combined without bias at the coordinator.

    Parameters
    ----------
    layout
        Which columns, and where.
    price
        What each party's release offers to pay.
    people
        m, public.
    sample
        The rate at which public coins choose who reports.
    draw
        Which draw this is; public coins differ from draw to draw.
    """

    layout: Layout
    price: Price
    people: int
    sample: float = 1.0
    draw: int = 1

    def steps(self) -> tuple[Step, ...]:
        """Return one step a party: a report a person."""
        return tuple(
            Reports.ask(
                name="reports",
                party=group.party,
                columns=group.columns,
                parameters=self._coins(),
                price=self.price,
            )
            for group in self.layout.groups
        )

    def rounds(self, plan: Plan) -> Rounds:
        """One round: collect, combine, project."""
        releases = yield from ask_all(plan, "reports")
        return self.combine([_reports(releases[group.party]) for group in self.layout.groups])

    @property
    def channels(self) -> list[Channel]:
        """The randomiser that each party uses: a public function of its categories and the price."""
        return [best_channel(group.size, self.price) for group in self.layout.groups]

    def combine(self, reports: list[NDArray[np.uint8]]) -> CountTable:
        """Estimate the table from all parties' reports."""
        if len({len(report) for report in reports}) != 1 or len(reports[0]) > self.people:
            raise ProtocolError("The parties reported on different numbers of people.")
        unbiased = joint_counts(reports, self.channels) / self.sample
        fitted = project_counts(unbiased, self.people, self.channels)
        stderr = np.sqrt(self.variance(fitted))
        arrange = self.layout.arrange
        return CountTable(arrange(fitted), arrange(unbiased), arrange(stderr))

    def variance(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the variance of each unbiased count, if these are the true ones.

        A sampled term X/s has second moment E X²/s, so the variance is (Var + count)/s − count.
        """
        full = variance_of_counts(counts, self.channels)
        return (full + counts) / self.sample - counts

    def _coins(self) -> dict[str, Parameter]:
        if self.sample == 1:
            return {}
        seed = hashlib.sha256(f"colonnade/sample/{self.draw}/{'/'.join(self.layout.columns)}".encode()).hexdigest()
        return {"sample": self.sample, "seed": seed}


@dataclass(frozen=True)
class IndependentCounts:
    """Products of noisy one-way histograms: right only where parties' columns are independent of each other.

    Parameters
    ----------
    layout, price, people
        As in `ResponseCounts`.
    """

    layout: Layout
    price: Price
    people: int

    def steps(self) -> tuple[Step, ...]:
        """Return one step a party: its histogram."""
        return tuple(
            Histogram.ask(name="histogram", party=group.party, columns=group.columns, price=self.price)
            for group in self.layout.groups
        )

    def rounds(self, plan: Plan) -> Rounds:
        """One round: collect the margins and multiply them."""
        releases = yield from ask_all(plan, "histogram")
        return self.combine([self._margin(releases, index) for index in range(len(self.layout.groups))])

    def combine(self, margins: list[NDArray[np.int64]]) -> CountTable:
        """Multiply the margins; the standard error covers their noise, not the error of assuming independence."""
        raw = independent_counts([margin.astype(np.float64) for margin in margins], float(self.people))
        arrange = self.layout.arrange
        return CountTable(arrange(raw), arrange(raw), arrange(np.sqrt(self.variance(raw))))

    def variance(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """First-order variance of a product of noisy margins: Σ_j (count/margin_j)² Var(DLap)."""
        noise = discrete_laplace_variance(laplace_scale(self.price, 1))
        axes = range(counts.ndim)
        variance = np.zeros_like(counts)
        for axis in axes:
            others = counts.sum(axis=axis, keepdims=True)
            total = max(float(counts.sum()), 1.0)
            variance += (others / total) ** 2 * noise
        return variance

    def _margin(self, releases: Mapping[str, Released], index: int) -> NDArray[np.int64]:
        group = self.layout.groups[index]
        margin = releases[group.party].array("value")
        if margin.shape != (group.size,) or margin.dtype != np.int64:
            raise ProtocolError(f"Party {group.party!r} released a histogram of another shape.")
        return margin  # type: ignore[return-value]  # checked above


def _reports(release: Released) -> NDArray[Any]:
    reports = release.array("value")
    if reports.ndim != 2 or reports.dtype != np.uint8:
        raise ProtocolError("A party released reports of another shape.")
    return reports
