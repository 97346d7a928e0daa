"""`PCA`: the directions in which the parties' columns vary together."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colonnade.coordinator.algorithms.expected_error import expected_components_error
from colonnade.coordinator.algorithms.moments import Moments, features_of
from colonnade.coordinator.algorithms.pca_from_moments import pca_from_moments
from colonnade.coordinator.algorithms.perturbed_rows import DEFAULT_SCALE, PerturbedRows
from colonnade.coordinator.federation import Federation
from colonnade.errors import BadInput
from colonnade.estimators.design import design
from colonnade.estimators.moment_study import MomentStudy
from colonnade.privacy.calibration import gaussian_party_price
from colonnade.privacy.joint_noise import Law
from colonnade.privacy.neighbours import Unit
from colonnade.privacy.price import Price
from colonnade.protocol.rounds import Algorithm
from colonnade.schema import Column

__all__ = ["PCA"]


class PCA(MomentStudy):
    """Principal components of columns that different parties hold.

    Parameters
    ----------
    n_components
        How many components.
    columns
        Which columns; all by default. Numbers are mapped from their bounds to [−1, 1], categories to indicators.
    method
        ``"secure"``: one noisy Gram matrix computed on secret shares; ``"sketch"``: each party perturbs a random
        projection of its rows (paper 000, Algorithm 4: one message, no peers, error in √people); ``"local"``: each party
        perturbs its rows themselves (the baseline of paper 002: far more noise still).
    epsilon, delta
        The price; δ must be positive. There is no default for ε.
    unit
        For whom ε is promised: ``"person"`` or ``"party"``.
    noise
        ``"gaussian"`` or ``"skellam"`` (paper 002).
    scale
        γ, the fixed-point scale; by default 4,096 (64 for Skellam noise).
    row_norms
        Party to the length to which it clips its coded rows; less noise, some bias.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Unit rows, in coded columns.
    explained_variance_, explained_variance_stderr_ : arrays
        Variance along each component, in coded units, corrected for the noise; and its standard error from the noise.
    mean_ : array
        Column means in own units (shares, for levels).
    feature_names_in_ : array
        What the columns of ``components_`` belong to.
    n_significant_ : int
        How many components stand out from the noise.
    privacy_, transcript_, receipt_
        The statement, what was said, and a line to keep.

    Privacy
    -------
    Guarantee: (ε, δ) by zCDP of the discrete Gaussian (or the Rényi curve of Skellam noise) on the Gram matrix as a whole.
    Neighbours: zero-out.
    Adversary: the coordinator together with up to `collusion` parties (``"secure"``), or any set of parties (otherwise).
    Spends: once at every party whose columns enter.
    Not released: scores of people, exact means, any entry without noise.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
    >>> pca = cn.PCA(2, columns=["bank.age", "bank.income", "telco.minutes"], epsilon=2.0, delta=1e-5).fit(federation)
    >>> pca.components_.shape
    (2, 3)
    """

    task: ClassVar[str] = "moments"
    methods: ClassVar[tuple[str, ...]] = ("secure", "sketch", "local")

    def __init__(
        self,
        n_components: int,
        *,
        columns: Sequence[str] | None = None,
        method: str = "secure",
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
        noise: Law = "gaussian",
        scale: int | None = None,
        row_norms: Mapping[str, float] | None = None,
    ) -> None:
        self.n_components = n_components
        self.columns = columns
        self.method = method
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.noise = noise
        self.scale = scale
        self.row_norms = row_norms

    def transform(self, X: pd.DataFrame) -> NDArray[np.float64]:
        """Return the scores of rows that the caller legitimately holds, in a frame with the federation's column names."""
        coded = design(X, self._coded, self._columns, coded=True)
        return np.asarray((coded - self._coded_means) @ self.components_.T)

    def _check(self, columns: Mapping[str, Column]) -> None:
        coded = len(features_of(columns)) - 1
        if type(self.n_components) is not int or not 1 <= self.n_components <= coded:
            raise BadInput(
                f"n_components must be a whole number from 1 to {coded}, the number of coded columns.",
                remedy="A category has as many coded columns as levels.",
            )

    def _algorithm(self, federation: Federation, price: Price, repeat: int) -> Algorithm:
        if self.method == "secure":
            return super()._algorithm(federation, price, repeat)
        if self.method == "sketch":
            return self._sketch(federation, price, repeat)
        if self.row_norms is not None or self.noise != "gaussian":
            raise BadInput("row_norms and noise go with method='secure'.")
        columns = self._chosen(federation.describe())
        parties = len({name.partition(".")[0] for name in columns})
        share = gaussian_party_price(price, parties, self.unit)
        return PerturbedRows(columns, share, federation.people, DEFAULT_SCALE if self.scale is None else self.scale)

    def _is_local(self) -> bool:
        return self.method == "local"

    def _fit_moments(self, moments: Moments, columns: Mapping[str, Column]) -> None:
        fit = pca_from_moments(moments, self.n_components, columns=self._features(columns))
        self.components_ = fit.components
        self.explained_variance_ = fit.explained_variance
        self.explained_variance_stderr_ = fit.explained_variance_error
        self.mean_ = fit.means
        self.feature_names_in_ = np.array(fit.names, dtype=object)
        self.n_significant_ = fit.significant
        self._coded_means = fit.coded_means
        self._coded = [feature for feature in moments.features if feature.name in set(fit.names)]
        self._columns = dict(columns)

    def _expect(self, algorithm: Any, federation: Federation) -> tuple[dict[str, str], tuple[str, ...]]:
        if isinstance(algorithm, PerturbedRows):
            plain = np.diag(
                np.full(len(algorithm.features), federation.people / 3)
            )  # columns spread evenly over their bounds
            variance = algorithm.variance(plain)[1:, 1:]
        else:
            variance = self._entry_variance(algorithm, federation)[1:, 1:]
        error = expected_components_error(algorithm.features[1:], variance, federation.people, self.n_components)
        expected = {
            "noise floor": f"components with less variance than {error.noise_norm:.3g} (coded units) drown in the noise",
            "captured variance lost": f"about {error.typical_loss:.2%}, if the components carry half of plain columns' variance",
        }
        warnings = ("The noise floor is above the variance of a plain column.",) if error.noise_norm > 1 / 3 else ()
        return expected, warnings
