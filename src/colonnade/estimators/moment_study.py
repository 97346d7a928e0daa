"""Estimators that are fitted on second moments: from a federation, at a price, or from a release that was paid for before."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from colonnade.coding.columns import Feature, coefficients_to_own_units
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.findings import MomentsRelease
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.estimation.moments import EVEN, NARROW, SPREAD, TYPICAL, Moments, fit_deviations, typical_matrix
from colonnade.estimators.preview import Expectation, ExpectedError
from colonnade.estimators.study import Study
from colonnade.schema import Column

__all__ = ["MomentStudy", "expected_deviations", "expected_regression"]

Array = NDArray[np.float64]
Fit = Callable[[Moments], Array]
MOST_NAMED = 6


class MomentStudy(Study):
    """What estimators on second moments share: which columns are asked for, and fitting on a release that is already there."""

    columns: Sequence[str] | None

    def _learn_from_moments(self, moments: Moments, columns: Mapping[str, Column]) -> dict[str, Any]:
        """Return the fitted attributes, from moments that hold at least the study's columns."""
        raise NotImplementedError

    def _expect_on_moments(self, algorithm: Any, federation: Federation) -> Expectation:
        """Return what noise does to the result, on typical columns."""
        raise NotImplementedError

    def _check(self, columns: Mapping[str, Column]) -> None:
        """Refuse what the fit would refuse about the columns, before anything is paid for it."""

    def _targets(self) -> tuple[str, ...]:
        """Return the column to explain, if the study has one."""
        return ()

    def _signed(self, columns: Mapping[str, Column]) -> tuple[str, ...]:  # noqa: ARG002  # a classifier signs its target
        """Return two-level categories that are coded as one column of signs."""
        return ()

    def fit(self, federation: Federation | MomentsRelease, *rows: object, repeat: int = 1) -> Self:
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
            return super().fit(federation, *rows, repeat=repeat)
        if self.epsilon is not None:
            raise BadInput("Fitting on a release takes no epsilon: it was paid for before.")
        if repeat != 1:
            raise BadInput(
                "Fitting on a release takes no repeat: the draw is the release's.",
                remedy="Ask for another draw where it is made: federation.moments(..., repeat=2).",
            )
        asked = self._checked()
        columns = asked._chosen(federation.columns)
        self._adopt(asked._learn_from_moments(federation.moments, columns))
        self.privacy_ = federation.privacy_
        self.transcript_ = federation.transcript_
        self.plan_ = federation.plan_
        self.schema_ = columns
        self.receipt_ = f"{type(self).__name__} from moments, nothing spent; {federation.receipt_}"
        return self

    def _chosen(self, available: Mapping[str, Column]) -> dict[str, Column]:
        """Return the study's columns in the federation's order, the target among them."""
        targets = self._targets()
        features = [name for name in available if name not in targets] if self.columns is None else self.columns
        wanted = [*features, *targets]
        unknown = [name for name in wanted if name not in available]
        if unknown:
            raise SchemaMismatch(
                f"{unknown[0]!r} does not name a column that is available here.",
                remedy=f"The columns are {', '.join(available)}.",
            )
        if len(set(wanted)) != len(wanted):
            raise BadInput("The target is also among the columns.", remedy="Leave it out of columns.")
        chosen = {name: available[name] for name in available if name in set(wanted)}
        self._check(chosen)
        return chosen

    def _features(self, columns: Mapping[str, Column]) -> list[str]:
        return [name for name in columns if name not in self._targets()]


def expected_deviations(
    study: MomentStudy, algorithm: Any, federation: Federation, fit: Fit, spread: float
) -> tuple[Array, Array]:
    """Return by how much noise moves the figures of a fit on typical columns, one row per draw; and these columns' covariance."""
    features, people = algorithm.features, federation.people
    target = next(iter(study._targets()), None)
    matrix = typical_matrix(features, people, target=target, spread=spread, unequal=target is None)
    means = matrix[0] / people
    covariance = np.asarray(matrix / people - np.outer(means, means))
    exact = Moments.of_release(matrix, np.zeros_like(matrix), people, features)
    releases = study.method.noisy_moments(study, algorithm, federation, exact, covariance)
    return fit_deviations(exact, releases, fit), covariance


def expected_regression(
    study: MomentStudy, algorithm: Any, federation: Federation, coefficients: Fit, *, unit: str, each: str = ""
) -> Expectation:
    """Return the expected error of every coefficient, and that of predictions for people like those who took part.

    Parameters
    ----------
    study, algorithm, federation
        What would run, and where.
    coefficients
        From moments to the coefficients of the features, in own units, one for each name of the model.
    unit, each
        In what predictions are measured, and what to say after the errors of coefficients.
    """
    (target,) = study._targets()
    explaining = [one for one in algorithm.features[1:] if one.column != target]
    once = _one_name_each(explaining)
    places = [place for place, one in enumerate(algorithm.features) if place and one.column != target]
    half = np.array([algorithm.features[place].half_width for place in places])
    errors, by_name = [], np.zeros(0)
    for spread in (SPREAD, EVEN, NARROW):
        moved, covariance = expected_deviations(
            study, algorithm, federation, lambda moments: coefficients(moments)[once], spread
        )
        coded = moved * half
        squared = np.einsum("ij,jk,ik->i", coded, covariance[np.ix_(places, places)], coded)
        errors.append(float(np.sqrt(squared.mean())))
        by_name = by_name if by_name.size else np.sqrt(np.mean(moved**2, axis=0))
    names = [coefficients_to_own_units(explaining)[0][place] for place in once]
    words = {"error of a coefficient": _coefficient_errors(names, by_name, each)}
    prediction = ExpectedError("a prediction", errors[0], unit, min(errors), max(errors), TYPICAL)
    return Expectation(words, study.method.warnings(study, algorithm, federation), (prediction,))


def _one_name_each(features: Sequence[Feature]) -> NDArray[np.intp]:
    """Return which of a model's names stand for a coded column: of the two levels of a sign, the second."""
    named = [flag for feature in features for flag in ((False, True) if feature.kind == "sign" else (True,))]
    return np.flatnonzero(named)


def _coefficient_errors(names: Sequence[str], errors: Array, unit: str) -> str:
    """Return predicted standard errors in words: some by name, and the rest as a number."""
    listed = [f"{name} {value:.2g}" for name, value in zip(names, errors, strict=True)]
    rest = f", and {len(listed) - MOST_NAMED} more" if len(listed) > MOST_NAMED else ""
    return f"about {', '.join(listed[:MOST_NAMED])}{rest}{unit}, for typical columns"
