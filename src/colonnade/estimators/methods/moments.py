"""Methods that give `PCA` and the regressions second moments: in secret shares, from sketches, or from perturbed rows."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.columns import parties_of
from colonnade.constraints import OneOf, Optional, PerParty, Real, Whole
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols.local_moments import ROWS_SCALE, SKETCH_SCALE, PerturbedRows, SketchedMoments
from colonnade.coordinator.protocols.moment_releases import LARGEST_SCALE, GramRelease, UnionRelease
from colonnade.estimation.moments import Moments, noisy_releases, sketched_grams, typical_matrix
from colonnade.estimators.methods.method import Method
from colonnade.privacy.accounting import Price
from colonnade.privacy.calibration import gaussian_party_price
from colonnade.privacy.laws import NoiseFamily
from colonnade.steps.registry import read_joint

if TYPE_CHECKING:
    from colonnade.estimators.moment_study import MomentStudy
    from colonnade.estimators.preview import Expectation

__all__ = ["SCALE", "Local", "MomentMethod", "Secure", "Sketch", "opened_variance"]

Array = NDArray[np.float64]
SCALE = Optional(Whole(1, LARGEST_SCALE))
"""A fixed-point scale, or the method's own."""
ROW_NORMS = Optional(PerParty(Real(0, closed="neither")))
NO_PENALTY = {"penalty": "Use ridge= instead.", "size": "Leave it out: everybody takes part."}
"""What a regression has for coresets alone."""


class MomentMethod(Method["MomentStudy"]):
    """A method of an estimator that can be fitted on second moments."""

    unused = NO_PENALTY

    def repaired(self, study: "MomentStudy", moments: Moments) -> Moments:
        """Return moments as the method reads them."""
        return moments

    def warnings(self, study: "MomentStudy", algorithm: Any, federation: Federation) -> tuple[str, ...]:
        """Return what a careful colleague would point out about the noise."""
        return ()

    def noisy_moments(
        self, study: "MomentStudy", algorithm: Any, federation: Federation, exact: Moments, covariance: Array
    ) -> Iterator[Moments]:
        """Yield releases of moments that are otherwise exact, each with noise of its own."""
        raise NotImplementedError

    def entry_variance(self, study: "MomentStudy", algorithm: Any, federation: Federation) -> Array:
        """Return the variance of the noise in every entry of the moments, for typical columns where it depends on data."""
        raise NotImplementedError

    def expect(self, study: "MomentStudy", algorithm: Any, federation: Federation) -> "Expectation":
        """By what noise does to the estimator's result on typical columns."""
        return study._expect_on_moments(algorithm, federation)

    def learn(self, study: "MomentStudy", federation: Federation, value: Any) -> dict[str, Any]:
        """From the moments."""
        return study._learn_from_moments(value, study._chosen(federation.describe()))


class Secure(MomentMethod):
    """One noisy Gram matrix of all parties' columns, computed on secret shares; only the noisy result is opened.

    Parameters
    ----------
    noise
        ``"gaussian"`` or ``"skellam"`` (as in *Secure PCA*).
    scale
        The fixed-point scale; by default 4,096, and 64 for Skellam noise.
    row_norms
        Party to the length to which it clips its coded rows; less noise, some bias.
    """

    name = "secure"
    does = "one noisy Gram matrix on secret shares; the model is computed from it, with its noise taken into account"
    guarantee = "(ε, δ)"
    trust = "the coordinator and up to c colluding parties"
    delta = "needed"
    reference = "secure-pca"
    constraints = {"noise": OneOf(("gaussian", "skellam")), "scale": SCALE, "row_norms": ROW_NORMS}

    def __init__(
        self, *, noise: NoiseFamily = "gaussian", scale: int | None = None, row_norms: Mapping[str, float] | None = None
    ) -> None:
        self.noise = noise
        self.scale = scale
        self.row_norms = row_norms

    def protocol(self, study: "MomentStudy", federation: Federation, price: Price, repeat: int) -> GramRelease:
        """By shares of second moments; over a union where the federation is one."""
        columns = study._chosen(federation.describe())
        kind = UnionRelease if federation.union else GramRelease
        return kind(columns, price, study._signed(columns), self.noise, self.scale, self.row_norms)

    def noisy_moments(
        self, study: "MomentStudy", algorithm: GramRelease, federation: Federation, exact: Moments, covariance: Array
    ) -> Iterator[Moments]:
        """With noise that does not depend on data."""
        return noisy_releases(exact, self.entry_variance(study, algorithm, federation))

    def entry_variance(self, study: "MomentStudy", algorithm: GramRelease, federation: Federation) -> Array:
        """As it will be opened."""
        return opened_variance(study, algorithm, federation)


class Sketch(MomentMethod):
    """Second moments of random projections of the parties' rows, which each party perturbs alone.

    Parameters
    ----------
    scale
        The fixed-point scale.
    row_norms
        Party to the length to which it clips its coded rows; less noise, some bias.
    """

    name = "sketch"
    does = "one perturbed random projection per party, in one message: error in √people"
    guarantee = "(ε, δ)"
    trust = "the coordinator and any parties"
    delta = "needed"
    reference = "primitives"
    constraints = {"scale": SCALE, "row_norms": ROW_NORMS}

    def __init__(self, *, scale: int | None = None, row_norms: Mapping[str, float] | None = None) -> None:
        self.scale = scale
        self.row_norms = row_norms

    def protocol(self, study: "MomentStudy", federation: Federation, price: Price, repeat: int) -> SketchedMoments:
        """By one sketch per party, each at its share of the price."""
        columns = study._chosen(federation.describe())
        share = gaussian_party_price(price, len(parties_of(columns)), study.unit)
        scale = SKETCH_SCALE if self.scale is None else self.scale
        return SketchedMoments(columns, share, federation.people, scale, self.row_norms, repeat)

    def noisy_moments(
        self,
        study: "MomentStudy",
        algorithm: SketchedMoments,
        federation: Federation,
        exact: Moments,
        covariance: Array,
    ) -> Iterator[Moments]:
        """With noise that depends on the columns' covariance."""
        grams = sketched_grams(federation.people * covariance[1:, 1:], algorithm.entry_noise(), algorithm.size)
        return (algorithm.moments(gram, exact.matrix[0, 1:]) for gram in grams)

    def entry_variance(self, study: "MomentStudy", algorithm: SketchedMoments, federation: Federation) -> Array:
        """For typical columns."""
        return algorithm.typical_variance()


class Local(MomentMethod):
    """Second moments of rows that each party perturbs itself, person by person.

    Parameters
    ----------
    scale
        The fixed-point scale.
    """

    name = "local"
    does = "every row perturbed at its party: the baseline, with far more noise"
    guarantee = "(ε, δ), local differential privacy"
    trust = "the coordinator and any parties"
    delta = "needed"
    reference = "secure-pca"
    constraints = {"scale": SCALE}

    def __init__(self, *, scale: int | None = None) -> None:
        self.scale = scale

    def is_local(self, study: "MomentStudy") -> bool:
        """Every person's row is perturbed on its own."""
        return True

    def protocol(self, study: "MomentStudy", federation: Federation, price: Price, repeat: int) -> PerturbedRows:
        """By rows with noise, each party at its share of the price."""
        columns = study._chosen(federation.describe())
        share = gaussian_party_price(price, len(parties_of(columns)), study.unit)
        scale = ROWS_SCALE if self.scale is None else self.scale
        return PerturbedRows(columns, share, federation.people, scale)

    def noisy_moments(
        self, study: "MomentStudy", algorithm: PerturbedRows, federation: Federation, exact: Moments, covariance: Array
    ) -> Iterator[Moments]:
        """With noise that depends on the moments themselves."""
        return noisy_releases(exact, algorithm.variance(exact.matrix))

    def entry_variance(self, study: "MomentStudy", algorithm: PerturbedRows, federation: Federation) -> Array:
        """For typical columns."""
        return algorithm.variance(typical_matrix(algorithm.features, federation.people))


def opened_variance(study: "MomentStudy", algorithm: Any, federation: Federation) -> Array:
    """Return the variance of what a joint step will open, from the plan alone."""
    plan = federation.plan(
        algorithm,
        task=study.task,
        method=study.method.name,
        price=algorithm.price,
        unit=study.method.unit(study),
        parameters={},
    )
    variance: Array = algorithm.variance(read_joint(plan, plan.steps[0].name))
    return variance
