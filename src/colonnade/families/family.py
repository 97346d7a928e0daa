"""`Family`: everything that Newton steps, their noise and their readings need to know of the model that is fitted.

A family says what is expected of a target at a score z, its *mean* μ(z), which rises with the score. Newton steps look for the
weights at which Σ (μ(z) − y)·x is 0, with y a person's target and x the person's row. If the slope μ′(z), the *weight*, is also
the variance of the target, as in logistic regression, this is the maximum-likelihood estimate. For other families it is the
quasi-likelihood estimate of that mean, and errors from the sampling of people take the variance into account.

A family is one module here, its line in `colonnade.families.FAMILIES`, its section in docs/proofs/newton.md, and its tests.
Nothing outside this package asks which family it has.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, SchemaMismatch
from colonnade.schema import Column
from colonnade.secure.sine_link import LinkBounds, SineLink

Array = NDArray[np.float64]
Numbers = Array | float


class Family(ABC):
    """A model, and a target that is 1 for one level of a category and 0 for the others unless a family says otherwise.

    Privacy
    -------
    Residuals and weights are bounded by `bounds`, over every value of the tables that make them. Nothing rests on how near the
    series of a link are to `mean` and to its slope. Proof: docs/proofs/newton.md.
    """

    name: ClassVar[str]
    """What a plan calls it."""
    title: ClassVar[str]
    """What errors call it, with its article."""
    unit: ClassVar[str]
    """What scores are measured in."""
    links: ClassVar[Mapping[int, SineLink]]
    """Series of mean and weight, by the largest score for which they are accurate. One of them has the default window."""
    targets: ClassVar[tuple[int, int]] = (0, 1)
    """The least and the largest target."""
    steepest: ClassVar[float]
    """The largest |w′/w|: weights change by at most e to the power of this per unit that a score moves."""
    steepness: ClassVar[float]
    """The largest weight: this times the Gram matrix bounds every curvature. ∞ where there is none."""

    # On shares ----------------------------------------------------------------------------------------------------------

    def link(self, window: int) -> SineLink:
        """Return the series of a window."""
        if window not in self.links:
            raise BadInput(
                f"window is one of {', '.join(map(str, self.links))}.",
                remedy=f"For example method=cn.methods.Newton(window={next(iter(self.links))}).",
            )
        return self.links[window]

    def bounds(self, window: int, holders: int, bits: int, finer: int) -> LinkBounds:
        """Return what residuals and weights can be on shares, with tables that are so fine."""
        return LinkBounds(self.link(window), holders, bits, finer, self.targets)

    # The target ---------------------------------------------------------------------------------------------------------

    def require_target(self, name: str, column: Column) -> None:
        """Refuse a column that cannot be the target."""
        if column.is_number:
            raise SchemaMismatch(
                f"{self.title} takes a category as its target, and {name!r} is none.",
                remedy="Use cn.LinearRegression for numbers.",
            )

    def levels(self, column: Column) -> tuple[int, ...]:
        """Return the levels that have rounds of their own: the second of two, else all."""
        return (1,) if column.size == 2 else tuple(range(column.size))

    def takes(self, column: Column, level: int) -> bool:
        """Return whether a column can be the target, read at a level."""
        return level < column.size

    def labels(self, codes: NDArray[np.int32], level: int) -> NDArray[np.int32]:
        """Return targets from a column's codes, which are negative where there is none: then −1."""
        return np.where(codes < 0, -1, codes == level)

    def aim(self, column: Column, level: int) -> tuple[float, Array]:
        """Return a constant, and what a target's coded columns are multiplied by, to add up to the target.

        Of two levels one column is coded, as −1 and 1.
        """
        return (0.5, np.array([0.5])) if column.size == 2 else (0.0, np.eye(column.size)[level])

    # The model ----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def mean(self, scores: Numbers) -> Array:
        """Return μ(z)."""

    @abstractmethod
    def weights(self, scores: Array) -> tuple[Array, Array]:
        """Return w = μ′(z), and its slope w′."""

    @abstractmethod
    def variance(self, means: Numbers) -> Array:
        """Return the variance of a target with this expectation."""

    @abstractmethod
    def score(self, means: Numbers) -> Array:
        """Return the scores at which this is expected: the inverse of `mean`."""

    @abstractmethod
    def chances(self, scores: Array) -> Array:
        """Return the chance of every class, one column each.

        Parameters
        ----------
        scores
            One column for two classes, of the second one; else one column per class.
        """

    # Where to start -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def centre(self, mean: float, variance: float) -> float:
        """Return the mean of normal scores of this variance at which this is expected of everybody together."""
