"""How one party's clustering divides its budget over rounds, and which method it uses: public facts decide, never data.

Both methods first measure where the data lies (how many people, mean and spread of each coded column), and end with sweeps of
Lloyd's algorithm. They differ in where the sweeps start:

* ``"lloyd"``: from points spread over the measured location, the same for everybody: for a budget so small that anything finer
  would drown in noise.
* ``"mesh"``: from k-means of counts around a mesh, in one or two dimensions, where a mesh covers everything.
* ``"forest"``: from a tree of random half-spaces (locality-sensitive hashing: nearby people fall into the same leaf), k-means
  on whose noisy leaf means finds separated groups that sweeps from spread points would share out wrongly (paper 001, §3.5).

The shares below were chosen on Letter and on Gaussian mixtures in 1 to 50 dimensions (`benchmarks/clustering`).
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from colonnade.errors import BadInput
from colonnade.privacy.calibration import ledger_rho
from colonnade.privacy.price import Price

__all__ = [
    "COUNTS",
    "LARGEST_CLUSTERS",
    "LARGEST_WIDTH",
    "ClusteringSchedule",
    "clustering_schedule",
    "displacement_noise",
]

LARGEST_CLUSTERS = 1_024
LARGEST_WIDTH = 4_096
COUNTS = Fraction(1, 5)
"""Of each measurement of sums and counts, the part that pays for the counts: a count's error matters little, because sums are
taken around the point where a centre already is."""

LOCATION = Fraction(2, 25)
ALONE = 6
FOREST = (6, Fraction(4, 25), Fraction(2, 5), 2)
FOREST_PURE = (5, Fraction(1, 5), Fraction(3, 10), 3)
MESH = Fraction(3, 10)
MESH_DIMENSIONS = 2
AFTERWARDS = 3
CLEAR = 4.0


@dataclass(frozen=True)
class ClusteringSchedule:
    """Shares of one party's budget; they add up to exactly 1.

    Parameters
    ----------
    method
        ``"lloyd"``, ``"mesh"`` or ``"forest"``.
    location
        The share of the first measurement.
    depth, levels, leaves
        How many levels the tree has, the share of all its counts together, and the share of its leaves' sums or of the mesh.
    sweeps
        How many sweeps follow; what is left of the budget is divided between them evenly.
    """

    method: Literal["lloyd", "mesh", "forest"]
    location: Fraction
    depth: int
    levels: Fraction
    leaves: Fraction
    sweeps: int

    @property
    def level(self) -> Fraction:
        """The share of one level's counts."""
        return self.levels / self.depth

    @property
    def sweep(self) -> Fraction:
        """The share of one sweep."""
        return (1 - self.location - self.levels - self.leaves) / self.sweeps


def clustering_schedule(width: int, people: int, clusters: int, price: Price) -> ClusteringSchedule:
    """Choose a method for a block of ``width`` coded columns.

    Examples
    --------
    >>> clustering_schedule(8, 20_000, 5, Price.of(0.25, 1e-5)).method
    'forest'
    >>> clustering_schedule(1, 20_000, 5, Price.of(0.25, 1e-5)).method
    'mesh'
    """
    if not 1 <= width <= LARGEST_WIDTH or not 1 <= clusters <= LARGEST_CLUSTERS:
        raise BadInput(
            f"Clustering takes up to {LARGEST_WIDTH} coded columns and {LARGEST_CLUSTERS} clusters a party.",
            remedy="Ask for fewer columns or clusters.",
        )
    cell = people / (2 * clusters)
    if width <= MESH_DIMENSIONS:
        chosen = ClusteringSchedule("mesh", LOCATION, 0, Fraction(0), MESH, AFTERWARDS)
    else:
        chosen = ClusteringSchedule("forest", LOCATION, *(FOREST if price.delta > 0 else FOREST_PURE))
    if cell > CLEAR * displacement_noise(width, price, chosen.leaves):
        return chosen
    return ClusteringSchedule("lloyd", LOCATION, 0, Fraction(0), Fraction(0), ALONE)


def displacement_noise(width: int, price: Price, share: Fraction) -> float:
    """Return the length of the noise on a sum of displacements, in units of the length to which displacements are clipped.

    Divided by how many people a cluster has, it is how far noise moves the cluster's centre, in units of the block's spread.
    """
    part = share * (1 - COUNTS)
    if price.delta > 0:
        return math.sqrt(width / (2 * float(ledger_rho(price) * part)))
    return math.sqrt(2 * width) * math.sqrt(width) / float(price.exact * part)
