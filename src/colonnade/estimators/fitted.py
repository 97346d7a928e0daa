"""What is asked of a fitted model before it is used: that it is fitted, and that columns still mean what they meant."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn import exceptions

from colonnade.coordinator.federation import Federation
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.estimators.model_file import PAPERS

if TYPE_CHECKING:
    from colonnade.estimators.study import Study

__all__ = ["NotFittedError", "refuse_recipient", "require_fitted", "require_matching", "require_same_schema"]


class NotFittedError(BadInput, exceptions.NotFittedError):
    """A model was used before it was fitted. It is also scikit-learn's error of the same name.

    Examples
    --------
    >>> import colonnade as cn, pandas as pd
    >>> try:
    ...     cn.PCA(2, epsilon=1.0, delta=1e-5).transform(pd.DataFrame())
    ... except cn.NotFittedError as error:
    ...     print(error.code)
    not-fitted
    """

    code = "not-fitted"
    default_remedy = "Call fit(...) or cn.load(...) first."


def require_fitted(study: "Study") -> None:
    """Refuse to use a model that was never fitted."""
    if any(name not in vars(study) for name in (*PAPERS, *study.essential)):
        raise NotFittedError(f"This {type(study).__name__} is not fitted.")


def refuse_recipient(to: object) -> None:
    """Refuse a recipient where rows are scored that the caller holds."""
    if to is not None:
        raise BadInput("to= goes with a federation.", remedy="Rows that you hold are scored here, for you alone.")


def require_same_schema(study: "Study", federation: Federation, names: Sequence[str] | None = None) -> None:
    """Refuse a federation whose columns (all of the model's, by default) do not mean what they meant when it was fitted."""
    if not isinstance(federation, Federation):
        raise BadInput("This takes a federation.", remedy="Make one with cn.Federation.simulate(...).")
    available = {name: federation.column(name)[2] for name in federation.columns()}
    wanted = study.schema_ if names is None else {name: study.schema_[name] for name in names}
    changed = [name for name, column in wanted.items() if available.get(name) != column]
    if changed:
        raise SchemaMismatch(
            f"The federation describes the column {changed[0]!r} otherwise than the model's schema does.",
            remedy="Fit the model anew, or open the parties with the schema that it was fitted on.",
        )


def require_matching(study: "Study", array: Any, shape: tuple[int, ...]) -> None:
    """Refuse an array, read from a file, that is of another shape or not finite."""
    if not isinstance(array, np.ndarray) or array.shape != shape or not np.all(np.isfinite(array)):
        raise BadInput(f"The file's {type(study).__name__} has attributes that do not fit together.")
