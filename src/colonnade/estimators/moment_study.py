"""Estimators that are fitted on second moments: from a federation, at a price, or from a release that was paid for before."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.names import parties_of, plain_name, plain_names
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols.functional_release import FunctionalRelease
from colonnade.coordinator.protocols.gram_release import GramRelease
from colonnade.coordinator.protocols.perturbed_rows import PerturbedRows
from colonnade.coordinator.protocols.sketched_moments import DEFAULT_SCALE, SketchedMoments
from colonnade.coordinator.protocols.union_release import UnionRelease
from colonnade.coordinator.release import MomentsRelease
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.estimation.expected_error import CoefficientError
from colonnade.estimation.moments import Moments
from colonnade.estimation.typical_moments import (
    EVEN,
    NARROW,
    SPREAD,
    TYPICAL,
    deviations,
    noisy_releases,
    sketched_grams,
    typical_matrix,
)
from colonnade.estimators.preview import ExpectedError
from colonnade.estimators.study import Study
from colonnade.plan import Parameter
from colonnade.privacy.calibration import gaussian_party_price
from colonnade.privacy.laws import NoiseFamily
from colonnade.privacy.price import Price
from colonnade.protocol.rounds import Algorithm
from colonnade.schema import Column
from colonnade.steps.registry import read_joint

__all__ = ["MomentStudy", "coefficient_errors", "require_ridge"]

Array = NDArray[np.float64]
Fit = Callable[[Moments], Array]


class MomentStudy(Study):
    """What estimators on second moments share: which columns are asked for, and fitting on a release that is already there."""

    columns: Sequence[str] | None
    noise: NoiseFamily
    scale: int | None
    row_norms: Mapping[str, float] | None

    def _fit_moments(self, moments: Moments, columns: Mapping[str, Column]) -> None:
        """Learn the attributes from moments that hold at least the study's columns."""
        raise NotImplementedError

    def _check(self, columns: Mapping[str, Column]) -> None:
        """Refuse what the fit would refuse, before anything is paid for it."""

    def _targets(self) -> tuple[str, ...]:
        """Return the column to explain, if the study has one."""
        return ()

    def _signed(self, columns: Mapping[str, Column]) -> tuple[str, ...]:  # noqa: ARG002  # a classifier signs its target
        return ()

    # What a user calls --------------------------------------------------------------------------------------------------

    def fit(self, federation: Federation | MomentsRelease, *, repeat: int = 1) -> "MomentStudy":
        """Run the study, or fit on a release of moments at no further price.

        Parameters
        ----------
        federation
            Where to run it; or what `Federation.moments` returned, and then ``epsilon`` and ``delta`` are not used.
        repeat
            1 asks for the study's first draw: asking again returns the same release and debits nothing. 2 is a new draw at a
            new price, and so on.

        Returns
        -------
        self
        """
        if not isinstance(federation, MomentsRelease):
            super().fit(federation, repeat=repeat)
            return self
        if self.epsilon is not None:
            raise BadInput("Fitting on a release takes no epsilon: it was paid for before.")
        if repeat != 1:
            raise BadInput(
                "Fitting on a release takes no repeat: the draw is the release's.",
                remedy="Ask for another draw where it is made: federation.moments(..., repeat=2).",
            )
        self._fit_moments(federation.moments, self._chosen(federation.columns))
        self.privacy_ = federation.privacy_
        self.transcript_ = federation.transcript_
        self.plan_ = federation.plan_
        self.schema_ = self._chosen(federation.columns)
        self.receipt_ = f"{type(self).__name__} from moments, nothing spent; {federation.receipt_}"
        return self

    # How it fits together -----------------------------------------------------------------------------------------------

    def _algorithm(self, federation: Federation, price: Price, repeat: int) -> Algorithm:  # noqa: ARG002
        columns = self._chosen(federation.describe())
        kind = UnionRelease if federation.union else GramRelease
        return kind(columns, price, self._signed(columns), self.noise, self.scale, self.row_norms)

    def _sketch(self, federation: Federation, price: Price, repeat: int) -> Algorithm:
        """Return the moments of sketches that each party perturbs alone, for methods that offer it."""
        if self.noise != "gaussian":
            raise BadInput("noise goes with method='secure'.")
        columns = self._chosen(federation.describe())
        parties = len(parties_of(columns))
        share = gaussian_party_price(price, parties, self.unit)
        scale = DEFAULT_SCALE if self.scale is None else self.scale
        return SketchedMoments(columns, share, federation.people, scale, self.row_norms, repeat)

    def _parameters(self) -> dict[str, Parameter]:
        """Return nothing: what is released does not depend on what will be made of it, so equal releases are shared."""
        return {}

    def _learn(self, federation: Federation, value: Moments) -> None:
        self._fit_moments(value, self._chosen(federation.describe()))

    def _chosen(self, available: Mapping[str, Column]) -> dict[str, Column]:
        """Return the study's columns in the federation's order, the target among them."""
        wanted = self._wanted(available)
        unknown = [name for name in wanted if name not in available]
        if unknown:
            raise SchemaMismatch(
                f"{unknown[0]!r} does not name a column that is available here.",
                remedy=f"The columns are {', '.join(available)}.",
            )
        if len(set(wanted)) != len(wanted):
            raise BadInput("A column is named twice, or the target is also a feature.")
        chosen = {name: available[name] for name in available if name in set(wanted)}
        self._check(chosen)
        return chosen

    def _wanted(self, available: Mapping[str, Column]) -> list[str]:
        if self.columns is None:
            return [*(name for name in available if name not in self._targets()), *map(plain_name, self._targets())]
        return [*plain_names(self.columns), *map(plain_name, self._targets())]

    def _features(self, columns: Mapping[str, Column]) -> list[str]:
        return [name for name in columns if name not in self._targets()]

    def _expected_deviations(
        self,
        algorithm: FunctionalRelease | GramRelease | SketchedMoments | PerturbedRows,
        federation: Federation,
        fit: Fit,
        spread: float,
    ) -> tuple[Array, Array]:
        """Return by how much noise moves the figures of a fit on typical columns, a row a draw; and these columns' covariance."""
        features, people = algorithm.features, federation.people
        target = next(iter(self._targets()), None)
        matrix = typical_matrix(features, people, target=target, spread=spread, unequal=target is None)
        means = matrix[0] / people
        covariance = matrix / people - np.outer(means, means)
        exact = Moments.of_release(matrix, np.zeros_like(matrix), people, features)
        if isinstance(algorithm, SketchedMoments):
            grams = sketched_grams(people * covariance[1:, 1:], algorithm.entry_noise(), algorithm.size)
            releases: Iterator[Moments] = (algorithm.moments(gram, matrix[0, 1:]) for gram in grams)
        elif isinstance(algorithm, PerturbedRows):
            releases = noisy_releases(exact, algorithm.variance(matrix))
        else:
            releases = noisy_releases(exact, self._entry_variance(algorithm, federation))
        return deviations(exact, releases, fit), np.asarray(covariance)

    def _expected_predictions(
        self, algorithm: FunctionalRelease | GramRelease | SketchedMoments, federation: Federation, fit: Fit, unit: str
    ) -> tuple[Array, ExpectedError]:
        """Return the expected error of every coefficient, and that of predictions for people like those who took part."""
        places = [
            number for number, one in enumerate(algorithm.features) if number and one.column not in self._targets()
        ]
        half = np.array([algorithm.features[place].half_width for place in places])
        errors, coefficients = [], np.zeros(0)
        for spread in (SPREAD, EVEN, NARROW):
            moved, covariance = self._expected_deviations(algorithm, federation, fit, spread)
            coded = moved * half
            squared = np.einsum("ij,jk,ik->i", coded, covariance[np.ix_(places, places)], coded)
            errors.append(float(np.sqrt(squared.mean())))
            coefficients = coefficients if coefficients.size else np.sqrt(np.mean(moved**2, axis=0))
        return coefficients, ExpectedError("a prediction", errors[0], unit, min(errors), max(errors), TYPICAL)

    def _entry_variance(
        self, algorithm: FunctionalRelease | GramRelease | SketchedMoments, federation: Federation
    ) -> Array:
        if isinstance(algorithm, SketchedMoments):
            return algorithm.typical_variance()
        plan = federation.plan(
            algorithm, task=self.task, method=self.method, price=algorithm.price, unit=self._unit(), parameters={}
        )
        return algorithm.variance(read_joint(plan, plan.steps[0].name))


def coefficient_errors(error: CoefficientError, *, unit: str = "", shown: int = 6) -> str:
    """Return predicted standard errors in words: some by name, and the rest as a number."""
    listed = [f"{name} {value:.2g}" for name, value in zip(error.names, error.errors, strict=True)]
    rest = f", and {len(listed) - shown} more" if len(listed) > shown else ""
    return f"about {', '.join(listed[:shown])}{rest}{unit}, for typical columns"


def require_ridge(ridge: object) -> None:
    """Refuse a penalty that cannot be meant."""
    if isinstance(ridge, bool) or not isinstance(ridge, int | float) or not (isfinite(ridge) and ridge >= 0):
        raise BadInput("A ridge penalty is a finite number, zero or more.")
